"""What the tests of the store build with: settings, batches, frames, and an engine whose power can be cut."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from storage.engine import Family, Write
from storage.memory import MemoryEngine
from storage.pieces import Piece
from wire.batch import REFUSABLE, Batch, from_rows, pack_column, unpack_column
from wire.errors import DiskFull, Unavailable
from wire.frames import Append, HandOut, Ranges, Settle
from wire.settings import (
    AccessSettings,
    BackoffSettings,
    BridgeSettings,
    ClientLimitSettings,
    LimitSettings,
    LoginLimitSettings,
    NodeSettings,
    PersistenceSettings,
    RefusalSettings,
    RemoteSettings,
    SupervisionSettings,
    TlsSettings,
)

QUEUE = "bridge:cloud:0"
FORWARDER = "forwarder:cloud:0"
BACKOFF = BackoffSettings(initial_s=1.0, max_s=120.0, factor=2.0, jitter=0.25, stable_s=30.0)


def limits(
    *,
    max_messages: int | None = None,
    max_bytes: int | None = None,
    max_age_s: float | None = None,
    min_free_disk_bytes: int = 0,
    volatile_max_bytes: int = 1 << 20,
    overflow: str = "reject",
) -> LimitSettings:
    return LimitSettings(
        max_messages=max_messages,
        max_bytes=max_bytes,
        max_age_s=max_age_s,
        min_free_disk_bytes=min_free_disk_bytes,
        volatile_max_bytes=volatile_max_bytes,
        overflow=overflow,
    )


def bridge(name: str = "cloud", *, lanes: int = 1, limit: LimitSettings | None = None) -> BridgeSettings:
    tls = TlsSettings(ca_file="", cert_file="", key_file="", verify=True, server_name="", alpn=())
    remote = RemoteSettings(
        addresses=(("localhost", 1883),),
        protocol=4,
        transport="tcp",
        client_id=name,
        keep_alive_s=60,
        connect_timeout_s=5.0,
        clean_start=False,
        session_expiry_s=3600,
        username=None,
        password_file=None,
        tls=tls,
        websocket_path="/mqtt",
        receive_maximum=1000,
        qos2_maximum=20,
        stall_timeout_s=30.0,
    )
    return BridgeSettings(
        name=name,
        remote=remote,
        persist=True,
        backoff=BACKOFF,
        lanes=lanes,
        tier2_max_messages=1000,
        tier2_max_bytes=1 << 20,
        local_subscriptions=(),
        remote_subscriptions=(),
        loop_prevention=False,
        max_hops=1,
        on_session_loss="assume-delivered",
        on_refusal=RefusalSettings(default="dead-letter", codes=((0x91, "retry"), (0x97, "retry"))),
        limits=limit or limits(),
    )


def node(
    *bridges: BridgeSettings,
    limit: LimitSettings | None = None,
    mode: str = "file-native",
    acknowledge: str = "after-commit",
    flush_period_s: float = 0.0,
    sync: str = "full",
    data_dir: str = "/nonexistent",
    run_dir: str = "/nonexistent",
) -> NodeSettings:
    return NodeSettings(
        name="node",
        data_dir=data_dir,
        run_dir=run_dir,
        log_level="INFO",
        listeners=(),
        access=AccessSettings(
            allow_anonymous=True, login_limits=LoginLimitSettings(failures_max=None, period_s=60.0, block_s=60.0)
        ),
        clients=ClientLimitSettings(
            connections_max=10,
            connect_timeout_s=5.0,
            packet_max_bytes=1 << 20,
            output_max_bytes=1 << 20,
            subscriptions_max=10,
            keep_alive_max_s=60,
            receive_maximum=100,
        ),
        persistence=PersistenceSettings(mode=mode, acknowledge=acknowledge, flush_period_s=flush_period_s, sync=sync),
        limits=limit or limits(),
        bridges=bridges or (bridge(),),
        supervision=SupervisionSettings(
            heartbeat_period_s=1.0,
            heartbeat_timeout_s=5.0,
            restarts_max=5,
            restart_period_s=30.0,
            restart_backoff=BACKOFF,
            stop_timeout_s=5.0,
        ),
    )


def batch(payloads: Sequence[bytes], qos: Sequence[int] | int = 1, *, accepted_ms: int = 1000, refusable: bool = True) -> Batch:
    levels = [qos] * len(payloads) if isinstance(qos, int) else list(qos)
    flag = REFUSABLE if refusable else 0
    return from_rows(
        [(b"t", level | flag, payload) for level, payload in zip(levels, payloads, strict=True)], accepted_ms=accepted_ms
    )


def qos0_rows(of: Batch) -> int:
    return sum(1 for flags in of.flags if not flags & 3)


def append_frame(
    number: int,
    parts: dict[str, tuple[Batch, Sequence[int] | None]],
    *,
    rows: int | None = None,
    sources: Sequence[int] | None = None,
    refusable: bytes | None = None,
    received: dict[str, tuple[Sequence[int], Sequence[int]]] | None = None,
    released: dict[str, Sequence[int]] | None = None,
    sender: str = "listener",
    epoch: int = 1,
) -> Append:
    """An Append; each part is (batch, row numbers in the original, None for all of them)."""
    count = rows if rows is not None else max((len(of) for of, _ in parts.values()), default=0)
    return Append(
        sender=sender,
        epoch=epoch,
        number=number,
        sources=pack_column(array("I", sources if sources is not None else [1] * count)),
        received={name: (u16(ids), u16(at)) for name, (ids, at) in (received or {}).items()},
        released={name: u16(ids) for name, ids in (released or {}).items()},
        refusable=refusable if refusable is not None else bytes([REFUSABLE]) * count,
        parts=tuple(
            (queue, len(of), of.size_bytes(), qos0_rows(of), b"" if at is None else u16(at)) for queue, (of, at) in parts.items()
        ),
        bodies=tuple(of.encode() for of, _ in parts.values()),
    )


def settle_frame(
    number: int,
    epoch: int,
    *settled: tuple[str, Ranges],
    released: Ranges = (),
    session: str | None = None,
    generation: int = 0,
    queue: str = QUEUE,
) -> Settle:
    return Settle(
        queue=queue, epoch=epoch, number=number, settled=settled, released=released, session=session, generation=generation
    )


def u16(values: Sequence[int]) -> bytes:
    return pack_column(array("H", values))


def messages(piece: Piece | HandOut) -> list[tuple[int, bytes]]:
    """(sequence, payload) of each row."""
    body = piece.body if isinstance(piece, Piece) else piece.bodies[0]
    payloads = Batch.decode(body).rows_payloads()
    offsets = unpack_column("I", piece.offsets) if piece.offsets else range(piece.count)
    assert piece.count == len(payloads)
    return [(piece.first_seq + offset, payload) for offset, payload in zip(offsets, payloads, strict=True)]


class RecordingEngine(MemoryEngine):
    """A durable engine in memory that remembers every write, so that a kill or a power cut can be made at any of them."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[list[tuple[str, Family, bytes, bytes]], bool]] = []
        self.refusing = False
        self.blind = False
        self.free: int | None = None

    def commit(self, write: Write, *, sync: bool) -> None:
        if self.refusing:
            raise DiskFull("no space left")
        self.writes.append((list(write.ops), sync))
        self.apply(write)
        write.committed()

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
        """What is on disk if only the first ``kept`` writes are."""
        engine = RecordingEngine()
        for ops, _ in self.writes[:kept]:
            write = Write()
            write.ops = ops
            engine.apply(write)
        return engine
