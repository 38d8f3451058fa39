"""Messages for one local client that wait for room in its exchange, in order. Pure."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass

from wire.exchange.publish_encoder import Columns, PublishSegment
from wire.exchange.subscriber_copies import Parcel


@dataclass(slots=True)
class _Waiting:
    parcel: Parcel
    first_seq: int
    offsets: array[int] | None
    size_bytes: int


class WaitingParcels:
    """messages, size_bytes: how much waits. passed_messages, passed_bytes: how much has left since ``clear``."""

    __slots__ = ("_waiting", "messages", "passed_bytes", "passed_messages", "size_bytes")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._waiting: deque[_Waiting] | tuple[()] = ()  # an empty deque takes 760 bytes
        self.messages = self.size_bytes = 0
        self.passed_messages = self.passed_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, parcel: Parcel, first_seq: int, offsets: array[int] | None, size_bytes: int) -> None:
        """The messages ``first_seq + offset`` wait as well; offsets None: 0, 1, 2, ..."""
        waiting = _Waiting(parcel, first_seq, offsets, size_bytes)
        if self._waiting:
            self._waiting.append(waiting)
        else:
            self._waiting = deque((waiting,))
        self.messages += len(parcel)
        self.size_bytes += size_bytes

    def take(self) -> PublishSegment:
        """The first of what waits, for the exchange; there must be something."""
        assert self._waiting, "something waits"
        waiting = self._waiting.popleft()
        if not self._waiting:
            self._waiting = ()
        parcel = waiting.parcel
        self.messages -= len(parcel)
        self.size_bytes -= waiting.size_bytes
        self.left_out(len(parcel), waiting.size_bytes)
        columns = parcel.columns if waiting.offsets is None else Columns(parcel.batch, waiting.offsets)
        return PublishSegment(columns, waiting.first_seq, waiting.size_bytes)

    def left_out(self, messages: int, size_bytes: int) -> None:
        """So much has passed that did not have to wait."""
        self.passed_messages += messages
        self.passed_bytes += size_bytes
