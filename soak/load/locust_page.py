"""Two tabs on Locust's own page: what was verified, store by store, and the violations, as the daemon reports them.

Locust knows how a page may be added to: tables are declared in its template's arguments, and their rows travel with the
statistics that the page asks for while a test runs. The daemon is asked by a greenlet, never by a request of the page,
so that one that hangs holds nobody up; when it gives no answer the rows say since when.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gevent
import msgspec

from soak import join
from soak.errors import SoakError
from soak.json_input import decode_json
from soak.report.text import clock

ASK_SECONDS = 2.0
ANSWER_SECONDS_MAX = 5.0
ANSWER_BYTES_MAX = 16 * 2**20
VIOLATIONS_SHOWN_MAX = 100
ROUTE = "/soak"
SCRIPT_ROUTE = "/soak/links.js"
SCRIPT = """\
// Locust's tables hold text only. A cell that names a page of the soak becomes a link to it.
const PAGE = /^\\/soak(\\/[0-9a-f]+)?$/;
function link() {
  for (const cell of document.querySelectorAll("td")) {
    if (cell.children.length || !PAGE.test(cell.textContent)) continue;
    const anchor = document.createElement("a");
    anchor.href = cell.textContent;
    anchor.target = "_blank";
    anchor.textContent = cell.textContent === "/soak" ? "page" : "story";
    anchor.style.cssText = "color: inherit; font-size: 0.875rem";
    // Beside the text, which stays for React to change: it then removes the link, and the next one is made here.
    cell.style.fontSize = "0";
    cell.append(anchor);
  }
}
new MutationObserver(link).observe(document, {childList: true, subtree: true, characterData: true});
"""

MEMORY_TAB = "soak-memory"
VIOLATIONS_TAB = "soak-violations"
TABS = [{"title": "Memory", "key": MEMORY_TAB}, {"title": "Violations", "key": VIOLATIONS_TAB}]
TABLES = [
    {
        "key": MEMORY_TAB,
        "structure": [
            {"key": "store", "title": "Store"},
            {"key": "acknowledged", "title": "# Acknowledged"},
            {"key": "verified", "title": "# Verified"},
            {"key": "violations", "title": "# Violations"},
            {"key": "tolerated", "title": "# Tolerated"},
            {"key": "self_check", "title": "Self-check"},
            {"key": "standing", "title": "So far"},
            {"key": "page", "title": "Page"},
        ],
    },
    {
        "key": VIOLATIONS_TAB,
        "structure": [
            {"key": "found", "title": "Found"},
            {"key": "kind", "title": "Kind"},
            {"key": "store", "title": "Store"},
            {"key": "message", "title": "Message"},
            {"key": "cause", "title": "Probable cause"},
            {"key": "state", "title": "State"},
            {"key": "detail", "title": "What is wrong"},
            {"key": "page", "title": "Story"},
        ],
    },
]


class DaemonSample(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon said last, and when."""

    at_wall_seconds: float
    status: dict[str, Any]
    violations: list[dict[str, Any]]
    is_live: bool = True
    """Whether it has answered each time since."""


