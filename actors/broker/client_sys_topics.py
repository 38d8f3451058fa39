"""The ``$SYS`` topics: what the Listener and the supervisor know of the node, sent to local clients that subscribe to it.

The supervisor's figures set the pace, one frame a period. Values and matching are ``wire/routing/sys_topics.py``'s. Nothing goes
through the Distributor or the store: they are sent live at QoS 0, and a new subscription gets the latest ones, with RETAIN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.access.client import Client
from actors.broker.client_deliveries import Deliveries
from actors.broker.listener_interface import ListenerInterface
from wire.exchange.subscriber_copies import Copies, as_granted
from wire.frames.batch import Batch
from wire.frames.supervision import NodeFigures
from wire.mqtt.topics import is_shared
from wire.routing.sys_topics import (
    Filters,
    LoadAverages,
    SysFigures,
    SysTopicReaders,
    asks_for_sys,
    listener_values,
    rows_for,
    sys_batch,
)
from wire.status.client_figures import TrafficFigures

_Figures = Callable[[], tuple[TrafficFigures, SysFigures]]


class SysTopics:
    """Keeps the latest values, and knows who wants them."""

    def __init__(self, host: ListenerInterface, deliveries: Deliveries, figures: _Figures) -> None:
        self._host = host
        self._deliveries = deliveries
        self._figures = figures
        self._loads: LoadAverages | None = None
        self._latest: Batch | None = None
        self._audience = SysTopicReaders()
        self._subscribers: dict[int, Client] = {}  # some may have gone, or have unsubscribed

    def publish_values(self, frame: NodeFigures) -> None:
        """A period is over: send the new values to all that subscribe."""
        now_s, wall_ms = self._host.mailbox.now_s(), self._host.mailbox.wall_ms()
        if self._loads is None:
            self._loads = LoadAverages(now_s)
        traffic, figures = self._figures()
        self._loads.update(traffic, now_s)
        values = listener_values(traffic, figures)
        self._latest = sys_batch(frame.version, frame.uptime_s, frame.values, values, self._loads.values(), wall_ms)
        wanting = [
            (number, filters, client.rights) for number, client in self._subscribers.items() if (filters := self._filters(client))
        ]
        self._subscribers = {number: self._subscribers[number] for number, _, _ in wanting}
        for numbers, (rows, keeps_retain, identifiers) in self._audience.groups(wanting, self._latest.topics):
            granted = as_granted(self._latest, rows, qos=0, retain_as_published=keeps_retain, identifiers=identifiers)
            self._deliveries.send(Copies(granted, wall_ms), numbers)

    def on_opened(self, client: Client) -> None:
        """The client has its CONNACK: it may have subscribed on an earlier connection."""
        if self._filters(client):
            self._subscribers[client.number] = client

    def on_subscribed(self, client: Client, wanted: Mapping[str, bool]) -> None:
        """The client has its SUBACK. wanted: topic filter -> whether it is to get what is retained."""
        for topic_filter, wants_retained in wanted.items():
            if client.closed or topic_filter not in client.filters or not asks_for_sys(topic_filter):
                continue
            self._subscribers[client.number] = client
            if self._latest is None or not wants_retained or is_shared(topic_filter):
                continue
            rows = rows_for(topic_filter, self._latest.topics)
            if rows:
                _, identifier = client.filters[topic_filter]
                identifiers = (identifier,) if identifier else ()
                granted = as_granted(self._latest, rows, qos=0, retain_as_published=True, identifiers=identifiers)
                self._deliveries.send(Copies(granted, self._host.mailbox.wall_ms()), (client.number,))

    @staticmethod
    def _filters(client: Client) -> Filters:
        if client.closed:
            return {}
        return {topic_filter: granted for topic_filter, granted in client.filters.items() if asks_for_sys(topic_filter)}
