"""The REST API: each route is one command of the control socket, and its answer is that command's result.

Routes that only look are GET; others need the header that ``front.py`` asks for. Which role a route needs is that of its command.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import BaseModel

from supervisor.control.roles import needed
from supervisor.http import models
from supervisor.http.answers import JsonAnswer
from supervisor.http.callers import Callers
from supervisor.http.node_calls import NodeCalls
from supervisor.terminal.message_text import Messages, message_json, message_of
from supervisor.terminal.session_view import will_json
from wire.figure import of_map, to_map
from wire.status import answers
from wire.status.node_status import Status

PREFIX = "/api/v1"
PAGE_MAX = 500

Bridge = Annotated[str, Path(description="The bridge's name.", examples=["cloud"])]
Member = Annotated[str, Path(description="The member's name in its cluster.", examples=["b"])]
ClientId = Annotated[str, Path(description="The client identifier; a slash in it may stand as it is.", examples=["pump-7"])]
Number = Annotated[int, Path(ge=0, description="The answer to the order.")]
From = Annotated[int, Query(alias="from", ge=0, description="Begin with this one.")]
Plan = Annotated[bool, Query(description="Only say what it would change.")]
Yes = Annotated[bool, Query(description="Also what is destructive.")]
Lane = Annotated[str | None, Query(description="Which lane, by its number or class; needed where `dead` is not true.")]
Dead = Annotated[bool, Query(description="The dead letters instead.")]
Held = Annotated[bool, Query(description="What rules hold for the lane instead.")]
Left = Annotated[bool, Query(description="What has left the lane instead, as `retention` of the bridge keeps it.")]
Since = Annotated[int | None, Query(ge=0, description="With `left`: accepted from then on, as Unix time in milliseconds.")]
Until = Annotated[int | None, Query(ge=0, description="With `left`: accepted before then.")]
Count = Annotated[int, Query(ge=1, le=PAGE_MAX, description="The most of a page.")]

_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": models.Error, "description": "An argument is wrong."},
    401: {"model": models.Error, "description": "No token, or one that is not known."},
    403: {"model": models.Error, "description": "The role may not, or the request may come from another web site."},
    404: {"model": models.Error, "description": "The named thing is not there."},
    409: {"model": models.Error, "description": "Not as things are now; nothing was changed."},
    422: {"model": models.Error, "description": "The configuration would not hold; nothing was changed."},
    429: {"model": models.Error, "description": "Too many wrong tokens came from this address."},
    503: {"model": models.Error, "description": "The node is busy, starting or stopping, or its disk refuses; try again."},
}


def flag(value: bool) -> str | None:
    """A switch as the control socket takes it."""
    return "yes" if value else None


class RestApi:
    """Makes the routes."""

    def __init__(self, calls: NodeCalls, callers: Callers) -> None:
        self.router = APIRouter(prefix=PREFIX, responses=_ERRORS)
        self._calls = calls
        self._callers = callers
        self._node()
        self._bridges()
        self._queues()
        self._messages()
        self._sessions()
        self._snapshots()
        self._changes()
        self._topics()
        self._cluster()

    def _route(
        self, method: str, path: str, command: str, answer: Any, tag: str, *, status: int = 200
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the route of ``command``; the first line of its docstring is its summary."""

        def declare(endpoint: Callable[..., Any]) -> Callable[..., Any]:
            summary, _, rest = (endpoint.__doc__ or "").strip().partition("\n")
            self.router.add_api_route(
                path,
                endpoint,
                methods=[method],
                status_code=status,
                response_model=answer if issubclass(answer, BaseModel) else models.model_of(answer),
                tags=[tag],
                summary=summary.rstrip("."),
                description=f"{' '.join(rest.split())}\n\nRole: {needed(command)}.".strip(),
                operation_id=endpoint.__name__,
                dependencies=[self._callers.may(command)],
            )
            return endpoint

        return declare

    async def _ask(self, command: str, arguments: Mapping[str, object] | None = None, *, status: int = 200) -> JsonAnswer:
        return JsonAnswer(await self._answer(command, arguments or {}), status)

    async def _answer(self, command: str, arguments: Mapping[str, object]) -> Any:
        """The result of ``command``; arguments that are None are left out."""
        given = {name: str(value) for name, value in arguments.items() if value is not None}
        return await self._calls.ask(lambda node: node.call(command, given))

    def _node(self) -> None:
        @self._route("GET", "/caller", "ping", models.Caller, "node")
        async def caller(request: Request) -> JsonAnswer:
            """The caller, by the token, and its role."""
            return JsonAnswer({"name": request.state.caller.name, "role": request.state.caller.role})

        @self._route("GET", "/status", "status", Status, "node")
        async def status() -> JsonAnswer:
            """How the node is: processes, bridges, queues, clients.

            It has every process report fresh figures, at most five times a second: who asks more often waits for that.
            """
            return JsonAnswer(to_map(await self._calls.status()))

        @self._route("GET", "/events", "events", answers.Events, "node")
        async def events(start: From = 0, count: Count = PAGE_MAX) -> JsonAnswer:
            """A page of events, the oldest first.

            409 `not_kept` where the configuration keeps none.
            """
            return await self._ask("events", {"from": start, "count": count})

        @self._route("GET", "/history", "history", answers.History, "node")
        async def history(
            since: Annotated[
                str | None, Query(description="How long ago, or Unix time in milliseconds; without it, `24h`.")
            ] = None,
            until: Annotated[str | None, Query(description="Likewise; without it, until now.")] = None,
            step: Annotated[str | None, Query(description="How long a period is at least, such as `1h`.")] = None,
            bridge: Annotated[str | None, Query(description="Of this bridge only.")] = None,
        ) -> JsonAnswer:
            """What the node was, period by period: depth, rates, latency, links, and the node itself.

            The answer is bounded: the more is asked for, the longer its periods are. 409 `not_kept` where the configuration keeps
            none.
            """
            return await self._ask("history", {"since": since, "until": until, "step": step, "bridge": bridge})

        @self._route("POST", "/stop", "stop", answers.Stopping, "node", status=202)
        async def stop() -> JsonAnswer:
            """Stop the node in good order.

            It still runs when this is answered; `/health/ready` says how long it takes at most.
            """
            return await self._ask("stop", status=202)

    def _bridges(self) -> None:
        for verb, text in (
            ("pause", "End its connection until it is resumed, restarts of the node included."),
            ("resume", "Let it connect again."),
            ("restart", "Replace its processes."),
        ):
            self._bridge(verb, text)

        @self._route("GET", "/bridges/{bridge}", "bridge.show", answers.BridgeFile, "bridges")
        async def show_bridge(bridge: Bridge) -> JsonAnswer:
            """The file of a bridge, if it can be changed by `PUT`, or why it cannot."""
            return await self._ask("bridge.show", {"name": bridge})

        @self._route("PUT", "/bridges/{bridge}", "bridge.put", answers.ReloadPlan, "bridges")
        async def put_bridge(
            bridge: Bridge, what: Annotated[models.BridgeText, Body()], plan: Plan = False, yes: Yes = False
        ) -> JsonAnswer:
            """Make a bridge, or change it: write its file in `bridges.d`, and apply that as a reload does.

            The answer says whether it was applied, or why not. 422 where the content does not hold, with the places.
            """
            whole = {"bridges": [{"name": bridge, **(what.bridge or {})}]}
            text = what.text if what.text is not None else json.dumps(whole, indent=1)
            return await self._change_bridge("bridge.put", {"name": bridge, "text": text, "plan": flag(plan), "yes": flag(yes)})

        @self._route("DELETE", "/bridges/{bridge}", "bridge.remove", answers.ReloadPlan, "bridges")
        async def remove_bridge(bridge: Bridge, plan: Plan = False, yes: Yes = False) -> JsonAnswer:
            """Remove the file of a bridge in `bridges.d`, and apply that as a reload does; what waits in its queue stays."""
            return await self._change_bridge("bridge.remove", {"name": bridge, "plan": flag(plan), "yes": flag(yes)})

    async def _change_bridge(self, command: str, arguments: Mapping[str, object]) -> JsonAnswer:
        plan = of_map(answers.ReloadPlan, await self._answer(command, arguments))
        if plan.problems:
            return JsonAnswer({"error": {"kind": "invalid", "message": "\n".join(plan.problems)}}, 422)
        return JsonAnswer(to_map(plan))

    def _bridge(self, verb: str, text: str) -> None:
        async def order(bridge: Bridge) -> JsonAnswer:
            return await self._ask(f"bridge.{verb}", {"bridge": bridge})

        order.__name__, order.__doc__ = f"{verb}_bridge", text
        self._route("POST", f"/bridges/{{bridge}}/{verb}", f"bridge.{verb}", answers.BridgeOrdered, "bridges")(order)

    def _messages(self) -> None:
        @self._route("GET", "/queues/{bridge}/messages", "queue.peek", Messages, "queues")
        async def peek_messages(
            bridge: Bridge,
            lane: Lane = None,
            dead: Dead = False,
            held: Held = False,
            left: Left = False,
            since_ms: Since = None,
            until_ms: Until = None,
            whole: Annotated[bool, Query(description="Whole payloads.")] = False,
            start: From = 0,
            count: Count = 50,
        ) -> JsonAnswer:
            """Look at messages without touching them, a page at most."""
            flags = {"dead": flag(dead), "held": flag(held), "left": flag(left)}
            arguments = {"bridge": bridge, "lane": lane, **flags, "since_ms": since_ms, "until_ms": until_ms}
            return await self._look("queue.export" if whole else "queue.peek", {**arguments, "from": start, "count": count})

        @self._route("GET", "/queues/{bridge}/outline", "queue.outline", Messages, "queues")
        async def outline_messages(
            bridge: Bridge, lane: Lane = None, dead: Dead = False, held: Held = False, start: From = 0, count: Count = 50
        ) -> JsonAnswer:
            """Look at messages without payloads and properties, a page at most."""
            arguments = {"bridge": bridge, "lane": lane, "dead": flag(dead), "held": flag(held), "from": start, "count": count}
            return await self._look("queue.outline", arguments)

    async def _look(self, command: str, arguments: Mapping[str, object]) -> JsonAnswer:
        page = of_map(answers.HeldMessages, await self._answer(command, arguments))
        now_ms, whole = time.time_ns() // 1_000_000, command == "queue.export"
        rows = [message_json(message_of(page.queue, row, now_ms, whole=whole)) for row in page.messages]
        if command == "queue.outline":
            rows = [{name: value for name, value in row.items() if name not in ("payload", "properties")} for row in rows]
        return JsonAnswer({"queue": page.queue, "messages": rows, "next": page.next, "tail": page.tail, "damaged": page.damaged})

    def _queues(self) -> None:
        @self._route("GET", "/queues", "queue.list", answers.Queues, "queues")
        async def list_queues(bridge: Annotated[str | None, Query(description="Of this bridge only.")] = None) -> JsonAnswer:
            """List queues and dead-letter queues, those of bridges that are not configured any more included."""
            return await self._ask("queue.list", {"bridge": bridge})

        @self._route("POST", "/queues/{bridge}/purge", "queue.purge", answers.Purged, "queues")
        async def purge_queue(bridge: Bridge, what: Annotated[models.Purge, Body()]) -> JsonAnswer:
            """Remove what waits and was never sent, or the dead letters. It cannot be undone."""
            switches = {"dead": flag(what.dead), "in_flight": flag(what.in_flight)}
            about = {"bridge": bridge, "lane": what.lane, "reason": what.reason, "from": what.start}
            return await self._ask("queue.purge", {**about, **switches})

        @self._route("POST", "/queues/{bridge}/replay", "queue.replay", answers.Replayed, "queues")
        async def replay_dead_letters(bridge: Bridge, what: Annotated[models.Replay, Body()]) -> JsonAnswer:
            """Put dead letters back at the end of the queue, a page at most; they count as accepted anew."""
            return await self._ask("queue.replay", {"bridge": bridge, **what.model_dump(by_alias=True)})

        @self._route("POST", "/queues/{bridge}/resend", "queue.resend", answers.Resent, "queues")
        async def resend_messages(bridge: Bridge, what: Annotated[models.Resend, Body()]) -> JsonAnswer:
            """Send messages again that have left a lane, a page at most; the same run goes on where it stands."""
            return await self._ask("queue.resend", {"bridge": bridge, **what.model_dump(by_alias=True)})

        @self._route("POST", "/queues/{bridge}/import", "queue.import", answers.Imported, "queues")
        async def import_messages(bridge: Bridge, what: Annotated[models.Import, Body()]) -> JsonAnswer:
            """Put exported messages at the end of the queue, a page at most; the same run goes on where it stands."""
            return await self._ask("queue.import", {"bridge": bridge, **what.model_dump(by_alias=True)})

    def _sessions(self) -> None:
        @self._route("GET", "/sessions", "session.list", answers.Sessions, "sessions")
        async def list_sessions(
            after: Annotated[str | None, Query(description="Behind this client identifier.")] = None,
            count: Count = 100,
            like: Annotated[str | None, Query(description="Of this client identifier, a glob: 256 bytes, 16 stars.")] = None,
            user: Annotated[str | None, Query(description="Of this user only.")] = None,
            connected: Annotated[bool | None, Query(description="Only sessions whose client is connected, or is not.")] = None,
        ) -> JsonAnswer:
            """List the sessions of local clients, a page at most."""
            state = None if connected is None else "yes" if connected else "no"
            arguments = {"after": after or None, "count": count, "like": like, "user": user, "connected": state}
            return await self._ask("session.list", arguments)

        @self._route("POST", "/sessions/{client_id:path}/disconnect", "session.disconnect", answers.Disconnected, "sessions")
        async def disconnect_client(client_id: ClientId) -> JsonAnswer:
            """Close the connection of a client; a session that lasts stays."""
            return await self._ask("session.disconnect", {"client_id": client_id})

        @self._route("GET", "/sessions/{client_id:path}", "session.show", answers.Session, "sessions")
        async def show_session(client_id: ClientId) -> JsonAnswer:
            """One session, with all its subscriptions; of its Will the topic and the sizes."""
            return JsonAnswer(to_map(await self._calls.ask(lambda node: node.session(client_id))))

        @self._route("GET", "/wills/{client_id:path}", "session.will", models.Will, "sessions")
        async def show_will(client_id: ClientId) -> JsonAnswer:
            """The Will of a session; null if it has none."""
            return JsonAnswer({"will": will_json(await self._calls.ask(lambda node: node.will(client_id)))})

        @self._route("DELETE", "/sessions/{client_id:path}", "session.end", answers.SessionEnded, "sessions")
        async def end_session(
            client_id: ClientId, drops_will: Annotated[bool, Query(description="Do not publish its Will.")] = False
        ) -> JsonAnswer:
            """End a session for good, with its subscriptions and its queue."""
            return await self._ask("session.end", {"client_id": client_id, "drops_will": flag(drops_will)})

    def _snapshots(self) -> None:
        @self._route("POST", "/snapshots", "snapshot", answers.SnapshotBegun, "snapshots", status=202)
        async def make_snapshot() -> JsonAnswer:
            """Begin to make a snapshot of the store."""
            return await self._ask("snapshot", status=202)

        @self._route("GET", "/snapshots/{number}", "snapshot.result", answers.SnapshotState, "snapshots")
        async def snapshot_result(number: Number) -> JsonAnswer:
            """The state of a snapshot."""
            return await self._ask("snapshot.result", {"number": number})

    def _changes(self) -> None:
        @self._route("GET", "/reload/plan", "reload.plan", answers.ReloadPlan, "configuration")
        async def plan_reload() -> JsonAnswer:
            """The changes that a reload of the configuration file would make."""
            return await self._ask("reload.plan")

        @self._route("POST", "/reload", "reload", answers.ReloadPlan, "configuration")
        async def reload_configuration(what: Annotated[models.Reload, Body()]) -> JsonAnswer:
            """Read the configuration file again, and apply what differs.

            The answer says whether it was applied, or why not. Processes may still be on their way: `configuration.pending` of the
            status has them.
            """
            return await self._ask("reload", {"yes": "yes" if what.yes else "no"})

        @self._route("GET", "/access", "access", answers.Access, "configuration")
        async def show_access() -> JsonAnswer:
            """Who may do what: users, access control lists, holders of tokens. No password, token or hash is told."""
            return await self._ask("access")

    def _topics(self) -> None:
        @self._route("GET", "/topics", "topics", answers.Topics, "topics")
        async def busiest_topics(
            count: Annotated[int, Query(ge=1, le=1000, description="The most that are told.")] = 100,
        ) -> JsonAnswer:
            """The topics with most messages, counted only while somebody asks.

            The first question begins to count; ten seconds after the last one that ends.
            """
            return await self._ask("topics", {"count": count})

        @self._route("POST", "/traces", "trace", answers.TraceBegun, "topics", status=202)
        async def begin_trace(what: Annotated[models.Trace, Body()]) -> JsonAnswer:
            """Follow the next message of a topic filter."""
            return await self._ask("trace", {"topic": what.topic, "timeout_s": what.timeout_s}, status=202)

        @self._route("GET", "/traces/{number}", "trace.result", answers.TraceSteps, "topics")
        async def trace_result(number: Number) -> JsonAnswer:
            """The steps of the message that is followed, with their times."""
            return await self._ask("trace.result", {"number": number})

    def _cluster(self) -> None:
        @self._route("POST", "/cluster/promote", "cluster.promote", answers.Promoted, "cluster", status=202)
        async def promote_node() -> JsonAnswer:
            """Have this node lead: whoever does steps down for it as soon as it can."""
            return await self._ask("cluster.promote", status=202)

        @self._route("POST", "/cluster/step-down", "cluster.step_down", answers.SteppedDown, "cluster", status=202)
        async def step_down(what: Annotated[models.StepDown, Body()]) -> JsonAnswer:
            """Let another member lead, at once."""
            return await self._ask("cluster.step_down", {"to": what.to or None}, status=202)

        @self._route("DELETE", "/cluster/members/{member}", "cluster.remove", answers.MemberRemoved, "cluster")
        async def remove_member(member: Member) -> JsonAnswer:
            """Remove a member that does not come back; if it does, it is one again."""
            return await self._ask("cluster.remove", {"member": member})


def routes(calls: NodeCalls, callers: Callers) -> APIRouter:
    """All below ``/api/v1``."""
    return RestApi(calls, callers).router
