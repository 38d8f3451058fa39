"""Notices on topics of the node's own broker: each as an event, and each trouble that stands retained. Pure.

Below the topic of a rule there are ``events`` and ``state/KIND/ABOUT``, such as ``state/link_down/bridge/cloud/0``. A state is
emptied when its trouble is over; some that were are told again with the others, so that none stays where a process died just then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from supervisor.notify.formats import as_json
from supervisor.notify.notices import Notice, NoticeState, Standing
from wire.config_settings import NoticeSettings
from wire.frames.supervision import NodeTopics
from wire.routing.node_topics import notice_topic

OVER_MAX = 100


class NoticeTopics:
    """What is told at the node called ``node``, by ``rules``."""

    def __init__(
        self, node: str, rules: Iterable[NoticeSettings], recorded: Mapping[str, str], standing: Iterable[Standing]
    ) -> None:
        """recorded: the states that were told in an earlier life; those that are not of ``standing`` are over."""
        self._topics = {rule.name: topic for rule in rules if (topic := notice_topic(rule, node)) is not None}
        here = {_state_topic(self._topics[each.rule], each) for each in standing if each.told and each.rule in self._topics}
        self.states: dict[str, str] = {topic: text if topic in here else "" for topic, text in recorded.items()}
        self._events: list[tuple[str, bytes]] = []
        self._told: dict[str, str] | None = None

    def tell(self, notice: Notice) -> None:
        """Another notice has come."""
        prefix = self._topics.get(notice.rule)
        if prefix is None:
            return
        text = json.dumps(as_json(notice))
        self._events.append((f"{prefix}/events", text.encode()))
        if notice.state in (NoticeState.BEGINS, NoticeState.OVER):
            topic = _state_topic(prefix, notice)
            self.states.pop(topic, None)  # the newest are last
            self.states[topic] = text if notice.state == NoticeState.BEGINS else ""
            for former in [topic for topic, text in self.states.items() if not text][:-OVER_MAX]:
                del self.states[former]

    def news(self) -> NodeTopics | None:
        """What the supervisor is to be told; None while it knows."""
        if self.states == (self._told or {}) and not self._events:
            return None
        events, self._events, self._told = self._events, [], dict(self.states)
        return NodeTopics(states={topic: text.encode() for topic, text in self.states.items()}, events=tuple(events))


def _state_topic(prefix: str, trouble: Notice | Standing) -> str:
    """Names of bridges, lanes and processes become levels; a path has its own."""
    about = re.sub(r"[ :]", "/", trouble.about).strip("/")
    return f"{prefix}/state/{trouble.kind}/{re.sub(r'[+#]', '_', about)}"
