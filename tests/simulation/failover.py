"""Two addresses of the remote: of the same broker, or of another one that has sessions of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.broker import Broker
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.plan import Fault, Shape

ADDRESSES = (("127.0.0.1", 1883), ("127.0.0.2", 1883))
_OTHERS_SESSIONS = 1_000


class Remotes:
    """Which broker is behind which address. switches: how often a client was let in at another address than the last time."""

    def __init__(self, world: World, shape: Shape, broker: Broker) -> None:
        self.brokers = [broker]
        if shape.second == "other":
            self.brokers.append(broker.another(_OTHERS_SESSIONS))
        if shape.second:
            self.may_be_left()
        self.switches = 0
        self._world = world
        self._down_until_s = [0.0, 0.0]
        self._last: dict[str, str] = {}

    def may_be_left(self) -> None:
        """A client may go to another address, or under another name."""
        for broker in self.brokers:
            broker.may_be_left = True

    def at(self, address: tuple[str, int]) -> Broker | None:
        """The broker that listens there; None if nobody does."""
        number = ADDRESSES.index(address)
        if self._world.now_s < self._down_until_s[number]:
            return None
        return self.brokers[number % len(self.brokers)]

    def accepted(self, client_id: str, place: str) -> None:
        """A client was let in at ``place``."""
        if self._last.setdefault(client_id, place) != place:
            self.switches += 1
            self._last[client_id] = place

    def address_down(self, fault: Fault) -> None:
        """target: number of the address; amount: seconds. Who is connected there is cut off."""
        number = int(fault.target)
        self._down_until_s[number] = self._world.now_s + fault.amount
        place = ":".join(map(str, ADDRESSES[number]))
        for broker in self.brokers:
            broker.drop_place(place)

    def heal(self) -> None:
        """Both are up."""
        self._down_until_s = [0.0, 0.0]

    def no_first_lives(self) -> None:
        """A process of the bridge has died, or a lane was opened again."""
        for broker in self.brokers:
            broker.first_lives = False

    def quiet(self) -> bool:
        """Whether no exchange is open that anybody will end."""
        return all(broker.quiet() for broker in self.brokers)

    def sessions_lost(self) -> int:
        """How often a client may have met another session than before."""
        return self.switches + sum(broker.sessions_lost for broker in self.brokers)
