"""README and guides: every block is done as the page says, with real processes, or says why it is not.

In README ``bascule run`` is started, in the guides it is forked with its modules imported (``session.py``).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from supervisor.cli.main import cli
from tests.docs.pages import PAGES, ROOT, blocks, indented_commands, mentioned_commands
from tests.docs.session import Session

# Commands that a page tells to type and no test types: (page, first word of the block, the reason that the page gives).
TRIAL = "scripts/package --try types it"
WITH_IMAGE, WITH_IMAGES = f"{TRIAL}, with the image that it makes", f"{TRIAL}, with images that it makes"
CLUSTER = "it takes a cluster; tests judge the file by Kubernetes' schemas, and its configuration by Bascule"
INSTALL, UPGRADE = "docs/guides/install.md", "docs/guides/upgrade.md"
NOT_RUN = {
    ("README.md", "scripts/demo", "scripts/demo has a test of its own, and scripts/test runs this one"),
    ("docs/index.md", "scripts/demo", "scripts/demo has a test of its own"),
    ("docs/reference/sys-topics.md", "mosquitto_sub", "tests/broker/test_sys_topics.py types it"),
    ("docs/guides/http.md", "curl", "tests/supervisor/http/test_bridge_files.py does"),
    (INSTALL, "git", "it takes an address to clone from; README's commands are the same"),
    (INSTALL, "pipx", TRIAL),
    (INSTALL, "uv", TRIAL),
    (INSTALL, "python3", "scripts/release does it"),
    (INSTALL, "apt", TRIAL),
    (INSTALL, "systemctl", TRIAL),
    (INSTALL, "bascule", TRIAL),
    (INSTALL, "podman", f"{TRIAL}, with a base image that it makes"),
    (INSTALL, "mosquitto_sub", TRIAL),
    (INSTALL, "plant/1/temperature", TRIAL),
    (INSTALL, "PATH=$PATH:/usr/sbin", WITH_IMAGE),
    (INSTALL, "mosquitto_sub", WITH_IMAGE),
    (INSTALL, "plant/1/temperature", WITH_IMAGE),
    (INSTALL, "podman", WITH_IMAGE),
    (INSTALL, "docker", WITH_IMAGE),
    (INSTALL, "kubectl", CLUSTER),
    (INSTALL, "scripts/release", "a test of its own makes it, twice"),
    ("docs/guides/from-mosquitto.md", "sudo", TRIAL),
    ("docs/guides/many-boxes.md", "while", "it takes two hundred boxes"),
    (UPGRADE, "bascule", TRIAL),
    (UPGRADE, "apt", TRIAL),
    (UPGRADE, "podman", WITH_IMAGES),
    (UPGRADE, "kubectl", CLUSTER),
    (UPGRADE, "pipx", TRIAL),
    (UPGRADE, "uv", TRIAL),
}


def java_is_here() -> bool:
    from analysis.spark.session import JavaMissing, java_version

    try:
        java_version()
    except JavaMissing:
        return False
    return True


def prometheus_is_here() -> bool:
    return shutil.which("prometheus") is not None


HERE: dict[str, Callable[[], bool]] = {"java": java_is_here, "prometheus": prometheus_is_here}  # what blocks may need


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path, soak: bool, record_property: Callable[[str, object], None]) -> None:
    here: dict[str, Callable[[], bool]] = {**HERE, "a soak": lambda: soak}
    todo = [block for block in blocks(page) if not block.not_run]
    if left := [block for block in todo if not all(here[need]() for need in block.needs)]:
        without = " and ".join(sorted({need for block in left for need in block.needs if not here[need]()}))
        record_property("said", f"{page.name}: not run without {without}: {', '.join(map(str, left))}")
        todo = [block for block in todo if block not in left]

    first = page.name in ("README.md", "first-steps.md")
    with Session(tmp_path / "reader", starts_nodes=page.name == "README.md", newcomer=first) as session:
        for block in todo:
            session.do(block)


def test_what_is_not_run_says_why() -> None:
    found = {
        (str(block.page.relative_to(ROOT)), block.text.split()[0], block.not_run)
        for page in PAGES
        for block in blocks(page)
        if block.not_run
    }

    assert found == NOT_RUN


def test_a_command_stands_where_it_is_run() -> None:
    pages = {*PAGES, *(ROOT / "docs").rglob("*.md")}
    assert {str(page): found for page in pages if (found := indented_commands(page))} == {}
    run = {page for page in pages if any(block.kind in ("sh", "bash", "console") for block in blocks(page))}
    assert run <= set(PAGES)


@pytest.mark.parametrize("page", sorted({*PAGES, *(ROOT / "docs").rglob("*.md")}), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_prose_exist(page: Path) -> None:
    wrong = {said: why for said in mentioned_commands(page) if (why := fault(said.split()[1:]))}

    assert wrong == {}


def fault(words: list[str]) -> str:
    """The fault of ``bascule WORDS``, whose arguments may be left out; nothing if it is right."""
    command: click.Command = cli
    for word in words:
        if word.startswith("-"):
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            if word.partition("=")[0] not in known and command.name != "report":
                return f"{command.name} has no option {word}"
        elif isinstance(command, click.Group):
            if word not in command.commands:
                return f"there is no command {word}"
            command = command.commands[word]
    return ""
