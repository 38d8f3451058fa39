"""Messages for which the remote seems to close its connections, and the end of those of which that is proven. Pure.

exchange.given-up-only-when-proven [P2, P6]: a message for which the remote closes its connections is found as
    ``wire/exchange/quarantine.py`` says, and settled by policy once it is proven. While it is looked for, others may be
    ahead of it. A released message is never given up.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.exchange.lane_messages import LaneMessages
from wire.exchange.publish_encoder import Style
from wire.exchange.quarantine import Quarantine


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """A message for which the remote seems to close its connections: its topic there, the size of its PUBLISH, and how often."""

    seq: int
    topic: str
    packet_bytes: int
    closed: int
    proofs: int


class QuarantineOutcome:
    """Those of one lane. outcome: what they are settled as; None if they are to be tried for ever.

    closed_on, released_unanswered: how many were given up, and how many taken as delivered because the remote closes on their
    PUBREL.
    """

    def __init__(self, outcome: str | None, messages: LaneMessages, suspects: Quarantine) -> None:
        self.closed_on = self.released_unanswered = 0
        self._outcome = outcome
        self._messages = messages
        self._suspects = suspects
        self._convicted: list[QuarantineEntry] = []

    def messages(self, style: Style) -> list[QuarantineEntry]:
        """All that are found, as they would be PUBLISHed in ``style``."""
        return [self._entry(seq, style) for seq in self._suspects.found]

    def _entry(self, seq: int, style: Style) -> QuarantineEntry:
        topic, packet_bytes = self._messages.handed_out.describe(seq, style)
        suspect = self._suspects.found[seq]
        return QuarantineEntry(seq=seq, topic=topic, packet_bytes=packet_bytes, closed=suspect.closed, proofs=suspect.proofs)

    def give_up(self, seq: int, style: Style) -> None:
        """Settle ``seq``, of which it is proven."""
        assert self._outcome is not None, "convicted, and to be tried for ever"
        self._convicted.append(self._entry(seq, style))
        self._suspects.on_settled(seq, seq + 1)
        self.closed_on += 1
        self._messages.give_up(seq, self._outcome)

    def release(self, seq: int | None) -> None:
        """The connection has ended, on the PUBREL of ``seq`` alone if it is not None; that may have ended the exchange of
        ``seq`` (exchange.closed-on-release-has-it).
        """
        if not self._suspects.on_closed_at_release(seq) or seq is None:
            return
        self.released_unanswered += 1
        self._messages.end_release(seq)

    def hears_pingresp(self) -> None:
        """A PINGRESP came: the remote answers."""
        self._suspects.hears()

    def take_given_up(self) -> list[QuarantineEntry]:
        """Those that were given up since the last call."""
        convicted, self._convicted = self._convicted, []
        return convicted

    @property
    def hurries(self) -> bool:
        """Whether the next connection, soon, is likely to show more (exchange.given-up-only-when-proven)."""
        return self._suspects.hurries
