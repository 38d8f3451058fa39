"""TLS towards a remote with real certificates: what is refused, and with which fault."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from actors.remote.remote_socket import credentials_fault, probe_remote
from actors.remote.remote_tls import TlsSecrets, context
from actors.system.certificates import CertificateFault
from actors.system.tls import TlsLayer, server_context
from tests.support.authority import Authority, Pair
from tests.support.mosquitto import Mosquitto
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
    made = context(TlsSettings(ciphers="ECDHE-RSA-AES256-GCM-SHA384"), TlsSecrets())
    offered = {cipher["name"] for cipher in made.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    assert offered == {"ECDHE-RSA-AES256-GCM-SHA384"}
    with pytest.raises(CertificateFault, match="selects no cipher"):
        context(TlsSettings(ciphers="NO-SUCH"), TlsSecrets())


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
        context(TlsSettings(crl_file=str(crl)), TlsSecrets())
    with pytest.raises(CertificateFault, match="holds no revocation lists"):
        context(TlsSettings(crl_file=str(Authority(tmp_path / "ca").ca_file)), TlsSecrets())


# --- pre-shared keys ---


@pytest.fixture
def shared(tmp_path: Path) -> TlsSettings:
    key = tmp_path / "edge.psk"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    key.chmod(0o600)
    return TlsSettings(psk_identity="edge", psk_file=str(key))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python speaks them")
def test_an_older_python_says_that_it_has_no_pre_shared_keys(shared: TlsSettings) -> None:
    assert "needs Python 3.13" in str(credentials_fault(remote(shared)))


@pytest.mark.skipif(sys.version_info < (3, 13), reason="pre-shared keys need Python 3.13")
@pytest.mark.parametrize("version", ["tlsv1.2", "tlsv1.3"])
def test_a_real_broker_and_the_bridge_know_each_other_by_a_pre_shared_key(
    tmp_path: Path, shared: TlsSettings, version: str
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"edge:{Path(str(shared.psk_file)).read_text()}")
    lines = ("allow_anonymous true", "psk_hint site", f"psk_file {keys}", f"tls_version {version}")
    with Mosquitto(tmp_path / "remote", lines=lines) as broker:
        place = ("127.0.0.1", broker.port)
        assert fault(shared, place) is None
        Path(str(shared.psk_file)).write_text("00112233\n")
        assert fault(shared, place) is LinkFault.TLS


@pytest.mark.skipif(sys.version_info < (3, 13), reason="pre-shared keys need Python 3.13")
def test_a_remote_that_shows_a_certificate_in_place_of_a_pre_shared_key_is_refused(tmp_path: Path, shared: TlsSettings) -> None:
    with served(Authority(tmp_path).issue("server")) as place:
        assert fault(shared, place) is not None


@pytest.mark.parametrize("text", ["", "no hexadecimal", "0" * 1026])
def test_a_pre_shared_key_that_cannot_be_one_is_refused_and_not_shown(shared: TlsSettings, text: str) -> None:
    Path(str(shared.psk_file)).write_text(text)
    said = str(credentials_fault(remote(shared)))
    assert "the pre-shared key" in said
    assert text == "" or text not in said


# --- keys that are no files ---


@pytest.mark.parametrize(("label", "provider"), [("TSS2 PRIVATE KEY", "tpm2"), ("PKCS#11 PROVIDER URI", "pkcs11")])
def test_the_provider_that_a_key_needs_is_named(tmp_path: Path, label: str, provider: str) -> None:
    own = Authority(tmp_path).issue("own")
    own.key_file.write_text(f"-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n")
    said = str(credentials_fault(remote(TlsSettings(cert_file=str(own.cert_file), key_file=str(own.key_file)))))
    assert f"provider {provider}" in said
    assert "OPENSSL_CONF" in said


OPENSSL_CONF = """\
openssl_conf = all
[all]
providers = providers
[providers]
default = on
pkcs11 = pkcs11
[on]
activate = 1
[pkcs11]
activate = 1
pkcs11-module-path = {module}
"""
PROBE = """\
import os, sys
from actors.remote.remote_socket import probe_remote
from tests.actors.bridge.test_remote_tls import remote
from wire.config_settings import TlsSettings
ca, cert, key, port = sys.argv[1:]
probe_remote(remote(TlsSettings(ca_file=ca, cert_file=cert, key_file=key, key_passphrase_env="PIN")), ("127.0.0.1", int(port)))
os._exit(0)  # as a node's processes end; taking it apart ends badly in SoftHSM
"""


def installed(pattern: str) -> Path | None:
    return next(iter(sorted(Path("/usr/lib").glob(pattern))), None)


@pytest.mark.skipif(
    installed("*/ossl-modules/pkcs11.so") is None or installed("softhsm/libsofthsm2.so") is None,
    reason="needs pkcs11-provider, softhsm2 and opensc",
)
def test_a_key_that_never_leaves_its_token_proves_who_the_bridge_is(tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm.conf").write_text(f"directories.tokendir = {tmp_path}/tokens\nobjectstore.backend = file\n")
    module, conf = str(installed("softhsm/libsofthsm2.so")), tmp_path / "openssl.cnf"
    conf.write_text(OPENSSL_CONF.format(module=module))
    plain = os.environ | {"SOFTHSM2_CONF": str(tmp_path / "softhsm.conf"), "PYTHONPATH": os.getcwd(), "PIN": "1234"}

    def run(*command: str, **more: str) -> None:
        done = subprocess.run(command, timeout=PATIENCE_S, env=plain | more, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    authority = Authority(tmp_path / "ca")
    key, plain_key = tmp_path / "edge.key", str(tmp_path / "edge.pkcs8")
    made = authority.issue("edge")  # its key goes onto the token
    run("softhsm2-util", "--init-token", "--free", "--label", "site", "--pin", "1234", "--so-pin", "5678")
    run("openssl", "pkcs8", "-topk8", "-nocrypt", "-in", str(made.key_file), "-out", plain_key)
    run("softhsm2-util", "--import", plain_key, "--token", "site", "--label", "edge", "--id", "01", "--pin", "1234")
    made.key_file.unlink()
    key.write_text(key_reference("pkcs11:token=site;object=edge;type=private"))
    key.chmod(0o600)
    with served(authority.issue("server"), authority.ca_file, maximum_version=ssl.TLSVersion.TLSv1_2) as (_, port):
        run(sys.executable, "-c", PROBE, str(authority.ca_file), str(made.cert_file), str(key), str(port), OPENSSL_CONF=str(conf))


def key_reference(uri: str) -> str:
    """What ``uri2pem`` of pkcs11-provider writes."""
    texts = ((0x1A, b"PKCS#11 Provider URI v1.0"), (0x0C, uri.encode()))
    inner = b"".join(bytes((tag, len(text))) + text for tag, text in texts)
    encoded = base64.encodebytes(bytes((0x30, len(inner))) + inner).decode()
    return f"-----BEGIN PKCS#11 PROVIDER URI-----\n{encoded}-----END PKCS#11 PROVIDER URI-----\n"
