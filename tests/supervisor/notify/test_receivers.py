"""Receivers that take a notice, refuse it, are away or hang; none of their failures tells a secret."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.notify import receivers
from supervisor.notify.notices import Notice, test_notice
from supervisor.notify.receivers import CommandReceiver, EmailReceiver, NotTaken, WebhookReceiver
from tests.supervisor.notify.web_service import WebService
from tests.support.ports import free_port
from wire.config_settings import EmailSettings, WebhookSettings

test_notice.__test__ = False  # type: ignore[attr-defined]  # no test, though it is called so
NOTICE = test_notice("edge", "r", 0)


@pytest.fixture
def service() -> Iterator[WebService]:
    with WebService() as service:
        yield service


def sent(notice: Notice = NOTICE, **settings: Any) -> None:
    WebhookReceiver(WebhookSettings(**settings)).send(notice)


def test_a_web_service_gets_it_with_the_headers_of_the_rule(service: WebService, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"{service.url}\n")
    sent(url_file=str(tmp_path / "url"), headers=(("authorization", "Bearer x"),))
    body, headers = service.taken.get_nowait()
    assert (body["state"], body["node"], headers["authorization"], headers["content-type"]) == (
        "test",
        "edge",
        "Bearer x",
        "application/json",
    )


@pytest.mark.parametrize("answer", [404, 429, 500, 307])
def test_another_answer_and_a_redirection_are_failures(service: WebService, answer: int) -> None:
    service.answer = answer
    with pytest.raises(NotTaken, match=f"it answered {answer}") as refused:
        sent(url=service.url)
    assert "secret-path" not in refused.value.message


def test_one_that_is_away_or_says_nothing_is_said_without_its_path() -> None:
    with pytest.raises(NotTaken, match=r"127\.0\.0\.1:\d+: ") as refused:
        sent(url=f"http://127.0.0.1:{free_port()}/secret-path")
    assert "secret-path" not in refused.value.message
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NotTaken, match="no answer in time") as refused:
        sent(url=f"http://127.0.0.1:{silent.getsockname()[1]}/secret-path", timeout_s=0.2)
    assert "secret-path" not in refused.value.message


def test_a_file_without_a_url_is_named(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("hooks.example\n")
    with pytest.raises(NotTaken, match="url has no URL"):
        sent(url_file=str(tmp_path / "url"))


# --- programs ---


def script(folder: Path, text: str) -> str:
    path = folder / "hook"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.process
def test_a_program_reads_it_as_json(tmp_path: Path) -> None:
    CommandReceiver((script(tmp_path, 'cat > "$1"'), str(tmp_path / "got"))).send(NOTICE)
    assert json.loads((tmp_path / "got").read_text())["state"] == "test"


@pytest.mark.process
def test_a_program_that_fails_hangs_or_is_not_there_has_not_taken_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "COMMAND_TIMEOUT_S", 0.3)
    with pytest.raises(NotTaken, match="hook ended with 3"):
        CommandReceiver((script(tmp_path, "exit 3"),)).send(NOTICE)
    with pytest.raises(NotTaken, match=r"hook took longer than 0\.3 s"):
        CommandReceiver((script(tmp_path, "sleep 60 & wait"),)).send(NOTICE)
    with pytest.raises(NotTaken, match="there is no program hoo"):
        CommandReceiver((str(tmp_path / "hoo"),)).send(NOTICE)
    (tmp_path / "hook").chmod(0o777)
    with pytest.raises(NotTaken, match="hook"):  # others may change it
        CommandReceiver((str(tmp_path / "hook"),)).send(NOTICE)


# --- mail ---


class MailServer:
    """Speaks as much SMTP as one mail takes; ``refuses``: the verb that it answers 550."""

    def __init__(self, refuses: str = "") -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.lines: list[str] = []
        self._refuses = refuses
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection, connection.makefile("rwb", buffering=0) as stream:
            stream.write(b"220 mail\r\n")
            data = False
            for line in stream:
                text = line.decode().rstrip("\r\n")
                self.lines.append(text)
                verb = text.partition(" ")[0].upper()
                if data and text != ".":
                    continue
                answer = {"DATA": b"354 go on", "QUIT": b"221 bye"}.get(verb, b"250 well")
                if verb == self._refuses:
                    answer = b"550 no"
                data = verb == "DATA" and answer[:1] == b"3"
                stream.write(answer + b"\r\n")
                if verb == "QUIT":
                    return

    def close(self) -> None:
        self._thread.join(5)
        self._server.close()


def mail(server: MailServer) -> None:
    try:
        EmailReceiver(
            EmailSettings(server=server.address, to=("a@example.com", "b@example.com"), sender="edge@example.com", security="none")
        ).send(NOTICE)
    finally:
        server.close()


def test_a_mail_is_for_all_of_them_and_says_what_is_the_matter() -> None:
    server = MailServer()
    mail(server)
    assert "Subject: Test at edge: node: this is a test: notices of this rule arrive here" in server.lines
    assert [line for line in server.lines if line.lower().startswith("rcpt")] == [
        "rcpt TO:<a@example.com>",
        "rcpt TO:<b@example.com>",
    ]


def test_a_server_that_refuses_whom_it_is_for_is_said() -> None:
    with pytest.raises(NotTaken, match=r"it refuses a@example\.com, b@example\.com"):
        mail(MailServer("RCPT"))
    with pytest.raises(NotTaken, match="it answered 550"):
        mail(MailServer("MAIL"))
