"""A member that follows: it applies what comes, knows when it is to lead, and leads with all that the log has or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage.engine.engine import Write
from storage.replication.follower import STEPPED_DOWN_REST_S
from storage.replication.lease import RENEWALS, patience_s
from storage.replication.log import LogAway
from storage.replication.records import split
from storage.replication.replicated_engine import Replaced
from tests.storage.replication.building import LEASE_S, Clock, Node, put, term_record
from tests.support.log_double import LANDED_UNANSWERED, LATE, LOST, Servers
from wire.errors import ConfigError, Unavailable


def made() -> tuple[Servers, Clock, Node, Node]:
    servers, clock = Servers(), Clock()
    return servers, clock, Node(servers, clock, "a"), Node(servers, clock, "b")


def test_it_applies_what_comes_and_knows_how_far_it_is() -> None:
    servers, clock, node, other = made()
    engine = node.lead()
    for _ in range(5):
        engine.commit(put()[0], sync=True)
    other.follower.poll()
    assert other.follower.behind == 7

    clock.now_s += 3.0
    assert other.follower.silent_s() == 3.0
    assert other.follower.follow() == servers.read_messages
    assert other.follower.silent_s() == 0.0
    other.follow()
    other.follower.poll()

    assert other.follower.behind == 0
    assert other.replica.position.number == node.replica.position.number == 7


def test_a_member_of_an_empty_log_leads_after_a_lease_and_at_once_with_a_store_of_its_own() -> None:
    _, clock, node, other = made()
    write = Write()
    write.put("meta", b"old", b"kept")
    other.disk.commit(write, sync=True)
    other.begin()

    assert not node.follower.is_due()
    assert other.follower.is_due()
    clock.now_s += patience_s(LEASE_S)
    assert node.follower.is_due()


def test_who_led_last_leads_again_at_once_and_others_after_the_lease() -> None:
    """replication.lease-before-take-over"""
    _, clock, node, other = made()
    node.lead()
    other.follow()
    node.begin()

    assert node.follower.is_due()
    assert not other.follower.is_due()
    clock.now_s += patience_s(LEASE_S) - 0.1
    assert not other.follower.is_due()
    clock.now_s += 0.1
    assert other.follower.is_due()
    node.engine().renew()
    other.follow()
    assert not other.follower.is_due()


@pytest.mark.parametrize(("successor", "due"), [("", {"b", "c"}), ("b", {"b"}), ("gone", set[str]())])
def test_when_a_leader_steps_down_its_successor_leads_at_once(successor: str, due: set[str]) -> None:
    servers, clock, node, other = made()
    third = Node(servers, clock, "c")
    node.lead().step_down(successor)
    for one in (node, other, third):
        one.begin()
        one.follow()

    assert {one.settings.member for one in (node, other, third) if one.follower.is_due()} == due
    clock.now_s += STEPPED_DOWN_REST_S
    assert node.follower.is_due()
    clock.now_s += patience_s(LEASE_S)
    assert other.follower.is_due()
    assert third.follower.is_due()


def test_who_needs_a_base_never_leads() -> None:
    servers, clock, node, other = made()
    engine = node.lead()
    for _ in range(5):
        engine.commit(put()[0], sync=True)
    node.log.trim(4)
    clock.now_s += patience_s(LEASE_S)

    other.follower.poll()
    assert other.follower.needs_base
    assert not other.follower.is_due()
    other.begin()
    assert other.follower.follow() == 0
    assert other.follower.needs_base
    assert not other.follower.is_due()
    assert not other.follower.lead(1)
    assert servers.first == 4


def test_nobody_leads_who_has_not_read_to_the_end() -> None:
    """replication.whole-before-lead"""
    servers, clock, node, other = made()
    engine = node.lead()
    other.follow()
    engine.commit(put()[0], sync=True)
    clock.now_s += patience_s(LEASE_S)
    before = servers.last

    assert other.follower.is_due()
    assert not other.follower.lead(1)
    assert servers.last == before
    other.follow()
    clock.now_s += patience_s(LEASE_S)
    assert other.follower.lead(1)
    assert other.disk.get("msg", b"rows1") == b"one"
    assert other.disk.synced_position == other.replica.position


def test_a_record_that_lands_between_the_look_and_the_word_keeps_it_from_leading() -> None:
    """replication.whole-before-lead"""
    servers, clock, node, other = made()
    engine = node.lead()
    other.follow()
    clock.now_s += patience_s(LEASE_S)

    def meanwhile(member: str, moment: str) -> None:
        if (member, moment) == ("b", "sending"):
            engine.commit(put()[0], sync=True)

    servers.pause = meanwhile

    assert not other.follower.lead(1)
    assert other.replica.position.term == 1


def test_of_two_that_want_to_lead_one_does() -> None:
    """replication.expected-sequence"""
    servers, clock, node, other = made()
    clock.now_s += patience_s(LEASE_S)
    assert node.follower.is_due()
    assert other.follower.is_due()
    led: list[bool] = []

    def meanwhile(member: str, moment: str) -> None:
        if (member, moment) == ("a", "sending"):
            led.append(other.follower.lead(1))

    servers.pause = meanwhile
    assert not node.follower.lead(1)
    assert led == [True]
    node.follow()
    with pytest.raises(Replaced):
        node.engine()


@pytest.mark.parametrize("fate", [LANDED_UNANSWERED, LOST, LATE], ids=["landed", "lost", "late"])
def test_one_that_does_not_know_whether_it_leads_finds_out(fate: object) -> None:
    servers, _, node, _ = made()
    node.lead()
    node.begin()
    servers.fate = lambda member, count: fate  # type: ignore[assignment,return-value]  # one of those above
    with pytest.raises(LogAway):
        node.follower.lead(1)
    servers.fate = Servers().fate
    if servers.late:
        servers.land_late()
        assert not node.follower.lead(1)
    node.follow()

    assert node.follower.is_due()
    assert node.follower.lead(1)
    node.engine().commit(put()[0], sync=True)
    assert node.replica.position.term == (2 if fate is LOST else 3)


def test_the_epoch_of_a_leader_is_above_all_that_were() -> None:
    _, clock, node, other = made()
    assert node.follower.lead(7)
    engine = node.engine()
    engine.epoch = 12
    engine.renew()
    other.follow()
    clock.now_s += patience_s(LEASE_S)

    assert other.follower.lead(3)
    assert other.replica.position.epoch == 12


def test_a_log_that_ends_before_what_is_here_is_anothers() -> None:
    """replication.foreign-log-left-alone: the stream was deleted, and has been started again by others."""
    _, clock, node, other = made()
    engine = node.lead()
    for _ in range(5):
        engine.commit(put()[0], sync=True)
    other.follow()
    young = Servers()
    Node(young, clock, "c").lead()
    other.follower._log = young.client("b")

    clock.now_s += 10 * LEASE_S
    for _ in range(RENEWALS):
        other.follower.poll()
        assert not other.follower.lead(1)
        clock.now_s += LEASE_S
    with pytest.raises(ConfigError, match="deleted, or is an older one"):
        other.follower.poll()


def test_a_log_whose_end_is_not_known_at_once_is_waited_for() -> None:
    """replication.foreign-log-left-alone"""
    servers, clock, node, other = made()
    node.lead()
    other.follow()
    other.follower._log = Servers().client("b")
    other.follower.poll()
    other.follower._log = servers.client("b")
    clock.now_s += LEASE_S
    other.follower.poll()
    other.follower._log = Servers().client("b")

    other.follower.poll()


def test_a_log_with_something_in_it_is_not_begun_again() -> None:
    servers, clock, node, _ = made()
    servers.land(split(term_record(), 1000)[0], 0)
    clock.now_s += patience_s(LEASE_S)

    assert not node.follower.lead(1)
    assert servers.last == 1


def test_who_begins_a_log_with_a_store_says_so() -> None:
    _, _, node, other = made()
    write = Write()
    write.put("meta", b"old", b"kept")
    node.disk.commit(write, sync=True)
    node.begin()
    assert node.follower.lead(1)

    assert other.follower.follow() == 0
    assert other.follower.needs_base


def test_a_disk_that_refuses_holds_it_up_and_no_longer() -> None:
    _, _, node, other = made()
    node.lead().commit(put()[0], sync=True)
    other.disk.refuses = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            other.follower.follow()
    other.disk.refuses = False

    other.follow()

    assert other.disk.numbers == [1, 2, 3]


@pytest.mark.parametrize(
    "act",
    [
        lambda node: node.follower.follow(),
        lambda node: node.follower.poll(),
        lambda node: node.follower.lead(1),
    ],
    ids=["follow", "look", "lead"],
)
def test_without_the_log_nothing_is_done(act: Callable[[Node], object]) -> None:
    servers, _, node, _ = made()
    servers.away = True

    with pytest.raises(LogAway):
        act(node)
    assert node.disk.changes == 0
