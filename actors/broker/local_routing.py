"""Routing of a batch among the local clients: live receivers, and the queues of lasting sessions.

``wire/routing/subscriptions.py`` finds the matches; the store makes messages durable. A session that ends with its connection is
sent everything live; one that lasts gets QoS 1 and 2 through its queue, and QoS 0 live while it is connected. A session's right to
read is judged where a shared subscription chooses one; for the rest the Listener judges it at delivery.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

from actors.broker.ended_connections import EndedConnections
from actors.process.local_messages import SessionDown, SessionUp
from wire.access.access_lists import AccessLists
from wire.access.access_rules import ClientAccess
from wire.config_settings import NodeSettings
from wire.exchange.subscriber_copies import as_granted
from wire.frames.batch import PASSED, QOS_MASK, QOS_ONLY, RETAIN_ONLY, Batch, pack_column
from wire.frames.intake import SessionGone, SessionsKnown
from wire.frames.names import RETAINED
from wire.frames.supervision import AclChanged
from wire.routing.retained_topics import pack_owned
from wire.routing.shared_subscription import Hands, SharedGroup, through_queue
from wire.routing.subscriber import Delivery, Publisher, Subscriber, options_of
from wire.routing.subscriptions import Subscriptions
from wire.routing.topic_receivers import GroupRows, TopicReceivers

Part = tuple[str, int, int, int, bytes]
Grant = tuple[int, bool, tuple[int, ...]]

BRIDGES_KNOWN_MAX = 10_000

_PASSED_ONLY = bytes(flags & PASSED for flags in range(256))
_PASSED_OR_QOS0 = bytes(flags & PASSED if flags & QOS_MASK else PASSED for flags in range(256))


class Routed(NamedTuple):
    """Parts of an ``Append`` with their bodies, and ``groups`` and ``grants`` of a ``Deliver``."""

    parts: list[Part]
    bodies: list[bytes]
    groups: tuple[tuple[bytes, bytes], ...]
    grants: tuple[Grant, ...]


class LocalRouting:
    """The ``subscriptions`` of local clients, and the parts of a batch that they want."""

    def __init__(self, settings: NodeSettings) -> None:
        self._lists = AccessLists(settings)
        self.subscriptions = Subscriptions(rights_of=self._rights_of)
        self._clients: dict[str, tuple[str, str | None]] = {}  # session -> the listener by which its client came last, and its user
        self._ended = EndedConnections()
        self._places: dict[str, tuple[int, str]] = {}  # session -> its live connection, 0 for none, and its queue
        self._bridges: dict[int, None] = {}  # the newest connections of other brokers' bridges
        self._owners: dict[int, str] = {}  # of the connections: in whose share they count
        self._doubted: dict[str, str] = {}  # session that was not connected when the store was asked for it -> its queue

    # --- sessions ---

    def on_kept(self, frame: SessionsKnown) -> None:
        """Sessions that are on record; those that are connected are known better."""
        for session, queue, subscriptions, _, _, user, listener, _ in frame.sessions:
            if queue and session not in self._places:
                self._clients[session] = listener, user
                self._put(session, 0, queue, subscriptions)

    def mark_unconfirmed(self) -> None:
        """A new store is asked what is kept: what the one before it has ended may not have been told here."""
        self._doubted = {session: queue for session, (source, queue) in self._places.items() if not source}

    def confirm(self, frame: SessionsKnown) -> None:
        """These are on record."""
        for session, queue, *_ in frame.sessions:
            if self._doubted.get(session) == queue:
                del self._doubted[session]

    def forget_unconfirmed(self) -> None:
        """The others are not. Sessions that came meanwhile are known from the Listener."""
        for session, queue in self._doubted.items():
            if self._places.get(session) == (0, queue):
                self._forget(session)
        self._doubted.clear()

    def up(self, frame: SessionUp) -> None:
        """A session is connected, with these subscriptions and no others; those that it had already cost nothing."""
        kept = {topic_filter for topic_filter, *_ in frame.subscriptions}
        self.unsubscribe(frame.session, [one for one in self.subscriptions.filters_of(frame.session) if one not in kept])
        self._clients[frame.session] = frame.listener, frame.user
        self._owners[frame.source] = frame.owner
        if frame.bridge:
            self._bridges[frame.source] = None
            if len(self._bridges) > BRIDGES_KNOWN_MAX:
                del self._bridges[next(iter(self._bridges))]
        self._put(frame.session, frame.source, frame.queue, frame.subscriptions)

    def down(self, frame: SessionDown) -> None:
        """A connection has ended; the session stays as it is where it was taken over."""
        owner = self._owners.pop(frame.source, "")
        if frame.source and frame.published:
            self._ended.add(frame.source, frame.session, owner)
        source, queue = self._places.get(frame.session, (0, ""))
        if source == frame.source:
            self._offline(frame.session, source, "" if frame.ended else queue)

    def on_gone(self, frame: SessionGone) -> None:
        """A session has ended; without effect if there is a newer one of that name."""
        if self._places.get(frame.session, (0, ""))[1] == frame.queue:
            self._forget(frame.session)

    def subscribe(self, session: str, filters: Iterable[tuple[str, int, int]]) -> None:
        """Route by these filters from the next batch on."""
        for topic_filter, options, identifier in filters:
            self.subscriptions.subscribe(session, topic_filter, options_of(options, identifier))

    def unsubscribe(self, session: str, filters: Iterable[str]) -> None:
        """Route by these filters no more."""
        for topic_filter in filters:
            self.subscriptions.unsubscribe(session, topic_filter)

    def _put(self, session: str, source: int, queue: str, subscriptions: Iterable[tuple[str, int, int]]) -> None:
        self._places[session] = source, queue
        self.subscriptions.on_connected(session, source, queue)
        for topic_filter, options, identifier in subscriptions:
            self.subscriptions.subscribe(session, topic_filter, options_of(options, identifier))

    def _offline(self, session: str, source: int, queue: str) -> None:
        if queue:
            self.subscriptions.on_disconnected(session, source)
            self._places[session] = 0, queue
        else:
            self._forget(session)

    def _forget(self, session: str) -> None:
        self.subscriptions.forget(session)
        self._places.pop(session, None)
        self._clients.pop(session, None)

    def owner_of(self, source: int) -> str:
        """In whose share what connection ``source`` publishes is retained; empty for one that is not known any more."""
        return self._owners.get(source) or self._ended.owner_of(source)

    def is_bridge(self, source: int) -> bool:
        """Whether connection ``source`` is, or was, that of another broker's bridge which says so."""
        return source in self._bridges

    # --- rights ---

    def deal_by(self, settings: NodeSettings) -> None:
        """Deal by the rights of these settings from the next batch on."""
        self._lists = AccessLists(settings)
        self.subscriptions.on_rights_changed()

    def on_acl_changed(self, frame: AclChanged) -> None:
        """Deal by other rules from the next batch on."""
        if self._lists.change(frame):
            self.subscriptions.on_rights_changed()

    def _rights_of(self, subscriber: Subscriber) -> ClientAccess | None:
        return self._lists.rights_at(*self._clients[subscriber.session], subscriber.session)

    # --- batches ---

    def route(
        self,
        batch: Batch,
        sources: Sequence[Publisher] | None,
        *,
        had_at_qos0: bool = False,
        copies: frozenset[int] = frozenset(),
    ) -> Routed:
        """The receivers of ``batch``, but for its rows ``copies``, which nobody gets.

        sources: per row who published it; None: no local client.
        had_at_qos0: those who are connected may have had of it what they get at QoS 0, be it published or subscribed so.
        """
        found = _Found(batch, sources, self._ended, had_at_qos0=had_at_qos0, copies=copies)
        by_match: dict[TopicReceivers, set[int]] = {}
        by_group: dict[SharedGroup, set[int]] = {}
        for index, topic in enumerate(batch.topics):
            match = self.subscriptions.match(topic)
            if match.size:
                by_match.setdefault(match, set()).add(index)
            for group in match.shared:
                by_group.setdefault(group, set()).add(index)
        for match, topics in by_match.items():
            rows = found.rows_of(topics)
            for group_rows in match.group_rows(found.publishers(match)):
                found.send(group_rows, rows)
        for group, topics in by_group.items():
            for hands, theirs in group.hands(batch.topics, topics):
                found.deal(group, hands, theirs)
        return Routed(*found.parts(), *found.groups())


