"""A real Chromium without a window, driven through chromedriver: what a page does is asked of a browser."""

from __future__ import annotations

import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ("headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "no-first-run", "disable-extensions")
# A page that is loaded has else a process of its own, which takes a fifth of the processor time of loading it.
FEW_PROCESSES = "disable-features=BackForwardCache,SpareRendererForSitePerProcess,ProactivelySwapBrowsingInstance"


def missing() -> str | None:
    """Why there is no browser for tests here, or ``None``."""
    if not any(shutil.which(name) for name in BROWSERS):
        return "no Chromium (Debian: apt-get install chromium chromium-driver)"
    if not shutil.which("chromedriver"):
        return "no chromedriver (Debian: apt-get install chromium-driver)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "no selenium (pip install selenium)"
    return None


class Chromium:
    """One window. Everything it says in its console is kept since ``open``."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = next(path for path in map(shutil.which, BROWSERS) if path)
        for argument in (*ARGUMENTS, FEW_PROCESSES):
            options.add_argument(f"--{argument}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self._driver: Any = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self._driver.set_page_load_timeout(PATIENCE_S)
        self._driver.set_script_timeout(PATIENCE_S)
        self._command("Emulation.setScrollbarsHidden", hidden=True)

    def open(
        self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True, hash_: str = ""
    ) -> None:
        """Load ``page``, a file or an address, in a window of that size, in light or dark."""
        self.resize(width, height)
        self.media("screen", dark=dark)
        self._command("Emulation.setScriptExecutionDisabled", value=not script)
        if hash_:
            self._driver.get("about:blank")  # else the page that is open would be kept
        self.console()
        self._driver.get((page.as_uri() if isinstance(page, Path) else page) + hash_)

    def resize(self, width: int, height: int = 900) -> None:
        """Make the window that large, in CSS pixels."""
        self._command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, medium: str, *, dark: bool) -> None:
        """The screen of the page, and the colours that the system prefers."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self._command("Emulation.setEmulatedMedia", media=medium, features=features)

    def offline(self, on: bool) -> None:
        """Whether the page finds no network at all."""
        self._command("Network.enable")
        self._command("Network.emulateNetworkConditions", offline=on, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        if not on:
            self._command("Network.disable")  # each event of it costs

    def ask(self, script: str, *arguments: object) -> Any:
        """The result of the function body ``script`` in the page."""
        return self._driver.execute_script(script, *arguments)

    def ask_later(self, script: str, *arguments: object) -> Any:
        """The value that ``script`` passes to its last argument, a function."""
        return self._driver.execute_async_script(script, *arguments)

    def find(self, selector: str) -> Any:
        """The first element that is so."""
        return self._driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        """All elements that are so."""
        return list(self._driver.find_elements("css selector", selector))

    def click(self, element: Any) -> None:
        """Click ``element`` (or the first one that a selector finds) in the middle of the window, where nothing lies over it."""
        found = self.find(element) if isinstance(element, str) else element
        self.ask("arguments[0].scrollIntoView({ block: 'center' })", found)
        found.click()

    def seen(self, selector: str) -> int:
        """How many elements are so and have a place on the page."""
        script = "return Array.from(document.querySelectorAll(arguments[0])).filter((one) => one.getClientRects().length).length"
        return int(self.ask(script, selector))

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements that are so, as they are in the document."""
        return list(self.ask("return Array.from(document.querySelectorAll(arguments[0]), (one) => one.textContent)", selector))

    def console(self) -> list[str]:
        """The console's lines since it was last asked."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def requested(self) -> list[str]:
        """The requests of the document in the window to the network, or to files, itself included."""
        return list(self.ask("return [location.href, ...performance.getEntriesByType('resource').map((one) => one.name)]"))

    def accessibility(self) -> list[dict[str, Any]]:
        """The page as a screen reader gets it: the nodes of its accessibility tree that are not ignored."""
        nodes = self._driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [node for node in nodes if not node.get("ignored")]

    def downloads(self, folder: Path) -> None:
        """Have what is saved from now on put into ``folder``."""
        self._command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def picture(self, path: Path) -> None:
        """Write what the window shows, in the format that the suffix of ``path`` names: png, jpeg or webp."""
        answer = self._driver.execute_cdp_cmd("Page.captureScreenshot", {"format": path.suffix[1:], "quality": 90})
        path.write_bytes(b64decode(answer["data"]))

    def press(self, *keys: str) -> None:
        """Press keys one after the other, whatever has the focus: characters, or names such as ``TAB``, ``ENTER``, ``ESCAPE``."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        chain = ActionChains(self._driver)
        for key in keys:
            chain.send_keys(getattr(Keys, key, key))
        chain.perform()

    def quit(self) -> None:
        """End the browser."""
        self._driver.quit()

    def _command(self, name: str, **parameters: object) -> None:
        self._driver.execute_cdp_cmd(name, parameters)


def one_window() -> Iterator[Chromium]:
    """A Chromium for the tests of a module, a package; where there is none, they are skipped and say what to install."""
    why = missing()
    if why is not None:
        pytest.skip(why)
    browser = Chromium()
    yield browser
    browser.quit()


chromium = pytest.fixture(scope="module")(one_window)
