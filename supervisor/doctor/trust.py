"""Trust: certificates and their dates, who can read secrets, checks that are switched off, who is let in."""

from __future__ import annotations

import calendar
import ipaddress
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from actors.system.certificates import CertificateFault
from actors.system.tls import certificate_dates
from storage import trusted_files
from supervisor.config.named_files import SECRET_KEYS, named_by, named_files
from supervisor.doctor.findings import Finding, fail, ok, warn
from wire.config_settings import ListenerSettings, NodeSettings

SOON_S = 30 * 86_400


def examine_trust(settings: NodeSettings, now_s: float) -> Iterator[Finding]:
    """All findings on certificates, secrets and who is let in."""
    for path in named_by(settings, ("cert_file", "ca_file")):
        yield certificate(path, now_s)
    secrets = named_by(settings, SECRET_KEYS)
    readable = [path for path in secrets if os.path.exists(path) and os.stat(path).st_mode & 0o004]
    for path in readable:
        yield warn("secret", f"{path} can be read by every user of this machine", f"chmod o-rwx {path}")
    if secrets and not readable:
        yield ok("secrets", "nobody else can read them")
    for bridge in settings.bridges:
        if bridge.remote.secure and not bridge.remote.tls.verify:
            cure = "give tls.ca_file, and remove verify: false"
            yield warn(f"bridge {bridge.name}", "verify: false: anybody on the path can take the remote's place", cure)
        if bridge.remote.secure and bridge.remote.tls.verify and not bridge.remote.tls.verify_name:
            found = "verify_name: false: whoever has a certificate of the authorities can take the remote's place"
            yield warn(f"bridge {bridge.name}", found, "give tls.server_name instead, the name that the certificate has")
    for listener in settings.listeners:
        yield from _everybody(settings, listener)
    if settings.http is not None and settings.http.tls is None and not _is_loopback(settings.http.host):
        found = "without TLS anybody on the path can read the tokens"
        yield warn(
            f"http {settings.http.bind}", found, "give http.tls, or bind it to 127.0.0.1 behind a proxy that has a certificate"
        )
    yield from _headers_in_clear(settings)


def _headers_in_clear(settings: NodeSettings) -> Iterator[Finding]:
    otlp = settings.telemetry.otlp if settings.telemetry is not None else None
    url = urlsplit(otlp.endpoint) if otlp is not None else None
    if otlp is not None and url is not None and otlp.headers and url.scheme == "http" and not _is_loopback(url.hostname or ""):
        found = "without TLS anybody on the path can read its headers"
        yield warn(f"telemetry to {otlp.endpoint}", found, "take an endpoint with https, or a collector on this machine")


def examine_files(config: Path, data_dir: str) -> Iterator[Finding]:
    """Whether others can change the configuration, a file that it is made of or names, or the data folder.

    Those with secrets are not among them: with such a fault the configuration is refused.
    """
    for path in (*(file.path for file in named_files(config) if not file.secret), Path(data_dir)):
        if fault := trusted_files.fault(path, trusted_files.owner_of(data_dir)):
            found, _, cure = fault.rpartition(": ")
            yield fail("file", found or fault, cure)


def certificate(path: str, now_s: float) -> Finding:
    """Whether the first certificate in ``path`` is valid, and for how long."""
    about = f"certificate {path}"
    try:
        before, after = (calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ")) for text in certificate_dates(path))
    except CertificateFault as fault:
        return fail(about, fault.message, "write a certificate in PEM there")
    until = time.strftime("%Y-%m-%d %H:%MZ", time.gmtime(after))
    if now_s < before:
        return fail(about, "is not valid yet", "check the clock, or have it made anew")
    if now_s > after:
        return fail(about, f"has expired on {until}", "have it made anew; the node takes it up by itself")
    if now_s > after - SOON_S:
        return warn(about, f"expires on {until}", "have it made anew; the node takes it up by itself")
    return ok(about, f"valid until {until}")


def _everybody(settings: NodeSettings, listener: ListenerSettings) -> Iterator[Finding]:
    access = listener.access or settings.access
    if listener.unix_path or not access.allow_anonymous or (_is_loopback(listener.host) and not listener.proxy_protocol):
        return
    if access.acl is None:
        found = "everybody who reaches it may publish and read everything, without a password"
        yield warn(f"listener {listener.bind}", found, "write access.password_file and an acl, or bind it to 127.0.0.1")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
