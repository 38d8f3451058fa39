"""A shared subscription whose members may not all read the same: each message goes to one that may, on a real node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.access.password_hashes import hash_password
from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient, publish, take, take_one
from tests.support.node import Config, Node, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

USERS = ("ada", "bob", "boss")
SHARED = "$share/g/plant/#"
RULES: list[dict[str, Any]] = [
    {"permission": "deny", "users": ["bob"], "topics": ["plant/secret/#"], "action": "subscribe"},
    {"topics": ["plant/#"]},
]


def config(folder: Path, **access: Any) -> Config:
    """A broker alone with ``USERS``, whose passwords are their names."""
    path = folder / "passwords"
    path.write_text("".join(f"{user}:{hash_password(user.encode())}\n" for user in USERS))
    return node_config(access={"password_file": str(path), **access})


def member(port: int, user: str, client_id: str, **more: Any) -> MqttClient:
    return MqttClient(port, client_id, username=user, password=user, **more)


def left_out(node: Node) -> int:
    """How many copies were not delivered because their client may not read them."""
    count: int = node.status()["listener"]["access"]["deliveries_forbidden"]
    return count


def test_a_message_goes_to_a_member_that_may_read_it_and_is_left_out_and_counted_if_none_may(
    tmp_path: Path, start_node: StartNode
) -> None:
    node = start_node(config(tmp_path, acl=RULES))
    with member(node.port, "boss", "writer") as writer, member(node.port, "bob", "b", version=5) as bob:
        for qos in (0, 1, 2):
            with member(node.port, "ada", "a") as ada:
                for one in (bob, ada):
                    assert one.subscribe(SHARED, qos=qos).reason_codes == (qos,)
                for number in range(10):
                    publish(writer, "plant/secret/x", str(number), qos=qos)
                    publish(writer, "plant/open", str(number), qos=qos)
                assert [message.topic for message in take(bob, 5)] == ["plant/open"] * 5
                assert sorted(message.topic for message in take(ada, 15)) == ["plant/open"] * 5 + ["plant/secret/x"] * 10
                ada.disconnect()
        assert left_out(node) == 0
        wait_until(lambda: node.status()["listener"]["clients"] == 2, PATIENCE_S, "ada is gone")
        publish(writer, "plant/secret/x", "0", "1", "2", qos=1)
        publish(writer, "plant/open", "3", qos=1)
        assert take_one(bob).payload == b"3"
        wait_until(lambda: left_out(node) == 3, PATIENCE_S, "what nobody may read is counted")


def test_who_is_offline_gets_what_nobody_who_is_there_may_read_by_the_rules_of_its_own_listener(
    tmp_path: Path, start_node: StartNode
) -> None:
    """Also after a restart of the node, when nobody but the store knows by which listener it came."""
    outside, inside = free_port(), free_port()
    listeners = [{"bind": f"127.0.0.1:{outside}"}, {"bind": f"127.0.0.1:{inside}", "access": {"acl": [{"topics": ["#"]}]}}]
    node = start_node({**config(tmp_path, acl=RULES), "listeners": listeners})
    with member(inside, "bob", "kept", clean=False) as kept:
        assert kept.subscribe(SHARED, qos=1).reason_codes == (1,)
        kept.disconnect()
    with member(outside, "bob", "as-kept", clean=False) as forbidden:
        assert forbidden.subscribe(SHARED, qos=1).reason_codes == (1,)
        forbidden.disconnect()
    for restarted in (False, True):
        if restarted:
            node.restart()
        with member(outside, "boss", "writer") as writer:
            publish(writer, "plant/secret/a", "0", "1", qos=1)
            with member(outside, "bob", "live") as live:
                assert live.subscribe(SHARED, qos=1).reason_codes == (1,)
                publish(writer, "plant/secret/b", "2", "3", qos=1)
                publish(writer, "plant/open", "4", qos=1)
                assert take_one(live).topic == "plant/open"
                live.disconnect()
        with member(inside, "bob", "kept", clean=False) as kept:
            assert [message.payload for message in take(kept, 4)] == [b"0", b"1", b"2", b"3"]
            kept.ping()
            kept.disconnect()
        assert left_out(node) == 0


def test_a_changed_acl_file_changes_who_gets_what_also_in_a_new_process(tmp_path: Path, start_node: StartNode) -> None:
    acl = tmp_path / "acl.yaml"

    def allow_secrets_to(user: str) -> None:
        new = tmp_path / "acl.new"
        rules = [f"{{users: [{user}, boss], topics: ['#']}}", "{topics: ['plant/secret/#'], permission: deny}", "{topics: ['#']}"]
        new.write_text("acl:\n" + "".join(f"  - {rule}\n" for rule in rules))
        new.replace(acl)

    allow_secrets_to("ada")
    node = start_node(config(tmp_path, acl_file=str(acl)))
    with (
        member(node.port, "boss", "writer") as writer,
        member(node.port, "ada", "a") as ada,
        member(node.port, "bob", "b") as bob,
    ):
        for one in (ada, bob):
            assert one.subscribe(SHARED, qos=1).reason_codes == (1,)
        publish(writer, "plant/secret/x", "0", "1", qos=1)
        assert [message.payload for message in take(ada, 2)] == [b"0", b"1"]

        allow_secrets_to("bob")
        wait_until(lambda: node.events("acl.reloaded"), PATIENCE_S, lambda: node.output[-2000:])
        publish(writer, "plant/secret/x", "2", "3", qos=1)
        assert [message.payload for message in take(bob, 2)] == [b"2", b"3"]

    node.wait_replaced("clients", node.kill("clients"))
    with (
        member(node.port, "boss", "writer") as writer,
        member(node.port, "ada", "a") as ada,
        member(node.port, "bob", "b") as bob,
    ):
        for one in (ada, bob):
            assert one.subscribe(SHARED, qos=1).reason_codes == (1,)
        publish(writer, "plant/secret/x", "4", "5", qos=1)
        assert [message.payload for message in take(bob, 2)] == [b"4", b"5"]
        ada.ping()
    assert left_out(node) == 0


def test_what_the_node_says_of_itself_goes_to_a_member_that_may_read_it(tmp_path: Path, start_node: StartNode) -> None:
    rules: list[dict[str, Any]] = [
        {"permission": "deny", "users": ["bob"], "topics": ["$SYS/broker/uptime"], "action": "subscribe"},
        {"topics": ["$SYS/#"]},
    ]
    node = start_node(config(tmp_path, acl=rules) | {"clients": {"sys_period": "100ms"}})
    with member(node.port, "ada", "a", version=5) as ada, member(node.port, "bob", "b", version=5) as bob:
        for one in (ada, bob):
            assert one.subscribe("$share/g/$SYS/broker/+").reason_codes == (0,)
        assert [message.topic for message in take(bob, 3)] == ["$SYS/broker/version"] * 3
        assert [message.topic for message in take(ada, 6)].count("$SYS/broker/uptime") > 2
        assert left_out(node) == 0
