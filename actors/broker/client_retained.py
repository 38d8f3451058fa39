"""Retained messages for connected clients: pieces are asked of the store as clients take them, in turn.

A client has one piece under way, and another is asked for once its socket and its window have taken most of that. All clients
together have ``PIECES_MAX`` under way. So what is held of retained messages is bounded, however many are wanted by however many who
read nothing, and everything else goes on between the pieces. How far a client is, ``wire/exchange/retained_delivery.py`` says.
Retained messages through the queue of a lasting session are the store's (``storage/store/retained_pieces.py``).

broker.retained-as-taken [P5]: no more retained messages are on their way to a client than it has room for, whatever it asks for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from actors.access.client import Client
from actors.broker.client_deliveries import Deliveries, pump_below_bytes
from actors.broker.listener_interface import ListenerInterface
from wire.exchange.retained_delivery import RetainedPasses
from wire.exchange.subscriber_copies import Copies
from wire.frames.batch import QOS_MASK, Batch
from wire.frames.names import DISTRIBUTOR
from wire.frames.subscriptions import PIECE_BYTES, PIECE_MESSAGES, RetainedPiece, RetainedWanted

log = logging.getLogger("bascule")

PIECES_MAX = 16
FILTERS_MAX = 100  # of one piece
LATE_S = 0.5  # live messages wait no longer for a store that does not answer
STORES_MAX = 3  # that may die on a piece; then it is not asked for any more


class ClientRetained:
    """Asks for pieces, and delivers them. given_up: filters of which no more was asked for."""

    def __init__(self, host: ListenerInterface, deliveries: Deliveries) -> None:
        self._host = host
        self._deliveries = deliveries
        self._asked: dict[int, Client] = {}  # by request; a client that has gone keeps its place until it is answered
        self._waits_s = 0.0  # since when the oldest request, or one before it, has waited
        self.turns: dict[int, Client] = {}  # who may be asked for, in turn
        self._request = 0
        self.given_up = 0

    def begin(self, client: Client, filters: Iterable[str]) -> None:
        """The client wants what is retained under ``filters``: live messages wait for it from now on."""
        for topic_filter in filters:
            client.awaits_retained(self._host.settings.now.clients.output_max_bytes).begin(topic_filter)

    def on_answered(self, client: Client, filters: Iterable[str]) -> None:
        """The client has its SUBACK for ``filters``."""
        if client.retained is not None:
            client.retained.on_answered(filters)
            self._queue_turn(client)

    def end(self, client: Client, filters: Iterable[str]) -> None:
        """The client wants nothing under ``filters`` any more [MQTT-3.10.4-2]."""
        if client.retained is not None:
            self._send(client, client.retained.end(filters))

    def piece(self, frame: RetainedPiece) -> None:
        """The store has answered."""
        client = self._asked.pop(frame.request, None)
        self._waits_s = self._host.mailbox.now_s()
        if client is None or client.closed or client.retained is None:
            return
        parts = [(place, Batch.decode(body)) for place, body in zip(frame.places, frame.bodies, strict=True)]
        found, late = client.retained.came(frame.done, frame.after, parts)
        for each, batch in found:
            options, identifier = client.filters[each.topic_filter]
            self._deliveries.on_retained(client, batch, qos=options & QOS_MASK, identifier=identifier)
        self._send(client, late)
        self._queue_turn(client)

    def turn_end(self) -> None:
        """Ask for what clients have room for, in turn."""
        for client in self._deliveries.take_wanting():
            self._queue_turn(client)
        while self.turns and len(self._asked) < PIECES_MAX:
            client = self.turns.pop(next(iter(self.turns)))
            if not client.closed and client.retained is not None and self._has_room(client):
                self._ask(client, client.retained)

    def wait_no_longer(self, now_s: float) -> None:
        """While the store does not answer, live messages wait no longer for retained ones."""
        if self._asked and now_s - self._waits_s >= LATE_S:
            for client in (*self._asked.values(), *self.turns.values()):
                if not client.closed and client.retained is not None:
                    self._send(client, client.retained.wait_no_longer())

    def store_is_new(self) -> None:
        """Ask again for what is not answered, unless store after store dies on it. Call it once all batches are sent again."""
        asked, self._asked = self._asked, {}
        for client in asked.values():
            if client.closed or client.retained is None:
                continue
            lost = client.retained.on_lost()
            if client.retained.unanswered >= STORES_MAX:
                filters = [each.topic_filter for each in lost]
                self.given_up += len(filters)
                log.error("retained.given_up", extra={"client_id": client.label, "filters": len(filters)})
                self.end(client, filters)
            self._queue_turn(client)

    def on_closed(self, client: Client) -> None:
        """The connection is gone, and its turn with it: while the store answers nobody, no turn comes."""
        self.turns.pop(client.number, None)

    # --- inside ---

    def _queue_turn(self, client: Client) -> None:
        if not client.closed:
            self.turns[client.number] = client

    def _has_room(self, client: Client) -> bool:
        assert client.outbox is not None
        is_read = client.output_bytes <= pump_below_bytes(self._host.settings.now.clients.output_max_bytes)
        return is_read and (bool(client.queue) or not client.outbox.waits)

    def _ask(self, client: Client, passes: RetainedPasses) -> None:
        filters = passes.ask(FILTERS_MAX)
        if not passes:
            client.has_retained()
        if not filters:
            return
        if not self._asked:
            self._waits_s = self._host.mailbox.now_s()
        self._request += 1
        self._asked[self._request] = client
        self._host.send(
            DISTRIBUTOR,
            RetainedWanted(
                epoch=self._host.epoch,
                request=self._request,
                messages=PIECE_MESSAGES,
                size_bytes=min(PIECE_BYTES, self._host.settings.now.clients.output_max_bytes // 4),
                filters=tuple(
                    (each.topic_filter, each.after, bool(client.queue and client.filters[each.topic_filter][0] & QOS_MASK))
                    for each in filters
                ),
            ),
        )

    def _send(self, client: Client, batches: Sequence[Batch]) -> None:
        """Send what has waited, as granted, now that nothing is in front of it."""
        if not client.retained:
            client.has_retained()
        for batch in batches:
            self._deliveries.send(Copies(batch, self._host.mailbox.wall_ms()), (client.number,))
