"""Standard output for people: with colours where it is a terminal and nobody has asked for none."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class Page(Console):
    """A console without guesses about what is worth a colour."""

    def __init__(self, *, width: int | None = None) -> None:
        super().__init__(highlight=False, width=width)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command: rich would end the process with the exit code of a violation."""
        raise BrokenPipeError
