"""The files of the page, read once, and the headers that keep everything else out of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

FOLDER = Path(__file__).parent / "files"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
DIRECTIVES = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    # Text never becomes markup: no script of the page may even try.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS = {
    "Content-Security-Policy": "; ".join(DIRECTIVES),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # It is small and nearby; a daemon that was upgraded must not meet the script of its predecessor.
    "Cache-Control": "no-cache",
}


class Asset(NamedTuple):
    """One file."""

    body: bytes
    content_type: str
    tag: str
    """Changes when the file does."""


def read_assets(folder: Path = FOLDER) -> dict[str, Asset]:
    """Read all files of a page, by name."""
    return {path.name: _asset(path) for path in sorted(folder.iterdir()) if path.suffix in TYPES}


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(body, TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:16]}"')


def answer_file(request: web.Request, asset: Asset) -> web.Response:
    """Answer with a file, or with 304 where the browser has it already."""
    headers = {**HEADERS, "ETag": asset.tag}
    if request.headers.get("If-None-Match") == asset.tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=asset.body, headers={**headers, "Content-Type": asset.content_type})
