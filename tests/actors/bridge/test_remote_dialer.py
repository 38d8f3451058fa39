"""A real Mosquitto, or nobody, at each of a remote's addresses; the threads are real too."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from actors.remote.remote_dialer import OpeningEnded, ProbeEnded, RemoteDialer
from actors.remote.remote_socket import NOTHING_SUBSCRIBED
from actors.store.redirecting import redirection
from tests.support.mosquitto import Mosquitto
from tests.support.ports import free_port
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S
from wire.exchange.failback import Address
from wire.exchange.remote_dialects import Dialect

pytestmark = pytest.mark.process


class Caller:
    """Has threads run, and takes what they tell unless it ``is_gone``."""

    def __init__(self, *addresses: Address, try_private: bool = False, follow: tuple[str, ...] = ()) -> None:
        self.is_gone = False
        self.refused: list[OpeningEnded] = []
        self._told: queue.Queue[object] = queue.Queue()
        self._threads: list[threading.Thread] = []
        remote = replace(bridge().remote, addresses=addresses, protocol=5, session_expiry_s=3600, connect_timeout_s=PATIENCE_S)
        remote = replace(remote, protocol=4 if try_private else 5, follow=follow)
        self.dialer = RemoteDialer(remote, "edge", try_private=try_private, in_thread=self._in_thread, tell=self._tell)

    def _in_thread(self, name: str, job: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=job, name=name))
        self._threads[-1].start()

    def _tell(self, message: object) -> bool:
        if self.is_gone:
            assert isinstance(message, OpeningEnded)
            self.refused.append(message)
            return False
        self._told.put(message)
        return True

    def dial(self, *addresses: Address, preferred: str = "", clean: bool = False, now_s: float = 0.0) -> OpeningEnded:
        """The message of the opening thread."""
        self.dialer.dial(list(addresses), NOTHING_SUBSCRIBED, preferred=preferred, clean=clean, now_s=now_s)
        message = self._told.get(timeout=PATIENCE_S)
        assert isinstance(message, OpeningEnded)
        return message

    def probe(self, number: int, address: Address) -> ProbeEnded:
        """The message of the probing thread."""
        self.dialer.probe(number, address)
        message = self._told.get(timeout=PATIENCE_S)
        assert isinstance(message, ProbeEnded)
        return message

    def join(self) -> None:
        """Until the threads have ended."""
        for thread in self._threads:
            thread.join(PATIENCE_S)


def test_the_first_address_that_lets_us_in_is_taken_and_tells_whether_the_primary_was_tried(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "remote") as mosquitto:
        dead, live = ("127.0.0.1", free_port()), ("127.0.0.1", mosquitto.port)
        caller = Caller(dead, live)

        behind, before = caller.dial(dead, live), caller.dial(live, dead)

        for ended, tried_first in ((behind, True), (before, False)):
            assert ended.remote is not None
            assert (ended.remote.address, ended.error) == (f"127.0.0.1:{mosquitto.port}", None)
            assert (ended.tried_first, ended.clean) == (tried_first, False)
            ended.remote.close()


def test_where_nobody_lets_us_in_the_error_says_why_of_each() -> None:
    one, other = ("127.0.0.1", free_port()), ("127.0.0.1", free_port())

    ended = Caller(one, other).dial(one, other)

    assert ended.remote is None
    assert ended.error is not None
    for address, said in zip((one, other), ended.error.message.split("; "), strict=True):
        assert said.startswith(f"127.0.0.1:{address[1]}: tcp: ")


def test_only_the_session_at_the_preferred_address_is_ended(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "remote") as mosquitto:
        address = ("127.0.0.1", mosquitto.port)
        caller = Caller(address)
        present = []
        for preferred in ("", "127.0.0.1:1", f"127.0.0.1:{mosquitto.port}"):
            ended = caller.dial(address, preferred=preferred, clean=True)
            assert ended.remote is not None
            present.append((ended.remote.connack.session_present, ended.clean))
            ended.remote.close()

        assert present == [(False, False), (True, False), (False, True)]


def test_a_connection_that_nobody_wants_any_more_is_closed(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "remote") as mosquitto:
        address = ("127.0.0.1", mosquitto.port)
        caller = Caller(address)
        caller.is_gone = True

        caller.dialer.dial([address], NOTHING_SUBSCRIBED, preferred="", clean=False, now_s=0.0)
        caller.join()

        [ended] = caller.refused
        assert ended.remote is not None
        assert ended.remote.fileno() == -1


def test_a_probe_says_whether_anybody_is_there_under_its_number(tmp_path: Path) -> None:
    dead = ("127.0.0.1", free_port())
    with Mosquitto(tmp_path / "remote") as mosquitto:
        caller = Caller(dead)

        assert caller.probe(7, ("127.0.0.1", mosquitto.port)) == ProbeEnded(number=7, error="")
        refused = caller.probe(8, dead)

        assert refused.number == 8
        assert refused.error.startswith("tcp: ")


class LevelJudge:
    """A broker that answers CONNECT of these protocol levels as it is told, and notes the levels that came."""

    def __init__(self, answers: dict[int, bytes]) -> None:
        self.levels: list[int] = []
        self.answers = answers
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: Address = ("127.0.0.1", self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_S)
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.levels.append(connection.recv(1000)[8])
                connection.sendall(self.answers[self.levels[-1]])


TAKEN, REFUSED, CLOSED = b"\x20\x02\x00\x00", b"\x20\x02\x00\x01", b""


@pytest.mark.parametrize("answer", [REFUSED, CLOSED])
def test_a_remote_that_refuses_the_bridge_bit_is_spoken_to_without_for_a_day(answer: bytes) -> None:
    with LevelJudge({0x84: answer, 4: TAKEN}) as judge:
        caller = Caller(judge.address, try_private=True)
        place = f"127.0.0.1:{judge.address[1]}"

        def connect(now_s: float) -> tuple[Dialect, ...]:
            ended = caller.dial(judge.address, now_s=now_s)
            assert ended.remote is not None
            assert ended.remote.dialect == Dialect(4)
            ended.remote.close()
            caller.dialer.on_connected(place, ended.refused, now_s)
            return ended.refused

        assert connect(0.0) == (Dialect(4, private=True),)
        assert connect(86_399.0) == ()
        assert connect(86_400.0) == (Dialect(4, private=True),)
        caller.dialer.forget_dialects()
        assert connect(86_401.0) == (Dialect(4, private=True),)
        assert judge.levels == [0x84, 4, 4, 0x84, 4, 0x84, 4]
        caller.join()


def test_another_server_that_may_be_followed_is_gone_to(tmp_path: Path) -> None:
    """A member of a cluster that stands by answers CONNECT with where the leader is; the leader is a Mosquitto here."""
    with Mosquitto(tmp_path / "leader") as leader:
        there = f"127.0.0.1:{leader.port}"
        with LevelJudge({5: redirection(5, f"nowhere.example:1 {there}")}) as judge:
            for allowed in ((), ("example.com", "10.0.0.0/8"), ("127.0.0.0/8",)):
                caller = Caller(judge.address, follow=allowed)
                ended = caller.dial(judge.address)
                if allowed != ("127.0.0.0/8",):
                    assert ended.remote is None
                    continue
                assert ended.remote is not None
                assert ended.remote.address == there
                ended.remote.close()
                caller.join()


def test_servers_that_send_on_to_each_other_end_the_attempt() -> None:
    with LevelJudge({}) as first, LevelJudge({}) as second:
        for judge, other in ((first, second), (second, first)):
            judge.answers[5] = redirection(5, f"{other.address[0]}:{other.address[1]}")
        caller = Caller(first.address, follow=("127.0.0.1",))
        assert caller.dial(first.address).remote is None
        assert (first.levels, second.levels) == ([5], [5])
        caller.join()


def test_a_remote_that_refuses_everybody_is_not_known_to_refuse_the_bit() -> None:
    with LevelJudge({0x84: REFUSED, 4: CLOSED}) as judge:
        caller = Caller(judge.address, try_private=True)
        for _ in range(2):
            ended = caller.dial(judge.address)
            assert ended.remote is None
        assert judge.levels == [0x84, 4] * 2
        caller.join()


def test_what_is_no_question_of_the_bit_is_asked_once() -> None:
    with LevelJudge({0x84: b"\x20\x02\x00\x05", 4: TAKEN}) as judge:
        caller = Caller(judge.address, try_private=True)
        assert caller.dial(judge.address).remote is None
        assert judge.levels == [0x84]
        caller.join()
