"""What becomes of a message, as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.terminal.explained_topic import ExplainedBridge, ExplainedLimits, ExplainedWay, Explanation
from supervisor.terminal.message_text import printable
from supervisor.units import counted, write_duration, write_size
from wire.config_settings import NORMAL

_RETAINED = {
    "send-once": "what was retained before the rule came crosses once",
    "at-each-session": "what is retained crosses again whenever the remote has begun a new session",
}
_KEPT = {"memory": "in memory alone", "disk": "on disk", "majority": "on the disks of a majority of servers"}


def explanation_lines(told: Explanation) -> Iterator[str]:
    """The message in a line, what this node does with it, and then a paragraph a bridge."""
    retain = ", to be retained" if told.retain else ""
    yield f"{printable(told.topic)}, QoS {told.qos}{retain}"
    if told.refused is not None:
        yield f"  no client may publish it: {told.refused}"
    if told.access is None:
        yield "  access control lists: not looked at; --user and --client-id say whose"
    for one in told.access or ():
        yield f"  listener {one.listener}: the client {'may' if one.may_publish else 'may not'} publish it"
    here = "retained, and goes to clients that subscribe" if told.retained else "goes to clients that subscribe"
    if told.refused is None:
        yield f"  here: {here}; packets of at most {write_size(told.packet_max_bytes)}"
        if not any(bridge.way for bridge in told.bridges):
            yield "  no bridge takes it: it stays on this node"
    for bridge in told.bridges:
        yield from _bridge_lines(bridge)


def _bridge_lines(told: ExplainedBridge) -> Iterator[str]:
    if told.way is None:
        yield f"  bridge {told.bridge}: does not take it" + ("" if told.rules else ", it has no local_subscriptions")
    else:
        assert told.limits is not None
        yield f"  bridge {told.bridge}: takes it"
        yield from (f"    {line}" for line in _way_lines(told.way))
        yield f"    limits: {'; '.join(_limits(told.limits))}"
    for rule in told.rules:
        yield f"    rule {printable(rule.rule)} {'takes it' if rule.takes else 'does not'}: {printable(rule.why)}"


def _way_lines(way: ExplainedWay) -> Iterator[str]:
    raised = ", raised by min_qos" if way.raised else ""
    yield f"leaves as {printable(way.topic)}, QoS {way.qos}{raised}, {'with' if way.retain else 'without'} RETAIN"
    of_class = "" if way.priority == NORMAL else f", with messages of class {way.priority}"
    yield f"waits {_KEPT[way.kept]}, in lane {way.lane} of {way.lanes} ({way.queue}){of_class}"
    if way.beside:
        yield f"while a backlog waits there, it leaves by the lane beside it ({way.beside})"
    if way.client_id:
        yield f"client identifier {printable(way.client_id)}"
    if way.user_properties:
        yield f"user properties {', '.join(printable(f'{name}={value}') for name, value in way.user_properties)}"
    if way.only != "all":
        yield "crosses with another payload than the one before" if way.only == "changed" else f"the last of each topic: {way.only}"
    if way.keep_last:
        yield "while the link is down, only the last of its topic waits"
    if way.retained in _RETAINED:
        yield _RETAINED[way.retained]
    if way.provenance != "none":
        yield f"tells when and where it was accepted by {way.provenance}"


def _limits(limits: ExplainedLimits) -> Iterator[str]:
    if limits.max_messages is not None:
        yield counted(limits.max_messages, "message")
    if limits.max_bytes is not None:
        yield write_size(limits.max_bytes)
    if limits.volatile_max_bytes is not None:
        yield f"{write_size(limits.volatile_max_bytes)} in memory"
    yield f"then {limits.overflow}"
    yield "never expires by age" if limits.max_age_s is None else f"expires after {write_duration(limits.max_age_s)}"
    packet = "as large as the remote says" if limits.packet_max_bytes is None else f"of {write_size(limits.packet_max_bytes)}"
    yield f"packets {packet}"
    if limits.messages_per_s is not None:
        yield f"{counted(limits.messages_per_s, 'message')} a second"
    if limits.bytes_per_s is not None:
        yield f"{write_size(limits.bytes_per_s)} a second"
    kept = f", of which {limits.dead_letters_max} are kept" if limits.dead_letters_max is not None else ""
    yield f"refused by the remote: {limits.refused}{kept if limits.refused == 'dead-letter' else ''}"
