"""Loop prevention: how many bridges a message has crossed, as an MQTT 5 user property.

Every bridge that speaks MQTT 5 to its remote writes the property; a message that has crossed ``max_hops`` bridges already is not
taken by another one. MQTT 3.1.1 cannot carry it.
"""

from __future__ import annotations

from struct import pack

from wire.mqtt.publish_properties import one_by_one

USER_PROPERTY = 0x26
HOPS_NAME = b"bascule-hops"
DIGITS_MAX = 4
_HEAD = pack("!BH", USER_PROPERTY, len(HOPS_NAME)) + HOPS_NAME


def hops_property(hops: int) -> bytes:
    """The encoded user property that says that a message crosses its ``hops``-th bridge."""
    value = str(hops).encode()
    return _HEAD + pack("!H", len(value)) + value


def hops_of(properties: bytes) -> int:
    """How many bridges a message with these valid encoded properties has crossed; 0 where nothing readable says so."""
    if _HEAD not in properties:
        return 0
    counts = [one[len(_HEAD) + 2 :] for one in one_by_one(properties) if one.startswith(_HEAD)]
    return max((int(count) for count in counts if count.isdigit() and len(count) <= DIGITS_MAX), default=0)


def without_hops(properties: bytes) -> bytes:
    """The valid encoded properties with every hop count taken out, so that a new one can be written."""
    return b"".join(one for one in one_by_one(properties) if not one.startswith(_HEAD))
