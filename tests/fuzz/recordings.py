"""Traffic of well-behaved clients, from CONNECT to the end, which the fuzzer changes.

Every packet type that a client sends, at both levels, with sessions, Wills, all properties, all QoS and answers to what it is sent.
"""

from __future__ import annotations

from wire.mqtt.codec import encode
from wire.mqtt.packets import (
    Auth,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from wire.mqtt.properties import NO_PROPERTIES, Properties

_CONNECT = Properties(
    session_expiry_interval=60,
    request_problem_information=1,
    request_response_information=0,
    receive_maximum=10,
    topic_alias_maximum=5,
    maximum_packet_size=65_536,
    user_properties=(("site", "north"), ("site", "süd")),
)
_WILL = Properties(
    will_delay_interval=1, payload_format_indicator=1, message_expiry_interval=9, content_type="t", response_topic="r"
)
_PUBLISH = Properties(
    payload_format_indicator=1,
    message_expiry_interval=60,
    content_type="text",
    response_topic="answers/7",
    correlation_data=b"\x00\xff",
    user_properties=(("a", "b"), ("a", "c")),
)


def _alias(number: int) -> Properties:
    return Properties(topic_alias=number)


def _whole_life(level: int) -> list[Packet]:
    five = level == 5
    will = Will(topic="wills/a", payload=b"gone", qos=1, retain=True, properties=_WILL if five else NO_PROPERTIES)
    return [
        Connect(
            level=level,
            client_id=f"life-{level}",
            clean_start=False,
            keep_alive_s=30,
            user_name="user",
            password=b"secret",
            will=will,
            properties=_CONNECT if five else NO_PROPERTIES,
        ),
        Subscribe(
            packet_id=1,
            subscriptions=(Subscription(topic_filter="plant/+/temperature", qos=0), Subscription(topic_filter="#", qos=2)),
        ),
        Publish(topic="plant/a/temperature", payload=b"20.5", qos=1, packet_id=2),
        Publish(topic="plant/a/temperature", payload=b"20.6", qos=1, packet_id=3),
        Publish(topic="plant/b/temperature", payload=b"1" * 300, qos=2, packet_id=4, retain=True),
        Pubrel(packet_id=4),
        Publish(topic="plant/b/temperature", payload=b"1" * 300, qos=2, packet_id=4, dup=True),
        Pubrel(packet_id=4),
        Pingreq(),
        Puback(packet_id=1),
        Pubrec(packet_id=2),
        Pubcomp(packet_id=2),
        Unsubscribe(packet_id=5, topic_filters=("#", "unknown")),
        Publish(topic="last", payload=b"", qos=0),
        Disconnect(),
    ]


def _all_properties() -> list[Packet]:
    return [
        Connect(level=5, client_id="", clean_start=True, keep_alive_s=0, properties=_CONNECT),
        Publish(topic="a", payload=b"x", qos=1, packet_id=1, properties=_PUBLISH),
        Publish(topic="alias/one", payload=b"y", properties=_alias(1)),
        Publish(topic="", payload=b"z", qos=2, packet_id=2, properties=_alias(1)),
        Publish(topic="", payload=b"z", qos=1, packet_id=3, properties=_alias(1)),
        Pubrel(packet_id=2, reason_code=0x92, properties=Properties(reason_string="why", user_properties=(("k", "v"),))),
        Subscribe(
            packet_id=4,
            subscriptions=(
                Subscription(topic_filter="a/#", qos=1, no_local=True, retain_as_published=True, retain_handling=2),
                Subscription(topic_filter="$share/g/b/+", qos=0),
            ),
            properties=Properties(user_properties=(("k", "v"),)),
        ),
        Puback(packet_id=9, reason_code=0x80, properties=Properties(reason_string="no")),
        Unsubscribe(packet_id=5, topic_filters=("a/#", "$share/g/b/+"), properties=Properties(user_properties=(("k", "v"),))),
        Disconnect(reason_code=4, properties=Properties(session_expiry_interval=5, reason_string="bye")),
    ]


def _burst(level: int) -> list[Packet]:
    """A run of PUBLISHes like those that the parser knows by their first bytes."""
    packets: list[Packet] = [Connect(level=level, client_id=f"burst-{level}", clean_start=True, keep_alive_s=0)]
    packets += [Publish(topic=f"run/{number // 8}", payload=b"%04d" % number, qos=1, packet_id=number + 1) for number in range(40)]
    packets += [Publish(topic="run/0", payload=b"%04d" % number) for number in range(10)]
    return [*packets, Pingreq()]


def _questions() -> list[Packet]:
    return [
        Connect(level=5, client_id="asks", clean_start=True, keep_alive_s=0, properties=Properties(authentication_method="m")),
        Auth(reason_code=0x18, properties=Properties(authentication_method="m", authentication_data=b"d")),
    ]


def _recorded(level: int, packets: list[Packet]) -> tuple[bytes, ...]:
    return tuple(encode(packet, level) for packet in packets)


RECORDINGS: tuple[tuple[bytes, ...], ...] = (
    _recorded(4, _whole_life(4)),
    _recorded(5, _whole_life(5)),
    _recorded(5, _all_properties()),
    _recorded(4, _burst(4)),
    _recorded(5, _burst(5)),
    _recorded(5, _questions()),
)
