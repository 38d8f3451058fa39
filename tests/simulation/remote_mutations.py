"""Planted bugs in what a bridge takes from its remote: its own messages that come back, and what its lanes share."""

from __future__ import annotations

from typing import Any

from storage.store.session_rows import Sessions
from wire.config_settings import BridgeSettings
from wire.exchange.remote_subscriptions import RemoteSubscriptions
from wire.routing.echo_filter import EchoFilter


def _forgotten(original: Any) -> Any:
    def connected(self: EchoFilter, now_s: float, *, session_present: bool, **named: Any) -> None:
        original(self, now_s, session_present=False, **named)

    return connected


def _not_counted(original: Any) -> Any:
    def take(self: EchoFilter, batch: Any) -> Any:
        owed = dict(self._owed)
        found = original(self, batch)
        self._owed |= owed
        return found

    return take


def _from_its_sending(original: Any) -> Any:
    def expire(self: EchoFilter, now_s: float, settled_below: int) -> None:
        original(self, now_s, 1 << 62)

    return expire


def _local_too(original: Any) -> Any:
    def init(self: RemoteSubscriptions, *arguments: Any, no_local: bool, **named: Any) -> None:
        original(self, *arguments, no_local=False, **named)

    return init


def _share_kept(original: Any) -> Any:
    def subscribe(self: RemoteSubscriptions, packet_max_bytes: int | None, known: Any = ()) -> bytes:
        data: bytes = original(self, packet_max_bytes)
        return data

    return subscribe


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    (
        "routing.echo-left-out/never",
        "what a remote sends back is taken",
        ((EchoFilter, "take", lambda original: lambda self, batch: set()),),
    ),
    (
        "routing.echo-left-out/forgotten-at-reconnect",
        "what was sent and settled before a connection is not known on it",
        ((EchoFilter, "on_connected", _forgotten),),
    ),
    ("routing.echo-left-out/not-counted", "more are left out than were sent", ((EchoFilter, "take", _not_counted),)),
    (
        "routing.echo-left-out/from-its-sending",
        "the window begins when a message is sent",
        ((EchoFilter, "expire", _from_its_sending),),
    ),
    (
        "exchange.filter-asked-once/local-too",
        "an MQTT 5 remote is not asked to keep back what the bridge itself has sent",
        ((RemoteSubscriptions, "__init__", _local_too),),
    ),
    (
        "exchange.filter-asked-once/share-kept",
        "a lane that is taken out does not give up its share",
        ((RemoteSubscriptions, "subscribe", _share_kept),),
    ),
    (
        "exchange.filter-asked-once/share-of-the-first-alone",
        "what is shared is asked for by the first lane alone",
        ((BridgeSettings, "taken_by", lambda original: lambda self, lane: () if lane else original(self, lane)),),
    ),
    (
        "exchange.filter-asked-once/share-forgotten",
        "a lane that is taken out does not come back for what it has subscribed to",
        (
            (Sessions, "has_received", lambda original: lambda self, queue: False),
            (BridgeSettings, "may_take", lambda original: lambda self, lane: bool(self.taken_by(lane))),
        ),
    ),
)
