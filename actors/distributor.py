"""The Distributor: decides for each topic of a batch which bridges take it, by which rule and at which QoS, and who listens live.

It keeps no message: what dies with it is sent again by its sender, the Listener or a Connection with remote subscriptions. The
routing itself is ``wire/routing.py``; the store commits.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from actors.actor import MailboxActor
from actors.mailbox import Mailbox
from wire.batch import OFFERED, QOS_ONLY, REFUSABLE, Batch, pack_column
from wire.frames import Append, Deliver, Frame, Publishes, Subscribe, Unsubscribe
from wire.hops import hops_of
from wire.names import LISTENER, QUEUE_STORE, lane_of_actor, lane_of_queue
from wire.routing import Route, Router
from wire.settings import NodeSettings

_OFFERED_ONLY = bytes(flags & OFFERED for flags in range(256))
_REFUSABLE_ONLY = bytes(flags & REFUSABLE for flags in range(256))

Part = tuple[str, int, int, int, bytes]


class Distributor(MailboxActor):
    """Routes batches: ``Publishes`` in, ``Append`` to the store and ``Deliver`` to the Listener out."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._router = Router(settings.bridges)
        self._hops_max = {bridge.name: bridge.max_hops for bridge in settings.bridges if bridge.loop_prevention}
        self._listener_epoch = 0
        self._routed = 0
        self._loops = 0

    def on_start(self) -> None:
        super().on_start()
        self.ready()

    def on_peer_up(self, name: str, epoch: int) -> None:
        if name == LISTENER:
            self._is_listener(epoch)

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case Publishes():
                self._distribute(frame)
            case Subscribe():
                if self._is_listener(frame.epoch):
                    for topic_filter, qos in frame.filters:
                        self._router.add_subscriber(frame.source, topic_filter, qos)
            case Unsubscribe():
                if not self._is_listener(frame.epoch):
                    return
                if frame.filters:
                    for topic_filter in frame.filters:
                        self._router.remove_subscriber(frame.source, topic_filter)
                else:
                    self._router.forget_subscriber(frame.source)
            case _:
                raise AssertionError(f"not for a Distributor: {frame}")

    def status(self) -> dict[str, Any]:
        return {"routed": self._routed, "loops": self._loops}

    def _is_listener(self, epoch: int) -> bool:
        """Whether subscriptions of the Listener's life ``epoch`` count; a newer life has new clients."""
        if epoch > self._listener_epoch:
            self._listener_epoch = epoch
            self._router.forget_subscribers()
        return epoch == self._listener_epoch

    def _distribute(self, frame: Publishes) -> None:
        batch = Batch.decode(frame.bodies[0])
        sender = lane_of_actor(frame.sender)  # None: the Listener
        parts, bodies = self._parts(batch, None if sender is None else sender.bridge)
        self._routed += len(batch)
        self.send(
            QUEUE_STORE,
            Append(
                sender=frame.sender,
                epoch=frame.epoch,
                number=frame.number,
                sources=frame.sources,
                received=frame.received,
                released=frame.released,
                refusable=batch.flags.translate(_REFUSABLE_ONLY),
                parts=tuple(parts),
                bodies=tuple(bodies),
            ),
        )
        if self._router.has_subscribers:
            self._deliver(frame, batch)

    def _parts(self, batch: Batch, origin: str | None) -> tuple[list[Part], list[bytes]]:
        """The batch cut by queue. One that goes to a queue whole keeps its columns; only flags and rules change."""
        parts: list[Part] = []
        bodies: list[bytes] = []
        routes: dict[str, dict[int, Route]] = {}
        for index, topic in enumerate(batch.topics):
            for route in self._router.route(topic, origin):
                routes.setdefault(route.queue, {})[index] = route
        looping = self._looping_rows(batch) if batch.properties else {}
        for queue, by_topic in routes.items():
            blocked: set[int] = set()
            if looping and (lane := lane_of_queue(queue)) is not None:
                hops_max = self._hops_max.get(lane.bridge, 256)
                blocked = {row for row, hops in looping.items() if hops >= hops_max}
            rows: Sequence[int] = ()
            if len(by_topic) == len(batch.topics) and not blocked:
                part = batch
            else:
                rows = [row for row, index in enumerate(batch.topic_of) if index in by_topic and row not in blocked]
                self._loops += sum(1 for row in blocked if batch.topic_of[row] in by_topic)
                if not rows:
                    continue
                part = batch.select(rows)
            part = _routed(part, by_topic)
            volatile = part.flags.translate(QOS_ONLY).count(0)
            parts.append((queue, len(part), part.size_bytes(), volatile, pack_column(array("H", rows))))
            bodies.append(part.encode())
        return parts, bodies

    def _looping_rows(self, batch: Batch) -> dict[int, int]:
        """Rows that have crossed bridges before -> how many."""
        known = {raw: hops_of(raw) for raw in set(batch.properties.values())}
        return {row: hops for row, raw in batch.properties.items() if (hops := known[raw])}

    def _deliver(self, frame: Publishes, batch: Batch) -> None:
        """Send what live clients subscribe to; what was offered before they have had."""
        offered = batch.flags.translate(_OFFERED_ONLY)
        all_fresh = not any(offered)
        by_subscribers: dict[tuple[int, ...], set[int]] = {}
        for index, topic in enumerate(batch.topics):
            subscribers = self._router.subscribers(topic)
            if subscribers:
                by_subscribers.setdefault(subscribers, set()).add(index)
        if not by_subscribers:
            return
        groups = []
        for subscribers, topics in by_subscribers.items():
            rows: Sequence[int] = ()
            if len(topics) != len(batch.topics) or not all_fresh:
                rows = [row for row, index in enumerate(batch.topic_of) if index in topics and not offered[row]]
                if not rows:
                    continue
            groups.append((pack_column(array("I", subscribers)), pack_column(array("H", rows))))
        if not groups:
            return
        self.send(
            LISTENER,
            Deliver(
                sender=frame.sender,
                sender_epoch=frame.epoch,
                number=frame.number,
                epoch=self._listener_epoch,
                groups=tuple(groups),
                bodies=frame.bodies,
            ),
        )


def _routed(batch: Batch, by_topic: dict[int, Route]) -> Batch:
    """``batch`` with the rule of each topic and the applied QoS of each row; its other columns are shared, not copied."""
    tables = {route.flags_table for route in by_topic.values()}
    if len(tables) == 1:
        flags = batch.flags.translate(next(iter(tables)))
    else:
        tables_of = [by_topic[index].flags_table if index in by_topic else b"" for index in range(len(batch.topics))]
        flags = bytes([tables_of[index][flag] for index, flag in zip(batch.topic_of, batch.flags, strict=True)])
    return Batch(
        accepted_ms=batch.accepted_ms,
        topics=batch.topics,
        topic_of=batch.topic_of,
        flags=flags,
        lengths=batch.lengths,
        payloads=batch.payloads,
        rules=[by_topic[index].rule if index in by_topic else 0 for index in range(len(batch.topics))],
        properties=batch.properties,
    )
