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
from tests.support import command
from tests.support.browser.legible import faint_texts, heading_levels, landmarks, nameless_controls, overflow_pixels
from tests.support.browser.windows import Window, window
from tests.support.checking import BUSY, SECONDS_MAX, RunningCheck, checking, new_folder, total
from tests.support.paths import ROOT
from tests.support.stores.flawed import HOSTILE

pytestmark = [pytest.mark.long, pytest.mark.slow]

FLAWED = "tests.support.stores.flawed:HostileMemoryWithANameThatIsTooLongForAPhone"
QUICK = (*BUSY, "--users", "8", "--set", "verifier.canary=2s", "--duration", "10m")
SHORT = FLAWED.rpartition(":")[2]
CHARTS = 7
"""Two of each store, and the violations of the one that is wrong."""
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


@pytest.fixture(scope="module")
def check() -> Iterator[RunningCheck]:
    """Start a soak that goes on, of two stores that are right and one that is wrong, on two servers."""
    with checking("--store", FLAWED, "--store", "redis-list", "--store", "postgres", *QUICK) as running:
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
    done = command.soak(*words, "--data-dir", str(check.data_dir), cwd=ROOT)
    assert done.returncode == ExitCode.PASS, done.stderr
    return done.stdout


def seconds_of_age(opened: Window) -> str:
    return opened.page.locator("#run div", has_text="age").locator("dd").inner_text()  # type: ignore[no-any-return]


def test_it_tells_the_truth_live_and_asks_nobody_else(shown: Window, check: RunningCheck) -> None:
    page, here = shown.page, address(check)
    status = check.status()
    assert page.locator("#verdict").get_attribute("data-word") == "violation"
    assert re.match(rf"Memory [a-z ]+: [\d,]+ .* on {SHORT}\b.*, .*; \d+ more finding", shown.text("#headline"))
    assert re.search(rf"\d leaked messages? on {FLAWED} in \d+ session", shown.text("#violations"))
    assert status["run"] in shown.text("#run")
    assert "running" in shown.text("#run")
    for words in ("redis-list", FLAWED, "durability"):
        assert words in page.locator("#stores").text_content()
    for store, word in (("redis-list", "kept so far"), ("postgres", "kept so far"), (FLAWED, "broken: ")):
        assert word in page.locator("#stores summary", has_text=f"Contract of {store}").inner_text()
    shown.until(lambda: "passed" in shown.text("#watch"))
    for words in ("verifier", "load", "ledger", "redis://127.0.0.1:"):
        assert words in shown.text("#processes")
    shown.until(lambda: page.locator("figure").count() == CHARTS)
    shown.until(lambda: len(lines_of(page)) >= 3 and all("L" in path for path in lines_of(page)))
    before, age = shown.text("#numbers"), seconds_of_age(shown)
    shown.until(lambda: shown.text("#numbers") != before and seconds_of_age(shown) != age)
    assert shown.complaints == []
    assert [url for url in shown.asked if not url.startswith(here)] == []


def lines_of(page: Any) -> list[str]:
    """Return the lines of appends in the charts of rates."""
    found: list[str] = page.eval_on_selector_all(
        "[data-kind='operations per second'] svg.chart path.line.a", "all => all.map((one) => one.getAttribute('d'))"
    )
    return found


def test_a_violation_has_its_story_one_click_away_and_says_what_soak_explain_says(
    shown: Window, check: RunningCheck
) -> None:
    page = shown.page
    stores = page.locator("#filter-store option").all_text_contents()
    assert stores[1:] == check.status()["stores"], "each as it is written on the command line"
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
    for next_step in told["next"]:
        assert next_step in story
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


