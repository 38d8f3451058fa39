"""The queues of sessions that have ended: what shared subscriptions dealt to them goes to other members, the rest goes nowhere.

A queue to which no shared subscription has dealt anything goes at once, with its session. Any other is emptied from its head on, a
piece a turn, so that everything else goes on meanwhile. Nothing has to be noted for that: a queue that no session has is one of
them, after a restart too.

store.share-goes-to-another-member [P1, P3, MQTT]: a message of a shared subscription that waits for a session that ends goes to the
    queue of another session with that subscription, as that subscription grants it, by the commit in which it leaves the first
    queue: it is in one of them, whoever dies. It goes to who is connected, if any, and of those to who has the least waiting. A
    message of QoS 2 that the first client may have goes to nobody (MQTT 5 section 4.8.2).
store.ended-queue-counted [P6]: each message that waited for a session that has ended is counted by the commit with which it goes:
    as dealt again, or as dropped, by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, replace
from itertools import islice

from storage.queue.admission import AdmissionRoom
from storage.queue.chunk import Message, batch_of
from storage.store.lane import Lane, State
from storage.store.next_commit import NextCommit
from storage.store.retained_pieces import RetainedPieces
from storage.store.session_queues import SessionQueues
from storage.store.session_rows import Sessions
from wire.exchange.subscriber_copies import as_granted
from wire.frames.batch import QOS_MASK
from wire.frames.subscriptions import PIECE_BYTES, PIECE_MESSAGES
from wire.mqtt.publish_properties import without_connection_properties
from wire.routing.message_route import MessageRoute
from wire.routing.subscriber import Delivery, delivery_for, options_of
from wire.status.loss_reasons import Loss

Read = Callable[[Lane, float, Callable[..., None]], None]


@dataclass(slots=True)
class _Member:
    """Another session with the subscription. away: nobody is connected; waits: messages in its queue."""

    lane: Lane
    room: AdmissionRoom
    away: bool
    waits: int
    delivery: Delivery


class EndedQueues:
    """Empties one of them a turn. ready: those with which the next turn has something to do, though nothing comes."""

    def __init__(
        self, sessions: Sessions, queues: SessionQueues, pieces: RetainedPieces, next_commit: NextCommit, read: Read
    ) -> None:
        """read: see ``Lanes``."""
        self._sessions = sessions
        self._queues = queues
        self._pieces = pieces
        self._next = next_commit
        self._read = read
        names = {lane.queue.name for lane in queues} - {session.queue for session in sessions}
        self._ended = dict.fromkeys(sorted(names))
        self.ready = self._ended.copy()

    def end(self, name: str) -> int:
        """The session of the queue ``name`` has ended, with the open write; how many messages waited in it."""
        lane = self._queues.lane(name)
        if lane is None or not lane.queue.routes.row(lane.queue.head):
            return self._queues.remove(name)
        self._ended[name] = self.ready[name] = None
        return lane.queue.depth

    def tick(self) -> None:
        """Try again what could not be read. Call it about once a second."""
        self.ready.update(self._ended)

    def serve(self, now_s: float) -> None:
        """Empty one queue by a piece, with the open write."""
        name = next(iter(self.ready))
        del self.ready[name]
        lane = self._queues.lane(name)
        if lane is None or lane.is_stopped or (lane.unread is not None and now_s < lane.retry_s):
            return
        self._read(lane, now_s, lambda: self._empty(name, lane))

    def _empty(self, name: str, lane: Lane) -> None:
        queue = lane.queue
        if lane.is_open or lane.state is State.OPENING:
            lane.close(-1)
        messages = list(_piece(queue.read(queue.head, queue.tail, damage=lambda _: None)))
        lane.mark_readable()
        if messages:
            self._deal(lane, messages)
            queue.settle(Loss.LEFT.dropped, ((messages[0].seq, messages[-1].seq + 1),))
        if not queue.depth or (not messages and queue.appended.seq == queue.tail):  # what is left of it cannot be read
            self._queues.remove(name)
            self._queues.count()
            del self._ended[name]
        else:
            self.ready[name] = None  # again, behind the others
        self._next.time.hurry()

    def _deal(self, lane: Lane, messages: Iterable[Message]) -> None:
        """Put ``messages``, which leave the queue of ``lane``, into other queues, or count them as dropped."""
        members = self._members({message.route for message in messages})
        dealt: dict[tuple[int, int], tuple[_Member, list[Message]]] = {}  # by its member and when it was accepted
        left: Counter[str] = Counter()
        for message in messages:
            theirs = members[message.route]
            takers = [one for one in theirs if one.room.fits(1, message.size_bytes)]
            if theirs and message.flags & QOS_MASK == 2 and message.seq < lane.queue.sent.below:
                left[Loss.MAYBE_RECEIVED] += 1
            elif not takers:
                left[Loss.OVERFLOW if theirs else Loss.SESSION_ENDED] += 1
            else:
                taker = min(takers, key=lambda one: (one.away, one.waits))
                taker.room.take(1, message.size_bytes)
                taker.waits += 1
                left[Loss.DEALT_AGAIN] += 1
                dealt.setdefault((id(taker), message.accepted_ms), (taker, []))[1].append(message)
        for (_, accepted_ms), (taker, several) in dealt.items():
            self._put(taker, several, accepted_ms)
        self._queues.count_left(left)

    def _put(self, taker: _Member, messages: Iterable[Message], accepted_ms: int) -> None:
        name = taker.lane.queue.name
        bare = [replace(message, properties=without_connection_properties(message.properties)) for message in messages]
        batch = batch_of(bare, accepted_ms=accepted_ms)
        granted = as_granted(
            batch,
            None,
            qos=taker.delivery.qos,
            retain_as_published=taker.delivery.retain_as_published,
            identifiers=taker.delivery.identifiers,
        )
        granted = replace(granted, routes=batch.routes, route_of=batch.route_of)
        if name in self._pieces.queues:
            self._pieces.precede(name, granted.encode())
        self._queues.put(taker.lane.queue.name, granted)

    def _members(self, routes: Set[bytes]) -> dict[bytes, list[_Member]]:
        """The other members of the shared subscription of each of ``routes`` that get QoS 1 and 2 through a queue."""
        found: dict[bytes, list[_Member]] = {route: [] for route in routes}
        shares = {MessageRoute.decode(route).rule: route for route in routes if route}
        rooms: dict[str, AdmissionRoom] = {}
        for session in self._sessions if shares else ():
            lane = self._queues.lane(session.queue)
            for share in shares.keys() & session.subscriptions.keys():
                delivery = delivery_for([options_of(*session.subscriptions[share])])
                if lane is not None and delivery.qos:
                    depth, size_bytes = lane.queue.depth, lane.queue.size_bytes
                    room = rooms.setdefault(session.queue, AdmissionRoom.of(lane.limits, depth, size_bytes, disk_full=False))
                    found[shares[share]].append(_Member(lane, room, session.connected is None, depth, delivery))
        return found


def _piece(messages: Iterator[Message]) -> Iterator[Message]:
    size_bytes = 0
    for message in islice(messages, PIECE_MESSAGES):
        yield message
        size_bytes += message.size_bytes
        if size_bytes >= PIECE_BYTES:
            return
