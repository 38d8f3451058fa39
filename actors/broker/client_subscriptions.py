"""SUBSCRIBE and UNSUBSCRIBE of local clients, and their answers, which leave once the store has what they ask for.

The Listener reads them behind what their client has published before. Requests go by way of the Distributor, which routes by them
before the store keeps them. So a client that has its SUBACK gets what is published from then on. What is not answered is asked
again when the store is new.

Of a session that ends with its connection the store keeps nothing, so its requests are answered without it where it is late.
Retained messages are sent when they come, with RETAIN, behind what was sent meanwhile.

broker.unsuback-ends-delivery [P3, MQTT]: when an UNSUBACK leaves, the session's record has no such subscription, and nothing that
    is published from then on comes to the client by it [MQTT-3.10.4-2].
broker.bridge-is-no-local [MQTT]: what another broker's bridge of MQTT 3.1.1 subscribes to is as if it had asked for No Local and
    Retain As Published, and stays so with its session: its messages do not come back to it, and RETAIN crosses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from actors.broker.listener_interface import ClientHost
from actors.door.client import ASKING, REQUESTS_MAX, Client
from actors.door.logins_and_rights import Access
from wire.errors import PeerViolation
from wire.exchange.retained_before_live import RetainedFirst
from wire.frames.base import Frame
from wire.frames.batch import Batch
from wire.frames.local_sessions import Retained, SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.frames.names import DISTRIBUTOR
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_5_0, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from wire.mqtt.reason_codes import ReasonCode
from wire.mqtt.topics import TopicLimits, is_shared
from wire.routing.retained_topics import sends_retained
from wire.routing.topic_filter_tree import TopicTree
from wire.settings import NodeSettings

LATE_S = 0.5  # a request of a session that ends with its connection waits no longer for the store
LATE_REQUESTS_MAX = 1000  # of one client, that still wait for retained messages; further ones wait for the store
_FAILURE_311 = 0x80
_NO_LOCAL, _RETAIN_AS_PUBLISHED = 0x04, 0x08


class Subscribed(Protocol):
    """Told of a client that has its SUBACK.

    wanted: topic filter -> whether it is to get what is retained. retained: what the store has of that; late: what was published
    meanwhile, as granted.
    """

    def __call__(self, client: Client, wanted: dict[str, bool], retained: Sequence[Retained], late: Sequence[Batch], /) -> None: ...


@dataclass(slots=True)
class _Request:
    """A SUBSCRIBE or UNSUBSCRIBE that the store has not answered. wanted: topic filter -> whether its retained messages are.

    retained: those that have come; they go out behind the answer. late: its client has been answered without the store.
    """

    client: Client
    answer: bytes
    adds: bool
    wanted: dict[str, bool]
    asked_s: float
    retained: list[Retained] = field(default_factory=list)
    late: bool = False


class ClientSubscriptions:
    """Changes what clients are subscribed to."""

    def __init__(
        self, host: ClientHost, settings: NodeSettings, access: Access, *, subscribed: Subscribed, read_on: Callable[[Client], None]
    ) -> None:
        """read_on: goes on with what a client has sent that had too many requests."""
        self._host = host
        self._subscribed = subscribed
        self._read_on = read_on
        self._access = access
        self.adopt(settings)
        self._requests: dict[int, _Request] = {}
        self._number = 0

    def adopt(self, settings: NodeSettings) -> None:
        """These hold from now on; what is subscribed to stays."""
        self._subscriptions_max = settings.clients.subscriptions_max
        self._late_max_bytes = settings.clients.output_max_bytes
        self._topic_limits = TopicLimits(settings.clients.topic_levels_max, settings.clients.topic_max_bytes)

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
            existed = one.topic_filter in client.filters
            sends = sends_retained(one.topic_filter, one.retain_handling, existed=existed)
            wanted[one.topic_filter] = sends or wanted.get(one.topic_filter, False)  # named twice, it is as subscribed twice
            client.filters[one.topic_filter] = _options(one, client), identifier  # the later one holds [MQTT-3.8.4-3]
            codes.append(one.qos)
        answer = encode(Suback(packet_id=packet.packet_id, reason_codes=tuple(codes)), client.level)
        self._ask(_Request(client, answer, True, wanted, self._host.mailbox.now_s()))

    def _refusal(self, client: Client, one: Subscription) -> ReasonCode | None:
        if not self._topic_limits.allow(one.topic_filter):
            self._host.limited("topic_limits")
            return ReasonCode.TOPIC_FILTER_INVALID
        if client.rights is not None and not self._access.may_subscribe(client, one.topic_filter):
            return ReasonCode.NOT_AUTHORIZED  # [MQTT-3.8.4-5]
        if one.topic_filter not in client.filters and len(client.filters) >= self._subscriptions_max:
            self._host.limited("subscriptions_max")
            return ReasonCode.QUOTA_EXCEEDED
        return None

    def unsubscribe(self, client: Client, packet: Unsubscribe) -> None:
        """Unsubscribe the client, and answer for each filter [MQTT-3.10.4-4, -6].

        Raises:
            PeerViolation: the answer would be larger than the client takes.
        """
        _check_fits(client, Unsuback(packet_id=packet.packet_id, reason_codes=(ReasonCode.SUCCESS,) * len(packet.topic_filters)))
        known = [client.filters.pop(topic_filter, None) is not None for topic_filter in packet.topic_filters]
        codes = tuple(ReasonCode.SUCCESS if was else ReasonCode.NO_SUBSCRIPTION_EXISTED for was in known)
        gone = {topic_filter: False for topic_filter, was in zip(packet.topic_filters, known, strict=True) if was}
        answer = encode(Unsuback(packet_id=packet.packet_id, reason_codes=codes), client.level)
        self._ask(_Request(client, answer, False, gone, self._host.mailbox.now_s()))

    def retained(self, frame: Retained) -> None:
        """Retained messages that a request asked for: they wait for its answer."""
        request = self._requests.get(frame.request)
        if request is not None:
            request.retained.append(frame)

    def kept(self, frame: SubscriptionsKept) -> None:
        """The store has what the request asked for: answer it."""
        request = self._requests.pop(frame.request, None)
        if request is None:
            return
        if request.late:
            self._subscribed(request.client, {}, self._still_wanted(frame.request, request), ())
        else:
            self._answer(frame.request, request)

    def wait_no_longer(self, now_s: float) -> None:
        """The store does not answer: answer clients of which it keeps nothing."""
        late: dict[int, int] = {}
        for number, request in list(self._requests.items()):
            client = request.client
            if client.queue or client.closed:
                continue
            if request.late:
                late[client.number] = late.get(client.number, 0) + 1
            elif now_s - request.asked_s >= LATE_S and late.get(client.number, 0) < LATE_REQUESTS_MAX:
                request.late = True
                if not (request.adds and any(request.wanted.values())):
                    del self._requests[number]  # nothing more will come of it
                self._answer(number, request)

    def _still_wanted(self, number: int, request: _Request) -> list[Retained]:
        """What has come of a late request without that to which its client is subscribed no more [MQTT-3.10.4-2], or has newer."""
        client = request.client
        assert client.retained_first is not None, "it waits for these"
        is_latest = client.retained_first.came(number)
        self._awaits_no_more(client)
        wanted: TopicTree[bool] = TopicTree()
        for topic_filter in request.wanted:
            if topic_filter in client.filters:
                wanted.add(topic_filter, True)
        found = []
        for frame in request.retained:
            batch = Batch.decode(frame.bodies[0])
            keep = [is_latest(topic) and bool(wanted.match(topic)) for topic in batch.topics]
            rows = [row for row, index in enumerate(batch.topic_of) if keep[index]]
            if rows:
                found.append(replace(frame, bodies=(batch.select(rows).encode(),)))
        return found

    def _answer(self, number: int, request: _Request) -> None:
        client = request.client
        self._host.write(client, request.answer)
        if request.adds:
            held: list[Batch] = []
            if client.retained_first is not None:
                first = client.retained_first
                held = first.answer_late(number) if number in self._requests else first.answer(number)
                self._awaits_no_more(client)
            self._subscribed(client, request.wanted, request.retained, held)
            request.retained = []
        client.asking -= 1
        if client.asking == REQUESTS_MAX - 1 and not client.closed:
            client.hear_again(self._host.mailbox.now_s(), ASKING)
            self._read_on(client)

    def _awaits_no_more(self, client: Client) -> None:
        if not client.retained_first:
            client.retained_first = None

    def closed(self, client: Client) -> None:
        """Nobody waits for the client's answers any more."""
        for number in [number for number, request in self._requests.items() if request.client is client]:
            del self._requests[number]

    def store_is_new(self) -> None:
        """Ask again for what is not answered, as far as it still holds: a later request may have been answered already."""
        for request in self._requests.values():
            request.retained.clear()  # what the former one has sent may not be all
        for number in self._requests:
            self._host.send(DISTRIBUTOR, self._frame(number))

    def _ask(self, request: _Request) -> None:
        if not request.wanted:
            self._host.write(request.client, request.answer)
            return
        self._number += 1
        self._requests[self._number] = request
        request.client.asking += 1
        if request.client.asking == REQUESTS_MAX:
            request.client.hear(False, ASKING)  # the way to the store has no other limit
        asked = [topic_filter for topic_filter, wanted in request.wanted.items() if wanted] if request.adds else []
        if asked:
            request.client.retained_first = request.client.retained_first or RetainedFirst(self._late_max_bytes)
            request.client.retained_first.ask(self._number, asked)
        self._host.send(DISTRIBUTOR, self._frame(self._number))

    def _frame(self, number: int) -> Frame:
        request = self._requests[number]
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
    """What ``client`` is granted; broker.bridge-is-no-local."""
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
