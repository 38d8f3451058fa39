"""The brokers under test: ours, and Mosquitto, by which the tests themselves are proved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.access.password_hashes import hash_password
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, node_config
from tests.support.ports import free_port

PASSWORD = "open sesame"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker that runs."""

    name: str
    port: int
    websocket_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings that both have."""

    receive_maximum: int | None = None
    packet_max_bytes: int | None = None
    keep_alive_max_s: int | None = None
    user: str | None = None  # the only one, with PASSWORD; it may publish and subscribe below ``allowed/`` only


@contextmanager
def mosquitto(folder: Path, limits: Limits) -> Iterator[Broker]:
    """A stock Mosquitto 2.0."""
    lines = [f"max_packet_size {limits.packet_max_bytes}"] if limits.packet_max_bytes else []
    lines += [f"max_keepalive {limits.keep_alive_max_s}"] if limits.keep_alive_max_s else []
    websocket_port = free_port()
    lines += ["retain_available true", f"listener {websocket_port} 127.0.0.1", "protocol websockets"]
    if limits.user:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "acl").write_text(f"user {limits.user}\ntopic readwrite allowed/#\n")
        lines.append(f"acl_file {folder}/acl")
    users = {limits.user: PASSWORD} if limits.user else None
    with Mosquitto(folder, max_inflight_messages=limits.receive_maximum, users=users, lines=lines) as broker:
        yield Broker(name="mosquitto", port=broker.port, websocket_port=websocket_port)


@contextmanager
def bascule(folder: Path, limits: Limits) -> Iterator[Broker]:
    """A node without bridges."""
    clients: dict[str, Any] = {"response_information": "replies/%c", "topic_max_bytes": "65535B", "client_id_max_bytes": "65535B"}
    if limits.receive_maximum:
        clients["receive_maximum"] = limits.receive_maximum
    if limits.packet_max_bytes:
        clients["packet_max_bytes"] = f"{limits.packet_max_bytes}B"
    if limits.keep_alive_max_s:
        clients["keep_alive_max"] = f"{limits.keep_alive_max_s}s"
    port, websocket_port = free_port(), free_port()
    listeners = [{"bind": f"127.0.0.1:{port}"}, {"bind": f"127.0.0.1:{websocket_port}", "protocol": "ws"}]
    keys: Config = {}
    if limits.user:
        folder.mkdir(parents=True, exist_ok=True)
        passwords = folder / "passwords"
        passwords.write_text(f"{limits.user}:{hash_password(PASSWORD.encode())}\n")
        passwords.chmod(0o600)
        keys["access"] = {"password_file": str(passwords), "acl": [{"users": [limits.user], "topics": ["allowed/#"]}]}
    with Node(node_config(clients=clients, listeners=listeners, **keys), folder) as node:
        yield Broker(name="bascule", port=port, websocket_port=websocket_port)
        assert "Traceback" not in node.output, node.output[-4000:]


BROKERS = {"bascule": bascule, "mosquitto": mosquitto}
