"""The one codec of frames: to the parts of a ZeroMQ multipart message and back.

Part 0 is the msgpack array ``[kind, version, field, ...]``, the parts after it are the encoded batches named ``bodies`` in the
class. An actor that only passes a batch on never unpacks it. Figures are arrays of their values, by place. Unknown kinds and
versions are refused with ``UnknownFrame``. Golden bytes in ``tests/wire/`` pin the format.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from wire.errors import UnknownFrame
from wire.figure import values_of
from wire.frames import intake, lanes, subscriptions, supervision, traces
from wire.frames.frame import HEADS, KINDS, NAMES, Frame

_pack = msgpack.Packer(
    default=values_of
).pack  # one that is kept costs half of one that is made each time; only one thread of a process has frames
KIND_MODULES = (intake, subscriptions, lanes, supervision, traces)  # imported, so that each of their kinds is known


def encode(frame: Frame) -> list[bytes]:
    """The parts of ``frame`` for one ZeroMQ multipart message."""
    has_bodies, head = HEADS[type(frame)]
    parts: list[bytes] = [_pack((frame.KIND, frame.VERSION, *head(frame)))]
    if has_bodies:
        parts.extend(frame.bodies)  # type: ignore[attr-defined]  # has_bodies says that the field is there
    return parts


def decode(parts: Sequence[bytes]) -> Frame:
    """The frame that ``encode`` made.

    Raises:
        UnknownFrame: the kind or its version is not known here, or the fields are not those of the kind.
    """
    try:
        kind, version, *values = msgpack.unpackb(parts[0], use_list=False, strict_map_key=False)
    except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
        raise UnknownFrame("not a frame", length=len(parts[0]) if parts else 0) from error
    cls = KINDS.get(kind)
    if cls is None or version != cls.VERSION:
        raise UnknownFrame("unknown frame kind or version", kind=kind, version=version)
    names = NAMES[cls]
    if len(names) != len(values):
        raise UnknownFrame("frame with the wrong number of fields", kind=kind, fields=len(values))
    known = dict(zip(names, values, strict=True))
    if HEADS[cls][0]:
        known["bodies"] = tuple(parts[1:])
    return cls(**known)
