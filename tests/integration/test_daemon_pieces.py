from __future__ import annotations

import asyncio
import io
import os
import signal
from pathlib import Path

import aiohttp
import msgspec
import pytest
from rich.console import Console

from soak import join
from soak.api.status import ServerStatus, SoakStatus
from soak.checker.contract import Order, Reads
from soak.checker.faults import Excuse, Promotion
from soak.clock import boot_identity, now_us
from soak.configuration import Configuration, read
from soak.daemon import run_identity
from soak.daemon import view as viewing
from soak.daemon.contracts import SettledContracts, settle_contracts
from soak.daemon.folder import DataFolder, violations_not_hidden
from soak.daemon.http import HttpServer
from soak.daemon.metrics import without_families
from soak.daemon.opening import join_info
from soak.daemon.plan import make_plan
from soak.daemon.run_identity import RunIdentity, RunState, begin, remember
from soak.daemon.stop import LeftError, StopRequest
from soak.daemon.unplanned_faults import UnplannedFaults
from soak.daemon.view import DrainProgress, LiveView, PlainView, Rates, status_line
from soak.errors import DamagedRecordError, ExitCode, ServerUnreachableError, UsageError, ViolationsOnRecordError
from soak.ledger.records import FaultPhase
from soak.proc.files import copy_of, read_sealed, remove_sealed, write_sealed
from soak.report.outcome import conclude
from soak.scenarios import terminal
from soak.servers.server import LifecycleEvent
from soak.settings import ContractSettings, HttpSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext
from soak.verifier.journal import Line, Violation, encode_lines, violation_id
from tests.support.daemon_page import Source, a_snapshot
from tests.support.statuses import soak_status

CONTEXT = StoreContext(servers={}, namespace="soak_test")


async def fetch(source: Source, path: str) -> tuple[int, str]:
    server = HttpServer(HttpSettings(port=0), source)
    await server.start()
    try:
        async with aiohttp.ClientSession() as client, client.get(server.address + path) as answer:
            return answer.status, await answer.text()
    finally:
        await server.close()


# The page --------------------------------------------------------------------------------------------------


async def test_metrics_hold_every_label_set_from_the_start_and_say_that_the_verifier_is_away() -> None:
    status, text = await fetch(Source(a_snapshot(), None), "/metrics")
    lines = text.splitlines()
    assert status == 200
    assert "soak_verifier_up 0" in lines
    assert 'soak_child_restarts_total{child="verifier"} 2.0' in lines
    assert 'soak_child_up{child="verifier"} 1.0' in lines
    assert 'soak_server_restarts_total{server="redis"} 1.0' in lines
    assert 'soak_server_up{server="redis"} 1.0' in lines
    assert 'soak_run_info{namespace="soak_r1",run="r1",seed="7",stores="redis-list"} 1.0' in lines
    assert any(line.startswith("soak_build_info{") for line in lines)


async def test_metrics_tell_what_soak_itself_takes() -> None:
    lines = (await fetch(Source(a_snapshot(), None), "/metrics"))[1].splitlines()
    assert 'soak_process_resident_memory_bytes{process="load"} 4096.0' in lines
    assert 'soak_process_open_files{process="load"} 7.0' in lines
    assert 'soak_process_threads{process="load"} 3.0' in lines
    assert 'soak_processes{process="load"} 2.0' in lines
    assert 'soak_process_cpu_seconds_total{process="load"} 1.5' in lines
    assert 'soak_data_folder_bytes{part="logs"} 512.0' in lines
    assert "soak_data_folder_free_bytes 1024.0" in lines
    assert "soak_daemon_loop_delay_seconds 0.25" in lines


async def test_the_verifiers_metrics_are_passed_on_each_once() -> None:
    passed_on = (
        "# HELP soak_build_info theirs\n# TYPE soak_build_info gauge\nsoak_build_info 1\n"
        "# HELP soak_verified_total theirs\n# TYPE soak_verified_total counter\nsoak_verified_total 5\n"
    )
    _, text = await fetch(Source(a_snapshot(), passed_on), "/metrics")
    assert "soak_verifier_up 1" in text.splitlines()
    assert "soak_verified_total 5" in text.splitlines()
    assert text.count("# TYPE soak_build_info ") == 1


