"""One PUBLISH is followed while an operator asks for it: what the Distributor and the Listener say of it.

The store's steps are ``storage/store/followed_messages.py``'s, the remote's ``actors/bridge/followed_messages.py``'s, and all are
put together by ``supervisor/tree/message_traces.py``. Nothing here costs anything while nobody asks: the Distributor looks once a
batch whether it is ``on``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.access.client import Client
from actors.broker.connected_clients import ConnectedClients
from actors.process.local_messages import PublishedMessages
from actors.process.mailbox import Mailbox
from wire.frames.batch import QOS_MASK, RETAIN, Batch, unpack_column
from wire.frames.frame import Frame
from wire.frames.intake import Append, Committed, Publishes
from wire.frames.names import LISTENER, QUEUE_STORE, RETAINED, SUPERVISOR, lane_of_actor, lane_of_queue, session_of_queue
from wire.frames.traces import TopicCounts as TopicCountsFrame
from wire.frames.traces import TopicsWanted, TraceMark, TraceStep, TraceWanted
from wire.mqtt.topics import matches
from wire.routing.bridge_rules import BridgeRules
from wire.routing.hop_count import hops_of
from wire.routing.message_route import MessageRoute
from wire.routing.topic_counts import TopicCounts

FOLLOWED_MAX = 8
_SESSIONS_NAMED_MAX = 10
_TOPIC_SHOWN_BYTES = 1000


Watch = Callable[[Callable[[int, bytes, Iterable[str]], None] | None], None]


class _Armed:
    """A trace that waits for its message: the topic filter of ``on_wanted``, until ``until_s``."""

    def __init__(self, wanted: TraceWanted, now_s: float) -> None:
        self.wanted = wanted
        self.until_s = now_s + wanted.timeout_s

    def over(self, now_s: float) -> bool:
        return now_s > self.until_s

    def takes(self, topic: bytes) -> bool:
        return matches(self.wanted.topic_filter, topic.decode(errors="replace"))


class FollowedRouting:
    """The Distributor's part: finds the message, says how it was routed, and counts by topic. on: whether any of that is wanted."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.on = False
        self._mailbox = mailbox
        self._armed: _Armed | None = None
        self._counts: TopicCounts | None = None

    def on_wanted(self, frame: TraceWanted | TopicsWanted) -> None:
        """Follow a message from now on, or tell what was counted."""
        now_s = self._mailbox.now_s()
        if isinstance(frame, TraceWanted):
            self._armed = _Armed(frame, now_s) if frame.topic_filter else None
        else:
            self._send_counts(frame, now_s)
        self.on = self._armed is not None or self._counts is not None

    def _send_counts(self, frame: TopicsWanted, now_s: float) -> None:
        if self._counts is None or self._counts.over(now_s):
            self._counts = TopicCounts(now_s)
        counts = self._counts
        counts.on_asked(now_s)
        topics = counts.busiest(frame.count)
        told = TopicCountsFrame(request=frame.request, since_s=now_s - counts.since_s, topics=topics, others=counts.rest(topics))
        self._mailbox.send(SUPERVISOR, told)

    def on_routed(
        self, frame: PublishedMessages | Publishes, batch: Batch, append: Append, *, live: int, router: BridgeRules
    ) -> None:
        """``append`` is what became of ``batch``, and goes to the store next; so many groups of clients get it ``live``."""
        now_s = self._mailbox.now_s()
        if self._counts is not None:
            if self._counts.over(now_s):
                self._counts = None
            else:
                self._counts.add(batch)
        armed = self._armed
        if armed is not None and (armed.over(now_s) or self._found(armed, frame, batch, append, live, router, now_s)):
            self._armed = None
        self.on = self._armed is not None or self._counts is not None

    def _found(
        self,
        armed: _Armed,
        frame: PublishedMessages | Publishes,
        batch: Batch,
        append: Append,
        live: int,
        router: BridgeRules,
        now_s: float,
    ) -> bool:
        """Whether the batch has what is ``armed`` for; then its way is told."""
        topics = {index for index, topic in enumerate(batch.topics) if armed.takes(topic)}
        row = next((row for row, index in enumerate(batch.topic_of) if index in topics), None)
        if row is None:
            return False
        request, topic, qos = armed.wanted.request, batch.topics[batch.topic_of[row]], batch.flags[row] & QOS_MASK
        sources = unpack_column("I", frame.sources) if isinstance(frame, PublishedMessages) else ()
        mark = TraceMark(
            request=request,
            sender=frame.sender,
            epoch=frame.epoch,
            number=frame.number,
            row=row,
            source=sources[row] if row < len(sources) else 0,
            qos=qos,
        )
        self._mailbox.send(QUEUE_STORE, mark)
        taken_s = now_s - max(0, self._mailbox.wall_ms() - batch.accepted_ms) / 1000
        what = {
            "topic": topic[:_TOPIC_SHOWN_BYTES].decode(errors="replace"),
            "qos": qos,
            "retain": bool(batch.flags[row] & RETAIN),
            "bytes": batch.lengths[row],
            "batch": len(batch),
        }
        if frame.sender == LISTENER:
            self._mailbox.send(LISTENER, mark)
        self._step(request, "taken", frame.sender, taken_s, what)
        self._step(request, "routed", self._mailbox.name, now_s, _route_of(row, topic, batch, frame, append, live, router))
        return True

    def _step(self, request: int, step: str, actor: str, at_s: float, details: dict[str, Any]) -> None:
        told = TraceStep(request=request, step=step, actor=actor, queue="", at_s=at_s, details=details)
        self._mailbox.send(SUPERVISOR, told)


