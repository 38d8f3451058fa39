"""How much local clients may publish to the queues that refuse when they are full: known to the Listener before it takes anything.

By bridge, and for the node as a whole. A queue with much room is OPEN: whatever may be under way fits, so nobody asks. One that is
NEAR its limit has room on request, each time for one batch of the Listener. One that is FULL takes nothing, until a twentieth of it
is free again, or at least what was asked for. What the Listener may have taken by the last word is held ready for it until a batch
says that it has heeded a later one (``Append.room``).

Remotes ask nobody: a batch of theirs waits here until it fits as a whole, as TCP lets it. Clients and remotes take turns.

store.full-announced [P5]: a queue that refuses has no more than its limit: to local clients it has offered what is left, less what
    is held ready. Beyond it come Wills, which were taken with their clients, what rules with ``only`` or ``keep_last`` had held,
    a piece of what a rule brings of retained messages, and what was under way when a limit was lowered, the disk ran low, or the
    store died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from storage.queue.admission import DAMAGED, REFUSING, AdmissionRoom, Amount, fits, wanted
from storage.store.disk_trouble import Disk
from storage.store.lanes import Lanes
from wire.config_settings import ClientLimitSettings, SettingsNow
from wire.frames import intake
from wire.frames.frame import Effects
from wire.frames.intake import FULL, NEAR, OPEN, Append, RoomWanted
from wire.frames.names import LISTENER
from wire.frames.sending_link import BATCH_BYTES_MAX, BATCH_ROWS_MAX, BATCHES_OUTSTANDING_MAX

UNDER_WAY_BATCHES = 2 * BATCHES_OUTSTANDING_MAX + 1  # of the Listener: taken in one turn, sent before it hears of that, being built
UNDER_WAY_ROWS = UNDER_WAY_BATCHES * BATCH_ROWS_MAX
NUMBERS_BITS = 24  # of one life of the store
LOW_MARK = 20  # a full queue takes messages again when this part of it is free

_NOTHING: Amount = (0, 0)

Overflowed = Callable[[str, str, int, float, int], None]  # bridge or class, policy, messages, now in seconds, UTC ms


@dataclass(slots=True)
class _Offer:
    """How full one queue is, as the Listener was told.

    held: what it may take, or may have taken, until a batch has heeded ``AdmissionRoom`` ``number``. wanted: what one PUBLISH
    that waits comes to; nothing: none waits.
    """

    state: int
    held: Amount = _NOTHING
    number: int = 0
    wanted: Amount = _NOTHING


class Rooms:
    """Counts what is there against the limits: for each queue the room of its bridge, its class or its session, and that of the
    node.

    A measurement is good for as long as it is large enough: takings since then are taken from it, and departures from the queues
    since then only add to it. So a queue that is far from full is not measured anew for each batch.

    measured: by queue, what was measured last, less what was taken since. of: the same by bridge or class (``Lane.room``), and for
    the node under an empty name.
    """

    def __init__(self, lanes: Lanes, in_sessions: Callable[[], Amount], disk: Disk, settings: SettingsNow) -> None:
        """in_sessions: what is in the queues of sessions."""
        self._lanes = lanes
        self._in_sessions = in_sessions
        self._disk = disk
        self._settings = settings
        self.measured: dict[str, list[AdmissionRoom]] = {}
        self.of: dict[str, AdmissionRoom] = {}
        self._free_bytes: int | None = None  # on the disk, when that was

    def forget(self) -> None:
        """Measure anew before anything comes in: limits have changed, or what is there in another way than from turn to turn."""
        self.measured = {}

    def hold(self, frame: Append, now_s: float) -> bool:
        """Whether all of ``frame`` fits, as far as is known without measuring."""
        self._disk.measure_room(now_s)
        measured = self.measured
        if self._disk.free_bytes != self._free_bytes:
            return False
        for part in frame.parts:
            if part[0] not in measured:
                return False
        return fits(frame, measured)

    def measure(self, now_s: float, wanted: Iterable[str]) -> dict[str, list[AdmissionRoom]]:
        """For each queue of a bridge, and the ``wanted`` ones, both rooms as they are now; a wanted one is made if need be."""
        lanes, of_node = self._lanes, self._settings.now.limits
        for name in wanted:
            if name not in lanes.all:
                lanes.open(name)
        self._disk.measure_room(now_s)
        used: dict[str, tuple[int, int]] = {}
        limits = {}
        for lane in lanes.of_bridges.values():
            limits[lane.room] = lane.limits
            messages, size_bytes = used.get(lane.room, (0, 0))
            used[lane.room] = (messages + lane.queue.depth, size_bytes + lane.queue.size_bytes)
        free_bytes = self._free_bytes = self._disk.free_bytes
        messages, size_bytes = self._in_sessions()
        node = AdmissionRoom.of(
            of_node,
            sum(messages for messages, _ in used.values()) + messages,
            sum(size_bytes for _, size_bytes in used.values()) + size_bytes,
            disk_full=free_bytes is not None and free_bytes < of_node.min_free_disk_bytes,
        )
        bridges: dict[str, AdmissionRoom] = {}
        for name, (messages, size_bytes) in used.items():
            disk_full = free_bytes is not None and free_bytes < limits[name].min_free_disk_bytes
            bridges[name] = AdmissionRoom.of(limits[name], messages, size_bytes, disk_full=disk_full)
        for lane in lanes.of_bridges.values():
            if lane.is_unreadable:
                bridges[lane.room] = AdmissionRoom(messages=0, size_bytes=0, overflow=DAMAGED, disk_full=True)
        self.of = {"": node, **bridges}
        rooms = {name: [bridges[lane.room], node] for name, lane in lanes.of_bridges.items()}
        for name in wanted:
            if name not in rooms:
                lane = lanes.all[name]
                room = AdmissionRoom.of(lane.limits, lane.queue.depth, lane.queue.size_bytes, disk_full=False)
                if lane.is_unreadable:
                    room = AdmissionRoom(messages=0, size_bytes=0, overflow="drop-newest")
                rooms[name] = [room, node]
        self.measured = rooms
        return rooms


class ClientRoom:
    """Offers it, and says which batches of remotes wait.

    rooms: what is left of each limit. offers: of those that are not open. news: ``look`` has something to do; so it has while there
    are offers.
    """

    def __init__(self, rooms: Rooms, settings: SettingsNow, *, overflowed: Overflowed, epoch: int) -> None:
        """overflowed: is told that a bridge, a class or the node is full, and by which policy. epoch: of the store."""
        self.rooms = rooms
        self._settings = settings
        self.overflowed = overflowed
        self._epoch = epoch
        self._listener = 0  # its life
        self._number = epoch << NUMBERS_BITS
        self.offers: dict[str, _Offer] = {}
        self._remotes: set[str] = set()  # queues for which a batch from a remote waits
        self._clients_next: set[str] = set()  # queues of which a remote has had the last that was free
        self.news, self._spoken = True, False  # something may be new; the Listener has had the first word

    def settings_changed(self) -> None:
        """Limits have changed: look at all of them."""
        self.rooms.forget()
        self.news = True

    # --- what the Listener says ---

    def resumes(self, epoch: int) -> None:
        """A life of the Listener is there, and knows nothing of this store's room."""
        if epoch >= self._listener:
            self._listener = epoch
            self.offers.clear()
            self._clients_next.clear()
            self.news, self._spoken = True, False

    def on_asked(self, frame: RoomWanted) -> None:
        """Somebody waits for room."""
        if frame.epoch == self._listener:
            for name, amount in frame.wanted.items():
                self.offers.setdefault(name, _Offer(NEAR)).wanted = amount

    # --- batches ---

    def wait_for_room(self, frame: Append, rooms: Mapping[str, Sequence[AdmissionRoom]]) -> bool:
        """Whether a batch from a remote does not fit yet; one that is larger than a limit waits until nothing else is there."""
        waits = False
        for name, room, messages, size_bytes in self._needed(frame, rooms):
            held = self.held(name)
            if name in self._clients_next:
                low = _low_mark(room, self.offers[name])
                held = held[0] + low[0], held[1] + low[1]
            alone = room.empty and held == _NOTHING
            if not (alone or room.fits(messages + held[0], size_bytes + held[1])):
                self._remotes.add(name)
                self.news = waits = True
        return waits

    def heeded(self, frame: Append) -> None:
        """A batch of the Listener comes in: what is held is for later ones."""
        if frame.epoch == self._listener:
            for offer in self.offers.values():
                if offer.number <= frame.room:
                    offer.held = _NOTHING

    def held_ready(self) -> dict[int, Amount]:
        """The room held ready for local clients near a limit, by its identity."""
        return {
            id(self.rooms.of[name]): offer.held
            for name, offer in self.offers.items()
            if offer.held != _NOTHING and name in self.rooms.of
        }

    def on_admitted(self, frame: Append, rooms: Mapping[str, Sequence[AdmissionRoom]]) -> None:
        """A batch is in, and has taken its room."""
        if frame.sender != LISTENER and self.offers:
            needed = {name for name, *_ in self._needed(frame, rooms)}
            self._clients_next |= {name for name in needed if name in self.offers and self.offers[name].wanted != _NOTHING}
        if self.news:
            return
        settings = self._settings.now
        most, most_bytes = UNDER_WAY_ROWS, UNDER_WAY_BATCHES * (BATCH_BYTES_MAX + settings.clients.packet_max_bytes)
        for name, *_ in frame.parts:
            for room, copies in zip(rooms[name], (1, len(settings.bridges) or 1), strict=True):  # without a call for each
                if room.overflow in REFUSING and (
                    room.disk_full
                    or (room.messages is not None and room.messages < most * copies)
                    or (room.size_bytes is not None and room.size_bytes < most_bytes * copies)
                ):
                    self.news = True

    def held(self, name: str) -> Amount:
        """The room held ready for local clients in the queues of a bridge, or in the node."""
        offer = self.offers.get(name)
        return self._most(name) if offer is None else offer.held

    def beside_clients(self, now_s: float, queues: Sequence[str]) -> Mapping[str, Sequence[AdmissionRoom]]:
        """The rooms of a bridge's ``queues``, less what is held ready for clients; for something else that fills them."""
        rooms = self.rooms.measure(now_s, queues)
        wanted = {id(room) for queue in queues for room in rooms[queue]}
        for name in [name for name, room in self.rooms.of.items() if id(room) in wanted]:
            if self.rooms.of[name].refuses:
                self.rooms.of[name].take(*self.held(name))
        self.rooms.forget()
        self.news = True
        return rooms

    def _needed(self, frame: Append, rooms: Mapping[str, Sequence[AdmissionRoom]]) -> Iterator[tuple[str, AdmissionRoom, int, int]]:
        names = {id(room): name for name, room in self.rooms.of.items()}
        for room, messages, size_bytes in wanted(frame, rooms, volatile=False):
            name = names.get(id(room))
            if name is not None and room.refuses:
                yield name, room, messages, size_bytes

    # --- what the Listener is told ---

    def report_changes(self, now_s: float, wall_ms: int) -> Effects:
        """What has changed for the Listener, at the end of a turn."""
        if not self._listener:  # it is told all when it comes
            self.news = False
            return []
        self.rooms.measure(now_s, ())
        queues = {name: self._open(name) for name in self.offers if name not in self.rooms.of}  # of classes without limits by now
        for name, room in self.rooms.of.items():
            said = self._judge(name, room)
            if said is not None:
                queues[name] = said
            offer = self.offers.get(name)
            if offer is not None and offer.state == FULL:
                self.overflowed(name, "min_free_disk" if room.disk_full else room.overflow, 0, now_s, wall_ms)
        self._remotes.clear()
        self.news = False
        if not queues and self._spoken:
            return []
        self._spoken = True
        self._number += 1
        return [(LISTENER, intake.Room(epoch=self._listener, store=self._epoch, number=self._number, queues=queues))]

    def _judge(self, name: str, room: AdmissionRoom) -> tuple[int, int, int] | None:
        """What the Listener is to be told of a queue; None for nothing."""
        offer = self.offers.get(name)
        copies = 1 if name else self._copies
        if not room.refuses:
            return None if offer is None else self._open(name)
        if offer is None:
            if self._is_wide(room, copies) and name not in self._remotes:
                return None
            self.offers[name] = _Offer(NEAR, self._most(name), self._number + 1)
            return NEAR, 0, 0
        if offer.held == _NOTHING and self._is_wide(room, 2 * copies) and name not in self._remotes:
            return self._open(name)
        if offer.state == FULL and not room.fits(*_low_mark(room, offer)):
            return None
        if offer.state == NEAR and offer.wanted == _NOTHING:
            return None
        if offer.state == NEAR and not room.fits(*offer.wanted):
            offer.state = FULL
            return FULL, 0, 0
        return self._grant(name, room, offer)

    def _open(self, name: str) -> tuple[int, int, int]:
        del self.offers[name]
        self._clients_next.discard(name)
        return OPEN, 0, 0

    def _grant(self, name: str, room: AdmissionRoom, offer: _Offer) -> tuple[int, int, int] | None:
        """Room for the batch that is being built; None while an earlier offer stands, or a remote has its turn."""
        if offer.held != _NOTHING or (name in self._remotes and name not in self._clients_next):
            return None
        messages, size_bytes = self._most(name)
        messages = messages if room.messages is None else min(room.messages, messages)
        size_bytes = size_bytes if room.size_bytes is None else min(room.size_bytes, size_bytes)
        self.offers[name] = _Offer(NEAR, (messages, size_bytes), self._number + 1)
        self._clients_next.discard(name)
        return NEAR, messages, size_bytes

    def _is_wide(self, room: AdmissionRoom, times: int) -> bool:
        """Whether so many times what may be under way fits."""
        return room.fits(UNDER_WAY_ROWS * times, _under_way_bytes(self._settings.now.clients) * times)

    def _most(self, name: str) -> Amount:
        """What may be under way for a queue of whose limit the Listener knows nothing."""
        copies = 1 if name else self._copies
        return UNDER_WAY_ROWS * copies, _under_way_bytes(self._settings.now.clients) * copies

    @property
    def _copies(self) -> int:
        """Of a message, how many count for the node at most."""
        return max(1, len(self._settings.now.bridges))


def _under_way_bytes(clients: ClientLimitSettings) -> int:
    return UNDER_WAY_BATCHES * (BATCH_BYTES_MAX + clients.packet_max_bytes)


def _low_mark(room: AdmissionRoom, offer: _Offer) -> Amount:
    """The room that has to be free in a queue that was full."""
    messages = 0 if room.max_messages is None else room.max_messages // LOW_MARK
    size_bytes = 0 if room.max_bytes is None else room.max_bytes // LOW_MARK
    return max(1, messages, offer.wanted[0]), max(1, size_bytes, offer.wanted[1])
