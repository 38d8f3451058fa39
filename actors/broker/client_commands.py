"""An operator's commands about sessions, as far as the Listener carries them out: it lists connected clients, and disconnects.

The rest is the store's (``storage/store/session_commands.py``), to which a command goes on with what is known here. An end that may
be lost with a store is sent again to the next one, which either does it or finds it done.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import translate
from heapq import nsmallest
from operator import attrgetter
from typing import Any

from actors.access.client import Client
from actors.broker.client_sessions import ClientSessions
from actors.broker.listener_interface import ListenerInterface
from storage.store.commands import ORDERED
from wire.figure import to_map
from wire.frames.names import QUEUE_STORE, SUPERVISOR
from wire.frames.supervision import NodeEvents, QueueAnswer, SessionCommand
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.status.answers import ConnectedClient, Disconnected
from wire.status.event_kinds import EventKind
from wire.status.refusals import Refusal

LIVE_PER_PAGE = 500


class ClientAdmin:
    """Between the Supervisor, which asks, and the store, which answers."""

    def __init__(self, host: ListenerInterface, sessions: ClientSessions) -> None:
        self._host = host
        self._sessions = sessions
        self._ends: dict[int, SessionCommand] = {}  # by request; not answered
        self._repeated: set[int] = set()

    def command(self, command: SessionCommand) -> None:
        """Do what is to be done here, and pass it on."""
        match command.verb:
            case "list":
                rows, until = self._page(command.arguments)
                self._ask(replace(command, live=rows, until=until))
            case "end":
                self._end(command)
            case "disconnect":
                self._disconnect(command)
            case _:
                self._ask(replace(command, live=self._live(command)))

    def on_answered(self, answer: QueueAnswer) -> None:
        """The store has answered a command that went by here."""
        command = self._ends.pop(answer.request, None)
        if command is not None:
            answer = self._end_answered(command, answer)
        self._host.send(SUPERVISOR, answer)

    def on_gone(self, session: str) -> None:
        """The store has ended ``session``: whatever its answer was to be, it is not asked again, since the next one is another."""
        for request in self._ends_of(session):
            del self._ends[request]
            self._repeated.discard(request)

    def store_is_new(self) -> None:
        """An end may be lost, or what was told of it."""
        for request, command in self._ends.items():
            self._repeated.add(request)
            self._ask(replace(command, live=()) if _was_lasting(command) else command)

    # --- inside ---

    def _ask(self, command: SessionCommand) -> None:
        self._host.send(QUEUE_STORE, replace(command, asker=self._host.name))

    def _end(self, command: SessionCommand) -> None:
        """Send the client away first; its Will is due at the latest when the store has ended the session."""
        name = command.arguments["client_id"]
        command = replace(command, live=self._live(command))
        client = self._sessions.connected(name)
        self._ends[command.request] = command
        self._sessions.hold(name)
        if client is not None:
            self._sessions.send_away(client, publish_will=not command.arguments.get("drops_will"))
        self._ask(command)

    def _ends_of(self, session: str) -> list[int]:
        """The requests that are to end ``session`` and are not through."""
        return [request for request, command in self._ends.items() if command.arguments["client_id"] == session]

    def _end_answered(self, command: SessionCommand, answer: QueueAnswer) -> QueueAnswer:
        name = command.arguments["client_id"]
        repeated = command.request in self._repeated
        self._repeated.discard(command.request)
        if answer.result.get(ORDERED) and (not command.live or _was_lasting(command)):
            self._ends[command.request] = command  # SessionGone comes when the disk takes it; a new store is told again
        elif repeated and answer.error in ("", Refusal.NO_SUCH_SESSION):
            self._sessions.on_lost(name)
            self._sessions.on_ended(name, drops_will=bool(command.arguments.get("drops_will")))
        elif not self._ends_of(name):
            self._sessions.release(name)
        if answer.error and command.live:
            return replace(answer, message=f"{answer.message}; its client was disconnected")
        return answer

    def _disconnect(self, command: SessionCommand) -> None:
        name = command.arguments["client_id"]
        client = self._sessions.connected(name)
        if client is None:
            self._ask(command)  # it knows whether there is such a session
            return
        (row,) = self._live(command)
        self._sessions.send_away(client)
        label, address = client.label, client.address
        details = {"client_id": label, "user": client.user or "", "address": address}
        event = (self._host.mailbox.wall_ms(), EventKind.SESSION_DISCONNECTED, "", -1, "operator", "operator", 0, details)
        self._host.send(QUEUE_STORE, NodeEvents(events=(event,)))
        result = Disconnected(client_id=name, address=address, kept=row.expiry_s != 0)
        self._host.send(SUPERVISOR, QueueAnswer(request=command.request, error="", message="", result=to_map(result)))

    # --- rows ---

    def _page(self, arguments: dict[str, Any]) -> tuple[tuple[ConnectedClient, ...], str | None]:
        """The rows of one page of a list, and the identifier that ends it; None if there are no more.

        As many clients are looked at, whether they are wanted or not: a question costs the same whatever it asks for.
        """
        after = arguments.get("after") or ""
        like = re.compile(translate(arguments["like"])) if arguments.get("like") is not None else None
        behind = (client for client in self._host.clients() if client.flow is not None and client.session > after)
        clients = nsmallest(LIVE_PER_PAGE + 1, behind, key=attrgetter("session"))
        until = clients[LIVE_PER_PAGE - 1].session if len(clients) > LIVE_PER_PAGE else None
        wanted = [client for client in clients[:LIVE_PER_PAGE] if like is None or like.match(client.session)]
        return tuple(map(self._row, wanted)), until

    def _live(self, command: SessionCommand) -> tuple[ConnectedClient, ...]:
        client = self._sessions.connected(command.arguments["client_id"])
        if client is None:
            return ()
        row = self._row(client)
        if command.verb == "show" and not client.queue:  # those of a session that lasts are on record
            row = replace(row, filters=tuple((topic_filter, *options) for topic_filter, options in client.filters.items()))
        return (row,)

    def _row(self, client: Client) -> ConnectedClient:
        mailbox, outbox = self._host.mailbox, client.outbox
        return ConnectedClient(
            client_id=client.session,
            user=client.user,
            connected=True,
            address=client.address,
            level=client.level,
            keep_alive_s=client.keep_alive.keep_alive_s,
            since_ms=mailbox.wall_ms() - int((mailbox.now_s() - client.accepted_s) * 1000),
            expiry_s=None if client.expiry_s == SESSION_NEVER_EXPIRES_S else client.expiry_s,
            lasting=bool(client.queue),
            subscriptions=len(client.filters),
            depth=outbox.depth if outbox is not None else 0,
            bytes=None,
            in_flight=outbox.in_flight if outbox is not None else 0,
            received=len(client.flow.received) if client.flow is not None else 0,
            will=client.will is not None,
        )


def _was_lasting(command: SessionCommand) -> bool:
    """Whether the client was connected to a session that outlives its connection when the command came."""
    return any(row.lasting for row in command.live)
