"""Questions of an operator, or of who has only the right to look: each costs in proportion to its bytes, and nothing dies of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import COMMANDS, OPTIONAL, ControlError, encode_request, parse_request
from supervisor.control.store_commands import to_frame
from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import node_config

LONG = 220_000
NAMES = sorted({(command, name) for table in (COMMANDS, OPTIONAL) for command, names in table.items() for name in names})


@pytest.mark.parametrize(("command", "name"), NAMES)
def test_every_text_of_every_command_has_a_limit(command: str, name: str) -> None:
    """Also of the commands that are yet to come: they are in the same table."""
    arguments = dict.fromkeys(COMMANDS[command], "1") | {name: "a" * LONG}

    with pytest.raises(ControlError, match=f"{name} has at most"):
        parse_request(encode_request(1, command, arguments))


@pytest.mark.parametrize("glob", ["*a" * 128, "*" * 17, "a*" * 17])
def test_a_glob_with_many_wildcards_is_refused(glob: str) -> None:
    with pytest.raises(ControlError, match=r"at most 16 \*"):
        to_frame(parse_request(encode_request(1, "session.list", {"like": glob})), 1)


@pytest.mark.process
def test_hostile_questions_about_sessions_leave_clients_and_store_alone(start_node: StartNode) -> None:
    """The longest globs that are taken, many of them, against long identifiers that nearly match."""
    node = start_node(node_config(clients={"client_id_max_bytes": "65535B"}))
    names = [f"{'a' * 2_000}{number}" for number in range(30)]
    held = [MqttClient(node.port, name, clean=number % 2 == 0) for number, name in enumerate(names)]
    for client in held:
        client.connect()
    before = [node.pid("clients"), node.pid("store")]
    control = ControlClient.of_data_dir(node.data_dir)
    asks: list[Callable[[], object]] = []
    for glob in ("*a" * 16 + "b", "*" + "a" * 254 + "b", "*" + "?" * 254 + "b", "*" + "[!b]" * 63 + "b", "a" * 256):
        asks += [lambda glob=glob: control.sessions(like=glob, count=1)] * 20  # type: ignore[misc]

    with MqttClient(node.port, "honest") as honest:
        for packet_id, ask in enumerate(asks, 1):
            ask()
            honest.publish("t", "m", qos=1, packet_id=packet_id)
            honest.expect(PUBACK, packet_id=packet_id)

    assert {row.client_id for row in control.each_session(like="*a29")} == {names[29]}
    assert [node.pid("clients"), node.pid("store")] == before
    for client in held:
        client.ping()
        client.close()
