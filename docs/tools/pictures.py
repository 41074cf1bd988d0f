"""Take the pictures of docs/images: a soak with a planted bug and faults, looked at in Chromium.

    make pictures
    .venv/bin/python docs/tools/pictures.py [NAME ...]

It needs Debian's chromium and Playwright. Finding, story, ended page and report are of one run of about a minute, the
clean page and the fault of another; the chat and Locust's page have short runs of their own. With names only those are
taken: page, story, phone, dark, ended, report, clean, fault, chat, locust.
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

from soak.servers.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
CHROMIUM_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
DESK = {"width": 1180, "height": 1000}
PHONE = {"width": 390, "height": 844}
BUGGY = "examples.overwriting_memory:OverwritingMemory"
SECONDS_MAX = 120.0
STORY = {"width": 1180, "height": 1180}
REPORT = {"width": 1180, "height": 1500}
OF_THE_BUG = {"page", "story", "phone", "dark", "ended", "report"}
OF_THE_CORRECT = {"clean", "fault"}
LOOKED_AT_SECONDS = 40.0
"""How long the soak runs before its page is taken: long enough for a fault and for charts with something in them."""
SETTINGS = """
[load]
users = 24
think = "600ms"
shared_share = 0.5
forget_share = 0

[stores]
names = ["{stores}"]

[verifier]
canary = "15s"

[faults]
healthy_min = "5s"

[[faults.rules]]
fault = "{fault}"
target = "redis"
every = "20s"
hold = "5s"
"""


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
def running(*command: str) -> Iterator[None]:
    """Run a command of soak's environment from the root of the repository; end it as Ctrl-C would."""
    folder = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    process = subprocess.Popen(
        [str(folder / command[0]), *command[1:]],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    context = browser.new_context(**{"viewport": DESK, **options})
    page = context.new_page()
    page.goto(address)
    try:
        yield page
    finally:
        context.close()


def take(page: Page, name: str) -> None:
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1024} KB")  # noqa: T201


@contextlib.contextmanager
def soaking(folder: Path, data: Path, stores: tuple[str, ...], fault: str) -> Iterator[str]:
    """Soak these stores with one fault again and again; yields the address of the page."""
    config = folder / f"{data.name}.toml"
    config.write_text(SETTINGS.format(stores='", "'.join(stores), fault=fault))
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with running("soak", "run", "--plain", "--config", str(config), "--data-dir", str(data), "--port", str(port)):
        until(lambda: answers(f"{address}/readyz"), "a start")
        yield address


def of_the_bug(browser: Browser, folder: Path, wanted: set[str]) -> None:
    """Soak the example with a bug beside a correct store; take the page, a story, the ended page and the report."""
    data = folder / "bug"
    with soaking(folder, data, (BUGGY, "redis-list"), "pause") as address:
        began = time.monotonic()
        until(lambda: is_found(address), "a finding with its cause")
        if "story" in wanted:  # before the first fault, so that the story is short
            with opened(browser, address, viewport=STORY) as page:
                page.locator("[data-violation]").first.click()
                page.get_by_role("heading", name="What happened").wait_for()
                page.wait_for_timeout(1500)
                take(page, "page-story")
        time.sleep(max(0.0, began + LOOKED_AT_SECONDS - time.monotonic()))
        for name, scheme in (("page", "light"), ("dark", "dark")):
            if name in wanted:
                with opened(browser, address, color_scheme=scheme) as page:
                    page.wait_for_timeout(2500)
                    take(page, "page" if name == "page" else "page-dark")
        if "phone" in wanted:
            with opened(browser, address, viewport=PHONE, device_scale_factor=2) as page:
                page.wait_for_timeout(2500)
                take(page, "page-phone")
        if "report" in wanted:  # which shows what a crash takes, too
            soak("inject", "crash", "--target", "redis", "--hold", "1s", "--data-dir", str(data))
    if "ended" in wanted:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        with running("soak", "page", str(data), "--port", str(port)):
            until(lambda: answers(address), "the page of the past run")
            with opened(browser, address) as page:
                page.wait_for_timeout(2000)
                take(page, "page-ended")
    if "report" in wanted:
        (folder / "report.html").write_text(soak("report", str(data), "--format", "html"))
        with opened(browser, (folder / "report.html").as_uri(), viewport=REPORT) as page:
            page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = false; })")
            page.wait_for_timeout(500)
            take(page, "report")


def of_the_correct(browser: Browser, folder: Path, wanted: set[str]) -> None:
    """Soak two correct stores on two servers, one of which crashes; take the page, and the charts during a crash."""
    with (
        soaking(folder, folder / "correct", ("redis-list", "postgres"), "crash") as address,
        opened(browser, address) as page,
    ):
        page.locator("#verdict[data-word=clean]").wait_for(timeout=SECONDS_MAX * 1000)
        page.wait_for_timeout(LOOKED_AT_SECONDS * 1000)
        if "clean" in wanted:
            take(page, "page-clean")
        if "fault" in wanted:
            page.locator("#charts").evaluate("(charts) => scrollTo(0, charts.offsetTop - 12)")
            page.get_by_text("active, by schedule").wait_for(timeout=SECONDS_MAX * 1000)
            page.wait_for_timeout(500)
            take(page, "page-fault")


def soak(*words: str) -> str:
    """Run a command of soak and return what it prints; a crash may take more than is promised, which is no failure."""
    command = [str(Path(sys.executable).parent / "soak"), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def is_found(address: str) -> bool:
    """Whether a message is listed as lost, with its cause."""
    with urllib.request.urlopen(f"{address}/violations?kind=lost", timeout=5) as answer:  # noqa: S310  our own address
        listed = json.loads(answer.read())
    return "concurrent overwrite" in json.dumps(listed)


def of_the_chat(browser: Browser, folder: Path) -> None:
    """Tell the chat a name, and ask for it."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with running("soak", "chat", "--port", str(port), "--data-dir", str(folder / "chat"), "--pace", "0ms"):
        until(lambda: answers(address), "the chat")
        with opened(browser, address, viewport={"width": 900, "height": 620}) as page:
            for words in ("My name is Ada", "What is my name?"):
                page.get_by_role("textbox").fill(words)
                page.keyboard.press("Enter")
                page.wait_for_timeout(2000)
            take(page, "chat")


def of_locust(browser: Browser, folder: Path) -> None:
    """Take the tab on Locust's own page that shows what was verified."""
    port = free_port()
    data = ("--data-dir", str(folder / "locust"))
    words = ("--store", BUGGY, "--store", "redis-list", "--think-time", "200ms", "--autostart", "-u", "20", "-r", "20")
    with running("locust", "-f", "locustfiles/sessions.py", *data, *words, "--web-port", str(port)):
        until(lambda: answers(f"http://127.0.0.1:{port}"), "Locust's page")
        with opened(browser, f"http://127.0.0.1:{port}", viewport={"width": 1180, "height": 520}) as page:
            page.wait_for_timeout(15_000)
            page.get_by_role("tab", name="Memory").click()
            page.wait_for_timeout(3_000)
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
    folder = Path(tempfile.mkdtemp(prefix="soak-pictures-"))
    folder.chmod(0o755)  # so that a PostgreSQL that runs as another user gets in
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
