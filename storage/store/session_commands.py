"""Operators' commands on local clients' sessions: ls, show, will, end, disconnect. Each looks at, or changes, a page at most.

The Listener comes first: it adds what it knows of those that are connected (``live``), and for an end or a disconnect it has closed
the connection. State that outlives a connection is known here. Arguments are maps of msgpack types, results are those of
``wire/status/answers.py``.

ls {after?, count?, like?, user?, connected?} -> Sessions: in the order of the client identifiers, from the one behind ``after`` on.
like: a glob on the client identifier.
show {client_id, from?} -> SessionPage: its subscriptions from number ``from`` on.
will {client_id} -> Will.
end {client_id, drops_will?} -> SessionEnded.
disconnect {client_id}: comes here where nobody is connected under that identifier, to be refused.

A session that ends with its connection is there as long as its client is connected. The rest of one that has ended, a Will that is
not out yet, is no session.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from fnmatch import translate
from typing import Literal, NoReturn

from storage.store.commands import CommandError
from storage.store.event_log import EventLog
from storage.store.lanes import Lanes
from storage.store.local_sessions import LocalSessions
from storage.store.session_rows import Session, Sessions, Will, is_remote
from wire.figure import joined, of_values
from wire.frames.batch import QOS_MASK, RETAIN
from wire.frames.names import connection_of_session
from wire.frames.supervision import SessionCommand
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.routing.subscriber import options_of
from wire.status.answers import ConnectedClient, SessionEnded, SessionPage, SessionRow, SessionWill, Subscription, WholeWill
from wire.status.answers import Sessions as SessionsPage
from wire.status.answers import Will as WillShown
from wire.status.event_kinds import EventKind
from wire.status.refusals import Refusal

PAGE_SESSIONS = 500
PAGE_BYTES = 256 << 10
SCANNED_SESSIONS = 1000  # of a page, those that are not in it included
SCANNED_CHARACTERS = 32_768  # of their identifiers
FILTERS_PER_PAGE = 500
SHOWN_PAYLOAD_BYTES = 200
LABEL_MAX = 100  # of a client identifier in an event
_ROW_BYTES = 300  # of a row without its texts, about


class SessionCommands:
    """Carries out one command at a time."""

    def __init__(self, sessions: Sessions, local_sessions: LocalSessions, lanes: Lanes, events: EventLog) -> None:
        self._sessions = sessions
        self._local_sessions = local_sessions
        self._lanes = lanes
        self._events = events
        self._names: list[str] = []  # in order, as the first page of a list has found them

    def carry_out(self, command: SessionCommand, wall_ms: int) -> SessionsPage | SessionPage | WillShown | SessionEnded:
        """The result of ``command``; what it changed goes with the open write.

        Raises:
            CommandError: it is refused, and nothing has changed here.
        """
        match command.verb:
            case "list":
                return self._list(command)
            case "show":
                return self._show(command)
            case "will":
                return self._whole_will(command)
            case "end":
                return self._end(command, wall_ms)
            case "disconnect":
                self._disconnect(command)
        raise CommandError(Refusal.UNKNOWN_COMMAND, f"there is no {command.verb!r}")

    # --- ls ---

    def _list(self, command: SessionCommand) -> SessionsPage:
        arguments = command.arguments
        after, connected, user = arguments.get("after") or "", arguments.get("connected"), arguments.get("user")
        count = min(arguments.get("count") or PAGE_SESSIONS, PAGE_SESSIONS)
        like = re.compile(translate(arguments["like"])) if arguments.get("like") is not None else None
        live = {row.client_id: row for row in _live(command)}
        names, cut = self._next_names(after, command.until, live)
        rows: list[SessionRow] = []
        size_bytes = 0
        for name in names:
            if len(rows) >= count or size_bytes >= PAGE_BYTES:
                return SessionsPage(sessions=tuple(rows), next=after)
            after = name
            if (like is not None and not like.match(name)) or connected not in (None, name in live):
                continue
            row = self._row(name, live.get(name))
            if row is not None and user in (None, row.user):
                rows.append(row)
                size_bytes += len(name.encode()) + _ROW_BYTES
        return SessionsPage(sessions=tuple(rows), next=cut)

    def _next_names(self, after: str, until: str | None, live: Collection[str]) -> tuple[list[str], str | None]:
        """The identifiers behind ``after`` that one page may look at, in order, and the last of them if others may follow."""
        if not after or not self._names:
            self._names = sorted(session.name for session in self._sessions if not is_remote(session.name))
        start = bisect_right(self._names, after)
        end = len(self._names) if until is None else bisect_right(self._names, until)
        stop, size = start, 0
        while stop < end and stop - start < SCANNED_SESSIONS and size < SCANNED_CHARACTERS:
            size += len(self._names[stop])
            stop += 1
        stored = self._names[start:stop]
        cut = stored[-1] if stop < end else until
        if cut is None:
            self._names = []
        return sorted(name for name in {*stored, *live} if cut is None or name <= cut), cut

    def _row(self, name: str, live: ConnectedClient | None) -> SessionRow | None:
        """The session in one line, for an operator; None if there is none."""
        session = self._sessions.get(name)
        lane = self._lanes.all.get(session.queue) if session is not None and session.queue else None
        if session is None or lane is None:
            return None if live is None else joined(SessionRow, live)
        away_since_ms = session.since_ms if session.connected is None else None
        return SessionRow(
            client_id=name,
            user=session.user if session.user is not None or live is None else live.user,
            connected=live is not None,
            address=None if live is None else live.address,
            level=None if live is None else live.level,
            keep_alive_s=None if live is None else live.keep_alive_s,
            since_ms=away_since_ms if live is None else live.since_ms,
            expiry_s=None if session.expiry_s == SESSION_NEVER_EXPIRES_S else session.expiry_s,
            expires_ms=None if live is not None else _expires_ms(session),
            lasting=True,
            subscriptions=len(session.subscriptions),
            depth=lane.queue.depth,
            bytes=lane.queue.size_bytes,
            in_flight=lane.queue.maybe_sent(lane.queue.sent.below) if live is None else live.in_flight,
            received=len(session.received) if live is None else live.received,
            will=session.will is not None,
            damaged=lane.is_stopped,
        )

    # --- show ---

    def _show(self, command: SessionCommand) -> SessionPage:
        name = command.arguments["client_id"]
        live = next(iter(_live(command)), None)
        session = self._find(name, live)
        row = self._row(name, live)
        assert row is not None
        start = command.arguments.get("from") or 0
        if session is not None and session.queue:
            every = [(topic_filter, *options) for topic_filter, options in session.subscriptions.items()]
        else:
            every = list(live.filters) if live is not None else []
        filters = []
        size_bytes = 0
        for topic_filter, options, identifier in every[start : start + FILTERS_PER_PAGE]:
            filters.append(_subscription(topic_filter, options, identifier))
            size_bytes += len(topic_filter) + 100
            if size_bytes >= PAGE_BYTES:
                break
        following = start + len(filters)
        return joined(
            SessionPage,
            row,
            queue=session.queue if session is not None else "",
            filters=tuple(filters),
            next=following if following < len(every) else None,
            will=None if session is None or session.will is None else joined(SessionWill, _whole(session.will, session)),
        )

    def _whole_will(self, command: SessionCommand) -> WillShown:
        session = self._find(command.arguments["client_id"], next(iter(_live(command)), None))
        return WillShown(will=None if session is None or session.will is None else _whole(session.will, session))

    # --- end, disconnect ---

    def _end(self, command: SessionCommand, wall_ms: int) -> SessionEnded:
        name, drops_will = command.arguments["client_id"], bool(command.arguments.get("drops_will"))
        live = next(iter(_live(command)), None)
        session = self._find(name, live)
        had_will = (session is not None and session.will is not None) or (live is not None and live.will)
        will: Literal["none", "published", "dropped"] = "none" if not had_will else "dropped" if drops_will else "published"
        user, purged, subscriptions = (live.user, live.depth, live.subscriptions) if live is not None else (None, 0, 0)
        if session is not None and session.queue:
            user, subscriptions = session.user or user, len(session.subscriptions)
            purged = self._local_sessions.end(session, wall_ms, drops_will=drops_will)
        self._events.note(
            wall_ms,
            EventKind.SESSION_ENDED,
            actor="operator",
            reason="operator",
            count=purged,
            client_id=_label(name),
            user=user or "",
            subscriptions=subscriptions,
            will=will,
        )
        was_connected = live is not None
        return SessionEnded(client_id=name, was_connected=was_connected, purged=purged, subscriptions=subscriptions, will=will)

    def _disconnect(self, command: SessionCommand) -> NoReturn:
        name = command.arguments["client_id"]
        self._find(name, None)
        raise CommandError(Refusal.NOT_CONNECTED, f"client {name!r} is not connected; its session is kept")

    def _find(self, name: str, live: ConnectedClient | None) -> Session | None:
        """The record of the session, which is there.

        Raises:
            CommandError: there is no such session of a local client.
        """
        takes = name in {connection_of_session(session.name) for session in self._sessions}
        if name and (is_remote(name) or takes or self._lanes.belongs_to_a_bridge(name)):
            shown = connection_of_session(name) or name
            text = (
                f"{shown!r} is a bridge's lane, whose session is at its remote and no local client's; see bascule queue list CONFIG"
            )
            raise CommandError(Refusal.NOT_A_CLIENT, text)
        session = self._sessions.get(name)
        if live is None and (session is None or not session.queue):
            over = "; one has ended, and its Will waits to be published" if session is not None and session.lasting else ""
            raise CommandError(
                Refusal.NO_SUCH_SESSION, f"there is no session of a client {name!r}{over}; see bascule session list CONFIG"
            )
        return session


def _expires_ms(session: Session) -> int | None:
    if session.connected is not None or session.expiry_s == SESSION_NEVER_EXPIRES_S:
        return None
    return session.since_ms + session.expiry_s * 1000


def _live(command: SessionCommand) -> Iterator[ConnectedClient]:
    """The clients that the Listener has told of."""
    return (told if isinstance(told, ConnectedClient) else of_values(ConnectedClient, told) for told in command.live)


def _subscription(topic_filter: str, options: int, identifier: int) -> Subscription:
    return Subscription(filter=topic_filter, **options_of(options, 0)._asdict() | {"identifier": identifier or None})


def _whole(will: Will, session: Session) -> WholeWill:
    """The Will of ``session``, with the beginning of its payload."""
    topic, flags, payload, properties, delay_s = will
    return WholeWill(
        topic=topic.decode(errors="replace"),
        qos=flags & QOS_MASK,
        retain=bool(flags & RETAIN),
        size=len(payload),
        properties_size=len(properties),
        delay_s=delay_s,
        due_ms=session.will_due_ms if session.connected is None else None,
        payload=payload[:SHOWN_PAYLOAD_BYTES],
        properties=properties,
    )


def _label(name: str) -> str:
    return name if len(name) <= LABEL_MAX else name[:LABEL_MAX] + "..."
