"""Operators' commands on local clients' sessions: ls, show, will, end, disconnect. Each looks at, or changes, a page at most.

The Listener comes first: it adds what it knows of those that are connected (``live``), and for an end or a disconnect it has closed
the connection. State that outlives a connection is known here. Arguments and results are maps of msgpack types; times are UTC
milliseconds, None where there is none.

ls {after?, count?, like?, user?, connected?} -> {sessions: [row, ...], next}: in the order of the client identifiers, from the one
behind ``after`` on; ``next`` is the ``after`` of the next page, None after the last. like: a glob on the client identifier.
show {client_id, from?} -> row and {filters: [...], next, will, queue}: its subscriptions from number ``from`` on,
and of its Will the topic and the sizes.
will {client_id} -> {will}: the same of its Will, with its properties and the begin of its payload; None if it has none.
end {client_id, drops_will?} -> {client_id, was_connected, purged, subscriptions, will}: will: published, dropped or none.
disconnect {client_id}: comes here where nobody is connected under that identifier, to be refused.

A session that ends with its connection is there as long as its client is connected. The rest of one that has ended, a Will that is
not out yet, is no session.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from fnmatch import translate
from typing import Any

from storage.store.commands import CommandError
from storage.store.event_log import EventLog
from storage.store.lanes import Lanes
from storage.store.local_sessions import LocalSessions
from storage.store.session_rows import Session, Sessions, Will, is_remote
from wire.frames.batch import QOS_MASK, RETAIN
from wire.frames.names import connection_of_session
from wire.frames.supervision import SessionCommand
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.routing.subscriber import options_of

PAGE_SESSIONS = 500
PAGE_BYTES = 256 << 10
SCANNED_SESSIONS = 1000  # of a page, those that are not in it included
SCANNED_CHARACTERS = 32_768  # of their identifiers
FILTERS_PER_PAGE = 500
SHOWN_PAYLOAD_BYTES = 200
LABEL_MAX = 100  # of a client identifier in an event
_ROW_BYTES = 300  # of a row without its texts, about

Row = dict[str, Any]


class SessionCommands:
    """Carries out one command at a time."""

    def __init__(self, sessions: Sessions, local_sessions: LocalSessions, lanes: Lanes, events: EventLog) -> None:
        self._sessions = sessions
        self._local_sessions = local_sessions
        self._lanes = lanes
        self._events = events
        self._names: list[str] = []  # in order, as the first page of a list has found them

    def carry_out(self, command: SessionCommand, wall_ms: int) -> dict[str, Any]:
        """The result of ``command``; what it changed goes with the open write.

        Raises:
            CommandError: it is refused, and nothing has changed here.
        """
        match command.verb:
            case "ls":
                return self._list(command)
            case "show":
                return self._show(command)
            case "will":
                return self._whole_will(command)
            case "end":
                return self._end(command, wall_ms)
            case "disconnect":
                return self._disconnect(command)
        raise CommandError("unknown_command", f"there is no {command.verb!r}")

    # --- ls ---

    def _list(self, command: SessionCommand) -> dict[str, Any]:
        arguments = command.arguments
        after, connected, user = arguments.get("after") or "", arguments.get("connected"), arguments.get("user")
        count = min(arguments.get("count") or PAGE_SESSIONS, PAGE_SESSIONS)
        like = re.compile(translate(arguments["like"])) if arguments.get("like") is not None else None
        live = {row["client_id"]: row for row in command.live}
        names, cut = self._next_names(after, command.until, live)
        rows: list[Row] = []
        size_bytes = 0
        for name in names:
            if len(rows) >= count or size_bytes >= PAGE_BYTES:
                return {"sessions": rows, "next": after}
            after = name
            if (like is not None and not like.match(name)) or connected not in (None, name in live):
                continue
            row = self._row(name, live.get(name))
            if row is not None and user in (None, row["user"]):
                rows.append(row)
                size_bytes += len(name.encode()) + _ROW_BYTES
        return {"sessions": rows, "next": cut}

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

    def _row(self, name: str, live: Row | None) -> Row | None:
        """The session in one line, for an operator; None if there is none."""
        session = self._sessions.get(name)
        lane = self._lanes.all.get(session.queue) if session is not None and session.queue else None
        if session is None or lane is None:
            return None if live is None else {**live, "expires_ms": None, "damaged": False, "will": bool(live["will"])}
        known = {
            "client_id": name,
            "user": session.user,
            "connected": live is not None,
            "address": None,
            "level": None,
            "since_ms": session.since_ms if session.connected is None else None,
            "expiry_s": None if session.expiry_s == SESSION_NEVER_EXPIRES_S else session.expiry_s,
            "expires_ms": None if live is not None else _expires_ms(session),
            "lasting": True,
            "subscriptions": len(session.subscriptions),
            "depth": lane.queue.depth,
            "bytes": lane.queue.size_bytes,
            "in_flight": lane.queue.maybe_sent(lane.queue.sent.below),
            "received": len(session.received),
            "will": session.will is not None,
            "damaged": lane.is_stopped,
        }
        if live is not None:
            known |= {key: live[key] for key in ("address", "level", "since_ms", "in_flight", "received", "keep_alive_s")}
            known["user"] = session.user if session.user is not None else live["user"]
        return known

    # --- show ---

    def _show(self, command: SessionCommand) -> dict[str, Any]:
        name = command.arguments["client_id"]
        live = command.live[0] if command.live else None
        session = self._find(name, live)
        row = self._row(name, live)
        assert row is not None
        start = command.arguments.get("from") or 0
        if session is not None and session.queue:
            every = [(topic_filter, *options) for topic_filter, options in session.subscriptions.items()]
        else:
            every = list(live["filters"]) if live is not None else []
        filters = []
        size_bytes = 0
        for topic_filter, options, identifier in every[start : start + FILTERS_PER_PAGE]:
            filters.append(_filter_map(topic_filter, options, identifier))
            size_bytes += len(topic_filter) + 100
            if size_bytes >= PAGE_BYTES:
                break
        following = start + len(filters)
        row.pop("filters", None)
        return {
            **row,
            "queue": session.queue if session is not None else "",
            "filters": filters,
            "next": following if following < len(every) else None,
            "will": None if session is None or session.will is None else _will_map(session.will, session),
        }

    def _whole_will(self, command: SessionCommand) -> dict[str, Any]:
        session = self._find(command.arguments["client_id"], command.live[0] if command.live else None)
        if session is None or session.will is None:
            return {"will": None}
        _, _, payload, properties, _ = session.will
        content = {"payload": payload[:SHOWN_PAYLOAD_BYTES], "properties": properties}
        return {"will": {**_will_map(session.will, session), **content}}

    # --- end, disconnect ---

    def _end(self, command: SessionCommand, wall_ms: int) -> dict[str, Any]:
        name, drops_will = command.arguments["client_id"], bool(command.arguments.get("drops_will"))
        live = command.live[0] if command.live else None
        session = self._find(name, live)
        had_will = (session is not None and session.will is not None) or (live is not None and bool(live["will"]))
        result = {
            "client_id": name,
            "was_connected": live is not None,
            "purged": live["depth"] if live is not None else 0,
            "subscriptions": live["subscriptions"] if live is not None else 0,
            "will": "none" if not had_will else "dropped" if drops_will else "published",
        }
        user = live["user"] if live is not None else None
        if session is not None and session.queue:
            user = session.user or user
            result["subscriptions"] = len(session.subscriptions)
            result["purged"] = self._local_sessions.end(session, wall_ms, drops_will=drops_will)
        details = {"client_id": _label(name), "user": user or "", "subscriptions": result["subscriptions"], "will": result["will"]}
        self._events.note(wall_ms, "session.ended", actor="operator", count=result["purged"], reason="operator", **details)
        return result

    def _disconnect(self, command: SessionCommand) -> dict[str, Any]:
        name = command.arguments["client_id"]
        self._find(name, None)
        raise CommandError("not_connected", f"client {name!r} is not connected; its session is kept")

    def _find(self, name: str, live: Row | None) -> Session | None:
        """The record of the session, which is there.

        Raises:
            CommandError: there is no such session of a local client.
        """
        takes = name in {connection_of_session(session.name) for session in self._sessions}
        if name and (is_remote(name) or takes or self._lanes.belongs_to_a_bridge(name)):
            shown = connection_of_session(name) or name
            text = (
                f"{shown!r} is a bridge's lane, whose session is at its remote and no local client's; see bascule queue ls CONFIG"
            )
            raise CommandError("not_a_client", text)
        session = self._sessions.get(name)
        if live is None and (session is None or not session.queue):
            over = "; one has ended, and its Will waits to be published" if session is not None and session.lasting else ""
            raise CommandError("no_such_session", f"there is no session of a client {name!r}{over}; see bascule session ls CONFIG")
        return session


def _expires_ms(session: Session) -> int | None:
    if session.connected is not None or session.expiry_s == SESSION_NEVER_EXPIRES_S:
        return None
    return session.since_ms + session.expiry_s * 1000


def _filter_map(topic_filter: str, options: int, identifier: int) -> dict[str, Any]:
    return {"filter": topic_filter, **options_of(options, identifier)._asdict(), "identifier": identifier or None}


def _will_map(will: Will, session: Session) -> dict[str, Any]:
    topic, flags, payload, properties, delay_s = will
    return {
        "topic": topic,
        "qos": flags & QOS_MASK,
        "retain": bool(flags & RETAIN),
        "size": len(payload),
        "properties_size": len(properties),
        "delay_s": delay_s,
        "due_ms": session.will_due_ms if session.connected is None else None,
    }


def _label(name: str) -> str:
    return name if len(name) <= LABEL_MAX else name[:LABEL_MAX] + "..."
