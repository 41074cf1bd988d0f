"""Structured logs: words for a terminal, JSON for everything else, and never a password."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

# structlog imports rich's tracebacks and every lexer of theirs where it finds them. Nothing here shows such a one, and
# all of it has to be imported before a process begins.
_HIDDEN = [name for name in ("rich", "rich.traceback") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_HIDDEN))  # type: ignore[arg-type]  # None: not to be found

import structlog  # noqa: E402
from structlog.typing import EventDict, Processor, WrappedLogger  # noqa: E402

for _name in _HIDDEN:
    del sys.modules[_name]

from soak.masking import mask  # noqa: E402
from soak.settings import LogSettings  # noqa: E402

FILE_BYTES_MAX = 5_000_000
FILES_KEPT = 2


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    return structlog.stdlib.get_logger(name)


def configure(settings: LogSettings, *, file: Path | None = None, to_stderr: bool = True) -> None:
    """Send logs to standard error and, as JSON, to a file of bounded size."""
    structlog.configure(
        processors=[*_before_rendering(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    logging.raiseExceptions = False  # a full disk or a closed terminal must not end a soak
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(settings.level.upper())
    if to_stderr:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_formatter(as_json=_wants_json(settings)))
        root.addHandler(handler)
    if file is not None:
        handler = RotatingFileHandler(file, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8")
        handler.setFormatter(_formatter(as_json=True))
        root.addHandler(handler)
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Take the passwords out of every text of an event."""
    return {key: _masked(value) for key, value in event.items()}


def _masked(value: object) -> object:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: _masked(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(below) for below in value]
    if isinstance(value, BaseException):
        return mask(f"{type(value).__name__}: {value}")
    return value


def _before_rendering() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _formatter(*, as_json: bool) -> logging.Formatter:
    # Masked last, when the traceback is text as well.
    render: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if as_json:
        render += [structlog.processors.format_exc_info, mask_secrets, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
        render += [structlog.processors.format_exc_info, mask_secrets, plain]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_before_rendering(), processors=render, use_get_message=True
    )


def _wants_json(settings: LogSettings) -> bool:
    if settings.format == "auto":
        return not sys.stderr.isatty()
    return settings.format == "json"
