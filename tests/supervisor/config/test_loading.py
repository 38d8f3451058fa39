"""The configuration: what holds becomes settings; what does not is named by file, line and key, with what would be right."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.access.password_hashes import DECOY
from supervisor.config.consistency import IN_MEMORY_MAX_BYTES
from supervisor.config.loading import _EXAMPLES, load, load_acl, locate
from supervisor.running_node import NodePlace
from wire.config_settings import AclRuleSettings, NodeSettings, dump
from wire.config_settings import load as load_dumped
from wire.errors import ConfigError

HEAD = """\
node: {name: edge-1, data_dir: data}
listeners: [{bind: "127.0.0.1:1883"}]
access: {allow_anonymous: true}
"""

BRIDGE = """\
bridges:
  - name: cloud
    remote: {addresses: ["broker.example:1883"], client_id: edge-1}
    local_subscriptions: [{filters: ["plant/#"]}]
"""


def remote(keys: str) -> str:
    """A whole configuration with one bridge whose remote has ``keys``; they stand in line 6, after ``remote: {``."""
    return f"""{HEAD}bridges:
  - name: cloud
    remote: {{{keys}}}
    local_subscriptions: [{{filters: ["plant/#"]}}]
"""


def rule(keys: str) -> str:
    """A whole configuration with one bridge and one rule that has ``keys``; they stand in line 7."""
    return f"""{HEAD}bridges:
  - name: cloud
    remote: {{addresses: ["broker.example:1883"], client_id: edge-1}}
    local_subscriptions: [{{{keys}}}]
"""


def load_text(tmp_path: Path, text: str | bytes) -> NodeSettings:
    path = tmp_path / "node.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path)


def problems_of(tmp_path: Path, text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_text(tmp_path, text)
    assert caught.value.exit_status == 78
    return [problem.removeprefix(f"{tmp_path}/") for problem in caught.value.problems]


# --- what is right ------------------------------------------------------------------------------------------------------------


def test_a_process_of_a_bridge_gets_the_settings_of_that_alone(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, HEAD + BRIDGE)
    (bridge,) = loaded.bridges
    two = replace(loaded, bridges=(bridge, replace(bridge, name="other")))

    assert load_dumped(dump(two)) == two
    of_all = replace(loaded, remote_batch=two.largest_remote_batch)  # of which a bridge's process knows no more
    assert load_dumped(dump(two), bridge=bridge.name) == of_all
    assert load_dumped(dump(two), bridge="gone") == replace(of_all, bridges=())


def test_the_least_configuration_has_every_default(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, HEAD + BRIDGE)

    assert loaded.node.data_dir == str(tmp_path / "data")
    assert loaded.run_dir == str(tmp_path / "data" / "run")
    assert (loaded.listeners[0].host, loaded.listeners[0].port) == ("127.0.0.1", 1883)
    assert (loaded.persistence.mode, loaded.persistence.acknowledge, loaded.persistence.sync) == (
        "file-native",
        "after-commit",
        "full",
    )
    assert loaded.persistence.flush_period_s == 0.0
    assert (loaded.limits.max_messages, loaded.limits.max_bytes, loaded.limits.max_age_s) == (10_000_000, 50 << 30, None)
    bridge = loaded.bridge("cloud")
    assert bridge.remote.addresses == (("broker.example", 1883),)
    assert (bridge.remote.protocol, bridge.remote.session_expiry_s, bridge.remote.keep_alive_s) == (5, 7 * 86400, 60)
    assert (bridge.remote.receive_maximum, bridge.remote.qos2_maximum) == (1000, 0)
    assert bridge.remote.primary_retry_s == 300.0
    assert (bridge.backoff.initial_s, bridge.backoff.max_s, bridge.backoff.factor, bridge.backoff.jitter) == (1.0, 120.0, 2.0, 0.25)
    assert (bridge.tier2.max_messages, bridge.tier2.max_bytes) == (10_000, 16 << 20)
    assert bridge.limits == loaded.limits
    assert bridge.local_subscriptions[0].name == "plant/#"


def test_the_settings_survive_the_way_to_the_children(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, rule('name: a, filters: ["a/#", "b"], user_properties: {site: north, unit: "7"}'))

    assert load_dumped(dump(loaded)) == loaded


def test_a_rule_without_a_name_is_called_by_its_filters_wherever_it_stands(tmp_path: Path) -> None:
    one = load_text(tmp_path, rule('filters: ["a", "b/#"]')).bridges[0].local_subscriptions[0]
    other = load_text(tmp_path, rule('filters: ["c"]}, {filters: ["a", "b/#"]')).bridges[0].local_subscriptions[1]
    (long,) = load_text(tmp_path, rule(f'filters: ["{"a" * 100}"]')).bridges[0].local_subscriptions

    assert one == other
    assert one.name == "a, b/#"
    assert (long.name[60:], len(long.name)) == ("a...", 64)


def test_the_names_in_a_destination_are_filled_in(tmp_path: Path) -> None:
    text = rule('filters: ["a/#"], destination: "\\\\{${node.name}/${bridge.name}/{2-#}"')
    (loaded,) = load_text(tmp_path, text).bridges[0].local_subscriptions
    assert loaded.destination == "\\{edge-1/cloud/{2-#}"


def test_limits_of_a_bridge_take_what_they_leave_out_from_the_node(tmp_path: Path) -> None:
    text = (
        HEAD
        + "limits: {max_messages: 500, max_bytes: 1MiB, overflow: drop-oldest}\n"
        + BRIDGE
        + "    limits: {max_bytes: unlimited}\n"
    )

    limits = load_text(tmp_path, text).bridges[0].limits

    assert (limits.max_messages, limits.max_bytes, limits.overflow) == (500, None, "drop-oldest")


def test_a_queue_in_memory_is_bounded_by_what_memory_can_hold(tmp_path: Path) -> None:
    bare = load_text(tmp_path, HEAD + "persistence: {mode: in-memory}\n" + BRIDGE)
    asked = load_text(tmp_path, HEAD + "persistence: {mode: in-memory}\nlimits: {max_bytes: 2GiB}\n" + BRIDGE)

    assert bare.limits.max_bytes == bare.bridges[0].limits.max_bytes == IN_MEMORY_MAX_BYTES
    assert asked.limits.max_bytes == asked.bridges[0].limits.max_bytes == 2 << 30


@pytest.mark.parametrize(
    ("written", "default", "codes"),
    [
        ("", "dead-letter", {0x91: "retry", 0x97: "retry"}),
        ("{default: drop}", "drop", {0x91: "retry", 0x97: "retry"}),
        ('{quota-exceeded: drop, "0x99": drop}', "dead-letter", {0x91: "retry", 0x97: "drop", 0x99: "drop"}),
        ("{0x97: dead-letter, packet-too-large: drop}", "dead-letter", {0x91: "retry", 0x97: "dead-letter", 0x95: "drop"}),
    ],
)
def test_a_refusal_that_is_not_named_has_its_default(written: str, default: str, codes: dict[int, str], tmp_path: Path) -> None:
    loaded = load_text(tmp_path, HEAD + BRIDGE + (f"    on_refusal: {written}\n" if written else ""))

    assert loaded.bridges[0].on_refusal.default == default
    assert dict(loaded.bridges[0].on_refusal.codes) == codes
    assert load_dumped(dump(loaded)) == loaded


def test_at_mqtt_3_1_1_what_needs_no_reason_code_can_be_given(tmp_path: Path) -> None:
    old = BRIDGE.replace("edge-1}", "edge-1, protocol: mqtt311, packet_max_bytes: 128KiB}")
    actions = "{packet-too-large: drop, connection-closed: retry}"
    bridge = load_text(tmp_path, HEAD + old + f"    on_refusal: {actions}\n").bridges[0]

    assert dict(bridge.on_refusal.codes) == {0x91: "retry", 0x97: "retry", 0x95: "drop", 0x100: "retry"}
    assert bridge.remote.packet_max_bytes == 128 << 10


def test_bridges_may_be_empty_or_left_out(tmp_path: Path) -> None:
    assert load_text(tmp_path, HEAD).bridges == load_text(tmp_path, HEAD + "bridges: []\n").bridges == ()


def test_anchors_and_merge_keys_are_followed(tmp_path: Path) -> None:
    text = f"""{HEAD}bridges:
  - name: a
    remote: &remote {{addresses: ["broker.example:1883"], client_id: edge-a, keep_alive: 30s}}
    local_subscriptions: &rules [{{filters: ["plant/#"]}}]
  - name: b
    remote: {{<<: *remote, client_id: edge-b}}
    local_subscriptions: *rules
"""

    first, second = load_text(tmp_path, text).bridges

    assert (first.remote.client_id, second.remote.client_id) == ("edge-a", "edge-b")
    assert second.remote.keep_alive_s == 30
    assert second.local_subscriptions == first.local_subscriptions


def test_a_session_that_never_expires_is_written_unlimited(tmp_path: Path) -> None:
    text = remote('addresses: ["broker.example:1883"], client_id: edge-1, session_expiry: unlimited')

    assert load_text(tmp_path, text).bridges[0].remote.session_expiry_s == 0xFFFF_FFFF


def test_relative_files_count_from_the_folder_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    (tmp_path / "secret").write_text("hush\n")

    loaded = load_text(tmp_path, remote('addresses: ["b:1"], client_id: e, username: u, password_file: secret'))

    assert loaded.bridges[0].remote.password_file == str(tmp_path / "secret")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert load_text(tmp_path, b"\xef\xbb\xbf" + HEAD.encode()).node.name == "edge-1"


# --- what is wrong ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bad:
    """One kind of bad configuration. The one problem must be at ``line`` and ``key`` and say all of ``hints``."""

    kind: str
    text: str
    line: int
    key: str
    hints: tuple[str, ...]

    def __str__(self) -> str:
        return self.kind


def bad(kind: str, text: str, line: int, key: str, *hints: str) -> Bad:
    return Bad(kind, text, line, key, hints)


def _innermost(keys: str) -> str:
    """The path of the innermost key of such as ``limits: {max_bytes: 1}``."""
    found = re.match(r"([\w-]+): (?:\{([\w-]+): )?", keys)
    assert found is not None
    return ".".join(filter(None, found.groups()))


def in_line_4(kind: str, keys: str, *hints: str) -> Bad:
    """A section with one key, behind what every configuration has."""
    return Bad(kind, f"{HEAD}{keys}\n", 4, _innermost(keys), hints)


def of_the_bridge(kind: str, keys: str, *hints: str) -> Bad:
    return Bad(kind, f"{HEAD}{BRIDGE}    {keys}\n", 8, f"bridges[0].{_innermost(keys)}", hints)


def of_a_rule(kind: str, keys: str, key: str, *hints: str) -> Bad:
    return Bad(kind, HEAD + BRIDGE.replace('"]}]', f'"], {keys}}}]'), 7, f"bridges[0].{key}", hints)


def of_the_classes(kind: str, classes: str, key: str, *hints: str) -> Bad:
    return Bad(kind, f"{HEAD}{BRIDGE}    classes: [{classes}]\n", 8, f"bridges[0].classes{key}", hints)


def of_the_remote(kind: str, keys: str, *hints: str) -> Bad:
    return Bad(kind, remote(f"{CLIENT}, {keys}"), 6, f"bridges[0].remote.{_innermost(keys)}", hints)


ADDRESS = 'addresses: ["broker.example:1883"]'
CLIENT = f"{ADDRESS}, client_id: edge-1"


SHAPES = [
    in_line_4("unknown key", "limit: {}", "unknown key", "did you mean limits?"),
    of_the_remote("a time zone that is none", 'time_zone: Europe/Nowhere, hours: ["08:00-09:00"]', "Europe/Berlin"),
    of_the_remote("unknown inner key", "keepalive: 60s", "write keep_alive"),
    in_line_4("dash for underscore", "persistence: {flush-period: 1s}", "did you mean flush_period?"),
    bad("missing section", HEAD.replace("access", "#"), 1, "access", "is missing", "access: {allow_anonymous: true}"),
    bad("missing key", remote("client_id: edge-1"), 6, "bridges[0].remote.addresses", "is missing", "broker.example:1883"),
    bad("no listener", HEAD.replace('[{bind: "127.0.0.1:1883"}]', "[]"), 2, "listeners", "at least one"),
    bad(
        "no remote filter",
        HEAD + BRIDGE + "    remote_subscriptions: [{max_qos: 1}]\n",
        8,
        "bridges[0].remote_subscriptions[0].filters",
        "is missing",
        "cmd/edge-1/#",
    ),
    bad("no filter", rule("filters: []"), 7, "bridges[0].local_subscriptions[0].filters", "at least one", "plant/#"),
    bad("text for a list", rule("filters: plant/#"), 7, "bridges[0].local_subscriptions[0].filters", "is not a list"),
    in_line_4("list for a mapping", "limits: [1]", "a list is not a mapping"),
    in_line_4("text for a mapping", "log: debug", '"debug" is not a mapping'),
    bad("duplicate key", HEAD + "log: {level: info,\n  level: debug}\n", 5, "log.level", "given twice", "line 4"),
    bad("no value", HEAD + "bridges:\n", 4, "bridges", "no value", "[]"),
]

TRAPS = [
    bad("no that is false", HEAD.replace("edge-1", "no"), 1, "node.name", "false", 'in quotes, "no"'),
    of_the_bridge("on that is true", "persist: on", "write true"),
    bad("octal", HEAD.replace("edge-1", "0177"), 1, "node.name", "octal", '"0177"'),
    of_the_remote("base 60", "keep_alive: 1:30", "base of 60", "90s"),
    bad("date", HEAD.replace("edge-1", "2024-01-31"), 1, "node.name", "a date", "quotes"),
    bad("number for text", HEAD.replace("edge-1", "7"), 1, "node.name", "7 is not text", '"7"'),
    bad("truth value for text", HEAD.replace("edge-1", "true"), 1, "node.name", "true is not text"),
    of_the_bridge("text for a truth value", 'persist: "true"', "without quotes"),
    of_the_bridge("text for a number", 'lanes: "2"', "whole number", "without quotes"),
    of_the_bridge("infinity", "backoff: {factor: .inf}", "something special"),
    in_line_4("tag", "log: {level: !secret info}", "tag !secret", "remove"),
    in_line_4("tag of a set", "log: !!set {a: 1}", "is not known here", "remove"),
    in_line_4("tag of an object", "log: !!python/object:os.system {}", "is not known here"),
    bad("alias to itself", HEAD + "bridges: &all\n  - *all\n", 4, "bridges[0]", "what it is part of"),
]

VALUES = [
    in_line_4("unknown choice", "persistence: {sync: ful}", "not one of full, os", "did you mean full?"),
    of_the_remote("duration without unit", "keep_alive: 60", "no unit", "60s"),
    of_the_remote("unknown unit of time", "keep_alive: 1min", "unknown unit", "ms, s, m, h, d"),
    in_line_4("unit in the wrong case", "limits: {max_bytes: 50gib}", "did you mean 50GiB?"),
    in_line_4("size without unit", "limits: {max_bytes: 5000000}", "no unit", "64MiB"),
    in_line_4("negative duration", "persistence: {flush_period: -1s}", "is not a duration"),
    in_line_4("duration out of range", "persistence: {flush_period: 2m}", "from 0s to 1m"),
    of_the_remote("part of a second", "keep_alive: 1500ms", "whole seconds"),
    of_the_remote("keep alive too long", "keep_alive: 1d", "out of range", "65535s"),
    of_the_remote("receive maximum", "receive_maximum: 65001", "from 1 to 65000"),
    of_the_bridge("lanes", "lanes: 65", "from 1 to 64"),
    *(
        of_a_rule(name, f"only: {value}", f"local_subscriptions[0].only{below}", *says)
        for name, value, below, *says in (
            ("unknown choice of only", "change", "", "is not one of all, changed", "did you mean changed?", "{one_per: 10s}"),
            ("unknown key of only", "{every: 10s}", ".every", "write {one_per: 10s}"),
            ("nothing in only", "{}", "", "write {one_per: 10s}"),
            ("a period without unit", "{one_per: 10}", ".one_per", "no unit"),
            ("a period that is too long", "{one_per: 2d}", ".one_per", "from 1s to 1d"),
        )
    ),
    of_the_classes("name of a class", "{name: Urgent}", "[0].name", "not the name of a class", "small letter"),
    of_the_classes("number of a class", '{name: "1"}', "[0].name", "not the name of a class"),
    of_the_bridge("hops", "loop_prevention: {max_hops: 0}", "from 1 to 100"),
    of_the_bridge("jitter", "backoff: {jitter: 25}", "from 0 to 1"),
    of_the_bridge("factor", "backoff: {factor: 0.5}", "from 1 to 100"),
    bad("QoS", rule('filters: ["a"], max_qos: 3'), 7, "bridges[0].local_subscriptions[0].max_qos", "from 0 to 2"),
    bad("node name", HEAD.replace("edge-1", "edge 1"), 1, "node.name", "cannot be a name", '"edge-1"'),
    bad("bridge name", HEAD + BRIDGE.replace("cloud", "a/b"), 5, "bridges[0].name", "cannot be a name", '"a-b"'),
    bad("bind without port", HEAD.replace("127.0.0.1:1883", "127.0.0.1"), 2, "listeners[0].bind", "is not host:port"),
    bad("IPv6 without brackets", HEAD.replace("127.0.0.1:1883", "::1:1883"), 2, "listeners[0].bind", "brackets", "[::1]:1883"),
    bad("port out of range", remote('addresses: ["b:70000"], client_id: e'), 6, "bridges[0].remote.addresses[0]", "1 to 65535"),
    bad("remote port 0", remote('addresses: ["b:0"], client_id: e'), 6, "bridges[0].remote.addresses[0]", "1 to 65535"),
    bad("scheme", remote('addresses: ["http://b:1883"], client_id: e'), 6, "bridges[0].remote.addresses[0]", "mqtts://"),
    bad("IPv4 address", remote('addresses: ["1.2.3.400:1883"], client_id: e'), 6, "bridges[0].remote.addresses[0]", "IPv4"),
    bad(
        "filter",
        rule('filters: ["a", "plant/#/x"]'),
        7,
        "bridges[0].local_subscriptions[0].filters[1]",
        "not a topic filter",
        "4.7.1-1",
    ),
    bad("exclude", rule('filters: ["a"], excludes: ["a+"]'), 7, "bridges[0].local_subscriptions[0].excludes[0]", "4.7.1-2"),
    bad(
        "shared filter",
        rule('filters: ["$share/g/a"]'),
        7,
        "bridges[0].local_subscriptions[0].filters[0]",
        "write filters: [a] and shared: g",
    ),
    of_a_rule("a shared rule to the remote", "shared: g", "local_subscriptions[0].shared", "unknown key"),
    bad(
        "a group of two levels",
        HEAD + BRIDGE + '    remote_subscriptions: [{filters: ["a"], shared: g/h}]\n',
        8,
        "bridges[0].remote_subscriptions[0].shared",
        "not the name of a group",
    ),
    bad(
        "destination", rule('filters: ["a"], destination: "x/{"'), 7, "bridges[0].local_subscriptions[0].destination", "destination"
    ),
    bad("WebSocket path", remote(f"{CLIENT}, transport: ws, websocket_path: mqtt"), 6, "bridges[0].remote.websocket_path", "^/"),
    in_line_4("level", "log: {level: verbose}", "debug, info, warning, error"),
]

TOGETHER = [
    bad(
        "a period longer than a message may wait",
        HEAD + BRIDGE.replace('"]}]', '"], only: {one_per: 1m}}]') + "    limits: {max_age: 1m}\n",
        7,
        "bridges[0].local_subscriptions[0].only",
        "nothing waits longer than limits.max_age (1m)",
    ),
    bad("same listener", HEAD.replace('3"}', '3"}, {bind: "127.0.0.1:1883"}'), 2, "listeners[1].bind", "listeners[0]"),
    bad(
        "same bridge",
        HEAD + BRIDGE + BRIDGE.replace("bridges:\n", "").replace("id: edge-1", "id: edge-2"),
        8,
        "bridges[1].name",
        '"cloud" is taken by bridges[0]',
    ),
    bad(
        "same rule",
        rule('name: r, filters: ["a"]}, {name: r, filters: ["b"]'),
        7,
        "bridges[0].local_subscriptions[1].name",
        "earlier rule",
    ),
    bad(
        "same remote rule",
        HEAD + BRIDGE + '    remote_subscriptions: [{name: r, filters: ["a"]}, {name: r, filters: ["b"]}]\n',
        8,
        "bridges[0].remote_subscriptions[1].name",
        "earlier rule",
    ),
    bad(
        "filters that double",
        HEAD + BRIDGE + '    remote_subscriptions: [{filters: ["a/+"]}, {filters: ["a/b", "+/b"]}]\n',
        8,
        "bridges[0].remote_subscriptions[1].filters[1]",
        "overlaps a/+",
    ),
    bad(
        "a filter inside one of another group",
        HEAD + BRIDGE + '    remote_subscriptions: [{filters: ["a/#"], shared: g}, {filters: ["a/b"], shared: h}]\n',
        8,
        "bridges[0].remote_subscriptions[1].filters[0]",
        "let both be of one group",
    ),
    bad(
        "a shared filter inside a plain one",
        HEAD + BRIDGE + '    remote_subscriptions: [{filters: ["a/#"]}, {filters: ["a/b"], shared: g}]\n',
        8,
        "bridges[0].remote_subscriptions[1].filters[0]",
        "overlaps a/#",
    ),
    bad(
        "least QoS above the most",
        rule('filters: ["a"], min_qos: 2, max_qos: 1'),
        7,
        "bridges[0].local_subscriptions[0].min_qos",
        "above max_qos (1)",
    ),
    bad(
        "least QoS of what is not kept",
        rule('filters: ["a"], min_qos: 1') + "    persist: false\n",
        7,
        "bridges[0].local_subscriptions[0].min_qos",
        "persist: false lowers",
    ),
    bad(
        "least QoS of what a remote brings",
        HEAD + BRIDGE + '    remote_subscriptions: [{filters: ["a"], min_qos: 1}]\n',
        8,
        "bridges[0].remote_subscriptions[0].min_qos",
        "unknown key",
    ),
    bad(
        "an envelope for MQTT 5",
        rule('filters: ["a"], provenance: envelope').replace("remote: {", "remote: {protocol: mqtt5, "),
        7,
        "bridges[0].local_subscriptions[0].provenance",
        "write user-properties",
    ),
    bad(
        "user properties of MQTT 5 for 3.1.1",
        rule('filters: ["a"], provenance: user-properties').replace("remote: {", "remote: {protocol: mqtt311, "),
        7,
        "bridges[0].local_subscriptions[0].provenance",
        "write envelope",
    ),
    bad(
        "nothing crosses",
        HEAD + BRIDGE.replace('[{filters: ["plant/#"]}]', "[]"),
        7,
        "bridges[0].local_subscriptions",
        "nothing crosses",
        "remote_subscriptions",
    ),
    bad(
        "probing the one address",
        remote(f"{ADDRESS}, client_id: e, primary_retry: 1m"),
        6,
        "bridges[0].remote.primary_retry",
        "one address",
    ),
    *(
        bad(f"{key} in 3.1.1", remote(f"{CLIENT}, protocol: mqtt311, {key}: {value}"), 6, f"bridges[0].remote.{key}", "mqtt5")
        for key, value in (
            ("user_properties", "{a: b}"),
            ("topic_aliases", "1"),
            ("retain_handling", "never"),
            ("follow", "[b.example]"),
        )
    ),
    bad("round robin of one", remote(f"{CLIENT}, round_robin: true"), 6, "bridges[0].remote.round_robin", "one address"),
    bad(
        "round robin that goes back",
        remote('addresses: ["b:1", "b:2"], client_id: e, round_robin: true, primary_retry: 1m'),
        6,
        "bridges[0].remote.primary_retry",
        "round_robin",
    ),
    bad("will to a filter", remote(f"{CLIENT}, will: {{topic: a/#}}"), 6, "bridges[0].remote.will.topic", "no topic name"),
    bad(
        "two wills",
        HEAD + BRIDGE.replace("edge-1}", "edge-1, birth: {topic: a}}") + "    link_state: {}\n",
        6,
        "bridges[0].remote.birth",
        "link_state.remote",
    ),
    bad("same address", remote('addresses: ["b:1", "b:1"], client_id: e'), 6, "bridges[0].remote.addresses[1]", "given twice"),
    bad("backoff", HEAD + BRIDGE + "    backoff: {initial: 1m, max: 1s}\n", 8, "bridges[0].backoff.max", "below initial (1m)"),
    bad("no client id", remote(ADDRESS), 6, "bridges[0].remote.client_id", "clean_start is false"),
    bad("tls over tcp", remote(f"{CLIENT}, tls: {{verify: false}}"), 6, "bridges[0].remote.tls", "transport: tls"),
    bad(
        "path over tls", remote(f"{CLIENT}, transport: tls, websocket_path: /m"), 6, "bridges[0].remote.websocket_path", "ws or wss"
    ),
    bad(
        "expiry in 3.1.1",
        remote(f"{CLIENT}, protocol: mqtt311, session_expiry: 1d"),
        6,
        "bridges[0].remote.session_expiry",
        "mqtt5",
    ),
    bad(
        "properties in 3.1.1",
        remote(f"{CLIENT}, protocol: mqtt311").replace('"]}]', '"], user_properties: {a: b}}]'),
        7,
        "bridges[0].local_subscriptions[0].user_properties",
        "mqtt5",
    ),
    of_the_bridge("a link state among the node's own", "link_state: {topic: $SYS/bascule/x}", "node's own"),
    of_the_bridge("a link state on many topics", "link_state: {topic: state/#}", "wildcard"),
    bad(
        "a link state without a name",
        remote(f"{ADDRESS}, clean_start: true") + "    link_state: {}\n",
        8,
        "bridges[0].link_state.topic",
        "remote.client_id",
    ),
    in_line_4("heartbeats", "supervision: {heartbeat_timeout: 1s}", "longer than heartbeat_period (2s)"),
    in_line_4("no output beside a packet", "clients: {output_max_bytes: 1MiB}", "below twice"),
    in_line_4("no Will fits", "sessions: {wills_max_bytes: 63KiB}", "largest Will is never kept"),
    in_line_4("packet too large", "clients: {packet_max_bytes: 129MiB}", "from 1KiB to 128MiB"),
    in_line_4("no time to acknowledge", "clients: {stall_timeout: 0s}", "out of range", "1s"),
    in_line_4("input below packet", "clients: {input_max_bytes: 1KiB}", "below packet_max_bytes"),
    in_line_4("response topics with a wildcard", "clients: {response_information: replies/#}", "no wildcards"),
    of_the_bridge("tier 2 below packet", "tier2: {max_bytes: 64KiB}", "packet_max_bytes (1MiB)"),
    in_line_4("session's queue below packet", "sessions: {queue_max_bytes: 1023KiB}", "never delivered"),
    in_line_4("retained below packet", "sessions: {retained_max_bytes: 64KiB}", "never retained"),
    in_line_4("queues below packet", "limits: {max_bytes: 64KiB}", "never queued"),
    in_line_4("QoS 0 in memory below packet", "limits: {volatile_max_bytes: 64KiB}", "never queued at QoS 0"),
    of_the_classes(
        "a class's queue below packet", "{name: bulk, limits: {max_bytes: 64KiB}}", "[0].limits.max_bytes", "never queued"
    ),
    of_the_classes("a class twice", "{name: bulk}, {name: bulk}", "[1].name", "listed twice"),
    of_the_classes("the class of a backlog", "{name: live}", "[0].name", "beside a backlog"),
    of_the_classes("nine classes", ", ".join(f"{{name: c{each}}}" for each in range(9)), "", "may have 8"),
    bad(
        "a class that is not listed",
        rule('filters: ["a"], priority: urgnt'),
        7,
        "bridges[0].local_subscriptions[0].priority",
        "urgnt is no class",
        "did you mean urgent?",
    ),
    bad(
        "a class of what comes from the remote",
        HEAD + BRIDGE + '    remote_subscriptions: [{filters: ["a"], priority: urgent}]\n',
        8,
        "bridges[0].remote_subscriptions[0].priority",
        "unknown key",
    ),
    bad(
        "lanes beside what is live first",
        f"{HEAD}{BRIDGE}    lanes: 2\n    backlog: live-first\n",
        8,
        "bridges[0].lanes",
        "oldest-first",
    ),
    bad(
        "a mark of what is live without any",
        f"{HEAD}{BRIDGE}    live_properties: {{a: b}}\n",
        8,
        "bridges[0].live_properties",
        "backlog: live-first",
    ),
    of_the_bridge("a bridge's queue below packet", "limits: {max_bytes: 64KiB}", "never queued"),
    of_the_bridge("a bridge's QoS 0 below packet", "limits: {volatile_max_bytes: 64KiB}", "never queued at QoS 0"),
    of_the_bridge("dead letters below packet", "dead_letter: {max_bytes: 64KiB}", "never kept"),
    of_the_bridge(
        "a packet and no more of dead letters", "dead_letter: {max_bytes: 1MiB}", "packet_max_bytes (1MiB)", "never kept"
    ),
    in_line_4(
        "a user's share of what is retained below packet", "sessions: {retained_max_bytes: 2MiB}", "never retained within 50 %"
    ),
    bad(
        "retention in memory",
        HEAD + "persistence: {mode: in-memory}\n" + BRIDGE + "    retention: 24h\n",
        9,
        "bridges[0].retention",
        "in memory nothing is kept",
        "file-native",
    ),
]

NO_ACCESS = HEAD.replace("{allow_anonymous: true}", "{}")


def access(keys: str) -> str:
    """A whole configuration whose access section has ``keys`` too; they stand in line 3."""
    return HEAD.replace("true}", f"true, {keys}}}")


def acl(keys: str) -> str:
    return access(f"acl: [{{{keys}}}]")


ACCESS = [
    bad("nobody could log in", NO_ACCESS, 3, "access.allow_anonymous", "nobody could log in", "bascule user"),
    bad(
        "nobody could log in at one listener",
        HEAD.replace('"}]', '", access: {allow_anonymous: false}}]'),
        2,
        "listeners[0].access",
        "nobody could log in",
    ),
    bad("no password file", access("password_file: none"), 3, "access.password_file", "there is no file"),
    bad("two lists", access('acl: [{topics: ["a"]}], acl_file: node.yaml'), 3, "access.acl_file", "beside acl"),
    bad("a rule without topics", acl("users: [a]"), 3, "access.acl[0].topics", "is missing", "site/%u/#"),
    bad("a rule with an unknown key", acl('topics: ["a"], topic: b'), 3, "access.acl[0].topic", "did you mean topics?"),
    bad("a bad pattern", acl('topics: ["a/%x"]'), 3, "access.acl[0].topics[0]", "%u", "%c"),
    bad("a bad filter", acl('topics: ["a/#/%u"]'), 3, "access.acl[0].topics[0]", "4.7.1-1"),
    bad("a bad permission", acl('topics: ["a"], permission: alow'), 3, "access.acl[0].permission", "did you mean allow?"),
    bad("a bad action", acl('topics: ["a"], action: read'), 3, "access.acl[0].action", "publish, subscribe, both"),
    bad("a bad user", acl('topics: ["a"], users: ["a\\tb"]'), 3, "access.acl[0].users[0]", "cannot be a user name"),
    bad("a bad limit", access("login_limits: {failures_max: 0}"), 3, "access.login_limits.failures_max", "unlimited"),
]

NOT_YET = [
    bad("a bridge's own persistence", HEAD + BRIDGE + "    persistence: {sync: os}\n", 8, "bridges[0].persistence", "whole node"),
]


def refusal(kind: str, actions: str, reason: str, *hints: str) -> Bad:
    """A wrong ``on_refusal``, in line 8."""
    below = f".{reason}" if reason else ""
    return Bad(kind, HEAD + BRIDGE + f"    on_refusal: {actions}\n", 8, f"bridges[0].on_refusal{below}", hints)


REFUSALS = [
    refusal("refusals as one word", "retry", "", "is not a mapping", "dead-letter"),
    refusal(
        "unknown action", "{default: dead_letter}", "default", "not one of retry, dead-letter, drop", "did you mean dead-letter?"
    ),
    refusal("unknown reason", "{quota_exceeded: drop}", "quota_exceeded", "no such reason", "did you mean quota-exceeded?", "0x99"),
    refusal("a success as refusal", "{0x10: drop}", "0x10", "below 0x80 are success"),
    refusal("a reason by name and code", "{quota-exceeded: drop, 0x97: drop}", "0x97", "given twice"),
    refusal("retry of what is too large", "{packet-too-large: retry}", "packet-too-large", "stays so"),
    bad(
        "refusals in MQTT 3.1.1",
        HEAD + BRIDGE.replace("edge-1}", "edge-1, protocol: mqtt311}") + "    on_refusal: {default: drop}\n",
        8,
        "bridges[0].on_refusal.default",
        "MQTT 3.1.1 has no reason codes",
        "connection-closed",
    ),
]

ALL = [*SHAPES, *TRAPS, *VALUES, *TOGETHER, *ACCESS, *NOT_YET, *REFUSALS]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_a_bad_configuration_is_refused_by_line_and_key_with_what_would_be_right(case: Bad, tmp_path: Path) -> None:
    problems = problems_of(tmp_path, case.text)

    assert len(problems) == 1, problems
    place, key, message = problems[0].split(": ", 2)
    assert place.rpartition(":")[0] == f"node.yaml:{case.line}"
    assert key == case.key
    for hint in case.hints:
        assert hint in message


FRAGMENTS = [
    "",
    ":",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "*a",
    "&a ",
    "!x ",
    "<<: ",
    "\n",
    "\t",
    "'",
    '"',
    "|",
    "#",
    "no",
    "~",
    "0x1F",
    "1:30",
    "9" * 5000,
]
FRAGMENTS += [
    "\0",
    '"\\ud800"',
    "~nobody-here/x",
    "x" * 5000,
    "node",
    "2024-01-01",
    "1e999",
    ".nan",
    "=",
    "? ",
    "%",
    "@",
    "\u2028",
    "[[]]",
    "{{}}",
]


@given(
    st.lists(
        st.tuples(st.floats(min_value=0, max_value=1), st.integers(min_value=0, max_value=12), st.sampled_from(FRAGMENTS)),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_in_the_file_the_answer_is_settings_or_problems(tmp_path: Path, changes: list[tuple[float, int, str]]) -> None:
    text = rule('name: a, filters: ["a/#"], user_properties: {site: north}') + "log: {level: info}\nlimits: {max_bytes: 5MiB}\n"
    for where, cut, fragment in changes:
        at = int(where * len(text))
        text = text[:at] + fragment + text[at + cut :]

    problems: tuple[str, ...] = ()
    try:
        load_text(tmp_path, text)
    except ConfigError as error:
        problems = error.problems or ("a ConfigError without problems",)

    for problem in problems:
        assert re.match(r".*/node\.yaml:[1-9][0-9]*:[1-9][0-9]*: \S", problem), problem
        problem.encode()


def test_there_are_no_two_cases_of_one_name() -> None:
    assert len({case.kind for case in ALL}) == len(ALL)


def test_the_column_is_that_of_the_value_or_of_the_unknown_key(tmp_path: Path) -> None:
    assert problems_of(tmp_path, HEAD + "log: {level: loud}\n")[0].startswith("node.yaml:4:14: log.level: ")
    assert problems_of(tmp_path, HEAD + "log: {levl: info}\n")[0].startswith("node.yaml:4:7: log.levl: ")


def test_all_problems_of_a_file_are_told_at_once_in_its_order(tmp_path: Path) -> None:
    text = """\
node: {name: off, data_dir: data}
listeners: [{bind: "nowhere"}, {bind: "[::1]:1883", protocl: tcp}]
access: {allow_anonymous: true}
bridges:
  - name: cloud
    remote: {addresses: ["broker.example:"], keep_alive: 60}
    local_subscriptions: [{filters: ["a#"]}]
  - name: cloud
    lanes: 0
    remote: {addresses: ["broker.example:1883"]}
    local_subscriptions: [{filters: ["a"]}]
"""

    assert [problem.split(": ")[:2] for problem in problems_of(tmp_path, text)] == [
        ["node.yaml:1:14", "node.name"],
        ["node.yaml:2:20", "listeners[0].bind"],
        ["node.yaml:2:53", "listeners[1].protocl"],
        ["node.yaml:6:26", "bridges[0].remote.addresses[0]"],
        ["node.yaml:6:58", "bridges[0].remote.keep_alive"],
        ["node.yaml:7:38", "bridges[0].local_subscriptions[0].filters[0]"],
        ["node.yaml:8:11", "bridges[1].name"],
        ["node.yaml:9:12", "bridges[1].lanes"],
        ["node.yaml:10:13", "bridges[1].remote.client_id"],
    ]


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        pytest.param(b"", "1:1", "the file is empty", id="empty"),
        pytest.param(b"# nothing\n", "1:1", "the file is empty", id="only a comment"),
        pytest.param(b"- a\n- b\n", "1:1", "must be a mapping", id="a list"),
        pytest.param(b"node:\n\tname: a\n", "2:1", "use spaces", id="tab"),
        pytest.param(b"node: {name: a\nlog: {}\n", "2:4", "expected ',' or '}'", id="unclosed brace"),
        pytest.param(b'node: "a\nlog: {}\n', "1:7", "unexpected end of stream", id="unclosed quotes"),
        pytest.param(b"a:\n  filters: [#]\nb: {}\n", "2:13", 'a bare # begins a comment; write "#"', id="bare number sign"),
        pytest.param(b"a: [x, # and so on\n  y\n", "1:4", "expected ',' or ']'", id="unclosed list with a comment"),
        pytest.param(b"node: a: b\n", "1:8", "quote a value that has a colon", id="colon in a value"),
        pytest.param(b"a: *nobody\n", "1:4", "undefined alias 'nobody'", id="alias without anchor"),
        pytest.param(b"a: 1\n---\nb: 2\n", "2:1", "a second document", id="two documents"),
        pytest.param("node:\n  name: Köln\n".encode("latin-1"), "2:10", "not UTF-8 (byte 0xf6)", id="not UTF-8"),
        pytest.param(b"node:\n  name: a\x07b\n", "2:10", "is not allowed", id="control character"),
        pytest.param(b"a: " + b"[" * 20_000, "1:1", "nested too deeply", id="deep nesting"),
    ],
)
def test_what_is_no_yaml_mapping_is_refused_with_its_place(text: bytes, place: str, hint: str, tmp_path: Path) -> None:
    problems = problems_of(tmp_path, text)

    assert len(problems) == 1
    assert problems[0].startswith(f"node.yaml:{place}: ")
    assert hint in problems[0]


def test_aliases_of_aliases_do_not_eat_the_memory(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    assert any("too many values" in problem for problem in problems_of(tmp_path, "\n".join(levels)))


def test_what_is_not_there_or_no_plain_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    no_plain_file = "not a plain file, but a pipe or a device"
    for path, hint in (
        (tmp_path / "none.yaml", "no such file or directory"),
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", no_plain_file),
        (Path("/dev/zero"), no_plain_file),
    ):
        for read in (load, load_acl):
            with pytest.raises(ConfigError) as caught:
                read(path)
            assert caught.value.problems == (f"{path}:1:1: {hint}",)


@pytest.mark.parametrize(
    ("keys", "key", "hint"),
    [
        ("password_file: gone, username: u", "password_file", "there is no file"),
        ("password_file: ., username: u", "password_file", "is not a file"),
        ("password_file: empty, username: u", "password_file", "is empty"),
        ("protocol: mqtt311, password_file: full", "password_file", "needs username"),
        ("password_file: full", "password_file", "needs username"),
        ("password_env: TOKEN", "password_env", "needs username"),
        ("websocket_headers: {a: b}", "websocket_headers", "write transport: ws or wss"),
        ("websocket_subprotocol: mqttv3.1", "websocket_subprotocol", "write transport: ws or wss"),
        ("bind_address: eth0", "bind_address", "is no address"),
        ("bind_address: 10.0.0.7, ip_version: ipv6", "ip_version", "does not fit bind_address"),
        ("transport: tls, tls: {key_passphrase_env: PHRASE}", "tls.key_passphrase_env", "needs key_file"),
        ("transport: tls, tls: {verify: false, verify_name: false}", "tls.verify_name", "has no effect with verify: false"),
        ("password_command: [token]", "password_command", "needs username"),
        ("username: u, password_file: full, password_env: TOKEN", "password_env", "cannot stand beside password_file"),
        ("username: u, password_env: TOKEN, password_command: [token]", "password_command", "cannot stand beside password_env"),
        ("authentication: {method: M, data_file: full, data_env: T}", "authentication.data_env", "cannot stand beside data_file"),
        ("protocol: mqtt311, authentication: {method: M}", "authentication", "is not in MQTT 3.1.1"),
        ("transport: tls, tls: {ca_file: gone}", "tls.ca_file", "there is no file"),
        ("transport: tls, tls: {cert_file: full}", "tls.cert_file", "needs key_file"),
        ("transport: wss, tls: {key_file: full}", "tls.key_file", "needs cert_file"),
    ],
)
def test_files_that_cannot_serve_are_refused(keys: str, key: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "full").write_text("hush-hush\n")
    (tmp_path / "empty").touch()

    (problem,) = problems_of(tmp_path, remote(f"{CLIENT}, {keys}"))

    assert problem.split(": ")[1] == f"bridges[0].remote.{key}"
    assert hint in problem
    assert "hush-hush" not in problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_password_file_of_someone_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    (tmp_path / "secret").chmod(0)

    (problem,) = problems_of(tmp_path, remote(f"{CLIENT}, username: u, password_file: secret"))

    assert "not readable by this user" in problem


def test_a_data_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    (problem,) = problems_of(tmp_path, HEAD.replace("data}", "taken/deeper}"))

    assert problem.startswith("node.yaml:1:32: node.data_dir: ")
    assert "taken is not a folder" in problem


def test_one_client_id_serves_several_bridges_only_at_different_remotes(tmp_path: Path) -> None:
    other = BRIDGE.replace("bridges:\n", "").replace("cloud", "second")

    (problem,) = problems_of(tmp_path, HEAD + BRIDGE + other)

    assert problem.startswith("node.yaml:9:")
    assert "bridges[1].remote.client_id" in problem
    assert "bridges[0]" in problem
    assert len(load_text(tmp_path, HEAD + BRIDGE + other.replace("broker.example", "other.example")).bridges) == 2


def test_the_client_ids_of_lanes_are_those_of_no_other_bridge(tmp_path: Path) -> None:
    """Lanes from the second on add their number, so that they can meet what is written in full elsewhere."""
    two_lanes = BRIDGE.replace("name: cloud", "name: cloud\n    lanes: 2")
    other = BRIDGE.replace("bridges:\n", "").replace("cloud", "second")
    (client_id,) = re.findall(r"client_id: ([\w-]+)", BRIDGE)

    (problem,) = problems_of(tmp_path, HEAD + two_lanes + other.replace(client_id, f"{client_id}-1"))

    assert f"bridges[1].remote.client_id: makes {client_id}-1, which is bridges[0]'s" in problem
    assert len(load_text(tmp_path, HEAD + two_lanes + other.replace(client_id, f"{client_id}-2")).bridges) == 2


def test_a_client_id_has_room_for_the_classes(tmp_path: Path) -> None:
    """Of each lane it is within what MQTT allows, and no other bridge's."""
    (client_id,) = re.findall(r"client_id: ([\w-]+)", BRIDGE)
    urgent = BRIDGE.replace("local_subscriptions: [{", "local_subscriptions: [{priority: urgent, ")
    assert urgent != BRIDGE
    (problem,) = problems_of(tmp_path, HEAD + urgent.replace(client_id, "e" * 65_529))
    assert "bridges[0].remote.client_id: has 65536 bytes with the name of a lane behind it" in problem
    assert load_text(tmp_path, HEAD + urgent.replace(client_id, "e" * 65_528)).bridges
    other = BRIDGE.replace("bridges:\n", "").replace("cloud", "second").replace(client_id, f"{client_id}-urgent")
    (problem,) = problems_of(tmp_path, HEAD + urgent + other)
    assert f"makes {client_id}-urgent, which is bridges[0]'s" in problem


def test_a_class_has_the_limits_of_its_bridge_but_for_what_it_says(tmp_path: Path) -> None:
    """One without limits has none of its own."""
    classes = "classes: [{name: bulk, limits: {overflow: drop-oldest}}, {name: own}]"
    (bridge,) = load_text(tmp_path, f"{HEAD}{BRIDGE}    limits: {{max_messages: 7}}\n    {classes}\n").bridges

    assert bridge.limits_of("bulk") == ("cloud:bulk", replace(bridge.limits, overflow="drop-oldest"))
    assert bridge.limits_of("own") == ("cloud", bridge.limits)


# --- access -------------------------------------------------------------------------------------------------------------------


def test_a_listener_has_the_access_of_the_node_but_for_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text(f"ada:{DECOY}\n")
    (tmp_path / "rules.yaml").write_text('acl: [{users: [ada], topics: ["a"], action: publish, permission: deny}]\n')
    loaded = load_text(
        tmp_path,
        """\
node: {name: edge-1, data_dir: data}
listeners:
  - {bind: "127.0.0.1:1883"}
  - {bind: "127.0.0.1:1884", access: {allow_anonymous: true}}
  - {bind: "127.0.0.1:1885", access: {acl_file: rules.yaml}}
access: {password_file: passwords, acl: [{topics: ["%u/#"]}]}
""",
    )
    everyone = AclRuleSettings(("%u/#",))
    one = AclRuleSettings(("a",), allow=False, action="publish", users=("ada",))
    node, (first, second, third) = loaded.access, (listener.access for listener in loaded.listeners)
    assert (node.allow_anonymous, node.password_file, node.acl) == (False, str(tmp_path / "passwords"), (everyone,))
    assert (node.login_limits.failures_max, node.login_limits.period_s, node.login_limits.block_s) == (10, 60.0, 60.0)
    assert first is None
    assert second == replace(node, allow_anonymous=True)
    assert third == replace(node, acl=(one,), acl_file=str(tmp_path / "rules.yaml"))
    assert load_dumped(dump(loaded)) == loaded


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("", "1:1", "write acl: [{users"),
        ("acl: 5\n", "1:6", "is not a list"),
        ("acl: []\nrules: []\n", "2:1", "unknown key; known here: acl"),
        ('acl:\n  - {topics: ["a"]}\n  - {topics: ["%z"]}\n', "3:15", "%z is not %u"),
        ('acl:\n  - {topics: ["a"], users: [on]}\n', "2:29", "YAML takes the bare word on"),
    ],
)
def test_an_acl_file_that_is_wrong_names_its_own_line(tmp_path: Path, text: str, place: str, hint: str) -> None:
    (tmp_path / "rules.yaml").write_text(text or "# nothing\n")
    with pytest.raises(ConfigError) as caught:
        load_text(tmp_path, access("acl_file: rules.yaml"))
    (problem,) = caught.value.problems
    assert problem.startswith(f"{tmp_path / 'rules.yaml'}:{place}: ")
    assert hint in problem


