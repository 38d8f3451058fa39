"""The faults of a link to a remote, each with its cure."""

from __future__ import annotations

import errno

from wire.errors import BasculeError
from wire.mqtt.reason_codes import ReasonCode
from wire.status.states import WithCure

_BUSY = "nothing here: the broker has no room just now, and is tried again; its log says more"
_SILENT = "it takes connections and says nothing: see the broker's log"
_CLOSES = "it closes at the CONNECT: check port and transport, and see the broker's log"
_OLDER = "write remote.protocol: mqtt311 if it speaks no MQTT 5, which bascule doctor CONFIG tries; else"
_SERVER_NAME = "write in remote.addresses the name that the certificate has, or give that as tls.server_name"


class LinkFault(WithCure):
    """Why a link does not stand, or what an operator should know of one that does. OTHER: nothing of this."""

    OTHER = "other", "see the log of the node and that of the broker"
    # Before a connection
    CREDENTIALS = "credentials", "mend the file, variable or command that is named, or its permissions"
    NAME = "name", "check the host name in remote.addresses, and the machine's resolver (getent hosts NAME)"
    NOBODY_LISTENS = "nobody_listens", "check the port in remote.addresses, and that a broker listens there"
    NO_ROUTE = "no_route", "check the address, the route to it (ip route get ADDRESS), and firewalls"
    TIMED_OUT = "timed_out", "check the address, and whether a firewall drops what goes there"
    RESET = "reset", "what listens there closes at once: check port and transport; a plain port knows no TLS"
    OPEN_FILES = "open_files", "raise the limit of open files (LimitNOFILE= of the service, or ulimit -Hn)"
    TCP = "tcp", "check address and port, that a broker listens there, and what a firewall lets through"
    CERTIFICATE_EXPIRED = (
        "certificate_expired",
        "have the remote's certificate made anew; if it is not old, set this machine's clock",
    )
    CERTIFICATE_NOT_YET_VALID = "certificate_not_yet_valid", "set this machine's clock: timedatectl set-ntp true"
    CERTIFICATE_REVOKED = "certificate_revoked", "the remote's authority has revoked it: the remote needs another certificate"
    REVOCATION_LIST = "revocation_list", "put a list of the remote's authority that holds now into tls.crl_file"
    CERTIFICATE_NAME = "certificate_name", _SERVER_NAME
    CERTIFICATE_AUTHORITY = "certificate_authority", "give the authority that signed the remote's certificate as tls.ca_file"
    PROXY = "proxy", "check url, username and password of remote.proxy, and what the proxy lets through; its log says more"
    NO_TLS = "no_tls", "what listens there speaks no TLS: check port and transport"
    TLS = "tls", "check tls.ca_file, tls.server_name and that transport and port belong together"
    WEBSOCKET = "websocket", "check websocket_path, and that the port speaks WebSocket"
    # No CONNACK, or one that refuses; a broker that knows no MQTT 5 may close, or say nothing, instead of a CONNACK with code 1
    NO_CONNACK = "no_connack", _SILENT
    NO_CONNACK_TO_5 = "no_connack_to_mqtt5", f"{_OLDER} {_SILENT}"
    CLOSED_AT_CONNECT = "closed_at_connect", _CLOSES
    CLOSED_AT_CONNECT_5 = "closed_at_mqtt5_connect", f"{_OLDER} {_CLOSES}"
    NO_MQTT = "no_mqtt", "what listens there speaks no MQTT: check port, transport and protocol"
    PROTOCOL = "protocol", "set remote.protocol to what the broker speaks: mqtt311 or mqtt5"
    CLIENT_ID = "client_id", "take another remote.client_id: the broker does not allow this one"
    USER = "user", "check remote.username and its password against the broker's users"
    NOT_AUTHORIZED = "not_authorized", "check remote.username, remote.password_file and client_id against what the broker allows"
    BUSY = "busy", _BUSY
    BANNED = "banned", "the broker has banned this client: its log or its operator says why"
    LOGIN = "login", "the broker wants another way to log in than user and password: see its configuration"
    MOVED = "moved", "write the other server in remote.addresses: the broker's log or its operator says which that is"
    REFUSED = "refused", "the broker's log says why it refuses the connection"
    # Of a connection that stood
    CLOSED = "closed", "the remote's log says why it closes; another client with the same client_id is a common reason"
    SILENT = "silent", "packets to the remote are dropped silently: check the network; a shorter remote.keep_alive notices sooner"
    STALLED = "stalled", "the remote takes messages and answers none: see its log; remote.stall_timeout is how long we wait"
    TAKEN_OVER = "taken_over", "give each bridge and each node a remote.client_id of its own"
    # Of one that stands
    HELD_BACK = "held_back", "the remote takes no more for now: raise its quota, or send less; the messages wait"
    CLOSES_ON_MESSAGE = (
        "closes_on_message",
        "the remote closes the connection on this message: on_refusal.connection-closed says what becomes of it",
    )
    OTHER_ADDRESS = (
        "other_address",
        "mend the first address, which is probed again; bascule doctor CONFIG says what is wrong with it",
    )
    LOGIN_ENDS = "login_ends", "have a newer one made: the file, variable or command that it comes of still gives this one"
    SHORT_SESSION = (
        "short_session",
        "the broker keeps the session for a shorter time than remote.session_expiry: raise its limit, or write that time there",
    )


