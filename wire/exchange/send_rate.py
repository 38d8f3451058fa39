"""How fast a lane may send to a remote that allows only so much. Pure: the time is an argument.

exchange.rate-kept [P2, P4, alive]: in any period of t seconds a lane sends at most (burst + t) seconds' worth of its share of
    ``rate``, in messages and in bytes; the packet that goes beyond the bytes that are left still leaves, and is paid off before the
    next. Repeats count as well. Nothing is dropped, and nothing overtakes: what may not leave yet waits with all behind it.
exchange.rate-yields [alive]: the share is halved, at most once a second, when the remote says that it is too much (0x89 server
    busy, 0x97 quota exceeded), and grows back evenly, from nothing to the whole in a minute. It never falls below a 64th.
"""

from __future__ import annotations

from wire.clock_steps import elapsed_ms
from wire.config_settings import BACKLOG_MS, RateSettings
from wire.mqtt.reason_codes import ReasonCode
from wire.status.bridges import RateFigures
from wire.token_bucket import TokenBucket

TOO_MUCH = (ReasonCode.SERVER_BUSY, ReasonCode.QUOTA_EXCEEDED)
HALVED_EACH_S = 1.0
GROWS_BACK_S = 60.0
LEAST_PART = 1 / 64


class SendRate:
    """That of one lane. waits: whether it has held something back since the last ``refill``. lowered: how often it was halved."""

    def __init__(self, settings: RateSettings, lanes: int, now_s: float) -> None:
        """lanes: how many share it, in equal parts."""
        share = 1 / lanes
        self._backlog_only = settings.applies_to == "backlog"
        self._messages_per_s = None if settings.messages_per_s is None else settings.messages_per_s * share
        self._bytes_per_s = None if settings.bytes_per_s is None else settings.bytes_per_s * share
        self._messages = _bucket(self._messages_per_s, now_s, settings.burst_s)
        self._bytes = _bucket(self._bytes_per_s, now_s, settings.burst_s)
        self._part = 1.0
        self.lowered = 0
        self._too_much = False  # the remote has said so since the last ``refill``
        self._halved_s = float("-inf")
        self._now_s = now_s
        self.waits = False

    def figures(self) -> RateFigures:
        """What it comes to now, for status."""
        messages, size = (
            None if whole is None else round(whole * self._part, 3) for whole in (self._messages_per_s, self._bytes_per_s)
        )
        return RateFigures(messages=messages, bytes=size, part=round(self._part, 4), backlog_only=self._backlog_only)

    def on_answer(self, reason_code: object) -> None:
        """The remote has refused something, or closed, with ``reason_code`` (exchange.rate-yields)."""
        if reason_code in TOO_MUCH:
            self._too_much = True

    def refill(self, now_s: float) -> None:
        """A burst begins: what may leave at ``now_s``."""
        self.waits = False
        for bucket in (self._messages, self._bytes):
            if bucket is not None:
                bucket.refill(now_s)
        if self._too_much or self._part < 1.0:
            self._adapt(now_s)
        self._now_s = now_s

    def _adapt(self, now_s: float) -> None:
        part = min(1.0, self._part + max(0.0, now_s - self._now_s) / GROWS_BACK_S)
        if self._too_much and now_s - self._halved_s >= HALVED_EACH_S:
            part = max(LEAST_PART, part / 2)
            self._halved_s = now_s
            self.lowered += 1
        self._too_much = False
        self._part = part
        for bucket, whole in ((self._messages, self._messages_per_s), (self._bytes, self._bytes_per_s)):
            if bucket is not None and whole is not None:
                bucket.change(whole * part)

    def room(self, accepted_ms: int, wall_ms: int) -> tuple[int, int] | None:
        """(messages, bytes) that may leave of what was accepted then, as of the last ``refill``; None: any number.

        Messages go whole as long as both are above zero.
        """
        if self._backlog_only and elapsed_ms(accepted_ms, wall_ms) <= BACKLOG_MS:
            return None
        messages = _UNLIMITED if self._messages is None else int(self._messages.tokens)
        size = _UNLIMITED if self._bytes is None else int(self._bytes.tokens)
        if messages < 1 or size < 1:
            self.waits = True
            return 0, 0
        return messages, size

    def take(self, messages: int, size_bytes: int) -> None:
        """So much has left of what it holds for."""
        if self._messages is not None:
            self._messages.take(messages)
        if self._bytes is not None:
            self._bytes.take(size_bytes)

    @property
    def resume_s(self) -> float | None:
        """The time at which more may leave, if something waits for that."""
        if not self.waits:
            return None
        return self._now_s + max(bucket.wait_s() for bucket in (self._messages, self._bytes) if bucket is not None)


_UNLIMITED = 1 << 40


def _bucket(rate: float | None, now_s: float, burst_s: float) -> TokenBucket | None:
    return None if rate is None else TokenBucket(rate, now_s, burst_s)
