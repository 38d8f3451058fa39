"""In what state a lane's link to its remote is: the state and why, since when, the last error, and when the next attempt is. Pure.

Connecting and waiting are ``actors/bridge/remote_link.py``'s, which tells what happens; how long to wait is ``wire/backoff.py``'s.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from wire.backoff import Backoff
from wire.config_settings import BackoffSettings
from wire.exchange.qos2_window import Qos2Window
from wire.status.bridges import FirstAddress, Lack, LinkFigures, Suspect
from wire.status.link_faults import LinkFault
from wire.status.states import NO_TROUBLE, LinkState

NOT_OPEN = "the lane is not open yet"


class LinkStatus:
    """state: connecting, connected, backoff (it waits for ``next_attempt_at_s``), paused, or closed by choice; ``reason``: why, in
    words, or empty.

    since_s, since_ms: when it came into that state, by the monotonic clock and in UTC. error, fault: why the last connection or
    attempt failed, in words and in one; empty once one has succeeded. down_since_s: when it was none of these by
    choice the last time; None
    while it is. attempts: those that failed since then. connections, connections_lost, attempts_failed: how often it came up,
    ended, and could not be had, since the process began.
    """

    def __init__(self, settings: BackoffSettings, random: Callable[[], float], now_s: float, wall_ms: int) -> None:
        self._settings = settings
        self._backoff = Backoff(settings, random)
        self.state = LinkState.CONNECTING
        self.reason = NOT_OPEN
        self.since_s, self.since_ms = now_s, wall_ms
        self.error = ""
        self.fault: LinkFault | None = None
        self.next_attempt_at_s: float | None = None
        self.down_since_s: float | None = now_s
        self.attempts = self.connections = self.connections_lost = self.attempts_failed = 0

    def connecting(self, reason: str, now_s: float, wall_ms: int) -> None:
        """An attempt begins, because of ``reason``."""
        self._enter(LinkState.CONNECTING, reason, now_s, wall_ms)

    def on_connected(self, now_s: float, wall_ms: int) -> None:
        """The remote has let us in."""
        self.error, self.fault = "", None
        self.attempts = 0
        self.connections += 1
        self._backoff.on_connected(now_s)
        self._enter(LinkState.CONNECTED, "", now_s, wall_ms)

    def on_lost(self, now_s: float) -> None:
        """The connection has ended; what comes next is told next."""
        self.connections_lost += 1
        self._backoff.on_lost(now_s)

    def on_failed(self, error: str, now_s: float, wall_ms: int, *, soon: bool = False, fault: LinkFault = LinkFault.OTHER) -> float:
        """Wait before the next attempt, longer each time: for how many seconds. ``soon``: this once, not longer than at first."""
        delay_s = self._backoff.next_delay_s()
        if soon:
            delay_s = min(delay_s, self._settings.initial_s)
        self.error, self.fault = error, fault
        self.attempts += self.state == LinkState.CONNECTING
        self.attempts_failed += self.state == LinkState.CONNECTING
        self._enter(LinkState.BACKOFF, error, now_s, wall_ms)
        self.next_attempt_at_s = now_s + delay_s
        return delay_s

    def paused(self, now_s: float, wall_ms: int) -> None:
        """Nothing is attempted until it is resumed."""
        self._enter(LinkState.PAUSED, "paused by the operator", now_s, wall_ms)

    def closed(self, reason: str, now_s: float, wall_ms: int) -> None:
        """Nothing is attempted for now, as it is configured. What failed before counts no more."""
        self.error, self.fault = "", None
        self.attempts = 0
        self._enter(LinkState.CLOSED, reason, now_s, wall_ms)

    def forgive(self) -> None:
        """The cause of failed connections is removed: wait as if none had failed."""
        self._backoff.reset()

    def _enter(self, state: LinkState, reason: str, now_s: float, wall_ms: int) -> None:
        self.reason = reason
        self.next_attempt_at_s = None
        is_down = state not in NO_TROUBLE
        self.down_since_s = (now_s if self.down_since_s is None else self.down_since_s) if is_down else None
        if state != self.state:
            self.state = state
            self.since_s, self.since_ms = now_s, wall_ms

    def figures(
        self,
        now_s: float,
        *,
        address: str,
        protocol: int,
        note: str,
        note_fault: LinkFault | None,
        first_address: FirstAddress | None,
        session_expiry_s: int | None,
        in_flight: int,
        qos2_window: Qos2Window,
        suspects: tuple[Suspect, ...],
        lacks: tuple[Lack, ...],
        credential_ends_in_s: float | None,
        certificate_ends_in_s: float | None,
    ) -> LinkFigures:
        """The link for ``status``, with what others know of it."""
        waits_s = None if self.next_attempt_at_s is None else round(max(0.0, self.next_attempt_at_s - now_s), 3)
        return LinkFigures(
            state=self.state,
            reason=self.reason,
            since=datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            since_s=round(now_s - self.since_s, 3),
            down_s=None if self.down_since_s is None else round(now_s - self.down_since_s, 3),
            attempts=self.attempts,
            attempt=self._backoff.attempt,
            retry_in_s=0.0 if waits_s is None else waits_s,
            next_attempt_s=waits_s,
            error=self.error,
            fault=self.fault or "",
            connections=self.connections,
            connections_lost=self.connections_lost,
            attempts_failed=self.attempts_failed,
            address=address,
            protocol=protocol,
            note=note,
            note_fault=note_fault or "",
            first_address=first_address,
            session_expiry_s=session_expiry_s,
            in_flight=in_flight,
            qos2_window=qos2_window.maximum,
            qos2_window_by=qos2_window.reason,
            suspects=suspects,
            lacks=lacks,
            credential_ends_in_s=credential_ends_in_s,
            certificate_ends_in_s=certificate_ends_in_s,
        )
