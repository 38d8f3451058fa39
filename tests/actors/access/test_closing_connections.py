"""Connections that were ended by us: what their clients can still read, and for how long."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest

from actors.access.closing_connections import (
    LAST_S,
    LINGER_S,
    LINGERING_MAX,
    OUTPUT_MAX_BYTES,
    ClosingConnection,
    ClosingConnections,
)
from actors.process.mailbox import READ, WRITE, Mailbox

REASON = b"\xe0\x02\x81\x00"


class Polled:
    """A mailbox that polls nothing: it keeps what is to be polled."""

    def __init__(self) -> None:
        self.time_s = 100.0
        self.watched: dict[int, tuple[int, ClosingConnection]] = {}

    def now_s(self) -> float:
        return self.time_s

    def watch(self, fd: int, events: int, token: Any) -> None:
        self.watched[fd] = events, token

    def forget(self, fd: int) -> None:
        del self.watched[fd]

    def turn(self, lingering: ClosingConnections) -> None:
        for events, parting in list(self.watched.values()):
            lingering.ready(parting, events)


@pytest.fixture
def ends() -> Iterator[tuple[Polled, ClosingConnections, ExitStack]]:
    polled = Polled()
    with ExitStack() as stack:
        yield polled, ClosingConnections(cast(Mailbox, polled)), stack


Ends = tuple[Polled, ClosingConnections, ExitStack]


def ended(ends: Ends, output: bytes = b"") -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection that was told why it ends; ``output``: what the socket would not take."""
    near, far = socket.socketpair()
    near.setblocking(False)
    far.settimeout(5.0)
    ends[2].enter_context(near)
    ends[2].enter_context(far)
    if not output:
        near.send(REASON)
    ends[1].add(near, bytearray(output))
    return near, far


def test_who_still_sends_reads_the_reason_and_then_the_end(ends: Ends) -> None:
    polled, lingering, _ = ends
    near, far = ended(ends)
    for _ in range(20):
        far.sendall(bytes(50_000))
        polled.turn(lingering)
    assert far.recv(100) == REASON
    assert far.recv(100) == b""

    far.close()
    while len(lingering):  # what had come is thrown away first
        polled.turn(lingering)
    assert near.fileno() == -1
    assert not polled.watched


def test_one_that_has_gone_is_not_waited_for(ends: Ends) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.close()
    ends[1].add(near, bytearray())
    assert len(ends[1]) == 0
    assert near.fileno() == -1


def test_what_the_socket_had_not_taken_goes_out_before_the_end(ends: Ends) -> None:
    polled, lingering, _ = ends
    near, far = socket.socketpair()
    ends[2].enter_context(far)
    near.setblocking(False)
    filled = 0
    try:
        while True:
            filled += near.send(bytes(4096))
    except BlockingIOError:
        pass
    lingering.add(near, bytearray(b"last"))
    assert [events for events, _ in polled.watched.values()] == [READ | WRITE]

    received = b""
    while len(received) < filled:
        received += far.recv(65_536)
    polled.turn(lingering)
    assert [events for events, _ in polled.watched.values()] == [READ]
    assert far.recv(100) == b"last"
    assert far.recv(100) == b""


def test_nobody_is_waited_for_longer_than_his_time(ends: Ends) -> None:
    polled, lingering, _ = ends
    first, _ = ended(ends)
    polled.time_s += 1.0
    second, _ = ended(ends)
    lingering.close_overdue(100.0 + LINGER_S - 0.1)
    assert len(lingering) == 2

    lingering.close_overdue(100.0 + LINGER_S)
    assert (first.fileno(), len(lingering)) == (-1, 1)
    lingering.hurry()
    lingering.hurry()
    lingering.close_overdue(101.0 + LAST_S)
    assert (second.fileno(), len(lingering)) == (-1, 0)


def test_their_number_is_limited_and_the_oldest_goes(ends: Ends) -> None:
    polled, lingering, _ = ends
    all_of_them = [ended(ends)[0] for _ in range(LINGERING_MAX + 3)]
    assert len(lingering) == LINGERING_MAX
    assert [near.fileno() == -1 for near in all_of_them] == [True] * 3 + [False] * LINGERING_MAX
    stale = ClosingConnection(all_of_them[0], bytearray(), 0.0)
    lingering.ready(stale, READ)

    lingering.close()
    assert all(near.fileno() == -1 for near in all_of_them)
    assert not polled.watched


def test_who_reads_nothing_is_not_waited_for(ends: Ends) -> None:
    near, _ = ended(ends, bytes(OUTPUT_MAX_BYTES + 1))
    assert (near.fileno(), len(ends[1])) == (-1, 0)
