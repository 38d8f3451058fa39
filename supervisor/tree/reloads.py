"""The configuration read again while the node runs: by an operator's command, or by SIGHUP, which says yes to nothing.

It is read and validated in a process aside, in a thread, so that messages and heartbeats do not wait for it. The plan is
``supervisor/reload/plan.py``'s; the supervisor applies it, and ``rollout.py`` brings it to the children.

tree.reload-all-or-nothing [P7, alive]: a configuration that does not hold, or of which a part is not to be applied, changes
    nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from actors.process.actor import PolledActor
from actors.process.logs import follow_settings
from supervisor.config.files_read import FilesRead
from supervisor.control.control_socket import Asker, ControlError, Request, encode_result
from supervisor.reload.bridge_file import BridgeFile
from supervisor.reload.losses import Waiting
from supervisor.reload.plan import Plan, plan, read_when_changed
from supervisor.reload.source import Source
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.event_notes import Detail, Notes
from supervisor.units import write_time
from supervisor.workers import Worker, words
from wire.config_settings import NodeSettings
from wire.errors import BasculeError, ConfigError
from wire.figure import to_map
from wire.frames.names import STORE, SUPERVISOR, lane_of_queue
from wire.frames.supervision import ReportNow
from wire.setting_kinds import Effect
from wire.status.answers import ReloadPlan
from wire.status.event_kinds import EventKind
from wire.status.node_status import ConfigurationFigures
from wire.status.refusals import Refusal
from wire.status.store import StoreReport

log = logging.getLogger("bascule")

TIMER = "reload"
COMMANDS = ("reload", "reload.plan", "bridge.put", "bridge.remove")
REPORT = 1 << 31  # the number by which the store is asked; no request for the status has it
REPORT_TIMEOUT_S = 2.0
ASKERS_MAX = 8
REASON_MAX = 500  # characters of a complaint about the configuration that go into an event

Answer = Callable[[Asker, bytes], None]
Apply = Callable[[Plan, Callable[[], None]], None]


def _nobody(*_: Any) -> None:
    """Nobody waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One request. apply: else it is only planned. yes: to what is destructive. at_ms: when it came, on the wall clock.

    file: that of a bridge which is to be changed, if one is.
    """

    apply: bool
    yes: bool
    actor: str
    at_ms: int
    tell: Callable[[ReloadPlan], None] = _nobody
    done: Callable[[], None] = _nobody
    file: BridgeFile | None = None


class Reloads:
    """Reads, plans and has applied; one after the other. The timer ``TIMER`` is its own.

    The asker is answered when the orders are given, not when all have obeyed.
    """

    def __init__(
        self,
        host: PolledActor,
        source: Source,
        settings: CurrentSettings,
        store_works: Callable[[], bool],
        notes: Notes,
        apply: Apply,
        answer: Answer,
    ) -> None:
        """apply: brings a plan to all that goes by the settings, which have changed, and tells when it is done. answer: answers who
        asked.
        """
        self._source = source
        self._settings = settings
        self._store_works = store_works
        self._notes = notes
        self._apply_plan = apply
        self._answer = answer
        self._mailbox = host.mailbox
        self._worker = Worker(host, "reload")
        self._asking = 0
        self._hung_up = False  # and the file is not being read yet
        self._unplanned: list[tuple[_Asked, NodeSettings]] = []
        self._read_ms = host.mailbox.wall_ms()
        self._files = self._watch()
        self._changed: tuple[str, ...] = ()

    # --- requests ---

    def ask(self, whom: Asker, request: Request) -> None:
        """Answer ``request`` to ``whom``, once the configuration is read.

        Raises:
            ControlError: an argument is wrong, or too many wait.
        """
        arguments = request.arguments
        yes, only_plan = arguments.get("yes", "no"), arguments.get("plan", "no")
        if not {yes, only_plan} <= {"yes", "no"}:
            raise ControlError(Refusal.BAD_ARGUMENTS, "yes and plan are yes or no", request.request_id)
        if self._asking >= ASKERS_MAX:
            raise ControlError(Refusal.BUSY, "too many are waiting for the configuration to be read", request.request_id)
        self._asking += 1
        tell = partial(self._report, whom, request.request_id)
        apply, now_ms = request.command != "reload.plan" and only_plan == "no", self._mailbox.wall_ms()
        file = BridgeFile(arguments["name"], arguments.get("text")) if "name" in arguments else None
        self._read(_Asked(apply=apply, yes=yes == "yes", actor="operator", at_ms=now_ms, tell=tell, file=file))

    def hang_up(self, done: Callable[[], None]) -> None:
        """SIGHUP: apply what gives nothing up. ``done`` is told when all is applied, or nothing will be.

        One that comes while another waits for the file to be read is served by that one.
        """
        if self._hung_up:
            return
        self._hung_up = True
        self._read(_Asked(apply=True, yes=False, actor=SUPERVISOR, at_ms=self._mailbox.wall_ms(), done=done))

    def go_on(self, store: StoreReport | None = None) -> None:
        """Plan what was read: the ``store`` has reported, as it was asked to by ``REPORT``; or None, if it is not waited for."""
        self._mailbox.cancel_timer(TIMER)
        unplanned, self._unplanned = self._unplanned, []
        for asked, settings in unplanned:
            self._on_planned(asked, settings, None if store is None else _waiting(store))

    def rejoin(self) -> bool:
        """Have lanes that lived apart because they had failed share a process again, as a reload does, though nothing is read.

        False if the disk refuses to keep that.
        """
        apart, settings = self._settings.now.apart, replace(self._settings.now, apart=())
        made = plan(self._settings.now, settings)
        if not made.changes:
            return True
        try:
            self._settings.change(settings)
        except OSError:
            return False
        log.info("lane.rejoins", extra={"lanes": apart})
        self._apply(made, SUPERVISOR, _nobody)
        return True

    def check_files(self) -> None:
        """See whether the files have changed. Call it each heartbeat period."""
        changed = self._files.poll_changes()
        if changed and changed != self._changed:
            log.info("configuration.changed", extra={"files": changed, "remedy": f"bascule reload {self._source.path} applies it"})
        self._changed = changed

    def figures(self, pending: tuple[str, ...]) -> ConfigurationFigures:
        """``configuration`` of ``status``; ``pending``: the processes that do not go by it yet."""
        return ConfigurationFigures(
            file=str(self._source.path),
            read_at=write_time(self._read_ms),
            changed_on_disk=bool(self._changed),
            changed_files=tuple(self._changed),
            number=self._settings.now.number,
            pending=pending,
        )

    # --- inside ---

    def _read(self, asked: _Asked) -> None:
        def read() -> NodeSettings:
            if asked.actor == SUPERVISOR:
                self._hung_up = False  # who hangs up from here on may have changed what is being read
            if (file := asked.file) is None or file.written:
                return self._source.read()
            assert self._source.read_with is not None, "a node is run from a file"
            place, settings = self._source.read_with(file.name, file.content)
            file.found_at(place)
            return settings

        self._worker.do(read, partial(self._on_valid, asked), partial(self._unread, asked))

    def _unread(self, asked: _Asked, error: OSError | BasculeError) -> None:
        """The configuration does not hold, or cannot be read."""
        told = tuple(error.problems) if isinstance(error, ConfigError) else ()
        problems = told or (words(error),)
        self._refuse(asked, ReloadPlan(refused=words(error), problems=problems), problems[0])

    def _on_valid(self, asked: _Asked, settings: NodeSettings) -> None:
        """The configuration holds: ask the store what waits now, and go on when it has said so, or does not."""
        self._unplanned.append((asked, settings))
        if not self._store_works():
            self.go_on()
            return
        self._mailbox.send(STORE, ReportNow(request=REPORT))
        self._mailbox.set_timer(TIMER, self._mailbox.now_s() + REPORT_TIMEOUT_S)

    def _on_planned(self, asked: _Asked, settings: NodeSettings, waiting: Waiting | None) -> None:
        """Say what the configuration changes, and do it."""
        made = plan(self._settings.now, settings, waiting)
        refusal = made.refusal(yes=asked.yes or not asked.apply)
        if not asked.apply:
            asked.tell(ReloadPlan(changes=made.told(), refused=refusal))
            return
        if refusal is None and asked.file is not None and not asked.file.written:
            try:
                asked.file.write()
            except OSError as error:
                why = f"the file of the bridge cannot be written: {error.strerror}; nothing was changed"
                self._refuse(asked, ReloadPlan(changes=made.told(), refused=why), why)
            else:
                self._read(asked)  # as it is on the disk now
            return
        if refusal is None:
            try:
                self._settings.change(settings) if made.changes else self._settings.note(settings)
            except OSError as error:
                refusal = f"the disk refuses to keep the settings: {error.strerror}; nothing was changed"
        if refusal is not None:
            self._refuse(asked, ReloadPlan(changes=made.told(), refused=refusal), refusal)
            return
        self._read_ms = asked.at_ms
        self._files, self._changed = self._watch(), ()
        number, changes = self._settings.now.number, made.told()
        log.info("node.reloaded", extra={"number": number, "changes": to_map(changes)})
        if made.changes:
            self._apply(made, asked.actor, asked.done)
        else:
            asked.done()
        asked.tell(ReloadPlan(changes=changes, applied=True, number=number))

    def _apply(self, made: Plan, actor: str, done: Callable[[], None]) -> None:
        settings = self._settings.now
        follow_settings(settings.log)
        counts = {str(how): len(made.of(how)) for how in Effect if made.of(how)}
        reason = ", ".join(change.what for change in made.changes)[:REASON_MAX]
        details: dict[str, Detail] = {"number": settings.number, **counts}
        self._notes.note(EventKind.NODE_RELOADED, actor=actor, reason=reason, count=len(made.changes), details=details)
        self._apply_plan(made, done)

    def _refuse(self, asked: _Asked, result: ReloadPlan, why: str) -> None:
        if asked.apply:
            log.warning("node.reload_refused", extra={"why": result.refused, "problems": result.problems})
            details: dict[str, Detail] = {"valid": not result.problems, "problems": len(result.problems)}
            self._notes.note(EventKind.NODE_RELOAD_REFUSED, actor=asked.actor, reason=why[:REASON_MAX], details=details)
        if asked.file is not None:
            try:
                asked.file.put_back()
            except OSError as error:
                log.error("bridge.file_left", extra={"bridge": asked.file.name, "error": error.strerror})
        asked.done()
        asked.tell(result)

    def _report(self, whom: Asker, request_id: Any, result: ReloadPlan) -> None:
        self._asking -= 1
        self._answer(whom, encode_result(request_id, result))

    def _watch(self) -> FilesRead:
        return FilesRead(self._settings.now, read_when_changed(self._settings.now))


def _waiting(store: StoreReport) -> Waiting:
    """The messages in the bridges' queues."""
    found: dict[str, tuple[int, int]] = {}
    for name, queue in store.queues.items():
        lane = lane_of_queue(name)
        if lane is not None and queue.depth is not None:
            messages, size_bytes = found.get(lane.bridge, (0, 0))
            found[lane.bridge] = messages + queue.depth, size_bytes + (queue.bytes or 0)
    return found
