"""Live messages at the Listener: each once, and none behind what is newer, whichever Distributor they come from."""

from __future__ import annotations

from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.client_deliveries import Deliveries
from tests.supervisor.settings import node_settings
from wire.batch import from_rows, pack_column
from wire.copies import Copies
from wire.frames import Deliver
from wire.mqtt.publish_stream import PACKET_BYTES_LIMIT


class Desk:
    """One client's live messages."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        host: Any = SimpleNamespace(mailbox=SimpleNamespace(wall_ms=lambda: 0))
        access: Any = None
        self.deliveries = Deliveries(host, node_settings(folder), access)
        self.sent = b""
        monkeypatch.setattr(self.deliveries, "send", self._send)

    def _send(self, copies: Copies, subscribers: Any, replaced: Any) -> None:
        self.sent += copies.qos0(5, PACKET_BYTES_LIMIT)

    def delivered(self, payload: bytes, *, number: int, distributor: int) -> bool:
        self.sent = b""
        self.deliveries.deliver(
            Deliver(
                sender="listener",
                sender_epoch=5,
                number=number,
                distributor=distributor,
                epoch=5,
                groups=((pack_column(array("I", [1])), b""),),
                bodies=(from_rows([(b"a", 0, payload)], accepted_ms=0).encode(),),
            )
        )
        return self.sent.endswith(payload)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def test_a_batch_that_two_distributors_routed_is_delivered_once(desk: Desk) -> None:
    assert desk.delivered(b"first", number=1, distributor=7)
    assert not desk.delivered(b"first", number=1, distributor=8)
    assert desk.delivered(b"second", number=2, distributor=8)
    assert desk.deliveries.delivered == (("listener", 5, 2),)


def test_what_passed_its_batch_and_is_left_of_a_dead_distributor_does_not_come_behind_what_is_newer(desk: Desk) -> None:
    """Its connection is read in turn with that of the next one, which may be far ahead."""
    assert desk.delivered(b"first", number=1, distributor=7)
    assert desk.delivered(b"passed", number=0, distributor=7)
    assert desk.delivered(b"newer", number=2, distributor=8)
    assert not desk.delivered(b"passed too", number=0, distributor=7)
    assert desk.delivered(b"passed again", number=0, distributor=8)


def test_a_dead_distributor_s_rest_is_delivered_while_the_next_one_has_nothing_delivered(desk: Desk) -> None:
    assert desk.delivered(b"first", number=1, distributor=7)
    assert not desk.delivered(b"first", number=1, distributor=6)
    assert desk.delivered(b"passed", number=0, distributor=7)
