"""Finding the run to take part in: one on this machine, or one whose ledger the environment names."""

from __future__ import annotations

import time
from pathlib import Path

import gevent

from soak import join
from soak.addresses import LEDGER, addresses
from soak.errors import ServerUnreachableError
from soak.join import JoinInfo
from soak.ledger.run import read_header
from soak.load.bridge import Bridge
from soak.settings import SoakSettings

WAIT_SECONDS_MAX = 60.0
POLL_SECONDS = 0.2
HEADER_SECONDS_MAX = 20.0


def find_run(data_dir: Path, settings: SoakSettings) -> JoinInfo | None:
    """Return the run in this folder, else the one of the ledger in the settings, else None."""
    info = join.find(data_dir)
    if info is None and settings.ledger.url is not None:
        return _remote_run(settings)
    return info


def wait_for_run(data_dir: Path, settings: SoakSettings) -> JoinInfo:
    """Wait for the run that the master joins or starts: workers never start one themselves."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while (info := find_run(data_dir, settings)) is None:
        if time.monotonic() > deadline:
            raise ServerUnreachableError(
                f"no soak is running in {data_dir} after {WAIT_SECONDS_MAX:.0f} s; start the master there, or on "
                "another machine set SOAK_LEDGER__URL and SOAK_SERVERS__… to those of the run"
            )
        gevent.sleep(POLL_SECONDS)
    return info


def _remote_run(settings: SoakSettings) -> JoinInfo:
    assert settings.ledger.url is not None  # noqa: S101  asked by the caller
    url = settings.ledger.url.get_secret_value()
    bridge = Bridge()
    try:
        header = bridge.call(read_header, url, timeout_seconds=HEADER_SECONDS_MAX)
    finally:
        bridge.close()
    servers = {kind: address for kind, address in addresses(settings).items() if kind != LEDGER}
    return JoinInfo.of(header, url, join.store_context(settings.stores, servers, header.namespace))
