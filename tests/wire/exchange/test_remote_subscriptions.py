"""SUBSCRIBEs of a connection and what becomes of their answers.

exchange.filter-asked-once
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.wire.rules import rule
from wire.config_settings import RuleSettings
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.exchange.remote_subscriptions import PACKETS_MAX, RemoteSubscriptions, outermost
from wire.mqtt.codec import decode, split
from wire.mqtt.packets import Suback, Subscribe, Unsuback, Unsubscribe


def subscriptions_of(rules: Sequence[RuleSettings], *, level: int, no_local: bool) -> RemoteSubscriptions:
    subscriptions = RemoteSubscriptions(rules, no_local=no_local)
    subscriptions.limit(NO_LIMITS, level)
    return subscriptions


def packets(data: bytes, level: int) -> list[Subscribe]:
    found, position = [], 0
    while (packet := split(data, position, 1 << 20)) is not None:
        first_byte, start, stop = packet
        decoded = decode(first_byte, data[start:stop], level)
        assert isinstance(decoded, Subscribe)
        found.append(decoded)
        position = stop
    assert position == len(data)
    return found


def test_each_filter_is_asked_for_once_at_the_highest_qos() -> None:
    rules = [replace(rule(1, "a/b", "c", max_qos=2), preserve_retain=False), rule(2, "a/#", "c", max_qos=1)]
    subscriptions = subscriptions_of(rules, level=5, no_local=True)
    (packet,) = packets(subscriptions.subscribe(None), 5)
    asked = {one.topic_filter: one for one in packet.subscriptions}
    assert {name: one.qos for name, one in asked.items()} == {"c": 2, "a/#": 2}
    assert all((one.no_local, one.retain_as_published, one.retain_handling) == (True, True, 1) for one in asked.values())
    assert packet.packet_id == 65_001


def test_filters_that_cover_each_other_leave_one() -> None:
    assert outermost(["#", "+/#", "a", "$SYS/#"]) == ["#", "$SYS/#"]
    assert outermost(["a/b", "a/b", "a/+", "a/#", "b"]) == ["a/#", "b"]


@pytest.mark.parametrize("level", [4, 5])
def test_no_packet_is_larger_than_the_remote_takes(level: int) -> None:
    names = [f"topic/{number:03d}" for number in range(100)]
    subscriptions = subscriptions_of([rule(1, *names, "x" * 200)], level=level, no_local=False)
    data = subscriptions.subscribe(100)
    found = packets(data, level)
    asked = [one.topic_filter for packet in found for one in packet.subscriptions]
    assert asked == names
    assert all(len(one) <= 100 for one in _pieces(data))
    assert len({packet.packet_id for packet in found}) == len(found) > 1
    assert subscriptions.refused == {"x" * 200: 0x95}
    for packet in found:
        assert not subscriptions.answered
        subscriptions.suback(Suback(packet_id=packet.packet_id, reason_codes=(1,) * len(packet.subscriptions)))
    assert subscriptions.answered
    assert len(subscriptions.granted) == 100


def _pieces(data: bytes) -> list[bytes]:
    found, position = [], 0
    while (packet := split(data, position, 1 << 20)) is not None:
        found.append(data[position : packet[2]])
        position = packet[2]
    return found


def test_there_are_no_more_packets_than_identifiers() -> None:
    names = [f"{number:03d}" for number in range(PACKETS_MAX + 5)]
    subscriptions = subscriptions_of([rule(1, *names)], level=4, no_local=False)
    found = packets(subscriptions.subscribe(14), 4)
    assert [packet.packet_id for packet in found] == list(range(65_001, 65_535))
    assert subscriptions.refused == dict.fromkeys(names[PACKETS_MAX:], 0x97)


def test_a_refused_filter_is_named_until_the_next_connection_asks_again() -> None:
    subscriptions = subscriptions_of([rule(1, "a", "b")], level=5, no_local=False)
    subscriptions.subscribe(None)
    subscriptions.suback(Suback(packet_id=65_001, reason_codes=(1, 0x87)))
    assert (subscriptions.granted, subscriptions.refused) == ({"a": 1}, {"b": 0x87})
    subscriptions.forget()
    assert (subscriptions.granted, subscriptions.refused) == ({}, {"b": 0x87})
    subscriptions.subscribe(None)
    assert subscriptions.refused == {}


def test_a_suback_that_answers_nothing_changes_nothing() -> None:
    subscriptions = subscriptions_of([rule(1, "a", "b")], level=4, no_local=False)
    subscriptions.subscribe(None)
    assert not subscriptions.suback(Suback(packet_id=65_002, reason_codes=(0, 0)))
    assert subscriptions.suback(Suback(packet_id=65_001, reason_codes=(0, 1)))
    assert not subscriptions.suback(Suback(packet_id=65_001, reason_codes=(0x80, 0x80))), "it has come before"
    assert (subscriptions.granted, subscriptions.refused) == ({"a": 0, "b": 1}, {})


@pytest.mark.parametrize(("codes", "granted"), [((), []), ((0,), ["a"]), ((0, 0, 0), ["a", "b"])])
def test_a_filter_that_a_suback_says_nothing_of_counts_as_refused(codes: tuple[int, ...], granted: list[str]) -> None:
    """exchange.filter-asked-once; a SUBACK has a code for each [MQTT-3.8.4-6]."""
    subscriptions = subscriptions_of([rule(1, "a", "b")], level=4, no_local=False)
    subscriptions.subscribe(None)
    assert subscriptions.suback(Suback(packet_id=65_001, reason_codes=codes))
    assert subscriptions.answered
    assert (list(subscriptions.granted), list(subscriptions.refused)) == (granted, [name for name in "ab" if name not in granted])


@pytest.mark.parametrize("level", [4, 5])
def test_what_is_not_asked_for_any_more_is_given_up_behind_what_is(level: int) -> None:
    """exchange.filter-asked-once. A filter that another one of today covers is not asked for either, so it goes as well."""
    known = ["a/#", "a/b", "old/#", "c", *(f"gone/{number:03d}" for number in range(20))]
    subscriptions = subscriptions_of([rule(1, "a/b", "a/#", "c")], level=level, no_local=False)
    data = subscriptions.subscribe(100, known)
    pieces = [decode(piece[0], piece[2:], level) for piece in _pieces(data)]
    assert all(len(piece) <= 100 for piece in _pieces(data))
    asked, given_up = [one for one in pieces if isinstance(one, Subscribe)], [one for one in pieces if isinstance(one, Unsubscribe)]
    assert pieces == [*asked, *given_up]
    assert [one.topic_filter for packet in asked for one in packet.subscriptions] == ["a/#", "c"]
    assert [name for packet in given_up for name in packet.topic_filters] == ["a/b", "old/#", *known[4:]]
    ids = [*(packet.packet_id for packet in asked), *(packet.packet_id for packet in given_up)]
    assert ids == list(range(65_001, 65_001 + len(pieces)))
    answer = Unsuback(packet_id=given_up[0].packet_id, reason_codes=(0,))
    assert subscriptions.unsuback(answer)
    for unwanted in (answer, Unsuback(packet_id=asked[0].packet_id)):
        assert not subscriptions.unsuback(unwanted)
    subscriptions.forget()
    assert not subscriptions.unsuback(Unsuback(packet_id=given_up[1].packet_id))


def test_no_identifier_is_left_for_giving_up() -> None:
    names = [f"{number:03d}" for number in range(PACKETS_MAX)]
    subscriptions = subscriptions_of([rule(1, *names)], level=4, no_local=False)
    assert len(packets(subscriptions.subscribe(14, ["old"]), 4)) == PACKETS_MAX
    assert not subscriptions.given_up, "nothing was said of it"


def test_what_is_shared_is_asked_for_by_group_without_no_local_and_without_what_is_retained() -> None:
    """One filter that covers another one of its group stands for both; each group has its own."""
    of_g = [replace(one, shared="g") for one in (rule(1, "a/#"), rule(2, "a/b", "c"))]
    rules = [*of_g, replace(rule(3, "d"), shared="h"), rule(4, "e")]
    subscriptions = subscriptions_of(rules, level=5, no_local=True)
    (packet,) = packets(subscriptions.subscribe(None), 5)
    asked = {one.topic_filter: (one.no_local, one.retain_handling) for one in packet.subscriptions}
    assert asked == {"$share/g/a/#": (False, 2), "$share/g/c": (False, 2), "$share/h/d": (False, 2), "e": (True, 1)}


def test_a_remote_without_shared_or_wildcard_subscriptions_is_asked_for_neither() -> None:
    rules = [replace(rule(1, "a/#", "a/b"), shared="g"), rule(2, "c/#", "d")]
    subscriptions = RemoteSubscriptions(rules, no_local=True)
    for lacks, asked, refused in (
        (RemoteLimits(shared_available=False), ("c/#", "d"), {"$share/g/a/#": 0x9E}),
        (RemoteLimits(wildcard_available=False), ("$share/g/a/b", "d"), {"$share/g/a/#": 0xA2, "c/#": 0xA2}),
        (RemoteLimits(shared_available=False, wildcard_available=False), ("d",), {"$share/g/a/#": 0x9E, "c/#": 0xA2}),
    ):
        subscriptions.limit(lacks, 5)
        subscriptions.subscribe(None)
        assert (subscriptions.asked_for, subscriptions.refused) == (asked, refused)


def test_what_is_given_up_is_forgotten_when_the_remote_has_answered_all_of_it() -> None:
    """Also where nothing is subscribed to any more. What it will not give up stays on record."""
    rules = [replace(rule(1, "a"), shared="g")]
    subscriptions = subscriptions_of(rules, level=5, no_local=True)
    subscriptions.subscribe(None, ["old"])
    assert not subscriptions.given_up
    subscriptions.unsuback(Unsuback(packet_id=65_002, reason_codes=(0,)))
    assert subscriptions.given_up == ("old",)
    assert not subscriptions.leaves_all
    assert not subscriptions.change(rules)
    assert subscriptions.change([])
    subscriptions.limit(NO_LIMITS, 5)
    subscriptions.subscribe(None, ["$share/g/a", "old"])
    assert not subscriptions.given_up
    subscriptions.unsuback(Unsuback(packet_id=65_001, reason_codes=(0, 0)))
    assert subscriptions.given_up == ("$share/g/a", "old")
    subscriptions.subscribe(None, ["$share/g/a", "old"])
    subscriptions.unsuback(Unsuback(packet_id=65_001, reason_codes=(0x11, 0x87)))
    assert list(subscriptions.given_up) == ["$share/g/a"]
    subscriptions.on_record(["old"])
    assert not subscriptions.leaves_all
