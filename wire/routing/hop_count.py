"""Loop prevention: how many bridges a message has crossed, as an MQTT 5 user property.

Every bridge that speaks MQTT 5 to its remote writes the property; that of HiveMQ Edge is read as well, and written on request. A
message that has crossed ``max_hops`` bridges already is not
taken by another one. MQTT 3.1.1 cannot carry it.
"""

from __future__ import annotations

from struct import pack

from wire.mqtt.publish_properties import one_by_one

USER_PROPERTY = 0x26
HOPS_NAME = "bascule-hops"
HIVEMQ_NAME = "hmq-bridge-hop-count"  # HiveMQ Edge's
DIGITS_MAX = 4


def _head(name: str) -> bytes:
    return pack("!BH", USER_PROPERTY, len(name)) + name.encode()


_HEADS = tuple(map(_head, (HOPS_NAME, HIVEMQ_NAME)))


def hops_property(hops: int, name: str = HOPS_NAME) -> bytes:
    """The encoded user property ``name`` that says that a message crosses its ``hops``-th bridge."""
    value = str(hops).encode()
    return _head(name) + pack("!H", len(value)) + value


def hops_of(properties: bytes) -> int:
    """How many bridges a message with these valid encoded properties has crossed; 0 where nothing readable says so."""
    if _HEADS[0] not in properties and _HEADS[1] not in properties:
        return 0
    counts = [one[len(head) + 2 :] for one in one_by_one(properties) for head in _HEADS if one.startswith(head)]
    return max((int(count) for count in counts if count.isdigit() and len(count) <= DIGITS_MAX), default=0)


def without_hops(properties: bytes) -> bytes:
    """The valid encoded properties with every hop count taken out, so that a new one can be written."""
    return b"".join(one for one in one_by_one(properties) if not one.startswith(_HEADS))
