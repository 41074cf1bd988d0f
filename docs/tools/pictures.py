"""Take the pictures of docs/images: a soak with a planted bug and faults, looked at in Chromium.

    make pictures
    .venv/bin/python docs/tools/pictures.py [NAME ...]

It needs Playwright, and Debian's chromium, fonts-dejavu-core and, for what participants say, fonts-noto-color-emoji.
Finding, story, ended page and report are of one run of about a minute, with the stores, the load and the fault of
`soak demo`; the clean page and the fault are of another. The chat and Locust's page have short runs of their own. With
names only those are taken: page, story, phone, dark, ended, report, clean, fault, chat, locust. What a picture has to
show is asked of the page before it is taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from soak.commands.demo import FAULT, LOAD, STORES
from soak.servers.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
CHROMIUM_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
DESK = {"width": 1180, "height": 1000}
PHONE = {"width": 390, "height": 844}
SECONDS_MAX = 120.0
STORY = {"width": 1180, "height": 1180}
REPORT = {"width": 1180, "height": 1500}
OF_THE_BUG = {"page", "story", "phone", "dark", "ended", "report"}
OF_THE_CORRECT = {"clean", "fault"}
LOOKED_AT_SECONDS = 40.0
"""How long the soak runs before its page is taken: long enough for a fault and for charts with something in them."""
BUG = (*(word for store in STORES for word in ("--store", store)), *LOAD, *FAULT)
CORRECT = ("--store", "redis-list", "--store", "postgres", *LOAD, "--fault", "crash:redis:every=20s,hold=5s")


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not happen within {SECONDS_MAX:.0f} s")
        time.sleep(0.3)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  our own address
            return bool(answer.status == 200)
    except OSError:
        return False


@contextlib.contextmanager
def running(folder: Path, *command: str) -> Iterator[None]:
    """Run a command of soak's environment in a folder; in the end ask it to end, and wait until it has."""
    programs = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    process = subprocess.Popen(
        [str(programs / command[0]), *command[1:]],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        # Ctrl-C would be ignored where this script runs in the background.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise SystemExit(f"{' '.join(command)} did not end within {SECONDS_MAX:.0f} s") from None


@contextlib.contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    context = browser.new_context(**{"viewport": DESK, **options})
    page = context.new_page()
    page.goto(address)
    try:
        yield page
    finally:
        context.close()


def take(page: Page, name: str, **shows: str) -> None:
    """Take a picture once the page says what it has to, in the parts with these ids."""
    for part, text in shows.items():
        page.locator(f"#{part}", has_text=text).wait_for(timeout=SECONDS_MAX * 1000)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1024} KB")  # noqa: T201


