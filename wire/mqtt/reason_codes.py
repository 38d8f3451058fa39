"""The reason codes of MQTT 5.0, the return codes of MQTT 3.1.1, and how a broken rule becomes an error.

Clause numbers in errors are those of MQTT 5.0; a rule that only MQTT 3.1.1 has says so. A rule without a number of its own is
cited by its section, such as ``MQTT-2.2.2.2``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NoReturn

from wire.errors import PeerViolation


class ReasonCode(IntEnum):
    """MQTT 5.0 section 2.4. Values 0x80 and above are failures."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


class ConnectReturnCode(IntEnum):
    """Return codes of a CONNACK of MQTT 3.1.1. Source: MQTT 3.1.1 section 3.2.2.3."""

    ACCEPTED = 0
    UNACCEPTABLE_PROTOCOL_VERSION = 1
    IDENTIFIER_REJECTED = 2
    SERVER_UNAVAILABLE = 3
    BAD_USER_NAME_OR_PASSWORD = 4
    NOT_AUTHORIZED = 5


def reason_name(reason_code: int) -> str:
    """The name of ``reason_code`` for people: ``quota exceeded``; of one that nobody knows, its digits."""
    try:
        return ReasonCode(reason_code).name.lower().replace("_", " ")
    except ValueError:
        return f"reason code 0x{reason_code:02x}"


# Which reason codes each packet may carry, and the clause that says so.
CONNACK_CODES = frozenset({0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F})
PUBACK_CODES = frozenset({0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
PUBREL_CODES = frozenset({0, 0x92})
SUBACK_CODES = frozenset({0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2})
SUBACK_CODES_3_1_1 = frozenset({0, 1, 2, 0x80})
UNSUBACK_CODES = frozenset({0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91})
DISCONNECT_CODES = frozenset({0, 4, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)})
AUTH_CODES = frozenset({0, 0x18, 0x19})


class UnsupportedProtocol(PeerViolation):
    """A CONNECT of a protocol that is not spoken here. ``level`` is what it asked for.

    The server may answer CONNACK 0x01 (levels below 5) or 0x84 before it closes [MQTT-3.1.2-2].
    """

    def __init__(self, message: str, *, level: int) -> None:
        super().__init__(message, reason_code=ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, level=level)
        self.level = level


def malformed(message: str, **fields: object) -> NoReturn:
    """Refuse bytes that cannot be parsed as the specification has them (0x81)."""
    raise PeerViolation(message, reason_code=ReasonCode.MALFORMED_PACKET, **fields)


def protocol_error(message: str, **fields: object) -> NoReturn:
    """Refuse a packet that can be parsed and must not be sent (0x82)."""
    raise PeerViolation(message, reason_code=ReasonCode.PROTOCOL_ERROR, **fields)
