"""A session is opened twice when the store starts anew: what came after the first answer must survive the second request."""

from __future__ import annotations

import select
import socket
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from actors.access import Access
from actors.client import Client
from actors.client_admin import ClientAdmin
from actors.client_sessions import LATE_S, UNANSWERED_S, ClientSessions
from actors.handed_over import SessionDown
from actors.mailbox import PollGroup
from tests.supervisor.settings import node_settings
from wire.batch import pack_column
from wire.frames import (
    Frame,
    QueueAnswer,
    SessionClose,
    SessionClosed,
    SessionCommand,
    SessionGone,
    SessionOpen,
    SessionOpened,
    SessionsKnown,
)
from wire.mqtt.codec import encode
from wire.mqtt.packets import Connect, Publish, Will
from wire.mqtt.properties import Properties
from wire.mqtt.publish_stream import BatchBuilder, parse_publishes
from wire.names import SUPERVISOR
from wire.settings import ListenerSettings, NodeSettings
from wire.wills import Message


class FakeMailbox:
    """Time stands still until it is moved on."""

    time_s = 0.0

    def traffic(self) -> dict[str, int]:
        return {}

    def now_s(self) -> float:
        return self.time_s

    def wall_ms(self) -> int:
        return 0

    def set_timer(self, name: str, at_s: float) -> None: ...

    def cancel_timer(self, name: str) -> None: ...


class FakeHost:
    """Keeps what is asked for and what is said."""

    name = "sender"
    epoch = 1

    def __init__(self) -> None:
        self.mailbox = FakeMailbox()
        self.asked: list[SessionOpen] = []
        self.ends: list[SessionClose] = []
        self.down: list[SessionDown] = []
        self.wills: list[str] = []
        self.limits: list[str] = []
        self.sessions: ClientSessions | None = None
        self.said = b""
        self.writes = 0
        self.full = False
        self.busy_sessions: set[str] = set()

    def send(self, peer: str, frame: Frame) -> None:
        if isinstance(frame, SessionOpen):
            self.asked.append(frame)
        elif isinstance(frame, SessionClose):
            self.ends.append(frame)
        elif isinstance(frame, SessionDown):
            self.down.append(frame)

    def close_client(self, client: Client, why: str, *, publish_will: bool = True) -> None:
        if not client.closed:
            client.close()
            assert self.sessions is not None
            self.sessions.closed(client, publish_will=publish_will)

    def add_will(self, session: str, message: Message, source: int, refused: tuple[int, int] = (0, 0)) -> None:
        self.wills.append(session)

    def limited(self, limit: str) -> None:
        self.limits.append(limit)

    def write(self, client: Client, data: bytes) -> None:
        self.said += data
        self.writes += 1

    def busy(self, session: str) -> bool:
        return session in self.busy_sessions

    def welcomed(self, client: Client) -> None: ...

    def greeted(self, client: Client) -> None: ...


def opened(asked: SessionOpen, *, received: bytes = b"") -> SessionOpened:
    return SessionOpened(
        sender=asked.sender,
        epoch=asked.epoch,
        store=1,
        request=asked.request,
        session=asked.session,
        present=False,
        received=received,
    )


def sessions_of(host: Any, settings: NodeSettings) -> ClientSessions:
    return ClientSessions(host, settings, Access(host, settings, lambda _: True), host, host.welcomed)


def local_sessions(host: Any, tmp_path: Path) -> ClientSessions:
    settings = replace(node_settings(tmp_path), listeners=(ListenerSettings(host="127.0.0.1", port=1, protocol="tcp"),))
    return sessions_of(host, settings)


def test_what_an_opening_takes_is_no_client_s_silence(tmp_path: Path) -> None:
    """It is not heard meanwhile, and need not say anything before its CONNACK [MQTT-3.1.2-22]."""
    host: Any = FakeHost()
    sessions = local_sessions(host, tmp_path)
    sessions.known(SessionsKnown(epoch=1, store=1, sessions=(), last=True))
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)
        lasts = Properties(session_expiry_interval=60)
        sessions.connect(client, Connect(level=5, client_id="c", clean_start=False, keep_alive_s=2, properties=lasts))
        assert not client.heard
        host.mailbox.time_s = 60.0

        sessions.opened(opened(host.asked.pop()))

        assert client.heard
        assert not client.keep_alive.is_over(63.0, 0)
        assert client.keep_alive.is_over(63.1, 0)
        client.close()


