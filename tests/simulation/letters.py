"""The dead-letter queues as their bytes on the disk show them, and what the commits to them must keep.

queue.dead-letters-add-up: ever = held + evicted + purged + replayed, and is what the ledgers of the bridge's queues count as dead;
    held is what is there.
queue.dead-or-queued-never-both: a letter leaves by a replay only in the commit that puts its message back into a queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgpack

from storage.queue.dead_letters import DeadRow
from tests.simulation.disk import Ops
from tests.simulation.world import Violation

PREFIX = "dead:"


def parse_letter(value: bytes) -> tuple[str, int, bytes]:
    """The place of a dead letter, and its payload."""
    fields = msgpack.unpackb(value[5:])
    return fields[2], fields[3], fields[6]


class LettersSeen:
    """Every dead-letter queue of the node."""

    def __init__(self) -> None:
        self.replays: Counter[bytes] = Counter()  # payload -> how often it went back
        self._held: dict[tuple[str, int], bytes] = {}  # queue and place -> payload
        self._ever: dict[tuple[str, int], bytes] = {}
        self._purged: dict[tuple[str, int], bytes] = {}
        self._replayed: set[tuple[str, int]] = set()
        self.closed_on: set[bytes] = set()  # payloads of what died because the remote closed the connection on it

    def forget(self) -> None:
        """The disk is read anew; what left by then is not there, or is held again."""
        self._held.clear()

    def wrote(self, ops: Ops, names: Mapping[int, str], appended: Counter[bytes]) -> list[tuple[str, int, bytes]]:
        """A commit; ``appended`` payloads went into queues. The letters that came: where each was, and its payload.

        Raises:
            Violation: queue.dead-or-queued-never-both.
        """
        came = []
        for operation, family, key, value in ops:
            name = names.get(int.from_bytes(key[:4], "big"), "") if family == "msg" else ""
            if not name.startswith(PREFIX):
                continue
            place = (name, int.from_bytes(key[4:12], "big"))
            if operation == "put":
                letter = parse_letter(value)
                if msgpack.unpackb(value[5:])[0] == "connection_closed":
                    self.closed_on.add(letter[2])
                came.append(letter)
                self._held[place] = self._ever[place] = letter[2]
                self._purged.pop(place, None)
                if place in self._replayed:  # the commit that took it out was lost with the power
                    self._replayed.discard(place)
                    self.replays[letter[2]] -= 1
            elif operation == "delete":
                payload = self._held.pop(place, None)
                if payload is None:
                    continue  # a refused write that is made again
                self._replayed.add(place)
                self.replays[payload] += 1
                if not appended[payload]:
                    raise Violation(
                        "queue.dead-or-queued-never-both", f"{name}: {payload!r} was taken out and not put back into a queue"
                    )
            else:
                self._range_deleted(name, place[1], int.from_bytes(value[4:12], "big"))
        return came

    def _range_deleted(self, name: str, low: int, high: int) -> None:
        for place in [place for place in self._held if place[0] == name and low <= place[1] < high]:
            self._purged[place] = self._held.pop(place)

    def row(self, name: str, row: DeadRow, dead: int) -> None:
        """queue.dead-letters-add-up: a row was written; ``dead`` is what the ledgers count."""
        held = sum(1 for queue, seq in self._held if queue == name and seq >= row.head)
        if row.held != held:
            raise Violation("queue.dead-letters-add-up", f"{name}: {row.held} held in the row, {held} letters are there")
        if row.ever != dead or row.damaged:
            raise Violation("queue.dead-letters-add-up", f"{name}: {row}, and the ledgers count {dead}")

    def accounted(self) -> set[bytes]:
        """The payloads that are held, or were purged."""
        return {*self._held.values(), *self._purged.values()}
