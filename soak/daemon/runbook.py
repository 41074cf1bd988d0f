"""The runbook at the daemon's own address: what every alert links to, also where there is no network."""

from __future__ import annotations

import functools
import html
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from markdown_it.token import Token

PATH = "/runbook"
SOURCE = Path(__file__).with_name("runbook.md")
"""A link to docs/runbook.md, so that a wheel has it."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; border-radius: 4px }
h2 { margin-top: 3rem; padding-top: .5rem; border-top: 1px solid #8886 }
h2:target { background: #fd06 }
"""


class Runbook:
    """Answers with the runbook, or sends on to where yours is."""

    def __init__(self, elsewhere: str | None) -> None:
        """Take the address of the setting `http.runbook`; None: there is none."""
        self._elsewhere = elsewhere

    def routes(self) -> list[web.RouteDef]:
        return [web.get(PATH, self._answer)]

    async def _answer(self, _request: web.Request) -> web.Response:
        if self._elsewhere is not None:
            # The browser takes the part after # along: the alert's section.
            return web.Response(status=302, headers={"Location": self._elsewhere})
        return web.Response(text=page(), content_type="text/html", headers=HEADERS)


@functools.cache
def page() -> str:
    """Return the runbook as a page that loads nothing."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  sixty modules that most runs never need

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(SOURCE.read_text(encoding="utf-8"))
    for heading, content in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", content.content.lower().replace(" ", "-"))
    for token in tokens:
        token.children = _without_files(token.children) if token.children else token.children
    body = parser.renderer.render(tokens, parser.options, {})
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>soak: runbook</title>'
        f"<style>{html.escape(_STYLE)}</style></head>\n<body>\n{body}</body></html>\n"
    )


def _without_files(tokens: list[Token]) -> list[Token]:
    """Leave out links to files of the repository, which are not here; their text stays."""
    kept: list[Token] = []
    is_dropped = False
    for token in tokens:
        if token.type == "link_open":
            is_dropped = not str(token.attrGet("href")).startswith(("#", "http"))
        if not (is_dropped and token.type in {"link_open", "link_close"}):
            kept.append(token)
    return kept
