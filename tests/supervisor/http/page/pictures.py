"""Makes the manual's pictures of the page; ``scripts/page-pictures`` runs it.

They show a node with four bridges on a bad day (``Scene.bad_day``), after the page has looked on for a while.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.supervisor.http.page.live_page import LivePage
from tests.supervisor.http.page.scene import ARCHIVE_MOST, Scene
from tests.support import keeper
from tests.support.chromium import Chromium, missing
from tests.support.mqtt_client import MqttClient

SEEN_S = 75.0  # how long the page looks on before its picture is taken, so that plots have something to show
DRAWN_S = 3.0  # within that it has new figures, and is drawn anew
MANY = ("plant/1/pressure", "plant/2/pressure", "plant/2/vibration")
FEW = ("plant/1/temperature", "plant/2/temperature", "line/4/count", "gate/open")
LOCAL_CLIENTS = ("panel", "press-1", "press-2")
SIZE_MAX_BYTES = 150_000


class Traffic:
    """Publishes at an uneven rate, in a thread, as machines do: many messages for one bridge, few for the others."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._chance = random.Random(7)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(self._chance.uniform(0.2, 0.8)):
            for topic, number in ((self._chance.choice(MANY), self._chance.randint(1, 60)), (self._chance.choice(FEW), 1)):
                self._scene.publish(topic, *(f"{self._chance.gauss(21, 2):.1f}" for _ in range(number)), client_id="press-5")


def main(folder: Path) -> int:
    """Write ``page-*.webp`` into ``folder``; the exit status."""
    why = missing()
    if why is not None:
        sys.stderr.write(f"{why}\n")
        return 69
    keeper.begin()
    with ExitStack() as stack:
        scene = stack.enter_context(Scene(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        for name in LOCAL_CLIENTS:
            client = stack.enter_context(MqttClient(scene.node.port, name, version=5))
            client.subscribe("alarm/#", qos=1)
        browser = Chromium()
        stack.callback(browser.quit)
        page = LivePage(browser, scene.url)
        page.open()
        page.wait_state("archive", "connected")
        stack.enter_context(Traffic(scene))
        time.sleep(SEEN_S / 3)
        stack.enter_context(scene.bad_day(backlog=int(0.88 * ARCHIVE_MOST)))
        time.sleep(SEEN_S)
        _take(browser, folder / "page-answer.webp", "#answer", (1280, 1160))
        _take(browser, folder / "page-bridges.webp", "#bridges", (1120, 1262))
        browser.media("screen", dark=True)
        _take(browser, folder / "page-phone.webp", "#answer", (390, 844))
    return 0


def _take(browser: Chromium, path: Path, begin: str, size: tuple[int, int]) -> None:
    browser.resize(*size)
    browser.ask("document.querySelector(arguments[0]).scrollIntoView({ behavior: 'instant' })", begin)
    time.sleep(DRAWN_S)
    browser.picture(path)
    size_bytes = path.stat().st_size
    sys.stdout.write(f"{path}: {size_bytes:,} bytes\n")
    assert size_bytes <= SIZE_MAX_BYTES, "a picture of the manual is small"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
