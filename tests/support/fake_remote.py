"""A remote broker under the test's command: a small MQTT 3.1.1 and 5.0 server that can be cut off at any byte of any packet.

It runs in a thread, serves one connection at a time, and shares no code with the product. It keeps sessions across connections,
does the receiver's half of QoS 1 and 2 by the letter and judges every packet (``tests/support/remote_session.py``); it has no
subscribers. Its observations are in ``packets`` and ``delivered``; ``check`` fails the test if any rule was broken.

Cut points: ``cut(Cut(...), ...)`` closes connections at the points given, one after the other. A packet that comes in takes effect
only if it was read whole; it is not answered then. A packet that goes out counts as sent only if it was written whole::

    with FakeRemote() as remote:                       # its address is 127.0.0.1:remote.port
        remote.cut(Cut(PUBREC, at=3))                  # three bytes of the next PUBREC leave, then FIN
        remote.cut(Cut(PUBLISH, skip=2), Cut(CONNACK)) # the third PUBLISH is read whole, then FIN; and then FIN behind the CONNACK
        remote.cut(Cut(PUBREL, at=0, hold=True))       # stands still before the next PUBREL is read ...
        remote.wait_held(); ...; remote.release()      # ... until told to close

Other faults, which may be switched at any time: ``refuse_connect`` (a return or reason code for each CONNECT), ``reason_code``
(a function of the PUBLISH: the reason code of its PUBACK or PUBREC), ``closes_on`` (a function of the PUBLISH: whether the
connection is closed on it, before it takes effect), ``stalled`` (reads and answers nothing but CONNECT),
``properties`` (of each CONNACK at level 5, such as the receive maximum), ``forget_sessions`` and ``plant_session``.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.support.mqtt_client import Closed
from tests.support.mqtt_packets import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBCOMP,
    PUBLISH,
    PUBREL,
    RECEIVE_MAXIMUM,
    SESSION_EXPIRY,
    Connect,
    Packet,
    PacketReader,
    Properties,
    Sender,
    connack_bytes,
    missing,
    packet_bytes,
)
from tests.support.remote_session import ReceiverSession, first_answer
from tests.support.waiting import PATIENCE_S, wait_until

WHOLE = 1 << 30
_PERIOD_S = 0.001
_NOT_FOUND = 0x92


@dataclass(frozen=True, slots=True)
class Cut:
    """Close when ``at`` bytes of a packet of ``kind`` have passed: the first such packet from now on, after ``skip`` others.

    ``reset`` closes with RST, otherwise FIN. ``hold`` stands still at the point until ``release``.
    """

    kind: int
    at: int = WHOLE
    skip: int = 0
    reset: bool = False
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A whole packet that passed on connection number ``connection`` (from 1 on); ``sent`` by the remote, or received."""

    connection: int
    sent: bool
    packet: Packet
    size_bytes: int