@pytest.mark.parametrize(("due_ms", "wait_s"), [(20_000, 20), (36_000_000, 30)], ids=["usual", "set-back"])
def test_a_will_that_is_left_waits_no_longer_than_its_delay(due_ms: int, wait_s: int, tmp_path: Path) -> None:
    """Also when the clock was set back by hours since its client went: the record has when it is due."""
    host: Any = FakeHost()
    sessions = local_sessions(host, tmp_path)
    will = (b"site/gone", 1, b"bye", b"", 30)

    sessions.known(SessionsKnown(epoch=1, store=1, sessions=(("c", "session:1:c", (), will, due_ms, None, ""),), last=True))

    sessions.publish_due_wills(wait_s - 1.0)
    assert not host.wills
    sessions.publish_due_wills(float(wait_s))
    assert host.wills == ["c"]


@pytest.mark.parametrize("clean", [True, False])
def test_a_local_client_is_asked_for_again_as_the_same_opening_and_welcomed_once(clean: bool, tmp_path: Path) -> None:
    host: Any = FakeHost()
    sessions = local_sessions(host, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)

        lasting = Properties(session_expiry_interval=60)
        sessions.connect(client, Connect(level=5, client_id="c", clean_start=clean, keep_alive_s=0, properties=lasting))
        assert not host.asked, "it is not known yet which Wills are left"
        sessions.known(SessionsKnown(epoch=1, store=1, sessions=(), last=True))
        sessions.store_is_new()
        first, second = host.asked
        assert first == second, "the store knows an opening by its request, and gives the same answer"
        sessions.opened(opened(first))
        sessions.opened(opened(second))
        client.close()

    assert host.writes == 1, "one CONNACK"


@pytest.mark.parametrize(
    ("acknowledge", "sync", "rows"), [("after-commit", "full", 1), ("fast", "full", 2), ("after-commit", "os", 2)]
)
def test_an_identifier_on_record_is_doubted_where_its_removal_may_be_lost(
    acknowledge: str, sync: str, rows: int, tmp_path: Path
) -> None:
    """Two PUBLISHes under an identifier that the record has, without DUP, and one under another that it has, with DUP."""
    host: Any = FakeHost()
    listeners = (ListenerSettings(host="127.0.0.1", port=1, protocol="tcp"),)
    settings = replace(node_settings(tmp_path), listeners=listeners)
    settings = replace(settings, persistence=replace(settings.persistence, acknowledge=acknowledge, sync=sync))
    sessions = sessions_of(host, settings)
    builder = BatchBuilder(rows_max=10, bytes_max=1000)
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)
        sessions.connect(client, Connect(level=4, client_id="c", clean_start=False, keep_alive_s=0))
        sessions.known(SessionsKnown(epoch=1, store=1, sessions=(), last=True))
        sessions.opened(opened(host.asked.pop(), received=pack_column(array("H", [5, 6]))))
        assert client.flow is not None
        for packet_id, dup in ((5, False), (5, False), (6, True), (7, False)):
            parse_publishes(
                encode(Publish(topic="t", payload=b"", qos=2, packet_id=packet_id, dup=dup), 4), 0, 4, client.flow, builder
            )
        client.close()

    assert len(builder) == rows
    assert len(client.flow.pubrec_ids) == 4


# --- without the store (C7, C8) ---

WILL = Will(topic="gone", payload=b"x", qos=0, retain=False)
WELCOMED, REFUSED_311, REFUSED_5 = b"\x20\x02\x00\x00", b"\x20\x02\x00\x03", 0x88


