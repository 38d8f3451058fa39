"""The children at run time: their lives, their states, their silence. It does what it is told; what is right is decided elsewhere.

Every life is watched from its spawn to its reaping, and every start, end and kill leaves an event in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from actors.process.failed_actor import failed_actor
from actors.process.mailbox import READ, Mailbox
from supervisor.tree.child_processes import ChildProcesses, Ending, Life
from supervisor.tree.child_table import START_ORDER, ChildSpec, Table, former_lanes, former_spec
from supervisor.tree.late_heartbeats import Health, HeartbeatMonitor
from supervisor.tree.pauses import Pauses
from supervisor.tree.restart_limit import ChildRestarts, RestartWindow
from wire.backoff import Backoff
from wire.config_settings import SettingsNow
from wire.frames.names import BRIDGE, CLIENTS, QUEUE_STORE, STORE, LaneName, actors_of, child_of, connection_name
from wire.frames.placement import Placement
from wire.frames.supervision import ChildBegins, Command, Heartbeat, Stop
from wire.status.actors import ActorFigures, Reports, error_of, report_of, reported
from wire.status.bridges import QueueFigures
from wire.status.states import ChildState
from wire.status.store import StoreReport

log = logging.getLogger("bascule")

ASKED_S = 0.5  # a process that hangs has so long to say in which of its actors


@dataclass(slots=True)
class Child:
    """One row of the tree at run time.

    life: of the process that it lives in, which may have others; None while it does not
    run. process: the name of that process, or of the last one. epoch: of its own life. wanted: False once it shall stay down.
    ordered: its end was ordered, to be started anew at once and not counted as a crash. dials: an operator wants its next life to
    connect at once, though it may have nothing to send. removed: the configuration has it no more,
    and its row goes with its life. last_cause: why a life ended that nobody had end.
    states, reports: of its actors, as its last heartbeats said; settings_number: of those that it then went by, 0 before it has
    said anything; traffic: its process's. heralded: those that the others know to be ready.
    """

    spec: ChildSpec
    restarts: ChildRestarts
    process: str = ""
    life: Life | None = None
    epoch: int = 0
    state: ChildState = ChildState.NEW
    wanted: bool = True
    ordered: bool = False
    dials: bool = False
    removed: bool = False
    hung: bool = False
    restart_count: int = 0
    last_cause: str = ""
    heralded: set[str] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)
    reports: dict[str, ActorFigures] = field(default_factory=dict)
    settings_number: int = 0
    traffic: tuple[int, int, int] | None = None

    @property
    def name(self) -> str:
        """Its name, which is that of its process where it has one of its own."""
        return self.spec.name

    @property
    def lane(self) -> LaneName | None:
        """The lane that it works for; None for one of the whole node."""
        return None if self.spec.bridge is None or self.spec.lane is None else LaneName(self.spec.bridge, self.spec.lane)

    @property
    def shares(self) -> bool:
        """Whether it lives in a process that others share."""
        return self.process not in ("", self.name)

    @property
    def cause(self) -> str:
        """The reason that keeps it from its work, if it says one; else why its last life ended. Empty if all went well."""
        if self.life is not None and self.state is ChildState.STARTING:
            for figures in self.reports.values():
                if error := error_of(figures):
                    return error
        return self.last_cause

    @property
    def is_working(self) -> bool:
        """Whether it runs and is ready."""
        return self.life is not None and self.state is ChildState.READY

    def state_of(self, actor: str) -> str:
        """The state of one of its actors: what it said itself while its process works, else that of its process."""
        return self.states.get(actor, self.state) if self.life is not None and self.state is ChildState.STARTING else self.state

    def says(self, state: str) -> bool:
        """It says to be in ``state``; whether it has become ready with that."""
        became_ready = state == ChildState.READY and self.state is ChildState.STARTING
        if became_ready or state == ChildState.STOPPING:
            self.state = ChildState(state)
        return became_ready

    def rests(self, state: ChildState) -> None:
        """It does not live, and ``state`` says whether it will."""
        self.state = state

    def order(self) -> None:
        """Its end is ordered, and it begins anew after it."""
        self.ordered = True

    def dial(self, *, wanted: bool) -> None:
        """Its next life is to connect at once; or not, since that was told so."""
        self.dials = wanted

    def drop(self, *, removed: bool = False) -> None:
        """It shall stay down; or it is ``removed``, and lives on until nothing is brought to it."""
        if removed:
            self.removed = True
        else:
            self.wanted = False

    def keep(self) -> None:
        """It lives on though it was former or removed; if its end was ordered, it begins anew after it."""
        self.removed = False
        if not self.wanted:
            self.wanted, self.ordered = True, self.life is not None


class RunningChildren:
    """The children by name, in start order. Ends are reported by the mailbox under the token ``("exit", name)``.

    table: makes their rows of the settings. next_epoch: a number for each life. pauses: of the bridges whose lanes they are.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        settings: SettingsNow,
        table: Table,
        spawner: ChildProcesses,
        next_epoch: Callable[[], int],
        pauses: Pauses,
    ) -> None:
        self._mailbox = mailbox
        self._settings = settings
        self._table = table
        self._spawner = spawner
        self._next_epoch = next_epoch
        self._pauses = pauses
        self._liveness = HeartbeatMonitor(settings, mailbox.now_s())
        self._processes: dict[str, Life] = {}
        self._placed = (settings.now, Placement(settings.now))
        self._children = {spec.name: Child(spec, _restarts(spec, mailbox)) for spec in table(settings.now)}

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children.values())

    def __getitem__(self, name: str) -> Child:
        return self._children[name]

    def __contains__(self, name: str) -> bool:
        return name in self._children

    def add(self, spec: ChildSpec) -> Child:
        """A new row, of a child that does not run yet."""
        child = self._children[spec.name] = Child(spec, _restarts(spec, self._mailbox))
        self._children = dict(sorted(self._children.items(), key=lambda item: item[1].spec.order))
        return child

    def set_rows(self) -> set[str]:
        """Have the rows that the settings want: the names of the new ones. Those that they do not want are marked, and live on."""
        wanted = {spec.name: spec for spec in self._table(self._settings.now)}
        bridges = {bridge.name for bridge in self._settings.now.bridges}
        for child in list(self):
            spec = wanted.pop(child.name, None)
            if spec is not None:
                self._respec(child, spec)
                if child.spec.kind == BRIDGE or not child.spec.needed:
                    child.keep()
            elif child.lane is not None and child.lane.bridge in bridges:
                self._respec(child, former_spec(self._settings.now, child.lane))
            else:
                child.drop(removed=True)
        for spec in wanted.values():
            self.add(spec)
        return set(wanted)

    def set_former_rows(self) -> tuple[list[Child], list[Child]]:
        """Have rows for the lanes that are configured no more and have something to do: the new ones, and those that are done."""
        settings = self._settings.now
        needed = {spec.name: spec for lane in former_lanes(settings, self.queues) for spec in [former_spec(settings, lane)]}
        left = [child for child in self if child.spec.former and child.wanted and child.name not in needed]
        return [self.add(spec) for name, spec in needed.items() if name not in self], left

    def _respec(self, child: Child, spec: ChildSpec) -> None:
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
    def stands_by(self) -> bool:
        """Whether the node follows another one: it has the store's process, and no other that speaks to clients or remotes."""
        return self._settings.now.replication is not None and CLIENTS not in self

    @property
    def store_refusal(self) -> str:
        """The reason that keeps the living store from its files, as it has said last; empty if there is none."""
        report = self.store_report
        return report.error if report is not None and self._children[STORE].life is not None else ""

    @property
    def store_report(self) -> StoreReport | None:
        """The last report of the store."""
        return reported(self._children[STORE].reports, QUEUE_STORE, StoreReport)

    @property
    def queues(self) -> Mapping[str, QueueFigures]:
        """The queues of bridges, as the store has told of them last."""
        return {} if self.store_report is None else self.store_report.queues

    def living(self) -> list[Child]:
        """The children that run, ready or not."""
        return [child for child in self._children.values() if child.life is not None]

    def living_in(self, process: str) -> list[Child]:
        """Those of them that live in ``process``, in the order in which they begin."""
        return [child for child in self._children.values() if child.life is not None and child.process == process]

    def waiting_for(self, process: str) -> list[Child]:
        """Those that are to begin a life in ``process`` anew."""
        return [
            child
            for child in self._children.values()
            if child.life is None and child.state is ChildState.RESTARTING and self._placement.process_of(child.name) == process
        ]

    def process_of(self, name: str) -> str:
        """The process in which the actor or child ``name`` lives, or is to live."""
        child = self._children.get(child_of(name))
        return child.process if child is not None and child.life is not None else self._placement.process_of(name)

    @property
    def _placement(self) -> Placement:
        """The table of what is configured now, made once."""
        if self._placed[0] is not self._settings.now:
            self._placed = (self._settings.now, Placement(self._settings.now))
        return self._placed[1]

    # --- pauses ---

    def paused_since_ms(self, bridge: str | None) -> int | None:
        """Since when ``bridge`` is paused, UTC in milliseconds; None if it is not."""
        return None if bridge is None else self._pauses.since_ms(bridge)

    def set_paused(self, bridge: str, *, paused: bool) -> None:
        """Pause ``bridge``, or end its pause: kept on disk, and said to its lanes.

        Raises:
            OSError: the disk refuses; all is as it was.
        """
        self._pauses.pause(bridge) if paused else self._pauses.resume(bridge)
        self.tell_pause(child for child in self if child.spec.bridge == bridge and not child.removed)

    def tell_pause(self, lanes: Iterable[Child]) -> None:
        """Tell the Connection of each of ``lanes`` that runs whether it is paused."""
        for child in lanes:
            if child.life is not None and child.lane is not None:
                paused = self._pauses.since_ms(child.lane.bridge) is not None
                self._mailbox.send(connection_name(*child.lane), Command(verb="pause" if paused else "resume"))

    # --- lives ---

    def spawn(self, child: Child, *, again: bool = False) -> bool:
        """Start a life of ``child``, which counts as a restart if it is one ``again`` without an order; False if the system would
        not.
        """
        child.restart_count += again and not child.ordered
        child.state = ChildState.STARTING
        child.hung = child.ordered = False
        paused = self.paused_since_ms(child.spec.bridge) is not None
        place = self._placement.process_of(child.name)
        if place != child.process:
            for name in (child.name, *actors_of(child.name)):
                self._mailbox.moves(name)
        child.process = place
        try:
            epoch = self._next_epoch()
            if not child.shares:
                child.life = self._began(place, self._spawner.spawn(child.spec, epoch, paused=paused))
            else:
                known = self._processes.get(place)
                child.life = known if known is not None else self._began(place, self._spawner.spawn_shared(place, epoch))
        except OSError as error:  # no memory or no process left
            log.error("child.not_started", extra={"child": child.name, "error": str(error)})
            child.last_cause = f"it could not be started: {error.strerror}"
            return False
        assert child.life is not None
        child.epoch = epoch
        child.heralded, child.states = set(), {}
        child.restarts.on_started(self._mailbox.now_s())
        if child.shares:
            flags = (*child.spec.flags, *(["--paused"] if paused else []))
            number = self._settings.now.number
            order = ChildBegins(process=child.life.epoch, child=child.name, epoch=epoch, settings=number, flags=flags)
            self._mailbox.send(place, order)
        log.info("child.started", extra={"child": child.name, "place": place, "pid": child.life.pid, "epoch": epoch})
        return True

    def _began(self, process: str, life: Life) -> Life:
        self._liveness.on_started(process, self._mailbox.now_s())
        self._mailbox.watch(life.pidfd, READ, ("exit", process))
        self._processes[process] = life
        return life

    def on_heard(self, heartbeat: Heartbeat) -> Child | None:
        """Note a heartbeat; whose it is, or None if it is a late word from an earlier life."""
        child = self._children.get(heartbeat.name)
        if child is None or child.life is None or child.epoch != heartbeat.epoch:
            return None
        self._liveness.on_heard(child.process, self._mailbox.now_s(), starting=heartbeat.state == "starting")
        child.states, child.settings_number, child.traffic = heartbeat.states, heartbeat.settings, heartbeat.traffic
        child.reports |= {actor: report_of(actor, told) for actor, told in heartbeat.figures.items()}
        return child

    def kill_hung(self, now_s: float) -> None:
        """SIGKILL whoever has been silent for too long, and look after the template. Call it each heartbeat period."""
        together = self._settings.now.supervision.placement == "together"
        self._spawner.tend(needed=not together or any(child.wanted and child.life is None for child in self))
        for process in self._liveness.tick(now_s):
            children = self.living_in(process)
            life = children[0].life if children else None
            if life is not None and not children[0].hung:
                for child in children:
                    child.hung = True
                silent_s = round(self._liveness.age_s(process, now_s) or 0.0, 3)
                log.error("child.hung", extra={"child": process, "pid": life.pid, "silent_s": silent_s})
                if children[0].shares:
                    life.ask()
                    self._mailbox.set_timer(f"kill {children[0].name}", now_s + ASKED_S)
                else:
                    life.kill()

    def order_stop(self, child: Child, within_s: float | None = None) -> None:
        """Tell a child that runs to stop; the timer ``kill <name>`` says when it has had its time. None: as its row says."""
        self._mailbox.send(child.name, Stop())
        within_s = child.spec.stop_timeout_s if within_s is None else within_s
        self._mailbox.set_timer(f"kill {child.name}", self._mailbox.now_s() + within_s)

    def order_end(self, process: str) -> None:
        """Tell a process that several share to end, its children one after the other. A timer as of ``order_stop``."""
        children = self.living_in(process)
        self._mailbox.send(process, Stop())
        self._mailbox.set_timer(
            f"kill {children[0].name}", self._mailbox.now_s() + len(START_ORDER) * children[0].spec.stop_timeout_s
        )

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

    def reap(self, process: str, *, expected: bool) -> Ending | None:
        """Reap the life of ``process``, whose end was reported; None while its tracer, if somebody debugs it, has not let it go.

        Its children are ``ended`` with that.
        """
        life = self._processes[process]
        self._mailbox.forget(life.pidfd)
        ending = life.reap()
        if ending is None:
            self._mailbox.watch(life.pidfd, READ, ("exit", process))  # it stays readable, so the end is reported again
            return None
        actor = failed_actor(Path(self._settings.now.run_dir), process, life.epoch)
        ending = replace(ending, actor=actor) if ending.status and actor else ending
        del self._processes[process]
        self._liveness.on_ended(process)
        hung = any(child.hung for child in self.living_in(process))
        facts = {"exit_status": ending.status, "signal": ending.signal, "failed": ending.actor, "hung": hung}
        level = logging.INFO if expected else logging.ERROR
        log.log(level, "child.exited", extra={"child": process, "pid": life.pid, **facts})
        return ending

    def ended(self, child: Child, ending: Ending, *, expected: bool) -> None:
        """The life of ``child`` has ended, with its process or without."""
        child.life = None
        if not expected:
            hung = f"it said nothing for too long{f', in {ending.actor}' if ending.actor else ''}, and was killed"
            child.last_cause = hung if child.hung else ending.cause
        self._mailbox.cancel_timer(f"kill {child.name}")

    def state_of(self, child: Child) -> ChildState:
        """The state of ``child`` for people: one that is ready and says nothing, as while its disk hangs, is ``silent``."""
        silent = child.is_working and self._liveness.judge(child.process, self._mailbox.now_s()) is not Health.ALIVE
        return ChildState.SILENT if silent else child.state

    def not_ready(self) -> str:
        """Those that are not ready, each with its state."""
        states = {self.process_of(child.name): state for child in self if (state := self.state_of(child)) != ChildState.READY}
        return ", ".join(f"{process} {state}" for process, state in states.items())

    @property
    def reports(self) -> Reports:
        """The reports of the actors, by their names."""
        return {actor: told for child in self._children.values() for actor, told in child.reports.items()}

    def silent_s(self, process: str) -> float | None:
        """Seconds since ``process`` was last heard; None if it does not run."""
        return self._liveness.age_s(process, self._mailbox.now_s())

    def pid_of(self, process: str) -> int | None:
        """The process identifier of ``process``; None if it does not run."""
        life = self._processes.get(process)
        return None if life is None else life.pid

    @property
    def template_pid(self) -> int | None:
        """The process that forks the others; None while there is none."""
        return self._spawner.template_pid


def _restarts(spec: ChildSpec, mailbox: Mailbox) -> ChildRestarts:
    return ChildRestarts(RestartWindow(spec.restarts_max, spec.restart_period_s), Backoff(spec.restart_backoff, mailbox.random))
