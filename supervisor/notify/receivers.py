"""Receivers of a rule's notices, and the sending of one notice to each. Blocks, so it is done in threads. The owner of urllib3.

Nothing that is said of a failure has a secret in it: of a URL only scheme and host are told.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import smtplib
import ssl
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from email.message import EmailMessage
from urllib.parse import urlsplit

import urllib3

from actors.remote.secret_source import CannotRead, Source
from actors.system.certificates import CertificateFault
from actors.system.tls import show, trust
from storage import trusted_files
from supervisor.notify.formats import FORMATS, PAGERDUTY_URL, as_json, details, title
from supervisor.notify.notices import Notice
from supervisor.units import parse_address
from supervisor.version import VERSION
from wire.config_settings import ClientTlsSettings, EmailSettings, NoticeSettings, WebhookSettings
from wire.errors import Unavailable

COMMAND_TIMEOUT_S = 30.0
_SAID_MAX = 200
_TAKEN = range(200, 300)


class NotTaken(Unavailable):
    """The receiver has not taken a notice, or nobody knows whether it has; ``message`` says why."""


class Receiver(ABC):
    """Takes the notices of one rule."""

    @abstractmethod
    def send(self, notice: Notice) -> None:
        """Have it take ``notice``. Blocks for its timeout at most, and a name look-up.

        Raises:
            NotTaken: it has not, or nobody knows.
        """


def receivers_of(rule: NoticeSettings) -> Iterator[tuple[str, Receiver]]:
    """The receivers of ``rule`` that this process reaches by itself, with their names."""
    if rule.webhook is not None:
        yield f"{rule.name}:webhook", WebhookReceiver(rule.webhook)
    if rule.command:
        yield f"{rule.name}:command", CommandReceiver(rule.command)
    if rule.email is not None:
        yield f"{rule.name}:email", EmailReceiver(rule.email)


class WebhookReceiver(Receiver):
    """A web service. Redirects are not followed: what a URL is trusted with, another is not."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings

    def send(self, notice: Notice) -> None:
        settings = self._settings
        where = "the webhook"
        try:
            url = self._url()
            where = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
            key = Source(key="routing_key", file=settings.routing_key_file).read(0.0) or ""
            body = json.dumps(FORMATS[settings.format](notice, key)).encode()
            headers = {"content-type": "application/json", "user-agent": f"bascule/{VERSION}", **dict(settings.headers)}
            context = _client_context(settings.tls.ca_file, settings.tls) if url.startswith("https:") else None
            with urllib3.PoolManager(ssl_context=context, retries=False, timeout=settings.timeout_s) as pool:
                answer = pool.request("POST", url, body=body, headers=headers, redirect=False, preload_content=False)
                answer.close()
        except CannotRead as error:
            raise NotTaken(str(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise NotTaken(f"{where}: {_words(error)}") from error
        if answer.status not in _TAKEN:
            raise NotTaken(f"{where}: it answered {answer.status} {answer.reason or ''}".rstrip())

    def _url(self) -> str:
        settings = self._settings
        if settings.url_file is None:
            return settings.url or PAGERDUTY_URL
        url = (Source(key="url", file=settings.url_file).read(0.0) or "").strip()
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{settings.url_file} has no URL with http or https in its first line")
        return url


class CommandReceiver(Receiver):
    """A program, which gets the notice as JSON on its standard input. It and its children end in time."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command

    def send(self, notice: Notice) -> None:
        name = os.path.basename(self._command[0])
        try:
            path = shutil.which(self._command[0])
            if path is None:
                raise NotTaken(f"there is no program {name}")
            trusted_files.check(path)
            process = subprocess.Popen(
                [path, *self._command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except CannotRead as error:
            raise NotTaken(f"{name}: {error}") from error
        try:
            process.communicate(json.dumps(as_json(notice)).encode() + b"\n", COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise NotTaken(f"{name} took longer than {COMMAND_TIMEOUT_S:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode:
            raise NotTaken(f"{name} ended with {process.returncode}")


class EmailReceiver(Receiver):
    """A mail server."""

    def __init__(self, settings: EmailSettings) -> None:
        self._settings = settings

    def send(self, notice: Notice) -> None:
        settings = self._settings
        host, port = parse_address(settings.server)
        try:
            password = Source(key="password", file=settings.password_file).read(0.0)
            context = _client_context(settings.ca_file)
            if settings.security == "tls":
                server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=settings.timeout_s, context=context)
            else:
                server = smtplib.SMTP(host, port, timeout=settings.timeout_s)
            with server:
                if settings.security == "starttls":
                    server.starttls(context=context)
                if settings.user is not None:
                    server.login(settings.user, password or "")
                server.send_message(self._mail(notice))
        except smtplib.SMTPResponseException as error:
            raise NotTaken(f"{settings.server}: it answered {error.smtp_code}") from error
        except smtplib.SMTPRecipientsRefused as error:
            raise NotTaken(f"{settings.server}: it refuses {', '.join(error.recipients)}") from error
        except (smtplib.SMTPException, *CannotRead) as error:
            raise NotTaken(f"{settings.server}: {_words(error)}") from error

    def _mail(self, notice: Notice) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = " ".join(title(notice).split())
        mail["From"] = self._settings.sender
        mail["To"] = ", ".join(self._settings.to)
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(f"{title(notice)}\n\n{details(notice)}\n\nNode {notice.node}, rule {notice.rule}, {notice.id}\n")
        return mail


def _client_context(ca_file: str | None, tls: ClientTlsSettings | None = None) -> ssl.SSLContext:
    """Raises CertificateFault: a file does not hold what it should."""
    if ca_file is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust(context, ca_file)
    if tls is not None and tls.cert_file and tls.key_file:
        show(context, tls.cert_file, tls.key_file)
    return context


def _words(error: Exception) -> str:
    """The fault, without a URL in it."""
    reason = getattr(error, "reason", None) or error.__cause__ or error.__context__ or error
    if isinstance(reason, TimeoutError) or "timed out" in str(reason):
        return "no answer in time"
    if isinstance(reason, CertificateFault):
        return reason.message
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return type(reason).__name__
