"""Making text harmless for the format it goes into. Whatever a store holds may stand in a report.

A message may hold anything: markup, links, characters that cannot be seen or that turn the reading direction round.
What cannot be seen is written out first, the same in all formats; then each format escapes what it would interpret.
"""

from __future__ import annotations

import html
import re

from soak.report.table import plain

_MARKDOWN = re.compile(r"[\\`*_\[\]#|~@:$]|(?<=www)\.")


def visible(text: str) -> str:
    """Write out what cannot be seen, line by line, so that the text can stand in a page of any kind."""
    return "\n".join(plain(line) for line in text.split("\n"))


def one_line(text: str, characters_max: int) -> str:
    """Return a text on one line of bounded length, with what cannot be seen written out."""
    return cut(plain(text[: characters_max + 1]), characters_max)


def cut(text: str, characters_max: int) -> str:
    """Return a text in bounded room; that something is missing can be seen."""
    return text if len(text) <= characters_max else text[: max(0, characters_max - 2)] + " …"


def markdown(text: str) -> str:
    """Return a text for Markdown of which nothing is taken for markup: not in a table, not as HTML, not as a link.

    As a character reference a sign has no meaning but itself; and names of people are not called in code.
    """
    safe = _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", html.escape(plain(text)))
    # html.escape has made references of its own, whose signs must stay.
    safe = re.sub(r"&&#35;(x?[0-9a-f]+);", r"&#\1;", safe)
    return f"<code>{safe}</code>"


def preformatted(text: str) -> str:
    """Return lines for a `<pre>` element, in HTML or in Markdown."""
    return html.escape(visible(text))