def test_what_the_code_of_a_store_raises_is_told_once_with_type_text_and_place(shown: Window) -> None:
    page = shown.page
    shown.until(lambda: page.locator("#errors").is_visible())
    rows = page.locator("#errors tbody tr")
    assert rows.count() == 1
    raised = rows.first.inner_text()
    assert f"append raised ValueError: no token for {HOSTILE}" in raised
    assert re.search(r"flawed\.py:\d+", raised)
    assert "programming error" in raised
    before = rows.first.locator("td").nth(2).inner_text()
    shown.until(lambda: rows.first.locator("td").nth(2).inner_text() != before)
    assert rows.count() == 1, "it is counted, and not listed again"


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
    assert any(one["text"].startswith("Memory ") for one in faint_texts(page))
    assert overflow_pixels(page) > 1000


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, check: RunningCheck) -> None:
    with window(browser, **PHONE) as opened:
        page = opened.page
        opened.go(address(check))
        page.locator("[data-violation]").first.wait_for()
        opened.until(lambda: page.locator("figure").count() == CHARTS)
        assert overflow_pixels(page) == 0
        assert opened.text("#numbers").startswith("violations")
        beyond = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel)"
        assert page.eval_on_selector_all(".scroll", beyond) == [], "no column is cut off"
        page.locator("[data-violation]").first.tap()
        page.locator("#story").get_by_role("heading", name="What to do next").wait_for()
        beyond = page.locator("#story").evaluate("(dialog) => dialog.scrollWidth - dialog.clientWidth")
        assert beyond == 0


def test_a_page_that_was_only_opened_may_look_but_not_act(shown: Window, check: RunningCheck) -> None:
    page = shown.page
    assert "Read-only view" in shown.text("#actions")
    assert page.get_by_role("button", name="Stop and give the verdict").count() == 0
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Use it").click()
    shown.until(lambda: "not the token of this run" in shown.text("#answer"))
    page.get_by_label("Token").fill(json.loads((check.data_dir / "run.json").read_text())["token"])
    page.get_by_role("button", name="Use it").click()
    page.get_by_role("button", name="Stop and give the verdict").wait_for()


def tops(page: Any) -> dict[str, float]:
    """Return where each part of the page begins."""
    found: dict[str, float] = page.eval_on_selector_all(
        "main section.card:not([hidden])", "all => Object.fromEntries(all.map((one) => [one.id, one.offsetTop]))"
    )
    return found


def test_a_link_works_once_and_a_fault_is_asked_about_then_done_and_measured_and_moves_nothing(
    browser: Any, check: RunningCheck
) -> None:
    link = soak(check, "page").strip()
    with window(browser) as opened:
        page = opened.page
        opened.go(link)
        inject = page.get_by_role("button", name="Inject …")
        inject.wait_for()
        assert "code" not in page.url
        assert "not possible here" in page.locator("#fault option[disabled]").first.text_content()
        page.get_by_label("Fault", exact=True).select_option("crash")
        page.get_by_label("For", exact=True).fill("4s")
        inject.click()
        page.get_by_role("heading", name="Crash redis for 4s?").wait_for()
        page.keyboard.press("Enter")  # the careless answer is no
        opened.until(lambda: not page.locator("#question").is_visible())
        assert check.status()["faults_recent"] == []
        opened.until(lambda: page.locator("figure").count() == CHARTS)
        inject.click()
        page.locator("#question").get_by_role("button", name="Inject", exact=True).click()
        opened.until(lambda: "active, by hand" in opened.text("#faults"))
        opened.until(lambda: "stopped" in opened.text("#processes"))
        during = tops(page)
        assert not page.locator("#warnings").is_visible(), "a fault that was asked for is no warning"
        opened.until(lambda: "is healed" in opened.text("#answer"))
        opened.until(lambda: "healed after" in opened.text("#faults") and "2s allowed" in opened.text("#faults"))
        assert {part: top for part, top in tops(page).items() if part in ABOVE_FAULTS} == {
            part: top for part, top in during.items() if part in ABOVE_FAULTS
        }
        assert "1 by faults" in opened.text("#processes")
        opened.until(lambda: shaded(page, "redis-list") == ["crash"] * 2)
        assert (shaded(page, FLAWED), shaded(page, "postgres")) == (["crash"] * 3, []), "only where its server is"
        assert opened.complaints == []
    with window(browser) as second:
        second.go(link)
        second.until(lambda: "was used before" in second.text("#answer"))
        assert "Read-only view" in second.text("#actions")


ABOVE_FAULTS = ("verdict", "charts", "faults")


