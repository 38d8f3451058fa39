"""One child of the supervisor in its process: its actors, by which settings they go, and what the supervisor was told of them."""

from __future__ import annotations

from collections.abc import Iterable

from actors.process.actor import MailboxActor
from wire.config_settings import NodeSettings
from wire.frames.names import BRIDGE
from wire.status.actors import ActorFigures


class HostedChild:
    """stopping: it was told to stop. heralded: the actors that others know to be ready."""

    def __init__(self, name: str, epoch: int, settings: NodeSettings, actors: Iterable[MailboxActor]) -> None:
        self.name = name
        self.epoch = epoch
        self.settings = settings
        self.actors = list(actors)
        self.heralded: set[str] = set()
        self.stopping = False
        self._told: dict[str, str] = {}  # the states that the supervisor was told last
        self._figures_due_s = float("-inf")

    def stop(self) -> None:
        """It is to end."""
        self.stopping = True

    def reconfigure(self, settings: NodeSettings) -> None:
        """It goes by ``settings``; its actors are to be told."""
        self.settings, self._figures_due_s = settings, float("-inf")

    def is_untold(self) -> bool:
        """Whether the supervisor does not know the states of its actors."""
        return self._told != self.states

    def is_due(self, now_s: float) -> bool:
        """Whether the supervisor is to hear of it: its figures are old, or it is about to begin or to end."""
        return now_s >= self._figures_due_s or self.state != "ready"

    def tell(self, now_s: float, period_s: float, *, asked: bool) -> tuple[dict[str, str], dict[str, ActorFigures]]:
        """The states of its actors, of which the supervisor is told now; and their figures where it is to have them.

        period_s: how often it has them, unless it has ``asked``.
        """
        states, figures = self.states, {}
        if asked or self.is_untold() or self.state == "starting" or now_s >= self._figures_due_s:
            self._figures_due_s = now_s + period_s
            figures = {actor.name: told for actor in self.actors if (told := actor.status()) is not None}
        self._told = states
        return states, figures

    @property
    def state(self) -> str:
        """starting, ready, stopping, stopped."""
        if self.stopping:
            return "stopped" if self.has_ended else "stopping"
        return "ready" if all(actor.state == "ready" for actor in self.actors) else "starting"

    @property
    def states(self) -> dict[str, str]:
        """Those of its actors."""
        return {actor.name: actor.state for actor in self.actors}

    @property
    def has_ended(self) -> bool:
        """Whether none of its actors lives."""
        return all(actor.ended for actor in self.actors)

    @property
    def next_to_stop(self) -> MailboxActor | None:
        """The actor that is to be told to stop: the last that lives, unless it was told."""
        living = [actor for actor in self.actors if not actor.ended]
        return living[-1] if self.stopping and living and living[-1].state != "stopping" else None

    def speaks_to(self, other: HostedChild) -> bool:
        """Whether its actors are told of those of ``other``, and the other way round: one lane has nothing to do with another."""
        return other is not self and not (self._is_lane and other._is_lane)

    @property
    def _is_lane(self) -> bool:
        return self.name.startswith(f"{BRIDGE}:")
