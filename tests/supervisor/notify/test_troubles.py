"""Each trouble is found in a status or an event that shows it, is over where that is, and is unknown where nobody says."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.notify.growth import CALM_S, Growth
from supervisor.notify.troubles import Trouble, take_over, troubles_of, troubles_of_events
from wire.config_settings import NoticeSettings
from wire.figure import of_map
from wire.status.answers import Event
from wire.status.node_status import Status
from wire.trouble_kinds import TroubleKind

ROW = {"name": "cloud", "lane": 0, "state": "connected", "depth": 0, "full": 0.0, "oldest_age_s": None, "dropped": {}, "refused": 0}
ACCESS = {"logins_failed": 0}
CALM = {"bridges": [ROW], "store": {"state": "running", "disk_free_bytes": 1 << 40}, "listener": {"limited": {}, "access": ACCESS}}


def status(**parts: Any) -> Status:
    told: Status = of_map(Status, {**CALM, **parts})
    return told


def row(**figures: Any) -> Status:
    return status(bridges=[{**ROW, **figures}])


def found(kind: str, told: Status, growth: Growth | None = None, now_s: float = 0.0, **keys: Any) -> list[Trouble]:
    rule = NoticeSettings(name="r", when=(kind,), **keys)
    return list(troubles_of(rule, told, {}, growth or Growth(), now_s))


@pytest.mark.parametrize(
    ("kind", "told", "about"),
    [
        ("link_down", row(state="backoff", reason="refused", down_s=7.0), "bridge cloud:0"),
        ("queue_age", row(depth=1, oldest_age_s=601.0), "bridge cloud:0"),
        ("queue_full", row(depth=9, full=0.8), "bridge cloud"),
        ("dead_letters", row(dead_letters={"held": 2, "reasons": {"remote_0x97": 2}}), "bridge cloud"),
        ("certificate", row(link={"certificate_ends_in_s": 3600.0}), "bridge cloud:0"),
        ("credential", row(link={"credential_ends_in_s": -1.0}), "bridge cloud:0"),
        ("disk", status(store={"state": "disk_full", "error": "no space", "disk_free_bytes": 0}), "store"),
        ("process_down", status(processes=[{"name": "http", "state": "restarting", "last_cause": "signal 9"}]), "http"),
    ],
)
def test_what_lasts_is_found_where_it_is_and_not_where_it_is_not(kind: str, told: Status, about: str) -> None:
    (trouble,) = found(kind, told)
    assert (trouble.kind, trouble.about, trouble.known, bool(trouble.text)) == (kind, about, True, True)
    assert [one for one in found(kind, row(link={})) if one.known] == []


def test_a_full_queue_is_told_once_a_bridge_and_once_a_class_with_limits_of_its_own() -> None:
    room = {"limit": "max_messages", "used": 9, "most": 10, "when_full": "", "cure": ""}
    whole, own = (
        {**ROW, "full": 0.9, "room": {"name": "cloud", **room}},
        {**ROW, "full": 0.9, "room": {"name": "cloud:bulk", **room}},
    )
    told = status(bridges=[whole, {**whole, "lane": 1}, {**own, "lane": "bulk"}, {**ROW, "lane": "urgent"}])
    assert [each.about for each in found("queue_full", told)] == ["bridge cloud", "bridge cloud:bulk"]


def test_a_link_that_an_operator_has_paused_is_in_no_trouble() -> None:
    assert found("link_down", row(state="paused", paused_since_ms=1)) == []
    assert found("link_down", row(state="backoff"), bridges=("other",)) == []


@pytest.mark.parametrize("kind", ["queue_age", "queue_full", "dead_letters", "certificate", "credential"])
def test_what_nobody_says_is_unknown(kind: str) -> None:
    """A store that starts tells nothing of its queues yet; a trouble that stood is not over by that."""
    (trouble,) = found(kind, row(depth=None, full=None))
    assert not trouble.known


def test_the_store_that_says_nothing_is_unknown_and_little_room_is_a_trouble_where_a_rule_says_how_much() -> None:
    assert [one.known for one in found("disk", status(store={}))] == [False]
    low = status(store={"state": "running", "disk_free_bytes": 5})
    assert found("disk", low) == []
    assert [one.about for one in found("disk", low, free_bytes=6)] == ["store"]


def test_messages_that_are_lost_are_a_trouble_while_they_are_and_those_that_an_operator_purged_are_none() -> None:
    growth = Growth()
    look = [found("messages_lost", row(dropped={"overflow": n, "purged": n}), growth, now_s) for n, now_s in ((3, 0.0), (3, 1.0))]
    assert look == [[], []]
    (trouble,) = found("messages_lost", row(dropped={"overflow": 4, "purged": 9}), growth, 2.0)
    assert "overflow" in trouble.text
    assert "purged" not in trouble.text
    assert found("messages_lost", row(dropped={"overflow": 4, "purged": 9}), growth, 3.0) != []
    assert found("messages_lost", row(dropped={"overflow": 4, "purged": 9}), growth, 3.0 + CALM_S) == []


def test_the_first_message_that_is_ever_lost_for_a_reason_is_told() -> None:
    growth = Growth()
    assert found("messages_lost", row(dropped={}), growth, 0.0) == []
    (trouble,) = found("messages_lost", row(dropped={"overflow": 1}), growth, 1.0)
    assert "overflow" in trouble.text


def test_a_store_or_a_listener_that_starts_has_lost_nothing_and_ends_nothing() -> None:
    """Nobody says anything then; the counts of before are not new when they come back."""
    growth, before = Growth(), row(dropped={"overflow": 500}, refused=70)
    looks = [before, row(depth=None, dropped={}, refused=None), before]
    assert [[one.known for one in found("messages_lost", told, growth, float(at))] for at, told in enumerate(looks)] == [
        [],
        [False],
        [],
    ]
    assert [one.known for one in found("refused_clients", status(listener=None))] == [False]


def test_messages_that_a_rule_leaves_out_are_not_lost() -> None:
    growth = Growth()
    thinned = {"unchanged": 1, "one_per": 1, "superseded": 1}
    assert found("messages_lost", row(dropped=thinned), growth, 0.0) == []
    assert found("messages_lost", row(dropped=dict.fromkeys(thinned, 9)), growth, 1.0) == []


def test_a_count_that_begins_anew_has_not_grown() -> None:
    growth = Growth()
    assert [growth.within(TroubleKind.DISK, "x", count, float(at)) for at, count in enumerate((5, 9, 2, 3))] == [0, 4, 0, 1]


def test_clients_are_in_trouble_when_many_are_refused_within_a_minute() -> None:
    growth, keys = Growth(), {"per_minute": 3}
    told = [status(listener={"limited": {}, "access": {"logins_failed": count}}) for count in (0, 2, 3)]
    assert [len(found("refused_clients", one, growth, float(at), **keys)) for at, one in enumerate(told)] == [0, 0, 1]
    assert found("refused_clients", told[-1], growth, 3 + CALM_S, **keys) == []


def event(kind: str, reason: str = "", **details: Any) -> Event:
    return Event(number=1, at_ms=7, kind=kind, bridge="", lane=-1, actor="store", reason=reason, count=0, details=details)


def test_single_events_are_found_and_what_was_ordered_is_none() -> None:
    rule = NoticeSettings(name="r", when=("process_ended", "take_over", "clock_step"))
    events = [
        event("process.ended", "ordered"),
        event("process.ended", "signal 9"),
        event("clock.jumped", by_ms=-60_000),
        event("clock.jumped", by_ms=20),
        event("link.down"),
    ]
    assert [(one.kind, one.at_ms) for one in troubles_of_events(rule, events)] == [
        ("process_ended", 7),
        ("clock_step", 7),
    ]
    assert list(troubles_of_events(NoticeSettings(name="r", when=("take_over",)), events)) == []


@pytest.mark.parametrize(
    ("former", "now", "text"),
    [
        ("standby", {"role": "leader", "member": "a", "leader": "a"}, "a leads now"),
        ("leader", {"role": "standby", "member": "a", "leader": "b"}, "this node leads no more; b does"),
        ("leader", {"role": "standby", "member": "a", "leader": "a"}, "this node leads no more"),
        ("", {"role": "leader", "member": "a"}, None),
        ("leader", {"role": "leader", "member": "a"}, None),
        ("leader", None, None),
    ],
)
def test_another_role_than_at_the_last_look_is_a_take_over(former: str, now: dict[str, str] | None, text: str | None) -> None:
    told = status() if now is None else status(replication=now)
    rule = NoticeSettings(name="r", when=("take_over",))
    assert [one.text for one in take_over(rule, former, told)] == ([] if text is None else [text])
    assert list(take_over(NoticeSettings(name="r", when=("link_down",)), former, told)) == []


def test_the_node_s_own_certificates_are_looked_at_by_rules_for_all_bridges() -> None:
    ends = {"server.pem": 60.0, "later.pem": 10.0**9}
    rule = NoticeSettings(name="r", when=("certificate",))
    assert [one.about for one in troubles_of(rule, status(bridges=[]), ends, Growth(), 0.0)] == ["server.pem"]
