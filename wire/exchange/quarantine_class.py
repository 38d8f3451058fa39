"""Common traits of the messages on which a remote closes its connections: the least class that covers all of them. Pure.

exchange.class-covers-convicted-only [P2, P6]: a class is the most that ``CONVICTED`` messages on which the remote closed have in
    common, or ``CONVICTED_IN_PLACE`` where that is nothing but the first levels of their topics. It covers none that the remote was
    seen to accept in the search; where that would be, they are of different classes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import NamedTuple

CONVICTED = 3
CONVICTED_IN_PLACE = 5
_CLASSES_MAX = 8
_ACCEPTED_MAX = 100

# Remotes have such limits not below these; what is smaller has its size by chance.
_LEVELS_MIN, _TOPIC_BYTES_MIN, _PACKET_BYTES_MIN = 6, 100, 500

_MARKS: dict[str, Callable[[str], bool]] = {
    "a leading slash": lambda topic: topic.startswith("/"),
    "a leading $": lambda topic: topic.startswith("$"),
    "an empty level": lambda topic: "//" in topic or topic.endswith("/"),
    "white space": lambda topic: any(map(str.isspace, topic)),
    "a character beyond ASCII": lambda topic: not topic.isascii(),
}


class MessageClass(NamedTuple):
    """Messages whose topic begins with the levels ``below``, has all ``marks``, and is at least so deep and so long.

    packet_bytes: so large at least is the PUBLISH.
    """

    below: tuple[str, ...]
    marks: tuple[str, ...] = ()
    levels: int = 0
    topic_bytes: int = 0
    packet_bytes: int = 0

    @classmethod
    def of(cls, topic: str, packet_bytes: int) -> MessageClass:
        """That of one message alone."""
        levels, size = tuple(topic.split("/")), len(topic.encode())
        return cls(levels, tuple(mark for mark, has in _MARKS.items() if has(topic)), len(levels), size, packet_bytes)

    def common(self, other: MessageClass) -> MessageClass:
        """The common traits of both; sizes that say something."""
        least = [min(pair) for pair in zip(self[2:], other[2:], strict=True)]
        mins = (_LEVELS_MIN, _TOPIC_BYTES_MIN, _PACKET_BYTES_MIN)
        return MessageClass(
            tuple(mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.below, other.below, strict=False))),
            tuple(mark for mark in self.marks if mark in other.marks),
            *(size if size >= floor else 0 for size, floor in zip(least, mins, strict=True)),
        )

    def covers(self, other: MessageClass) -> bool:
        """Whether ``other``, or one message, is of this class."""
        below = other.below[: len(self.below)] == self.below and set(self.marks) <= set(other.marks)
        return below and all(mine <= its for mine, its in zip(self[2:], other[2:], strict=True))

    @property
    def says(self) -> str:
        """In words; empty if everything is of it."""
        topic = [f"a topic that begins with {'/'.join(self.below)}"] if any(self.below) else []
        topic += [f"{mark} in the topic" for mark in self.marks]
        sizes = ((self.levels, "levels"), (self.topic_bytes, "bytes of topic"), (self.packet_bytes, "bytes"))
        return ", ".join([*topic, *(f"{size} {unit} or more" for size, unit in sizes if size)])


class ClosedClasses:
    """Those of one remote (exchange.class-covers-convicted-only)."""

    def __init__(self) -> None:
        self._found: list[tuple[MessageClass, int]] = []
        self._accepted: list[MessageClass] = []

    def on_accepted(self, one: MessageClass) -> None:
        """The remote takes messages such as ``one``."""
        self._accepted.append(one)
        del self._accepted[:-_ACCEPTED_MAX]
        self._found = [each for each in self._found if not each[0].covers(one)]

    def expect(self, one: MessageClass) -> bool:
        """Whether the remote has closed on others of a class that ``one`` may be of."""
        return any(self._joined(found, one) for found, _ in self._found)

    def _joined(self, found: MessageClass, one: MessageClass) -> MessageClass | None:
        joined = found.common(one)
        return None if not joined.says or any(map(joined.covers, self._accepted)) else joined

    def on_given_up(self, one: MessageClass) -> MessageClass | None:
        """The remote closes on ``one``: the class that this shows, if it shows one."""
        for at, (found, count) in enumerate(self._found):
            if (joined := self._joined(found, one)) is not None:
                self._found[at] = joined, count + 1
                return joined if count + 1 >= (CONVICTED if any(joined[1:]) else CONVICTED_IN_PLACE) else None
        self._found = [*self._found[1 - _CLASSES_MAX :], (one, 1)]
        return None
