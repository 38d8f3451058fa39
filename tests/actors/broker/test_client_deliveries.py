"""Live messages at the Listener: which rows of a batch a client gets, and how."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.client_deliveries import Deliveries
from actors.process.local_messages import Deliver
from tests.supervisor.settings import node_settings
from tests.wire.exchange.test_client_outbox import outbox
from wire.config_settings import SettingsNow
from wire.exchange.subscriber_copies import Copies, Parcel
from wire.frames.batch import QOS_MASK, RETAIN, from_rows, pack_column

BATCH = from_rows([(b"a", 2, b"zero"), (b"b", 1 | RETAIN, b"one"), (b"c", 0, b"two")], accepted_ms=0)
Got = tuple[list[int], list[tuple[bytes, int, bool]], list[bytes]]


class Desk:
    """The deliveries to clients: (connections, [(payload, QoS, RETAIN)], topics of what is retained) for each group."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = SettingsNow(node_settings(folder))
        host: Any = SimpleNamespace(mailbox=SimpleNamespace(wall_ms=lambda: 0), settings=settings)
        access: Any = None
        self.deliveries = Deliveries(host, access)
        self.got: list[Got] = []
        monkeypatch.setattr(self.deliveries, "send", self._send)

    def _send(self, copies: Copies, subscribers: Sequence[int], replaced: Callable[[], Iterable[bytes]]) -> None:
        batch = copies._batch
        rows = [
            (payload, flags & QOS_MASK, bool(flags & RETAIN))
            for payload, flags in zip(batch.rows_payloads(), batch.flags, strict=True)
        ]
        self.got.append((list(subscribers), rows, list(replaced())))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def column(code: str, *values: int) -> bytes:
    return pack_column(array(code, values))


def test_each_group_gets_its_rows_as_they_were_granted_to_it(desk: Desk) -> None:
    groups = ((column("I", 1, 2), b""), (column("I", 3), column("H", 0, 1)))
    desk.deliveries.deliver(Deliver(batch=BATCH, groups=groups, grants=((1, False, ()), (2, True, ()))))
    assert desk.got == [
        ([1, 2], [(b"zero", 1, False), (b"one", 1, False), (b"two", 0, False)], [b"b"]),
        ([3], [(b"zero", 2, False), (b"one", 1, True)], [b"b"]),
    ]


def test_without_grants_all_goes_at_qos_0(desk: Desk) -> None:
    desk.deliveries.deliver(Deliver(batch=BATCH, groups=((column("I", 1), column("H", 0, 2)),)))
    assert desk.got == [([1], [(b"zero", 0, False), (b"two", 0, False)], [])]


@pytest.mark.parametrize("output_max_bytes", [8 << 10, 128 << 10, 4 << 20])
def test_what_is_encoded_for_who_does_not_read_is_within_the_limit_with_any_message(tmp_path: Path, output_max_bytes: int) -> None:
    """Else the client would be closed for what it could not have read, at the next that it is sent."""

    def write(client: Any, data: bytes, _: int) -> None:
        client.output_bytes += len(data)

    host: Any = SimpleNamespace(mailbox=SimpleNamespace(wall_ms=lambda: 0), write=write)
    settings, access = node_settings(tmp_path), SimpleNamespace()
    settings = replace(settings, clients=replace(settings.clients, output_max_bytes=output_max_bytes))
    host.settings = SettingsNow(settings)
    deliveries = Deliveries(host, access)  # type: ignore[arg-type]  # nobody has rights here
    box = outbox(receive_maximum=1000, in_flight_max=1000, queue_max_messages=1000, queue_max_bytes=1 << 30)
    client: Any = SimpleNamespace(number=1, closed=False, output_bytes=0, outbox=box, retained=None)
    box.begin()
    box.put(Parcel(from_rows([(b"t", 1, bytes(output_max_bytes // 2 - 100))] * 20, accepted_ms=0)))

    deliveries.on_touched(client)
    deliveries.turn_end(0.0)

    assert 0 < client.output_bytes <= output_max_bytes
