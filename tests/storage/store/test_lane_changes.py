"""Another number of lanes: what came before goes first, over crashes and further changes; and who keeps nobody waiting."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from storage.engine.engine import Engine, Write
from storage.engine.keys import lane_key, lanes_key
from tests.storage.building import RecordingEngine, append_frame, batch, bridge, messages, node, settle_frame
from tests.support.stores import open_store
from wire.config_settings import NodeSettings
from wire.errors import ConfigError
from wire.frames.frame import Effects, Frame
from wire.frames.lanes import Credit, HandOut, LaneOpen
from wire.frames.supervision import QueueCommand

MANY = 1 << 40


class Life:
    """One life of the store of a node whose bridge has so many lanes; all that is handed out is kept until it is settled.

    routes_by: the number of lanes that batches go by.
    """

    def __init__(self, engine: Engine, life: int, lanes: int, settings: NodeSettings | None = None) -> None:
        self.store = open_store(engine, settings or node(bridge(lanes=lanes)), life)
        self.handed: list[bytes] = []
        self.routes_by = lanes
        self._life = life
        self._number = 0
        self._flying: dict[int, list[int]] = {}

    def turn(self, *frames: Frame) -> Effects:
        for frame in frames:
            self.store.receive(frame)
        effects = [*self.store.admit(100.0, 5000), *self.store.commit(100.0, 5000)]
        for _, frame in effects:
            if isinstance(frame, HandOut):
                for seq, payload in messages(frame):
                    self.handed.append(payload)
                    self._flying.setdefault(int(frame.queue[-1]), []).append(seq)
        return effects

    def publish(self, lane: int, *payloads: bytes, qos: int = 1) -> None:
        self._number += 1
        frame = append_frame(self._number, {queue(lane): (batch(payloads, qos), None)}, epoch=self._life)
        self.turn(replace(frame, lanes=(("cloud", self.routes_by),) if self.routes_by > 1 else ()))

    def open(self, *lanes: int) -> list[bytes]:
        """Forwarders open these lanes, with much credit; what they are handed."""
        before = len(self.handed)
        for lane in lanes:
            self.turn(LaneOpen(queue=queue(lane), epoch=self._life << 20))
            self.turn(Credit(queue=queue(lane), epoch=self._life << 20, messages=10_000, size_bytes=MANY))
        return self.handed[before:]

    def deliver(self, lane: int) -> list[bytes]:
        """The remote has taken all that ``lane`` was handed; what is handed out then, in any lane."""
        before = len(self.handed)
        seqs = self._flying.pop(lane)
        settled = tuple((seq, seq + 1) for seq in seqs)
        self.turn(settle_frame(0, self._life << 20, ("delivered", settled), queue=queue(lane)))
        return self.handed[before:]

    def waits_for(self, lane: int) -> list[int]:
        return list(self.store.status(5000).queues[queue(lane)].waits_for_lanes)


def queue(lane: int) -> str:
    return f"bridge:cloud:{lane}"


@pytest.fixture(params=["recording", "rocksdb"])
def engine(engine: Engine) -> Engine:
    """The durable ones: what is in memory only does not live to see another configuration."""
    return engine


def test_more_lanes_start_when_what_the_others_had_is_delivered(engine: Engine) -> None:
    Life(engine, 1, 1).publish(0, b"a", b"b")
    store = Life(engine, 2, 2)
    store.publish(1, b"after, in the new lane")
    store.publish(0, b"after")

    assert store.open(0, 1) == [b"a", b"b"]
    assert (store.waits_for(0), store.waits_for(1)) == ([], [0])
    assert sorted(store.deliver(0)) == [b"after", b"after, in the new lane"]
    assert (store.waits_for(0), store.waits_for(1)) == ([], [])
    store.publish(1, b"later")
    assert store.handed[-1] == b"later"


def test_fewer_lanes_wait_for_those_that_are_gone(engine: Engine) -> None:
    first = Life(engine, 1, 3)
    first.publish(0, b"a")
    first.publish(2, b"c")
    store = Life(engine, 2, 1)
    store.publish(0, b"after")

    assert store.open(0) == [b"a"]
    assert store.deliver(0) == []
    assert store.waits_for(0) == [2]
    assert store.open(2) == [b"c"]
    assert store.deliver(2) == [b"after"]


def test_what_is_delivered_in_part_keeps_the_others_waiting(engine: Engine) -> None:
    Life(engine, 1, 1).publish(0, b"a", b"b", b"c")
    store = Life(engine, 2, 2)
    store.publish(1, b"after")
    store.open(0, 1)

    store.turn(settle_frame(0, 2 << 20, ("delivered", ((0, 1), (2, 3)))))

    assert store.handed == [b"a", b"b", b"c"]
    store.turn(settle_frame(0, 2 << 20, ("delivered", ((1, 2),))))
    assert store.handed[-1] == b"after"


def test_several_changes_go_one_after_the_other(engine: Engine) -> None:
    """The second change finds messages of before the first one, and of between the two."""
    Life(engine, 1, 2).publish(1, b"first")
    Life(engine, 2, 1).publish(0, b"second")
    store = Life(engine, 3, 3)
    store.publish(2, b"third")

    assert store.open(0, 1, 2) == [b"first"]
    assert store.waits_for(0) == [1]
    assert store.deliver(1) == [b"second"]
    assert store.waits_for(2) == [0]
    assert store.deliver(0) == [b"third"]


def test_the_same_number_of_lanes_makes_nobody_wait(engine: Engine) -> None:
    Life(engine, 1, 2).publish(1, b"a")
    Life(engine, 2, 2).publish(0, b"b")
    store = Life(engine, 3, 2)
    assert store.open(0, 1) == [b"b", b"a"]


def test_a_bridge_that_was_away_meanwhile_is_told_apart_when_it_is_back(engine: Engine) -> None:
    Life(engine, 1, 2).publish(1, b"a")
    Life(engine, 2, 1, node(bridge("other")))
    store = Life(engine, 3, 1)
    store.publish(0, b"after")
    assert store.open(0) == []
    assert store.open(1) == [b"a"]
    assert store.deliver(1) == [b"after"]


def test_lanes_that_were_never_used_count_from_the_first_message_on(engine: Engine) -> None:
    """store.former-lanes-drain-first.

    Of three lanes two had messages: with two lanes now, a topic of lane 0 may have come to lane 1.
    """
    first = Life(engine, 1, 3)
    first.publish(0, b"a")
    first.publish(1, b"b")
    store = Life(engine, 2, 2)
    store.publish(1, b"after")

    assert store.open(1) == [b"b"]
    assert store.open(0) == [b"a"]
    assert (store.deliver(1), store.waits_for(1)) == ([], [0])
    assert store.deliver(0) == [b"after"]


@pytest.mark.parametrize("qos", [0, 1])
def test_the_number_of_lanes_is_on_record_with_the_first_message(qos: int) -> None:
    """store.former-lanes-drain-first. At any write, as a kill and as a power cut: with the queue's row, the number is there."""
    engine = RecordingEngine()
    Life(engine, 1, 3).publish(0, b"a", qos=qos)

    for issued, kept, survivor in engine.survivors():
        if survivor.get("meta", lane_key(1)) is not None:
            assert survivor.get("meta", lanes_key("cloud")) == b"\x93\x01\x03\x90", (issued, kept)
    assert engine.get("meta", lane_key(1)) is not None


