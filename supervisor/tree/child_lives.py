"""The course of the children's lives: who is started, what follows from each end, which former lanes run, and how the node stops.

Crashes are judged by ``restart_limit.py``; the processes are in ``running_children.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from actors.process.mailbox import Mailbox
from storage.engine.store_identity import CURE
from supervisor.tree.child_processes import Ending
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.event_notes import Notes
from supervisor.tree.restart_limit import QUIET_S, Escalate, FailedLanes, GiveUp, Restart
from supervisor.tree.running_children import Child, RunningChildren
from wire.errors import ConfigError, StorageDamaged, StoreGone, Unavailable
from wire.frames.names import CLIENTS, QUEUE_STORE, STORE, child_of, lane_of_actor
from wire.frames.supervision import ResetMarkers
from wire.status.event_kinds import EventKind
from wire.status.states import ChildState

log = logging.getLogger("bascule")

EXIT_ESCALATED = 70
QUIET = "quiet"  # the timer: no lane that lives apart has failed for long

Ended = tuple[list[Child], Ending]  # those whose lives have ended together, and how
GOODBYE_S = 2.0
REST_S = 1.0  # of a lane that has ended the process of the clients, once these are served again


class Lives:
    """stopping: the node is to end, and nobody is started any more."""

    def __init__(
        self,
        mailbox: Mailbox,
        settings: CurrentSettings,
        children: RunningChildren,
        notes: Notes,
        end_node: Callable[[int], None],
        has_folder: Callable[[], bool] = lambda: True,
    ) -> None:
        """end_node: ends the node with that exit status, because a child that it needs cannot live. has_folder: whether the data
        folder is the one that it began with.
        """
        self.stopping = False
        self._mailbox = mailbox
        self._settings = settings
        self._children = children
        self._notes = notes
        self._end_node = end_node
        self._has_folder = has_folder
        self._failed = FailedLanes()
        self._stop_orders: list[int] = []  # taken from the end
        self._stop_waits: dict[str, None] = {}
        self._stop_until_s = 0.0  # those that were told to stop are killed then

    @property
    def all_ready(self) -> bool:
        """Whether the node does its work: all that a message needs is ready."""
        needed = [child for child in self._children if child.spec.needed and not child.spec.former and not child.removed]
        return not self.stopping and all(self._children.state_of(child) is ChildState.READY for child in needed)

    # --- beginnings ---

    def spawn(self, child: Child) -> None:
        """Start a life of ``child``; if the system would not, that counts as its end."""
        self._spawn(child, again=False)

    def _spawn(self, child: Child, *, again: bool) -> None:
        if not self._children.spawn(child, again=again):
            self._judge([child], Unavailable.exit_status, self._mailbox.now_s())

    def restart(self, child: Child) -> None:
        """Start the next life of ``child``; an ordered one is not counted."""
        self._spawn(child, again=True)
        if child.life is not None:
            log.info("child.restarted", extra={"child": child.name, "pid": child.life.pid, "restarts": child.restart_count})

    def restart_on_order(self, children: Iterable[Child]) -> None:
        """Have ``children`` start again: at once who does not run, else when they have stopped."""
        for child in children:
            if child.shares and child.spec.bridge is None and child.life is not None:
                self._restart_process(child.process)
                continue
            child.order()
            if child.life is None:
                self._mailbox.cancel_timer(f"restart {child.name}")
                self.restart(child)
            else:
                self._children.order_stop(child)

    def _restart_process(self, process: str) -> None:
        """Have ``process`` start again with all that share it: its store or its clients do not begin anew alone."""
        for child in self._children.living_in(process):
            child.order()
        self._children.order_end(process)

    def restart_waiting(self, process: str) -> None:
        """Start those again that wait to begin in ``process``; the time for it has come.

        A lane that has ended it lately begins later than the others (``on_clients_served``): failing again at once, it would keep
        clients waiting for as long as both starts take.
        """
        now_s, waiting = self._mailbox.now_s(), self._children.waiting_for(process)
        for child in [child for child in waiting if not self._failed.has_failed(child.name, now_s)] or waiting:
            self.restart(child)

    def on_clients_served(self) -> None:
        """The clients are ready: the time comes for lanes that have ended their process, if any wait."""
        process = self._children.process_of(CLIENTS)
        if self._children.waiting_for(process):
            self._mailbox.set_timer(f"restart {process}", self._mailbox.now_s() + REST_S)

    def run_former_lanes(self) -> None:
        """Run lanes that the configuration has no more until they are done; what others got since waits until they are empty."""
        new, empty = self._children.set_former_rows()
        for child in new:
            log.info("lane.former", extra={"child": child.name, "messages": self._children.queues[child.name].depth})
            self.spawn(child)
        for child in empty:
            self.release(child)

    def release(self, child: Child) -> None:
        """End ``child``, which is former or removed; its row goes with its life."""
        child.drop()
        self._mailbox.cancel_timer(f"restart {child.name}")
        if child.life is None:
            self._children.remove(child)
        else:
            self._children.order_stop(child)

    # --- ends ---

    def reap(self, process: str) -> Ended | None:
        """Take note of the end of ``process``, and act on it with ``follow``: whose lives have ended with it, and how.

        None if it has not quite ended yet.
        """
        children = self._children.living_in(process)
        expected = self.stopping or all(child.ordered or not child.wanted for child in children)
        ending = self._children.reap(process, expected=expected)
        if ending is None:
            return None
        if children:
            head = children[0]
            assert head.life is not None
            reason = "ordered" if expected else "hung" if head.hung else ending.signal or "failed"
            details: dict[str, str | int | float | bool] = {"status": ending.status, "pid": head.life.pid}
            details |= {"failed": ending.actor} if ending.actor else {}
            self._notes.note(EventKind.PROCESS_ENDED, actor=process, reason=reason, details=details)
        for child in children:
            self._ended(child, ending)
        return children, ending

    def has_stopped(self, child: Child) -> Ended | None:
        """``child`` says to have ended, and its process lives on; None if that is about to end as well. Else as ``reap``."""
        if not child.shares or all(other.ordered for other in self._children.living_in(child.process)):
            return None
        ending = Ending(0 if self._is_expected(child) else Unavailable.exit_status, None)
        self._ended(child, ending)
        return [child], ending

    def _ended(self, child: Child, ending: Ending) -> None:
        self._children.ended(child, ending, expected=self._is_expected(child))
        if child.spec.queue is not None:
            self._mailbox.send(QUEUE_STORE, ResetMarkers(queue=child.spec.queue, epoch=child.epoch))
            log.info("markers.reset", extra={"queue": child.spec.queue, "child": child.name})

    def _is_expected(self, child: Child) -> bool:
        return self.stopping or not child.wanted or child.ordered

    def follow(self, children: list[Child], ending: Ending) -> bool:
        """Do what follows from the end of the lives of ``children``; whether the node, which is to stop, has stopped with it."""
        self.check_folder()
        down = [child for child in children if self.stopping or not child.wanted]
        for child in down:
            child.rests(ChildState.STOPPED)
            self._stop_waits.pop(child.name, None)
        if self._stop_waits and any(child.name == STORE for child in down):  # nobody commits what they wait for
            self._send_stop(self._stop_waits)
        if self.stopping:
            return not self._stop_waits and self._stop_next()
        for child in down:
            if child.spec.former or child.removed:
                self._children.remove(child)
        left = [child for child in children if child not in down]
        self._blame(ending.actor)
        if any(child.name in self._settings.now.apart and not child.ordered for child in left):
            self.wait_for_quiet()
        for child in left:
            if child.ordered:
                self.restart(child)
        if crashed := [child for child in left if child.life is None]:
            self._judge(crashed, ending.status, self._mailbox.now_s())
        return False

    def _blame(self, actor: str) -> None:
        """``actor`` has failed: a lane that does so again and again is not to take others with it."""
        name = child_of(actor)
        if lane_of_actor(actor) is None or name not in self._children:
            return
        lane = self._children[name]
        again = lane.shares and self._failed.failed(name, self._mailbox.now_s())
        if again and self._settings.set_apart(name):
            self.wait_for_quiet()
            log.critical("lane.apart", extra={"child": name, "actor": actor, "remedy": "its last log lines say why"})
            self._notes.note(EventKind.LANE_APART, actor=name, reason=lane.last_cause)

    def wait_for_quiet(self) -> None:
        """From now on no lane that lives apart has failed."""
        self._mailbox.set_timer(QUIET, self._mailbox.now_s() + QUIET_S)

    def _judge(self, children: list[Child], exit_status: int, now_s: float) -> None:
        """Judge the end of lives that shared a process, by the first of them."""
        child = children[0]
        decision = child.restarts.on_ended(exit_status, now_s)
        for other in children:
            other.rests(ChildState.RESTARTING if isinstance(decision, Restart) else ChildState.STOPPED)
        match decision:
            case Restart(delay_s):
                for process in dict.fromkeys(self._children.process_of(other.name) for other in children):
                    self._mailbox.set_timer(f"restart {process}", now_s + delay_s)
            case GiveUp(state):
                child.rests(state)
                log.critical("child.abandoned", extra={"child": child.name, "state": state, "exit_status": exit_status})
                self._on_abandoned(child)
            case Escalate() if not child.spec.needed or child.spec.bridge is not None:
                child.rests(ChildState.RESTARTING)
                rest_s = child.spec.restart_period_s
                log.critical("child.rests", extra={"child": child.name, "rest_s": rest_s, "remedy": "its last log lines say why"})
                self._mailbox.set_timer(f"restart {child.process}", now_s + rest_s)
            case Escalate():
                facts = {"child": child.name, "restarts_max": child.spec.restarts_max, "period_s": child.spec.restart_period_s}
                remedy = "the child's last log lines say why; what was committed is kept"
                log.critical("node.escalated", extra={**facts, "remedy": remedy})
                self._end_node(EXIT_ESCALATED)

    def _on_abandoned(self, child: Child) -> None:
        """A lane, HTTP or telemetry without its process leaves the others at work. Without store or clients there is no intake."""
        if child.spec.bridge is not None or not child.spec.needed:
            return
        if child.state is ChildState.MISCONFIGURED:
            if child.name == STORE:  # nobody commits what the others would wait for, and another node may have their place
                self._children.kill_all_but(STORE)
            self._end_node(ConfigError.exit_status)
            return
        log.critical("intake.stopped", extra={"child": child.name, "remedy": "status still answers; the files are kept"})
        if CLIENTS not in self._children:
            return
        clients = self._children[CLIENTS]
        clients.drop()
        self._mailbox.cancel_timer(f"restart {CLIENTS}")
        if clients.life is not None:
            self._children.order_stop(clients)
        elif clients is not child:
            clients.rests(ChildState.STOPPED)

    def check_folder(self) -> bool:
        """Whether the node goes on: it ends if its data folder is gone, for no child can begin again, and what waits for the store
        waits in vain.
        """
        if self.stopping or self._has_folder():
            return not self.stopping
        log.critical("node.data_folder_gone", extra={"data_dir": self._settings.now.node.data_dir, "remedy": CURE})
        self._children.kill_all_but(STORE)
        begins_by_itself = self._settings.now.node.new_store == "allow"  # then it is to be started by somebody who has read this
        self._end_node(StorageDamaged.exit_status if begins_by_itself else StoreGone.exit_status)
        return False

    # --- the end of all ---

    def stop_all(self) -> bool:
        """Stop the children in reverse start order, for good; whether there is none to wait for."""
        self.stopping = True
        self._stop_orders = sorted({child.spec.order for child in self._children})
        for child in self._children:
            self._mailbox.cancel_timer(f"restart {child.name}")
        return self._stop_next()

    def stop_left_s(self, now_s: float) -> float | None:
        """How long it takes at most until the last child has stopped; None while the node goes on."""
        if not self.stopping:
            return None
        later = {
            child.spec.order: self._stop_time_s(child) for child in self._children.living() if child.spec.order in self._stop_orders
        }
        return max(0.0, self._stop_until_s - now_s) + sum(later.values())

    def _stop_next(self) -> bool:
        """Tell the children of the last order that still has any to stop; whether there is none."""
        while self._stop_orders:
            order = self._stop_orders.pop()
            living = [child for child in self._children.living() if child.spec.order == order]
            if living:
                self._stop_waits = dict.fromkeys(child.name for child in living)
                self._send_stop(self._stop_waits)
                return False
        return True

    def _send_stop(self, names: Iterable[str]) -> None:
        self._stop_until_s = self._mailbox.now_s()
        for child in map(self._children.__getitem__, names):
            within_s = self._stop_time_s(child)
            self._stop_until_s = max(self._stop_until_s, self._mailbox.now_s() + within_s)
            self._children.order_stop(child, within_s)

    def _stop_time_s(self, child: Child) -> float:
        """How long it may take to stop: no longer than a goodbye, where it would wait for a store that commits nothing.

        It waits for commits of acknowledged sessions, while the store lives.
        """
        store, within_s = self._children[STORE], child.spec.stop_timeout_s
        refuses = bool(self._children.store_refusal) and self._settings.now.persistence.acknowledge != "fast"
        in_vain = child.spec.order > store.spec.order and (store.life is None or refuses)
        return min(GOODBYE_S, within_s) if in_vain else within_s