class _Found:
    """The receivers of one batch: rows by live client, and rows by queue.

    had_at_qos0: what goes at QoS 0 counts as offered before: every row of QoS 0, and every row to who subscribes at QoS 0. A shared
    subscription is dealt the others as ever: who had them is another, perhaps, and twice is better than not at all.
    """

    def __init__(
        self,
        batch: Batch,
        sources: Sequence[Publisher] | None,
        ended: EndedConnections,
        *,
        had_at_qos0: bool,
        copies: frozenset[int],
    ) -> None:
        self._copies = copies
        self._batch = batch
        self._sources = sources
        self._ended: EndedConnections | None = ended  # None: the sources are named by it
        self._qos = batch.flags.translate(QOS_ONLY)
        passed = batch.flags.translate(_PASSED_OR_QOS0 if had_at_qos0 else _PASSED_ONLY)
        self._passed = passed if any(passed) else b""
        self._any_qos0 = b"\0" in self._qos
        self._had_at_qos0 = had_at_qos0
        self._live: dict[tuple[bytes, Grant], list[Sequence[int]]] = {}
        self._queued: dict[tuple[str, Delivery, SharedGroup | None], list[Sequence[int]]] = {}

    def rows_of(self, topics: Set[int]) -> Sequence[int]:
        """The rows of these topics, in order."""
        if self._copies:
            return [row for row, index in enumerate(self._batch.topic_of) if index in topics and row not in self._copies]
        if len(topics) == len(self._batch.topics):
            return range(len(self._batch))
        return [row for row, index in enumerate(self._batch.topic_of) if index in topics]

    def publishers(self, match: TopicReceivers) -> frozenset[Publisher]:
        """The connections and sessions that some of the match do not want to hear and that published in this batch."""
        if self._sources is None or not match.no_local:
            return frozenset()
        if self._ended is not None:
            self._sources, self._ended = self._ended.named(self._sources), None
        return match.no_local.intersection(self._sources)

    def send(self, group_rows: GroupRows, rows: Sequence[int]) -> None:
        """Rows for a group of subscribers."""
        group, delivery = group_rows.group, group_rows.group.delivery
        if self._had_at_qos0 and not delivery.qos:
            return
        if (group_rows.without or group_rows.only) and self._sources is not None:
            sources = self._sources
            rows = [
                row
                for row in rows
                if (sources[row] in group_rows.only if group_rows.only else sources[row] not in group_rows.without)
            ]
        fresh = [row for row in rows if not self._passed[row]] if self._passed else rows  # the others they have had
        if not delivery.qos:
            self._send_live(group.live, delivery, fresh)
            return
        self._send_live(group.transient, delivery, fresh)
        if not group.queues:
            return
        if self._any_qos0:
            lasting = pack_column(array("I", [one.source for one in group.subscribers if one.source and one.queue]))
            self._send_live(lasting, Delivery(0, *delivery[1:]), [row for row in fresh if not self._qos[row]])
            rows = [row for row in rows if self._qos[row]]
        self._enqueue(group.queues, delivery, rows)

    def deal(self, group: SharedGroup, hands: Hands, topics: Set[int]) -> None:
        """Rows for the members of a shared subscription that take those of ``topics``."""
        rows = self.rows_of(topics)
        if self._passed:
            rows = [row for row in rows if not self._passed[row]]
        for subscriber, delivery, offsets in hands.deal(len(rows)):
            self._send_one(group, subscriber, delivery, rows[offsets.start : offsets.stop : offsets.step])

    def _send_one(self, group: SharedGroup, subscriber: Subscriber, delivery: Delivery, rows: Sequence[int]) -> None:
        """Rows for one member of ``group``."""
        live = pack_column(array("I", [subscriber.source])) if subscriber.source else b""
        if not through_queue(subscriber, delivery):
            self._send_live(live, delivery, rows)
            return
        self._send_live(live, Delivery(0, *delivery[1:]), [row for row in rows if not self._qos[row]])
        self._enqueue((subscriber.queue,), delivery, [row for row in rows if self._qos[row]], group)

    def _send_live(self, subscribers: bytes, delivery: Delivery, rows: Sequence[int]) -> None:
        if subscribers and rows:
            self._live.setdefault((subscribers, (delivery.qos, delivery.retain_as_published, delivery.identifiers)), []).append(
                rows
            )

    def _enqueue(self, queues: Iterable[str], delivery: Delivery, rows: Sequence[int], dealt_by: SharedGroup | None = None) -> None:
        if rows:
            for queue in queues:
                self._queued.setdefault((queue, delivery, dealt_by), []).append(rows)

    def groups(self) -> tuple[tuple[tuple[bytes, bytes], ...], tuple[Grant, ...]]:
        """``groups`` and ``grants`` of a ``Deliver``."""
        columns = [(subscribers, self._column(_in_order(several))) for (subscribers, _), several in self._live.items()]
        return tuple(columns), tuple(grant for _, grant in self._live)

    def parts(self) -> tuple[list[Part], list[bytes]]:
        """Parts of an ``Append`` with their bodies; queues that get the same in the same way share one body."""
        parts: list[Part] = []
        bodies: list[bytes] = []
        made: dict[tuple[Delivery, SharedGroup | None, bytes], tuple[int, int, bytes]] = {}
        for (queue, delivery, dealt_by), several in self._queued.items():
            rows = _in_order(several)
            column = self._column(rows)
            known = made.get((delivery, dealt_by, column))
            if known is None:
                body = as_granted(
                    self._batch,
                    rows if column else None,
                    qos=delivery.qos,
                    retain_as_published=delivery.retain_as_published,
                    identifiers=delivery.identifiers,
                )
                if dealt_by is not None and dealt_by.message_route:
                    body.take_route(dealt_by.message_route)
                known = made[delivery, dealt_by, column] = len(body), body.size_bytes(), body.encode()
            parts.append((queue, known[0], known[1], 0, column))
            bodies.append(known[2])
        return parts, bodies

    def _column(self, rows: Sequence[int]) -> bytes:
        """``rows``, which ascend, as a u16 column, empty for all. One may be there twice, by a shared subscription and another."""
        everything = len(rows) == len(self._batch) and (isinstance(rows, range) or len(set(rows)) == len(rows))
        return b"" if everything else pack_column(array("H", rows))


def _in_order(several: list[Sequence[int]]) -> Sequence[int]:
    """The rows of all of them, ascending."""
    return several[0] if len(several) == 1 else sorted(row for rows in several for row in rows)


def retained_part(
    batch: Batch, owners_of: Callable[[Sequence[int]], Sequence[str]], copies: frozenset[int] = frozenset()
) -> tuple[Part, bytes]:
    """The rows of ``batch`` that the store is to retain, of which there are some, as a part of an ``Append`` with its body.

    owners_of: for each of these rows, in whose share it counts. copies: rows that are not retained.
    """
    retained = batch.flags.translate(RETAIN_ONLY)
    if copies:
        retained = bytes(0 if row in copies else flag for row, flag in enumerate(retained))
    count = len(retained) - retained.count(0)
    rows = [row for row, flag in enumerate(retained) if flag] if count < len(batch) else range(count)
    part = batch.select(rows) if count < len(batch) else batch
    column = pack_column(array("H", rows)) if count < len(batch) else b""
    return (RETAINED, len(part), part.size_bytes(), 0, column), pack_owned(part, owners_of(rows))
