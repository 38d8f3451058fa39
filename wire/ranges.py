"""A small set of sequence ranges: what is settled, released or sent above a low mark.

Pure. It is meant for sets of few ranges (sequences settle nearly in order): an operation is a binary search and a splice of a list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Ranges = tuple[tuple[int, int], ...]

WAVES_MAX = 100  # an ArrivalSet forgets the order beyond so many falls


class RangeSet:
    """Disjoint ranges ``[start, stop)`` of sequences in rising order; neighbours that touch are one range.

    starts, stops: theirs; empty when the set is. They are read where a message passes, because that costs no call.
    """

    __slots__ = ("starts", "stops")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.starts: list[int] = []
        self.stops: list[int] = []
        for start, stop in ranges:
            self.add(start, stop)

    def add(self, start: int, stop: int) -> int:
        """Put ``[start, stop)`` in; how many of its sequences were not there before."""
        if stop <= start:
            return 0
        starts, stops = self.starts, self.stops
        if not starts or start > stops[-1]:
            starts.append(start)
            stops.append(stop)
            return stop - start
        if start == stops[-1]:
            stops[-1] = stop
            return stop - start
        first = bisect_left(stops, start)  # the first range that touches or overlaps from the left
        last = bisect_right(starts, stop)  # one past the last that touches or overlaps
        if first == last:
            starts.insert(first, start)
            stops.insert(first, stop)
            return stop - start
        known = sum(
            min(stops[index], stop) - max(starts[index], start)
            for index in range(first, last)
            if stops[index] > start and starts[index] < stop
        )
        joined_start, joined_stop = min(start, starts[first]), max(stop, stops[last - 1])
        starts[first:last] = [joined_start]
        stops[first:last] = [joined_stop]
        return stop - start - known

    def discard(self, start: int, stop: int) -> None:
        """Take ``[start, stop)`` out; what is not there is ignored."""
        starts, stops = self.starts, self.stops
        first = bisect_right(stops, start)
        last = bisect_left(starts, stop)
        if stop <= start or first >= last:
            return
        kept_starts, kept_stops = [], []
        if starts[first] < start:
            kept_starts.append(starts[first])
            kept_stops.append(start)
        if stop < stops[last - 1]:
            kept_starts.append(stop)
            kept_stops.append(stops[last - 1])
        starts[first:last] = kept_starts
        stops[first:last] = kept_stops

    def advance(self, low: int) -> int:
        """Move the low mark ``low`` over a range that begins at or below it; forget all below the mark, and return the mark."""
        starts, stops = self.starts, self.stops
        gone = bisect_left(stops, low)  # ranges that end below the mark
        if gone < len(starts) and starts[gone] <= low:
            low = stops[gone]
            gone += 1
        if gone:
            del starts[:gone]
            del stops[:gone]
        return low

    def take_first(self, count: int) -> None:
        """Take the ``count`` lowest sequences of the lowest range out; it must hold that many."""
        start = self.starts[0] + count
        if start < self.stops[0]:
            self.starts[0] = start
        else:
            assert start == self.stops[0], "more taken than the lowest range holds"
            del self.starts[0]
            del self.stops[0]

    def clear(self) -> None:
        """Forget everything."""
        self.starts.clear()
        self.stops.clear()

    def covers(self, start: int, stop: int) -> bool:
        """Whether every sequence of ``[start, stop)`` is in the set."""
        index = bisect_right(self.starts, start) - 1
        return stop <= start or (index >= 0 and stop <= self.stops[index])

    def missing(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The parts of ``[start, stop)`` that are not in the set, in rising order."""
        gaps = []
        index = bisect_right(self.stops, start)
        while start < stop and index < len(self.starts) and self.starts[index] < stop:
            if start < self.starts[index]:
                gaps.append((start, self.starts[index]))
            start = self.stops[index]
            index += 1
        if start < stop:
            gaps.append((start, stop))
        return gaps

    def first(self) -> tuple[int, int] | None:
        """The lowest range; None when the set is empty."""
        return (self.starts[0], self.stops[0]) if self.starts else None

    def next_range(self, seq: int) -> tuple[int, int] | None:
        """The lowest range with anything at or above ``seq``, cut to begin there; None if there is none."""
        index = bisect_right(self.stops, seq)
        if index == len(self.starts):
            return None
        return max(seq, self.starts[index]), self.stops[index]

    def count(self) -> int:
        """How many sequences are in the set."""
        return sum(self.stops) - sum(self.starts)

    def ranges(self) -> Ranges:
        """All ranges, as frames carry them."""
        return tuple(zip(self.starts, self.stops, strict=True))

    def __contains__(self, seq: int) -> bool:
        index = bisect_right(self.starts, seq) - 1
        return index >= 0 and seq < self.stops[index]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(tuple(self.starts), tuple(self.stops), strict=True))

    def __len__(self) -> int:
        return len(self.starts)

    def __bool__(self) -> bool:
        return bool(self.starts)


