"""The text that the page's form makes of a bridge, and what becomes of the faults that a node finds in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.supervisor.http.page.modules import needs_node, told_by

pytestmark = [pytest.mark.process, needs_node]

BRIDGES = [
    {"name": "north", "remote": {"addresses": ["a.example", "b:1883"], "client_id": "edge"}},
    {"name": "no", "lanes": 4, "remote": {"addresses": ["1:30"], "username": "0600", "client_id": ": # '\"\\\n\u00e4\u2028"}},
    {
        "name": "x",
        "local_subscriptions": [{"filters": ["#", "+/$a"]}, {"filters": ["b"], "properties": {"on": "1", "a b": ""}}],
    },
    {"name": "y", "remote": {"will": {"topic": "t", "retain": True}, "addresses": []}, "limits": {}, "retention": None},
]
FAULTS = """/etc/b.yaml:3:5: bridges[4].remote.addresses[0]: no port: x
/etc/b.yaml:4:5: bridges[4].remote.client_id: is missing
/etc/b.yaml:5:1: bridges[4].local_subscriptions[0].filters[1]: # ends a filter
/etc/b.yaml:6:1: bridges[4].backoff.max: too long
/etc/b.yaml:1:1: not YAML: a brace: is open
includes no folder"""
SCRIPT = """
import { faultsOf, putAt, textOf, valueAt } from "./bridge_text.js";
const paths = ["remote.addresses", "remote.client_id", "local_subscriptions.0.filters"];
const { fields, others } = faultsOf(FAULTS, paths);
const put = { remote: { addresses: ["a"] }, local_subscriptions: [{ filters: ["#"] }] };
putAt(put, "local_subscriptions.0.filters", undefined);
putAt(put, "remote_subscriptions.0.filters", ["c/#"]);
putAt(put, "remote.username", undefined);
putAt(put, "remote.transport", "tls");
console.log(JSON.stringify([BRIDGES.map(textOf), [...fields], others, put, valueAt(put, "remote_subscriptions.0.filters")]));
"""


def test_the_text_of_a_bridge_is_read_as_what_it_was_and_faults_find_their_fields(tmp_path: Path) -> None:
    script = SCRIPT.replace("BRIDGES", json.dumps(BRIDGES)).replace("faultsOf(FAULTS", f"faultsOf({json.dumps(FAULTS)}")

    texts, fields, others, put, filters = told_by(script, tmp_path)

    assert [yaml.safe_load(text) for text in texts] == [{"bridges": [bridge]} for bridge in BRIDGES]
    assert dict(fields) == {
        "remote.addresses": ["no port: x"],
        "remote.client_id": ["is missing"],
        "local_subscriptions.0.filters": ["# ends a filter"],
    }
    assert [(one["line"], one["text"]) for one in others] == [
        (6, "backoff.max: too long"),
        (1, "not YAML: a brace: is open"),
        (None, "includes no folder"),
    ]
    assert put == {"remote": {"addresses": ["a"], "transport": "tls"}, "remote_subscriptions": [{"filters": ["c/#"]}]}
    assert filters == ["c/#"]
