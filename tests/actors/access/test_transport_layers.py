"""A client over TLS on a real socket pair: who its certificate says it is, and how handshakes take turns."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from actors.access.transport_layers import HandshakeTurn, LayeredClient
from actors.access.websocket_layer import unmask
from actors.process.mailbox import PollGroup
from actors.system.certificates import CertificateFault
from actors.system.tls import Certificates, TlsLayer, server_context
from tests.support.authority import Authority, Pair
from wire.config_settings import ListenerTlsSettings


class Ends(NamedTuple):
    """The product's end of a connection, and the test's: TLS in memory over a plain socket."""

    near: LayeredClient
    far: socket.socket
    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    turn: HandshakeTurn

    def step(self) -> None:
        """Pass on what the far end has to say, let the near end read, and pass its answer back."""
        self.far.sendall(self.outgoing.read())
        self.near.receive()
        try:
            self.incoming.write(self.far.recv(65_536))
        except BlockingIOError:
            pass

    def shake_hands(self) -> None:
        for _ in range(4):
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            self.step()


@contextmanager
def connected(settings: ListenerTlsSettings, authority: Authority, pair: Pair | None, version: ssl.TLSVersion) -> Iterator[Ends]:
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    context.minimum_version = context.maximum_version = version
    if pair is not None:
        context.load_cert_chain(*pair)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    near, far = socket.socketpair()
    far.setblocking(False)
    turn = HandshakeTurn()
    with far, select.epoll() as outer:
        layers = [TlsLayer(server_context(settings), settings.identity)]
        client = LayeredClient(near, "unix:test", 1, PollGroup(outer), 0.0, layers=layers, turn=turn)
        yield Ends(client, far, tls, incoming, outgoing, turn)
        client.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def settings(authority: Authority) -> ListenerTlsSettings:
    pair = authority.issue("server")
    return ListenerTlsSettings(
        cert_file=str(pair.cert_file), key_file=str(pair.key_file), ca_file=str(authority.ca_file), client_certificate="optional"
    )


@pytest.mark.process
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("kind", "user"), [("none", None), ("common-name", "pump-7"), ("subject", "CN=pump-7,OU=B\\, C,O=Plant é")]
)
def test_a_certificate_gives_the_user_name(
    authority: Authority, settings: ListenerTlsSettings, version: ssl.TLSVersion, kind: str, user: str | None
) -> None:
    pair = authority.issue("pump-7", "/O=Plant é/OU=B, C/CN=pump-7")
    with connected(replace(settings, identity=kind), authority, pair, version) as ends:
        ends.shake_hands()
        assert ends.near.certificate_user == user
        assert not ends.near.fault
    with connected(replace(settings, identity=kind), authority, None, version) as ends:
        ends.shake_hands()
        assert ends.near.certificate_user is None


@pytest.mark.process
def test_what_has_come_of_a_record_is_under_way(authority: Authority, settings: ListenerTlsSettings) -> None:
    """Nothing of it can be read before it is whole; it counts until what it says is whole, too."""
    with connected(settings, authority, None, ssl.TLSVersion.TLSv1_3) as ends:
        ends.shake_hands()
        ends.tls.write(b"half")
        ends.near.input.keep(ends.near.receive() or b"", 0)
        ends.far.sendall(ends.outgoing.read())
        ends.near.input.keep(ends.near.receive() or b"", 0)
        assert (ends.near.input.front, ends.near.under_way_bytes) == (b"half", 4)

        ends.tls.write(bytes(5000))
        record = ends.outgoing.read()
        ends.far.sendall(record[:3000])
        assert ends.near.receive() == b""
        assert ends.near.under_way_bytes == 4 + 3000
        ends.far.sendall(record[3000:])
        assert ends.near.receive() == bytes(5000)
        assert ends.near.under_way_bytes == 4


@pytest.mark.process
def test_a_certificate_that_names_two_is_not_let_in(authority: Authority, settings: ListenerTlsSettings) -> None:
    pair = authority.issue("two", "/CN=pump-7/CN=admin")
    with connected(replace(settings, identity="common-name"), authority, pair, ssl.TLSVersion.TLSv1_3) as ends:
        ends.shake_hands()
        assert ends.near.failed
        assert "2 common names" in ends.near.fault
        assert ends.near.certificate_user is None


@pytest.mark.process
def test_handshakes_wait_for_their_turn_and_talk_does_not(authority: Authority, settings: ListenerTlsSettings) -> None:
    with connected(settings, authority, None, ssl.TLSVersion.TLSv1_3) as ends:
        ends.turn.left = 0
        ends.shake_hands()
        assert ends.tls.version() is None
        ends.turn.begin()
        ends.shake_hands()
        assert ends.turn.left < HandshakeTurn.STEPS
        ends.turn.left = 0
        ends.tls.write(b"hello")
        ends.far.sendall(ends.outgoing.read())
        assert ends.near.receive() == b"hello"


@pytest.mark.process
def test_all_that_was_decrypted_is_read_at_once(authority: Authority, settings: ListenerTlsSettings) -> None:
    """Otherwise it would stay behind a socket that no poll reports."""
    with connected(settings, authority, None, ssl.TLSVersion.TLSv1_3) as ends:
        ends.shake_hands()
        for number in range(50):
            ends.tls.write(bytes((number,)) * 1000)
        ends.far.sendall(ends.outgoing.read())
        assert ends.near.receive() == b"".join(bytes((number,)) * 1000 for number in range(50))
        ends.tls.write(b"last")
        with pytest.raises(ssl.SSLWantReadError):
            ends.tls.unwrap()
        ends.far.sendall(ends.outgoing.read())
        assert ends.near.receive() == b"last"
        assert ends.near.receive() is None, "close_notify came with it"


@pytest.mark.process
def test_a_change_is_taken_up_when_it_has_settled(authority: Authority, tmp_path: Path) -> None:
    """A certificate and its key are two files: between their renewals they do not fit."""
    pair, other = authority.issue("one"), authority.issue("another")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(pair.cert_file.read_bytes())
    key.write_bytes(pair.key_file.read_bytes())
    certificates = Certificates(ListenerTlsSettings(cert_file=str(cert), key_file=str(key)), "here", "mqtt")
    first = certificates.context
    cert.write_bytes(other.cert_file.read_bytes() + b"\n")
    certificates.reload()
    key.write_bytes(other.key_file.read_bytes() + b"\n")
    certificates.reload()
    assert (certificates.context, certificates.refused) == (first, 0)
    certificates.reload()
    assert (certificates.reloads, certificates.refused) == (1, 0)
    second = certificates.context
    key.unlink()
    for _ in range(3):
        certificates.reload()
    assert (certificates.context, certificates.refused) == (second, 1), "told once"
    with pytest.raises(CertificateFault):
        server_context(ListenerTlsSettings(cert_file=str(cert), key_file=str(key)))


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 1000])
def test_a_mask_is_taken_off(size: int) -> None:
    data, key = bytes(number * 7 % 256 for number in range(size)), b"\x01\x80\xff\x00"
    assert unmask(data, key) == bytes(byte ^ key[index % 4] for index, byte in enumerate(data))
