"""CONNECT judged: whether a local client may come in, and on what terms. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from wire.config_settings import ClientLimitSettings, SessionSettings
from wire.mqtt.codec import encode
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S, Connack, Connect
from wire.mqtt.properties import NO_PROPERTIES, Properties
from wire.mqtt.reason_codes import ConnectReturnCode, ReasonCode

LEVEL_5 = 5
TOPIC_ALIAS_MAXIMUM = 64
RECEIVE_MAXIMUM_DEFAULT = 65_535  # MQTT 5.0 section 3.1.2.11.3
RECEIVE_MAXIMUM_OF_BRIDGES = 20  # of MQTT 3.1.1, which can't say it: Mosquitto 2.0 closes on more at QoS 2, at each connect again


class LoginFault(Enum):
    """Why a client is not let in."""

    NO_USER_NAME = "no user name"
    WRONG = "wrong user name or password"
    WILL_FORBIDDEN = "its Will may not be published"
    WILL_TOPIC = "the topic of its Will is longer or deeper than any may be"
    WILL_TOO_LARGE = "its Will is larger than any may be"
    NO_ROOM_FOR_WILL = "the Wills of all clients are as large as they may be"
    IDENTIFIER_TOO_LONG = "its client identifier is longer than any may be"
    ANOTHERS = "its client identifier, or the session under it, is another user's"
    TOO_MANY = "its user has as many connections as one may have"
    BLOCKED = "too many failed logins from its address or for its user"
    BUSY = "too many logins are waiting"
    UNAVAILABLE = "the store does not answer, and the session may be on record"


_LOGIN_CODES = {  # MQTT 3.1.1, MQTT 5
    LoginFault.NO_USER_NAME: (ConnectReturnCode.NOT_AUTHORIZED, ReasonCode.NOT_AUTHORIZED),
    LoginFault.WRONG: (ConnectReturnCode.BAD_USER_NAME_OR_PASSWORD, ReasonCode.BAD_USER_NAME_OR_PASSWORD),
    LoginFault.WILL_FORBIDDEN: (ConnectReturnCode.NOT_AUTHORIZED, ReasonCode.NOT_AUTHORIZED),
    LoginFault.WILL_TOPIC: (ConnectReturnCode.NOT_AUTHORIZED, ReasonCode.TOPIC_NAME_INVALID),
    LoginFault.WILL_TOO_LARGE: (ConnectReturnCode.SERVER_UNAVAILABLE, ReasonCode.QUOTA_EXCEEDED),
    LoginFault.NO_ROOM_FOR_WILL: (ConnectReturnCode.SERVER_UNAVAILABLE, ReasonCode.QUOTA_EXCEEDED),
    LoginFault.IDENTIFIER_TOO_LONG: (ConnectReturnCode.IDENTIFIER_REJECTED, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
    LoginFault.ANOTHERS: (ConnectReturnCode.IDENTIFIER_REJECTED, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
    LoginFault.TOO_MANY: (ConnectReturnCode.SERVER_UNAVAILABLE, ReasonCode.QUOTA_EXCEEDED),
    LoginFault.BLOCKED: (ConnectReturnCode.SERVER_UNAVAILABLE, ReasonCode.CONNECTION_RATE_EXCEEDED),
    LoginFault.BUSY: (ConnectReturnCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_BUSY),
    LoginFault.UNAVAILABLE: (ConnectReturnCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_UNAVAILABLE),
}


def refuse_login(fault: LoginFault, level: int) -> Connack:
    """The CONNACK that says so; the server closes the connection behind it [MQTT-3.1.4-2, MQTT-3.2.2-7]."""
    return_code, reason_code = _LOGIN_CODES[fault]
    return Connack(session_present=False, reason_code=reason_code if level == LEVEL_5 else return_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectTerms:
    """A client that may come in.

    clean: it starts without the session it may have had. expiry_s: how long its session outlives the connection; 0: it ends with
    it. keep_alive_s: 0 is never. receive_maximum, packet_max_bytes, topic_alias_maximum: what the client takes; None is no limit.
    gives_aliases: the most topic aliases that it was told it may give.
    """

    client_id: str
    level: int
    clean: bool
    expiry_s: int
    keep_alive_s: int
    receive_maximum: int
    packet_max_bytes: int | None
    topic_alias_maximum: int
    connack_properties: Properties
    wants_response_information: bool = False

    @property
    def gives_aliases(self) -> int:
        return self.connack_properties.topic_alias_maximum or 0

    def connack(self, session_present: bool, response_information: str | None = None) -> Connack:
        """The CONNACK, once the store has said whether there is a session [MQTT-3.2.2-2, -3].

        response_information: what response topics begin with; only for one that asked for it [MQTT-3.1.2-28], and left out where
        it would make the packet too large for the client [MQTT-3.1.2-24].
        """
        connack = Connack(session_present=session_present and not self.clean, reason_code=0, properties=self.connack_properties)
        if response_information is None or not self.wants_response_information:
            return connack
        telling = replace(connack.properties, response_information=response_information)
        return replace(connack, properties=telling) if _fits(telling, self.packet_max_bytes) else connack

    def no_room(self) -> Connack:
        """The CONNACK for a session that would be one too many."""
        code = ReasonCode.QUOTA_EXCEEDED if self.level == LEVEL_5 else ConnectReturnCode.SERVER_UNAVAILABLE
        return Connack(session_present=False, reason_code=code)


def judge_connect(
    connect: Connect, limits: ClientLimitSettings, sessions: SessionSettings, *, new_id: str
) -> ConnectTerms | Connack:
    """The terms for this client, or the CONNACK that refuses it. ``new_id`` names a client that brought no identifier."""
    level, asked = connect.level, connect.properties
    if not connect.client_id and level != LEVEL_5 and not connect.clean_start:
        return Connack(session_present=False, reason_code=ConnectReturnCode.IDENTIFIER_REJECTED)  # [MQTT-3.1.3-8]
    if asked.authentication_method is not None:
        return Connack(session_present=False, reason_code=ReasonCode.BAD_AUTHENTICATION_METHOD)
    keep_alive_s = connect.keep_alive_s
    properties = NO_PROPERTIES  # what repeats a default is not said
    wanted_s = asked.session_expiry_interval or 0
    if level < LEVEL_5 and not connect.clean_start:
        wanted_s = SESSION_NEVER_EXPIRES_S
    expiry_s = min(wanted_s, sessions.expiry_max_s)
    if level == LEVEL_5:
        capped = limits.keep_alive_max_s and (not keep_alive_s or keep_alive_s > limits.keep_alive_max_s)
        keep_alive_s = limits.keep_alive_max_s if capped else keep_alive_s
        properties = Properties(
            session_expiry_interval=expiry_s if expiry_s != wanted_s else None,
            receive_maximum=limits.receive_maximum if limits.receive_maximum != RECEIVE_MAXIMUM_DEFAULT else None,
            maximum_packet_size=limits.packet_max_bytes,
            topic_alias_maximum=TOPIC_ALIAS_MAXIMUM,
            assigned_client_identifier=None if connect.client_id else new_id,
            server_keep_alive=keep_alive_s if capped else None,
        )
        if not _fits(properties, asked.maximum_packet_size):
            properties = replace(properties, topic_alias_maximum=None)  # the only one that a client can do without
    if not _fits(properties, asked.maximum_packet_size):
        return Connack(session_present=False, reason_code=ReasonCode.PACKET_TOO_LARGE)  # [MQTT-3.1.2-24]
    return ConnectTerms(
        client_id=connect.client_id or new_id,
        level=level,
        clean=connect.clean_start,
        expiry_s=expiry_s,
        keep_alive_s=keep_alive_s,
        receive_maximum=asked.receive_maximum or (RECEIVE_MAXIMUM_OF_BRIDGES if connect.bridge else RECEIVE_MAXIMUM_DEFAULT),
        packet_max_bytes=asked.maximum_packet_size,
        topic_alias_maximum=asked.topic_alias_maximum or 0,
        connack_properties=properties,
        wants_response_information=asked.request_response_information == 1,
    )


def _fits(properties: Properties, packet_max_bytes: int | None) -> bool:
    """Whether an MQTT 5 client that takes packets of so many bytes, None for any, takes a CONNACK with these."""
    if packet_max_bytes is None:
        return True
    connack = Connack(session_present=False, reason_code=0, properties=properties)
    return len(encode(connack, LEVEL_5)) <= packet_max_bytes
