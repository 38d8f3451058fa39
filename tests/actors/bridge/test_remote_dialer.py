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

from actors.remote.dialect_file import DialectFile
from actors.remote.remote_dialer import OpeningEnded, ProbeEnded, RemoteDialer
from actors.remote.remote_socket import NOTHING_SUBSCRIBED
from actors.store.redirecting import redirection
from tests.support.mosquitto import Mosquitto
from tests.support.ports import free_port
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S
from wire.config_settings import AUTO_PROTOCOL
from wire.exchange.failback import Address

pytestmark = pytest.mark.process

NOWHERE = Path("/nowhere")  # where nothing can be remembered, and nothing is lost by that


class Caller:
    """Has threads run, and takes what they tell unless it ``is_gone``."""

    def __init__(
        self,
        *addresses: Address,
        protocol: int = 5,
        try_private: bool = False,
        follow: tuple[str, ...] = (),
        run_dir: Path = NOWHERE,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.is_gone = False
        self.refused: list[OpeningEnded] = []
        self._told: queue.Queue[object] = queue.Queue()
        self._threads: list[threading.Thread] = []
        remote = replace(bridge().remote, addresses=addresses, protocol=protocol, session_expiry_s=3600, follow=follow)
        remote = replace(remote, connect_timeout_s=patience_s)
        remembered = DialectFile(run_dir, "connection:cloud:0")
        self.dialer = RemoteDialer(
            remote, "edge", try_private=try_private, remembered=remembered, in_thread=self._in_thread, tell=self._tell
        )

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

    def dial(self, *addresses: Address, preferred: str = "", clean: bool = False, wall_ms: int = 0) -> OpeningEnded:
        """The message of the opening thread."""
        self.dialer.dial(list(addresses), NOTHING_SUBSCRIBED, preferred=preferred, clean=clean, wall_ms=wall_ms)
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

        caller.dialer.dial([address], NOTHING_SUBSCRIBED, preferred="", clean=False, wall_ms=0)
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
                answer = self.answers[self.levels[-1]]
                if answer is SILENT:
                    connection.recv(1)
                else:
                    connection.sendall(answer)


TAKEN, REFUSED, CLOSED = b"\x20\x02\x00\x00", b"\x20\x02\x00\x01", b""
SILENT = b"nothing"


DAY_MS, HOUR_MS = 86_400_000, 3_600_000


class Edge:
    """A bridge that connects to ``judge`` again and again, over the lives of its process."""

    def __init__(
        self, judge: LevelJudge, run_dir: Path, *, protocol: int, try_private: bool, patience_s: float = PATIENCE_S
    ) -> None:
        self._judge, self._run_dir = judge, run_dir
        self._protocol, self._try_private, self._patience_s = protocol, try_private, patience_s
        self.restart()

    def restart(self) -> None:
        """Its process begins anew."""
        self.caller = Caller(
            self._judge.address,
            protocol=self._protocol,
            try_private=self._try_private,
            run_dir=self._run_dir,
            patience_s=self._patience_s,
        )

    def levels(self, wall_ms: int) -> list[int]:
        """Those that it tried for one connection, the last of them in vain or not."""
        before = len(self._judge.levels)
        ended = self.caller.dial(self._judge.address, wall_ms=wall_ms)
        if ended.remote is not None:
            ended.remote.close()
            self.caller.dialer.on_connected(ended.remote, ended.refused, wall_ms)
        self.caller.join()
        return self._judge.levels[before:]


@pytest.mark.parametrize(
    ("protocol", "best", "answer", "holds_ms"),
    [
        (4, 0x84, REFUSED, DAY_MS),
        (4, 0x84, CLOSED, HOUR_MS),
        (AUTO_PROTOCOL, 5, REFUSED, DAY_MS),  # as a broker of MQTT 3.1.1 says it
        (AUTO_PROTOCOL, 5, b"\x20\x03\x00\x84\x00", DAY_MS),  # as one of 5.0 says it
        (AUTO_PROTOCOL, 5, b"\x20\x03\x00\x81\x00", DAY_MS),  # it found the CONNECT malformed
        (AUTO_PROTOCOL, 5, CLOSED, HOUR_MS),
    ],
)
def test_a_dialect_that_a_remote_refuses_comes_last_for_a_while_also_after_a_restart(
    tmp_path: Path, protocol: int, best: int, answer: bytes, holds_ms: int
) -> None:
    """Somebody who only closes may have had another reason, so that it is believed for an hour and not for a day."""
    with LevelJudge({best: answer, 4: TAKEN}) as judge:
        edge = Edge(judge, tmp_path, protocol=protocol, try_private=protocol == 4)

        assert edge.levels(0) == [best, 4]
        assert edge.levels(holds_ms - 1) == [4]
        edge.restart()
        assert edge.levels(holds_ms - 1) == [4]
        assert edge.levels(holds_ms) == [best, 4]
        edge.caller.dialer.forget_dialects()
        edge.caller.join()
        edge.restart()
        assert edge.levels(holds_ms + 1) == [best, 4]
        edge.restart()
        assert edge.levels(-2 * DAY_MS) == [best, 4], "a clock that was set back does not make it hold for longer"


def test_a_remote_that_says_nothing_to_mqtt_5_is_spoken_to_by_3_1_1(tmp_path: Path) -> None:
    with LevelJudge({5: SILENT, 0x84: REFUSED, 4: TAKEN}) as judge:
        edge = Edge(judge, tmp_path, protocol=AUTO_PROTOCOL, try_private=True, patience_s=0.3)
        assert edge.levels(0) == [5, 0x84, 4]
        assert edge.levels(1) == [4]
        judge.answers[4] = REFUSED  # it was exchanged for one that speaks MQTT 5 alone
        judge.answers[5] = b"\x20\x03\x00\x00\x00"
        assert edge.levels(2) == [4, 5]
        assert edge.levels(3) == [5]


def test_what_was_remembered_and_cannot_be_read_costs_an_attempt(tmp_path: Path) -> None:
    with LevelJudge({5: REFUSED, 4: TAKEN}) as judge:
        edge = Edge(judge, tmp_path, protocol=AUTO_PROTOCOL, try_private=False)
        assert edge.levels(0) == [5, 4]
        [file] = tmp_path.iterdir()
        for content in (b"", b"[1]", b'[["a", "b", false, 1]]', b"\xff"):
            file.write_bytes(content)
            edge.restart()
            assert edge.levels(1) == [5, 4]


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


def test_a_remote_that_refuses_everybody_is_not_known_to_refuse_any() -> None:
    for protocol, answers in ((4, {0x84: REFUSED, 4: CLOSED}), (AUTO_PROTOCOL, {5: CLOSED, 0x84: REFUSED, 4: CLOSED})):
        with LevelJudge(answers) as judge:
            caller = Caller(judge.address, protocol=protocol, try_private=True)
            for _ in range(2):
                ended = caller.dial(judge.address)
                assert ended.remote is None
            assert judge.levels == list(answers) * 2
            caller.join()


def test_what_is_no_question_of_the_dialect_is_asked_once() -> None:
    for protocol, level, answer in ((4, 0x84, b"\x20\x02\x00\x05"), (AUTO_PROTOCOL, 5, b"\x20\x03\x00\x87\x00")):
        with LevelJudge({level: answer, 4: TAKEN}) as judge:
            caller = Caller(judge.address, protocol=protocol, try_private=True)
            assert caller.dial(judge.address).remote is None
            assert judge.levels == [level]
            caller.join()
