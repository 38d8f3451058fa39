"""How changed settings reach the processes of a running node, one after the other.

1. The store hears first, or starts again: it knows every queue before anything is sent to one, and is never behind the clients.
2. Processes that begin do so with the new settings from here on. The clients' process hears, and bridges that have not changed.
3. Nothing is routed by what was any more. New bridges begin, changed ones start again, what is configured no more ends. HTTP
   and telemetry start again last: who asked by HTTP has been answered.

Each step waits until the process before it says that it goes by these settings, or a while: one that hangs holds up nobody, and is
told again. Settings that change again meanwhile begin with the first step, and what was to begin
anew still does. A supervisor that dies in the middle leaves nothing half: the next one starts by the file as it is then.

A process is told again until it says that it goes by the settings that hold (tree.reload-all-or-nothing).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from actors.process.mailbox import Mailbox
from supervisor.reload.plan import Plan
from supervisor.tree.child_lives import Lives
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.running_children import Child, RunningChildren
from wire.config_settings import dump
from wire.frames.names import BRIDGE, CLIENTS, STORE
from wire.frames.supervision import Reconfigure
from wire.status.states import ChildState

log = logging.getLogger("bascule")

TIMER = "rollout"
STEP_TIMEOUT_S = 5.0


class Rollout:
    """Brings the settings that hold to the children. The timer ``TIMER`` is for ``go_on``."""

    def __init__(self, mailbox: Mailbox, settings: CurrentSettings, children: RunningChildren, lives: Lives) -> None:
        self._mailbox = mailbox
        self._settings = settings
        self._children = children
        self._lives = lives
        self._when_done: list[Callable[[], None]] = []
        self._steps = (self._to_store, self._to_clients, self._to_the_rest)
        self._next = len(self._steps)
        self._awaited = ""  # the process that the next step waits for
        self._begin: set[str] = set()  # processes that are to begin, or to start again
        self._told: dict[str, int] = {}  # the settings that a process was told

    # --- events ---

    def begin(self, plan: Plan, done: Callable[[], None]) -> None:
        """The settings have changed by ``plan``; ``done`` is told when the last step was taken."""
        self._when_done.append(done)
        self._begin |= self._children.set_rows() | plan.restarts
        self._begin |= {child.name for child in self._children if child.spec.bridge in plan.reconnects}
        self._next = 0
        self.go_on()

    def on_heard(self, child: Child) -> None:
        """``child`` has said by which settings it goes, or its life has ended."""
        if child.name == self._awaited and self._goes_by_them(child):
            self.go_on()

    def go_on(self) -> None:
        """Take the next step, and those after it that need not wait."""
        self._mailbox.cancel_timer(TIMER)
        self._awaited = ""
        while self._next < len(self._steps) and not self._lives.stopping:
            step = self._steps[self._next]
            self._next += 1
            awaited = step()
            if awaited is not None and not self._goes_by_them(awaited):
                self._awaited = awaited.name
                self._mailbox.set_timer(TIMER, self._mailbox.now_s() + STEP_TIMEOUT_S)
                return
            if self._next == len(self._steps):
                whom, self._when_done = self._when_done, []
                for done in whom:
                    done()

    def remind(self) -> None:
        """Tell again whoever was told, and does not say that it goes by the settings. Call it each heartbeat period."""
        number = self._settings.now.number
        told = [child for child in self._children.living() if self._told.get(child.name) == number]
        for child in told:
            del self._told[child.name]
        self._send(told)

    def pending(self) -> tuple[str, ...]:
        """The processes that run, or are to, and do not go by the settings yet."""
        return tuple(
            child.name
            for child in self._children
            if child.wanted and (child.name in self._begin or child.removed or not self._goes_by_them(child))
        )

    # --- steps: the process to wait for ---

    def _to_store(self) -> Child:
        store = self._children[STORE]
        if STORE in self._begin or store.life is None:
            self._publish()
        self._restart_or_send([store])
        return store

    def _to_clients(self) -> Child | None:
        self._publish()
        if CLIENTS not in self._children:  # the node stands by
            return None
        clients = self._children[CLIENTS]
        bridges = [child for child in self._children if child.spec.kind == BRIDGE and child.name not in self._begin]
        self._send([clients, *(child for child in bridges if not child.removed)])
        return clients

    def _to_the_rest(self) -> None:
        for child in [child for child in self._children if child.removed and child.wanted]:
            self._lives.release(child)
        self._restart_or_send(child for child in self._children if not child.removed)

    # --- inside ---

    def _publish(self) -> None:
        try:
            self._settings.publish()
        except OSError as error:
            log.error("settings.not_written", extra={"error": str(error)})

    def _restart_or_send(self, children: Iterable[Child]) -> None:
        """Have those start again that are to, and tell the others."""
        others = []
        for child in list(children):
            if child.name in self._begin:
                self._begin.discard(child.name)
                if child.state is ChildState.NEW:
                    self._lives.spawn(child)
                else:
                    self._lives.restart_on_order([child])
            else:
                others.append(child)
        self._send(others)

    def _send(self, children: Iterable[Child]) -> None:
        """Tell those of ``children`` that were not told yet, and do not know; each process once."""
        number = self._settings.now.number
        processes: dict[str, list[str]] = {}
        for child in children:
            told, self._told[child.name] = self._told.get(child.name), number
            if told != number and child.life is not None and not child.ordered and not self._goes_by_them(child):
                processes.setdefault(child.process, []).append(child.name)
        settings = dump(self._settings.now) if processes else b""
        for process, names in processes.items():
            self._mailbox.send(process, Reconfigure(number=number, settings=settings, children=tuple(names)))

    def _goes_by_them(self, child: Child) -> bool:
        """Whether ``child`` goes by the settings; one that does not run begins with them, or is told."""
        return child.life is None or child.settings_number >= self._settings.now.number
