"""Each reason that a link can say has its own cure, by code and step and not by chance of words."""

from __future__ import annotations

import pytest

from supervisor.link_cures import cure_of
from wire.mqtt.reason_codes import CONNACK_CODES, reason_name


def refused(code: int) -> str:
    return f"edge.example:1883: connack: refused: {reason_name(code).capitalize()} (0x{code:02x})"


@pytest.mark.parametrize("code", sorted(CONNACK_CODES - {0}))
def test_user_and_password_are_blamed_only_for_what_they_cause(code: int) -> None:
    assert ("username" in cure_of(refused(code))) == (code in (0x86, 0x87))


@pytest.mark.parametrize(
    ("code", "cure"), [(0x84, "remote.protocol"), (0x85, "remote.client_id"), (0x89, "no room"), (0x97, "no room")]
)
def test_a_refusal_by_code_has_the_cure_of_that_code(code: int, cure: str) -> None:
    assert cure in cure_of(refused(code))


@pytest.mark.parametrize("code", [0x9C, 0x9D])
def test_a_server_that_names_another_one_is_to_be_replaced(code: int) -> None:
    assert "remote.addresses" in cure_of(refused(code))


@pytest.mark.parametrize(
    "error",
    [
        "connack: no CONNACK in time",
        "connack: closed by the remote",
        "connack: closed or broken by the remote before a CONNACK: closed",
        "connack: closed or broken by the remote before a CONNACK: [Errno 104] Connection reset by peer",
        "connack: the remote sent DISCONNECT instead of a CONNACK",
    ],
)
def test_a_remote_that_does_not_answer_the_connect_may_know_no_mqtt_5(error: str) -> None:
    assert "remote.protocol: mqtt311" in cure_of(f"10.0.0.1:1883: {error}")
    assert "protocol" not in cure_of(f"10.0.0.1:1883: {error}", 4)
    assert "username" not in cure_of(error, 4)


def test_a_name_that_has_the_words_of_another_cure_does_not_lead_astray() -> None:
    assert "getent" in cure_of("connack.timed-out.example:1883: name: Name or service not known")
    assert "rights" not in cure_of("quota-exceeded.example:1883: tcp: Connection refused")
    assert "a broker listens there" in cure_of("taken over.example:1883: tcp: Connection refused")


def test_of_several_addresses_the_first_is_to_be_mended() -> None:
    said = f"a:1: tcp: Connection refused; b:2: {refused(0x87)}"
    assert "a broker listens there" in cure_of(said)


def test_a_session_that_the_remote_keeps_for_a_shorter_time_names_the_key() -> None:
    assert "session_expiry" in cure_of("remote keeps the session 60 s only")
