"""Servers that are asked over HTTP: Chroma, and any program that serves a memory."""

from __future__ import annotations

import abc
import secrets
from pathlib import Path

import msgspec

from soak.checker.telemetry import FOLDER_MARK
from soak.errors import ServerUnreachableError
from soak.json_input import decode_json
from soak.servers.exchange import HttpExchange
from soak.servers.ports import HOST
from soak.servers.server import Server
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext

_MARK_NAME = ".made"
_MARK_BYTES = 8


class WebServer(Server):
    """What is the same for all of them. None can be asked for its configuration."""

    exchange = HttpExchange

    @abc.abstractmethod
    async def greet(self) -> dict[str, str]:
        """Ask it how it is; raises `ServerUnreachableError` where it does not answer."""

    def address_at(self, port: int) -> str:
        return f"http://{HOST}:{port}"

    async def answers(self) -> bool:
        try:
            await self.greet()
        except ServerUnreachableError:
            return False
        return True

    async def read_configuration(self) -> dict[str, str]:
        return {}

    async def telemetry(self) -> dict[str, str]:
        found = await self.greet()
        return {**found, **mark_of(self.working_folder)} if self.backend.is_ours else found


class ServiceServer(WebServer):
    """A memory service: any program that speaks the contract of the http store. It may say when it was started."""

    async def greet(self) -> dict[str, str]:
        context = StoreContext(
            servers={self.name: self.own_url},
            namespace="soak",
            timeout_seconds=self.backend.answer_seconds_max,
        )
        store = await HttpStore.open(context)
        await store.close()
        return {self.kind.start_mark: store.health.started} if store.health.started else {}


class ChromaServer(WebServer):
    """A server of vectors with their documents. It says that it is alive, and little else."""

    async def greet(self) -> dict[str, str]:
        import aiohttp  # noqa: PLC0415  costly, and most servers need none of it

        timeout = aiohttp.ClientTimeout(total=self.backend.answer_seconds_max)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as client,
                client.get(f"{self.own_url.rstrip('/')}/api/v2/pre-flight-checks") as answer,
            ):
                answer.raise_for_status()
                body = decode_json(await answer.read(), type=dict[str, object])
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            raise ServerUnreachableError(
                f"{self.title} on port {self.port} does not answer ({type(error).__name__}); see {self.log_path}"
            ) from error
        return {name: str(body[name]) for name in ("max_batch_size",) if name in body}


# The name of a folder stays when it is removed and made again, so each data folder has a mark inside. ------------


def make_marked(folder: Path) -> None:
    """Make the folder, and mark it, unless it is there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    mark = folder / _MARK_NAME
    if not mark.exists():
        mark.write_text(secrets.token_hex(_MARK_BYTES), encoding="ascii")


def mark_of(folder: Path) -> dict[str, str]:
    """Return the folder's mark as telemetry; nothing if it has none."""
    try:
        return {FOLDER_MARK: (folder / _MARK_NAME).read_text(encoding="ascii")}
    except (OSError, UnicodeDecodeError):
        return {}
