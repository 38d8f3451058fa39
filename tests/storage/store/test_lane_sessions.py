"""The exchange and the store together: every case of session present against the record, cut down after every single step.

The real ``Store`` and ``SenderHalf`` between a model remote and an engine whose power can be cut. A run does so many steps, then
everything on our side dies and what was written, or only what was synced, is left; the remote keeps its session or not.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace

import pytest

from tests.storage.building import FORWARDER, QUEUE, RecordingEngine, append_frame, batch, bridge, node, settle_frame
from tests.support.stores import open_store
from tests.wire.outbound_model import RemoteModel, Sent, lane_flow, parse
from wire.figure import to_map
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened, Settled

HERE, THERE = "edge@here:1", "edge@there:2"
TWO_PLACES = replace(bridge(), remote=replace(bridge().remote, client_id="edge", addresses=(("here", 1), ("there", 2))))
QOS = [2, 1, 2, 2]
SYNCED_ONLY, WRITTEN = "power cut", "kill"


@dataclass
class Remotes:
    """The brokers behind the addresses of one bridge, and what each was PUBLISHed."""

    level: int
    at: dict[str, RemoteModel] = field(default_factory=dict)

    def __getitem__(self, session: str) -> RemoteModel:
        if session not in self.at:
            self.at[session] = RemoteModel(level=self.level, receive_maximum=3, qos2_maximum=3)
        return self.at[session]

    def counts(self) -> Counter[int]:
        return Counter(seq for remote in self.at.values() for seq in remote.published)


class Lane:
    """Our side: it lives until it is dropped; ``engine`` and ``remotes`` outlive it."""

    def __init__(self, engine: RecordingEngine, remotes: Remotes, *, life: int, republish: bool, keeps: bool = False) -> None:
        self.engine, self.remotes, self.level = engine, remotes, remotes.level
        self.store = open_store(engine, node(TWO_PLACES), life)
        sessions = (HERE, THERE) if keeps else ()
        self.flow = lane_flow(*sessions, receive_maximum=3, qos2_maximum=3, republish=republish)
        self.ended = 0  # sessions, by a clean start
        self.epoch = life << 20
        self.number = 0
        self.session = ""
        self.to_remote: deque[Sent] = deque()
        self.to_us: deque[bytes] = deque()
        self.steps = 0
        self.store.receive(LaneOpen(queue=QUEUE, epoch=self.epoch))
        if life == 1:
            rows = batch([b"%d" % seq for seq in range(len(QOS))], QOS)
            self.store.receive(append_frame(1, {QUEUE: (rows, None)}))
        self.commit()
        self.store.receive(Credit(queue=QUEUE, epoch=self.epoch, messages=100, size_bytes=1 << 20))
        self.commit()

    def commit(self) -> None:
        for peer, frame in self.store.commit(1.0, 1000):
            assert peer in (FORWARDER, "listener")
            match frame:
                case LaneOpened():
                    self.opened = frame
                    self.flow.open(frame)
                case HandOut():
                    self.flow.exchange.hand_out(frame)
                case Settled():
                    self.flow.exchange.record.on_committed(frame.number)

    def connect(self, session: str) -> None:
        remote = self.remotes[session]
        present = remote.connect()
        if not self.flow.knows(session, present):
            self.ended += 1
            self.flow.ends(session)
            remote.forget_session()  # a clean start
            present = remote.connect()
        self.session = session
        self.flow.on_connected(session=session, session_present=present, level=self.level, receive_maximum=3)

    def step(self) -> None:
        """One of: a burst leaves, the remote takes a packet, an answer comes, what became of messages is told, it is committed."""
        match self.steps % 5:
            case 0:
                self.to_remote.extend(parse(self.flow.pump(1 << 20, 0.0), self.level))
            case 1 if self.to_remote:
                packet = self.to_remote.popleft()
                answer = self.remotes[self.session].take(packet)
                self.to_us.append(answer)
            case 2 if self.to_us:
                self.flow.on_received(self.to_us.popleft())
            case 3:
                facts = self.flow.exchange.record.facts(self.number + 1)
                if facts is not None:
                    self.number += 1
                    self.store.receive(
                        settle_frame(
                            self.number,
                            self.epoch,
                            *facts.settled,
                            released=facts.released,
                            session=facts.session,
                            generation=facts.generation,
                            left=self.flow.left if facts.session is not None else (),
                        )
                    )
            case 4:
                self.commit()
        self.steps += 1

    def left(self, how: str | None, life: int, republish: bool) -> Lane:
        """The connection is gone, and the lane with it unless ``how`` is None."""
        if how is not None:
            return Lane(crashed(self, how), self.remotes, life=life, republish=republish, keeps=True)
        self.flow.on_disconnected()
        self.to_remote.clear()
        self.to_us.clear()
        return self

    def row(self) -> dict[str, object]:
        figures: dict[str, object] = to_map(self.store.status(1000).queues[QUEUE])
        return figures


def crashed(lane: Lane, how: str) -> RecordingEngine:
    """The disk after a kill, or after a power cut."""
    writes = lane.engine.writes
    kept = len(writes)
    if how == SYNCED_ONLY:
        kept = max((at + 1 for at, (_, synced) in enumerate(writes) if synced), default=0)
    rebuilt = lane.engine.rebuilt(kept)
    rebuilt.writes = writes[:kept]
    return rebuilt


def finish(lane: Lane) -> Counter[int]:
    """Run to the end without a fault; how often each message came to a remote."""
    for _ in range(500):
        lane.step()
    row = lane.row()
    assert row["depth"] == 0, "everything ends"
    assert row["ledger_closes"]
    assert row["delivered"] == len(QOS), "each is counted once"
    counts = lane.remotes.counts()
    assert set(counts) == set(range(len(QOS))), "nothing is lost"
    return counts


def steps_to_the_end() -> int:
    lane = Lane(RecordingEngine(), Remotes(5), life=1, republish=False)
    lane.connect(HERE)
    while lane.row()["depth"]:
        lane.step()
    return lane.steps


STEPS = steps_to_the_end()


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("how", [WRITTEN, SYNCED_ONLY])
def test_a_session_that_is_present_and_on_record_is_resumed_and_qos_2_comes_once(how: str, level: int, soak: bool) -> None:
    """Also where the crash came before the record: then it is present without one, and is ended before anything leaves."""
    for first in range(STEPS + 5):
        for second in (0, 3, 7, 12, 18) if soak else (0, 7, 18) if first % 2 else (3, 12):
            remotes = Remotes(level)
            lane = Lane(RecordingEngine(), remotes, life=1, republish=False)
            for life, steps in ((2, first), (3, second)):
                lane.connect(HERE)
                for _ in range(steps):
                    lane.step()
                lane = Lane(crashed(lane, how), remotes, life=life, republish=False)
            lane.connect(HERE)
            counts = finish(lane)
            assert {seq: counts[seq] for seq, qos in enumerate(QOS) if qos == 2} == {0: 1, 2: 1, 3: 1}, (first, second)


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("republish", [False, True])
@pytest.mark.parametrize("how", [WRITTEN, SYNCED_ONLY])
def test_a_lost_session_sends_the_unreleased_as_new_and_the_released_by_policy(
    how: str, republish: bool, elsewhere: bool, level: int, soak: bool
) -> None:
    """The session is lost (or another address answers), and we die again at every step of taking the new one into use."""
    for first in range(0, STEPS + 5, 2):
        for second in range(12) if soak else range(first // 2 % 3, 12, 3):
            remotes = Remotes(level)
            lane = Lane(RecordingEngine(), remotes, life=1, republish=republish)
            lane.connect(HERE)
            for _ in range(first):
                lane.step()
            lane = Lane(crashed(lane, how), remotes, life=2, republish=republish)
            if not elsewhere:
                remotes[HERE].forget_session()
            place = THERE if elsewhere else HERE
            released = {seq for start, stop in lane.opened.released for seq in range(start, stop)}
            recorded, generation = lane.opened.session, lane.opened.generation
            before = remotes.counts()
            settled = {seq for start, stop in lane.opened.settled for seq in range(start, stop)}
            finished = set(range(lane.opened.head, lane.opened.dup_below)) <= settled  # then another address is no loss

            lane.connect(place)
            counts = lane.flow.counts
            assert counts.sessions_lost == (1 if recorded and not (elsewhere and finished) else 0)
            assert (counts.republished if republish else counts.assumed_delivered) == len(released)
            assert (counts.assumed_delivered if republish else counts.republished) == 0
            for _ in range(second):
                lane.step()
            lane = Lane(crashed(lane, how), remotes, life=3, republish=republish)
            assert lane.opened.generation - generation in ((0, 1) if recorded else (0,)), "a session is lost once"
            if lane.opened.session == recorded and lane.opened.generation == generation:
                assert remotes.counts() == before, "exchange.session-on-record-first: something left before the record"
            lane.connect(place)
            after = finish(lane)
            if not republish:
                assert {seq for seq in released if after[seq] != 1} == set(), (first, second)
            for seq, qos in enumerate(QOS):
                assert after[seq] <= before[seq] + (1 if qos == 2 else 2), (first, second, seq)


def test_an_address_that_comes_back_is_not_taken_for_the_session_on_record() -> None:
    """Here, there, and here again, where the old session still is: it is ended, not resumed."""
    remotes = Remotes(5)
    lane = Lane(RecordingEngine(), remotes, life=1, republish=False)
    for place in (HERE, THERE, HERE):
        lane.connect(place)
        for _ in range(10):
            lane.step()
        lane.flow.on_disconnected()
        lane.to_remote.clear()
        lane.to_us.clear()
        assert (lane.flow.exchange.record.session, lane.flow.exchange.live) == (place, False)
    assert lane.flow.exchange.record.generation == 2
    lane.connect(HERE)
    finish(lane)


@pytest.mark.parametrize(  # each of two with each of the third
    ("how", "republish", "level"),
    [
        (None, False, 4),
        (None, True, 5),
        (WRITTEN, False, 5),
        (WRITTEN, True, 4),
        (SYNCED_ONLY, False, 4),
        (SYNCED_ONLY, True, 5),
    ],
)
def test_a_lane_that_keeps_its_sessions_goes_there_and_back_and_each_remote_has_a_qos_2_message_once(
    how: str | None, republish: bool, level: int, soak: bool
) -> None:
    """Left after each step, at the first and at the second, alive or dead; what was left is never ended."""
    for first in range(STEPS + 5):
        for second in range(0, STEPS, 4) if soak else range(first % 3 * 4, STEPS, 12):
            remotes = Remotes(level)
            lane = Lane(RecordingEngine(), remotes, life=1, republish=republish, keeps=True)
            for life, (place, steps) in enumerate(((HERE, first), (THERE, second)), start=2):
                lane.connect(place)
                for _ in range(steps):
                    lane.step()
                lane = lane.left(how, life, republish)
            known = {HERE, THERE} & {lane.flow.exchange.record.session, *(left.session for left in lane.flow.left)}
            lane.connect(HERE)
            counts = finish(lane)
            assert lane.ended == 0 or HERE not in known
            assert set(counts) == set(range(len(QOS)))
            if not lane.ended:
                once = {place: Counter(remotes[place].published) for place in (HERE, THERE)}
                assert all(once[place][seq] <= 1 for place in once for seq, qos in enumerate(QOS) if qos == 2), (first, second)
                assert not remotes[HERE].received_ids, "no identifier is held"


def test_what_the_disk_will_not_show_is_settled_when_it_does_and_nothing_is_answered_before() -> None:
    """The record of a new session waits with the deliveries that it goes with; so does every later settlement of the lane."""
    remotes = Remotes(5)
    lane = Lane(RecordingEngine(), remotes, life=1, republish=False)
    lane.store.receive(settle_frame(1, lane.epoch, session=HERE))
    lane.store.receive(settle_frame(2, lane.epoch, released=((0, 1), (2, 3))))
    lane.commit()
    engine = crashed(lane, WRITTEN)
    store = open_store(engine, node(), 2)
    store.receive(LaneOpen(queue=QUEUE, epoch=2 << 20))
    store.commit(1.0, 1000)
    engine.refusing = engine.blind = True
    store.receive(settle_frame(1, 2 << 20, ("delivered", ((0, 1), (2, 3))), session=THERE, generation=1))
    store.receive(settle_frame(2, 2 << 20, ("delivered", ((1, 2),)), generation=1))
    assert store.commit(2.0, 1000) == []
    assert store.commit(3.0, 1000) == []
    engine.refusing = engine.blind = False
    answers = [frame for _, frame in store.commit(60.0, 1000)]
    assert [frame.number for frame in answers if isinstance(frame, Settled)] == [1]
    again = open_store(engine.rebuilt(len(engine.writes)), node(), 3)
    again.receive(LaneOpen(queue=QUEUE, epoch=3 << 20))
    (opened,) = [frame for _, frame in again.commit(61.0, 1000) if isinstance(frame, LaneOpened)]
    assert (opened.session, opened.generation, opened.head, opened.released) == (THERE, 1, 3, ())
    assert again.status(1000).queues[QUEUE].depth == 1
