"""The chat as a person has it, in a real browser: am I still known?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from soak.checker.text import HARD_TEXTS
from tests.support.browser.chatting import RunningChat, Talk, chatting
from tests.support.browser.legible import faint_texts, heading_levels, landmarks, nameless_controls, overflow_pixels
from tests.support.browser.windows import browsing, window

pytestmark = [pytest.mark.long, pytest.mark.slow]

KEPT_IN_THE_PROCESS = "tests.support.stores.flawed:KeptInTheProcess"
WHOLE_HISTORY = "tests.support.stores.flawed:WholeHistory"
HOSTILE = (
    "<img src=x onerror=\"document.body.dataset.owned='yes'\"><script>document.body.dataset.owned='yes'</script>",
    "\u202e my name is reversed \u202c and \u2066 isolated",
    "'; DROP TABLE messages; --",
    "javascript:alert(1) ```html\n<b>bold</b>\n```",
    "x" * 32_768,
)
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def chat(redis_url: str) -> Iterator[RunningChat]:
    with chatting("--store", "redis-list", "--redis", redis_url, "--pace", "60ms") as running:
        yield running


@pytest.fixture
def talk(browser: Any, chat: RunningChat) -> Iterator[Talk]:
    with window(browser) as opened:
        yield Talk(opened, chat.address)


def is_still_known(browser: Any, chat: RunningChat) -> bool:
    """Say my name, close the browser, kill the service, start it again, open the page: does it still know me?"""
    with window(browser) as opened:
        talk = Talk(opened, chat.address)
        assert talk.say("What is my name?") == "I do not know your name. What is it?"
        assert talk.say("My name is Ada, and I am fine.").startswith("Nice to meet you, Ada.")
        assert set(talk.states()) == {"remembered"}
        said, place = talk.bubbles(), talk.page.url
        assert opened.complaints == []
    chat.kill()
    chat.start()
    with window(browser) as opened:
        talk = Talk(opened, chat.address, name=place.rpartition("/")[2])
        remembered = talk.bubbles()
        answer = talk.say("What is my name?")
        assert (answer == "Your name is Ada.") == (remembered == said)
        return answer == "Your name is Ada."


@pytest.mark.parametrize("store", ["redis-list", "redis-stream", "redis-zset", "redis-hash"])
def test_i_am_still_known_after_the_service_was_killed_on_redis(browser: Any, redis_url: str, store: str) -> None:
    with chatting("--store", store, "--redis", redis_url, "--pace", "1ms") as chat:
        assert is_still_known(browser, chat)


def test_i_am_still_known_after_the_service_was_killed_on_postgres(browser: Any, postgres_url: str) -> None:
    with chatting("--store", "postgres", "--postgres", postgres_url, "--pace", "1ms") as chat:
        assert is_still_known(browser, chat)


def test_i_am_still_known_by_a_replica_that_may_be_late(
    browser: Any, postgres_url: str, postgres_replica_url: str
) -> None:
    servers = ("--postgres", postgres_url, "--postgres-replica", postgres_replica_url)
    with chatting("--store", "postgres-replica", *servers, "--pace", "1ms") as chat:
        with window(browser) as opened:
            talk = Talk(opened, chat.address)
            # What was just said may not be seen yet, which the assistant then adds.
            assert talk.say("My name is Ada").startswith("Nice to meet you, Ada.")
            place = talk.page.url.rpartition("/")[2]
        chat.kill()
        chat.start()
        with window(browser) as opened:
            talk = Talk(opened, chat.address, name=place)
            opened.until(lambda: talk.bubbles("user", "remembered") == ["My name is Ada"])
            assert talk.say("What is my name?").startswith("Your name is Ada.")


def test_i_am_still_known_after_the_service_and_the_servers_it_started_were_killed(browser: Any) -> None:
    with chatting("--pace", "1ms") as chat:
        assert is_still_known(browser, chat)


def test_a_memory_that_is_kept_in_the_process_does_not_know_me_any_more(browser: Any) -> None:
    with chatting("--store", KEPT_IN_THE_PROCESS, "--pace", "1ms") as chat:
        assert not is_still_known(browser, chat)


def test_an_answer_grows_and_is_remembered_when_it_is_whole(talk: Talk) -> None:
    talk.say("I am allergic to peanuts. I live in Zürich. I like long walks in the rain.")
    lengths = []
    talk.type("What do you know about me?")
    answer = talk.page.locator(".bubble[data-role=assistant]").last
    talk.window.until(lambda: len(talk.bubbles("user")) == 2 and len(talk.bubbles("assistant")) == 2)
    look = "(one) => [one.dataset.state, one.ariaBusy, one.querySelector('.content').textContent.length]"
    # All of it at one moment: it goes on while it is looked at.
    while (seen := answer.evaluate(look))[0] == "speaking":
        assert seen[1] == "true"
        lengths.append(seen[2])
    assert len(set(lengths)) > 3
    assert lengths == sorted(lengths)
    assert answer.get_attribute("data-state") == "remembered"
    assert talk.bubbles()[-1].endswith("You told me that you like long walks in the rain.")
    assert talk.window.complaints == []
    assert [url for url in talk.window.asked if not url.startswith(talk.page.url.partition("/c/")[0])] == []


def remembers(talk: Talk, said: set[str]) -> bool:
    """Whether a page shows as stored what was said, and an answer to each of it."""
    return set(talk.bubbles("user", "remembered")) == said and len(talk.bubbles("assistant", "remembered")) == len(said)


def test_two_tabs_of_one_conversation_see_both_and_nothing_is_lost(browser: Any, chat: RunningChat) -> None:
    with window(browser) as one, window(browser) as other:
        first = Talk(one, chat.address)
        second = Talk(other, chat.address, name=first.page.url.rpartition("/")[2])
        for number in range(4):
            first.type(f"first {number}")
            second.type(f"second {number}")
        everything = {f"{who} {number}" for who in ("first", "second") for number in range(4)}
        for talk in (first, second):
            talk.window.until(partial(remembers, talk, everything))
            assert len(talk.bubbles()) == 16
        first.page.reload()
        first.until_looked()
        assert first.bubbles() == second.bubbles()


def test_what_one_tab_loses_by_the_other_is_shown_as_lost(browser: Any, redis_url: str) -> None:
    with (
        chatting("--store", WHOLE_HISTORY, "--redis", redis_url, "--pace", "1ms") as chat,
        window(browser) as one,
        window(browser) as other,
    ):
        first = Talk(one, chat.address)
        second = Talk(other, chat.address, name=first.page.url.rpartition("/")[2])

        def one_has_lost_something() -> bool:
            for talk in (first, second):
                talk.page.get_by_label("Your message").fill("continue")
            for talk in (first, second):
                # Without waiting for the browser: both are sent before either is answered.
                talk.page.evaluate(
                    "() => { setTimeout(() => document.getElementById('composer').requestSubmit(), 50); }"
                )
            first.page.wait_for_timeout(300)
            return "lost" in first.states() + second.states()

        one.until(one_has_lost_something)
        assert "is not in the memory now" in first.page.inner_text("#log") + second.page.inner_text("#log")


def test_loaded_again_in_the_middle_of_an_answer_the_question_is_there_and_no_half_of_the_answer(talk: Talk) -> None:
    page = talk.page
    talk.say("I am allergic to peanuts. I live in Zürich. I like long walks in the rain.")
    talk.type("What do you know about me?")
    talk.window.until(lambda: talk.bubbles("assistant", "speaking") and talk.bubbles("assistant", "speaking")[0])
    page.reload()
    talk.until_looked()
    whole = "You told me that you like long walks in the rain."
    assert talk.bubbles("user") == [
        "I am allergic to peanuts. I live in Zürich. I like long walks in the rain.",
        "What do you know about me?",
    ]
    assert set(talk.states()) == {"remembered"}
    assert all(one.endswith(whole) for one in talk.bubbles("assistant")[1:])
    # It is remembered when it is whole, though nobody listened; until then, an answer can be asked for.
    talk.window.until(lambda: len(talk.bubbles("assistant", "remembered")) == 2)
    assert talk.bubbles("assistant")[1].endswith(whole)
    assert page.get_by_role("button", name="Ask for an answer").count() == 0


def test_a_question_that_nobody_answered_can_be_answered_later(browser: Any, redis_url: str) -> None:
    with chatting("--redis", redis_url, "--pace", "250ms") as chat, window(browser) as opened:
        talk = Talk(opened, chat.address)
        talk.type("My name is Ada, and I am fine.")
        opened.until(lambda: talk.bubbles("assistant", "speaking"))
        chat.kill()
        chat.start()
        talk.page.reload()
        talk.until_looked()
        assert talk.bubbles() == ["My name is Ada, and I am fine."]
        offer = talk.page.get_by_role("button", name="Ask for an answer")
        offer.focus()
        talk.page.wait_for_timeout(7_000)  # two looks at the memory later it is still the same button
        assert talk.page.evaluate("() => document.activeElement.textContent") == "Ask for an answer"
        talk.page.keyboard.press("Enter")
        opened.until(lambda: talk.bubbles("assistant", "remembered"))
        assert offer.count() == 0
        talk.page.reload()
        talk.until_looked()
        assert len(talk.bubbles()) == 2


def test_an_answer_that_breaks_off_is_never_called_remembered(browser: Any, redis_url: str) -> None:
    with chatting("--redis", redis_url, "--pace", "500ms") as chat, window(browser) as opened:
        talk = Talk(opened, chat.address)
        talk.type("My name is Ada, and I am fine.")
        opened.until(lambda: talk.bubbles("assistant", "speaking") and talk.bubbles("assistant", "speaking")[0])
        chat.kill()
        opened.until(lambda: talk.bubbles("assistant", "broken off"))
        assert talk.bubbles("assistant", "remembered") == []
        assert "broken off" in talk.page.inner_text("#log")
        opened.until(lambda: talk.page.locator("#lost").is_visible())
        assert "I cannot reach my memory" in opened.text("#lost")
        assert "nothing is remembered here" not in opened.text("main").lower()
        talk.type("are you there?")
        opened.until(lambda: talk.bubbles("user", "unknown") == ["are you there?"])
        assert "nobody knows whether it is remembered" in talk.page.inner_text("#log")
        chat.start()
        opened.until(lambda: not talk.page.locator("#lost").is_visible())
        # By itself the page sends nothing again; asked to, it does, and it is there once.
        assert talk.bubbles("user", "unknown") == ["are you there?"]
        talk.page.get_by_role("button", name="Try again").click()
        opened.until(lambda: talk.bubbles("user", "remembered") == ["My name is Ada, and I am fine.", "are you there?"])
        talk.page.reload()
        talk.until_looked()
        assert talk.bubbles("user") == ["My name is Ada, and I am fine.", "are you there?"]


def test_a_memory_that_cannot_be_reached_is_not_an_empty_one(browser: Any, redis_url: str) -> None:
    with (
        chatting("--redis", redis_url, "--pace", "1ms") as memory,
        chatting("--store", "http", "--url", memory.address, "--timeout", "1s", "--pace", "1ms") as chat,
        window(browser) as opened,
    ):
        talk = Talk(opened, chat.address)
        assert talk.say("My name is Ada").startswith("Nice to meet you, Ada.")
        memory.kill()
        talk.page.reload()
        talk.until_looked()
        assert "I cannot reach my memory" in opened.text("#lost")
        assert not talk.page.locator("#empty").is_visible()
        talk.type("What is my name?")
        opened.until(lambda: talk.bubbles("user", "not remembered") == ["What is my name?"])
        memory.start()
        talk.page.get_by_role("button", name="Look again").click()
        opened.until(lambda: not talk.page.locator("#lost").is_visible())
        talk.page.get_by_role("button", name="Try again").click()
        opened.until(lambda: talk.bubbles("assistant", "remembered")[-1:] == ["Your name is Ada."])


def test_the_back_button_brings_back_the_conversation_as_it_is_now(browser: Any, chat: RunningChat) -> None:
    with window(browser) as opened, window(browser) as elsewhere:
        talk = Talk(opened, chat.address)
        talk.say("My name is Ada")
        first = talk.page.url
        talk.page.get_by_role("link", name="New conversation").click()
        talk.until_looked()
        assert talk.page.url != first
        assert talk.bubbles() == []
        assert talk.say("What is my name?") == "I do not know your name. What is it?"
        second = talk.page.url
        Talk(elsewhere, chat.address, name=first.rpartition("/")[2]).say("I live in Zürich")
        talk.page.go_back()
        opened.until(lambda: len(talk.bubbles("", "remembered")) == 4)
        assert talk.page.url == first
        assert talk.bubbles()[2] == "I live in Zürich"
        talk.page.go_forward()
        opened.until(lambda: talk.page.url == second and len(talk.bubbles()) == 2)
        talk.page.get_by_text("Earlier conversations").click()
        talk.page.get_by_role("link", name=first.rpartition("/")[2]).click()
        opened.until(lambda: talk.page.url == first and len(talk.bubbles()) == 4)


def test_forgetting_is_asked_about_and_then_done(talk: Talk) -> None:
    page = talk.page
    talk.say("My name is Ada")
    page.get_by_role("button", name="Forget me").click()
    page.get_by_role("heading", name="Forget this conversation?").wait_for()
    page.keyboard.press("Enter")  # the careless answer is no
    talk.window.until(lambda: not page.locator("#question").is_visible())
    page.reload()
    talk.until_looked()
    assert len(talk.bubbles()) == 2
    page.get_by_role("button", name="Forget me").click()
    page.get_by_role("button", name="Forget it").click()
    talk.window.until(lambda: page.locator("#empty").is_visible())
    page.reload()
    talk.until_looked()
    assert talk.bubbles() == []
    assert talk.say("What is my name?") == "I do not know your name. What is it?"


def test_hostile_and_hard_text_is_text_and_comes_back_as_it_was_typed(talk: Talk) -> None:
    page = talk.page
    # What a text box can hold: it makes one line end of another, and that is before anything is sent.
    typed = [
        *HOSTILE,
        *(text for kind, texts in HARD_TEXTS.items() if kind not in ("line ends", "empty") for text in texts),
    ]
    typed = [text for text in typed if text.strip()]
    page.evaluate("() => { window.soak.stage(null); }")  # no answers: there is much to say
    for text in typed:
        talk.type(text)
    talk.window.until(lambda: len(talk.bubbles("user", "remembered")) == len(typed))
    page.reload()
    talk.until_looked()
    assert talk.bubbles() == typed
    assert page.locator("#log img, #log script, #log b").count() == 0
    assert page.evaluate("() => document.body.dataset.owned") is None
    assert overflow_pixels(page) == 0
    assert talk.window.complaints == []


def test_it_can_be_used_by_keyboard_alone_and_is_told_to_those_who_listen(talk: Talk) -> None:
    page = talk.page
    assert page.evaluate("() => document.activeElement.id") == "text"
    page.keyboard.type("My name is")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("Ada")
    page.keyboard.press("Enter")
    talk.window.until(lambda: len(talk.bubbles("assistant", "remembered")) == 1)
    assert talk.bubbles("user") == ["My name is\nAda"]
    assert page.evaluate("() => document.activeElement.id") == "text"
    log = page.get_by_role("log")
    assert log.get_attribute("aria-live") == "polite"
    assert page.locator("#told").text_content() == talk.bubbles("assistant")[0]
    page.keyboard.press("Shift+Tab")
    reached = []
    for _ in range(3):
        reached.append(page.evaluate("() => document.activeElement.id || document.activeElement.textContent"))
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") != "none"
        page.keyboard.press("Shift+Tab")
    assert reached == ["log", "forget", "New conversation"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(browser: Any, chat: RunningChat, scheme: str) -> None:
    with window(browser, color_scheme=scheme) as opened:
        talk = Talk(opened, chat.address)
        page = talk.page
        ground = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 384) == (scheme == "dark")
        talk.say("My name is Ada")
        # Every mark there is, each on both kinds of bubbles.
        page.evaluate("""async () => {
          const { Bubble } = await import("/chat/bubbles.js");
          const good = ["sending", "speaking", "remembered"];
          for (const state of [...good, "not remembered", "unknown", "broken off", "lost", "unreadable"])
            for (const role of ["user", "assistant"])
              document.getElementById("log").append(new Bubble({ id: "", role, content: state }, state, "why").node);
          document.getElementById("lost-why").textContent = "I cannot reach my memory.";
          document.getElementById("lost").hidden = false;
        }""")
        assert landmarks(page)["header"] == landmarks(page)["main"] == landmarks(page)["nav"] == 1
        for part in ("the page", "the question"):
            if part == "the question":
                page.get_by_role("button", name="Forget me").click()
            assert nameless_controls(page) == []
            assert faint_texts(page) == []
            levels = heading_levels(page)
            assert levels[0] == 1
            assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels)), levels


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, chat: RunningChat) -> None:
    with window(browser, **PHONE) as opened:
        talk = Talk(opened, chat.address)
        talk.say("My name is " + "Bartholomew" * 12)
        talk.say("x" * 500)
        assert overflow_pixels(talk.page) == 0
        talk.page.get_by_role("button", name="Forget me").tap()
        talk.page.get_by_role("button", name="Keep it").tap()
        assert overflow_pixels(talk.page) == 0
