"""Whether a bridge took in what its remote sent, in the order in which the remote sent it. Pure.

It is judged against the PUBLISH packets of the recorded connections, not against what was published at the remote: so a remote
that sends out of order (Mosquitto 2.0 may, where QoS levels mix and its in-flight limits are reached) is told apart from a bridge
that does.

On each connection a bridge takes in a beginning of what is sent there: a cut keeps the rest from it. All that it has answered
with PUBACK or PUBREC is in that beginning. A QoS 1 PUBLISH is a message each time. A QoS 2 PUBLISH is a *repeat* of an earlier
one if it has DUP and the same identifier and message, and the remote has neither released that nor lost the session in between;
where that was taken, the repeat is not [MQTT-4.3.3-10]. It is *doubtful* where an earlier exchange under its identifier may still
be on record at the bridge, for no PUBCOMP was seen since: then it may be taken, or be answered only.

The messages taken in must be these beginnings, one connection after the other. The end of each is not known, so all possibilities
are followed. Topics are judged one by one; a message is told by its payload.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.support.arrivals import Order
from tests.support.mqtt_packets import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet
from tests.support.tape import Passed, excerpt

_CONTEXT = 4  # messages that are named before and behind the one that is wrong


@dataclass(slots=True)
class _Sent:
    """One PUBLISH that the remote sent. at: in the recording. exchange: where that of QoS 2 began."""

    at: int
    payload: str
    exchange: int = -1
    repeat: bool = False
    doubtful: bool = False


@dataclass(slots=True)
class _Run:
    """The messages that the remote sent of one topic on one connection, and how many of these the bridge has taken at least."""

    connection: int
    sent: list[_Sent] = field(default_factory=list)
    answered: int = 0


_State = tuple[int, frozenset[int]]  # how many of the taken messages are explained; the QoS 2 exchanges that were taken


class IntakeOrder:
    """Judges what was taken in by ``recording``. answered_by: answers behind that many packets do not count.

    (What was answered after the bridge was asked for what it has taken in may be missing from that.)
    """

    def __init__(self, recording: Sequence[Passed], *, answered_by: int | None = None) -> None:
        self._recording = recording
        reader = _Reader()
        for at, passed in enumerate(recording):
            reader.read(at, passed, counts=answered_by is None or at < answered_by)
        self._runs = reader.runs()
        again: dict[int, int] = defaultdict(int)
        for run in self._all_runs():
            for sent in run.sent:
                again[sent.exchange] += 1
        self._repeated = {exchange for exchange, times in again.items() if exchange >= 0 and times > 1}

    @property
    def topics(self) -> list[str]:
        """The topics on which the remote sent anything at QoS 1 or 2."""
        return list(self._runs)

    @property
    def publishes(self) -> int:
        """How many PUBLISH packets at QoS 1 and 2 the remote sent."""
        return sum(len(run.sent) for run in self._all_runs())

    def sent(self, topic: str) -> list[str]:
        """The payloads of ``topic`` as the remote sent them, repeats included."""
        return [sent.payload for run in self._runs.get(topic, ()) for sent in run.sent]

    def unanswered(self, topic: str) -> set[str]:
        """The payloads of which no PUBLISH was answered."""
        answered = {sent.payload for run in self._runs.get(topic, ()) for sent in run.sent[: run.answered]}
        return set(self.sent(topic)) - answered

    def fault(self, topic: str, taken: Sequence[str]) -> str | None:
        """Why the bridge cannot have taken in ``taken``, in that order, with the recording around the place; None if it can."""
        states: set[_State] = {(0, frozenset())}
        explained, wanted, connection = 0, None, 0
        for run in self._runs.get(topic, ()):
            after: set[_State] = set()
            for state in states:
                for count, next_state, next_sent in self._walk(run, state, taken):
                    if next_state[0] >= explained:
                        explained, wanted, connection = next_state[0], next_sent, run.connection
                    if count >= run.answered:
                        after.add(next_state)
            if not after:
                missing = wanted or run.sent[run.answered - 1]
                why = f"on connection {run.connection} the bridge has answered what it did not take in in that order"
                return self._tell(topic, taken, explained, why, missing)
            states = after
        reached = max(done for done, _ in states)
        if reached == len(taken):
            return None
        why = (
            "the remote sent nothing more"
            if wanted is None
            else f"on connection {connection} the remote sent {wanted.payload!r} next"
        )
        return self._tell(topic, taken, explained, why, wanted)

    def live_fault(self, topic: str, arrived: Sequence[str]) -> str | None:
        """Why a subscriber, who may miss some, cannot have got ``arrived`` in that order; None if it can.

        Only the first arrival of each message counts.
        """
        firsts = list(dict.fromkeys(arrived))
        wire = iter(self.sent(topic))
        for at, payload in enumerate(firsts):
            if not any(payload == sent for sent in wire):
                return self._tell(topic, firsts, at, "the remote never sent it behind those before it", None)
        return None

    def sent_late(self, topic: str) -> list[str]:
        """The messages that the remote itself sent for the first time behind a later message of the same publisher.

        A payload is the publisher's mark, of one letter, and a number.
        """
        late, order = [], Order()
        for payload in dict.fromkeys(self.sent(topic)):
            mark, number = payload[0], int(payload[1:])
            if order.is_late(number, mark):
                late.append(payload)
            order.came(number, mark)
        return late

    # --- inside ---

    def _all_runs(self) -> Iterator[_Run]:
        for runs in self._runs.values():
            yield from runs

    def _walk(self, run: _Run, state: _State, taken: Sequence[str]) -> Iterator[tuple[int, _State, _Sent | None]]:
        """The states in which the bridge may be after each beginning of ``run``: how many it has, its state, and what it would have
        next."""
        paths: set[_State] = {state}
        for count, sent in enumerate(run.sent):
            following: set[_State] = set()
            for done, exchanges in paths:
                yield count, (done, exchanges), sent
                had = sent.repeat and sent.exchange in exchanges
                if had or sent.doubtful:
                    following.add((done, exchanges))
                if not had and done < len(taken) and taken[done] == sent.payload:
                    kept = exchanges | {sent.exchange} if sent.exchange in self._repeated else exchanges
                    following.add((done + 1, kept))
            paths = following
        for path in paths:
            yield len(run.sent), path, None

    def _tell(self, topic: str, taken: Sequence[str], at: int, why: str, wanted: _Sent | None) -> str:
        """The fault in words: what was taken in around ``at``, and the recording around these messages."""
        named = list(taken[max(0, at - 1) : at + 1])
        places = [] if wanted is None else [wanted.at]
        for run in self._runs.get(topic, ()):
            places += [sent.at for sent in run.sent if sent.payload in named]
        begin, end = max(0, at - _CONTEXT), at + _CONTEXT + 1
        wrong = repr(taken[at]) if at < len(taken) else "nothing more"
        return (
            f"{topic}: message {at} that was taken in is {wrong}, but {why}.\n"
            f"  taken in around it: {' '.join(taken[begin:end])}\n"
            f"  the recording around these messages:\n{excerpt(self._recording, sorted(set(places)))}"
        )


class _Reader:
    """Reads a recording, packet by packet, into runs."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[int, _Run]] = {}
        self._waiting: dict[tuple[int, int, int], list[tuple[_Run, int]]] = defaultdict(list)  # connection, answer, identifier
        self._exchanges: dict[int, tuple[str, bytes, _Sent]] = {}  # identifier -> what was last sent under it and not released
        self._on_record: set[int] = set()  # identifiers of exchanges that the bridge may not have completed

    def runs(self) -> dict[str, list[_Run]]:
        """By topic, in the order of the connections: what still comes by an old one beside a new one comes to nobody."""
        return {topic: [run for _, run in sorted(runs.items())] for topic, runs in self._runs.items()}

    def read(self, at: int, passed: Passed, *, counts: bool) -> None:
        """counts: whether an answer does."""
        packet = passed.packet
        if not passed.up and packet.kind == PUBLISH and packet.qos:
            self._publish(at, passed.connection, packet)
        elif not passed.up and packet.kind == PUBREL:
            self._exchanges.pop(packet.packet_id, None)
        elif not passed.up and packet.kind == CONNACK and not packet.session_present:
            self._exchanges.clear()
        elif passed.up and packet.kind in (PUBACK, PUBREC) and counts:
            waiting = self._waiting[passed.connection, packet.kind, packet.packet_id]
            if waiting:
                run, number = waiting.pop(0)
                run.answered = max(run.answered, number)
        elif passed.up and packet.kind == PUBCOMP:
            self._on_record.discard(packet.packet_id)

    def _publish(self, at: int, connection: int, packet: Packet) -> None:
        run = self._runs.setdefault(packet.topic, {}).setdefault(connection, _Run(connection))
        sent = _Sent(at, packet.payload.decode())
        run.sent.append(sent)
        packet_id = packet.packet_id
        if packet.qos == 2:
            topic, payload, before = self._exchanges.get(packet_id, ("", b"", sent))
            sent.repeat = packet.dup and before is not sent and (topic, payload) == (packet.topic, packet.payload)
            sent.exchange = before.exchange if sent.repeat else at
            sent.doubtful = before.doubtful if sent.repeat else packet_id in self._on_record
            self._exchanges[packet_id] = packet.topic, packet.payload, sent
            self._on_record.add(packet_id)
        self._waiting[connection, PUBACK if packet.qos == 1 else PUBREC, packet_id].append((run, len(run.sent)))
