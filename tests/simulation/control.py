"""The operator: queue and bridge commands over the node's control socket, and the answers, which are promises as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

from actors.process.mailbox import READ
from actors.process.request_sockets import RequestRouter
from supervisor.control.control_socket import ControlError, encode_request, parse_answer
from tests.simulation.resends import lines_of
from tests.simulation.world import Pollable, World

if TYPE_CHECKING:
    from tests.simulation.node import Machine
    from tests.simulation.oracle import Oracle
    from tests.simulation.plan import Fault

BRIDGE = "cloud"


class SimRouter(RequestRouter, Pollable):
    """The control socket of one life of the Supervisor. ``operator`` hears the answers of the requests that it put in."""

    def __init__(self, world: World) -> None:
        Pollable.__init__(self, world)
        self.operator: Operator | None = None
        self._waiting: list[tuple[list[bytes], bytes]] = []

    def readiness(self) -> int:
        return READ if self._waiting else 0

    def ask(self, operator: Operator, request: bytes) -> None:
        """A request arrives."""
        self.operator = operator
        self._waiting.append(([b"operator"], request))
        self.changed()

    def requests(self) -> list[tuple[list[bytes], bytes]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def answer(self, whom: list[bytes], payload: bytes) -> None:
        assert self.operator is not None
        self.operator.answered(payload)


class Operator:
    """Carries out the faults that are commands. A node that is down hears nothing, and nothing is asked twice."""

    def __init__(self, world: World, machine: Machine, oracle: Oracle) -> None:
        self._world = world
        self._machine = machine
        self._oracle = oracle
        self._asked: dict[int, str] = {}
        self._last = 0  # number of the last request
        self._runs: dict[int, str] = {}  # of the requests to import, by number
        self._imported: dict[str, int] = {}  # by run, how many lines of the file it has, as was answered

    def purge(self, fault: Fault) -> None:
        """target: a lane, ``in-flight`` (every lane, with what is in flight), ``dead``, or nothing for every lane."""
        arguments = {}
        if fault.target == "dead":
            arguments["dead"] = "yes"
        elif fault.target == "in-flight":
            arguments["in_flight"] = "yes"
        elif fault.target:
            arguments["lane"] = fault.target
        self._ask("queue.purge", arguments)

    def replay(self, fault: Fault) -> None:
        """amount: how many at most."""
        self._ask("queue.replay", {"count": str(int(fault.amount))})

    def resend(self, fault: Fault) -> None:
        """target: the run, of the first lane's history; amount: how many at most."""
        self._ask("queue.resend", {"run": fault.target, "lane": "0", "count": str(int(fault.amount))})

    def import_(self, fault: Fault) -> None:
        """target: the run, of a file's lines; amount: how many at most. It goes on where the last answer said."""
        lines = self._oracle.imported
        start = self._imported.get(fault.target, 0)
        page = lines[start : start + int(fault.amount)]
        if page:
            wanted = {"run": fault.target, "from": str(start), "below": str(len(lines)), "messages": lines_of(page)}
            self._ask("queue.import", wanted)
            self._runs[self._last] = fault.target

    def pause(self, fault: Fault) -> None:
        """amount: seconds until the bridge is resumed."""
        self._ask("bridge.pause", {})
        self._world.after(fault.amount, self.resume)

    def restart_bridge(self, fault: Fault) -> None:
        self._ask("bridge.restart", {})

    def reload(self) -> None:
        """Have the node read its configuration again, and say yes to what gives something up."""
        self._ask("reload", {"yes": "yes"})

    def heal(self) -> None:
        """Nothing is paused any more."""
        self.resume()

    def resume(self) -> None:
        """Resume the bridge, if it is paused; again, if the node did not hear of it."""
        self._ask("bridge.resume", {})
        self._world.after(0.5, self._look)

    def _look(self) -> None:
        if self._machine.paused_since_ms:
            self.resume()

    def answered(self, payload: bytes) -> None:
        """An answer has come."""
        request = parse_number(payload)
        command = self._asked.pop(request)
        try:
            result = parse_answer(payload)
        except ControlError as error:
            self._world.note("operator", command, "refused", error.kind)
            return
        self._world.note("operator", command, result)
        if command in ("queue.purge", "queue.replay", "queue.resend", "queue.import"):
            self._oracle.carried_out(command, result)
        if command == "queue.import":
            lines = self._oracle.imported
            had = self._imported[self._runs[request]] = len(lines) if result["next"] is None else result["next"]
            self._oracle.was_imported(lines[:had])

    def _ask(self, command: str, arguments: dict[str, str]) -> None:
        supervisor = self._machine.supervisor
        router = supervisor.router if supervisor is not None and supervisor.alive else None
        if router is None:
            return
        number = self._last = (
            len(self._asked) + self._world.events
        )  # distinct: an answer never comes within the event of its request
        self._asked[number] = command
        self._world.note("operator", command, arguments)
        router.ask(self, encode_request(number, command, arguments if command == "reload" else {"bridge": BRIDGE, **arguments}))


def parse_number(payload: bytes) -> int:
    """The request that ``payload`` answers."""
    answer: dict[str, Any] = msgpack.unpackb(payload, strict_map_key=False)
    return int(answer["id"])
