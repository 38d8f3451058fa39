"""Policy for a message that the remote refuses with a reason code, or that is too large for it; and for how long a lane is held
back when some are to be tried again. Pure.

The words an operator writes are here, too, so that the configuration and the exchange cannot disagree about them.
"""

from __future__ import annotations

from wire.backoff import Backoff
from wire.config_settings import RefusalSettings
from wire.mqtt.reason_codes import PUBACK_CODES, ReasonCode
from wire.status.loss_reasons import Loss
from wire.status.outcomes import DEAD, DROPPED, outcome_of

FAILURE = 0x80
TOO_LARGE = int(ReasonCode.PACKET_TOO_LARGE)
# Of our own, above all codes: the remote closes the connection on that message, or acknowledges it wrongly, and says nothing else.
CLOSED, WRONGLY_ACKNOWLEDGED = 0x100, 0x101

RETRY, DEAD_LETTER, DROP = "retry", "dead-letter", "drop"
DEFAULT_REASON = "default"  # what an operator writes for all reasons that are not named
ACTIONS = (RETRY, DEAD_LETTER, DROP)

_KINDS = {DEAD_LETTER: DEAD, DROP: DROPPED}

# The name of each reason that a PUBACK or PUBREC may give (MQTT 5.0 sections 3.4.2.1 and 3.5.2.1), and our own three.
REASONS = {
    ReasonCode(code).name.lower().replace("_", "-"): code
    for code in sorted({*(code for code in PUBACK_CODES if code >= FAILURE), TOO_LARGE})
} | {"connection-closed": CLOSED, "wrongly-acknowledged": WRONGLY_ACKNOWLEDGED}
# Those that need no reason code of the remote, so that one of MQTT 3.1.1 can give them.
WITHOUT_CODE = {name: code for name, code in REASONS.items() if code in (TOO_LARGE, CLOSED, WRONGLY_ACKNOWLEDGED)}


def code_of(reason: str) -> int:
    """The reason code of a name such as ``quota-exceeded``, or of hexadecimal digits such as ``0x97``.

    Raises:
        ValueError: it is neither, or no failure.
    """
    known = REASONS.get(reason)
    if known is not None:
        return known
    digits = reason.lower().removeprefix("0x")
    if len(digits) != 2 or digits == reason.lower() or not set(digits) <= set("0123456789abcdef"):
        raise ValueError("no such reason")
    code = int(digits, 16)
    if code < FAILURE:
        raise ValueError("reason codes below 0x80 are success")
    return code


class RefusalPolicy:
    """The outcome of each reason code; ``too_large``: of a message larger than the remote takes, which is never tried again.

    ``closed``: of one that is proven to make the remote close the connection; None if it is to be tried for ever.
    """

    def __init__(self, settings: RefusalSettings) -> None:
        self._default = settings.default
        self._actions = dict(settings.codes)
        action = self._actions.get(TOO_LARGE, DEAD_LETTER if settings.default == RETRY else settings.default)
        self.too_large = outcome_of(_KINDS[action], Loss.PACKET_TOO_LARGE)
        action = self._actions.get(CLOSED, settings.default)
        self.closed = None if action == RETRY else outcome_of(_KINDS[action], Loss.CONNECTION_CLOSED)

    def outcome(self, reason_code: int) -> str | None:
        """The outcome of a message refused with ``reason_code``; None if it is to be tried again."""
        action = self._actions.get(reason_code, self._default)
        reason = Loss.WRONGLY_ACKNOWLEDGED if reason_code == WRONGLY_ACKNOWLEDGED else f"remote_0x{reason_code:02x}"
        return None if action == RETRY else outcome_of(_KINDS[action], reason)


class RefusalHold:
    """How long nothing new is PUBLISHed after the remote has refused a message that is to be tried again.

    exchange.hold-back-no-publish [P4, alive]: from the refusal until the delay has passed, no PUBLISH leaves; refusals in between
        lengthen nothing. Delays grow with each hold, and start anew once the remote has accepted a message that was not held back.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.reason_code = 0  # of the refusal that began the hold; 0 while nothing is held back
        self.until_s: float | None = None
        self.growing = False  # whether the next acceptance is news

    def on_refused(self, reason_code: int) -> None:
        """A message was refused for now."""
        if not self.reason_code:
            self.reason_code = reason_code

    def on_accepted(self) -> None:
        """The remote has accepted a message."""
        if not self.reason_code:
            self._backoff.reset()
            self.growing = False

    def poll_over(self, now_s: float) -> bool:
        """Whether PUBLISHes may leave; the first call of a hold begins its delay, the last one ends it."""
        if not self.reason_code:
            return True
        if self.until_s is None:
            self.until_s = now_s + self._backoff.next_delay_s()
            self.growing = True
        if now_s < self.until_s:
            return False
        self.clear()
        return True

    def clear(self) -> None:
        """End the hold; whether the next is longer depends on what is accepted until then."""
        self.reason_code = 0
        self.until_s = None


class Refusals:
    """The refusals of one lane: what becomes of the messages, how long they hold the others back, and how many there were."""

    def __init__(self, policy: RefusalPolicy, backoff: Backoff) -> None:
        self.policy = policy
        self.hold = RefusalHold(backoff)
        self._counts: dict[int, int] = {}

    def count(self, reason_code: int) -> None:
        """A message was refused, or is too large for the remote."""
        self._counts[reason_code] = self._counts.get(reason_code, 0) + 1

    def take_counts(self) -> dict[int, int]:
        """Reason code -> messages refused since the last call, those too large for the remote included."""
        counts, self._counts = self._counts, {}
        return counts
