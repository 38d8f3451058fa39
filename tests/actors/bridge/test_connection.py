"""A real bridge process against a real Mosquitto, or a scripted remote, with the test as its store and supervisor."""

from __future__ import annotations

import socket
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.actors.lane_double import LaneDouble, settings_for
from tests.actors.tls_relay import TlsRelay
from tests.support.mosquitto import Mosquitto
from tests.support.ports import free_port
from tests.support.scripted_remote import ScriptedRemote
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until
from wire.config_settings import BackoffSettings, TlsSettings

pytestmark = pytest.mark.process

PAYLOADS = [f"m{number}" for number in range(300)]


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 that is its own authority."""
    folder.mkdir()
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*words, *names, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True, timeout=PATIENCE_S)
    return cert, key


def tls(ca_file: Path | str = "", *, verify: bool = True, server_name: str = "") -> TlsSettings:
    """TLS settings with just those."""
    return TlsSettings(ca_file=str(ca_file), verify=verify, server_name=server_name, alpn=())


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("transport", ["tcp", "tls", "ws", "wss"])
def test_messages_of_every_qos_arrive_once_in_order(tmp_path: Path, transport: str, protocol: int) -> None:
    secured = transport in ("tls", "wss")
    pair = certificate(tmp_path / "certs") if secured else None
    plain_port = free_port()
    lines = [f"listener {plain_port} 127.0.0.1"]
    web = transport in ("ws", "wss")
    with ExitStack() as stack:
        ends_tls = pair if transport == "tls" else None
        remote = stack.enter_context(Mosquitto(tmp_path / "remote", websockets=web, certificate=ends_tls, lines=lines))
        port = remote.port
        if pair is not None and web:
            port = stack.enter_context(TlsRelay(pair, port)).port
        settings = settings_for(
            tmp_path, port, protocol=protocol, transport=transport, tls=tls(pair[0] if pair else ""), receive_maximum=100
        )
        with Subscriber(plain_port, "t/#") as subscriber, LaneDouble(tmp_path, settings) as lane:
            lane.open()
            lane.until_connected()
            lane.until(lambda: lane.credit >= len(PAYLOADS), "credit")
            for qos in (1, 2, 0):
                lane.publish(f"t/{qos}", PAYLOADS, qos=qos)
            lane.until_settled(3 * len(PAYLOADS))
            for qos in (0, 1, 2):
                assert subscriber.wait_for(f"t/{qos}", PAYLOADS).are_exact()
            assert lane.settles[0].session == f"edge@127.0.0.1:{port}"
            seqs = sorted(seq for start, stop in lane.delivered for seq in range(start, stop))
            assert seqs == list(range(3 * len(PAYLOADS))), "each is settled once"
            by_connection = [ranges for settle in lane.settles for _, ranges in settle.settled]
            assert max(stop for ranges in by_connection for _, stop in ranges) == 2 * len(PAYLOADS), (
                "QoS 0 was settled when it left"
            )


def test_nothing_is_published_before_the_session_is_on_record(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "remote") as remote, LaneDouble(tmp_path, settings_for(tmp_path, remote.port)) as lane:
        lane.answers = False
        lane.open()
        lane.publish("t", ["one"], qos=1)
        lane.until(lambda: bool(lane.settles), "the session goes on record")
        lane.command("pause")
        lane.until(lambda: lane.links[-1] == "paused", "the link is paused")
        assert lane.settles[0].session == f"edge@127.0.0.1:{remote.port}"
        assert "Received PUBLISH" not in remote.log


def test_a_session_without_a_record_is_not_resumed(tmp_path: Path) -> None:
    """The remote still has a session of that client: it is ended, and a new one begins."""
    with Mosquitto(tmp_path / "remote") as remote, LaneDouble(tmp_path, settings_for(tmp_path, remote.port)) as lane:
        lane.open()
        lane.publish("t", ["one"], qos=1)
        lane.until_settled(1)
        lane.open()
        lane.publish("t", ["one"], qos=1)
        lane.until_settled(1)
        assert "session.unknown" in lane.log
        assert lane.settles[0].session


def test_a_killed_bridge_resumes_where_the_store_stands(tmp_path: Path) -> None:
    """PUBREC committed, PUBREL not answered, then kill -9: PUBREL goes again, PUBLISH does not, and the message came once."""
    with (
        Mosquitto(tmp_path / "remote") as remote,
        Subscriber(remote.port, "t/#") as subscriber,
        LaneDouble(tmp_path, settings_for(tmp_path, remote.port)) as lane,
    ):
        lane.open()
        lane.until(lambda: bool(lane.settles), "the session goes on record")
        lane.answers = False
        lane.publish("t/2", ["one"], qos=2)
        lane.until(lambda: any(settle.released for settle in lane.settles), "PUBREC came")
        lane.kill()
        lane.start()
        lane.answers = True
        lane.open(dup_below=1, released=[0], session=f"edge@127.0.0.1:{remote.port}")
        lane.publish("t/2", ["one"], qos=2)
        lane.until_settled(1)
        assert subscriber.wait_for("t/2", ["one"]).are_exact()
        assert remote.log.count("Received PUBLISH from edge") == 1


def test_a_restarted_remote_is_found_again_and_gets_what_is_unsettled(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "remote", persistence=True) as remote,
        Subscriber(remote.port, "t/#") as subscriber,
        LaneDouble(tmp_path, settings_for(tmp_path, remote.port)) as lane,
    ):
        lane.open()
        lane.publish("t/1", PAYLOADS, qos=1)
        lane.until_settled(len(PAYLOADS))
        remote.stop()
        lane.until(lambda: lane.links[-1] != "connected", "the Connection waits")
        link = lane.status()["link"]
        assert link["state"] in ("backoff", "connecting")
        lane.publish("t/2", PAYLOADS, qos=2)
        remote.start()
        lane.until_settled(2 * len(PAYLOADS))
        assert subscriber.wait_for("t/2", PAYLOADS).are_exact()
        assert "bridge.retry" in lane.log


def test_pause_resume_and_stop(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "remote") as remote, LaneDouble(tmp_path, settings_for(tmp_path, remote.port)) as lane:
        lane.open()
        lane.until_connected()
        lane.command("pause")
        lane.until(lambda: lane.links[-1] == "paused", "the link is paused")
        link = lane.status()["link"]
        assert (link["state"], link["reason"], link["next_attempt_s"]) == ("paused", "paused by the operator", None)
        lane.command("resume")
        lane.until_connected()
        lane.publish("t", ["one"], qos=1)
        lane.until_settled(1)
        assert lane.stop() == 0
        wait_until(lambda: remote.log.count("Received DISCONNECT from edge") == 2, 10.0, "two DISCONNECTs")


def test_user_and_password_are_read_at_each_attempt(tmp_path: Path) -> None:
    """A refusal is shown in the status and tried again; a corrected password file is enough."""
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    with Mosquitto(tmp_path / "remote", users={"edge": "right"}) as remote:
        settings = settings_for(tmp_path, remote.port, username="edge", password_file=str(secret))
        with LaneDouble(tmp_path, settings) as lane:
            lane.open()
            status = lane.until_status(lambda status: bool(status["link"]["error"]), "an error")
            assert "Not authorized" in status["link"]["error"]
            secret.write_bytes(b"\xef\xbb\xbfright\r\nwhat follows the first line is no password\n")
            lane.until_connected()


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ({"addresses": (("name.invalid", 1883),)}, "name:"),
        ({"transport": "tls", "tls": tls()}, "tls:"),
        ({"transport": "ws"}, "websocket:"),
        ({"password_file": "/nonexistent", "username": "edge"}, "credentials:"),
        ({"password_file": "/dev/zero", "username": "edge"}, "credentials:"),
    ],
)
def test_the_status_says_at_which_step_connecting_failed(tmp_path: Path, failing: dict[str, Any], expected: str) -> None:
    pair = certificate(tmp_path / "certs") if failing.get("transport") == "tls" else None
    with (
        Mosquitto(tmp_path / "remote", certificate=pair) as remote,
        LaneDouble(tmp_path, settings_for(tmp_path, remote.port, **failing)) as lane,
    ):
        lane.open()
        status = lane.until_status(lambda status: bool(status["link"]["error"]), "an error")
        assert expected in status["link"]["error"]


def test_tls_checks_the_name_that_the_settings_give(tmp_path: Path) -> None:
    pair = certificate(tmp_path / "certs")
    with Mosquitto(tmp_path / "remote", certificate=pair) as remote:
        settings = settings_for(tmp_path, remote.port, transport="tls", tls=tls(pair[0], server_name="elsewhere"))
        with LaneDouble(tmp_path, settings) as lane:
            lane.open()
            status = lane.until_status(lambda status: bool(status["link"]["error"]), "an error")
            assert "elsewhere" in status["link"]["error"]


def test_the_next_address_is_tried_when_one_fails(tmp_path: Path) -> None:
    dead = free_port()
    with Mosquitto(tmp_path / "remote") as remote:
        addresses = (("127.0.0.1", dead), ("127.0.0.1", remote.port))
        with LaneDouble(tmp_path, settings_for(tmp_path, remote.port, addresses=addresses)) as lane:
            lane.open(session=f"edge@127.0.0.1:{dead}", generation=4)
            lane.publish("t", ["one"], qos=1)
            lane.until_settled(1)
            assert lane.status()["link"]["address"] == f"127.0.0.1:{remote.port}"
            assert (lane.settles[0].session, lane.settles[0].generation) == (f"edge@127.0.0.1:{remote.port}", 5)


def test_a_remote_that_keeps_the_session_less_long_than_it_was_asked_to_is_told_of_once_a_connection(tmp_path: Path) -> None:
    with ScriptedRemote() as remote, LaneDouble(tmp_path, settings_for(tmp_path, remote.port, protocol=5)) as lane:
        lane.open(session=f"edge@127.0.0.1:{remote.port}")

        def kept(given_s: int | None) -> int | None:
            """The status when the remote gives so much; the connection then ends."""
            before = lane.links.count("connected")
            end = remote.accept(session_present=True, session_expiry_s=given_s)
            lane.until(lambda: lane.links.count("connected") > before, "connected")
            link = lane.status()["link"]
            assert link["note"] == ("" if link["session_expiry_s"] is None else f"remote keeps the session {given_s} s only")
            end.close()
            shown: int | None = link["session_expiry_s"]
            return shown

        assert [kept(given_s) for given_s in (None, 3600, 7200, 60, 0, None)] == [None, None, None, 60, 0, None]
        assert lane.log.count("session.expires_early") == 2


@pytest.mark.parametrize("packet_max_bytes", [268_435_455, 268_435_456, 0xFFFF_FFFF])
def test_a_remote_may_take_packets_of_any_size(tmp_path: Path, packet_max_bytes: int) -> None:
    with ScriptedRemote() as remote, LaneDouble(tmp_path, settings_for(tmp_path, remote.port, protocol=5)) as lane:
        lane.open(session=f"edge@127.0.0.1:{remote.port}")
        end = remote.accept(session_present=True, packet_max_bytes=packet_max_bytes)
        lane.publish("t", ["a"], qos=1)
        assert end.exactly(9) == b"\x32\x07\x00\x01t\x00\x01\x00a"
        end.send(b"\x40\x02\x00\x01")
        lane.until_settled(1)


@pytest.mark.parametrize("why", ["stall", "keep alive"])
def test_a_remote_that_says_nothing_more_is_left(tmp_path: Path, why: str) -> None:
    """It accepts the connection and then neither acknowledges nor answers PINGREQ."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        limits: dict[str, Any] = {"stall_timeout_s": 0.5} if why == "stall" else {"stall_timeout_s": 60.0, "keep_alive_s": 1}
        port = server.getsockname()[1]
        settings = settings_for(tmp_path, port, connect_timeout_s=2.0 if why == "keep alive" else 5.0, **limits)
        with LaneDouble(tmp_path, settings) as lane:
            lane.open(session=f"edge@127.0.0.1:{port}")
            server.settimeout(PATIENCE_S)
            client, _ = server.accept()
            with client:
                client.settimeout(PATIENCE_S)
                assert client.recv(1000)[0] == 0x10
                client.sendall(b"\x20\x02\x01\x00")
                if why == "stall":
                    lane.publish("t", ["one"], qos=1)
                lane.until(lambda: "connected" in lane.links and lane.links[-1] != "connected", "the link is given up")
                data = client.recv(1000)
                assert data.startswith(b"\x32" if why == "stall" else b"\xc0\x00")
            expected = "no acknowledgement in time" if why == "stall" else "no PINGRESP in time"
            assert expected in lane.log


