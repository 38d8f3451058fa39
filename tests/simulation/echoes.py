"""What a remote sends back. A few seeds have the bridge subscribe to a part of what it sends, and the remote echo it, or keep it
back where it knows the bridge. Somebody there also publishes messages that equal some of the bridge's.

Drawn by chance of its own, so that everything else that a seed decides is as it would be without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.simulation.incoming import REMOTE, Incoming, IncomingShape
from tests.simulation.publisher import Message, number_of
from tests.simulation.world import Violation
from wire.config_settings import BridgeSettings
from wire.frames.batch import Batch
from wire.frames.intake import Publishes

FILTER = "up/plant/0/#"  # of what the first publisher publishes, which no other bridge sends
SUBSCRIBED = "connection:cloud:0"  # whose Connection takes what comes back
HERE = b"back/"  # under which an echo that is not known would be published
_TOPICS = "plant/0/"
TO_ALL, TO_OTHERS = "to-all", "to-others"  # whether a client gets its own: it knows no bridge, or knows ours
_LEVEL_5 = 5


@dataclass(frozen=True, slots=True)
class SentBack(Message):
    """A message at the remote with topic and payload of one that a bridge sends: its echo, or somebody else's."""


def echoing(seed: int, incoming: IncomingShape, level: int) -> IncomingShape:
    """``incoming``, perhaps with a remote that sends back."""
    rng = Random(f"echoes {seed}")
    if rng.random() >= 0.7:
        return incoming
    to = TO_ALL if level == _LEVEL_5 else rng.choice((TO_ALL, TO_ALL, TO_OTHERS))
    return replace(incoming, echoes=to, echo_window_s=rng.choice((0.3, 2.0, 3600.0)))


def equal_messages(seed: int, messages: tuple[Message, ...], max_qos: int) -> Iterator[Incoming]:
    """Messages that somebody publishes at the remote, each equal to one of ours."""
    rng = Random(f"equal messages {seed}")
    ours = [message for message in messages if message.topic.startswith(_TOPICS)]
    for message in rng.sample(ours, min(len(ours), rng.choice((0, 1, 3)))):
        at_s = max(0.3, message.at_s + rng.choice((-0.1, 0.01, 0.5, 3.0)))
        yield Incoming(as_sent_back(message.payload, message.topic, min(message.qos, max_qos), at_s), retain=False, waits=False)


def as_sent_back(payload: bytes, topic: str, qos: int, at_s: float) -> SentBack:
    """What has that ``payload`` and ``topic``, which is the one that it has here."""
    return SentBack(number_of(payload), REMOTE, at_s, topic, qos, payload.count(b"."))


def with_echoes(bridge: BridgeSettings, incoming: IncomingShape) -> BridgeSettings:
    """``bridge`` as it subscribes to a part of what it sends."""
    (rule,) = bridge.remote_subscriptions
    back = replace(rule, filters=(FILTER,), destination=f"{HERE.decode()}{{#}}")
    loops = replace(bridge.loop_prevention, echo_window_s=incoming.echo_window_s)
    return replace(bridge, remote_subscriptions=(rule, back), loop_prevention=loops)


class EchoesSeen:
    """Judges what the Connection of the subscribed lane lets through, by how much was sent, and came.

    routing.echo-left-out: a message that was sent by this life of the Connection, and settled less than the window ago, comes back
    to no avail. It may come through where it comes once more: it was sent twice, or its echo was, of QoS 1. No more are left out
    than were sent to who sends back.
    """

    def __init__(self, incoming: IncomingShape, level: int) -> None:
        self._window_s = incoming.echo_window_s
        self._kept_back = level == _LEVEL_5 or incoming.echoes == TO_OTHERS
        self._passed: dict[tuple[int, bytes], int] = {}  # life of the Connection, payload -> when first, UTC
        self._passed_in_all: Counter[bytes] = Counter()
        self._offered: set[tuple[int, int]] = set()  # epoch, number
        self._settled_s: dict[bytes, float] = {}
        self._more: Counter[bytes] = Counter()  # that may come through
        self._echoes: Counter[bytes] = Counter()
        self._through: Counter[bytes] = Counter()
        self._answered: dict[int, SentBack] = {}  # by identity: an answer may be given again
        self._taken: Counter[bytes] = Counter()

    def passed(self, life: int, batch: Batch, wall_ms: int) -> None:
        """The Connection is handed messages."""
        for payload in batch.rows_payloads():
            self._passed.setdefault((life, payload), wall_ms)
            self._passed_in_all[payload] += 1

    def sent_back(self, payload: bytes) -> None:
        """The remote has made an echo."""
        self._echoes[payload] += 1
        if self._echoes[payload] > 1:
            self._more[payload] += 1

    def comes_beside(self, payload: bytes) -> None:
        """An equal message is published at the remote, or an echo of QoS 1 is sent again."""
        self._more[payload] += 1

    def settled(self, payload: bytes, now_s: float) -> None:
        """The remote has said its last word to the message."""
        self._settled_s[payload] = now_s

    def offered(self, frame: Publishes, now_s: float) -> None:
        """The Connection has a batch for the Distributor."""
        if frame.sender != SUBSCRIBED or (frame.epoch, frame.number) in self._offered:
            return
        self._offered.add((frame.epoch, frame.number))
        batch = Batch.decode(frame.bodies[0])
        for place, payload in zip(batch.topic_of, batch.rows_payloads(), strict=True):
            if not batch.topics[place].startswith(HERE):
                continue
            self._through[payload] += 1
            late = now_s - self._settled_s.get(payload, now_s) >= self._window_s
            known = self._passed.get((frame.epoch, payload), batch.accepted_ms) < batch.accepted_ms
            if self._kept_back or late or not known:
                self._more[payload] += 1
            if self._through[payload] > self._more[payload]:
                raise Violation("routing.echo-left-out", f"{payload!r} comes through, which this life of the lane has sent")

    def answered(self, message: SentBack) -> None:
        """The Connection acknowledges it."""
        if id(message) in self._answered:
            return
        self._answered[id(message)] = message
        payload = message.payload
        self._taken[payload] += 1
        left_out = self._taken[payload] - self._through[payload]
        if left_out > (0 if self._kept_back else self._passed_in_all[payload]):
            raise Violation("routing.echo-left-out", f"{left_out} of {payload!r} are left out")