def test_dropping_a_family_leaves_those_with_similar_names() -> None:
    text = "# HELP a x\n# TYPE a gauge\na 1\n# HELP ab x\n# TYPE ab gauge\nab 2\n"
    assert without_families(text, {"a"}) == "# HELP ab x\n# TYPE ab gauge\nab 2\n"


async def test_it_is_ready_only_when_nothing_is_missing() -> None:
    assert await fetch(Source(a_snapshot(), None), "/readyz") == (200, '{"ready":true,"reasons":[]}')
    status, text = await fetch(Source(a_snapshot(not_ready=["load is down"]), None), "/readyz")
    assert (status, text) == (503, '{"ready":false,"reasons":["load is down"]}')


async def test_it_is_healthy_also_while_it_is_not_ready() -> None:
    assert (await fetch(Source(a_snapshot(not_ready=["load is down"]), None), "/healthz"))[0] == 200


async def test_the_status_is_the_whole_snapshot() -> None:
    snapshot = a_snapshot(verifier={"totals": {"violations": 3}})
    _, text = await fetch(Source(snapshot, None), "/status")
    assert msgspec.json.decode(text, type=SoakStatus) == snapshot


async def test_a_port_that_is_taken_is_one_line_that_names_it() -> None:
    first = HttpServer(HttpSettings(port=0), Source(a_snapshot(), None))
    await first.start()
    port = int(first.address.rsplit(":", 1)[1])
    try:
        with pytest.raises(UsageError, match=rf"port {port} on 127.0.0.1 is taken; choose another with --port"):
            await HttpServer(HttpSettings(port=port), Source(a_snapshot(), None)).start()
    finally:
        await first.close()


# The view --------------------------------------------------------------------------------------------------


def test_rates_are_the_growth_of_the_totals() -> None:
    rates = Rates()
    for second in range(3):
        totals = {"acknowledged": 100 * second, "reads": 10 * second}
        rates.note(a_snapshot(uptime_seconds=float(second), verifier={"totals": totals}))
    assert (rates.appended, rates.read) == (100.0, 10.0)


def test_a_line_tells_what_was_verified_and_what_needs_attention() -> None:
    status = {"totals": {"acknowledged": 1234, "verified": 1200, "violations": 2}, "ledger_lag_seconds": 0.25}
    line = status_line(a_snapshot(verifier=status, faults_active=["crash of redis"], warnings=["disk full"]), Rates())
    assert "verified 1,200 of 1,234  violations 2" in line
    assert "lag 250ms" in line
    assert "faults: crash of redis" in line
    assert "verifier restarted 2x" in line
    assert "disk full" in line


def test_passwords_are_masked_in_what_is_said() -> None:
    stream = io.StringIO()
    PlainView(stream).say("cannot reach redis://:hunter2@cache:6379")
    assert "redis://:***@cache:6379" in stream.getvalue()


def test_where_no_terminal_is_it_says_now_and_then_what_is_still_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewing, "START_INTERVAL_SECONDS", 0.0)
    stream = io.StringIO()
    server = ServerStatus(kind="postgres", embedded=True, state="starting", pid=None, restarts=0, address="")
    up = msgspec.structs.replace(server, kind="redis", state="running")
    PlainView(stream).show(soak_status(phase="starting", servers=[server, up]))
    assert "still starting servers: postgres\n" in stream.getvalue()


def test_a_warning_is_said_in_full_once_where_no_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewing, "PLAIN_INTERVAL_SECONDS", 0.0)
    stream = io.StringIO()
    view = PlainView(stream)
    view.say("warning: redis-list promises more than redis gives")
    warnings = ["redis-list promises more than redis gives", "the disk is full"]
    for _ in range(2):
        view.show(a_snapshot(warnings=warnings))
    first, second = stream.getvalue().splitlines()[1:]
    assert first.endswith("; the disk is full; 1 warning as above)")
    assert second.endswith("; 2 warnings as above)")


