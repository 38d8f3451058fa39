"""The right to look alone, the role ``view``: no answer has what a client has sent, by whichever way and question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from actors.process.request_sockets import new_key_pair
from supervisor.control.client import ControlClient
from supervisor.control.control_socket import COMMANDS, OPTIONAL, ControlError
from supervisor.control.key_files import KeyFile, write_key
from supervisor.control.roles import NEEDED
from tests.supervisor.http.client import request
from tests.supervisor.http.served import TOKENS, Served, serve
from tests.support.fake_remote import FakeRemote
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import CORRELATION_DATA, PUBACK, RESPONSE_TOPIC, USER_PROPERTY, WILL_DELAY, Will
from tests.support.node import bridge_config
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

SECRET = "s3cr3t"  # in each payload and each property that a client sends
PROPERTIES: list[tuple[int, Any]] = [
    (USER_PROPERTY, (SECRET, SECRET)),
    (CORRELATION_DATA, SECRET.encode()),
    (RESPONSE_TOPIC, SECRET),
]
ARGUMENTS = {
    "bridge": "cloud",
    "client_id": "pump",
    "number": "1",
    "dead": "yes",
    "count": "100",
    "from": "0",
    "topic": "#",
    "member": "a",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A node that has such bytes everywhere: queued, dead, retained, in sessions and in Wills, of clients here and gone."""
    folder = tmp_path_factory.mktemp("roles")
    with ExitStack() as stack:
        remote = stack.enter_context(FakeRemote())
        remote.reason_code = lambda packet: 0x87 if packet.topic.startswith("bad/") else 0
        bridge = bridge_config("cloud", remote.port, protocol="mqtt5")
        served = stack.enter_context(serve(folder, bridge))
        last = Will(topic="last", payload=SECRET.encode(), qos=1, properties=PROPERTIES)
        for name in ("pump", "gone"):
            client = MqttClient(served.node.port, name, version=5, clean=False, session_expiry_s=600, will=delayed(last))
            client.connect()
            client.subscribe("kept/#", qos=1)
            if name == "gone":
                client.close()
            else:
                stack.callback(client.close)
        stack.enter_context(MqttClient(served.node.port, "short", version=5, will=last))
        publisher = stack.enter_context(MqttClient(served.node.port, "publisher", version=5))
        for packet_id, topic in enumerate(("bad/1", "kept/1", "good/1"), 1):
            publisher.publish(topic, SECRET, qos=1, packet_id=packet_id, retain=True, properties=PROPERTIES)
            publisher.expect(PUBACK, packet_id=packet_id)
        served.node.wait_lane("cloud", depth=0, dead_lettered=1)
        yield served


def delayed(will: Will) -> Will:
    return Will(topic=will.topic, payload=will.payload, qos=1, properties=[*PROPERTIES, (WILL_DELAY, 500)])


def test_no_page_and_no_route_shows_it_what_a_client_has_sent(served: Served) -> None:
    """Also routes that are yet to come: they are read from the OpenAPI document."""
    routes = request(served.port, "/openapi.json", token=TOKENS["view"]).json["paths"]
    asked = [path for path, methods in routes.items() if "get" in methods]
    assert "/api/v1/sessions/{client_id}" in asked
    for path in [*asked, "/metrics", "/health/ready", "/"]:
        for name in ("pump", "gone", "short"):
            filled = path.format(**{**ARGUMENTS, "client_id": name})
            for query in ("", "?dead=true&whole=true", "?lane=0", "?will=true"):
                answer = request(served.port, filled + query, token=TOKENS["view"])
                assert SECRET.encode() not in answer.body, (filled, answer.body)
                assert "czNjcjN0" not in answer.body.decode(), "in base64"
                assert answer.status in (200, 400, 403, 404, 409), (filled, answer)


def test_no_command_with_its_key_shows_it_what_a_client_has_sent(served: Served, tmp_path: Path) -> None:
    keys = served.node.config_path.parent / "keys"
    public, secret = new_key_pair()
    keys.mkdir(mode=0o700)
    write_key(keys / "viewer.key", KeyFile(public=public, role="view"), "Of a test.")
    config = json.loads(served.node.config_path.read_text())
    control = {"bind": "tcp://127.0.0.1:0", "allowed_keys": str(keys)}
    served.node.config_path.write_text(json.dumps({**config, "control": control}))
    served.change("/reload", {})
    wait_until(lambda: served.node.status()["control"]["keys"] == 1, PATIENCE_S, "the key is read")
    figures = served.node.status()["control"]
    looked = set()
    with ControlClient.remote(figures["endpoint"], public=public, secret=secret, server=figures["public_key"]) as viewer:
        for command, needed in COMMANDS.items():
            for optional in ((), *((each,) for each in OPTIONAL.get(command, ()))):
                arguments = {name: ARGUMENTS.get(name, "yes") for name in (*needed, *optional)}
                try:
                    answer = repr(viewer.call(command, arguments))
                except ControlError as refused:
                    answer = repr(refused)
                    looked |= {command} if refused.kind != "forbidden" else set()
                else:
                    looked.add(command)
                assert SECRET not in answer, (command, answer)
    assert looked == {command for command, role in NEEDED.items() if role == "view"}


def test_operate_sees_what_a_will_says_and_view_its_topic_and_sizes(served: Served) -> None:
    assert served.get("/wills/gone").kind == "forbidden"
    will = served.get("/sessions/gone").json["will"]
    assert (will["topic"], will["size"], will["delay_s"]) == ("last", len(SECRET), 500)
    assert will["properties_size"] > 3 * len(SECRET)
    assert not {"payload", "properties"} & set(will)

    whole = served.get("/wills/gone", "operate").json["will"]
    assert (whole["payload"], whole["properties"]["response_topic"]) == (SECRET, SECRET)
    assert served.get("/wills/publisher", "operate").json == {"will": None}
    assert served.get("/wills/nobody", "operate").kind == "no_such_session"
