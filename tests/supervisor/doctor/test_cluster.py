"""The servers of a log, real ones and made-up ones: what is wrong is named with its cure, and nothing is changed there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from storage.replication.jetstream_log import JetStreamLog, survey
from storage.replication.survey import Survey, SurveyedServer, SurveyedStream
from supervisor.doctor.cluster import SYNC, examine_cluster, examine_survey
from supervisor.doctor.findings import FAIL, OK, WARN, Finding
from tests.supervisor.settings import node_settings
from tests.support.nats import NatsServer, NatsServers
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from wire.config_settings import ReplicationSettings

OWN = ReplicationSettings(servers=("nats://a:1", "nats://b:1", "nats://c:1"), stream="site", member="a")
SERVERS = tuple(SurveyedServer(url, "", url[7], "2.15.1", "x", True, 3) for url in OWN.servers)
STREAMS = tuple(SurveyedStream(name, "file", 3, 3, "a", 10, 1) for name in ("site", "site-members"))
WELL = Survey(SERVERS, "", STREAMS)


def findings(found: Survey, own: ReplicationSettings = OWN) -> list[Finding]:
    return [finding for finding in examine_survey(own, found) if finding.found != SYNC]


def test_all_is_well_but_that_nobody_tells_whether_servers_sync() -> None:
    assert {finding.verdict for finding in findings(WELL)} == {OK}
    (last,) = (finding for finding in examine_survey(OWN, WELL) if finding.verdict != OK)
    assert (last.verdict, last.found) == (WARN, SYNC)
    assert "sync_interval: always" in last.cure


@pytest.mark.parametrize(
    ("found", "verdict", "told", "cure"),
    [
        (replace(WELL, servers=(replace(SERVERS[0], error="refused"), *SERVERS[1:])), WARN, "refused", "firewall"),
        (Survey((replace(SERVERS[0], error="refused"),)), FAIL, "refused", "firewall"),
        (Survey((replace(SERVERS[0], error="nats: 'Authorization Violation'"),)), FAIL, "Authorization", "credentials_file"),
        (replace(WELL, servers=(replace(SERVERS[0], version="2.10.29"), *SERVERS[1:])), FAIL, "2.10.29", "2.12 or newer"),
        (replace(WELL, servers=(replace(SERVERS[0], jetstream=False), *SERVERS[1:])), FAIL, "without JetStream", "jetstream {"),
        (replace(WELL, servers=(replace(SERVERS[0], cluster="y"), *SERVERS[1:])), FAIL, "different clusters: x, y", "one cluster"),
        (replace(WELL, servers=(replace(SERVERS[0], known=0),)), FAIL, "3 are wanted, and 1 server is known", "run more servers"),
        (Survey(SERVERS, "nats: timeout"), FAIL, "JetStream does not answer: nats: timeout", "majority"),
        (replace(WELL, streams=(replace(STREAMS[0], storage="memory"), STREAMS[1])), FAIL, "memory storage", "in files"),
        (replace(WELL, streams=(replace(STREAMS[0], current=1), STREAMS[1])), FAIL, "1 can be used, and 2 are needed", "start"),
        (replace(WELL, streams=(replace(STREAMS[0], current=2), STREAMS[1])), WARN, "2 can be used", "start"),
        (replace(WELL, streams=(replace(STREAMS[0], replicas=1, current=1), STREAMS[1])), WARN, "1 replicas", "--replicas 3"),
        (replace(WELL, forbidden=("permissions violation",)), FAIL, "permissions violation", "site.log, site-members.*"),
    ],
)
def test_what_is_wrong_is_told_with_its_cure(found: Survey, verdict: str, told: str, cure: str) -> None:
    (finding,) = (finding for finding in findings(found) if finding.verdict != OK)

    assert (finding.verdict, told in finding.found, cure in finding.cure) == (verdict, True, True), finding


def test_one_replica_is_for_trying_out() -> None:
    streams = tuple(replace(stream, replicas=1, current=1) for stream in STREAMS)
    (finding,) = (each for each in findings(replace(WELL, streams=streams), replace(OWN, replicas=1)) if each.verdict != OK)
    assert (finding.verdict, "gone with that server" in finding.cure) == (WARN, True)


def test_a_node_that_is_of_no_cluster_is_asked_nothing(tmp_path: Path) -> None:
    assert list(examine_cluster(node_settings(tmp_path))) == []


def level(own: ReplicationSettings) -> Survey:
    """The findings once all replicas are level."""
    wait_until(lambda: all(one.current == 3 for one in survey(own).streams), 60.0, "all replicas are level")
    return survey(own)


@pytest.mark.process
def test_real_servers_say_how_they_are_and_are_left_as_they_were(tmp_path: Path) -> None:
    with NatsServers(tmp_path, 3) as servers:
        own = replace(OWN, servers=tuple(servers.urls))
        before = survey(own)
        assert [(server.error, server.jetstream, server.cluster) for server in before.servers] == [("", True, "local")] * 3
        assert {server.name for server in before.servers} == {"n0", "n1", "n2"}
        assert (before.error, before.streams, before.forbidden) == ("", (), ())
        assert {finding.verdict for finding in findings(before, own)} == {OK}
        assert survey(own).streams == (), "to be looked at makes no stream"

        log = JetStreamLog(own, "a")
        try:
            last = log.append([b"one"], log.ends()[1])
            after = level(own)
            assert [(one.name, one.storage, one.replicas) for one in after.streams] == [
                ("site", "file", 3),
                ("site-members", "file", 3),
            ]
            assert (after.forbidden, log.ends()[1], log.reports()) == ((), last, {}), "nothing was added"
        finally:
            log.close()

        servers.servers[0].kill()
        told = {finding.about: finding for finding in findings(survey(own), own) if finding.verdict != OK}
        assert told[f"log server {servers.urls[0]}"].verdict == WARN
        servers.servers[1].kill()
        wait_until(
            lambda: any(finding.verdict == FAIL for finding in findings(survey(own), own)),
            60.0,
            "the server that is left knows that it is no majority",
        )


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[NatsServer]:
    """A server with a user that may everything, and one that may only read."""
    server = NatsServer(tmp_path / "nats", "n0", port=free_port(), cluster_port=free_port(), routes=[])
    path = server.folder / "nats.conf"
    may_read = {"publish": ["$JS.API.INFO", "$JS.API.STREAM.INFO.>", "_INBOX.>"], "subscribe": ["_INBOX.>"]}
    users = [{"user": "all", "password": "p"}, {"user": "reader", "password": "p", "permissions": may_read}]
    path.write_text(json.dumps({**json.loads(path.read_text()), "authorization": {"users": users}}))
    server.start()
    yield server
    server.kill()


@pytest.mark.process
def test_what_the_user_may_not_is_found_out(guarded: NatsServer, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("p\n")
    own = replace(OWN, servers=(guarded.url,), replicas=1, user="all", password_file=str(password))
    wait_until(lambda: not survey(own).servers[0].error and not survey(own).error, 60.0, "JetStream answers")
    assert survey(own).forbidden == ()

    found = survey(replace(own, user="reader"))
    assert found.error == ""
    told = " ".join(found.forbidden).lower()
    assert all(subject.lower() in told for subject in ("site.log", "$JS.API.STREAM.CREATE.site", "$JS.API.CONSUMER.CREATE.site"))

    (server,) = survey(replace(own, user="nobody")).servers
    assert "authorization" in server.error.lower()
