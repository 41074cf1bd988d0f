from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

import soak
from soak import cli
from soak.commands.flags import SOAKING, add_flags, read_configuration
from soak.configuration import Configuration
from soak.errors import ExitCode


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command line that is wrong and return the one line it says."""
    assert cli.main(words) == ExitCode.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("soak: ")
    return said.err.strip()


def configuration_of(command: str, *words: str) -> Configuration:
    """Read the settings as a command would."""
    parser = argparse.ArgumentParser()
    add_flags(parser, SOAKING)
    return read_configuration(parser.parse_args(words), command=command)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"soak {soak.__version__} ")


@pytest.mark.parametrize(
    "command",
    [
        *("run", "check", "verify", "stores", "flaws", "selftest", "doctor", "config", "clean"),
        *("violations", "explain", "replay", "export", "recovery-matrix", "page", "chat"),
    ],
)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert f"soak {command}" in shown
    assert "example" in shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "required: COMMAND; see 'soak --help'"),
        (("rnu",), "did you mean run?"),
        (("run", "--faults", "recvery"), "did you mean recovery?"),
        (("run", "--redis", "sentinal"), "is no address, version or topology; did you mean sentinel?"),
        (("run", "--postgres", "patronni"), "is no address, version or topology; did you mean patroni?"),
        (("run", "--fault", "latency:redis:delay=500"), "without a unit it is in seconds: 500ms?"),
        (("run", "--fault", "crsh:redis"), "faults.rules.0: there is no fault 'crsh'; did you mean crash?"),
        (("run", "--fault", "crash:reddis"), "there is no server reddis in this run; did you mean redis?"),
        (("run", "--fault", "latency:redis:dealy=1s"), "latency has no parameter 'dealy'; did you mean delay?"),
        (("inject", "latency", "redis", "--dealy", "1s"), "did you mean --delay?"),
        (("inject", "latency", "redis", "dealy=1s"), "latency has no parameter 'dealy'; did you mean delay?"),
        (("inject", "latency", "--delay", "1s"), "name one server, as in: soak inject latency redis"),
        (("faults", "show", "latncy"), "there is no fault 'latncy'; did you mean latency?"),
        (("faults", "latency"), "name the fault to document, as in: soak faults show latency"),
        (("flaws", "show", "lru_evicton"), "there is no flaw 'lru_evicton'; did you mean lru_eviction?"),
        (("flaws", "show", "overwrit"), "there is no flaw 'overwrit'; did you mean"),
        (("chekc",), "no such command: 'chekc' (did you mean check?); see 'soak --help'"),
        (("report", "--format", "markdwon"), "--format markdwon: did you mean markdown?"),
        (("report", "markdown"), "markdown is a format; write --format markdown"),
        (("check", "--report", "htlm=x"), "--report htlm=x: did you mean html?"),
        (("completion", "bahs"), "invalid choice: 'bahs' (did you mean bash?); see 'soak completion --help'"),
        (
            ("check", "--store", "redis-list", "--postgres", "patroni"),
            "--postgres: no store of this run (redis-list) uses",
        ),
        (("check", "--store", "postgres", "--redis", "7.0"), "uses redis; add --store redis-list, or leave it out"),
        (("run", "--store", "redis-list", "--pgbouncer", "session"), "uses pgbouncer; add --store postgres, or leave"),
        (("run", "--set", "servers.chroma=http://127.0.0.1:1"), "--set servers.chroma: no store of this run"),
        (
            ("chat", "--url", "http://127.0.0.1:1"),
            "--url: no store of this run (redis-list) uses http; add --store http",
        ),
        (("violations", "--kind", "losst"), "--kind losst: there is no such kind; did you mean lost?"),
        (("analyse", "agno-reddis"), "there is no subject 'agno-reddis'; did you mean agno-redis?"),
        (("recovery-matrix", "--config", "aof-everysc"), "did you mean aof-everysec?"),
        (("run", "--set", "contract.redis-list.preset=cahce"), "no such preset, did you mean cache?"),
        (("check", "--fault", "crash"), "--fault crash: write FAULT:SERVER, or FAULT:SERVER:every=1m,hold=5s"),
        (("check", "--fault", "crash:redis:every"), "--fault crash:redis:every: write FAULT:SERVER"),
        (("check", "--fault", "crash:redis:evry=1m"), "did you mean faults.rules.0.every?"),
        (("check", "--faults", "choas"), "should be 'none', 'auto', 'gentle', 'recovery', 'failover' or 'chaos'"),
        (("run", "--usres", "5"), "unrecognized arguments: --usres 5 (did you mean --users?); see 'soak run --help'"),
        (("run", "--users"), "--users: expected one argument"),
        (("run", "--users", "0"), "--users: load.users = 0: should be at least 1"),
        (("check", "--users", "-3"), "--users: load.users = -3: should be at least 1"),
        (("check", "--duration", "-5s"), "--duration: duration = -5s: duration '-5s' is negative"),
        (("run", "--duration", "soon"), "duration 'soon' is not understood; write one like 90s, 8h or 3d"),
        (("run", "--set", "load.usres=1"), "--set load.usres: load.usres is not a setting; did you mean load.users?"),
        (("run", "--store", "redis-lst"), "there is no store 'redis-lst'; did you mean redis-list?"),
        (("check", "--store", "no.such:Store"), "store no.such:Store cannot be imported"),
        (("check", "--store", "examples/my_memory.py:MyMemory"), "did you mean examples.my_memory:MyMemory?"),
        (("run", "--config", "nowhere.toml"), "configuration file nowhere.toml does not exist"),
        (("run", "--set", "contract.redis-list.ordre=none"), "ordre is no clause, did you mean order?"),
        (("run", "--set", "contract.redis-list.order=some"), "choose from realtime, per_writer, none"),
        (("run", "--set", "contract.redis-list.crash_loss_seconds=-1"), "is negative"),
        (("run", "--set", "contract.redis-lisst.order=none"), "no such store, did you mean redis-list?"),
        (("run", "--redis", "redis://h:1", "--ledger", "redis://h:1/5"), "a server of its own"),
        (("run", "--store", "postgres-replica", "--postgres", "postgresql://h/x"), "servers.postgres_replica is not"),
        (("verify", "--data-dir", "nowhere"), "no soak is running in nowhere"),
        (("chat", "--store", "redis-list", "--store", "postgres"), "a chat has one memory, and --store names 2"),
        (("chat", "--store", "redis-lst"), "did you mean redis-list?"),
        (("chat", "--store", "http"), "give the address of one that runs with --url"),
        (("chat", "--pace", "slow"), "--pace: duration 'slow' is not understood"),
        (("chat", "--pace", "1h"), "--pace 1h is too slow to be read"),
        (("chat", "--port", "99999"), "--port: http.port = 99999"),
        (("run", "--browser-users", "-1"), "--browser-users: load.browser_users = -1: should be at least 0"),
        (("clean",), "say what to remove: --namespace and --store"),
        (("clean", "--namespace", "soak_x", "--store", "redis-list"), "give its address as servers.redis"),
    ],
)
def test_a_wrong_command_line_gets_one_line_and_exit_code_2(
    words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in complaint(capsys, *words)


def test_several_wrong_settings_get_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--users", "0", "--duration", "0"]) == ExitCode.USAGE
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "soak: --duration: duration = 0: should be greater than 0",
        "soak: --users: load.users = 0: should be at least 1",
    ]


def test_a_wrong_command_line_leaves_no_folder_behind(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    temporary = empty_folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    complaint(capsys, "check", "--store", "redis-lst")
    complaint(capsys, "check", "--users", "0")
    assert list(temporary.iterdir()) == []


def test_the_effective_settings_are_shown_with_their_place_and_without_passwords(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty_folder / "soak.toml").write_text('duration = "8h"\n')
    monkeypatch.setenv("SOAK_SERVERS__REDIS", "redis://:hunter2@cache:6379/3")
    assert cli.main(["config", "--users", "7"]) == ExitCode.PASS
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in shown.splitlines()}
    assert rows["load.users"] == ["7", "--users"]
    assert rows["duration"] == ["8h", "soak.toml"]
    assert rows["servers.redis"] == ["redis://:***@cache:6379/3", "environment SOAK_SERVERS__REDIS"]
    assert rows["load.mix"] == ["chat", "default"]
    assert "hunter2" not in shown


def test_the_effective_settings_can_be_had_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "--json", "--store", "redis-list", "--store", "postgres"]) == ExitCode.PASS
    told = json.loads(capsys.readouterr().out)
    assert told["stores.names"] == {"value": ["redis-list", "postgres"], "from": "--store"}
    assert told["duration"] == {"value": None, "from": "default"}


def test_the_stores_are_listed_with_what_they_need_and_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stores", "--json", "--ttl", "90s"]) == ExitCode.PASS
    told = json.loads(capsys.readouterr().out)
    assert set(told) >= {"redis-list", "redis-stream", "redis-zset", "redis-hash", "postgres", "postgres-replica"}
    assert told["postgres-replica"]["needs"] == ["postgres", "postgres-replica"]
    assert told["postgres"]["promises"]["order"] == "realtime"
    assert "sliding ttl 90s" in told["redis-hash"]["promises"]["retention"]
    assert cli.main(["stores"]) == ExitCode.PASS
    assert "bounded_staleness" in capsys.readouterr().out


def test_the_doctor_names_every_server_and_what_a_lack_means(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--json", "--port", "0"])
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    looked_for = {"python", "valkey", "postgres 18", "docker", "C compiler", "promtool", "data folder", "open files"}
    assert looked_for <= set(findings)
    assert all(finding["meaning"] for finding in findings.values())
    lacking = [finding for finding in findings.values() if finding["needed"] and not finding["present"]]
    assert code == (ExitCode.UNREACHABLE if lacking else ExitCode.PASS)


def test_the_doctor_does_not_need_what_is_given_and_needs_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--redis", "redis://h:1", "--ledger", "redis://h:2", "--postgres", "postgresql://h/x")
    cli.main(["doctor", "--json", "--port", "0", *given])
    needed = {finding["name"] for finding in json.loads(capsys.readouterr().out) if finding["needed"]}
    assert not needed & {"valkey", "postgres 18"}


def test_the_doctor_fails_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--port", "0", "--data-dir", "/proc/soak"]) == ExitCode.UNREACHABLE
    assert "LACKS  data folder" in capsys.readouterr().out


def test_what_nobody_expected_is_one_line_with_the_details_in_a_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down() -> None:
        raise ZeroDivisionError("at redis://:hunter2@cache")

    monkeypatch.setattr("soak.stores.registry.specs", break_down)
    monkeypatch.setattr("tempfile.tempdir", str(empty_folder))
    assert cli.main(["stores"]) == ExitCode.INTERNAL
    said = capsys.readouterr().err
    assert said.startswith("soak: internal error (ZeroDivisionError: at redis://:***@cache); details in ")
    assert said.count("\n") == 1
    details = next(empty_folder.glob("soak-error-*.log")).read_text()
    assert "Traceback" in details
    assert "hunter2" not in details


def test_faults_are_set_by_flags(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--faults", "chaos", "--fault-every", "30s", "--fault", "crash:redis:every=1m,hold=3s")
    assert cli.main(["config", "--json", *words, "--fault", "pause:postgres"]) == ExitCode.PASS
    values = {key: leaf["value"] for key, leaf in json.loads(capsys.readouterr().out).items()}
    assert (values["faults.preset"], values["faults.every"]) == ("chaos", 30.0)
    assert (values["faults.rules.0.fault"], values["faults.rules.0.target"]) == ("crash", "redis")
    assert (values["faults.rules.0.every"], values["faults.rules.0.hold"]) == (60.0, 3.0)
    assert (values["faults.rules.1.fault"], values["faults.rules.1.every"]) == ("pause", 30.0)


@pytest.mark.parametrize(
    ("command", "words", "every"),
    [
        ("check", ("--fault", "crash:redis"), 15.0),
        ("run", ("--fault", "crash:redis"), 120.0),
        ("check", ("--fault-every", "7s", "--fault", "crash:redis"), 7.0),
        ("check", ("--fault-every", "7s", "--fault", "crash:redis:every=9s"), 9.0),
        ("check", ("--fault", "crash:redis:cron=* * * * *"), None),
    ],
)
def test_a_fault_without_a_pace_happens_within_the_minute_of_a_check(
    command: str, words: tuple[str, ...], every: float | None
) -> None:
    (rule,) = configuration_of(command, *words).settings.faults.rules
    assert rule.every == every
