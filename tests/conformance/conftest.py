"""The broker under test, which all tests share, and clients of it with names of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import count
from typing import Protocol

import pytest

from tests.conformance.brokers import BROKERS, Broker, Limits
from tests.conformance.statements import Deviation
from tests.support import mqtt_client, placements
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import CONNACK, MAXIMUM_PACKET_SIZE, SESSION_EXPIRY, Properties, Will, connect_bytes

_counter = count(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test of something that another broker is known not to do must fail with it."""
    broker = config.getoption("--broker")
    if broker != "bascule":
        mqtt_client.PATIENCE_S = 3.5  # it runs into what it is known not to do
    for item in items:
        if isinstance(item, pytest.Function):
            known: list[Deviation] = getattr(item.function, "deviations", [])
            for deviation in known:
                if deviation.broker == broker and re.search(deviation.cases, item.name):
                    item.add_marker(pytest.mark.xfail(strict=deviation.always, reason=f"{broker}: {deviation.reason}"))


@pytest.fixture(scope="session")
def _broker_with(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Limits], Broker]]:
    """The broker under test with some limits, in the placement of the test that asks; each begins once and goes on."""
    start = BROKERS[request.config.getoption("--broker")]
    with ExitStack() as running:

        @cache
        def started(limits: Limits, placement: str) -> Broker:
            return running.enter_context(start(tmp_path_factory.mktemp(placement), limits))

        yield lambda limits: started(limits, placements.now())


@pytest.fixture
def broker(_broker_with: Callable[[Limits], Broker]) -> Broker:
    """The broker under test, with defaults."""
    return _broker_with(Limits())


@pytest.fixture
def limited(_broker_with: Callable[[Limits], Broker]) -> Broker:
    """The same with small limits."""
    return _broker_with(Limits(receive_maximum=5, packet_max_bytes=1024, keep_alive_max_s=30))


@pytest.fixture
def guarded(_broker_with: Callable[[Limits], Broker]) -> Broker:
    """The same with one user, ``ali``, who may do little."""
    return _broker_with(Limits(user="ali"))


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses; also good as a client identifier of at most 23 characters."""
    return f"t{next(_counter)}"


class Dial(Protocol):
    """Opens a connection; CONNECT is the caller's."""

    def __call__(self, version: int, port: int | None = None) -> MqttClient: ...


class Join(Protocol):
    """Opens a connection and sends CONNECT, which is accepted; ``expiry_s`` of 3.1.1 is CleanSession 0 if it is not 0."""

    def __call__(
        self,
        version: int,
        client_id: str | None = None,
        *,
        clean: bool | None = None,
        expiry_s: int = 0,
        keep_alive_s: int = 0,
        will: Will | None = None,
        properties: Properties | None = None,
        port: int | None = None,
    ) -> MqttClient: ...


@pytest.fixture
def dial(broker: Broker) -> Iterator[Dial]:
    """Connections that end with the test."""
    with ExitStack() as stack:

        def connection(version: int, port: int | None = None) -> MqttClient:
            dialled = MqttClient(port or broker.port, version=version, holds=True)
            stack.callback(dialled.close)
            dialled.dial()
            return dialled

        yield connection


@pytest.fixture
def join(dial: Dial) -> Join:
    """Clients that end with the test."""

    def connected(
        version: int,
        client_id: str | None = None,
        *,
        clean: bool | None = None,
        expiry_s: int = 0,
        keep_alive_s: int = 0,
        will: Will | None = None,
        properties: Properties | None = None,
        port: int | None = None,
    ) -> MqttClient:
        joined = dial(version, port)
        wanted = list(properties or [])
        if version == 5 and expiry_s:
            wanted.append((SESSION_EXPIRY, expiry_s))
        for identifier, value in wanted:
            if identifier == MAXIMUM_PACKET_SIZE:
                assert isinstance(value, int)
                joined.maximum_packet_size = value
        starts_clean = not expiry_s if clean is None else clean
        name = f"c{next(_counter)}" if client_id is None else client_id
        joined.send(connect_bytes(version, name, clean=starts_clean, keep_alive_s=keep_alive_s, will=will, properties=wanted))
        joined.connack = joined.expect(CONNACK, reason_code=0)
        return joined

    return connected
