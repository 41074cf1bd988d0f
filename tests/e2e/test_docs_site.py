"""The documentation builds as a site without a dead link or an orphan page, and a reader's browser asks nobody else."""

from __future__ import annotations

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser.legible import overflow_pixels
from tests.support.browser.windows import browsing, window
from tests.support.paths import ROOT

DESK = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(target)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of its parent
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_page_is_in_the_site_and_none_fetches_anything_from_elsewhere(site: Path) -> None:
    built = {page.stem for page in site.glob("*.html")}
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= built
    assert {"index", "contributing", "changelog", "security"} <= built
    fetched = re.compile(r'<(?:script|img|iframe|link)[^>]+(?:src|href)="?(?:https?:)?//[^>]*>')
    assert [link for page in site.glob("*.html") for link in fetched.findall(page.read_text())] == []


@pytest.mark.long
def test_it_fits_a_desk_and_a_phone_and_asks_nobody_else(site: Path, address: str) -> None:
    with browsing() as browser:
        every = sorted(page.name for page in site.glob("*.html"))
        for viewport, pages in ((DESK, ("index.html", "cli.html", "stores.html")), (PHONE, every)):
            with window(browser, viewport=viewport) as opened:
                wide = []
                for name in pages:
                    opened.go(f"{address}/{name}")
                    if overflow_pixels(opened.page) > 0:
                        wide.append(name)
                assert wide == []
                assert opened.complaints == []
                assert [asked for asked in opened.asked if not asked.startswith((address, "data:"))] == []
