"""The store's half of an idempotent link: the last number of each sender, and what its refusals were.

store.next-number-only [P2, P3]: only ``last + 1`` of a sender's newest epoch is accepted; a lower number is a repeat, a higher one
    a gap, an older epoch fenced. What is remembered of a sender is written in the same commit as its messages.

The sender's half is ``wire/frames/sending_link.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import sender_key
from storage.queue.full_queue_refusal import HeldBack
from storage.queue.ledger import unpack_row
from wire.errors import StorageDamaged
from wire.frames.intake import SourceResumed

ROW_VERSION = 1
_pack = msgpack.Packer().pack  # one that is kept costs half of one that is made each time
REFUSED_NUMBERS_MAX = 8  # a sender has fewer batches outstanding


class Verdict(Enum):
    """What a numbered frame is to the store."""

    NEXT = "next"
    REPEAT = "repeat"
    GAP = "gap"
    FENCED = "fenced"


@dataclass(slots=True)
class Sender:
    """One sender in its newest epoch.

    last: the highest number taken. committed: the highest number in a finished commit. refused: number -> rows (u16 column), kept
    so that a repeat gets the same answer. stalled: sources of which every row is refused until they are resumed -> the last number
    that had such a row. held: what the sender holds of sources, to offer it again; it dies with the sender.
    """

    epoch: int
    last: int = 0
    committed: int = 0
    refused: dict[int, bytes] = field(default_factory=dict)
    stalled: dict[int, int] = field(default_factory=dict)
    held: dict[int, HeldBack] = field(default_factory=dict)


class Senders:
    """All senders. ``lenient``: what was answered may be forgotten, so a sender may say where its numbers stand (``resume``)."""

    def __init__(self, engine: Engine, *, lenient: bool) -> None:
        self._lenient = lenient
        self._senders: dict[str, Sender] = {}
        self._changed: set[str] = set()
        for key, value in engine.scan("meta", b"P", b"Q"):
            name = key[1:].decode()
            fields = unpack_row(value, ROW_VERSION, what="sender", name=name)
            try:
                epoch, last, refused, stalled, held = fields
                held_back = {source: HeldBack(queues, messages) for source, queues, messages in held}
                self._senders[name] = Sender(epoch, last, last, dict(refused), dict(stalled), held_back)
            except (TypeError, ValueError) as error:
                raise StorageDamaged("the row of a sender is damaged", name=name) from error

    def judge(self, name: str, epoch: int, number: int) -> Verdict:
        """What the frame ``number`` of ``name`` is; NEXT takes it, so that it is judged so only once."""
        sender = self.begin(name, epoch)
        if epoch < sender.epoch:
            return Verdict.FENCED
        if number <= sender.last:
            return Verdict.REPEAT
        if number > sender.last + 1:
            return Verdict.GAP
        sender.last = number
        self._changed.add(name)
        return Verdict.NEXT

    def begin(self, name: str, epoch: int) -> Sender:
        """Fence the older epochs of ``name``; what is known of its newest one."""
        sender = self._senders.get(name)
        if sender is None or epoch > sender.epoch:
            sender = self._senders[name] = Sender(epoch)
            self._changed.add(name)
        return sender

    def is_fenced(self, name: str, epoch: int) -> bool:
        """Whether a newer epoch of ``name`` has begun."""
        sender = self._senders.get(name)
        return sender is not None and epoch < sender.epoch

    def went_back(self) -> None:
        """Commits are missing: a sender that lives may know of more than the store, and is believed from now on."""
        self._lenient = True

    def resume(self, name: str, epoch: int, number: int, stalled: Iterable[int] = ()) -> None:
        """A sender goes on with ``number``, although the store may have forgotten what came before; believed only if ``lenient``.

        stalled: sources of which every row is refused until they are resumed. Of others nothing is held any more: that they were
        resumed may have been told to a store that died with it.
        """
        stalled = tuple(stalled)
        known = self._senders.get(name)
        if known is not None and known.epoch == epoch and not known.held.keys() <= set(stalled):
            known.held = {source: held for source, held in known.held.items() if source in stalled}
            self._changed.add(name)
        if not self._lenient or number == 1:  # nothing was answered yet
            return
        sender = self.begin(name, epoch)
        if epoch == sender.epoch and sender.last < number - 1:
            sender.last = number - 1
            sender.stalled.update(dict.fromkeys(stalled, number - 1))
            self._changed.add(name)

    def get(self, name: str) -> Sender | None:
        """What is known of ``name``."""
        return self._senders.get(name)

    def stalled(self, name: str, epoch: int) -> dict[int, int]:
        """The stalled sources of ``name``, to be added to; empty and of no effect for an old epoch."""
        sender = self._senders.get(name)
        if sender is None or sender.epoch != epoch:
            return {}
        self._changed.add(name)
        return sender.stalled

    def source_resumed(self, frame: SourceResumed) -> tuple[str, ...]:
        """Accept rows of the source again, unless some were refused since the sender said so.

        Returns: the queues that its refused messages waited for, which answer for those that are given up.
        """
        sender = self._senders.get(frame.sender)
        if sender is None or sender.epoch != frame.epoch:
            return ()
        self._changed.add(frame.sender)
        held = sender.held.get(frame.source, HeldBack())
        if sender.stalled.get(frame.source, -1) < frame.number:
            sender.stalled.pop(frame.source, None)
            sender.held.pop(frame.source, None)
            if frame.held:
                sender.held[frame.source] = HeldBack(held.queues, frame.held)
        return held.queues

    def hold(self, name: str, epoch: int, held: Mapping[int, HeldBack]) -> None:
        """The sender is to hold so much more of each source, and to offer it again."""
        sender = self._senders.get(name)
        if sender is None or sender.epoch != epoch:
            return
        for source, more in held.items():
            known = sender.held.setdefault(source, HeldBack())
            known.queues = more.queues or known.queues
            known.messages += more.messages
        self._changed.add(name)

    def held_back(self) -> Counter[str]:
        """For each queue, the messages that wait at their senders for room in it, those behind them included."""
        waiting: Counter[str] = Counter()
        for sender in self._senders.values():
            for held in sender.held.values():
                waiting.update(dict.fromkeys(held.queues, held.messages))
        return waiting

    def refuse(self, name: str, epoch: int, number: int, rows: bytes) -> None:
        """Remember which rows of ``number`` were refused."""
        sender = self._senders.get(name)
        if sender is not None and sender.epoch == epoch:
            sender.refused[number] = rows
            while len(sender.refused) > REFUSED_NUMBERS_MAX:
                del sender.refused[min(sender.refused)]
            self._changed.add(name)

    def write_rows(self, write: Write, *_moment: object) -> None:
        """Put what changed into ``write``."""
        for name in self._changed:
            sender = self._senders[name]
            held = [(source, each.queues, each.messages) for source, each in sorted(sender.held.items())]
            row = (ROW_VERSION, sender.epoch, sender.last, sender.refused, sorted(sender.stalled.items()), held)
            write.put("meta", sender_key(name), _pack(row))
            write.on_commit(_Committed(sender, sender.last))
        self._changed.clear()

    def refused(self, name: str, epoch: int) -> dict[int, bytes]:
        """What was refused of ``name`` in all the numbers that it may have outstanding; nothing for an old epoch."""
        sender = self._senders.get(name)
        return dict(sender.refused) if sender is not None and sender.epoch == epoch else {}


class _Committed:
    """Callback: everything of ``sender`` up to ``number`` is committed."""

    __slots__ = ("_number", "_sender")

    def __init__(self, sender: Sender, number: int) -> None:
        self._sender = sender
        self._number = number

    def __call__(self) -> None:
        self._sender.committed = max(self._sender.committed, self._number)
