"""The page as a reader has it: the parts that tests look at and press, in a real Chromium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.supervisor.http.served import TOKENS
from tests.support.chromium import Chromium
from tests.support.waiting import wait_until

LOOK_S = 0.3  # each look has the page ask its node for everything
TURNS_WITHIN_S = 60.0  # a loaded machine takes long
ASK_AT_ONCE = "document.dispatchEvent(new Event('visibilitychange'));"  # the page does when its tab is seen again
_SAYS = "const one = document.querySelector(arguments[0]); return one?.getClientRects().length ? one.innerText : '';"
_HAS_TOKEN = "return (sessionStorage.getItem('bascule-token') ?? '') === arguments[0]"
_FIELD = """
    const labels = Array.from(document.querySelectorAll("dialog[open] label"));
    const field = document.getElementById(labels.find((one) => one.textContent === arguments[0]).htmlFor);
"""
_TAKES_TOKEN = """
    sessionStorage.setItem("bascule-token", arguments[0]);
    if (!arguments[0]) sessionStorage.clear();
    localStorage.clear();
"""


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page at ``url``."""

    browser: Chromium
    url: str

    def open(self, role: str | None = None, **window: Any) -> None:
        """Load it with the token of ``role``, which this tab keeps, or with none, and wait for what it shows."""
        self.browser.open(self.url, **window)
        token = TOKENS[role] if role else ""
        if not self.browser.ask(_HAS_TOKEN, token):
            self.browser.open(f"{self.url}assets/icon.svg")  # where no script of the page's forgets a token at once
            self.browser.ask(_TAKES_TOKEN, token)
            self.browser.open(self.url, **window)
        seen = "#layout:not([hidden])" if role else "#layout:not([hidden]), #login:not([hidden])"
        self.wait(f"document.querySelector('{seen}')", "the page shows something")

    def stay(self, role: str) -> None:
        """Have it in a window of the usual size and light, for ``role``: as it is, or loaded where it is not open for that role."""
        script = f"return location.href === arguments[1] && !document.querySelector('#layout').hidden && {_HAS_TOKEN[7:]}"
        if not self.browser.ask(script, TOKENS[role], self.url):
            self.open(role)
            return
        self.browser.resize(1280)
        self.browser.media("screen", dark=False)
        self.browser.ask("scrollTo(0, 0)")

    def wait(self, condition: str, what: str) -> None:
        """Wait until the expression ``condition`` is true in the page; ``what`` says it in words."""
        script = f"{ASK_AT_ONCE} return Boolean({condition})"
        wait_until(
            lambda: self.browser.ask(script), TURNS_WITHIN_S, lambda: f"{what}; the page says\n{self.says('main')}", period_s=LOOK_S
        )

    def wait_asks(self) -> None:
        """Wait until it asks whether one is sure."""
        self.wait("document.getElementById('confirm').open", "a question")

    def say_yes(self, typed: str = "") -> None:
        """Wait until it asks whether one is sure, and be sure; ``typed`` is what it wants to have written first."""
        self.wait_asks()
        if typed:
            assert self.browser.ask("return document.getElementById('confirm-yes').disabled")
            self.browser.press(*typed)
        self.browser.click("#confirm-yes")

    def press_words(self, words: str) -> None:
        """Press the button that is seen and has the text ``words``."""
        script = """
            const seen = Array.from(document.querySelectorAll("button")).filter((one) => one.getClientRects().length);
            return seen.find((one) => one.textContent === arguments[0]);
        """
        self.browser.click(self.browser.ask(script, words))

    def fill(self, label: str, text: str) -> None:
        """Write ``text`` instead of what is in the field of the form that is called ``label``."""
        emptied = "field.value = ''; field.dispatchEvent(new Event('input', { bubbles: true })); return field;"
        self.browser.ask(_FIELD + emptied, label).send_keys(text)

    def fault(self, label: str) -> str:
        """What is said to be wrong at the field of the form that is called ``label``, as it is told with it."""
        script = """
            const told = document.getElementById(`${field.id}-fault`);
            const said = field.getAttribute("aria-describedby").includes(told.id) && field.getAttribute("aria-invalid") === "true";
            return said ? told.textContent : "";
        """
        return str(self.browser.ask(_FIELD + script, label))

    def says(self, selector: str) -> str:
        """The text of an element as it is seen; empty where there is none."""
        return str(self.browser.ask(_SAYS, selector))

    def wait_says(self, selector: str, *words: str) -> None:
        """Wait until an element's text has all of ``words``."""
        script = f"{ASK_AT_ONCE} {_SAYS}"

        def says_them() -> bool:
            said = str(self.browser.ask(script, selector))
            return all(word in said for word in words)

        wait_until(
            says_them,
            TURNS_WITHIN_S,
            lambda: f"{words} in {selector}, which says\n{self.says(selector)}",
            period_s=LOOK_S,
        )

    def wait_state(self, bridge: str, state: str) -> None:
        """Wait until the card of ``bridge`` has the word ``state`` on its badge."""
        self.wait_says(f"#b-{bridge} .badge", state)

    def press(self, label: str) -> None:
        """Press the button that a screen reader calls ``label``, once it can be pressed."""
        selector = f'button[aria-label="{label}"]'
        self.wait(f"document.querySelector('{selector}:not(:disabled)')?.getClientRects().length", f"a button {label}")
        self.browser.click(selector)

    def buttons(self) -> set[str]:
        """The names of the buttons that give orders, those that are seen."""
        script = """
            const seen = Array.from(document.querySelectorAll("[data-role]")).filter((one) => one.getClientRects().length);
            return seen.map((one) => one.getAttribute("aria-label") ?? one.textContent);
        """
        return set(self.browser.ask(script))
