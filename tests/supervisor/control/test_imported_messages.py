"""A file that is imported: what an export wrote is read back as it was; what anybody may write is refused by its line."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.control.control_socket import LINES_MAX_BYTES
from supervisor.control.imported_messages import ExportedMessages, message_of, read_lines
from supervisor.terminal.message_text import message_json
from supervisor.terminal.message_text import message_of as exported
from wire.mqtt.properties import Properties, encode_properties
from wire.status.answers import HeldMessage

PLAIN = {"topic": "a/b", "qos": 1, "retain": False, "payload_base64": "MQ=="}
PROPERTIES = Properties(
    payload_format_indicator=1,
    message_expiry_interval=60,
    content_type="text/plain",
    response_topic="r",
    correlation_data=b"\x00\xff",
    user_properties=(("a", "1"), ("a", "2")),
)


def a_file(*lines: Any) -> BytesIO:
    return BytesIO(b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines))


@pytest.mark.parametrize("payload", [b"", b"21.5", b"\x00\xff\n"])
def test_what_an_export_wrote_comes_back_as_it_was(payload: bytes) -> None:
    encoded = encode_properties(PROPERTIES)
    row = HeldMessage(
        seq=3, topic="ü/b".encode(), qos=2, retain=True, size=len(payload), payload=payload, properties=encoded,
        rule="r", destination="site/{#}", accepted_ms=5,
    )  # fmt: skip
    line = json.dumps(message_json(exported("bridge:cloud:0", row, 9, whole=True)))
    assert message_of(line) == ("ü/b".encode(), 6, payload, encoded, "r", "site/{#}")
    assert read_lines("\n".join(ExportedMessages(BytesIO(line.encode())).page(0, 9))) == [message_of(line)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff", "can't decode"),
        (b"[1]", "not a JSON object"),
        ({"damaged": True, "seq": 1}, "damaged dead letter"),
        ({**PLAIN, "payload_base64": None}, "not base64"),
        ({"topic": "a", "qos": 0, "retain": False, "payload": "x"}, "payload_base64 missing"),
        ({**PLAIN, "topic": "a/#"}, "wildcard"),
        ({**PLAIN, "topic": "\ud800"}, "half a character"),
        ({**PLAIN, "topic": "x" * 65_536}, "65,535"),
        ({**PLAIN, "topic": 7}, "topic 7 is none"),
        ({**PLAIN, "qos": 3}, "qos 3"),
        ({**PLAIN, "qos": True}, "qos true"),
        ({**PLAIN, "retain": 1}, "retain 1"),
        ({**PLAIN, "rule": ["x"]}, "rule"),
        ({**PLAIN, "destination": "{"}, "'{' without '}'"),
        ({**PLAIN, "destination": "x/${node.name}"}, "names are filled in"),
        ({**PLAIN, "destination": "a/+"}, "wildcard"),
        ({**PLAIN, "destination": {}}, "destination"),
        ({**PLAIN, "properties": {"topic_alias": 1}}, "topic_alias"),
        ({**PLAIN, "properties": {"message_expiry_interval": -1}}, "message_expiry_interval"),
        ({**PLAIN, "properties": {"response_topic": "a/#"}}, "no PUBLISH may have"),
        ({**PLAIN, "properties": {"correlation_data": "zz"}}, "hexadecimal"),
        ({**PLAIN, "properties": {"user_properties": [["a"]]}}, "pairs"),
        ({**PLAIN, "properties": {"user_properties": [["a", "x" * 60_000], ["b", "x" * 60_000]]}}, "65535 bytes"),
        ({**PLAIN, "payload_base64": "AAAA" * (LINES_MAX_BYTES // 4)}, "cannot be imported"),
    ],
)
def test_a_line_that_is_no_message_is_refused_by_its_number(line: Any, says: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2: ") as refused:
        ExportedMessages(a_file(PLAIN, line, PLAIN))
    assert says in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(JSON, st.sampled_from([*PLAIN, "properties", "rule", "destination"]))
def test_nothing_but_a_value_error_comes_of_what_anybody_may_write(value: Any, key: str) -> None:
    try:
        topic, flags, *_ = message_of(json.dumps({**PLAIN, key: value}))
    except ValueError:
        return
    assert topic
    assert flags & 3 <= 2


def test_pages_follow_each_other_and_one_may_be_asked_for_again() -> None:
    file = ExportedMessages(a_file(*({**PLAIN, "topic": f"t/{number}"} for number in range(7))))
    assert file.messages == 7
    told = [file.page(start, 3) for start in (0, 3, 6, 2, 5)]
    assert [[json.loads(line)["topic"] for line in page] for page in told] == [
        ["t/0", "t/1", "t/2"],
        ["t/3", "t/4", "t/5"],
        ["t/6"],
        ["t/2", "t/3", "t/4"],
        ["t/5", "t/6"],
    ]
    large = ExportedMessages(a_file(*[{**PLAIN, "payload_base64": "AAAA" * 20_000}] * 5))
    assert [len(large.page(start, 5)) for start in (0, 2, 4)] == [2, 2, 1]
