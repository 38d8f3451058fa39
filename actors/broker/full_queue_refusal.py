"""Whether there is room for a PUBLISH in the queues that it goes to, before it is taken.

The store says which queues of bridges are OPEN, NEAR their limit or FULL (``Room``); only those that refuse when they are full are
ever named. While all are OPEN nothing is looked at. Else each PUBLISH of QoS 1 or 2 is: its topic says to which bridges it goes.
Where one is NEAR, the PUBLISH waits in its client's socket until there is an answer. Where one is FULL, an MQTT 5 client is told
0x97, and an MQTT 3.1.1 client is not read any further until there is room. A message that is larger than a limit by itself is
refused by reason code, or taken, and dropped at that queue.

broker.room-before-taken [P1, P2, P3, P5]: a PUBLISH of QoS 1 or 2 is taken only if every queue that it goes to is OPEN, or has
    offered room for it, as the store that is up now has said; before that has spoken nothing is taken. What is taken is not
    refused.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable

from actors.broker.listener_interface import ListenerInterface
from wire.config_settings import LimitSettings
from wire.frames.intake import FULL, OPEN, Room, RoomWanted
from wire.frames.names import QUEUE_STORE
from wire.mqtt.packets import MQTT_5_0
from wire.mqtt.publish_batch_parser import REFUSE, TAKE, WAIT, BatchBuilder, PublishSource
from wire.routing.bridge_rules import BridgeRules

Amount = tuple[int, int]  # messages and bytes

NODE = ""
UNKNOWN = "\0"  # what clients wait for until the store has spoken


class QueueRoom:
    """Knows it for the batch that is being built.

    number: of the last ``Room``. unheeded: a batch is due, so that the store knows that what it said was heard. refused: by queue,
    the messages that were refused since the last batch. waits_for: the bridge or class for which the PUBLISH at which parsing has
    stopped last has to wait; None: for none.
    """

    def __init__(self, host: ListenerInterface, builder: BatchBuilder) -> None:
        self._host = host
        self._builder = builder
        self._known = False
        self._told: set[str] = set()  # those that are not open
        self._full: set[str] = set()
        self._left: dict[str, Amount] = {}  # messages and bytes that are left of what was offered for this batch
        self.wanted: dict[str, Amount] = {}
        self._asked: dict[str, Amount] = {}
        self.number = self._heeded = 0
        self.unheeded = False
        self.refused: Counter[str] = Counter()
        self.refused_ever = 0
        self.waits_for: str | None = None
        self._on_refused: Callable[[int, bytes, Iterable[str]], None] | None = None
        self.on_settings_changed()
        self._request_room()

    def watch_refusals(self, on_refused: Callable[[int, bytes, Iterable[str]], None] | None) -> None:
        """Have ``on_refused`` told of each PUBLISH that a full queue keeps out: its client's number, its topic, and the bridges
        or classes whose queues are full, an empty name being the node. None: nobody any more.
        """
        self._on_refused = on_refused

    def on_settings_changed(self) -> None:
        """Messages go to other bridges from now on, and other limits hold."""
        settings = self._host.settings.now
        self._router = BridgeRules(settings.bridges)
        rooms = dict(bridge.limits_of(lane) for bridge in settings.bridges for lane in bridge.lane_labels)
        self._most = {name: _most(limits) for name, limits in {NODE: settings.limits, **rooms}.items()}

    # --- what the store says ---

    def store_is_new(self) -> None:
        """What was said before counts no more (broker.room-before-taken)."""
        self._known = False
        self._told, self._full, self._left = set(), set(), {}
        self.wanted, self._asked = {}, {}
        self._request_room()

    def on_report(self, frame: Room) -> bool:
        """What is so from now on; whether these are the store's first words."""
        first, self._known = not self._known, True
        self.number = frame.number
        if not frame.queues:
            self._heeded = frame.number
        self.unheeded = self.number != self._heeded
        for name, (state, messages, size_bytes) in frame.queues.items():
            self._asked.pop(name, None)
            self.wanted.pop(name, None)
            (self._told.discard if state == OPEN else self._told.add)(name)
            (self._full.add if state == FULL else self._full.discard)(name)
            self._left[name] = messages, size_bytes
        self._request_room()
        return first

    def _request_room(self) -> None:
        self._builder.ask_for_room(self.verdict if self._told or not self._known else None)

    # --- batches ---

    def sealed(self) -> tuple[int, dict[str, int]]:
        """The batch that was being built leaves: ``room`` and ``refused`` for it. What was offered for it and not used is gone."""
        self._heeded, self.unheeded = self.number, False
        self._left = {}
        refused: dict[str, int] = {}
        if self.refused:
            refused, self.refused = dict(self.refused), Counter()
        return self.number, refused

    def ask(self) -> None:
        """At the end of a turn: ask for what somebody waits for."""
        news = {name: amount for name, amount in self.wanted.items() if self._asked.get(name) != amount}
        if news:
            self._asked.update(news)
            self._host.send(QUEUE_STORE, RoomWanted(epoch=self._host.epoch, wanted=news))

    # --- PUBLISHes ---

    def begin(self) -> None:
        """A run of them is parsed next."""
        self.waits_for = None

    def verdict(self, client: PublishSource, packet_id: bytes, qos: int, topic: bytes, size_bytes: int) -> int:
        """TAKE, WAIT or REFUSE a PUBLISH of QoS 1 or 2; one that is taken has its room, one that is refused is owed its answer.

        size_bytes: of its payload and properties. One of QoS 2 that is received already needs no room.
        """
        if qos == 2 and int.from_bytes(packet_id, "big") in client.received:
            return TAKE
        if not self._known:
            self.waits_for = UNKNOWN
            return WAIT
        size_bytes += len(topic)
        queues = {route.room: route.queue for route in self._router.route(topic)}
        needed = dict.fromkeys(queues, (1, size_bytes))
        copies = max(1, len(queues))
        needed[NODE] = copies, copies * size_bytes
        never = [name for name, amount in needed.items() if not _fits(amount, self._most.get(name, _ENDLESS))]
        lacking = [
            name
            for name, amount in needed.items()
            if name in self._told and name not in never and not _fits(amount, self._left.get(name, _NOTHING))
        ]
        full = [name for name in lacking if name in self._full]
        if self._on_refused is not None and (full or never):
            self._on_refused(client.number, topic, sorted({*full, *never}))
        if client.level == MQTT_5_0 and (never or full):
            self.refused.update(queues[name] for name in (*never, *full) if name in queues)
            self.refused_ever += 1
            client.refuse(qos, packet_id)
            return REFUSE
        if lacking:
            self.waits_for = lacking[0]
            self.wanted.update((name, _larger(needed[name], self.wanted.get(name, _NOTHING))) for name in lacking)
            return WAIT
        for name, left in self._left.items():
            if name in needed:
                self._left[name] = left[0] - needed[name][0], left[1] - needed[name][1]
        return TAKE


_NOTHING: Amount = (0, 0)
_ENDLESS: Amount = (sys.maxsize, sys.maxsize)


def _fits(amount: Amount, room: Amount) -> bool:
    return amount[0] <= room[0] and amount[1] <= room[1]


def _larger(one: Amount, other: Amount) -> Amount:
    return max(one[0], other[0]), max(one[1], other[1])


def _most(limits: LimitSettings) -> Amount:
    """What a queue with these limits can ever hold, if it refuses what is beyond."""
    if limits.overflow != "reject":
        return _ENDLESS
    return limits.max_messages or sys.maxsize, limits.max_bytes or sys.maxsize
