"""The dead-letter queues of a node: messages go from their queues into them, by the commit that settles them.

They go back to the queues of their bridge a page at a time, each by the commit that appends it there again
(queue.dead-or-queued-never-both). A page ends after so many letters, where it has read enough, or where a queue has no room.
The right to order that, and the answer, are the business of ``queue_commands``.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from storage.engine.engine import Engine, Moment, Write
from storage.engine.queue_numbers import QueueNumbers
from storage.queue.admission import AdmissionRoom
from storage.queue.chunk import Message
from storage.queue.dead_letters import DeadLetter, DeadLetters, dead_queue_name
from storage.queue.queue import Queue
from wire.config_settings import DeadLetterSettings, SettingsNow
from wire.errors import StorageDamaged
from wire.frames.frame import Ranges
from wire.status.bridges import DeadLetterFigures
from wire.status.outcomes import kind_and_reason

log = logging.getLogger("bascule")

LOG_PERIOD_S = 60.0
SCANNED_MESSAGES = 5000  # of a page, those that are not in it included
SCANNED_BYTES = 8 << 20
_PREFIX = dead_queue_name("")
_UNLIMITED = DeadLetterSettings()


class Remains(NamedTuple):
    """Messages that have died, and the damage that was met where others of them are."""

    messages: list[Message]
    damages: list[StorageDamaged]


class DeadLetterQueues:
    """Every dead-letter queue that the store has, configured or not (P7).

    queues: by bridge; a bridge of which no message has died has none.
    """

    def __init__(self, engine: Engine, numbers: QueueNumbers, settings: SettingsNow) -> None:
        """Open them.

        Raises:
            StorageDamaged, ConfigError, Unavailable: a row cannot be read.
        """
        self._engine = engine
        self._numbers = numbers
        self._settings = settings
        self.queues: dict[str, DeadLetters] = {}
        self._said_s: dict[tuple[str, str], float] = {}
        self._unsaid: dict[tuple[str, str], int] = {}
        for name in numbers.names():
            if name.startswith(_PREFIX):
                self._open(name.removeprefix(_PREFIX))

    def read(self, queue: Queue, ranges: Ranges) -> Remains:
        """The letters that ``keep`` is to keep of ``ranges``; nothing is changed.

        Raises:
            Unavailable: it cannot be read for now.
        """
        damages: list[StorageDamaged] = []
        messages = [message for start, stop in queue.in_hand(ranges) for message in queue.read(start, stop, damage=damages.append)]
        return Remains(messages, damages)

    def keep(self, bridge: str, queue: Queue, outcome: str, ranges: Ranges, remains: Remains, *, by: str) -> None:
        """Settle ``ranges`` of ``queue`` under ``outcome`` and keep their ``remains``; both hold with the next commit
        (queue.dead-or-queued-never-both).

        A message that is damaged is settled all the same, and counted as that.

        Raises:
            StorageDamaged, Unavailable: it cannot be settled, or the disk refuses for now; nothing has changed.
        """
        messages, damages = remains
        letters = self.queues.get(bridge) or self._open(bridge)
        settled = queue.settle(outcome, ranges, by=by)
        _, reason = kind_and_reason(outcome)
        added = letters.add(messages, reason=reason, queue=queue.name, remote=queue.sent.session)
        if settled > added:
            letters.lose(settled - added)
            error = str(damages[0]) if damages else "not found"
            log.error("dead_letter.damaged", extra={"queue": queue.name, "messages": settled - added, "error": error})
        if settled:
            self._log_dead("message.dead_lettered", bridge, reason, settled)

    def write_rows(self, write: Write, moment: Moment) -> None:
        """Put what changed into ``write``; what gives way to limits is looked up where it is readable."""
        for bridge, letters in self.queues.items():
            if letters.changed:
                evicted = letters.write(write, moment.wall_ms, self._limits(bridge), evict=moment.readable)
                self._log_dead("dead_letters.evicted", bridge, "limit", evicted)
        if self._unsaid:
            self._say(moment.now_s)

    @property
    def kept_bytes(self) -> int:
        """About what the disk keeps of them."""
        return sum(letters.size_bytes for letters in self.queues.values())

    def tick(self, write: Write, now_s: float, wall_ms: int) -> None:
        """Housekeeping; call it about once a second, while the disk does not refuse."""
        for bridge, letters in self.queues.items():
            self._log_dead("dead_letters.evicted", bridge, "limit", letters.tick(write, wall_ms, self._limits(bridge)))
        if self._unsaid:
            self._say(now_s)

    def figures(self) -> dict[str, DeadLetterFigures]:
        """The figures of each bridge's dead letters."""
        return {bridge: letters.figures() for bridge, letters in self.queues.items()}

    # --- inside ---

    def _open(self, bridge: str) -> DeadLetters:
        number = self._numbers.number(dead_queue_name(bridge))
        letters = self.queues[bridge] = DeadLetters(self._engine, bridge, number)
        return letters

    def _limits(self, bridge: str) -> DeadLetterSettings:
        return next((each.dead_letter for each in self._settings.now.bridges if each.name == bridge), _UNLIMITED)

    def _log_dead(self, event: str, bridge: str, reason: str, messages: int) -> None:
        if messages:
            key = (event, f"{bridge} {reason}")
            self._unsaid[key] = self._unsaid.get(key, 0) + messages

    def _say(self, now_s: float) -> None:
        """Log what happened: at once the first time, then at most every ``LOG_PERIOD_S`` for each event, bridge and reason."""
        for key, messages in tuple(self._unsaid.items()):
            if now_s - self._said_s.get(key, float("-inf")) < LOG_PERIOD_S:
                continue
            self._said_s[key] = now_s
            del self._unsaid[key]
            event, about = key
            bridge, _, reason = about.partition(" ")
            log.warning(event, extra={"bridge": bridge, "reason": reason, "messages": messages})


