"""The batch that is being built, and what is known of those on their way."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from actors.broker.client_batches import PUBREL_BYTES, ClientBatches
from actors.broker.reserved_topics import ReservedTopics
from actors.process.local_messages import PublishedMessages
from tests.supervisor.settings import node_settings
from wire.config_settings import SettingsNow
from wire.exchange.receiver import ReceiverHalf
from wire.exchange.wills import Message
from wire.frames.batch import unpack_column
from wire.frames.frame import Frame
from wire.frames.intake import Room
from wire.mqtt.codec import encode
from wire.mqtt.packets import Publish
from wire.mqtt.publish_batch_parser import parse_publishes

WILL: Message = (b"gone", 1, b"bye", b"", 0)


class Desk:
    """The frames that are sent on."""

    def __init__(self, folder: Path) -> None:
        self.sent: list[PublishedMessages] = []
        host: Any = SimpleNamespace(
            name="listener",
            epoch=7,
            mailbox=SimpleNamespace(wall_ms=lambda: 123, now_s=lambda: 1.0),
            send=self._send,
            settings=SettingsNow(node_settings(folder)),
        )
        self.batches = ClientBatches(host, ReservedTopics(host))
        self.batches.room.on_report(Room(epoch=7, store=1, number=1, queues={}))

    def _send(self, peer: str, frame: Frame) -> None:
        assert isinstance(frame, PublishedMessages)
        self.sent.append(frame)

    def client(self, number: int, *, queue: str = "", expiry_s: int = 0) -> Any:
        flow = ReceiverHalf(number=number, session=f"c{number}", level=4, receive_maximum=100, topic_alias_maximum=0)
        return SimpleNamespace(number=number, session=f"c{number}", queue=queue, expiry_s=expiry_s, closed=False, flow=flow)

    def publish(self, client: Any, packet_id: int, qos: int = 2) -> None:
        packet = encode(Publish(topic="t", payload=b"x", qos=qos, packet_id=packet_id), 4)
        parse_publishes(packet, 0, 4, client.flow, self.batches.builder)
        self.batches.add_answer_due(client)


def test_a_batch_carries_what_was_gathered_and_what_its_clients_are_owed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    lasting, ending = desk.client(1, queue="session:1:c1"), desk.client(2)
    for client in (lasting, ending):
        client.flow.carry([5])
        client.flow.pubrel(5)
        desk.batches.on_released(client)
        desk.publish(client, 6)
    assert desk.batches.builder.other_bytes == 2 * PUBREL_BYTES
    assert desk.batches.send(10.0)
    (published,) = desk.sent
    assert (published.number, published.epoch, published.batch.accepted_ms, len(published.batch)) == (1, 7, 123, 2)
    assert published.released.keys() == {"c1"}, "nothing is kept of the other's identifiers"
    assert list(unpack_column("H", published.released["c1"])) == [5]
    assert published.received.keys() == {"c1"}
    (outstanding,) = desk.batches.link.outstanding
    assert [client.number for client, _ in outstanding.kept.bursts] == [1, 2]
    assert outstanding.kept.received.keys() == {"c1", "c2"}, "both are to be answered"
    assert (len(desk.batches.builder), desk.batches.touched) == (0, {})
    assert desk.batches.published == 2


def test_who_has_left_has_sent_what_is_kept_of_a_session_that_lasts(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    lasting, ending = desk.client(1, queue="session:1:c1", expiry_s=60), desk.client(2, queue="session:2:c2")
    for client in (lasting, ending):
        desk.publish(client, 6)
        client.closed = True
    desk.batches.send(10.0)
    assert desk.sent[0].received.keys() == {"c1"}


def test_nothing_is_sent_for_who_is_owed_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.batches.add_answer_due(desk.client(1))
    assert not desk.batches.send(10.0)
    assert desk.sent == []
    assert desk.batches.empty
    assert desk.batches.touched == {}


def test_a_session_is_busy_until_all_that_concerns_it_is_committed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.publish(desk.client(1, queue="session:1:c1"), 6)
    desk.batches.add_will("c2", WILL, 2)
    desk.batches.add_will("c3", WILL, 0)
    for _ in range(2):
        assert [desk.batches.busy(f"c{number}") for number in range(1, 5)] == [True, True, True, False]
        desk.batches.send(10.0)
    assert desk.sent[0].wills == (("c2", 1), ("c3", 2))
    desk.batches.link.acknowledge(1, 11.0)
    assert not any(desk.batches.busy(f"c{number}") for number in range(1, 5))


def test_a_will_is_where_its_row_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    client = desk.client(1)
    desk.publish(client, 0, qos=0)
    desk.batches.add_will("c2", WILL, 2)
    assert desk.batches.will_rows() == [1]
    desk.batches.builder.pass_on(0)
    desk.batches.on_moved(desk.batches.builder.shed(desk.batches.will_rows()))
    desk.batches.send(10.0)
    assert desk.sent[0].wills == (("c2", 0),)
    assert desk.sent[0].batch.rows_payloads() == [b"bye"]


def test_what_is_on_its_way_is_sent_again_as_it_was(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    client = desk.client(1)
    for packet_id in (1, 2):
        desk.publish(client, packet_id)
        desk.batches.send(10.0)
    desk.batches.resend()
    assert desk.sent[2:] == desk.sent[:2]
    assert [published.number for published in desk.sent] == [1, 2, 1, 2]
