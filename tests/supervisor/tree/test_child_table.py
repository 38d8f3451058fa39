"""The child table."""

from __future__ import annotations

from pathlib import Path

from supervisor.tree.child_processes import process_command
from supervisor.tree.child_table import child_specs, former_lanes, former_spec
from tests.supervisor.settings import node_settings
from tests.support.settings import HTTP, OTLP, bridge, node
from wire.config_settings import TelemetrySettings
from wire.figure import of_map
from wire.frames.names import LaneName
from wire.status.bridges import QueueFigures


def test_the_table_is_in_start_order_with_a_bridge_for_each_lane() -> None:
    specs = child_specs(node_settings(Path("/x"), bridge("a", lanes=2), bridge("b")))
    assert [spec.name for spec in specs] == [
        "store",
        "bridge:a:0",
        "bridge:a:1",
        "bridge:b:0",
        "clients",
    ]
    assert [spec.order for spec in specs] == sorted(spec.order for spec in specs)
    assert [spec.queue for spec in specs] == [None, "bridge:a:0", "bridge:a:1", "bridge:b:0", None]


def test_a_node_without_bridges_has_no_lanes() -> None:
    assert [spec.name for spec in child_specs(node_settings(Path("/x")))] == ["store", "clients"]


def test_http_begins_first_and_ends_last_where_it_is_wanted() -> None:
    [http, *others] = child_specs(node(bridge("a"), http=HTTP))

    assert (http.name, http.needed) == ("http", False)
    assert [spec.name for spec in others] == ["store", "bridge:a:0", "clients"]
    assert all(spec.needed and spec.order > http.order for spec in others)
    assert " ".join(http.command or ()) == "supervisor.http.process --process http"


def test_telemetry_is_a_process_of_its_own_that_nothing_needs() -> None:
    [telemetry, *others] = child_specs(node(bridge("a"), telemetry=TelemetrySettings(otlp=OTLP)))

    assert (telemetry.name, telemetry.needed) == ("telemetry", False)
    assert all(spec.needed and spec.order > telemetry.order for spec in others)
    assert " ".join(telemetry.command or ()) == "supervisor.telemetry.process --process telemetry"


def test_former_lanes_are_those_with_messages_that_a_configured_bridge_has_no_more() -> None:
    settings = node_settings(Path("/x"), bridge("a"), bridge("b", lanes=2))
    queues = {
        "bridge:a:0": {"depth": 5},
        "bridge:a:2": {"depth": 5},
        "bridge:a:1": {"depth": 1},
        "bridge:b:2": {"depth": 0},
        "bridge:b:1": {"depth": 5},
        "bridge:gone:0": {"depth": 5},
    }
    assert former_lanes(settings, {name: of_map(QueueFigures, queue) for name, queue in queues.items()}) == [("a", 1), ("a", 2)]
    spec = former_spec(settings, LaneName("a", 2))
    assert (spec.name, spec.former) == ("bridge:a:2", True)
    assert {spec.order} == {spec.order for spec in child_specs(settings) if spec.kind == "bridge"}


def test_the_command_line_names_the_process_and_its_lane() -> None:
    spec = next(spec for spec in child_specs(node_settings(Path("/x"), bridge("a"))) if spec.kind == "bridge")
    assert " ".join(process_command(spec.name)) == "actors.process.main --process bridge:a:0"
