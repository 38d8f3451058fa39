"""The request by which a WebSocket to a remote is asked for, as it comes on the wire."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from typing import Any

import pytest

from actors.remote.remote_socket import open_remote
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S
from wire.errors import Unavailable
from wire.status.link_faults import LinkFault, fault_of


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, {"sec-websocket-protocol": "mqtt", "host": "HOST"}),
        (
            {"websocket_subprotocol": "mqttv3.1", "websocket_headers": (("Authorization", "Bearer x"), ("host", "broker.example"))},
            {"sec-websocket-protocol": "mqttv3.1", "authorization": "Bearer x", "host": "broker.example"},
        ),
    ],
)
def test_configured_headers_are_sent_once_and_take_the_place_of_the_usual(keys: dict[str, Any], wanted: dict[str, str]) -> None:
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()

        def refuse() -> None:
            far, _ = listening.accept()
            with far:
                far.settimeout(PATIENCE_S)
                data = b""
                while not data.endswith(b"\r\n\r\n"):
                    data += far.recv(4096)
                requests.append(data)
                far.sendall(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        settings = replace(bridge().remote, transport="ws", connect_timeout_s=PATIENCE_S, **keys)
        with pytest.raises(Unavailable) as raised:
            open_remote(settings, "c", (host, port), clean=False)
        thread.join(PATIENCE_S)
    assert fault_of(raised.value) is LinkFault.WEBSOCKET
    lines = [line.partition(": ") for line in requests[0].decode().split("\r\n")[1:] if line]
    names = [name.lower() for name, _, _ in lines]
    assert len(set(names)) == len(names)
    sent = {name.lower(): text for name, _, text in lines}
    assert {name: sent[name] for name in wanted} == {name: text.replace("HOST", f"{host}:{port}") for name, text in wanted.items()}
