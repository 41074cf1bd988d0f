"""However long a session lives and whatever a store returns, its recording stays small."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.checker.contract import Contract
from soak.checker.expected_session import ExpectedSession
from soak.checker.message import Garbled
from soak.checker.read import Read
from soak.checker.text import MessageGenerator
from soak.ledger.reader import WorkerBatch
from soak.ledger.records import Batch, Open
from soak.verifier import recording
from soak.verifier.recording import Recorder, read_recording
from soak.verifier.tracked_session import TrackedSession
from tests.support.run_headers import header_of

STORE, SESSION, WORKER = "redis-list", "s1-chat", "w1"
READ_BYTES = 1_000


def record(folder: Path, reads: range) -> Path:
    header = header_of({STORE: Contract()}, namespace="soak_r1")
    recorder = Recorder(folder, header, MessageGenerator("r1", 1), 1)
    watched = TrackedSession(ExpectedSession(SESSION, STORE), WORKER, 1)
    batch = Batch(opens=[Open(1, SESSION, STORE)])
    recorder.take(WorkerBatch("0-1", WORKER, "host", 0, 1, batch), {1: watched})
    for at in reads:
        read = Read(invoked=at, returned=at, acked={}, items=[Garbled(b"x" * READ_BYTES, "no")])
        recorder.note_read(watched, read, is_shadowed=False)
    recorder.flush()
    (path,) = (folder / "history").glob("*.jsonl")
    return path


@pytest.mark.parametrize(("bound", "value"), [("OPERATIONS_MAX", 5), ("RECORDING_BYTES_MAX", 5 * READ_BYTES)])
def test_what_comes_after_the_bound_is_not_recorded_even_after_a_restart(
    bound: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, bound, value)
    record(tmp_path, range(1, 100))
    path = record(tmp_path, range(100, 200))
    kept = read_recording(path)
    assert kept is not None
    assert list(kept.reads) == list(range(1, len(kept.reads) + 1))
    assert 1 <= len(kept.reads) <= 5
