"""TLS towards remote brokers: the context of a connection."""

from __future__ import annotations

import ssl
from typing import Any

from actors.remote.secret_source import Source
from actors.system.tls import VERSIONS, choose_ciphers, revoke, show, trust, trust_folder
from wire.config_settings import TlsSettings


class _NamedContext(ssl.SSLContext):
    """Asks for, and checks, another name than the address says."""

    server_name: str = ""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        if self.server_name:
            options["server_hostname"] = self.server_name
        return super().wrap_socket(*arguments, **options)


def context(settings: TlsSettings, passphrase: str | None) -> ssl.SSLContext:
    """The context for a connection; files are read anew each time, so that renewed certificates count.

    passphrase: of the key, where it has one.

    Raises:
        FileFault: a file cannot be used.
        OSError, ValueError: OpenSSL refuses one, or one cannot be read.
    """
    made = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    made.server_name = settings.server_name or ""
    made.minimum_version = VERSIONS[settings.min_version]
    if settings.ciphers:
        choose_ciphers(made, settings.ciphers)
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
        show(made, settings.cert_file, settings.key_file, passphrase)
    if settings.alpn:
        made.set_alpn_protocols(list(settings.alpn))
    return made


def passphrase_of(settings: TlsSettings) -> Source:
    """Where the passphrase of the key comes from."""
    return Source(
        key="key_passphrase",
        file=settings.key_passphrase_file,
        variable=settings.key_passphrase_env,
        command=settings.key_passphrase_command,
    )
