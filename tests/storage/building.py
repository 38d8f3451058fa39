"""Builders for the tests of the store: settings, batches, frames, and an engine whose power can be cut."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from storage.engine.engine import FAMILIES, Family, RocksEngine, Write
from storage.engine.memory_engine import MemoryEngine
from storage.queue.chunk import Chunk
from storage.store.store import Store
from tests.support import settings
from tests.support.settings import limits
from tests.support.waiting import wait_until
from wire.config_settings import BridgeSettings, LimitSettings, NodeSettings, PersistenceSettings
from wire.durability import Durability
from wire.errors import DiskFull, Unavailable
from wire.exchange.former_sessions import LeftRows
from wire.frames.batch import Batch, from_rows, pack_column, raised_rows, unpack_column
from wire.frames.frame import Ranges
from wire.frames.intake import Append, SessionOpen, SessionOpened
from wire.frames.lanes import HandOut, LaneOpen, Settle
from wire.frames.names import RETAINED, connection_name, lane_of_queue, remote_session_name
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.routing.retained_topics import pack_owned

QUEUE = "bridge:cloud:0"
FORWARDER = "forwarder:cloud:0"
STRICTEST = PersistenceSettings()
_BUSY = ("num-running-flushes", "mem-table-flush-pending", "num-running-compactions", "compaction-pending")


def wait_idle(engine: RocksEngine) -> None:
    """Wait until RocksDB has flushed and compacted what it wants to: until then its files come and go."""
    columns = [engine.database.columns[family] for family in FAMILIES]
    wait_until(
        lambda: (
            not engine.database.is_merging
            and not any(column.property_int_value(f"rocksdb.{name}") for column in columns for name in _BUSY)
        ),
        60.0,
        "RocksDB has nothing to do",
    )


def bridge(name: str = "cloud", *, lanes: int = 1, limit: LimitSettings | None = None) -> BridgeSettings:
    return settings.bridge(name, lanes, limits=limit or limits())


def node(
    *bridges: BridgeSettings,
    limit: LimitSettings | None = None,
    mode: str = "file-native",
    acknowledge: str = "after-commit",
    flush_period_s: float = 0.0,
    sync: str = "full",
    **changed: Any,
) -> NodeSettings:
    """A node whose store is to be durable, with the one bridge if none is given."""
    persistence = PersistenceSettings(mode=mode, acknowledge=acknowledge, flush_period_s=flush_period_s, sync=sync)
    return settings.node(*(bridges or (bridge(),)), limits=limit or limits(), persistence=persistence, **changed)


def batch(payloads: Sequence[bytes], qos: Sequence[int] | int = 1, *, accepted_ms: int = 1000) -> Batch:
    levels = [qos] * len(payloads) if isinstance(qos, int) else list(qos)
    return from_rows([(b"t", level, payload) for level, payload in zip(levels, payloads, strict=True)], accepted_ms=accepted_ms)


def qos0_rows(of: Batch) -> int:
    return sum(1 for flags in of.flags if not flags & 3)


def append_frame(
    number: int,
    parts: dict[str, tuple[Batch, Sequence[int] | None]],
    *,
    rows: int | None = None,
    received: dict[str, Sequence[int]] | None = None,
    released: dict[str, Sequence[int]] | None = None,
    sender: str = "listener",
    epoch: int = 1,
    owner: str = "",
    thinned: Sequence[str] = (),
    promised: PersistenceSettings = STRICTEST,
) -> Append:
    """An Append; each part is (batch, row numbers in the original, None for all of them). owner: of what is to be retained.

    promised: as what wants how strongly it is kept.
    """
    count = rows if rows is not None else max((len(of) for of, _ in parts.values()), default=0)
    return Append(
        sender=sender,
        epoch=epoch,
        number=number,
        rows=count,
        received={name: u16(ids) for name, ids in (received or {}).items()},
        released={name: u16(ids) for name, ids in (released or {}).items()},
        raised={queue: found for queue, (of, _) in parts.items() if any(found := raised_rows(of.flags))},
        thinned=tuple(thinned),
        durability=Durability.of(promised),
        parts=tuple(
            (queue, len(of), of.size_bytes(), qos0_rows(of), b"" if at is None else u16(at)) for queue, (of, at) in parts.items()
        ),
        bodies=tuple(pack_owned(of, [owner] * len(of)) if queue == RETAINED else of.encode() for queue, (of, _) in parts.items()),
    )


def settle_frame(
    number: int,
    epoch: int,
    *settled: tuple[str, Ranges],
    released: Ranges = (),
    session: str | None = None,
    generation: int = 0,
    queue: str = QUEUE,
    left: LeftRows = (),
) -> Settle:
    return Settle(
        queue=queue,
        epoch=epoch,
        number=number,
        settled=settled,
        released=released,
        session=session,
        generation=generation,
        left=left,
    )


def remote_session(
    store: Store, *, session: str = "edge@here", number: int = 0, request: int = 1, queue: str = QUEUE, **opening: Any
) -> tuple[str, SessionOpened]:
    """The name of a lane's ``session``, on record under ``number``, and the store's answer when it is opened."""
    place = lane_of_queue(queue)
    assert place is not None
    sender = connection_name(*place)
    name = remote_session_name(sender, session, number)
    asked: dict[str, Any] = {
        "sender": sender,
        "epoch": 1,
        "request": request,
        "session": name,
        "clean": False,
        "expiry_s": SESSION_NEVER_EXPIRES_S,
    }
    store.receive(SessionOpen(**asked | opening))
    effects = [*store.admit(100.0, 1000), *store.commit(100.0, 1000)]
    (opened,) = [frame for _, frame in effects if isinstance(frame, SessionOpened)]
    return name, opened


def with_remote_session(store: Store, *, session: str = "edge@here", epoch: int = 1 << 20, queue: str = QUEUE) -> str:
    """Open a lane under ``epoch``, and put a session on record at its remote; its name."""
    store.receive(LaneOpen(queue=queue, epoch=epoch))
    store.receive(settle_frame(1, epoch, session=session, queue=queue))
    store.commit(100.0, 1000)
    return remote_session(store, session=session, queue=queue)[0]


def u16(values: Sequence[int]) -> bytes:
    return pack_column(array("H", values))


def messages(piece: Chunk | HandOut) -> list[tuple[int, bytes]]:
    """(sequence, payload) of each row."""
    body = piece.body if isinstance(piece, Chunk) else piece.bodies[0]
    payloads = Batch.decode(body).rows_payloads()
    assert piece.count == len(payloads)
    if isinstance(piece, Chunk):
        seqs = piece.seqs()
    else:
        offsets = unpack_column("I", piece.offsets) if piece.offsets else range(piece.count)
        seqs = [piece.first_seq + offset for offset in offsets]
    return list(zip(seqs, payloads, strict=True))


class RecordingEngine(MemoryEngine):
    """A durable engine in memory that remembers every write, so that a kill or a power cut can be made at any of them."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[list[tuple[str, Family, bytes, bytes]], bool]] = []
        self.refusing = False
        self.blind = False
        self.free: int | None = None

    def commit(self, write: Write, *, sync: bool) -> float:
        if self.refusing:
            raise DiskFull("no space left")
        self.writes.append((list(write.ops), sync))
        self.apply(write)
        write.committed()
        return 0.001

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        if self.blind:
            raise Unavailable("input/output error")
        return super().seek_before(family, key, low)

    def free_bytes(self) -> int | None:
        return self.free

    def reopen(self) -> None:
        if self.refusing:
            raise DiskFull("no space left")

    def survivors(self, first: int = 0) -> Iterator[tuple[int, int, RecordingEngine]]:
        """Every (writes issued, writes kept, what is there): a kill keeps all that was issued, a power cut what was synced."""
        for issued in range(first, len(self.writes) + 1):
            synced = max((index + 1 for index in range(issued) if self.writes[index][1]), default=0)
            for kept in range(synced, issued + 1):
                yield issued, kept, self.rebuilt(kept)

    def rebuilt(self, kept: int) -> RecordingEngine:
        """The rows on disk if only the first ``kept`` writes are."""
        engine = RecordingEngine()
        for ops, _ in self.writes[:kept]:
            write = Write()
            write.ops = ops
            engine.apply(write)
        return engine
