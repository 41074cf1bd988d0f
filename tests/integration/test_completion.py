"""Completion in real shells: each asks the program itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from soak.commands.completion import SCRIPTS, candidates
from tests.support.needs import installed

BASH = """\
source <(soak completion bash)
COMP_WORDS=(soak {words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_soak
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """\
compdef() {{ :; }}
compadd() {{ print -l -- ${{(P)2}}; }}
source <(soak completion zsh)
words=(soak {words})
CURRENT=${{#words}}
_soak
"""
FISH = "soak completion fish | source; complete -C 'soak {words}'"
SAYS = {"bash": ["bash", "-c"], "zsh": ["zsh", "-c"], "fish": ["fish", "-c"]}


def completed(shell: str, words: list[str]) -> list[str]:
    installed(shell)
    last = words[-1] if shell == "fish" else (words[-1] or "''")
    text = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell].format(words=" ".join([*words[:-1], last]))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*SAYS[shell], text], capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "PATH": path}
    )
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_a_shell_completes_names(shell: str) -> None:
    assert completed(shell, ["check", "--store", "redis-l"]) == ["redis-list"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["run", "demo", "check"]),
        (["sel"], ["selftest"]),
        (["check", "--store", "redis-l"], ["redis-list"]),
        (["check", "--dur"], ["--duration"]),
        (["check", "--testbed", ""], ["local", "docker"]),
        (["check", "--log-level", "w"], ["warning"]),
        (["inject", "cra"], ["crash"]),
        (["inject", "latency", "postgres-"], ["postgres-replica"]),
        (["inject", "latency", "redis", "de"], ["delay="]),
        (["faults", ""], ["show"]),
        (["faults", "show", "laten"], ["latency"]),
        (["flaws", "show", "lru"], ["lru_eviction"]),
        (["inject", "crash", "--target", "postgres-"], ["postgres-replica"]),
        (["selftest", "dirty"], ["dirty_read"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["explain", ""], []),
        (["check", "--config", ""], []),
        (["no-such-command", "--st"], []),
    ],
)
def test_what_may_stand_in_a_place(words: list[str], expected: list[str]) -> None:
    assert candidates(words)[: len(expected) or None] == expected
