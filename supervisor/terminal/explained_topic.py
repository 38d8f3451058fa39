"""What would become of a message of a topic: who takes it, by which rule, how it leaves, and why others do not. Pure.

The answer comes from what routes messages in a node: ``wire/routing/bridge_rules.py`` decides, and
``wire/routing/form_for_remote.py`` makes what the remote gets. Only the reasons are found here. Nothing is asked of a running node,
so nothing is known of what the remote allows, of clients that subscribe, nor of how full a queue is.
"""

from __future__ import annotations

from array import array

from supervisor.units import write_duration
from wire.access.access_lists import AccessLists
from wire.config_settings import LIVE, LIVE_FIRST, BridgeSettings, NodeSettings, RuleSettings, class_of
from wire.figure import figure, figures
from wire.frames.batch import QOS_MASK, RAISED, RETAIN, Batch
from wire.frames.names import LaneLabel, lane_of_queue, queue_name, remote_client_id
from wire.mqtt.properties import Place, decode_properties
from wire.mqtt.topics import TopicLimits, matches
from wire.routing.bridge_rules import BridgeRoute, BridgeRules, RuleVerdict
from wire.routing.form_for_remote import RemoteForm
from wire.routing.hop_count import without_hops
from wire.routing.message_route import MessageRoute, Thinning
from wire.routing.sys_topics import is_reserved

_UNKNOWN_TIME_MS = 0  # no message is really made: it neither ages nor leaves


@figures
class ExplainedRule:
    """What one rule says of the topic."""

    rule: str = figure("Its name, or its filters.")
    takes: bool = figure("Whether it is the rule that takes the topic.")
    why: str = figure("The filter that matches, or why the rule does not take the topic.")


@figures
class ExplainedWay:
    """How the message leaves through one bridge."""

    rule: str = figure("The rule that takes it.")
    queue: str = figure("The queue that it waits in.")
    priority: str = figure("The class of its messages.")
    lane: LaneLabel = figure("The lane that it takes: its number, from 0, or the class that has it.")
    lanes: int = figure("How many the bridge has, those of classes included.")
    beside: str = figure("The queue by which it leaves while a backlog is in the other one, or empty.")
    client_id: str = figure("The client identifier of that lane at the remote.")
    topic: str = figure("Its topic at the remote.")
    qos: int = figure("Its QoS there, as far as the remote allows it.")
    raised: bool = figure("Whether min_qos has raised it.")
    retain: bool = figure("Whether it has RETAIN there.")
    kept: str = figure("Where it waits: `memory`, `disk`, or `majority` for the disks of a majority of servers.")
    user_properties: tuple[tuple[str, str], ...] = figure("User properties that the rule adds (MQTT 5).")
    only: str = figure("The messages of the topic that cross: `all`, `changed`, or `one_per` with a duration.")
    keep_last: bool = figure("Whether only the last message of the topic waits while the link is down.")
    retained: str = figure("Whether what was retained before crosses: `never`, `send-once` or `at-each-session`.")
    provenance: str = figure("How it tells when and where it was accepted: `none`, `user-properties` or `envelope`.")


@figures
class ExplainedLimits:
    """Settings that may hold it up, or end it. None is without a limit."""

    max_messages: int | None = figure("Messages waiting for the bridge, or for a class with limits of its own.")
    max_bytes: int | None = figure("Their bytes.")
    volatile_max_bytes: int | None = figure("Of them in memory, if it leaves at QoS 0.")
    overflow: str = figure("What gives way when one of those is reached; where that is `reject`, QoS 0 is dropped all the same.")
    max_age_s: float | None = figure("A message that has waited so long expires.")
    packet_max_bytes: int | None = figure("The largest packet for the remote; without it, as the remote says.")
    messages_per_s: int | None = figure("The rate at which messages may leave.")
    bytes_per_s: int | None = figure("The same in bytes.")
    refused: str = figure("What becomes of a message that the remote refuses: `retry`, `dead-letter` or `drop`.")
    dead_letters_max: int | None = figure("Messages that are kept as dead letters.")


@figures
class ExplainedBridge:
    """What one bridge does with the message."""

    bridge: str = figure("Its name.")
    way: ExplainedWay | None = figure("How it leaves; null where no rule takes it.")
    limits: ExplainedLimits | None = figure("What applies to it then.")
    rules: tuple[ExplainedRule, ...] = figure("Its local_subscriptions, in file order.")


