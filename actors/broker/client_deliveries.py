"""Output to local clients: live messages, retained ones, and hand-outs of the queues of their sessions.

QoS 0 is written at once, encoded once for all clients of a kind. QoS 1 and 2 go through each client's
``wire/exchange/client_outbox.py``; for the queue of a session that lasts the Listener is towards the store what a Forwarder and its
Connection are for a lane.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from actors.access.access_control import AccessControl
from actors.access.client import Client
from actors.broker.listener_interface import ListenerInterface
from actors.process.local_messages import Deliver
from wire.access.access_rules import ClientAccess
from wire.exchange.client_outbox import ClientOutbox
from wire.exchange.retained_delivery import RetainedPasses
from wire.exchange.subscriber_copies import Copies, Parcel, as_granted
from wire.frames.batch import RETAIN, Batch, unpack_column
from wire.frames.lanes import HandOut, LaneClose, LaneOpen, LaneOpened, LaneReopen, Settled
from wire.frames.names import LANE_EPOCH_SHIFT, QUEUE_STORE
from wire.mqtt.publish_batch_parser import PACKET_BYTES_LIMIT
from wire.status.bridges import ExchangeFigures
from wire.status.client_figures import ConnectedSessions, DeliveryFigures

log = logging.getLogger("bascule")

BURST_BYTES = 65_536
PUMP_BELOW_BYTES = 131_072  # no more is encoded for a client whose socket has left this much
SETTLE_DELAY_S = 0.01  # settlements wait a moment for more of them, unless something waits for their commit
SETTLE_TIMER = "settle"
REST_S = 10.0  # an exchange that was not used for so long goes; making one costs as much as some messages

LaneFrame = LaneOpened | HandOut | Settled | LaneReopen


def pump_below_bytes(output_max_bytes: int) -> int:
    """How much a socket may have left for more to be encoded: this, a burst and any message are within the limit then."""
    return min(PUMP_BELOW_BYTES, output_max_bytes // 4)


class Deliveries:
    """Delivers to clients; what is sent in a turn is written at its end. publish_sent: how many PUBLISHes were. touched: those for
    whom there is something to do at the end of this turn, by number.
    """

    def __init__(self, host: ListenerInterface, access: AccessControl) -> None:
        self._host = host
        self._access = access
        self.publish_sent = 0
        self._lanes: dict[str, Client] = {}
        self._openings = 0
        self._begun = 0  # clients with an outbox
        self._exchanging: dict[int, Client] = {}  # those with an exchange
        self._rested_s = 0.0
        self._handed_out: tuple[bytes, Parcel | None] = b"", None  # what was handed out last, in this turn
        self.touched: dict[int, Client] = {}
        self.wanting: dict[int, Client] = {}  # owed retained messages, and touched since they were taken
        self._unsettled: dict[int, Client] = {}
        self._settle_timed = False
        self._dropped: Counter[str] = Counter()  # by reason
        self._unexpected = 0  # acknowledgements of clients that have gone

    def figures(self) -> DeliveryFigures:
        """Figures for ``status``."""
        outboxes = [client.outbox for client in self._exchanging.values() if client.outbox is not None]
        dropped = self._dropped.copy()
        for outbox in outboxes:
            dropped.update(_dropped_by(outbox.dropped, outbox.counts))
        return DeliveryFigures(
            in_flight=sum(outbox.in_flight for outbox in outboxes),
            dropped=dict(dropped),
            output_dropped=dropped["output_limit"],
            unexpected_acknowledgements=self._unexpected + sum(outbox.counts.unexpected_acknowledgements for outbox in outboxes),
            sessions=ConnectedSessions(lasting=len(self._lanes), live=self._begun - len(self._lanes)),
        )

    # --- connections ---

    def on_opened(self, client: Client) -> None:
        """The client has its CONNACK: begin, or go on with what waits in its session's queue."""
        outbox = ClientOutbox(
            queue=client.queue,
            level=client.level,
            receive_maximum=client.receive_maximum,
            packet_max_bytes=client.packet_max_bytes,
            settings=self._host.settings.now.sessions,
            aliases=client.aliases,
        )
        client.receives(outbox)
        self._begun += 1
        if client.queue:
            self._lanes[client.queue] = client
            self._open_lane(outbox)
        else:
            outbox.begin()

    def on_closed(self, client: Client) -> None:
        """The connection is gone; what is in its session's queue stays there."""
        outbox = client.outbox
        if outbox is None:
            return
        self._begun -= 1
        self._exchanging.pop(client.number, None)
        self.touched.pop(client.number, None)
        self._unsettled.pop(client.number, None)
        self._count(outbox, outbox.counts)
        if not outbox.queue and outbox.depth:
            self._dropped["session_ended"] += outbox.depth
        if outbox.queue and self._lanes.get(outbox.queue) is client:
            self._settle(outbox)
            del self._lanes[outbox.queue]
            self._host.send(QUEUE_STORE, LaneClose(queue=outbox.queue, epoch=outbox.lane_epoch, sent_below=outbox.sent_below))

    def _count(self, outbox: ClientOutbox, counts: ExchangeFigures) -> None:
        """The exchange of ``outbox`` goes: keep what was counted."""
        self._dropped.update(_dropped_by(outbox.take_dropped(), counts))
        self._unexpected += counts.unexpected_acknowledgements

    def exchanging(self) -> list[Client]:
        """The clients to which something is sent, or was lately: nothing waits for the others."""
        return list(self._exchanging.values())

    def rest(self, now_s: float) -> None:
        """Let exchanges go that were not used for a while; to be called now and then."""
        if now_s - self._rested_s < REST_S:
            return
        self._rested_s = now_s
        for client in self.exchanging():
            outbox = client.outbox
            assert outbox is not None
            counts = outbox.rest()
            if counts is not None:
                self._count(outbox, counts)
                del self._exchanging[client.number]

    def store_is_new(self) -> None:
        """Open every lane again; the connections stay."""
        for client in self._lanes.values():
            assert client.outbox is not None
            self._open_lane(client.outbox)

    def _open_lane(self, outbox: ClientOutbox) -> None:
        self._openings += 1
        outbox.opening((self._host.epoch << LANE_EPOCH_SHIFT) + self._openings)
        self._host.send(QUEUE_STORE, LaneOpen(queue=outbox.queue, epoch=outbox.lane_epoch))

    # --- frames ---

    def lane(self, frame: LaneFrame) -> None:
        """The store opens the lane of a session's queue, hands out, or has committed."""
        client = self._lanes.get(frame.queue)
        if client is None or client.outbox is None:
            return  # it has gone meanwhile
        if isinstance(frame, LaneReopen):  # something is lost that the client may know of
            log.warning("session.damaged", extra={"client_id": client.label, "queue": frame.queue})
            self._open_lane(client.outbox)
            return
        if frame.epoch != client.outbox.lane_epoch:
            return
        match frame:
            case LaneOpened():
                client.outbox.on_opened(frame)
            case HandOut():
                self._access.left_out(client.outbox.hand_out(frame, client.rights, self._parcel(frame.bodies[0])))
            case Settled():
                client.outbox.on_settled(frame.number)
        self.touched[client.number] = client

    def _parcel(self, body: bytes) -> Parcel:
        """The messages in ``body``; read and encoded once for all queues of which they are handed out in a turn."""
        known, parcel = self._handed_out
        if parcel is not None and known == body:
            parcel.share()
            return parcel
        parcel = Parcel(Batch.decode(body))
        self._handed_out = body, parcel
        return parcel

    def deliver(self, frame: Deliver) -> None:
        """Send live messages."""
        batch = frame.batch
        wall_ms = self._host.mailbox.wall_ms()
        grants = frame.grants or ((0, False, ()),) * len(frame.groups)
        for (subscribers, rows_column), (qos, as_published, identifiers) in zip(frame.groups, grants, strict=True):
            rows = unpack_column("H", rows_column) if rows_column else None
            granted = as_granted(
                batch,
                rows,
                qos=qos,
                retain_as_published=as_published,
                identifiers=identifiers,
            )
            self.send(Copies(granted, wall_ms), unpack_column("I", subscribers), partial(_retained_topics, batch, rows))

    def send(self, all_copies: Copies, subscribers: Sequence[int], replaced: Callable[[], Iterable[bytes]] = tuple) -> None:
        """Send granted messages to these connections, each without what it may not receive.

        replaced: the topics of those that were published with RETAIN.
        """
        for number in subscribers:
            client = self._host.client(number)
            if client is None or client.outbox is None:
                continue
            copies = all_copies if client.rights is None else self._readable(all_copies, client.rights)
            if client.retained is not None:
                copies = self._hold(copies, client.retained, replaced)
            if copies.qos0_messages:
                if client.output_bytes > self._host.settings.now.clients.output_max_bytes // 2:
                    self._dropped["output_limit"] += copies.qos0_messages
                else:
                    self._write_qos0(client, copies)
            if copies.parcel is not None:
                if client.outbox.queue:
                    continue  # those it gets through its queue
                client.outbox.put(copies.parcel)
                self.touched[number] = client

    def _write_qos0(self, client: Client, copies: Copies) -> None:
        packet_max_bytes = client.packet_max_bytes or PACKET_BYTES_LIMIT
        if client.aliases is None:
            packets = copies.qos0(client.level, packet_max_bytes)
        else:
            packets = copies.qos0_aliased(client.aliases, packet_max_bytes)
        self.publish_sent += copies.qos0_messages
        self._host.write(client, packets, copies.qos0_messages)

    def _hold(self, copies: Copies, passes: RetainedPasses, replaced: Callable[[], Iterable[bytes]]) -> Copies:
        """``copies`` without what has to wait for retained messages."""
        copies = passes.hold(copies, replaced)
        self._dropped["output_limit"] += passes.take_dropped()
        return copies

    def _readable(self, copies: Copies, rights: ClientAccess) -> Copies:
        """``copies`` without what the client may not receive."""
        readable = copies.readable(rights)
        self._access.left_out(len(copies) - len(readable))
        return readable

    def on_retained(self, client: Client, batch: Batch, *, qos: int, identifier: int) -> None:
        """Send retained messages, with RETAIN, to a client that had room for them (broker.retained-as-taken)."""
        if client.closed or client.outbox is None:
            return
        identifiers = (identifier,) if identifier else ()
        granted = as_granted(batch, None, qos=qos, retain_as_published=True, identifiers=identifiers)
        copies = Copies(granted, self._host.mailbox.wall_ms())
        if client.rights is not None:
            copies = self._readable(copies, client.rights)
        if copies.qos0_messages:
            self._write_qos0(client, copies)
        if copies.parcel is not None and not client.outbox.queue:
            client.outbox.put(copies.parcel, beyond_limits=True)
        self.touched[client.number] = client

    # --- turns ---

    def on_touched(self, client: Client) -> None:
        """Something may be written to the client at the end of the turn: it has acknowledged, or its socket has taken more."""
        if client.outbox is not None:
            self.touched[client.number] = client

    def turn_end(self, now_s: float) -> None:
        """Write what may leave, and tell the store what became of its messages."""
        self._handed_out = b"", None
        if self.touched:
            self._write_touched(now_s)
        if self._unsettled and not self._settle_timed:
            self._settle_timed = True
            self._host.mailbox.set_timer(SETTLE_TIMER, now_s + SETTLE_DELAY_S)

    def _write_touched(self, now_s: float) -> None:
        touched, self.touched = self.touched, {}
        wall_ms = self._host.mailbox.wall_ms()
        for client in touched.values():
            outbox = client.outbox
            if client.closed or outbox is None:
                continue
            self._write(client, outbox, now_s, wall_ms)
            if outbox.exchange.made is not None and not client.closed:
                self._exchanging[client.number] = client
            if client.retained is not None:
                self.wanting[client.number] = client
            if client.closed or not outbox.queue:
                continue
            credit = outbox.grant()
            if credit is not None:
                self._host.send(QUEUE_STORE, credit)
            if outbox.urgent:
                self._settle(outbox)
            elif outbox.has_facts:
                self._unsettled[client.number] = client

    def take_wanting(self) -> Iterable[Client]:
        """The clients that are owed retained messages and may have room for some now."""
        wanting, self.wanting = self.wanting, {}
        return wanting.values()

    def settle_all(self) -> None:
        """The moment has passed for which settlements waited."""
        self._settle_timed = False
        unsettled, self._unsettled = self._unsettled, {}
        for client in unsettled.values():
            if client.outbox is not None and not client.closed:
                self._settle(client.outbox)

    def _write(self, client: Client, outbox: ClientOutbox, now_s: float, wall_ms: int) -> None:
        pump_below = pump_below_bytes(self._host.settings.now.clients.output_max_bytes)
        while not client.closed and client.output_bytes < pump_below:
            publishes, pubrels = outbox.sent
            data = outbox.pump(min(BURST_BYTES, pump_below), now_s, wall_ms)
            if not data:
                return
            published = outbox.sent[0] - publishes
            self.publish_sent += published
            self._host.write(client, data, published + outbox.sent[1] - pubrels)

    def _settle(self, outbox: ClientOutbox) -> None:
        settle = outbox.settle()
        if settle is not None:
            self._host.send(QUEUE_STORE, settle)


def _dropped_by(queue_full: int, counts: ExchangeFigures) -> dict[str, int]:
    found = {
        "queue_full": queue_full,
        "expired": counts.expired,
        "packet_too_large": counts.too_large,
        "refused": counts.refused,
    }
    return {reason: count for reason, count in found.items() if count}


def _retained_topics(batch: Batch, rows: Sequence[int] | None) -> set[bytes]:
    """The topics of those ``rows`` (None: all) that were published with RETAIN."""
    return {batch.topics[batch.topic_of[row]] for row in (range(len(batch)) if rows is None else rows) if batch.flags[row] & RETAIN}
