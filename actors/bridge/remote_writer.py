"""Output to a lane's remote: bursts of the exchange, other packets before the next of them, and how much has left.

``LaneSender`` decides what may be sent; ``wire/exchange/remote_keep_alive.py`` whether the connection lives.
"""

from __future__ import annotations

from actors.bridge.remote_poll import RemotePoll
from actors.process.mailbox import Mailbox
from actors.remote.remote_socket import Remote
from wire.exchange.lane_sender import LaneSender
from wire.exchange.remote_keep_alive import RemoteKeepAlive

BURST_BYTES = 262_144
BURSTS_PER_TURN_MAX = 4
SMALL_BURST_BYTES = BURST_BYTES // 4  # the exchange counts more for a packet than it has, and never four times as much


class RemoteWriter:
    """Writes to one connection at a time, in whole packets; what the socket did not take goes first."""

    def __init__(self, mailbox: Mailbox, flow: LaneSender, watch: RemoteKeepAlive, poll: RemotePoll) -> None:
        self._mailbox = mailbox
        self._flow = flow
        self._watch = watch
        self._poll = poll
        self._remote: Remote | None = None
        self._output = memoryview(b"")
        self._control: list[bytes] = []
        self._awaits_suback = False
        self._accepted_bytes = 0  # by the socket, on this connection
        self._blocked = False  # until the poll says that the socket takes more
        self._polled = False  # the poll tells of that

    def on_opened(self, remote: Remote, *, awaits_suback: bool = False) -> None:
        """A connection is up. awaits_suback: no message leaves before ``on_subscribed``."""
        self._remote = remote
        self._awaits_suback = awaits_suback
        self._accepted_bytes = 0

    def on_closed(self) -> None:
        """The connection is gone, and what waited for it."""
        self._remote = None
        self._output = memoryview(b"")
        self._control.clear()
        self._blocked = self._polled = False

    # --- what is said besides messages ---

    def say(self, data: bytes) -> None:
        """Write ``data``, whole packets, before the next burst."""
        self._control.append(data)

    def say_subscribe(self, data: bytes) -> None:
        """Write ``data``, which ends with a SUBSCRIBE, before the next burst; ``suback_due_s`` runs from when it is out."""
        self._control.append(data)
        self._watch.subscribing(self._mailbox.now_s(), self.written_bytes)

    def on_subscribed(self) -> None:
        """The remote has answered every SUBSCRIBE."""
        self._awaits_suback = False

    @property
    def suback_due_s(self) -> float:
        """The time at which the remote will have had enough of it for its SUBACK."""
        return self._watch.suback_due_s

    # --- writing ---

    def write(self, now_s: float) -> None:
        """Send bursts until nothing may leave, the socket is full, or it is another's turn.

        Raises:
            Unavailable: the connection is closed.
        """
        remote = self._remote
        assert remote is not None
        if self._blocked:
            return
        for _ in range(BURSTS_PER_TURN_MAX):
            burst: bytes | memoryview = self._output
            if not burst:
                burst = b"" if self._awaits_suback else self._flow.pump(BURST_BYTES, now_s, self._mailbox.wall_ms())
                if self._control:
                    burst = b"".join(self._control) + burst
                    self._control.clear()
                if not burst:
                    break
                self._output = memoryview(burst)
            sent = remote.send(self._output)
            if sent:
                self._accepted_bytes += sent
                self._watch.on_sent(now_s)
            self._output = self._output[sent:]
            if self._output and not sent:
                break
            if not self._output and len(burst) < SMALL_BURST_BYTES and self._flow.exchange.in_flight.messages:
                break  # all that may leave has; what comes for it begins the next turn
        else:
            self._block()
            return
        if self._output:
            self._block()
        elif self._polled:
            self._polled = False
            self._poll.writes(False)

    def writable(self) -> None:
        """The socket takes more."""
        self._blocked = False

    def _block(self) -> None:
        """Go on when the poll says that the socket takes more."""
        self._blocked = True
        if not self._polled:
            self._polled = True
            self._poll.writes(True)

    # --- how far it is ---

    @property
    def between_packets(self) -> bool:
        """Whether the socket has taken the last burst to its end, so that another packet may follow."""
        return not self._output

    @property
    def waits(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._output) or bool(self._control)

    @property
    def written_bytes(self) -> int:
        """Bytes that were written on this connection, or wait for the socket."""
        return self._accepted_bytes + len(self._output) + sum(map(len, self._control))

    @property
    def left_bytes(self) -> int:
        """How much of that has left this machine."""
        assert self._remote is not None
        return self._accepted_bytes - self._remote.unsent_bytes()
