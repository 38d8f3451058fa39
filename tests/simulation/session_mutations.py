"""Bugs planted in what local subscribers are owed: only their part of the simulation can find them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from actors.broker.client_subscriptions import ClientSubscriptions
from actors.broker.local_routing import LocalRouting
from actors.broker.repeated_batches import RoutedBatches
from storage.queue.queue import Queue
from storage.store.local_sessions import SessionSubscriptions
from wire.config_settings import SessionSettings
from wire.exchange.client_outbox import ClientOutbox
from wire.frames.batch import PASSED
from wire.frames.frame import Ranges
from wire.frames.lanes import LaneOpened, Settle
from wire.frames.subscriptions import SubscriptionsKept
from wire.mqtt.publish_batch_parser import BatchBuilder


def _nothing(*arguments: Any, **named: Any) -> None:
    return None


def _pubrel_at_once(original: Any) -> Any:
    def received(self: ClientOutbox, buffer: bytes, position: int) -> int:
        end: int = original(self, buffer, position)
        self.exchange.flow.held.on_record(self.exchange.flow.held.releasing.ranges())
        return end

    return received


def _settled_when_sent(original: Any) -> Any:
    def pump(self: ClientOutbox, bytes_max: int, now_s: float, wall_ms: int) -> bytes:
        data: bytes = original(self, bytes_max, now_s, wall_ms)
        for start, stop in self.exchange.flow.in_flight.puback:
            self.exchange.flow.record.settle("delivered", start, stop)
        return data

    return pump


def _opened_with(**changes: Any) -> Any:
    def change(original: Any) -> Any:
        def opened(self: ClientOutbox, lane: LaneOpened) -> None:
            original(self, lane if self.live else replace(lane, **changes))

        return opened

    return change


def _shifted(self: ClientOutbox) -> int:
    """Another number for each connection of the session."""
    return self.lane_epoch % 7


def _opened_shifted(original: Any) -> Any:
    def opened(self: ClientOutbox, lane: LaneOpened) -> None:
        by = _shifted(self)
        original(
            self,
            replace(
                lane,
                head=lane.head + by,
                tail=lane.tail + by,
                dup_below=lane.dup_below + by,
                settled=_moved(lane.settled, by),
                released=_moved(lane.released, by),
            ),
        )

    return opened


def _hand_out_shifted(original: Any) -> Any:
    def hand_out(self: ClientOutbox, frame: Any, *others: Any, **named: Any) -> int:
        left_out: int = original(self, replace(frame, first_seq=frame.first_seq + _shifted(self)), *others, **named)
        return left_out

    return hand_out


def _settle_shifted(original: Any) -> Any:
    def settle(self: ClientOutbox) -> Settle | None:
        found: Settle | None = original(self)
        if found is None:
            return None
        by = -_shifted(self)
        settled = tuple((outcome, _moved(ranges, by)) for outcome, ranges in found.settled)
        return replace(found, settled=settled, released=_moved(found.released, by))

    return settle


def _moved(ranges: Ranges, by: int) -> Ranges:
    return tuple((start + by, stop + by) for start, stop in ranges)


def _wider(original: Any) -> Any:
    def made(self: ClientOutbox, *, receive_maximum: int, settings: SessionSettings, **named: Any) -> None:
        settings = replace(settings, in_flight_max=settings.in_flight_max + 1)
        original(self, receive_maximum=receive_maximum + 1, settings=settings, **named)

    return made


def _not_kept(original: Any) -> Any:
    def add(self: SessionSubscriptions, frame: Any) -> Any:
        self.sessions.subscribe = _nothing  # type: ignore[method-assign]
        try:
            return original(self, frame)
        finally:
            del self.sessions.subscribe

    return add


def _answered_at_once(original: Any) -> Any:
    def ask(self: ClientSubscriptions, client: Any, packet: Any) -> None:
        original(self, client, packet)
        self.on_kept(SubscriptionsKept(epoch=0, request=self._number, source=0))

    return ask


def _only_answered(original: Any) -> Any:
    def drop(self: SessionSubscriptions, frame: Any) -> Any:
        return original(self, replace(frame, filters=()))

    return drop


def _without_effect(original: Any) -> Any:
    return _nothing


def _forgotten_offline(original: Any) -> Any:
    return lambda self, frame: original(self, replace(frame, ended=True))


def _nothing_known(original: Any) -> Any:
    return lambda self, sender, epoch, number: None


def _passed_unmarked(original: Any) -> Any:
    def pass_on(self: BatchBuilder, accepted_ms: int) -> Any:
        passed = original(self, accepted_ms)
        self.flags = bytearray(flags & ~PASSED for flags in self.flags)
        return passed

    return pass_on


def _released_below_the_cursor(original: Any) -> Any:
    def release(self: Queue, ranges: Ranges) -> None:
        original(self, tuple((start, min(stop, self.cursor)) for start, stop in ranges))

    return release


def _sent_again(original: Any) -> Any:
    def opened(self: ClientOutbox, lane: LaneOpened) -> None:
        original(self, lane)
        self._skip_below = 0
        self.exchange.flow.handed_out.stop = min(self.exchange.flow.handed_out.stop, lane.head)
        self.exchange.flow.due.sent_stop = min(self.exchange.flow.due.sent_stop, lane.head)

    return opened


def _never_sent(original: Any) -> Any:
    def close(self: Queue, sent_below: int) -> None:
        original(self, 0)

    return close


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    (
        "exchange.release-after-record/client-sent-first",
        "PUBREL to a client does not wait for the commit",
        ((ClientOutbox, "on_received", _pubrel_at_once),),
    ),
    (
        "exchange.settled-by-last-answer/client-when-sent",
        "QoS 1 leaves a session's queue before its PUBACK",
        ((ClientOutbox, "pump", _settled_when_sent),),
    ),
    (
        "exchange.no-publish-after-pubrec/client-again",
        "what a client released is published again",
        ((ClientOutbox, "on_opened", _opened_with(released=())),),
    ),
    (
        "exchange.dup-on-repeats/client-none",
        "a client that comes back gets no DUP",
        ((ClientOutbox, "on_opened", _opened_with(dup_below=0)),),
    ),
    (
        "queue.handed-out-below-mark/closed-as-never-sent",
        "what a client was sent counts as never sent when it has gone",
        ((Queue, "close", _never_sent),),
    ),
    (
        "exchange.resumed-in-order/other-identifiers",
        "each connection of a session has other identifiers",
        (
            (ClientOutbox, "on_opened", _opened_shifted),
            (ClientOutbox, "hand_out", _hand_out_shifted),
            (ClientOutbox, "settle", _settle_shifted),
        ),
    ),
    (
        "exchange.receive-maximum-kept/client-one-too-many",
        "one more than a client's receive maximum",
        ((ClientOutbox, "__init__", _wider),),
    ),
    (
        "exchange.nothing-twice-live/all-again",
        "a new store has a connected client sent again what it had",
        ((ClientOutbox, "on_opened", _sent_again),),
    ),
    (
        "exchange.nothing-twice-live/early-release-lost",
        "a PUBREC is forgotten that comes before a new store has handed its message out again",
        ((Queue, "release", _released_below_the_cursor),),
    ),
    (
        "store.answer-after-commit/subscription-in-memory",
        "subscriptions stay in memory",
        ((SessionSubscriptions, "add", _not_kept),),
    ),
    (
        "store.answer-after-commit/suback-first",
        "SUBACK does not wait for the store",
        ((ClientSubscriptions, "subscribe", _answered_at_once),),
    ),
    (
        "P2/offline-not-routed",
        "nothing is routed to a session whose client is away",
        ((LocalRouting, "down", _forgotten_offline),),
    ),
    (
        "broker.unsuback-ends-delivery/still-routed",
        "the Distributor goes on routing by what was unsubscribed",
        ((LocalRouting, "unsubscribe", _without_effect),),
    ),
    (
        "broker.unsuback-ends-delivery/still-stored",
        "what was unsubscribed stays in the store",
        ((SessionSubscriptions, "drop", _only_answered),),
    ),
    (
        "broker.unsuback-ends-delivery/unsuback-first",
        "UNSUBACK does not wait for the store",
        ((ClientSubscriptions, "unsubscribe", _answered_at_once),),
    ),
    (
        "broker.live-copy-once/passed-again",
        "what has passed a batch is delivered live with its own again",
        ((BatchBuilder, "pass_on", _passed_unmarked),),
    ),
    (
        "broker.live-copy-once/batch-again",
        "a batch that is sent again is delivered live again",
        ((RoutedBatches, "again", _nothing_known),),
    ),
)
