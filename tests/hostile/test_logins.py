"""Guesses at passwords are slowed down, and a known client gets in all the same: by one address, one user, one Unix socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from actors.access.access_control import VERIFIED_AT_ONCE
from tests.broker.test_access import Arriving, client, config, figures
from tests.support.node import Node
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.process

LET_IN, WRONG, BLOCKED = 0, 0x86, 0x9F
FAILURES_MAX = 10
LIMITS = {"failures_max": FAILURES_MAX, "period": "1m", "block": "1h"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One for all: each test comes from addresses of its own."""
    folder, port = tmp_path_factory.mktemp("guessed"), free_port()
    listeners = [{"bind": f"127.0.0.1:{port}"}, {"bind": f"unix:{folder / 'mqtt.sock'}"}]
    with Node({**config(folder, login_limits=LIMITS), "listeners": listeners}, folder / "node") as node:
        node.port = port
        yield node


def login(node: Node, user: str, source: str, password: str | None = None) -> int:
    """The code that ``user`` is answered with who comes from ``source``, with the right password if no other is given."""
    with client(node, user, password=password, version=5, source=source) as arriving:
        return arriving.connect().reason_code


def guess(node: Node, user: str, source: str, count: int) -> list[int]:
    return [login(node, user, source, f"guess-{number}") for number in range(count)]


@pytest.mark.parametrize(("wrong", "source"), [(10, "127.1.0.1"), (1000, "127.1.0.2")])
def test_who_is_known_gets_in_beside_wrong_logins_from_the_same_address(node: Node, wrong: int, source: str) -> None:
    """access.known-login-let-in. A client that is not known is refused, with the same answer whether there is such a user or
    not."""
    assert login(node, "ada", source) == LET_IN
    failed = figures(node)["logins_failed"]
    assert {login(node, f"user-{number}", source, "guess") for number in range(wrong)} <= {WRONG, BLOCKED}

    assert login(node, "ada", source) == LET_IN
    assert login(node, "bob", source) == BLOCKED, "even if it is right"
    assert {login(node, user, source, "another guess") for user in ("ada", "bob", "nobody")} == {BLOCKED}
    assert login(node, "ada", source) == LET_IN
    assert login(node, "bob", "127.1.0.3") == LET_IN, "it is the address that waits"
    assert FAILURES_MAX <= figures(node)["logins_failed"] - failed < FAILURES_MAX + VERIFIED_AT_ONCE, "the others cost no look"


def test_who_is_known_does_not_wait_behind_guesses_that_are_being_verified(node: Node) -> None:
    source = "127.1.1.1"
    assert login(node, "ada", source) == LET_IN
    crowd = [client(node, "nobody", f"g{number}", password=f"{number}", version=5, source=source) for number in range(100)]
    try:
        for guessing in crowd:
            guessing.connect_without_waiting()
        assert login(node, "ada", source) == LET_IN
        codes = [guessing.read().reason_code for guessing in crowd]
        assert set(codes) == {WRONG, BLOCKED}
        assert login(node, "ada", source) == LET_IN
    finally:
        for guessing in crowd:
            guessing.close()


def test_one_device_with_an_old_password_shuts_out_none_of_those_that_share_its_user(node: Node) -> None:
    source = "127.1.2.1"
    assert login(node, "ada", source) == LET_IN
    assert [login(node, "ada", source, "as it was") for _ in range(3 * FAILURES_MAX)][FAILURES_MAX:] == [BLOCKED] * 2 * FAILURES_MAX
    assert login(node, "ada", source) == LET_IN


def test_guesses_at_who_is_known_are_counted_too(node: Node) -> None:
    """access.known-login-let-in: with the same answer, and only there."""
    here, elsewhere = "127.1.3.1", "127.1.3.2"
    assert (login(node, "eve", here), login(node, "eve", elsewhere), login(node, "ada", here)) == (LET_IN,) * 3
    assert guess(node, "eve", here, 2 * FAILURES_MAX) == [WRONG] * FAILURES_MAX + [BLOCKED] * FAILURES_MAX
    assert login(node, "eve", here) == BLOCKED
    assert (login(node, "eve", elsewhere), login(node, "ada", here)) == (LET_IN, LET_IN)


@pytest.mark.parametrize(("user", "network"), [("bob", "127.2.0"), ("mallory", "127.2.1")])
def test_guesses_at_one_user_from_many_addresses_have_that_user_wait(node: Node, user: str, network: str) -> None:
    """access.failed-logins-wait: whether there is that user or not; who is known from where it comes gets in."""
    if user == "bob":
        assert login(node, user, f"{network}.100") == LET_IN
    assert [login(node, user, f"{network}.{number}", "guess") for number in range(1, 1 + FAILURES_MAX)] == [WRONG] * FAILURES_MAX

    assert login(node, user, f"{network}.50", "guess") == BLOCKED
    if user == "bob":
        assert login(node, user, f"{network}.50") == BLOCKED, "even if it is right"
        assert login(node, user, f"{network}.100") == LET_IN
    assert login(node, "ada", f"{network}.1") == LET_IN, "no address has failed often"
    assert node.events("user.blocked")[-1]["user"] == user


class OnUnixSocket(Arriving):
    """A client that comes by a Unix socket."""

    def __init__(self, path: str, **keys: Any) -> None:
        super().__init__(0, "c", version=5, **keys)
        self._path = path

    def dial(self, deadline_s: float | None = None) -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(PATIENCE_S if deadline_s is None else deadline_s)
        sock.connect(self._path)
        self.take_socket(sock)


def test_wrong_passwords_on_a_unix_socket_have_their_limit(node: Node) -> None:
    """They count by the user whose process it is."""
    path = str(node.config_path.parent.with_name("mqtt.sock"))

    def locally(user: str, password: str) -> int:
        with OnUnixSocket(path, username=user, password=password) as arriving:
            return arriving.connect().reason_code

    assert locally("eve", "adams") == LET_IN
    codes = [locally("nobody", f"guess-{number}") for number in range(2 * FAILURES_MAX)]
    assert codes == [WRONG] * FAILURES_MAX + [BLOCKED] * FAILURES_MAX
    assert locally("ada", "lovelace") == BLOCKED
    assert locally("eve", "adams") == LET_IN
    assert node.events("address.blocked")[-1]["address"].startswith("unix:uid=")
