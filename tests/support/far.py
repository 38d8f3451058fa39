"""The far end of a cable: a network namespace of the test's own, joined to this one by two pairs of veth interfaces.

``link_host`` is its address on the cable that can be troubled: packets lost at random (nftables), all of them or the large ones
dropped, the cable pulled. ``clear_host`` is its address on a second cable, by which a test judges what arrived.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from types import TracebackType
from typing import Self

import pytest

from tests.support.waiting import PATIENCE_S

_SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_LINK, _CLEAR = "cable", "clear"


class Far:
    """One far end; leaving the context ends it. Skips the test where namespaces or nftables are not to be had."""

    def __init__(self) -> None:
        number = os.getpid()
        self._name = f"bascule-{number}"
        base = f"198.18.{number >> 5 & 255}"  # of the block for such tests [RFC 2544]
        first = (number & 31) << 3
        self.link_host = f"{base}.{first + 2}"
        self.clear_host = f"{base}.{first + 6}"
        self._near_hosts = {_LINK: f"{base}.{first + 1}", _CLEAR: f"{base}.{first + 5}"}
        self.prefix = [_program("ip"), "netns", "exec", self._name]

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            pytest.skip("network namespaces need root")
        _program("nft")
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def lose(self, percent: int) -> None:
        """Drop that share of all packets, at random, in both directions."""
        self._drop(_at_random(percent))

    def lose_all(self) -> None:
        """Drop everything in both directions: nobody hears that the other is gone."""
        self._drop("")

    def lose_larger_than(self, size_bytes: int) -> None:
        """Drop packets of more than ``size_bytes`` and tell nobody: a black hole on the path."""
        self._drop(f"meta length > {size_bytes}")

    def lost(self) -> int:
        """How many packets were dropped since the trouble began."""
        words = [*self.prefix, _program("nft"), "list", "ruleset"]
        shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
        return sum(int(packets) for packets in re.findall(r"counter packets (\d+)", shown))

    def heal(self) -> None:
        """Lose nothing any more."""
        _run(*self.prefix, _program("nft"), "flush", "ruleset")

    def pull(self) -> None:
        """Pull the cable: this end sees no carrier."""
        self._far_ip("link", "set", _LINK, "down")

    def plug(self) -> None:
        """Put the cable back."""
        self._far_ip("link", "set", _LINK, "up")

    def _build(self) -> None:
        ip = _program("ip")
        _run_or_skip(ip, "netns", "add", self._name)
        self._far_ip("link", "set", "lo", "up")
        for cable, far_host in ((_LINK, self.link_host), (_CLEAR, self.clear_host)):
            near = self._near(cable)
            _run_or_skip(ip, "link", "add", near, "type", "veth", "peer", "name", cable, "netns", self._name)
            _run(ip, "address", "add", f"{self._near_hosts[cable]}/30", "dev", near)
            _run(ip, "link", "set", near, "up")
            self._far_ip("address", "add", f"{far_host}/30", "dev", cable)
            self._far_ip("link", "set", cable, "up")
        _run_or_skip(*self.prefix, _program("nft"), "-f", "-", text=_rules(_at_random(0)))  # whether the kernel can
        self.heal()

    def _remove(self) -> None:
        what = [("link", "delete", self._near(cable)) for cable in (_LINK, _CLEAR)]
        for words in (*what, ("netns", "delete", self._name)):
            subprocess.run([_program("ip"), *words], capture_output=True, check=False, timeout=PATIENCE_S)

    def _near(self, cable: str) -> str:
        return f"b{os.getpid()}{cable}"[:15]

    def _far_ip(self, *words: str) -> None:
        _run(_program("ip"), "-n", self._name, *words)

    def _drop(self, which: str) -> None:
        _run(*self.prefix, _program("nft"), "-f", "-", text=_rules(which))


def _at_random(percent: int) -> str:
    return f"numgen random mod 100 < {percent}"


def _rules(which: str) -> str:
    """A rule set that drops ``which`` packets of the cable in both directions."""
    return "\n".join(
        (
            "flush ruleset",
            "table inet trouble {",
            f"chain incoming {{\n type filter hook input priority 0;\n iifname {_LINK} {which} counter drop\n }}",
            f"chain outgoing {{\n type filter hook output priority 0;\n oifname {_LINK} {which} counter drop\n }}",
            "}\n",
        )
    )


def _program(name: str) -> str:
    found = shutil.which(name, path=_SEARCH_PATH)
    if found is None:
        package = {"ip": "iproute2", "nft": "nftables"}[name]
        pytest.skip(f"{name} is not installed (Debian: apt-get install {package})")
    return found


def _run(*words: str, text: str = "") -> None:
    subprocess.run(words, input=text, capture_output=True, text=True, check=True, timeout=PATIENCE_S)


def _run_or_skip(*words: str, text: str = "") -> None:
    """Run what a kernel or a container may not allow."""
    try:
        _run(*words, text=text)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this environment does not allow it: {' '.join(words)}: {error.stderr.strip()}")
