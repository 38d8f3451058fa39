"""The Distributor: decides for each topic of a batch which bridges and which local clients get it, by which rule and at which QoS.

It keeps no message, save of batches that may be sent again and would go to others then: what dies with it is sent again by its
sender, the Listener or a Connection with remote subscriptions. The routing to bridges is ``wire/routing/bridge_rules.py``'s, that
to local clients ``actors/broker/local_routing.py``'s; the store commits.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence, Set
from functools import partial

from actors.broker.followed_publish import FollowedRouting
from actors.broker.local_routing import LocalRouting, Part, Routed, retained_part
from actors.broker.repeated_batches import RoutedBatches
from actors.process.actor import MailboxActor
from actors.process.local_messages import Deliver, PublishedAhead, PublishedMessages, SessionDown, SessionUp
from actors.process.mailbox import Mailbox
from wire.config_settings import NodeSettings, RingSettings
from wire.durability import Durabilities, Durability
from wire.frames.batch import QOS_ONLY, RETAIN, RETAIN_ONLY, Batch, head_of, pack_column, raised_rows, unpack_column
from wire.frames.frame import Frame
from wire.frames.intake import NO_ROW, Append, CommitWanted, Publishes, SenderResumes, SessionGone, SessionsKnown, SessionsWanted
from wire.frames.names import LISTENER, QUEUE_STORE, LaneName, lane_of_actor, lane_of_queue
from wire.frames.subscriptions import RetainedWanted, SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.frames.supervision import AclChanged
from wire.frames.traces import TopicsWanted, TraceWanted
from wire.routing.bridge_rules import BridgeRoute, BridgeRules, by_routes
from wire.routing.hop_count import hops_of
from wire.routing.ring_filter import RingFilter
from wire.routing.subscriber import Publisher
from wire.status.client_figures import DistributorFigures

_NO_ROWS: frozenset[int] = frozenset()


class Distributor(MailboxActor):
    """Routes batches: ``PublishedMessages`` and ``Publishes`` in, ``Append`` to the store and ``Deliver`` to the Listener out.

    It is ready once it knows the sessions that the store keeps, and asks each later store whether they are still there. It takes
    nothing of a Connection before that has told it that it sends all again: what was on its way to a former life may have lost what
    was in front of it. Messages that Connections publish before it is ready wait.
    """

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._local = LocalRouting(settings)
        self._ring: RingFilter | None = None
        self._ring_settings = RingSettings()
        self._subscriptions = self._local.subscriptions
        self.route_by(settings)
        self._senders: dict[str, int] = {}  # Connections that send to this life -> their epochs
        self._held: dict[tuple[str, int], Publishes] = {}  # by sender and number
        self._newest = RoutedBatches()
        self._watch = FollowedRouting(mailbox)
        self._routed = 0
        self._loops = 0
        self._copies = 0

    def on_peer_up(self, name: str, epoch: int) -> None:
        if name == QUEUE_STORE:
            self._local.mark_unconfirmed()
            self.send(QUEUE_STORE, SessionsWanted(epoch=self.epoch))

    def on_reconfigured(self, before: NodeSettings) -> None:
        self.route_by(self.settings)
        self._local.deal_by(self.settings)

    def route_by(self, settings: NodeSettings) -> None:
        """New messages go by these rules; messages that were routed before and are sent again go where they went."""
        self._router = BridgeRules(settings.bridges)
        self._durabilities = Durabilities(settings)
        self._raises = self._router.raise_qos
        self._thinning_routes = self._router.thinning_routes
        self._rules = self._router.checksum if self._thinning_routes else 0
        self._lanes = tuple((bridge.name, bridge.lanes) for bridge in settings.bridges if bridge.lanes > 1)
        self._hops_max = {
            bridge.name: bridge.loop_prevention.max_hops for bridge in settings.bridges if bridge.loop_prevention.enabled
        }
        if settings.rings != self._ring_settings:
            self._ring_settings = rings = settings.rings
            self._ring = RingFilter(rings.window_s, rings.max_messages) if rings.window_s else None

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case PublishedMessages():
                self._distribute(frame, frame.batch)
            case Publishes():
                if self._senders.get(frame.sender) != frame.epoch:
                    return  # it is all sent again, or of a sender that is dead
                if self.state == "starting":
                    self._held.setdefault((frame.sender, frame.number), frame)  # once, however often it is sent again
                else:
                    self._distribute_remote(frame)
            case PublishedAhead():
                if self._subscriptions.count:
                    self._deliver(self._local.route(frame.batch, unpack_column("I", frame.sources)), frame.batch)
            case SenderResumes():
                self._on_sender_restarted(frame.sender, frame.epoch)
            case SubscriptionsAdd():
                self._local.subscribe(frame.session, (filters[:3] for filters in frame.filters))
                self._on_subscribed(frame)
            case SubscriptionsDrop():
                self._local.unsubscribe(frame.session, frame.filters)
                self._on_subscribed(frame)
            case RetainedWanted() | CommitWanted():
                self.send(QUEUE_STORE, frame)  # behind all that was routed before
            case SessionUp():
                self._local.up(frame)
            case SessionDown():
                self._local.down(frame)
            case SessionGone():
                self._local.on_gone(frame)
            case AclChanged():
                self._local.on_acl_changed(frame)
            case TraceWanted() | TopicsWanted():
                self._watch.on_wanted(frame)
                if isinstance(frame, TraceWanted):
                    self.send(LISTENER, frame)
            case SessionsKnown():
                if frame.epoch == self.epoch and not self.is_former(QUEUE_STORE, frame.store):
                    self._on_sessions_kept(frame)
                    self.send(LISTENER, frame)
            case _:
                raise AssertionError(f"not for a Distributor: {frame}")

    def _on_subscribed(self, frame: SubscriptionsAdd | SubscriptionsDrop) -> None:
        """Lasting subscriptions go to the store: one that is not known here would be acknowledged, and without effect."""
        if frame.queue:
            self.send(QUEUE_STORE, frame)
        else:
            self.send(LISTENER, SubscriptionsKept(epoch=frame.epoch, request=frame.request, source=frame.source))

    def status(self) -> DistributorFigures:
        return DistributorFigures(
            routed=self._routed, loops=self._loops, copies=self._copies, subscriptions=self._subscriptions.count
        )

    def _on_sessions_kept(self, frame: SessionsKnown) -> None:
        self._local.confirm(frame)
        if self.state == "starting":
            self._local.on_kept(frame)
        if not frame.last:
            return
        self._local.forget_unconfirmed()
        if self.state == "starting":
            self.ready()
            held, self._held = self._held, {}
            for publishes in held.values():
                self._distribute_remote(publishes)

    def _on_sender_restarted(self, sender: str, epoch: int) -> None:
        """All that ``sender`` has outstanding follows, in order; nothing of its earlier lives counts any more."""
        if epoch > self._senders.get(sender, 0):
            self._senders[sender] = epoch
            self._held = {key: frame for key, frame in self._held.items() if key[0] != sender}

    def _distribute_remote(self, frame: Publishes) -> None:
        if not self.is_former(frame.sender, frame.epoch):  # nothing of a dead one was acknowledged, and newer may have gone out
            self._distribute(frame, Batch.decode(frame.bodies[0]))

    def _distribute(self, frame: PublishedMessages | Publishes, batch: Batch) -> None:
        again = self._newest.again(frame.sender, frame.epoch, frame.number)
        if again is not None:  # who gets it live has got it
            self.send(QUEUE_STORE, again)
            return
        published = frame if type(frame) is PublishedMessages else None
        sender = lane_of_actor(frame.sender) if published is None else None
        raised: dict[str, tuple[int, int]] = {}
        brought, copies = _NO_ROWS, _NO_ROWS
        if self._ring is not None:
            brought, copies = self._judge_copies(self._ring, published, batch, "" if sender is None else sender.bridge)
        parts, bodies = self._parts(batch, None if sender is None else sender.bridge, raised, brought, copies)
        thinned = self._thinned(parts, bodies) if self._thinning_routes else ()
        rows = len(batch.flags)
        self._routed += rows
        live = 0
        if self._subscriptions.count:
            local = self._route_locally(frame, batch, copies)
            parts += local.parts
            bodies += local.bodies
            self._deliver(local, batch)
            live = len(local.groups)
        retained = batch.flags.translate(RETAIN_ONLY)
        if RETAIN in retained and not (copies and all(row in copies for row, flag in enumerate(retained) if flag)):
            part, body = retained_part(batch, partial(self._owners_of, frame, sender), copies)
            parts.append(part)
            bodies.append(body)
        differ = self._durabilities.differ or (published is not None and published.durability is not None)
        append = Append(
            sender=frame.sender,
            epoch=frame.epoch,
            number=frame.number,
            rows=rows,
            received=frame.received,
            released=frame.released,
            wills=() if published is None else published.wills,
            lanes=self._lanes,
            room=0 if published is None else published.room,
            refused={} if published is None else published.refused,
            raised=raised,
            thinned=thinned,
            rules=self._rules,
            durability=self._durability(frame, sender, parts) if differ else self._durabilities.own,
            parts=tuple(parts),
            bodies=tuple(bodies),
        )
        self._newest.keep(append)
        if self._watch.on:
            self._watch.on_routed(frame, batch, append, live=live, router=self._router)
        self.send(QUEUE_STORE, append)

    def _durability(self, frame: PublishedMessages | Publishes, sender: LaneName | None, parts: Iterable[Part]) -> Durability:
        """The strictest of what ``frame`` concerns: the listeners or the bridge that it came by, the bridges that it goes to.

        All by the settings by which it is routed: the store may have others already, or by the time that it gets it again.
        """
        durabilities = self._durabilities
        refused: tuple[str, ...] = ()
        wanted = durabilities.own if sender is None else durabilities.of_bridge(sender.bridge)
        if isinstance(frame, PublishedMessages):
            wanted, refused = frame.durability or wanted, tuple(frame.refused)
        for queue in (*(part[0] for part in parts), *refused):
            if (lane := lane_of_queue(queue)) is not None:
                wanted = wanted.with_that(durabilities.of_bridge(lane.bridge))
        if frame.released:  # what it was of may have concerned any; and were it forgotten, a new message would be taken for that
            wanted = wanted.with_that(durabilities.strictest)
        return wanted

    def _judge_copies(
        self, ring: RingFilter, published: PublishedMessages | None, batch: Batch, bridge: str
    ) -> tuple[frozenset[int], frozenset[int]]:
        """The rows that a bridge has brought, and those of them that are copies (routing.ring-copies-left-out). bridge: that of a
        remote's; all its lanes are one way, since what is shared comes by each.
        """
        ways: Sequence[Hashable | None] = [bridge] * len(batch)
        if published is not None:
            crossed = self._looping_rows(batch) if batch.properties else {}
            sources = unpack_column("I", published.sources)
            ways = [one if row in crossed or self._local.is_bridge(one) else None for row, one in enumerate(sources)]
        copies = ring.copies(batch.content_keys(), ways, self.mailbox.now_s())
        self._copies += len(copies)
        return frozenset(row for row, way in enumerate(ways) if way is not None), copies

    def _route_locally(self, frame: PublishedMessages | Publishes, batch: Batch, copies: frozenset[int]) -> Routed:
        if isinstance(frame, PublishedMessages):
            return self._local.route(batch, _publishers(frame), copies=copies)
        had = 0 < frame.listener < self.epoch  # perhaps: what a former life's clients were sent nobody knows any more
        return self._local.route(batch, None, had_at_qos0=had, copies=copies)

    def _owners_of(self, frame: PublishedMessages | Publishes, sender: LaneName | None, rows: Sequence[int]) -> Sequence[str]:
        """In whose share these rows are retained: a bridge's, or that of the client that published."""
        if sender is not None:
            return [f"bridge {sender.bridge}"] * len(rows)
        assert isinstance(frame, PublishedMessages)
        sources = unpack_column("I", frame.sources)
        return [self._local.owner_of(sources[row]) for row in rows]

    def _deliver(self, local: Routed, batch: Batch) -> None:
        if local.groups:
            self.send(LISTENER, Deliver(batch=batch, groups=local.groups, grants=local.grants))

    def _parts(
        self,
        batch: Batch,
        origin: str | None,
        raised: dict[str, tuple[int, int]],
        brought: frozenset[int],
        copies: frozenset[int],
    ) -> tuple[list[Part], list[bytes]]:
        """The batch cut by queue. One that goes to a queue whole keeps its columns; only flags and ways change.

        raised: is told of rows with a higher QoS than they came with, as ``Append`` has it. brought: rows that have crossed a
        bridge, if they do not say so. copies: rows that go nowhere.
        """
        parts: list[Part] = []
        bodies: list[bytes] = []
        routes: dict[str, dict[int, BridgeRoute]] = {}
        for index, topic in enumerate(batch.topics):
            for route in self._router.route(topic, origin):
                routes.setdefault(route.queue, {})[index] = route
        looping = self._looping_rows(batch) if batch.properties else {}
        if brought:
            looping = dict.fromkeys(brought, 1) | looping
        for queue, by_topic in routes.items():
            blocked: Set[int] = copies
            if looping and (lane := lane_of_queue(queue)) is not None:
                hops_max = self._hops_max.get(lane.bridge, 256)
                blocked = copies | {row for row, hops in looping.items() if hops >= hops_max}
            rows: Sequence[int] = ()
            if len(by_topic) == len(batch.topics) and not blocked:
                part = batch
            else:
                rows = [row for row, index in enumerate(batch.topic_of) if index in by_topic and row not in blocked]
                self._loops += sum(1 for row in blocked if batch.topic_of[row] in by_topic and row not in copies)
                if not rows:
                    continue
                part = batch.select(rows)
            part = by_routes(part, by_topic)
            qos = part.flags.translate(QOS_ONLY)
            volatile = qos.count(0) if 0 in qos else 0
            if self._raises and any(found := raised_rows(part.flags)):
                raised[queue] = found
            column = pack_column(array("H", rows)) if rows else b""
            parts.append((queue, len(qos), part.size_bytes(), volatile, column))
            bodies.append(part.encode())
        return parts, bodies

    def _thinned(self, parts: list[Part], bodies: list[bytes]) -> tuple[str, ...]:
        """The queues that get something by a rule that leaves some out."""
        routes = self._thinning_routes
        return tuple(part[0] for part, body in zip(parts, bodies, strict=True) if not routes.isdisjoint(head_of(body).routes))

    def _looping_rows(self, batch: Batch) -> dict[int, int]:
        """Rows that have crossed bridges before -> how many."""
        known = {raw: hops_of(raw) for raw in set(batch.properties.values())}
        return {row: hops for row, raw in batch.properties.items() if (hops := known[raw])}


def _publishers(frame: PublishedMessages) -> Sequence[Publisher]:
    """Per row the connection that published it; of a Will its session, whose connection may be of an earlier Listener."""
    sources = unpack_column("I", frame.sources)
    if not frame.wills:
        return sources
    publishers: list[Publisher] = list(sources)
    for session, row in frame.wills:
        if row != NO_ROW:
            publishers[row] = session
    return publishers
