"""Packets that no client may send, as bytes, with the clause and what the server has to say before it closes.

The packets that are wrong by themselves are those of ``tests/wire/mqtt/malformed.py``, which the codec's own tests use too; this
table adds what is wrong because of when it comes, who sends it, or what was agreed on.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.support.mqtt_packets import variable
from tests.wire.mqtt.malformed import MALFORMED

MALFORMED_PACKET, PROTOCOL_ERROR, UNSUPPORTED_VERSION, BAD_METHOD = 0x81, 0x82, 0x84, 0x8C
TOPIC_ALIAS_INVALID, PACKET_TOO_LARGE, RECEIVE_MAXIMUM_EXCEEDED, QUOTA_EXCEEDED = 0x94, 0x95, 0x93, 0x97
PACKET_MAX_BYTES, RECEIVE_MAXIMUM = 65_536, 20  # how the node of these tests is configured


class Case(NamedTuple):
    """``data`` is sent as the first bytes of a connection, or behind an accepted CONNECT at ``level`` if ``greeted``.

    answer: what has to come, all of it, before the connection is closed.
    """

    name: str
    level: int
    greeted: bool
    data: bytes
    clause: str
    answer: bytes


def packet(first_byte: int, body: str) -> bytes:
    """A packet with the remaining length that it has; ``body`` is hexadecimal."""
    raw = bytes.fromhex(body)
    return bytes((first_byte,)) + variable(len(raw)) + raw


def text(value: str) -> str:
    """A string as hexadecimal, behind its length."""
    raw = value.encode()
    return (len(raw).to_bytes(2, "big") + raw).hex()


def connect(level: int, flags: int = 2, *, properties: str = "", payload: str = "000178") -> bytes:
    """A CONNECT; ``properties`` and ``payload`` are hexadecimal."""
    size = variable(len(bytes.fromhex(properties))).hex() if level == 5 else ""
    return packet(0x10, f"00044d515454 {level:02x} {flags:02x} 0000 {size}{properties} {payload}")


def refusal(level: int, code: int) -> bytes:
    """The CONNACK that refuses."""
    return bytes((0x20, 3, 0, code, 0)) if level == 5 else bytes((0x20, 2, 0, code))


def goodbye(level: int, code: int) -> bytes:
    """The DISCONNECT that tells why; MQTT 3.1.1 has none."""
    return bytes((0xE0, 1, code)) if level == 5 else b""


def _from_the_codec() -> list[Case]:
    """The shared table, as what a client sends."""
    cases = []
    for name, level, data, clause, code in MALFORMED:
        raw = bytes.fromhex(data)
        greeted = raw[0] >> 4 != 1
        if greeted:
            answer = goodbye(level, code)
        elif code == UNSUPPORTED_VERSION:
            answer = refusal(4, 1)
        else:
            answer = refusal(5, code) if level == 5 else b""
        cases.append(Case(name, level, greeted, raw, clause, answer))
    return cases


def _first_packets() -> list[Case]:
    """Packets other than CONNECT, first."""
    bodies = {0x2: "0000", 0x4: "0001", 0x5: "0001", 0x6: "0001", 0x7: "0001", 0x8: "0001 000161 00", 0x9: "0001 00"}
    bodies |= {0xA: "0001 000161", 0xB: "0001", 0x3: "000161"}
    flags = {0x6: 2, 0x8: 2, 0xA: 2}
    return [
        Case(
            f"first packet of type {kind}",
            4,
            False,
            packet(kind << 4 | flags.get(kind, 0), bodies.get(kind, "")),
            "MQTT-3.1.0-1",
            b"",
        )
        for kind in range(16)
        if kind != 1
    ]


def _greetings() -> list[Case]:
    """CONNECTs that are whole and wrong."""
    five: list[tuple[str, bytes, str, int]] = [
        ("Will QoS 3", connect(5, 0x1E, payload="000178 00 000161 000161"), "MQTT-3.1.2-12", MALFORMED_PACKET),
        ("Will QoS without a Will", connect(5, 0x0A), "MQTT-3.1.2-11", MALFORMED_PACKET),
        ("Will Retain without a Will", connect(5, 0x22), "MQTT-3.1.2-13", MALFORMED_PACKET),
        ("reserved flag", connect(5, 0x03), "MQTT-3.1.2-3", MALFORMED_PACKET),
        ("Will flag without a Will", connect(5, 0x06), "MQTT-3.1.2-9", MALFORMED_PACKET),
        ("user name flag without one", connect(5, 0x82), "MQTT-3.1.2-17", MALFORMED_PACKET),
        ("password flag without one", connect(5, 0x42), "MQTT-3.1.2-19", MALFORMED_PACKET),
        ("user name without its flag", connect(5, payload="000178 000175"), "MQTT-3.1.2-16", MALFORMED_PACKET),
        ("empty Will topic", connect(5, 0x06, payload="000178 00 0000 0000"), "MQTT-4.7.3-1", MALFORMED_PACKET),
        ("wildcard in a Will topic", connect(5, 0x06, payload="000178 00 00012b 0000"), "MQTT-3.3.2-2", MALFORMED_PACKET),
        ("NUL in a Will topic", connect(5, 0x06, payload="000178 00 000100 0000"), "MQTT-1.5.4-2", MALFORMED_PACKET),
        ("topic alias in a Will", connect(5, 0x06, payload="000178 03 230001 000161 0000"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("Will payload format 2", connect(5, 0x06, payload="000178 02 0102 000161 0000"), "MQTT-2.2.2.2", PROTOCOL_ERROR),
        (
            "Will delay given twice",
            connect(5, 0x06, payload="000178 0a 1800000001 1800000001 000161 0000"),
            "MQTT-3.1.3.2.2",
            PROTOCOL_ERROR,
        ),
        (
            "wildcard in a Will's response topic",
            connect(5, 0x06, payload="000178 04 08000123 000161 0000"),
            "MQTT-3.3.2-14",
            PROTOCOL_ERROR,
        ),
        ("surrogate in the client identifier", connect(5, payload="0003 eda080"), "MQTT-1.5.4-1", MALFORMED_PACKET),
        ("overlong NUL in the client identifier", connect(5, payload="0002 c080"), "MQTT-1.5.4-1", MALFORMED_PACKET),
        ("code point above U+10FFFF", connect(5, payload="0004 f4908080"), "MQTT-1.5.4-1", MALFORMED_PACKET),
        ("NUL in the user name", connect(5, 0x82, payload="000178 000100"), "MQTT-1.5.4-2", MALFORMED_PACKET),
        ("client identifier longer than the packet", connect(5, payload="ffff 78"), "MQTT-2.1.4", MALFORMED_PACKET),
        ("no client identifier at all", connect(5, payload=""), "MQTT-3.1.3-3", MALFORMED_PACKET),
        ("request response information 2", connect(5, properties="1902"), "MQTT-3.1.2.11.6", PROTOCOL_ERROR),
        ("request problem information 255", connect(5, properties="17ff"), "MQTT-3.1.2.11.7", PROTOCOL_ERROR),
        ("receive maximum given twice", connect(5, properties="210001 210001"), "MQTT-3.1.2.11.3", PROTOCOL_ERROR),
        ("maximum packet size cut short", connect(5, properties="270000"), "MQTT-2.1.4", MALFORMED_PACKET),
        ("topic alias maximum given twice", connect(5, properties="220001 220001"), "MQTT-3.1.2.11.5", PROTOCOL_ERROR),
        ("user property without a value", connect(5, properties="26000161"), "MQTT-2.1.4", MALFORMED_PACKET),
        ("property identifier in two bytes", connect(5, properties="a600 000161 000161"), "MQTT-1.5.5-1", MALFORMED_PACKET),
        ("property identifier 0", connect(5, properties="00"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("assigned client identifier", connect(5, properties="12000161"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("server keep alive", connect(5, properties="13000a"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("maximum QoS", connect(5, properties="2401"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("retain available", connect(5, properties="2501"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("reason string", connect(5, properties="1f000161"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("subscription identifier", connect(5, properties="0b01"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("message expiry outside the Will", connect(5, properties="0200000001"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("authentication method given twice", connect(5, properties="15000161 15000161"), "MQTT-3.1.2.11.9", PROTOCOL_ERROR),
        ("an authentication method nobody knows", connect(5, properties="15000161"), "MQTT-4.12.0-1", BAD_METHOD),
        ("bytes behind the payload", connect(5, payload="000178 00"), "MQTT-2.1.4", MALFORMED_PACKET),
        ("flags of the first byte", b"\x11" + connect(5)[1:], "MQTT-2.1.3-1", MALFORMED_PACKET),
    ]
    four: list[tuple[str, bytes, str, bytes]] = [
        ("no identifier for a session", connect(4, 0, payload="0000"), "MQTT-3.1.3-8 (3.1.1)", refusal(4, 2)),
        ("user name flag without one", connect(4, 0x82), "MQTT-3.1.2-19 (3.1.1)", b""),
        ("password flag without one", connect(4, 0xC2, payload="000178 000175"), "MQTT-3.1.2-21 (3.1.1)", b""),
        ("NUL in the client identifier", connect(4, payload="0003 610062"), "MQTT-1.5.3-2 (3.1.1)", b""),
        ("empty Will topic", connect(4, 0x06, payload="000178 0000 0000"), "MQTT-4.7.3-1", b""),
        ("Will payload longer than the packet", connect(4, 0x06, payload="000178 000161 ffff 00"), "MQTT-2.1.4", b""),
        ("flags of the first byte", b"\x1f" + connect(4)[1:], "MQTT-2.2.2-1 (3.1.1)", b""),
        ("no variable header", b"\x10\x00", "MQTT-2.1.4", b""),
        ("protocol name in small letters", packet(0x10, "0004 6d717474 04 02 0000 000178"), "MQTT-3.1.2-1", refusal(4, 1)),
        ("empty protocol name", packet(0x10, "0000 04 02 0000 000178"), "MQTT-3.1.2-1", refusal(4, 1)),
        ("protocol level 0", packet(0x10, "00044d515454 00 02 0000 000178"), "MQTT-3.1.2-2", refusal(4, 1)),
        ("protocol level 3", packet(0x10, "00044d515454 03 02 0000 000178"), "MQTT-3.1.2-2", refusal(4, 1)),
        ("protocol name longer than the packet", packet(0x10, "ffff4d515454"), "MQTT-2.1.4", b""),
        ("an HTTP request", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "MQTT-3.1.0-1", b""),
        ("a TLS greeting", bytes.fromhex("16030100f8010000f40303"), "MQTT-3.1.0-1", b""),
        ("remaining length of five bytes", b"\x10\xff\xff\xff\xff\x7f", "MQTT-1.5.5", b""),
        ("remaining length with a needless byte", b"\x10\x80\x00", "MQTT-1.5.5-1", b""),
        ("a CONNECT of 256 MB", b"\x10\xff\xff\xff\x7f", "MQTT-3.1.2-24", b""),
    ]
    five.append(("1,001 user properties", connect(5, properties="2600000000" * 1001), "MQTT-2.2.2.2", QUOTA_EXCEEDED))
    return [Case(name, 5, False, data, clause, refusal(5, code)) for name, data, clause, code in five] + [
        Case(name, 4, False, data, clause, answer) for name, data, clause, answer in four
    ]


def _both_levels() -> list[Case]:
    """Wrong at both levels, behind an accepted CONNECT. ``{p}`` stands for an empty property length at level 5."""
    rows: list[tuple[str, int, str, str, int]] = [
        ("reserved type 0", 0x00, "", "MQTT-2.1.2", MALFORMED_PACKET),
        ("CONNACK", 0x20, "0000 {p}", "MQTT-4.13.1-1", PROTOCOL_ERROR),
        ("SUBACK", 0x90, "0001 {p} 00", "MQTT-4.13.1-1", PROTOCOL_ERROR),
        ("PINGRESP", 0xD0, "", "MQTT-4.13.1-1", PROTOCOL_ERROR),
        ("QoS 3 with DUP and RETAIN", 0x3F, "000161 0001 {p} 78", "MQTT-3.3.1-4", MALFORMED_PACKET),
        ("DUP at QoS 0", 0x38, "000161 {p} 78", "MQTT-3.3.1-2", MALFORMED_PACKET),
        ("PUBLISH at QoS 1 with identifier 0", 0x32, "000161 0000 {p}", "MQTT-2.2.1-3", PROTOCOL_ERROR),
        ("PUBLISH at QoS 2 with identifier 0", 0x34, "000161 0000 {p}", "MQTT-2.2.1-3", PROTOCOL_ERROR),
        ("'+' in a topic name", 0x30, "0003612f2b {p}", "MQTT-3.3.2-2", MALFORMED_PACKET),
        ("'#' in a topic name", 0x32, "0003612f23 0001 {p}", "MQTT-3.3.2-2", MALFORMED_PACKET),
        ("surrogate in a topic name", 0x30, "0003 edbfbf {p}", "MQTT-1.5.4-1", MALFORMED_PACKET),
        ("overlong '/' in a topic name", 0x30, "0003 e080af {p}", "MQTT-1.5.4-1", MALFORMED_PACKET),
        ("U+0000 in a topic name", 0x32, "0003 610062 0001 {p}", "MQTT-1.5.4-2", MALFORMED_PACKET),
        ("a topic name cut within a character", 0x30, "0002 61c3 {p}", "MQTT-1.5.4-1", MALFORMED_PACKET),
        ("PUBLISH with one byte", 0x30, "00", "MQTT-2.1.4", MALFORMED_PACKET),
        ("PUBLISH with nothing", 0x30, "", "MQTT-2.1.4", MALFORMED_PACKET),
        ("PUBLISH with half an identifier", 0x34, "000161 00", "MQTT-2.1.4", MALFORMED_PACKET),
        ("flags of PUBREC", 0x51, "0001", "MQTT-2.1.3-1", MALFORMED_PACKET),
        ("flags of PUBREL", 0x63, "0001", "MQTT-2.1.3-1", MALFORMED_PACKET),
        ("flags of PUBCOMP", 0x78, "0001", "MQTT-2.1.3-1", MALFORMED_PACKET),
        ("flags of DISCONNECT", 0xE1, "", "MQTT-2.1.3-1", MALFORMED_PACKET),
        ("PUBREC 0", 0x50, "0000", "MQTT-2.2.1-3", PROTOCOL_ERROR),
        ("PUBREL 0", 0x62, "0000", "MQTT-2.2.1-3", PROTOCOL_ERROR),
        ("PUBCOMP 0", 0x70, "0000", "MQTT-2.2.1-3", PROTOCOL_ERROR),
        ("PUBREL without its identifier", 0x62, "", "MQTT-2.1.4", MALFORMED_PACKET),
        ("SUBSCRIBE with nothing", 0x82, "", "MQTT-2.1.4", MALFORMED_PACKET),
        ("SUBSCRIBE of nothing", 0x82, "0001 {p}", "MQTT-3.8.3-2", PROTOCOL_ERROR),
        ("SUBSCRIBE with identifier 0", 0x82, "0000 {p} 000161 00", "MQTT-2.2.1-3", PROTOCOL_ERROR),
        ("the second filter has no options", 0x82, "0001 {p} 000161 00 000162", "MQTT-2.1.4", MALFORMED_PACKET),
        ("the second filter is empty", 0x82, "0001 {p} 000161 00 0000 00", "MQTT-4.7.3-1", MALFORMED_PACKET),
        ("NUL in a filter", 0x82, "0001 {p} 000100 00", "MQTT-1.5.4-2", MALFORMED_PACKET),
        ("'+' within a level", 0x82, "0001 {p} 0003612b62 00", "MQTT-4.7.1-2", MALFORMED_PACKET),
        ("'#' before the end", 0x82, "0001 {p} 0005612f232f62 00", "MQTT-4.7.1-1", MALFORMED_PACKET),
        ("'##'", 0x82, "0001 {p} 00022323 00", "MQTT-4.7.1-1", MALFORMED_PACKET),
        ("'+#'", 0x82, "0001 {p} 00022b23 00", "MQTT-4.7.1-1", MALFORMED_PACKET),
        ("subscription at QoS 3", 0x82, "0001 {p} 000161 03", "MQTT-3.8.3-4 (3.1.1)", PROTOCOL_ERROR),
        ("UNSUBSCRIBE of nothing", 0xA2, "0001 {p}", "MQTT-3.10.3-2", PROTOCOL_ERROR),
        ("UNSUBSCRIBE with identifier 0", 0xA2, "0000 {p} 000161", "MQTT-2.2.1-3", PROTOCOL_ERROR),
        ("UNSUBSCRIBE from an empty filter", 0xA2, "0001 {p} 0000", "MQTT-4.7.3-1", MALFORMED_PACKET),
        ("UNSUBSCRIBE from a wrong filter", 0xA2, "0001 {p} 0003232f61", "MQTT-4.7.1-1", MALFORMED_PACKET),
        ("a filter longer than the packet", 0xA2, "0001 {p} ffff61", "MQTT-2.1.4", MALFORMED_PACKET),
        ("bytes behind PINGREQ", 0xC0, "00", "MQTT-2.1.4", MALFORMED_PACKET),
        ("bytes behind PUBREL", 0x62, "0001 92 00 00", "MQTT-2.1.4", MALFORMED_PACKET),
    ]
    cases = []
    for level in (4, 5):
        for name, first_byte, body, clause, code in rows:
            data = packet(first_byte, body.format(p="00" if level == 5 else ""))
            cases.append(Case(name, level, True, data, clause, goodbye(level, code)))
        p = "" if level == 4 else "00"
        claims = [
            ("a SUBSCRIBE of 10,001 filters", packet(0x82, f"0001 {p}" + "000161 00" * 10_001), "MQTT-3.8.3", QUOTA_EXCEEDED),
            ("an UNSUBSCRIBE of 10,001 filters", packet(0xA2, f"0001 {p}" + "000161" * 10_001), "MQTT-3.8.3", QUOTA_EXCEEDED),
            ("remaining length of five bytes", b"\x30\xff\xff\xff\xff\x01", "MQTT-1.5.5", MALFORMED_PACKET),
            ("remaining length with needless bytes", b"\x82\x86\x80\x80\x00", "MQTT-1.5.5-1", MALFORMED_PACKET),
            ("a PUBLISH of 256 MB", b"\x30\xff\xff\xff\x7f\x00\x01a", "MQTT-3.1.2-24", PACKET_TOO_LARGE),
            ("a SUBSCRIBE of 256 MB", b"\x82\xff\xff\xff\x7f", "MQTT-3.1.2-24", PACKET_TOO_LARGE),
            ("a PINGREQ of 256 MB", b"\xc0\xff\xff\xff\x7f", "MQTT-3.1.2-24", PACKET_TOO_LARGE),
            ("one byte too many", b"\x30" + variable(PACKET_MAX_BYTES - 3), "MQTT-3.1.2-24", PACKET_TOO_LARGE),
            ("a second CONNECT", connect(level), "MQTT-3.1.0-2", PROTOCOL_ERROR),
            ("a second CONNECT of the other level", connect(9 - level), "MQTT-3.1.0-2", PROTOCOL_ERROR),
            ("a second CONNECT of level 3", packet(0x10, "00064d5149736470 03 02 0000 000161"), "MQTT-3.1.0-2", PROTOCOL_ERROR),
            ("a second CONNECT that is malformed", connect(level, 0x03), "MQTT-3.1.0-2", PROTOCOL_ERROR),
        ]
        cases += [Case(name, level, True, data, clause, goodbye(level, code)) for name, data, clause, code in claims]
    unsuback = [(4, packet(0xB0, "0001")), (5, packet(0xB0, "0001 00 00"))]
    cases += [Case("UNSUBACK", level, True, data, "MQTT-4.13.1-1", goodbye(level, PROTOCOL_ERROR)) for level, data in unsuback]
    return cases


def _level_five() -> list[Case]:
    """Faults that only MQTT 5.0 can have."""
    publish = "000161 {} 78"
    rows: list[tuple[str, bytes, str, int]] = [
        ("AUTH without a method in CONNECT", packet(0xF0, ""), "MQTT-4.12.0-6", PROTOCOL_ERROR),
        ("AUTH that goes on", packet(0xF0, "18 04 15000161"), "MQTT-4.12.0-6", PROTOCOL_ERROR),
        ("flags of AUTH", packet(0xF1, ""), "MQTT-2.1.3-1", MALFORMED_PACKET),
        ("authentication data without a method", packet(0xF0, "18 04 16000161"), "MQTT-3.15.2.2.3", PROTOCOL_ERROR),
        ("properties longer than PUBLISH", packet(0x30, publish.format("7f")), "MQTT-2.1.4", MALFORMED_PACKET),
        ("property length of five bytes", packet(0x30, publish.format("ffffffff01")), "MQTT-1.5.5", MALFORMED_PACKET),
        ("property length with a needless byte", packet(0x30, publish.format("8000")), "MQTT-1.5.5-1", MALFORMED_PACKET),
        ("property cut short", packet(0x30, publish.format("02 0200")), "MQTT-2.1.4", MALFORMED_PACKET),
        ("unknown property", packet(0x30, publish.format("02 0400")), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("property of CONNECT", packet(0x30, publish.format("05 1100000001")), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("payload format 2", packet(0x30, publish.format("02 0102")), "MQTT-3.3.2.3.2", PROTOCOL_ERROR),
        ("payload format given twice", packet(0x30, publish.format("04 0101 0101")), "MQTT-3.3.2.3.2", PROTOCOL_ERROR),
        (
            "message expiry given twice",
            packet(0x30, publish.format("0a 0200000001 0200000001")),
            "MQTT-3.3.2.3.3",
            PROTOCOL_ERROR,
        ),
        ("content type given twice", packet(0x30, publish.format("08 03000161 03000161")), "MQTT-3.3.2.3.9", PROTOCOL_ERROR),
        ("correlation data given twice", packet(0x30, publish.format("08 09000161 09000161")), "MQTT-3.3.2.3.6", PROTOCOL_ERROR),
        ("empty response topic", packet(0x30, publish.format("03 080000")), "MQTT-3.3.2-13", PROTOCOL_ERROR),
        ("'+' in a response topic", packet(0x30, publish.format("04 0800012b")), "MQTT-3.3.2-14", PROTOCOL_ERROR),
        ("ill-formed content type", packet(0x30, publish.format("04 030001ff")), "MQTT-1.5.4-1", MALFORMED_PACKET),
        ("NUL in a user property", packet(0x30, publish.format("07 26000161000100")), "MQTT-1.5.4-2", MALFORMED_PACKET),
        ("surrogate in a user property", packet(0x30, publish.format("09 260003eda080000161")), "MQTT-1.5.4-1", MALFORMED_PACKET),
        ("subscription identifier from a client", packet(0x30, publish.format("02 0b01")), "MQTT-3.3.4-6", PROTOCOL_ERROR),
        ("subscription identifier 0 in PUBLISH", packet(0x30, publish.format("02 0b00")), "MQTT-3.3.2.3.8", PROTOCOL_ERROR),
        ("topic alias 0", packet(0x30, publish.format("03 230000")), "MQTT-3.3.2-8", TOPIC_ALIAS_INVALID),
        ("topic alias above the maximum", packet(0x30, publish.format("03 230041")), "MQTT-3.3.2-9", TOPIC_ALIAS_INVALID),
        ("topic alias 65535", packet(0x30, publish.format("03 23ffff")), "MQTT-3.3.2-9", TOPIC_ALIAS_INVALID),
        ("topic alias given twice", packet(0x30, publish.format("06 230001 230001")), "MQTT-3.3.2.3.4", PROTOCOL_ERROR),
        ("topic alias without a topic", packet(0x30, "0000 03 230001 78"), "MQTT-3.3.2.3.4", PROTOCOL_ERROR),
        ("no topic and no alias", packet(0x32, "0000 0001 00 78"), "MQTT-3.3.2.1", PROTOCOL_ERROR),
        ("no property length", packet(0x30, "000161"), "MQTT-2.1.4", MALFORMED_PACKET),
        ("PUBACK with a wrong reason code", packet(0x40, "0001 02"), "MQTT-3.4.2-1", PROTOCOL_ERROR),
        ("PUBACK with a property of PUBLISH", packet(0x40, "0001 00 03 230001"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("two reason strings", packet(0x40, "0001 00 08 1f000161 1f000161"), "MQTT-3.4.2.2.2", PROTOCOL_ERROR),
        ("PUBREL with PUBACK's reason code", packet(0x62, "0001 10"), "MQTT-3.6.2-1", PROTOCOL_ERROR),
        ("PUBREL with a property of CONNECT", packet(0x62, "0001 00 03 210001"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("properties longer than PUBREC", packet(0x50, "0001 00 05 1f"), "MQTT-2.1.4", MALFORMED_PACKET),
        ("retain handling 3", packet(0x82, "0001 00 000161 31"), "MQTT-3.8.3.1", PROTOCOL_ERROR),
        ("reserved option bits", packet(0x82, "0001 00 000161 80"), "MQTT-3.8.3-5", MALFORMED_PACKET),
        ("subscription identifier 0", packet(0x82, "0001 02 0b00 000161 00"), "MQTT-3.8.2.1.2", PROTOCOL_ERROR),
        (
            "subscription identifier of five bytes",
            packet(0x82, "0001 06 0bffffffff01 000161 00"),
            "MQTT-1.5.5",
            MALFORMED_PACKET,
        ),
        ("receive maximum in SUBSCRIBE", packet(0x82, "0001 03 210001 000161 00"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("no property length in SUBSCRIBE", packet(0x82, "0001"), "MQTT-2.1.4", MALFORMED_PACKET),
        ("subscription identifier in UNSUBSCRIBE", packet(0xA2, "0001 02 0b01 000161"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("share name without a filter", packet(0x82, f"0001 00 {text('$share/g/')} 00"), "MQTT-4.8.2-2", MALFORMED_PACKET),
        ("wildcard in a share name", packet(0x82, f"0001 00 {text('$share/a+b/t')} 00"), "MQTT-4.8.2-2", MALFORMED_PACKET),
        ("wrong filter behind a share name", packet(0x82, f"0001 00 {text('$share/g/#/t')} 00"), "MQTT-4.7.1-1", MALFORMED_PACKET),
        ("No Local on a shared one", packet(0x82, f"0001 00 {text('$share/g/t')} 04"), "MQTT-3.8.3-4", PROTOCOL_ERROR),
        ("DISCONNECT with a wrong reason code", packet(0xE0, "01"), "MQTT-3.14.2-1", PROTOCOL_ERROR),
        ("DISCONNECT with a property of PUBLISH", packet(0xE0, "00 02 0101"), "MQTT-2.2.2.2", MALFORMED_PACKET),
        ("bytes behind DISCONNECT", packet(0xE0, "00 00 00"), "MQTT-2.1.4", MALFORMED_PACKET),
        ("a session where CONNECT asked for none", packet(0xE0, "00 05 1100000001"), "MQTT-3.14.2.2.2", PROTOCOL_ERROR),
        ("1,001 user properties", packet(0x30, publish.format("8d27" + "2600000000" * 1001)), "MQTT-2.2.2.2", QUOTA_EXCEEDED),
        ("1,001 of them in PUBACK", packet(0x40, "0001 00 8d27" + "2600000000" * 1001), "MQTT-2.2.2.2", QUOTA_EXCEEDED),
        (
            "more than the receive maximum",
            b"".join(packet(0x34, f"000161 {number:04x} 00") for number in range(1, RECEIVE_MAXIMUM + 2)),
            "MQTT-3.3.4-9",
            RECEIVE_MAXIMUM_EXCEEDED,
        ),
    ]
    cases = [Case(name, 5, True, data, clause, goodbye(5, code)) for name, data, clause, code in rows]
    for name, data in (("AUTH", packet(0xF0, "")), ("DISCONNECT with a reason code", packet(0xE0, "00"))):
        cases.append(Case(name, 4, True, data, "MQTT-2.2.1 (3.1.1)", b""))
    cases.append(Case("options of level 5", 4, True, packet(0x82, "0001 000161 08"), "MQTT-3-8.3-4 (3.1.1)", b""))
    return cases


CASES = [*_from_the_codec(), *_first_packets(), *_greetings(), *_both_levels(), *_level_five()]
