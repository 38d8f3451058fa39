"""TLS towards a remote with real certificates: what is refused, and with which fault."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from actors.remote.remote_socket import credentials_fault, probe_remote
from actors.remote.remote_tls import context
from actors.system.certificates import CertificateFault
from actors.system.tls import TlsLayer, server_context
from tests.support.authority import Authority, Pair
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S
from wire.config_settings import ListenerTlsSettings, RemoteSettings, TlsSettings
from wire.errors import Unavailable
from wire.status.link_faults import LinkFault, fault_of

pytestmark = pytest.mark.process


def remote(tls: TlsSettings) -> RemoteSettings:
    settings: RemoteSettings = replace(bridge().remote, transport="tls", tls=tls, connect_timeout_s=PATIENCE_S)
    return settings


@contextmanager
def served(pair: Pair, ca_file: Path | None = None, **limits: ssl.TLSVersion) -> Iterator[tuple[str, int]]:
    """Something that speaks TLS with ``pair``, to clients of ``ca_file`` if one is given."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.cert_file, pair.key_file)
    for name, value in limits.items():
        setattr(made, name, value)
    if ca_file is not None:
        made.load_verify_locations(ca_file)
        made.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    sock, _ = listening.accept()
                except OSError:
                    return
                try:
                    with made.wrap_socket(sock, server_side=True) as far:
                        far.recv(1)
                except OSError:
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


def fault(tls: TlsSettings, place: tuple[str, int]) -> LinkFault | None:
    """Why the remote there is not reached; None if it is."""
    try:
        probe_remote(remote(tls), place)
    except Unavailable as error:
        return fault_of(error)
    return None


def test_a_revoked_certificate_and_an_authority_without_a_list_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    good, bad = authority.issue("good"), authority.issue("bad")
    trusting = TlsSettings(ca_file=str(authority.ca_file))
    listed = replace(trusting, crl_file=str(authority.revoke(bad)))
    other = replace(trusting, crl_file=str(Authority(tmp_path / "other", "other").revoke()))
    with served(good) as place:
        assert [fault(tls, place) for tls in (trusting, listed, other)] == [None, None, LinkFault.REVOCATION_LIST]
    with served(bad) as place:
        assert [fault(tls, place) for tls in (trusting, listed)] == [None, LinkFault.CERTIFICATE_REVOKED]


def test_a_client_whose_certificate_is_revoked_is_refused_by_a_listener(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, good, bad = (authority.issue(name) for name in ("server", "good", "bad"))
    settings = ListenerTlsSettings(
        cert_file=str(server.cert_file),
        key_file=str(server.key_file),
        ca_file=str(authority.ca_file),
        crl_file=str(authority.revoke(bad)),
        client_certificate="required",
    )
    listening = server_context(settings)

    def ended(pair: Pair) -> str:
        client = ssl.create_default_context(cafile=str(authority.ca_file))
        client.load_cert_chain(pair.cert_file, pair.key_file)
        layer, received, sent = TlsLayer(listening, "none"), ssl.MemoryBIO(), ssl.MemoryBIO()
        near = client.wrap_bio(received, sent, server_hostname="localhost")
        for _ in range(4):
            try:
                near.do_handshake()
            except ssl.SSLError:
                pass  # it waits for more, or was refused
            if not layer.ended:
                layer.receive(sent.read())
                received.write(layer.answer())
        return layer.ended

    assert ended(good) == ""
    assert "revoked" in ended(bad)


def test_authorities_are_found_in_a_folder(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    folder = tmp_path / "trusted"
    folder.mkdir()
    (folder / "ca.pem").write_bytes(authority.ca_file.read_bytes())
    tls = TlsSettings(ca_path=str(folder))
    with served(authority.issue("server")) as place:
        assert fault(tls, place) is LinkFault.CERTIFICATE_AUTHORITY, "it has no name of its hash yet"
        subprocess.run(["openssl", "rehash", str(folder)], check=True, timeout=PATIENCE_S)
        assert fault(tls, place) is None


def test_the_name_alone_may_go_unchecked_and_the_certificate_is_not(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "ca"), Authority(tmp_path / "stranger", "stranger")
    named = TlsSettings(ca_file=str(authority.ca_file), server_name="broker.example")
    nameless = replace(named, verify_name=False)
    with served(authority.issue("server")) as place:
        assert [fault(tls, place) for tls in (named, nameless)] == [LinkFault.CERTIFICATE_NAME, None]
    with served(stranger.issue("server")) as place:
        assert fault(nameless, place) is LinkFault.CERTIFICATE_AUTHORITY


def test_an_older_version_than_is_wanted_is_not_spoken(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = TlsSettings(ca_file=str(authority.ca_file))
    with served(authority.issue("server"), maximum_version=ssl.TLSVersion.TLSv1_2) as place:
        assert fault(tls, place) is None
        assert fault(replace(tls, min_version="tls1.3"), place) is LinkFault.TLS


def test_only_the_ciphers_that_are_given_are_offered(tmp_path: Path) -> None:
    made = context(TlsSettings(ciphers="ECDHE-RSA-AES256-GCM-SHA384"), None)
    offered = {cipher["name"] for cipher in made.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    assert offered == {"ECDHE-RSA-AES256-GCM-SHA384"}
    with pytest.raises(CertificateFault, match="selects no cipher"):
        context(TlsSettings(ciphers="NO-SUCH"), None)


def test_a_key_with_a_passphrase_opens_with_it_and_with_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    own, locked = authority.issue("own"), tmp_path / "locked.key"
    words = ["openssl", "pkey", "-in", str(own.key_file), "-aes256", "-passout", "pass:open sesame", "-out", str(locked)]
    subprocess.run(words, check=True, timeout=PATIENCE_S, capture_output=True)
    phrase = tmp_path / "phrase"
    phrase.write_text("open sesame\n")
    monkeypatch.setenv("PHRASE", "open sesame")
    bare = TlsSettings(ca_file=str(authority.ca_file), cert_file=str(own.cert_file), key_file=str(locked))
    with served(authority.issue("server"), authority.ca_file, maximum_version=ssl.TLSVersion.TLSv1_2) as place:
        for tls in (
            replace(bare, key_passphrase_file=str(phrase)),
            replace(bare, key_passphrase_env="PHRASE"),
            replace(bare, key_passphrase_command=("echo", "open sesame")),
        ):
            assert fault(tls, place) is None
        phrase.write_text("open barley\n")
        assert fault(replace(bare, key_passphrase_file=str(phrase)), place) is LinkFault.CREDENTIALS
    said = credentials_fault(remote(replace(bare, key_passphrase_file=str(phrase))))
    assert said is not None
    assert "one with another passphrase" in said
    assert "barley" not in said
    assert "it has a passphrase" in str(credentials_fault(remote(bare)))


@pytest.mark.parametrize("content", ["", "no list"])
def test_a_file_without_a_revocation_list_is_refused(tmp_path: Path, content: str) -> None:
    crl = tmp_path / "crl"
    crl.write_text(content)
    with pytest.raises(CertificateFault, match="holds no revocation lists"):
        context(TlsSettings(crl_file=str(crl)), None)
    with pytest.raises(CertificateFault, match="holds no revocation lists"):
        context(TlsSettings(crl_file=str(Authority(tmp_path / "ca").ca_file)), None)
