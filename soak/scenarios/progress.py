"""What is under way and what has come of it, on standard error: for commands that do many things side by side."""

from __future__ import annotations

import shutil
import sys


class Progress:
    """Says a line for each thing that has ended, and on a terminal keeps one of what is under way."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._ended = 0
        self._under_way: list[str] = []
        self._is_terminal = sys.stderr.isatty()

    def begun(self, name: str) -> None:
        self._under_way.append(name)
        self._show()

    def ended(self, name: str, outcome: str) -> None:
        self._ended += 1
        self._under_way.remove(name)
        self.clear()
        sys.stderr.write(f"{self._ended:3} of {self._total}  {name}: {outcome}\n")
        self._show()

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")

    def _show(self) -> None:
        if self._is_terminal:
            self.clear()
            # A line that is wrapped could not be cleared as one.
            sys.stderr.write(f"under way: {', '.join(self._under_way)}"[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()
