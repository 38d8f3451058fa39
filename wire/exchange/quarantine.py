"""Finds the messages for which a remote closes its connections, and what they have in common, where no reason code names it. Pure.

MQTT 3.1.1 has no other way to refuse a message [MQTT-4.8.0-2], and an MQTT 5 remote may say too little as well. It is evidence that
this looks for: a remote that is sick closes its connections on any message, a bad link on none in particular.
``wire/exchange/publish_gate.py`` decides what leaves; the owner of a connection says whether the remote has closed it.

The search (exchange.given-up-only-when-proven):

1. After ``BARREN`` connections in a row that the remote closed with something unanswered and nothing answered, each message that
   was in flight goes alone: while it is unanswered nothing else leaves, and it does not leave while anything is unanswered.
2. A message that was alone when the remote closed is suspected; one that is answered is not, or no longer. QoS 0 is never answered:
   a closing says nothing if QoS 0 left since the last answer.
3. While there are suspects all messages go alone. One for which the remote has closed ``FIRST`` times is set aside until the remote
   has accepted another on the same connection; a closing after that is a proof. ``PROOFS`` convict it, with ``FIRST`` others if it
   is not like messages that were convicted before. None is convicted while the remote accepts nothing.
4. Nothing passes one for which it has closed less often: any link may end once while it carries that.

exchange.lowered-before-given-up [P2]: a suspect of QoS 2, or with RETAIN, is tried without that before it is given up. ``LEARNT``
    such messages on which the remote closed, and which it took so, teach what it does not take; so does a closing right after it
    has accepted another. One that it takes as it is refutes that.
exchange.closed-on-release-has-it [P2, alive]: after as many barren connections a PUBREL goes alone, too, behind a PINGRESP, until
    something is answered. The message of one that was alone at ``RELEASED`` closings in a row counts as delivered: the remote has
    answered PUBREC, and aedes 0.51 knows no PUBREL of what it has completed. A remote that answers no PINGREQ proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.exchange.quarantine_class import ClosedClasses, MessageClass
from wire.exchange.remote_limits import RemoteLimits
from wire.exchange.remote_packets import PINGREQ
from wire.frames.batch import RETAIN

BARREN = 2
FIRST = 2
PROOFS = 2
RELEASED = 3
LEARNT = 3
QUARANTINED_MAX = 100
QOS_2 = 2
# Without which of its traits a message may be tried -> how it leaves then.
WITHOUT = {
    QOS_2: RemoteLimits(maximum_qos=1),
    RETAIN: RemoteLimits(retain_available=False),
    QOS_2 | RETAIN: RemoteLimits(maximum_qos=1, retain_available=False),
}
# Closings in a row without any answer after which connections come at their own pace: as many as the first suspect may take.
HURRIED_MAX = BARREN + FIRST + len(WITHOUT)


@dataclass(slots=True)
class QuarantinedMessage:
    """A message for which the remote seems to close. ``on_closed``: how often; ``proofs``: how often although it accepted another.

    untried: without which traits it is yet to be tried.
    """

    of: MessageClass
    untried: list[int]
    closed: int = 0
    proofs: int = 0

    @property
    def waits(self) -> bool:
        """Whether another is to be accepted before it goes."""
        return self.closed >= FIRST and not self.untried


class Quarantine:
    """The search of one lane. ``active``: whether it needs to be told anything but connections and their ends.

    barren: whether the connections before this one were barren, so that messages go alone (exchange.given-up-only-when-proven).
    """

    def __init__(self, *, sets_aside: bool) -> None:
        """sets_aside: whether a culprit is to be given up, so that there is a use in letting others pass it."""
        self._sets_aside = sets_aside
        self._session = ""
        self.clear()

    def clear(self) -> None:
        """Forget everything: the lane is opened anew."""
        self.active = self.barren = False
        self.found: dict[int, QuarantinedMessage] = {}
        self.lessons: list[RemoteLimits] = []  # what the remote was seen not to take
        self._barren = 0
        self._released: tuple[int | None, int] = None, 0  # whose PUBREL was alone at the last closings, and at how many
        self._alone_below = 0
        self._doubts: dict[int, int] = {}  # traits without which a message was taken -> how much speaks for that they are the cause
        self._classes = ClosedClasses()
        self._forget_connection()

    def _forget_connection(self) -> None:
        self.quarantining = False
        self.accepted_another = False
        self._alone: int | None = None
        self._traits = self._without = 0
        self._unsure = False
        self._pinged = self.heard = False

    # --- a connection ---

    def on_connected(self, session: str) -> list[int]:
        """A connection begins; the suspects that are set aside on it (exchange.given-up-only-when-proven)."""
        if session != self._session:  # another remote, perhaps
            self._session = session
            self._doubts, self._classes = {}, ClosedClasses()
            self._released = None, 0
        self._forget_connection()
        aside = [seq for seq, suspect in self.found.items() if suspect.waits] if self._sets_aside else []
        self.quarantining = bool(aside)
        return aside

    def taken_back(self) -> None:
        """The suspects go now, on the connection on which they were set aside."""
        self.quarantining = False

    def may_leave(self, seq: int, traits: int, unanswered: int) -> bool:
        """Whether ``seq`` may leave while so many messages are unanswered (exchange.given-up-only-when-proven)."""
        return self._alone is None and not (unanswered and self.goes_alone(seq, traits))

    def goes_alone(self, seq: int, traits: int) -> bool:
        """Whether nothing else may be unanswered beside ``seq``."""
        return bool(self.found) or seq < self._alone_below or any(doubt & traits == doubt for doubt in self._doubts)

    def without(self, seq: int) -> int:
        """Without which of its traits ``seq`` leaves next (exchange.lowered-before-given-up)."""
        suspect = self.found.get(seq)
        if suspect is None or not suspect.untried:
            return 0
        doubted = next((traits for traits in suspect.untried if traits in self._doubts), 0)
        return doubted or (suspect.untried[0] if suspect.closed >= FIRST else 0)

    def on_left(self, seq: int, qos: int, traits: int, without: int = 0, of: MessageClass | None = None) -> None:
        """The PUBLISH of ``seq`` has left, as QoS 1 or 2 if it goes alone. traits: what it has of ``WITHOUT``; of: how it looks."""
        if qos == 0:
            self._unsure = True
        elif of is not None:
            self._alone, self._traits, self._without, self._of = seq, traits, without, of

    def on_answered(self, start: int, stop: int, *, accepted: bool = True) -> None:
        """PUBACKs or PUBRECs came for ``[start, stop)``."""
        self._unsure = False
        if self._alone is not None and start <= self._alone < stop:
            self._alone = None
            if accepted:
                self._accepted_alone()
        suspected = self.on_settled(start, stop)
        self.accepted_another |= accepted and not (suspected and not self._without)

    def _accepted_alone(self) -> None:
        self._classes.on_accepted(self._of)
        if self._without:
            self._speaks_for(self._without)
        else:
            self._doubts = {doubt: count for doubt, count in self._doubts.items() if doubt & self._traits != doubt}

    def _speaks_for(self, doubt: int) -> None:
        self._doubts[doubt] = self._doubts.get(doubt, 0) + 1
        if self._doubts[doubt] == LEARNT:
            self.lessons.append(WITHOUT[doubt])
            del self._doubts[doubt]

    def on_settled(self, start: int, stop: int) -> bool:
        """Messages of ``[start, stop)`` are none to be looked for any more; whether any was suspected."""
        cleared = [seq for seq in self.found if start <= seq < stop]
        for seq in cleared:
            del self.found[seq]
        return bool(cleared)

    def on_over(self, settled_below: int) -> None:
        """All that was sent below that sequence is settled: the search ends if it was for nothing else."""
        if not (self.found or self._doubts) and settled_below >= self._alone_below:
            self.active = False

    def take_lessons(self) -> list[RemoteLimits]:
        """Limits that the remote was seen to have, since the last call."""
        lessons, self.lessons = self.lessons, []
        return lessons

    @property
    def pings(self) -> bool:
        """Whether a PINGRESP is owed, without which no PUBREL leaves."""
        return self._pinged and not self.heard

    def ping(self) -> bytes:
        """The PINGREQ before the first PUBREL; it counts as sent."""
        pinged, self._pinged = self._pinged, True
        return b"" if pinged else PINGREQ

    def hears(self) -> None:
        """A PINGRESP came: the remote answers."""
        self.heard = True

    def on_closed_at_release(self, seq: int | None) -> bool:
        """The connection has ended; whether ``seq`` counts as delivered now.

        seq: the message on whose PUBREL the remote closed, with nothing beside it; None if it did not.
        """
        before, closings = self._released
        self._released = seq, closings + 1 if seq == before else 1
        if seq is None or self._released[1] < RELEASED:
            return False
        self._released, self._barren = (None, 0), BARREN  # the next one goes alone as soon
        return True

    def on_closed(self, *, by_remote: bool, unanswered: bool, answers: bool, sent_stop: int) -> int | None:
        """The connection has ended; the message that is convicted now, if one is.

        unanswered: whether anything was sent and not answered. answers: whether anything was answered on it. sent_stop: all below
        was sent at least once.
        """
        if by_remote and (unanswered or self._pinged) and not answers:
            self._barren += 1
            if self._barren >= BARREN:  # exchange.given-up-only-when-proven
                self._alone_below = sent_stop
                self.active = True
        elif answers:
            self._barren = 0
        self.barren = self._barren >= BARREN
        if not by_remote or self._alone is None or self._unsure:
            return None
        return self._on_closed(self._alone)

    def _on_closed(self, seq: int) -> int | None:
        suspect = self.found.get(seq)
        if suspect is None:
            if len(self.found) >= QUARANTINED_MAX:
                return None
            untried = [traits for traits in WITHOUT if traits & self._traits == traits]
            suspect = self.found[seq] = QuarantinedMessage(self._of, untried)
        suspect.closed += 1
        suspect.proofs += self.accepted_another
        if self._without:
            suspect.untried.remove(self._without)
        elif self.accepted_another:
            for doubt in [doubt for doubt in self._doubts if doubt & self._traits == doubt]:
                self._speaks_for(doubt)
        enough = suspect.proofs >= PROOFS and (suspect.closed >= FIRST + PROOFS or self._classes.expect(suspect.of))
        if not (self._sets_aside and suspect.waits and enough):
            return None
        if (found := self._classes.on_given_up(suspect.of)) is not None:
            self.lessons.append(RemoteLimits(refused=(found,)))
        return seq

    @property
    def hurries(self) -> bool:
        """Whether the next connection, soon, is likely to show more."""
        return 0 < self._barren <= HURRIED_MAX or bool(self.found and self.accepted_another)
