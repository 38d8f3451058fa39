"""PROXY headers: what each says, which are refused, and that no bytes make anything else of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.proxy_headers import (
    SIGNATURE,
    TCP4,
    TCP6,
    UDP4,
    UNIX_STREAM,
    UNSPECIFIED,
    binary,
    tls_value,
    value,
    version_1,
    version_2,
)
from wire.access.proxy_header import HEADER_MAX_BYTES, V1_MAX_BYTES, V2_LENGTH_MAX, ProxyHeader, read_header
from wire.errors import PeerViolation

V4, V6 = "203.0.113.7", "2001:db8::7"
LONGEST_V1 = b"PROXY UNKNOWN " + b"f" * (V1_MAX_BYTES - 16) + b"\r\n"
PADDING = value(0x04, bytes(V2_LENGTH_MAX - 12 - 3))
GOOD = {
    version_1(V4): ProxyHeader(V4, 4000),
    version_1(V6, 0): ProxyHeader(V6, 0),
    b"PROXY TCP6 2001:DB8:0:0::7 ::1 65535 1\r\n": ProxyHeader(V6, 65_535),
    b"PROXY UNKNOWN\r\n": ProxyHeader(),
    LONGEST_V1: ProxyHeader(),
    version_2(V4): ProxyHeader(V4, 4000),
    version_2(V6, 65_535): ProxyHeader(V6, 65_535),
    version_2(V4, values=PADDING): ProxyHeader(V4, 4000),
    version_2(V4, values=value(0x01, b"mqtt") + tls_value("Pumpe ü".encode())): ProxyHeader(V4, 4000, "Pumpe ü"),
    version_2(V6, values=tls_value(b"pump", client=0x05)): ProxyHeader(V6, 4000, "pump"),
    version_2(V4, values=tls_value(b"pump", verify=1)): ProxyHeader(V4, 4000),
    version_2(V4, values=tls_value(b"pump", verify=1 << 24)): ProxyHeader(V4, 4000),
    version_2(V4, values=tls_value(b"pump", client=0x01)): ProxyHeader(V4, 4000),
    version_2(V4, values=tls_value(None)): ProxyHeader(V4, 4000),
    binary(0x20, UNSPECIFIED): ProxyHeader(),
    binary(0x20, 0xFF, b"whatever"): ProxyHeader(),
    binary(0x20, TCP4, version_2(V4)[16:]): ProxyHeader(),
    binary(0x21, UNSPECIFIED, b"ignored"): ProxyHeader(),
    binary(0x21, UNIX_STREAM, bytes(216)): ProxyHeader(),
    binary(0x21, UNIX_STREAM, bytes(216) + tls_value(b"pump")): ProxyHeader(common_name="pump"),
}
BAD = [
    b"\x10\x0d\x00\x04MQTT",
    b"GET / HTTP/1.1\r\n",
    b"PROXY\r\n",
    b"PROXY \r\n",
    b"PROXY UNKNOWNS\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 4000\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 4000 1883 \r\n",
    b"PROXY TCP4  203.0.113.7 192.0.2.1 4000 1883\r\n",
    b"PROXY TCP4 203.0.113.07 192.0.2.1 4000 1883\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.256 4000 1883\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 04000 1883\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 65536 1883\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 4000 65536\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 4000 -1\r\n",
    b"PROXY TCP4 203.0.113.7 192.0.2.1 4000 \xd9\xa1\r\n",
    b"PROXY TCP4 2001:db8::7 2001:db8::1 4000 1883\r\n",
    b"PROXY TCP6 203.0.113.7 192.0.2.1 4000 1883\r\n",
    b"PROXY TCP6 fe80::1%eth0 2001:db8::1 4000 1883\r\n",
    b"PROXY UDP4 203.0.113.7 192.0.2.1 4000 1883\r\n",
    b"proxy TCP4 203.0.113.7 192.0.2.1 4000 1883\r\n",
    b"PROXY UNKNOWN " + b"f" * V1_MAX_BYTES,
    LONGEST_V1[:-2] + b"f\r\n",
    SIGNATURE[:-1] + b"\r" + version_2(V4)[12:],
    binary(0x22, TCP4, bytes(12)),
    binary(0x11, TCP4, bytes(12)),
    binary(0x31, TCP4, bytes(12)),
    binary(0x21, UDP4, bytes(12)),
    binary(0x21, 0x10, bytes(12)),
    binary(0x21, 0x41, bytes(12)),
    binary(0x21, TCP4, bytes(11)),
    binary(0x21, TCP6, bytes(35)),
    binary(0x21, UNIX_STREAM, bytes(215)),
    binary(0x21, TCP4, claimed=V2_LENGTH_MAX + 1),
    binary(0x20, UNSPECIFIED, claimed=65_535),
    version_2(V4, values=b"\x04"),
    version_2(V4, values=b"\x04\x00\x02x"),
    version_2(V4, values=value(0x20, b"\x07\0\0\0\0\x22\x00\x05pump")),
    version_2(V4, values=value(0x20, b"\x07\0\0\0\0") + b"\x01"),
    version_2(V4, values=tls_value(b"\xff")),
]


def found(data: bytes) -> tuple[ProxyHeader, int] | str | None:
    """The bytes that are read; ``refused``."""
    try:
        return read_header(data)
    except PeerViolation:
        return "refused"


@pytest.mark.parametrize("header", GOOD, ids=range(len(GOOD)))
def test_a_header_is_read_wherever_it_is_cut_and_whatever_follows(header: bytes) -> None:
    assert [found(header[:length]) for length in range(len(header))] == [None] * len(header)
    for follows in (b"", b"\x10", b"\r\n", header):
        assert found(header + follows) == (GOOD[header], len(header))
    assert len(header) <= HEADER_MAX_BYTES


@pytest.mark.parametrize("header", BAD, ids=range(len(BAD)))
def test_what_is_no_header_is_refused(header: bytes) -> None:
    assert found(header) == "refused"


@pytest.mark.parametrize("values", [value(0x20, b""), value(0x20, b"\x07\0\0"), value(0x04, b"")])
def test_what_says_nothing_of_a_certificate_names_nobody(values: bytes) -> None:
    assert found(version_2(V4, values=values)) == (ProxyHeader(V4, 4000), 28 + len(values))


PIECES = st.sampled_from(
    [SIGNATURE, b"PROXY ", b"TCP4 ", b"UNKNOWN", b"\r\n", b"\x21\x11", b"\x00\x0c", b"\x20\x00\x05", *GOOD, *BAD]
)
ANY = st.binary(max_size=300) | st.lists(PIECES | st.binary(max_size=20), max_size=6).map(b"".join)


@given(ANY, st.integers(0, 400))
def test_no_bytes_raise_anything_else_and_more_of_them_change_no_answer(data: bytes, cut: int) -> None:
    """Once a header is whole, or refused, it stays so; and it is one or the other after as many bytes as one may have."""
    early, whole = found(data[:cut]), found(data)
    assert early is None or early == whole
    assert found(data + bytes(HEADER_MAX_BYTES)) is not None


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_a_damaged_header_raises_nothing_else(header: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(header) - 1))
    damaged = header[:at] + draw.draw(st.binary(max_size=3)) + header[at + 1 :]
    read = found(damaged)
    assert read in (None, "refused") or isinstance(read, tuple)