def shaded(page: Any, store: str) -> list[str]:
    """Return the names of the faults behind the charts of a store."""
    found: list[str] = page.eval_on_selector_all(
        f"section[aria-label='Charts of {store}'] text.fault", "all => all.map((one) => one.textContent)"
    )
    return found


def test_the_charts_share_a_cursor_and_a_zoom_and_say_in_words_what_they_show(shown: Window) -> None:
    page = shown.page
    shown.until(lambda: page.locator("figure").count() == CHARTS)
    shown.until(lambda: len(times_of(page)) >= 2)
    assert all(re.fullmatch(r"\d\d:\d\d(:\d\d)?", time) for time in times_of(page))
    label = page.locator("svg.chart").first.get_attribute("aria-label")
    assert re.search(r"operations per second of .*: appends mostly [\d.,]+/s, at most .*; (\d+|no) fault", label)
    page.locator("svg.chart").first.scroll_into_view_if_needed()
    box = page.locator("svg.chart").first.bounding_box()
    left, middle = box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2
    page.mouse.move(left, middle)
    assert page.locator("line.cursor").count() == CHARTS
    assert all(re.match(r"\d\d:\d\d:\d\d", one) for one in page.locator(".readout").all_inner_texts())
    before = spans(page)
    page.mouse.down()
    page.mouse.move(left + box["width"] * 0.2, middle, steps=4)
    assert page.locator("rect.chosen").count() == CHARTS
    page.mouse.up()
    zoomed = spans(page)
    assert len(set(zoomed)) == 1 < len({*before, *zoomed}), "all show the same part of the time"
    page.wait_for_timeout(1_500)
    assert spans(page) == zoomed, "time goes on, and what is looked at stays"
    page.mouse.dblclick(left, middle)
    assert page.locator("#unzoom").is_disabled()
    page.locator("svg.chart").first.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("+")
    assert page.locator("line.cursor").count() == CHARTS
    page.get_by_role("button", name="Reset zoom").click()
    assert page.locator("#unzoom").is_disabled()
    assert shown.complaints == []


def test_addresses_and_what_is_under_the_cursor_are_shown_in_full(shown: Window) -> None:
    shown.page.set_viewport_size({"width": 1000, "height": 800})
    shown.until(lambda: shown.page.locator("figure").count() == CHARTS)
    shown.page.locator("svg.chart").first.focus()
    shown.page.keyboard.press("ArrowLeft")
    cut = "(one) => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight + 1"
    whole = f"all => all.filter({cut}).map((one) => one.textContent)"
    assert shown.page.eval_on_selector_all(".readout", whole) == []
    hidden = "all => all.map((one) => one.scrollWidth - one.clientWidth).filter((pixels) => pixels > 0)"
    assert shown.page.eval_on_selector_all("#processes .scroll", hidden) == []


def test_what_a_fault_took_while_it_was_under_way_counts_as_lost_like_in_the_report(shown: Window) -> None:
    row = {
        "fault": "crash-1",
        "kind": "crash",
        "server": "redis",
        "store": "mine",
        "planned": True,
        "at_wall_seconds": 1.0,
        "promised_seconds": 2.0,
        "point_seconds": 0.0,
        "after_seconds": 2.258,
        "is_at_least": False,
        "is_unread": False,
        "tolerated": 2,
        "lost": 0,
        "kept": True,
        "read_seconds": 2.2,
        "write_seconds": 2.2,
        "unknown": 0,
        "surfaced": 0,
    }
    told = shown.page.evaluate(
        """async (row) => {
          const { showFaults } = await import("/page/faults.js");
          const verifier = { recoveries: [row] };
          showFaults({ soak: { faults_recent: [], faults_active: [], fault_next: null, verifier }, end: {} }, null);
          return document.getElementById("faults-list").innerText;
        }""",
        row,
    )
    assert re.search(r"2\.26s\s+2s allowed", told)


def times_of(page: Any) -> list[str]:
    found: list[str] = page.locator("svg.chart").first.locator("text.time").all_text_contents()
    return found


