"""Messages enter a queue once more: from the history of one that they have left, or from a file that was exported.

A run has a name. Whoever orders the next page of it by that name has it go on where it stands, so a page whose answer was lost is
not sent twice, and a run outlives any process. What is sent again is accepted anew, now, and goes where its rule said when it was
taken; where that rule tells provenance by user properties, one more says that it was sent again.

store.resent-once [P2, P3]: how far a run has come is in the write that appends its messages.

The row of a bridge into whose queues something was sent again is under ``Y<bridge>``: msgpack ``(1, {lane: messages ever}, ((run,
source queue, (start, stop, since_ms, until_ms), next, messages), ...))``, the runs in the order in which they were last used.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from zlib import crc32

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import resends_key
from storage.queue.admission import AdmissionRoom
from storage.queue.chunk import Message, rows_of
from storage.queue.history import LOOKED_BYTES, LOOKED_CHUNKS, QueueHistory
from storage.queue.ledger import unpack_row
from storage.queue.queue import Queue
from wire.errors import StorageDamaged
from wire.frames.names import LaneLabel, lane_of_queue
from wire.mqtt.publish_properties import append_user_properties
from wire.ranges import RangeSet
from wire.routing.message_route import MessageRoute
from wire.routing.provenance import USER_PROPERTIES

log = logging.getLogger("bascule")

ROW_VERSION = 1
FILE = "file"  # in the place of a queue, of a run through a file of exported messages
RUNS_MAX = 100  # of one bridge; the one that was not used for longest is forgotten
RESENT = append_user_properties(b"", (("bascule-resent", "true"),))


class Stretch(NamedTuple):
    """The messages that a run is about: of a queue the sequences ``[start, stop)``, accepted in ``[since_ms, until_ms)`` (UTC)."""

    start: int
    stop: int
    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run through one queue. following: the sequence at which it goes on. messages: how many it has sent again."""

    stretch: Stretch
    following: int
    messages: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self.following >= self.stretch.stop


class Page(NamedTuple):
    """The messages of one page by the queue that they go to, where the next one begins, and whether a queue had no room for more.

    missed: sequences that the history does not have any more. damaged: chunks that cannot be read.
    """

    chosen: Mapping[str, Sequence[Message]]
    following: int
    full: bool
    missed: int
    damaged: int

    @property
    def taken(self) -> int:
        """How many go again."""
        return sum(map(len, self.chosen.values()))