class Door:
    """Local clients that come to ``ClientSessions``, whose store answers when the test does."""

    def __init__(self, folder: Path, *records: str, will: tuple[bytes, int, bytes, bytes, int] | None = None) -> None:
        """``records``: identifiers of sessions that are on record, each with ``will``, which is due after 20 seconds."""
        host: Any = FakeHost()
        self.host = host
        listeners = (ListenerSettings(host="127.0.0.1", port=1, protocol="tcp"),)
        settings = replace(node_settings(folder), listeners=listeners)
        self.sessions = sessions_of(self.host, settings)
        self.host.sessions = self.sessions
        self._server = socket.create_server(("127.0.0.1", 0))
        self._outer = select.epoll()
        self._numbers = 0
        rows = tuple((name, f"session:1:{name}", (), will, 20_000, None, "") for name in records)
        self.sessions.known(SessionsKnown(epoch=1, store=1, sessions=rows, last=True))

    def come(self, *, clean: bool = True, will: Will | None = None, level: int = 4, name: str = "c", expiry_s: int = 0) -> Client:
        """A client sends CONNECT, and a turn ends."""
        self._numbers += 1
        sock = socket.create_connection(self._server.getsockname())
        client = Client(sock, "somewhere", self._numbers, PollGroup(self._outer), self.host.mailbox.now_s())
        properties = Properties(session_expiry_interval=expiry_s) if level == 5 else Properties()
        connect = Connect(level=level, client_id=name, clean_start=clean, keep_alive_s=0, will=will, properties=properties)
        self.sessions.connect(client, connect)
        self.turn()
        return client

    def turn(self) -> None:
        self.sessions.let_in()
        self.sessions.look_up()

    def wait(self, period_s: float) -> None:
        """Time passes, in which the store says nothing."""
        self.host.mailbox.time_s += period_s
        self.sessions.wait_no_longer(self.host.mailbox.time_s)
        self.turn()

    def said(self) -> bytes:
        """What was sent to clients since the last time."""
        said, self.host.said = self.host.said, b""
        return bytes(said)

    def answer(self, *, queue: str = "", present: bool = False, refused: str = "") -> None:
        """The store answers the oldest question."""
        answer = opened(self.host.asked.pop(0))
        self.sessions.opened(replace(answer, queue=queue, present=present, refused=refused))

    def commit_ends(self) -> None:
        """The store has committed how connections ended."""
        ends, self.host.ends = self.host.ends, []
        for end in ends:
            self.sessions.close_committed(SessionClosed(epoch=1, source=end.source))
        self.turn()

    def close(self) -> None:
        self._server.close()
        self._outer.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """The store has the session of one client, named kept."""
    door = Door(tmp_path, "kept")
    yield door
    door.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_client_of_which_nothing_is_to_be_kept_needs_no_store(door: Door, clean: bool) -> None:
    client = door.come(clean=clean, level=5)
    assert client.flow is not None
    connack = door.said()
    assert (connack[0], connack[2], connack[3]) == (0x20, 0, 0), "no session was there [MQTT-3.2.2-2]"
    door.host.close_client(client, "gone")
    assert (door.host.asked, door.host.ends) == ([], []), "the store hears nothing of it"
    assert [down.ended for down in door.host.down] == [True], "the Distributor does"


def test_a_newer_client_takes_such_a_session_over_without_the_store(door: Door) -> None:
    older = door.come()
    newer = door.come()
    assert older.closed
    assert newer.flow is not None
    assert door.said() == WELCOMED * 2
    assert door.host.asked == []


def test_a_recorded_session_is_ended_by_the_store_and_by_nobody_else(door: Door) -> None:
    client = door.come(name="kept")
    assert client.flow is None
    assert [asked.clean for asked in door.host.asked] == [True]
    door.answer()
    assert door.said() == WELCOMED
    door.host.close_client(client, "gone")
    assert door.come(name="kept").flow is not None, "it has ended"


def test_a_session_that_another_s_name_protects_is_still_there_for_the_store_to_judge(door: Door) -> None:
    """Refused, or gone before the answer: what is on record was not touched."""
    door.come(name="kept")
    door.answer(refused="user")
    door.host.close_client(door.come(name="kept"), "gone")
    door.answer()
    door.commit_ends()
    assert door.come(name="kept").flow is None


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_a_session_is_on_record_until_its_end_is_committed(door: Door, expiry_s: int) -> None:
    client = door.come(level=5, expiry_s=60)
    door.answer(queue="session:2:c")
    client.expiry_s = expiry_s  # as DISCONNECT may change it
    door.host.close_client(client, "disconnect")
    door.commit_ends()
    assert (door.come().flow is not None) == (expiry_s == 0)


def test_what_became_of_a_question_that_nobody_waits_for_is_not_known(door: Door) -> None:
    """Whether the store ended the session, or refused to, it did not say."""
    client = door.come(level=5, expiry_s=60)
    door.answer(queue="session:2:c")
    client.expiry_s = 0
    door.host.close_client(client, "disconnect")
    door.host.close_client(door.come(), "gone")
    door.host.asked.clear()
    door.commit_ends()
    assert door.come().flow is None
    door.answer()
    assert door.come().flow is not None


