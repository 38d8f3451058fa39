"""The servers of a replicated node's log: whether they are reached, keep it as they should, and let this node do its work."""

from __future__ import annotations

from collections.abc import Iterator

from storage.replication.survey import Survey, SurveyedServer, SurveyedStream
from supervisor.doctor.findings import Finding, fail, ok, warn
from supervisor.doctor.machine import write_bytes
from wire.config_settings import NodeSettings, ReplicationSettings
from wire.errors import BasculeError

VERSION_LEAST = (2, 12)
SYNC = (
    "the servers do not tell their clients whether they sync before they acknowledge. Where they do, what was acknowledged outlives"
    " every loss of power. Where they do not, which is how they come, it outlives the loss of a minority of them; when a majority"
    " loses power at a time, up to two minutes of it may be gone"
)


def examine_cluster(settings: NodeSettings) -> Iterator[Finding]:
    """Ask the servers, if there are any; nothing is changed there, and it is no matter whether the node runs."""
    own = settings.replication
    if own is None:
        return
    from storage.replication.jetstream_log import survey

    try:
        found = survey(own)
    except (BasculeError, OSError) as error:
        yield fail("log", f"it cannot be asked: {error}", "mend the file that is named, or its permissions")
        return
    yield from examine_survey(own, found)


def examine_survey(own: ReplicationSettings, found: Survey) -> Iterator[Finding]:
    """All findings on what the servers of ``own`` have said."""
    reached = [server for server in found.servers if not server.error]
    for server in found.servers:
        yield _server(server, others=bool(reached))
    if not reached:
        return
    yield _replicas(own, reached, len(found.servers))
    if found.error:
        cure = "a majority of the servers must run, with JetStream; see their logs"
        yield fail("log", f"JetStream does not answer: {found.error}", cure)
    else:
        streams = {stream.name: stream for stream in found.streams}
        for name in (own.stream, f"{own.stream}-members"):
            yield from _stream(own, name, streams.get(name))
    yield _rights(own, found)
    yield warn("log", SYNC, "write jetstream { sync_interval: always } in the configuration of each, if it is not there")


def _server(server: SurveyedServer, *, others: bool) -> Finding:
    about = f"log server {server.url}"
    if server.error:
        if "authorization" in server.error.lower() or "authentication" in server.error.lower():
            return fail(about, server.error, "check user, password_file, token_file, credentials_file or nkey_file of replication")
        cure = "check replication.servers, that nats-server runs there, and what a firewall lets through"
        return warn(about, server.error, cure) if others else fail(about, server.error, cure)
    what = f"{server.name}, version {server.version}"
    if _version(server.version) < VERSION_LEAST:
        return fail(about, what, f"version {'.'.join(map(str, VERSION_LEAST))} or newer is needed: install one")
    if not server.jetstream:
        return fail(
            about, f"{what}, without JetStream", "write jetstream { store_dir: ..., sync_interval: always } in its configuration"
        )
    return ok(about, f"{what}, with JetStream")


def _version(text: str) -> tuple[int, ...]:
    parts = text.partition("-")[0].split(".")[:2]
    return tuple(int(part) for part in parts if part.isascii() and part.isdigit())


def _replicas(own: ReplicationSettings, reached: list[SurveyedServer], configured: int) -> Finding:
    """Whether as many servers as are to keep the log can be had, in one cluster; one that is away is told of elsewhere."""
    about = "log replicas"
    clusters = {server.cluster for server in reached}
    if len(clusters) > 1:
        found = f"the servers are of different clusters: {', '.join(sorted(name or 'none' for name in clusters))}"
        return fail(about, found, "name servers of one cluster in replication.servers")
    known = max(configured, *(server.known for server in reached))
    found = f"{own.replicas} are wanted, and {known} {'server is' if known == 1 else 'servers are'} known"
    if known < own.replicas:
        return fail(about, found, "run more servers with JetStream in one cluster, and name them in replication.servers")
    if own.replicas == 1:
        return warn(about, found, "with one, what was acknowledged is gone with that server: run three, and take replicas: 3")
    return ok(about, f"{found}; the log is there while {own.replicas // 2 + 1} of {own.replicas} work")


def _stream(own: ReplicationSettings, name: str, found: SurveyedStream | None) -> Iterator[Finding]:
    about = f"stream {name}"
    if found is None:
        yield ok(about, "is not there yet; the first member that starts makes it")
        return
    what = f"{found.replicas} replicas in {found.storage} storage, {found.messages} messages, {write_bytes(found.size_bytes)}"
    majority = found.replicas // 2 + 1
    if found.storage != "file":
        yield fail(about, what, "it must be kept in files: stop all members, remove it, and start them again")
    elif found.current < majority:
        yield fail(about, f"{what}; {found.current} can be used, and {majority} are needed", "start the servers that are away")
    elif found.replicas < own.replicas:
        yield warn(about, what, f"nats stream edit {name} --replicas {own.replicas}, since replication.replicas says so")
    elif found.current < found.replicas:
        yield warn(about, f"{what}; {found.current} can be used", "start the server that is away, or wait until it is level")
    else:
        yield ok(about, what)


def _rights(own: ReplicationSettings, found: Survey) -> Finding:
    if not found.forbidden:
        return ok("log rights", "the user may publish to the log and make what it needs")
    needed = f"{own.stream}.log, {own.stream}-members.*, $JS.API.>, $JS.FC.> and $O.{own.stream}-base.>"
    return fail("log rights", "; ".join(found.forbidden), f"allow the user to publish to {needed}, and to subscribe to _INBOX.>")
