"""Where PUBACK, PUBREC and PUBCOMP are released to local clients: when the store has committed their batch, and not before (P1).

The answers themselves are ``wire/inbound.py``'s. What the store refused is told to an MQTT 5 publisher by reason code; a message of
an MQTT 3.1.1 publisher is held here and offered again until there is room, and its socket is not read meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from actors.client import Client
from actors.mailbox import Mailbox
from wire.batch import OFFERED, Batch, unpack_column
from wire.frames import Committed, Frame, SourceResumed
from wire.inbound import QUOTA_EXCEEDED, AnswerBurst
from wire.link import SendingLink
from wire.mqtt.publish_stream import BatchBuilder
from wire.names import QUEUE_STORE
from wire.refusals import RefusedMessage, refused_messages
from wire.wills import RefusedWill

log = logging.getLogger("bascule")

RETRY_REFUSED_S = 0.2


@dataclass(frozen=True, slots=True)
class Owed:
    """What the Listener wants back when a batch is committed."""

    bursts: list[tuple[Client, AnswerBurst]]
    received: dict[str, tuple[bytes, bytes]]
    sources: bytes
    body: bytes
    wills: tuple[tuple[str, int, int, int], ...] = ()


class Host(Protocol):
    """The Listener, as far as acknowledgements need it."""

    name: str
    epoch: int
    mailbox: Mailbox

    def send(self, peer: str, frame: Frame) -> None: ...
    def write(self, client: Client, data: bytes, packets: int = 1) -> None: ...
    def client(self, number: int) -> Client | None: ...
    def touched(self, client: Client) -> None: ...
    def will_refused(self, will: RefusedWill) -> None: ...


class Acknowledgements:
    """Answers the publishers of committed batches, in order [MQTT-4.3.2-4, MQTT-4.6.0-2]. ``refused`` counts refused messages."""

    def __init__(self, host: Host, link: SendingLink[Owed], builder: BatchBuilder) -> None:
        self._host = host
        self._link = link
        self._builder = builder
        self._held: dict[int, list[RefusedMessage]] = {}
        self._gone: dict[int, int] = {}  # stalled sources that are gone -> the last batch that may have rows of theirs
        self.refused = 0

    @property
    def stalled(self) -> tuple[int, ...]:
        """The clients of which the store refuses every row until it is told."""
        return (*self._held, *self._gone)

    def forget(self, client: Client) -> None:
        """The client is gone: what is held of it was never acknowledged, so it will send it again."""
        if self._held.pop(client.number, None) is not None:
            self._gone[client.number] = self._link.next_number

    def _resume(self, source: int) -> None:
        """Have the store accept rows of ``source`` again from the next batch on; none of them is on the way."""
        number = self._link.next_number
        self._host.send(QUEUE_STORE, SourceResumed(sender=self._host.name, epoch=self._host.epoch, source=source, number=number))

    def release(self, frame: Committed) -> None:
        """Answer the publishers of every batch up to ``frame.number``: here their PUBACKs and PUBRECs leave."""
        for batch in self._link.acknowledge(frame.number, self._host.mailbox.now_s()):
            rows = frame.refused.get(batch.number)
            bursts = batch.kept.bursts if rows is None else self._refuse(batch.kept, rows, batch.number)
            for client, burst in bursts:
                if not client.closed and client.flow is not None:
                    client.flow.answered(burst)
                    self._host.write(client, burst.encode(), burst.packets)
        for source in [source for source, last in self._gone.items() if last <= self._link.committed]:
            del self._gone[source]
            self._resume(source)

    def _refuse(self, owed: Owed, rows: bytes, number: int) -> list[tuple[Client, AnswerBurst]]:
        """Tell MQTT 5 publishers of their refused messages; hold those of MQTT 3.1.1 and stop reading their publishers."""
        batch = Batch.decode(owed.body)
        messages = refused_messages(
            batch,
            owed.sources,
            {client.number: burst.pubacks_of_rows for client, burst in owed.bursts},
            owed.received,
            rows,
            {row for _, row, _, _ in owed.wills},
        )
        self.refused += len(messages)
        if owed.wills:
            self._refuse_wills(owed, batch, set(unpack_column("H", rows)), number)
        told: dict[int, dict[bytes, int]] = {}
        withheld: dict[int, set[bytes]] = {}
        for message in messages:
            client = self._host.client(message.source)
            if client is None or client.flow is None:
                if not message.refusable:
                    self._gone[message.source] = self._link.next_number
                continue
            if message.qos == 2:
                client.flow.received.discard(int.from_bytes(message.packet_id, "big"))
            if message.refusable:
                told.setdefault(message.source, {})[message.packet_id] = QUOTA_EXCEEDED
            else:
                withheld.setdefault(message.source, set()).add(message.packet_id)
                self._hold(client, message)
        bursts = []
        for client, burst in owed.bursts:
            if client.number in told and not client.closed and client.flow is not None:
                client.flow.answered(burst)
                self._host.write(client, burst.encode_refusing(told[client.number]), burst.packets)
            elif client.number in withheld:
                bursts.append((client, burst.without(frozenset(withheld[client.number]))))
            else:
                bursts.append((client, burst))
        return bursts

    def _refuse_wills(self, owed: Owed, batch: Batch, refused: set[int], number: int) -> None:
        payloads = batch.rows_payloads()
        for session, row, epoch, before in owed.wills:
            if row in refused:
                self.refused += not before
                topic = batch.topics[batch.topic_of[row]]
                message = topic, batch.flags[row] | OFFERED, payloads[row], batch.properties.get(row, b""), 0
                first = (self._host.epoch, number)
                self._host.will_refused(RefusedWill(session, *((epoch, before) if before else first), message))

    def _hold(self, client: Client, message: RefusedMessage) -> None:
        if client.number not in self._held:
            client.hear(False)
            self._host.mailbox.set_timer("retry_refused", self._host.mailbox.now_s() + RETRY_REFUSED_S)
            log.warning("client.held_back", extra={"client_id": client.label, "why": "a queue or the node is full"})
        self._held.setdefault(client.number, []).append(message)

    def offer_again(self) -> None:
        """Put held messages into the next batch, each client's when none of its rows is on the way or in that batch."""
        busy = {source for batch in self._link for source in unpack_column("I", batch.kept.sources)} | set(self._builder.sources)
        for number in [number for number in self._held if number not in busy]:
            client = self._host.client(number)
            assert client is not None
            assert client.flow is not None
            self._resume(number)
            for message in self._held.pop(number):
                self._builder.add_again(client.flow, message)
            self._host.touched(client)
            client.heard_s = self._host.mailbox.now_s()  # it could not be heard till now
            client.hear(True)
        if self._held:
            self._host.mailbox.set_timer("retry_refused", self._host.mailbox.now_s() + RETRY_REFUSED_S)
