"""Results of routing the newest batches of each sender, so that one that is sent again goes where it went the first time. Pure.

The receivers of a message are decided once, when it is routed. Between that and a repeat (the store has died with the batch)
clients may have subscribed, and been sent later messages of QoS 0 already; and a shared subscription would choose another member:
the message would come out of order (P4) [MQTT-4.6.0-6], twice, or to nobody. A new life knows nothing of it, and routes anew what
Connections send again. A client that is connected by then may have had the QoS 0 part of it already, and is not sent that again.

broker.live-copy-once [P2, P4]: a message that its publisher sends once is delivered live at QoS 0 at most once to each
    subscriber, whatever is sent again between the actors.
"""

from __future__ import annotations

from collections import deque

from wire.frames.intake import Append
from wire.frames.sending_link import BATCHES_OUTSTANDING_MAX

KEPT_BYTES_MAX = 16 << 20  # a batch that came to more, because many queues want it each in its own way, is routed again


class RoutedBatches:
    """The newest ``Append`` frames of each sender: as many as may be on their way."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[Append]] = {}

    def again(self, sender: str, epoch: int, number: int) -> Append | None:
        """The result of routing that batch; None if it was not routed, as far as is known."""
        for append in self._kept.get(sender, ()):
            if (append.epoch, append.number) == (epoch, number):
                return append
        return None

    def keep(self, append: Append) -> None:
        """Know it until as many newer ones are kept, or its sender starts anew."""
        kept = self._kept.setdefault(append.sender, deque(maxlen=BATCHES_OUTSTANDING_MAX))
        if kept and kept[-1].epoch != append.epoch:
            kept.clear()
        if sum(map(len, append.bodies)) <= KEPT_BYTES_MAX:
            kept.append(append)
