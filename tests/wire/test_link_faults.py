"""Each fault of a link is told by what the system, OpenSSL or the remote said, not by chance of words, and has its own cure."""

from __future__ import annotations

import errno
import os
import ssl

import pytest

from wire.errors import Unavailable
from wire.mqtt.reason_codes import CONNACK_CODES
from wire.status.link_faults import LinkFault, cure_of, fault_of, of_error, of_handshake, of_refusal


@pytest.mark.parametrize("code", sorted(CONNACK_CODES - {0}))
def test_user_and_password_are_blamed_only_for_what_they_cause(code: int) -> None:
    assert ("username" in of_refusal(code).cure) == (code in (0x86, 0x87))


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (0x84, "remote.protocol"),
        (0x85, "remote.client_id"),
        (0x89, "no room"),
        (0x97, "no room"),
        (0x9C, "remote.addresses"),
        (0x9D, "remote.addresses"),
        (0xFF, "log says why"),
    ],
)
def test_a_refusal_by_code_has_the_cure_of_that_code(code: int, cure: str) -> None:
    assert cure in of_refusal(code).cure


def test_a_remote_that_does_not_answer_the_connect_may_know_no_mqtt_5() -> None:
    for fault in (LinkFault.NO_CONNACK_TO_5, LinkFault.CLOSED_AT_CONNECT_5):
        assert "remote.protocol: mqtt311" in fault.cure
    for fault in (LinkFault.NO_CONNACK, LinkFault.CLOSED_AT_CONNECT):
        assert "protocol" not in fault.cure


@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (errno.ECONNREFUSED, LinkFault.NOBODY_LISTENS),
        (errno.EHOSTUNREACH, LinkFault.NO_ROUTE),
        (errno.ETIMEDOUT, LinkFault.TIMED_OUT),
        (errno.EMFILE, LinkFault.OPEN_FILES),
        (errno.EINVAL, LinkFault.TCP),
    ],
)
def test_what_the_system_says_is_told_by_its_number(number: int, fault: LinkFault) -> None:
    assert of_error(OSError(number, os.strerror(number)), LinkFault.TCP) is fault
    assert of_error(OSError("Connection refused, timed out"), LinkFault.TCP) is LinkFault.TCP, "words are no number"
    assert of_error(TimeoutError("timed out"), LinkFault.TCP) is LinkFault.TIMED_OUT


def test_what_is_wrong_with_a_certificate_is_told_by_the_number_that_openssl_gives() -> None:
    assert of_handshake(10, "CERTIFICATE_VERIFY_FAILED") is LinkFault.CERTIFICATE_EXPIRED
    assert of_handshake(18, None) is LinkFault.CERTIFICATE_AUTHORITY
    assert of_handshake(62, None) is LinkFault.CERTIFICATE_NAME
    assert of_handshake(0, "WRONG_VERSION_NUMBER") is LinkFault.NO_TLS
    assert of_handshake(0, None) is LinkFault.TLS
    assert issubclass(ssl.SSLCertVerificationError, ssl.SSLError)


def test_each_fault_has_a_cure_of_its_own_and_a_word_that_leads_back_to_it() -> None:
    assert all(fault.cure for fault in LinkFault)
    assert [cure_of(fault.value) for fault in LinkFault] == [fault.cure for fault in LinkFault]
    assert (cure_of(""), cure_of("of another version")) == ("", LinkFault.OTHER.cure)
    assert fault_of(Unavailable("why", fault=LinkFault.BUSY)) is LinkFault.BUSY
    assert fault_of(Unavailable("why")) is LinkFault.OTHER
