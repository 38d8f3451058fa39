"""One message is followed to the remote while an operator asks for it: sent under which identifier, answered when.

The exchange does what it does anyway; a look at the end of each turn sees how far it has come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.process.mailbox import Mailbox
from wire.exchange.packet_identifiers import packet_id_of
from wire.exchange.sender import SenderHalf
from wire.frames.names import SUPERVISOR
from wire.frames.traces import TraceFollow, TraceStep
from wire.status.bridges import LinkFigures
from wire.status.states import LinkState

FOLLOWED_MAX = 8
FOLLOWED_S = 120.0


class _Followed:
    """A message of ``frame``; ``told``: the steps that were told of it; ``qos``: at which it left, once it has."""

    def __init__(self, frame: TraceFollow, until_s: float) -> None:
        self.frame = frame
        self.until_s = until_s
        self.told: set[str] = set()
        self.qos = 0


class FollowedMessages:
    """Those of one lane."""

    def __init__(self, mailbox: Mailbox, exchange: SenderHalf, link: Callable[[float], LinkFigures]) -> None:
        """link: the figures of the link, at a time."""
        self._mailbox = mailbox
        self._exchange = exchange
        self._link = link
        self.all: list[_Followed] = []

    def follow(self, frame: TraceFollow) -> None:
        """It waits in the store, and comes as soon as it may; say so if the link is down."""
        now_s = self._mailbox.now_s()
        self.all = [*self.all[-FOLLOWED_MAX + 1 :], _Followed(frame, now_s + FOLLOWED_S)]
        link = self._link(now_s)
        if link.state != LinkState.CONNECTED:
            self._step(frame, "waits", {"link": link.state, "reason": link.reason})

    def report_progress(self, now_s: float) -> None:
        """How far all have come."""
        self.all = [followed for followed in self.all if not self._on_ended(followed) and now_s < followed.until_s]

    def _on_ended(self, followed: _Followed) -> bool:
        frame, exchange = followed.frame, self._exchange
        qos, standing = exchange.standing(frame.seq)
        if standing == "waiting":
            return False
        if "sent" not in followed.told:
            followed.told.add("sent")
            facts: dict[str, Any] = {"remote": self._link(self._mailbox.now_s()).address}
            followed.qos = qos
            if qos:
                facts |= {"qos": qos, "packet_id": packet_id_of(frame.seq)}
            self._step(frame, "sent", facts)
        if standing == "released" and "received" not in followed.told:
            followed.told.add("received")
            self._step(frame, "received", {"packet": "PUBREC"})
        if standing == "ended":
            if followed.qos:
                self._step(frame, "answered", {"packet": "PUBACK" if followed.qos == 1 else "PUBCOMP"})
            return True
        return False

    def _step(self, frame: TraceFollow, step: str, details: dict[str, Any]) -> None:
        told = TraceStep(
            request=frame.request,
            step=step,
            actor=self._mailbox.name,
            queue=frame.queue,
            at_s=self._mailbox.now_s(),
            details=details,
        )
        self._mailbox.send(SUPERVISOR, told)
