"""A local client's socket: what it is polled for."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from actors.access.client import OPENING, Client
from actors.process.mailbox import READ, WRITE, PollGroup
from tests.support.waiting import PATIENCE_S, wait_until

Ends = tuple[Client, socket.socket, PollGroup]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A client, its other end, and the group in which it is polled."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as far:
        near, _ = server.accept()
        with select.epoll() as outer:
            group = PollGroup(outer)
            yield Client(near, "somewhere", 1, group, 0.0), far, group
        near.close()


def fill(client: Client) -> None:
    while not client.output_bytes:
        assert client.write(bytes(1 << 20))


def events(group: PollGroup) -> int:
    return sum(found for _, found in group.ready())


def test_output_that_is_left_over_does_not_end_a_silence(ends: Ends) -> None:
    client, far, group = ends
    client.hear(False, OPENING)
    far.sendall(b"held back")

    fill(client)
    assert not events(group) & READ, "it is written to, and still not heard"
    while client.output_bytes:
        far.recv(1 << 20)
        client.flush()
    assert events(group) == 0, "all is written, and it is still not heard"
    client.hear(True, OPENING)

    assert events(group) == READ
    assert client.receive() == b"held back"


def test_a_client_that_is_heard_is_polled_for_both(ends: Ends) -> None:
    client, far, group = ends
    far.sendall(b"x")
    fill(client)
    while not events(group) & WRITE:
        far.recv(1 << 20)

    assert events(group) == READ | WRITE


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_what_has_left_is_what_neither_the_client_s_buffer_nor_the_kernel_s_has(kind: str, ends: Ends) -> None:
    client, far, group = ends
    if kind == "unix":
        near, far = socket.socketpair()
        client = Client(near, "unix:somewhere", 2, group, 0.0)
    assert (client.written_bytes, client.left_bytes) == (0, 0)
    fill(client)
    assert client.left_bytes < client.written_bytes - client.output_bytes, "the far end has not read it"
    far.settimeout(PATIENCE_S)
    read = 0
    while client.output_bytes:
        read += len(far.recv(1 << 20))
        client.flush()
    while read < client.written_bytes:
        read += len(far.recv(1 << 20))
    wait_until(lambda: client.left_bytes == client.written_bytes == read, PATIENCE_S, "all has left")
    if kind == "unix":
        client.close()
        far.close()
