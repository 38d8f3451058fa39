"""Messages of clients for topics that are the node's own: dropped, counted, and told in the log and the node's events."""

from __future__ import annotations

import logging

from actors.access.client import Client
from actors.broker.listener_interface import ListenerInterface
from wire.frames.names import QUEUE_STORE
from wire.frames.supervision import NodeEvents
from wire.routing.sys_topics import is_reserved
from wire.status.event_kinds import EventKind

log = logging.getLogger("bascule")

REPORT_PERIOD_S = 60.0  # one line and one event, with how many there were since the last
_TOPIC_SHOWN = 200


class ReservedTopics:
    """Drops what nobody may publish (routing.sys-stays-here). dropped: how many PUBLISHes and Wills, in all."""

    def __init__(self, host: ListenerInterface) -> None:
        self._host = host
        self.dropped = 0
        self._told = 0  # of them
        self._reported_s = float("-inf")

    def drop_reserved(self, number: int, topic: bytes) -> bool:
        """Drop what the client ``number`` publishes to ``topic``, if that is reserved; whether it is."""
        reserved = is_reserved(topic)
        if reserved and (client := self._host.client(number)) is not None:
            self.drop(client, topic)
        return reserved

    def drop(self, client: Client, topic: bytes) -> None:
        """Count a message of ``client`` that is not taken, and tell of it."""
        self.dropped += 1
        now_s = self._host.mailbox.now_s()
        if now_s - self._reported_s < REPORT_PERIOD_S:
            return
        count, self._told, self._reported_s = self.dropped - self._told, self.dropped, now_s
        facts = {"client_id": client.label, "user": client.user or "", "address": client.address}
        shown = topic.decode()[:_TOPIC_SHOWN]
        log.warning("publish.reserved", extra={**facts, "topic": shown, "count": count})
        event = (self._host.mailbox.wall_ms(), EventKind.PUBLISH_RESERVED, "", -1, self._host.name, shown, count, facts)
        self._host.send(QUEUE_STORE, NodeEvents(events=(event,)))