def spans(page: Any) -> list[str]:
    """Return from when to when each chart goes, by its own words."""
    labels = page.eval_on_selector_all("svg.chart", "all => all.map((one) => one.ariaLabel)")
    return [re.sub(r".*, (\S+ to \S+): .*", r"\1", label) for label in labels]


def test_a_finding_shows_the_words_that_were_lost_and_a_wide_screen_is_used(browser: Any, check: RunningCheck) -> None:
    with window(browser, viewport={"width": 2200, "height": 1200}) as opened:
        page = opened.page
        opened.go(address(check))
        quote = page.locator("article.finding blockquote").first
        quote.wait_for()
        quoted = quote.locator("p").first.inner_text()
        quote.locator("[data-violation]").click()
        page.locator("#story").get_by_role("heading", name="What was written").wait_for()
        assert quoted in page.locator("#story").inner_text()
        page.keyboard.press("Escape")
        assert overflow_pixels(page) == 0
        right = page.locator("#stores").bounding_box()
        assert right["x"] > page.locator("#violations").bounding_box()["x"] + 1000, (
            "the stores stand beside the findings"
        )
        assert right["x"] + right["width"] > 2100


CROSS_SITE = Path(__file__).with_name("cross_site.js").read_text()


def test_a_page_of_another_site_can_neither_act_nor_watch_even_with_the_token(
    browser: Any, check: RunningCheck
) -> None:
    token = json.loads((check.data_dir / "run.json").read_text())["token"]
    before = check.status()["faults_recent"]
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
    assert (status["phase"], status["faults_recent"]) == ("running", before)


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


def settled(opened: Window) -> dict[str, str]:
    """Return what a page says that must not depend on when it is opened."""
    return {part: opened.text(part) for part in ("#headline", "#numbers", "#stores", "#watch")}


def assert_over(opened: Window) -> None:
    """Nothing on the page looks as if it went on, or as if it were not known."""
    told = opened.text("main")
    assert "running" not in told.replace("running soak", "")
    assert "\u2013" not in told, "a dash stands for what is not known"
    assert re.search(r"ended|not known now", opened.text("#processes"))
    assert opened.page.get_by_role("button", name="Stop and give the verdict").count() == 0
    assert opened.page.locator("svg.chart path.line").count() >= 4
    assert [one for one in opened.complaints if CUT_OFF not in one] == []


CUT_OFF = "ERR_INCOMPLETE_CHUNKED_ENCODING"
"""What Chromium says of a daemon that was killed."""


