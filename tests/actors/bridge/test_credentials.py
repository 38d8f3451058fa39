"""Credentials read from real files, the environment and real programs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.remote.credentials import Credentials, sources_of
from actors.remote.remote_socket import open_remote
from actors.remote.secret_source import run
from tests.support.authority import Authority
from tests.support.ports import free_port
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S, wait_until
from tests.wire.exchange.test_credential_expiry import jwt
from wire.config_settings import AuthenticationSettings, CredentialSettings, RemoteSettings, TlsSettings
from wire.errors import Unavailable

pytestmark = pytest.mark.process


def remote(**changed: Any) -> RemoteSettings:
    """The settings of a remote with those changes."""
    settings: RemoteSettings = replace(bridge().remote, **({"username": "edge"} | changed))
    return settings


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-I", "-c", code


def test_a_command_says_the_secret_in_the_first_line_of_its_output() -> None:
    assert run(python("print('secret'); print('and more')"), PATIENCE_S) == "secret"
    assert run(("echo", "$HOME; $(id)", "'"), PATIENCE_S) == "$HOME; $(id) '", "no shell reads its arguments"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "import sys; print('secret'); print('no', file=sys.stderr); print('no network', file=sys.stderr); sys.exit(3)",
            "no network",
        ),
        ("import sys; print('secret'); sys.exit(1)", "it says nothing"),
        ("pass", "wrote nothing"),
        ("print()", "wrote nothing"),
        ("print('secret' * 20000)", "writes more than"),
        ("while True: print('secret' * 1000)", "writes more than"),
        ("import sys\nwhile True: print('secret')", "writes more than"),
    ],
)
def test_a_command_that_fails_says_why_and_nothing_of_its_output(code: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as raised:
        run(python(code), PATIENCE_S)
    assert "secret" not in str(raised.value)


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    code = f"import os, time\nif os.fork() == 0: open({str(child)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    with pytest.raises(ValueError, match="took longer than 1 s"):
        run(python(code), 1.0)
    wait_until(
        lambda: child.exists() and child.read_text() != "" and not _lives(int(child.read_text())), PATIENCE_S, "it has ended"
    )


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_program_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    program = tmp_path / "token"
    program.write_text("#!/bin/sh\necho secret\n")
    program.chmod(0o777)
    with pytest.raises(PermissionError, match="others can write"):
        run((str(program),), PATIENCE_S)
    program.chmod(0o755)
    assert run((str(program),), PATIENCE_S) == "secret"


def test_the_environment_has_it_or_it_is_said_which_variable_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGE_TOKEN", "secret")
    assert Credentials(remote(password_env="EDGE_TOKEN")).login().password == "secret"
    monkeypatch.delenv("EDGE_TOKEN")
    with pytest.raises(Unavailable, match="no EDGE_TOKEN, which password_env names"):
        Credentials(remote(password_env="EDGE_TOKEN")).login()


def test_the_last_good_one_is_used_while_it_holds_and_no_longer(tmp_path: Path) -> None:
    now_s = 1_000.0
    secret = tmp_path / "token"
    secret.write_text(jwt(exp=2_000))
    wanted = AuthenticationSettings(method="CUSTOM-JWT", data_file=str(secret))
    credentials = Credentials(remote(authentication=wanted), lambda: now_s)
    first = credentials.login()
    assert (first.data, first.ends_at_s, first.stale) == (secret.read_bytes(), 2_000.0, "")

    secret.unlink()
    again = credentials.login()
    assert again.is_same(first)
    assert str(secret) in again.stale
    now_s = 2_000.0
    with pytest.raises(Unavailable, match="credentials: "):
        credentials.login()


def test_a_command_runs_again_when_its_token_is_due_or_was_refused_and_not_for_each_connection(tmp_path: Path) -> None:
    now_s = 1_000.0
    runs = tmp_path / "runs"
    code = f"open({str(runs)!r}, 'a').write('x'); print({jwt(exp=5_000)!r})"
    settings = remote(password_command=python(code), credentials=CredentialSettings(renew_before_s=100.0))
    credentials = Credentials(settings, lambda: now_s)
    for _ in range(3):
        assert credentials.login().ends_at_s == 5_000
    assert runs.read_text() == "x"
    credentials.on_refused()
    credentials.login()
    assert runs.read_text() == "xx"
    now_s = 4_901.0
    credentials.login()
    assert runs.read_text() == "xxx"
    credentials.renewed()
    credentials.login()
    assert runs.read_text() == "xxxx", "what was just read is used"


def test_a_change_of_a_file_is_taken_up_once_it_is_the_same_for_two_looks(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("one")
    credentials = Credentials(remote(password_file=str(secret)))
    credentials.login()
    assert not credentials.has_changed()
    secret.write_text("two and")
    assert not credentials.has_changed(), "it may be half of it"
    secret.write_text("two and three")
    assert not credentials.has_changed()
    assert credentials.has_changed()
    assert credentials.renewed().password == "two and three"
    assert not credentials.has_changed()


def test_a_passphrase_is_asked_for_once_a_connection(tmp_path: Path) -> None:
    authority, runs = Authority(tmp_path), tmp_path / "runs"
    own = authority.issue("own")
    code = f"print('open sesame'); open({str(runs)!r}, 'a').write('.')"
    tls = TlsSettings(cert_file=str(own.cert_file), key_file=str(own.key_file), key_passphrase_command=python(code))
    settings = remote(transport="tls", tls=tls, connect_timeout_s=PATIENCE_S)
    login = Credentials(settings).login()
    with pytest.raises(Unavailable):
        open_remote(settings, "c", ("127.0.0.1", free_port()), clean=False, login=login)
    assert runs.read_text() == "."


def test_no_secret_is_in_what_a_log_would_show_of_a_login() -> None:
    os.environ["EDGE_TOKEN"] = "secret"
    try:
        assert "secret" not in repr(Credentials(remote(password_env="EDGE_TOKEN")).login())
    finally:
        del os.environ["EDGE_TOKEN"]


def test_what_a_check_can_see_without_running_a_command(tmp_path: Path) -> None:
    password, data = sources_of(remote(password_command=("no-such-program",)))
    assert password.fault() == "there is no program no-such-program"
    assert data.fault() is None
    assert sources_of(remote(password_command=("true",)))[0].fault() is None
    assert sources_of(remote(password_file=str(tmp_path / "none")))[0].fault()
