"""Local subscribers: clients with a kept session that answer as the standard demands, and are cut off, stall and stay away.

The node's duties to them are judged in ``sessions.py``: by what the Listener *writes*, and by what has arrived. A client that finds
its session lost forgets with it what it held, also where the CONNACK that said so never reached it: MQTT gives it no other means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.simulation import mqtt
from tests.simulation.mqtt import LEVEL_5, Ack, Connack, Other, Packet, PacketReader, Publish
from tests.simulation.publisher import ANSWER_TIMEOUT_S, KEEP_ALIVE_S, Doors, judge_refusal
from tests.simulation.sessions import OnConnection, Session, SessionsJudge
from tests.simulation.subscribing import STALL_TIMEOUT_S, SubscriberShape
from tests.simulation.tcp import Far, Link
from tests.simulation.world import Violation, World
from tests.support import mqtt_packets
from tests.support.mqtt_packets import Sender

if TYPE_CHECKING:
    from tests.simulation.plan import Fault

_NOT_FOUND = 0x92
_SUBSCRIBE_ID, _UNSUBSCRIBE_ID = 7, 8
_ON_ITS_WAY_S = 20.0  # longer than an actor is frozen
_GOODBYES = (0x8B, 0x8E, 0x8D)  # shutting down, taken over, keep alive
_STALLED = 0x97


class Subscriber:
    """One client. It never gives up; ``quiet`` when nothing is open between it and the node."""

    def __init__(self, world: World, number: int, shape: SubscriberShape, doors: Doors, judge: SessionsJudge) -> None:
        self.world = world
        self.number = number
        self.shape = shape
        self.client_id = f"subscriber-{number}"
        self.judge = judge
        self.rng = world.chance(f"subscriber {number}")
        self.stalled_until_s = 0.0
        self.withholds_until_s = 0.0
        self.away_until_s = 0.0
        self.unsubscribed_until_s = 0.0
        self.dials = 0  # since the last CONNACK was written
        # The time at which it last gave up a connection before its CONNACK: the CONNECT may still be on its way.
        self._abandoned_s = float("-inf")
        self.connection: _Connection | None = None
        self._doors = doors
        self._clean = False  # it wants a new session
        self._progress_s = world.now_s
        world.after(shape.comes_s, self._dial)
        world.after(1.0, self._look)

    @property
    def quiet(self) -> bool:
        connection = self.connection
        return connection is not None and connection.quiet and not self._clean

    @property
    def overtaken(self) -> bool:
        """Whether the Listener may still have the CONNECT of a connection that was given up to read."""
        return self.world.now_s - self._abandoned_s < _ON_ITS_WAY_S

    @property
    def link(self) -> Link | None:
        return self.connection.link if self.connection is not None else None

    # --- what the plan does to it ---

    def hang_up(self, *, goodbye: bool = False) -> None:
        """Drop the connection."""
        connection = self.connection
        if connection is not None and connection.link is not None:
            if goodbye:
                connection.link.send(mqtt_packets.packet_bytes(mqtt_packets.DISCONNECT))
            connection.link.hang_up()
            self.lost(connection)

    def stay_away(self, seconds: float) -> None:
        """Be offline for so long."""
        self.away_until_s = self.world.now_s + seconds
        self.hang_up(goodbye=self.rng.random() < 0.5)

    def leave(self, seconds: float) -> None:
        """Want nothing for so long, and then the same again."""
        self.unsubscribed_until_s = self.world.now_s + seconds
        self._want()
        self.world.at(self.unsubscribed_until_s, self._want)

    def want_again(self) -> None:
        """Want what it wanted at first."""
        self.unsubscribed_until_s = min(self.unsubscribed_until_s, self.world.now_s)
        self._want()

    @property
    def wants(self) -> bool:
        """Whether it wants to be subscribed."""
        return self.world.now_s >= self.unsubscribed_until_s

    def _want(self) -> None:
        if self.connection is not None:
            self.connection.ask()

    def begin_anew(self) -> None:
        """Throw the session away: connect with a clean start, at level 4 with a clean session first."""
        self._clean = True
        self.hang_up(goodbye=self.rng.random() < 0.5)

    # --- connecting ---

    def _dial(self) -> None:
        if self.connection is not None:
            return
        if self.world.now_s < self.away_until_s:
            self.world.at(self.away_until_s, self._dial)
            return
        connection = _Connection(self, clean=self._clean)
        link = self._doors.dial(connection, name="subscribers")
        if link is None:
            self._dial_later()
            return
        connection.link = link
        self.connection = connection
        self.dials += 1
        self._progress_s = self.world.now_s
        if self._clean:
            self.judge.ends(self)
        link.send(
            mqtt.connect(
                self.client_id,
                self.shape.level,
                clean=self._clean,
                keep_alive_s=KEEP_ALIVE_S,
                receive_maximum=self.shape.receive_maximum,
            )
        )

    def _dial_later(self) -> None:
        self.world.after(0.02 + self.rng.random() * 0.3, self._dial)

    def lost(self, connection: _Connection) -> None:
        """The connection is gone."""
        connection.end()
        if not connection.answered:
            self._abandoned_s = self.world.now_s
        if self.connection is connection:
            self.connection = None
            self._dial_later()

    def _look(self) -> None:
        """Ping, and give up on a connection that does not answer."""
        self.world.after(3.0, self._look)
        connection = self.connection
        if connection is None or connection.link is None:
            return
        if self.world.now_s - self._progress_s > ANSWER_TIMEOUT_S:
            self.hang_up()
        elif connection.welcome:
            connection.link.send(mqtt_packets.packet_bytes(mqtt_packets.PINGREQ))

    def arrived(self, connection: _Connection, packet: Packet) -> None:
        """``packet`` has reached the client."""
        self._progress_s = self.world.now_s
        self.world.note("subscriber", self.number, f"<- {packet}")
        match packet:
            case Connack() if packet.reason:
                self.hang_up()
            case Connack():
                if self._clean and connection.clean:
                    self._clean = False
                    if self.shape.level < LEVEL_5:  # that session ends with the connection; the next one lasts
                        self.hang_up()
                        return
                connection.welcomed()
            case Other(kind=mqtt_packets.DISCONNECT):
                reason = packet.body[0] if packet.body else 0
                if reason == _STALLED and connection.withheld_s() >= STALL_TIMEOUT_S:
                    return
                if reason not in _GOODBYES and not (reason == 0x83 and self.judge.may_be_lost(self)):
                    raise Violation("protocol", f"{self.client_id} was thrown out with 0x{reason:02x}")
            case Other(kind=mqtt_packets.PINGRESP):
                pass
            case _:
                raise Violation("protocol", f"{self.client_id} got {packet}")


class _Connection(Far):
    """One connection of a subscriber."""

    def __init__(self, subscriber: Subscriber, *, clean: bool) -> None:
        self.link: Link | None = None
        self.clean = clean
        self.welcome = False
        self._asking = False  # SUBSCRIBE or UNSUBSCRIBE is not answered
        self._dialled_s = subscriber.world.now_s
        self._subscriber = subscriber
        self._judged: OnConnection | None = None
        self._reader = PacketReader(Sender.SERVER, subscriber.shape.level)
        self._packets: deque[tuple[int, Packet, int | None]] = deque()  # where it ends, and its sequence if it has one
        self._arrived = 0
        self._answers: list[Ack] = []
        self._answers_since_s = 0.0
        self._withheld_s = 0.0
        self._flushing = False
        self._closed = False

    @property
    def answered(self) -> bool:
        return self._judged is not None

    @property
    def session(self) -> Session:
        assert self._judged is not None
        return self._judged.session

    def withheld_s(self) -> float:
        """The longest that it has kept an answer to itself, up to now."""
        kept_s = self._subscriber.world.now_s - self._answers_since_s if self._answers else 0.0
        return max(self._withheld_s, kept_s)

    @property
    def quiet(self) -> bool:
        if not self.welcome or self._answers or self._packets or self._judged is None or self._asking:
            return False
        return self.session.subscribed and self._judged.quiet

    def written(self, data: bytes) -> None:
        try:
            packets = self._reader.feed(data)
        except mqtt.Malformed as error:
            raise Violation("malformed", f"towards a local client: {error}") from error
        subscriber = self._subscriber
        for position, packet in packets:
            seq = None
            if isinstance(packet, Connack) and packet.reason:
                waited_s = subscriber.world.now_s - self._dialled_s
                judge_refusal(subscriber.client_id, packet, subscriber.shape.level, waited_s)
            elif isinstance(packet, Connack):
                if self._closed:  # it has been taken over, or has gone, and does not hear it any more
                    return
                self._judged = subscriber.judge.welcomed(subscriber, present=packet.present, clean=self.clean)
            elif self._judged is not None:
                seq = self._judged.written(packet)
            self._packets.append((position, packet, seq))

    def arrived(self, count: int) -> None:
        self._arrived += count
        while self._packets and self._packets[0][0] <= self._arrived and not self._closed:
            _, packet, seq = self._packets.popleft()
            self._take(packet, seq)

    def gone(self) -> None:
        self._subscriber.lost(self)

    def end(self) -> None:
        """Nothing is heard or said on it any more."""
        self._closed = True
        self._answers.clear()
        self._packets.clear()

    def welcomed(self) -> None:
        """CONNACK has come."""
        self.welcome = True
        self.ask()

    def ask(self) -> None:
        """Subscribe or unsubscribe, unless the session is as its client wants it, or that is being asked for already."""
        if self._asking or not self.welcome or self.link is None or self._closed or self._judged is None:
            return
        subscriber, shape, session = self._subscriber, self._subscriber.shape, self.session
        if subscriber.wants and not session.subscribed:
            self._judged.subscribes()
            data = mqtt_packets.subscribe_bytes(shape.level, _SUBSCRIBE_ID, shape.filters)
        elif not subscriber.wants and session.subscribes and session.left_at is None:
            self._judged.unsubscribes()
            data = mqtt_packets.unsubscribe_bytes(shape.level, _UNSUBSCRIBE_ID, (topic_filter for topic_filter, _ in shape.filters))
        else:
            return
        self._asking = True
        self.link.send(data)

    def _take(self, packet: Packet, seq: int | None) -> None:
        judged = self._judged
        match packet:
            case Publish() if judged is not None:
                self._subscriber.world.note("subscriber", self._subscriber.number, f"<- {packet}")
                judged.arrived(packet, seq)
                if packet.qos:
                    self._answer(Ack(mqtt_packets.PUBACK if packet.qos == 1 else mqtt_packets.PUBREC, packet.packet_id))
            case Ack(kind=mqtt_packets.PUBREL) if judged is not None:
                self._subscriber.world.note("subscriber", self._subscriber.number, f"<- {packet}")
                known = judged.released(packet.packet_id)
                unknown = _NOT_FOUND if not known and self._subscriber.shape.level == LEVEL_5 else 0
                self._answer(Ack(mqtt_packets.PUBCOMP, packet.packet_id, unknown))
            case Other(kind=mqtt_packets.SUBACK | mqtt_packets.UNSUBACK):
                self._asking = False
                self.ask()
            case _:
                self._subscriber.arrived(self, packet)

    def _answer(self, ack: Ack) -> None:
        if not self._answers:
            self._answers_since_s = self._subscriber.world.now_s
        self._answers.append(ack)
        if not self._flushing:
            self._flushing = True
            delay_s = self._subscriber.rng.random() * self._subscriber.shape.slow_s
            self._subscriber.world.after(delay_s, self._flush)

    def _flush(self) -> None:
        self._flushing = False
        subscriber, world = self._subscriber, self._subscriber.world
        if self._closed or self.link is None or self._judged is None:
            return
        self._withheld_s = self.withheld_s()
        silent_until_s = max(subscriber.stalled_until_s, subscriber.withholds_until_s)
        if world.now_s < silent_until_s:
            self._flushing = True
            world.at(min(silent_until_s, world.now_s + 0.1), self._flush)
            return
        data = b""
        for ack in self._answers:
            world.note("subscriber", subscriber.number, f"-> {ack}")
            self._judged.answered(ack)
            data += mqtt.ack(ack.kind, ack.packet_id, ack.reason)
        self._answers.clear()
        self.link.send(data)


class SubscriberFaults:
    """The deeds of a plan to subscribers; target: the number of one."""

    def __init__(self, world: World, subscribers: Sequence[Subscriber]) -> None:
        self._world = world
        self._subscribers = subscribers
        self._rng = world.chance("subscriber faults")

    def subscriber_cut(self, fault: Fault) -> None:
        """amount: bytes until the connection breaks; less than none: the client closes it."""
        subscriber = self._of(fault)
        if subscriber.link is None:
            return
        if fault.amount < 0:
            subscriber.hang_up()
        elif self._rng.random() < 0.4:
            subscriber.link.cut_in = int(fault.amount) // 3  # acknowledgements are short
        else:
            subscriber.link.cut_out = int(fault.amount)

    def subscriber_stall(self, fault: Fault) -> None:
        """amount: seconds for which it answers nothing."""
        self._of(fault).stalled_until_s = self._world.now_s + fault.amount

    def subscriber_withhold(self, fault: Fault) -> None:
        """amount: seconds for which it answers nothing, whatever else is healed."""
        self._of(fault).withholds_until_s = self._world.now_s + fault.amount

    def subscriber_away(self, fault: Fault) -> None:
        """amount: seconds for which it is offline."""
        self._of(fault).stay_away(fault.amount)

    def subscriber_leave(self, fault: Fault) -> None:
        """amount: seconds for which it is unsubscribed."""
        self._of(fault).leave(fault.amount)

    def subscriber_clean(self, fault: Fault) -> None:
        """It begins a new session."""
        self._of(fault).begin_anew()

    def subscriber_silent(self, fault: Fault) -> None:
        """Its connection is half open."""
        link = self._of(fault).link
        if link is not None:
            link.silent = True

    def heal(self) -> None:
        """Nothing is held back any more."""
        for subscriber in self._subscribers:
            subscriber.stalled_until_s = min(subscriber.stalled_until_s, self._world.now_s + 1.0)
            subscriber.away_until_s = min(subscriber.away_until_s, self._world.now_s)
            subscriber.want_again()
            if subscriber.link is not None:
                subscriber.link.cut_in = subscriber.link.cut_out = None

    def _of(self, fault: Fault) -> Subscriber:
        return self._subscribers[int(fault.target)]