class Resends:
    """The runs into the queues of one bridge."""

    def __init__(self, engine: Engine, bridge: str) -> None:
        """As they are on record; where that is damaged, none is known.

        Raises:
            ConfigError, Unavailable: it cannot be read.
        """
        self._bridge = bridge
        self.messages: dict[LaneLabel, int] = {}  # ever, by lane
        self._runs: dict[tuple[str, str], Run] = {}
        value = engine.get("meta", resends_key(bridge))
        if value is None:
            return
        try:
            counts, runs = unpack_row(value, ROW_VERSION, what="bridge", name=bridge)
            self.messages = dict(counts)
            self._runs = {(name, queue): Run(Stretch(*stretch), *rest) for name, queue, stretch, *rest in runs}
        except (StorageDamaged, TypeError, ValueError) as error:
            log.critical("resends.damaged", extra={"bridge": bridge, "error": str(error)})

    def find(self, name: str, queue: str) -> Run | None:
        """The run ``name`` through ``queue``, if it is known."""
        return self._runs.get((name, queue))

    def find_file(self, name: str) -> Run | None:
        """The run ``name`` through a file, if it is known."""
        return self._runs.get((name, FILE))

    def go_on(
        self,
        name: str,
        source: Queue,
        stretch: tuple[int, int, int, int],
        rooms: Mapping[str, Sequence[AdmissionRoom]],
        write: Write,
        *,
        count: int,
    ) -> tuple[Run, Page]:
        """The run ``name`` through ``source``, and the page of at most ``count`` messages with which it goes on. It is on record
        that it has come so far with ``write``, which is to append them (store.resent-once).

        stretch: as of ``Stretch``, of a run that begins; it goes no further than what has left the queue by now. rooms: of the
        queues that get the messages, of which each topic has one.

        Raises:
            Unavailable: the history cannot be read for now; nothing has changed.
        """
        history = source.trimming.history
        assert history is not None, "a history is kept"
        run = self._runs.get((name, source.name))
        if run is None:
            start, stop, *times = stretch
            start = max(start, history.begins)
            run = Run(Stretch(start, max(start, min(stop, source.head)), *times), start)
        elif run.ended:
            return run, Page({}, run.following, full=False, missed=0, damaged=0)
        page = _choose_page(source, history, run, rooms, count=count)
        return self._record(name, source.name, run, page, write), page

    def go_on_with_lines(
        self,
        name: str,
        first: int,
        below: int,
        messages: Sequence[Message],
        rooms: Mapping[str, Sequence[AdmissionRoom]],
        write: Write,
    ) -> tuple[Run, Page]:
        """The same of a run through a file of ``below`` messages, whose ``messages`` from ``first`` on (counted from 0) these are.
        None of them is taken where the run stands elsewhere.
        """
        run = self._runs.get((name, FILE)) or Run(Stretch(0, below, 0, 0), 0)
        if run.ended or run.following != first:
            return run, Page({}, run.following, full=False, missed=0, damaged=0)
        chosen: dict[str, list[Message]] = {}
        following = first
        for message in messages[: below - first]:
            if not _choose(message, list(rooms), rooms, chosen):
                break
            following += 1
        page = Page(chosen, following, full=following < first + len(messages), missed=0, damaged=0)
        return self._record(name, FILE, run, page, write), page

    def _record(self, name: str, queue: str, run: Run, page: Page, write: Write) -> Run:
        run = Run(run.stretch, page.following, run.messages + page.taken)
        for to, messages in page.chosen.items():
            place = lane_of_queue(to)
            assert place is not None, "the queue of a lane"
            self.messages[place.label] = self.messages.get(place.label, 0) + len(messages)
        self._runs.pop((name, queue), None)
        self._runs[name, queue] = run
        while len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]
        runs = [(*key, each.stretch, each.following, each.messages) for key, each in self._runs.items()]
        write.put("meta", resends_key(self._bridge), msgpack.packb((ROW_VERSION, self.messages, runs)))
        return run


def _choose_page(
    source: Queue, history: QueueHistory, run: Run, rooms: Mapping[str, Sequence[AdmissionRoom]], *, count: int
) -> Page:
    """Choose the next page, and take its room. What has not left its queue is passed over."""
    names = list(rooms)
    start = max(run.following, history.begins)
    chosen: dict[str, list[Message]] = {}
    damages: list[StorageDamaged] = []
    taken, missed = 0, max(0, min(start, run.stretch.stop) - run.following)
    looked = looked_bytes = 0
    for chunk in history.chunks(start, run.stretch.stop, damages.append):
        if run.stretch.since_ms <= chunk.accepted_ms < run.stretch.until_ms:
            for message in rows_of(chunk, start, run.stretch.stop, RangeSet()):
                if not source.has_left(message.seq):
                    continue
                if taken == count or not _choose(_marked(message), names, rooms, chosen):
                    return Page(chosen, message.seq, full=taken < count, missed=missed, damaged=len(damages))
                taken += 1
        looked, looked_bytes = looked + 1, looked_bytes + chunk.size_bytes
        if looked == LOOKED_CHUNKS or looked_bytes >= LOOKED_BYTES:
            return Page(chosen, min(chunk.stop, run.stretch.stop), full=False, missed=missed, damaged=len(damages))
    return Page(chosen, run.stretch.stop, full=False, missed=missed, damaged=len(damages))


def _choose(
    message: Message, names: Sequence[str], rooms: Mapping[str, Sequence[AdmissionRoom]], chosen: dict[str, list[Message]]
) -> bool:
    """Put ``message`` to those that are chosen for its queue, and take its room; False if there is none."""
    name = names[crc32(message.topic) % len(names)]
    if not all(room.fits(1, message.size_bytes) for room in rooms[name]):
        return False
    for room in rooms[name]:
        room.take(1, message.size_bytes)
    chosen.setdefault(name, []).append(message)
    return True


def _marked(message: Message) -> Message:
    """``message`` as it goes again: it says so where its rule has it tell where it comes from."""
    if not message.route or MessageRoute.decode(message.route).provenance != USER_PROPERTIES:
        return message
    return replace(message, properties=message.properties + RESENT)
