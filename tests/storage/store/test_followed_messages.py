"""One message is followed through the store."""

from __future__ import annotations

from storage.engine.engine import Engine
from tests.storage.building import QUEUE, append_frame, batch, bridge, messages, node, settle_frame
from tests.storage.turns import EPOCH, of, open_lane, turn
from tests.support.stores import open_store
from wire.frames.lanes import HandOut
from wire.frames.traces import TraceFollow, TraceMark, TraceStep


def test_a_lane_is_told_what_to_follow_before_it_gets_the_message(engine: Engine) -> None:
    """The remote may have answered before the next frame comes."""
    store = open_store(engine, node(bridge()), 1)
    open_lane(store)
    append = append_frame(1, {QUEUE: (batch([b"other", b"followed"]), None)})
    mark = TraceMark(request=5, sender=append.sender, epoch=append.epoch, number=append.number, row=1, source=0, qos=1)

    effects = turn(store, mark, append)
    frames = [frame for _, frame in effects]
    kinds = [type(frame) for frame in frames if isinstance(frame, TraceFollow | HandOut)]
    steps = [frame.step for frame in frames if isinstance(frame, TraceStep)]

    assert kinds == [TraceFollow, HandOut]
    handed_out = {payload: seq for frame in of(effects, HandOut) for seq, payload in messages(frame)}
    assert [frame.seq for frame in of(effects, TraceFollow)] == [handed_out[b"followed"]]
    assert steps == ["committed", "handed_out"]


def test_what_is_settled_is_told_with_the_time_of_its_turn(engine: Engine) -> None:
    """That of the turn before may be earlier than the message."""
    store = open_store(engine, node(bridge()), 1)
    open_lane(store)
    append = append_frame(1, {QUEUE: (batch([b"followed"]), None)})
    mark = TraceMark(request=5, sender=append.sender, epoch=append.epoch, number=append.number, row=0, source=0, qos=1)

    effects = turn(store, mark, append, now_s=7.0)
    seq = of(effects, TraceFollow)[0].seq
    later = turn(store, settle_frame(1, EPOCH, ("delivered", ((seq, seq + 1),))), now_s=8.0)

    steps = [step for _, step in [*effects, *later] if isinstance(step, TraceStep)]
    assert [step.step for step in steps] == ["committed", "handed_out", "settled"]
    assert steps[0].at_s >= 7.0
    assert steps[2].at_s >= 8.0
