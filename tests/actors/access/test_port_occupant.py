"""The holder of an address that cannot be had."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from actors.access.port_occupant import holder_of_path, holder_of_port
from tests.support.ports import free_port

OURSELVES = f"{Path('/proc/self/comm').read_text().strip()}, pid {os.getpid()}"


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "::1"),
        ("::", "127.0.0.1"),
        ("::", "0.0.0.0"),
        ("::1", "::"),
        ("127.0.0.1", "localhost"),
    ],
)
def test_the_process_that_has_a_port_is_named(taken: str, wanted: str) -> None:
    family = socket.AF_INET6 if ":" in taken else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        try:
            listener.bind((taken, free_port()))  # which nobody has at another address
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        listener.listen()
        assert holder_of_port(wanted, listener.getsockname()[1]) == OURSELVES


def test_who_has_the_port_at_another_address_is_not_in_the_way() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        assert holder_of_port("127.0.0.2", listener.getsockname()[1]) == ""


@pytest.mark.process
def test_a_connection_from_the_port_holds_it_too_but_who_listens_is_named_first() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", free_port())) as far, socket.socket() as near:
        near.bind(("127.0.0.1", port))
        near.connect(far.getsockname())
        assert holder_of_port("127.0.0.1", port) == OURSELVES
        program = f"import socket; s = socket.create_server(('127.0.0.2', {port})); print(flush=True); input()"
        words = [sys.executable, "-c", program]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as listener:
            assert listener.stdout is not None
            listener.stdout.readline()
            assert holder_of_port("0.0.0.0", port).endswith(f", pid {listener.pid}")
            listener.communicate(b"\n")


def test_nobody_is_named_for_a_port_that_is_free() -> None:
    assert holder_of_port("127.0.0.1", free_port()) == ""


def test_the_process_that_listens_on_a_unix_socket_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "a socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        assert holder_of_path(path) == OURSELVES
    assert holder_of_path(str(tmp_path / "another")) == ""
