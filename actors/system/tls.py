"""TLS towards local clients: the context made of a listener's files, made again when they change, and the TLS of one connection.

Bytes in, bytes out, through memory: sockets are ``actors/access/client.py``'s. TLS towards remotes is
``actors/remote/remote_tls.py``'s.
"""

from __future__ import annotations

import logging
import os
import ssl

from actors.system.certificates import CertificateFault, NotACertificate, identity, validity
from actors.system.plain_file import read_plain
from actors.system.watched_file import State, state_of
from storage import trusted_files
from wire.config_settings import ListenerTlsSettings

log = logging.getLogger("bascule")

READ_BYTES = 16_384  # no record holds more, and room for more would be made for each read
FILE_BYTES_MAX = 16 * 1024 * 1024

VERSIONS = {"tls1.2": ssl.TLSVersion.TLSv1_2, "tls1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_PROVIDERS = {"TSS2 PRIVATE KEY": "tpm2", "PKCS#11 PROVIDER URI": "pkcs11"}  # what a PEM file may hold in place of a key
_PEM_BEGIN, _PEM_END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def certificate_dates(path: str) -> tuple[str, str]:
    """(not before, not after) of the first certificate in ``path``, as UTC texts that sort by time: ``20261121070442Z``.

    Raises:
        FileFault: there is none.
    """
    try:
        text = read_plain(path, FILE_BYTES_MAX).decode("ascii", errors="replace")
        start, end = text.index(_PEM_BEGIN), text.index(_PEM_END)
        return validity(ssl.PEM_cert_to_DER_cert(text[start : end + len(_PEM_END)]))
    except (OSError, ValueError, NotACertificate) as error:
        raise CertificateFault("cert_file", f"{path} holds no certificate in PEM: {error}") from error


def server_context(settings: ListenerTlsSettings, alpn: str = "mqtt") -> ssl.SSLContext:
    """A context for new connections, from what is in the files now.

    Raises:
        FileFault: a file cannot be read or does not fit the others.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[settings.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols([alpn])
    show(context, settings.cert_file, settings.key_file)
    if settings.ca_file:
        trust(context, settings.ca_file)
    context.verify_mode = _VERIFY[settings.client_certificate]
    if settings.crl_file:
        revoke(context, settings.crl_file)
    if settings.ciphers:
        choose_ciphers(context, settings.ciphers)
    return context


def choose_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    """Have ``context`` offer these of TLS 1.2.

    Raises:
        FileFault: there are none of them.
    """
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError as error:
        raise CertificateFault("ciphers", f"{ciphers} selects no cipher of this OpenSSL") from error


def show(context: ssl.SSLContext, cert_file: str, key_file: str, passphrase: str | None = None) -> None:
    """Have ``context`` show the certificate in ``cert_file``; ``passphrase`` opens its key, if that has one.

    Raises:
        FileFault: a file cannot be read, or they do not fit each other.
    """
    certificate_dates(cert_file)
    _need_own("key_file", key_file)
    try:
        context.load_cert_chain(cert_file, key_file, password=_refuse_to_ask if passphrase is None else passphrase)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CertificateFault("key_file", _why_no_key(cert_file, key_file, passphrase, error)) from error


def _why_no_key(cert_file: str, key_file: str, passphrase: str | None, error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"{key_file} is not the key of {cert_file}"
    if (provider := _provider_of(key_file)) is not None:
        return (
            f"{key_file} names a key that OpenSSL's provider {provider} has: the provider is not loaded (OPENSSL_CONF), "
            "finds no such key, or wants another key_passphrase"
        )
    if not isinstance(error, ssl.SSLError):
        return f"{key_file} cannot be read: {error}"
    if passphrase is not None:
        return f"{key_file} holds no key in PEM, or one with another passphrase"
    return f"{key_file} holds no key in PEM, or not one to use ({_reason(error)})"


def _provider_of(key_file: str) -> str | None:
    """The provider that a key outside of ``key_file`` is reached by; None where the file is no reference to one."""
    try:
        text = read_plain(key_file, FILE_BYTES_MAX).decode("ascii", errors="replace")
    except OSError:
        return None
    return next((provider for label, provider in _PROVIDERS.items() if f"-----BEGIN {label}-----" in text), None)


def trust(context: ssl.SSLContext, ca_file: str) -> None:
    """Have ``context`` trust the authorities in ``ca_file``.

    Raises:
        FileFault: it cannot be read, or there are none in it.
    """
    _need_own("ca_file", ca_file)
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise CertificateFault("ca_file", f"{ca_file} holds no certificates in PEM ({_reason(error)})") from error


def trust_folder(context: ssl.SSLContext, ca_path: str) -> None:
    """Have ``context`` trust the authorities in the folder ``ca_path``, as ``openssl rehash`` names them.

    Raises:
        FileFault: it is no folder, or somebody else can change it.
    """
    if not os.path.isdir(ca_path):
        raise CertificateFault("ca_path", f"{ca_path} is not a folder")
    if found := trusted_files.fault(ca_path, trusted_files.owner_of(ca_path)):
        raise CertificateFault("ca_path", found)
    context.load_verify_locations(capath=ca_path)


def revoke(context: ssl.SSLContext, crl_file: str) -> None:
    """Have ``context`` refuse a certificate that a list in ``crl_file`` names, or whose authority has no list there that holds.

    Raises:
        FileFault: it cannot be read, or there are none in it.
    """
    _need_own("crl_file", crl_file)
    try:
        found = context.cert_store_stats()["crl"]
        context.load_verify_locations(crl_file)
        if context.cert_store_stats()["crl"] == found:
            raise ValueError("none in it")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = _reason(error) if isinstance(error, OSError) else str(error)
        raise CertificateFault("crl_file", f"{crl_file} holds no revocation lists in PEM ({why})") from error
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _need_own(key: str, path: str) -> None:
    """Raises FileFault where ``path`` is no file, or somebody else can change it."""
    if os.path.exists(path) and not os.path.isfile(path):  # OpenSSL would wait for who writes a pipe
        raise CertificateFault(key, f"{path} is not a file")
    try:
        trusted_files.check(path)
    except PermissionError as error:
        raise CertificateFault(key, str(error.strerror)) from error


def _refuse_to_ask() -> str:
    raise ValueError("it has a passphrase; a bridge's is key_passphrase_file, a listener's key has none")


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or str(error)


class Certificates:
    """The context of one listener, made again when a file has changed. New connections get the new one; no session ends.

    A change is taken up once it has been the same for two looks, because a certificate and its key are two files.
    """

    def __init__(self, settings: ListenerTlsSettings, bind: str, alpn: str) -> None:
        """Raises FileFault if the files cannot be used."""
        self._settings = settings
        self._bind = bind
        self._alpn = alpn
        self._files = (settings.cert_file, settings.key_file, settings.ca_file, settings.crl_file)
        self._used = self._seen = self._state()
        self.context = server_context(settings, alpn)
        self.reloads = 0
        self.refused = 0

    def reload(self) -> None:
        """Take up what has changed; a file that cannot be used is told once, and the context before it stays."""
        seen, self._seen = self._seen, self._state()
        if self._seen == self._used or self._seen != seen:
            return
        self._used = self._seen
        try:
            self.context = server_context(self._settings, self._alpn)
        except CertificateFault as fault:
            self.refused += 1
            log.error("certificates.refused", extra={"bind": self._bind, "key": fault.key, "error": fault.message})
            return
        self.reloads += 1
        log.info("certificates.reloaded", extra={"bind": self._bind, "cert_file": self._settings.cert_file})

    def warn_of_dates(self, now: str) -> None:
        """Log it if the certificate is not valid at ``now``, such as ``20261121070442Z``; clients judge by their own clocks."""
        before, after = certificate_dates(self._settings.cert_file)
        if not before <= now <= after:
            extra = {"bind": self._bind, "cert_file": self._settings.cert_file, "not_before": before, "not_after": after}
            log.warning("certificates.not_valid_now", extra=extra)

    def _state(self) -> tuple[State, ...]:
        return tuple(state_of(path) for path in self._files if path)


class TlsLayer:
    """The server's TLS of one connection (see ``actors.access.transport_layers.Layer``)."""

    def __init__(self, context: ssl.SSLContext, identity_kind: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._identity_kind = identity_kind
        self.held_bytes = 0
        self.established = False
        self.ended = ""
        self.failed = False
        self.certificate_user: str | None = None

    def receive(self, data: bytes) -> bytes:
        """The text of ``data``, decrypted: all of it, so that nothing readable is left behind an unreadable socket."""
        self._incoming.write(data)
        pieces: list[bytes] = []
        try:
            if not self.established:
                self._tls.do_handshake()
                self.established = True
                self.certificate_user = identity(self._tls.getpeercert() or {}, self._identity_kind)
            while piece := self._tls.read(READ_BYTES):
                pieces.append(piece)
            self.ended = "tls_closed"
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = "tls_closed"
        except ssl.SSLError as error:
            self._fail(getattr(error, "verify_message", "") or error.reason or str(error))
        except NotACertificate as error:
            self._fail(str(error))
        self.held_bytes = 0 if pieces else self.held_bytes + len(data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _fail(self, why: str) -> None:
        self.ended = f"tls: {why}"
        self.failed = True

    def send(self, data: bytes) -> bytes:
        """``data``, encrypted; nothing once TLS has failed."""
        if self.failed or not self.established:
            return b""
        self._tls.write(data)
        return self._outgoing.read()

    def answer(self) -> bytes:
        """TLS's own output: the handshake, tickets, an alert."""
        return self._outgoing.read()

    def goodbye(self) -> bytes:
        """close_notify, so that the client can tell the end from a cut."""
        if self.established and not self.failed:
            try:
                self._tls.unwrap()
            except ssl.SSLError:  # it wants the client's in return, for which nobody waits
                pass
        return self._outgoing.read()