@pytest.mark.parametrize("damaged", [None, b"\x93\x01"])
def test_a_record_that_is_gone_or_damaged_is_made_anew(engine: Engine, damaged: bytes | None) -> None:
    Life(engine, 1, 2).publish(1, b"a")
    if damaged is None:
        _forget_record(engine)
    else:
        _write_record(engine, damaged)
    Life(engine, 2, 2).publish(0, b"b")

    assert engine.get("meta", lanes_key("cloud")) == b"\x93\x01\x02\x90"


def test_whatever_write_the_store_dies_at_the_order_holds() -> None:
    """store.former-lanes-drain-first. The marks are there whenever there is a message that has to wait for them."""
    engine = RecordingEngine()
    first = Life(engine, 1, 2)
    first.publish(0, b"a")
    first.publish(1, b"b")
    before = len(engine.writes)
    second = Life(engine, 2, 1)
    second.open(0)
    second.publish(0, b"after")
    second.open(1)
    second.deliver(0)
    second.deliver(1)

    for issued, kept, survivor in engine.survivors(before):
        came = _all_delivered(Life(survivor, 3, 1))
        assert set(came) <= {b"a", b"b", b"after"}, (issued, kept, came)
        assert b"after" not in came[:-1], (issued, kept, came)


def _all_delivered(store: Life) -> list[bytes]:
    """Everything, as it is handed out by turns."""
    store.open(0, 1)
    while store._flying:
        for lane in sorted(store._flying):
            store.deliver(lane)
    return store.handed


def test_an_empty_lane_keeps_nobody_waiting_whatever_qos_0_it_lost(engine: Engine) -> None:
    """store.former-lanes-drain-first. Messages of QoS 0 went with the former life of the store, and leave a hole before the
    mark."""
    first = Life(engine, 1, 2)
    first.publish(0, b"a")
    first.publish(0, b"lost", qos=0)
    first.publish(1, b"lost", qos=0)
    store = Life(engine, 2, 3)
    store.publish(0, b"after")

    assert store.open(0, 1, 2) == [b"a"]
    assert store.deliver(0) == [b"after"]


def test_a_purge_ends_the_waiting(engine: Engine) -> None:
    Life(engine, 1, 2).publish(1, b"a", b"b")
    store = Life(engine, 2, 1)
    store.publish(0, b"after")
    assert store.open(0) == []

    store.turn(QueueCommand(request=1, verb="purge", arguments={"bridge": "cloud", "lane": 1, "in_flight": True, "dead": False}))

    assert store.handed == [b"after"]


def test_a_store_of_before_such_records_were_kept_is_taken_as_it_was_used(engine: Engine) -> None:
    first = Life(engine, 1, 2)
    first.publish(1, b"a")
    _forget_record(engine)
    store = Life(engine, 2, 1)
    store.publish(0, b"after")
    assert store.open(0, 1) == [b"a"]
    assert store.deliver(1) == [b"after"]


def test_a_damaged_record_is_told_and_one_of_a_newer_version_refused(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    Life(engine, 1, 2).publish(1, b"a")
    _write_record(engine, b"\x93\x01")
    with caplog.at_level(logging.CRITICAL, logger="bascule"):
        store = Life(engine, 2, 2)
    assert "bridge.row_damaged" in caplog.messages
    assert store.open(0, 1) == [b"a"]

    _write_record(engine, b"\x92\x63\x01")
    with pytest.raises(ConfigError, match="another version"):
        open_store(engine, node(), 3)


def _forget_record(engine: Engine) -> None:
    write = Write()
    write.delete("meta", lanes_key("cloud"))
    engine.commit(write, sync=True)


def _write_record(engine: Engine, value: bytes) -> None:
    write = Write()
    write.put("meta", lanes_key("cloud"), value)
    engine.commit(write, sync=True)
