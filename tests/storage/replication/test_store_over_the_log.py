"""The store itself over a log that loses answers, on nodes that take turns: what it promised is there once, its ledger closes."""

from __future__ import annotations

from random import Random

import pytest

from storage.replication.lease import patience_s
from tests.storage.building import QUEUE, append_frame, batch, messages, node, settle_frame
from tests.storage.replication.building import LEASE_S, Clock, Node
from tests.support.log_double import LANDED_UNANSWERED, LATE, LOST, Fate, Servers
from tests.support.stores import open_store
from wire.errors import BasculeError
from wire.frames.frame import Frame
from wire.frames.intake import Committed, SessionOpen
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened

LEADERSHIPS, TURNS = 6, 14
WALL_MS = 1000
MANY = 1 << 40


def payloads(number: int) -> list[bytes]:
    return [b"%d.%d" % (number, row) + bytes(number % 4 * 90) for row in range(number % 3 + 1)]


class Site:
    """Two nodes, and one sender that sends each of its batches until it is told that it is kept.

    handed: what went to the remote, by sequence. settled: the sequences that the store was told of. refused: how many appends had
    no answer.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.servers, self.clock = Servers(), Clock()
        self.nodes = [Node(self.servers, self.clock, name) for name in "ab"]
        self.sent = self.committed = self.epoch = 0
        self.handed: dict[int, bytes] = {}
        self.settled: set[int] = set()
        self.trouble = 0.0
        self.refused = 0
        self.servers.fate = self._fate
        self.servers.pause = self._pause

    def _fate(self, member: str, count: int) -> Fate:
        if self.chance.random() >= self.trouble:
            return Fate()
        self.refused += 1
        part = Fate(landed=self.chance.randrange(count), late=True, answered=False)
        return self.chance.choice((LANDED_UNANSWERED, LOST, LATE, part))

    def _pause(self, member: str, moment: str) -> None:
        while self.servers.late and self.chance.random() < 0.3:
            self.servers.land_late(self.chance.randrange(len(self.servers.late)))

    # --- who leads ---

    def lead(self) -> None:
        """One of them leads, and its store is opened: what was promised is there."""
        self.trouble = 0.0
        self.clock.now_s += patience_s(LEASE_S)
        leads = self.chance.choice(self.nodes)
        for one in self.nodes:
            one.begin()
            one.follow()
        self.clock.now_s += patience_s(LEASE_S)
        while not leads.follower.lead(1):
            leads.follow()
        engine = leads.engine()
        self.node, self.engine = leads, engine
        self.epoch += 1
        self.store = open_store(engine, node(), self.epoch)
        self.lane_epoch = self.epoch << 20
        self.settles = 0
        self.flying: list[int] = []
        self.turn(SessionOpen(sender="listener", epoch=1, request=1, session="c", clean=False, expiry_s=60))
        (opened,) = [frame for frame in self.turn(LaneOpen(queue=QUEUE, epoch=self.lane_epoch)) if isinstance(frame, LaneOpened)]
        kept = [payload for number in range(1, self.committed + 1) for payload in payloads(number)]
        assert opened.tail >= len(kept), "P1: what was acknowledged is there"
        before = dict(self.handed)
        self.turn(Credit(queue=QUEUE, epoch=self.lane_epoch, messages=10_000, size_bytes=MANY))
        gone = set(range(opened.tail)) - set(self.flying)
        assert gone <= self.settled, "only what was delivered is gone"
        assert before.items() <= self.handed.items(), "P2: a sequence is one message, whoever hands it out"
        assert self.store.status(WALL_MS).queues[QUEUE].ledger_closes
        for number in range(self.committed + 1, self.sent + 1):
            self.send(number)

    def end(self) -> None:
        """It leads no more: it dies, with the power or without, or steps down."""
        how = self.chance.choice(("die", "power", "step down"))
        if how == "step down":
            try:
                self.engine.step_down()
            except BasculeError:
                return
        elif how == "power":
            self.node.disk.lose_power()

    # --- what the store is told ---

    def send(self, number: int) -> None:
        of = batch(payloads(number), 2)
        ids = range(number * 10, number * 10 + len(of))
        self.turn(append_frame(number, {QUEUE: (of, None)}, received={"c": ids}))

    def settle(self) -> None:
        seq = self.flying.pop(0)
        self.settles += 1
        self.settled.add(seq)
        self.turn(settle_frame(self.settles, self.lane_epoch, ("delivered", ((seq, seq + 1),))))

    def turn(self, *frames: Frame) -> list[Frame]:
        """The store's answers to ``frames``."""
        for frame in frames:
            self.store.receive(frame)
        self.clock.now_s += 0.3
        said = [frame for _, frame in self.store.commit(self.clock.now_s, WALL_MS)]
        for frame in said:
            if isinstance(frame, Committed):
                self.committed = max(self.committed, frame.number)
            elif isinstance(frame, HandOut):
                for seq, payload in messages(frame):
                    self.flying.append(seq)
                    assert self.handed.setdefault(seq, payload) == payload, "P2: a sequence is one message, whoever hands it out"
        return said

    def live(self) -> None:
        """A few turns, in which the log loses answers."""
        self.trouble = 0.3
        for _ in range(self.chance.randrange(TURNS)):
            what = self.chance.choice(("publish", "publish", "settle", "rest"))
            if what == "publish":
                self.sent += 1
                self.send(self.sent)
            elif what == "settle" and self.flying:
                self.settle()
            else:
                self.turn()


@pytest.mark.parametrize("seed", range(24))
def test_what_a_store_promised_is_on_each_node_that_leads_after_it(seed: int) -> None:
    """replication.log-before-answer, replication.applied-once"""
    site = Site(seed)
    for _ in range(LEADERSHIPS):
        site.lead()
        site.live()
        site.end()
    site.lead()
    while site.committed < site.sent:
        site.clock.now_s += 5.0
        site.turn()

    everything = [payload for number in range(1, site.sent + 1) for payload in payloads(number)]
    assert [site.handed[seq] for seq in sorted(site.handed)] == everything, "each of them once, in order"
    figures = site.store.status(WALL_MS).queues[QUEUE]
    assert figures.accepted == len(everything)
    assert figures.ledger_closes
    for one in site.nodes:
        one.begin()
        one.follow()
    assert site.nodes[0].replica.position == site.nodes[1].replica.position
    assert site.refused, "the log has lost nothing"
