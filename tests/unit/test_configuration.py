from __future__ import annotations

from pathlib import Path

import pytest

from soak.configuration import ConfigurationError, as_environment, read
from soak.errors import UsageError
from soak.settings import SoakSettings


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaints(**sources: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(**{"environ": {}, **sources})  # type: ignore[arg-type]
    return list(caught.value.lines)


def test_without_any_source_every_setting_has_its_default() -> None:
    configuration = read(environ={})
    assert configuration.settings == SoakSettings()
    assert {leaf.origin for leaf in configuration.leaves()} == {"default"}


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(empty_folder: Path) -> None:
    (empty_folder / "soak.toml").write_text("[load]\nusers = 1\nspawn_rate = 1\nprocesses = 2\n")
    environ = {"SOAK_LOAD__USERS": "3", "SOAK_LOAD__SPAWN_RATE": "4"}
    configuration = read({"load.users": "5"}, environ=environ, places={"load.users": "--users"})
    load = configuration.settings.load
    assert (load.users, load.spawn_rate, load.processes) == (5, 4.0, 2)
    assert configuration.origin("load.users") == "--users"
    assert configuration.origin("load.spawn_rate") == "environment SOAK_LOAD__SPAWN_RATE"
    assert configuration.origin("load.processes") == "soak.toml"
    assert configuration.origin("load.mix") is None


def test_a_commands_own_default_yields_to_every_source(empty_folder: Path) -> None:
    assert read(environ={}, command_defaults={"duration": "60s"}).settings.duration == 60
    (empty_folder / "soak.toml").write_text('duration = "8h"\n')
    assert read(environ={}, command_defaults={"duration": "60s"}).settings.duration == 28_800


def test_a_file_is_found_by_flag_and_by_variable_and_not_at_all_when_it_is_the_null_device(empty_folder: Path) -> None:
    (empty_folder / "soak.toml").write_text("seed = 1\n")
    (empty_folder / "other.toml").write_text("seed = 2\n")
    assert read(environ={}).settings.seed == 1
    assert read(environ={}, config=Path("other.toml")).settings.seed == 2
    assert read(environ={"SOAK_CONFIG": "other.toml"}).settings.seed == 2
    assert read(environ={"SOAK_CONFIG": "/dev/null"}).settings.seed is None


def test_lists_are_read_from_commas_and_from_json() -> None:
    environ = {"SOAK_STORES__NAMES": "redis-list, postgres", "SOAK_VERIFIER__RECALL_AGES": '["1m", 3600]'}
    settings = read(environ=environ).settings
    assert settings.stores.names == ["redis-list", "postgres"]
    assert settings.verifier.recall_ages == [60.0, 3600.0]


def test_any_setting_can_be_assigned_by_its_dotted_key() -> None:
    assignments = ["load.users=7", "stores.names=a,b", 'contract."my.module:Store".order=none', "duration = 1h30m"]
    settings = read(environ={}, assignments=assignments).settings
    assert (settings.load.users, settings.stores.names, settings.duration) == (7, ["a", "b"], 5400.0)
    assert settings.contract.stores == {"my.module:Store": {"order": "none"}}


def test_a_contract_can_be_declared_in_the_environment_though_shells_allow_no_dashes() -> None:
    settings = read(environ={"SOAK_CONTRACT__REDIS_LIST__CRASH_LOSS_SECONDS": "2s"}).settings
    assert settings.contract.stores == {"redis-list": {"crash_loss_seconds": "2s"}}


def test_an_empty_variable_means_not_given_and_other_programs_variables_are_left_alone() -> None:
    environ = {"SOAK_SEED": "", "SOAK_REQUIRE_ALL": "1", "SOAK_SUPERVISED": "1", "PATH": "/bin"}
    assert read(environ=environ).settings == SoakSettings()


def test_every_wrong_key_and_value_is_told_at_once_each_with_its_place(empty_folder: Path) -> None:
    (empty_folder / "soak.toml").write_text('colour = "red"\n[load]\nmix = "jazz"\n')
    environ = {"SOAK_LAOD__USERS": "3", "SOAK_VERIFIER__DRAIN": "later"}
    not_understood = "duration 'later' is not understood; write one like 90s, 8h or 3d"
    lines = complaints(flags={"load.users": 0}, environ=environ, places={"load.users": "--users"})
    assert sorted(lines) == sorted(
        [
            "--users: load.users = 0: should be at least 1",
            "environment SOAK_LAOD__USERS: laod is not a setting; did you mean load?",
            f"environment SOAK_VERIFIER__DRAIN: verifier.drain = later: {not_understood}",
            "soak.toml: load.mix = jazz: should be 'chat', 'short', 'long' or 'hard'",
            next(line for line in lines if line.startswith("soak.toml: colour is not a setting; known here: data_dir")),
        ]
    )


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("load.users=0", "load.users = 0: should be at least 1"),
        ("load.users=many", "load.users = many: should be a whole number"),
        ("load.users=1.5", "load.users = 1.5: should be a whole number"),
        ("load.shared_share=half", "load.shared_share = half: should be a number"),
        ("load.shared_share=2", "load.shared_share = 2: should be at most 1"),
        ("stores.redis.wait_aof=maybe", "stores.redis.wait_aof = maybe: should be true or false"),
        ("duration=-5s", "duration = -5s: duration '-5s' is negative"),
        ("duration=0", "duration = 0: should be greater than 0"),
        ("verifier.settle=-1", "verifier.settle = -1: duration '-1' is negative"),
        ("stores.ttl=0s", "stores.ttl = 0s: should be greater than 0"),
        ("stores.names=[]", "stores.names = []: should not be empty"),
        ("http.port=70000", "http.port = 70000: should be at most 65535"),
        ("load.usres=5", "load.usres is not a setting; did you mean load.users?"),
        ("load=5", "load is a section; name a setting in it, such as load.users"),
        ("servers.redis=localhost", "servers.redis = ***: is not an address of this kind"),
        (
            "ledger.url=redis+cluster://h:1/3",
            "ledger.url = redis+cluster://h:1/3: names a database, and a cluster has none",
        ),
        ("servers.redis=redis://h:notaport", "servers.redis = redis://h:notaport: is not an address"),
        ("servers.postgres=redis://:secret@h:1", "servers.postgres = redis://:***@h:1: is not an address of this kind"),
        ("stores.namespace=Ugly-One", "stores.namespace = Ugly-One: string should match pattern"),
    ],
)
def test_a_bad_value_gives_one_line_that_names_it_and_says_what_is_allowed(assignment: str, complaint: str) -> None:
    lines = complaints(assignments=[assignment])
    assert len(lines) == 1
    assert lines[0].startswith(f"--set {assignment.partition('=')[0]}: {complaint}")


