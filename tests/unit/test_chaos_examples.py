"""Examples for other chaos tools: windows are announced with words that the program takes, and always ended."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import yaml

from soak import cli
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = ROOT / "examples" / "chaos"
RECORDER = (
    '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word" >> "$0.log"; done\necho . >> "$0.log"\necho window-1\n'
)


def announced(folder: Path, *words: str, **environment: str) -> tuple[int, list[list[str]]]:
    """Run an example with a soak that writes down how it was called; return the exit code, and the calls."""
    soak = folder / "soak"
    soak.write_text(RECORDER)
    soak.chmod(0o755)
    kubectl = folder / "kubectl"
    kubectl.write_text("#!/bin/sh\nexit 0\n")
    kubectl.chmod(0o755)
    own = {"SOAK": str(soak), "PATH": f"{folder}:/usr/bin:/bin", **environment}
    done = subprocess.run(words, env=own, capture_output=True, text=True, check=False, timeout=30)
    calls = (folder / "soak.log").read_text().removesuffix(".\n").split(".\n")
    return done.returncode, [call.splitlines() for call in calls]


def test_the_window_is_around_the_command_and_ends_also_when_that_fails(tmp_path: Path) -> None:
    script = str(EXAMPLES / "announce.sh")
    command = ("sh", "-c", f"cp {tmp_path}/soak.log {tmp_path}/during; exit 3")
    code, calls = announced(tmp_path, script, "redis", "crash", "somebody's pod-kill", *command)
    assert code == 3
    begin, end = calls
    assert (tmp_path / "during").read_text().splitlines() == [*begin, "."]
    parsed = cli.parse(begin)
    assert (parsed.action, parsed.server, parsed.excuses, parsed.reason) == (
        *("begin", "redis", "crash"),
        "somebody's pod-kill",
    )
    assert end == ["fault", "end", "window-1"]
    cli.parse(end)


def test_an_operator_that_promotes_is_a_failover(tmp_path: Path) -> None:
    names = {"CLUSTER": "memory", "INSTANCE": "memory-2"}
    code, (begin, end) = announced(tmp_path, str(EXAMPLES / "operator.sh"), **names)
    assert code == 0
    parsed = cli.parse(begin)
    assert (parsed.server, parsed.excuses) == ("postgres", "failover")
    assert "memory-2" in parsed.reason
    assert end[:2] == ["fault", "end"]


def test_each_manifest_shows_how_it_is_announced_and_waits_for_the_server() -> None:
    for name, kind in (("chaos-mesh", "PodChaos"), ("litmus", "ChaosEngine")):
        path = EXAMPLES / f"{name}.yaml"
        text = path.read_text()
        assert yaml.safe_load(text)["kind"] == kind
        shown = "\n".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#   "))
        words = shlex.split(shown)
        assert words[0] == "examples/chaos/announce.sh"
        cli.parse(["fault", "begin", "--server", words[1], "--excuses", words[2], "--reason", words[3]])
        assert f"kubectl apply -f examples/chaos/{path.name}" in words[-1]
        assert "rollout status" in words[-1]
