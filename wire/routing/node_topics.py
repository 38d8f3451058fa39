"""What the node itself tells on topics: the states of links, troubles that stand, and events. Pure.

The supervisor knows all of it, and has the Listener publish what is news; what was retained before is known to the Listener's
clients only after that (broker.link-states-before-clients). States are told again to a Listener that begins. Events are told once,
or not at all: those of a time without a Listener wait, ``EVENTS_MAX`` at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from wire.config_settings import NoticeSettings, SettingsNow
from wire.frames.supervision import NodeTopics

EVENTS_MAX = 100


def notice_topic(rule: NoticeSettings, node: str) -> str | None:
    """The topic below which the notices of ``rule`` are told at the node of that name; None where they are not."""
    return None if rule.topic is None else rule.topic.replace("{node}", node)


class KnownTopics:
    """The supervisor's knowledge."""

    def __init__(self, settings: SettingsNow, of_links: Callable[[], dict[str, bytes]]) -> None:
        """of_links: what is told of links, as ``StandingLinks.states`` has it."""
        self._settings = settings
        self._of_links = of_links
        self._notices: dict[str, bytes] = {}
        self._events: deque[tuple[str, bytes]] = deque(maxlen=EVENTS_MAX)
        self._told: dict[str, bytes] = {}

    def on_notices(self, told: NodeTopics) -> None:
        """The Notifier tells its states, all of them, and new events. A state that it tells no more is over."""
        self._notices = dict.fromkeys(self._notices, b"") | told.states
        self._events.extend(told.events)

    def news(self, *, serves: bool) -> NodeTopics | None:
        """What the Listener is to be told; None while it knows. serves: it is there, and gets what has waited for that."""
        before, states = self._told, self._states()
        if states == before and not (serves and self._events):
            return None
        events = tuple(self._events) if serves else ()
        if serves:
            self._events.clear()
        return NodeTopics(states=states, events=events)

    def all(self) -> NodeTopics:
        """All states, for a Listener that begins."""
        return NodeTopics(states=self._states())

    def _states(self) -> dict[str, bytes]:
        if not any(rule.topic for rule in self._settings.now.notify):
            self._notices = dict.fromkeys(self._notices, b"")
        self._told = self._of_links() | self._notices
        return self._told


class TopicsToTell:
    """The Listener's knowledge. told: the supervisor has said something in this life."""

    def __init__(self) -> None:
        self.told = False
        self._states: dict[str, bytes] = {}
        self._published: dict[str, bytes] = {}
        self._events: deque[tuple[str, bytes]] = deque(maxlen=EVENTS_MAX)

    def on_told(self, frame: NodeTopics) -> None:
        """These are the states now, and those events have come."""
        self.told, self._states = True, frame.states
        self._events.extend(frame.events)

    def take_next(self) -> tuple[bytes, bytes, bool] | None:
        """A topic, the payload that is to be published there next, and whether it is retained; None if all are."""
        for topic, payload in self._states.items():
            if self._published.get(topic) != payload:
                self._published[topic] = payload
                return topic.encode(), payload, True
        if self._events:
            topic, payload = self._events.popleft()
            return topic.encode(), payload, False
        return None
