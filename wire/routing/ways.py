"""The way of a message: what the rule that took it said of where and how it leaves. Pure.

A message goes where its rule said when it was taken, whatever becomes of that rule in the file (P7). So each batch carries the ways
of its messages, each once (``Batch.ways``), from the Distributor to the queue and from there to the Forwarder; nothing that is kept
has to be looked up in the configuration. The filters and QoS of a rule have done their work by then.
"""

from __future__ import annotations

from typing import NamedTuple

import msgpack

from wire.mqtt.publish_properties import append_user_properties
from wire.settings import RuleSettings

_SHARE = "$share/"
SHARE_BYTES_MAX = 256  # of a shared subscription by which messages go


class Way(NamedTuple):
    """The destination of a message at the remote, and how it leaves. Two rules that are called the same and say the same are one
    way.

    rule: what the rule is called. destination: a template without names that are to be filled in. properties: the encoded user
    properties that it adds.
    """

    rule: str
    destination: str
    preserve_retain: bool
    properties: bytes

    @classmethod
    def of(cls, rule: RuleSettings) -> Way:
        """The way of what ``rule`` takes now."""
        return cls(rule.name, rule.destination, rule.preserve_retain, append_user_properties(b"", rule.user_properties))

    def encode(self) -> bytes:
        """The way as one msgpack array. Equal ways have equal bytes."""
        packed: bytes = msgpack.packb(self)
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Way:
        """The way that ``encode`` made."""
        return cls(*msgpack.unpackb(data))


def way_of_share(share_name: str, topic_filter: str) -> bytes:
    """The encoded way of what a shared subscription deals to a session's queue: it tells by which one, as the subscriber calls it.
    Empty for one that is too long to go with each message.
    """
    share = f"{_SHARE}{share_name}/{topic_filter}"
    return Way(share, "", preserve_retain=False, properties=b"").encode() if len(share.encode()) <= SHARE_BYTES_MAX else b""


def kind_of_way(way: bytes) -> bytes:
    """``way``, encoded, as rows have it: those of all shared subscriptions are one, since clients may have any number of them."""
    return _ANY_SHARE if _SHARE.encode() in way[: len(_ANY_SHARE)] else way


_ANY_SHARE = Way(_SHARE, "", preserve_retain=False, properties=b"").encode()
