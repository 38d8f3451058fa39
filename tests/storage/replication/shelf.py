"""A stand-in for the store: numbered messages of some clients, in rows, each once. Like the store it keeps a refused write."""

from __future__ import annotations

import struct
from collections.abc import Callable

from storage.engine.engine import Engine, Write
from tests.storage.replication.disk_double import Rows
from wire.errors import Unavailable

_ROW = struct.Struct(">QQ")
_TAIL = b"tail"


class Shelf:
    """Over ``engine``. Memory is read from it once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tail = int(engine.get("meta", _TAIL) or 0)
        self._newest = {key[4]: int(value) for key, value in engine.scan("meta", b"last", b"lasu")}
        self._write = Write()
        self._refused = False

    def put(self, client: int, number: int, payload_bytes: int, told: Callable[[], None]) -> None:
        """Take a message, unless it is there already; ``told`` once it is committed."""
        write = self._write
        write.promised = True
        if number == self._newest.get(client, 0) + 1:
            write.put("msg", b"rows" + self._tail.to_bytes(8, "big"), _ROW.pack(client, number) + bytes(payload_bytes))
            self._tail += 1
            self._newest[client] = number
            write.put("meta", _TAIL, str(self._tail).encode())
            write.put("meta", b"last" + bytes([client]), str(number).encode())
        write.on_commit(told)

    def commit(self) -> bool:
        """Commit what is open; whether it was. If not, it is tried again, with what comes to it.

        Raises:
            Replaced: another member leads.
        """
        if not self._write:
            return True
        try:
            if self._refused:
                self._engine.reopen()
                self._refused = False
            self._engine.commit(self._write, sync=True)
        except Unavailable:
            self._refused = True
            return False
        self._write = Write()
        return True


def read_row(value: bytes) -> tuple[int, int]:
    """(client, number)."""
    client, number = _ROW.unpack_from(value)
    return client, number


def read_shelf(content: Rows) -> list[tuple[int, int]]:
    """(client, number) of each row, in order."""
    return [read_row(value) for (family, _), value in sorted(content.items()) if family == "msg"]
