"""The children at run time: their lives, their states, their silence. It does what it is told; what is right is decided elsewhere.

Every life is watched from its spawn to its reaping, and every start, end and kill leaves an event in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from actors.process.mailbox import READ, Mailbox
from supervisor.tree.child_processes import Ending, Life, Spawner
from supervisor.tree.child_table import ChildSpec
from supervisor.tree.epochs import Epochs
from supervisor.tree.late_heartbeats import Health, Liveness
from supervisor.tree.restart_limit import ChildRestarts, RestartWindow
from supervisor.tree.status_figures import ActorView, ProcessView
from wire.backoff import Backoff
from wire.frames.names import QUEUE_STORE, STORE, actors_of
from wire.frames.supervision import Heartbeat, Stop
from wire.settings import SupervisionSettings

log = logging.getLogger("bascule")

SILENT = "silent"


@dataclass(slots=True)
class Child:
    """One row of the tree at run time.

    state: new, starting, ready, stopping (as its heartbeats say), restarting, stopped, damaged, misconfigured. life: None while it
    does not run. wanted: False once it shall stay down. ordered: its end was ordered, to be started anew at once and not counted as
    a crash. removed: the configuration has it no more, and its row goes with its life. last_cause: why a life ended that nobody had
    end.
    states, figures: of its actors, as its last heartbeat said. heralded: those that the others know to be ready.
    """

    spec: ChildSpec
    restarts: ChildRestarts
    life: Life | None = None
    state: str = "starting"
    wanted: bool = True
    ordered: bool = False
    removed: bool = False
    hung: bool = False
    restart_count: int = 0
    last_cause: str = ""
    heralded: set[str] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the process is called."""
        return self.spec.name

    @property
    def cause(self) -> str:
        """What keeps it from its work, if it says so; else why its last life ended. Empty if all went well."""
        if self.life is not None and self.state == "starting":
            for figures in self.figures.values():
                if figures.get("error"):
                    return str(figures["error"])
        return self.last_cause

    @property
    def is_working(self) -> bool:
        """Whether it runs and is ready."""
        return self.life is not None and self.state == "ready"

    @property
    def settings_number(self) -> int:
        """The settings that it says to go by; 0 before it has said anything."""
        return max((figures.get("settings", 0) for figures in self.figures.values()), default=0)

    def state_of(self, actor: str) -> str:
        """The state of one of its actors: what it said itself while its process works, else that of its process."""
        return self.states.get(actor, self.state) if self.life is not None and self.state == "starting" else self.state


