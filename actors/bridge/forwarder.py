"""The Forwarder of one bridge lane: Tier 2, topic mapping, expiry of QoS 0, user properties, hop count, credit towards the store.

It opens the lane (``LaneOpen``) whenever it or the store starts anew or the store asks for it, and passes on what it is handed
in the order in which it came. For QoS 1 and 2 it never holds the only copy; QoS 0 is settled when it is passed on (at most once).
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left

from actors.bridge.forwarder_buffer import ForwarderBuffer
from actors.bridge.lane_names import configured
from actors.process.actor import MailboxActor
from actors.process.local_messages import LinkStateChanged, Passed
from actors.process.mailbox import Mailbox
from wire.config_settings import NodeSettings
from wire.frames.batch import QOS_ONLY, Batch, unpack_column
from wire.frames.frame import Frame, Ranges
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened, LaneReopen, Settle, Settled
from wire.frames.names import LANE_EPOCH_SHIFT, QUEUE_STORE, connection_name, lane_of_actor, queue_name
from wire.frames.traces import TraceFollow
from wire.ranges import ranges_of
from wire.routing.form_for_remote import RemoteForm
from wire.status.bridges import Tier2Figures
from wire.status.outcomes import DELIVERED, EXPIRED
from wire.status.states import LinkState

log = logging.getLogger("bascule")

LOGGED_TOPICS_MAX = 1000


class Forwarder(MailboxActor):
    """Passes hand-outs on to its Connection, as the remote is to see them, and settlements back to the store."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        place = lane_of_actor(mailbox.name)
        assert place is not None, "a Forwarder of no lane"
        bridge, lane = place
        self._bridge = configured(bridge, settings)
        self._queue = queue_name(bridge, lane)
        self._connection = connection_name(bridge, lane)
        self._form = RemoteForm(self._bridge, node=settings.node.name, lane=lane)
        self._tier2 = ForwarderBuffer(messages_max=self._bridge.tier2.max_messages, bytes_max=self._bridge.tier2.max_bytes)
        self._openings = 0
        self._lane_epoch = 0
        self._open = False
        self._linked_ms = 0  # when the link came or went last
        # While the remote is away Tier 2 holds what comes, and the store hands out nothing more: what it hands out counts as sent.
        self._linked = False
        self._settled: list[tuple[str, Ranges]] = []
        self._passed_on = 0  # of QoS 0, among these
        self._waited = (0, 0)  # what the lane was opened with and was never sent (routing.waiting-qos-lowered)
        self._logged_topics: set[bytes] = set()

    def on_start(self) -> None:
        super().on_start()
        if not self._bridge.persist:
            log.warning("bridge.downgrades", extra={"bridge": self._bridge.name, "qos": "AT_MOST_ONCE", "why": "persist is false"})
        self.ready()

    def on_peer_up(self, name: str, epoch: int) -> None:
        if name == QUEUE_STORE:
            self._reopen()

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case HandOut():
                if self._open and frame.epoch == self._lane_epoch:
                    self._tier2.hold(frame)
            case Settle():
                if self._open and frame.epoch == self._lane_epoch:
                    self.send(QUEUE_STORE, frame)
            case Settled():
                if frame.epoch == self._lane_epoch:
                    self.send(self._connection, frame)
            case Credit():
                if self._open and frame.epoch == self._lane_epoch:
                    self._tier2.credit(frame.messages, frame.size_bytes)
            case LaneOpened():
                if frame.epoch == self._lane_epoch:
                    self._open = True
                    self._waited = max(frame.head, frame.dup_below), frame.tail
                    self.send(self._connection, frame)
            case LaneReopen():
                if self._open:  # otherwise an opening is under way already
                    self._reopen()
            case LinkStateChanged():
                self._linked = frame.state is LinkState.CONNECTED
                self._linked_ms = self.mailbox.wall_ms()
            case TraceFollow():
                self.send(self._connection, frame)
            case _:
                raise AssertionError(f"not for a Forwarder: {frame}")

    def on_turn_end(self, now_s: float) -> None:
        tier2 = self._tier2
        while self._linked and tier2.messages and (handout := tier2.take()) is not None:
            self._pass_on(handout)
        if self._open and (granted := tier2.grant() if self._linked else tier2.withdraw()) is not None:
            self.send(QUEUE_STORE, Credit(queue=self._queue, epoch=self._lane_epoch, messages=granted[0], size_bytes=granted[1]))
        if self._settled:
            self._settle()

    def status(self) -> Tier2Figures:
        return Tier2Figures(messages=self._tier2.messages, bytes=self._tier2.size_bytes)

    def on_stopping(self) -> None:
        self._settle()
        self.on_finished()

    def _reopen(self) -> None:
        self._settle()
        self._openings += 1
        self._lane_epoch = (self.epoch << LANE_EPOCH_SHIFT) + self._openings
        self._open = self._linked = False
        self._tier2.clear()
        self.send(QUEUE_STORE, LaneOpen(queue=self._queue, epoch=self._lane_epoch))

    def _pass_on(self, handout: HandOut) -> None:
        offsets = unpack_column("I", handout.offsets) if handout.offsets else None
        size_bytes = handout.size_bytes
        batch = Batch.decode(handout.bodies[0])
        places = offsets or range(handout.count)
        if handout.first_seq < self._waited[1]:
            start, stop = (bisect_left(places, seq - handout.first_seq) for seq in self._waited)
            self._form.lower(batch, start, max(start, stop))
        batch, expired = self._form.transform(
            batch, now_ms=self.mailbox.wall_ms(), first_seq=handout.first_seq, places=places, linked_ms=self._linked_ms
        )
        if expired:
            gone = set(expired)
            self._settled.append((EXPIRED, ranges_of(handout.first_seq + places[row] for row in expired)))
            offsets = array("I", (offset for row, offset in enumerate(places) if row not in gone))
            size_bytes = batch.size_bytes() if len(batch) else 0
            self._tier2.kept_back(handout.count - len(batch), handout.size_bytes - size_bytes)
        if self._form.unmapped_topics:
            self._log_unmapped()
        if batch.flags:
            self.send(self._connection, Passed(first_seq=handout.first_seq, offsets=offsets, size_bytes=size_bytes, batch=batch))
            qos = batch.flags.translate(QOS_ONLY)
            if 0 in qos:
                self._settle_volatile(handout.first_seq, qos, offsets)

    def _log_unmapped(self) -> None:
        """Once for each topic that cannot be mapped: its messages keep it."""
        if new_topics := self._form.unmapped_topics - self._logged_topics:
            self._logged_topics = (self._logged_topics | new_topics) if len(self._logged_topics) < LOGGED_TOPICS_MAX else new_topics
            log.warning("topic.unmapped", extra={"bridge": self._bridge.name, "topics": sorted(map(repr, new_topics))[:10]})
        self._form.unmapped_topics.clear()

    def _settle_volatile(self, first_seq: int, qos: bytes, offsets: array[int] | None) -> None:
        """QoS 0 leaves the queue now: it is never sent a second time, whatever comes of this attempt."""
        count = qos.count(0)
        if offsets is None and count == len(qos):
            ranges: Ranges = ((first_seq, first_seq + count),)
        else:
            rows = [row for row, level in enumerate(qos) if not level]
            ranges = ranges_of(first_seq + (row if offsets is None else offsets[row]) for row in rows)
        self._settled.append((DELIVERED, ranges))
        self._passed_on += count

    def _settle(self) -> None:
        if self._settled:
            self.send(
                QUEUE_STORE,
                Settle(
                    queue=self._queue,
                    epoch=self._lane_epoch,
                    number=0,
                    settled=tuple(self._settled),
                    released=(),
                    session=None,
                    generation=0,
                    times=((self._passed_on, self.mailbox.wall_ms()),) if self._passed_on else (),
                ),
            )
            self._settled = []
            self._passed_on = 0
