"""The status page in a real browser: true, live, harmless, and usable by everybody."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from soak.errors import ExitCode
from soak.servers.ports import free_port
from tests.support.browser.legible import faint_texts, heading_levels, landmarks, nameless_controls, overflow_pixels
from tests.support.browser.windows import Window, browsing, window
from tests.support.checking import BUSY, RunningCheck, checking, new_folder, total
from tests.support.paths import ROOT
from tests.support.stores.flawed import HOSTILE

pytestmark = [pytest.mark.long, pytest.mark.slow]

FLAWED = "tests.support.stores.flawed:HostileMemoryWithANameThatIsTooLongForAPhone"
QUICK = (*BUSY, "--users", "8", "--set", "verifier.canary=2s", "--duration", "10m")
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def check() -> Iterator[RunningCheck]:
    """Start a soak that goes on, of one store that is right and one that is wrong."""
    with checking("--store", FLAWED, "--store", "redis-list", *QUICK) as running:
        running.until(lambda status: total(status, "violations") >= 2 and total(status, "verified") >= 200)
        yield running


@pytest.fixture
def shown(browser: Any, check: RunningCheck) -> Iterator[Window]:
    with window(browser) as opened:
        opened.go(address(check))
        opened.page.locator("[data-violation]").first.wait_for()
        yield opened


def address(check: RunningCheck) -> str:
    return str(json.loads((check.data_dir / "run.json").read_text())["http_address"]) + "/"


def soak(check: RunningCheck, *words: str) -> str:
    command = [sys.executable, "-m", "soak", *words, "--data-dir", str(check.data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    return done.stdout


def seconds_of_age(opened: Window) -> str:
    return opened.page.locator("#run div", has_text="age").locator("dd").inner_text()  # type: ignore[no-any-return]


def test_it_tells_the_truth_live_and_asks_nobody_else(shown: Window, check: RunningCheck) -> None:
    page, here = shown.page, address(check)
    status = check.status()
    assert page.locator("#verdict").get_attribute("data-word") == "violation"
    assert "violations of the contract" in shown.text("#headline")
    assert re.search(rf"\d leaked messages? on {FLAWED} in \d+ session", shown.text("#reasons"))
    assert status["run"] in shown.text("#run")
    assert "running" in shown.text("#run")
    for words in ("redis-list", FLAWED, "durability", "can be kept"):
        assert words in page.locator("#stores").text_content()
    shown.until(lambda: "rings" in shown.text("#watch"))
    for words in ("verifier", "load", "ledger", "redis://127.0.0.1:"):
        assert words in shown.text("#processes")
    shown.until(lambda: page.locator("figure").count() == 4)
    shown.until(lambda: all("L" in path for path in lines_of(page)))
    before, age = shown.text("#numbers"), seconds_of_age(shown)
    shown.until(lambda: shown.text("#numbers") != before and seconds_of_age(shown) != age)
    assert shown.complaints == []
    assert [url for url in shown.asked if not url.startswith(here)] == []


def lines_of(page: Any) -> list[str]:
    """Return the lines of appends in the charts of rates."""
    found: list[str] = page.eval_on_selector_all(
        "figure svg.chart path.line.one:not(.dashed)", "all => all.map((one) => one.getAttribute('d'))"
    )
    return found


def test_a_violation_has_its_story_one_click_away_and_says_what_soak_explain_says(
    shown: Window, check: RunningCheck
) -> None:
    page = shown.page
    page.locator("#filter-kind").select_option("leaked")
    shown.until(lambda: "leaked" in shown.text("#violations-list") and "lost" not in shown.text("#violations-list"))
    page.locator("[data-violation]").first.click()
    dialog = page.locator("#story")
    dialog.get_by_role("heading", name="What to do next").wait_for()
    identity = page.url.partition("#violation=")[2]
    told = json.loads(soak(check, "explain", identity, "--json"))
    story = dialog.inner_text()
    assert f"Probable cause: {told['probable_cause']['cause']}" in story
    for moment in told["timeline"]:
        assert moment["what"] in story
    for command in told["next"]:
        assert command in story
    with page.expect_download() as download:
        dialog.get_by_role("link", name="Download the evidence").click()
    evidence = Path(download.value.path())
    assert evidence.read_bytes() == Path(told["evidence"]).read_bytes()
    page.reload()  # the story has an address of its own
    dialog.get_by_role("heading", name="What to do next").wait_for()


def test_one_bug_is_one_card_and_its_violations_are_asked_for_when_they_are_wanted(
    shown: Window, check: RunningCheck
) -> None:
    page = shown.page
    findings = {one["id"]: one for one in check.status()["verifier"]["findings"]}
    shown.until(lambda: page.locator("[data-finding]").count() >= len(findings))
    assert not any("/violations?" in url for url in shown.asked), "none is shown, and none was asked for"
    (leaked,) = [one for one in findings.values() if one["kind"] == "leaked"]
    card = page.locator(f'[data-finding="{leaked["id"]}"]')
    assert re.search(rf"leaked messages? on {re.escape(FLAWED)} in ", card.inner_text())
    card.locator("summary").click()
    card.locator(".singles [data-violation]").first.wait_for()
    asked = [url for url in shown.asked if "/violations?" in url]
    assert all(f"finding={leaked['id']}" in url for url in asked)
    before = card.locator("h3").inner_text()
    shown.until(lambda: card.locator("h3").inner_text() != before)
    assert card.locator("details").get_attribute("open") is not None, "it stays open while the numbers grow"
    listed = json.loads(soak(check, "violations", "--json", "--store", FLAWED))
    assert {one["id"] for one in listed} >= set(findings)
    assert shown.complaints == []


def test_what_a_store_says_is_shown_as_text_and_never_run(shown: Window) -> None:
    page = shown.page
    page.locator("#filter-kind").select_option("leaked")
    hostile = page.locator("[data-violation]", has_text=HOSTILE).first
    hostile.wait_for()
    hostile.click()
    page.locator("#story").get_by_role("heading", name="What to do next").wait_for()
    assert HOSTILE in shown.text("#story")
    assert page.locator("img:not(.brand img)").count() == 0
    assert page.locator("body script").count() == 0
    assert page.evaluate("() => document.body.dataset.owned") is None
    assert shown.complaints == []


def test_it_can_be_used_by_keyboard_alone(shown: Window) -> None:
    page = shown.page
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the verdict"
    reached = None
    for _ in range(60):
        page.keyboard.press("Tab")
        reached = page.evaluate("() => document.activeElement.dataset.violation")
        if reached:
            break
    assert reached
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.keyboard.press("Enter")
    page.locator("#story").get_by_role("heading", name="What to do next").wait_for()
    assert page.evaluate("() => document.activeElement.closest('dialog')?.id") == "story"
    page.keyboard.press("Escape")
    shown.until(lambda: not page.locator("#story").is_visible())
    # Back in the list, on the same one unless so many were found meanwhile that it is no longer shown.
    is_shown = page.locator(f'[data-violation="{reached}"]').count() == 1
    focused = page.evaluate("() => document.activeElement.dataset.violation")
    assert focused == reached if is_shown else focused


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(browser: Any, check: RunningCheck, scheme: str) -> None:
    with window(browser, color_scheme=scheme, reduced_motion="reduce") as opened:
        page = opened.page
        opened.go(address(check))
        page.locator("[data-violation]").first.wait_for()
        ground = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 384) == (scheme == "dark")
        assert landmarks(page) == {"header": 1, "main": 1, "footer": 1, "nav": 1}
        for part in ("the page", "a story"):
            if part == "a story":
                page.locator("[data-violation]").first.click()
                page.locator("#story").get_by_role("heading", name="What to do next").wait_for()
            assert nameless_controls(page) == []
            assert faint_texts(page) == []
            levels = heading_levels(page)
            assert levels[0] == 1
            assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels)), levels
        assert page.locator("table th:not([scope])").count() == 0
        assert page.locator("[role=status]").count() >= 1
        assert page.evaluate("() => document.getAnimations().length") == 0


def test_the_checks_of_legibility_find_what_is_wrong(shown: Window) -> None:
    page = shown.page
    page.evaluate("""() => {
      const button = document.createElement("button");
      button.id = "planted";
      document.querySelector("main").append(button);
      document.getElementById("headline").style.color = "#ccc";
      const wide = document.createElement("div");
      wide.style.width = "3000px";
      wide.textContent = "wide";
      document.querySelector("main").append(wide);
    }""")
    assert any("planted" in one for one in nameless_controls(page))
    assert any("violations of the contract" in one["text"] for one in faint_texts(page))
    assert overflow_pixels(page) > 1000


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, check: RunningCheck) -> None:
    with window(browser, **PHONE) as opened:
        page = opened.page
        opened.go(address(check))
        page.locator("[data-violation]").first.wait_for()
        opened.until(lambda: page.locator("figure").count() == 4)
        assert overflow_pixels(page) == 0
        page.locator("[data-violation]").first.tap()
        page.locator("#story").get_by_role("heading", name="What to do next").wait_for()
        beyond = page.locator("#story").evaluate("(dialog) => dialog.scrollWidth - dialog.clientWidth")
        assert beyond == 0


def test_a_page_that_was_only_opened_may_look_but_not_act(shown: Window, check: RunningCheck) -> None:
    page = shown.page
    assert "may look, but not act" in shown.text("#actions")
    assert page.get_by_role("button", name="Stop and give the verdict").count() == 0
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Use it").click()
    shown.until(lambda: "not the token of this run" in shown.text("#answer"))
    page.get_by_label("Token").fill(json.loads((check.data_dir / "run.json").read_text())["token"])
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("button", name="Stop and give the verdict").wait_for()


def test_a_link_works_once_and_a_fault_is_asked_about_then_done_and_measured(browser: Any, check: RunningCheck) -> None:
    link = soak(check, "page").strip()
    with window(browser) as opened:
        page = opened.page
        opened.go(link)
        inject = page.get_by_role("button", name="Break it …")
        inject.wait_for()
        assert "code" not in page.url
        assert "not possible here" in page.locator("#fault option[disabled]").first.text_content()
        page.get_by_label("Fault", exact=True).select_option("pause")
        page.get_by_label("For", exact=True).fill("500ms")
        inject.click()
        page.get_by_role("heading", name="Pause redis for 500ms?").wait_for()
        page.keyboard.press("Enter")  # the careless answer is no
        opened.until(lambda: not page.locator("#question").is_visible())
        assert check.status()["faults_recent"] == []
        inject.click()
        page.locator("#question").get_by_role("button", name="Break it").click()
        opened.until(lambda: "is healed" in opened.text("#answer"))
        opened.until(lambda: "healed after" in opened.text("#faults") and "kept" in opened.text("#faults"))
        assert "nothing may be lost" in opened.text("#faults")
        shaded = page.locator("figure rect.fault")
        opened.until(lambda: shaded.count() == 4)
        assert opened.complaints == []
    with window(browser) as second:
        second.go(link)
        second.until(lambda: "was used before" in second.text("#answer"))
        assert "may look, but not act" in second.text("#actions")


CROSS_SITE = Path(__file__).with_name("cross_site.js").read_text()


def test_a_page_of_another_site_can_neither_act_nor_watch_even_with_the_token(
    browser: Any, check: RunningCheck
) -> None:
    token = json.loads((check.data_dir / "run.json").read_text())["token"]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with window(browser) as opened:
            opened.go(f"http://127.0.0.1:{server.server_port}/")  # a 501 of its own, and another origin
            told = opened.page.evaluate(CROSS_SITE, [address(check), token])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert {way: answer for way, answer in told.items() if not way.startswith("blind")} == dict.fromkeys(
        (
            "simple stop",
            "simple faults",
            "simple session",
            "tokened stop",
            "tokened faults",
            "tokened session",
            "events",
        ),
        "refused",
    )
    status = check.status()
    assert (status["phase"], [one for one in status["faults_recent"] if one["name"] == "crash"]) == ("running", [])


def _press_stop(opened: Window, running: RunningCheck) -> None:
    """Stop a soak from its page; again if nothing comes of it, for Chromium drops requests when an interface changes.

    Those of containers do, in other tests at the same time.
    """
    for _ in range(2):
        with contextlib.suppress(AssertionError):
            return _press_stop_once(opened, running, 20.0)
    return _press_stop_once(opened, running, 60.0)


def _press_stop_once(opened: Window, running: RunningCheck, seconds: float) -> None:
    page = opened.page
    opened.go(soak(running, "page").strip())
    page.get_by_role("button", name="Stop and give the verdict").click()
    page.locator("#question").get_by_role("button", name="Stop and give the verdict").click()
    opened.until(lambda: "draining" in opened.text("#run"), seconds)


def test_a_killed_daemon_is_never_shown_as_clean_its_successor_is_and_the_stop_button_ends_it(browser: Any) -> None:
    with new_folder() as folder:
        words = ("--store", "redis-list", *QUICK, "--port", str(free_port()))
        first = RunningCheck(folder, *words)
        second = None
        try:
            first.until_verified(50)
            with window(browser) as opened:
                page = opened.page
                word = page.locator("#verdict")
                opened.go(address(first))
                opened.until(lambda: word.get_attribute("data-word") == "clean")
                assert "Clean so far" in opened.text("#headline")
                first.process.send_signal(signal.SIGKILL)
                first.process.wait()
                opened.until(lambda: word.get_attribute("data-word") == "waiting")
                assert "Connection lost since" in opened.text("#lost")
                assert "trying again" in opened.text("#lost")
                assert opened.text("#headline") == "Not live"
                assert "clean" not in page.title()
                second = RunningCheck(folder, *words)
                opened.until(lambda: word.get_attribute("data-word") == "clean")
                assert not page.locator("#lost").is_visible()
                _press_stop(opened, second)
                opened.until(lambda: opened.text("#headline") == "Pass: the run has ended")
                told = second.wait()
                page.wait_for_timeout(6_000)  # longer than silence takes to be noticed
                assert opened.text("#headline") == "Pass: the run has ended"
                assert not page.locator("#lost").is_visible()
        finally:
            first.close()
            if second is not None:
                second.close()
        assert (second.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), second.output
