"""Words of a running node: its status and its last events, as findings with their cures. Pure but for ``ask``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from actors.bridge.dial_policy import HOURS_OVER, IDLE
from supervisor.control.client import ControlClient
from supervisor.doctor.findings import Finding, fail, ok, warn
from supervisor.doctor.rules import examine_circles
from supervisor.terminal.cluster_text import SILENT_S, base, lasting, leader, log_state, own_part
from supervisor.terminal.queue_room import fullness
from supervisor.terminal.remote_limitations import lacking
from supervisor.units import counted, write_time
from wire.config_settings import NodeSettings
from wire.errors import BasculeError
from wire.frames.names import HTTP_SERVER, LISTENER, STORE, LaneLabel
from wire.frames.placement import SITE
from wire.mqtt.reason_codes import ReasonCode
from wire.status.answers import Event
from wire.status.bridges import BridgeLane
from wire.status.client_figures import AccessFigures, ListenerFigures
from wire.status.event_kinds import EventKind
from wire.status.link_faults import LinkFault, cure_of
from wire.status.loss_reasons import INTENDED, cure_of_loss
from wire.status.node_status import ControlFigures, HttpFigures, ProcessRow, Status, TelemetryFigures
from wire.status.replication_figures import ReplicationFigures
from wire.status.states import ChildState, CollectorFault, LinkState, StoreState
from wire.status.store import StoreFigures

EVENTS_LOOKED_AT = 500
_CLOCK_S = 5.0  # a jump that is worth a word
_FLAPS = 3  # so many ends of a link are worth a word
_UNSHARED = "remove shared from its rule: then the first lane subscribes to it alone"
_ORDERLY = ("paused", "stopped", "lane opened anew", IDLE, HOURS_OVER)


def ask(config: Path, settings: NodeSettings) -> Iterator[Finding]:
    """Ask the node of the file ``config``, which runs, and say what is wrong with it. settings: what the file says."""
    try:
        with ControlClient.of_config(config) as client:
            status, events = client.status(), _last_events(client)
    except BasculeError as error:
        yield fail("node", f"runs and does not answer: {error.message}", "see its log; stop it with SIGTERM and start it again")
        yield from examine_circles(settings)
        return
    yield from examine_status(status)
    yield from examine_circles(settings, spoken(status))
    yield from examine_events(events)


def _last_events(client: ControlClient) -> list[Event]:
    try:
        until = client.events(0, 1).until
        return client.all_events(max(0, until - EVENTS_LOOKED_AT))
    except BasculeError:  # it keeps none
        return []


def examine_status(status: Status) -> Iterator[Finding]:
    """Everything that ``status`` shows and that somebody should know."""
    if status.replication is not None:
        yield from _cluster(status.replication)
    if status.store is not None:
        yield from _disk(status.store)
    yield from _processes(status)
    if status.listener is not None:
        yield from _listener(status.listener, status.processes)
        yield from _access(status.listener.access)
    yield from _bridges(status.bridges)
    if status.distributor is not None and (loops := status.distributor.loops):
        cure = "look for brokers that are bridged in a circle, or raise max_hops of the bridge if the way is that long"
        yield warn("loops", f"{counted(loops, 'message')} had crossed max_hops bridges, and went no further", cure)
    for row in status.unserved:
        found = f"{row.queue} has {counted(row.depth, 'message')} and is not configured any more"
        yield warn("queues", found, f"put its bridge back, or bascule queue purge CONFIG {row.queue.split(':')[1]} --in-flight")
    if status.http is not None:
        yield from _http(status.http)
    if status.telemetry is not None and status.telemetry.error:
        yield from _telemetry(status.telemetry)
    if status.control is not None:
        yield from _control(status.control)
    if status.snapshots is not None:
        for failure in (status.snapshots.failure, status.snapshots.ship_failure):
            if failure is not None:
                yield fail("snapshots", failure.message, "make room, or mend the folder that is named")


def spoken(status: Status) -> dict[str, tuple[int, ...]]:
    """The protocol levels by which bridges speak to their remotes, where that is known."""
    levels: dict[str, tuple[int, ...]] = {}
    for row in status.bridges:
        if row.link is not None and row.link.protocol:
            levels[row.name] = tuple({*levels.get(row.name, ()), row.link.protocol})
    return levels


# --- the node ---


def _disk(store: StoreFigures) -> Iterator[Finding]:
    state = StoreState(store.state or StoreState.RUNNING)
    if state is StoreState.STORE_GONE:
        found, _, cure = store.error.partition(". ")
        yield fail("store", found, cure)
    elif state.cure:
        yield fail("store", store.error or f"intake is stopped: {store.disk_free_bytes} bytes are free", state.cure)
    if store.damaged_files:
        found = f"damaged files are kept aside: {store.damaged_files}"
        yield warn("store", found, "look for the cause (dmesg, memtest); remove them when nobody wants to look at them any more")


def _cluster(figures: ReplicationFigures) -> Iterator[Finding]:
    about = f"cluster {figures.stream}"
    yield ok(about, f"{leader(figures)}; this node, {figures.member}, is a {figures.role}: {own_part(figures)}")
    if figures.log != "ready":
        cure = "see what bascule doctor CONFIG says of the servers, and their logs; it goes on by itself"
        yield fail(about, f"the log is {log_state(figures)}", cure)
    if why := base(figures):
        yield warn(about, why, "nothing, if the leader runs: it gives its store; bascule cluster show CONFIG shows how far this is")
    for member, row in figures.members.items():
        if row.silent_s > SILENT_S and member != figures.member:
            cure = f"start it, or bascule cluster remove CONFIG {member} if it does not come back"
            yield warn(about, f"the member {member} has said nothing for {lasting(row.silent_s)}", cure)


def _processes(status: Status) -> Iterator[Finding]:
    at_ports = ((LISTENER, status.listener), (HTTP_SERVER, status.http))
    not_listening = {actor for actor, figures in at_ports if figures is not None and figures.error}
    for row in status.processes:
        name, cause, state = row.name, row.last_cause, row.state
        if state == ChildState.DAMAGED:
            yield fail(name, f"its files are damaged: {cause}", "restore a backup, or purge the queue; the log names the files")
        elif state == ChildState.MISCONFIGURED:
            yield fail(name, cause or "its configuration is not valid", "mend the file; bascule check CONFIG names the line")
        elif cause and cause != (status.store.error if status.store is not None else ""):
            cure = (
                _OTHER_PORT
                if state == ChildState.STARTING and not_listening.intersection(row.actors)
                else _LIVES.get(name, _LIVES_ELSE)
            )
            say = warn if state == ChildState.READY else fail
            yield say(name, f"{cause}; started again {row.restarts} times" if row.restarts else cause, cure)


_LIVES = {
    STORE: "the last log lines of the store say why; dmesg tells of the out-of-memory killer; status has the ledgers",
    SITE: "the last log lines of site say why, and which actor; dmesg tells of the out-of-memory killer; "
    "isolated: true of a bridge keeps it from the others",
}
_OTHER_PORT = "stop that process, or take another port"
_LIVES_ELSE = "its last log lines say why; dmesg tells of the out-of-memory killer"


def _listener(listener: ListenerFigures, processes: Sequence[ProcessRow]) -> Iterator[Finding]:
    if listener.error and not any(LISTENER in row.actors and row.state == ChildState.STARTING for row in processes):
        yield fail("listener", listener.error, _OTHER_PORT)
    if listener.pauses:
        found = f"it let nobody in {listener.pauses} times: {listener.paused_for}"
        cure = "raise the limit of open files (LimitNOFILE= of the service), or lower clients.connections_max"
        yield warn("listener", found, cure)
    for limit, count in listener.limited.items():
        if count:
            found = f"times that clients.{limit} has refused: {count}"
            yield warn("listener", found, f"raise clients.{limit}, or see who connects")
    if listener.reserved_publishes:
        found = f"messages and Wills of clients for topics below $SYS/, not taken: {listener.reserved_publishes}"
        yield warn("listener", found, "the log says whose (publish.reserved); have them publish elsewhere, or not at all")
    if listener.handshakes_failed:
        cure = "see the log (client.transport_failed) for who it was; its ca_file must have the authority of tls.cert_file"
        yield warn("listener", f"clients that did not get through TLS or WebSocket: {listener.handshakes_failed}", cure)


def _access(access: AccessFigures) -> Iterator[Finding]:
    told = (
        (
            access.logins_failed,
            "logins with a wrong user or password",
            "the log says who (login.refused); bascule user add FILE USER adds or changes one",
        ),
        (
            access.addresses_blocked,
            "addresses blocked for wrong logins",
            "wait for access.login_limits.block, when the client is mended",
        ),
        (access.users_blocked, "users blocked for wrong logins from many addresses", "the log says who (user.blocked)"),
        (
            access.publishes_forbidden,
            "messages not taken because the ACL forbids them",
            "the log says who and where (publish.forbidden); see the ACL",
        ),
        (
            access.subscriptions_forbidden,
            "subscriptions refused by the ACL",
            "the log says which (subscription.forbidden); see the ACL",
        ),
        (
            access.takeovers_forbidden,
            "clients refused that had the client identifier of another user",
            "give each client a client identifier of its own",
        ),
    )
    for count, what, cure in told:
        if count:
            yield warn("access", f"{what}: {count}", cure)


# --- bridges ---


def _bridges(rows: Sequence[BridgeLane]) -> Iterator[Finding]:
    for row in rows:
        about = f"bridge {row.name}:{row.lane}"
        findings = [*_link(row, about), *_queue(row, about), *_remote(row, about)]
        yield from findings
        if not findings:
            yield ok(about, f"{row.state}, {counted(row.depth or 0, 'message')} waiting")


def _link(row: BridgeLane, about: str) -> Iterator[Finding]:
    if row.paused_since_ms is not None:
        waits = f"; {counted(row.depth, 'message')} waiting" if row.depth else ""
        found = f"paused since {write_time(row.paused_since_ms)}{waits}"
        yield warn(about, found, f"bascule bridge resume CONFIG {row.name}, when it may go on")
    elif row.state in (ChildState.DAMAGED, ChildState.MISCONFIGURED):
        yield fail(
            about,
            row.reason or row.state,
            f"the log of the node says what is wrong; bascule queue purge CONFIG {row.name} gives it up",
        )
    elif row.state == LinkState.CLOSED:
        return
    elif row.state != LinkState.CONNECTED and row.reason:
        reason = row.last_error or row.reason  # while it tries again, what the last attempt failed on
        yield fail(about, f"{row.state}: {reason}", row.cure)
    elif row.last_error:
        yield warn(about, f"the last connection ended: {row.last_error}", row.cure)
    link = row.link
    if link is not None and link.note:
        works = link.session_expiry_s is not None or link.first_address is not None or link.note_fault == LinkFault.LOGIN_ENDS
        say = warn if works and not link.suspects else fail
        yield say(about, link.note, cure_of(link.note_fault))


def _queue(row: BridgeLane, about: str) -> Iterator[Finding]:
    if (room := row.room) is not None and room.is_nearly_full:
        yield (fail if room.is_full else warn)(about, f"its queue is {fullness(room)}", room.cure)
    if row.refused:
        found = f"refused for want of room: {counted(row.refused, 'message')}"
        yield warn(about, found, "their publishers were told; raise limits of the bridge, or take drop-oldest for limits.overflow")
    for reason, count in row.dropped.items():
        if reason not in INTENDED:
            yield warn(about, f"{counted(count, 'message')} dropped: {reason}", cure_of_loss(reason))
    if row.ledger_closes is False:
        yield fail(about, "its ledger does not add up", "keep the log and a snapshot, and tell us")
    for rule in row.former_rules:
        found = f"messages wait of rule {rule.rule}, which is not in the file any more or says something else now"
        yield warn(about, found, f"nothing, if they are to go to {rule.destination}; else bascule queue purge CONFIG {row.name}")


def _remote(row: BridgeLane, about: str) -> Iterator[Finding]:
    letters, exchange, remote = row.dead_letters, row.exchange, row.remote_subscriptions
    if letters is not None and letters.held:
        reasons = ", ".join(f"{reason} {count}" for reason, count in letters.reasons.items())
        name = row.name
        cure = f"bascule queue peek CONFIG {name} --dead shows them; mend what is refused, then bascule queue replay CONFIG {name}"
        yield warn(about, f"{letters.held} dead letters: {reasons}", cure)
    if lowered := 0 if exchange is None else exchange.acknowledged_as_qos1:
        found = (
            f"the remote has no QoS 2: it acknowledged {counted(lowered, 'message')} of QoS 2 as QoS 1, and gets QoS 1 from then on"
        )
        yield warn(about, found, "max_qos: 1 in its local_subscriptions says so for good; such a message may arrive twice")
    if released := 0 if exchange is None else exchange.released_unanswered:
        found = f"the remote closes on PUBRELs of what it has completed: {counted(released, 'message')} taken as delivered"
        yield warn(about, found, "it should answer PUBCOMP: bring it up to date, or write max_qos: 1 in local_subscriptions")
    for words, key in lacking(row):
        if lowered and key == "local_subscriptions[].max_qos: 1":
            continue  # said above
        again = f"bascule bridge pause CONFIG {row.name} and bascule bridge resume CONFIG {row.name}"
        cure = f"write {key}; or let the remote take it, and have it tried again: {again}"
        yield warn(about, f"the {words}", cure)
    if remote is None:
        return
    for topic_filter, code in remote.refused.items():
        cure = (
            _UNSHARED if int(code, 16) == ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED else "allow it at the broker, or remove it"
        )
        yield fail(about, f"the remote refuses the subscription {topic_filter} ({code})", cure)
    if remote.looped:
        found = f"left out because they came back from the remote they had gone to: {counted(remote.looped, 'message')}"
        yield warn(about, found, "let local_subscriptions and remote_subscriptions take different topics")


# --- who asks ---


_MAKE_TOKEN = "bascule token add FILE NAME makes a token; the old one may have been removed"


def _http(http: HttpFigures) -> Iterator[Finding]:
    for why, count in http.refused.items():
        cure = _MAKE_TOKEN if why in ("no_token", "wrong_token") else "see who asks"
        yield warn("http", f"requests refused, {why}: {count}", cure)


def _telemetry(telemetry: TelemetryFigures) -> Iterator[Finding]:
    about, error = f"telemetry to {telemetry.endpoint}", telemetry.error
    if telemetry.failing_s is None:
        yield warn(about, error, "see the collector's log for what it does not take, and why")
    else:
        yield fail(
            about, error, next((fault.cure for fault in CollectorFault if fault == telemetry.fault), CollectorFault.OTHER.cure)
        )


def _control(control: ControlFigures) -> Iterator[Finding]:
    if control.error:
        yield fail("control", control.error, "take another address for control.bind, or stop who has it")
    for why, count in control.refused.items():
        if count:
            yield warn("control", f"refused, {why.replace('_', ' ')}: {count}", "bascule key add CONFIG NAME KEY lets a key in")


# --- events ---


def examine_events(events: Sequence[Event]) -> Iterator[Finding]:
    """Facts from the last events that status does not have."""
    downs: dict[tuple[str, LaneLabel], list[Event]] = {}
    for event in events:
        if event.kind == EventKind.LINK_DOWN and event.reason not in _ORDERLY:
            downs.setdefault((event.bridge, event.lane), []).append(event)
    for (bridge, lane), lost in downs.items():
        if len(lost) >= _FLAPS:
            found = f"its link went down {len(lost)} times since {write_time(lost[0].at_ms)}, the last time: {lost[-1].reason}"
            yield warn(f"bridge {bridge}:{lane}", found, cure_of(lost[-1].details.get("fault", "")))
    for event in events:
        if event.kind == EventKind.SESSION_UNKNOWN and event.reason:
            found = f"the remote had a session of it at {write_time(event.at_ms)}, and this store had never begun one"
            cure = "see that this is the store that the node had (its disk is mounted), and that nobody else has its client_id"
            yield warn(f"bridge {event.bridge}:{event.lane}", found, cure)
    jumps = [event for event in events if event.kind == EventKind.CLOCK_JUMPED and abs(event.details["by_ms"]) >= _CLOCK_S * 1000]
    if jumps:
        last = jumps[-1]
        found = f"it was set by {last.details['by_ms'] / 1000:+.0f} s at {write_time(last.at_ms)}"
        yield warn("clock", found, "have it kept right: timedatectl set-ntp true; expiry and history go by it")