def _route_of(
    row: int, topic: bytes, batch: Batch, frame: PublishedMessages | Publishes, append: Append, live: int, router: BridgeRules
) -> dict[str, Any]:
    """The receivers of ``row``, and why others are none."""
    queues = [queue for queue, _, _, _, rows in append.parts if not rows or row in unpack_column("H", rows)]
    origin = lane_of_actor(frame.sender)
    of_bridges = {lane.bridge: queue for queue in queues if (lane := lane_of_queue(queue)) is not None}
    rules = {}
    for route in router.route(topic, None):
        message_route = MessageRoute.decode(route.message_route)
        rules[route.queue] = {"rule": message_route.rule, "destination": message_route.destination}
    hops = hops_of(batch.properties.get(row, b""))
    why_not = router.refusals(topic, None if origin is None else origin.bridge)
    for bridge in router.bridges:
        if bridge not in of_bridges and bridge not in why_not:
            why_not[bridge] = f"it has crossed {hops} bridges, and max_hops allows no more"
    sessions = [session for queue in queues if (session := session_of_queue(queue)) is not None]
    return {
        "lanes": [{"bridge": bridge, "queue": queue, **rules.get(queue, {})} for bridge, queue in of_bridges.items()],
        "not_to": [{"bridge": bridge, "why": why} for bridge, why in why_not.items()],
        "sessions": sessions[:_SESSIONS_NAMED_MAX],
        "sessions_count": len(sessions),
        "live": live,
        "retained": RETAINED in queues,
    }


class FollowedPublisher:
    """The Listener's part: who published the message, when it was acknowledged, and that it may not be published, or has no room.

    on: whether a message that was taken waits to be acknowledged.
    """

    def __init__(self, mailbox: Mailbox, clients: ConnectedClients) -> None:
        self.on = False
        self._mailbox = mailbox
        self._clients = clients
        self._armed: _Armed | None = None
        self._marks: dict[int, TraceMark] = {}  # by request

    def on_wanted(
        self, frame: TraceWanted, watch_denials: Callable[[Callable[[Client, bytes], None] | None], None], watch_refusals: Watch
    ) -> None:
        """Follow a message from now on. watch_denials: gets what is to be told of each PUBLISH that a client may not send.
        watch_refusals: that of each PUBLISH that a full queue keeps out.
        """
        self._armed = _Armed(frame, self._mailbox.now_s()) if frame.topic_filter else None
        watch_denials(self._on_denied if self._armed is not None else None)
        watch_refusals(self._on_refused if self._armed is not None else None)
        if self._armed is not None:  # the Distributor's part has been since before
            self._step(frame.request, "armed", {})

    def mark(self, frame: TraceMark) -> None:
        """It was found: say who published it."""
        self._armed = None
        client = self._clients.client(frame.source)
        if client is not None:
            self._step(frame.request, "taken", _who(client))
        if len(self._marks) < FOLLOWED_MAX:
            self._marks[frame.request] = frame
            self.on = True

    def on_committed(self, frame: Committed) -> None:
        """Publishers were answered for all batches up to that of ``frame``."""
        for request, mark in list(self._marks.items()):
            if mark.epoch != frame.epoch or mark.number > frame.number:
                continue
            del self._marks[request]
            if mark.qos:
                self._step(request, "acknowledged", {"packet": "PUBACK" if mark.qos == 1 else "PUBREC"})
        self.on = bool(self._marks)

    def _on_denied(self, client: Client, topic: bytes) -> None:
        """``client`` may not publish to ``topic``."""
        self._not_taken("denied", client, topic, {"why": "the access list forbids it"})

    def _on_refused(self, number: int, topic: bytes, bridges: Iterable[str]) -> None:
        """There is no room for a PUBLISH of client ``number`` to ``topic``."""
        client = self._clients.client(number)
        if client is not None:
            self._not_taken("refused", client, topic, {"full": [bridge or "the node" for bridge in bridges]})

    def _not_taken(self, step: str, client: Client, topic: bytes, why: Mapping[str, Any]) -> None:
        armed = self._armed
        if armed is not None and not armed.over(self._mailbox.now_s()) and armed.takes(topic):
            self._armed = None
            shown = topic[:_TOPIC_SHOWN_BYTES].decode(errors="replace")
            self._step(armed.wanted.request, step, {**_who(client), "topic": shown, **why})

    def _step(self, request: int, step: str, details: Mapping[str, Any]) -> None:
        told: Frame = TraceStep(
            request=request, step=step, actor=LISTENER, queue="", at_s=self._mailbox.now_s(), details=dict(details)
        )
        self._mailbox.send(SUPERVISOR, told)


def _who(client: Client) -> dict[str, Any]:
    return {"client_id": client.session, "address": client.address, "user": client.user or ""}
