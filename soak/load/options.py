"""The options that soak adds to Locust's command line and web page.

A flag wins over the environment (`SOAK_LOAD__…`), the environment over `soak.toml`; the defaults shown are the
effective ones. No secret is among them: Locust sends options to its workers in the clear.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from soak.checker.text import MIXES
from soak.configuration import read
from soak.duration import format_seconds_exactly
from soak.errors import UsageError
from soak.settings import LoadSettings, SoakSettings

LOOPBACK = "127.0.0.1"

_NUMBERS: tuple[tuple[str, str, type], ...] = (
    ("--context-messages", "context_messages", int),
    ("--session-messages", "session_messages", int),
    ("--writers-per-session", "writers_per_session", int),
    ("--shared-share", "shared_share", float),
    ("--recall-share", "recall_share", float),
    ("--forget-share", "forget_share", float),
    ("--reread-share", "reread_share", float),
    ("--search-share", "search_share", float),
    ("--similar-share", "similar_share", float),
)


def settings() -> SoakSettings:
    """Read environment and soak.toml."""
    return read().settings


def add_options(parser: Any) -> None:
    """Add soak's options, and make Locust listen on loopback by default."""
    effective = settings()
    load = effective.load
    group = parser.add_argument_group("soak", "What the simulated chat participants do, and which run they join.")
    _add(
        group,
        "--store",
        action="append",
        default=None,
        help="Stores to talk to, by name or package.module:Class; give it again, or commas, for several. "
        "Default: all stores of the run that is joined.",
    )
    for flag, field, kind in _NUMBERS:
        text = LoadSettings.model_fields[field].description
        _add(group, flag, type=kind, default=getattr(load, field), help=text)
    _add(
        group,
        "--think-time",
        default=format_seconds_exactly(load.think),
        help="Mean pause between two turns of a participant, such as 500ms or 10s.",
    )
    _add(
        group,
        "--browser-users",
        in_web_ui=False,
        type=int,
        default=load.browser_users,
        help="How many of the users type into a chat page in a real Chromium.",
    )
    _add(group, "--mix", choices=MIXES, default=load.mix, help="What is talked about.")
    _add(
        group,
        "--data-dir",
        in_web_ui=False,
        default=str(effective.data_dir),
        help="Folder of the run to join; if none runs there, an embedded one is started in it.",
    )
    parser.set_defaults(web_host=LOOPBACK, master_bind_host=LOOPBACK)


def _add(group: Any, flag: str, *, in_web_ui: bool = True, **details: Any) -> None:
    action = group.add_argument(flag, **details)
    action.include_in_web_ui = in_web_ui
    action.is_secret = action.is_required = action.is_multiple = False


def load_settings(options: Any) -> LoadSettings:
    """Make settings of the options, wherever they came from; raises `UsageError` with one line per wrong value."""
    values: dict[str, Any] = {field: getattr(options, field) for _, field, _ in _NUMBERS}
    values.update(think=options.think_time, mix=options.mix, browser_users=options.browser_users)
    values.update(browser=settings().load.browser)
    try:
        return LoadSettings(**values)
    except ValidationError as error:
        raise UsageError("\n".join(_line(one) for one in error.errors())) from None


def _line(error: Any) -> str:
    field = str(error["loc"][0])
    flag = "think-time" if field == "think" else field.replace("_", "-")
    reason = error["msg"].removeprefix("Value error, ")
    return f"--{flag} {error['input']!r}: {reason[:1].lower()}{reason[1:]}; see `python -m soak.locustfiles.sessions`"


def requested_stores(options: Any) -> tuple[str, ...]:
    """Give the stores that were asked for, each once; none means all of the run."""
    given = options.store or []
    texts = [given] if isinstance(given, str) else given
    names = (name.strip() for text in texts for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def chosen_stores(options: Any, available: list[str]) -> tuple[str, ...]:
    """Give the stores to talk to in a run that has these; raises `UsageError` for one that it does not have."""
    requested = requested_stores(options)
    missing = [name for name in requested if name not in available]
    if missing:
        raise UsageError(
            f"the run that is joined does not test {', '.join(missing)}; it has {', '.join(available)}. "
            "Name one of those, or another --data-dir to start a run of its own"
        )
    return requested or tuple(available)


def data_dir(options: Any) -> Path:
    return Path(options.data_dir)
