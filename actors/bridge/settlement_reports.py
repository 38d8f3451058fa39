"""Reports of a lane's Connection to its Forwarder on the exchange: messages settled and released, and how much more it takes.

``LaneSender`` settles, ``actors/bridge/settlement_batching.py`` judges when that is worth a frame, and ``wire/frames/credit.py``
how much is granted.
"""

from __future__ import annotations

import math

from actors.bridge.lane_names import Lane
from actors.bridge.settlement_batching import Settling
from actors.process.mailbox import Mailbox
from wire.config_settings import NodeSettings
from wire.exchange.lane_sender import LaneSender
from wire.frames.credit import CreditGiver
from wire.frames.lanes import Credit, Settle

SETTLE_TIMER = "settle"
SETTLE_DELAY_S = 0.05  # settlements wait for more of them, unless something waits for their commit

# While the window is full each PUBREL makes room for one message, and each commit on the way there costs the store and the bridge a
# turn. A near remote answers all that is in the window within this time; one that is far does not notice it.
RELEASE_DELAY_S = 0.002

BYTES_IN_HAND = 8 << 20
MESSAGES_IN_HAND_MIN = 2_048
WINDOWS_IN_HAND = 3


class Settlements:
    """The numbered ``Settle`` frames of the lane's current opening, and its credit. lane_epoch: 0 before the first opening."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, lane: Lane, flow: LaneSender) -> None:
        remote = lane.bridge.remote
        self.lane_epoch = 0
        self._mailbox = mailbox
        self._queue, self._forwarder = lane.queue, lane.forwarder
        self._flow = flow
        self._record, self._handed_out = flow.exchange.record, flow.exchange.handed_out
        self._number = 0
        self._due_s = math.inf  # when to tell what waits for more
        self._delivered = 0  # when all but the newest were is among the times
        self._times: list[tuple[int, int]] = []
        self._bridge, self._label = lane.bridge.name, lane.label
        self._settling = Settling(lane.bridge.limits_of(lane.label)[1], settings.limits, bytes_max=BYTES_IN_HAND)
        self._credit = CreditGiver(
            messages_in_hand=max(MESSAGES_IN_HAND_MIN, WINDOWS_IN_HAND * remote.receive_maximum), bytes_in_hand=BYTES_IN_HAND
        )

    def limit(self, settings: NodeSettings) -> None:
        """Go by the limits of these; a lane whose bridge is gone goes on as it does."""
        for bridge in settings.bridges:
            if bridge.name == self._bridge:
                self._settling.limit(bridge.limits_of(self._label)[1], settings.limits)

    def open(self, lane_epoch: int) -> None:
        """The lane is opened anew: everything is counted from nothing."""
        self.lane_epoch = lane_epoch
        self._number = 0
        self._times.clear()
        self._delivered = self._record.delivered
        self._settling.on_opened()
        self._credit.clear()

    def send_soon(self, now_s: float) -> None:
        """Send what was settled now, or within a moment."""
        record = self._record
        settled, releases = record.settled_messages, record.releases
        if record.delivered > self._delivered:
            self._note_time()
        at_once = record.urgent or (releases and not self._more_to_come())
        if at_once or (settled and self._settling.is_enough(settled, self._handed_out.passed_bytes)):
            self.send()
        elif releases or settled:
            self._send_by(now_s + (RELEASE_DELAY_S if releases else SETTLE_DELAY_S))

    def _more_to_come(self) -> bool:
        """Whether QoS 2 waits for room in a full window, and the remote has something to do for some of what fills it."""
        exchange = self._flow.exchange
        return bool(self._handed_out.waiting) and not exchange.in_flight.room(2) and exchange.with_remote > 0

    def _send_by(self, due_s: float) -> None:
        if due_s < self._due_s:
            self._due_s = due_s
            self._mailbox.set_timer(SETTLE_TIMER, due_s)

    def _note_time(self) -> None:
        """Times at which messages were delivered since the last time."""
        delivered = self._record.delivered
        self._times.append((delivered - self._delivered, self._mailbox.wall_ms()))
        self._delivered = delivered

    def send(self) -> None:
        """Send what was settled and released since the last time, if anything was."""
        if self._due_s != math.inf:
            self._due_s = math.inf
            self._mailbox.cancel_timer(SETTLE_TIMER)
        if not self.lane_epoch:
            return
        facts = self._record.facts(self._number + 1)
        if facts is None:
            return
        if self._record.delivered > self._delivered:
            self._note_time()
        times, self._times = tuple(self._times), []
        self._number += 1
        self._settling.on_sent(self._handed_out.passed_bytes)
        self._mailbox.send(
            self._forwarder,
            Settle(
                queue=self._queue,
                epoch=self.lane_epoch,
                number=self._number,
                settled=facts.settled,
                released=facts.released,
                session=facts.session,
                generation=facts.generation,
                left=self._flow.left if facts.session is not None else (),
                times=times,
            ),
        )

    def grant(self) -> None:
        """Let the Forwarder pass on more, if that is worth a frame."""
        granted = self._credit.grant(self._handed_out.passed_messages, self._handed_out.passed_bytes)
        if granted is not None:
            self._mailbox.send(
                self._forwarder,
                Credit(queue=self._queue, epoch=self.lane_epoch, messages=granted[0], size_bytes=granted[1]),
            )
