"""Finds the message for which a remote closes its connections, where no reason code names it. Pure.

MQTT 3.1.1 has no other way to refuse a message [MQTT-4.8.0-2], and an MQTT 5 remote may say too little as well. It is evidence
that this looks for: a remote that is sick closes its connections on any message, a bad link on none in particular. What is
outstanding and what leaves is the business of ``wire/exchange/publishing.py``, whether the remote has closed a connection that of
its owner.

exchange.barren-links-go-alone [P2]: after ``BARREN`` connections in a row that the remote closed with something unanswered and
    nothing answered, each message that was in flight goes alone: while it is unanswered nothing else leaves, and it does not leave
    while anything is unanswered.
exchange.alone-at-closing-suspected [P2]: a message that was alone when the remote closed is suspected; one that is answered is not,
    or no longer.
exchange.suspects-take-turns [P2]: while there are suspects all messages go alone, and suspects first, as order wants it. After
    ``FIRST`` closings on which a suspect went first, connections take turns: on every other one the suspects are set aside until
    the remote has accepted another message, and go then. Where there is no other, they are not set aside. If the remote takes a
    suspect after all, it comes behind that other.
exchange.proof-beside-accepted [P2]: a suspect for which the remote closes after it has accepted another on the same connection is
    proven. ``PROOFS`` proofs and ``FIRST`` other closings convict it: so none is convicted while the remote accepts nothing, or for
    coming at a bad time.
exchange.qos0-closing-says-nothing [P2]: QoS 0 is never answered: a closing says nothing if QoS 0 left since the last answer.
"""

from __future__ import annotations

from dataclasses import dataclass

BARREN = 2
FIRST = 5
PROOFS = 2
SUSPECTS_MAX = 100


@dataclass(slots=True)
class Suspect:
    """A message for which the remote seems to close. ``closed``: how often; ``proofs``: how often although it accepted another."""

    closed: int = 0
    proofs: int = 0


class Suspects:
    """The search of one lane. ``active``: whether it needs to be told anything but connections and their ends."""

    def __init__(self, *, sets_aside: bool) -> None:
        """sets_aside: whether a culprit is to be given up, so that there is a use in letting others pass it."""
        self._sets_aside = sets_aside
        self.clear()

    def clear(self) -> None:
        """Forget everything: the lane is opened anew."""
        self.active = False
        self.found: dict[int, Suspect] = {}
        self._barren = 0
        self._alone_below = 0
        self._turn = False  # whether the suspects were set aside on the last connection
        self._forget_connection()

    def _forget_connection(self) -> None:
        self.aside = False
        self.accepted_another = False
        self._alone: int | None = None
        self._unsure = False

    # --- a connection ---

    def connected(self) -> bool:
        """A connection begins; whether the suspects are to be set aside on it (exchange.suspects-take-turns)."""
        self._forget_connection()
        self.aside = self._turn = self.wants_another
        return self.aside

    def taken_back(self) -> None:
        """The suspects go now, on the connection on which they were set aside."""
        self.aside = False

    def may_leave(self, seq: int, unanswered: int) -> bool:
        """Whether ``seq`` may leave while so many messages are unanswered (exchange.barren-links-go-alone,
        exchange.suspects-take-turns).
        """
        return self._alone is None and not (unanswered and self.goes_alone(seq))

    def goes_alone(self, seq: int) -> bool:
        """Whether nothing else may be unanswered beside ``seq``."""
        return bool(self.found) or seq < self._alone_below

    def left(self, seq: int, qos: int) -> None:
        """The PUBLISH of ``seq`` has left, as QoS 1 or 2 if it goes alone."""
        if qos == 0:
            self._unsure = True
        elif self.goes_alone(seq):
            self._alone = seq

    def answered(self, start: int, stop: int, *, accepted: bool = True) -> None:
        """PUBACKs or PUBRECs came for ``[start, stop)``."""
        self._unsure = False
        if self._alone is not None and start <= self._alone < stop:
            self._alone = None
        suspected = self.settled(start, stop)
        self.accepted_another |= accepted and not suspected

    def settled(self, start: int, stop: int) -> bool:
        """Messages of ``[start, stop)`` are none to be looked for any more; whether any was suspected."""
        cleared = [seq for seq in self.found if start <= seq < stop]
        for seq in cleared:
            del self.found[seq]
        return bool(cleared)

    def over(self, settled_below: int) -> None:
        """All that was sent below that sequence is settled: the search ends if it was for nothing else."""
        if not self.found and settled_below >= self._alone_below:
            self.active = False

    def closed(self, *, by_remote: bool, unanswered: bool, answers: bool, sent_stop: int) -> int | None:
        """The connection has ended; the message that is convicted now, if one is.

        unanswered: whether anything was sent and not answered. answers: whether anything was answered on it. sent_stop: all below
        was sent at least once.
        """
        if by_remote and unanswered and not answers:
            self._barren += 1
            if self._barren >= BARREN:  # exchange.barren-links-go-alone
                self._alone_below = sent_stop
                self.active = True
        elif answers:
            self._barren = 0
        seq = self._alone
        if not by_remote or seq is None or self._unsure:
            return None
        suspect = self.found.get(seq)
        if suspect is None:
            if len(self.found) >= SUSPECTS_MAX:
                return None
            suspect = self.found[seq] = Suspect()
        suspect.closed += 1
        suspect.proofs += self.accepted_another
        convicted = self._sets_aside and suspect.proofs >= PROOFS and suspect.closed - suspect.proofs >= FIRST
        return seq if convicted else None

    @property
    def wants_another(self) -> bool:
        """Whether the next connection is to let another message show what the remote takes."""
        if self._turn or not self._sets_aside:
            return False
        return any(suspect.closed - suspect.proofs >= FIRST for suspect in self.found.values())
