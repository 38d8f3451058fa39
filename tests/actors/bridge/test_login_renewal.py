"""A real bridge process whose password, token or certificate changes while it is connected."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.actors.bridge.test_connection import certificate, tls
from tests.actors.lane_double import LaneDouble, settings_for
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_packets import (
    AUTH,
    AUTH_DATA,
    AUTH_METHOD,
    DISCONNECT,
    PUBACK,
    PUBLISH,
    Packet,
    encode_properties,
    packet_bytes,
)
from tests.support.scripted_remote import RemoteEnd, ScriptedRemote
from tests.wire.exchange.test_credential_expiry import jwt
from wire.config_settings import AuthenticationSettings, CredentialSettings, NodeSettings

pytestmark = pytest.mark.process


def token(life_s: float) -> str:
    return jwt(exp=time.time() + life_s)


def auth_settings(folder: Path, port: int, secret: Path, **remote: Any) -> NodeSettings:
    """A bridge that authenticates by the token in ``secret``."""
    wanted = AuthenticationSettings(method="OAUTH2-JWT", data_file=str(secret))
    return settings_for(folder, port, protocol=5, authentication=wanted, **remote)


def auth(reason_code: int, method: str = "OAUTH2-JWT") -> bytes:
    return packet_bytes(AUTH, 0, bytes((reason_code,)) + encode_properties([(AUTH_METHOD, method)]))


def shown(end: RemoteEnd) -> tuple[object, object]:
    """What the CONNECT on that connection says of enhanced authentication."""
    return end.connect.property(AUTH_METHOD), end.connect.property(AUTH_DATA)


def publish_one(lane: LaneDouble, end: RemoteEnd) -> Packet:
    """The PUBLISH of a message that is handed out, once the store has the session on record."""
    lane.publish("t", ["one"], qos=1)
    lane.until(lambda: bool(lane.settles), "the session is told")
    return end.expect(PUBLISH)


def test_a_real_broker_is_told_what_a_command_says(tmp_path: Path) -> None:
    first = token(3600)
    with Mosquitto(tmp_path / "remote", users={"edge": first}) as remote:
        command = (sys.executable, "-I", "-c", f"print({first!r})")
        settings = settings_for(tmp_path, remote.port, username="edge", password_command=command)
        with LaneDouble(tmp_path, settings) as lane:
            lane.open()
            lane.until_connected()
            link = lane.status()["link"]
            assert 3000 < link["credential_ends_in_s"] <= 3600
            lane.publish("t", ["one"], qos=1)
            lane.until_settled(1)
            assert first not in lane.log
            assert first not in str(lane.status())


def test_a_command_that_fails_is_a_fault_of_the_link_with_its_reason(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "remote", users={"edge": "right"}) as remote:
        command = (sys.executable, "-I", "-c", "import sys; sys.exit('the vault is sealed')")
        settings = settings_for(tmp_path, remote.port, username="edge", password_command=command)
        with LaneDouble(tmp_path, settings) as lane:
            lane.open()
            link = lane.until_status(lambda status: bool(status["link"]["error"]), "an error")["link"]
            assert "the vault is sealed" in link["error"]
            assert link["fault"] == "credentials"


def test_a_password_is_renewed_before_it_ends_in_the_session_that_there_is(tmp_path: Path) -> None:
    """What is not acknowledged yet is sent again in it; nothing is lost."""
    secret = tmp_path / "token"
    old = token(6)
    secret.write_text(old)
    with ScriptedRemote() as remote:
        settings = settings_for(tmp_path, remote.port, protocol=5, username="edge", password_file=str(secret))
        with LaneDouble(tmp_path, settings) as lane:
            lane.open()
            end = remote.accept()
            sent = publish_one(lane, end)
            fresh = token(3600)
            secret.write_text(fresh)

            end.expect(DISCONNECT)
            again = remote.accept(session_present=True)
            assert again.connect.connect is not None
            assert again.connect.connect.password == fresh.encode()
            assert not again.connect.connect.clean
            repeated = again.expect(PUBLISH, sent.packet_id)
            assert repeated.payload == b"one"
            again.acknowledge(PUBACK, sent.packet_id)
            lane.until_settled(1)
            assert lane.log.count("credential.renewed") == 1
            assert fresh not in lane.log


def test_a_token_is_renewed_by_auth_and_the_connection_stays(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    old, fresh = token(6), token(3600)
    secret.write_text(old)
    with ScriptedRemote() as remote, LaneDouble(tmp_path, auth_settings(tmp_path, remote.port, secret)) as lane:
        lane.open()
        end = remote.accept()
        assert shown(end) == ("OAUTH2-JWT", old.encode())
        secret.write_text(fresh)
        asked = end.expect(AUTH)
        assert asked.reason_codes == (0x19,)
        assert (asked.property(AUTH_METHOD), asked.property(AUTH_DATA)) == ("OAUTH2-JWT", fresh.encode())
        sent = publish_one(lane, end)
        end.send(auth(0))
        end.acknowledge(PUBACK, sent.packet_id)
        lane.until_settled(1)
        link = lane.until_status(lambda status: status["link"]["credential_ends_in_s"] > 60, "the new one counts")["link"]
        assert (link["connections"], link["note"]) == (1, "")


@pytest.mark.parametrize("answer", ["disconnect", "close", "another step"])
def test_a_remote_that_takes_no_auth_has_the_token_by_a_new_connection_and_is_not_asked_again(tmp_path: Path, answer: str) -> None:
    secret = tmp_path / "token"
    secret.write_text(token(4))
    with ScriptedRemote() as remote, LaneDouble(tmp_path, auth_settings(tmp_path, remote.port, secret)) as lane:
        lane.open()
        end = remote.accept()
        fresh = token(3)
        secret.write_text(fresh)
        end.expect(AUTH)
        match answer:
            case "disconnect":
                end.send(packet_bytes(DISCONNECT, 0, b"\x8c"))
            case "close":
                end.close()
            case _:
                end.send(auth(0x18))
        second = remote.accept(session_present=True)
        assert shown(second) == ("OAUTH2-JWT", fresh.encode())
        third = token(3600)
        secret.write_text(third)
        second.expect(DISCONNECT)
        assert shown(remote.accept(session_present=True)) == ("OAUTH2-JWT", third.encode())


def test_a_token_that_is_not_renewed_is_told_before_it_ends(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(token(6))
    with ScriptedRemote() as remote:
        settings = auth_settings(tmp_path, remote.port, secret, credentials=CredentialSettings(renew_before_s=5.0))
        with LaneDouble(tmp_path, settings) as lane:
            lane.open()
            end = remote.accept()
            link = lane.until_status(lambda status: bool(status["link"]["note"]), "a warning")["link"]
            assert "there is no newer one" in link["note"]
            assert link["note_fault"] == "login_ends"
            assert "credential.ends" in lane.log
            secret.write_text("")
            secret.unlink()
            link = lane.until_status(lambda status: status["link"]["note_fault"] == "credentials", "the reason")["link"]
            assert str(secret) in link["note"]
            end.close()


def test_a_remote_that_wants_several_steps_is_refused_with_the_reason(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("data")
    with ScriptedRemote() as remote, LaneDouble(tmp_path, auth_settings(tmp_path, remote.port, secret)) as lane:
        lane.open()
        end = remote.accept_silently()
        end.send(auth(0x18))
        link = lane.until_status(lambda status: bool(status["link"]["error"]), "an error")["link"]
        assert "more than one step" in link["error"]
        assert link["fault"] == "login"


def test_the_end_of_the_certificate_is_told(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path / "certs")
    with Mosquitto(tmp_path / "remote", certificate=(cert, key)) as remote:
        own = replace(tls(cert), cert_file=str(cert), key_file=str(key))
        with LaneDouble(tmp_path, settings_for(tmp_path, remote.port, transport="tls", tls=own)) as lane:
            lane.open()
            lane.until_connected()
            link = lane.status()["link"]
            assert 86_400 < link["certificate_ends_in_s"] <= 2 * 86_400
            assert link["note"] == ""
