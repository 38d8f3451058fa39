"""Packets from a lane's remote: when its socket is read, and whose each packet is.

Acknowledgements are ``LaneSender``'s, what comes by remote subscriptions ``RemoteIntake``'s; the rest is answered or refused here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NoReturn

from actors.bridge.lane_names import Lane
from actors.bridge.remote_intake import RemoteIntake
from actors.bridge.remote_poll import RemotePoll
from actors.bridge.remote_writer import RemoteWriter
from actors.process.mailbox import Mailbox
from actors.remote.remote_socket import LEVEL_5, NOTHING_SUBSCRIBED, Remote
from wire.errors import PeerViolation, Unavailable
from wire.exchange import remote_packets
from wire.exchange.lane_sender import LaneSender
from wire.exchange.remote_limits import RemoteLimits
from wire.mqtt.reason_codes import ReasonCode
from wire.status.link_faults import LinkFault, of_refusal

log = logging.getLogger("bascule")

# A remote acknowledges messages one by one, and reading each acknowledgement by itself costs more than the message did. So they
# gather for a moment while no more could be sent for them anyway: the window is wide open, or the remote has half of it to work on.
# For a PUBREC more can always be sent: so at QoS 2 a window that is wide open is read at once.
REST_TIMER = "rest"
REST_WINDOW_MIN = 200
REST_OPEN_S = 0.02
REST_LEAST_S = 0.005  # after which it is read when there is something to be sent as well
REST_BUSY_S = 0.001

_ANSWERS = (remote_packets.CONNACK, remote_packets.SUBACK, remote_packets.UNSUBACK)  # to what was asked for, or never was
_UNASKED = (3, 6)  # types of PUBLISH and PUBREL

# Reasons of a DISCONNECT that may be due to a message that we sent; the others are about the connection, the remote or us.
MAY_MEAN_A_MESSAGE = frozenset(
    {
        ReasonCode.UNSPECIFIED_ERROR,
        ReasonCode.MALFORMED_PACKET,
        ReasonCode.PROTOCOL_ERROR,
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.TOPIC_NAME_INVALID,
        ReasonCode.PACKET_TOO_LARGE,
        ReasonCode.PAYLOAD_FORMAT_INVALID,
        ReasonCode.RETAIN_NOT_SUPPORTED,
        ReasonCode.QOS_NOT_SUPPORTED,
    }
)


# Limits of the remote that other reasons tell.
_SAID: dict[int, RemoteLimits] = {
    ReasonCode.RETAIN_NOT_SUPPORTED: RemoteLimits(retain_available=False),
    ReasonCode.QOS_NOT_SUPPORTED: RemoteLimits(maximum_qos=1),
    ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: RemoteLimits(wildcard_available=False),
    ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: RemoteLimits(shared_available=False),
}


class RemoteReader:
    """Reads one connection at a time. limits: what the remote may send. unexpected_publishes: those that nobody subscribed to.

    heard_s: when something came last.
    """

    def __init__(self, mailbox: Mailbox, lane: Lane, flow: LaneSender, poll: RemotePoll, writer: RemoteWriter) -> None:
        self.limits = NOTHING_SUBSCRIBED
        self._intake: RemoteIntake | None = None
        self._hears_auth: Callable[[int], None] | None = None
        self._mailbox = mailbox
        self._facts = lane.facts
        self._level = LEVEL_5  # of the live connection
        self.unexpected_publishes = 0
        self.heard_s = 0.0
        self._flow = flow
        self._poll = poll
        self._writer = writer
        self._remote: Remote | None = None
        self._input = b""
        self._resting = False  # the socket is read when the timer says so, not when it has something
        self._rest_since_s: float | None = None  # the timer runs since then
        self._deaf = False  # what was read waits for the intake, and the socket is not read meanwhile

    def give_to(self, intake: RemoteIntake) -> None:
        """From now on ``intake`` takes the PUBLISHes that come."""
        self._intake = intake
        self.limits = intake.limits

    def give_auth_to(self, hears: Callable[[int], None]) -> None:
        """From now on ``hears`` takes the reason code of an AUTH that comes; what it raises is as of ``read``."""
        self._hears_auth = hears

    def on_opened(self, remote: Remote) -> None:
        """A connection is up."""
        self._remote, self._level = remote, remote.dialect.level

    def on_closed(self) -> None:
        """The connection is gone, and what had been read and not been taken with it."""
        self._remote = None
        self._input = b""
        self._resting = self._deaf = False
        self._rest_since_s = None
        self._mailbox.cancel_timer(REST_TIMER)

    # --- packets ---

    def read(self, now_s: float) -> None:
        """Read what is there, and have it taken.

        Raises:
            Unavailable: the connection is closed, or the remote says that it ends it; ``by_remote``: maybe for a message of ours;
                ``taken_over``: because another uses our client identifier.
            PeerViolation: what came is not MQTT, or not for us; ``by_remote`` as before: what the remote sends unasked says nothing
                of a message of ours.
        """
        remote = self._remote
        assert remote is not None
        data = remote.receive()
        if not data:
            return
        self.heard_s = now_s
        self._parse(self._input + data if self._input else data)

    def parse_on(self) -> None:
        """Go on with what waited for the intake; it raises what ``read`` does."""
        if self._remote is not None:
            self._parse(self._input)

    def _parse(self, buffer: bytes) -> None:
        position = 0
        intake = self._intake
        try:
            while True:
                position = self._flow.on_received(buffer, position)
                if intake is not None:
                    position, before = intake.take(buffer, position), position
                    if intake.blocked:
                        break
                    if position != before:
                        continue
                if position == len(buffer):
                    break
                packet = remote_packets.next_packet(
                    buffer,
                    position,
                    bytes_max=self.limits.packet_max_bytes,
                    publish_bytes_max=self.limits.publish_max_bytes(self._level),
                )
                if packet is None:
                    break
                self._take(packet)
                position = packet.end
        except PeerViolation as error:
            error.add(by_remote=buffer[position] >> 4 not in _UNASKED)
            raise
        self._input = buffer[position:]

    def _take(self, packet: remote_packets.RemotePacket) -> None:
        """Anything but an acknowledgement of ours."""
        if packet.first_byte == remote_packets.PINGRESP:
            self._flow.exchange.closed_on.hears_pingresp()
            return
        if self._intake is not None and self._intake.packet(packet):
            return
        if packet.first_byte in _ANSWERS:
            self._flow.exchange.answers.on_unexpected()
            return
        if remote_packets.is_publish(packet):
            self.unexpected_publishes += 1
            if self.unexpected_publishes == 1:
                log.warning("remote.unexpected_publish", extra=self._facts)
            self._writer.say(remote_packets.acknowledge(packet))
            return
        if packet.first_byte == remote_packets.DISCONNECT and self._level == LEVEL_5:
            self._hear_farewell(remote_packets.read_disconnect(packet))
        if packet.first_byte == remote_packets.AUTH and self._level == LEVEL_5 and self._hears_auth is not None:
            self._hears_auth(remote_packets.read_auth(packet))
            return
        raise PeerViolation("MQTT-2.1.2 packet that only a client may send, or of no known type", first_byte=packet.first_byte)

    def _hear_farewell(self, farewell: remote_packets.RemoteDisconnect) -> NoReturn:
        """The remote ends the connection and says why (MQTT 5)."""
        said = {"reason": farewell.name, "reason_code": f"0x{farewell.reason_code:02x}"}
        if farewell.reason_string:
            said["said"] = farewell.reason_string
        if farewell.server_reference:
            said["server_reference"] = farewell.server_reference
        log.warning("remote.disconnected", extra={**self._facts, **said})
        if (lacking := _SAID.get(farewell.reason_code)) is not None:
            self._flow.exchange.publishing.learn(lacking)
        self._flow.exchange.publishing.on_answer(farewell.reason_code)
        taken_over = farewell.reason_code == ReasonCode.SESSION_TAKEN_OVER
        raise Unavailable(
            f"the remote disconnected: {farewell.name} (0x{farewell.reason_code:02x})",
            by_remote=farewell.reason_code in MAY_MEAN_A_MESSAGE,
            taken_over=taken_over,
            fault=LinkFault.TAKEN_OVER if taken_over else of_refusal(farewell.reason_code, LinkFault.CLOSED),
        )

    # --- when to read ---

    def hear(self, heard: bool) -> None:
        """Stop or go on reading the socket."""
        if self._remote is not None and heard == self._deaf:
            self._deaf = not heard
            self._watch_socket()

    def rest(self, now_s: float) -> None:
        """Read the socket by the timer while that costs nothing, else whenever it has something."""
        exchange, rest_s = self._flow.exchange, 0.0
        sent = exchange.in_flight
        if sent.messages:
            if not sent.qos2 and sent.messages * 4 < sent.window:
                rest_s = REST_OPEN_S
            elif sent.window >= REST_WINDOW_MIN and exchange.with_remote * 2 > sent.window:
                rest_s = REST_BUSY_S
        if self._resting != bool(rest_s):
            self._resting = bool(rest_s)
            self._watch_socket()
        if rest_s and self._rest_since_s is None:
            self._rest_since_s = now_s
            self._mailbox.set_timer(REST_TIMER, now_s + rest_s)

    def rested(self) -> bool:
        """The timer has run out: whether to read now."""
        self._rest_since_s = None
        return self._remote is not None and not self._deaf

    def reads_along(self, now_s: float) -> bool:
        """There is a turn anyway: whether to read now what has gathered, and wait anew for the next."""
        if self._rest_since_s is None or self._deaf or now_s - self._rest_since_s < REST_LEAST_S:
            return False
        self._rest_since_s = None
        self._mailbox.cancel_timer(REST_TIMER)
        return True

    def _watch_socket(self) -> None:
        self._poll.reads(not (self._resting or self._deaf))