@pytest.mark.parametrize(
    "rest",
    ["access: {password_file: passwords}", "colour: red", "listeners: [{bind: 7}]", 'bridges: [{name: "${NOT_SET_HERE}"}]'],
)
def test_where_a_running_node_is_depends_on_nothing_but_node(rest: str, tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("half a li")
    path = tmp_path / "node.yaml"
    path.write_text(f"node: {{name: edge-1, data_dir: data}}\n{rest}\n")
    with pytest.raises(ConfigError):
        load(path)

    assert locate(path) == NodePlace("edge-1", str(tmp_path / "data"), str(tmp_path / "data" / "run"))


def test_where_a_node_is_may_stand_in_an_included_file(tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text("node: {name: box-7, data_dir: data}\n")
    (tmp_path / "node.yaml").write_text("include: [box.yaml]\n")

    assert locate(tmp_path / "node.yaml").name == "box-7"


@pytest.mark.parametrize("text", ["colour: red\n", "node: {name: edge-1}\n", "node: 7\n", "node: {name: a b, data_dir: data}\n"])
def test_a_file_that_does_not_say_where_its_node_is_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as refused:
        locate(path)

    assert all(": node" in problem for problem in refused.value.problems)


def test_each_key_that_may_be_missing_has_an_example() -> None:
    """All that the schema requires, wherever it is."""
    schema = json.loads((Path(__file__).resolve().parents[3] / "configs" / "bascule.schema.json").read_text())

    def required(part: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        yield from (".".join((*path, key)) for key in part.get("required", ()))
        for below in (*part.get("anyOf", ()), *part.get("oneOf", ()), *([part["items"]] if "items" in part else [])):
            yield from required(below, path)
        for key, below in part.get("properties", {}).items():
            yield from required(below, (*path, key))

    keys = set(required(schema, ()))
    assert "bridges.remote.addresses" in keys
    assert keys - set(_EXAMPLES) == set()
