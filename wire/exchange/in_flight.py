"""QoS 1 and 2 messages on the live connection: how many may be unsettled, how many are, and what waits for PUBACK or PUBREC. Pure.

exchange.receive-maximum-kept [P5, MQTT]: at most ``receive_maximum`` QoS 1 and 2 messages are unsettled on the live connection
    [MQTT-4.9.0-2].
exchange.qos2-maximum-kept [P2]: at level 4 at most ``qos2_maximum`` of them are QoS 2, each counted from PUBLISH to PUBCOMP, or as
    many as the remote is known to take (``wire/exchange/qos2_window.py``); at that many no QoS 1 leaves either. At level 5 one
    slot is kept free of QoS 2: Mosquitto 2.0 counts what it holds of an earlier connection against the receive maximum of the next,
    and would refuse for ever what has to go again before that.
"""

from __future__ import annotations

from wire.exchange.qos2_window import Qos2Window
from wire.ranges import RangeSet


class InFlight:
    """Those of one lane.

    messages: QoS 1 and 2 messages that are unsettled on the live connection, or will be on the next; qos2: how many of them are
    QoS 2. window: how many may be (exchange.receive-maximum-kept), qos2_window: of QoS 2. puback, pubrec: those that wait for one.
    """

    def __init__(self, *, receive_maximum: int, qos2_maximum: int | None) -> None:
        """qos2_maximum: as ``Qos2Window`` has it."""
        self.puback = RangeSet()
        self.pubrec = RangeSet()
        self.messages = self.qos2 = 0
        self.window = 0
        self.qos2_window = Qos2Window(qos2_maximum)
        self._receive_maximum = receive_maximum

    @property
    def unsettled(self) -> tuple[RangeSet, ...]:
        """The sets of what waits for PUBACK or PUBREC; whoever reads those takes them out."""
        return self.puback, self.pubrec

    def open(self, released: int) -> None:
        """The lane is opened, with no connection."""
        self.window = 0
        self.qos2_window.open()
        self.begin(released)

    def on_connected(self, level: int, receive_maximum: int, released: int) -> None:
        """A connection is up that allows ``receive_maximum``; so many ``released`` ones were left from those before."""
        self.window = min(self._receive_maximum, receive_maximum)
        self.qos2_window.on_connected(level, self.window, stated=receive_maximum < self._receive_maximum)
        self.begin(released)

    def begin(self, released: int) -> None:
        """Nothing waits for PUBACK or PUBREC; so many ``released`` ones have had theirs."""
        self.puback.clear()
        self.pubrec.clear()
        self.messages = self.qos2 = released

    def room(self, qos: int) -> int:
        """How many PUBLISHes of ``qos`` 1 or 2 may leave."""
        most = self.qos2_window.maximum
        if self.qos2 >= most:
            return 0  # exchange.qos2-maximum-kept: Mosquitto 2.0 then throws a QoS 1 PUBLISH away too
        room = self.window - self.messages
        return room if qos == 1 else min(room, most - self.qos2)

    def on_sent(self, qos: int, start: int, stop: int) -> None:
        """PUBLISHes of ``qos`` 1 or 2 have left."""
        self.messages += stop - start
        if qos == 1:
            self.puback.add(start, stop)
        else:
            self.qos2 += stop - start
            self.pubrec.add(start, stop)

    def on_ended(self, count: int, *, qos2: bool) -> None:
        """So many exchanges have ended."""
        self.messages -= count
        if qos2:
            self.qos2 -= count