class MemoryPage:
    """Keeps Locust's page informed."""

    def __init__(self, web_ui: Any, data_dir: Path) -> None:
        self._web_ui = web_ui
        self._data_dir = data_dir
        self._sample: DaemonSample | None = None

    def install(self) -> None:
        """Add the tabs, their rows, and a way to the daemon's own page."""
        arguments = self._web_ui.template_args
        arguments["extended_tabs"] = [*arguments.get("extended_tabs", []), *TABS]
        arguments["extended_tables"] = [*arguments.get("extended_tables", []), *TABLES]
        # Options stand in the order of their groups, not of the alphabet.
        self._web_ui.app.json.sort_keys = False
        self._web_ui.app.after_request(self._extend)
        self._web_ui.app.add_url_rule(ROUTE, "soak", self._lead_on)
        self._web_ui.app.add_url_rule(f"{ROUTE}/<violation>", "soak-violation", self._lead_on)
        self._web_ui.app.add_url_rule(SCRIPT_ROUTE, "soak-links", _script)

    def watch_for_ever(self) -> None:
        """Run as a greenlet next to the runner."""
        while True:
            try:
                self._sample = self._ask()
            except (OSError, ValueError, SoakError, http.client.HTTPException):
                self._sample = None if self._sample is None else msgspec.structs.replace(self._sample, is_live=False)
            gevent.sleep(ASK_SECONDS)

    def _ask(self) -> DaemonSample:
        address = self._address()
        status = _get(f"{address}/status")
        listed = _get(f"{address}/violations")
        return DaemonSample(
            at_wall_seconds=time.time(), status=status, violations=listed["violations"][:VIOLATIONS_SHOWN_MAX]
        )

    def _address(self) -> str:
        info = join.find(self._data_dir)
        if info is None or not info.http_address:
            raise OSError("no daemon answers for this folder")
        return info.http_address

    def _extend(self, response: Any) -> Any:
        from flask import request  # noqa: PLC0415  it is Locust's; a process without a page has no use for it

        if response.mimetype == "text/html" and response.status_code == 200 and not response.is_streamed:
            page = response.get_data(as_text=True)
            response.set_data(page.replace("</body>", f'<script src="{SCRIPT_ROUTE}"></script></body>', 1))
        if not request.path.endswith("/stats/requests") or not response.is_json or response.status_code != 200:
            return response
        answer = response.get_json()
        ours = {MEMORY_TAB: memory_rows(self._sample), VIOLATIONS_TAB: violation_rows(self._sample)}
        others = [one for one in answer.get("extended_stats", []) if one["key"] not in ours]
        answer["extended_stats"] = [*others, *({"key": key, "data": rows} for key, rows in ours.items())]
        response.set_data(json.dumps(answer))
        return response

    def _lead_on(self, violation: str = "") -> Any:
        from flask import Response, redirect  # noqa: PLC0415  as above

        anchor = f"#violation={urllib.parse.quote(violation)}" if violation else ""
        try:
            return redirect(f"{self._address()}/{anchor}")
        except (OSError, SoakError):
            return Response(
                "the soak does not answer; its page is there again when it does\n", 503, mimetype="text/plain"
            )


def _script() -> Any:
    from flask import Response  # noqa: PLC0415  as above

    return Response(SCRIPT, mimetype="text/javascript")


def memory_rows(sample: DaemonSample | None) -> list[dict[str, Any]]:
    """Return a row for each store; what is not known now says of when it is."""
    if sample is None:
        return numbered([{"store": "-", "standing": "the soak does not answer"}])
    verifier = sample.status.get("verifier")
    if verifier is None:
        return numbered(
            [{"store": store, "standing": "the verifier does not answer"} for store in sample.status["stores"]]
        )
    canaries = {one["store"]: one for one in verifier.get("canaries") or []}
    return numbered(
        [
            {
                **{key: one[key] for key in ("store", "acknowledged", "verified", "violations", "tolerated")},
                "self_check": _self_check(canaries.get(one["store"])),
                "standing": _standing(sample, one),
                "page": ROUTE,
            }
            for one in verifier["by_store"]
        ]
    )


def violation_rows(sample: DaemonSample | None) -> list[dict[str, Any]]:
    """Return the newest violations, the newest first."""
    if sample is None:
        return numbered([{"found": "-", "detail": "the soak does not answer"}])
    rows: list[dict[str, Any]] = [
        {
            "found": clock(one["found_at_wall_seconds"]),
            **{key: one[key] for key in ("kind", "store", "message", "cause", "state", "detail")},
            "page": f"{ROUTE}/{one['id']}",
        }
        for one in sample.violations
    ]
    return numbered(rows or [{"found": "-", "detail": f"none so far{_age(sample)}"}])


def numbered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each row the name that Locust's tables are sorted by, so that they stay in this order."""
    return [{"name": f"{number:06}", **row} for number, row in enumerate(rows)]


def _standing(sample: DaemonSample, one: dict[str, Any]) -> str:
    if one["violations"]:
        return f"violation{_age(sample)}"
    return f"{'clean so far' if one['verified'] else 'nothing verified yet'}{_age(sample)}"


def _age(sample: DaemonSample) -> str:
    return "" if sample.is_live else f" at {clock(sample.at_wall_seconds)}; the soak has not answered since"


def _self_check(canary: dict[str, Any] | None) -> str:
    if canary is None:
        return "off"
    failed = canary["missed"] + canary["early"]
    if failed:
        return f"failed: {failed} of {failed + canary['detected']} planted errors"
    found = canary["detected"]
    return f"{found} planted error{'' if found == 1 else 's'} detected" if found else "none planted yet"


def _get(address: str) -> dict[str, Any]:
    if urllib.parse.urlsplit(address).scheme != "http":
        raise ValueError(f"{address} is no address of a daemon")
    with urllib.request.urlopen(address, timeout=ANSWER_SECONDS_MAX) as answer:  # noqa: S310  just looked at
        found: dict[str, Any] = decode_json(answer.read(ANSWER_BYTES_MAX), type=dict[str, Any])
    return found
