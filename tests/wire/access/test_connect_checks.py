"""CONNECT: who may come in, and on what terms."""

from __future__ import annotations

from dataclasses import replace

from wire.access.connect_checks import ConnectTerms, LoginFault, judge_connect, refuse_login
from wire.config_settings import ClientLimitSettings, SessionSettings
from wire.mqtt.codec import encode
from wire.mqtt.packets import Connack, Connect
from wire.mqtt.properties import Properties

LIMITS = ClientLimitSettings(
    connections_max=10,
    connect_timeout_s=1.0,
    packet_max_bytes=1000,
    output_max_bytes=1000,
    subscriptions_max=10,
    keep_alive_max_s=300,
    receive_maximum=7,
)

SESSIONS = SessionSettings(expiry_max_s=1000)


def connect(level: int, client_id: str = "c", *, clean: bool = True, keep_alive_s: int = 60, **properties: object) -> Connect:
    return Connect(
        level=level,
        client_id=client_id,
        clean_start=clean,
        keep_alive_s=keep_alive_s,
        properties=replace(Properties(), **properties),  # type: ignore[arg-type]  # names are those of Properties
    )


def test_a_311_client_without_an_identifier_must_start_clean() -> None:
    refused = judge_connect(connect(4, "", clean=False), LIMITS, SESSIONS, new_id="n")
    assert isinstance(refused, Connack)
    assert refused.reason_code == 2
    welcome = judge_connect(connect(4, ""), LIMITS, SESSIONS, new_id="n")
    assert isinstance(welcome, ConnectTerms)
    assert welcome.client_id == "n"


def test_a_5_client_is_told_the_limits_and_its_assigned_identifier() -> None:
    welcome = judge_connect(connect(5, "", clean=False), LIMITS, SESSIONS, new_id="n")
    assert isinstance(welcome, ConnectTerms)
    properties = welcome.connack(session_present=True).properties
    assert (properties.receive_maximum, properties.maximum_packet_size) == (7, 1000)
    assert properties.assigned_client_identifier == "n"
    assert properties.server_keep_alive is None


def test_response_information_is_for_those_who_ask_and_can_take_it() -> None:
    """MQTT-3.1.2-28, MQTT-3.1.2-24."""
    for asked, told in ((None, None), (0, None), (1, "replies/c")):
        welcome = judge_connect(connect(5, request_response_information=asked), LIMITS, SESSIONS, new_id="n")
        assert isinstance(welcome, ConnectTerms)
        assert welcome.connack(False, "replies/c").properties.response_information == told
        assert welcome.connack(False).properties.response_information is None
    small = judge_connect(connect(5, request_response_information=1, maximum_packet_size=45), LIMITS, SESSIONS, new_id="n")
    assert isinstance(small, ConnectTerms)
    assert small.connack(False, "replies/" + 30 * "c").properties.response_information is None


def test_a_connack_repeats_no_default_and_a_client_that_cannot_take_it_is_refused() -> None:
    """MQTT 5 section 3.2.2.3, MQTT-3.1.2-24; where there is no room for a topic alias maximum, it goes first."""

    def sizes(limits: ClientLimitSettings, packet_max_bytes: int | None) -> tuple[int, int] | int:
        judged = judge_connect(connect(5, maximum_packet_size=packet_max_bytes), limits, SESSIONS, new_id="n")
        if isinstance(judged, Connack):
            return judged.reason_code
        return len(encode(judged.connack(False), 5)), judged.gives_aliases

    assert [sizes(LIMITS, size) for size in (None, 16, 15, 13, 12)] == [(16, 64), (16, 64), (13, 0), (13, 0), 0x95]
    assert sizes(replace(LIMITS, receive_maximum=65_535), 13) == (13, 64)


def test_keep_alive_is_capped_for_a_5_client_and_it_is_told() -> None:
    for asked in (0, 301):
        welcome = judge_connect(connect(5, keep_alive_s=asked), LIMITS, SESSIONS, new_id="n")
        assert isinstance(welcome, ConnectTerms)
        assert welcome.keep_alive_s == 300
        assert welcome.connack(session_present=False).properties.server_keep_alive == 300


def test_a_session_is_present_only_without_a_clean_start() -> None:
    for level in (4, 5):
        for clean in (True, False):
            welcome = judge_connect(connect(level, clean=clean), LIMITS, SESSIONS, new_id="n")
            assert isinstance(welcome, ConnectTerms)
            assert welcome.connack(session_present=True).session_present is not clean


def test_how_long_a_session_lasts_differs_by_version_and_is_capped() -> None:
    def terms(packet: Connect) -> tuple[int, int | None]:
        welcome = judge_connect(packet, LIMITS, SESSIONS, new_id="n")
        assert isinstance(welcome, ConnectTerms)
        return welcome.expiry_s, welcome.connack(session_present=False).properties.session_expiry_interval

    assert terms(connect(4, clean=False)) == (1000, None)
    assert terms(connect(4, clean=True)) == (0, None)
    assert terms(connect(5, clean=True, session_expiry_interval=10)) == (10, None)
    assert terms(connect(5, clean=False, session_expiry_interval=0xFFFF_FFFF)) == (1000, 1000)
    assert terms(connect(5, clean=False)) == (0, None)


def test_what_the_client_takes_is_known() -> None:
    welcome = judge_connect(connect(5, receive_maximum=3, maximum_packet_size=99), LIMITS, SESSIONS, new_id="n")
    assert isinstance(welcome, ConnectTerms)
    assert (welcome.receive_maximum, welcome.packet_max_bytes) == (3, 99)
    welcome = judge_connect(connect(4), LIMITS, SESSIONS, new_id="n")
    assert isinstance(welcome, ConnectTerms)
    assert (welcome.receive_maximum, welcome.packet_max_bytes) == (65_535, None)


def test_an_authentication_method_is_refused() -> None:
    refused = judge_connect(connect(5, authentication_method="SCRAM"), LIMITS, SESSIONS, new_id="n")
    assert isinstance(refused, Connack)
    assert refused.reason_code == 0x8C


def test_each_fault_of_a_login_has_its_codes() -> None:
    """MQTT 3.1.1 section 3.2.2.3, MQTT 5 section 3.2.2.2"""
    codes = {fault: (refuse_login(fault, 4).reason_code, refuse_login(fault, 5).reason_code) for fault in LoginFault}
    assert codes == {
        LoginFault.NO_USER_NAME: (5, 0x87),
        LoginFault.WRONG: (4, 0x86),
        LoginFault.WILL_FORBIDDEN: (5, 0x87),
        LoginFault.WILL_TOPIC: (5, 0x90),
        LoginFault.WILL_TOO_LARGE: (3, 0x97),
        LoginFault.NO_ROOM_FOR_WILL: (3, 0x97),
        LoginFault.IDENTIFIER_TOO_LONG: (2, 0x85),
        LoginFault.ANOTHERS: (2, 0x85),
        LoginFault.BLOCKED: (3, 0x9F),
        LoginFault.BUSY: (3, 0x89),
        LoginFault.UNAVAILABLE: (3, 0x88),
        LoginFault.TOO_MANY: (3, 0x97),
    }