def test_an_expired_session_is_in_nobody_s_way(door: Door) -> None:
    door.sessions.gone(SessionGone(session="kept", queue="session:1:kept"))
    assert door.come(name="kept").flow is not None


def test_a_client_with_a_will_waits_for_the_store_but_not_for_long(door: Door) -> None:
    client = door.come(will=WILL)
    door.wait(LATE_S / 2)
    assert client.flow is None
    door.wait(LATE_S)
    assert client.flow is not None
    assert door.said() == WELCOMED
    door.answer()
    door.wait(UNANSWERED_S)
    assert door.said() == b"", "welcomed once, and not refused"
    door.host.close_client(client, "gone")
    assert [end.keep_will for end in door.host.ends] == [True], "it is on record until a batch with it is committed"
    assert door.host.wills == ["c"]


def test_a_will_that_is_not_on_record_when_its_connection_ends_need_not_get_there(door: Door) -> None:
    client = door.come(will=WILL)
    door.wait(LATE_S)
    door.host.close_client(client, "gone")
    assert door.host.wills == ["c"], "it is published"
    assert [end.keep_will for end in door.host.ends] == [False], "the opening may come behind the batch with it"
    for _ in range(3):  # it comes and goes while the store is silent
        again = door.come(will=WILL)
        door.wait(LATE_S)
        assert again.flow is not None
        door.host.close_client(again, "gone")
    assert door.host.wills == ["c"] * 4
    assert len(door.host.asked) == len(door.host.ends) == 1, "they do not pile up"
    last = door.come(will=WILL)
    door.wait(LATE_S)
    door.commit_ends()
    assert len(door.host.asked) == 2, "a Will of one that is connected gets on record when it can"
    assert not last.closed


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("name", ["kept", "new"])
def test_who_needs_the_store_is_told_that_it_does_not_answer(door: Door, level: int, name: str) -> None:
    client = door.come(clean=False, level=level, name=name, expiry_s=60)
    door.wait(UNANSWERED_S - 1)
    assert door.said() == b""
    door.wait(1)
    said = door.said()
    assert said == REFUSED_311 if level == 4 else (said[0], said[2], said[3]) == (0x20, 0, REFUSED_5), "[MQTT-3.2.2-6]"
    assert client.closed
    assert door.host.limits == ["store_unavailable"]
    door.come(clean=False, level=level, name=name, expiry_s=60)
    assert len(door.host.asked) == 1, "the next one is asked for when the former one's end is committed"
    door.commit_ends()
    assert len(door.host.asked) == 2


def test_time_in_which_the_listener_stood_still_is_not_the_store_s(door: Door) -> None:
    client = door.come(clean=False)
    door.sessions.stood_still(UNANSWERED_S)
    door.wait(UNANSWERED_S)
    assert not client.closed
    door.wait(UNANSWERED_S)
    assert client.closed


def test_nobody_is_let_in_before_it_is_known_what_is_on_record(tmp_path: Path) -> None:
    """Neither at once nor late; then they are refused."""
    host: Any = FakeHost()
    settings = replace(node_settings(tmp_path), listeners=(ListenerSettings(host="127.0.0.1", port=1, protocol="tcp"),))
    host.sessions = sessions = sessions_of(host, settings)
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)
        sessions.connect(client, Connect(level=4, client_id="c", clean_start=True, keep_alive_s=0))
        sessions.let_in()
        sessions.wait_no_longer(LATE_S)
        assert not host.said
        sessions.wait_no_longer(UNANSWERED_S)
    assert host.said == REFUSED_311
    assert (host.asked, host.ends) == ([], [])


# --- Wills that wait (C3, C4) ---

LEFT = (b"site/gone", 1, b"bye", b"", 30)
LEFT_AT_ONCE = (b"site/gone", 1, b"bye", b"", 0)


@pytest.mark.parametrize("how", ["refused", "unanswered", "gone", "not asked"])
def test_c3_a_will_is_taken_back_by_a_connack_and_by_nothing_less(how: str, tmp_path: Path) -> None:
    """It would be on record for ever, and keep its session from ending."""
    door = Door(tmp_path, "c", will=LEFT)
    if how == "not asked":
        door.host.busy_sessions.add("c")
    client = door.come(clean=False, level=5, expiry_s=60)
    match how:
        case "refused":
            door.answer(refused="user")
        case "unanswered":
            door.wait(UNANSWERED_S)
        case _:
            door.host.close_client(client, "gone")
    assert client.closed

    door.sessions.publish_due_wills(19.0)
    assert door.host.wills == []
    door.sessions.publish_due_wills(20.0)
    assert door.host.wills == ["c"]
    door.close()


