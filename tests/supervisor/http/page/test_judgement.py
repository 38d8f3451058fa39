"""The page says what is in trouble: each trouble once, and never that all goes on where something is paused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.http.page.modules import needs_node, told_by
from wire.status.loss_reasons import INTENDED, OF_QUEUES, WHEN_FULL, Loss

pytestmark = [pytest.mark.process, needs_node]

JUDGED = """
import { judge } from "./judgement.js";
const told = GIVEN.map((status) => {
  const { events = [], ...said } = status;
  const { headline, lead, troubles } = judge({ supervisor: { uptime_s: 9 }, ready: true, ...said }, events, new Map(), 100000);
  return { headline, lead, troubles: troubles.map(({ about, text, facts }) => [about, text, facts.join("; ")]) };
});
console.log(JSON.stringify(told));
"""


def judged(folder: Path, *statuses: dict[str, Any]) -> list[dict[str, Any]]:
    """What is said of each of ``statuses``, which are given in part."""
    told: list[dict[str, Any]] = told_by(JUDGED.replace("GIVEN", json.dumps(statuses)), folder)
    return told


def lane(name: str, lane: int | str = 0, **figures: Any) -> dict[str, Any]:
    row = {"name": name, "lane": lane, "state": "connected", "reason": "", "depth": 0, "bytes": 0, "ledger_closes": True}
    return row | {"paused_since_ms": None, "since_s": 30, "down_s": None, "drain_s": 0} | figures


def down(name: str, at: int | str = 0, **figures: Any) -> dict[str, Any]:
    why = "box:1883: tcp: Connection refused"
    known = {"state": "backoff", "reason": why, "last_error": why, "cure": "check it", "down_s": 20, "attempts": 2}
    return lane(name, at, **(known | figures))


def room(name: str, used: int) -> dict[str, Any]:
    """The limit of ``name``'s queue, of 2,000 messages."""
    told = {"limit": "max_messages", "used": used, "most": 2_000, "when_full": WHEN_FULL["reject"]}
    return {"name": name, "cure": "raise limits.max_messages", **told}


def test_who_is_full_soonest_comes_first_with_the_limit_the_time_and_what_happens_then(tmp_path: Path) -> None:
    calm, soon, sooner = down("calm"), down("soon", full_s=900.0), down("sooner", full_s=87.0, room=room("sooner", 1_877))
    full = lane("full", depth=2_000, room=room("full", 2_000) | {"full_for_s": 60.0})
    began = [{"kind": "overflow.began", "at_ms": 9, "bridge": "full", "reason": "reject"}]

    (told,) = judged(tmp_path, {"bridges": [calm, soon, sooner, full], "events": began})

    assert told["headline"] == "4 of 4 bridges are in trouble: full, sooner, soon and calm."
    (_, words, facts), *_, nearly = [one for one in told["troubles"] if one[0] in ("full", "sooner")]
    assert words == "its queue is full: 2,000 of 2,000 messages"
    assert facts.endswith(f"full for 1 min, since 00:00:40; while it is full, {WHEN_FULL['reject']}")
    assert nearly[1] == "its queue is 93 % full: 1,877 of 2,000 messages"
    assert nearly[2] == f"full at about 00:03:07, in 1 min 27 s, if it goes on like this; then {WHEN_FULL['reject']}"


def test_a_class_with_limits_of_its_own_is_told_to_be_nearly_full(tmp_path: Path) -> None:
    rows = [lane("north", room=room("north", 3)), lane("north", "bulk", room=room("north:bulk", 1_999))]

    (told,) = judged(tmp_path, {"bridges": rows})

    assert [text for _, text, _ in told["troubles"]] == ["its queue north:bulk is 99 % full: 1,999 of 2,000 messages"]


def test_a_bridge_that_is_paused_is_said_to_be_and_nothing_is_said_to_go_on(tmp_path: Path) -> None:
    paused = lane("north", state="paused", paused_since_ms=40_000, depth=3, bytes=9)
    late = lane("south", oldest_age_s=90, depth=1, drain_s=None)

    alone, beside = judged(tmp_path, {"bridges": [paused, lane("south")]}, {"bridges": [paused, late]})

    assert (alone["headline"], alone["lead"]) == ("Paused: north.", "")
    assert alone["troubles"] == [["north", "paused by an operator", "for 1 min, since 00:00:40; 3 messages (9 B) wait"]]
    assert beside["headline"] == "Paused: north. Worth a look: south."