def test_a_list_of_scenarios_says_how_long_it_took_so_far_and_about_how_long_it_will(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((0.0, 30.0, 45.0))
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    progress = terminal.ScenarioProgress(2)
    for name in ("one", "two"):
        progress.begun(name)
        progress.ended(name, "found")
    assert capsys.readouterr().err.splitlines() == [
        "  1 of 2  one: found  (30s, about 30s left)",
        "  2 of 2  two: found  (45s)",
    ]


def test_the_panel_is_drawn_on_a_terminal_and_taken_away_at_the_end() -> None:
    stream = io.StringIO()
    view = LiveView(Console(file=stream, force_terminal=True, width=120))
    view.say("starting [servers]")
    error = {"line": "mine: append raised TypeError: no (mine.py:4)", "nature": "defect"}
    away = {"line": "redis-list: append raised NotSentError: refused", "nature": "unavailable"}
    status = {
        "totals": {"violations": 161, "attempts": {"ok": 5}},
        "findings": [{"headline": "161 of 4,142 messages (3.9 %) lost on redis-list in 12 sessions, cause unknown"}],
        "store_errors": [error, away],
    }
    view.show(a_snapshot(verifier=status, remaining_seconds=60.0, warnings=["disk full"]))
    view.close()
    shown = stream.getvalue()
    assert "starting [servers]" in shown
    assert "ends in 1m" in shown
    assert "161 in 1 finding" in shown
    assert "161 of 4,142 messages (3.9 %) lost on redis-list in 12 sessions, cause unknown" in shown
    assert "mine: append raised TypeError: no (mine.py:4)" in shown
    assert "NotSentError" not in shown, "a server that is away is no news of the store"
    assert "! disk full" in shown


@pytest.mark.parametrize(
    ("phase", "why"), [("draining", "waiting for the verdict"), ("running", "the verifier does not answer")]
)
def test_the_panel_keeps_its_numbers_when_the_verifier_answers_no_more(phase: str, why: str) -> None:
    stream = io.StringIO()
    view = LiveView(Console(file=stream, force_terminal=True, width=120))
    view.show(a_snapshot(verifier={"totals": {"verified": 4196, "acknowledged": 4200, "violations": 2}}))
    view.show(a_snapshot(verifier=None, phase=phase))
    stream.seek(0)
    stream.truncate()
    view.close()
    last = stream.getvalue()
    assert "4,196 of 4,200 acknowledged" in last
    assert f"{why}; its numbers are the last it gave" in last


def test_a_reader_that_has_left_does_not_end_the_soak() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    view = PlainView(stream)
    view.say("nobody hears this")
    view.close()
    with pytest.raises(BrokenPipeError):
        stream.close()


# Stopping --------------------------------------------------------------------------------------------------


async def test_the_first_signal_asks_to_drain_and_the_second_to_leave() -> None:
    said: list[str] = []
    stop = StopRequest(said.append)
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.requested.wait(), 5)
        assert (stop.reason, stop.urgent.is_set(), len(said)) == ("SIGTERM", False, 1)
        assert await stop.unless_urgent(asyncio.sleep(0, "drained")) == "drained"
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(LeftError):
            await stop.unless_urgent(asyncio.sleep(60))


async def test_what_fails_while_nobody_asks_to_stop_is_raised() -> None:
    async def fail() -> None:
        raise UsageError("no")

    with pytest.raises(UsageError):
        await StopRequest().unless_asked(fail())


# The verdict -----------------------------------------------------------------------------------------------


def test_without_a_result_the_verdict_is_inconclusive() -> None:
    assert conclude(None, []) == ("inconclusive", ExitCode.INCONCLUSIVE, ["the verifier gave no verdict in time"])


def test_a_lost_server_decides_the_exit_code() -> None:
    verdict, code, reasons = conclude(None, ["server redis is lost"], ExitCode.UNREACHABLE)
    assert (verdict, code, reasons) == ("inconclusive", ExitCode.UNREACHABLE, ["server redis is lost"])


# Contracts -------------------------------------------------------------------------------------------------


