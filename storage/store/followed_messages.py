"""One message is followed through the store while an operator asks for it: committed, handed out, settled, in each queue.

The Distributor marks its row in front of the batch (``TraceMark``). The store works as it does anyway; a look at the end of each
turn sees how far the message has come. So it costs nothing while nothing is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storage.queue.admission import Admitted
from storage.store.lane import Lane
from wire.frames.batch import unpack_column
from wire.frames.frame import Effects
from wire.frames.intake import Append
from wire.frames.lanes import Settle
from wire.frames.names import QUEUE_STORE, SUPERVISOR
from wire.frames.traces import TraceFollow, TraceMark, TraceStep
from wire.status.loss_reasons import Loss
from wire.status.outcomes import REDELIVERED

FOLLOWED_MAX = 8
FOLLOWED_S = 120.0  # what has not left its queue by then is not followed any longer


@dataclass(slots=True)
class _Place:
    """The place of the message in one queue."""

    queue: str
    seq: int
    handed_out: bool = False
    outcome: str = ""  # it has been settled so, and that is told as the turn ends


@dataclass(slots=True)
class _Followed:
    mark: TraceMark
    until_s: float = 0.0
    admitted: bool = False
    committed: bool = False
    places: list[_Place] = field(default_factory=list)


class FollowedMessages:
    """``all`` that are followed now."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        """lanes: every queue by its name."""
        self._lanes = lanes
        self.all: list[_Followed] = []
        self._effects: Effects = []
        self._now_s = 0.0

    def mark(self, mark: TraceMark) -> None:
        """The batch that comes next has a message to follow; the oldest of too many is given up."""
        self.all = [*self.all[-FOLLOWED_MAX + 1 :], _Followed(mark)]

    def on_admitted(self, frame: Append, admitted: Sequence[Admitted], now_s: float) -> None:
        """``frame`` goes into the next commit, as far as it is ``on_admitted``; its queues have not got it yet."""
        for followed in self.all:
            mark = followed.mark
            if followed.admitted or (mark.sender, mark.epoch, mark.number) != (frame.sender, frame.epoch, frame.number):
                continue
            followed.admitted, followed.until_s, self._now_s = True, now_s + FOLLOWED_S, now_s
            followed.places = list(self._places(frame, admitted, mark))

    def _places(self, frame: Append, admitted: Sequence[Admitted], mark: TraceMark) -> Iterator[_Place]:
        for part, taken in zip(frame.parts, admitted, strict=True):
            rows = list(unpack_column("H", part[4])) if part[4] else list(range(frame.rows))
            if mark.row not in rows:
                continue
            if taken.dropped or taken.refused:
                self._step(mark.request, "settled", part[0], {"outcome": f"{Loss.OVERFLOW.dropped}, or another of its batch was"})
                continue
            seq = self._lanes[part[0]].queue.tail + rows.index(mark.row)
            yield _Place(part[0], seq)
            if self._lanes[part[0]].bridge:
                self._effects.append((self._lanes[part[0]].peer, TraceFollow(request=mark.request, queue=part[0], seq=seq)))

    def settling(self, frame: Settle) -> None:
        """Something leaves a queue."""
        for followed in self.all:
            for place in [place for place in followed.places if place.queue == frame.queue]:
                outcome = next((outcome for outcome, ranges in frame.settled if _within(place.seq, ranges)), None)
                if outcome is not None and outcome != REDELIVERED:
                    place.outcome = outcome

    def report_progress(self, now_s: float, *, committed: bool, facts: dict[str, Any]) -> Effects:
        """How far all have come at the end of a turn.

        committed: nothing waits for a commit. facts: what to tell of the last one.
        """
        self._now_s = now_s
        for followed in self.all:
            if followed.admitted and not followed.committed and committed and followed.places:
                followed.committed = True
                self._step(followed.mark.request, "committed", "", facts)
            for place in list(followed.places):
                self._report_progress(followed, place)
        self.all = [one for one in self.all if not one.admitted or (one.places and now_s < one.until_s)]
        return self.take_effects()

    def take_effects(self) -> Effects:
        """Frames that are to be sent, and have not been taken."""
        effects, self._effects = self._effects, []
        return effects

    def _report_progress(self, followed: _Followed, place: _Place) -> None:
        lane = self._lanes.get(place.queue)
        if place.outcome:
            self._hand_out(followed, place)
            self._leaves(followed, place, place.outcome)
        elif lane is None:
            self._leaves(followed, place, "its session has ended")
        elif followed.committed and lane.queue.head > place.seq:
            self._hand_out(followed, place)
            self._leaves(followed, place, "expired, dropped or purged")
        elif followed.committed and lane.queue.cursor > place.seq:
            self._hand_out(followed, place)

    def _hand_out(self, followed: _Followed, place: _Place) -> None:
        if not place.handed_out:
            place.handed_out = True
            self._step(followed.mark.request, "handed_out", place.queue, {"seq": place.seq})

    def _leaves(self, followed: _Followed, place: _Place, outcome: str) -> None:
        followed.places.remove(place)
        self._step(followed.mark.request, "settled", place.queue, {"outcome": outcome})

    def _step(self, request: int, step: str, queue: str, details: dict[str, Any]) -> None:
        told = TraceStep(request=request, step=step, actor=QUEUE_STORE, queue=queue, at_s=self._now_s, details=details)
        self._effects.append((SUPERVISOR, told))


def _within(seq: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(start <= seq < stop for start, stop in ranges)
