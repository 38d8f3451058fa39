"""Topics that come back to the node that has sent them, as far as its file shows: without end, or once more.

A remote of MQTT 3.1.1 knows the echo of a lane at most, and counts no hops. So what leaves by one lane or bridge may come once more
by another one. Nothing is lost by that, and the remote alone knows whether it does so: it is worth a warning. What goes round
without end is a fault.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from supervisor.config.yaml_file import Key
from wire.config_settings import LIVE, LIVE_FIRST, BridgeSettings, NodeSettings, RuleSettings
from wire.errors import ConfigError
from wire.exchange.failback import place_of
from wire.mqtt.packets import MQTT_3_1_1
from wire.mqtt.topics import covers, overlap
from wire.routing.topic_mapping import TopicTemplate

_ALL = ("0.0.0.0", "::", "")
_UNCOUNTED = (MQTT_3_1_1,)
_WHOLE = "{#}"  # the destination that leaves a topic as it is
_TEMPLATES_MAX = 1000  # that are kept parsed


class Circle(NamedTuple):
    """What comes back by ``bridge``. key: what in the file has it come. is_fault: it does for certain, and without end."""

    bridge: str
    key: Key
    found: str
    is_fault: bool


def circles(settings: NodeSettings, spoken: Mapping[str, tuple[int, ...]] | None = None) -> Iterator[Circle]:
    """All that comes back. spoken: the protocol levels of bridges whose links are known; of the others, as configured."""
    levels = {bridge.name: bridge.remote.levels for bridge in settings.bridges} | dict(spoken or {})
    for index, bridge in enumerate(settings.bridges):
        for place, address in enumerate(bridge.remote.addresses):
            if _leads_here(settings, address) and any(comes_back(rule, rule, None) for rule in bridge.local_subscriptions):
                found = "leads to a listener of this node: what is sent there comes again; give the remote's address"
                yield Circle(bridge.name, ("bridges", index, "remote", "addresses", place), found, is_fault=True)
        found_pairs = (_Pair.of(bridge, sends, levels) for sends in settings.bridges)
        pairs = [(pair, pair.sent_back()) for pair in found_pairs if pair is not None]
        for place, rule in enumerate(bridge.remote_subscriptions):
            key = ("bridges", index, "remote_subscriptions", place, "filters")
            for pair, sent_back in pairs:
                if (without_end := pair.without_end(rule, sent_back)) is not None:
                    yield Circle(bridge.name, key, without_end, pair.is_certain)
                elif (once_more := pair.once_more(rule, rings=bool(settings.rings.window_s))) is not None:
                    yield Circle(bridge.name, key, once_more, is_fault=False)


def faults_and_warnings(settings: NodeSettings) -> tuple[list[tuple[Key, str]], list[tuple[Key, str]]]:
    """(key, what is found) of each circle that is a fault, and of each other one."""
    found = list(circles(settings))
    faults, warnings = ([(one.key, one.found) for one in found if one.is_fault is which] for which in (True, False))
    return faults, warnings


class _Pair(NamedTuple):
    """A bridge that takes from ``address`` what the same one, or another, sends there. levels: by which they may be spoken to."""

    brings: BridgeSettings
    sends: BridgeSettings
    address: tuple[str, int]
    levels: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, brings: BridgeSettings, sends: BridgeSettings, levels: Mapping[str, tuple[int, ...]]) -> _Pair | None:
        """The pair of the two; None if they have no address in common."""
        there = {(host.lower(), port) for host, port in sends.remote.addresses}
        shared = [address for address in brings.remote.addresses if (address[0].lower(), address[1]) in there]
        return cls(brings, sends, shared[0], (levels[brings.name], levels[sends.name])) if shared else None

    @property
    def is_certain(self) -> bool:
        """Whether hops are not counted, whichever version the remote speaks."""
        counts = any(bridge.loop_prevention.enabled for bridge in (self.brings, self.sends))
        return not counts or _UNCOUNTED in self.levels

    @property
    def _where(self) -> str:
        return "" if self.is_certain else "where the remote speaks MQTT 3.1.1, "

    @property
    def _goes_on(self) -> bool:
        """Whether what the one brings goes out by the other, and no hop count ends that."""
        enabled = [bridge.loop_prevention.enabled for bridge in (self.brings, self.sends)]
        if self.brings is self.sends:
            return not enabled[0]  # what comes from its remote never goes back there
        uncounted = any(MQTT_3_1_1 in each for each in self.levels) or not any(enabled)
        return uncounted and (not all(enabled) or self.sends.loop_prevention.max_hops > 1)

    def _back(self, rule: RuleSettings, out: RuleSettings) -> str:
        """That ``rule`` has what ``out`` sends, in words."""
        if self.brings is self.sends:
            return f"takes back what rule {out.name} sends"
        filters, sent = ", ".join(rule.filters), ", ".join(out.filters)
        return f"takes {filters} from {place_of(self.address)}, where bridge {self.sends.name} sends {sent} by rule {out.name}"

    def sent_back(self) -> list[tuple[RuleSettings, set[str]]]:
        """Each rule of the other that sends back what the one brings, with the filters of that; none where that ends."""
        if not self._goes_on:
            return []
        brought = {_mapped(rule, topic_filter) for rule in self.brings.remote_subscriptions for topic_filter in rule.filters}
        found = [(out, {each for here in brought for each in _sent_by(out, here)}) for out in self.sends.local_subscriptions]
        return [(out, returned) for out, returned in found if returned]

    def without_end(self, rule: RuleSettings, sent_back: list[tuple[RuleSettings, set[str]]]) -> str | None:
        """What ``rule`` of the one brings and takes again, as the other sends it back; None if that ends."""
        for out, returned in sent_back:
            if any(_takes(rule, each) for each in returned):
                cure = "" if self.brings is self.sends else f", or let {self.sends.name} have max_hops: 1"
                return f"{self._back(rule, out)}: {self._where}that goes round without end; narrow one of them{cure}"
        return None

    def once_more(self, rule: RuleSettings, *, rings: bool) -> str | None:
        """What ``rule`` of the one brings of what is sent by another lane, or by the other; None if that is left out or may come.

        rings: it is left out where its topic is the same here again.
        """
        loops = self.brings.loop_prevention
        if not loops.enabled or not loops.echo_window_s or not any(MQTT_3_1_1 in each for each in self.levels):
            return None
        for out in self.sends.local_subscriptions:
            kept = [_stays(out, rule, here) for here in _taken_back(out, rule)]
            if self.brings is not self.sends:
                kept = [each for each in kept if each]  # a topic of another name is asked for as such
            if not kept or (rings and all(kept)) or (self.brings is self.sends and not self._other_lane(rule, out)):
                continue
            by, both = (" by another lane", "") if self.brings is self.sends else ("", " for both")
            cures = ("rings: {window: 30s}, " if all(kept) else "") + f"protocol: mqtt5{both}"
            return (
                f"{self._back(rule, out)}{by}, which MQTT 3.1.1 does not tell: {self._where}it comes here again; "
                f"write {cures}, or loop_prevention.echo_window: 0s if it may"
            )
        return None

    def _other_lane(self, rule: RuleSettings, out: RuleSettings) -> bool:
        """Whether what ``out`` sends may come by another lane than it went."""
        bridge = self.brings
        takes = {lane for lane in bridge.lane_labels if rule in bridge.taken_by(lane)}
        return len({*takes, *bridge.lanes_of(out), *((LIVE,) if bridge.backlog == LIVE_FIRST else ())}) > 1


def _leads_here(settings: NodeSettings, address: tuple[str, int]) -> bool:
    host, port = address[0].lower(), address[1]
    for listener in settings.listeners:
        if not listener.unix_path and listener.port == port and _is_own(host):
            loopback = _is_loopback(host) and _is_loopback(listener.host)
            if listener.host in _ALL or listener.host.lower() == host or loopback:
                return True
    own = settings.replication.address if settings.replication is not None else ""
    return bool(own) and own.lower() == f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return host in _ALL or ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_own(host: str) -> bool:
    """Whether this machine has the address ``host``; of names only its own are known without asking anybody."""
    if _is_loopback(host) or host == socket.gethostname().lower():
        return True
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except (OSError, ValueError):
        return False
    return True


# --- filters and what rules make of them ---


def comes_back(rule: RuleSettings, takes: RuleSettings, back: RuleSettings | None) -> bool:
    """Whether something that ``rule`` sends comes to ``takes`` again, over the remote's ``back``, or as it is."""
    for sent in (_mapped(rule, topic_filter) for topic_filter in rule.filters):
        if any(_takes(takes, returned) for returned in ([sent] if back is None else _sent_by(back, sent))):
            return True
    return False


