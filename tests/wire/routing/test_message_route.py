"""The way of a message, as the queue keeps it."""

from __future__ import annotations

from dataclasses import replace

from tests.wire.rules import rule
from wire.config_settings import OnlySettings
from wire.mqtt.publish_properties import append_user_properties
from wire.routing.message_route import ALL, MessageRoute, Thinning

RULE = replace(rule(1, "a/#", destination="x/{#}"), user_properties=(("k", "v"),))


def test_a_way_has_the_bytes_it_always_had() -> None:
    route = MessageRoute.of(RULE)
    golden = "94a672756c652d31a5782f7b237dc3c40726000" + "16b000176"
    assert route.encode().hex() == golden
    assert MessageRoute.decode(bytes.fromhex(golden)) == route
    assert route == ("rule-1", "x/{#}", True, append_user_properties(b"", [("k", "v")]), "none", ALL)
    told = MessageRoute.of(replace(RULE, provenance="envelope"))
    assert told.encode().hex() == "95" + golden[2:] + "a8" + b"envelope".hex()
    assert MessageRoute.decode(told.encode()) == told


def test_what_a_rule_says_of_the_messages_it_takes_is_no_part_of_their_way() -> None:
    assert MessageRoute.of(replace(RULE, filters=("b",), excludes=("c",), max_qos=0)) == MessageRoute.of(RULE)
    others = replace(RULE, name="x"), replace(RULE, destination="y"), replace(RULE, preserve_retain=False)
    assert len({MessageRoute.of(other) for other in (RULE, *others, replace(RULE, user_properties=()))}) == 5


def test_a_way_tells_what_its_rule_leaves_out() -> None:
    told = MessageRoute.of(replace(RULE, only=OnlySettings(one_per_s=10.0), keep_last=True))
    assert told.thinning == Thinning(changed=False, period_ms=10_000, keep_last=True)
    assert MessageRoute.decode(told.encode()) == told
