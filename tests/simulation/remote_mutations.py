"""Planted bugs in what bridges take from a remote: their own messages that come back, what lanes share, and copies by two ways."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from storage.store.session_rows import Sessions
from wire.config_settings import BridgeSettings
from wire.exchange.remote_subscriptions import RemoteSubscriptions
from wire.routing.echo_filter import EchoFilter
from wire.routing.ring_filter import RingFilter


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


def _by_other_ways(way_of: Callable[[Hashable | None], Hashable | None]) -> Callable[[Any], Any]:
    def hook(original: Any) -> Any:
        def copies(self: RingFilter, keys: Any, ways: Any, now_s: float) -> Any:
            return original(self, keys, [way_of(way) for way in ways], now_s)

        return copies

    return hook


def _window_ignored(original: Any) -> Any:
    def init(self: RingFilter, window_s: float, messages_max: int) -> None:
        original(self, 1e9, messages_max)

    return init


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
    (
        "routing.ring-copies-left-out/never",
        "copies that come by another bridge are taken",
        ((RingFilter, "copies", lambda original: lambda self, keys, ways, now_s: frozenset()),),
    ),
    (
        "routing.ring-copies-left-out/by-any-way",
        "what is alike and comes by the same bridge is left out",
        ((RingFilter, "copies", _by_other_ways(lambda way: way and object())),),
    ),
    (
        "routing.ring-copies-left-out/local-too",
        "what a local client publishes is left out when a bridge has brought it",
        ((RingFilter, "copies", _by_other_ways(lambda way: way or "here")),),
    ),
    (
        "routing.ring-copies-left-out/window-ignored",
        "what is alike and comes after the window is left out",
        ((RingFilter, "__init__", _window_ignored),),
    ),
)
