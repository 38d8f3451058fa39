"""Bytes that are read through the one buffer are as ``recv`` has them, and stay what they were when the next are read."""

from __future__ import annotations

import socket

import pytest

from actors.system.receive_buffer import RECEIVE_BYTES, receive


def test_what_was_read_stays_what_it_was() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.sendall(b"first and ")
        read = [receive(near)]
        far.sendall(b"second")
        read += [receive(near, 3), receive(near)]
        assert read == [b"first and ", b"sec", b"ond"]
        with pytest.raises(BlockingIOError):
            receive(near)
        far.close()
        assert receive(near) == b""


def test_a_large_read_is_whole() -> None:
    near, far = socket.socketpair()
    with near, far:
        sent = bytes(range(256)) * (RECEIVE_BYTES // 256)
        far.setblocking(False)
        size = far.send(sent)
        parts = bytearray()
        while len(parts) < size:
            parts += receive(near)
        assert parts == sent[:size]