class FakeRemote:
    """Listens on ``port`` while its context lasts. ``deliver_on``: PUBLISH or PUBREL, when a QoS 2 message is delivered.

    ``long_answers`` makes acknowledgements at level 5 carry their reason code and an empty property list, which they may leave out.
    """

    def __init__(self, *, deliver_on: int = PUBLISH, properties: Properties | None = None, long_answers: bool = False) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.packets: list[Record] = []
        self.delivered: list[Packet] = []
        self.complaints: list[str] = []
        self.connections = 0  # that sent a whole CONNECT or less
        self.connects: list[bool] = []  # of each whole CONNECT: clean session, or clean start
        self.established = False  # a whole CONNACK was written on the connection that stands
        self.refuse_connect = 0
        self.reason_code: Callable[[Packet], int] = lambda _packet: 0
        self.closes_on: Callable[[Packet], bool] = lambda _packet: False
        self.stalled = False
        self.properties: Properties = list(properties or [])
        self._deliver_on = deliver_on
        self._long_answers = long_answers
        self._sessions: dict[str, ReceiverSession] = {}
        self._different: set[tuple[str, bytes]] = set()
        self._cuts: deque[Cut] = deque()
        self._passed = 0
        self._held = threading.Event()
        self._released = threading.Event()
        self._ending = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._level = 4
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fake remote", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending = True
        self._released.set()
        self._shut(self._listener)
        self.drop()
        self._thread.join(PATIENCE_S)
        self._listener.close()

    # --- orders ---

    def cut(self, *cuts: Cut) -> None:
        """Make these the next cuts, each counted from when the one before it has happened."""
        with self._lock:
            assert not self._cuts, f"cuts that never happened: {self._cuts}"
            self._cuts.extend(cuts)
            self._passed = 0
            self._held.clear()
            self._released.clear()

    def forget_cuts(self) -> None:
        """Let the cuts that have not happened yet never happen."""
        with self._lock:
            self._cuts.clear()

    @property
    def cuts_left(self) -> int:
        """How many cuts have not happened yet."""
        return len(self._cuts)

    def wait_held(self, deadline_s: float = PATIENCE_S) -> None:
        """Wait until a cut with ``hold`` is reached."""
        wait_until(self._held.is_set, deadline_s, lambda: f"the cut {self._cuts}; {self._tail()}", period_s=_PERIOD_S)

    def release(self) -> None:
        """Let the cut that is held happen."""
        self._released.set()

    def drop(self) -> None:
        """Close the connection that stands, wherever it is."""
        sock = self._socket
        if sock is not None:
            self._shut(sock)

    def forget_sessions(self) -> None:
        """Lose every session; those who come again find none present."""
        with self._lock:
            self._sessions.clear()

    def plant_session(self, client_id: str) -> None:
        """Have a session for ``client_id`` as if somebody had made it."""
        with self._lock:
            self._sessions[client_id] = self._new_session()

    # --- what was seen ---

    def wait_established(self, deadline_s: float = PATIENCE_S) -> int:
        """Wait until every cut has happened and a client is connected; the number of its connection."""
        wait_until(
            lambda: self.established and not self._cuts,
            deadline_s,
            lambda: f"a connection behind the cuts; left are {self._cuts}; {self._tail()}",
            period_s=_PERIOD_S,
        )
        return self.connections

    def wait_finished(self, count: int, deadline_s: float = PATIENCE_S) -> None:
        """Wait until ``count`` different messages in all were delivered and the exchange of each that came has ended."""
        wait_until(
            lambda: len(self._different) >= count and not self.unfinished,
            deadline_s,
            lambda: f"{count} messages; {len(self._different)} so far, {self.unfinished} unfinished; {self._tail()}",
            period_s=_PERIOD_S,
        )

    @property
    def unfinished(self) -> int:
        """How many messages came whose exchange has not ended."""
        return sum(session.unfinished for session in list(self._sessions.values()))

    def received(self, kind: int, since: int = 0) -> list[Packet]:
        """The packets of ``kind`` that came whole, in order, from record number ``since`` on."""
        return [record.packet for record in self.packets[since:] if not record.sent and record.packet.kind == kind]

    def check(self) -> None:
        """Fail if a rule was broken, or the remote itself is."""
        if self._failure is not None:
            raise AssertionError(f"the fake remote failed: {self._failure!r}") from self._failure
        assert not self.complaints, "\n".join([*self.complaints[:20], self._tail()])

    # --- the thread ---

    def _run(self) -> None:
        try:
            while not self._ending:
                try:
                    sock, _ = self._listener.accept()
                except OSError:
                    return  # shut down by __exit__
                with sock:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.connections += 1
                    self._socket = sock
                    try:
                        self._serve(sock)
                    except (OSError, AssertionError) as error:
                        if isinstance(error, AssertionError):
                            self.complaints.append(f"malformed: {error}")
                    finally:
                        self.established = False
                        self._socket = None
        except BaseException as error:
            self._failure = error
            raise

    def _serve(self, sock: socket.socket) -> None:
        """One connection, from CONNECT to its end, which is an OSError unless the client says DISCONNECT."""
        packet, cut = self._read(sock)
        connect = packet.connect
        assert connect is not None, f"a client begins with CONNECT, not {packet}"
        self._level = connect.version
        self.connects.append(connect.clean)
        if self.refuse_connect:
            self._fire(sock, cut)
            self._write(sock, connack_bytes(self._level, reason_code=self.refuse_connect))
            return
        session, present = self._open_session(connect)
        self._fire(sock, cut)
        session.connected(self.connections, receive_maximum=self._receive_maximum(self._level))
        self._write(sock, connack_bytes(self._level, session_present=present, properties=self.properties))
        self.established = True
        try:
            while self._exchange(sock, session):
                pass
        finally:
            self.established = False
            if connect.clean if self._level == 4 else not packet.number(SESSION_EXPIRY, 0):
                self._end_session(connect.client_id, session)

    def _exchange(self, sock: socket.socket, session: ReceiverSession) -> bool:
        """Take one packet and answer it; whether the connection goes on."""
        packet, cut = self._read(sock)
        if packet.kind == PUBLISH:
            if self.closes_on(packet):
                return False
            reason_code = self.reason_code(packet)
            session.publish(packet, reason_code)
            self._fire(sock, cut)
            if packet.qos and not self.stalled:
                self._answer(sock, session, first_answer(packet.qos), packet.packet_id, reason_code)
        elif packet.kind == PUBREL:
            known = session.pubrel(packet)
            self._fire(sock, cut)
            if not self.stalled:
                self._answer(sock, session, PUBCOMP, packet.packet_id, 0 if known or self._level < 5 else _NOT_FOUND)
        elif packet.kind == PINGREQ:
            self._fire(sock, cut)
            if not self.stalled:
                self._write(sock, packet_bytes(PINGRESP))
        else:
            self._fire(sock, cut)
            assert packet.kind == DISCONNECT, f"not for this server: {packet}"
            return False
        return True

    def _answer(self, sock: socket.socket, session: ReceiverSession, kind: int, packet_id: int, reason_code: int) -> None:
        body = struct.pack("!H", packet_id)
        if self._level == 5 and self._long_answers:
            body += bytes((reason_code, 0))
        elif self._level == 5 and reason_code:
            body += bytes((reason_code,))
        self._write(sock, packet_bytes(kind, 0, body), lambda: session.answered(kind, packet_id, reason_code))

    # --- sessions ---

    def _new_session(self) -> ReceiverSession:
        return ReceiverSession(deliver_on=self._deliver_on, deliver=self._deliver, complain=self._complain)

    def _open_session(self, connect: Connect) -> tuple[ReceiverSession, bool]:
        with self._lock:
            if connect.clean:
                self._sessions.pop(connect.client_id, None)
            session = self._sessions.get(connect.client_id)
            if session is not None:
                return session, True
            session = self._sessions[connect.client_id] = self._new_session()
            return session, False

    def _end_session(self, client_id: str, session: ReceiverSession) -> None:
        with self._lock:
            if self._sessions.get(client_id) is session:
                del self._sessions[client_id]

    def _receive_maximum(self, level: int) -> int:
        allowed = next((value for identifier, value in self.properties if identifier == RECEIVE_MAXIMUM), 65_535)
        assert isinstance(allowed, int)
        return allowed if level == 5 else 65_535

    # --- bytes ---

    def _read(self, sock: socket.socket) -> tuple[Packet, Cut | None]:
        """The next packet, read whole and no further, judged and noted, and the cut that is due behind it."""
        first = sock.recv(1, socket.MSG_PEEK)
        if not first:
            raise Closed("closed by the client")
        cut = self._cut_for(first[0] >> 4)
        at = cut.at if cut is not None else WHOLE
        data = b""
        while wanted := missing(data):
            if len(data) == at:
                self._fire(sock, cut)
            more = sock.recv(min(wanted, at - len(data)))
            if not more:
                raise Closed("closed by the client")
            data += more
        return self._note(Sender.CLIENT, data), cut

    def _write(self, sock: socket.socket, data: bytes, written: Callable[[], None] = lambda: None) -> None:
        cut = self._cut_for(data[0] >> 4)
        if cut is None or cut.at >= len(data):  # noted first, so that who has it finds it noted
            self._note(Sender.SERVER, data)
            written()
        sock.sendall(data if cut is None else data[: cut.at])
        self._fire(sock, cut)

    def _cut_for(self, kind: int) -> Cut | None:
        """The cut that hits this packet of ``kind``, if one does."""
        with self._lock:
            if not self._cuts or self._cuts[0].kind != kind:
                return None
            if self._passed < self._cuts[0].skip:
                self._passed += 1
                return None
            return self._cuts[0]

    def _fire(self, sock: socket.socket, cut: Cut | None) -> None:
        """Close the connection, if ``cut`` is one."""
        if cut is None:
            return
        if cut.hold:
            self._held.set()
            self._released.wait()
        self.established = False
        if cut.reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        else:
            sock.shutdown(socket.SHUT_WR)  # to close with bytes unread would be RST
        with self._lock:
            if self._cuts:  # unless they are forgotten
                self._cuts.popleft()
            self._passed = 0
        if not cut.reset:
            sock.settimeout(PATIENCE_S)
            while sock.recv(65_536):
                pass
        raise Closed("cut")

    # --- notes ---

    def _note(self, sender: Sender, data: bytes) -> Packet:
        """The packet that is ``data``, judged and noted."""
        reader = PacketReader(sender, self._level)
        reader.feed(data)
        packet = reader.next()
        assert packet is not None
        self.packets.append(Record(self.connections, sender is Sender.SERVER, packet, len(data)))
        return packet

    def _deliver(self, packet: Packet) -> None:
        self.delivered.append(packet)
        self._different.add((packet.topic, packet.payload))

    def _complain(self, complaint: str) -> None:
        self.complaints.append(f"connection {self.connections}: {complaint}")

    def _tail(self) -> str:
        """The last packets, for the reader of a failure."""
        lines = [f"  {record.connection} {'->' if record.sent else '<-'} {record.packet}" for record in self.packets[-25:]]
        return "the last packets are\n" + "\n".join(lines)

    @staticmethod
    def _shut(sock: socket.socket) -> None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already
