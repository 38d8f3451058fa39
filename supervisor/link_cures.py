"""Cures of a link that does not stand: by the code of a refusal, words of the system and of TLS, or the step. Pure."""

from __future__ import annotations

import re

from wire.mqtt.reason_codes import ReasonCode

_USERS = "check remote.username and remote.password_file against the broker's users"
_RIGHTS = "check remote.username, remote.password_file and client_id against what the broker allows"
_PROTOCOL = "set remote.protocol to what the broker speaks: mqtt311 or mqtt5"
_CLIENT_ID = "give each bridge and each node a remote.client_id of its own"
_BUSY = "nothing here: the broker has no room just now, and is tried again; its log says more"
_MOVED = "write the other server in remote.addresses: the broker's log or its operator says which that is"
_REFUSED: dict[int, str] = {
    ReasonCode.MALFORMED_PACKET: _PROTOCOL,
    ReasonCode.PROTOCOL_ERROR: _PROTOCOL,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: _PROTOCOL,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: "take another remote.client_id: the broker does not allow this one",
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: _USERS,
    ReasonCode.NOT_AUTHORIZED: _RIGHTS,
    ReasonCode.SERVER_UNAVAILABLE: _BUSY,
    ReasonCode.SERVER_BUSY: _BUSY,
    ReasonCode.BANNED: "the broker has banned this client: its log or its operator says why",
    ReasonCode.BAD_AUTHENTICATION_METHOD: "the broker wants another way to log in than user and password: see its configuration",
    ReasonCode.QUOTA_EXCEEDED: _BUSY,
    ReasonCode.USE_ANOTHER_SERVER: _MOVED,
    ReasonCode.SERVER_MOVED: _MOVED,
    ReasonCode.CONNECTION_RATE_EXCEEDED: _BUSY,
}
_REFUSED_ELSE = "the broker's log says why it refuses the connection"
# A broker that knows no MQTT 5 may close, or say nothing, instead of a CONNACK with code 1.
_SILENT = "it takes connections and says nothing: see the broker's log"
_SILENT_5 = f"write remote.protocol: mqtt311 if it speaks no MQTT 5, which bascule doctor CONFIG tries; else {_SILENT}"
_CLOSES = "it closes at the CONNECT: check port and transport, and see the broker's log"
_CLOSES_5 = f"write remote.protocol: mqtt311 if it speaks no MQTT 5, which bascule doctor CONFIG tries; else {_CLOSES}"

_NAME = "check the host name in remote.addresses, and the machine's resolver (getent hosts NAME)"
_ROUTE = "check the address, the route to it (ip route get ADDRESS), and firewalls"
_SERVER_NAME = "write in remote.addresses the name that the certificate has, or give that as tls.server_name"
_AUTHORITY = "give the authority that signed the remote's certificate as tls.ca_file"
_NO_TLS = "what listens there speaks no TLS: check port and transport"
# Words of the system, of OpenSSL, and of the bridge about a connection that it had -> the cure; the first that is found counts.
_WORDS = (
    ("certificate has expired", "have the remote's certificate made anew; if it is not old, set this machine's clock"),
    ("certificate is not yet valid", "set this machine's clock: timedatectl set-ntp true"),
    ("Hostname mismatch", _SERVER_NAME),
    ("IP address mismatch", _SERVER_NAME),
    ("unable to get local issuer", _AUTHORITY),
    ("self-signed certificate", _AUTHORITY),
    ("self signed certificate", _AUTHORITY),
    ("Connection refused", "check the port in remote.addresses, and that a broker listens there"),
    ("No route to host", _ROUTE),
    ("Network is unreachable", _ROUTE),
    ("timed out", "check the address, and whether a firewall drops what goes there"),
    ("packet that begins with", "what listens there speaks no MQTT: check port, transport and protocol"),
    ("WRONG_VERSION_NUMBER", _NO_TLS),
    ("wrong version number", _NO_TLS),
    ("Too many open files", "raise the limit of open files (LimitNOFILE= of the service, or ulimit -Hn)"),
    ("PINGRESP", "packets to the remote are dropped silently: check the network; a shorter remote.keep_alive notices sooner"),
    (
        "no acknowledgement in time",
        "the remote takes messages and answers none: see its log; remote.stall_timeout is how long we wait",
    ),
    ("another client", _CLIENT_ID),
    ("taken over", _CLIENT_ID),
    ("Quota exceeded", "the remote takes no more for now: raise its quota, or send less; the messages wait"),
    ("closes on message", "the remote closes the connection on this message: on_refusal.connection-closed says what becomes of it"),
    (
        "keeps the session",
        "the broker keeps the session for a shorter time than remote.session_expiry: raise its limit, or write that time there",
    ),
    (
        "connection lost: closed by the remote",
        "the remote's log says why it closes; another client with the same client_id is a common reason",
    ),
    ("reset by peer", "what listens there closes at once: check port and transport; a plain port knows no TLS"),
)
_STEP = re.compile(r"(?:^|[ ;])(credentials|name|tcp|tls|websocket|connack): ([^;]*)")
_CODE = re.compile(r"refused: .*\((0x[0-9a-f]{2})\)")
_STEPS = {
    "credentials": "mend the file that is named, or its permissions",
    "name": _NAME,
    "tcp": "check address and port, that a broker listens there, and what a firewall lets through",
    "tls": "check tls.ca_file, tls.server_name and that transport and port belong together",
    "websocket": "check websocket_path, and that the port speaks WebSocket",
}


def cure_of(reason: str, protocol: int = 5) -> str:
    """The cure for a link with ``reason``; of several addresses, for the first. protocol: the level of MQTT that it speaks."""
    step, error = found.groups() if (found := _STEP.search(reason)) else ("", reason)
    if code := _CODE.match(error):
        return _REFUSED.get(int(code[1], 16), _REFUSED_ELSE)
    lower = error.lower()
    words = next((cure for words, cure in _WORDS if words.lower() in lower), None)
    if step == "connack" and (words is None or "reset by peer" in lower):
        silent = "in time" in error
        return (_SILENT_5 if silent else _CLOSES_5) if protocol == 5 else (_SILENT if silent else _CLOSES)
    return words or _STEPS.get(step, "see the log of the node and that of the broker")
