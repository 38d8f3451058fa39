"""The words of a recorded connection between a bridge and its remote on each message: who has lost it, who has doubled it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.support.mqtt_packets import CONNACK, PUBACK, PUBLISH, PUBREC, PUBREL
from tests.support.tape import Passed, Tape, excerpt


@dataclass(slots=True)
class Passage:
    """One PUBLISH on the tape. session: a number that a CONNACK without session present raises. answered: by its receiver.

    shadowed: under an identifier of QoS 2 that another message had and was not released, so its receiver took it for a repeat.
    """

    place: int
    connection: int
    session: int
    packet_id: int
    qos: int
    dup: bool
    answered: bool = False
    released: bool = False
    shadowed: bool = False


class LinkRecord:
    """Judges what is on ``tape`` when it is asked; payloads are unique."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._read = -1
        self._passages: dict[bool, dict[str, list[Passage]]] = {}
        self._passed: list[Passed] = []

    def remotes_loss(self, payloads: Iterable[str], *, out: bool) -> set[str]:
        """Those of ``payloads`` that the remote answers for and that went no further.

        out: it has acknowledged them. Else: it never sent them, or never again after a connection that ended before their answer,
        or under another's identifier.
        """
        passages = self._of(out)
        if out:
            return {payload for payload in payloads if any(each.answered for each in passages.get(payload, ()))}
        last = max((passed.connection for passed in self._passed), default=0)
        return {
            payload
            for payload in payloads
            if not any((each.answered or each.connection == last) and not each.shadowed for each in passages.get(payload, ()))
        }

    def judge_out(self, payloads: Sequence[str], *, exactly_once: Sequence[str], lowered: bool) -> None:
        """All of ``payloads`` were acknowledged by the remote; repeats were such that it could tell.

        In one session what goes again under its identifier has DUP. A message that is to come ``exactly_once`` has no other
        identifier, and does not go behind its PUBREL. Of other messages a publisher may have made two. lowered: some left at QoS 1
        after all.
        """
        passages = self._of(True)
        lost = [payload for payload in payloads if not any(each.answered for each in passages.get(payload, ()))]
        assert not lost, f"never acknowledged by the remote: {lost[:10]}"
        once = set(exactly_once)
        for payload, each in passages.items():
            for before, after in pairwise(each):
                same = after.packet_id == before.packet_id
                ours = (same and not after.dup) or (payload in once and (not same or (before.released and not lowered)))
                assert not (after.session == before.session and ours), self._show(payload, each)

    def judge_back(self, twice: Iterable[str]) -> None:
        """A message that came ``twice`` to a subscriber, and came from the remote at QoS 2, that has sent as two messages."""
        passages = self._of(False)
        for payload in twice:
            each = passages[payload]
            two = any(passage.qos < 2 for passage in each) or any(
                before.released or after.packet_id != before.packet_id or after.session != before.session
                for before, after in pairwise(each)
            )
            assert two, self._show(payload, each)

    def _of(self, up: bool) -> dict[str, list[Passage]]:
        if self._tape.count != self._read:
            self._passed = self._tape.passed
            self._read = len(self._passed)
            self._passages = {way: self._follow(way) for way in (True, False)}
        return self._passages[up]

    def _follow(self, up: bool) -> dict[str, list[Passage]]:
        """Each PUBLISH in one direction, and what became of it, in the order of the tape."""
        found: dict[str, list[Passage]] = defaultdict(list)
        session = 0
        sent: dict[tuple[int, int], Passage] = {}  # connection and identifier -> the last under it
        held: dict[int, Passage] = {}  # the last under the identifier, on whatever connection
        for place, passed in enumerate(self._passed):
            packet, key = passed.packet, (passed.connection, passed.packet.packet_id)
            if packet.kind == CONNACK and not packet.session_present:
                session += 1
            elif packet.kind == PUBLISH and passed.up == up:
                passage = Passage(place, passed.connection, session, packet.packet_id, packet.qos, packet.dup)
                before = held.get(packet.packet_id)
                found[packet.payload.decode()].append(passage)
                if packet.qos == 2 and before is not None and before not in found[packet.payload.decode()]:
                    passage.shadowed = before.qos == 2 and before.session == session and not before.released
                sent[key] = held[packet.packet_id] = passage
            elif packet.kind in (PUBACK, PUBREC) and passed.up != up and key in sent and packet.reason_code < 0x80:
                sent[key].answered = True
            elif packet.kind == PUBREL and passed.up == up and packet.packet_id in held:
                held[packet.packet_id].released = True
        return found

    def _show(self, payload: str, passages: Sequence[Passage]) -> str:
        return f"{payload} twice in one session:\n{excerpt(self._passed, [each.place for each in passages])}"
