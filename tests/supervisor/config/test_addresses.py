"""Addresses of remotes: hosts, ports that have defaults, URLs, and what they say beside the other keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.config.addresses import RemoteAddress, parse_remote_address
from tests.supervisor.config.test_loading import load_text, problems_of, remote


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker.example", RemoteAddress(host="broker.example", port=None)),
        ("broker.example:1884", RemoteAddress(host="broker.example", port=1884)),
        ("10.0.0.1", RemoteAddress(host="10.0.0.1", port=None)),
        ("[::1]", RemoteAddress(host="::1", port=None)),
        ("[::1]:1884", RemoteAddress(host="::1", port=1884)),
        ("mqtt://broker.example", RemoteAddress(host="broker.example", port=None, transport="tcp")),
        ("MQTTS://u@broker.example:99/", RemoteAddress(host="broker.example", port=99, transport="tls", username="u", path="/")),
        ("ssl://[::1]:8884", RemoteAddress(host="::1", port=8884, transport="tls")),
        ("wss://b.example/mqtt/v5", RemoteAddress(host="b.example", port=None, transport="wss", path="/mqtt/v5")),
    ],
)
def test_an_address_is_read(text: str, address: RemoteAddress) -> None:
    assert parse_remote_address(text) == address


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not an address"),
        ("::1", "IPv6 address wants brackets"),
        ("broker.example:", "has no port from 1 to 65535"),
        ("broker.example:0", "has no port from 1 to 65535"),
        ("bro ker", "is not an address"),
        ("http://broker.example", "mqtts://broker.example:8883"),
        ("mqtt://", "is not an address"),
        ("mqtts://u:secret@broker.example", "a password in the address is read by everyone"),
        ("mqtt://broker.example/path", "means nothing without WebSocket"),
        ("wss://broker.example/mqtt?token=1", "means nothing to a broker"),
    ],
)
def test_what_is_no_address_is_told_with_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told.replace("?", r"\?")) as refused:
        parse_remote_address(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "places", "transport"),
    [
        ('addresses: ["a", "b:99"]', (("a", 1883), ("b", 99)), "tcp"),
        ('addresses: ["a"], transport: tls', (("a", 8883),), "tls"),
        ('addresses: ["a"], transport: ws', (("a", 80),), "ws"),
        ('addresses: ["wss://a"]', (("a", 443),), "wss"),
        ('addresses: ["mqtts://a", "b"]', (("a", 8883), ("b", 8883)), "tls"),
        ('addresses: ["mqtts://a"], transport: tls', (("a", 8883),), "tls"),
    ],
)
def test_the_port_follows_from_the_transport(
    keys: str, places: tuple[tuple[str, int], ...], transport: str, tmp_path: Path
) -> None:
    (bridge,) = load_text(tmp_path, remote(f"{keys}, client_id: e")).bridges

    assert (bridge.remote.addresses, bridge.remote.transport) == (places, transport)


def test_user_and_path_of_a_url_stand_for_the_keys(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    text = remote('addresses: ["wss://edge@a/broker"], client_id: e, password_file: secret')

    (bridge,) = load_text(tmp_path, text).bridges

    assert (bridge.remote.username, bridge.remote.websocket_path) == ("edge", "/broker")


@pytest.mark.parametrize(
    ("keys", "place", "told"),
    [
        ('addresses: ["mqtts://a"], transport: ws', "addresses[0]", "says transport tls, and it is ws already"),
        ('addresses: ["mqtts://a", "mqtt://b"]', "addresses[1]", "says transport tcp, and it is tls already"),
        ('addresses: ["mqtts://u@a"], username: v', "addresses[0]", "says username u, and it is v already"),
        ('addresses: ["wss://a/x"], websocket_path: /y', "addresses[0]", "says websocket_path /x, and it is /y already"),
        ('addresses: ["a", "mqtt://a:1883"]', "addresses[1]", "is given twice"),
        ('addresses: ["mqtt://a"], tls: {}', "tls", "has no effect with transport tcp"),
    ],
)
def test_addresses_and_keys_that_are_at_odds_are_refused(keys: str, place: str, told: str, tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, remote(f"{keys}, client_id: e"))

    assert problem.split(": ")[1] == f"bridges[0].remote.{place}"
    assert told in problem


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ('addresses: ["a"], port: 8883', "addresses:"),
        ('addresses: ["a"], password: x', "password_file"),
        ('addresses: ["a"], tls: true', "transport: tls, or an address such as mqtts://"),
    ],
)
def test_what_people_of_other_brokers_write_is_told_how_it_is_written_here(keys: str, told: str, tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, remote(f"{keys}, client_id: e"))

    assert told in problem
