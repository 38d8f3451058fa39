"""Packets that break a rule, one by one: behind an accepted CONNECT the connection ends, and a wrong CONNECT is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.conftest import Dial, Join
from tests.conformance.statements import Wrong, clauses
from tests.support.mqtt_packets import (
    AUTH_METHOD,
    CONNECT,
    CONTENT_TYPE,
    DISCONNECT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    RESPONSE_TOPIC,
    SUBSCRIBE,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    UNSUBSCRIBE,
    USER_PROPERTY,
    Value,
    Will,
    connect_bytes,
    packet_bytes,
    publish_bytes,
    string,
    subscribe_bytes,
    unsubscribe_bytes,
)

BAD = (0x81, 0x82)  # Malformed Packet, Protocol Error
TOPIC, FILTER, ALIAS = (*BAD, 0x90), (*BAD, 0x8F), (*BAD, 0x94)
Packet = Callable[[int], bytes]  # by version
NUL = b"a\0b"
ILL_FORMED = [b"a\xff", b"a\xed\xa0\x80", b"a\xc0\xaf", b"a\xe2\x82"]  # no UTF-8, a surrogate, overlong, cut
PAIRS = [(b"a\xff", b"b"), (b"a", b"b\xff"), (b"\xed\xa0\x80", b"b"), (b"a", NUL)]
TWICE = [b"\x02\0\0\0\1\x02\0\0\0\2", b"\x03\0\1a\x03\0\1a", b"\x23\0\1\x23\0\1", b"\x01\1\x01\1"]
MISPLACED = [b"\x21\0\1", b"\x7e\0", b"\x11\0\0\0\1", b"\x1f\0\1a"]  # Receive Maximum, unknown, Session Expiry, Reason String
BODIES = {SUBSCRIBE: (b"\0\1\0\1a\0", b"\0\1\0\0\1a\0"), UNSUBSCRIBE: (b"\0\1\0\1a", b"\0\1\0\0\1a")}


def raw(kind: int, flags: int = 0, body: bytes = b"") -> Packet:
    return lambda version: packet_bytes(kind, flags, body)


def flagged(kind: int, *flags: int) -> list[Packet]:
    """Packets that would be right but for their flags."""

    def packet(version: int, wrong: int) -> bytes:
        return packet_bytes(kind, wrong, BODIES[kind][version == 5] if kind in BODIES else b"" if kind >= 12 else b"\0\1")

    return [lambda version, wrong=wrong: packet(version, wrong) for wrong in flags]  # type: ignore[misc]


def publish(topic: str | bytes = "t", qos: int = 0, packet_id: int = 1, *, dup: bool = False, **values: Value) -> Packet:
    """A PUBLISH with one property at most, named by ``property`` and ``value``."""
    properties = [(int(str(values["property"])), values["value"])] if values else []
    return lambda version: publish_bytes(version, topic, b"", qos, packet_id, dup=dup, properties=properties)


def publish_5(properties: bytes) -> Packet:
    """A PUBLISH with these bytes as its properties."""
    return raw(PUBLISH, 0, b"\0\1a" + bytes((len(properties),)) + properties)


def subscribe(*filters: str | bytes, packet_id: int = 1, options: int = 0) -> Packet:
    return lambda version: subscribe_bytes(version, packet_id, [(one, options) for one in filters])


def cut_subscribe(body: bytes) -> Packet:
    return lambda version: packet_bytes(SUBSCRIBE, 2, b"\0\1" + b"\0" * (version == 5) + body)


def subscribe_5(properties: bytes) -> Packet:
    return raw(SUBSCRIBE, 2, b"\0\1" + bytes((len(properties),)) + properties + b"\0\1a\0")


def unsubscribe(*filters: str | bytes, packet_id: int = 1) -> Packet:
    return lambda version: unsubscribe_bytes(version, packet_id, filters)


def _pair(name: bytes, value: bytes) -> bytes:
    return bytes((USER_PROPERTY,)) + string(name) + string(value)


# fmt: off
CONNECTED = [
    # strings, numbers, properties
    Wrong("ill-formed topic", map(publish, ILL_FORMED), TOPIC, "MQTT-1.5.3-1 MQTT-3.3.2-1", "MQTT-1.5.4-1 MQTT-3.3.2-1"),
    Wrong("NUL in a topic", [publish(NUL)], TOPIC, "MQTT-1.5.3-2 MQTT-4.7.3-2", "MQTT-1.5.4-2 MQTT-4.7.3-2"),
    Wrong("NUL in a filter", [subscribe(NUL)], FILTER, "MQTT-1.5.3-2 MQTT-4.7.3-2", "MQTT-1.5.4-2 MQTT-4.7.3-2"),
    Wrong("property length longer than need be", [raw(PUBLISH, 0, b"\0\1a\x80\0")], BAD, v5="MQTT-1.5.5-1"),
    Wrong("length of five bytes", [lambda version: b"\x30\xff\xff\xff\xff\x01"], BAD, v5="MQTT-1.5.5-1"),
    Wrong("ill-formed pair", [publish_5(_pair(*pair)) for pair in PAIRS], BAD, v5="MQTT-1.5.7-1"),
    Wrong("property twice", map(publish_5, TWICE), BAD, v5="MQTT-4.13.1-1"),
    Wrong("property out of place", map(publish_5, MISPLACED), BAD, v5="MQTT-4.13.1-1"),
    # flags, types and packet identifiers
    *(Wrong(f"flags of {name}", flagged(kind, 1, 2, 8), BAD, "MQTT-2.2.2-1 MQTT-2.2.2-2 MQTT-4.8.0-1", "MQTT-2.1.3-1 MQTT-4.13.1-1",
            mosquitto="2.0.11 does not look at them")
      for name, kind in (("PUBACK", PUBACK), ("PUBREC", PUBREC), ("PUBCOMP", PUBCOMP), ("PINGREQ", 12))),
    Wrong("flags of PUBREL", flagged(PUBREL, 0, 3, 10), BAD, "MQTT-2.2.2-2 MQTT-3.6.1-1", "MQTT-2.1.3-1 MQTT-3.6.1-1"),
    Wrong("flags of SUBSCRIBE", flagged(SUBSCRIBE, 0, 3, 10), BAD, "MQTT-2.2.2-2 MQTT-3.8.1-1", "MQTT-2.1.3-1 MQTT-3.8.1-1"),
    Wrong("flags of UNSUBSCRIBE", flagged(UNSUBSCRIBE, 0, 3, 10), BAD, "MQTT-2.2.2-2 MQTT-3.10.1-1", "MQTT-2.1.3-1 MQTT-3.10.1-1"),
    Wrong("flags of DISCONNECT", flagged(DISCONNECT, 1, 4), BAD, "MQTT-2.2.2-2 MQTT-3.14.1-1", "MQTT-2.1.3-1 MQTT-3.14.1-1"),
    Wrong("flags of AUTH", [raw(15, 1)], BAD, v5="MQTT-3.15.1-1"),
    Wrong("type 0, or CONNACK", [raw(0), raw(CONNECT + 1, 0, b"\0\1\0\0")], BAD, "MQTT-4.8.0-1", "MQTT-4.13.1-1"),
    Wrong("SUBACK, UNSUBACK or PINGRESP", [raw(9, 0, b"\0\1\0\0"), raw(11, 0, b"\0\1\0\0"), raw(13)], BAD,
          "MQTT-4.8.0-1", "MQTT-4.13.1-1", mosquitto="2.0.11 takes what only its own bridges should get"),
    Wrong("AUTH without a method", [raw(15)], BAD, "MQTT-4.8.0-1", "MQTT-2.1.3-1 MQTT-4.13.1-1"),
    Wrong("PUBLISH with identifier 0", [publish("t", qos, 0) for qos in (1, 2)], BAD, "MQTT-2.3.1-1", "MQTT-2.2.1-3"),
    Wrong("SUBSCRIBE with identifier 0", [subscribe("t", packet_id=0)], BAD, "MQTT-2.3.1-1", "MQTT-2.2.1-3"),
    Wrong("UNSUBSCRIBE with identifier 0", [unsubscribe("t", packet_id=0)], BAD, "MQTT-2.3.1-1", "MQTT-2.2.1-3"),
    Wrong("a second CONNECT", [lambda version: connect_bytes(version, "second")], (0x82,), "MQTT-3.1.0-2", "MQTT-3.1.0-2"),
    # PUBLISH
    Wrong("QoS 3", [publish("t", 3)], BAD, "MQTT-3.3.1-4 MQTT-4.8.0-1", "MQTT-3.3.1-4 MQTT-4.13.1-1"),
    Wrong("DUP with QoS 0", [publish(dup=True)], BAD, "MQTT-3.3.1-2", "MQTT-3.3.1-2", mosquitto="2.0.11 takes it"),
    Wrong("topic with a wildcard", [publish(name, qos) for name in ("a/#", "#", "+", "a/+/b", "a+") for qos in (0, 1, 2)], TOPIC,
          "MQTT-3.3.2-2 MQTT-4.7.1-1", "MQTT-3.3.2-2 MQTT-4.7.0-1"),
    Wrong("empty topic", [publish("")], TOPIC, "MQTT-4.7.3-1", "MQTT-4.7.3-1"),
    Wrong("PUBLISH that ends too early", [raw(PUBLISH, 2, body) for body in (b"", b"\0", b"\0\5abc", b"\0\1a")], BAD,
          "MQTT-3.3.2-1 MQTT-4.8.0-1", "MQTT-3.3.2-1 MQTT-4.13.1-1"),
    Wrong("alias 0", [publish(property=TOPIC_ALIAS, value=0)], ALIAS, v5="MQTT-3.3.2-8"),
    Wrong("alias that was never set", [publish("", property=TOPIC_ALIAS, value=1)], (*ALIAS, 0x90), v5="MQTT-3.3.2-9"),
    Wrong("ill-formed string of a property",
          [publish(property=kind, value=bad) for kind in (CONTENT_TYPE, RESPONSE_TOPIC) for bad in (b"a\xff", b"a\0")], TOPIC,
          v5="MQTT-3.3.2-13 MQTT-3.3.2-19"),
    Wrong("Response Topic with a wildcard", [publish(property=RESPONSE_TOPIC, value=name) for name in ("a/#", "+")], TOPIC,
          v5="MQTT-3.3.2-14", mosquitto="2.0.11 does not look into it"),
    Wrong("Subscription Identifier of a publisher", [publish(property=SUBSCRIPTION_IDENTIFIER, value=1)], BAD, v5="MQTT-3.3.4-6",
          mosquitto="2.0.11 takes it"),
    # SUBSCRIBE and UNSUBSCRIBE
    Wrong("filter that is no UTF-8", map(subscribe, ILL_FORMED[:2]), FILTER, "MQTT-3.8.3-1", "MQTT-3.8.3-1"),
    Wrong("filter to unsubscribe that is no UTF-8", map(unsubscribe, ILL_FORMED[:2]), FILTER, "MQTT-3.10.3-1", "MQTT-3.10.3-1"),
    Wrong("SUBSCRIBE without a filter", [subscribe()], FILTER, "MQTT-3.8.3-3", "MQTT-3.8.3-2"),
    Wrong("UNSUBSCRIBE without a filter", [unsubscribe()], FILTER, "MQTT-3.10.3-2", "MQTT-3.10.3-2"),
    Wrong("SUBSCRIBE that ends too early", map(cut_subscribe, (b"\0\1a", b"\0\5abc", b"\0")), FILTER,
          "MQTT-3.8.3-3 MQTT-4.8.0-1", "MQTT-3.8.3-2 MQTT-4.13.1-1"),
    Wrong("reserved options and QoS 3", [subscribe("t", options=options) for options in (3, 0x40, 0x80, 0xC0)], BAD,
          "MQTT-3.8.3-4", "MQTT-3.8.3-5"),
    Wrong("options of MQTT 5", [subscribe("t", options=options) for options in (4, 8, 16, 32)], (), "MQTT-3.8.3-4"),
    Wrong("Retain Handling 3", [subscribe("t", options=0x30)], BAD, v5="MQTT-3.8.3-5"),
    Wrong("No Local of a shared subscription", [subscribe("$share/group/t", options=4)], BAD, v5="MQTT-3.8.3-4",
          mosquitto="2.0.11 takes it"),
    Wrong("wrong property of SUBSCRIBE", map(subscribe_5, (b"\x0b\0", b"\x0b\1\x0b\2", b"\x21\0\1")), BAD, v5="MQTT-4.13.1-1"),
    Wrong("wrong property of UNSUBSCRIBE", [raw(UNSUBSCRIBE, 2, b"\0\1\2\x0b\1\0\1a")], BAD, v5="MQTT-4.13.1-1"),
    # the others
    Wrong("PINGREQ with a body", [lambda version: b"\xc0\x01\x00"], BAD, "MQTT-4.8.0-1", "MQTT-4.13.1-1",
          mosquitto="2.0.11 does not look at its length"),
    Wrong("malformed DISCONNECT", [raw(DISCONNECT, 0, body) for body in (b"\0\0\0", b"\x00\x05\x11\0\0\0", b"\0\1\x7f")], BAD,
          v5="MQTT-4.13.1-1"),
    Wrong("AUTH of a client that did not begin it", [raw(15, 0, b"\x19\x07\x15\x00\x04NONE")], (0x82, 0x8C),
          v5="MQTT-4.12.0-7 MQTT-3.15.2-1"),
]


def connect(*, name: str | bytes = "a", flags: int | None = None, will: str | bytes | None = None, behind: bytes = b"",
            username: bytes | None = None, method: str = "") -> Packet:
    """A CONNECT; ``behind`` are bytes behind its last field, which its length counts."""

    def packet(version: int) -> bytes:
        whole = connect_bytes(version, name, flags=flags, will=None if will is None else Will(topic="WILL"), username=username,
                              properties=[(AUTH_METHOD, method)] if method else [])
        if will is not None:
            whole = whole.replace(string("WILL"), string(will))
        return bytes((whole[0], len(whole) - 2 + len(behind))) + whole[2:] + behind

    return packet


def short_connect(flags: int, rest: bytes) -> Packet:
    """A CONNECT that ends with ``rest``, behind its client identifier."""
    return lambda version: packet_bytes(CONNECT, 0, string("MQTT") + bytes((version, flags, 0, 0)) + b"\0" * (version == 5)
                                        + string("a") + b"\0" * (version == 5 and bool(flags & 4)) + rest)


def connect_5(properties: bytes) -> Packet:
    return raw(CONNECT, 0, string("MQTT") + b"\x05\x02\0\0" + bytes((len(properties),)) + properties + string("a"))


REFUSED = [
    Wrong("flags of the first byte", [lambda version: b"\x11" + connect_bytes(version, "a")[1:]], (1, *BAD),
          "MQTT-2.2.2-2", "MQTT-2.1.3-1"),
    Wrong("reserved connect flag", [connect(flags=3)], BAD, "MQTT-3.1.2-3 MQTT-3.1.4-1 MQTT-3.2.2-6", "MQTT-3.1.2-3"),
    Wrong("Will QoS or Retain without a Will", [connect(flags=flags) for flags in (0x0A, 0x12, 0x22)], (*BAD, 0x9B),
          "MQTT-3.1.2-11 MQTT-3.1.2-13 MQTT-3.1.2-15 MQTT-3.1.4-1", "MQTT-3.1.2-11 MQTT-3.1.2-13 MQTT-3.1.4-1"),
    Wrong("Will QoS 3", [connect(flags=0x1E, will="w")], (*BAD, 0x9B), "MQTT-3.1.2-14 MQTT-3.1.4-1", "MQTT-3.1.2-12 MQTT-3.1.4-1"),
    Wrong("Will flag without a Will, or without its payload", [short_connect(6, b""), short_connect(6, b"\0\1w")], BAD,
          "MQTT-3.1.2-9 MQTT-3.1.3-1 MQTT-3.1.4-1", "MQTT-3.1.2-9 MQTT-3.1.3-1 MQTT-3.1.4-1"),
    Wrong("user name flag without one", [short_connect(0x82, b"")], BAD,
          "MQTT-3.1.2-19 MQTT-3.1.3-1", "MQTT-3.1.2-17 MQTT-3.1.3-1"),
    Wrong("password flag without one", [short_connect(0xC2, b"\0\1u")], BAD,
          "MQTT-3.1.2-21 MQTT-3.1.4-1", "MQTT-3.1.2-19 MQTT-3.1.4-1"),
    Wrong("fields that no flag promises", [connect(behind=string("u")), connect(behind=string("u") + string("p"))], BAD,
          "MQTT-3.1.2-11 MQTT-3.1.2-18 MQTT-3.1.2-20 MQTT-3.1.4-1", "MQTT-3.1.2-16 MQTT-3.1.2-18 MQTT-3.1.4-1"),
    Wrong("ill-formed string", [connect(name=ILL_FORMED[0]), connect(will=b"will/topi\xff"), connect(username=ILL_FORMED[0])],
          (1, 2, 4, *BAD, 0x85, 0x86, 0x90), "MQTT-3.1.3-4 MQTT-3.1.3-10 MQTT-3.1.3-11 MQTT-1.5.3-1",
          "MQTT-3.1.3-4 MQTT-3.1.3-11 MQTT-3.1.3-12 MQTT-1.5.4-1"),
    Wrong("Will topic with a wildcard", [connect(will="a/#"), connect(will="+/a")], TOPIC, "MQTT-4.7.1-1", "MQTT-4.7.0-1"),
    Wrong("no client identifier at all", [lambda version: packet_bytes(CONNECT, 0, connect_bytes(version, "")[2:-2])], (*BAD, 0x85),
          "MQTT-3.1.3-3", "MQTT-3.1.3-3"),
    Wrong("password without a user name", [lambda version: connect_bytes(version, "a", password=b"secret")], (), "MQTT-3.1.2-22"),
    Wrong("a property that may not be 0 or 2", map(connect_5, (b"\x21\0\0", b"\x27\0\0\0\0", b"\x17\2", b"\x19\2")), BAD,
          v5="MQTT-3.1.4-1 MQTT-4.13.1-1"),
    Wrong("property twice", map(connect_5, (b"\x11\0\0\0\1\x11\0\0\0\1", b"\x21\0\1\x21\0\1")), BAD,
          v5="MQTT-3.1.4-1 MQTT-4.13.1-1"),
    Wrong("property of other packets", map(connect_5, (b"\x23\0\1", b"\x18\0\0\0\1", b"\x7f\0")), BAD,
          v5="MQTT-3.1.4-1 MQTT-4.13.1-1"),
    Wrong("authentication data without a method", [connect_5(b"\x16\0\1a")], BAD, v5="MQTT-3.1.4-1 MQTT-4.13.1-1",
          mosquitto="2.0.11 takes it"),
]
# fmt: on


@clauses(CONNECTED)
def test_a_wrong_packet_ends_the_connection(join: Join, version: int, packet: Packet, codes: Iterable[int]) -> None:
    client = join(version)
    client.send(packet(version))
    client.expect_end(*codes)


@clauses(REFUSED)
def test_a_wrong_connect_is_refused(dial: Dial, version: int, packet: Packet, codes: Iterable[int]) -> None:
    client = dial(version)
    client.send(packet(version))
    client.expect_refusal(*codes)
