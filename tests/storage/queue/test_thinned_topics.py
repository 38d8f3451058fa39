"""Which messages of a rule are left out, held, or cross: row by row, and against a plain model in any order of events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.queue.thinned_topics import BLOCK, HeldMessage, ThinnedTopics
from wire.config_settings import ThinningSettings
from wire.frames.batch import RAISED, RETAIN, UNPROMISED, Batch, from_rows
from wire.routing.message_route import ALL, Thinning

CHANGED, LAST = Thinning(changed=True), Thinning(keep_last=True)
ONE_PER = Thinning(period_ms=1000)
RAISED_FROM_0 = 1 | RAISED | UNPROMISED
UNCHANGED, ONE, SUPERSEDED = "dropped:unchanged", "dropped:one_per", "dropped:superseded"
Row = tuple[bytes, int, bytes]


class Lane:
    """The topics of one queue, and the queue: what has crossed, with how many were left out for what."""

    def __init__(self, thinning: Thinning, *, max_topics: int = 100, max_bytes: int = 10_000) -> None:
        self.thinning = thinning
        self.topics = ThinnedTopics(lambda: ThinningSettings(max_topics=max_topics, max_bytes=max_bytes))
        self.queue: list[Row] = []
        self.left_out: dict[str, int] = {}

    def take(self, *rows: Row, at_ms: int = 0, linked: bool = True, thinning: Thinning | None = None) -> None:
        batch = from_rows(rows, accepted_ms=at_ms)
        said = [self.thinning if thinning is None else thinning] * len(batch.topics)
        sifted = self.topics.sift(batch, said, linked=linked)
        again = self.topics.sift(batch, said, linked=linked)
        assert sifted == again, "looking changes nothing"
        self.topics.take(sifted)
        self.queue += [(message.topic, message.flags, message.payload) for message in sifted.before]
        self.queue += rows_of(batch, sifted.rows)
        for outcome, messages in sifted.left_out.items():
            self.left_out[outcome] = self.left_out.get(outcome, 0) + messages

    def tick(self, at_ms: int, *, linked: bool = True) -> None:
        released = self.topics.release(lambda message: message.is_due(at_ms, linked=linked))
        self.queue += [(message.topic, message.flags, message.payload) for message in released]

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, _, payload in self.queue]

    @property
    def held(self) -> list[bytes]:
        return [message.payload for message in self.topics.held.values()]


def rows_of(batch: Batch, rows: Sequence[int]) -> list[Row]:
    payloads = batch.rows_payloads()
    return [(batch.topics[batch.topic_of[row]], batch.flags[row], payloads[row]) for row in rows]


def many(*payloads: bytes, topic: bytes = b"t", flags: int = 1) -> list[Row]:
    return [(topic, flags, payload) for payload in payloads]


def test_a_payload_that_repeats_its_topics_last_one_is_left_out_in_a_batch_and_across_batches() -> None:
    lane = Lane(CHANGED)
    lane.take(*many(b"1", b"1", b"2"), (b"other", 1, b"2"))
    lane.take(*many(b"2", b"1"))
    assert lane.payloads == [b"1", b"2", b"2", b"1"]
    assert lane.left_out == {UNCHANGED: 2}
    lane.topics.forget_payloads()
    lane.take(*many(b"1"))
    assert lane.payloads[-1:] == [b"1"], "the remote may not have it"


@pytest.mark.parametrize("thinning", [CHANGED, ONE_PER, LAST])
def test_what_removes_a_retained_message_is_never_left_out_and_keeps_its_place(thinning: Thinning) -> None:
    """queue.never-thinned"""
    lane = Lane(thinning)
    lane.take(*many(b"1", flags=1 | RETAIN), *many(b"", b"", flags=1 | RETAIN), linked=False)
    lane.take(*many(b"", flags=1 | RETAIN), linked=False)
    assert lane.payloads == [b"1", b"", b"", b""]
    lane.take(*many(b"2", flags=1 | RETAIN), at_ms=1000, linked=False)
    lane.tick(5000)
    assert lane.payloads[-1] == b"2"


def test_a_payload_with_retain_is_another_than_without() -> None:
    lane = Lane(CHANGED)
    lane.take(*many(b"1"), *many(b"1", flags=1 | RETAIN), *many(b"1", flags=1 | RETAIN))
    assert [flags for _, flags, _ in lane.queue] == [1, 1 | RETAIN]


@pytest.mark.parametrize("unpromised", [0, RAISED_FROM_0], ids=["as it came", "raised"])
@pytest.mark.parametrize("thinning", [CHANGED, Thinning(changed=True, period_ms=1000), Thinning(changed=True, keep_last=True)])
def test_what_was_promised_is_not_left_out_for_a_payload_that_came_at_qos_0(thinning: Thinning, unpromised: int) -> None:
    """queue.never-thinned: memory or the link may lose that one, and a full queue refuses it though it is raised."""
    lane = Lane(thinning)
    again = many(b"1", b"1", flags=unpromised)
    lane.take(*many(b"1", flags=unpromised), *many(b"1", flags=2), *again, *many(b"1", flags=1), linked=False)
    lane.tick(5000)
    assert [flags for _, flags, _ in lane.queue][-1:] == [2]
    assert lane.left_out[UNCHANGED] == 3


@pytest.mark.parametrize(("thinning", "reason"), [(ONE_PER, ONE), (LAST, SUPERSEDED)])
def test_the_last_of_a_period_or_of_an_outage_crosses_when_that_ends(thinning: Thinning, reason: str) -> None:
    lane = Lane(thinning)
    lane.take(*many(b"1", b"2"), (b"other", 1, b"x"), at_ms=5_100, linked=False)
    lane.take(*many(b"3"), at_ms=5_900, linked=False)
    lane.tick(5_999, linked=False)
    assert (lane.payloads, sorted(lane.held)) == ([], [b"3", b"x"])
    lane.tick(6_000)
    assert sorted(lane.payloads) == [b"3", b"x"]
    assert (lane.left_out, lane.topics.size_bytes) == ({reason: 2}, 0)


def test_each_period_has_its_last_and_a_clock_that_is_set_back_ends_one() -> None:
    lane = Lane(ONE_PER)
    for at_ms, payload in enumerate((b"1", b"2", b"3", b"4")):
        lane.take(*many(payload), at_ms=at_ms * 500)
    assert (lane.payloads, lane.held) == ([b"2"], [b"4"])
    lane.tick(10)
    assert lane.payloads == [b"2", b"4"]


def test_with_both_one_message_of_a_topic_waits_for_the_link_however_many_periods_end() -> None:
    lane = Lane(Thinning(period_ms=1000, keep_last=True))
    for at_ms, payload in enumerate((b"1", b"2", b"3", b"4")):
        lane.take(*many(payload), at_ms=at_ms * 500, linked=False)
    lane.tick(90_000, linked=False)
    assert (lane.payloads, lane.held, lane.left_out) == ([], [b"4"], {ONE: 2, SUPERSEDED: 1})


@pytest.mark.parametrize(
    ("earlier", "newer"),
    [((1 | RETAIN), 1), (1, 0), (2 | RETAIN, 0), (1, RAISED_FROM_0)],
    ids=["retained", "promised", "both", "raised"],
)
def test_a_message_gives_way_only_to_one_that_is_as_much(earlier: int, newer: int) -> None:
    """queue.never-thinned"""
    lane = Lane(ONE_PER)
    lane.take(*many(b"1", flags=earlier), *many(b"2", flags=newer))
    lane.take(*many(b"3", flags=earlier))
    assert lane.payloads == [b"1"]
    lane.tick(1000)
    assert lane.payloads[-1] == b"3"


def test_what_a_rule_without_thinning_takes_comes_behind_what_is_held_of_its_topic() -> None:
    """queue.held-gives-way-in-order"""
    lane = Lane(ONE_PER)
    lane.take(*many(b"1"))
    lane.take(*many(b"2"), thinning=ALL)
    assert (lane.payloads, lane.held, lane.left_out) == ([b"1", b"2"], [], {})


@pytest.mark.parametrize("thinning", [CHANGED, ONE_PER, LAST])
def test_without_memory_a_message_crosses_and_is_counted(thinning: Thinning) -> None:
    lane = Lane(thinning, max_topics=1)
    lane.take((b"a", 1, b"1"), (b"b", 1, b"1"), (b"b", 1, b"1"), linked=False)
    lane.take((b"a", 1, b"1"), (b"b", 1, b"2"), linked=False)
    assert [row for row in lane.queue if row[0] == b"b"] == [(b"b", 1, b"1"), (b"b", 1, b"1"), (b"b", 1, b"2")]
    assert lane.topics.untracked == 3
    assert sum(lane.left_out.values()) == 1
    small = Lane(LAST, max_bytes=10)
    small.take(*many(b"123456789"), *many(b"too large to be held"), linked=False)
    assert (small.payloads, small.held, small.topics.size_bytes) == ([b"too large to be held"], [], 0)


THINNINGS = [ALL, CHANGED, ONE_PER, LAST, Thinning(True, 0, True), Thinning(False, 1000, True)]
ROWS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from([0, 1, 2, 1 | RETAIN, RETAIN]), st.sampled_from([b"", b"1", b"2"])),
    max_size=5,
)
STEPS = st.lists(st.tuples(ROWS, st.integers(0, 1500), st.booleans(), st.sampled_from(THINNINGS), st.booleans()), max_size=12)


@given(STEPS, st.integers(1, 3))
def test_whatever_comes_each_message_crosses_once_is_left_out_once_or_is_held_and_the_last_of_each_topic_stands(
    steps: list[tuple[list[Row], int, bool, Thinning, bool]], max_topics: int
) -> None:
    """queue.held-gives-way-in-order, queue.never-thinned"""
    lane, came, at_ms = Lane(ALL, max_topics=max_topics), 0, 0
    last: dict[bytes, Row] = {}
    order: list[Row] = []
    for rows, later_ms, linked, thinning, ticks in steps:
        at_ms += later_ms
        if ticks:
            lane.tick(at_ms, linked=linked)
        lane.take(*rows, at_ms=at_ms, linked=linked, thinning=thinning)
        came += len(rows)
        order += rows
        last |= {row[0]: row for row in rows}
        assert len(lane.topics.held) <= max_topics
        assert came == len(lane.queue) + sum(lane.left_out.values()) + len(lane.topics.held)
    lane.tick(at_ms + 10_000)
    assert lane.topics.size_bytes == 0
    for topic, (_, _, payload) in last.items():
        crossed = [row for row in lane.queue if row[0] == topic]
        assert crossed[-1][2] == payload
        assert is_subsequence(crossed, [row for row in order if row[0] == topic])
        clears = [row for row in order if row[0] == topic and row[1] & RETAIN and not row[2]]
        assert [row for row in crossed if row[1] & RETAIN and not row[2]] == clears


def is_subsequence(part: list[Row], whole: list[Row]) -> bool:
    rest = iter(whole)
    return all(row in rest for row in part)


class Counted(dict[bytes, HeldMessage]):
    """Counts what is looked at."""

    looks = 0

    def __getitem__(self, topic: bytes) -> HeldMessage:
        self.looks += 1
        return super().__getitem__(topic)


def test_a_page_of_what_is_held_costs_no_more_for_what_comes_before_it() -> None:
    lane, number = Lane(LAST, max_topics=10**6, max_bytes=10**9), 20 * BLOCK
    lane.take(*((b"t%d" % at, 1, b"x") for at in range(number)), linked=False)
    lane.topics.held = held = Counted(lane.topics.held)

    page = list(islice(lane.topics.held_from(number - BLOCK // 2), 10))

    assert [message.topic for _, message in page] == [b"t%d" % at for at in range(number - BLOCK // 2, number - BLOCK // 2 + 10)]
    assert held.looks <= BLOCK + 10


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=600), st.integers(0, 9)), max_size=8),
    st.integers(0, 3000),
)
def test_pages_have_what_is_held_in_the_order_in_which_it_came(steps: list[tuple[list[int], int]], start: int) -> None:
    lane = Lane(LAST)
    for topics, gone in steps:
        lane.take(*((b"%d" % topic, 1, b"x") for topic in topics), linked=False)
        lane.topics.release(lambda message: message.topic == b"%d" % gone)  # noqa: B023
    every = list(lane.topics.held_from(0))

    assert [message for _, message in every] == list(lane.topics.held.values())
    assert [number for number, _ in every] == sorted({number for number, _ in every})
    assert all(number < lane.topics.next_number for number, _ in every)
    assert list(lane.topics.held_from(start)) == [(number, message) for number, message in every if number >= start]
