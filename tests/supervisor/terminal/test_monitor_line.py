"""One line for a monitor, as the guidelines of Nagios plug-ins have it: a level, a text without a bar, and what was measured."""

from __future__ import annotations

import re
from typing import Any

import pytest

from supervisor.terminal.monitor_line import Limits, MonitorLevel, judged
from wire.figure import of_map
from wire.status.node_status import Status

LIMITS: dict[str, Limits] = {"down": (60.0, 600.0), "age": (600.0, 7200.0), "dead": (1.0, 1000.0), "full": (80.0, 95.0)}
# 'label'=value[unit];[warning];[critical];[least]
_MEASURED = re.compile(r"'[^'=]+'=[0-9.e+]+(s|%|);[0-9.e+]*;[0-9.e+]*;0")


def row(**keys: Any) -> dict[str, Any]:
    plain = {
        "name": "cloud",
        "lane": 0,
        "state": "connected",
        "reason": "",
        "last_error": "",
        "down_s": None,
        "oldest_age_s": None,
        "dead_letters": {},
        "full": 0.0,
        "ledger_closes": True,
        "paused_since_ms": None,
    }
    return plain | keys


def status(*rows: dict[str, Any], **keys: Any) -> Status:
    return of_map(Status, {"node": "edge", "ready": True, "bridges": list(rows), **keys})


@pytest.mark.parametrize(
    ("keys", "level", "text"),
    [
        ({}, MonitorLevel.OK, "nothing wrong"),
        ({"down_s": 59.0}, MonitorLevel.OK, "nothing wrong"),
        ({"down_s": 60.0, "last_error": "tcp: refused"}, MonitorLevel.WARNING, "cloud:0 down for 1 min (tcp: refused)"),
        ({"down_s": 86_400.0}, MonitorLevel.CRITICAL, "cloud:0 down for 1 d"),
        ({"oldest_age_s": 601.0}, MonitorLevel.WARNING, "cloud:0 oldest message waits for 10 min"),
        ({"oldest_age_s": 7200.0}, MonitorLevel.CRITICAL, "cloud:0 oldest message waits for 2 h"),
        ({"dead_letters": {"held": 1}}, MonitorLevel.WARNING, "cloud 1 dead letter"),
        ({"dead_letters": {"held": 1000}}, MonitorLevel.CRITICAL, "cloud 1000 dead letters"),
        ({"full": 0.8}, MonitorLevel.WARNING, "cloud queue 80 % full"),
        ({"full": 1.0}, MonitorLevel.CRITICAL, "cloud queue 100 % full"),
        ({"full": None}, MonitorLevel.OK, "nothing wrong"),
        ({"ledger_closes": False}, MonitorLevel.CRITICAL, "cloud:0 ledger does not add up"),
        ({"paused_since_ms": 1}, MonitorLevel.OK, "paused: cloud"),
    ],
)
def test_each_limit_is_judged_by_its_own_value(keys: dict[str, Any], level: MonitorLevel, text: str) -> None:
    found, said = judged(status(row(**keys)), LIMITS)

    assert found == level
    assert said.startswith(f"BASCULE {level.name} - ")
    assert text in said


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"ready": False, "processes": [{"name": "store", "state": "damaged"}]}, "not ready: store damaged"),
        ({"store": {"state": "disk_full", "error": "the disk is full"}}, "store disk_full: the disk is full"),
    ],
)
def test_a_node_that_does_not_do_its_work_is_critical_whatever_the_limits_are(keys: dict[str, Any], text: str) -> None:
    level, said = judged(status(row(), **keys), dict.fromkeys(LIMITS, (None, None)))

    assert level == MonitorLevel.CRITICAL
    assert text in said


def test_the_worst_comes_first_and_what_is_off_is_not_judged() -> None:
    rows = row(down_s=70.0, dead_letters={"held": 2}), row(lane=1, down_s=700.0)

    level, said = judged(status(*rows), LIMITS | {"dead": (None, None)})

    assert level == MonitorLevel.CRITICAL
    assert said.startswith("BASCULE CRITICAL - cloud:1 down for 11 min; cloud:0 down for 1 min | ")
    assert "'cloud dead'=2;;;0" in said


def test_what_was_measured_has_the_form_that_monitors_parse_and_no_text_breaks_it() -> None:
    _, said = judged(status(row(down_s=61.5, last_error="a|b\nc", full=0.1234), row(lane=1)), LIMITS)

    text, bar, measured = said.partition("|")
    assert (bar, "a/b c" in text, "\n" in said) == ("|", True, False)
    assert "'cloud:0 down'=61.5s;60;600;0" in measured
    assert "'cloud full'=12.34%;80;95;0" in measured
    parts = re.findall(r"'[^']+'=\S+", measured)
    assert len(parts) == 6
    assert all(_MEASURED.fullmatch(part) for part in parts)


def test_a_broker_alone_and_a_node_that_stands_by_measure_nothing() -> None:
    assert judged(status(), LIMITS) == (MonitorLevel.OK, "BASCULE OK - node edge: 0 links, nothing wrong")
