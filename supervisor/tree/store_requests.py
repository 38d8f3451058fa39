"""Requests of the control socket for the store: passed on to it, or to the Listener where that has a part, and answered later."""

from __future__ import annotations

import logging

from actors.process.mailbox import Mailbox
from supervisor.control.control_socket import ControlError, Request, encode_error, encode_result
from supervisor.control.store_commands import CHANGES, Relay, is_session_command
from supervisor.tree.running_children import RunningChildren
from wire.frames.names import CLIENTS, LISTENER, QUEUE_STORE, STORE
from wire.frames.supervision import QueueAnswer

log = logging.getLogger("bascule")

TIMER = "queue_commands"

Asker = list[bytes]
Answers = list[tuple[Asker, bytes]]


class StoreRequests:
    """Who waits for the store; its methods return whom to answer now, and what. The timer ``TIMER`` is for ``timed_out``."""

    def __init__(self, mailbox: Mailbox, children: RunningChildren) -> None:
        self._mailbox = mailbox
        self._children = children
        self._relay: Relay[Asker] = Relay()

    def ask(self, whom: Asker, request: Request) -> None:
        """Pass ``request`` on.

        Raises:
            ControlError: nobody is there to carry it out, or it is none.
        """
        store = self._children[STORE]
        if store.life is None or store.state != "ready":
            refusal = store.figures.get(QUEUE_STORE, {}).get("error") if store.life is not None else None
            why = f"cannot open its files for now: {refusal}" if refusal else f"is {store.state}"
            text = f"the queue store {why}; nothing was done"
            raise ControlError("unavailable", text, request.request_id)
        clients = self._children[CLIENTS]
        by_listener = is_session_command(request.command) and clients.life is not None and clients.state == "ready"
        frame = self._relay.ask(whom, request, self._mailbox.now_s(), by_listener=by_listener)
        self._mailbox.send(LISTENER if by_listener else QUEUE_STORE, frame)
        self._watch()
        if request.command in CHANGES:
            log.info("control.relayed", extra={"command": request.command, **request.arguments})

    def answered(self, answer: QueueAnswer) -> Answers:
        """The store has answered."""
        asked = self._relay.answered(answer)
        if asked is None:
            return []
        whom, request_id, error = asked
        self._watch()
        return [(whom, encode_error(error) if error is not None else encode_result(request_id, answer.result))]

    def store_ended(self) -> Answers:
        """The store has ended: nobody answers any more."""
        return self._refused(self._relay.store_ended())

    def listener_ended(self) -> Answers:
        """The Listener has ended: nobody answers what went by it."""
        return self._refused(self._relay.listener_ended())

    def timed_out(self, now_s: float) -> Answers:
        """Somebody's time is up."""
        return self._refused(self._relay.timed_out(now_s))

    def _refused(self, refused: list[tuple[Asker, ControlError]]) -> Answers:
        self._watch()
        return [(whom, encode_error(error)) for whom, error in refused]

    def _watch(self) -> None:
        deadline_s = self._relay.next_deadline_s()
        if deadline_s is None:
            self._mailbox.cancel_timer(TIMER)
        else:
            self._mailbox.set_timer(TIMER, deadline_s)
