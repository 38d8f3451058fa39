"""A session is opened twice when the store starts anew: what came after the first answer must survive the second request."""

from __future__ import annotations

import select
import socket
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from actors.access import Access
from actors.client import Client
from actors.client_host import ClientHost
from actors.client_sessions import ClientSessions
from actors.mailbox import PollGroup
from actors.remote import Connack
from actors.remote_intake import Host as ConnectionHost
from actors.remote_intake import RemoteIntake
from tests.supervisor.settings import node_settings
from tests.wire.rules import bridge_of, rule
from wire.batch import pack_column
from wire.frames import Frame, SessionOpen, SessionOpened, SessionsKnown
from wire.mqtt.codec import encode
from wire.mqtt.packets import Connect, Publish
from wire.mqtt.publish_stream import BatchBuilder, parse_publishes
from wire.names import QUEUE_STORE
from wire.settings import ListenerSettings
from wire.wills import Message


class FakeMailbox:
    """Time stands still until it is moved on."""

    time_s = 0.0

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
        self.said = b""
        self.writes = 0
        self.wills: list[str] = []
        self.session_on_record = True

    def send(self, peer: str, frame: Frame) -> None:
        if isinstance(frame, SessionOpen):
            self.asked.append(frame)

    def say(self, data: bytes) -> None:
        self.said += data

    def write(self, client: Client, data: bytes) -> None:
        self.said += data
        self.writes += 1

    def busy(self, session: str) -> bool:
        return False

    def opened(self, client: Client) -> None: ...

    def parse_on(self, client: Client) -> None: ...

    def hear(self, heard: bool) -> None: ...

    def greeted(self, client: Client) -> None: ...

    def add_will(self, session: str, message: Message, source: int) -> None:
        self.wills.append(session)


def opened(asked: SessionOpen, *, received: bytes = b"") -> SessionOpened:
    return SessionOpened(
        sender=asked.sender, epoch=asked.epoch, request=asked.request, session=asked.session, present=False, received=received
    )


def test_a_remote_s_messages_wait_for_the_last_opening(tmp_path: Path) -> None:
    host = FakeHost()
    bridge = replace(bridge_of("cloud"), remote_subscriptions=(rule(1, "cmd/#"),))
    intake = RemoteIntake(cast("ConnectionHost", host), node_settings(tmp_path, bridge), bridge)

    intake.connected("c@one", Connack(session_present=False))
    intake.peer_up(QUEUE_STORE)
    first, second = host.asked
    assert first.clean
    assert second.clean
    intake.frame(opened(first))

    assert not host.said, "the second request would forget what comes after this SUBSCRIBE"
    intake.frame(opened(second))
    assert host.said[0] == 0x82, "SUBSCRIBE"


def intake_after_another_address(host: FakeHost, tmp_path: Path) -> RemoteIntake:
    """It was let in at one address, and then at another, where its session is new and not on record yet."""
    bridge = replace(bridge_of("cloud"), remote_subscriptions=(rule(1, "cmd/#"),))
    intake = RemoteIntake(cast("ConnectionHost", host), node_settings(tmp_path, bridge), bridge)
    intake.connected("c@one", Connack(session_present=True))
    intake.frame(opened(host.asked.pop()))
    intake.disconnected()
    host.session_on_record = False
    intake.connected("c@two", Connack(session_present=False))
    intake.turn_end(0.0)
    return intake


def test_the_identifiers_of_a_session_stay_until_another_is_on_record(tmp_path: Path) -> None:
    """Otherwise a lane that goes back to the address before takes what comes again there for new [MQTT-4.3.3-10]."""
    host = FakeHost()
    intake = intake_after_another_address(host, tmp_path)
    assert not host.asked

    host.session_on_record = True
    intake.turn_end(0.0)

    assert [asked.clean for asked in host.asked] == [True]


def test_a_lane_that_goes_back_to_the_session_on_record_forgets_nothing_of_it(tmp_path: Path) -> None:
    host = FakeHost()
    intake = intake_after_another_address(host, tmp_path)
    intake.disconnected()
    host.session_on_record = True

    intake.connected("c@one", Connack(session_present=True))

    assert [asked.clean for asked in host.asked] == [False]


def test_a_session_that_was_new_is_still_to_be_forgotten_for_on_its_next_connection(tmp_path: Path) -> None:
    host = FakeHost()
    intake = intake_after_another_address(host, tmp_path)
    intake.disconnected()
    host.session_on_record = True

    intake.connected("c@two", Connack(session_present=True))

    assert [asked.clean for asked in host.asked] == [True]


def local_sessions(host: Any, tmp_path: Path) -> ClientSessions:
    settings = replace(node_settings(tmp_path), listeners=(ListenerSettings(host="127.0.0.1", port=1, protocol="tcp"),))
    return ClientSessions(cast("ClientHost", host), settings, Access(host, settings))


def test_what_an_opening_takes_is_no_client_s_silence(tmp_path: Path) -> None:
    """It is not heard meanwhile, and need not say anything before its CONNACK [MQTT-3.1.2-22]."""
    host: Any = FakeHost()
    sessions = local_sessions(host, tmp_path)
    sessions.known(SessionsKnown(epoch=1, sessions=(), last=True))
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)
        sessions.connect(client, Connect(level=5, client_id="c", clean_start=False, keep_alive_s=2))
        assert not client.heard
        host.mailbox.time_s = 60.0

        sessions.opened(opened(host.asked.pop()))

        assert client.heard
        assert client.heard_s == 60.0
        client.close()


@pytest.mark.parametrize(("due_ms", "wait_s"), [(20_000, 20), (36_000_000, 30)], ids=["usual", "set-back"])
def test_a_will_that_is_left_waits_no_longer_than_its_delay(due_ms: int, wait_s: int, tmp_path: Path) -> None:
    """Also when the clock was set back by hours since its client went: the record has when it is due."""
    host: Any = FakeHost()
    sessions = local_sessions(host, tmp_path)
    will = (b"site/gone", 1, b"bye", b"", 30)

    sessions.known(SessionsKnown(epoch=1, sessions=(("c", "session:1:c", (), will, due_ms, None),), last=True))

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

        sessions.connect(client, Connect(level=5, client_id="c", clean_start=clean, keep_alive_s=0))
        assert not host.asked, "it is not known yet which Wills are left"
        sessions.known(SessionsKnown(epoch=1, sessions=(), last=True))
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
    sessions = ClientSessions(cast("ClientHost", host), settings, Access(host, settings))
    builder = BatchBuilder(rows_max=10, bytes_max=1000)
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)
        sessions.connect(client, Connect(level=4, client_id="c", clean_start=False, keep_alive_s=0))
        sessions.known(SessionsKnown(epoch=1, sessions=(), last=True))
        sessions.opened(opened(host.asked.pop(), received=pack_column(array("H", [5, 6]))))
        assert client.flow is not None
        for packet_id, dup in ((5, False), (5, False), (6, True), (7, False)):
            parse_publishes(
                encode(Publish(topic="t", payload=b"", qos=2, packet_id=packet_id, dup=dup), 4), 0, 4, client.flow, builder
            )
        client.close()

    assert len(builder) == rows
    assert len(client.flow.pubrec_ids) == 4
