"""TLS towards remote brokers: the context of a connection."""

from __future__ import annotations

import ssl
import sys
from dataclasses import dataclass, field
from typing import Any

from actors.remote.secret_source import Source
from actors.system.certificates import CertificateFault
from actors.system.tls import VERSIONS, choose_ciphers, revoke, show, trust, trust_folder
from wire.config_settings import TlsSettings

PSK_CIPHERS = "kECDHEPSK:kDHEPSK:kPSK:!eNULL:!NULL"  # of TLS 1.2; no certificate takes part in them
PSK_BYTES_MAX = 512  # OpenSSL takes no longer one


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSecrets:
    """What a connection's TLS has to know: the passphrase of the certificate's key, and the pre-shared key, where there is one."""

    passphrase: str | None = field(default=None, repr=False)
    psk: bytes | None = field(default=None, repr=False)


class _NamedContext(ssl.SSLContext):
    """Asks for, and checks, another name than the address says."""

    server_name: str = ""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        if self.server_name:
            options["server_hostname"] = self.server_name
        return super().wrap_socket(*arguments, **options)


def context(settings: TlsSettings, secrets: TlsSecrets) -> ssl.SSLContext:
    """The context for a connection; files are read anew each time, so that renewed certificates count.

    Raises:
        FileFault: a file cannot be used.
        OSError, ValueError: OpenSSL refuses one, or one cannot be read.
    """
    made = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    made.server_name = settings.server_name or ""
    made.minimum_version = VERSIONS[settings.min_version]
    if settings.alpn:
        made.set_alpn_protocols(list(settings.alpn))
    if settings.ciphers:
        choose_ciphers(made, settings.ciphers)
    if settings.psk_identity is not None:
        _share_key(made, settings, secrets.psk or b"")
        return made
    if not (settings.verify and settings.verify_name):
        made.check_hostname = False
    if not settings.verify:
        made.verify_mode = ssl.CERT_NONE
    if settings.ca_file:
        trust(made, settings.ca_file)
    if settings.ca_path:
        trust_folder(made, settings.ca_path)
    if not (settings.ca_file or settings.ca_path):
        made.load_default_certs()
    if settings.crl_file:
        revoke(made, settings.crl_file)
    if settings.cert_file and settings.key_file:
        show(made, settings.cert_file, settings.key_file, secrets.passphrase)
    return made


def _share_key(made: ssl.SSLContext, settings: TlsSettings, key: bytes) -> None:
    """Have both sides prove that they know ``key``. No authority is trusted, so a remote that shows a certificate is refused."""
    if sys.version_info < (3, 13):
        raise CertificateFault("psk_identity", f"needs Python 3.13; this is {sys.version_info.major}.{sys.version_info.minor}")
    if not settings.ciphers:
        choose_ciphers(made, PSK_CIPHERS)
    made.check_hostname = False  # no certificate has a name
    made.set_psk_client_callback(lambda _hint: (settings.psk_identity, key))


def secrets_of(settings: TlsSettings, timeout_s: float) -> TlsSecrets:
    """The secrets as they are now; blocks.

    Raises:
        OSError, ValueError: one cannot be had, or the pre-shared key is not in hexadecimal.
    """
    passphrase = Source(
        key="key_passphrase",
        file=settings.key_passphrase_file,
        variable=settings.key_passphrase_env,
        command=settings.key_passphrase_command,
    )
    psk = Source(key="psk", file=settings.psk_file, variable=settings.psk_env, command=settings.psk_command)
    return TlsSecrets(passphrase=passphrase.read(timeout_s), psk=_key_of(psk.read(timeout_s)))


def _key_of(text: str | None) -> bytes | None:
    """The key that ``text`` is in hexadecimal. Raises ValueError: it is none; the error shows nothing of it."""
    if text is None:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        raise ValueError("the pre-shared key is not in hexadecimal") from None
    if not 0 < len(key) <= PSK_BYTES_MAX:
        raise ValueError(f"the pre-shared key has {len(key)} bytes; it may have 1 to {PSK_BYTES_MAX}")
    return key
