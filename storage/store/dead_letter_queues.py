"""The dead-letter queues of a node: messages go from their queues into them, by the commit that settles them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from storage.engine.engine import Engine, Moment, Write
from storage.engine.keys import QueueNumbers
from storage.queue.dead_letters import DeadLetters, dead_queue_name
from storage.queue.queue import Queue
from storage.queue.single_messages import Message
from wire.errors import StorageDamaged
from wire.frames.base import Ranges
from wire.settings import DeadLetterSettings, SettingsNow
from wire.status.bridges import DeadLetterFigures

log = logging.getLogger("bascule")

LOG_PERIOD_S = 60.0
_PREFIX = dead_queue_name("")
_UNLIMITED = DeadLetterSettings()


class Remains(NamedTuple):
    """Messages that have died, and the damage that was met where others of them are."""

    messages: list[Message]
    damages: list[StorageDamaged]


class DeadLetterQueues:
    """Every dead-letter queue that the store has, configured or not (P7)."""

    def __init__(self, engine: Engine, numbers: QueueNumbers, settings: SettingsNow) -> None:
        """Open them.

        Raises:
            StorageDamaged, ConfigError, Unavailable: a row cannot be read.
        """
        self._engine = engine
        self._numbers = numbers
        self._settings = settings
        self._queues: dict[str, DeadLetters] = {}
        self._said_s: dict[tuple[str, str], float] = {}
        self._unsaid: dict[tuple[str, str], int] = {}
        for name in numbers.names():
            if name.startswith(_PREFIX):
                self._open(name.removeprefix(_PREFIX))

    @property
    def queues(self) -> Mapping[str, DeadLetters]:
        """By bridge; a bridge of which no message has died has none."""
        return self._queues

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
        letters = self._queues.get(bridge) or self._open(bridge)
        settled = queue.settle(outcome, ranges, by=by)
        reason = outcome.partition(":")[2]
        added = letters.add(messages, reason=reason, queue=queue.name, remote=queue.sent.session)
        if settled > added:
            letters.lose(settled - added)
            error = str(damages[0]) if damages else "not found"
            log.error("dead_letter.damaged", extra={"queue": queue.name, "messages": settled - added, "error": error})
        if settled:
            self._log_dead("message.dead_lettered", bridge, reason, settled)

    def write_rows(self, write: Write, moment: Moment) -> None:
        """Put what changed into ``write``; what gives way to limits is looked up where it is readable."""
        for bridge, letters in self._queues.items():
            if letters.changed:
                evicted = letters.write(write, moment.wall_ms, self._limits(bridge), evict=moment.readable)
                self._log_dead("dead_letters.evicted", bridge, "limit", evicted)
        if self._unsaid:
            self._say(moment.now_s)

    @property
    def kept_bytes(self) -> int:
        """About what the disk keeps of them."""
        return sum(letters.size_bytes for letters in self._queues.values())

    def tick(self, write: Write, now_s: float, wall_ms: int) -> None:
        """Housekeeping; call it about once a second, while the disk does not refuse."""
        for bridge, letters in self._queues.items():
            self._log_dead("dead_letters.evicted", bridge, "limit", letters.tick(write, wall_ms, self._limits(bridge)))
        if self._unsaid:
            self._say(now_s)

    def figures(self) -> dict[str, DeadLetterFigures]:
        """The figures of each bridge's dead letters."""
        return {bridge: letters.figures() for bridge, letters in self._queues.items()}

    # --- inside ---

    def _open(self, bridge: str) -> DeadLetters:
        number = self._numbers.number(dead_queue_name(bridge))
        letters = self._queues[bridge] = DeadLetters(self._engine, bridge, number)
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
