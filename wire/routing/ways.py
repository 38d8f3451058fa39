"""The way of a message: what the rule that took it said of where and how it leaves. Pure.

A message goes where its rule said when it was taken, whatever becomes of that rule in the file (P7). So each batch carries the ways
of its messages, each once (``Batch.ways``), from the Distributor to the queue and from there to the Forwarder; nothing that is kept
has to be looked up in the configuration. What a rule says of which messages it takes, and at which QoS, is done when it has them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgpack

from wire.mqtt.publish_properties import append_user_properties
from wire.settings import RuleSettings


class Way(NamedTuple):
    """Where a message goes at the remote and how. Two rules that are called the same and say the same are one way.

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