class ArrivalSet:
    """A set of sequences that knows in which order they came: as waves, in each of which they rise; nearly always there is one.

    Beyond ``WAVES_MAX`` falls what comes late is ordered into the last wave: who answers so wildly keeps no order himself.
    """

    __slots__ = ("_waves",)

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._waves: list[RangeSet] = [RangeSet()]
        for start, stop in ranges:
            self.add(start, stop)

    @property
    def rising(self) -> bool:
        """Whether the order of arrival is that of the sequences."""
        return len(self._waves) == 1

    def add(self, start: int, stop: int) -> None:
        """Put ``[start, stop)`` in, as the last that came."""
        if stop <= start:
            return
        last = self._waves[-1]
        if len(self._waves) > 1 or not _below(last, start):
            self.discard(start, stop)
            last = self._waves[-1]
            if not _below(last, start) and len(self._waves) < WAVES_MAX:
                last = RangeSet()
                self._waves.append(last)
        last.add(start, stop)

    def discard(self, start: int, stop: int) -> None:
        """Take ``[start, stop)`` out; what is not there is ignored."""
        waves = self._waves
        for wave in waves:
            wave.discard(start, stop)
        if len(waves) > 1:
            self._waves = [wave for wave in waves if wave] or waves[:1]

    def clear(self) -> None:
        """Forget everything."""
        self._waves = [RangeSet()]

    def within(self, chosen: RangeSet) -> Ranges:
        """The part that is in ``chosen`` as well, in the order of arrival."""
        found = []
        for wave in self._waves:
            for start, stop in wave:
                while start < stop and (part := chosen.next_range(start)) is not None and part[0] < stop:
                    start = min(part[1], stop)
                    found.append((part[0], start))
        return tuple(found)

    def ranges(self) -> Ranges:
        """All ranges in the order of arrival, as frames and rows carry them."""
        if not self._waves[0].starts:
            return ()
        return tuple(bounds for wave in self._waves for bounds in wave)

    def __contains__(self, seq: int) -> bool:
        return any(seq in wave for wave in self._waves)

    def __bool__(self) -> bool:
        return bool(self._waves[0].starts)


def lowest(sets: Iterable[RangeSet]) -> int | None:
    """The lowest sequence that is in any of ``sets``; None if they are all empty."""
    low = None
    for of in sets:
        if of.starts and (low is None or of.starts[0] < low):
            low = of.starts[0]
    return low


def _below(ranges: RangeSet, start: int) -> bool:
    """Whether everything in ``ranges`` is below ``start``."""
    return not ranges.stops or ranges.stops[-1] <= start


def ranges_of(seqs: Iterable[int]) -> Ranges:
    """Rising ``seqs`` as ranges; equal neighbours count once."""
    ranges: list[tuple[int, int]] = []
    start = stop = -1
    for seq in seqs:
        if seq != stop:
            if seq == stop - 1:
                continue
            if stop > start:
                ranges.append((start, stop))
            start = seq
        stop = seq + 1
    if stop > start:
        ranges.append((start, stop))
    return tuple(ranges)
