"""The configuration file of a Redis or Valkey that we start, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping

OURS = frozenset({"bind", "port", "requirepass", "dir", "daemonize", "logfile", "unixsocket", "include"})
"""Settings that no option may replace."""
_DEFAULTS = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}


def redis_settings(options: Mapping[str, str], *, password: str, bind: str, port: int, folder: str) -> str:
    """Return the file: durable as in production, and what the options say instead."""
    lines = [f"{name} {value}" for name, value in {**_DEFAULTS, **options}.items() if name != "save"]
    lines += [
        f"bind {bind}",
        f"port {port}",
        f"requirepass {password}",
        f"dir {_quoted(folder)}",
        "daemonize no",
        'logfile ""',
    ]
    return "\n".join([*lines, *_save_lines(options.get("save", ""))]) + "\n"


def is_logged(options: Mapping[str, str]) -> bool:
    """Tell whether a server with these options keeps an append-only file."""
    return {**_DEFAULTS, **options}["appendonly"] == "yes"


def _save_lines(points: str) -> list[str]:
    """Return one line per save point: Redis 6.2 takes no more than one in a line."""
    words = points.split()
    return [f"save {seconds} {changes}" for seconds, changes in zip(words[::2], words[1::2], strict=True)] or [
        'save ""'
    ]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
