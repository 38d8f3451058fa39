"""The values of the ``$SYS`` topics, and who gets which."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.access.access_rules import ClientAccess
from wire.figure import of_map
from wire.frames.batch import RETAIN
from wire.mqtt.topics import matches
from wire.routing.sys_topics import (
    Filters,
    LoadAverages,
    SysFigures,
    SysLane,
    SysTopicReaders,
    Wanting,
    asks_for_sys,
    is_reserved,
    listener_values,
    node_values,
    packets_in,
    rows_for,
    shares,
    sys_batch,
)
from wire.status.bridges import QueueFigures
from wire.status.client_figures import DistributorFigures, TrafficFigures
from wire.status.store import SessionFigures

TOPICS = [b"$SYS/broker/uptime", b"$SYS/broker/bytes/sent", b"$SYS/bascule/sessions/kept"]
SESSIONS = {"kept": 5, "connected": 2, "expired": 1, "depth": 7, "bytes": 70, "retained": {"messages": 3, "bytes": 30}}
AS_PUBLISHED = 0x08
DISTRIBUTOR = DistributorFigures(routed=0, loops=0, copies=0, subscriptions=9)


LANES = (
    SysLane("cloud", 0, True, QueueFigures(depth=10, bytes=100, refused=3)),
    SysLane("cloud", 1, False, QueueFigures()),
)


FIGURES = SysFigures(
    connected=4, most_connected=6, outstanding_batches=1, refused_messages=2, reserved_publishes=3, refused={"half_open_max": 8}
)


def values_of(node: dict[str, int]) -> dict[str, str]:
    traffic = TrafficFigures(
        messages_received=10, messages_sent=20, publish_received=3, publish_sent=4, bytes_received=500, bytes_sent=600
    )
    batch = sys_batch("1.2", 77, node, listener_values(traffic, FIGURES), {"$SYS/broker/load/x/1min": "0.50"}, 5)
    assert set(batch.flags) == {RETAIN}
    assert len(set(batch.topics)) == len(batch)
    payloads = [payload.decode() for payload in batch.rows_payloads()]
    return dict(zip([topic.decode() for topic in batch.topics], payloads, strict=True))


def test_the_values_have_the_names_that_users_know() -> None:
    values = values_of(node_values(DISTRIBUTOR, of_map(SessionFigures, SESSIONS), LANES))
    assert all(is_reserved(topic.encode()) for topic in values)
    broker = {topic[len("$SYS/broker/") :]: value for topic, value in values.items() if topic.startswith("$SYS/broker/")}
    assert broker == {
        "version": "bascule version 1.2",
        "uptime": "77 seconds",
        "clients/connected": "4",
        "clients/active": "4",
        "clients/disconnected": "3",
        "clients/inactive": "3",
        "clients/total": "7",
        "clients/maximum": "6",
        "clients/expired": "1",
        "messages/received": "10",
        "messages/sent": "20",
        "publish/messages/received": "3",
        "publish/messages/sent": "4",
        "bytes/received": "500",
        "bytes/sent": "600",
        "messages/stored": "20",  # 7 of sessions, 3 retained, 10 of the lane that is known
        "store/messages/count": "20",
        "store/messages/bytes": "200",
        "retained messages/count": "3",
        "subscriptions/count": "9",
        "load/x/1min": "0.50",
    }


def test_values_of_our_own() -> None:
    values = values_of(node_values(DISTRIBUTOR, of_map(SessionFigures, SESSIONS), LANES))
    ours = {topic[len("$SYS/bascule/") :]: value for topic, value in values.items() if topic.startswith("$SYS/bascule/")}
    assert ours == {
        "batches/outstanding": "1",
        "sessions/kept": "5",
        "sessions/depth": "7",
        "refused/messages": "2",
        "refused/reserved_topic": "3",
        "refused/half_open_max": "8",
        "bridge/cloud/0/connected": "1",
        "bridge/cloud/0/depth": "10",
        "bridge/cloud/0/refused": "3",
        "bridge/cloud/1/connected": "0",
    }


def test_what_nobody_has_reported_yet_is_left_out() -> None:
    values = values_of(node_values(None, None, LANES))
    assert "$SYS/broker/clients/connected" in values
    assert not {"$SYS/broker/clients/total", "$SYS/broker/subscriptions/count", "$SYS/broker/messages/stored"} & set(values)


def test_load_averages_follow_what_a_minute_brings() -> None:
    loads = LoadAverages(100.0)
    loads.update(TrafficFigures(messages_received=10, bytes_sent=6), 110.0)
    values = loads.values()
    assert len(values) == 3 * len(fields(TrafficFigures))
    assert values["$SYS/broker/load/messages/received/1min"] == f"{60 * (1 - exp(-1 / 6)):.2f}"
    assert values["$SYS/broker/load/messages/received/15min"] == f"{60 * (1 - exp(-1 / 90)):.2f}"
    assert values["$SYS/broker/load/bytes/sent/5min"] == f"{36 * (1 - exp(-1 / 30)):.2f}"
    assert values["$SYS/broker/load/publish/sent/1min"] == "0.00"
    loads.update(TrafficFigures(messages_received=10, bytes_sent=6), 110.0)
    assert loads.values() == values, "no time has passed"
    for minute in range(1, 200):  # steady traffic: all averages become its rate
        loads.update(TrafficFigures(messages_received=10 + 30 * minute), 110.0 + 60 * minute)
    assert {loads.values()[f"$SYS/broker/load/messages/received/{of}min"] for of in (1, 5, 15)} == {"30.00"}


@pytest.mark.parametrize("topic_filter", ["#", "+/broker/#", "a/$SYS/#", "$SYSTEM/#", "$share/g/#", "$share/$SYS/a", "$SYS"])
def test_no_wildcard_in_front_asks_for_sys(topic_filter: str) -> None:
    """routing.sys-stays-here"""
    assert not asks_for_sys(topic_filter)


@pytest.mark.parametrize("topic_filter", ["$SYS/#", "$SYS/+", "$SYS/broker/uptime", "$share/g/$SYS/#"])
def test_the_first_level_asks_for_sys(topic_filter: str) -> None:
    """routing.sys-stays-here"""
    assert asks_for_sys(topic_filter)


def test_rows_for_a_filter() -> None:
    assert rows_for("$SYS/#", TOPICS) == [0, 1, 2]
    assert rows_for("$SYS/broker/#", TOPICS) == [0, 1]
    assert rows_for("$SYS/+/uptime", TOPICS) == [0]
    assert rows_for("$SYS/none", TOPICS) == []


def test_overlapping_filters_give_each_topic_once_with_all_identifiers() -> None:
    filters = {"$SYS/#": (AS_PUBLISHED, 7), "$SYS/broker/#": (0, 300), "$SYS/+/uptime": (1, 0)}
    assert shares(filters, TOPICS) == [([0, 1], True, (7, 300)), ([2], True, (7,))]


def test_clients_that_subscribe_alike_are_served_together() -> None:
    alike: Filters = {"$SYS/#": (0, 0)}
    groups = SysTopicReaders().groups(
        [(1, alike, None), (2, {"$SYS/broker/uptime": (AS_PUBLISHED, 0)}, None), (3, alike, None)], TOPICS
    )
    assert groups == [([1, 3], ([0, 1, 2], False, ())), ([2], ([0], True, ()))]


def test_a_shared_subscription_serves_its_members_in_turn() -> None:
    audience = SysTopicReaders()
    members: list[Wanting] = [(number, {"$share/g/$SYS/broker/#": (0, number)}, None) for number in (1, 2)]
    got = [audience.groups(members, TOPICS) for _ in range(4)]
    assert sorted(groups[0][0] for groups in got) == [[1], [1], [2], [2]]
    assert got[0] != got[1]
    for groups in got:
        assert [share for _, share in groups] == [([0, 1], False, (groups[0][0][0],))]


def reads(*topics: str) -> ClientAccess:
    return ClientAccess((), [(True, topic) for topic in topics])


def test_a_shared_subscription_gives_each_value_to_a_member_that_may_read_it_in_turn() -> None:
    """routing.one-member-per-share: and where nobody may, to any: it is left out at delivery, and counted."""
    broker, uptime = reads("$SYS/broker/#"), reads("$SYS/broker/uptime")
    members: list[Wanting] = [
        (number, {"$share/g/$SYS/#": (0, 0)}, rights) for number, rights in enumerate([broker, uptime, broker])
    ]
    audience = SysTopicReaders()
    got: list[list[int]] = [[], [], []]
    for _ in range(6):
        taken = [(number, row) for numbers, (rows, _, _) in audience.groups(members, TOPICS) for number in numbers for row in rows]
        assert sorted(row for _, row in taken) == [0, 1, 2]
        for number, row in taken:
            got[row].append(number)
    assert Counter(got[0]) == {0: 2, 1: 2, 2: 2}
    assert Counter(got[1]) == {0: 3, 2: 3}
    assert Counter(got[2]) == {0: 2, 1: 2, 2: 2}, "nobody may"


def test_who_may_read_everything_takes_what_others_may_not() -> None:
    """routing.one-member-per-share"""
    members: list[Wanting] = [(1, {"$share/g/$SYS/#": (AS_PUBLISHED, 5)}, reads("nothing")), (2, {"$share/g/$SYS/#": (0, 6)}, None)]
    audience = SysTopicReaders()
    for _ in range(3):
        assert audience.groups(members, TOPICS) == [([2], ([0, 1, 2], False, (6,)))]


LEVELS = st.sampled_from(["broker", "bascule", "uptime", "+", "#"])


@given(st.dictionaries(st.lists(LEVELS, min_size=1, max_size=3).map(lambda levels: "/".join(["$SYS", *levels])), st.just((0, 0))))
def test_each_matching_topic_comes_exactly_once(filters: dict[str, tuple[int, int]]) -> None:
    got = [row for rows, _, _ in shares(filters, TOPICS) for row in rows]
    assert sorted(got) == [row for row, topic in enumerate(TOPICS) if any(matches(one, topic.decode()) for one in filters)]


@given(st.lists(st.integers(0, 3)), st.integers(0, 4))
def test_packets_are_counted_whatever_their_length(extra: list[int], before: int) -> None:
    packets = [bytes((0x40, 2 + more, 2, 2)) + b"\2" * more for more in extra] + [bytes((0x50, 0x85, 1)) + b"\2" * 133]
    data = b"\0" * before + b"".join(packets) + b"\0"
    assert packets_in(data, before, len(data) - 1) == len(packets)
    assert packets_in(data, before, len(data) - 137) == len(extra)
