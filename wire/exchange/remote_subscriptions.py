"""Subscriptions of a bridge at its remote: the SUBSCRIBEs and UNSUBSCRIBEs of a connection, and what the SUBACKs said. Pure.

Every connection subscribes to every filter anew: a resumed session has them already, and then MQTT 5 sends no retained messages a
second time (retain handling 1, unless another one is configured) while MQTT 3.1.1 does [MQTT-3.8.4-3]. It has those too that the
configuration has lost: they are given up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from wire.config_settings import RuleSettings
from wire.exchange.packet_identifiers import PACKET_IDS, SUBSCRIBE_IDS
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.mqtt.codec import encode
from wire.mqtt.packets import MQTT_5_0, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from wire.mqtt.reason_codes import ReasonCode
from wire.mqtt.topics import covers, has_wildcard, shared_filter

FAILURE = 0x80
PACKETS_MAX = SUBSCRIBE_IDS  # their identifiers are above those of the messages
_SUBSCRIBE_BYTES_MAX = 60_000  # one SUBSCRIBE, where the remote sets no smaller limit
_HEAD_BYTES = 8  # fixed header, packet identifier, properties
_ONLY_WHEN_NEW, _NEVER = 1, 2  # retain handling


def outermost(filters: Sequence[str]) -> list[str]:
    """Those of ``filters`` that no other one covers, each once, in order."""
    kept: list[str] = []
    for topic_filter in filters:
        if not any(covers(wide, topic_filter) for wide in kept):
            kept = [*(narrow for narrow in kept if not covers(topic_filter, narrow)), topic_filter]
    return kept


class RemoteSubscriptions:
    """The filters of one lane and how they stand on the live connection; those that are shared as they are written, with the group.

    exchange.filter-asked-once [P2, MQTT]: each filter is asked for once a connection, at the highest ``max_qos`` of the rules that
        name it. One that another covers is not asked for, because a remote may send a message once for each filter that it matches
        [MQTT 5.0, 3.3.4]; the configuration refuses filters that overlap otherwise. A refused filter is asked for again by the next
        connection; the others are not held up by it. A remote without wildcard subscriptions is asked for no filter with one [MQTT
        5.0, 3.2.2.3.11]: it would end the connection, and the others would have nothing. Those that such a filter covers are asked
        for then. A remote without shared subscriptions is asked for none of these. No Local never goes with one [MQTT-3.8.3-4], and
        no retained message is asked for: each lane would have it from Mosquitto 2.0. Subscription identifiers are never asked for.
        A filter that was subscribed to in this session and is not asked for any more is given up, because a remote may send once
        for it, too, what a filter of today matches. That comes after the SUBSCRIBEs: between the two a message may come twice, the
        other way round it could be missed. It is forgotten once the remote has answered, by a lane that asks for nothing any more
        when nothing has come for a while: what the remote had kept comes first.
    """

    def __init__(self, rules: Sequence[RuleSettings], *, no_local: bool, retain_handling: int = _ONLY_WHEN_NEW) -> None:
        self._rules = tuple(rules)
        self._level = MQTT_5_0
        self._no_local = no_local
        self._retain_handling = retain_handling
        self._wanted: dict[str, Subscription] = {}
        self._lacking: dict[str, int] = {}  # wanted, and the remote has no such ones: the reason code
        self.limit(NO_LIMITS, MQTT_5_0)
        self._asked: dict[int, list[str]] = {}
        self._given_up: dict[int, list[str]] = {}  # by the identifiers of the UNSUBSCRIBEs without UNSUBACK
        self._left: tuple[str, ...] = ()  # filters that are on record, and that this connection gives up
        self.granted: dict[str, int] = {}
        self.refused: dict[str, int] = {}

    def change(self, rules: Sequence[RuleSettings]) -> bool:
        """The next connection asks for what these name; whether they are others than before."""
        before, self._rules = self._rules, tuple(rules)
        return before != self._rules

    def limit(self, limits: RemoteLimits, level: int) -> None:
        """The next connection, of that protocol ``level``, is to a remote that takes no more than ``limits``; ask it for nothing
        else (exchange.filter-asked-once).
        """
        self._level = level
        self._lacking, self._wanted = {}, {}
        for group in dict.fromkeys(rule.shared for rule in self._rules):
            rules = [rule for rule in self._rules if rule.shared == group]
            filters = [topic_filter for rule in rules for topic_filter in rule.filters]
            if group is not None and not limits.shared_available:
                lacking, filters = filters, []
                self._lack(lacking, group, ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED)
            elif not limits.wildcard_available:
                lacking = [each for each in outermost(filters) if has_wildcard(each)]
                filters = [each for each in filters if not has_wildcard(each)]
                self._lack(lacking, group, ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED)
            for topic_filter in outermost(filters):
                self._want(topic_filter, group, rules)

    def _lack(self, filters: Sequence[str], group: str | None, code: ReasonCode) -> None:
        self._lacking.update((shared_filter(group, topic_filter), int(code)) for topic_filter in outermost(filters))

    def _want(self, topic_filter: str, group: str | None, rules: Sequence[RuleSettings]) -> None:
        covered = [rule for rule in rules if any(covers(topic_filter, narrow) for narrow in rule.filters)]
        name = shared_filter(group, topic_filter)
        self._wanted[name] = Subscription(
            topic_filter=name,
            qos=max(rule.max_qos for rule in covered),
            no_local=self._no_local and group is None,
            retain_as_published=any(rule.preserve_retain for rule in covered),
            retain_handling=self._retain_handling if group is None else _NEVER,
        )

    @property
    def filters(self) -> int:
        """How many filters there are."""
        return len(self._wanted) + len(self._lacking)

    @property
    def asked_for(self) -> tuple[str, ...]:
        """The subscriptions of a connection."""
        return tuple(self._wanted)

    @property
    def answered(self) -> bool:
        """Whether every SUBSCRIBE has its SUBACK."""
        return not self._asked

    @property
    def leaves_all(self) -> bool:
        """Whether this connection subscribes to nothing, and gives up what is on record."""
        return bool(self._left) and not self._wanted and not self._lacking

    @property
    def given_up(self) -> tuple[str, ...]:
        """What this connection gives up and is on record, once the remote has answered all of that; none before."""
        return () if self._given_up else self._left

    def forget(self) -> None:
        """The connection is gone."""
        self._asked = {}
        self._given_up = {}
        self._left = ()
        self.granted = {}

    def subscribe(self, packet_max_bytes: int | None, known: Iterable[str] = ()) -> bytes:
        """The SUBSCRIBEs of a new connection whose remote takes packets of up to ``packet_max_bytes`` (None: any).

        known: what may have been subscribed to in this session; UNSUBSCRIBEs of what is not wanted any more follow
        (exchange.filter-asked-once). A filter that fits no packet counts as refused with 0x95 (Packet too large), one
        without a packet identifier with 0x97.
        """
        self.forget()
        self.refused = dict(self._lacking)
        room = min(_SUBSCRIBE_BYTES_MAX, packet_max_bytes or _SUBSCRIBE_BYTES_MAX) - _HEAD_BYTES
        runs: list[list[Subscription]] = []
        left = 0
        for subscription in self._wanted.values():
            size = len(subscription.topic_filter.encode()) + 3
            if size > room:
                self.refused[subscription.topic_filter] = ReasonCode.PACKET_TOO_LARGE
                continue
            if size > left:
                if len(runs) == PACKETS_MAX:
                    self.refused[subscription.topic_filter] = ReasonCode.QUOTA_EXCEEDED
                    continue
                runs.append([])
                left = room
            runs[-1].append(subscription)
            left -= size
        packets = []
        for packet_id, run in enumerate(runs, start=PACKET_IDS + 1):
            self._asked[packet_id] = [subscription.topic_filter for subscription in run]
            packets.append(encode(Subscribe(packet_id=packet_id, subscriptions=tuple(run)), self._level))
        left_over = [topic_filter for topic_filter in known if topic_filter not in self._wanted]
        return b"".join((*packets, *self._give_up(left_over, room, len(runs))))

    def _give_up(self, filters: Sequence[str], room: int, packets: int) -> list[bytes]:
        """UNSUBSCRIBEs of ``filters``, as far as identifiers go, each with ``room`` bytes; ``packets`` identifiers are taken."""
        runs: list[list[str]] = []
        left = 0
        for topic_filter in filters:
            size = len(topic_filter.encode()) + 2
            if size > room:
                continue  # it cannot have been subscribed to in so small a packet either
            if size > left:
                runs.append([])
                left = room
            runs[-1].append(topic_filter)
            left -= size
        ids = range(PACKET_IDS + 1 + packets, PACKET_IDS + 1 + PACKETS_MAX)
        self._given_up = dict(zip(ids, runs, strict=False))
        unsent = {topic_filter for run in runs[len(ids) :] for topic_filter in run}
        self._left = tuple(topic_filter for topic_filter in filters if topic_filter not in unsent)
        return [
            encode(Unsubscribe(packet_id=packet_id, topic_filters=tuple(run)), self._level)
            for packet_id, run in self._given_up.items()
        ]

    def suback(self, packet: Suback) -> bool:
        """Take an answer; whether anything was asked under its packet identifier. A filter without a code counts as refused."""
        filters = self._asked.pop(packet.packet_id, None)
        if filters is None:
            return False
        codes = (*packet.reason_codes, *[FAILURE] * len(filters))
        for topic_filter, code in zip(filters, codes, strict=False):
            (self.refused if code >= FAILURE else self.granted)[topic_filter] = code
        return True

    def unsuback(self, packet: Unsuback) -> bool:
        """Take an answer; whether anything was given up under its packet identifier.

        A filter that the remote will not give up stays on record, and is asked about again by the next connection.
        """
        filters = self._given_up.pop(packet.packet_id, None)
        if filters is None:
            return False
        kept = {topic_filter for topic_filter, code in zip(filters, packet.reason_codes, strict=False) if code >= FAILURE}
        self._left = tuple(topic_filter for topic_filter in self._left if topic_filter not in kept)
        return True

    def on_record(self, known: Collection[str]) -> None:
        """The record of the session has ``known``: what was given up and is not there is forgotten."""
        self._left = tuple(topic_filter for topic_filter in self._left if topic_filter in known)
