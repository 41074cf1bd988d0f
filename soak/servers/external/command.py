"""A command of the operator, such as `kubectl rollout restart statefulset/{server}`: run without a shell."""

from __future__ import annotations

import asyncio
import shlex
from io import BufferedWriter
from pathlib import Path

from soak.errors import ServerUnreachableError, UsageError
from soak.proc.spawn import AsyncProcess, start_async
from soak.proc.tree import kill_group, last_words

SECONDS_MAX = 300.0
LOG_BYTES_MAX = 2**20
PLACEHOLDER = "{server}"


class OperatorCommand:
    """One command line, in which `{server}` is replaced by the kind of server."""

    def __init__(self, text: str, seconds_max: float = SECONDS_MAX) -> None:
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"the command {text!r} is not understood ({error}); quote it as for a shell") from None
        if not self._words:
            raise UsageError("the command is empty; leave it out instead")
        self._seconds_max = seconds_max
        self.names_the_server = PLACEHOLDER in text

    async def run(self, kind: str, log: Path) -> None:
        """Run it to its end, with what it says in the log; raises `ServerUnreachableError` if it fails."""
        words = [word.replace(PLACEHOLDER, kind) for word in self._words]
        shown = shlex.join(words)
        with _opened(log) as output:
            output.write(f"$ {shown}\n".encode())
            output.flush()
            start = output.tell()
            try:
                running = await start_async(words, stdout=output, stderr=output)
            except OSError as error:
                raise ServerUnreachableError(
                    f"{shown} cannot be run ({error.strerror}); mend testbed.restart_command"
                ) from error
        code = await self._ended(running)
        if code != 0:
            how = f"exit status {code}" if code is not None else f"it took longer than {self._seconds_max:.0f} s"
            words_last = last_words(log, start) or "it said nothing"
            raise ServerUnreachableError(f"{shown} failed ({how}): {words_last} (log: {log})")

    async def _ended(self, running: AsyncProcess) -> int | None:
        try:
            async with asyncio.timeout(self._seconds_max):
                return await running.wait()
        except TimeoutError:
            return None
        finally:
            if running.returncode is None:
                kill_group(running.pid)
                await running.wait()


def _opened(log: Path) -> BufferedWriter:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_suffix(".log.1"))
    return log.open("ab")