class Page(NamedTuple):
    """One page: which letters go back to which queue, and what became of the others.

    full: a queue had no room for the next one. following: the place of the letter behind the page; None if it saw none.
    """

    chosen: Mapping[str, Sequence[DeadLetter]]
    skipped: int
    damaged: int
    full: bool
    following: int | None

    @property
    def taken(self) -> int:
        """How many go back."""
        return sum(map(len, self.chosen.values()))


def choose_page(
    letters: Iterable[tuple[int, DeadLetter | None]],
    names: Sequence[str],
    rooms: Mapping[str, Sequence[AdmissionRoom]],
    *,
    reason: str | None,
    count: int,
    of_classes: Container[str] = (),
) -> Page:
    """Choose up to ``count`` of ``letters`` that died of ``reason`` (None: of any), and take their room.

    names: the queues of their bridge over which topics are spread. of_classes: its other ones; a letter of one of those goes back
    there. rooms: of each queue.
    """
    chosen: dict[str, list[DeadLetter]] = {}
    taken = skipped = damaged = 0
    following: int | None = None
    for seq, letter in _bounded(letters):
        following = seq + 1
        if letter is None:
            damaged += 1
        elif reason not in (None, letter.reason):
            skipped += 1
        else:
            name = letter.queue if letter.queue in of_classes else names[crc32(letter.message.topic) % len(names)]
            if not all(room.fits(1, letter.message.size_bytes) for room in rooms[name]):
                return Page(chosen, skipped, damaged, full=True, following=seq)
            for room in rooms[name]:
                room.take(1, letter.message.size_bytes)
            chosen.setdefault(name, []).append(letter)
            taken += 1
            if taken == count:
                break
    return Page(chosen, skipped, damaged, full=False, following=following)


def _bounded(letters: Iterable[tuple[int, DeadLetter | None]]) -> Iterator[tuple[int, DeadLetter | None]]:
    """``letters``, as many as one page may look at."""
    size_bytes = 0
    for seq, letter in islice(letters, SCANNED_MESSAGES):
        yield seq, letter
        size_bytes += letter.message.size_bytes if letter is not None else 0
        if size_bytes >= SCANNED_BYTES:
            return
