"""Wills of local clients that wait for their delay.

A Will leaves its client when its connection ends, and gets into the batch that is being built. Which are on record is the store's.

broker.will-unless-taken-back [MQTT, access]: a Will is published unless DISCONNECT with 0x00 came, or the session was resumed
    before its delay had passed [MQTT-3.1.3-9]. A client that gets no CONNACK has not resumed its session. A Will whose topic its
    client may not publish to any more when it is due is not published, and its record goes with the next commit.
broker.wills-bounded [P5]: Wills of clients that are here or gone have at most ``wills_max_bytes``; who brings one more is refused.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from actors.access.access_control import AccessControl, Verdict
from actors.access.client import Client
from actors.broker.client_batches import ClientBatches
from actors.broker.listener_interface import ListenerInterface
from actors.broker.reserved_topics import ReservedTopics
from actors.broker.session_records import SessionRecords
from wire.access.connect_checks import LoginFault
from wire.clock_steps import elapsed_ms
from wire.exchange.wills import Message, PendingWill, PendingWills, size_bytes
from wire.frames.intake import SessionsKnown
from wire.routing.sys_topics import is_reserved

log = logging.getLogger("bascule")

UNRECORDED_WILLS_MAX = 10_000  # Wills that wait, beside which no further one is kept in memory only
NO_SOURCE = 0  # a connection that nothing waits behind


class ClientWills:
    """Publishes them when they are due."""

    def __init__(
        self,
        host: ListenerInterface,
        access: AccessControl,
        reserved: ReservedTopics,
        batches: ClientBatches,
        records: SessionRecords,
    ) -> None:
        self._host = host
        self._access = access
        self._reserved = reserved
        self._batches = batches
        self._records = records
        self._pending = PendingWills()
        self._connected_bytes = 0  # of the Wills of those who are connected

    @property
    def pending(self) -> int:
        """How many wait for their delay to pass."""
        return len(self._pending)

    # --- what an earlier life has left ---

    def restart(self) -> None:
        """The store's report on it was incomplete, and a new one is complete."""
        self._pending = PendingWills()

    def found(self, frame: SessionsKnown) -> None:
        """The Wills that clients of an earlier life of the Listener have left."""
        now_s, wall_ms = self._host.mailbox.now_s(), self._host.mailbox.wall_ms()
        for session, _, _, will, due_ms, user, listener, _ in frame.sessions:
            if will is not None:
                wait_s = max(0.0, will[4] - elapsed_ms(due_ms - will[4] * 1000, wall_ms) / 1000)
                self._pending.add(session, PendingWill(will, now_s + wait_s, 0, user, listener))

    # --- connections and sessions ---

    def judge(self, client: Client, will: Message) -> tuple[Message | None, Verdict]:
        """The Will with which the client may come in, if it may."""
        topic = will[0]
        if not is_reserved(topic) and self._access.check_publish(client, topic):
            return will, None
        if not topic.startswith(b"$"):
            return will, LoginFault.WILL_FORBIDDEN
        self._reserved.drop(client, topic)  # bridges put it there unasked, so that is no reason to refuse them
        return None, None

    def fits(self, session: str, will: Message, older: Client | None) -> bool:
        """Whether there is room (broker.wills-bounded) for the Will of who comes as ``session``, in place of ``older``."""
        wills_max_bytes = self._host.settings.now.sessions.wills_max_bytes
        gone = self._pending.size_of(session) + (size_bytes(older.will) if older is not None and older.will is not None else 0)
        return self._connected_bytes + self._pending.size_bytes - gone + size_bytes(will) <= wills_max_bytes

    def brought(self, client: Client) -> None:
        """The client is connected, with its Will if it has one."""
        if client.will is not None:
            self._connected_bytes += size_bytes(client.will)

    def on_left(self, client: Client) -> None:
        """It is not any more."""
        if client.will is not None:
            self._connected_bytes -= size_bytes(client.will)

    def on_connection_ended(self, client: Client, *, on_record: bool) -> None:
        """The client's Will is to be published, now or after its delay.

        on_record: the store has it, or is told of it; else there is a limit to how many are kept.
        """
        assert client.will is not None
        delay_s = min(client.will[4], client.expiry_s)
        due_s = self._host.mailbox.now_s() + delay_s
        pending = PendingWill(client.will, due_s, client.number, client.user, self._access.bind_of(client))
        if delay_s:
            self._pending.add(client.session, pending)
        elif on_record or len(self._pending) < UNRECORDED_WILLS_MAX:
            self._publish(client.session, pending)
        else:
            self._host.on_limited("store_unavailable")

    def on_session_ended(self, session: str, *, drops_will: bool) -> None:
        """The session's Will waits no longer [MQTT-3.1.3-9]."""
        pending = self._pending.take_ended(session)
        if pending is not None and not drops_will:  # whoever comes next under the identifier has it published first
            self._publish(session, replace(pending, due_s=self._host.mailbox.now_s(), ended=True))

    def take(self, session: str, user: str | None, *, resumes: bool) -> tuple[PendingWill | None, bool]:
        """Somebody comes who will resume the session, or not: its Will, and whether it is out of the way.

        The Will is returned if a CONNACK takes it back; without one it is ``put_back`` (broker.will-unless-taken-back). If the
        session has ended or the Will was due before, it is published; while there is no room for it, it is in the way.
        """
        pending = self._pending.take(session, user)
        if pending is None:
            return None, True
        if resumes and pending.due_s > self._host.mailbox.now_s():
            return pending, True
        return None, self._publish(session, pending)

    def put_back(self, session: str, pending: PendingWill) -> None:
        """Its client has got no CONNACK."""
        self._pending.add(session, pending)

    # --- publishing ---

    def publish_due(self, now_s: float) -> None:
        """Publish the Wills whose delay has passed, as many as one batch takes (broker.looked-up-after-commits)."""
        if self._records.known:
            for session, pending in self._pending.take_due(now_s):
                self._publish(session, pending)

    def _publish(self, session: str, pending: PendingWill) -> bool:
        """Whether the Will is in the batch that is being built; when there is no room, it is due as soon as there is."""
        if self._batches.full:
            self._pending.add(session, pending)
            return False
        if self._access.check_publish_left(session, pending.user, pending.listener, pending.message[0]):
            self._batches.add_will(session, pending.message, pending.source)
        else:  # broker.will-unless-taken-back
            self._batches.drop_will(session)
        return True
