"""The Listener: local MQTT clients in and out.

It puts the parts together that serve them, and gives each what comes: frames, sockets, timers, the end of a turn. Their input is
``actors/broker/client_input.py``'s, the batch that is being built ``actors/broker/client_batches.py``'s, and its departure
``actors/broker/batch_gathering.py``'s. ``actors/access/listening_sockets.py`` lets clients in; PUBACKs are released in
``actors/broker/puback_release.py``; what goes out to clients is ``actors/broker/client_deliveries.py``'s.

broker.link-states-before-clients [P3, alive]: nobody is let in before what the supervisor knows of the links is in a batch, so what
    an earlier life of the node has left retained is never taken for the state of now.
"""

from __future__ import annotations

from typing import Any

from actors.access.access_control import AccessControl, Verified
from actors.access.client import Client
from actors.access.closing_connections import ClosingConnections
from actors.access.listening_sockets import ACCEPT_TIMER, OPEN_TIMER, ListeningSockets
from actors.broker.batch_gathering import REST_TIMER, Gathering
from actors.broker.client_batches import ClientBatches
from actors.broker.client_commands import ClientAdmin
from actors.broker.client_deliveries import SETTLE_TIMER, Deliveries
from actors.broker.client_input import ClientInput
from actors.broker.client_packets import ClientPackets
from actors.broker.client_retained import ClientRetained
from actors.broker.client_sessions import ClientSessions
from actors.broker.client_silence import CHECK_PERIOD_S, ClientSilence
from actors.broker.client_sockets import ClientSockets
from actors.broker.client_stalls import ClientStalls
from actors.broker.client_subscriptions import ClientSubscriptions
from actors.broker.client_sys_topics import SysTopics
from actors.broker.client_wills import NO_SOURCE, ClientWills
from actors.broker.connected_clients import ConnectedClients
from actors.broker.followed_publish import FollowedPublisher
from actors.broker.puback_release import release
from actors.broker.qos0_overtaking import OVERTAKING_TIMER, Qos0Overtaking
from actors.broker.reserved_topics import ReservedTopics
from actors.broker.session_openings import SessionOpenings
from actors.broker.session_records import SessionRecords
from actors.broker.waiting_clients import RATE_TIMER, TURN_TIMER
from actors.process.actor import MailboxActor
from actors.process.local_messages import Deliver
from actors.process.mailbox import Mailbox
from wire.config_settings import NodeSettings
from wire.errors import Unavailable
from wire.figure import joined
from wire.frames.batch import RETAIN
from wire.frames.frame import Frame
from wire.frames.intake import Committed, Room, SenderResumes, SessionClosed, SessionGone, SessionOpened, SessionsKnown
from wire.frames.lanes import HandOut, LaneOpened, LaneReopen, Settled
from wire.frames.names import DISTRIBUTOR, QUEUE_STORE
from wire.frames.subscriptions import RetainedPiece, SubscriptionsKept
from wire.frames.supervision import AclChanged, NodeFigures, NodeTopics, QueueAnswer, SessionCommand
from wire.frames.traces import TraceMark, TraceWanted
from wire.mqtt.reason_codes import ReasonCode
from wire.routing.link_states import told_here
from wire.routing.node_topics import TopicsToTell
from wire.routing.sys_topics import SysFigures
from wire.status.client_figures import ListenerFigures, TrafficFigures

LOOK_TIMER = "housekeeping"
TOLD_QOS = 1


