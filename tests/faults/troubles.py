"""Deeds of a plan of faults to a node, its remote and the links between them: processes killed and stopped, links broken."""

from __future__ import annotations

import heapq
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol

from tests.faults.fault_plan import Fault
from tests.support.mosquitto import Mosquitto
from tests.support.node import Node
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE_S, wait_until

DELAY_S = 0.1
FLOW = 40


@dataclass(slots=True)
class Done:
    """How much was done, in one run or in several."""

    kills: int = 0
    stops: int = 0
    link_faults: int = 0


class Runs(Protocol):
    """Counts runs."""

    runs: int
    elapsed_s: float


@contextmanager
def counted(totals: Runs, plan: object, replay: str) -> Iterator[None]:
    """One run of ``plan``, added to ``totals``; a failure carries the plan and the command that plays it again."""
    began_s = time.monotonic()
    try:
        yield
    except BaseException as error:
        error.add_note(f"\nplay it again with: {replay}\n{plan}")
        raise
    finally:
        totals.runs += 1
        totals.elapsed_s += time.monotonic() - began_s


@dataclass(order=True, slots=True)
class Due:
    """Something to do at ``at_s`` after the start."""

    at_s: float
    number: int
    act: Callable[[], None] = field(compare=False)


class Troubles:
    """Does to ``node`` and its ``remote`` what ``faults`` say. far, near: the links to the remote and to the clients.

    flow: counts what passes. With it, a fault waits beyond its time until ``FLOW`` more have passed since the last one, so that
    each hits something.
    """

    def __init__(
        self,
        faults: tuple[Fault, ...],
        node: Node,
        remote: Mosquitto,
        far: Proxy,
        near: Proxy,
        done: Done,
        *,
        flow: Callable[[], int] | None = None,
    ) -> None:
        self._faults = faults
        self._node = node
        self._remote = remote
        self._far = far
        self._near = near
        self._done = done
        self._due: list[Due] = []
        self._numbers = count()
        self._stopped: list[int] = []
        self._flow = flow
        self._flowed = 0  # by the last fault
        self._now_s = self._last_s = 0.0  # since it began to play

    def play(self) -> None:
        """Let every fault happen at its time; what lasts ends at its own."""
        for fault in self._faults:
            self._at(fault.at_s, partial(self._happen_in_flow, fault))
        pause, began_s = threading.Event(), time.monotonic()
        while self._due:
            due = heapq.heappop(self._due)
            pause.wait(max(0.0, began_s + due.at_s - time.monotonic()))
            self._now_s = time.monotonic() - began_s
            due.act()

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, Due(at_s, next(self._numbers), act))

    def _happen_in_flow(self, fault: Fault) -> None:
        if self._flow is None:
            self._happen(fault)
            return
        flowed = self._flow()
        if flowed < self._flowed + FLOW:
            assert self._now_s < self._last_s + PATIENCE_S, f"nothing has passed since {self._last_s:.3f} s"
            self._at(self._now_s + 0.02, partial(self._happen_in_flow, fault))
            return
        self._flowed, self._last_s = flowed, self._now_s
        self._happen(replace(fault, at_s=self._now_s))

    def _happen(self, fault: Fault) -> None:
        ends_s = fault.at_s + fault.for_s
        match fault.what:
            case "kill" | "kill together":
                self._kill(fault.processes)
            case "kill twice":
                self._kill(fault.processes)
                self._kill(fault.processes)
            case "kill supervisor":
                self.wake()  # who is stopped before it could ask to die with its parent would outlive it
                self._node.kill_supervisor()
                self._done.kills += 1
                self._node.spawn()
            case "stop" | "hang":
                self._stop(fault, ends_s)
            case "kill remote" | "end remote" | "suspend remote":
                self._trouble_remote(fault.what, ends_s)
            case _:
                self._trouble_link(fault, ends_s)

    def _kill(self, processes: tuple[str, ...]) -> None:
        pids = {self._node.pid(process) for process in processes}  # one where they share it
        self._done.kills += sum(_sent(pid, signal.SIGKILL) for pid in pids)
        for pid in pids:
            wait_until(partial(_is_dead, pid), 10.0, f"end of {pid} after SIGKILL")

    def _stop(self, fault: Fault, ends_s: float) -> None:
        pid = self._node.pid(fault.processes[0])
        self._done.stops += _sent(pid, signal.SIGSTOP)
        self._stopped.append(pid)
        self._at(ends_s, partial(self.wake, pid))

    def wake(self, *pids: int) -> None:
        """SIGCONT to these, or to all that were stopped, where the supervisor has not killed them meanwhile."""
        for pid in pids or self._stopped:
            _sent(pid, signal.SIGCONT)

    def _trouble_remote(self, what: str, ends_s: float) -> None:
        if what == "suspend remote":
            self._remote.suspend()
            self._done.stops += 1
            self._at(ends_s, self._remote.resume)
            return
        if what == "kill remote":
            self._remote.kill()
            self._done.kills += 1
        else:
            self._remote.stop()
        self._at(ends_s, self._remote.start)

    def _trouble_link(self, fault: Fault, ends_s: float) -> None:
        self._done.link_faults += 1
        match fault.what:
            case "cut":
                self._far.cut()
                self._at(ends_s, self._far.restore)
            case "stall":
                self._far.stall()
                self._at(ends_s, self._far.restore)
            case "delay":
                self._far.delay(DELAY_S)
                self._at(ends_s, partial(self._far.delay, 0.0))
            case "tear":
                self._far.tear(fault.size_bytes)
            case "abandon":
                self._far.abandon()
            case "cut near":
                self._near.cut()
                self._at(ends_s, self._near.restore)
            case "tear near":
                self._near.tear(fault.size_bytes)
            case unknown:
                raise AssertionError(f"unknown fault {unknown}")


def _sent(pid: int, number: signal.Signals) -> bool:
    """Send a signal; whether the process was still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _is_dead(pid: int) -> bool:
    """Whether nothing of the process is left but its exit status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
