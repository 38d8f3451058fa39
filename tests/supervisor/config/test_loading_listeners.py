"""The listeners' configuration: transports and their files are refused where they cannot work, with the key and what to do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.config.loading import load
from tests.support.authority import Authority
from tests.support.node import ROOT
from wire.config_settings import ListenerTlsSettings, ProxyProtocolSettings
from wire.errors import ConfigError

HEAD = """\
node: {name: edge-1, data_dir: data}
listeners: [{bind: "127.0.0.1:1883"}]
access: {allow_anonymous: true}
"""


def listener_of(folder: Path, keys: str) -> Path:
    """A configuration whose only listener has ``keys``."""
    path = folder / "node.yaml"
    path.write_text(HEAD.replace('{bind: "127.0.0.1:1883"}', f"{{{keys}}}"))
    return path


TLS_FILES = "cert_file: server.pem, key_file: server.key"


@pytest.mark.process
@pytest.mark.parametrize(
    ("keys", "key", "hint"),
    [
        ('bind: "127.0.0.1:1", protocol: tls', "tls", "is missing"),
        (f'bind: "127.0.0.1:1", tls: {{{TLS_FILES}}}', "tls", "has no effect with protocol tcp"),
        ('bind: "127.0.0.1:1", protocol: tls, tls: {cert_file: server.pem}', "tls.key_file", "is missing"),
        (
            'bind: "127.0.0.1:1", protocol: tls, tls: {cert_file: server.pem, key_file: other.key}',
            "tls.key_file",
            "is not the key of",
        ),
        ('bind: "127.0.0.1:1", protocol: tls, tls: {cert_file: server.pem, key_file: locked.key}', "tls.key_file", "passphrase"),
        ('bind: "127.0.0.1:1", protocol: tls, tls: {cert_file: server.pem, key_file: text}', "tls.key_file", "no key in PEM"),
        (
            'bind: "127.0.0.1:1", protocol: tls, tls: {cert_file: text, key_file: server.key}',
            "tls.cert_file",
            "no certificate in PEM",
        ),
        ('bind: "127.0.0.1:1", protocol: tls, tls: {cert_file: gone, key_file: server.key}', "tls.cert_file", "there is no file"),
        (f'bind: "127.0.0.1:1", protocol: tls, tls: {{{TLS_FILES}, client_certificate: required}}', "tls.ca_file", "must be given"),
        (f'bind: "127.0.0.1:1", protocol: tls, tls: {{{TLS_FILES}, ca_file: ca.pem}}', "tls.ca_file", "has no effect"),
        (
            f'bind: "127.0.0.1:1", protocol: tls, tls: {{{TLS_FILES}, identity: subject}}',
            "tls.identity",
            "needs client_certificate",
        ),
        (
            f'bind: "127.0.0.1:1", protocol: tls, tls: {{{TLS_FILES}, ca_file: text, client_certificate: optional}}',
            "tls.ca_file",
            "no certificates in PEM",
        ),
        (f'bind: "127.0.0.1:1", protocol: tls, tls: {{{TLS_FILES}, ciphers: NONE}}', "tls.ciphers", "selects no cipher"),
        (f'bind: "127.0.0.1:1", protocol: tls, tls: {{{TLS_FILES}}}, origins: ["a"]', "origins", "write protocol: ws or wss"),
        ('bind: "127.0.0.1:1", websocket_path: /m', "websocket_path", "write protocol: ws or wss"),
        ('bind: "127.0.0.1:1", unix_mode: "0600"', "unix_mode", "unix:/path"),
        ('bind: "unix:m.sock", unix_mode: 0600', "unix_mode", "in quotes"),
        ('bind: "unix:m.sock", proxy_protocol: {from: ["10.0.0.7"]}', "proxy_protocol", "bind 127.0.0.1"),
        ('bind: "127.0.0.1:1", proxy_protocol: {from: []}', "proxy_protocol.from", "at least one"),
        ('bind: "127.0.0.1:1", proxy_protocol: {identity: none}', "proxy_protocol.from", "missing"),
        ('bind: "127.0.0.1:1", proxy_protocol: {from: ["proxy.example"]}', "proxy_protocol.from[0]", "no network"),
        ('bind: "127.0.0.1:1", proxy_protocol: {from: ["10.1.0.7/24"]}', "proxy_protocol.from[0]", "host bits"),
        ('bind: "127.0.0.1:1", proxy_protocol: {from: ["::/0"]}', "proxy_protocol.from[0]", "everybody"),
        (
            f'bind: "127.0.0.1:1", protocol: tls, tls: {{{TLS_FILES}, ca_file: ca.pem, client_certificate: optional, '
            'identity: subject}, proxy_protocol: {from: ["10.0.0.7"], identity: common-name}',
            "proxy_protocol.identity",
            "two names",
        ),
        ('bind: "unix:"', "bind", "must not be empty"),
        ('bind: "unix:gone/m.sock"', "bind", "there is no folder"),
        (f'bind: "unix:{"x" * 110}"', "bind", "too long"),
        ('bind: "unix:a"}, {bind: "unix:./a"', "", "bound already by listeners[0]"),
        ('bind: "127.0.0.1:1"}, {bind: "0.0.0.0:1"', "", "bound already by listeners[0]"),
        ('bind: "[::]:1"}, {bind: "0.0.0.0:1"', "", "bound already by listeners[0]"),
        ('bind: "localhost:1"}, {bind: "LOCALHOST:1"', "", "bound already by listeners[0]"),
    ],
)
def test_a_listener_that_cannot_work_is_refused(tmp_path: Path, certificates: Path, keys: str, key: str, hint: str) -> None:
    for file in certificates.iterdir():
        shutil.copy(file, tmp_path)
    with pytest.raises(ConfigError) as refused:
        load(listener_of(tmp_path, keys))

    [problem] = refused.value.problems
    assert f"listeners[0].{key}: " in problem or "listeners[1].bind: " in problem
    assert hint in problem


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server's certificate and key, another key, one with a passphrase, and a text."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    pair = authority.issue("server")
    authority.issue("other")
    locking = ["openssl", "ec", "-in", str(pair.key_file), "-aes128", "-passout", "pass:secret", "-out", str(folder / "locked.key")]
    subprocess.run(locking, check=True, capture_output=True, timeout=30)
    (folder / "text").write_text("for the test\n")
    return folder


@pytest.mark.parametrize("other", ["127.0.0.2:1", "0.0.0.0:2", "[::1]:1"])
def test_listeners_that_do_not_meet_may_stand_side_by_side(tmp_path: Path, other: str) -> None:
    assert len(load(listener_of(tmp_path, f'bind: "127.0.0.1:1"}}, {{bind: "{other}"')).listeners) == 2


def test_a_listener_behind_proxies_may_have_names_of_certificates_as_the_only_logins(tmp_path: Path) -> None:
    keys = 'bind: "127.0.0.1:1", access: {allow_anonymous: false}, proxy_protocol: {from: ["10.0.0.7", "2001:DB8::/64"]'
    [listener] = load(listener_of(tmp_path, f"{keys}, identity: common-name}}")).listeners

    assert listener.proxy_protocol == ProxyProtocolSettings(sources=("10.0.0.7/32", "2001:db8::/64"), identity="common-name")
    with pytest.raises(ConfigError, match="nobody could log in"):
        load(listener_of(tmp_path, f"{keys}}}"))


@pytest.mark.process
def test_a_listener_has_what_was_written(tmp_path: Path, certificates: Path) -> None:
    for file in certificates.iterdir():
        shutil.copy(file, tmp_path)
    tls = f"{TLS_FILES}, ca_file: ca.pem, client_certificate: optional, identity: subject, min_version: tls1.3"
    keys = f'bind: "unix:m.sock", unix_mode: "600", protocol: wss, websocket_path: /m, connections_max: 7, tls: {{{tls}}}'

    [listener] = load(listener_of(tmp_path, keys)).listeners

    assert (listener.bind, listener.unix_mode, listener.protocol) == (f"unix:{tmp_path}/m.sock", 0o600, "wss")
    assert (listener.websocket_path, listener.connections_max, listener.origins) == ("/m", 7, ())
    assert listener.tls == ListenerTlsSettings(
        cert_file=str(tmp_path / "server.pem"),
        key_file=str(tmp_path / "server.key"),
        ca_file=str(tmp_path / "ca.pem"),
        client_certificate="optional",
        identity="subject",
        min_version="tls1.3",
    )


@pytest.mark.process
@pytest.mark.parametrize(("identity", "loads"), [("common-name", True), ("none", False)])
def test_certificates_are_a_way_to_log_in(tmp_path: Path, certificates: Path, identity: str, loads: bool) -> None:
    for file in certificates.iterdir():
        shutil.copy(file, tmp_path)
    tls = f"{TLS_FILES}, ca_file: ca.pem, client_certificate: required, identity: {identity}"
    path = listener_of(tmp_path, f'bind: "127.0.0.1:1", protocol: tls, tls: {{{tls}}}')
    path.write_text(path.read_text().replace("allow_anonymous: true", 'acl: [{users: ["plant:7"], topics: ["#"]}]'))

    if loads:
        assert not load(path).access.allow_anonymous
    else:
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert "nobody could log in" in str(caught.value.problems)


@pytest.mark.process
@pytest.mark.parametrize(("days", "status"), [(30, 0), (-1, 78)])
def test_check_says_when_a_certificate_is_not_valid_now(tmp_path: Path, days: int, status: int) -> None:
    """A node still runs with it: its own clock may be what is wrong."""
    Authority(tmp_path).issue("server", days=days)
    path = listener_of(tmp_path, f'bind: "127.0.0.1:1", protocol: tls, tls: {{{TLS_FILES}}}')
    words = [sys.executable, "-m", "supervisor.cli", "check", str(path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == status, done.stderr
    assert ("listeners[0].tls.cert_file" in done.stderr) == bool(status)
    assert load(path).listeners
