"""Requests of the control socket for the store: passed on to it, or to the Listener where that has a part, and answered later.

A store that starts, or is about to be started again, is waited for: that takes a moment, and nothing can have been done meanwhile.
A request that only looks, and was not answered by a store that has ended, waits for the next one too, but not for a third.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from actors.process.mailbox import Mailbox
from supervisor.control.control_socket import ControlError, Request, encode_error, encode_result
from supervisor.control.store_commands import ASKERS_MAX, CHANGES, StoreCommands, is_session_command
from supervisor.tree.running_children import RunningChildren
from wire.frames.names import CLIENTS, LISTENER, QUEUE_STORE, STORE
from wire.frames.supervision import QueueAnswer
from wire.status.states import ChildState

log = logging.getLogger("bascule")

TIMER = "queue_commands"
START_WAIT_S = 4.0  # with the store's own time to answer it is less than who asks waits

Asker = list[bytes]
Answers = list[tuple[Asker, bytes]]


@dataclass(frozen=True, slots=True)
class _Early:
    """A request that waits for the store to start."""

    whom: Asker
    request: Request
    deadline_s: float
    again: bool  # a store has ended with it


class StoreRequests:
    """The askers that wait for the store; its methods return the answers that are due now. The timer ``TIMER`` is for
    ``timed_out``."""

    def __init__(self, mailbox: Mailbox, children: RunningChildren) -> None:
        self._mailbox = mailbox
        self._children = children
        self._relay: StoreCommands[Asker] = StoreCommands()
        self._early: list[_Early] = []

    def ask(self, whom: Asker, request: Request) -> None:
        """Pass ``request`` on; where the store starts, as soon as it has.

        Raises:
            ControlError: nobody is there to carry it out, or it is none.
        """
        store = self._children[STORE]
        if store.is_working:
            self._pass_on(whom, request)
        elif store.state not in (ChildState.STARTING, ChildState.RESTARTING) or self._children.store_refusal:
            raise self._why_not(request)
        elif len(self._early) >= ASKERS_MAX:
            raise ControlError("busy", "too many queue commands are waiting", request.request_id)
        else:
            self._wait(whom, request, again=False)
            self._watch()

    def on_store_ready(self) -> Answers:
        """The store has started: it gets what has waited for that."""
        early, self._early = self._early, []
        answers: Answers = []
        for each in early:
            try:
                self._pass_on(each.whom, each.request, again=each.again)
            except ControlError as error:
                answers.append((each.whom, encode_error(error)))
        self._watch()
        return answers

    def on_answered(self, answer: QueueAnswer) -> Answers:
        """The store has answered."""
        asked = self._relay.on_answered(answer)
        if asked is None:
            return []
        whom, request_id, error = asked
        self._watch()
        return [(whom, encode_error(error) if error is not None else encode_result(request_id, answer.result))]

    def on_store_ended(self, *, starts_again: bool) -> Answers:
        """The store has ended: nobody answers any more, unless it ``starts_again``."""
        if starts_again:
            for whom, request in self._relay.take_looks():
                self._wait(whom, request, again=True)
            return self._refused(self._relay.on_store_ended())
        early, self._early = self._early, []
        return self._refused([*self._relay.on_store_ended(), *((each.whom, self._why_not(each.request)) for each in early)])

    def on_listener_ended(self) -> Answers:
        """The Listener has ended: nobody answers what went by it."""
        return self._refused(self._relay.on_listener_ended())

    def timed_out(self, now_s: float) -> Answers:
        """Somebody's time is up."""
        late = [each for each in self._early if each.deadline_s <= now_s]
        self._early = [each for each in self._early if each.deadline_s > now_s]
        return self._refused([*self._relay.timed_out(now_s), *((each.whom, self._why_not(each.request)) for each in late)])

    # --- inside ---

    def _wait(self, whom: Asker, request: Request, *, again: bool) -> None:
        self._early.append(_Early(whom, request, self._mailbox.now_s() + START_WAIT_S, again))

    def _why_not(self, request: Request) -> ControlError:
        refusal = self._children.store_refusal
        why = f"cannot open its files for now: {refusal}" if refusal else f"is {self._children[STORE].state}"
        return ControlError("unavailable", f"the queue store {why}; nothing was done", request.request_id)

    def _pass_on(self, whom: Asker, request: Request, *, again: bool = False) -> None:
        by_listener = is_session_command(request.command) and self._children[CLIENTS].is_working
        frame = self._relay.ask(whom, request, self._mailbox.now_s(), by_listener=by_listener, again=again)
        self._mailbox.send(LISTENER if by_listener else QUEUE_STORE, frame)
        self._watch()
        if request.command in CHANGES:
            log.info("control.relayed", extra={"command": request.command, **request.arguments})

    def _refused(self, refused: list[tuple[Asker, ControlError]]) -> Answers:
        self._watch()
        return [(whom, encode_error(error)) for whom, error in refused]

    def _watch(self) -> None:
        deadlines_s = [each.deadline_s for each in self._early]
        if (deadline_s := self._relay.next_deadline_s()) is not None:
            deadlines_s.append(deadline_s)
        if deadlines_s:
            self._mailbox.set_timer(TIMER, min(deadlines_s))
        else:
            self._mailbox.cancel_timer(TIMER)
