"""What a running node says of itself: its status and its last events, as findings with their cures. Pure but for ``ask``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from supervisor.control.client import ControlClient
from supervisor.doctor.findings import Finding, fail, ok, warn
from supervisor.link_cures import cure_of
from supervisor.terminal.cluster_text import SILENT_S, base, lasting, leader, log_state, own_part
from supervisor.terminal.lacking import lacking
from supervisor.units import counted, write_time
from wire.errors import BasculeError

EVENTS_LOOKED_AT = 500
_CLOCK_S = 5.0  # a jump that is worth a word
_FULL = 0.99
_FLAPS = 3  # so many ends of a link are worth a word
_ORDERLY = ("paused", "stopped", "lane opened anew", "reconnect was asked for")

Status = dict[str, Any]


def ask(config: Path) -> Iterator[Finding]:
    """Ask the node of the file ``config``, which runs, and say what is wrong with it."""
    try:
        with ControlClient.of_config(config) as client:
            status, events = client.status(), _last_events(client)
    except BasculeError as error:
        yield fail("node", f"runs and does not answer: {error.message}", "see its log; stop it with SIGTERM and start it again")
        return
    yield from examine_status(status)
    yield from examine_events(events)


def _last_events(client: ControlClient) -> list[dict[str, Any]]:
    try:
        until = client.events(0, 1)["until"]
        return client.all_events(max(0, until - EVENTS_LOOKED_AT))
    except BasculeError:  # it keeps none
        return []


def examine_status(status: Status) -> Iterator[Finding]:
    """Everything that ``status`` shows and that somebody should know."""
    for part in (_cluster, _disk, _processes, _listener, _bridges, _loops, _orphans, _http, _telemetry, _control, _snapshots):
        yield from part(status)


# --- the node ---


def _disk(status: Status) -> Iterator[Finding]:
    store = status["store"]
    state, error = store.get("state", "running"), store.get("error", "")
    if state == "disk_full":
        yield fail("store", error, "make room on the disk of node.data_dir; the node then goes on by itself")
    elif state == "disk_error":
        yield fail("store", error, "see what is wrong with the disk: dmesg, smartctl, ulimit -n")
    elif state == "store_gone":
        found, _, cure = error.partition(". ")
        yield fail("store", found, cure)
    elif state == "log_away":
        yield fail("store", error, "see that a majority of the NATS servers runs and is reached; the node then goes on by itself")
    elif state == "disk_low":
        found = f"intake is stopped: {store.get('disk_free_bytes')} bytes are free"
        yield fail("store", found, "make room on the disk of node.data_dir, or lower limits.min_free_disk")
    if store.get("damaged_files"):
        found = f"damaged files are kept aside: {store['damaged_files']}"
        yield warn("store", found, "look for the cause (dmesg, memtest); remove them when nobody wants to look at them any more")


def _cluster(status: Status) -> Iterator[Finding]:
    figures = status["replication"]
    if not figures:
        return
    about = f"cluster {figures['stream']}"
    yield ok(about, f"{leader(figures)}; this node, {figures['member']}, is a {figures['role']}: {own_part(figures)}")
    if figures["log"] != "ready":
        cure = "see what bascule doctor CONFIG says of the servers, and their logs; it goes on by itself"
        yield fail(about, f"the log is {log_state(figures)}", cure)
    if why := base(figures):
        yield warn(
            about, why, "nothing, if the leader runs: it gives its store; bascule cluster status CONFIG shows how far this is"
        )
    for member, row in figures.get("members", {}).items():
        if row["silent_s"] > SILENT_S and member != figures["member"]:
            cure = f"start it, or bascule cluster forget CONFIG {member} if it does not come back"
            yield warn(about, f"the member {member} has said nothing for {lasting(row['silent_s'])}", cure)


def _processes(status: Status) -> Iterator[Finding]:
    for row in status["processes"]:
        name, cause, state = row["name"], row["last_cause"], row["state"]
        if state == "damaged":
            yield fail(name, f"its files are damaged: {cause}", "restore a backup, or purge the queue; the log names the files")
        elif state == "misconfigured":
            yield fail(name, cause or "its configuration does not hold", "mend the file; bascule check CONFIG names the line")
        elif cause and cause != status["store"].get("error"):
            cure = "stop that process, or take another port" if "taken" in cause or "in use" in cause else _LIVES[_kind(name)]
            say = warn if state == "ready" else fail
            yield say(name, f"{cause}; started again {row['restarts']} times" if row["restarts"] else cause, cure)


_LIVES = {
    "store": "the last log lines of the store say why; dmesg tells of the out-of-memory killer; status has the ledgers",
    "other": "its last log lines say why; dmesg tells of the out-of-memory killer",
}


def _kind(name: str) -> str:
    return "store" if name == "store" else "other"


def _listener(status: Status) -> Iterator[Finding]:
    listener = status["listener"]
    if listener.get("error") and not any(listener["error"] in row["last_cause"] for row in status["processes"]):
        yield fail("listener", listener["error"], "stop that process, or take another port")
    if listener.get("pauses"):
        found = f"it let nobody in {listener['pauses']} times: {listener['paused_for']}"
        yield warn(
            "listener", found, "raise the limit of open files (LimitNOFILE= of the service), or lower clients.connections_max"
        )
    for limit, count in listener.get("limited", {}).items():
        if count:
            yield warn(
                "listener", f"times that clients.{limit} has refused: {count}", f"raise clients.{limit}, or see who connects"
            )
    if listener.get("reserved_publishes"):
        found = f"messages and Wills of clients for topics below $SYS/, not taken: {listener['reserved_publishes']}"
        yield warn("listener", found, "the log says whose (publish.reserved); have them publish elsewhere, or not at all")
    access = listener.get("access", {})
    for key, what, cure in _ACCESS:
        if access.get(key):
            yield warn("access", f"{what}: {access[key]}", cure)
    if listener.get("handshakes_failed"):
        cure = "see the log (client.transport_failed) for who it was; its ca_file must have the authority of tls.cert_file"
        yield warn("listener", f"clients that did not get through TLS or WebSocket: {listener['handshakes_failed']}", cure)


_ACCESS = (
    (
        "logins_failed",
        "logins with a wrong user or password",
        "the log says who (login.refused); bascule passwd FILE USER adds or changes one",
    ),
    ("addresses_blocked", "addresses blocked for wrong logins", "wait for access.login_limits.block, when the client is mended"),
    ("users_blocked", "users blocked for wrong logins from many addresses", "the log says who (user.blocked)"),
    (
        "publishes_forbidden",
        "messages not taken because the ACL forbids them",
        "the log says who and where (publish.forbidden); see the ACL",
    ),
    (
        "subscriptions_forbidden",
        "subscriptions refused by the ACL",
        "the log says which (subscription.forbidden); see the ACL",
    ),
    (
        "takeovers_forbidden",
        "clients refused that had the client identifier of another user",
        "give each client a client identifier of its own",
    ),
)


# --- bridges ---


def _bridges(status: Status) -> Iterator[Finding]:
    for row in status["bridges"]:
        about = f"bridge {row['name']}:{row['lane']}"
        findings = [*_link(row, about), *_queue(row, about), *_remote(row, about)]
        yield from findings
        if not findings:
            yield ok(about, f"{row['state']}, {counted(row['depth'], 'message')} waiting")


def _link(row: Status, about: str) -> Iterator[Finding]:
    if row["paused_since_ms"] is not None:
        waits = f"; {counted(row['depth'], 'message')} waiting" if row["depth"] else ""
        found = f"paused since {write_time(row['paused_since_ms'])}{waits}"
        yield warn(about, found, f"bascule bridge resume CONFIG {row['name']}, when it may go on")
    elif row["state"] in ("damaged", "misconfigured"):
        yield fail(
            about,
            row["reason"] or row["state"],
            f"the log of the node says what is wrong; bascule queue purge CONFIG {row['name']} gives it up",
        )
    elif row["state"] != "connected" and row["reason"]:
        reason = row["last_error"] or row["reason"]  # while it tries again, what the last attempt failed on
        yield fail(about, f"{row['state']}: {reason}", row["cure"])
    elif row["last_error"]:
        yield warn(about, f"the last connection ended: {row['last_error']}", row["cure"])
    if note := row["link"].get("note"):
        link = row["link"]
        works = link.get("session_expiry_s") is not None or link.get("first_address", {}).get("address")
        say = warn if works and not link.get("suspects") else fail
        yield say(about, note, cure_of(note))


def _queue(row: Status, about: str) -> Iterator[Finding]:
    if row["full"] is not None and row["full"] >= _FULL:
        yield fail(
            about, f"its queue is full: {counted(row['depth'], 'message')}", "let the link come up, or raise limits of the bridge"
        )
    if row["refused"]:
        found = f"refused for want of room: {counted(row['refused'], 'message')}"
        yield warn(about, found, "their publishers were told; raise limits of the bridge, or take drop-oldest for limits.overflow")
    if row["held_back"]:
        found = f"waiting for room at their publishers, which are MQTT 3.1.1: {counted(row['held_back'], 'message')}"
        yield warn(about, found, "raise limits of the bridge, or take drop-oldest for limits.overflow")
    for reason, count in row["dropped"].items():
        if reason != "purged":
            yield warn(
                about, f"{counted(count, 'message')} dropped: {reason}", _DROPPED.get(reason, "bascule events CONFIG says when")
            )
    if row["ledger_closes"] is False:
        yield fail(about, "its ledger does not add up", "keep the log and a snapshot, and tell us")
    for rule in row["former_rules"]:
        found = f"messages wait of rule {rule['rule']}, which is not in the file any more or says something else now"
        yield warn(
            about, found, f"nothing, if they are to go to {rule['destination']}; else bascule queue purge CONFIG {row['name']}"
        )


_DROPPED = {
    "overflow": "raise limits of the bridge, or let the link come up sooner",
    "too_large": "the remote takes no larger packets: raise its limit, or publish smaller ones",
    "damaged": "look for the cause (dmesg, smartctl); bascule events CONFIG says when",
    "restart": "publish at QoS 1: messages of QoS 0 are in memory only",
    "qos0_memory": "publish at QoS 1, or let the link come up sooner",
}


def _remote(row: Status, about: str) -> Iterator[Finding]:
    held = row["dead_letters"].get("held", 0)
    if held:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row["dead_letters"]["reasons"].items())
        name = row["name"]
        cure = f"bascule queue peek CONFIG {name} --dead shows them; mend what is refused, then bascule queue replay CONFIG {name}"
        yield warn(about, f"{held} dead letters: {reasons}", cure)
    if lowered := row["exchange"].get("acknowledged_as_qos1"):
        found = (
            f"the remote has no QoS 2: it acknowledged {counted(lowered, 'message')} of QoS 2 as QoS 1, and gets QoS 1 from then on"
        )
        yield warn(about, found, "max_qos: 1 in its local_subscriptions says so for good; such a message may arrive twice")
    if released := row["exchange"].get("released_unanswered"):
        found = f"the remote closes on PUBRELs of what it has completed: {counted(released, 'message')} taken as delivered"
        yield warn(about, found, "it should answer PUBCOMP: bring it up to date, or write max_qos: 1 in local_subscriptions")
    for words, key in lacking(row):
        if lowered and key == "local_subscriptions[].max_qos: 1":
            continue  # said above
        again = f"bascule bridge pause CONFIG {row['name']} and bascule bridge resume CONFIG {row['name']}"
        cure = f"write {key}; or let the remote take it, and have it tried again: {again}"
        yield warn(about, f"the {words}", cure)
    remote = row["remote_subscriptions"]
    for topic_filter, code in remote.get("refused", {}).items():
        yield fail(about, f"the remote refuses the subscription {topic_filter} ({code})", "allow it at the broker, or remove it")
    if remote.get("looped"):
        found = f"left out because they came back from the remote they had gone to: {counted(remote['looped'], 'message')}"
        yield warn(about, found, "let local_subscriptions and remote_subscriptions take different topics")


def _loops(status: Status) -> Iterator[Finding]:
    if loops := status["distributor"].get("loops"):
        cure = "look for brokers that are bridged in a circle, or raise max_hops of the bridge if the way is that long"
        yield warn("loops", f"{counted(loops, 'message')} had crossed max_hops bridges, and went no further", cure)


def _orphans(status: Status) -> Iterator[Finding]:
    for row in status["unserved"]:
        found = f"{row['queue']} has {counted(row['depth'], 'message')} and is not configured any more"
        yield warn("queues", found, f"put its bridge back, or bascule queue purge CONFIG {row['queue'].split(':')[1]} --in-flight")


# --- who asks ---


def _http(status: Status) -> Iterator[Finding]:
    for why, count in status["http"].get("refused", {}).items():
        cure = "bascule token add FILE NAME makes a token; the old one may have been removed" if "token" in why else "see who asks"
        yield warn("http", f"requests refused, {why}: {count}", cure)


def _telemetry(status: Status) -> Iterator[Finding]:
    telemetry = status["telemetry"]
    if error := telemetry.get("error"):
        about = f"telemetry to {telemetry['endpoint']}"
        if telemetry["failing_s"] is None:
            yield warn(about, error, "see the collector's log for what it does not take, and why")
        else:
            yield fail(about, error, next((cure for words, cure in _COLLECTOR if words in error), _COLLECTOR_ELSE))


_COLLECTOR = (
    ("answered 401", "check telemetry.otlp.headers against what the collector lets in"),
    ("answered 403", "check telemetry.otlp.headers against what the collector lets in"),
    ("certificate is refused", "give the authority that signed the collector's certificate as telemetry.otlp.tls.ca_file"),
    ("Name or service", "check the host name in telemetry.otlp.endpoint, and the machine's resolver (getent hosts NAME)"),
    ("write that as endpoint", "write the place that it names as telemetry.otlp.endpoint"),
)
_COLLECTOR_ELSE = "check telemetry.otlp.endpoint, and that a collector takes OTLP over HTTP there: port 4318; 4317 is for gRPC"


def _control(status: Status) -> Iterator[Finding]:
    control = status["control"]
    if control["error"]:
        yield fail("control", control["error"], "take another address for control.bind, or stop who has it")
    for why, count in control["refused"].items():
        if count:
            yield warn("control", f"refused, {why.replace('_', ' ')}: {count}", "bascule keys add CONFIG NAME KEY lets a key in")


def _snapshots(status: Status) -> Iterator[Finding]:
    for key in ("failure", "ship_failure"):
        if failure := status["snapshots"].get(key):
            yield fail("snapshots", failure["message"], "make room, or mend the folder that is named")


# --- events ---


def examine_events(events: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """What the last events tell that status does not."""
    downs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["kind"] == "link.down" and event["reason"] not in _ORDERLY:
            downs.setdefault((event["bridge"], event["lane"]), []).append(event)
    for (bridge, lane), lost in downs.items():
        if len(lost) >= _FLAPS:
            found = (
                f"its link went down {len(lost)} times since {write_time(lost[0]['at_ms'])}, the last time: {lost[-1]['reason']}"
            )
            yield warn(f"bridge {bridge}:{lane}", found, cure_of(lost[-1]["reason"]))
    for event in events:
        if event["kind"] == "session.unknown" and event["reason"]:
            found = f"the remote had a session of it at {write_time(event['at_ms'])}, and this store had never begun one"
            cure = "see that this is the store that the node had (its disk is mounted), and that nobody else has its client_id"
            yield warn(f"bridge {event['bridge']}:{event['lane']}", found, cure)
    jumps = [event for event in events if event["kind"] == "clock.jumped" and abs(event["details"]["by_ms"]) >= _CLOCK_S * 1000]
    if jumps:
        last = jumps[-1]
        found = f"it was set by {last['details']['by_ms'] / 1000:+.0f} s at {write_time(last['at_ms'])}"
        yield warn("clock", found, "have it kept right: timedatectl set-ntp true; expiry and history go by it")
