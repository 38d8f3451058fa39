"""Hypothesis strategies: well-formed packets of both protocol levels."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from wire.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from wire.mqtt.properties import KINDS, NO_PROPERTIES, Place, Properties
from wire.mqtt.reason_codes import (
    AUTH_CODES,
    CONNACK_CODES,
    DISCONNECT_CODES,
    PUBACK_CODES,
    PUBREL_CODES,
    SUBACK_CODES,
    SUBACK_CODES_3_1_1,
    UNSUBACK_CODES,
)

LEVELS = st.sampled_from((4, 5))
packet_ids = st.integers(1, 0xFFFF)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
binaries = st.binary(max_size=20)
payloads = st.binary(max_size=300)
topic_levels = st.text(st.characters(exclude_characters="\0/+#", exclude_categories=["Cs"]), max_size=4)
topics = st.lists(topic_levels, min_size=1, max_size=4).map("/".join).filter(bool)
plain_filters = (
    st.tuples(st.lists(st.one_of(topic_levels, st.just("+")), max_size=4), st.sampled_from(("", "#", "x")))
    .map(lambda parts: "/".join([*parts[0], parts[1]]))
    .filter(lambda text: bool(text) and not text.startswith("$share/"))
)
topic_filters = st.one_of(plain_filters, plain_filters.map("$share/group/{}".format))

_BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "response_topic": topics,
    "topic_alias": st.integers(1, 0xFFFF),
    "receive_maximum": st.integers(1, 0xFFFF),
    "maximum_packet_size": st.integers(1, 0xFFFF_FFFF),
    "server_keep_alive": st.integers(0, 0xFFFF),
    "topic_alias_maximum": st.integers(0, 0xFFFF),
    "correlation_data": binaries,
    "authentication_data": binaries,
    "user_properties": st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
}
for _name in ("message_expiry_interval", "session_expiry_interval", "will_delay_interval"):
    _BY_NAME[_name] = st.integers(0, 0xFFFF_FFFF)
for _name in (
    "content_type",
    "assigned_client_identifier",
    "authentication_method",
    "response_information",
    "server_reference",
    "reason_string",
):
    _BY_NAME[_name] = texts


def property_values(name: str, place: Place) -> st.SearchStrategy[Any]:
    """Values of one property that may be sent in ``place``."""
    if name == "subscription_identifiers":
        count = 1 if place is Place.SUBSCRIBE else 3
        return st.lists(st.integers(1, 268_435_455), max_size=count).map(tuple)
    return _BY_NAME.get(name, st.integers(0, 1))


@st.composite
def properties(draw: st.DrawFn, place: Place) -> Properties:
    """Properties that ``place`` may carry."""
    names = [kind.name for kind in KINDS.values() if kind.places & place]
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=6))
    if "authentication_data" in chosen and "authentication_method" not in chosen:
        chosen.remove("authentication_data")
    return Properties(**{name: draw(property_values(name, place)) for name in chosen})


def _wills(level: int) -> st.SearchStrategy[Will]:
    return st.builds(
        Will,
        topic=topics,
        payload=payloads,
        qos=st.integers(0, 2),
        retain=st.booleans(),
        properties=_properties(level, Place.WILL),
    )


def _properties(level: int, place: Place) -> st.SearchStrategy[Properties]:
    return properties(place) if level == 5 else st.just(NO_PROPERTIES)


@st.composite
def connects(draw: st.DrawFn, level: int) -> Connect:
    user_name = draw(st.none() | texts)
    return Connect(
        level=level,
        client_id=draw(texts),
        clean_start=draw(st.booleans()),
        keep_alive_s=draw(st.integers(0, 0xFFFF)),
        user_name=user_name,
        password=draw(st.none() | binaries) if level == 5 or user_name is not None else None,
        will=draw(st.none() | _wills(level)),
        properties=draw(_properties(level, Place.CONNECT)),
    )


@st.composite
def publishes(draw: st.DrawFn, level: int, named: st.SearchStrategy[str] = topics) -> Publish:
    qos = draw(st.integers(0, 2))
    return Publish(
        topic=draw(named),
        payload=draw(payloads),
        qos=qos,
        retain=draw(st.booleans()),
        dup=draw(st.booleans()) if qos else False,
        packet_id=draw(packet_ids) if qos else 0,
        properties=draw(_properties(level, Place.PUBLISH)),
    )


@st.composite
def subscriptions(draw: st.DrawFn, level: int) -> Subscription:
    topic_filter = draw(topic_filters)
    qos = draw(st.integers(0, 2))
    if level == 4:
        return Subscription(topic_filter=topic_filter, qos=qos)
    return Subscription(
        topic_filter=topic_filter,
        qos=qos,
        no_local=draw(st.booleans()) and not topic_filter.startswith("$share/"),
        retain_as_published=draw(st.booleans()),
        retain_handling=draw(st.integers(0, 2)),
    )


def _codes(allowed: frozenset[int], level: int) -> st.SearchStrategy[int]:
    return st.sampled_from(sorted(allowed)) if level == 5 else st.just(0)


def packets(level: int) -> st.SearchStrategy[Packet]:
    """Any packet that ``level`` can carry without loss."""

    def acknowledgement(cls: type[Any], place: Place, allowed: frozenset[int]) -> st.SearchStrategy[Packet]:
        return st.builds(cls, packet_id=packet_ids, reason_code=_codes(allowed, level), properties=_properties(level, place))

    refusals = [
        st.builds(
            Connack,
            session_present=st.just(False),
            reason_code=st.sampled_from(sorted(CONNACK_CODES)) if level == 5 else st.integers(0, 5),
            properties=_properties(level, Place.CONNACK),
        ),
        st.builds(Connack, session_present=st.booleans(), reason_code=st.just(0), properties=_properties(level, Place.CONNACK)),
    ]
    suback_codes = SUBACK_CODES if level == 5 else SUBACK_CODES_3_1_1
    kinds: list[st.SearchStrategy[Any]] = [
        connects(level),
        *refusals,
        publishes(level),
        acknowledgement(Puback, Place.PUBACK, PUBACK_CODES),
        acknowledgement(Pubrec, Place.PUBREC, PUBACK_CODES),
        acknowledgement(Pubrel, Place.PUBREL, PUBREL_CODES),
        acknowledgement(Pubcomp, Place.PUBCOMP, PUBREL_CODES),
        st.builds(
            Subscribe,
            packet_id=packet_ids,
            subscriptions=st.lists(subscriptions(level), min_size=1, max_size=4).map(tuple),
            properties=_properties(level, Place.SUBSCRIBE),
        ),
        st.builds(
            Suback,
            packet_id=packet_ids,
            reason_codes=st.lists(st.sampled_from(sorted(suback_codes)), min_size=1, max_size=4).map(tuple),
            properties=_properties(level, Place.SUBACK),
        ),
        st.builds(
            Unsubscribe,
            packet_id=packet_ids,
            topic_filters=st.lists(topic_filters, min_size=1, max_size=4).map(tuple),
            properties=_properties(level, Place.UNSUBSCRIBE),
        ),
        st.builds(
            Unsuback,
            packet_id=packet_ids,
            reason_codes=(
                st.lists(st.sampled_from(sorted(UNSUBACK_CODES)), min_size=1, max_size=4).map(tuple) if level == 5 else st.just(())
            ),
            properties=_properties(level, Place.UNSUBACK),
        ),
        st.just(Pingreq()),
        st.just(Pingresp()),
        st.builds(Disconnect, reason_code=_codes(DISCONNECT_CODES, level), properties=_properties(level, Place.DISCONNECT)),
    ]
    if level == 5:
        kinds.append(st.builds(Auth, reason_code=_codes(AUTH_CODES, level), properties=_properties(level, Place.AUTH)))
    return st.one_of(kinds)