def test_a_link_that_is_closed_by_choice_is_no_trouble_and_is_not_said_to_be_connected(tmp_path: Path) -> None:
    closed = lane("north", state="closed", depth=3, bytes=9)

    alone, beside = judged(tmp_path, {"bridges": [closed]}, {"bridges": [closed, lane("south")]})

    assert (alone["headline"], alone["lead"]) == ("All is well: 1 bridge closed by choice.", "3 messages wait.")
    assert (beside["headline"], beside["troubles"]) == ("All is well: 1 bridge connected, 1 closed by choice.", [])


def test_since_when_there_are_dead_letters_and_who_else_is_worth_a_look_is_said(tmp_path: Path) -> None:
    dead = {"held": 2, "bytes": 9, "reasons": {"remote_0x87": 2}}
    kinds = (("messages.dead", 10_000), ("queue.purged", 20_000), ("messages.dead", 30_000), ("messages.dead", 70_000))
    events = [{"kind": kind, "at_ms": at_ms, "bridge": "south", "reason": "dead_letters"} for kind, at_ms in kinds]
    full = lane("east", oldest_age_s=75.0, room=room("east", 1_877))
    rows = [down("north"), lane("south", dead_letters=dead), lane("west", state="paused", paused_since_ms=90_000), full]

    (told,) = judged(tmp_path, {"bridges": rows, "events": events})

    assert told["headline"] == "1 of 4 bridges is in trouble: north."
    assert told["lead"] == "Paused: west. Worth a look: south and east."
    facts = {about: facts for about, _, facts in told["troubles"]}
    assert facts["south"] == "since 00:00:30, the last at 00:01:10; 9 B"
    when = f"it does not grow just now; once it is full, {WHEN_FULL['reject']}"
    assert facts["east"] == f"{when}; the oldest message has waited 1 min 15 s"


LOSSES = """
import { bridgeTroubles } from "./bridge_troubles.js";
import { Series } from "./samples.js";
const told = GIVEN.map((reason) => {
  const series = new Series();
  for (const [atS, number] of [[1, 1], [2, 3]]) series.note(atS, [{ dropped: { [reason]: number } }]);
  return bridgeTroubles("north", [{ state: "connected", dropped: {} }], [], series, 9000).map(({ text }) => text);
});
console.log(JSON.stringify(told));
"""


def test_messages_that_rules_leave_out_are_no_loss_and_others_are_told_by_what_they_are(tmp_path: Path) -> None:
    reasons = [str(reason) for reason in (*OF_QUEUES, Loss.PACKET_TOO_LARGE)]

    told = dict(zip(reasons, told_by(LOSSES.replace("GIVEN", json.dumps(reasons)), tmp_path), strict=True))

    assert {reason for reason, texts in told.items() if not texts} == {str(reason) for reason in INTENDED}
    full = {reason for reason, texts in told.items() if texts == ["its queue was full within the last minutes"]}
    assert full == {"overflow", "qos0_memory"}
    assert told["restart"] == told["packet_too_large"] == ["messages were dropped within the last minutes"]


def test_what_several_lanes_have_is_told_once_with_the_facts_of_all(tmp_path: Path) -> None:
    many = [down("north", at, down_s=20 + at, depth=2, bytes=10, next_attempt_s=9 - at) for at in range(8)]
    mixed = [lane("south"), down("south", "urgent"), down("south", 2)]
    late = [lane("east", at, oldest_age_s=100 + at, depth=5, bytes=7) for at in range(3)]
    paused = [lane("west", at, state="paused", paused_since_ms=90_000) for at in (0, 1)]

    told = [one["troubles"] for one in judged(tmp_path, *({"bridges": rows} for rows in (many, mixed, late, paused)))]

    assert told[0] == [
        [
            "north",
            "the remote cannot be reached: Connection refused",
            "at box:1883; for 27 s, since 00:01:13; 16 messages (80 B) wait; 16 attempts failed; next attempt in 2 s",
        ]
    ]
    assert [text for _, text, _ in told[1]] == ["lanes urgent and 2: the remote cannot be reached: Connection refused"]
    assert told[2] == [["east", "behind", "the oldest message has waited 1 min 42 s; 15 messages (21 B) wait"]]
    assert told[3] == [["west", "paused by an operator", "for 10 s, since 00:01:30; nothing waits"]]


def test_the_process_that_bridges_share_is_told_once_and_not_with_each_of_them(tmp_path: Path) -> None:
    rows = [lane(name, state="restarting", reason="signal 9") for name in ("north", "south")]
    site = {"name": "site", "state": "restarting", "last_cause": "signal 9"}

    shared, own = judged(tmp_path, {"bridges": rows, "processes": [site]}, {"bridges": rows, "processes": []})

    assert [about for about, _, _ in shared["troubles"]] == ["site"]
    assert [about for about, _, _ in own["troubles"]] == ["north", "south"]
