"""Real libraries, as they are published: a known loss is found again, and its repair is seen."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from soak.errors import ExitCode
from soak.scenarios.analyses.judgement import TrialResult, TrialVerdict
from tests.support.needs import all_required
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(1_500)

KNOWN = {
    # It keeps one of several turns that say the same: one for each of two roles here.
    ("agent-framework-redis@1.0.0b261002", "identical-turns"): {"lost"},
    ("agent-framework-redis@1.0.0b261002", "hard-text"): set(),
    ("agent-framework-redis@1.0.0b261002", "colliding-sessions"): set(),
    # It looks sessions up by a tag, for which case, commas and blanks at the ends mean nothing or something else.
    ("redisvl-messages", "identical-turns"): set(),
    ("redisvl-messages", "hard-text"): set(),
    ("redisvl-messages", "colliding-sessions"): {"leaked", "lost", "rolled_back"},
    # It takes characters out of texts that PostgreSQL would not take.
    ("agno-postgres", "identical-turns"): None,
    ("agno-postgres", "hard-text"): {"corrupted"},
    ("agno-postgres", "colliding-sessions"): set(),
}
"""What is known of published releases: kinds of findings, none at all, or None where the trial does not apply."""


SESSIONS = """
import json
from claude_agent_sdk import SessionStore
from redis.asyncio import Redis

class RedisSessions(SessionStore):
    def __init__(self, address):
        self.redis = Redis.from_url(address)

    async def append(self, key, entries):
        await self.redis.rpush(self._name(key), *map(json.dumps, entries))

    async def load(self, key):
        return [json.loads(one) for one in await self.redis.lrange(self._name(key), 0, -1)] or None

    async def delete(self, key):
        await self.redis.delete(self._name(key))

    def _name(self, key):
        return json.dumps([key["project_key"], key["session_id"]])
"""
"""A session store of the Claude Agent SDK that is right."""
COLLIDING = {
    "claude-session-store=sessions:RedisSessions,redis==8.1.0,redis": set(),
    "openai-agents-sqlite": set(),
    # A thread whose name has a comma in it stays when it is deleted.
    "langgraph-redis": {"resurrected"},
    # A session is a tag of the search index, as with redisvl.
    "langchain-redis": {"leaked", "lost", "rolled_back"},
}
"""What is found of sessions whose names are alike; the other trials find nothing."""


class _Report(msgspec.Struct):
    cells: list[TrialResult]


def analysed(*words: str, folder: Path = ROOT) -> list[TrialResult]:
    """Make cells, in environments of the user's cache, which are made the first time."""
    done = subprocess.run(
        [sys.executable, "-m", "soak", "analyse", *words, "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=1_400,
        check=False,
    )
    assert done.stdout, done.stderr.decode()
    cells = msgspec.json.decode(done.stdout, type=_Report).cells
    for cell in cells:
        if "cannot be installed" in cell.reason and not all_required():
            pytest.skip(cell.reason)
        assert cell.verdict is not TrialVerdict.INCONCLUSIVE, (cell.reason, done.stderr.decode())
    return cells


@pytest.mark.long
def test_three_published_libraries_show_what_is_known_of_them_and_nothing_else_and_the_same_again() -> None:
    subjects, trials = (list(dict.fromkeys(names)) for names in zip(*KNOWN, strict=True))
    cells = analysed(*subjects, "--trial", *trials)
    found = {
        (cell.subject, cell.trial): None if cell.verdict is TrialVerdict.NOT_APPLICABLE else set(cell.found)
        for cell in cells
    }
    assert found == KNOWN
    for cell in cells:
        assert (cell.verdict is TrialVerdict.FINDING) is bool(cell.found), cell
        assert cell.verified > 0 or cell.verdict is TrialVerdict.NOT_APPLICABLE, cell
    again = analysed(*subjects, "--trial", *trials)
    assert [_shown(cell) for cell in again] == [_shown(cell) for cell in cells]


def _shown(cell: TrialResult) -> tuple[object, ...]:
    return cell.subject, cell.trial, cell.verdict, cell.found, cell.acknowledged, cell.example


@pytest.mark.extra
def test_a_release_that_overwrites_what_others_write_is_found_to_lose_most_of_it() -> None:
    (cell,) = analysed("agno-redis@2.6.4", "--trial", "concurrent-writers")
    assert cell.verdict is TrialVerdict.FINDING
    lost = cell.found.get("lost", 0) + cell.found.get("rolled_back", 0)
    assert lost > cell.acknowledged // 2
    assert cell.command == "soak analyse agno-redis@2.6.4 --trial concurrent-writers --seed 7"


@pytest.mark.extra
@pytest.mark.parametrize("subject", COLLIDING, ids=lambda name: name.partition("=")[0])
def test_a_library_keeps_texts_and_a_crash_and_is_found_where_it_mixes_sessions_up(
    tmp_path: Path, subject: str
) -> None:
    (tmp_path / "sessions.py").write_text(SESSIONS)
    names = ("identical-turns", "hard-text", "colliding-sessions", "process-crash")
    cells = analysed(subject, "--trial", *names, folder=tmp_path)
    assert {cell.trial: set(cell.found) for cell in cells} == {
        **{name: set[str]() for name in names},
        "colliding-sessions": COLLIDING[subject],
    }
    assert all(cell.verified for cell in cells)


@pytest.mark.extra
@pytest.mark.parametrize(
    ("subject", "topology", "code", "words"),
    [
        ("langchain-redis", "sentinel", ExitCode.VIOLATION, "leaked"),
        ("langgraph-redis", "sentinel", ExitCode.PASS, "pass"),
        # The search module comes without what asks all nodes of a cluster.
        ("langchain-redis", "cluster", ExitCode.INCONCLUSIVE, "sessions could not be read"),
        ("langgraph-redis", "cluster", ExitCode.UNREACHABLE, "langgraph-redis for http ended while starting"),
    ],
)
def test_a_library_on_a_group_does_what_is_known_of_it(
    tmp_path: Path, subject: str, topology: str, code: ExitCode, words: str
) -> None:
    # Invocations of one thread at the same moment lose one of them by design.
    load = ("--users", "4", "--duration", "15s", "--set", "load.shared_share=0", "--set", "verifier.drain=20s")
    servers = ("--store", "http", "--subject", subject, "--redis", topology, "--data-dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "soak", "check", *servers, *load],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    if "cannot be installed" in done.stderr and not all_required():
        pytest.skip(done.stderr)
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
