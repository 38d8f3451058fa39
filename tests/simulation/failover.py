"""Two addresses of the remote: of the same broker, or of another one that has sessions of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.broker import Broker, BrokerConnection
from tests.simulation.world import Violation, World

if TYPE_CHECKING:
    from tests.simulation.plan import Fault, Shape

ADDRESSES = (("127.0.0.1", 1883), ("127.0.0.2", 1883))
PLACES = tuple(":".join(map(str, address)) for address in ADDRESSES)
_OTHERS_SESSIONS = 1_000


class Remotes:
    """Which broker is behind which address. switches: how often a client was let in at another address than the last time.

    exchange.failback-when-finished: a client that leaves a broker of its own will does not go to another one with an exchange open
        at the first.
    """

    def __init__(self, world: World, shape: Shape, broker: Broker) -> None:
        self.brokers = [broker]
        if shape.second == "other":
            self.brokers.append(broker.another(_OTHERS_SESSIONS))
            broker.is_come_back_to = True
        if shape.second:
            self.may_be_left()
        for each in self.brokers:
            each.on_left = self._left
        self.returns = 0  # how often a client has gone back to the first address
        self._open: dict[str, tuple[str, Broker, int]] = {}  # client -> where it left exchanges open, and how many
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
            for broker in self.brokers:
                if broker is not self.brokers[PLACES.index(place) % len(self.brokers)]:
                    broker.leave(client_id)
            self.returns += place == PLACES[0]
            self._last[client_id] = place
        if client_id in self._open and self._open[client_id][0] == place:
            del self._open[client_id]  # it has come back
        self._judge(client_id)

    def refused(self, client_id: str, address: tuple[str, int]) -> None:
        """A client was not let in there, so it may go elsewhere with whatever is open."""
        if self._open.get(client_id, ("",))[0] == PLACES[ADDRESSES.index(address)]:
            del self._open[client_id]

    def _left(self, connection: BrokerConnection, broker: Broker) -> None:
        """A DISCONNECT has come in, perhaps after its client was let in elsewhere."""
        if len(self.brokers) > 1 and connection.open_exchanges:
            self._open[connection.client_id] = connection.place, broker, connection.open_exchanges
            self._judge(connection.client_id)

    def _judge(self, client_id: str) -> None:
        if client_id not in self._open:
            return
        place, broker, count = self._open[client_id]
        if self._last[client_id] == place:
            return  # it has not gone elsewhere yet
        del self._open[client_id]
        if broker.first_lives:
            raise Violation(
                "exchange.failback-when-finished",
                f"{client_id} left {place} with {count} exchanges open, for {self._last[client_id]}",
            )

    def address_down(self, fault: Fault) -> None:
        """target: number of the address; amount: seconds. Clients that are connected there are cut off."""
        number = int(fault.target)
        self._down_until_s[number] = self._world.now_s + fault.amount
        place = PLACES[number]
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

    def are_told(self, topic: str, client_id: str) -> bool:
        """Whether each broker to which the client is connected has heard of it last that it is."""
        return all(broker.states.get(topic) == b"1" for broker in self.brokers if broker.is_heard(client_id))

    def sessions_lost(self) -> int:
        """How often a client may have met another session than before."""
        return self.switches + sum(broker.sessions_lost for broker in self.brokers)
