"""The states of links as topics: which topic a bridge has, and which links stand. Pure.

Connections tell the supervisor whether their links stand, and the supervisor, which sees their processes end, tells the Listener
(``node_topics.py``). The first lane of a bridge speaks for all. What a bridge says at its remote is
``wire/exchange/announcements.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterable

from wire.config_settings import BridgeSettings, SettingsNow

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
        self._told: dict[str, bytes] = {}  # by topic; one of a bridge that is gone stays, and says 0

    def note(self, bridge: str, *, stands: bool) -> None:
        """The first lane of ``bridge`` says whether its link stands."""
        (self._standing.add if stands else self._standing.discard)(bridge)

    def on_gone(self, bridges: Iterable[str]) -> None:
        """The processes of their first lanes have ended, and with them the links."""
        self._standing.difference_update(bridges)

    def states(self) -> dict[str, bytes]:
        """What is told of all, by topic."""
        bridges = self._settings.now.bridges
        here = {topic: bridge.name in self._standing for bridge in bridges if (topic := told_here(bridge)) is not None}
        told = {topic: UP if stands else DOWN for topic, stands in here.items()}
        self._told = dict.fromkeys(self._told, DOWN) | told
        return self._told
