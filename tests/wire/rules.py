"""Bridges and rules for tests of routing and mapping."""

from __future__ import annotations

from tests.support.settings import bridge
from wire.config_settings import NORMAL, BridgeSettings, LoopPreventionSettings, RuleSettings


def rule(
    number: int, *filters: str, excludes: tuple[str, ...] = (), destination: str = "{#}", max_qos: int = 2, priority: str = NORMAL
) -> RuleSettings:
    """A rule that takes ``filters``."""
    return RuleSettings(
        name=f"rule-{number}",
        filters=filters,
        excludes=excludes,
        destination=destination,
        max_qos=max_qos,
        preserve_retain=True,
        priority=priority,
        user_properties=(),
    )


def bridge_of(
    name: str, *rules: RuleSettings, lanes: int = 1, persist: bool = True, loop_prevention: bool = True
) -> BridgeSettings:
    """A bridge with these local subscriptions."""
    return bridge(
        name, lanes, local_subscriptions=rules, persist=persist, loop_prevention=LoopPreventionSettings(enabled=loop_prevention)
    )
