"""From CONNECT to CONNACK: what came after the first answer survives a second question, and who needs no store waits for none."""

from __future__ import annotations

import select
import socket
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.access.client import Client
from actors.broker.session_openings import LATE_S, UNANSWERED_S
from actors.process.mailbox import PollGroup
from tests.actors.session_desk import WILL, Door, FakeHost, Parts, local_parts, opened
from tests.supervisor.settings import node_settings
from wire.config_settings import ListenerSettings
from wire.frames.batch import pack_column
from wire.frames.intake import SessionsKnown
from wire.mqtt.codec import encode
from wire.mqtt.packets import Connect, Publish
from wire.mqtt.properties import Properties
from wire.mqtt.publish_batch_parser import BatchBuilder, parse_publishes

WELCOMED, REFUSED_311, REFUSED_5 = b"\x20\x02\x00\x00", b"\x20\x02\x00\x03", 0x88


def test_what_an_opening_takes_is_no_client_s_silence(tmp_path: Path) -> None:
    """It is not heard meanwhile, and need not say anything before its CONNACK [MQTT-3.1.2-22]."""
    host: Any = FakeHost()
    parts = local_parts(host, tmp_path)
    parts.sessions.known(SessionsKnown(epoch=1, store=1, sessions=(), last=True))
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)
        lasts = Properties(session_expiry_interval=60)
        parts.sessions.connect(client, Connect(level=5, client_id="c", clean_start=False, keep_alive_s=2, properties=lasts))
        assert not client.heard
        host.mailbox.time_s = 60.0

        parts.openings.on_opened(opened(host.asked.pop()))

        assert client.heard
        assert not client.keep_alive.poll_over(63.0, 0)
        assert client.keep_alive.poll_over(63.1, 0)
        client.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_local_client_is_asked_for_again_as_the_same_opening_and_welcomed_once(clean: bool, tmp_path: Path) -> None:
    host: Any = FakeHost()
    parts = local_parts(host, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)

        lasting = Properties(session_expiry_interval=60)
        parts.sessions.connect(client, Connect(level=5, client_id="c", clean_start=clean, keep_alive_s=0, properties=lasting))
        assert not host.asked, "it is not known yet which Wills are left"
        parts.sessions.known(SessionsKnown(epoch=1, store=1, sessions=(), last=True))
        parts.sessions.store_is_new()
        first, second = host.asked
        assert first == second, "the store knows an opening by its request, and gives the same answer"
        parts.openings.on_opened(opened(first))
        parts.openings.on_opened(opened(second))
        client.close()

    assert host.writes == 1, "one CONNACK"


@pytest.mark.parametrize(("acknowledge", "sync"), [("after-commit", "full"), ("fast", "full"), ("after-commit", "os")])
def test_an_identifier_on_record_is_a_repeat_whatever_dup_says(acknowledge: str, sync: str, tmp_path: Path) -> None:
    """exchange.repeat-not-taken-again: two PUBLISHes under an identifier on record come without DUP, one under another with it."""
    host: Any = FakeHost()
    listeners = (ListenerSettings(bind="127.0.0.1:1"),)
    settings = replace(node_settings(tmp_path), listeners=listeners)
    settings = replace(settings, persistence=replace(settings.persistence, acknowledge=acknowledge, sync=sync))
    parts = Parts(host, settings)
    builder = BatchBuilder(rows_max=10, bytes_max=1000)
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)
        parts.sessions.connect(client, Connect(level=4, client_id="c", clean_start=False, keep_alive_s=0))
        parts.sessions.known(SessionsKnown(epoch=1, store=1, sessions=(), last=True))
        parts.openings.on_opened(opened(host.asked.pop(), received=pack_column(array("H", [5, 6]))))
        assert client.flow is not None
        for packet_id, dup in ((5, False), (5, False), (6, True), (7, False)):
            parse_publishes(
                encode(Publish(topic="t", payload=b"", qos=2, packet_id=packet_id, dup=dup), 4), 0, 4, client.flow, builder
            )
        client.close()

    assert len(builder) == 1
    assert len(client.flow.pubrec_ids) == 4


@pytest.mark.parametrize("clean", [True, False])
def test_a_client_of_which_nothing_is_to_be_kept_needs_no_store(door: Door, clean: bool) -> None:
    """broker.refused-without-store"""
    client = door.come(clean=clean, level=5)
    assert client.flow is not None
    connack = door.said()
    assert (connack[0], connack[2], connack[3]) == (0x20, 0, 0), "no session was there [MQTT-3.2.2-2]"
    door.host.close_client(client, "gone")
    assert (door.host.asked, door.host.ends) == ([], []), "the store hears nothing of it"
    assert [down.ended for down in door.host.down] == [True], "the Distributor does"


def test_a_session_that_another_s_name_protects_is_still_there_for_the_store_to_judge(door: Door) -> None:
    """Refused, or gone before the answer: what is on record was not touched."""
    door.come(name="kept")
    door.answer(refused="user")
    door.host.close_client(door.come(name="kept"), "gone")
    door.answer()
    door.commit_ends()
    assert door.come(name="kept").flow is None


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
    """broker.refused-without-store"""
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
    door.parts.openings.stood_still(UNANSWERED_S)
    door.wait(UNANSWERED_S)
    assert not client.closed
    door.wait(UNANSWERED_S)
    assert client.closed


def test_nobody_is_let_in_before_it_is_known_what_is_on_record(tmp_path: Path) -> None:
    """Neither at once nor late; then they are refused."""
    host: Any = FakeHost()
    settings = replace(node_settings(tmp_path), listeners=(ListenerSettings(bind="127.0.0.1:1"),))
    parts = Parts(host, settings)
    with socket.create_server(("127.0.0.1", 0)) as server, select.epoll() as outer:
        client = Client(socket.create_connection(server.getsockname()), "somewhere", 1, PollGroup(outer), 0.0)
        parts.sessions.connect(client, Connect(level=4, client_id="c", clean_start=True, keep_alive_s=0))
        parts.openings.let_in()
        parts.openings.wait_no_longer(LATE_S)
        assert not host.said
        parts.openings.wait_no_longer(UNANSWERED_S)
    assert host.said == REFUSED_311
    assert (host.asked, host.ends) == ([], [])
