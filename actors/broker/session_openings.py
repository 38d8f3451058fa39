"""Local clients between their CONNECT, once they may come in, and their CONNACK: who waits for the store, and for how long.

Sessions and their ends are ``actors/broker/client_sessions.py``'s.

broker.looked-up-after-commits [P2, P3, MQTT]: a session is looked up once every batch is committed that changes its identifiers or
    has its Will.
broker.refused-without-store [alive, MQTT]: a client that needs the store is refused where that does not answer [MQTT-3.2.2-7]. The
    store is asked for an identifier once at a time, so that clients that try again do not pile up. A client whose session ends with
    its connection is let in without the store, where nothing that lasts is on record under its identifier: there is nothing to find
    and nothing to keep. With a Will, which is to be on record, it waits for the store, but not for long: from then on the Will is
    in memory only until the store takes it, and lost if too many wait for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from actors.access.access_control import AccessControl
from actors.access.client import OPENING, Client
from actors.broker.client_wills import ClientWills
from actors.broker.listener_interface import ListenerInterface
from actors.broker.session_records import SessionRecords
from actors.process.local_messages import SessionUp
from wire.access.access_rules import resolve
from wire.access.connect_checks import ConnectTerms, LoginFault, refuse_login
from wire.exchange.receiver import ReceiverHalf
from wire.exchange.wills import PendingWill
from wire.frames.batch import unpack_column
from wire.frames.intake import SessionOpen, SessionOpened
from wire.frames.names import DISTRIBUTOR, QUEUE_STORE
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_5_0, Disconnect, Packet
from wire.mqtt.reason_codes import ReasonCode

log = logging.getLogger("bascule")

LATE_S = 0.5  # a client with a Will does not wait longer for the store
UNANSWERED_S = 10.0  # and who needs the store, not longer than this, beside the flush period


@dataclass(slots=True)
class Opening:
    """A client between its CONNECT and its CONNACK, or with a Will that the store has not got yet.

    since_s: when it might first have been asked for. asked: the store was. let_in: it has its CONNACK
    (broker.refused-without-store). pending: the Will of its session that it takes back by its CONNACK, and not before
    (broker.will-unless-taken-back).
    """

    client: Client
    welcome: ConnectTerms
    since_s: float
    asked: bool = False
    let_in: bool = False
    pending: PendingWill | None = None


class SessionOpenings:
    """Asks the store for sessions, and sends CONNACK."""

    def __init__(
        self,
        host: ListenerInterface,
        access: AccessControl,
        records: SessionRecords,
        wills: ClientWills,
        *,
        busy: Callable[[str], bool],
        welcomed: Callable[[Client], None],
    ) -> None:
        """busy: whether a batch that is not committed concerns a session, as ``ClientBatches.busy``. welcomed: is told of a client
        that has its CONNACK; what it has sent meanwhile has not been read.
        """
        self._host = host
        self._access = access
        self._busy = busy
        self._records = records
        self._wills = wills
        self._welcomed = welcomed
        self.unanswered: dict[int, Opening] = {}
        self._resuming: dict[int, Client] = {}
        self._requests = 0
        self.at_turn_end: list[Opening] = []  # those that ``let_in`` lets in

    # --- before the answer ---

    def add(self, client: Client, welcome: ConnectTerms) -> None:
        """The client may come in on these terms."""
        self._requests += 1
        self.unanswered[self._requests] = Opening(client, welcome, self._host.mailbox.now_s())
        self.look_up()

    def look_up(self) -> None:
        """Ask the store for the sessions that may be looked up now (broker.looked-up-after-commits,
        broker.looked-up-after-commits), and for no others (broker.refused-without-store).
        """
        if not self._records.known:
            return
        for request, opening in list(self.unanswered.items()):
            client, session = opening.client, opening.client.session
            if opening.asked or self._records.is_ending(session):
                continue
            pending, out_of_the_way = self._wills.take(session, client.user, resumes=not opening.welcome.clean)
            opening.pending = pending or opening.pending
            if not out_of_the_way:
                continue
            if client.will is None and self._records.keeps_nothing(session, opening.welcome.expiry_s):
                del self.unanswered[request]
                self.at_turn_end.append(opening)
            elif not self._records.awaits_end(session) and not self._busy(session):
                opening.asked = True
                self._open(request, opening)

    def let_in(self) -> None:
        """Send CONNACK to those that need nothing of the store; call it at the turn's end, when nobody's packets are being read."""
        while self.at_turn_end:
            opening = self.at_turn_end.pop(0)
            if not opening.client.closed:
                self._begin(opening)

    def wait_no_longer(self, now_s: float) -> None:
        """The store does not answer: let in who can do without it for now (broker.refused-without-store), and refuse the others
        (broker.refused-without-store).
        """
        for opening in list(self.unanswered.values()):
            client, waited_s = opening.client, now_s - opening.since_s
            if opening.let_in or client.closed:
                continue
            if waited_s >= LATE_S and self._records.keeps_nothing(client.session, opening.welcome.expiry_s):
                opening.let_in = True
                self._begin(opening)
            elif waited_s >= UNANSWERED_S + self._host.settings.now.persistence.flush_period_s:
                self._host.on_limited("store_unavailable")
                self._send(client, refuse_login(LoginFault.UNAVAILABLE, client.level))
                self._host.close_client(client, "store_unavailable", publish_will=False)

    def stood_still(self, period_s: float) -> None:
        """The Listener did, so it could not hear the store either."""
        for opening in self.unanswered.values():
            opening.since_s += period_s

    def store_is_new(self, clients: Iterable[Client]) -> None:
        """Ask again for what was not answered, and whether the sessions of ``clients``, which are connected, are still there."""
        self._resuming.clear()
        for client in clients:
            if client.flow is not None and client.queue:
                self._requests += 1
                self._resuming[self._requests] = client
                self._ask(self._requests, client, clean=False, expiry_s=client.expiry_s, resumes=True)
        for request, opening in self.unanswered.items():
            if opening.asked:
                self._open(request, opening)

    def on_closed(self, client: Client) -> Opening | None:
        """The connection is gone: what it was waiting for, if it was."""
        request = next((request for request, opening in self.unanswered.items() if opening.client is client), None)
        if request is None:
            return None
        opening = self.unanswered.pop(request)
        self._not_taken_back(opening)
        return opening

    def _open(self, request: int, opening: Opening) -> None:
        client, welcome = opening.client, opening.welcome
        self._records.on_asked(client.session, client.number, welcome.expiry_s)
        self._ask(request, client, clean=welcome.clean, expiry_s=welcome.expiry_s)

    def _ask(self, request: int, client: Client, *, clean: bool, expiry_s: int, resumes: bool = False) -> None:
        self._host.send(
            QUEUE_STORE,
            SessionOpen(
                sender=self._host.name,
                epoch=self._host.epoch,
                request=request,
                session=client.session,
                clean=clean,
                expiry_s=expiry_s,
                source=client.number,
                will=client.will,
                resumes=resumes,
                user=client.user,
                listener=self._access.bind_of(client),
                owner=client.owner,
            ),
        )

    # --- the answer ---

    def on_opened(self, frame: SessionOpened) -> None:
        """The store has answered: send CONNACK, and go on with what the client sent meanwhile."""
        resumed = self._resuming.pop(frame.request, None)
        if resumed is not None and not frame.present and not resumed.closed:
            end_connection(self._host, resumed, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, "session_lost")
        opening = self.unanswered.pop(frame.request, None)
        if opening is None or opening.client.closed or opening.let_in:
            return
        client = opening.client
        if frame.refused:
            self._refuse(opening, frame.refused)
            return
        self._records.on_opened(client.session, client.number, lasts=bool(frame.queue))
        client.resumes(frame.queue, frame.subscriptions)
        self._begin(opening, present=frame.present, received=unpack_column("H", frame.received))

    def _refuse(self, opening: Opening, why: str) -> None:
        """The session is another user's, or there would be too many."""
        client = opening.client
        self._not_taken_back(opening)
        self._records.on_refused(client.session)
        if why == "user":
            self._access.refuse_session(client)
            self._send(client, refuse_login(LoginFault.ANOTHERS, client.level))
        else:
            self._host.on_limited(why)
            self._send(client, opening.welcome.no_room())
        self._host.close_client(client, "refused", publish_will=False)

    def _not_taken_back(self, opening: Opening) -> None:
        if opening.pending is not None:
            self._wills.put_back(opening.client.session, opening.pending)

    def _begin(self, opening: Opening, *, present: bool = False, received: Iterable[int] = ()) -> None:
        """Let the client in."""
        client, welcome = opening.client, opening.welcome
        flow = ReceiverHalf(
            number=client.number,
            session=client.session,
            level=client.level,
            receive_maximum=self._host.settings.now.clients.receive_maximum,
            topic_alias_maximum=welcome.gives_aliases,
        )
        flow.carry(received)
        client.begins(flow)
        self._access.give_rights(client)
        self._records.filters.has(client.session, client.owner, client.filters)
        self._up(client)
        client.hear_again(self._host.mailbox.now_s(), OPENING)
        self._send(client, welcome.connack(present, self._response_information(client)))
        log.debug("client.connected", extra={"client_id": client.session, "address": client.address, "level": client.level})
        if not client.closed:
            self._welcomed(client)

    def _response_information(self, client: Client) -> str | None:
        """The prefix of its response topics; None if nothing is set, or its names do not fit into a topic."""
        pattern = self._host.settings.now.clients.response_information
        return None if pattern is None else resolve(pattern, allow=True, user=client.user, client_id=client.session)

    def _up(self, client: Client) -> None:
        subscriptions = tuple((topic_filter, *options) for topic_filter, options in client.filters.items())
        self._host.send(
            DISTRIBUTOR,
            SessionUp(
                session=client.session,
                source=client.number,
                queue=client.queue,
                subscriptions=subscriptions,
                user=client.user,
                listener=self._access.bind_of(client),
                owner=client.owner,
                bridge=client.bridge,
            ),
        )

    def _send(self, client: Client, packet: Packet) -> None:
        self._host.write(client, encode(packet, client.level))


def end_connection(host: ListenerInterface, client: Client, reason_code: int, why: str, *, publish_will: bool = True) -> None:
    """End the connection of a client that has its CONNACK, and tell it the reason where its version can carry one."""
    if client.level == MQTT_5_0:
        host.write(client, encode(Disconnect(reason_code=reason_code), client.level))
    host.close_client(client, why, publish_will=publish_will)
