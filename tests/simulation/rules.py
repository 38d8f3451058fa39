"""The rules that a bridge had in each life of the node, and where they send what was taken by them (P7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.world import Violation
from tests.wire.naive_topics import naive_match
from wire.config_settings import RuleSettings

if TYPE_CHECKING:
    from tests.simulation.publisher import Message

# Filters and destinations, by what they are called in a plan. All of them have each topic, so that everything crosses.
SETS: dict[str, tuple[tuple[str, str], ...]] = {
    "up": (("plant/#", "up/{#}"),),
    "above": (("plant/+/a", "over/{#}"), ("plant/#", "up/{#}")),
    "swapped": (("plant/+/a", "up/{#}"), ("plant/#", "over/{#}")),
    "edited": (("plant/#", "edited/{#}"),),
}


def rules_of(name: str, like: RuleSettings) -> tuple[RuleSettings, ...]:
    """The set of rules that is called so, otherwise ``like`` that one, without names."""
    return tuple(replace(like, name=one, filters=(one,), destination=destination) for one, destination in SETS[name])


class RulesSeen:
    """Allowed destinations of each message: as a rule said in a life of the node in which it was on its way to the store."""

    def __init__(self) -> None:
        self._now: Sequence[RuleSettings] = ()
        self._destinations: dict[bytes, set[str]] = {}

    def started(self, rules: Sequence[RuleSettings]) -> None:
        """The node starts with these."""
        self._now = rules

    def offered(self, messages: Iterable[Message]) -> None:
        """``messages`` are on their way to the store."""
        for message in messages:
            for rule in self._now:
                if any(naive_match(topic_filter, message.topic) for topic_filter in rule.filters):
                    remote = rule.destination.replace("{#}", message.topic)
                    self._destinations.setdefault(message.payload, set()).add(remote)
                    break

    def judge(self, message: Message, topic: str, *, brought: bool) -> None:
        """``message`` came to the remote under ``topic``. brought: perhaps as what was retained before, by any later rule."""
        if brought and any(
            topic == destination.replace("{#}", message.topic) for rules in SETS.values() for _, destination in rules
        ):
            return
        said = self._destinations.get(message.payload, {f"up/{message.topic}"})
        if topic not in said:
            raise Violation("P7", f"m{message.number} came under {topic}; when it was taken its rule said {sorted(said)}")