@pytest.mark.parametrize("assignment", ["load.users", "=5", "a b=5", "[x]=1"])
def test_an_assignment_that_is_none_is_told_how_to_be_written(assignment: str) -> None:
    with pytest.raises(UsageError, match=r"write --set load\.users=10"):
        read(environ={}, assignments=[assignment])


def test_malformed_toml_is_one_line_with_the_place_in_the_file(empty_folder: Path) -> None:
    (empty_folder / "soak.toml").write_text("seed = 1\nusers = = 3\n")
    with pytest.raises(UsageError) as caught:
        read(environ={})
    assert str(caught.value) == "soak.toml line 2, column 9: not valid TOML: invalid value"


def test_a_file_cut_off_in_the_middle_is_told_so(empty_folder: Path) -> None:
    (empty_folder / "soak.toml").write_text("seed = [1,")
    with pytest.raises(UsageError, match=r"^soak.toml at its end: not valid TOML: "):
        read(environ={})


def test_a_file_that_is_no_text_or_not_there_is_one_line(empty_folder: Path) -> None:
    (empty_folder / "soak.toml").write_bytes(b"seed = \xff\n")
    with pytest.raises(UsageError, match=r"not UTF-8 .* at byte 7"):
        read(environ={})
    with pytest.raises(UsageError, match=r"nowhere.toml does not exist"):
        read(environ={}, config=Path("nowhere.toml"))


def test_passwords_are_masked_in_every_leaf_while_the_host_stays() -> None:
    environ = {
        "SOAK_SERVERS__REDIS": "redis://:hunter2@cache:6379/3",
        "SOAK_SERVERS__POSTGRES": "postgresql://soak:p@ss/w@db:5432/x",
        "SOAK_LEDGER__URL": "redis://user:hunter2@ledger:1",
    }
    leaves = {leaf.key: leaf.value for leaf in read(environ=environ).leaves()}
    assert leaves["servers.redis"] == "redis://:***@cache:6379/3"
    assert leaves["servers.postgres"] == "postgresql://soak:***@db:5432/x"
    assert leaves["ledger.url"] == "redis://user:***@ledger:1"


