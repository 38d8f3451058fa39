"""A head that two receivers may read in two ways is refused, however it is cut into pieces."""

from __future__ import annotations

import pytest

from supervisor.http import request_head
from supervisor.http.request_head import HEAD_MAX_BYTES, RequestHead

GOOD = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a b\r\n\r\n"


def taken(data: bytes, piece: int) -> bool:
    """Whether all pieces of ``data``, as long as it is a head, are taken."""
    head = RequestHead()
    for start in range(0, len(data), piece):
        if head.complete:
            break
        if not head.take(data[start : start + piece]):
            return False
    return True


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "bad",
    [
        GOOD.replace(b"\r\nX", b"\nX"),
        GOOD.replace(b"\r\n", b"\n"),
        GOOD.replace(b"\r\nX: a", b"\r\n X: a"),
        GOOD.replace(b"\r\nX: a", b"\r\n\tX: a"),
        GOOD.replace(b"a b", b"a\rb"),
        GOOD.replace(b"a b", b"a\nb"),
        b"\r\n" + GOOD,
        b"\r\n\r\n" + GOOD,
        b"\n" + GOOD,
        b" " + GOOD,
        GOOD.replace(b"a b", b"a" * HEAD_MAX_BYTES),
        GOOD.replace(b"X: a b\r\n", b"X: a\r\n" * HEAD_MAX_BYTES),
    ],
)
def test_what_is_ambiguous_or_too_long_is_refused(bad: bytes, piece: int) -> None:
    assert not taken(bad, piece)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_a_head_is_taken_and_its_body_not_looked_at(piece: int) -> None:
    assert taken(GOOD, piece)
    assert taken(GOOD + b"\n\n a\rbody\n", piece)
    assert taken(GOOD.replace(b"a b", b"a" * (HEAD_MAX_BYTES - len(GOOD))), piece)


def test_a_head_that_comes_byte_by_byte_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting:
        looked_at = 0

        def search(self, data: bytearray, start: int = 0, stop: int | None = None) -> None:
            self.looked_at += (len(data) if stop is None else stop) - start

    counting = Counting()
    monkeypatch.setattr(request_head, "_AMBIGUOUS", counting)

    assert taken(GOOD.replace(b"a b", b"a" * (HEAD_MAX_BYTES - len(GOOD))), 1)
    assert counting.looked_at <= 8 * HEAD_MAX_BYTES
