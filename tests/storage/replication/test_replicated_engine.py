"""A leader's commit is on the log before it is anywhere else, and is told once it is: whatever the log and the disk answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.engine.engine import RocksEngine, Write
from storage.replication.lease import patience_s
from storage.replication.log import Behind, LogAway
from storage.replication.records import Record, RecordAssembly
from storage.replication.replica import Replica
from storage.replication.replicated_engine import Replaced, ReplicatedEngine
from tests.storage.replication.building import LEASE_S, Clock, Node, put
from tests.support.log_double import LANDED_UNANSWERED, LATE, LOST, Fate, Servers
from wire.errors import StorageDamaged, Unavailable


def on_log(servers: Servers) -> list[Record]:
    assembly = RecordAssembly()
    return [record for entry in servers.entries if (record := assembly.take(entry)) is not None]


def fates(servers: Servers, *fates: Fate) -> None:
    """The fate of the next appends; the others are answered."""
    coming = list(fates)
    servers.fate = lambda member, count: coming.pop(0) if coming else Fate()


def cluster() -> tuple[Servers, Clock, Node, Node]:
    """One that leads soon, and one that follows it."""
    servers, clock = Servers(), Clock()
    return servers, clock, Node(servers, clock, "a"), Node(servers, clock, "b")


def take_over(clock: Clock, other: Node) -> ReplicatedEngine:
    other.follow()
    clock.now_s += patience_s(LEASE_S)
    assert other.follower.is_due()
    return other.lead()


def test_a_commit_is_on_the_log_then_on_the_disk_and_then_told() -> None:
    """replication.log-before-answer"""
    servers, _, node, _ = cluster()
    engine = node.lead()
    write, told = put()
    seen: list[tuple[str, int, bool, int]] = []
    servers.pause = lambda member, moment: seen.append((moment, servers.last, bool(node.disk.numbers[2:]), len(told)))
    node.disk.pause = lambda moment: seen.append((moment, servers.last, bool(node.disk.numbers[2:]), len(told)))

    engine.commit(write, sync=False)

    assert seen == [
        ("sending", 2, False, 0),
        ("answer", 3, False, 0),
        ("commit", 3, False, 0),
        ("committed", 3, True, 0),
    ]
    assert told == ["committed"]
    assert engine.get("msg", b"rows1") == b"one"
    assert engine.records == 2


@pytest.mark.parametrize("fate", [LANDED_UNANSWERED, LOST], ids=["landed", "lost"])
def test_a_commit_without_an_answer_is_told_when_it_is_known(fate: Fate) -> None:
    """replication.log-before-answer: the same write again, whether the first one landed or not."""
    servers, _, node, other = cluster()
    engine = node.lead()
    fates(servers, fate)
    write, told = put()

    with pytest.raises(LogAway):
        engine.commit(write, sync=True)
    assert told == []
    assert engine.get("msg", b"rows1") is None
    engine.reopen()
    assert (engine.get("msg", b"rows1") is not None) == (fate is LANDED_UNANSWERED)
    engine.commit(write, sync=True)

    assert told == ["committed"]
    other.follow()
    assert other.disk.get("msg", b"rows1") == b"one"
    assert other.disk.numbers == node.disk.numbers


def test_a_commit_that_lands_late_is_taken_for_what_it_is() -> None:
    servers, _, node, _ = cluster()
    engine = node.lead()
    fates(servers, LATE)
    write, told = put()
    with pytest.raises(LogAway):
        engine.commit(write, sync=True)
    engine.reopen()

    servers.land_late()
    with pytest.raises(Behind):
        engine.commit(write, sync=True)
    engine.reopen()
    engine.commit(write, sync=True)

    assert told == ["committed"]
    assert [record.number for record in on_log(servers)] == [1, 2, 3, 4]


@pytest.mark.parametrize("landed", [1, 2])
def test_a_large_commit_of_which_a_part_landed_is_sent_whole(landed: int) -> None:
    servers, _, node, other = cluster()
    engine = node.lead()
    fates(servers, Fate(landed=landed, late=True))
    write, told = put(bytes(700))
    with pytest.raises(LogAway):
        engine.commit(write, sync=True)
    engine.reopen()
    engine.commit(write, sync=True)
    while servers.late:
        servers.land_late()
    other.follow()

    assert told == ["committed"]
    assert other.disk.get("msg", b"rows1") == bytes(700)
    assert [record.number for record in on_log(servers)] == [1, 2, 3]


@pytest.mark.parametrize(
    "act", [lambda engine: engine.commit(put()[0], sync=True), ReplicatedEngine.renew, ReplicatedEngine.read_on]
)
def test_a_leader_that_was_replaced_adds_nothing_and_learns_of_it(act: Callable[[ReplicatedEngine], None]) -> None:
    """replication.expected-sequence"""
    servers, clock, node, other = cluster()
    engine = node.lead()
    take_over(clock, other)
    before = servers.last

    with pytest.raises(Replaced) as replaced:
        act(engine)

    assert replaced.value.fields == {"leader": "b", "term": 2}
    assert servers.last == before
    assert node.held[-1] == 0.0


def test_what_a_replaced_leader_sent_late_does_not_land() -> None:
    """replication.expected-sequence"""
    servers, clock, node, other = cluster()
    engine = node.lead()
    fates(servers, LATE)
    with pytest.raises(LogAway):
        engine.commit(put()[0], sync=True)
    successor = take_over(clock, other)
    servers.land_late()

    assert [record.term for record in on_log(servers)] == [1, 1, 2, 2]
    assert successor.get("msg", b"rows1") is None


@pytest.mark.parametrize("act", [ReplicatedEngine.reopen, ReplicatedEngine.renew])
def test_a_disk_that_refuses_what_the_log_has_is_opened_anew(act: Callable[[ReplicatedEngine], None]) -> None:
    _, _, node, _ = cluster()
    engine = node.lead()
    node.disk.refuses = True
    write, told = put()
    for _ in range(2):
        with pytest.raises(Unavailable):
            engine.commit(write, sync=True)
    with pytest.raises(Unavailable):
        act(engine)
    node.disk.refuses = False

    act(engine)

    assert engine.get("msg", b"rows1") == b"one"
    assert told == []
    engine.commit(write, sync=True)
    assert told == ["committed"]
    assert node.disk.numbers == list(range(1, node.replica.position.number + 1))


def test_a_store_that_lacks_what_the_log_has_gets_it_when_its_node_goes_on() -> None:
    servers, _, node, _ = cluster()
    engine = node.lead()
    fates(servers, LANDED_UNANSWERED)
    with pytest.raises(LogAway):
        engine.commit(put()[0], sync=True)
    node.begin()

    assert node.engine().get("msg", b"rows1") == b"one"


def test_nobody_leads_without_a_record_that_says_so() -> None:
    _, clock, node, other = cluster()
    with pytest.raises(Replaced):
        node.engine()
    node.lead()
    other.follow()
    clock.now_s += 1
    with pytest.raises(Replaced):
        other.engine()


# --- the lease ---


def test_the_lease_counts_from_the_sending() -> None:
    """replication.lease-before-take-over"""
    servers, clock, node, _ = cluster()
    engine = node.lead()

    def slow(member: str, moment: str) -> None:
        clock.now_s += 3.0 if moment in ("sending", "answer") else 0.0

    servers.pause = slow
    sent_s = clock.now_s
    engine.commit(put()[0], sync=True)

    assert node.held[-1] == sent_s + LEASE_S
    assert engine.renewed_s == sent_s


def test_an_append_without_an_answer_gives_no_lease() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    held = list(node.held)
    fates(servers, LANDED_UNANSWERED, LOST)
    for _ in range(2):
        clock.now_s += 1.0
        with pytest.raises(LogAway):
            engine.renew()

    assert node.held == held


@pytest.mark.parametrize("writes", [False, True], ids=["nothing", "something"])
def test_an_answer_that_comes_when_the_lease_is_over_waits_for_another(writes: bool) -> None:
    """replication.no-word-without-lease: be it that nothing was to be kept, or that the log took long."""
    servers, clock, node, other = cluster()
    engine = node.lead()
    other.follow()
    write, told = put()
    if not writes:
        write.ops.clear()
        clock.now_s += LEASE_S

    def sleeps(member: str, moment: str) -> None:
        if member == "a" and moment == "answer" and writes:
            servers.pause = lambda member, moment: None
            take_over(clock, other)

    servers.pause = sleeps
    if writes:
        with pytest.raises(Replaced):
            engine.commit(write, sync=True)
        assert told == []
        assert other.disk.get("msg", b"rows1") == b"one"  # it was on the log before the other led
    else:
        engine.commit(write, sync=True)
        assert told == ["committed"]
        assert node.held[-1] == clock.now_s + LEASE_S


def test_an_empty_write_that_nobody_waits_for_needs_no_lease() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    clock.now_s += LEASE_S
    write, told = Write(), list[str]()
    write.on_commit(lambda: told.append("committed"))

    engine.commit(write, sync=False)

    assert (told, servers.last) == (["committed"], 2)


def test_who_steps_down_holds_nothing_and_adds_nothing() -> None:
    _, clock, node, other = cluster()
    engine = node.lead()
    other.follow()
    engine.step_down("b")

    assert node.held[-1] == 0.0
    with pytest.raises(Replaced):
        engine.commit(put()[0], sync=True)
    other.follow()
    assert other.follower.is_due()
    assert not node.follower.is_due()
    assert clock.now_s == 1000.0


@pytest.mark.parametrize("fate", [LANDED_UNANSWERED, LOST], ids=["landed", "lost"])
def test_who_steps_down_without_an_answer_speaks_no_more_until_it_is_known(fate: Fate) -> None:
    """replication.no-word-without-lease"""
    servers, _, node, _ = cluster()
    engine = node.lead()
    fates(servers, fate)
    with pytest.raises(LogAway):
        engine.step_down()
    assert node.held[-1] == 0.0
    write, told = put()
    write.ops.clear()

    if fate is LOST:
        engine.commit(write, sync=True)
    else:
        with pytest.raises(Replaced):
            engine.commit(write, sync=True)
    assert bool(told) == (fate is LOST)


def test_a_log_that_is_deleted_under_a_leader_is_away_for_however_long() -> None:
    """replication.log-before-answer: nothing is committed or told, and the store is as it was."""
    clock = Clock()
    node = Node(Servers(), clock)
    engine = node.lead()
    engine.commit(put()[0], sync=True)
    engine._log = Servers().client("a")

    for _ in range(2):
        write, told = put(b"two")
        with pytest.raises(LogAway, match="ends before what this store has"):
            engine.commit(write, sync=True)
        assert told == []
        clock.now_s += 1000 * LEASE_S
    assert node.disk.get("msg", b"rows1") == b"one"


def test_it_does_for_the_store_what_the_engine_below_does(tmp_path: Path) -> None:
    servers, clock = Servers(), Clock()
    node = Node(servers, clock)
    below = RocksEngine(tmp_path / "store")
    node.replica = node.follower.replica = Replica(below, "node-a")
    engine = node.lead()
    engine.commit(put()[0], sync=True)

    assert list(engine.scan("msg", b"rows", b"rowt")) == [(b"rows1", b"one")]
    assert engine.seek_before("msg", b"rows9", b"rows") == (b"rows1", b"one")
    assert (engine.missing, engine.kept) == (None, "")
    with pytest.raises(StorageDamaged, match="another one is to lead"):
        engine.keep_evidence()
    assert engine.kept == below.kept != ""
    assert engine.figures() == below.figures()
    assert engine.free_bytes() is not None
    engine.flush()
    engine.sync()
    engine.tidy(0, pressed=True)
    engine.reserve(0)
    engine.checkpoint(str(tmp_path / "copy"))
    engine.reopen()
    engine.close()
    copy = RocksEngine(tmp_path / "copy")
    assert Replica(copy, "node-b").position == node.replica.position
    copy.close()
