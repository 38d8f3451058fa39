"""Messages that enter a queue once more, from its history or from a file: who orders it, and what is on record of it.

store.resent-once: what is said to be sent again is appended by the commit that says so, and nothing else comes twice.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

import msgpack

from storage.engine.keys import resends_key
from tests.simulation.options import FILE_TOPIC
from tests.simulation.publisher import Message
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.disk import Ops

FIRST_NUMBER = 700
FROM_FILE = -2  # stands for the number of a publisher


def imported_messages(seed: int, min_qos: int, max_qos: int) -> Iterator[Message]:
    """The messages of a file."""
    rng = Random(f"import {seed}")
    for number in range(FIRST_NUMBER, FIRST_NUMBER + rng.choice((1, 3, 8))):
        yield Message(number, FROM_FILE, 0.0, FILE_TOPIC, max(min_qos, min(rng.choice((1, 2, 2)), max_qos)), rng.choice((0, 5, 40)))


def line_of(message: Message) -> str:
    """``message`` as a line of an export."""
    fields = {"topic": message.topic, "qos": message.qos, "retain": False, "destination": "up/{#}"}
    return json.dumps(fields | {"payload_base64": b64encode(message.payload).decode()})


class ResendsSeen:
    """What was sent again into the queues of one bridge. again: payload -> how often it may have been."""

    def __init__(self, bridge: str) -> None:
        self.again: Counter[bytes] = Counter()
        self.key = resends_key(bridge)  # of the row
        self._messages = 0

    @staticmethod
    def total(row: bytes | None) -> int:
        """How many were sent again ever, as the ``row`` says."""
        return 0 if row is None else sum(msgpack.unpackb(row, strict_map_key=False)[1].values())

    def forgotten(self) -> None:
        """The disk is read anew."""
        self._messages = 0

    def wrote(self, ops: Ops, appended: Iterable[bytes], known: Collection[bytes], *, judged: bool) -> None:
        """A commit that put ``appended`` payloads into queues, of which ``known`` ones had been there, or come from a file."""
        for operation, family, key, value in ops:
            if family != "meta" or key != self.key or operation != "put":
                continue
            before, self._messages = self._messages, max(self._messages, self.total(value))
            more = self._messages - before
            if not more or not judged:
                continue
            found = [payload for payload in appended if payload in known]
            if len(found) < more:
                raise Violation("store.resent-once", f"{more} are said to be sent again, and {len(found)} are appended")
            self.again.update(found)


def lines_of(messages: Sequence[Message]) -> str:
    """The lines of ``messages``."""
    return "\n".join(map(line_of, messages))