class Listener(MailboxActor):
    """Accepts local clients, gathers their PUBLISHes into batches, and answers each when its batch is committed."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._group = group = mailbox.group()
        self._lingering = ClosingConnections(mailbox)
        self.reception = ListeningSockets(mailbox, group, self._lingering, self.settings_now)
        self.clients = clients = ConnectedClients(
            mailbox, epoch, self.reception, self._lingering, self.settings_now, parted=self._parted
        )
        self._reserved = ReservedTopics(clients)
        self.batches = ClientBatches(clients, self._reserved)
        self._access = AccessControl(clients, self.send_from_thread)
        self._records = SessionRecords()
        self._wills = ClientWills(clients, self._access, self._reserved, self.batches, self._records)
        self.openings = SessionOpenings(
            clients, self._access, self._records, self._wills, busy=self.batches.busy, welcomed=self._welcomed
        )
        self.sessions = ClientSessions(clients, self._access, self._records, self._wills, self.openings)
        self._admin = ClientAdmin(clients, self.sessions)
        self.deliveries = Deliveries(clients, self._access)
        self._retained = ClientRetained(clients, self.deliveries)
        self._sys = SysTopics(clients, self.deliveries, self._sys_figures)
        self._subscriptions = ClientSubscriptions(
            clients,
            self._access,
            self._retained,
            self._records.filters,
            subscribed=self._sys.on_subscribed,
        )
        self.packets = ClientPackets(clients, self.sessions, self._subscriptions, self.batches.on_released)
        self._overtaking = Qos0Overtaking(clients, self.batches)
        self._input = ClientInput(
            clients,
            self.batches,
            self.packets,
            acknowledged=self.deliveries.on_touched,
            crowded=self._overtaking.on_crowded,
        )
        self._watch = FollowedPublisher(mailbox, clients)
        self._own_topics = TopicsToTell()
        self.gathering = Gathering(
            mailbox,
            self._group,
            self.batches,
            self._input,
            self._overtaking,
            gather_s=lambda: self.settings.persistence.gather_s,
        )
        self._stalls = ClientStalls(clients, self.packets, self.deliveries.exchanging)
        self.silence = ClientSilence(clients, self._stalls, self.openings.stood_still)
        self._sockets = ClientSockets(
            clients, self.reception, self._input, arrived=self._arrived, touched=self.deliveries.on_touched
        )

    # --- life ---

    def on_start(self) -> None:
        super().on_start()
        self.mailbox.set_timer(LOOK_TIMER, self.mailbox.now_s() + CHECK_PERIOD_S)

    def on_peer_up(self, name: str, epoch: int) -> None:
        if name not in (DISTRIBUTOR, QUEUE_STORE):
            return
        if name == QUEUE_STORE:
            self.sessions.store_is_new()
            self._admin.store_is_new()
            self.deliveries.store_is_new()
            self._subscriptions.store_is_new()
            self.batches.room.store_is_new()
            self.send(name, SenderResumes(sender=self.name, epoch=self.epoch, number=self.batches.link.committed + 1))
            self.batches.resend()
            self._retained.store_is_new()
        self._open_doors()

    def on_reconfigured(self, before: NodeSettings) -> None:
        self.batches.room.on_settings_changed()
        self.batches.durability.on_settings_changed()
        self._input.room_came()
        self._access.on_settings_changed()
        if self.settings.clients != before.clients:
            self.batches.on_limits_changed()
            self._input.on_limits_changed()
            self._stalls.on_limits_changed()
        if self.state == "starting":
            return  # the doors are opened by them
        shut = self.reception.rearrange(self.settings.listeners) if self.state == "ready" else set()
        for client in self.clients.clients():
            if client.listener in shut:
                self._see_off(client, ReasonCode.ADMINISTRATIVE_ACTION, "listener_closed")
        for client in self._access.unwelcome():
            self._see_off(client, ReasonCode.NOT_AUTHORIZED, "not_allowed")

    def _see_off(self, client: Client, reason_code: ReasonCode, why: str) -> None:
        self.packets.say_goodbye(client, reason_code)
        self.clients.close_client(client, why)

    def on_stopping(self) -> None:
        self.reception.close()
        self.gathering.stop()
        self._finish_stop()

    def status(self) -> ListenerFigures:
        traffic = self._traffic()
        return joined(
            ListenerFigures,
            self.reception.figures(),
            self.deliveries.figures(),
            clients=len(self.clients),
            slowed=self._input.waiting.slowed,
            input_bytes=self._input.held_bytes,
            outstanding_batches=len(self.batches.link.outstanding),
            published=traffic.publish_received,
            traffic=traffic,
            reserved_publishes=self._reserved.dropped,
            refused=self.batches.room.refused_ever,
            filter_bytes=self._records.filters.shares.total,
            pending_wills=self._wills.pending,
            waiting_for_room=len(self._input.waiting.for_room),
            overtaking=self._overtaking.figures(),
            access=self._access.status(),
        )

    def _finish_stop(self) -> None:
        """Leave once nothing that was read waits for its commit, no Will, and nobody to read the last that he was told.

        Unread bytes stay with their publisher.
        """
        if not self.batches.empty:
            return
        for client in self.clients.clients():
            self.packets.say_goodbye(client)
            self.clients.close_client(client, "server_stopped")
        self._lingering.hurry()
        if self.batches.empty and not len(self._lingering):  # the turn's end sends the Wills
            self.on_finished()

    def _open_doors(self) -> None:
        """Begin to serve once both actors behind are there; if an address cannot be had, try again later."""
        if not self._own_topics.told and any(map(told_here, self.settings.bridges)):
            return  # broker.link-states-before-clients
        if self.reception.listening_sockets or self.state != "starting" or not {DISTRIBUTOR, QUEUE_STORE} <= self.peers.keys():
            return
        try:
            self.listen()
        except Unavailable as refusal:
            self.reception.open_later(refusal)
        else:
            self.ready()

    def listen(self) -> None:
        """Open the doors. Raises Unavailable if one of them cannot be had."""
        self.reception.open(self.settings.listeners)

    def ready(self) -> None:
        super().ready()
        self.gathering.serve()

    # --- frames ---

    def on_frame(self, frame: Frame) -> None:
        match frame:
            case Committed():
                if frame.sender == self.name and frame.epoch == self.epoch and not self.is_former(QUEUE_STORE, frame.store):
                    release(self.clients, self.batches, frame.number)
                    self.gathering.on_committed()
                    if self._watch.on:
                        self._watch.on_committed(frame)
            case Room():
                if frame.epoch == self.epoch and not self.is_former(QUEUE_STORE, frame.store):
                    first = self.batches.room.on_report(frame)
                    self._input.room_came(None if first else frame.queues)
            case HandOut() | LaneOpened() | Settled() | LaneReopen():
                self.deliveries.lane(frame)
            case SessionGone():
                self._admin.on_gone(frame.session)
                self.sessions.on_gone(frame)
            case SessionCommand():
                self._admin.command(frame)
            case QueueAnswer():
                self._admin.on_answered(frame)
            case Deliver():
                self.deliveries.deliver(frame)
            case SessionsKnown():
                self.sessions.known(frame)
            case RetainedPiece() | SessionOpened() | SessionClosed() | SubscriptionsKept():
                if frame.epoch == self.epoch:
                    self._of_this_life(frame)
            case AclChanged():
                self._access.on_acl_changed(frame)
            case NodeTopics():
                self._own_topics.on_told(frame)
                self._publish_own_topics()
                self._open_doors()
            case NodeFigures():
                self._sys.publish_values(frame)
            case TraceWanted():
                self._watch.on_wanted(frame, self._access.watch_denials, self.batches.room.watch_refusals)
            case TraceMark():
                self._watch.mark(frame)
            case _:
                raise AssertionError(f"not for a Listener: {frame}")

    def _of_this_life(self, frame: RetainedPiece | SessionOpened | SessionClosed | SubscriptionsKept) -> None:
        match frame:
            case RetainedPiece():
                self._retained.piece(frame)
            case SubscriptionsKept():
                if (client := self._subscriptions.on_kept(frame)) is not None:
                    self._input.read_on(client)
            case SessionOpened():
                if not self.is_former(QUEUE_STORE, frame.store):  # the new one is asked again, and may know nothing of this
                    self.openings.on_opened(frame)
            case SessionClosed():
                self._records.end_committed(frame.source)

    def on_thread_message(self, message: Any) -> None:
        assert isinstance(message, Verified), f"not for a Listener: {message}"
        self._access.on_verified(message)

    # --- turns ---

    def on_turn_end(self, now_s: float) -> None:
        openings, deliveries, retained, room = self.openings, self.deliveries, self._retained, self.batches.room
        if openings.at_turn_end:
            openings.let_in()
        self.gathering.turn_end(now_s)
        if openings.unanswered:
            openings.look_up()
        if deliveries.touched:
            deliveries.turn_end(now_s)
        if deliveries.wanting or retained.turns:
            retained.turn_end()
        if room.wanted:
            room.ask()
        if self.state == "stopping":
            self._finish_stop()

    def on_timer(self, name: str, now_s: float) -> None:
        if name == REST_TIMER:
            self.gathering.end_rest()
        elif name == LOOK_TIMER:
            self.mailbox.set_timer(LOOK_TIMER, now_s + CHECK_PERIOD_S)
            self._on_check_due(now_s)
        elif name == OVERTAKING_TIMER:
            self._overtaking.on_timer()  # what is due goes at the turn's end
        elif name == SETTLE_TIMER:
            self.deliveries.settle_all()
        elif name == ACCEPT_TIMER:
            self.reception.resume()
        elif name == OPEN_TIMER:
            if self.state == "ready":
                self.reception.open_missing(self.settings.listeners)
            self._open_doors()
        elif name in (RATE_TIMER, TURN_TIMER):
            self._input.on_timer(name, now_s)

    def _on_check_due(self, now_s: float) -> None:
        """Checks by time: files that changed, clients that are silent or late, and what is due."""
        self.reception.reload_certificates(now_s)
        self._access.reload()
        if self.batches.link.overdue(now_s):
            self.batches.resend()
        self._lingering.close_overdue(now_s)
        if self.state != "stopping":  # then nobody is read, so nobody is silent
            self.silence.close_silent(now_s)
        self.deliveries.rest(now_s)
        self.clients.give_back(now_s)
        self.openings.wait_no_longer(now_s)
        self._retained.wait_no_longer(now_s)
        self._input.read_departed()
        self._wills.publish_due(now_s)
        self._publish_own_topics()

    def _publish_own_topics(self) -> None:
        """Put what the node itself has to tell into the batch that is being built, as far as it takes it."""
        while not self.batches.full and (told := self._own_topics.take_next()) is not None:
            topic, payload, retained = told
            self.batches.builder.add(topic, TOLD_QOS | RETAIN if retained else TOLD_QOS, payload, source=NO_SOURCE)

    def on_sockets(self, ready: list[tuple[Any, int]]) -> None:
        rows = len(self.batches.builder.payloads)
        if self._sockets.serve(ready) and len(self.batches.builder.payloads) > rows:
            self.gathering.came(self.clients.connected)

    # --- what becomes of a client concerns several parts ---

    def _welcomed(self, client: Client) -> None:
        """It has its CONNACK."""
        self.deliveries.on_opened(client)
        self._sys.on_opened(client)
        self.clients.on_welcomed()
        self.silence.watch(client)
        self._input.read_on(client)

    def _arrived(self, client: Client, now_s: float) -> None:
        """It has come in, and has said nothing."""
        self._input.begin(client, now_s)
        self.silence.watch(client)

    def _parted(self, client: Client, publish_will: bool) -> None:
        """Its connection has ended."""
        self._input.on_closed(client)
        self.deliveries.on_closed(client)
        self._subscriptions.on_closed(client)
        self._retained.on_closed(client)
        self.sessions.on_closed(client, publish_will=publish_will)

    def _traffic(self) -> TrafficFigures:
        published = self.batches.published + self._overtaking.dropped
        return TrafficFigures(
            messages_received=self._input.packets_received + published,
            messages_sent=self.clients.packets_sent,
            publish_received=published,
            publish_sent=self.deliveries.publish_sent,
            bytes_received=self._input.bytes_received,
            bytes_sent=self.clients.bytes_sent,
        )

    def _sys_figures(self) -> tuple[TrafficFigures, SysFigures]:
        return self._traffic(), SysFigures(
            connected=self.clients.connected,
            most_connected=self.clients.most_connected,
            outstanding_batches=len(self.batches.link.outstanding),
            refused_messages=self.batches.room.refused_ever,
            reserved_publishes=self._reserved.dropped,
            refused=self.reception.admission.refused,
        )
