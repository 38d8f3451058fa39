"""Servers that a remote names in place of itself."""

from __future__ import annotations

import pytest

from wire.exchange.server_references import server_references


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("a.example", [("a.example", 1883)]),
        ("a.example:1 10.0.0.2:8883", [("a.example", 1), ("10.0.0.2", 8883)]),
        ("[2001:db8::1]:1884 [2001:db8::2] 2001:db8::3", [("2001:db8::1", 1884), ("2001:db8::2", 1883), ("2001:db8::3", 1883)]),
        ("a:0 b:65536 c:x :1 a:\u0661", []),
        (" ".join(["a"] * 100), [("a", 1883)] * 8),
    ],
)
def test_each_is_a_host_with_or_without_a_port(text: str, found: list[tuple[str, int]]) -> None:
    assert server_references(text, 1883) == found
