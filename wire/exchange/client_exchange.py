"""The exchange with one local client, which is there only while something is under way. Pure.

Most clients are idle, and an exchange takes four times what else is kept of one. So one is made for what comes, goes when nothing
is left of it, and the next one goes on where it stood.
"""

from __future__ import annotations

from wire.backoff import Backoff
from wire.config_settings import BackoffSettings, RefusalSettings
from wire.exchange.client_answers import whole
from wire.exchange.former_sessions import LeftSession
from wire.exchange.refusal_policy import DROP, RefusalPolicy
from wire.exchange.remote_limits import RemoteLimits
from wire.exchange.sender import SenderHalf
from wire.frames.lanes import LaneOpened
from wire.frames.names import CLIENT_SESSION
from wire.mqtt.aliases import OutgoingAliases

_NEVER_TRIED_AGAIN = RefusalPolicy(RefusalSettings(default=DROP, codes=()))
_NO_BACKOFF = Backoff(BackoffSettings(initial_s=1.0, max_s=1.0, factor=1.0, jitter=0.0, stable_s=1.0), lambda: 0.5)


class ClientExchange:
    """One client's. ``made``: the exchange, None while there is none. ``window``: how many messages may be under way."""

    __slots__ = ("_aliases", "_level", "_packet_max_bytes", "_stands", "made", "window")

    def __init__(self, *, level: int, window: int, packet_max_bytes: int | None, aliases: OutgoingAliases | None) -> None:
        self.made: SenderHalf | None = None
        self.window = window
        self._level = level
        self._packet_max_bytes = packet_max_bytes
        self._aliases = aliases
        # The state from which the next one goes on: sequence, below which all is settled on record, generation.
        # None: it has not begun.
        self._stands: tuple[int, int, int] | None = None

    @property
    def live(self) -> bool:
        """Whether it has begun, and goes on with the connection."""
        return self._stands is not None if self.made is None else self.made.live

    @property
    def in_flight(self) -> int:
        """Messages that the client has not acknowledged."""
        return self.made.in_flight.messages if self.made is not None and self.made.live else 0

    @property
    def waits(self) -> bool:
        """Whether messages wait for their turn."""
        return self.made is not None and bool(self.made.handed_out.waiting)

    @property
    def sent_stop(self) -> int:
        """Everything below was sent, or never will be."""
        return self.made.due.sent_stop if self.made is not None else self._stands[0] if self._stands is not None else 0

    @property
    def flow(self) -> SenderHalf:
        """The exchange, which is made if there is none."""
        if self.made is not None:
            return self.made
        flow = self.made = SenderHalf(
            receive_maximum=self.window,
            qos2_maximum=None,
            republish=False,
            policy=_NEVER_TRIED_AGAIN,
            backoff=_NO_BACKOFF,
            check=whole,
        )
        if self._stands is not None:
            seq, recorded, generation = self._stands
            flow.open(
                LaneOpened(
                    queue="",
                    epoch=0,
                    head=seq,
                    tail=seq,
                    dup_below=0,
                    settled=(),
                    released=(),
                    generation=generation,
                    session=CLIENT_SESSION,
                )
            )
            flow.record.on_recorded(recorded)
            self.on_connected(session_present=True)
        return flow

    def begin(self, seq: int, generation: int) -> None:
        """The client has had all below ``seq``, and nothing from there on."""
        self.made, self._stands = None, (seq, seq, generation)

    def on_connected(self, *, session_present: bool, left: LeftSession | None = None) -> None:
        """The exchange goes on, or begins, with the connection; as ``SenderHalf`` has it."""
        self.flow.on_connected(
            session=CLIENT_SESSION,
            session_present=session_present,
            level=self._level,
            receive_maximum=self.window,
            limits=RemoteLimits(packet_max_bytes=self._packet_max_bytes),
            aliases=self._aliases,
            left=left,
        )

    def rest(self) -> bool:
        """Release it if nothing is under way; whether it has gone."""
        flow = self.made
        if flow is None or not flow.live or flow.in_flight.messages or flow.handed_out.waiting:
            return False
        if not (flow.record.complete and flow.held.at_rest and flow.due.at_rest):
            return False
        self.made, self._stands = None, (flow.due.sent_stop, flow.record.settled_on_record, flow.record.generation)
        return True
