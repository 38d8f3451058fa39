"""``ControlClient``: a node's control socket as a Python object. The command line, the HTTP server and the demo ask by it.

    with ControlClient.of_config("bascule.yaml") as node:
        if not node.status().ready:
            print(node.all_events()[-10:])
        node.pause("cloud")

It needs the node's owner on the node's machine; ``ControlClient.remote`` needs a key that the node lets in. Any number of threads
may share one client: each call has a connection to itself, which the next one uses again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from actors.process.request_sockets import CurveKeys, NoAnswer, RequestConnections, Why, ipc_endpoint
from supervisor.control.control_socket import SOCKET_NAME, ControlError, NotRunning, encode_request, parse_answer
from supervisor.control.store_commands import ANSWER_TIMEOUT_S, is_queue_command
from supervisor.running_node import run_dir_of
from wire.figure import joined, of_map
from wire.frames.names import LaneLabel
from wire.status.answers import (
    Access,
    BridgeFile,
    BridgeOrdered,
    Disconnected,
    Event,
    Events,
    HeldMessages,
    History,
    Imported,
    MemberRemoved,
    Ping,
    Promoted,
    Purged,
    Queues,
    ReloadPlan,
    Replayed,
    Resent,
    Session,
    SessionEnded,
    SessionPage,
    SessionRow,
    Sessions,
    SnapshotBegun,
    SnapshotState,
    SteppedDown,
    Stopping,
    Topics,
    TraceBegun,
    TraceSteps,
    WholeWill,
    Will,
)
from wire.status.node_status import Status
from wire.status.refusals import Refusal

Answer = TypeVar("Answer")

TIMEOUT_S = 5.0
STORE_TIMEOUT_S = ANSWER_TIMEOUT_S + 5.0  # longer than the supervisor waits for the store
RELOAD_TIMEOUT_S = 60.0  # the node reads its files in a process of its own
_READS_FILES = ("reload", "reload.plan", "bridge.show", "bridge.put", "bridge.remove", "access")
PAGE = 500


class ControlClient:
    """A node that is asked and commanded. Answers are those of ``wire/status/answers.py``.

    Every method raises:
        NotRunning: nobody answers; the order of a method that changes something may have been carried out, if its message says so.
        ControlError: the node refuses, and has changed nothing; ``kind`` says why, in a word.
    """

    def __init__(
        self, endpoint: str, keys: CurveKeys | None = None, *, timeout_s: float = TIMEOUT_S, path: Path | None = None
    ) -> None:
        """The node at the ZeroMQ address ``endpoint``; the class methods below say who should be meant.

        timeout_s: how long one answer may take. Commands that read or change queues have at least ``STORE_TIMEOUT_S``.
        path: the file of the socket, if it is one.
        """
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._path = path
        self._connections = RequestConnections(endpoint, keys)

    @classmethod
    def of_run_dir(cls, run_dir: Path | str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """The node on this machine whose sockets are in ``run_dir``."""
        path = Path(run_dir) / SOCKET_NAME
        return cls(ipc_endpoint(path) if path.parent.is_dir() else f"ipc://{path}", timeout_s=timeout_s, path=path)

    @classmethod
    def of_data_dir(cls, data_dir: Path | str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """The node on this machine whose queues are in ``data_dir``."""
        return cls.of_run_dir(run_dir_of(str(Path(data_dir).absolute())), timeout_s=timeout_s)

    @classmethod
    def of_config(cls, config: Path | str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """The node on this machine of the configuration file ``config``.

        Raises:
            ConfigError: the file does not say where the node is.
        """
        from supervisor.config.node_place import place_of

        return cls.of_run_dir(place_of(config).run_dir, timeout_s=timeout_s)

    @classmethod
    def remote(cls, address: str, *, public: str, secret: str, server: str, timeout_s: float = TIMEOUT_S) -> Self:
        """The node that listens at ``address``, such as ``tcp://edge-1:7000``.

        public, secret: our pair of keys, as ``bascule key make`` makes it. server: the node's public key.
        """
        return cls(address, CurveKeys(public=public, secret=secret, server=server), timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. No call may be under way."""
        self._connections.close()

    def call(self, command: str, arguments: dict[str, str] | None = None, *, timeout_s: float | None = None) -> Any:
        """Have the node carry out ``command``, and return its result; the methods below do so by name."""
        if timeout_s is None:
            least_s = STORE_TIMEOUT_S if is_queue_command(command) else RELOAD_TIMEOUT_S if command in _READS_FILES else 0.0
            timeout_s = max(self._timeout_s, least_s)
        if self._path is not None and not self._path.exists():
            raise NotRunning("the node does not run: it has no control socket", path=str(self._path))
        try:
            answer = self._connections.ask(encode_request(1, command, arguments or {}), timeout_s)
        except NoAnswer as error:
            raise self._no_answer(error.why, timeout_s) from error
        return parse_answer(answer)

    # --- the node ---

    def ping(self) -> Ping:
        """Whether it answers, and is ready."""
        return self._ask(Ping, "ping")

    def status(self) -> Status:
        """How the node is, with fresh figures of all its processes."""
        return self._ask(Status, "status")

    def metrics(self) -> bytes:
        """Metrics from ``status``, in Prometheus's text format 0.0.4."""
        from supervisor.metrics.exposition import render

        return render(self.status())

    def stop(self) -> Stopping:
        """Have the node stop in good order; It still runs when this returns."""
        return self._ask(Stopping, "stop")

    def plan_reload(self) -> ReloadPlan:
        """The answer of ``reload``, with nothing applied."""
        return self._ask(ReloadPlan, "reload.plan")

    def reload(self, *, yes: bool = False) -> ReloadPlan:
        """Have the node read its configuration again, and apply what has changed; yes: also what gives something up.

        Processes may still be on their way: ``status`` says ``configuration.pending``.
        """
        return self._ask(ReloadPlan, "reload", _given(yes=yes))

    def access(self) -> Access:
        """Who may do what: users, rules, holders of tokens; never a secret, nor a hash."""
        return self._ask(Access, "access")

    def show_bridge(self, name: str) -> BridgeFile:
        """The file of the bridge ``name``, as ``put_bridge`` writes it; or why that cannot change it."""
        return self._ask(BridgeFile, "bridge.show", {"name": name})

    def put_bridge(self, name: str, text: str, *, plan: bool = False, yes: bool = False) -> ReloadPlan:
        """Have the node write ``text`` as the file of the bridge ``name``, and apply that as ``reload`` does.

        plan: nothing is written or applied.
        """
        return self._ask(ReloadPlan, "bridge.put", _given(name=name, text=text, plan=plan, yes=yes))

    def remove_bridge(self, name: str, *, plan: bool = False, yes: bool = False) -> ReloadPlan:
        """Have the node remove the file of the bridge ``name``, as ``put_bridge`` writes it. What waits in its queue stays."""
        return self._ask(ReloadPlan, "bridge.remove", _given(name=name, plan=plan, yes=yes))

    def events(self, start: int = 0, count: int = PAGE) -> Events:
        """At most ``count`` events from number ``start`` on."""
        return self._ask(Events, "events", {"from": str(start), "count": str(count)})

    def all_events(self, start: int = 0) -> list[Event]:
        """All events from number ``start`` on that there are now, in the order in which the store got them."""
        return list(self.each_event(start))

    def each_event(self, start: int = 0) -> Iterator[Event]:
        """``all_events``, page by page."""
        until: int | None = None
        while until is None or start < until:
            page = self.events(start)
            until = page.until if until is None else until  # what happens meanwhile is for the next time
            start = page.next
            yield from page.events
            if not page.events:
                return

    def history(
        self, *, since: str | None = None, until: str | None = None, step: str | None = None, bridge: str | None = None
    ) -> History:
        """What the node was from ``since`` until ``until``, such as ``24h`` ago or a Unix time in milliseconds.

        step: how long a period is at least, such as ``1h``. bridge: of this one only.
        """
        return self._ask(History, "history", _given(since=since, until=until, step=step, bridge=bridge))

    # --- bridges ---

    def pause(self, bridge: str) -> BridgeOrdered:
        """Let ``bridge`` end its connection until it is resumed, restarts of the node included."""
        return self._ask(BridgeOrdered, "bridge.pause", {"bridge": bridge})

    def resume(self, bridge: str) -> BridgeOrdered:
        """Let ``bridge`` connect again."""
        return self._ask(BridgeOrdered, "bridge.resume", {"bridge": bridge})

    def restart(self, bridge: str) -> BridgeOrdered:
        """Replace the processes of ``bridge``."""
        return self._ask(BridgeOrdered, "bridge.restart", {"bridge": bridge})

    # --- queues and dead letters ---

    def queues(self, bridge: str | None = None) -> Queues:
        """Queues and dead letters (of ``bridge``), those that are not configured any more included."""
        return self._ask(Queues, "queue.list", _given(bridge=bridge))

    def peek(self, bridge: str, **place: Any) -> HeldMessages:
        """Messages of a queue, or dead letters, with the begin of each payload; ``place`` is as ``outline`` takes it."""
        return self._ask(HeldMessages, "queue.peek", _place(bridge, **place))

    def export(self, bridge: str, **place: Any) -> HeldMessages:
        """``peek`` with whole payloads."""
        return self._ask(HeldMessages, "queue.export", _place(bridge, **place))

    def outline(self, bridge: str, **place: Any) -> HeldMessages:
        """At most ``count`` messages of one ``lane`` from sequence ``start`` on, without payloads and properties.

        held: instead those that rules hold for the lane, by their numbers. left: those that have left it, as its retention keeps
        them, accepted in ``[since_ms, until_ms)``. dead: the dead letters of the bridge.
        """
        return self._ask(HeldMessages, "queue.outline", _place(bridge, **place))

    def purge(
        self,
        bridge: str,
        *,
        lane: LaneLabel | None = None,
        dead: bool = False,
        in_flight: bool = False,
        reason: str | None = None,
        start: int | None = None,
    ) -> Purged:
        """Remove what waits and was never sent, or the dead letters; in_flight: what may have been sent, too.

        reason: of the dead letters those that died of it, a page of them from ``start`` on. It cannot be undone.
        """
        wanted = _given(bridge=bridge, lane=lane, dead=dead, reason=reason, **{"from": start}, in_flight=in_flight)
        return self._ask(Purged, "queue.purge", wanted)

    def purge_died_of(self, bridge: str, reason: str) -> int:
        """Remove the dead letters that died of ``reason``, page by page; how many they were."""
        gone, start = 0, 0
        while True:
            page = self.purge(bridge, dead=True, reason=reason, start=start)
            gone += page.purged
            if page.next is None:
                return gone
            start = page.next

    def replay(self, bridge: str, *, reason: str | None = None, start: int = 0, count: int = PAGE) -> Replayed:
        """Put at most ``count`` dead letters from ``start`` on back at the end of the queue: those that died of ``reason``."""
        return self._ask(Replayed, "queue.replay", _given(bridge=bridge, reason=reason, **{"from": start}, count=count))

    def resend(
        self,
        bridge: str,
        run: str,
        *,
        lane: LaneLabel = 0,
        into: str | None = None,
        start: int | None = None,
        below: int | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        count: int = PAGE,
    ) -> Resent:
        """Have at most ``count`` messages that have left a lane of ``bridge`` go once more, into the queues of ``into`` (itself).

        run: its name; the first call of a run says what it is about, the others have it go on. start, below: sequences. since_ms,
        until_ms: when they were accepted, UTC.
        """
        bounds = _given(**{"from": start}, below=below, since_ms=since_ms, until_ms=until_ms)
        return self._ask(Resent, "queue.resend", _given(bridge=bridge, run=run, lane=lane, into=into, count=count) | bounds)

    def import_messages(self, bridge: str, run: str, lines: Sequence[str], *, start: int, below: int) -> Imported:
        """Have ``lines``, of a file of ``below`` messages those from ``start`` on, go to the end of the queue of ``bridge``.

        run: its name; nothing is taken of ``lines`` where it stands elsewhere than at ``start``.
        """
        wanted = _given(bridge=bridge, run=run, **{"from": start}, below=below, messages="\n".join(lines))
        return self._ask(Imported, "queue.import", wanted)

    # --- sessions of local clients ---

    def sessions(
        self,
        *,
        after: str | None = None,
        count: int | None = None,
        like: str | None = None,
        user: str | None = None,
        connected: bool | None = None,
    ) -> Sessions:
        """Sessions by client identifier, behind ``after``.

        like: those whose identifier matches this glob. user: of this user. connected: whose client is connected, or is not.
        """
        wanted = _given(after=after, count=count, like=like, user=user)
        if connected is not None:
            wanted["connected"] = "yes" if connected else "no"
        return self._ask(Sessions, "session.list", wanted)

    def each_session(
        self, *, like: str | None = None, user: str | None = None, connected: bool | None = None
    ) -> Iterator[SessionRow]:
        """All of ``sessions``, page by page."""
        after: str | None = None
        while True:
            page = self.sessions(after=after, like=like, user=user, connected=connected)
            yield from page.sessions
            after = page.next
            if after is None:
                return

    def session(self, client_id: str) -> Session:
        """One session, with all its subscriptions; of its Will the topic and the sizes."""
        found = page = self._ask(SessionPage, "session.show", {"client_id": client_id})
        filters = page.filters
        while page.next is not None:
            page = self._ask(SessionPage, "session.show", {"client_id": client_id, "from": str(page.next)})
            filters = (*filters, *page.filters)
        return joined(Session, found, filters=filters)

    def will(self, client_id: str) -> WholeWill | None:
        """All of the Will of a session, None if it has none."""
        return self._ask(Will, "session.will", {"client_id": client_id}).will

    def end_session(self, client_id: str, *, drops_will: bool = False) -> SessionEnded:
        """End a session for good."""
        return self._ask(SessionEnded, "session.end", _given(client_id=client_id, drops_will=drops_will))

    def disconnect(self, client_id: str) -> Disconnected:
        """Close the connection of a client."""
        return self._ask(Disconnected, "session.disconnect", {"client_id": client_id})

    # --- what flows ---

    def trace(self, topic: str, *, timeout_s: int | None = None) -> TraceBegun:
        """Have the node follow the next message whose topic matches the filter ``topic``; ``number`` asks for what was seen.

        timeout_s: how long to wait for the message.
        """
        return self._ask(TraceBegun, "trace", _given(topic=topic, timeout_s=timeout_s))

    def trace_result(self, number: int) -> TraceSteps:
        """The state of the message, and its steps so far."""
        return self._ask(TraceSteps, "trace.result", {"number": str(number)})

    def topics(self, count: int | None = None) -> Topics:
        """How many messages went by each topic since counting began, which the first question has the node do.

        It ends ten seconds after the last question. count: of the busiest topics.
        """
        return self._ask(Topics, "topics", _given(count=count))

    # --- snapshots ---

    def snapshot(self) -> int:
        """Have the node begin to make a snapshot; the number by which ``snapshot_result`` knows it."""
        return self._ask(SnapshotBegun, "snapshot").number

    def snapshot_result(self, number: int) -> SnapshotState:
        """The state of a snapshot."""
        return self._ask(SnapshotState, "snapshot.result", {"number": str(number)})

    # --- the cluster ---

    def promote(self) -> Promoted:
        """Have the node lead: who leads now steps down for it as soon as it can."""
        return self._ask(Promoted, "cluster.promote")

    def step_down(self, to: str | None = None) -> SteppedDown:
        """Have the node, which leads, let another one do so: the member ``to``, or whichever is first."""
        return self._ask(SteppedDown, "cluster.step_down", _given(to=to))

    def remove_member(self, member: str) -> MemberRemoved:
        """Remove ``member``, which does not come back, from the cluster; if it does, it is one again."""
        return self._ask(MemberRemoved, "cluster.remove", {"member": member})

    # --- inside ---

    def _ask(self, kind: type[Answer], command: str, arguments: dict[str, str] | None = None) -> Answer:
        return of_map(kind, self.call(command, arguments))

    def _no_answer(self, why: Why, timeout_s: float) -> ControlError | NotRunning:
        where = {"path": str(self._path)} if self._path is not None else {"node": self._endpoint}
        match why:
            case Why.REFUSED:
                return ControlError(
                    Refusal.FORBIDDEN, f"{why.value}; its operator adds it there with bascule key add -c FILE NAME KEY"
                )
            case Why.AWAY:
                return NotRunning("the node does not run, or cannot be reached", **where)
            case Why.NO_HANDSHAKE:
                return NotRunning(why.value, **where)
            case Why.ENDED:
                return NotRunning("the node ended before it answered; an order may have been carried out or not", **where)
            case Why.LATE:
                return NotRunning(f"the node does not run, or did not answer within {timeout_s:g} s", **where)


def _place(
    bridge: str,
    *,
    lane: LaneLabel | None = None,
    dead: bool = False,
    held: bool = False,
    left: bool = False,
    since_ms: int | None = None,
    until_ms: int | None = None,
    start: int = 0,
    count: int = PAGE,
) -> dict[str, str]:
    times = {"since_ms": since_ms, "until_ms": until_ms}
    return _given(bridge=bridge, lane=lane, dead=dead, held=held, left=left, **times, **{"from": start}, count=count)


def _given(**arguments: str | int | bool | None) -> dict[str, str]:
    """Arguments as they are sent: those that say something."""
    texts: dict[str, str] = {}
    for name, value in arguments.items():
        if isinstance(value, bool):
            texts.update({name: "yes"} if value else {})
        elif value is not None:
            texts[name] = str(value)
    return texts


def call(run_dir: Path, command: str, arguments: dict[str, str] | None = None, *, timeout_s: float = TIMEOUT_S) -> Any:
    """Ask the node whose sockets are in ``run_dir`` just once.

    Raises:
        NotRunning: nobody answers.
        ControlError: the node refused.
    """
    with ControlClient.of_run_dir(run_dir) as node:
        return node.call(command, arguments, timeout_s=timeout_s)