def test_declared_clauses_take_the_place_of_the_stores_own() -> None:
    spec = registry.find("redis-list")
    declared = {"redis-list": {"crash_loss_seconds": "none", "power_loss_seconds": "3s", "order": "per_writer"}}
    contract = settle_contracts([spec], CONTEXT, ContractSettings(**declared), {})[0].contract
    assert contract.crash_loss_seconds is None
    assert contract.power_loss_seconds == 3.0
    assert contract.order is Order.PER_WRITER
    assert contract.duplicates is spec.contract_for(CONTEXT).duplicates


def test_a_replica_can_be_held_to_a_stronger_contract_than_its_own() -> None:
    declared = {"postgres-replica": {"reads": "read_your_writes"}}
    (settled,) = settle_contracts([registry.find("postgres-replica")], CONTEXT, ContractSettings(**declared), {})
    assert settled.contract.reads is Reads.READ_YOUR_WRITES


def test_numbers_may_be_declared_as_numbers_or_as_text() -> None:
    spec = registry.find("redis-list")
    for value in (2, "2"):
        declared = {"redis-list": {"retained_messages": value, "eviction_allowed": "true"}}
        contract = settle_contracts([spec], CONTEXT, ContractSettings(**declared), {})[0].contract
        assert (contract.retained_messages, contract.eviction_allowed) == (2, True)


# Servers given and started ---------------------------------------------------------------------------------


def test_only_servers_that_are_needed_and_not_given_are_started() -> None:
    settings = read(environ={"SOAK_SERVERS__REDIS": "redis://h:1"}).settings
    plan = make_plan(settings, ["redis-list", "postgres", "redis-list"])
    assert plan.names == ["redis-list", "postgres"]
    assert plan.embedded == ("ledger", "postgres")
    assert plan.given == {"redis": "redis://h:1"}


def test_a_drain_says_how_many_sessions_are_left_and_about_how_long_that_takes() -> None:
    drain = DrainProgress()
    drain.note(soak_status(phase="running", verifier={"sessions_left": 0}))
    assert drain.text == ""
    for uptime, left, text in (
        (10.0, 400, "400 sessions left to read"),
        (12.0, 300, "300 sessions left to read, about 6s"),
        (18.0, 1, "1 session left to read, about 1s"),
        (24.0, 1, "1 session left to read, none read for 6s"),
        (25.0, 0, ""),
    ):
        verifier = {"state": "draining", "sessions_left": left}
        drain.note(soak_status(phase="draining", uptime_seconds=uptime, verifier=verifier))
        assert drain.text == text


# RunIdentity and resuming ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path)
    folder.prepare()
    return folder


def configured(*assignments: str) -> Configuration:
    return read(environ={}, config=Path(os.devnull), assignments=["stores.names=redis-list", *assignments])


def left_unfinished(folder: DataFolder, *assignments: str) -> RunIdentity:
    configuration = configured(*assignments)
    beginning = begin(configuration, folder)
    settings = configuration.settings
    context = join.store_context(settings.stores, {"redis": "redis://h:1"}, beginning.namespace)
    settled = settle_contracts(beginning.plan.specs, context, settings.contract, {})
    promises = SettledContracts(settled=settled, configurations={}, lines=[])
    info = join_info(settings, beginning, context, promises, "redis://h:2", "")
    remember(folder, beginning, info.header)
    join.publish(folder.path, info)
    return beginning


def test_a_new_run_gets_a_name_a_seed_and_a_namespace_of_its_own(folder: DataFolder) -> None:
    one, other = begin(configured(), folder), begin(configured(), folder)
    assert one.run != other.run
    assert one.namespace == f"soak_{one.run}"
    assert begin(configured("seed=5", "stores.namespace=mine"), folder).seed == 5


