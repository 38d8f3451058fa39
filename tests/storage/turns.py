"""One turn of a store, the lane that most tests open, and what came out."""

from __future__ import annotations

from storage.store.store import Store
from tests.storage.building import (
    QUEUE,
    STRICTEST,
    append_frame,
    batch,
    messages,
)
from wire.config_settings import PersistenceSettings
from wire.frames.frame import Effects, Frame, FrameType
from wire.frames.intake import SessionOpen, SessionOpened
from wire.frames.lanes import Credit, HandOut, LaneOpen

EPOCH = 7 << 20
NEXT_LIFE = 8 << 20  # of the process that opens the lane
MANY = 1 << 40


def turn(store: Store, *frames: Frame, now_s: float = 100.0, wall_ms: int = 5000) -> Effects:
    for frame in frames:
        store.receive(frame)
    return [*store.admit(now_s, wall_ms), *store.commit(now_s, wall_ms)]


def of(effects: Effects, kind: type[FrameType]) -> list[FrameType]:
    return [frame for _, frame in effects if isinstance(frame, kind)]


def open_lane(store: Store, epoch: int = EPOCH, messages: int = 10_000) -> Effects:
    first = turn(store, LaneOpen(queue=QUEUE, epoch=epoch))
    return first + turn(store, Credit(queue=QUEUE, epoch=epoch, messages=messages, size_bytes=MANY))


def handed(effects: Effects) -> list[bytes]:
    return [payload for frame in of(effects, HandOut) for _, payload in messages(frame)]


def publishes(number: int, *payloads: bytes, qos: int = 1, epoch: int = 1, promised: PersistenceSettings = STRICTEST) -> Frame:
    return append_frame(number, {QUEUE: (batch(payloads, qos), None)}, epoch=epoch, promised=promised)


def session_open(store: Store, request: int, *, clean: bool, keep: bool = True, epoch: int = 1) -> SessionOpened:
    frame = SessionOpen(sender="listener", epoch=epoch, request=request, session="c", clean=clean, expiry_s=60 if keep else 0)
    return of(turn(store, frame), SessionOpened)[0]
