"""A leader's work beside its commits: it renews its lease, tells how far it is, and trims what everybody has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage.replication.leader import SYNC_S, Leader
from storage.replication.lease import RENEWALS, patience_s
from storage.replication.members import MemberReport, read_reports
from storage.replication.replicated_engine import Replaced
from tests.storage.replication.building import LEASE_S, NO_TRIM, Clock, Node, put
from tests.support.log_double import Servers
from wire.errors import ConfigError

WALL_MS = 5_000_000


class Led:
    """A leader, and what is told to it."""

    def __init__(self, folder: Path, **changed: Any) -> None:
        self.servers, self.clock = Servers(), Clock()
        self.node = Node(self.servers, self.clock, "a", **changed)
        self.leader: Leader = self.node.leader(folder)

    def commit(self, count: int = 1) -> None:
        for _ in range(count):
            self.leader.engine.commit(put()[0], sync=True)

    def look(self, after_s: float = LEASE_S / RENEWALS) -> None:
        self.clock.now_s += after_s
        self.leader.tick(WALL_MS + int(self.clock.now_s * 1000))

    def told(self, member: str, node: str = "", **said: Any) -> None:
        """``member`` tells."""
        plain: dict[str, Any] = {"role": "standby", "sequence": 0, "synced": 0, "number": 0, "term": 1}
        at_ms = WALL_MS + int(self.clock.now_s * 1000)
        self.servers.reports[member] = MemberReport(node=node or f"node-{member}", at_ms=at_ms, **plain | said).encode()


@pytest.fixture
def led(tmp_path: Path) -> Led:
    return Led(tmp_path)


def test_the_lease_is_renewed_in_time_and_a_commit_renews_it_too(led: Led) -> None:
    records = led.leader.engine.records
    led.look(0.1)
    assert led.leader.engine.records == records
    for _ in range(20):
        led.look(led.leader.period_s)
        assert led.leader.lease_left_s >= LEASE_S * (1 - 2 / RENEWALS)

    led.clock.now_s += LEASE_S / RENEWALS - 0.1
    led.commit()
    records = led.leader.engine.records
    led.look(0.2)
    assert led.leader.engine.records == records


def test_while_the_log_is_away_the_lease_runs_out_and_then_it_goes_on(led: Led) -> None:
    led.servers.away = True
    led.look(LEASE_S)

    assert led.leader.log_error
    assert led.leader.lease_left_s <= 0
    led.servers.away = False
    led.look(1.0)
    assert led.leader.log_error == ""
    assert led.leader.lease_left_s == LEASE_S


def test_one_that_slept_through_its_lease_learns_that_another_leads(led: Led) -> None:
    other = Node(led.servers, led.clock, "b")
    other.follow()
    led.clock.now_s += patience_s(LEASE_S)
    other.lead()

    with pytest.raises(Replaced):
        led.look(0.0)
    assert led.leader.lease_left_s < 0


def test_it_tells_what_it_has_on_disk_and_what_it_offers(led: Led) -> None:
    led.commit(3)
    led.leader.offered = ("at-2", 2)
    led.look(SYNC_S)
    led.look()

    own = read_reports(led.servers.reports)["a"]
    assert (own.role, own.node, own.base, own.base_sequence) == ("leader", "node-a", "at-2", 2)
    assert own.sequence == led.node.replica.position.sequence
    assert own.synced == led.node.replica.synced.sequence == led.node.disk.synced_position.sequence
    assert led.leader.log_last == led.servers.last


def test_the_log_is_trimmed_to_what_each_member_has_on_disk(led: Led) -> None:
    """replication.trimmed-when-kept"""
    led.commit(8)
    led.told("b", sequence=9, synced=5)
    led.told("c", needs_base=True)
    led.look()
    assert led.servers.first == 6

    led.told("b", sequence=9, synced=9)
    led.look()
    assert led.servers.first == 10
    led.leader.offered = ("at-10", 10)
    led.commit(5)
    led.told("b", sequence=15, synced=15)
    led.look()
    assert led.servers.first == 11
    assert led.leader.log_first == 11


def test_the_leader_keeps_what_its_own_disk_lacks(led: Led) -> None:
    """replication.trimmed-when-kept"""
    led.look(SYNC_S)
    synced = led.node.replica.synced.sequence
    led.clock.now_s += LEASE_S
    led.node.disk.refuses = True
    led.told("b", synced=100)

    led.look(0.0)

    assert led.servers.first <= synced + 1


@pytest.mark.parametrize("limit", [{"max_bytes": 100}, {"max_age_s": 10.0}])
def test_beyond_its_limits_the_log_waits_for_nobody(tmp_path: Path, limit: dict[str, Any]) -> None:
    led = Led(tmp_path, trim=replace(NO_TRIM, **limit))
    led.told("b", synced=1)
    led.clock.now_s += 10.5
    led.commit(5)

    led.look()
    led.look()

    assert led.servers.first > 5


def test_a_member_that_asks_to_lead_is_heard_when_it_can(led: Led) -> None:
    led.told("b", wants=True, needs_base=True)
    led.told("c", wants=True, role="leader")
    led.look()
    assert led.leader.wanted() == ""

    led.told("d", wants=True)
    led.look()
    assert led.leader.wanted() == "d"


def test_a_base_is_offered_once_and_again_when_the_log_has_gone_on(led: Led) -> None:
    led.look()
    assert not led.leader.needs_base()
    led.told("b", needs_base=True)
    led.look()
    assert led.leader.needs_base()
    assert led.leader.base_is_needed()

    led.leader.offered = ("at-4", 4)
    assert not led.leader.needs_base()
    led.leader.log_first = 6
    assert led.leader.needs_base()


def test_of_two_nodes_of_one_name_the_newcomer_is_refused_and_says_nothing(led: Led) -> None:
    led.told("a", "node-z")
    before = dict(led.servers.reports)

    with pytest.raises(ConfigError) as refused:
        led.look()
    assert refused.value.fields == {"member": "a", "other": "node-z"}
    assert led.servers.reports == before


def test_the_epoch_goes_with_the_records(led: Led) -> None:
    led.leader.engine.epoch = 77
    led.leader.tick(WALL_MS)
    led.commit()

    assert led.node.replica.position.epoch == 77
