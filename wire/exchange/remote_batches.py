"""Batches of messages from a remote on their way to the store: their numbers, and what is wanted back with each commit. Pure.

An answer leaves only after the commit of its batch, on the connection that its packet came by, in order
(exchange.answer-after-commit, exchange.answers-in-order).
"""

from __future__ import annotations

from array import array

from wire.exchange.receiver import AnswerBurst
from wire.frames.batch import pack_column
from wire.frames.intake import Publishes
from wire.frames.sending_link import SendingLink
from wire.mqtt.publish_batch_parser import BatchBuilder
from wire.routing.form_from_remote import LocalForm


class RemoteBatches:
    """Those of one lane. ``sender`` and ``epoch`` number them; the epoch of the Listener that is known goes with each.

    link: those on their way, each with the answers that its commit releases.
    """

    def __init__(self, form: LocalForm, *, sender: str, epoch: int) -> None:
        self._listener = 0
        self.link: SendingLink[Publishes, AnswerBurst | None] = SendingLink()
        self._form = form
        self._sender = sender
        self._epoch = epoch

    def know(self, listener: int) -> None:
        """The Listener of that epoch is there."""
        self._listener = listener

    def send(
        self, builder: BatchBuilder, burst: AnswerBurst | None, released: list[int], now_s: float, wall_ms: int, *, session: str
    ) -> Publishes:
        """The next batch, with what ``builder`` has; it counts as sent.

        burst: the answers that its commit releases. released: identifiers of ``session``. What the form leaves out has its
        identifier on record all the same: it would be taken for another message when it comes again.
        """
        batch = self._form.transform(builder.build(accepted_ms=wall_ms))
        frame = Publishes(
            sender=self._sender,
            epoch=self._epoch,
            number=self.link.next_number,
            received=builder.received,
            released={session: pack_column(array("H", released))} if released else {},
            listener=self._listener,
            bodies=(batch.encode(),),
        )
        self.link.on_sent(frame, burst, now_s)
        return frame
