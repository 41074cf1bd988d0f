"""Three hosts and a switch between them, each a network namespace; processes there have clocks of their own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.support.command import plain_environment

ENTER = Path(__file__).with_name("enter.py")
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
STOP_SECONDS = 30.0


def no_namespaces() -> str | None:
    """Say why hosts cannot be made here; None: they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if not Path("/proc/self/timens_offsets").exists():
        return "this kernel has no time namespaces"
    return None if FAKETIME.exists() else "libfaketime is not installed"


@dataclass
class SeparateHost:
    """A host with a network, a name and clocks of its own."""

    name: str
    namespace: str
    address: str
    monotonic_ns: int = 0
    """How far its monotonic clock is ahead of this machine's."""
    wall: dict[str, str] = field(default_factory=dict)
    """What libfaketime makes of its wall clock."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, output: IO[bytes], cwd: Path, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        preload = {"LD_PRELOAD": str(FAKETIME), **self.wall} if self.wall else {}
        enter = [sys.executable, str(ENTER), self.name, str(self.monotonic_ns)]
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, *enter, json.dumps(preload), *command],
            cwd=cwd,
            env=plain_environment(**environment),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(STOP_SECONDS)


@contextlib.contextmanager
def three_hosts() -> Iterator[tuple[SeparateHost, SeparateHost, SeparateHost]]:
    """Make three hosts that reach each other and nothing else; nothing of them is left afterwards."""
    mark = f"soak-{uuid.uuid4().hex[:6]}"
    switch = f"{mark}-s"
    hosts = [SeparateHost(f"host-{letter}", f"{mark}-{letter}", f"10.77.0.{n}") for n, letter in enumerate("abc", 1)]
    try:
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for number, host in enumerate(hosts):
            _ip("netns", "add", host.namespace)
            port = f"port{number}"
            _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                _ip("-n", host.namespace, "link", "set", link, "up")
        yield hosts[0], hosts[1], hosts[2]
    finally:
        for host in hosts:
            host.stop()
        for namespace in (switch, *(host.namespace for host in hosts)):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
