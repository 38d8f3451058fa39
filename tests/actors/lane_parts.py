"""The parts of a Connection without the actor: one lane's exchange on a clock that the test moves, and its remote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from actors.bridge.lane_exchange import Exchange
from actors.bridge.lane_names import Lane
from actors.remote.remote_socket import Connack
from tests.actors.slow_remote import SlowRemote
from tests.actors.still_mailbox import StillMailbox
from tests.support.settings import bridge, node
from tests.wire.outbound_model import lane_flow, lane_opened
from wire.config_settings import NodeSettings
from wire.exchange.remote_dialects import Dialect
from wire.frames.batch import from_rows

NAME = "connection:cloud:0"
SESSION = "edge@far:1"


def settings_of(**remote: Any) -> NodeSettings:
    """A node whose bridge ``cloud`` has these settings of its remote."""
    plain = bridge("cloud")
    return node(replace(plain, remote=replace(plain.remote, client_id="edge", **remote)))


class LaneParts:
    """A lane that is open, with its session on record; not connected before ``connect``."""

    def __init__(
        self, *, kernel_bytes: int = 1 << 20, receive_maximum: int = 100, on_refusal: str = "dead-letter", **remote: Any
    ) -> None:
        settings = settings_of(receive_maximum=receive_maximum, **remote)
        self.mailbox = StillMailbox(NAME)
        self.lane = Lane(NAME, settings)
        self.flow = lane_flow(receive_maximum=receive_maximum, default=on_refusal)
        self.exchange = Exchange(self.mailbox, 1, settings, self.lane, self.flow)
        self.remote = SlowRemote(kernel_bytes)
        self.remote.dialect = Dialect(settings.bridges[0].remote.levels[0])
        self.remote.rate = float(1 << 40)
        self.exchange.settlements.open(1)
        self.flow.open(lane_opened(session=SESSION))
        self._next_seq = 0

    def connect(self, **connack: Any) -> None:
        """The remote has accepted a connection."""
        self.remote.connack = Connack(session_present=True, **connack)
        self.exchange.on_connected(self.remote, self.mailbox.clock_s)

    def publish(self, *payloads: bytes, qos: int = 1) -> None:
        """Messages of topic t come from the Forwarder."""
        batch = from_rows([(b"t", qos, payload) for payload in payloads])
        self.flow.exchange.hand_out_batch(batch, self._next_seq, None, batch.size_bytes())
        self._next_seq += len(payloads)

    def written(self) -> bytes:
        """The packets that have reached the remote since the last time, after another write."""
        self.exchange.writer.write(self.mailbox.clock_s)
        return self.carried()

    def carried(self) -> bytes:
        """The packets that have reached the remote since the last time."""
        self.remote.pass_time(1.0)
        arrived, self.remote.arrived = self.remote.arrived, b""
        return arrived
