"""How far a store has come in the log: a row of its own, written with what the record changes, so that the two never differ.

A store that is written without the log belongs to it no more (replication.foreign-log-left-alone).
"""

from __future__ import annotations

import msgpack

from storage.engine.engine import Engine, Write
from wire.errors import StorageDamaged
from wire.frozen_records import record

POSITION_KEY = b"G"
_VERSION = 1


@record
class Position:
    """log: which one; empty where the store belongs to none. sequence, number: of the last message, and of the last record.

    term, leader, node, address, lease_s: who leads, as of that record. epoch: no process of an earlier leader had a higher one.
    released: the leader has stepped down, for ``successor`` if that is named.
    """

    log: str = ""
    sequence: int = 0
    number: int = 0
    term: int = 0
    leader: str = ""
    node: str = ""
    address: str = ""
    lease_s: float = 0.0
    epoch: int = 0
    released: bool = False
    successor: str = ""

    def encode(self) -> bytes:
        fields = (self.log, self.sequence, self.number, self.term, self.leader, self.node, self.address, self.lease_s, self.epoch)
        packed: bytes = msgpack.packb((_VERSION, *fields, self.released, self.successor))
        return packed


def read_position(engine: Engine) -> Position:
    """The position of the store.

    Raises:
        StorageDamaged: its row is damaged.
        Unavailable: the disk refuses.
    """
    row = engine.get("meta", POSITION_KEY)
    if row is None:
        return Position()
    try:
        version, *fields = msgpack.unpackb(row, use_list=False)
        if version != _VERSION:
            raise ValueError(version)
        return Position(*fields)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageDamaged("the row that says how far the store has come in the log is damaged") from error


def leave(engine: Engine) -> bool:
    """Have the store belong to no log from now on; whether it belonged to one. Its contents stay
    (replication.foreign-log-left-alone).

    Raises:
        Unavailable: the disk refuses.
    """
    if engine.get("meta", POSITION_KEY) is None:
        return False
    write = Write()
    write.delete("meta", POSITION_KEY)
    engine.commit(write, sync=True)
    return True
