"""SUBSCRIBE and UNSUBSCRIBE of local clients, and their answers.

The Listener reads them behind what their client has published before. The Distributor routes by them before the store keeps them.
So a client that has its SUBACK gets what is published from then on. Of a session that ends with its connection the store keeps
nothing, so the Distributor answers. For one that lasts the answer leaves when the store has the request; what is not answered is
asked again when the store is new. Retained messages follow the answer (``actors/broker/client_retained.py``).

broker.unsuback-ends-delivery [P3, MQTT]: when an UNSUBACK leaves, the session's record has no such subscription, and nothing that
    is published from then on comes to the client by it [MQTT-3.10.4-2].
broker.bridge-is-no-local [MQTT]: what another broker's bridge of MQTT 3.1.1 subscribes to is as if it had asked for No Local and
    Retain As Published, and stays so with its session: its messages do not come back to it, and RETAIN crosses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from actors.access.access_control import AccessControl
from actors.access.client import Client
from actors.broker.filter_bytes import FilterBytes
from actors.broker.listener_interface import ListenerInterface
from wire.errors import PeerViolation
from wire.frames.frame import Frame
from wire.frames.names import DISTRIBUTOR
from wire.frames.subscriptions import SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_5_0, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from wire.mqtt.reason_codes import ReasonCode
from wire.mqtt.topics import TopicLimits, is_shared
from wire.routing.retained_topics import sends_retained

_FAILURE_311 = 0x80
_NO_LOCAL, _RETAIN_AS_PUBLISHED = 0x04, 0x08


class Retained(Protocol):
    """Brings clients what is retained under the filters to which they subscribe."""

    def begin(self, client: Client, filters: Iterable[str], /) -> None: ...

    def on_answered(self, client: Client, filters: Iterable[str], /) -> None: ...

    def end(self, client: Client, filters: Iterable[str], /) -> None: ...


@dataclass(frozen=True, slots=True)
class _Request:
    """A SUBSCRIBE or UNSUBSCRIBE. wanted: topic filter -> whether its retained messages are."""

    client: Client
    answer: bytes
    adds: bool
    wanted: dict[str, bool]


class ClientSubscriptions:
    """Changes what clients are subscribed to."""

    def __init__(
        self,
        host: ListenerInterface,
        access: AccessControl,
        retained: Retained,
        filter_bytes: FilterBytes,
        *,
        subscribed: Callable[[Client, dict[str, bool]], None],
    ) -> None:
        """subscribed: is told of a client that has its SUBACK, and of which filters it wants what is retained."""
        self._host = host
        self._retained = retained
        self._subscribed = subscribed
        self._access = access
        self._filter_bytes = filter_bytes
        self._requests: dict[int, _Request] = {}  # that are not answered
        self._number = 0

    def subscribe(self, client: Client, packet: Subscribe) -> None:
        """Subscribe the client, and answer for each filter [MQTT-3.8.4-1, -5, -6].

        Raises:
            PeerViolation: the answer would be larger than the client takes.
        """
        _check_fits(client, Suback(packet_id=packet.packet_id, reason_codes=(0,) * len(packet.subscriptions)))
        identifier = next(iter(packet.properties.subscription_identifiers), 0)
        codes: list[int] = []
        wanted: dict[str, bool] = {}
        for one in packet.subscriptions:
            refusal = self._refusal(client, one)
            if refusal is not None:
                codes.append(refusal if client.level == MQTT_5_0 else _FAILURE_311)
                continue
            existed = client.subscribe(one.topic_filter, _options(one, client), identifier)
            sends = sends_retained(one.topic_filter, one.retain_handling, existed=existed)
            wanted[one.topic_filter] = sends or wanted.get(one.topic_filter, False)  # named twice, it is as subscribed twice
            if not existed:
                self._filter_bytes.add(client.session, client.owner, one.topic_filter)
            codes.append(one.qos)
        answer = encode(Suback(packet_id=packet.packet_id, reason_codes=tuple(codes)), client.level)
        self._ask(_Request(client, answer, True, wanted))

    def _refusal(self, client: Client, one: Subscription) -> ReasonCode | None:
        if not TopicLimits.of(self._host.settings.now.clients).allow(one.topic_filter):
            self._host.on_limited("topic_limits")
            return ReasonCode.TOPIC_FILTER_INVALID
        if client.rights is not None and not self._access.check_subscribe(client, one.topic_filter):
            return ReasonCode.NOT_AUTHORIZED  # [MQTT-3.8.4-5]
        if one.topic_filter in client.filters:
            return None
        limit = self._filter_bytes.refusal(client.session, client.owner, one.topic_filter, self._host.settings.now)
        if len(client.filters) >= self._host.settings.now.clients.subscriptions_max:
            limit = "subscriptions_max"
        if limit:
            self._host.on_limited(limit)
        return ReasonCode.QUOTA_EXCEEDED if limit else None

    def unsubscribe(self, client: Client, packet: Unsubscribe) -> None:
        """Unsubscribe the client, and answer for each filter [MQTT-3.10.4-4, -6].

        Raises:
            PeerViolation: the answer would be larger than the client takes.
        """
        _check_fits(client, Unsuback(packet_id=packet.packet_id, reason_codes=(ReasonCode.SUCCESS,) * len(packet.topic_filters)))
        known = [client.unsubscribe(topic_filter) for topic_filter in packet.topic_filters]
        codes = tuple(ReasonCode.SUCCESS if was else ReasonCode.NO_SUBSCRIPTION_EXISTED for was in known)
        gone = {topic_filter: False for topic_filter, was in zip(packet.topic_filters, known, strict=True) if was}
        for topic_filter in gone:
            self._filter_bytes.drop(client.session, client.owner, topic_filter)
        answer = encode(Unsuback(packet_id=packet.packet_id, reason_codes=codes), client.level)
        self._ask(_Request(client, answer, False, gone))

    def on_kept(self, frame: SubscriptionsKept) -> Client | None:
        """The store has done as the request asked: answer it. Returns the client if it is read again because of that."""
        request = self._requests.pop(frame.request, None)
        if request is None:
            return None
        client = request.client
        self._host.write(client, request.answer)
        if request.adds:
            self._subscribed(client, request.wanted)
            self._retained.on_answered(client, request.wanted)
        return client if client.on_answered(self._host.mailbox.now_s()) else None

    def on_closed(self, client: Client) -> None:
        """Nobody waits for the client's answers any more."""
        for number in [number for number, request in self._requests.items() if request.client is client]:
            del self._requests[number]

    def store_is_new(self) -> None:
        """Ask again for what is not answered, as far as it still holds: a later request may have been answered already."""
        for number, request in self._requests.items():
            self._host.send(DISTRIBUTOR, self._frame(number, request))

    def _ask(self, request: _Request) -> None:
        if not request.wanted:
            self._host.write(request.client, request.answer)
            return
        client = request.client
        if request.adds:
            self._retained.begin(client, [topic_filter for topic_filter, wanted in request.wanted.items() if wanted])
        else:
            self._retained.end(client, request.wanted)
        self._number += 1
        self._host.send(DISTRIBUTOR, self._frame(self._number, request))
        self._requests[self._number] = request
        client.ask()

    def _frame(self, number: int, request: _Request) -> Frame:
        client = request.client
        if request.adds:
            return SubscriptionsAdd(
                epoch=self._host.epoch,
                request=number,
                session=client.session,
                source=client.number,
                queue=client.queue,
                filters=tuple(
                    (topic_filter, *client.filters[topic_filter], wanted)
                    for topic_filter, wanted in request.wanted.items()
                    if topic_filter in client.filters
                ),
            )
        return SubscriptionsDrop(
            epoch=self._host.epoch,
            request=number,
            session=client.session,
            source=client.number,
            queue=client.queue,
            filters=tuple(topic_filter for topic_filter in request.wanted if topic_filter not in client.filters),
        )


def _options(one: Subscription, client: Client) -> int:
    """The granted QoS for ``client``; broker.bridge-is-no-local."""
    no_local = one.no_local or (client.bridge and not is_shared(one.topic_filter))
    as_published = one.retain_as_published or client.bridge
    return one.qos | (_NO_LOCAL if no_local else 0) | (_RETAIN_AS_PUBLISHED if as_published else 0)


def _check_fits(client: Client, answer: Suback | Unsuback) -> None:
    """Raises PeerViolation if ``client`` does not take so large a packet [MQTT-3.1.2-24], before anything is done."""
    if client.packet_max_bytes is not None and len(encode(answer, client.level)) > client.packet_max_bytes:
        raise PeerViolation(
            "MQTT-3.1.2-24 the answer is larger than the client's maximum packet size",
            reason_code=ReasonCode.PACKET_TOO_LARGE,
            maximum_packet_size=client.packet_max_bytes,
        )