def test_an_unfinished_run_is_resumed_as_it_was(folder: DataFolder) -> None:
    left = left_unfinished(folder, "seed=5")
    sign = run_identity.Heartbeat(run=left.run, boot=boot_identity(), at_us=123, active_seconds=40.0)
    write_sealed(folder.heartbeat_file, sign)
    resumed = begin(read(environ={}, config=Path(os.devnull)), folder)
    assert resumed.resumed is not None
    assert resumed.notes[0].startswith(f"Run {left.run} was interrupted ")
    assert resumed.notes[0].endswith(" ago (0 violations): resuming. --fresh starts anew.")
    assert (resumed.run, resumed.seed, resumed.namespace) == (left.run, 5, left.namespace)
    assert resumed.plan.names == ["redis-list"]
    assert (resumed.last_alive_us, resumed.active_seconds) == (123, 40.0)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("stores.names=redis-stream", "stores.names = redis-list, not redis-stream"),
        ("seed=6", "seed = 5, not 6"),
        ("stores.namespace=other", "stores.namespace = soak_.*, not other"),
        ("servers.redis=redis://h:9", "servers = embedded ones, not redis://h:9"),
        ("testbed.kind=docker", "testbed.kind = local, not docker"),
        ("load.users=50", "load.users = 20, not 50"),
        ("verifier.settle=9s", "verifier.settle = 2s, not 9s"),
        ('faults.rules=[{"fault": "crash", "target": "redis", "every": "1m"}]', "faults.rules.0.fault = -, not crash"),
    ],
)
def test_an_unfinished_run_is_not_resumed_as_another_one(folder: DataFolder, change: str, what: str) -> None:
    left = left_unfinished(folder, "seed=5", "load.users=20")
    with pytest.raises(UsageError, match=rf"run {left.run} in .* has {what}; .*--data-dir.*or begin anew with --fresh"):
        begin(configured(change), folder)
    fresh = begin(configured(change), folder, is_fresh=True)
    assert fresh.resumed is None
    assert fresh.run != left.run
    assert f"run {left.run} was interrupted; what is left of it is in" in fresh.notes[0]


def test_a_run_goes_on_with_its_own_settings_but_where_it_listens_and_how_long(folder: DataFolder) -> None:
    began = (
        "load.users=20", "duration=8h", "http.port=0", "contract.redis-list.order=none", "load.think=400ms",
        'faults.rules=[{"fault": "latency", "target": "redis", "every": "1m", "parameters": {"delay": "1s"}}]',
    )  # fmt: skip
    left_unfinished(folder, *began)
    default = read(environ={}, config=Path(os.devnull), command_defaults={"faults.preset": "auto"})
    settings = begin(default, folder).configuration.settings
    assert (settings.load.users, settings.load.think, settings.duration) == (20, 0.4, 28_800.0)
    assert settings.contract.stores == {"redis-list": {"order": "none"}}
    assert settings.faults.rules[0].parameters == {"delay": "1s"}
    assert settings.http.port == 9464, "where it listens is up to each daemon"
    given = begin(configured("duration=9h", "load.users=20"), folder).configuration.settings
    assert (given.duration, given.load.users) == (32_400.0, 20)


def test_no_secret_of_a_run_is_written_down(folder: DataFolder) -> None:
    secret = "hunter2"  # noqa: S105  of this test only
    stores = 'stores.names=["redis-list", "chroma"]'
    redis = f"servers.redis=redis://:{secret}@h:1"
    given = (stores, redis, "servers.chroma=http://h:2", f"servers.http_token={secret}")
    left_unfinished(folder, *given)
    assert secret.encode() not in folder.state_file.read_bytes()
    resumed = begin(configured(*given), folder).configuration.settings.servers
    assert resumed.redis is not None
    assert secret in resumed.redis.get_secret_value()
    state = read_sealed(folder.state_file, RunState)
    assert state is not None
    assert state.settings is not None
    assert state.settings["servers"] == {"chroma": "http://h:2"}


def test_the_first_line_counts_the_violations_and_so_does_what_is_put_aside(folder: DataFolder) -> None:
    left = left_unfinished(folder)
    found: list[Line] = [
        Violation(
            id=violation_id(left.run, "redis-list", "s", "lost", f"s/0/{seq}"),
            run=left.run,
            kind="lost",
            store="redis-list",
            session="s",
            message=f"s/0/{seq}",
            writer=0,
            seq=seq,
            detail="",
            at_wall_seconds=1.0,
        )
        for seq in (1, 2)
    ]
    (folder.verifier / "journal.jsonl").write_bytes(encode_lines(found))
    sign = run_identity.Heartbeat(run=left.run, boot=boot_identity(), at_us=now_us() - 185_000_000, active_seconds=1.0)
    write_sealed(folder.heartbeat_file, sign)
    resumed = begin(configured(), folder)
    line = f"Run {left.run} was interrupted 3 minutes ago (2 violations): resuming. --fresh starts anew."
    assert resumed.notes[0] == line
    (note,) = begin(configured(), folder, is_fresh=True).notes
    assert f"run {left.run} was interrupted with 2 violations on record" in note


