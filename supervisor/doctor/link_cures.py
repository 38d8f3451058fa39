"""What cures a link that does not stand, by the words in which a bridge, or the doctor itself, says why. Pure."""

from __future__ import annotations

# Words in the reason -> the cure; the first that is found counts. The steps come last: they cure what nothing above knows.
_CURES = (
    ("paused by the operator", "bascule bridge resume BRIDGE, when it may go on"),
    ("Name or service not known", "check the host name in remote.addresses, and the machine's resolver (getent hosts NAME)"),
    ("No address associated", "check the host name in remote.addresses, and the machine's resolver (getent hosts NAME)"),
    ("certificate has expired", "have the remote's certificate made anew; if it is not old, set this machine's clock"),
    ("certificate is not yet valid", "set this machine's clock: timedatectl set-ntp true"),
    ("Hostname mismatch", "write in remote.addresses the name that the certificate has, or give that as tls.server_name"),
    ("IP address mismatch", "write in remote.addresses the name that the certificate has, or give that as tls.server_name"),
    ("unable to get local issuer", "give the authority that signed the remote's certificate as tls.ca_file"),
    ("self-signed certificate", "give the authority that signed the remote's certificate as tls.ca_file"),
    ("self signed certificate", "give the authority that signed the remote's certificate as tls.ca_file"),
    ("Connection refused", "check the port in remote.addresses, and that a broker listens there"),
    ("No route to host", "check the address, the route to it (ip route get ADDRESS), and firewalls"),
    ("Network is unreachable", "check the address, the route to it (ip route get ADDRESS), and firewalls"),
    ("timed out", "check the address, and whether a firewall drops what goes there"),
    ("no CONNACK in time", "who listens there takes connections and says nothing: see the broker's log, or restart it"),
    ("packet that begins with", "what listens there speaks no MQTT: check port, transport and protocol"),
    ("WRONG_VERSION_NUMBER", "what listens there speaks no TLS: check port and transport"),
    ("wrong version number", "what listens there speaks no TLS: check port and transport"),
    ("Bad user name or password", "check remote.username and remote.password_file against the broker's users"),
    ("Not authorized", "check remote.username, remote.password_file and client_id against what the broker allows"),
    ("Client Identifier not valid", "take another remote.client_id: the broker does not allow this one"),
    ("Unsupported Protocol Version", "set remote.protocol to what the broker speaks: mqtt311 or mqtt5"),
    ("Too many open files", "raise the limit of open files (LimitNOFILE= of the service, or ulimit -Hn)"),
    ("PINGRESP", "the way to the remote swallows packets: check the network; a shorter remote.keep_alive notices sooner"),
    (
        "no acknowledgement in time",
        "the remote takes messages and answers none: see its log; remote.stall_timeout is how long we wait",
    ),
    ("another client", "give each bridge and each node a remote.client_id of its own"),
    ("taken over", "give each bridge and each node a remote.client_id of its own"),
    ("Quota exceeded", "the remote takes no more for now: raise its quota, or send less; the messages wait"),
    ("closes on message", "the remote closes the connection on this message: on_refusal.connection-closed says what becomes of it"),
    (
        "connection lost: closed by the remote",
        "the remote's log says why it closes; another client with the same client_id is a common reason",
    ),
    ("reset by peer", "what listens there closes at once: check port and transport; a plain port knows no TLS"),
    ("credentials", "mend the file that is named, or its permissions"),
    ("name:", "check the host name, and the machine's resolver (getent hosts NAME)"),
    ("tcp:", "check address and port, that a broker listens there, and what a firewall lets through"),
    ("tls:", "check tls.ca_file, tls.server_name and that transport and port belong together"),
    ("websocket:", "check websocket_path, and that the port speaks WebSocket"),
    ("connack:", "check username, password_file and client_id against what the broker allows"),
)


def cure_of(reason: str) -> str:
    """What to do when a link says ``reason``."""
    lower = reason.lower()
    return next((cure for words, cure in _CURES if words.lower() in lower), "see the log of the node and that of the broker")
