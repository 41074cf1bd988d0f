"""The options that soak adds to Locust's command line and web page.

A flag wins over the environment (`SOAK_LOAD__…`), the environment over `soak.toml`; the defaults shown are the
effective ones. No secret is among them: Locust sends options to its workers in the clear.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from soak.checker.text import MIXES
from soak.configuration import read
from soak.duration import format_seconds_exactly
from soak.errors import UsageError
from soak.settings import LoadSettings, SoakSettings

LOOPBACK = "127.0.0.1"

MESSAGES, WRITERS, SHARE = "messages", "writers", "0 to 1"


class _Option(NamedTuple):
    flag: str
    field: str
    unit: str

    @property
    def help(self) -> str:
        return f"{LoadSettings.model_fields[self.field].description} [{self.unit}]"

    @property
    def type(self) -> type:
        return float if self.unit == SHARE else int


_SESSIONS = (
    _Option("--session-messages", "session_messages", MESSAGES),
    _Option("--context-messages", "context_messages", MESSAGES),
    _Option("--writers-per-session", "writers_per_session", WRITERS),
    _Option("--shared-share", "shared_share", SHARE),
    _Option("--similar-share", "similar_share", SHARE),
)
_OPERATIONS = (
    _Option("--recall-share", "recall_share", SHARE),
    _Option("--forget-share", "forget_share", SHARE),
    _Option("--reread-share", "reread_share", SHARE),
    _Option("--search-share", "search_share", SHARE),
)


def settings() -> SoakSettings:
    """Read environment and soak.toml."""
    return read().settings


def add_options(parser: Any) -> None:
    """Add soak's options, and make Locust listen on loopback by default."""
    effective = settings()
    load = effective.load
    run = parser.add_argument_group("soak: the run", "Which run is joined, and which of its stores are used.")
    pace = parser.add_argument_group("soak: pace and texts", "How often participants speak, and what about.")
    sessions = parser.add_argument_group("soak: sessions", "How long sessions are, and who shares them.")
    operations = parser.add_argument_group("soak: operations", "What participants do besides reading and appending.")
    _add(
        run,
        "--store",
        action="append",
        default=None,
        help="Stores to talk to, by name or package.module:Class; give it again, or commas, for several. "
        "Default: all stores of the run that is joined.",
    )
    _add(
        pace,
        "--think-time",
        default=format_seconds_exactly(load.think),
        help="Mean pause between two turns of a participant. [time, such as 500ms or 10s]",
    )
    _add(pace, "--mix", choices=MIXES, default=load.mix, help="What is talked about.")
    for group, options in ((sessions, _SESSIONS), (operations, _OPERATIONS)):
        for one in options:
            _add(group, one.flag, type=one.type, default=getattr(load, one.field), help=one.help)
    _add(
        pace,
        "--browser-users",
        in_web_ui=False,
        type=int,
        default=load.browser_users,
        help="How many of the users type into a chat page in a real Chromium. [users]",
    )
    _add(
        run,
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
    values: dict[str, Any] = {one.field: getattr(options, one.field) for one in (*_SESSIONS, *_OPERATIONS)}
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