def test_c3_a_will_that_was_taken_back_is_published_no_more(tmp_path: Path) -> None:
    door = Door(tmp_path, "c", will=LEFT)
    client = door.come(clean=False, level=5, expiry_s=60)
    door.answer(queue="session:1:c", present=True)
    door.host.close_client(client, "gone")
    door.sessions.publish_due_wills(1e6)
    assert door.host.wills == []
    door.close()


def test_c4_no_will_is_published_before_all_are_known_and_each_store_tells_all(tmp_path: Path) -> None:
    host: Any = FakeHost()
    sessions = local_sessions(host, tmp_path)
    session = ("c", "session:1:c", (), LEFT_AT_ONCE, 0, None, "")
    first = SessionsKnown(epoch=1, store=1, sessions=(session,), refused=(("r", 1, 1, LEFT_AT_ONCE),), last=False)

    def housekeeping() -> None:
        sessions.publish_due_wills(5.0)
        sessions.publish_refused_wills(5.0)

    sessions.known(first)
    housekeeping()
    assert host.wills == []

    sessions.store_is_new()
    sessions.known(first)
    sessions.known(SessionsKnown(epoch=1, store=2, sessions=(), last=True))
    housekeeping()
    assert sorted(host.wills) == ["c", "r"]


def test_wills_for_which_the_batch_has_no_room_wait_for_the_next_one(tmp_path: Path) -> None:
    """As many may be due at once as clients were connected."""
    door = Door(tmp_path, "left", "expired", will=LEFT)
    leaves = door.come(name="leaves", clean=False, level=5, expiry_s=60, will=WILL)
    door.answer(queue="session:2:leaves")
    door.host.full = True

    door.host.close_client(leaves, "gone")
    door.sessions.gone(SessionGone(session="expired", queue="session:1:expired"))
    door.sessions.publish_due_wills(30.0)
    comes = door.come(name="left", level=5, expiry_s=60)
    assert (door.host.wills, door.host.asked) == ([], [])
    assert not comes.closed

    door.host.full = False
    door.sessions.publish_due_wills(30.0)
    door.turn()
    assert sorted(door.host.wills) == ["expired", "leaves", "left"]
    assert [asked.session for asked in door.host.asked] == ["left"], "what is on record of it is out first"
    door.close()


# --- sessions that an operator ends (C6) ---


def end(request: int) -> SessionCommand:
    return SessionCommand(request=request, verb="end", arguments={"client_id": "c"}, asker=SUPERVISOR)


def end_answered(request: int, *, ordered: bool) -> QueueAnswer:
    result = {"ordered": True} if ordered else {}
    return QueueAnswer(request=request, error="unavailable", message="the disk refuses", result=result)


def test_c6_who_was_sent_away_may_come_again_though_the_disk_refuses(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store tells of the end of what it has; of a session that ends with its connection it has nothing."""
    admin = ClientAdmin(door.host, door.sessions)
    monkeypatch.setattr(admin, "_row", lambda client: {"client_id": client.session, "lasting": bool(client.queue)})
    client = door.come()
    admin.command(end(1))
    assert client.closed
    admin.answered(end_answered(1, ordered=True))

    again = door.come()

    assert again.flow is not None
    assert not again.closed


def test_c6_an_identifier_is_held_until_every_end_of_it_is_through(tmp_path: Path) -> None:
    door = Door(tmp_path, "c", will=LEFT)
    admin = ClientAdmin(door.host, door.sessions)
    admin.command(end(1))
    admin.answered(end_answered(1, ordered=True))
    door.come(clean=False, level=5, expiry_s=60)
    admin.command(end(2))
    admin.answered(end_answered(2, ordered=False))
    assert door.host.asked == []

    gone = SessionGone(session="c", queue="session:1:c")
    admin.gone(gone.session)
    door.sessions.gone(gone)
    assert door.host.wills == ["c"]
    assert [asked.session for asked in door.host.asked] == ["c"]
    door.close()