def test_a_damaged_record_does_not_stand_in_the_way_of_a_fresh_run(folder: DataFolder) -> None:
    left_unfinished(folder)
    for path in (folder.state_file, copy_of(folder.state_file)):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedRecordError, match="begin anew with --fresh"):
        begin(configured(), folder)
    assert begin(configured(), folder, is_fresh=True).resumed is None


def test_a_run_cut_off_by_a_reboot_is_put_aside_since_its_clock_is_gone(folder: DataFolder) -> None:
    left = left_unfinished(folder)
    state = read_sealed(folder.state_file, RunState)
    assert state is not None
    write_sealed(folder.state_file, msgspec.structs.replace(state, boot="another"))
    fresh = begin(configured(), folder)
    assert fresh.resumed is None
    assert "restart of the machine" in fresh.notes[0]
    assert fresh.run != left.run


def test_what_an_earlier_run_left_is_put_aside_with_its_evidence(folder: DataFolder) -> None:
    (folder.verifier / "evidence").mkdir()
    (folder.verifier / "evidence" / "one.json").write_text("{}")
    fresh = begin(configured(), folder)
    assert fresh.resumed is None
    assert list(folder.runs.glob("*/verifier/evidence/one.json"))
    assert list(folder.verifier.iterdir()) == []


@pytest.mark.parametrize("name", ["run.json", "daemon.json", "heartbeat.json"])
def test_a_run_is_resumed_whatever_happens_to_one_of_its_files(folder: DataFolder, name: str) -> None:
    left = left_unfinished(folder, "seed=5")
    sign = run_identity.Heartbeat(run=left.run, boot=boot_identity(), at_us=123, active_seconds=40.0)
    write_sealed(folder.heartbeat_file, sign)
    path = folder.path / name
    whole = path.read_bytes()
    contents = [None, b"", whole[: len(whole) // 2], b"\xff" + whole, whole.replace(b"5", b"6")]
    contents += [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
    for content in contents:
        if content == whole:
            continue  # it has no 5 in it
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        resumed = begin(read(environ={}, config=Path(os.devnull)), folder)
        assert (resumed.run, resumed.seed, resumed.plan.names) == (left.run, 5, ["redis-list"])
        # Where the sign of life is lost, the daemon is taken to have lived until its last file was written.
        expected = 123 if name != "heartbeat.json" else now_us()
        assert resumed.last_alive_us == pytest.approx(expected, abs=60_000_000)


def test_a_run_of_which_nothing_can_be_trusted_is_one_line_that_says_what_to_do(folder: DataFolder) -> None:
    left_unfinished(folder)
    for path in (folder.state_file, copy_of(folder.state_file)):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedRecordError, match=r"daemon.json and its copy are damaged .*--data-dir") as caught:
        begin(configured(), folder)
    assert "\n" not in str(caught.value)


def a_loss(run: str) -> bytes:
    """Return the journal of a verifier that found one."""
    line = Violation(
        id=violation_id(run, "redis-list", "s", "lost", "s/0/1"),
        run=run,
        kind="lost",
        store="redis-list",
        session="s",
        message="s/0/1",
        writer=0,
        seq=1,
        detail="",
        at_wall_seconds=1.0,
    )
    return encode_lines([line])


def test_a_new_run_says_how_the_one_ended_that_cannot_be_resumed(folder: DataFolder) -> None:
    left = left_unfinished(folder)
    (folder.verifier / "journal.jsonl").write_bytes(a_loss(left.run))
    remove_sealed(folder.state_file)
    fresh = begin(configured(), folder)
    assert fresh.run != left.run
    (note,) = fresh.notes
    assert "cannot be resumed" in note
    assert "a violation with 1 violation on record" in note
    assert "this is a new run" in note


def test_what_stops_a_run_does_not_hide_the_violations_on_record(folder: DataFolder) -> None:
    with pytest.raises(ServerUnreachableError), violations_not_hidden(folder, "r1"):
        raise ServerUnreachableError("the ledger does not start")
    (folder.verifier / "journal.jsonl").write_bytes(b"\xff half a line\n" + a_loss("r1"))
    (folder.verifier / "result.json").write_bytes(b"\xff")
    told = "does not start; 1 violations are on record"
    with pytest.raises(ViolationsOnRecordError, match=told) as caught, violations_not_hidden(folder, "r1"):
        raise ServerUnreachableError("the ledger does not start")
    assert caught.value.exit_code == ExitCode.VIOLATION


# Fault windows ---------------------------------------------------------------------------------------------


class Journal:
    """Notes what is written, after failing so many times."""

    def __init__(self, failures: int) -> None:
        self.written: list[FaultPhase] = []
        self._failures = failures

    async def fault(self, phase: FaultPhase) -> None:
        if self._failures:
            self._failures -= 1
            raise UsageError("the ledger is away")
        self.written.append(phase)


async def test_the_window_of_a_crash_is_written_when_the_ledger_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soak.daemon.unplanned_faults._RETRY_SECONDS", 0.01)
    faults = UnplannedFaults(lambda _text: None)
    journal = Journal(failures=3)
    faults.died(LifecycleEvent(kind="redis", what="died", at_us=10, detail=""))
    assert faults.active == ["crash of redis"]
    writing = asyncio.create_task(faults.write_to(journal))  # type: ignore[arg-type]
    faults.came_back(LifecycleEvent(kind="redis", what="restarted", at_us=20, detail=""))
    await asyncio.wait_for(faults.flush(), 5)
    writing.cancel()
    assert faults.active == []
    assert [(phase.phase, phase.at, phase.planned) for phase in journal.written] == [
        ("start", 10, False),
        ("end", 20, False),
    ]
    assert len({phase.fault for phase in journal.written}) == 1


async def test_a_node_that_takes_over_is_recorded_as_a_failover_beside_the_crash_that_made_it() -> None:
    faults = UnplannedFaults(lambda _text: None)
    journal = Journal(failures=0)
    for at_us, what, replaces in (
        (10, "died", False),
        (8, "died", True),  # the last time at which the old one was the primary, for all the group knows
        (30, "restarted", False),  # the old one is back, and not all agree yet
        (40, "restarted", True),
    ):
        take = faults.died if what == "died" else faults.came_back
        take(LifecycleEvent(kind="redis", what=what, at_us=at_us, detail="", replaces=replaces))
    writing = asyncio.create_task(faults.write_to(journal))  # type: ignore[arg-type]
    await asyncio.wait_for(faults.flush(), 5)
    writing.cancel()
    assert faults.active == []
    assert [(one.kind, one.phase, one.at, one.excuses, one.promotes, one.planned) for one in journal.written] == [
        ("crash", "start", 10, Excuse.CRASH, Promotion.NONE, False),
        ("failover", "start", 8, Excuse.FAILOVER, Promotion.BESIDE_THE_OLD, False),
        ("crash", "end", 40, Excuse.CRASH, Promotion.NONE, False),
        ("failover", "end", 40, Excuse.FAILOVER, Promotion.BESIDE_THE_OLD, False),
    ]
    assert [one.fault for one in journal.written[:2]] == [one.fault for one in journal.written[2:]]


async def test_a_resumed_run_has_a_window_from_the_last_sign_of_life() -> None:
    faults = UnplannedFaults(lambda _text: None)
    journal = Journal(failures=0)
    faults.restarted_with_daemon(["redis", "postgres"], 1000)
    writing = asyncio.create_task(faults.write_to(journal))  # type: ignore[arg-type]
    await asyncio.wait_for(faults.flush(), 5)
    writing.cancel()
    assert [(phase.target, phase.kind, phase.phase) for phase in journal.written] == [
        ("redis", "restart", "start"),
        ("redis", "restart", "end"),
        ("postgres", "restart", "start"),
        ("postgres", "restart", "end"),
    ]
    assert journal.written[0].at == 1000
    assert journal.written[1].at > 1000
