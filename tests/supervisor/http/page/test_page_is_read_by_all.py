"""The page for every reader: on any width, by keyboard, with a screen reader, in light and dark, without motion, in each role."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from supervisor.control.client import ControlClient
from tests.supervisor.http.page.live_page import LivePage
from tests.supervisor.http.page.scene import FORBIDDEN, Scene
from tests.supervisor.http.served import TOKENS
from tests.support.contrast import faint_texts

pytestmark = pytest.mark.process

WIDTHS = (320, 375, 768, 1024, 1440, 2560)


@pytest.fixture(scope="module", autouse=True)
def _dead_letter(scene: Scene) -> Iterator[None]:
    """There is one for all tests of this file."""
    with ControlClient.of_run_dir(scene.node.data_dir / "run") as node:
        scene.publish(FORBIDDEN, "salt 3")
        scene.node.wait_lane_until(lambda row: row["dead_letters"].get("held") == 1, "a dead letter")
        yield
        node.purge("cloud", dead=True)


def enter(page: LivePage, role: str, **window: object) -> None:
    """Have the page for ``role``, loaded anew for another ``window`` than the usual one, and wait for the dead letter."""
    if window:
        page.open(role, **window)
    else:
        page.stay(role)
    page.wait("document.querySelector('#dead-letters article')", "the node")


def give(page: LivePage, token: str) -> None:
    """Type a token."""
    page.wait("document.activeElement === document.getElementById('token')", "the form for a token, with the focus")
    page.browser.press(*token, "ENTER")


def test_a_wrong_token_is_refused_and_a_right_one_is_kept_by_this_tab(page: LivePage) -> None:
    page.open()
    assert page.says("#layout") == ""
    give(page, "bascule_wrong")
    page.wait_says("#login-error", "This token is not known")
    give(page, TOKENS["operate"])
    page.wait_says("#headline", "lab")

    page.browser.open(page.url)  # anew, in the same tab
    page.wait_says("#headline", "lab")
    page.browser.click("#leave")
    page.wait("document.getElementById('login').getClientRects().length", "the form")
    assert page.browser.ask("return sessionStorage.length") == 0
    assert page.says("#layout") == ""


def test_each_role_sees_the_buttons_that_it_may_press_and_no_payload_without_one(page: LivePage, scene: Scene) -> None:
    enter(page, "view")
    assert {"Pause cloud", "Replay all dead letters of cloud", "Purge the dead letters of cloud"}.isdisjoint(page.buttons())
    assert page.buttons() <= {"Show the plan"}
    page.wait_says("#dead-letters", "plant/recipe", "a token wants the role operate")
    assert "salt 3" not in page.says("#dead-letters")
    page.wait_says("#rights", "a token wants the role operate")
    scene.publish("line/4/count", "secret 7")
    page.press("Look into the queue of lab")
    page.wait_says("#queue", "line/4/count", "a token wants the role operate")
    assert "secret 7" not in page.says("#queue")

    enter(page, "operate")
    assert {"Pause cloud", "Restart cloud", "Replay all dead letters of cloud"} <= page.buttons()
    assert {"Purge the dead letters of cloud", "Change cloud", "New bridge …"}.isdisjoint(page.buttons())
    assert {"Export", "Export the dead letters of cloud"} <= page.buttons()

    enter(page, "admin")
    assert {"Pause cloud", "Replay all dead letters of cloud", "Purge the dead letters of cloud"} <= page.buttons()
    assert {"Change cloud", "New bridge …"} <= page.buttons()


def test_nothing_is_wider_than_the_window(page: LivePage) -> None:
    """Text that is clipped on purpose does not count, nor text that scrolls in a frame of its own."""
    enter(page, "admin")

    for width in WIDTHS:
        page.browser.resize(width)
        assert page.browser.ask("return document.documentElement.scrollWidth") <= width
        cut = page.browser.ask(
            """
            const meant = ".vh, .scroll table, .skip, thead, .said, .symbols, dialog, .proportion";
            return Array.from(document.querySelectorAll("body *")).filter((one) => {
              const box = one.getBoundingClientRect();
              return box.width && !one.closest(meant) && (box.right > innerWidth + 1 || box.left < -1);
            }).map((one) => one.outerHTML.slice(0, 120));
            """
        )
        assert cut == [], width


@pytest.mark.parametrize("width", [320, 1440])
def test_texts_of_the_picture_stay_in_their_boxes_and_are_whole(page: LivePage, scene: Scene, width: int) -> None:
    enter(page, "admin")
    page.browser.resize(width)
    page.wait(f"document.querySelector('#picture svg.{'across' if width > 720 else 'down'} .box')", "the picture")

    out = page.browser.ask(
        """
        return Array.from(document.querySelectorAll("#picture .box")).filter((box) => {
          const frame = box.querySelector("rect").getBoundingClientRect();
          return Array.from(box.querySelectorAll("text")).some((text) => text.getBoundingClientRect().right > frame.right + 0.5);
        }).map((box) => box.textContent);
        """
    )

    assert out == []
    address = f"127.0.0.1:{scene.cloud_link.port}"
    assert page.browser.texts("#picture [data-key='remote:cloud:0'] .name") == [address]
    lines = page.browser.texts("#picture [data-key='remote:cloud:0'] tspan")
    assert (len(lines) > 1) is (width == 320), lines


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(page: LivePage, dark: bool) -> None:
    """At least 4.5 to 1, as WCAG 2.2 has it at level AA (1.4.3)."""
    enter(page, "admin")
    page.browser.media("screen", dark=dark)
    page.browser.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    pairs, faint = faint_texts(page.browser)
    page.press("Purge the dead letters of cloud")
    page.wait_asks()
    _, faint_in_a_question = faint_texts(page.browser)
    page.open(dark=dark)
    _, faint_in_the_form = faint_texts(page.browser)

    assert pairs > 8
    assert faint + faint_in_a_question + faint_in_the_form == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(page: LivePage) -> None:
    enter(page, "admin")
    page.wait("document.querySelector('#event-rows tbody tr')", "events")
    page.browser.ask("document.activeElement.blur(); scrollTo(0, 0)")
    wanted = page.browser.ask(
        """
        const sorts = "a[href], button, input, select, summary";
        const all = Array.from(document.querySelectorAll(sorts)).filter((one) => !one.disabled && one.getClientRects().length);
        all.forEach((one, at) => { one.dataset.at = at; });
        return all.length;
        """
    )
    reached, unseen = set(), []
    for _ in range(wanted + 5):
        page.browser.press("TAB")
        at, shown, where = page.browser.ask(
            """
            const one = document.activeElement, style = getComputedStyle(one);
            const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
            const stroke = one.querySelector?.(":scope > rect");
            const thick = stroke && parseFloat(getComputedStyle(stroke).strokeWidth) >= 3;
            return [one.dataset.at ?? null, Boolean(ring || thick), one.outerHTML.slice(0, 100)];
            """
        )
        if at is not None:
            reached.add(at)
            if not shown:
                unseen.append(where)

    assert unseen == []
    missed = page.browser.ask(
        "return Array.from(document.querySelectorAll('[data-at]')).filter((one) => !arguments[0].includes(one.dataset.at))"
        ".map((one) => one.outerHTML.slice(0, 120))",
        sorted(reached),
    )
    assert missed == []


def test_a_screen_reader_is_told_what_everything_is(page: LivePage) -> None:
    enter(page, "admin")
    page.wait("document.querySelector('#event-rows tbody tr')", "events")

    nodes = page.browser.accessibility()

    named = [node for node in nodes if node["role"]["value"] in ("button", "link", "image", "textbox", "searchbox", "combobox")]
    assert [node for node in named if not node.get("name", {}).get("value")] == []
    names = {node["name"]["value"] for node in named}
    assert any(re.match("lab: .+ waits?, well", name) for name in names), "a box of the picture"
    assert any(name.startswith("Waiting over the last") for name in names), "a plot"
    levels = [node for node in nodes if node["role"]["value"] == "heading"]
    assert levels[0]["name"]["value"].startswith("1 of 4 bridges is in trouble: lab")
    landmarks = {node["role"]["value"] for node in nodes}
    assert {"main", "navigation", "banner"} <= landmarks


def test_what_is_read_out_by_itself_changes_only_with_the_verdict(page: LivePage, scene: Scene) -> None:
    enter(page, "admin")
    page.wait_says("#headline", "lab")
    page.browser.ask("document.getElementById('topics').scrollIntoView()")
    page.browser.ask(
        """
        window.readOut = [];
        const watch = new MutationObserver((changes) => changes.forEach((one) => window.readOut.push(one.target.textContent)));
        for (const one of document.querySelectorAll("[aria-live], [role=status], [role=alert]")) {
          watch.observe(one, { childList: true, characterData: true, subtree: true });
        }
        """
    )
    before = page.says("#eyebrow")

    for number in range(3):
        scene.publish("line/4/count", str(number))
        page.wait(f"document.getElementById('eyebrow').innerText !== {before!r}", "new figures")
        before = page.says("#eyebrow")

    assert page.browser.ask("return window.readOut") == []


def test_nothing_moves_for_who_prefers_that(page: LivePage) -> None:
    enter(page, "admin")  # the browser is told to prefer it

    assert page.browser.ask("return document.getAnimations().length") == 0


def test_the_policy_lets_nothing_run_or_load_that_is_not_the_nodes_own(page: LivePage) -> None:
    enter(page, "admin")
    page.browser.console()

    hacked = page.browser.ask_later(
        """
        const done = arguments[arguments.length - 1], script = document.createElement("script"), image = new Image();
        script.textContent = "window.hacked = 1";
        document.head.append(script);
        image.src = "http://127.0.0.1:9/x.png";
        image.onerror = () => fetch("http://127.0.0.1:9/").then(() => done("asked"), () => done(window.hacked ?? "nothing"));
        """
    )

    assert hacked == "nothing"
    said = page.browser.console()
    assert len([line for line in said if "Content Security Policy" in line]) >= 3, said
    page.browser.ask("performance.clearResourceTimings()")  # what was refused is not held against the page
