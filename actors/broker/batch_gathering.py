"""Gathering of the next batch: the moment at which it leaves, and at which publishers rest so that it carries more.

How long is ``actors/broker/batch_pace.py``'s to say; what is in a batch, ``actors/broker/client_batches.py``'s. If a batch cannot
leave, its messages of QoS 0 may pass it (``actors/broker/qos0_overtaking.py``).
"""

from __future__ import annotations

from collections.abc import Callable

from actors.broker.batch_pace import Pace
from actors.broker.client_batches import ClientBatches
from actors.broker.client_input import ClientInput
from actors.broker.qos0_overtaking import Qos0Overtaking
from actors.process.mailbox import Mailbox, PollGroup

REST_TIMER = "rest"


class Gathering:
    """Ends each turn; ``group`` is all clients' sockets, which are not looked at while publishers rest."""

    def __init__(
        self,
        mailbox: Mailbox,
        group: PollGroup,
        batches: ClientBatches,
        client_input: ClientInput,
        overtaking: Qos0Overtaking,
        *,
        gather_s: Callable[[], float],
    ) -> None:
        self._mailbox = mailbox
        self._group = group
        self._batches = batches
        self._builder = batches.builder
        self._link = batches.link
        self._input = client_input
        self._waiting = client_input.waiting
        self._overtaking = overtaking
        self._pace = Pace(gather_s)
        self._serving = False
        self._resting = False
        self._publishers = 0  # how many clients are connected, if one has published this turn
        self._has_committed = False  # in this turn

    def serve(self) -> None:
        """Clients may be heard from the end of this turn on."""
        self._serving = True

    def stop(self) -> None:
        """Nobody is heard any more."""
        self._serving = False
        self._group.hear(False)

    def came(self, clients: int) -> None:
        """One of so many clients has published."""
        self._publishers = clients

    def on_committed(self) -> None:
        """A batch is: what has come meanwhile is read in this turn, and goes out as one batch."""
        self._has_committed = True
        self.end_rest()

    def turn_end(self, now_s: float) -> None:
        """Send what is to go now; the others go on where there is room for what they sent."""
        payloads = self._builder.payloads  # those of this turn, also once they are sent
        waiting = self._batches.carries
        if self._has_committed and not self._link.outstanding:
            self._pace.on_committed(waiting=waiting)
        self._has_committed = False
        if waiting or self._waiting.for_batch:
            self._send(now_s)
            waiting = self._batches.carries
            if waiting:
                self._batches.hurry()
        outstanding = bool(self._link.outstanding)
        if (outstanding and not self._resting) or (waiting and not outstanding):
            until_s = self._pace.rest_until_s(now_s, outstanding=outstanding, rows=len(payloads), publishers=self._publishers)
            if until_s is not None:  # what clients publish would wait anyway, and a turn for each message costs
                self._resting = True
                self._mailbox.set_timer(REST_TIMER, until_s)
        self._publishers = 0
        hears = self._serving and not self._resting
        if hears != self._group.heard:
            self._group.hear(hears)

    def _send(self, now_s: float) -> None:
        while not (self._link.outstanding or self._pace.busy) or self._worth_sending(now_s):
            if self._batches.send(now_s):
                self._overtaking.on_batch_sent()
                self._pace.on_sent(now_s)
            if not self._waiting.for_batch:
                break
            self._input.go_on_with_room()  # what waited in the clients' buffers for this batch
            if not (self._batches.carries or self._waiting.for_batch):
                break
        if self._builder.payloads:
            self._pass_on(now_s)

    def _worth_sending(self, now_s: float) -> bool:
        """Whether a batch is, though another is under way or was a moment ago."""
        rows, full = len(self._builder), self._builder.full
        return self._pace.has_gathered(now_s, rows, full=full) and self._link.worth_sending(rows, full=full)

    def _pass_on(self, now_s: float) -> None:
        """Messages of QoS 0 don't wait for the disk."""
        if self._overtaking.turn_end(now_s):
            self._input.go_on_with_room()  # who waited behind his own goes on
        while self._builder.full and (places := self._overtaking.make_room(self._batches.will_rows())) is not None:
            self._batches.on_moved(places)
            self._input.go_on_with_room()
            self._overtaking.turn_end(now_s)

    def end_rest(self) -> None:
        """Clients are heard again, in this turn."""
        if self._resting:
            self._resting = False
            self._mailbox.cancel_timer(REST_TIMER)
            self._group.hear(self._serving)
            self._mailbox.poll_again()
