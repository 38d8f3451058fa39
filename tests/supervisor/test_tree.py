"""The child table."""

from __future__ import annotations

from pathlib import Path

from supervisor.children import actor_command
from supervisor.tree import child_specs, former_lanes, former_specs
from tests.supervisor.settings import node_settings
from tests.support.settings import bridge
from wire.names import BridgeLane


def test_the_table_is_in_start_order_with_a_pair_for_each_lane() -> None:
    specs = child_specs(node_settings(Path("/x"), bridge("a", lanes=2), bridge("b")))
    assert [spec.name for spec in specs] == [
        "queue_store",
        "distributor",
        "forwarder:a:0",
        "forwarder:a:1",
        "forwarder:b:0",
        "connection:a:0",
        "connection:a:1",
        "connection:b:0",
        "listener",
    ]
    assert [spec.order for spec in specs] == sorted(spec.order for spec in specs)
    assert [spec.queue for spec in specs if spec.kind == "forwarder"] == ["bridge:a:0", "bridge:a:1", "bridge:b:0"]


def test_a_node_without_bridges_has_no_lanes() -> None:
    assert [spec.name for spec in child_specs(node_settings(Path("/x")))] == ["queue_store", "distributor", "listener"]


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
    assert former_lanes(settings, queues) == [("a", 1), ("a", 2)]
    specs = former_specs(settings, BridgeLane("a", 2))
    assert [(spec.name, spec.former) for spec in specs] == [("forwarder:a:2", True), ("connection:a:2", True)]
    assert [spec.order for spec in specs] == [
        next(spec.order for spec in child_specs(settings) if spec.kind == kind) for kind in ("forwarder", "connection")
    ]


def test_the_command_line_names_the_actor_and_its_lane() -> None:
    spec = next(spec for spec in child_specs(node_settings(Path("/x"), bridge("a"))) if spec.kind == "forwarder")
    assert " ".join(actor_command(spec)[1:]) == "-P -m actors.process --actor forwarder --bridge a --lane 0"
