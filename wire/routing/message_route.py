"""The route of a message: what the rule that took it said of where and how it leaves. Pure.

A message goes where its rule said when it was taken, whatever becomes of that rule in the file (P7). So each batch carries the
routes of its messages, each once (``Batch.routes``), from the Distributor to the queue and from there to the Forwarder; nothing
that is kept has to be looked up in the configuration. The filters and QoS of a rule have done their work by then.
"""

from __future__ import annotations

from typing import NamedTuple

import msgpack

from wire.config_settings import RuleSettings
from wire.mqtt.publish_properties import append_user_properties
from wire.routing.provenance import NOT_TOLD

_SHARE = "$share/"
SHARE_BYTES_MAX = 256  # of a shared subscription by which messages go


class Thinning(NamedTuple):
    """The messages that a rule leaves out. changed: those with the payload of the one before. period_ms: all but the last of each
    such period. keep_last: while the link is down, all but the last.
    """

    changed: bool = False
    period_ms: int = 0
    keep_last: bool = False

    @classmethod
    def of(cls, rule: RuleSettings) -> Thinning:
        """As ``rule`` says."""
        return cls(rule.only.changed, round(rule.only.one_per_s * 1000), rule.keep_last)

    def same_period(self, one_ms: int, other_ms: int) -> bool:
        """Whether both times are in one period, of those that begin with the epoch; without periods all are."""
        return not self.period_ms or one_ms // self.period_ms == other_ms // self.period_ms


ALL = Thinning()  # nothing is left out


class MessageRoute(NamedTuple):
    """The destination of a message at the remote, and how it leaves. Two rules that are called the same and say the same are one
    way.

    rule: what the rule is called. destination: a template without names that are to be filled in. properties: the encoded user
    properties that it adds. provenance: how a message tells where it comes from (``wire/routing/provenance.py``).
    thinning: which messages are left out, before they are in a queue.
    """

    rule: str
    destination: str
    preserve_retain: bool
    properties: bytes
    provenance: str = NOT_TOLD
    thinning: Thinning = ALL

    @classmethod
    def of(cls, rule: RuleSettings) -> MessageRoute:
        """The route of what ``rule`` takes now."""
        properties = append_user_properties(b"", rule.user_properties)
        return cls(rule.name, rule.destination, rule.preserve_retain, properties, rule.provenance, Thinning.of(rule))

    @property
    def thins(self) -> bool:
        """Whether it leaves any message out."""
        return self.thinning != ALL

    def encode(self) -> bytes:
        """The route as one msgpack array, without what most have none of. Equal routes have equal bytes."""
        said = len(self) if self.thinning != ALL else len(self) - 1 if self.provenance != NOT_TOLD else len(self) - 2
        packed: bytes = msgpack.packb(self[:said])
        return packed

    @classmethod
    def decode(cls, data: bytes) -> MessageRoute:
        """The route that ``encode`` made."""
        fields = msgpack.unpackb(data, use_list=False)
        return cls(*fields[:5], *(Thinning(*thinning) for thinning in fields[5:]))


def tells_provenance(encoded: bytes) -> bool:
    """Whether a message whose route is ``encoded`` tells when it was accepted."""
    return MessageRoute.decode(encoded).provenance != NOT_TOLD


def route_of_share(share_name: str, topic_filter: str) -> bytes:
    """The encoded route of what a shared subscription deals to a session's queue: it tells by which one, as the subscriber calls
    it. Empty for one that is too long to go with each message.
    """
    share = f"{_SHARE}{share_name}/{topic_filter}"
    return (
        MessageRoute(share, "", preserve_retain=False, properties=b"").encode() if len(share.encode()) <= SHARE_BYTES_MAX else b""
    )


def kind_of_route(route: bytes) -> bytes:
    """``route``, encoded, as rows have it: those of all shared subscriptions are one, since clients may have any number of them."""
    return _ANY_SHARE if _SHARE_BYTES in route[:_SHARE_WITHIN] else route


_ANY_SHARE = MessageRoute(_SHARE, "", preserve_retain=False, properties=b"").encode()
_SHARE_BYTES, _SHARE_WITHIN = _SHARE.encode(), len(_ANY_SHARE)
