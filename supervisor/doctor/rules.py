"""The rules of the bridges: those that can take nothing, and those that take again what has been sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from supervisor.doctor.circles import circles
from supervisor.doctor.findings import Finding, fail, ok, warn
from wire.config_settings import NodeSettings
from wire.mqtt.packets import MQTT_3_1_1
from wire.mqtt.topics import covers


def examine_rules(settings: NodeSettings) -> Iterator[Finding]:
    """Circles that nobody can see, and each rule that never takes a message: those before it, or its excludes, take all."""
    if blind := [bridge.name for bridge in settings.bridges if MQTT_3_1_1 in bridge.remote.levels]:
        found = f"MQTT 3.1.1 counts no bridges: two nodes that bridge to each other by {', '.join(blind)} are not noticed"
        yield ok("loops", found)
    for bridge in settings.bridges:
        about = f"bridge {bridge.name}"
        before: list[tuple[str, str]] = []  # filters that take everything of theirs, and whose they are
        for rule in bridge.local_subscriptions:
            excluded = [wide for one in rule.filters for wide in rule.excludes if covers(wide, one)]
            taken = [next((name for wide, name in before if covers(wide, one)), None) for one in rule.filters]
            if len(excluded) >= len(rule.filters) and excluded:
                yield warn(about, f"rule {rule.name} takes nothing: its excludes cover its filters", "narrow its excludes")
            elif taken and all(name is not None for name in taken):
                above = ", ".join(sorted({str(name) for name in taken}))
                found = f"rule {rule.name} takes nothing: {above} before it takes all of that"
                yield warn(about, found, f"put {rule.name} above it, or remove it")
            if not rule.excludes:
                before += [(one, rule.name) for one in rule.filters]


def examine_circles(settings: NodeSettings, spoken: Mapping[str, tuple[int, ...]] | None = None) -> Iterator[Finding]:
    """What comes back to the node. spoken: the protocol levels of bridges whose links are known."""
    for circle in circles(settings, spoken):
        say = fail if circle.is_fault else warn
        found = f"{'.'.join(map(str, circle.key[2:]))} {circle.found}"
        yield say(f"bridge {circle.bridge}", found, "bascule check CONFIG names the line")
