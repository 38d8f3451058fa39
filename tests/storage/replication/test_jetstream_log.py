"""The log on a real NATS server: what is appended is read, in order, by whoever asks; who is behind is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from storage.replication.jetstream_log import JetStreamLog
from storage.replication.log import Behind, LogAway
from tests.support.nats import NatsServers
from wire.config_settings import ReplicationSettings

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    with NatsServers(tmp_path_factory.mktemp("nats"), 1) as running:
        yield running


@pytest.fixture
def settings(servers: NatsServers, request: pytest.FixtureRequest) -> ReplicationSettings:
    name = str(request.node.name)[:50].replace("[", "-").replace("]", "-")
    return ReplicationSettings(servers=tuple(servers.urls), stream=name, member="a", replicas=1)


@pytest.fixture
def log(settings: ReplicationSettings) -> Iterator[JetStreamLog]:
    made = JetStreamLog(settings, "a")
    yield made
    made.close()


def test_what_is_appended_is_read_in_order_by_another(log: JetStreamLog, settings: ReplicationSettings) -> None:
    assert log.ends() == (1, 0)
    assert log.read(0) == []
    messages = [bytes([number]) * 1000 for number in range(5)]
    assert log.append(messages, 0) == 5
    assert log.append([b"more"], 5) == 6

    with ExitStack() as stack:
        other = JetStreamLog(settings, "b")
        stack.callback(other.close)
        read = other.read(0, wait_s=2.0)
        while len(read) < 6:
            read += other.read(read[-1].sequence, wait_s=2.0)
    assert [entry.sequence for entry in read] == [1, 2, 3, 4, 5, 6]
    assert [entry.data for entry in read] == [*messages, b"more"]
    assert log.ends() == (1, 6)
    assert log.size_bytes() > 5000


def test_who_is_behind_appends_nothing(log: JetStreamLog) -> None:
    """replication.expected-sequence"""
    log.append([b"a"], 0)
    with pytest.raises(Behind):
        log.append([b"b"], 0)
    assert [entry.data for entry in log.read(0)] == [b"a"]


def test_what_is_trimmed_is_gone_and_the_numbers_go_on(log: JetStreamLog) -> None:
    log.append([b"a", b"b", b"c"], 0)
    log.trim(3)
    assert log.ends() == (3, 3)
    assert [entry.sequence for entry in log.read(0)] == [3]
    assert log.append([b"d"], 3) == 4


def test_members_say_one_thing_each_and_are_forgotten(log: JetStreamLog) -> None:
    log.report("a", b"1")
    log.report("b", b"2")
    log.report("a", b"3")
    assert log.reports() == {"a": b"3", "b": b"2"}
    assert log.forget("b")
    assert not log.forget("b")
    assert log.reports() == {"a": b"3"}


def test_large_things_are_brought_whole_and_removed(log: JetStreamLog, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 4000)
    assert log.names() == []
    log.put("at-1/file", source)
    assert log.names() == ["at-1/file"]
    log.get("at-1/file", target)
    assert target.read_bytes() == source.read_bytes()
    log.remove("at-1/file")
    assert log.names() == []
    with pytest.raises(LogAway):
        log.get("at-1/file", target)


def test_servers_that_could_not_make_the_streams_at_first_are_asked_again(
    settings: ReplicationSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that have just begun may not know each other yet."""
    log = JetStreamLog(replace(settings, replicas=3), "a")  # more than there are
    with pytest.raises(LogAway):
        log.ends()
    monkeypatch.setattr(log, "_settings", settings)
    assert log.ends() == (1, 0)
    log.close()


def test_servers_that_are_not_there_are_a_log_that_is_away(settings: ReplicationSettings) -> None:
    log = JetStreamLog(replace(settings, servers=("nats://127.0.0.1:1",), lease_s=2.0), "a")
    for _ in range(2):
        with pytest.raises(LogAway):
            log.ends()
    log.close()