def test_publishes_of_a_foreign_subscription_are_acknowledged_and_the_exchange_goes_on(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with LaneDouble(tmp_path, settings_for(tmp_path, port)) as lane:
            lane.open(session=f"edge@127.0.0.1:{port}")
            server.settimeout(PATIENCE_S)
            client, _ = server.accept()
            with client, client.makefile("rb") as reader:
                client.settimeout(PATIENCE_S)
                head = reader.read(2)
                reader.read(head[1])
                publishes = (
                    b"\x32\x05\x00\x01t\x00\x09" + b"\x34\x05\x00\x01t\x00\x0a" + b"\x30\x04\x00\x01tx" + b"\x62\x02\x00\x0a"
                )
                client.sendall(b"\x20\x02\x01\x00" + publishes)  # CONNACK and PUBLISHes in one segment
                assert reader.read(12) == b"\x40\x02\x00\x09\x50\x02\x00\x0a\x70\x02\x00\x0a"
                lane.publish("t", ["one"], qos=1)
                assert reader.read(10) == b"\x32\x08\x00\x01t\x00\x01one"
                client.sendall(b"\x40\x02\x00")
                client.sendall(b"\x01")
                lane.until_settled(1)
            assert lane.log.count("remote.unexpected_publish") == 1


def test_a_refused_message_is_sent_again_as_new_while_the_status_says_why(tmp_path: Path) -> None:
    """Quota exceeded: nothing leaves until the back-off is over, then the refused one first; not authorised: a dead letter."""
    a, b, c = (b"\x32\x07\x00\x01t\x00" + ends for ends in (b"\x01\x00a", b"\x02\x00b", b"\x03\x00c"))
    with ScriptedRemote() as remote:
        settings = settings_for(tmp_path, remote.port, protocol=5, receive_maximum=2, stall_timeout_s=60.0)
        slow = BackoffSettings(initial_s=4.0, max_s=4.0, factor=1.0, jitter=0.0, stable_s=5.0)
        settings = replace(settings, bridges=(replace(settings.bridges[0], backoff=slow),))
        with LaneDouble(tmp_path, settings) as lane:
            lane.open(session=f"edge@127.0.0.1:{remote.port}")
            end = remote.accept(session_present=True)
            lane.publish("t", ["a", "b", "c"], qos=1)
            assert end.exactly(18) == a + b
            end.send(b"\x40\x03\x00\x01\x97" + b"\x40\x03\x00\x02\x87")
            status = lane.until_status(lambda status: bool(status["link"]["note"]), "a note")
            assert status["link"]["note"] == "remote says quota exceeded"
            assert (status["link"]["state"], status["link"]["in_flight"]) == ("connected", 0)
            assert (status["exchange"]["refused"], status["exchange"]["retried"]) == (2, 1)
            assert end.exactly(18) == a + c
            end.send(b"\x40\x02\x00\x01" + b"\x40\x03\x00\x03\x10")
            lane.until_settled(2)
            dead = {outcome: ranges for settle in lane.settles for outcome, ranges in settle.settled if outcome.startswith("dead")}
            assert dead == {"dead:remote_0x87": ((1, 2),)}
            assert lane.status()["link"]["note"] == ""
            assert lane.log.count("messages.refused") == 1
            assert "quota exceeded (0x97)" in lane.log


def test_a_disconnect_is_told_by_name_and_a_session_taken_over_twice_says_who_does_it(tmp_path: Path) -> None:
    with ScriptedRemote() as remote:
        settings = settings_for(tmp_path, remote.port, protocol=5)
        with LaneDouble(tmp_path, settings) as lane:
            lane.open(session=f"edge@127.0.0.1:{remote.port}")
            for farewell in (b"\xe0\x01\x8e", b"\xe0\x02\x8b\x00", b"\xe0\x01\x8e"):
                end = remote.accept(session_present=True)
                end.send(farewell)
            end = remote.accept(session_present=True)
            assert lane.log.count("session taken over") >= 2
            assert "server shutting down" in lane.log
            assert "session.contended" not in lane.log
            end.send(b"\xe0\x01\x8e")
            remote.accept(session_present=True)
            assert lane.log.count("session.contended") == 1
            assert lane.status()["link"]["note"] == "another client uses this client identifier"


@pytest.mark.parametrize("qos", [1, 2])
def test_a_remote_that_answers_pings_and_nothing_else_is_left(tmp_path: Path, qos: int) -> None:
    """At QoS 2 it answers the PUBLISH, and not the PUBREL."""
    with ScriptedRemote() as remote:
        settings = settings_for(tmp_path, remote.port, protocol=5, stall_timeout_s=3.0, keep_alive_s=1)
        with LaneDouble(tmp_path, settings) as lane:
            lane.open(session=f"edge@127.0.0.1:{remote.port}")
            end = remote.accept(session_present=True)
            lane.publish("t", ["a"], qos=qos)
            assert end.exactly(9)[0] == (0x32 if qos == 1 else 0x34)
            if qos == 2:
                end.send(b"\x50\x02\x00\x01")
                lane.until(lambda: any(settle.released for settle in lane.settles), "PUBREC came")
                assert end.exactly(4) == b"\x62\x02\x00\x01"
            assert end.exactly(2) == b"\xc0\x00"
            end.send(b"\xd0\x00")
            end = remote.accept(session_present=True)
            assert "no acknowledgement in time" in lane.log
            assert "no PINGRESP" not in lane.log
            expected = b"\x3a\x07\x00\x01t\x00\x01\x00a" if qos == 1 else b"\x62\x02\x00\x01"
            assert end.exactly(len(expected)) == expected
