"""The states of links as topics: which topic a bridge has, which links stand, and what local clients are still to be told. Pure.

Connections tell the supervisor whether their links stand, and the supervisor, which sees their processes end, tells the Listener.
The first lane of a bridge speaks for all. What a bridge says at its remote is ``wire/exchange/announcements.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterable

from wire.config_settings import BridgeSettings, SettingsNow
from wire.frames.supervision import LinkStates

UP, DOWN = b"1", b"0"


def link_state_topic(bridge: BridgeSettings) -> str | None:
    """The topic on which the state of the bridge's link is told; None where it is not."""
    if bridge.link_state is None:
        return None
    return bridge.link_state.topic.replace("{client_id}", bridge.remote.client_id).replace("{bridge}", bridge.name)


def told_here(bridge: BridgeSettings) -> str | None:
    """The topic on which local clients are told of the link; None where they are not."""
    return link_state_topic(bridge) if bridge.link_state is not None and bridge.link_state.local else None


class StandingLinks:
    """The supervisor's knowledge of the links."""

    def __init__(self, settings: SettingsNow) -> None:
        self._settings = settings
        self._standing: set[str] = set()  # bridges
        self._told: dict[str, bool] = {}  # by topic; one of a bridge that is gone stays, and says 0

    def note(self, bridge: str, *, stands: bool) -> None:
        """The first lane of ``bridge`` says whether its link stands."""
        (self._standing.add if stands else self._standing.discard)(bridge)

    def on_gone(self, bridges: Iterable[str]) -> None:
        """The processes of their first lanes have ended, and with them the links."""
        self._standing.difference_update(bridges)

    def news(self) -> LinkStates | None:
        """What the Listener is to be told; None while it knows."""
        before = self._told
        return told if (told := self.all()).states != before else None

    def all(self) -> LinkStates:
        """The states of all; the Listener is told of them."""
        bridges = self._settings.now.bridges
        here = {topic: bridge.name in self._standing for bridge in bridges if (topic := told_here(bridge)) is not None}
        self._told = dict.fromkeys(self._told, False) | here
        return LinkStates(states=self._told)


class LinkStateTopics:
    """The Listener's knowledge of the links. told: the supervisor has said something in this life."""

    def __init__(self) -> None:
        self.told = False
        self._states: dict[str, bool] = {}
        self._published: dict[str, bool] = {}

    def on_told(self, frame: LinkStates) -> None:
        """These are the states now."""
        self.told, self._states = True, frame.states

    def take_next(self) -> tuple[bytes, bytes] | None:
        """A topic and the payload that is to be published there next; None if all are."""
        for topic, stands in self._states.items():
            if self._published.get(topic) is not stands:
                self._published[topic] = stands
                return topic.encode(), UP if stands else DOWN
        return None
