"""Where PUBACK, PUBREC and PUBCOMP are released to local clients: when the store has committed their batch, and not before (P1).

The answers themselves are ``wire/exchange/receiver.py``'s. What the store refused is told to an MQTT 5 publisher by reason code; a
message of an MQTT 3.1.1 publisher is held here and offered again until there is room. Until all of them are in, its next PUBLISH is
not taken: so no more is held of it than was on the way when the first was refused. What it is owed for PUBLISHes behind them waits
with them (exchange.answers-in-order).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from actors.broker.client_batches import ClientBatches, Owed
from actors.broker.listener_interface import ClientHost
from actors.broker.refused_qos2_repeats import RefusedBefore
from actors.door.client import Client
from wire.exchange.receiver import QUOTA_EXCEEDED, AnswerBurst
from wire.exchange.refused_messages import (
    OFFER_ROWS_MAX,
    OFFER_ROWS_MIN,
    RefusedMessage,
    held_back,
    offer_again,
    refused_messages,
    wait_behind,
    without_completed,
)
from wire.exchange.wills import RefusedWill
from wire.frames.batch import OFFERED, Batch, unpack_column
from wire.frames.intake import Committed, SourceResumed
from wire.frames.names import QUEUE_STORE

log = logging.getLogger("bascule")

RETRY_TIMER = "retry_refused"
RETRY_REFUSED_S = 0.2


@dataclass(slots=True)
class _HeldBack:
    """A client that waits for room. messages: in order. offered_in: the batch that has the first of them again; 0: none has.

    While one has, they are not among ``messages``. rows: how many to offer the next time. eager: the last ones were all taken.
    """

    messages: deque[RefusedMessage] = field(default_factory=deque)
    offered_in: int = 0
    rows: int = OFFER_ROWS_MIN
    eager: bool = False


class Acknowledgements:
    """Answers the publishers of committed batches, in order [MQTT-4.3.2-4, MQTT-4.6.0-2]. ``refused`` counts refused messages."""

    def __init__(
        self,
        host: ClientHost,
        batches: ClientBatches,
        *,
        released: Callable[[Client], None],
        will_refused: Callable[[RefusedWill], None],
    ) -> None:
        """released: told of a client that may publish again. will_refused: there was no room for a Will."""
        self._host = host
        self._batches = batches
        self._link = batches.link
        self._builder = batches.builder
        self._released = released
        self._will_refused = will_refused
        self._held: dict[int, _HeldBack] = {}
        self._retries = False  # the timer is set
        self._gone: dict[int, int] = {}  # stalled sources that are gone -> the last batch that may have rows of theirs
        self._gone_from: dict[int, str] = {}  # those of them whose session goes on -> its queue
        self._given_up: Counter[int] = Counter()  # what was refused of them at QoS 0: nobody sends that again
        self._refused_before = RefusedBefore()
        self.refused = 0

    @property
    def stalled(self) -> tuple[int, ...]:
        """The clients of which the store refuses every row until it is told."""
        return (*(number for number, held in self._held.items() if not held.offered_in), *self._gone)

    def opened(self, client: Client) -> None:
        """The client has its CONNACK, and may send again what was refused on an earlier connection."""
        assert client.flow is not None
        if client.queue in self._refused_before:
            client.flow.refused_before = self._refused_before.take(client.queue)

    def session_ended(self, queue: str) -> None:
        """The session that had this queue has ended: nothing of it comes again."""
        self._refused_before.forget(queue)

    def forget(self, client: Client) -> None:
        """The client is gone: what is held of it was never acknowledged, so it will send it again."""
        if client.flow is not None:
            self._refused_before.note(client.queue, client.flow.refused_before)
        held = self._held.pop(client.number, None)
        if held is not None:
            self._has_gone(client.number)
            if client.queue:
                self._gone_from[client.number] = client.queue
            for message in held.messages:
                self._let_go(message)
            self._resume_gone()

    def _has_gone(self, source: int) -> None:
        """Of ``source`` nothing comes any more but what is in batches already."""
        self._gone[source] = self._link.next_number - (source not in self._builder.sources)

    def _let_go(self, message: RefusedMessage) -> None:
        """``message`` is refused, its connection has ended; where its session goes on it comes again, unless it is of QoS 0."""
        queue = self._gone_from.get(message.source)
        if not message.qos:
            self._given_up[message.source] += 1
        elif queue is not None and message.qos == 2:
            self._refused_before.note(queue, (int.from_bytes(message.packet_id, "big"),))

    def _resume(self, source: int, *, held: int = 0, given_up: int = 0) -> None:
        """Have the store accept rows of ``source`` again from the next batch on; none of earlier ones is on the way."""
        number = self._link.next_number
        told = SourceResumed(
            sender=self._host.name, epoch=self._host.epoch, source=source, number=number, held=held, given_up=given_up
        )
        self._host.send(QUEUE_STORE, told)

    def release(self, frame: Committed) -> None:
        """Answer the publishers of every batch up to ``frame.number``: here their PUBACKs and PUBRECs leave."""
        for batch in self._link.acknowledge(frame.number, self._host.mailbox.now_s()):
            rows = frame.refused.get(batch.number)
            bursts = batch.kept.bursts if rows is None else self._refuse(batch.kept, rows, batch.number)
            if rows is None and self._held:
                bursts = [(client, self._wait(client, burst)) for client, burst in bursts]
            for client, burst in bursts:
                if not client.closed and client.flow is not None:
                    client.flow.answered(burst)
                    self._host.write(client, burst.encode(), burst.packets)
        if self._held:
            self._go_on()
        self._resume_gone()

    def _resume_gone(self) -> None:
        """Nothing more comes of these: the store may forget them."""
        for source in [source for source, last in self._gone.items() if last <= self._link.committed]:
            del self._gone[source]
            self._gone_from.pop(source, None)
            self._resume(source, given_up=self._given_up.pop(source, 0))

    def _refuse(self, owed: Owed, rows: bytes, number: int) -> list[tuple[Client, AnswerBurst]]:
        """Tell MQTT 5 publishers of their refused messages; hold those of MQTT 3.1.1 and stop reading their publishers."""
        batch = owed.batch
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
        withheld: dict[int, list[RefusedMessage]] = {}
        gone: set[int] = set()
        for message in messages:
            client = self._host.client(message.source)
            if client is None or client.flow is None:
                if not message.refusable:
                    gone.add(message.source)
                    self._let_go(message)
                continue
            if message.qos == 2:
                client.flow.received.discard(int.from_bytes(message.packet_id, "big"))
            if message.refusable:
                told.setdefault(message.source, {})[message.packet_id] = QUOTA_EXCEEDED
            else:
                withheld.setdefault(message.source, []).append(message)
        for source in gone:
            self._has_gone(source)
        bursts = []
        for client, burst in owed.bursts:
            if client.number in told and not client.closed and client.flow is not None:
                client.flow.answered(burst)
                self._host.write(client, burst.encode_refusing(told[client.number]), burst.packets)
            else:
                if client.number in withheld:
                    burst, withheld[client.number] = held_back(burst, withheld[client.number])
                bursts.append((client, self._wait(client, burst)))
        self._hold(withheld)
        return bursts

    def _wait(self, client: Client, burst: AnswerBurst) -> AnswerBurst:
        """What of ``burst`` leaves now, if something is held that its client sent before (exchange.answers-in-order)."""
        held = self._held.get(client.number)
        if held is None:
            return burst
        if held.offered_in:  # answers to PUBLISHes are of what is offered: no others are on the way then
            messages = without_completed(held.messages, burst)
        else:
            burst, messages = wait_behind(burst, held.messages)
        held.messages = deque(messages)
        return burst

    def _refuse_wills(self, owed: Owed, batch: Batch, refused: set[int], number: int) -> None:
        payloads = batch.rows_payloads()
        for session, row, epoch, before in owed.wills:
            if row in refused:
                self.refused += not before
                topic = batch.topics[batch.topic_of[row]]
                message = topic, batch.flags[row] | OFFERED, payloads[row], batch.properties.get(row, b""), 0
                first = (self._host.epoch, number)
                self._will_refused(RefusedWill(session, *((epoch, before) if before else first), message))

    def _hold(self, refused: dict[int, list[RefusedMessage]]) -> None:
        """Hold what was ``refused`` of clients that cannot be told; what was offered again goes before the rest of it."""
        for number, messages in refused.items():
            held = self._held.pop(number, None) or self._hold_back(number)
            self._held[number] = held  # behind the others, which are offered before it the next time
            if held.offered_in:
                held.offered_in, held.rows = 0, OFFER_ROWS_MIN
                held.messages.extendleft(reversed(messages))
            else:
                held.messages.extend(messages)

    def _hold_back(self, number: int) -> _HeldBack:
        client = self._client(number)
        client.held_back = True
        log.warning("client.held_back", extra={"client_id": client.label, "why": "a queue or the node is full"})
        return _HeldBack()

    def _client(self, number: int) -> Client:
        """One that is held back: it is here, else it would have been forgotten."""
        client = self._host.client(number)
        assert client is not None
        return client

    def _go_on(self) -> None:
        """Where all that was offered again was taken, offer the rest, or take what the client publishes next."""
        in_builder = set(self._builder.sources)
        for number, held in list(self._held.items()):
            # What was of QoS 0 may have been left out of the batch that is being built.
            left_out = held.offered_in == self._link.next_number and number not in in_builder
            if number in self._held and held.offered_in and (held.offered_in <= self._link.committed or left_out):
                held.offered_in, held.rows = 0, min(OFFER_ROWS_MAX, held.rows * 4)
                held.eager = bool(held.messages)
                if not held.messages:
                    del self._held[number]
                    self._released(self._client(number))
        self._offer([number for number, held in self._held.items() if held.eager])
        if self._held and not self._retries:
            self._retries = True
            self._host.mailbox.set_timer(RETRY_TIMER, self._host.mailbox.now_s() + RETRY_REFUSED_S)

    def retry(self) -> None:
        """The timer is due: offer again what is held of those who are still there."""
        self._retries = False
        for number in list(self._held):
            client = self._host.client(number)
            if client is not None and client.has_left():
                client.leaves = True
                self.forget(client)
                self._released(client)
        self._offer(self._held)
        self._go_on()

    def _offer(self, numbers: Iterable[int]) -> None:
        """Put held messages into the next batch as far as it has room, each client's when nothing else it sent is on the way."""
        on_the_way = {source for batch in self._link for source in unpack_column("I", batch.kept.sources)}
        on_the_way.update(client.number for batch in self._link for client, burst in batch.kept.bursts if burst.of_publishes)
        on_the_way.update(self._builder.sources)
        for number in numbers:
            held = self._held[number]
            if self._builder.full:
                break
            if held.offered_in or number in on_the_way:
                continue
            client = self._client(number)
            assert client.flow is not None
            if client.flow.puback_ids or client.flow.pubrec_ids:
                continue
            held.offered_in, held.eager = self._link.next_number, False
            for _ in range(min(held.rows, len(held.messages))):
                offer_again(self._builder, client.flow, held.messages.popleft())
                if self._builder.full:
                    break
            self._resume(number, held=len(held.messages))
            self._batches.owes(client)
