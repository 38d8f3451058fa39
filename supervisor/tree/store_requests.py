"""Requests of the control socket for the store: passed on to it, or to the Listener where that has a part, and answered later.

The store carries a command out between two commits; the supervisor goes on meanwhile. If the store ends before it has answered, or
does not answer in time, whoever gave an order is told so: to purge or replay may then have been carried out, or not. Commands about
local clients' sessions go by the Listener, where one lives, and the same holds if that ends.

A store that starts, or is about to be started again, is waited for: that takes a moment, and nothing can have been done meanwhile.
A request that only looks, and was not answered by a store that has ended, waits for the next one too, but not for a third: it
may be what the stores end of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from actors.process.mailbox import Mailbox
from supervisor.control.control_socket import Answers, Asker, ControlError, Request, encode_error, encode_result
from supervisor.control.store_commands import ANSWER_TIMEOUT_S, CHANGES, is_session_command, to_frame, unknown_outcome
from supervisor.tree.running_children import RunningChildren
from wire.frames.names import CLIENTS, LISTENER, QUEUE_STORE, STORE
from wire.frames.supervision import QueueAnswer
from wire.status.refusals import Refusal
from wire.status.states import ChildState

log = logging.getLogger("bascule")

TIMER = "queue_commands"
ASKERS_MAX = 32
START_WAIT_S = 4.0  # with the store's own time to answer it is less than who asks waits


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that waits for its answer, or for the store to start."""

    whom: Asker
    request: Request
    deadline_s: float
    again: bool = False  # a store has ended with it
    by_listener: bool = False


class StoreRequests:
    """The askers that wait for the store; its methods return the answers that are due now. The timer ``TIMER`` is for
    ``timed_out``."""

    def __init__(self, mailbox: Mailbox, children: RunningChildren) -> None:
        self._mailbox = mailbox
        self._children = children
        self._passed_on: dict[int, _Asked] = {}  # by the number under which it was
        self._early: list[_Asked] = []
        self._number = 0

    def ask(self, whom: Asker, request: Request) -> None:
        """Pass ``request`` on; where the store starts, as soon as it has.

        Raises:
            ControlError: nobody is there to carry it out, or it is none.
        """
        store, asked = self._children[STORE], _Asked(whom, request, self._mailbox.now_s() + START_WAIT_S)
        if store.is_working:
            self._pass_on(asked)
        elif store.state not in (ChildState.STARTING, ChildState.RESTARTING) or self._children.store_refusal:
            raise self._why_not(request)
        else:
            _see_whether_busy(len(self._early), request)
            self._early.append(asked)
        self._watch()

    def on_store_ready(self) -> Answers:
        """The store has started: it gets what has waited for that."""
        early, self._early = self._early, []
        answers: Answers = []
        for each in early:
            try:
                self._pass_on(each)
            except ControlError as error:
                answers.append((each.whom, encode_error(error)))
        self._watch()
        return answers

    def on_answered(self, answer: QueueAnswer) -> Answers:
        """The store has answered."""
        asked = self._passed_on.pop(answer.request, None)
        self._watch()
        if asked is None:
            return []
        request_id = asked.request.request_id
        if answer.error:
            return [(asked.whom, encode_error(ControlError(answer.error, answer.message, request_id)))]
        return [(asked.whom, encode_result(request_id, answer.result))]

    def on_store_ended(self, *, starts_again: bool) -> Answers:
        """The store has ended: nobody answers any more, unless it ``starts_again``."""
        early: list[_Asked] = []
        if starts_again:
            for number, asked in list(self._passed_on.items()):
                if asked.request.command not in CHANGES and not asked.again:
                    del self._passed_on[number]
                    self._early.append(replace(asked, deadline_s=self._mailbox.now_s() + START_WAIT_S, again=True))
        else:
            early, self._early = self._early, []
        return [*self._give_up(lambda _: True, "the queue store ended meanwhile"), *self._not_asked(early)]

    def on_listener_ended(self) -> Answers:
        """The Listener has ended: nobody answers what went by it."""
        return self._give_up(lambda asked: asked.by_listener, "the listener ended meanwhile")

    def timed_out(self, now_s: float) -> Answers:
        """Somebody's time is up."""
        late = [each for each in self._early if each.deadline_s <= now_s]
        self._early = [each for each in self._early if each.deadline_s > now_s]
        why = f"the queue store has not answered within {ANSWER_TIMEOUT_S:g} s"
        return [*self._give_up(lambda asked: asked.deadline_s <= now_s, why), *self._not_asked(late)]

    # --- inside ---

    def _pass_on(self, asked: _Asked) -> None:
        request, now_s = asked.request, self._mailbox.now_s()
        by_listener = is_session_command(request.command) and self._children[CLIENTS].is_working
        frame = to_frame(request, self._number + 1)
        _see_whether_busy(len(self._passed_on), request)
        self._number += 1
        self._passed_on[self._number] = replace(asked, deadline_s=now_s + ANSWER_TIMEOUT_S, by_listener=by_listener)
        self._mailbox.send(LISTENER if by_listener else QUEUE_STORE, frame)
        if request.command in CHANGES:
            log.info("control.relayed", extra={"command": request.command, **_told(request.arguments)})

    def _why_not(self, request: Request) -> ControlError:
        refusal = self._children.store_refusal
        why = f"cannot open its files for now: {refusal}" if refusal else f"is {self._children[STORE].state}"
        return ControlError(Refusal.UNAVAILABLE, f"the queue store {why}; nothing was done", request.request_id)

    def _not_asked(self, early: list[_Asked]) -> Answers:
        return [(each.whom, encode_error(self._why_not(each.request))) for each in early]

    def _give_up(self, concerns: Callable[[_Asked], bool], why: str) -> Answers:
        """Answers to those passed on that it ``concerns``: it is not known what came of it."""
        answers: Answers = []
        for number, asked in list(self._passed_on.items()):
            if concerns(asked):
                del self._passed_on[number]
                text = f"{why}; {unknown_outcome(asked.request)}"
                answers.append((asked.whom, encode_error(ControlError(Refusal.UNAVAILABLE, text, asked.request.request_id))))
        self._watch()
        return answers

    def _watch(self) -> None:
        deadlines_s = [each.deadline_s for each in (*self._early, *self._passed_on.values())]
        if deadlines_s:
            self._mailbox.set_timer(TIMER, min(deadlines_s))
        else:
            self._mailbox.cancel_timer(TIMER)


def _told(arguments: dict[str, str]) -> dict[str, str]:
    """``arguments`` without what clients have sent."""
    return {name: text for name, text in arguments.items() if name != "messages"}


def _see_whether_busy(waiting: int, request: Request) -> None:
    if waiting >= ASKERS_MAX:
        raise ControlError(Refusal.BUSY, "too many queue commands are waiting", request.request_id)
