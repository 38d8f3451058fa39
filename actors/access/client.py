"""One local client's socket with its buffers; no protocol and no decision, those are the Listener's and ``wire``'s."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

from actors.access.login_limits import network_of
from actors.access.publish_rate import PublishRate
from actors.access.untaken_input import UntakenInput
from actors.process.mailbox import READ, WRITE, PollGroup
from actors.system.receive_buffer import RECEIVE_BYTES, receive
from wire.access.access_rules import ClientAccess
from wire.access.connect_checks import ConnectTerms
from wire.access.proxy_header import HEADER_MAX_BYTES, ProxyHeader, read_header
from wire.config_settings import ListenerSettings
from wire.exchange.client_keep_alive import KeepAlive
from wire.exchange.client_outbox import ClientOutbox
from wire.exchange.receiver import ReceiverHalf
from wire.exchange.retained_delivery import RetainedPasses
from wire.exchange.wills import Message
from wire.limit_shares import owner_of
from wire.mqtt.aliases import OutgoingAliases

REQUESTS_MAX = 16  # SUBSCRIBEs and UNSUBSCRIBEs of one client that are not answered; then it is not read
UNIX = "unix:"  # what the address of a client on a Unix socket begins with
LABEL_MAX = 100
QUEUE_FULL, TOO_FAST, CROWDING, ASKING, NO_ROOM, BEHIND, OPENING = 1, 2, 4, 8, 16, 32, 64  # why a client is not read


class Client:
    """A connection of a local client, from accept to close. ``number`` names it towards other actors and is never reused."""

    __slots__ = (
        "_given_bytes",
        "_group",
        "_muted",
        "_output",
        "_sock",
        "accepted_s",
        "address",
        "aliases",
        "asking",
        "bridge",
        "certificate_user",
        "closed",
        "expiry_s",
        "fault",
        "filters",
        "flow",
        "gone",
        "greets_at",
        "input",
        "keep_alive",
        "leaves",
        "level",
        "listener",
        "number",
        "outbox",
        "packet_max_bytes",
        "proxied",
        "proxy_header",
        "queue",
        "rate",
        "receive_maximum",
        "retained",
        "rights",
        "session",
        "user",
        "will",
    )

    def __init__(self, sock: socket.socket, address: str, number: int, group: PollGroup, now_s: float) -> None:
        self._sock = sock
        self._group = group
        self._muted = 0
        self._output = bytearray()
        self._given_bytes = 0
        self.address = address
        self.number = number
        self.accepted_s = now_s
        self.input = UntakenInput()
        self.closed = False
        self.gone = False  # its side is closed, or the connection is broken: there is nobody who could be told anything
        self.leaves = False  # it has closed its side, and there is no room for what it published last, which is left out
        self.session = ""
        self.listener = ""  # where the listener listens by which it came
        self.user: str | None = None  # None: anonymous
        self.rights: ClientAccess | None = None  # None: everything
        self.asking = 0  # requests about its subscriptions that are not answered
        self.level = 0  # 4 or 5 once CONNECT was read
        self.bridge = False  # it is another broker's bridge, of MQTT 3.1.1
        self.greets_at = 0  # the level that its CONNECT names, whatever else is wrong with it
        self.keep_alive = KeepAlive(now_s)
        self.expiry_s = 0  # how long its session outlives the connection
        self.queue = ""  # the session's Tier-1 queue; empty where the session ends with the connection
        self.receive_maximum = 65_535
        self.packet_max_bytes: int | None = None  # the largest packet that it takes
        self.aliases: OutgoingAliases | None = None  # None: it takes no topic aliases
        self.filters: dict[str, tuple[int, int]] = {}  # topic filter -> options as in ``SessionOpened``, subscription identifier
        self.flow: ReceiverHalf | None = None  # set when CONNACK was sent; so is the outbox
        self.outbox: ClientOutbox | None = None
        self.retained: RetainedPasses | None = None  # while it is owed retained messages
        self.will: Message | None = None
        self.rate: PublishRate | None = None  # None: it may publish as fast as it can
        self.certificate_user: str | None = None  # the user name that its certificate gives
        self.fault = ""  # why receive said that it is gone, where that is known
        self.proxied: ListenerSettings | None = None  # of its listener, until the PROXY header is whole that it begins with
        self.proxy_header = b""  # what has come of that
        sock.setblocking(False)
        if not address.startswith(UNIX):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        group.watch(sock.fileno(), READ, self)

    @property
    def label(self) -> str:
        """Its client identifier for logs, where one of 65,535 bytes helps nobody."""
        return self.session if len(self.session) <= LABEL_MAX else self.session[:LABEL_MAX] + "..."

    @property
    def host(self) -> str:
        """The address without its port; empty for a client on a Unix socket, which has none."""
        return "" if self.address.startswith(UNIX) else self.address.rpartition(":")[0]

    @property
    def origin(self) -> str:
        """The unit by which clients are counted: the network of its address, or the user whose process it is."""
        return UNIX + self.address.rpartition(",")[2] if self.address.startswith(UNIX) else network_of(self.host)

    @property
    def owner(self) -> str:
        """In whose share it counts."""
        return owner_of(self.user, self.origin)

    @property
    def output_bytes(self) -> int:
        """Bytes that the client's socket has not taken yet."""
        return len(self._output)

    @property
    def written_bytes(self) -> int:
        """Bytes that were written to the client since it came."""
        return self._given_bytes

    @property
    def left_bytes(self) -> int:
        """How many of them have left this machine, as ``RemoteKeepAlive.judge`` wants to know it; a system call."""
        return self._given_bytes - len(self._output) - self._group.unsent_bytes(self._sock.fileno())

    def receive(self, bytes_max: int = RECEIVE_BYTES) -> bytes | None:
        """Bytes from the socket: empty for nothing just now, None when the client is gone."""
        try:
            data = receive(self._sock, bytes_max)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.gone = not data
        return data or None

    def read_proxy_header(self) -> ProxyHeader | None:
        """Read on in the header of its proxy, and not a byte behind it; None as long as it is not whole.

        Raises:
            PeerViolation: it is none.
            OSError: the proxy is gone.
        """
        try:
            data = self._sock.recv(HEADER_MAX_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionResetError
        found = read_header(self.proxy_header + data)
        header, size = (None, len(data)) if found is None else (found[0], found[1] - len(self.proxy_header))
        self.proxy_header += self._sock.recv(size)
        return header

    # --- who it is ---

    def came_by(self, listener: str, proxied: ListenerSettings | None) -> None:
        """It came to where ``listener`` listens; proxied: its settings, if a PROXY header comes first."""
        self.listener, self.proxied = listener, proxied

    def came_from(self, address: str, certificate_user: str | None) -> None:
        """Its proxy has said so, all of it; an empty address: it is the proxy itself."""
        self.proxied, self.proxy_header = None, b""
        self.address = address or self.address
        self.certificate_user = certificate_user or self.certificate_user

    def is_user(self, user: str) -> None:
        """It has proven to be ``user``."""
        self.user = user

    def may(self, rights: ClientAccess | None, may_publish: Callable[[bytes], bool] | None) -> None:
        """Its rights, None for everything; may_publish: asked about each topic by the parser of what it publishes."""
        self.rights = rights
        if self.flow is not None:
            self.flow.ask_about_topics(may_publish)

    # --- its session ---

    def announces(self, level: int) -> None:
        """Its CONNECT names that level, and has not been read."""
        self.greets_at = level

    def greets(self, level: int, *, bridge: bool) -> None:
        """Its CONNECT was read."""
        self.level, self.bridge = level, bridge

    def is_called(self, session: str) -> None:
        """Its client identifier, which it has or was given."""
        self.session = session

    def agrees(self, terms: ConnectTerms, will: Message | None) -> None:
        """It may come in on these terms, with this Will."""
        self.expiry_s = terms.expiry_s
        self.keep_alive.agree(terms.keep_alive_s)
        self.receive_maximum = terms.receive_maximum
        self.packet_max_bytes = terms.packet_max_bytes
        self.aliases = OutgoingAliases(terms.topic_alias_maximum) if terms.topic_alias_maximum else None
        self.will = will

    def outlives(self, expiry_s: int) -> None:
        """Its session outlives the connection for so long, as its DISCONNECT has it."""
        self.expiry_s = expiry_s

    def resumes(self, queue: str, subscriptions: Iterable[tuple[str, int, int]]) -> None:
        """Its session is on record so."""
        self.queue = queue
        self.filters = {topic_filter: (options, identifier) for topic_filter, options, identifier in subscriptions}

    def begins(self, flow: ReceiverHalf) -> None:
        """It is let in: what it publishes is taken by ``flow``."""
        self.flow = flow

    def receives(self, outbox: ClientOutbox) -> None:
        """It is sent messages by ``outbox``."""
        self.outbox = outbox

    def subscribe(self, topic_filter: str, options: int, identifier: int) -> bool:
        """It is subscribed so, and not as before [MQTT-3.8.4-3]; whether it was."""
        existed = topic_filter in self.filters
        self.filters[topic_filter] = options, identifier
        return existed

    def unsubscribe(self, topic_filter: str) -> bool:
        """It is not subscribed any more; whether it was."""
        return self.filters.pop(topic_filter, None) is not None

    def ask(self) -> None:
        """A request about its subscriptions is under way; at ``REQUESTS_MAX`` it is not read: nothing else limits them."""
        self.asking += 1
        if self.asking == REQUESTS_MAX:
            self.hear(False, ASKING)

    def on_answered(self, now_s: float) -> bool:
        """One is answered; whether it is read again because of that."""
        self.asking -= 1
        if self.closed or self.asking != REQUESTS_MAX - 1:
            return False
        self.hear_again(now_s, ASKING)
        return True

    def awaits_retained(self, bytes_max: int) -> RetainedPasses:
        """It is owed retained messages, beside which at most so many bytes wait."""
        self.retained = self.retained or RetainedPasses(bytes_max)
        return self.retained

    def has_retained(self) -> None:
        """It is owed none any more."""
        self.retained = None

    # --- when it is read ---

    def limit_rate(self, messages_per_s: float | None, bytes_per_s: float | None, now_s: float) -> None:
        """It may publish so fast from now on; None: as fast as it can."""
        limited = messages_per_s is not None or bytes_per_s is not None
        self.rate = PublishRate(messages_per_s, bytes_per_s, now_s) if limited else None

    def stood_still(self, period_s: float, now_s: float) -> None:
        """This process did, so that nobody could hear it."""
        self.keep_alive.stood_still(period_s, now_s)
        self.accepted_s = min(now_s, self.accepted_s + period_s)

    def read_to_end(self, now_s: float) -> None:
        """It has closed its side: what it published last is read on, and left out where there is no room for it."""
        self.leaves = True
        self.hear_again(now_s, QUEUE_FULL)

    def has_left(self) -> bool:
        """Whether the client has closed its side, also while what it sent before has not been read."""
        return self._group.has_left(self._sock.fileno())

    def write(self, data: bytes) -> bool:
        """Send ``data``, keeping what the socket does not take; False when the client is gone."""
        size_bytes = len(data)
        self._given_bytes += size_bytes
        if self._output:
            self._output += data
            return True
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.gone = True
            return False
        if sent < size_bytes:
            self._output += memoryview(data)[sent:]
            self._watch()
        return True

    def flush(self) -> bool:
        """Go on sending what was kept; False when the client is gone."""
        try:
            sent = self._sock.send(self._output)
        except BlockingIOError:
            return True
        except OSError:
            self.gone = True
            return False
        del self._output[:sent]
        if not self._output:
            self._watch()
        return True

    @property
    def heard(self) -> bool:
        """Whether it is read; while it is not, its silence is ours."""
        return not self._muted

    @property
    def waits_behind(self) -> bool:
        """Whether it is not read because of what it has published."""
        return bool(self._muted & BEHIND)

    def hear(self, heard: bool, why: int) -> None:
        """Stop or go on reading this client for one reason: back-pressure reaches its publisher through TCP."""
        self._muted = self._muted & ~why if heard else self._muted | why
        self._watch()

    def hear_again(self, now_s: float, why: int) -> None:
        """Go on reading it; that it could not be heard till now is not its silence."""
        self.keep_alive.on_heard(now_s)
        self.hear(True, why)

    @property
    def under_way_bytes(self) -> int:
        """The bytes of a packet that is not whole."""
        return self.input.size_bytes

    def _watch(self) -> None:
        events = (0 if self._muted else READ) | (WRITE if self._output else 0)
        if events:
            self._group.watch(self._sock.fileno(), events, self)
        else:
            self._group.forget(self._sock.fileno())

    def part(self) -> tuple[socket.socket, bytearray]:
        """End it, and leave its socket, with what that has not taken, to who closes it."""
        self.closed = True
        self._group.forget(self._sock.fileno())
        return self._sock, self._output

    def close(self) -> None:
        """Close the socket; what it has not taken is lost."""
        self.part()[0].close()
