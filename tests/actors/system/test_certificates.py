"""Certificates: their dates, read from DER, and whom they name."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.system.certificates import NotACertificate, identity, validity
from tests.support.authority import Authority

SUBJECT = ((("countryName", "SE"),), (("organizationName", "Plant, Inc."),), (("commonName", "pump-7"),))


@pytest.mark.process
def test_the_dates_are_those_that_openssl_reads(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("server", days=30_000)  # beyond 2049, where the form of the date changes
    words = ["openssl", "x509", "-in", str(pair.cert_file), "-noout", "-dates"]
    lines = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    wanted = [
        datetime.strptime(line.partition("=")[2], "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC).strftime("%Y%m%d%H%M%SZ")
        for line in lines
    ]

    assert list(validity(ssl.PEM_cert_to_DER_cert(pair.cert_file.read_text()))) == wanted


@given(st.binary(max_size=60))
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(NotACertificate):
        validity(b"\x30\x3e\x30\x3c" + data)


@pytest.mark.parametrize(
    ("kind", "name"), [("none", None), ("common-name", "pump-7"), ("subject", r"CN=pump-7,O=Plant\, Inc.,C=SE")]
)
def test_the_user_name_is_of_the_subject(kind: str, name: str | None) -> None:
    assert identity({"subject": SUBJECT}, kind) == name
    assert identity({}, kind) is None


@pytest.mark.parametrize(
    "subject",
    [
        (),
        ((("organizationName", "Plant"),),),
        ((("commonName", "a"),), (("commonName", "admin"),)),
        ((("commonName", "admin\0.example"),),),
        ((("commonName", ""),),),
    ],
)
def test_a_certificate_that_names_nobody_or_two_is_refused(subject: tuple[tuple[tuple[str, str], ...], ...]) -> None:
    with pytest.raises(NotACertificate):
        identity({"subject": subject, "version": 3}, "common-name")


def test_no_two_subjects_have_one_name() -> None:
    one = ((("organizationName", "a"),), (("commonName", "b,O=c"),))
    other = ((("organizationName", "a"),), (("organizationName", "c"),), (("commonName", "b"),))

    assert identity({"subject": one}, "subject") != identity({"subject": other}, "subject")
