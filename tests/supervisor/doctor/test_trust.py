"""Certificates by their dates, secrets by their permissions, and who is let in."""

from __future__ import annotations

import calendar
import time
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.doctor import trust
from supervisor.doctor.findings import FAIL, OK, WARN
from tests.supervisor.settings import node_settings
from tests.support.settings import HTTP, OTLP, bridge
from wire.config_settings import AclRuleSettings, ListenerSettings, ProxyProtocolSettings, TelemetrySettings

DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("days", "verdict", "told"),
    [(-1, FAIL, "not valid yet"), (1, OK, "valid until"), (50, WARN, "expires on"), (80, FAIL, "expired on")],
)
def test_a_certificate_is_judged_by_its_dates(
    days: float, verdict: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "certificate_dates", lambda path: ("20261101000000Z", "20270110000000Z"))
    begins_s = calendar.timegm(time.strptime("20261101000000Z", "%Y%m%d%H%M%SZ"))

    finding = trust.certificate("server.pem", begins_s + days * DAY_S)

    assert finding.verdict == verdict
    assert told in finding.found


def test_a_file_without_a_certificate_is_told(tmp_path: Path) -> None:
    (tmp_path / "server.pem").write_text("nothing")

    assert trust.certificate(str(tmp_path / "server.pem"), 0.0).verdict == FAIL


@pytest.mark.parametrize(("mode", "verdict"), [(0o600, OK), (0o640, OK), (0o644, WARN)])
def test_a_secret_that_everybody_can_read_is_told(mode: int, verdict: str, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("x")
    secret.chmod(mode)
    remote = replace(bridge().remote, username="u", password_file=str(secret))
    settings = replace(node_settings(tmp_path), bridges=(replace(bridge(), remote=remote),))

    found = [finding for finding in trust.examine_trust(settings, 0.0) if finding.about.startswith("secret")]

    assert [finding.verdict for finding in found] == [verdict]
    assert all(finding.cure == f"chmod o-rwx {secret}" for finding in found if verdict == WARN)


def test_a_remote_that_is_not_checked_is_told(tmp_path: Path) -> None:
    remote = bridge().remote
    remote = replace(remote, transport="tls", tls=replace(remote.tls, verify=False))
    settings = replace(node_settings(tmp_path), bridges=(replace(bridge(), remote=remote),))

    (finding,) = [finding for finding in trust.examine_trust(settings, 0.0) if finding.about.startswith("bridge")]

    assert (finding.verdict, "verify: false" in finding.found) == (WARN, True)


@pytest.mark.parametrize(
    ("host", "anonymous", "acl", "told"),
    [
        ("127.0.0.1", True, None, False),
        ("[::1]", True, None, False),
        ("localhost", True, None, False),
        ("0.0.0.0", True, None, True),
        ("0.0.0.0", False, None, False),
        ("0.0.0.0", True, (), False),
    ],
)
def test_a_listener_that_is_open_to_everybody_is_told(
    host: str, anonymous: bool, acl: tuple[AclRuleSettings, ...] | None, told: bool, tmp_path: Path
) -> None:
    settings = node_settings(tmp_path)
    listener = ListenerSettings(bind=f"{host}:1883")
    access = replace(settings.access, allow_anonymous=anonymous, acl=acl)
    settings = replace(settings, listeners=(listener,), access=access, bridges=())

    assert [finding.verdict for finding in trust.examine_trust(settings, 0.0)] == [WARN] * told
    behind = replace(listener, proxy_protocol=ProxyProtocolSettings(sources=("127.0.0.1/32",)))
    found = trust.examine_trust(replace(settings, listeners=(behind,)), 0.0)
    assert [finding.verdict for finding in found] == [WARN] * (anonymous and acl is None), "who comes by a proxy is from anywhere"


@pytest.mark.parametrize(("host", "told"), [("127.0.0.1", []), ("[::1]", []), ("0.0.0.0", [WARN])])
def test_tokens_that_go_unencrypted_over_the_network_are_told(host: str, told: list[str], tmp_path: Path) -> None:
    settings = replace(node_settings(tmp_path), http=replace(HTTP, bind=f"{host}:0"))

    found = [finding for finding in trust.examine_trust(settings, 0.0) if finding.about.startswith("http")]

    assert [finding.verdict for finding in found] == told


@pytest.mark.parametrize(
    ("endpoint", "headers", "told"),
    [
        ("http://collector:4318", (("authorization", "secret"),), [WARN]),
        ("http://collector:4318", (), []),
        ("http://[::1]:4318", (("authorization", "secret"),), []),
        ("https://collector:4318", (("authorization", "secret"),), []),
    ],
    ids=["in-clear", "no-headers", "loopback", "https"],
)
def test_headers_that_go_unencrypted_over_the_network_are_told(
    endpoint: str, headers: tuple[tuple[str, str], ...], told: list[str], tmp_path: Path
) -> None:
    telemetry = TelemetrySettings(otlp=replace(OTLP, endpoint=endpoint, headers=headers))
    settings = replace(node_settings(tmp_path), telemetry=telemetry)

    found = [finding for finding in trust.examine_trust(settings, 0.0) if finding.about.startswith("telemetry")]

    assert [finding.verdict for finding in found] == told
    assert "secret" not in str(found)
