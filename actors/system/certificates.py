"""Facts of a certificate: when it is valid, and whom it names. Pure.

``ssl`` tells neither dates nor names of a certificate that was not verified by it, so the dates are read from its DER here: the
outer fields only, as far as the validity (RFC 5280, section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wire.errors import Unavailable

CHECK_PERIOD_S = 1.0  # how often the files of a certificate are looked at
NONE, COMMON_NAME, SUBJECT = "none", "common-name", "subject"  # what of a client's certificate is its user name

_SHORT = {  # RFC 4514, section 3
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SEQUENCE, _INTEGER, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x02, 0x17, 0x18, 0xA0


class CertificateFault(Unavailable):
    """A certificate, key or list of authorities cannot be used; ``key`` names the setting at fault."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message, key=key)
        self.key = key


class NotACertificate(ValueError):
    """These bytes are no certificate, or it names nobody; the message says which."""


def validity(der: bytes) -> tuple[str, str]:
    """(not before, not after) of the certificate ``der``, as UTC texts of one form that sort by time: ``20261121070442Z``.

    Raises:
        NotACertificate: it is none.
    """
    certificate, _ = _field(der, 0, _SEQUENCE)
    fields, _ = _field(certificate, 0, _SEQUENCE)
    at = 0
    if fields[:1] == bytes((_VERSION,)):
        _, at = _field(fields, at, _VERSION)
    for kind in (_INTEGER, _SEQUENCE, _SEQUENCE):  # serial number, signature algorithm, issuer
        _, at = _field(fields, at, kind)
    dates, _ = _field(fields, at, _SEQUENCE)
    before, at = _time(dates, 0)
    after, _ = _time(dates, at)
    return before, after


def _time(data: bytes, at: int) -> tuple[str, int]:
    if data[at : at + 1] == bytes((_UTC_TIME,)):
        raw, at = _field(data, at, _UTC_TIME)
        text = raw.decode("ascii", "replace")
        return ("20" if text[:2] < "50" else "19") + text, at
    raw, at = _field(data, at, _GENERALIZED_TIME)
    return raw.decode("ascii", "replace"), at


def _field(data: bytes, at: int, kind: int) -> tuple[bytes, int]:
    """The content of the field of ``kind`` at ``at``, and where the next one begins."""
    if len(data) < at + 2 or data[at] != kind:
        raise NotACertificate("no certificate is in it")
    length, start = data[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    if start + length > len(data):
        raise NotACertificate("the certificate in it is cut off")
    return data[start : start + length], start + length


def identity(certificate: Mapping[str, Any], kind: str) -> str | None:
    """The user name that ``certificate`` (as ``ssl`` describes a peer's) stands for by ``kind``; None where it stands for none.

    Raises:
        NotACertificate: it has no common name or several, an empty subject, or a control character in what would be the name.
    """
    if kind == NONE or not certificate:
        return None
    subject: tuple[tuple[tuple[str, str], ...], ...] = certificate.get("subject", ())
    if kind == COMMON_NAME:
        names = [value for part in subject for key, value in part if key == "commonName"]
        if len(names) != 1:
            raise NotACertificate(f"the certificate has {len(names)} common names")
        name = names[0]
    else:
        name = distinguished_name(subject)
    if not name or any(ord(character) < 0x20 or ord(character) == 0x7F for character in name):
        raise NotACertificate("the certificate's name cannot be a user name")
    return name


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """``subject`` as text, last part first: ``CN=pump,O=Plant`` (RFC 4514, section 2)."""
    parts = ["+".join(f"{_SHORT.get(key, key)}={_escaped(value)}" for key, value in part) for part in subject]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    escaped = "".join("\\" + character if character in '"+,;<>\\' else character for character in value)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    if len(value) > 1 and value.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    return escaped
