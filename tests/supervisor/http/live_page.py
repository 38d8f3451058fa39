"""The page as a reader has it: the parts that tests look at and press, in a real Chromium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.chromium import Chromium
from tests.support.waiting import wait_until

LOOK_S = 0.1
TURNS_WITHIN_S = 60.0  # the page asks every two seconds; a loaded machine takes longer


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page at ``url``."""

    browser: Chromium
    url: str

    def open(self, **window: Any) -> None:
        """Load it, and wait for the node's first figures or the form for a token."""
        self.browser.open(self.url, **window)
        self.wait("document.querySelector('#layout:not([hidden]), #login:not([hidden])')", "the page shows something")

    def wait(self, condition: str, what: str) -> None:
        """Wait until the expression ``condition`` is true in the page; ``what`` says it in words."""
        script = f"return Boolean({condition})"
        wait_until(
            lambda: self.browser.ask(script), TURNS_WITHIN_S, lambda: f"{what}; the page says\n{self.says('main')}", period_s=LOOK_S
        )

    def says(self, selector: str) -> str:
        """The text of an element as it is seen; empty where there is none."""
        script = "const one = document.querySelector(arguments[0]); return one?.getClientRects().length ? one.innerText : ''"
        return str(self.browser.ask(script, selector))

    def wait_says(self, selector: str, *words: str) -> None:
        """Wait until an element's text has all of ``words``."""
        wait_until(
            lambda: all(word in self.says(selector) for word in words),
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
        """What the buttons that give orders are called, those that are seen."""
        script = """
            const seen = Array.from(document.querySelectorAll("[data-role]")).filter((one) => one.getClientRects().length);
            return seen.map((one) => one.getAttribute("aria-label") ?? one.textContent);
        """
        return set(self.browser.ask(script))