@contextlib.contextmanager
def past_page(data_dir: Path, *words: str) -> Iterator[str]:
    """Serve the page of a past run; Ctrl-C ends it."""
    serve = [sys.executable, "-m", "soak", "page", *words, "--data-dir", str(data_dir)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as serving:
        assert serving.stdout is not None
        said = serving.stdout.readline()
        try:
            found = re.search(r"at (http://127\.0\.0\.1:\d+/)", said)
            assert found, said + serving.stdout.read()
            yield found[1]
        finally:
            serving.send_signal(signal.SIGINT)
            code = serving.wait(SECONDS_MAX)
        assert (code, serving.stdout.read()) == (ExitCode.PASS, "")


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
                opened.until(lambda: page.locator("svg.chart path.line").count() >= 4)
                first.process.send_signal(signal.SIGKILL)
                first.process.wait()
                opened.until(lambda: word.get_attribute("data-word") == "waiting")
                assert "No answer since" in opened.text("#lost")
                assert "trying again" in opened.text("#lost")
                assert opened.text("#headline").startswith("Not live since ")
                assert "clean" not in page.title()
                assert_over(opened)
                second = RunningCheck(folder, *words)
                opened.until(lambda: word.get_attribute("data-word") == "clean")
                assert not page.locator("#lost").is_visible()
                _press_stop(opened, second)
                opened.until(lambda: opened.text("#headline") == "Pass: no violation found")
                told = second.wait()
                page.wait_for_timeout(6_000)  # longer than silence takes to be noticed
                assert not page.locator("#lost").is_visible()
                assert "Final: the run ended at" in opened.text("#reasons")
                assert_over(opened)
                ended = settled(opened)
                with past_page(second.data_dir, told["run"]) as again, window(browser) as looking:
                    looking.go(again)
                    looking.until(lambda: looking.page.locator("svg.chart path.line").count() >= 4)
                    assert settled(looking) == ended, "from its folder alone it looks the same"
                    assert_over(looking)
                    assert [url for url in looking.asked if not url.startswith(again)] == []
        finally:
            first.close()
            if second is not None:
                second.close()
        assert (second.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), second.output


def test_a_planned_fault_moves_nothing_and_a_missed_threshold_is_said_while_it_runs_and_afterwards(
    browser: Any,
) -> None:
    words = (
        "--fault",
        "pause:redis:every=5s,hold=2s",
        "--threshold",
        "append_p50=0.001ms",
        "--threshold",
        "errors=100%",
    )
    with checking("--store", "redis-list", *QUICK, *words, "--duration", "9s") as check, window(browser) as opened:
        page, word = opened.page, opened.page.locator("#verdict")
        check.until_verified(20)
        opened.go(address(check))
        opened.until(lambda: word.get_attribute("data-word") == "threshold")
        assert opened.text("#headline") == "Threshold missed so far, contract kept"
        opened.until(lambda: page.locator("figure").count() == 2)
        before = tops(page)
        opened.until(lambda: "active, by schedule" in opened.text("#faults"))
        opened.until(lambda: "paused" in opened.text("#processes"))
        assert tops(page) == before
        assert not page.locator("#warnings").is_visible(), "a fault that was planned is no warning"
        opened.until(lambda: opened.text("#headline") == "Threshold missed, contract kept")
        assert word.get_attribute("data-word") == "threshold"
        assert page.title().startswith("! threshold missed")
        card = opened.text("#thresholds")
        assert re.search(r"missed redis-list append_p50: [\d.]+.?s, at most 0\.001ms", card)
        assert re.search(r"met redis-list errors: [\d.]+%, at most 100%", card)
        assert re.search(r"Threshold missed: redis-list append_p50: ", opened.text("#reasons"))
        assert opened.complaints == []
        assert check.process.wait(SECONDS_MAX) == ExitCode.THRESHOLD


def test_what_a_killed_daemon_had_found_stays_certain_on_the_open_page_and_in_its_folder(browser: Any) -> None:
    with checking("--store", FLAWED, *QUICK) as killed, window(browser) as opened:
        killed.until(lambda status: total(status, "violations") >= 2)
        page = opened.page
        opened.go(address(killed))
        page.locator("article.finding blockquote").first.wait_for()
        opened.until(lambda: page.locator("svg.chart path.line").count() >= 4)
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait()
        opened.until(lambda: "No answer since" in opened.text("#lost"))
        assert page.locator("#verdict").get_attribute("data-word") == "violation"
        assert opened.text("#headline").startswith("Memory ")
        assert "is certain" in opened.text("#reasons")
        assert "broken: " in opened.text("#stores")
        page.locator("article.finding [data-violation]").first.click()  # what was read before is there
        page.locator("#story").get_by_role("heading", name="What to do next").wait_for()
        page.keyboard.press("Escape")
        assert_over(opened)
        with past_page(killed.data_dir) as again, window(browser) as looking:
            looking.go(again)
            looking.page.locator("article.finding blockquote").first.wait_for()
            assert looking.text("#headline").startswith("Memory ")
            assert "interrupted" in looking.text("#run")
            assert "never verified" in looking.text("#reasons")
            assert "soak run --data-dir" in looking.text("#actions")
            looking.until(lambda: looking.page.locator("svg.chart path.line").count() >= 4)
            looking.page.locator("article.finding summary").first.click()
            looking.page.locator(".singles [data-violation]").first.click()
            looking.page.locator("#story").get_by_role("heading", name="What to do next").wait_for()
            looking.page.keyboard.press("Escape")
            assert_over(looking)
            found = int(re.sub(r"\D", "", looking.page.locator("#numbers strong").first.inner_text()))
        journal = (killed.data_dir / "verifier" / "journal.jsonl").read_bytes()
        assert found >= journal.count(b'"kind"') > 0
