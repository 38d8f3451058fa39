"""The numbers by which keys name queues; the queues' names are beside them in ``meta``."""

from __future__ import annotations

from collections.abc import Callable

from storage.engine.engine import Engine, Write
from storage.engine.keys import HIGHEST_NUMBER, QUEUE_NAME


class QueueNumbers:
    """The numbers of the queues, by name.

    engine.number-never-twice [P2, P3]: no number in the store is given twice, not even after its queue is gone.

    Queues that come and go have numbers of their own, from ``SHORT_LIVED`` on.
    """

    SHORT_LIVED = 1 << 16

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._given = 0
        self._numbers = {key[1:].decode(): int.from_bytes(value, "big") for key, value in engine.scan("meta", QUEUE_NAME, b"O")}
        gone = int.from_bytes(engine.get("meta", HIGHEST_NUMBER) or b"", "big")
        self._highest_short_lived = max(self.SHORT_LIVED, gone, *self._numbers.values(), 0)

    def names(self) -> list[str]:
        """Every queue that the store has, configured or not."""
        return sorted(self._numbers)

    def number(self, name: str) -> int:
        """The number of the queue ``name``; a new one is durable before it is returned."""
        number = self._numbers.get(name)
        if number is None:
            known = (known for known in self._numbers.values() if known < self.SHORT_LIVED)
            number = self._given = max((self._given, *known)) + 1  # also one whose commit had no answer
            write = Write()
            write.put("meta", QUEUE_NAME + name.encode(), number.to_bytes(4, "big"))
            self._engine.commit(write, sync=True)
            self._numbers[name] = number
        return number

    def new(self, name_of: Callable[[int], str], write: Write) -> str:
        """A passing queue, called by its number, that exists once ``write`` is committed; its name."""
        self._highest_short_lived += 1
        name = name_of(self._highest_short_lived)
        write.put("meta", QUEUE_NAME + name.encode(), self._highest_short_lived.to_bytes(4, "big"))
        self._numbers[name] = self._highest_short_lived
        return name

    def forget(self, name: str, write: Write) -> int:
        """The queue is gone once ``write`` is committed; the number that it had."""
        write.delete("meta", QUEUE_NAME + name.encode())
        write.put("meta", HIGHEST_NUMBER, self._highest_short_lived.to_bytes(4, "big"))
        return self._numbers.pop(name)