@contextlib.contextmanager
def soaking(folder: Path, data: str, words: tuple[str, ...]) -> Iterator[str]:
    """Soak until it is looked at; yields the address of the page. In the end it drains, and gives its verdict."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    here = ("--data-dir", data, "--port", str(port), "--set", "verifier.canary=15s")
    with running(folder, "soak", "run", "--plain", *words, *here):
        until(lambda: answers(f"{address}/readyz"), "a start")
        yield address


def of_the_bug(browser: Browser, folder: Path, wanted: set[str]) -> None:
    """Soak what `soak demo` soaks; take the page, a story, the ended page and the report."""
    with soaking(folder, "data", BUG) as address:
        began = time.monotonic()
        until(lambda: is_found(address), "a finding with its cause")
        if "story" in wanted:  # before the first fault, so that the story is short
            with opened(browser, address, viewport=STORY) as page:
                page.locator("[data-violation]").first.click()
                page.wait_for_timeout(1500)
                take(page, "page-story", story="What happened")
        time.sleep(max(0.0, began + LOOKED_AT_SECONDS - time.monotonic()))
        for name, scheme in (("page", "light"), ("dark", "dark")):
            if name in wanted:
                with opened(browser, address, color_scheme=scheme) as page:
                    page.wait_for_timeout(2500)
                    told = {"headline": "Memory forgets", "violations": "concurrent overwrite", "charts": "crash"}
                    take(page, "page" if name == "page" else "page-dark", **told)
        if "phone" in wanted:
            with opened(browser, address, viewport=PHONE, device_scale_factor=2) as page:
                page.wait_for_timeout(2500)
                take(page, "page-phone", headline="Memory forgets")
    told = json.loads((folder / "data" / "result.json").read_text())
    if (told["finished"], told["verdict"]) != (True, "violation"):
        raise SystemExit(f"the run of the bug ended as {told['verdict']}: {told['reasons']}")
    if "ended" in wanted:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        with running(folder, "soak", "page", "data", "--port", str(port)):
            until(lambda: answers(address), "the page of the past run")
            with opened(browser, address) as page:
                page.wait_for_timeout(2000)
                take(page, "page-ended", headline="Memory forgets", reasons="Final: the run ended", faults="crash")
    if "report" in wanted:
        write_report(folder)
        with opened(browser, (folder / "report.html").as_uri(), viewport=REPORT) as page:
            page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = false; })")
            page.wait_for_timeout(500)
            if "violation" not in page.locator("h1").inner_text() or page.locator("h1 .badge").count():
                raise SystemExit(f"the report is of a run that is {page.locator('h1').inner_text()}")
            take(page, "report")


def write_report(folder: Path) -> None:
    command = [str(Path(sys.executable).parent / "soak"), "report", "data", "--format", "html"]
    with (folder / "report.html").open("wb") as page:
        subprocess.run(command, cwd=folder, stdout=page, check=True)


def of_the_correct(browser: Browser, folder: Path, wanted: set[str]) -> None:
    """Soak two correct stores on two servers, one of which crashes; take the page, and the charts during a crash."""
    with soaking(folder, "correct", CORRECT) as address, opened(browser, address) as page:
        page.locator("#verdict[data-word=clean]").wait_for(timeout=SECONDS_MAX * 1000)
        page.wait_for_timeout(LOOKED_AT_SECONDS * 1000)
        if "clean" in wanted:
            take(page, "page-clean", headline="Clean so far", charts="crash")
        if "fault" in wanted:
            page.locator("#charts").evaluate("(charts) => scrollTo(0, charts.offsetTop - 12)")
            page.get_by_text("active, by schedule").wait_for(timeout=SECONDS_MAX * 1000)
            page.wait_for_timeout(500)
            take(page, "page-fault", faults="active, by schedule", charts="crash")


def is_found(address: str) -> bool:
    """Whether a message is listed as lost, with its cause."""
    with urllib.request.urlopen(f"{address}/violations?kind=lost", timeout=5) as answer:  # noqa: S310  our own address
        listed = json.loads(answer.read())
    return "concurrent overwrite" in json.dumps(listed)


def of_the_chat(browser: Browser, folder: Path) -> None:
    """Tell the chat a name, and ask for it."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with running(folder, "soak", "chat", "--port", str(port), "--data-dir", str(folder / "chat"), "--pace", "0ms"):
        until(lambda: answers(address), "the chat")
        with opened(browser, address, viewport={"width": 900, "height": 620}) as page:
            for words in ("My name is Ada", "What is my name?"):
                page.get_by_role("textbox").fill(words)
                page.keyboard.press("Enter")
                page.wait_for_timeout(2000)
            if "Ada" not in page.locator("body").inner_text().rpartition("What is my name?")[2]:
                raise SystemExit("the chat does not remember the name")
            take(page, "chat")


def of_locust(browser: Browser, folder: Path) -> None:
    """Take the tab on Locust's own page that shows what was verified."""
    port = free_port()
    words = (*(word for store in STORES for word in ("--store", store)), "--think-time", "200ms", "--autostart")
    words += ("-u", "20", "-r", "20", "--data-dir", "locust", "--web-port", str(port))
    with running(folder, "locust", "-f", str(ROOT / "locustfiles" / "sessions.py"), *words):
        until(lambda: answers(f"http://127.0.0.1:{port}"), "Locust's page")
        with opened(browser, f"http://127.0.0.1:{port}", viewport={"width": 1180, "height": 520}) as page:
            page.wait_for_timeout(15_000)
            page.get_by_role("tab", name="Memory").click()
            page.wait_for_timeout(3_000)
            page.get_by_text("WholeHistoryOverwrite").first.wait_for()
            take(page, "locust-memory")


def main(names: list[str]) -> None:
    """Take the pictures that are named, or all."""
    every = {*OF_THE_BUG, *OF_THE_CORRECT, "chat", "locust"}
    wanted = set(names) or every
    if wanted - every:
        raise SystemExit(
            f"there is no picture {', '.join(sorted(wanted - every))}; choose from {', '.join(sorted(every))}"
        )
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed (Debian: apt install chromium)")
    # Commands in the pictures name it: where `soak demo --folder /tmp/soak-demo` would put the same.
    folder = Path(tempfile.gettempdir()) / "soak-demo"
    try:
        folder.mkdir(mode=0o755)  # so that a PostgreSQL that runs as another user gets in
    except FileExistsError:
        raise SystemExit(f"{folder} is there already; remove it first") from None
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_ARGUMENTS))
            if wanted & OF_THE_BUG:
                of_the_bug(browser, folder, wanted)
            if wanted & OF_THE_CORRECT:
                of_the_correct(browser, folder, wanted)
            if "chat" in wanted:
                of_the_chat(browser, folder)
            if "locust" in wanted:
                of_locust(browser, folder)
            browser.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