def test_settings_told_in_variables_are_read_back_the_same(empty_folder: Path) -> None:
    (empty_folder / "soak.toml").write_text(
        'duration = "90s"\n[load]\nthink = "0.4ms"\n[stores]\nnames = ["redis-zset"]\n'
        '[verifier]\nrecall_ages = ["1s", "2m"]\n[faults]\nrecovery_max = "90.5s"\n'
        '[[faults.rules]]\nfaults = {crash = 3, pause = 1}\ntarget = "redis"\nevery = "20m"\n'
    )
    settings = read(environ={}).settings
    assert read(environ=as_environment(settings)).settings == settings


def test_a_limit_that_is_switched_off_stays_so_in_a_child() -> None:
    settings = SoakSettings.model_validate({"faults": {"recovery_max": None}})
    assert read(environ=as_environment(settings)).settings.faults.recovery_max is None


def test_addresses_are_not_told_in_variables() -> None:
    settings = read(environ={"SOAK_SERVERS__REDIS": "redis://:hunter2@cache:6379"}).settings
    assert "hunter2" not in "".join(as_environment(settings).values())


def test_the_canary_is_switched_off_by_none_or_nought() -> None:
    for text in ("none", "None", "0", "0s"):
        assert read(environ={"SOAK_VERIFIER__CANARY": text}).settings.verifier.canary == 0
    assert read(environ={"SOAK_VERIFIER__CANARY": "5m"}).settings.verifier.canary == 300
    assert read(environ={}).settings.verifier.canary == 60


def test_every_time_is_shown_as_it_is_written() -> None:
    shown = {leaf.key: leaf.text for leaf in read(environ={}).leaves()}
    assert (shown["verifier.canary"], shown["verifier.coverage"]) == ("1m", "1m")


# Faults ----------------------------------------------------------------------------------------------------


def test_rules_for_faults_are_read_from_the_file_and_listed_one_by_one(empty_folder: Path) -> None:
    (empty_folder / "soak.toml").write_text(
        '[faults]\nquiet_hours = ["22:00-06:00"]\n[[faults.rules]]\nfaults = {crash = 3, pause = 1}\n'
        'target = "redis"\nevery = "20m"\njitter = "2m"\n[[faults.rules]]\nfault = "restart"\ntarget = "postgres"\n'
        'cron = "0 */2 * * *"\nhold = "1s"\n'
    )
    configuration = read(environ={})
    first, second = configuration.settings.faults.rules
    assert (first.faults, first.every, first.jitter) == ({"crash": 3.0, "pause": 1.0}, 1200.0, 120.0)
    assert (second.fault, second.cron, second.hold) == ("restart", "0 */2 * * *", 1.0)
    leaves = {leaf.key: (leaf.text, leaf.origin) for leaf in configuration.leaves()}
    assert leaves["faults.rules.0.every"] == ("20m", "soak.toml")
    assert leaves["faults.rules.1.cron"] == ("0 */2 * * *", "soak.toml")


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ('target = "redis"\nevery = "1m"', "set exactly one of fault = NAME and faults"),
        ('fault = "crash"\ntarget = "redis"', "exactly one of every = TIME and cron"),
        (
            'fault = "crash"\ntarget = "redis"\nevery = "1m"\ncron = "@daily"',
            "exactly one of every = TIME and cron",
        ),
        ('fault = "crash"\ntarget = "redis"\nevery = "1m"\njitter = "2m"', "jitter is longer than every"),
        ('fault = "crash"\ntarget = "redis"\ncron = "61 * * * *"', "'61' is no minute"),
        ('fault = "crash"\ntarget = "redis"\nevery = "1m"\nhlod = "1s"', "did you mean faults.rules.0.hold?"),
        ('fault = "crash"\nevery = "1m"', "faults.rules.0.target"),
        ('faults = {crash = 0}\ntarget = "redis"\nevery = "1m"', "should be greater than 0"),
    ],
)
def test_a_rule_that_makes_no_sense_is_one_line(empty_folder: Path, rule: str, complaint: str) -> None:
    (empty_folder / "soak.toml").write_text(f"[[faults.rules]]\n{rule}\n")
    (line,) = complaints()
    assert line.startswith("soak.toml: faults.rules.0")
    assert complaint in line


def test_quiet_hours_that_are_none_are_one_line() -> None:
    (line,) = complaints(assignments=["faults.quiet_hours=22-06"])
    assert "write one like 22:00-06:00" in line


def test_a_token_is_not_shown_at_all() -> None:
    token = "sesame-0pen"  # noqa: S105
    shown = read({"servers.http": "https://host/memory"}, environ={"SOAK_SERVERS__HTTP_TOKEN": token}).leaves()
    assert token not in repr(shown)
    assert next(leaf.text for leaf in shown if leaf.key == "servers.http_token") == "***"