_REFUSED: dict[int, LinkFault] = {
    ReasonCode.MALFORMED_PACKET: LinkFault.PROTOCOL,
    ReasonCode.PROTOCOL_ERROR: LinkFault.PROTOCOL,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: LinkFault.PROTOCOL,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: LinkFault.CLIENT_ID,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: LinkFault.USER,
    ReasonCode.NOT_AUTHORIZED: LinkFault.NOT_AUTHORIZED,
    ReasonCode.SERVER_UNAVAILABLE: LinkFault.BUSY,
    ReasonCode.SERVER_BUSY: LinkFault.BUSY,
    ReasonCode.BANNED: LinkFault.BANNED,
    ReasonCode.BAD_AUTHENTICATION_METHOD: LinkFault.LOGIN,
    ReasonCode.QUOTA_EXCEEDED: LinkFault.BUSY,
    ReasonCode.USE_ANOTHER_SERVER: LinkFault.MOVED,
    ReasonCode.SERVER_MOVED: LinkFault.MOVED,
    ReasonCode.CONNECTION_RATE_EXCEEDED: LinkFault.BUSY,
}
_ERRNOS = {
    errno.ECONNREFUSED: LinkFault.NOBODY_LISTENS,
    errno.EHOSTUNREACH: LinkFault.NO_ROUTE,
    errno.ENETUNREACH: LinkFault.NO_ROUTE,
    errno.ETIMEDOUT: LinkFault.TIMED_OUT,
    errno.ECONNRESET: LinkFault.RESET,
    errno.EPIPE: LinkFault.RESET,
    errno.EMFILE: LinkFault.OPEN_FILES,
    errno.ENFILE: LinkFault.OPEN_FILES,
}
# OpenSSL's verdict on a certificate: X509_V_ERR_... in its verify(1).
_CERTIFICATES = {
    9: LinkFault.CERTIFICATE_NOT_YET_VALID,
    10: LinkFault.CERTIFICATE_EXPIRED,
    23: LinkFault.CERTIFICATE_REVOKED,
    **dict.fromkeys((3, 11, 12), LinkFault.REVOCATION_LIST),
    **dict.fromkeys((2, 18, 19, 20, 21), LinkFault.CERTIFICATE_AUTHORITY),
    **dict.fromkeys((62, 64), LinkFault.CERTIFICATE_NAME),
}


def of_refusal(reason_code: int, otherwise: LinkFault = LinkFault.REFUSED) -> LinkFault:
    """Of a CONNACK that refuses with ``reason_code``, or of a DISCONNECT."""
    return _REFUSED.get(reason_code, otherwise)


def of_error(error: OSError | ValueError, otherwise: LinkFault) -> LinkFault:
    """Of what the system said of a socket."""
    if isinstance(error, TimeoutError):
        return LinkFault.TIMED_OUT
    return _ERRNOS.get(getattr(error, "errno", None) or 0, otherwise)


def of_handshake(verify_code: int, reason: str | None) -> LinkFault:
    """Of what OpenSSL said: of the certificate, 0 for nothing, and of the handshake."""
    return _CERTIFICATES.get(verify_code) or (LinkFault.NO_TLS if reason == "WRONG_VERSION_NUMBER" else LinkFault.TLS)


def fault_of(error: BasculeError) -> LinkFault:
    """The fault that ``error`` names."""
    fault = error.fields.get("fault")
    return fault if isinstance(fault, LinkFault) else LinkFault.OTHER


def cure_of(fault: str) -> str:
    """The cure of a ``fault`` that was told in a word; empty where none was."""
    return next((each.cure for each in LinkFault if each == fault), LinkFault.OTHER.cure) if fault else ""