@figures
class ExplainedAccess:
    """What the access control list of one listener says."""

    listener: str = figure("Where it listens.")
    may_publish: bool = figure("Whether the client may publish to the topic.")


@figures
class Explanation:
    """What becomes of a message of a topic."""

    topic: str = figure("As it is published.")
    qos: int = figure("As it is published.")
    retain: bool = figure("As it is published.")
    refused: str | None = figure("Why no client may publish it; null where that is not so.")
    access: tuple[ExplainedAccess, ...] | None = figure("By listener, for the client that was asked about; null where none was.")
    retained: bool = figure("Whether this node retains it for its own clients.")
    packet_max_bytes: int = figure("The largest packet that is taken from a client.")
    bridges: tuple[ExplainedBridge, ...] = figure("In file order; none where no client may publish it.")


def explain(settings: NodeSettings, topic: str, *, qos: int, retain: bool, client: tuple[str | None, str] | None) -> Explanation:
    """What becomes of a message of ``topic``, a valid topic name, that a client publishes.

    client: its user name, None for an anonymous one, and its client identifier; None looks at no access control list.
    """
    name = topic.encode()
    router = BridgeRules(settings.bridges)
    flags = qos | (RETAIN if retain else 0)
    refused = _refused(settings, topic)
    ways = {lane.bridge: route for route in router.route(name) if (lane := lane_of_queue(route.queue)) is not None}
    verdicts = list(router.verdicts(name))
    bridges = tuple(
        ExplainedBridge(
            bridge=bridge.name,
            way=_way(settings, bridge, ways[bridge.name], name, flags, _taker(verdicts, bridge)) if bridge.name in ways else None,
            limits=_limits(bridge, ways[bridge.name], flags) if bridge.name in ways else None,
            rules=_rules([verdict for verdict in verdicts if verdict.bridge == bridge.name], topic),
        )
        for bridge in settings.bridges
    )
    return Explanation(
        topic=topic,
        qos=qos,
        retain=retain,
        refused=refused,
        access=None if client is None else _access(settings, name, *client),
        retained=retain and refused is None,
        packet_max_bytes=settings.clients.packet_max_bytes,
        bridges=bridges if refused is None else (),
    )


def _refused(settings: NodeSettings, topic: str) -> str | None:
    if is_reserved(topic.encode()):
        return "$SYS is the node's own: what clients publish there is dropped and counted"
    if not TopicLimits.of(settings.clients).allow(topic):
        return "it is beyond clients.topic_levels_max or clients.topic_max_bytes (0x90)"
    return None


def _access(settings: NodeSettings, topic: bytes, user: str | None, client_id: str) -> tuple[ExplainedAccess, ...]:
    lists = AccessLists(settings)
    rights = ((listener.bind, lists.rights_at(listener.bind, user, client_id)) for listener in settings.listeners)
    return tuple(ExplainedAccess(listener=bind, may_publish=access is None or access.may_publish(topic)) for bind, access in rights)


def _taker(verdicts: list[RuleVerdict], bridge: BridgeSettings) -> RuleSettings:
    return next(verdict.rule for verdict in verdicts if verdict.takes and verdict.bridge == bridge.name)


def _way(
    settings: NodeSettings, bridge: BridgeSettings, route: BridgeRoute, topic: bytes, flags: int, rule: RuleSettings
) -> ExplainedWay:
    lane = lane_of_queue(route.queue)
    assert lane is not None, route.queue
    queued = bytes([flags]).translate(route.flags_table)
    batch = Batch(
        accepted_ms=_UNKNOWN_TIME_MS, topics=[topic], topic_of=array("H", [0]), flags=queued, lengths=array("I", [0]), payloads=b""
    )
    batch.take_route(route.message_route)
    sent, _ = RemoteForm(bridge).transform(batch, now_ms=_UNKNOWN_TIME_MS, places=(0,))
    message_route = MessageRoute.decode(route.message_route)
    qos = sent.flags[0] & QOS_MASK
    where = {"file-native": "disk", "replicated": "majority"}.get(settings.persistence.mode, "memory")
    return ExplainedWay(
        rule=message_route.rule,
        queue=route.queue,
        priority=class_of(lane.label),
        lane=lane.label,
        lanes=len(bridge.lane_labels),
        beside=queue_name(bridge.name, LIVE) if bridge.backlog == LIVE_FIRST and isinstance(lane.label, int) else "",
        client_id=remote_client_id(bridge.remote.client_id, lane.label),
        topic=sent.topics[0].decode(),
        qos=qos,
        raised=bool(queued[0] & RAISED),
        retain=bool(sent.flags[0] & RETAIN),
        kept=where if qos else "memory",
        user_properties=_user_properties(sent),
        only=_only(message_route.thinning),
        keep_last=message_route.thinning.keep_last,
        retained=rule.retained,
        provenance=message_route.provenance,
    )


