"""TLS towards remote brokers: the context of a connection."""

from __future__ import annotations

import ssl
from typing import Any

from actors.system.tls import show, trust
from wire.settings import TlsSettings


class _NamedContext(ssl.SSLContext):
    """Asks for, and checks, another name than the address says."""

    server_name: str = ""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        if self.server_name:
            options["server_hostname"] = self.server_name
        return super().wrap_socket(*arguments, **options)


def context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for a connection; files are read anew each time, so that renewed certificates count.

    Raises:
        FileFault: a file cannot be used.
        OSError: OpenSSL refuses one, or one cannot be read.
    """
    made = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    made.server_name = settings.server_name or ""
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if not settings.verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if settings.ca_file:
        trust(made, settings.ca_file)
    else:
        made.load_default_certs()
    if settings.cert_file and settings.key_file:
        show(made, settings.cert_file, settings.key_file)
    if settings.alpn:
        made.set_alpn_protocols(list(settings.alpn))
    return made
