"""The store's half of an idempotent link: the last number of each sender.

store.next-number-only [P2, P3]: only ``last + 1`` of a sender's newest epoch is accepted; a lower number is a repeat, a higher one
    a gap, an older epoch fenced. The record of a sender is written in the same commit as its messages.

The sender's half is ``wire/frames/sending_link.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import sender_key
from storage.queue.ledger import unpack_row
from wire.errors import StorageDamaged

ROW_VERSION = 1
_pack = msgpack.Packer().pack  # one that is kept costs half of one that is made each time


class Verdict(Enum):
    """The verdict on a numbered frame."""

    NEXT = "next"
    REPEAT = "repeat"
    GAP = "gap"
    FENCED = "fenced"


@dataclass(slots=True)
class ReceivingLink:
    """One sender in its newest epoch.

    last: the highest number taken. admitted: the highest that is in the open write, or was. committed: the highest in a finished
    commit. key: of its row.
    """

    key: bytes
    epoch: int
    last: int = 0
    admitted: int = 0
    committed: int = 0


class ReceivingLinks:
    """All senders. ``lenient``: what was answered may be forgotten, so a sender may say where its numbers stand (``resume``)."""

    def __init__(self, engine: Engine, *, lenient: bool) -> None:
        self._lenient = lenient
        self._senders: dict[str, ReceivingLink] = {}
        self._changed: dict[str, None] = {}
        self._written: dict[str, ReceivingLink] = {}  # those whose row is in the open write
        for key, value in engine.scan("meta", b"P", b"Q"):
            name = key[1:].decode()
            fields = unpack_row(value, ROW_VERSION, what="sender", name=name)
            try:
                epoch, last = fields
                self._senders[name] = ReceivingLink(key, epoch, last, last, last)
            except (TypeError, ValueError) as error:
                raise StorageDamaged("the row of a sender is damaged", name=name) from error

    def judge(self, name: str, epoch: int, number: int) -> Verdict:
        """The verdict on the frame ``number`` of ``name``; NEXT takes it, so that it is judged so only once."""
        sender = self._senders.get(name)
        if sender is None or epoch > sender.epoch:
            sender = self.begin(name, epoch)
        if epoch < sender.epoch:
            return Verdict.FENCED
        if number <= sender.last:
            return Verdict.REPEAT
        if number > sender.last + 1:
            return Verdict.GAP
        sender.last = number
        return Verdict.NEXT

    def on_admitted(self, name: str, number: int) -> None:
        """What ``number`` of the sender's newest epoch has goes with the open write."""
        self._senders[name].admitted = number
        self._changed[name] = None

    def begin(self, name: str, epoch: int) -> ReceivingLink:
        """Fence the older epochs of ``name``; what is known of its newest one."""
        sender = self._senders.get(name)
        if sender is None or epoch > sender.epoch:
            sender = self._senders[name] = ReceivingLink(sender_key(name), epoch)
            self._changed[name] = None
        return sender

    def is_fenced(self, name: str, epoch: int) -> bool:
        """Whether a newer epoch of ``name`` has begun."""
        sender = self._senders.get(name)
        return sender is not None and epoch < sender.epoch

    def went_back(self) -> None:
        """Commits are missing: a sender that lives may know of more than the store, and is believed from now on."""
        self._lenient = True

    def resume(self, name: str, epoch: int, number: int) -> None:
        """A sender goes on with ``number``, though the store may have forgotten what came before; believed only if ``lenient``."""
        if not self._lenient or number == 1:  # nothing was answered yet
            return
        sender = self.begin(name, epoch)
        if epoch == sender.epoch and sender.last < number - 1:
            sender.last = sender.admitted = number - 1
            self._changed[name] = None

    def get(self, name: str) -> ReceivingLink | None:
        """The record of ``name``."""
        return self._senders.get(name)

    def write_rows(self, write: Write, *_moment: object) -> None:
        """Put what changed into ``write``."""
        for name in self._changed:
            sender = self._written[name] = self._senders[name]
            write.put("meta", sender.key, _pack((ROW_VERSION, sender.epoch, sender.admitted)))
        self._changed.clear()

    def on_committed(self) -> None:
        """The write with those rows is: so is everything that was admitted."""
        for sender in self._written.values():
            sender.committed = sender.admitted
        self._written.clear()
