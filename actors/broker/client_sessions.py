"""The sessions of local clients as the Listener sees them: who comes, who takes over, and what the end of a connection means.

Everything that outlives a connection is kept by the store, which is told here. ``actors/broker/session_records.py`` knows what may
be on record; clients wait for CONNACK in ``actors/broker/session_openings.py``, Wills in ``actors/broker/client_wills.py``. Terms
are ``wire/access/connect_checks.py``'s.

broker.one-link-per-client [MQTT]: a client identifier has one connection; a newer one ends the older first [MQTT-3.1.4-3].
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial

from actors.access.access_control import AccessControl, Verdict
from actors.access.client import OPENING, Client
from actors.broker.client_wills import NO_SOURCE, ClientWills
from actors.broker.listener_interface import ListenerInterface
from actors.broker.session_openings import SessionOpenings, end_connection
from actors.broker.session_records import SessionRecords
from actors.process.local_messages import SessionDown
from wire.access.connect_checks import ConnectTerms, LoginFault, judge_connect, refuse_login
from wire.exchange.wills import Message, size_bytes
from wire.frames.batch import RETAIN
from wire.frames.intake import SessionClose, SessionGone, SessionsKnown
from wire.frames.names import DISTRIBUTOR, QUEUE_STORE
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_5_0, Connack, Connect, Disconnect, Packet, Will
from wire.mqtt.properties import encode_properties
from wire.mqtt.reason_codes import ReasonCode, protocol_error
from wire.mqtt.topics import TopicLimits


class ClientSessions:
    """Begins and ends sessions."""

    def __init__(
        self,
        host: ListenerInterface,
        access: AccessControl,
        records: SessionRecords,
        wills: ClientWills,
        openings: SessionOpenings,
    ) -> None:
        self._host = host
        self._access = access
        self._records = records
        self._wills = wills
        self._openings = openings
        self._clients: dict[str, Client] = {}

    # --- CONNECT ---

    def connect(self, client: Client, connect: Connect) -> None:
        """Let the client in, or not."""
        client.greets(connect.level, bridge=connect.bridge)
        self._host.on_greeted(client)
        will = None if connect.will is None else _message(connect.will)
        settings, id_bytes = self._host.settings.now, len(connect.client_id.encode())
        limits = settings.clients
        allowed = connect.will is None or TopicLimits.of(limits).allow(connect.will.topic)
        for limit, fault, holds in (
            ("client_id_max_bytes", LoginFault.IDENTIFIER_TOO_LONG, id_bytes <= limits.client_id_max_bytes),
            ("topic_limits", LoginFault.WILL_TOPIC, allowed),
            ("will_max_bytes", LoginFault.WILL_TOO_LARGE, will is None or size_bytes(will) <= limits.will_max_bytes),
        ):
            if not holds:
                self._host.on_limited(limit)
                self._send(client, refuse_login(fault, client.level))
                self._host.close_client(client, "refused")
                return
        judged = judge_connect(connect, limits, settings.sessions, new_id=f"auto-{uuid.uuid4().hex}")
        if isinstance(judged, Connack):
            least = connect.properties.maximum_packet_size
            if least is None or len(encode(judged, client.level)) <= least:
                self._send(client, judged)
            self._host.close_client(client, "refused")
            return
        client.hear(False, OPENING)  # what it sends before its CONNACK waits in its socket
        self._access.judge(client, connect, partial(self._admit, client, judged, will))

    def _admit(self, client: Client, welcome: ConnectTerms, will: Message | None, verdict: Verdict) -> None:
        """Go on with a client that may come in, and has not gone meanwhile; send the others away [MQTT-3.1.4-2]."""
        if verdict is None:
            client.is_called(welcome.client_id)
            self._access.give_rights(client)
            if will is not None:
                will, verdict = self._wills.judge(client, will)
        older = self._clients.get(welcome.client_id)
        if verdict is None and older is not None and not self._access.check_take_over(client, older):
            verdict = LoginFault.ANOTHERS
        if verdict is None and will is not None and not self._wills.fits(client.session, will, older):
            self._host.on_limited("wills_max_bytes")
            verdict = LoginFault.NO_ROOM_FOR_WILL
        if verdict is None and not self._host.logs_in(client, older):
            verdict = LoginFault.TOO_MANY
        if verdict is not None:
            self._send(client, refuse_login(verdict, client.level))
            self._host.close_client(client, "refused")
            return
        if older is not None:
            if older.level == MQTT_5_0 and older.flow is not None:
                self._send(older, Disconnect(reason_code=ReasonCode.SESSION_TAKEN_OVER))
            self._host.close_client(older, "taken_over")  # broker.one-link-per-client
        self._clients[welcome.client_id] = client
        client.agrees(welcome, will)
        self._wills.brought(client)
        self._openings.add(client, welcome)

    # --- the end ---

    def disconnect(self, client: Client, packet: Disconnect) -> None:
        """The client says goodbye.

        Raises:
            PeerViolation: it wants its session to last, which it did not when it came [MQTT-3.14.2-2].
        """
        expiry_s = packet.properties.session_expiry_interval
        if expiry_s is not None:
            if expiry_s and not client.expiry_s:
                protocol_error("MQTT-3.14.2-2 session expiry interval in DISCONNECT after 0 in CONNECT")
            client.outlives(min(expiry_s, self._host.settings.now.sessions.expiry_max_s))
        goodbye = packet.reason_code == ReasonCode.NORMAL_DISCONNECTION
        self._host.close_client(client, "disconnect", publish_will=not goodbye)  # [MQTT-3.14.4-3]

    def on_closed(self, client: Client, *, publish_will: bool) -> None:
        """The connection is gone: so is the session, or it waits for its client from now on."""
        if self._clients.get(client.session) is not client:
            return
        del self._clients[client.session]
        self._wills.on_left(client)
        opening = self._openings.on_closed(client)
        if opening is not None and not opening.asked and not opening.let_in:
            return
        if not client.expiry_s:
            self._records.filters.has(client.session)
        told = opening is None or opening.asked
        keep_will = publish_will and client.will is not None and client.flow is not None
        keep_will = keep_will and client.will is not None and self._access.check_publish(client, client.will[0])
        if told and (client.will is not None or client.queue or client.expiry_s or opening is not None):
            close = SessionClose(
                sender=self._host.name,
                epoch=self._host.epoch,
                session=client.session,
                source=client.number,
                wall_ms=self._host.mailbox.wall_ms(),
                expiry_s=client.expiry_s,
                keep_will=keep_will and opening is None,  # what is not on record yet need not get there: it is published now
            )
            self._records.ends(close, answered=opening is None)
            self._host.send(QUEUE_STORE, close)
        if client.flow is not None:
            ended, published = not client.expiry_s, client.flow.published or keep_will
            self._host.send(
                DISTRIBUTOR, SessionDown(session=client.session, source=client.number, ended=ended, published=published)
            )
        if keep_will:
            self._wills.on_connection_ended(client, on_record=told)

    def on_gone(self, frame: SessionGone) -> None:
        """The session has ended, and not by its client's will; a Will that waited for its delay is due [MQTT-3.1.3-9]."""
        client = self._clients.get(frame.session)
        if client is not None and client.flow is not None and client.queue and client.queue == frame.queue:
            reason = ReasonCode.ADMINISTRATIVE_ACTION
            end_connection(self._host, client, reason, "session_ended", publish_will=not frame.drops_will)
        if frame.session not in self._clients:
            self._records.on_gone(frame.session)
        self.on_ended(frame.session, drops_will=frame.drops_will)

    # --- by an operator's order ---

    def connected(self, session: str) -> Client | None:
        """The client that has its CONNACK and is connected under this identifier."""
        client = self._clients.get(session)
        return client if client is not None and client.flow is not None else None

    def send_away(self, client: Client, *, publish_will: bool = True) -> None:
        """End the connection; an MQTT 5 client is told that it is an administrative action."""
        reason = ReasonCode.ADMINISTRATIVE_ACTION
        end_connection(self._host, client, reason, "administrative_action", publish_will=publish_will)

    def hold(self, session: str) -> None:
        """The session is being ended: who comes under its identifier waits for that (broker.looked-up-after-commits)."""
        self._records.hold(session)

    def release(self, session: str) -> None:
        """It has ended, or will not end."""
        self._records.release(session)
        self._openings.look_up()

    def on_ended(self, session: str, *, drops_will: bool) -> None:
        """The session has ended: its Will waits no longer."""
        self._wills.on_session_ended(session, drops_will=drops_will)
        self.release(session)

    def on_lost(self, session: str) -> None:
        """It has ended with a store that could not tell the Distributor any more."""
        self._host.send(DISTRIBUTOR, SessionDown(session=session, source=NO_SOURCE, ended=True))

    # --- other actors start again ---

    def store_is_new(self) -> None:
        """Tell it how connections have ended (broker.end-told-until-committed), and ask again for what was not answered, and for
        what is connected.
        """
        self._records.filters.only(self._clients)
        if not self._records.known:  # it tells all anew
            self._records.restart()
            self._wills.restart()
        for close in self._records.uncommitted_ends:
            self._host.send(QUEUE_STORE, close)
        self._openings.store_is_new(self._clients.values())

    def known(self, frame: SessionsKnown) -> None:
        """Sessions and Wills that an earlier life of the Listener has left."""
        for session, queue, filters, *_, owner in frame.sessions:
            if queue and session not in self._clients:
                self._records.filters.has(session, owner, (topic_filter for topic_filter, *_ in filters))
        if self._records.known:
            return
        for session, queue, *_ in frame.sessions:
            if queue:
                self._records.found(session)
        self._wills.found(frame)
        if frame.last:
            self._records.all_found()
            self._wills.publish_due(self._host.mailbox.now_s())
            self._openings.look_up()

    def _send(self, client: Client, packet: Packet) -> None:
        self._host.write(client, encode(packet, client.level))


def _message(will: Will) -> Message:
    """The Will as it will be published."""
    flags = will.qos | (RETAIN if will.retain else 0)
    properties = encode_properties(replace(will.properties, will_delay_interval=None))
    return will.topic.encode(), flags, will.payload, properties, will.properties.will_delay_interval or 0
