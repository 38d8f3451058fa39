"""One node and one Chromium for all tests of this folder. Each leaves the bridges connected, but for ``lab``, which never is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.supervisor.http.page.live_page import LivePage
from tests.supervisor.http.page.scene import Scene
from tests.supervisor.http.served import write_tokens
from tests.support import chromium as support
from wire.access.roles import ROLES

chromium = pytest.fixture(scope="package")(support.one_window)


@pytest.fixture(scope="package")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The node, with a token for each role."""
    folder = tmp_path_factory.mktemp("page")
    write_tokens(folder / "tokens", *ROLES)
    with Scene(folder / "scene", tokens_file=str(folder / "tokens")) as scene:
        yield scene


@pytest.fixture
def page(chromium: support.Chromium, scene: Scene) -> Iterator[LivePage]:
    """The page, to be loaded. No test makes anything on it ask another server, complain, or run."""
    page = LivePage(chromium, scene.url)
    yield page
    assert chromium.ask("return window.hacked === undefined")
    assert [url for url in chromium.requested() if not url.startswith(scene.url)] == []
    # A request of the page's that fails is said there; the browser notes it in its console too.
    assert [line for line in chromium.console() if "Failed to load resource" not in line] == []