def _only(thinning: Thinning) -> str:
    if thinning.period_ms:
        return f"one_per {write_duration(thinning.period_ms / 1000)}"
    return "changed" if thinning.changed else "all"


def _user_properties(sent: Batch) -> tuple[tuple[str, str], ...]:
    raw = without_hops(sent.topic_properties[0]) if sent.topic_properties else b""
    return decode_properties(raw, Place.PUBLISH).user_properties


def _limits(bridge: BridgeSettings, route: BridgeRoute, flags: int) -> ExplainedLimits:
    stored = route.flags_table[flags] & QOS_MASK
    lane = lane_of_queue(route.queue)
    assert lane is not None, route.queue
    (_, limits), (rate, _) = bridge.limits_of(lane.label), bridge.rate_of(lane.label)
    return ExplainedLimits(
        max_messages=limits.max_messages,
        max_bytes=limits.max_bytes,
        volatile_max_bytes=None if stored else limits.volatile_max_bytes,
        overflow="drop-newest" if limits.overflow == "reject" and not flags & QOS_MASK else limits.overflow,
        max_age_s=limits.max_age_s,
        packet_max_bytes=bridge.remote.packet_max_bytes,
        messages_per_s=rate.messages_per_s,
        bytes_per_s=rate.bytes_per_s,
        refused=bridge.on_refusal.default if stored else "drop",
        dead_letters_max=bridge.dead_letter.max_messages,
    )


def _rules(verdicts: list[RuleVerdict], topic: str) -> tuple[ExplainedRule, ...]:
    taker = next((_shown(verdict) for verdict in verdicts if verdict.takes), "")
    return tuple(
        ExplainedRule(rule=_shown(verdict), takes=verdict.takes, why=_why(verdict, topic, taker=taker)) for verdict in verdicts
    )


def _shown(verdict: RuleVerdict) -> str:
    return verdict.rule.name or ", ".join(verdict.rule.filters)


def _why(verdict: RuleVerdict, topic: str, *, taker: str) -> str:
    rule = verdict.rule
    if not verdict.wants:
        return nearly(max(rule.filters, key=lambda topic_filter: _levels_in_common(topic_filter, topic)), topic)
    if verdict.excludes:
        return f"its exclude {next(one for one in rule.excludes if matches(one, topic))} matches"
    matching = f"its filter {next(one for one in rule.filters if matches(one, topic))} matches"
    return matching if verdict.takes else f"{matching}, but {taker} stands before it"


def nearly(topic_filter: str, topic: str) -> str:
    """Why ``topic_filter`` does not match ``topic``, as far as it comes."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return f"{topic_filter} begins with a wildcard, which is for no topic that begins with $"
    common = _levels_in_common(topic_filter, topic)
    if common == len(levels):
        return f"{topic_filter} asks for more levels than the topic has"
    if common == len(wanted):
        return f"{topic_filter} ends at level {common}, and the topic goes on"
    case = ": upper and lower case differ" if wanted[common].lower() == levels[common].lower() else ""
    return f"{topic_filter} has {wanted[common]!r} at level {common + 1}, the topic {levels[common]!r}{case}"


def _levels_in_common(topic_filter: str, topic: str) -> int:
    """How many levels of ``topic`` match those of ``topic_filter``, from the first on."""
    common = 0
    for wanted, level in zip(topic_filter.split("/"), topic.split("/"), strict=False):
        if wanted not in ("+", level):
            break
        common += 1
    return common
