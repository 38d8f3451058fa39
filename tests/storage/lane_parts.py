"""The lanes of a node and the rooms of their queues, without the rest of the store."""

from __future__ import annotations

from storage.engine.queue_numbers import QueueNumbers
from storage.store.client_room import Rooms
from storage.store.dead_letter_queues import DeadLetterQueues
from storage.store.disk_trouble import Disk
from storage.store.event_log import EventLog
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from storage.store.session_queues import SessionQueues
from storage.store.session_rows import Sessions
from tests.storage.building import RecordingEngine, batch
from wire.config_settings import NodeSettings, SettingsNow


class Parts:
    """The lanes of a node, and the rooms of their queues."""

    def __init__(self, engine: RecordingEngine, settings: NodeSettings) -> None:
        self.engine = engine
        now = SettingsNow(settings)
        events = EventLog(engine, now)
        numbers = QueueNumbers(engine)
        self.disk = Disk(engine, now, tell=events.disk)
        self.next_commit = NextCommit(engine, self.disk, now)
        dead_letters, sessions = DeadLetterQueues(engine, numbers, now), Sessions(engine)
        self.lanes = Lanes(self.next_commit, now, numbers, dead_letters, sessions, keeps_history=lambda bridge: False, first_seq=0)
        self.session_queues = SessionQueues(engine, self.lanes, numbers, self.next_commit, epoch=1)
        self.rooms = Rooms(self.lanes, lambda: (self.session_queues.messages, self.session_queues.size_bytes), self.disk, now)

    def put(self, name: str, *payloads: bytes) -> None:
        of, write = batch(payloads), self.next_commit.write
        self.lanes.all[name].queue.append(of.encode(), len(of), of.size_bytes(), 0, write)
        self.commit()

    def commit(self) -> None:
        self.engine.commit(self.next_commit.write, sync=True)
        self.next_commit.on_done(1.0, written=True)

    def messages(self, name: str, now_s: float = 10.0) -> list[int | None]:
        """The room of the bridge or session, and that of the node."""
        return [room.messages for room in self.rooms.measure(now_s, [name])[name]]
