"""The alerts: Prometheus takes them, each fires for what it is about and for nothing else, and what they name exists."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.metrics.table import METRICS
from tests.supervisor.metrics.named import named
from tests.support.programs import run

ALERTS = Path(__file__).resolve().parents[3] / "configs" / "prometheus" / "alerts.yml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
}

pytestmark = [pytest.mark.process, pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")]

LANE = 'instance="edge-1",bridge="cloud",lane="0"'
NODE = 'instance="edge-1"'

# For each alert what Prometheus sees each minute for two hours, and the labels that the alert then has.
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "BasculeNotScraped": ({'up{job="bascule",instance="edge-1"}': "0x120"}, {"job": "bascule"}),
    "BasculeNotReady": ({f"bascule_ready{{{NODE}}}": "0x120"}, {}),
    "BasculeLinkDown": (
        {
            f'bascule_bridge_state{{{LANE},state="connected"}}': "0x120",
            f'bascule_bridge_state{{{LANE},state="backoff"}}': "1x120",
            f"bascule_bridge_paused{{{LANE}}}": "0x120",
            f'bascule_bridge_reason_info{{{LANE},reason="next attempt",last_error="Connection refused"}}': "1x120",
        },
        {"bridge": "cloud", "lane": "0", "state": "connected"},
    ),
    "BasculeLinkFlaps": ({f"bascule_bridge_connections_lost_total{{{LANE}}}": "0+1x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeBridgePaused": (
        {f"bascule_bridge_paused{{{LANE}}}": "1x120", f'bascule_bridge_state{{{LANE},state="connected"}}': "0x120"},
        {"bridge": "cloud", "lane": "0"},
    ),
    "BasculeFilterRefused": ({f"bascule_bridge_remote_filters_refused{{{LANE}}}": "1x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeQueueGrows": ({f"bascule_bridge_queue_messages{{{LANE}}}": "2000+10x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeOldestMessage": (
        {f"bascule_bridge_queue_oldest_age_seconds{{{LANE}}}": "0+60x120"},
        {"bridge": "cloud", "lane": "0"},
    ),
    "BasculeDrainsTooSlowly": ({f"bascule_bridge_queue_drain_seconds{{{LANE}}}": "20000x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeQueueNearlyFull": ({f"bascule_bridge_queue_full_ratio{{{LANE}}}": "0.9x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeOrphanedQueue": (
        {f'bascule_unserved_queue_messages{{{NODE},queue="bridge:old:0"}}': "3x120"},
        {"queue": "bridge:old:0"},
    ),
    "BasculeMessagesRefused": ({f"bascule_bridge_refused_messages_total{{{LANE}}}": "0+1x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeMessagesDropped": (
        {
            f'bascule_bridge_dropped_messages_total{{{LANE},reason="overflow"}}': "0+1x120",
            f'bascule_bridge_dropped_messages_total{{{LANE},reason="purged"}}': "0+1x120",
        },
        {"bridge": "cloud", "lane": "0", "reason": "overflow"},
    ),
    "BasculeMessagesExpired": ({f"bascule_bridge_expired_messages_total{{{LANE}}}": "0+1x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeDeadLetters": ({f"bascule_bridge_dead_lettered_messages_total{{{LANE}}}": "0+1x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeDeadLettersEvicted": (
        {'bascule_bridge_dead_letters_evicted_total{instance="edge-1",bridge="cloud"}': "0+1x120"},
        {"bridge": "cloud"},
    ),
    "BasculeLedgerOpen": ({f"bascule_bridge_ledger_closes{{{LANE}}}": "0x120"}, {"bridge": "cloud", "lane": "0"}),
    "BasculeStoreRefuses": (
        {f'bascule_store_state{{{NODE},state="running"}}': "0x120", f'bascule_store_state{{{NODE},state="disk_full"}}': "1x120"},
        {"state": "running"},
    ),
    "BasculeLogAway": (
        {
            f"bascule_replication_log_ready{{{NODE}}}": "0x120",
            f'bascule_replication_error_info{{{NODE},error="no servers"}}': "1x120",
        },
        {},
    ),
    "BasculeStandbyBehind": ({f"bascule_replication_needs_base{{{NODE}}}": "1x120"}, {}),
    "BasculeMemberSilent": (
        {f'bascule_replication_member_silent_seconds{{{NODE},member="b"}}': "400x120"},
        {"member": "b"},
    ),
    "BasculeDiskFills": (
        {f"bascule_disk_free_bytes{{{NODE}}}": "1000000-1000x120", f"bascule_disk_needed_bytes{{{NODE}}}": "100000x120"},
        {},
    ),
    "BasculeCommitsSlow": (
        {
            f'bascule_store_commit_seconds_bucket{{{NODE},le="0.5"}}': "0+1x120",
            f'bascule_store_commit_seconds_bucket{{{NODE},le="1.0"}}': "0+60x120",
            f'bascule_store_commit_seconds_bucket{{{NODE},le="+Inf"}}': "0+60x120",
        },
        {},
    ),
    "BasculeRocksdbErrors": ({f"bascule_rocksdb_background_errors_total{{{NODE}}}": "0+1x120"}, {}),
    "BasculeProcessRestarts": (
        {
            f'bascule_process_restarts_total{{{NODE},process="store"}}': "0+1x120",
            f'bascule_process_cause_info{{{NODE},process="store",cause="killed by SIGKILL"}}': "1x120",
        },
        {"process": "store"},
    ),
    "BasculeHeartbeatLate": ({f'bascule_actor_heartbeat_age_seconds{{{NODE},actor="listener"}}': "20x120"}, {"actor": "listener"}),
    "BasculeConfigurationChanged": ({f"bascule_configuration_changed_on_disk{{{NODE}}}": "1x120"}, {}),
    "BasculeNotAccepting": ({f"bascule_clients_accepting{{{NODE}}}": "0x120"}, {}),
    "BasculeCertificateRefused": ({f"bascule_listener_certificates_refused_total{{{NODE}}}": "0+1x120"}, {}),
    "BasculeLimitReached": (
        {f'bascule_client_limited_total{{{NODE},limit="sessions_max"}}': "0+60x120"},
        {"limit": "sessions_max"},
    ),
    "BasculeLoginsFail": ({f"bascule_client_logins_failed_total{{{NODE}}}": "0+60x120"}, {}),
    "BasculeSnapshotFails": ({f"bascule_snapshot_failing{{{NODE}}}": "1x120"}, {}),
}
ANNOTATED = {
    "BasculeLinkDown": "Connection refused",
    "BasculeProcessRestarts": "killed by SIGKILL",
    "BasculeLogAway": "no servers",
}

# A node to which nothing happens.
WELL = {
    'up{job="bascule",instance="edge-1"}': "1x120",
    f"bascule_ready{{{NODE}}}": "1x120",
    f'bascule_bridge_state{{{LANE},state="connected"}}': "1x120",
    f"bascule_bridge_paused{{{LANE}}}": "0x120",
    f"bascule_bridge_queue_messages{{{LANE}}}": "10x120",
    f"bascule_bridge_queue_drain_seconds{{{LANE}}}": "1x120",
    f"bascule_bridge_queue_full_ratio{{{LANE}}}": "0.1x120",
    f"bascule_bridge_ledger_closes{{{LANE}}}": "1x120",
    f"bascule_bridge_dead_lettered_messages_total{{{LANE}}}": "7x120",
    f'bascule_bridge_dropped_messages_total{{{LANE},reason="overflow"}}': "7x120",
    f'bascule_store_state{{{NODE},state="running"}}': "1x120",
    f"bascule_replication_log_ready{{{NODE}}}": "1x120",
    f"bascule_replication_needs_base{{{NODE}}}": "0x120",
    f"bascule_replication_behind_messages{{{NODE}}}": "7x120",
    f'bascule_replication_member_silent_seconds{{{NODE},member="b"}}': "3x120",
    f"bascule_disk_free_bytes{{{NODE}}}": "1000000x120",
    f"bascule_disk_needed_bytes{{{NODE}}}": "100000x120",
    f'bascule_process_restarts_total{{{NODE},process="store"}}': "1x120",
    f'bascule_actor_heartbeat_age_seconds{{{NODE},actor="listener"}}': "0.5x120",
    f"bascule_clients_accepting{{{NODE}}}": "1x120",
    f"bascule_configuration_changed_on_disk{{{NODE}}}": "0x120",
    f"bascule_snapshot_failing{{{NODE}}}": "0x120",
}


def fired(folder: Path, series: dict[str, str]) -> dict[str, str]:
    """The alerts that fire after two hours of ``series``, by promtool: by their names, labels and annotations."""
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    none = [{"alertname": name, "eval_time": "2h", "exp_alerts": []} for name in RULES]
    case = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": inputs, "alert_rule_test": none}],
    }
    path = folder / "case.yml"
    path.write_text(json.dumps(case))  # JSON is YAML
    done = run(["promtool", "test", "rules", path], timeout_s=60.0)
    said = done.stdout + done.stderr
    found = dict(re.findall(r"alertname: (\w+), time: 2h,.*?got:\[(.*?)\n\s*\]", said, re.DOTALL))
    assert (done.returncode == 0) == (not found), said
    return found


def test_prometheus_takes_them() -> None:
    done = run(["promtool", "check", "rules", ALERTS], timeout_s=60.0)

    assert done.returncode == 0, done.stdout + done.stderr


def test_each_names_metrics_that_there_are() -> None:
    for name, rule in RULES.items():
        assert named(json.dumps(rule)) <= {metric.name for metric in METRICS}, name


def test_the_guide_names_each() -> None:
    guide = (ALERTS.parents[2] / "docs" / "guides" / "monitoring.md").read_text()

    assert set(re.findall(r"`(Bascule\w+)`", guide)) == set(RULES)


def test_a_node_that_is_well_has_none(tmp_path: Path) -> None:
    assert fired(tmp_path, WELL) == {}


@pytest.mark.parametrize("name", RULES)
def test_it_fires_alone_for_what_it_is_about(tmp_path: Path, name: str) -> None:
    series, labels = CASES[name]

    found = fired(tmp_path, series)

    assert set(found) == {name}
    assert found[name].count("Labels:") == 1, found[name]
    for label, value in {"instance": "edge-1", "severity": RULES[name]["labels"]["severity"], **labels}.items():
        assert f'{label}="{value}"' in found[name]
    assert ANNOTATED.get(name, "") in found[name]


@pytest.mark.parametrize(("reason", "error"), [("Connection refused", "Connection refused"), ("resumed", "Connection refused")])
def test_why_a_link_is_down_is_said_once(reason: str, error: str, tmp_path: Path) -> None:
    series = {name: values for name, values in CASES["BasculeLinkDown"][0].items() if "reason_info" not in name}
    series[f'bascule_bridge_reason_info{{{LANE},reason="{reason}",last_error="{error}"}}'] = "1x120"

    found = fired(tmp_path, series)

    assert found["BasculeLinkDown"].count("Connection refused") == 1
    assert "resumed" not in found["BasculeLinkDown"]
