"""Batches of clients' messages on their way to the store: the one that is being built, the answers due with it, and those not
committed.

Parsing fills the batch (``actors/broker/client_input.py``), ``actors/broker/batch_gathering.py`` says when it goes, and who is
answered when it is committed is ``actors/broker/puback_release.py``'s. Numbering and resending are
``wire/frames/sending_link.py``'s.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

from actors.access.client import Client
from actors.broker.full_queue_refusal import QueueRoom
from actors.broker.listener_interface import ListenerInterface
from actors.broker.reserved_topics import ReservedTopics
from actors.process.local_messages import PublishedMessages
from wire.config_settings import ClientLimitSettings
from wire.exchange.batch_durability import BatchDurability
from wire.exchange.receiver import AnswerBurst
from wire.exchange.wills import Message
from wire.frames.batch import pack_column
from wire.frames.intake import NO_ROW, CommitWanted
from wire.frames.names import DISTRIBUTOR
from wire.frames.sending_link import BATCH_BYTES_MAX, BATCH_ROWS_MAX, SendingLink
from wire.frozen_records import record
from wire.mqtt.properties import USER_PROPERTIES_MAX
from wire.mqtt.publish_batch_parser import BatchBuilder
from wire.mqtt.topics import TopicLimits

PUBREL_BYTES = 64  # what one keeps in memory until its batch is committed, about

WillRow = tuple[str, int]  # as in ``PublishedMessages``


@record
class Owed:
    """Answers that the Listener owes when a batch is committed."""

    bursts: list[tuple[Client, AnswerBurst]]
    received: dict[str, bytes]
    wills: tuple[WillRow, ...] = ()


class ClientBatches:
    """The batch that is being built, and ``link``: those that are on their way.

    builder: its rows. room: whether there is room for what comes. durability: how strongly it is to be kept.
    touched: by number, the clients that may be owed an answer.
    published: the rows of all that were sent.
    """

    def __init__(self, host: ListenerInterface, reserved: ReservedTopics) -> None:
        self._host = host
        limits = host.settings.now.clients
        self.builder = BatchBuilder(
            rows_max=BATCH_ROWS_MAX,
            bytes_max=BATCH_BYTES_MAX,
            packet_max_bytes=limits.packet_max_bytes,
            topic_limits=TopicLimits.of(limits),
            properties_max=USER_PROPERTIES_MAX,
            drop_reserved=reserved.drop_reserved,
            forbidden_take_room=_limit_rates(limits),
        )
        self.room = QueueRoom(host, self.builder)
        self.durability = BatchDurability(host.settings, lambda: host.send(DISTRIBUTOR, CommitWanted(epoch=host.epoch)))
        self.link: SendingLink[PublishedMessages, Owed] = SendingLink()
        self.touched: dict[int, Client] = {}
        self.published = 0
        self._wills: list[WillRow] = []

    def on_limits_changed(self) -> None:
        """Others hold from the next packet on."""
        limits = self._host.settings.now.clients
        self.builder.limit_packets(limits.packet_max_bytes, TopicLimits.of(limits), forbidden_take_room=_limit_rates(limits))

    @property
    def full(self) -> bool:
        """Whether the batch that is being built takes no more."""
        return self.builder.full

    @property
    def empty(self) -> bool:
        """Whether nothing that was read waits for its commit."""
        return not self.link.outstanding and not self.builder.payloads

    # --- the batch that is being built ---

    @property
    def carries(self) -> bool:
        """Whether there is anything in it, a message or the record of what was read; or what the store has to know."""
        return bool(self.builder.payloads or self.touched or self._wills or self.room.unheeded)

    def add_answer_due(self, client: Client) -> None:
        """The client is owed an answer with it."""
        self.touched[client.number] = client

    def on_released(self, client: Client) -> None:
        """The client's PUBREL is to be answered with it, and takes room in it like a message."""
        self.add_answer_due(client)
        self.builder.take_room(PUBREL_BYTES)

    def add_will(self, session: str, message: Message, source: int) -> None:
        """Put a Will into it; its record goes with the same commit [MQTT-3.1.2-8]."""
        topic, flags, payload, properties, _ = message
        self._wills.append((session, len(self.builder)))
        self.builder.add(topic, flags, payload, source=source, properties=properties)

    def drop_will(self, session: str) -> None:
        """Its record goes with the batch, and it is not published."""
        self._wills.append((session, NO_ROW))

    def will_rows(self) -> list[int]:
        """The rows that are Wills."""
        return [row for _, row in self._wills if row != NO_ROW]

    def on_moved(self, places: Mapping[int, int]) -> None:
        """Rows have left it: where those that are left are now."""
        self._wills = [(session, places.get(row, NO_ROW)) for session, row in self._wills]

    # --- batches on their way ---

    def busy(self, session: str) -> bool:
        """Whether a batch that is not committed changes the received identifiers of ``session``, or has its Will."""
        if _has_will(self._wills, session) or any(client.session == session for client in self.touched.values()):
            return True  # the one that is being built
        return any(
            session in batch.kept.received
            or _has_will(batch.kept.wills, session)
            or any(client.session == session for client, _ in batch.kept.bursts)
            for batch in self.link.outstanding
        )

    def send(self, now_s: float) -> bool:
        """Send what was gathered and begin the next batch; False if it would carry nothing."""
        builder, received, kept = self.builder, {}, {}
        if builder.received_ids:  # a client may be gone already and still have sent something of this batch
            received = builder.received
            kept_sessions = {client.session for client in self.touched.values() if _keeps(client)}
            kept = {session: column for session, column in received.items() if session in kept_sessions}
        durability = self.durability.of(client.listener for client in self.touched.values()) if self.durability.differ else None
        bursts, released = self._seal()
        rows = len(builder.payloads)
        if not (bursts or rows or self._wills or self.room.unheeded):
            return False
        room, refused = self.room.sealed()
        batch = builder.build(accepted_ms=self._host.mailbox.wall_ms())
        sources = builder.sources_column()
        self.published += rows
        builder.clear()
        published = PublishedMessages(
            sender=self._host.name,
            epoch=self._host.epoch,
            number=self.link.next_number,
            batch=batch,
            sources=sources,
            received=kept,
            released=released,
            wills=tuple(self._wills),
            room=room,
            refused=refused,
            durability=durability,
        )
        self.link.on_sent(published, Owed(bursts, received, published.wills), now_s)
        if self._wills:
            self._wills = []
        self._host.send(DISTRIBUTOR, published)
        return True

    def hurry(self) -> None:
        """Something waits behind what is on its way: that is to be committed at once, if it would wait longer than this."""
        if self.durability.differ and self.link.outstanding:
            last = self.link.outstanding[-1]
            waiting = self.durability.of(client.listener for client in self.touched.values())
            sent = last.sent.durability
            self.durability.hurry(last.number, sent, waiting, self.builder.topics)

    def _seal(self) -> tuple[list[tuple[Client, AnswerBurst]], dict[str, bytes]]:
        bursts: list[tuple[Client, AnswerBurst]] = []
        released: dict[str, bytes] = {}
        for client in self.touched.values():
            sealed = client.flow.seal() if client.flow is not None else None
            if sealed is None:
                continue
            burst, released_ids = sealed
            if released_ids and _keeps(client):
                released[client.session] = pack_column(array("H", released_ids))
            bursts.append((client, burst))
        self.touched = {}
        return bursts, released

    def resend(self) -> None:
        """Send all that are on their way again, as they were."""
        for published in self.link.resend(self._host.mailbox.now_s()):
            self._host.send(DISTRIBUTOR, published)


def _limit_rates(limits: ClientLimitSettings) -> bool:
    return limits.publish_messages_per_s is not None or limits.publish_bytes_per_s is not None


def _keeps(client: Client) -> bool:
    """Whether the received identifiers of the client's session are kept; not of one that has ended."""
    return bool(client.queue) and (not client.closed or client.expiry_s > 0)


def _has_will(wills: Iterable[WillRow], session: str) -> bool:
    """Whether the Will of ``session`` is among them."""
    return any(name == session for name, _ in wills)