class RunningChildren:
    """The children by name, in start order. Ends are reported by the mailbox under the token ``("exit", name)``."""

    def __init__(
        self,
        mailbox: Mailbox,
        supervision: SupervisionSettings,
        specs: tuple[ChildSpec, ...],
        spawner: Spawner,
        epochs: Epochs,
    ) -> None:
        self._mailbox = mailbox
        self._spawner = spawner
        self._epochs = epochs
        self._liveness = Liveness(supervision.heartbeat_period_s, supervision.heartbeat_timeout_s, mailbox.now_s())
        self._children = {spec.name: Child(spec, _restarts(spec, mailbox)) for spec in specs}

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children.values())

    def __getitem__(self, name: str) -> Child:
        return self._children[name]

    def __contains__(self, name: str) -> bool:
        return name in self._children

    def adopt(self, supervision: SupervisionSettings) -> None:
        """Judge silence by other times."""
        self._liveness.adopt(supervision.heartbeat_period_s, supervision.heartbeat_timeout_s)

    def add(self, spec: ChildSpec) -> Child:
        """A new row, of a child that does not run yet."""
        child = self._children[spec.name] = Child(spec, _restarts(spec, self._mailbox))
        self._children = dict(sorted(self._children.items(), key=lambda item: item[1].spec.order))
        return child

    def respec(self, child: Child, spec: ChildSpec) -> None:
        """Have another row for a child that is there."""
        if (spec.restarts_max, spec.restart_period_s, spec.restart_backoff) != (
            child.spec.restarts_max,
            child.spec.restart_period_s,
            child.spec.restart_backoff,
        ):
            child.restarts = _restarts(spec, self._mailbox)
        child.spec = spec

    def remove(self, child: Child) -> None:
        """Take the row of a child that does not run out of the tree."""
        del self._children[child.name]

    @property
    def store_refusal(self) -> str:
        """What keeps the store, which lives, from its files, as it has said last; nothing if nothing does."""
        store = self._children[STORE]
        return str(store.figures.get(QUEUE_STORE, {}).get("error") or "") if store.life is not None else ""

    def living(self) -> list[Child]:
        """The children that run, ready or not."""
        return [child for child in self._children.values() if child.life is not None]

    def spawn(self, child: Child, *, paused: bool = False) -> bool:
        """Start a life of ``child`` (``paused``: it is to begin so); False if the system would not."""
        now_s = self._mailbox.now_s()
        child.hung = child.ordered = False
        child.state = "starting"
        try:
            life = self._spawner.spawn(child.spec, self._epochs.next(), paused=paused)
        except OSError as error:  # no memory or no process left
            log.error("child.not_started", extra={"child": child.name, "error": str(error)})
            child.last_cause = f"it could not be started: {error.strerror}"
            return False
        child.life = life
        child.heralded, child.states = set(), {}
        child.restarts.started(now_s)
        self._liveness.started(child.name, now_s)
        self._mailbox.watch(life.pidfd, READ, ("exit", child.name))
        log.info("child.started", extra={"child": child.name, "pid": life.pid, "epoch": life.epoch})
        return True

    def heard(self, heartbeat: Heartbeat) -> Child | None:
        """Note a heartbeat; whose it is, or None if it is a late word from an earlier life."""
        child = self._children.get(heartbeat.name)
        if child is None or child.life is None or child.life.epoch != heartbeat.epoch:
            return None
        self._liveness.heard(child.name, self._mailbox.now_s(), starting=heartbeat.state == "starting")
        child.states = heartbeat.states
        child.figures = heartbeat.status or child.figures
        return child

    def kill_hung(self, now_s: float) -> None:
        """SIGKILL whoever has been silent for too long, and look after the template. Call it each heartbeat period."""
        self._spawner.tend()
        for name in self._liveness.tick(now_s):
            child = self._children[name]
            if child.life is not None and not child.hung:
                child.hung = True
                silent_s = round(self._liveness.age_s(name, now_s) or 0.0, 3)
                log.error("child.hung", extra={"child": name, "pid": child.life.pid, "silent_s": silent_s})
                child.life.kill()

    def order_stop(self, child: Child, within_s: float | None = None) -> None:
        """Tell a child that runs to stop; the timer ``kill <name>`` says when it has had its time. None: as its row says."""
        self._mailbox.send(child.name, Stop())
        within_s = child.spec.stop_timeout_s if within_s is None else within_s
        self._mailbox.set_timer(f"kill {child.name}", self._mailbox.now_s() + within_s)

    def kill(self, child: Child) -> None:
        """SIGKILL a child that did not stop in time."""
        if child.life is not None:
            log.warning("child.killed", extra={"child": child.name, "pid": child.life.pid, "reason": "it did not stop in time"})
            child.life.kill()

    def kill_all_but(self, name: str) -> None:
        """SIGKILL every child that runs, except the one of that ``name``."""
        for child in self.living():
            if child.name != name and child.life is not None:
                child.life.kill()

    def reap(self, child: Child, *, expected: bool) -> Ending | None:
        """Reap the life of ``child``, whose end was reported; None while its tracer, if somebody debugs it, has not let it go."""
        life = child.life
        assert life is not None, "an end is reported once"
        self._mailbox.forget(life.pidfd)
        ending = life.reap()
        if ending is None:
            self._mailbox.watch(life.pidfd, READ, ("exit", child.name))  # it stays readable, so the end is reported again
            return None
        child.life = None
        if not expected:
            child.last_cause = "it said nothing for too long, and was killed" if child.hung else ending.cause
        self._liveness.ended(child.name)
        self._mailbox.cancel_timer(f"kill {child.name}")
        log.log(
            logging.INFO if expected else logging.ERROR,
            "child.exited",
            extra={
                "child": child.name,
                "pid": life.pid,
                "exit_status": ending.status,
                "signal": ending.signal,
                "hung": child.hung,
            },
        )
        return ending

    def state_of(self, child: Child) -> str:
        """The state of ``child`` for people: one that is ready and says nothing, as while its disk hangs, is ``silent``."""
        silent = child.is_working and self._liveness.judge(child.name, self._mailbox.now_s()) is not Health.ALIVE
        return SILENT if silent else child.state

    def not_ready(self) -> str:
        """Those that are not ready, each with its state."""
        return ", ".join(f"{child.name} {state}" for child in self if (state := self.state_of(child)) != "ready")

    def views(self, now_s: float) -> list[ActorView]:
        """The actors of the children for ``bascule status``."""
        return [
            ActorView(
                name=actor,
                pid=None if child.life is None else child.life.pid,
                state=SILENT if self.state_of(child) == SILENT else child.state_of(actor),
                restarts=child.restart_count,
                heartbeat_age_s=self._liveness.age_s(child.name, now_s),
                last_cause=child.cause,
                figures=child.figures.get(actor, {}),
            )
            for child in self._children.values()
            for actor in actors_of(child.name)
        ]

    def processes(self) -> list[ProcessView]:
        """The template and the children for ``bascule status``."""
        template = self._spawner.template_pid
        return [
            ProcessView(name="template", pid=template, state="restarting" if template is None else "ready"),
            *map(self._view, self._children.values()),
        ]

    def _view(self, child: Child) -> ProcessView:
        state = self.state_of(child)
        age_s = self._liveness.age_s(child.name, self._mailbox.now_s()) or 0.0
        return ProcessView(
            name=child.name,
            pid=None if child.life is None else child.life.pid,
            state=state,
            actors=actors_of(child.name),
            restarts=child.restart_count,
            last_cause=f"it has said nothing for {age_s:.0f} s: it hangs, or its disk does" if state == SILENT else child.cause,
        )


def _restarts(spec: ChildSpec, mailbox: Mailbox) -> ChildRestarts:
    return ChildRestarts(RestartWindow(spec.restarts_max, spec.restart_period_s), Backoff(spec.restart_backoff, mailbox.random))