def _sent_by(rule: RuleSettings, here: str) -> Iterator[str]:
    """What ``rule`` makes of the part of ``here`` that it takes, as filters."""
    return (_mapped(rule, narrow) for narrow in _common(here, rule))


def _takes(rule: RuleSettings, topic_filter: str) -> bool:
    """Whether ``rule`` takes something that ``topic_filter`` matches."""
    return any(overlap(topic_filter, wanted) for wanted in rule.filters) and not any(
        covers(no, topic_filter) for no in rule.excludes
    )


def _taken_back(out: RuleSettings, back: RuleSettings) -> Iterator[str]:
    """The local topics that ``out`` sends and ``back`` takes again, as filters of at least these."""
    for sent in out.filters:
        for taken in _common(_mapped(out, sent), back):
            here = taken if out.destination == _WHOLE else sent
            if not any(covers(no, here) for no in out.excludes):
                yield here


def _stays(out: RuleSettings, back: RuleSettings, topic_filter: str) -> bool:
    """Whether a topic that matches ``topic_filter`` may have its own name again once ``out`` has sent it and ``back`` taken it."""
    for depth in (1, 2, 3):  # of what # stands for
        levels = topic_filter.split("/")
        whole = [*levels[:-1], *["+"] * depth] if levels[-1] == "#" else levels
        topic = [f"+{place}" if level == "+" else level for place, level in enumerate(whole)]  # any level, known by its place
        away = _template(out.destination).map("/".join(topic).encode())
        again = _template(back.destination).map(away).decode().split("/")
        if len(topic) == len(again) and all(a == b or ("+" in a) != ("+" in b) for a, b in zip(topic, again, strict=True)):
            return True
    return False


def _common(sent: str, back: RuleSettings) -> list[str]:
    """The part of ``sent`` that the rule ``back`` takes, as the narrower filter of both."""
    if any(covers(no, sent) for no in back.excludes):
        return []
    return [sent if covers(wanted, sent) else wanted for wanted in back.filters if overlap(sent, wanted)]


def _mapped(rule: RuleSettings, topic_filter: str) -> str:
    """The filter of what ``rule`` makes of what ``topic_filter`` matches: at least that."""
    try:
        levels = _template(rule.destination).map(topic_filter.encode()).decode().split("/")
    except ConfigError:
        return topic_filter
    end = next((place for place, level in enumerate(levels) if "#" in level), None)
    whole = levels if end is None else [*levels[:end], "#"]
    return "/".join("+" if "+" in level else level for level in whole)


@lru_cache(maxsize=_TEMPLATES_MAX)
def _template(destination: str) -> TopicTemplate:
    return TopicTemplate.parse(destination)
