"""Commands of guides that are typed on machines of their own: their comment is ``not run: scripts/package --try types it``."""

from __future__ import annotations

import re

from supervisor.version import VERSION
from tests.docs.pages import ROOT, blocks
from tests.support import programs

NEWER = "0.2.0"  # as the guides call the version that comes next


def commands(page: str, begin: str) -> str:
    """The one block of the guide ``page`` that begins with ``begin``, for this tree's version and this machine's architecture."""
    found = [block for block in blocks(ROOT / "docs/guides" / f"{page}.md") if block.kind == "sh" and block.text.startswith(begin)]
    (block,) = found
    assert block.not_run.startswith("scripts/package --try types it"), block
    return block.text.replace("0.1.0", VERSION).replace("amd64", architecture())


def with_log(typed: str, log: str) -> str:
    """``typed`` with the output of what it leaves running in the file ``log``: nobody waits for those to end."""
    return re.sub(r" &( +#.*)?$", f" >>{log} 2>&1 &", typed, flags=re.MULTILINE)


def architecture() -> str:
    """Debian's name of this machine's architecture."""
    return programs.run(["dpkg", "--print-architecture"], timeout_s=60.0).stdout.strip()
