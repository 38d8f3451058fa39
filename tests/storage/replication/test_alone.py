"""With ``on_loss: degrade`` a leader goes on without the log when that is away for long; then others begin anew with its store.

replication.alone-until-rebased
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from storage.replication.absence import Absence
from storage.replication.leader import Leader
from storage.replication.lease import LeaseFile
from storage.replication.log import LogAway
from storage.replication.records import REBASE, Assembly, Record
from storage.replication.replica import WentApart
from storage.replication.replicated_engine import Replaced, ReplicatedEngine
from tests.storage.replication.building import LEASE_S, Clock, Node, put
from tests.storage.replication.disk_double import rows
from tests.support.log_double import LANDED_UNANSWERED, LOST, Fate, Servers
from wire.errors import StorageDamaged

AFTER_S = 5.0


def cluster(after_s: float | None = AFTER_S) -> tuple[Servers, Clock, Node, Node]:
    """One that leads soon, and one that follows it."""
    servers, clock = Servers(), Clock()
    return servers, clock, Node(servers, clock, "a", alone_after_s=after_s), Node(servers, clock, "b", alone_after_s=after_s)


def refused(engine: ReplicatedEngine, value: bytes = b"one") -> list[str]:
    write, told = put(value)
    with pytest.raises(LogAway):
        engine.commit(write, sync=True)
    return told


def gone_alone(servers: Servers, clock: Clock, engine: ReplicatedEngine) -> None:
    """Have the log away for so long that ``engine`` goes on without it, with ``two`` in its store."""
    servers.away = True
    refused(engine)
    clock.now_s += AFTER_S
    write, told = put(b"two")
    engine.commit(write, sync=True)
    assert (engine.alone, told) == (True, ["committed"])


def waited_for(clock: Clock) -> Absence:
    """Of a log that was waited for."""
    absence = Absence(clock)
    absence.begins()
    clock.now_s += AFTER_S
    return absence


def newest(servers: Servers) -> Record:
    assembly = Assembly()
    found = [record for entry in servers.entries if (record := assembly.take(entry)) is not None]
    return found[-1]


def test_the_log_is_waited_for_first() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    servers.away = True

    assert refused(engine) == []
    clock.now_s += AFTER_S - 0.1
    assert refused(engine) == []
    assert not engine.alone
    clock.now_s += 0.1
    write, told = put(b"two")
    engine.commit(write, sync=True)

    assert (engine.alone, engine.alone_commits, told) == (True, 1, ["committed"])
    node.disk.lose_power()
    assert node.disk.get("msg", b"rows1") == b"two"
    assert node.disk.position.alone


def test_a_log_that_is_back_in_time_is_gone_on_with() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    servers.away = True
    refused(engine)
    servers.away = False
    engine.commit(put()[0], sync=True)
    clock.now_s += AFTER_S
    servers.away = True

    assert refused(engine) == []
    assert not engine.alone


def test_who_waits_goes_on_with_nothing() -> None:
    servers, clock, node, _ = cluster(None)
    engine = node.lead()
    servers.away = True
    refused(engine)
    clock.now_s += 100 * AFTER_S

    assert refused(engine) == []


def test_the_store_that_opens_its_engine_anew_goes_on() -> None:
    """After a refusal the store does that first."""
    servers, clock, node, _ = cluster()
    engine = node.lead()
    servers.away = True
    refused(engine)
    with pytest.raises(LogAway):
        engine.reopen()
    clock.now_s += AFTER_S

    engine.reopen()
    assert engine.alone


def test_nobody_takes_over_by_itself() -> None:
    _, clock, node, other = cluster()
    engine = node.lead()
    other.follow()
    clock.now_s += 1000 * LEASE_S

    assert not other.follower.is_due()
    other.follower.forced = True
    assert other.follower.is_due()
    other.lead()
    with pytest.raises(Replaced):
        engine.commit(put()[0], sync=True)


def test_a_leader_that_steps_down_lets_another_lead() -> None:
    _, clock, node, other = cluster()
    engine = node.lead()
    engine.step_down()
    other.follow()

    assert other.follower.is_due()
    other.lead()

    assert not node.follower.goes_alone(waited_for(clock))


def test_who_may_have_said_that_it_leads_no_more_does_not_go_on_alone() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    servers.fate = lambda member, count: LOST
    with pytest.raises(LogAway):
        engine.step_down()
    node.disk.lose_power()
    node.begin()

    assert not node.follower.goes_alone(waited_for(clock))


def test_what_it_has_acknowledged_is_on_its_own_disk_before_it_goes_on() -> None:
    _, clock, node, _ = cluster()
    node.lead().commit(put(b"kept")[0], sync=True)
    node.disk.lose_power()
    node.begin()

    assert node.follower.goes_alone(waited_for(clock))
    assert node.disk.get("msg", b"rows1") == b"kept"


def test_when_the_log_is_back_others_begin_anew() -> None:
    servers, clock, node, other = cluster()
    engine = node.lead()
    other.follow()
    gone_alone(servers, clock, engine)
    servers.away = False

    engine.rejoin()

    assert (engine.alone, newest(servers).kind) == (False, REBASE)
    assert node.disk.position.rebased == servers.last
    other.follow()
    assert "went on without the log" in other.follower.needs_base
    assert not other.follower.is_due()
    engine.commit(put(b"three")[0], sync=True)
    node.disk.lose_power()
    node.begin()
    node.engine()
    assert node.disk.get("msg", b"rows1") == b"three"


def test_what_went_without_an_answer_is_not_applied_once_more() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    fates = [LANDED_UNANSWERED]
    servers.fate = lambda member, count: fates.pop() if fates else Fate()
    refused(engine)
    gone_alone(servers, clock, engine)
    servers.away = False

    engine.rejoin()

    assert node.disk.get("msg", b"rows1") == b"two"
    assert newest(servers).number == node.replica.position.number


@pytest.mark.parametrize("fate", [LOST, LANDED_UNANSWERED])
def test_a_return_that_is_not_answered_is_done_again(fate: Fate) -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    gone_alone(servers, clock, engine)
    servers.away = False
    fates = [fate]
    servers.fate = lambda member, count: fates.pop() if fates else Fate()
    with pytest.raises(LogAway):
        engine.rejoin()
    assert engine.alone

    engine.rejoin()
    engine.commit(put(b"three")[0], sync=True)
    assert node.disk.get("msg", b"rows1") == b"three"


def test_who_was_replaced_meanwhile_says_so() -> None:
    servers, clock, node, other = cluster()
    engine = node.lead()
    other.follow()
    gone_alone(servers, clock, engine)
    servers.away = False
    other.follower.forced = True
    other.lead()

    with pytest.raises(WentApart, match="another member has led meanwhile"):
        engine.rejoin()
    assert node.disk.get("msg", b"rows1") == b"two"


def test_a_log_that_was_deleted_meanwhile_is_not_gone_on_with() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    engine.commit(put()[0], sync=True)
    gone_alone(servers, clock, engine)
    engine._log = Servers().client("a")

    with pytest.raises(LogAway, match="ends before what this store has"):
        engine.rejoin()
    assert engine.alone


def test_a_store_that_another_member_left_alone_is_not_taken_for_its_own() -> None:
    servers, clock, node, other = cluster()
    gone_alone(servers, clock, node.lead())
    other.disk = node.disk
    other.begin()

    with pytest.raises(WentApart, match="as another member's"):
        other.replica.look_over(servers.client("b"))


def test_a_process_that_begins_while_the_log_is_away_goes_on(tmp_path: Path) -> None:
    servers, clock, node, _ = cluster()
    gone_alone(servers, clock, node.lead())
    node.begin()
    lease = LeaseFile(tmp_path, clock)

    leader = Leader(node.replica, node.log, node.settings, lease, clock)

    assert leader.engine.alone
    assert math.isinf(leader.lease_left_s)
    leader.engine.commit(put(b"three")[0], sync=True)
    lease.close()


@pytest.mark.parametrize("waited", [False, True])
def test_a_process_that_begins_waits_for_the_log_first(tmp_path: Path, *, waited: bool) -> None:
    servers, clock, node, _ = cluster()
    node.lead()
    servers.away = True
    node.begin()
    lease = LeaseFile(tmp_path, clock)

    if waited:
        assert Leader(node.replica, node.log, node.settings, lease, clock, absence=waited_for(clock)).engine.alone
    else:
        with pytest.raises(LogAway):
            Leader(node.replica, node.log, node.settings, lease, clock)
    lease.close()


def test_all_is_shared_once_another_member_has_the_store(tmp_path: Path) -> None:
    servers, clock, node, other = cluster()
    leader = node.leader(tmp_path)
    assert leader.is_shared
    gone_alone(servers, clock, leader.engine)
    leader.look(0)
    assert (leader.is_shared, leader.engine.alone) == (False, True)
    servers.away = False
    leader.look(0)
    assert leader.engine.alone, "nobody has seen yet that it answers"

    leader.log_answers = True
    leader.look(0)
    assert (leader.is_shared, leader.engine.alone, leader.needs_base()) == (False, False, True)
    leader.offered = ("at", node.replica.position.sequence)
    assert (leader.is_shared, leader.needs_base(), leader.base_is_needed()) == (True, False, True)
    report = other.replica.report("standby", 0, "")
    servers.reports["b"] = replace(report, synced=servers.last).encode()
    clock.now_s += LEASE_S
    leader.look(0)
    assert not leader.base_is_needed()
    assert node.disk.position.alone_since_ms == 0


def test_what_nobody_else_has_is_not_taken_for_shared_after_a_new_start(tmp_path: Path) -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    gone_alone(servers, clock, engine)
    servers.away = False
    engine.rejoin()
    node.begin()
    node.follow()

    leader = node.leader(tmp_path)

    assert (leader.is_shared, leader.needs_base()) == (False, True)
    assert node.disk.position.alone_since_ms > 0


def test_a_store_that_was_offered_before_does_not_count(tmp_path: Path) -> None:
    servers, clock, node, _ = cluster()
    leader = node.leader(tmp_path)
    before = node.replica.position.sequence
    gone_alone(servers, clock, leader.engine)
    leader.offer("before", before)
    assert leader.offered == ("", 0)
    servers.away = False
    leader.engine.rejoin()
    leader.offer("before", before)

    assert (leader.is_shared, leader.needs_base()) == (False, True)
    leader.offer("now", servers.last)
    assert (leader.is_shared, leader.needs_base()) == (True, False)


def test_a_log_that_is_deleted_under_a_leader_is_away() -> None:
    _, clock, node, _ = cluster()
    engine = node.lead()
    engine.commit(put()[0], sync=True)
    engine._log = Servers().client("a")

    assert refused(engine) == []
    clock.now_s += AFTER_S
    write, told = put(b"two")
    engine.commit(write, sync=True)
    assert (engine.alone, told) == (True, ["committed"])


def test_a_log_that_another_has_begun_is_not_gone_on_with() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    gone_alone(servers, clock, engine)
    young = Servers()
    other = Node(young, clock, "c", alone_after_s=AFTER_S).lead()
    for _ in range(5):
        other.commit(put()[0], sync=True)
    engine._log = young.client("a")

    with pytest.raises(WentApart):
        engine.rejoin()
    assert newest(young).kind != REBASE


def test_an_older_copy_of_a_store_is_not_gone_on_with() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    gone_alone(servers, clock, engine)
    older = rows(node.disk)
    servers.away = False
    engine.rejoin()
    for _ in range(3):
        engine.commit(put(b"newer")[0], sync=True)
    node.disk.install(older)
    node.begin()

    with pytest.raises(WentApart):
        node.engine().rejoin()


def test_a_log_of_which_a_part_does_not_come_is_not_known() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    gone_alone(servers, clock, engine)
    servers.away = False
    servers.land(servers.entries[-1].data, servers.last)
    servers.read_messages = 0

    with pytest.raises(LogAway, match="not read to its end"):
        node.replica.look_over(node.log)


def test_who_cannot_say_that_it_leads_no_more_may_go_on_alone() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    servers.away = True
    with pytest.raises(LogAway):
        engine.step_down()
    node.begin()

    assert node.follower.goes_alone(waited_for(clock))


def test_a_term_that_ends_is_noted_before_it_is_sent() -> None:
    """The setting was changed, and the answer does not come: others may take over after this term's lease."""
    servers, clock, node, _ = cluster()
    node.lead()
    waits = Node(servers, clock, "a")
    waits.disk = node.disk
    waits.begin()
    waits.follow()
    servers.fate = lambda member, count: LANDED_UNANSWERED
    with pytest.raises(LogAway):
        waits.follower.lead(2)
    node.begin()

    assert not node.follower.goes_alone(waited_for(clock))


def test_damage_of_the_only_store_is_told_as_on_one_box() -> None:
    servers, clock, node, _ = cluster()
    engine = node.lead()
    with pytest.raises(StorageDamaged, match="another one is to lead"):
        engine.keep_evidence()
    gone_alone(servers, clock, engine)

    assert engine.keep_evidence() == node.disk.keep_evidence()
