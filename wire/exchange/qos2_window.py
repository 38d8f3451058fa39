"""How many QoS 2 messages may be in flight at a remote. Pure.

An MQTT 5 remote says it. One of MQTT 3.1.1 does not, and to try it is not safe: Mosquitto 2.0 answers a message that is too many
with PUBREC, throws it away and goes on, so that no sender sees the loss. EMQX 4.0 does the same beyond 100. Mosquitto 2.1 and
EMQX 5 close the connection, and NATS and aedes take all.

So a connection begins with one. When a second is to leave, the remote is asked by a CONNECT of MQTT 5, in whose CONNACK it states
the Receive Maximum. Mosquitto has one limit for both. One that speaks no MQTT 5 is taken to have ``UNKNOWN``. Each connection asks
anew: a remote that was started again may take fewer, and that cost the connection before.
"""

from __future__ import annotations

from wire.status.states import WindowReason

UNKNOWN = 20  # the default of Mosquitto, as a broker and as a bridge
UNSTATED = 65_535  # Receive Maximum of a CONNACK that has none [MQTT5-3.2.2.3.3]
UNSTATED_MAX = 100  # so many then: EMQX 4.0 states none
_LEVEL_5 = 5


class Qos2Window:
    """That of one lane. maximum: how many may be in flight now; reason: why no more.

    asks: the remote is to be asked before more leave.
    """

    def __init__(self, qos2_maximum: int | None) -> None:
        """qos2_maximum: 0: as many as an MQTT 3.1.1 remote takes; None: for a peer that takes as many as of QoS 1."""
        self.maximum = 0
        self.reason = WindowReason.CONFIGURED
        self.asks = False
        self._qos2_maximum = qos2_maximum
        self._window = 0

    def open(self) -> None:
        """The lane is opened, with no connection."""
        self.maximum, self.asks = 0, False

    def on_connected(self, level: int, window: int, *, stated: bool) -> None:
        """A connection is up on which ``window`` messages may be in flight; stated: because the remote says so."""
        self._window = self.maximum = window
        self.reason = WindowReason.STATED if stated else WindowReason.CONFIGURED
        self.asks = level < _LEVEL_5 and self._qos2_maximum == 0 and window > 1
        if self._qos2_maximum is None:
            return
        if level >= _LEVEL_5:
            self.maximum = max(1, window - 1)  # exchange.qos2-maximum-kept
        else:
            self.maximum = min(window, self._qos2_maximum or 1)
        if self.asks:
            self.reason = WindowReason.FIRST

    def on_asked(self) -> None:
        """The remote is being asked."""
        self.asks = False

    def on_unanswered(self) -> None:
        """It could not be asked for now."""
        self.asks = True

    def on_told(self, receive_maximum: int | None) -> None:
        """The remote's answer; None: it speaks no MQTT 5."""
        if receive_maximum is None:
            most, told = UNKNOWN, WindowReason.UNKNOWN
        else:
            most, told = UNSTATED_MAX if receive_maximum >= UNSTATED else receive_maximum, WindowReason.STATED
        self.maximum = min(self._window, most)
        self.reason = told if most <= self._window else WindowReason.CONFIGURED
