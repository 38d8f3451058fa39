"""Reports on a lane's exchange for people: events that the store keeps, lines of the log, and notes for ``bascule status``."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from actors.bridge.lane_names import Lane
from actors.process.mailbox import Mailbox
from wire.exchange.lane_sender import LaneSender
from wire.exchange.quarantine_outcome import QuarantineEntry
from wire.exchange.refusal_policy import RefusalPolicy
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.figure import to_map
from wire.frames.names import QUEUE_STORE
from wire.frames.supervision import NodeEvents
from wire.mqtt.reason_codes import reason_name
from wire.status.bridges import Lack, Suspect
from wire.status.event_kinds import EventKind
from wire.status.link_faults import LinkFault

log = logging.getLogger("bascule")

REFUSALS_LOGGED_EACH_S = 10.0
TOPIC_SHOWN_MAX = 40  # characters of it, in a note


class LaneReports:
    """Remembers what was said already of messages that the remote refuses, or closes its connections on."""

    def __init__(self, mailbox: Mailbox, lane: Lane, flow: LaneSender, policy: RefusalPolicy) -> None:
        self._mailbox = mailbox
        self._lane = lane
        self._exchange = flow.exchange
        self._policy = policy
        self._refusals_logged_s = float("-inf")
        self._learnt = NO_LIMITS
        self._suspected: dict[int, int] = {}  # messages on which the remote closes -> how often it had when that was last said

    def event(self, kind: EventKind, reason: str, details: Mapping[str, str | int], *, count: int = 0) -> None:
        """Have the store keep what happened to the lane; if it is gone, so is that."""
        lane = self._lane
        event = (self._mailbox.wall_ms(), kind, lane.bridge.name, lane.label, lane.actor, reason, count, details)
        self._mailbox.send(QUEUE_STORE, NodeEvents(events=(event,)))

    def report_quarantine(self) -> bool:
        """Say for which messages the remote closes its connections, each time, and of which it was proven: whether of any."""
        for suspect in self._exchange.quarantined:
            if suspect.closed > self._suspected.get(suspect.seq, 0):
                log.warning("message.suspected", extra={**self._lane.facts, **to_map(_suspect(suspect))})
                if suspect.closed == 1:
                    self._report_quarantined(EventKind.MESSAGE_SUSPECTED, suspect)
        self._suspected = {suspect.seq: suspect.closed for suspect in self._exchange.quarantined}
        convicted = self._exchange.closed_on.take_given_up()
        for blamed in convicted:
            facts = {**self._lane.facts, **to_map(_suspect(blamed)), "on_refusal": self._policy.closed}
            log.warning("message.given_up", extra=facts)
            self._report_quarantined(EventKind.MESSAGE_GIVEN_UP, blamed)
        return bool(convicted)

    def on_learnt(self, limits: RemoteLimits, address: str) -> None:
        """Say what the remote at ``address`` was seen not to take, of which nothing was said before."""
        for what, key in limits.lacks.items():
            if what in self._learnt.lacks:
                continue
            log.warning("remote.limited", extra={**self._lane.facts, "address": address, "takes_no": what, "key": key})
            self.event(EventKind.REMOTE_LIMITED, what, {"address": address, "key": key})
        self._learnt = limits

    def refusals(self, now_s: float) -> None:
        """Reports refusals since the last time; the first at once, then at most every few seconds."""
        if now_s - self._refusals_logged_s < REFUSALS_LOGGED_EACH_S:
            return
        refusals = self._exchange.refusals.take_counts()
        if refusals:
            self._refusals_logged_s = now_s
            named = {f"{reason_name(code)} (0x{code:02x})": count for code, count in sorted(refusals.items())}
            held_s = max(0.0, (self._exchange.refusals.hold.until_s or now_s) - now_s)
            log.warning("messages.refused", extra={**self._lane.facts, "reasons": named, "held_back_s": round(held_s, 3)})

    def note(self) -> tuple[str, LinkFault | None]:
        """A note for the operator on the limits of the remote; empty if there is nothing."""
        reason_code = self._exchange.refusals.hold.reason_code
        if reason_code:
            return f"remote says {reason_name(reason_code)}", LinkFault.HELD_BACK
        suspects = self._exchange.quarantined
        if not suspects:
            return "", None
        worst = suspects[0]
        others = f" and on {len(suspects) - 1} more" if len(suspects) > 1 else ""
        topic = worst.topic[:TOPIC_SHOWN_MAX]
        said = f"remote closes on message {worst.seq} ({topic}, {worst.packet_bytes} B), {worst.closed} times{others}"
        return said, LinkFault.CLOSES_ON_MESSAGE

    def figures(self) -> tuple[Suspect, ...]:
        """The messages for which the remote seems to close its connections, for ``bascule status``."""
        return tuple(map(_suspect, self._exchange.quarantined))

    def lacks(self) -> tuple[Lack, ...]:
        """The limits of the remote, and the key that states each for good, for ``status``. learnt: it did not say so itself."""
        publishing = self._exchange.publishing
        learnt = publishing.learnt.lacks
        return tuple(Lack(what=what, key=key, learnt=what in learnt) for what, key in publishing.limits.lacks.items())

    def _report_quarantined(self, kind: EventKind, blamed: QuarantineEntry) -> None:
        details: dict[str, str | int] = {"seq": blamed.seq, "topic": blamed.topic, "bytes": blamed.packet_bytes}
        self.event(kind, "connection_closed", details, count=blamed.closed)


def _suspect(blamed: QuarantineEntry) -> Suspect:
    return Suspect(seq=blamed.seq, topic=blamed.topic, bytes=blamed.packet_bytes, closed=blamed.closed)
