"""Logins and rights on a real node: passwords, access control lists, and both changed while it runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from threading import Event
from typing import Any, Self

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from actors.access.password_hashes import hash_password
from tests.broker.raw import client_context
from tests.conftest import StartNode
from tests.support.authority import Authority, Pair, client_words, tls_keys
from tests.support.mosquitto import mosquitto_pub, program
from tests.support.mqtt_client import Closed, MqttClient, publish, take_one
from tests.support.mqtt_packets import DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC
from tests.support.node import Config, Node, bascule, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

WAIT_S = PATIENCE_S
USERS = {"ada": "lovelace", "bob": "hope", "eve": "adams"}
HASHES = {user: hash_password(password.encode()) for user, password in USERS.items()}
RULES: list[dict[str, Any]] = [
    {"permission": "deny", "users": ["bob"], "topics": ["plant/secret/#"]},
    {"users": ["ada"], "topics": ["#"]},
    {"users": ["bob"], "topics": ["plant/#"], "action": "subscribe"},
    {"topics": ["own/%u/#", "by/%c/+"]},
]
VERSIONS = pytest.mark.parametrize("version", [4, 5])


class Arriving(MqttClient):
    """A client whose CONNACK is looked at: entering the context does not connect it."""

    def __enter__(self) -> Self:
        return self


def password_file(folder: Path, **users: str) -> Path:
    """A password file of ``users``, or of all."""
    path = folder / "passwords"
    replace_text(path, "".join(f"{name}:{stored}\n" for name, stored in (users or HASHES).items()))
    return path


def replace_text(path: Path, text: str) -> None:
    """Give ``path`` this content at once: who watches it never finds a part."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text)
    temporary.replace(path)


def config(folder: Path, acl: list[dict[str, Any]] | None = None, **access: Any) -> Config:
    """A broker alone that knows ``USERS``; ``acl`` and ``access`` go into its access section."""
    section = {"password_file": str(password_file(folder)), **access}
    return node_config(access=section if acl is None else {**section, "acl": acl})


def client(
    node: Node, user: str | None, client_id: str = "c", *, password: str | None = None, version: int = 4, **more: Any
) -> MqttClient:
    """A client of ``user`` with the right password, if it is given no other."""
    return Arriving(
        node.port,
        client_id,
        version=version,
        username=user,
        password=password if password is not None or user is None else USERS[user],
        **more,
    )


def figures(node: Node) -> dict[str, Any]:
    access: dict[str, Any] = node.status()["listener"]["access"]
    return access


# --- logins ---


@VERSIONS
@pytest.mark.parametrize(
    ("user", "password", "codes"),
    [
        ("ada", "lovelace", (0, 0)),
        ("ada", "hope", (4, 0x86)),
        ("nobody", "lovelace", (4, 0x86)),
        ("ada", "", (4, 0x86)),
        ("", "", (4, 0x86)),
        (None, None, (5, 0x87)),
    ],
)
def test_a_login_is_judged_with_the_code_of_its_version(
    login_node: Node, version: int, user: str | None, password: str | None, codes: tuple[int, int]
) -> None:
    """[MQTT-3.1.4-2]: anonymous is off unless it is switched on."""
    with Arriving(login_node.port, "c", version=version, username=user, password=password) as arriving:
        answer = arriving.connect()
        assert answer.reason_code == codes[version - 4]
        if answer.reason_code:
            with pytest.raises((Closed, ConnectionResetError)):
                arriving.read()
        else:
            arriving.ping()


def test_a_password_without_a_user_name_proves_nothing(login_node: Node) -> None:
    with Arriving(login_node.port, "c", version=5, password="lovelace") as arriving:
        assert arriving.connect().reason_code == 0x87


@pytest.fixture(scope="module")
def login_node(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A node that a few tests of logins share."""
    folder = tmp_path_factory.mktemp("login")
    with Node(config(folder, login_limits={"failures_max": "unlimited"}), folder / "node") as node:
        yield node


def test_mosquitto_clients_log_in_and_are_turned_away(login_node: Node) -> None:
    with client(login_node, "ada") as reader:
        assert reader.connect().reason_code == 0
        reader.subscribe("t")
        mosquitto_pub(login_node.port, "t", ["hello"], qos=1, options=["-u", "bob", "-P", "hope"])
        assert reader.expect(PUBLISH).payload == b"hello"
    words = [program("mosquitto_pub"), "-p", str(login_node.port), "-t", "t", "-m", "x", "-u", "bob"]
    wrong = subprocess.run([*words, "-P", "wrong"], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert wrong.returncode != 0
    assert "bad user name or password" in wrong.stderr.lower()
    nameless = subprocess.run(words[:-2], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert nameless.returncode != 0
    assert "not authorised" in nameless.stderr.lower()


def test_paho_logs_in_and_is_told_why_it_may_not(login_node: Node) -> None:
    assert connect_with_paho(login_node.port, "eve", "adams") == "Success"
    assert connect_with_paho(login_node.port, "eve", "smith") == "Bad user name or password"


def connect_with_paho(port: int, user: str, password: str) -> str:
    """The reason in the CONNACK that a paho client gets."""
    answered, reasons = Event(), []

    def on_connect(_client: paho.Client, _data: Any, _flags: Any, reason: ReasonCode, _properties: Properties | None) -> None:
        reasons.append(str(reason))
        answered.set()

    arriving = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    arriving.username_pw_set(user, password)
    arriving.on_connect = on_connect
    arriving.connect("127.0.0.1", port)
    arriving.loop_start()
    try:
        assert answered.wait(WAIT_S)
    finally:
        arriving.disconnect()
        arriving.loop_stop()
    return reasons[0]


def test_clients_that_come_back_cost_one_verification(tmp_path: Path, start_node: StartNode) -> None:
    node = start_node(config(tmp_path))
    for number in range(20):
        with client(node, "ada", f"c{number}") as arriving:
            assert arriving.connect().reason_code == 0
    found = figures(node)
    assert found["logins"] >= 20
    assert found["logins_verified"] == 1


def test_a_listener_may_let_in_who_has_no_name(tmp_path: Path, start_node: StartNode) -> None:
    """The demands of other listeners stay; the same rules hold for all."""
    inside, outside = free_port(), free_port()
    listeners = [{"bind": f"127.0.0.1:{outside}"}, {"bind": f"127.0.0.1:{inside}", "access": {"allow_anonymous": True}}]
    rules: list[dict[str, Any]] = [{"anonymous": True, "topics": ["open/#"]}, {"users": ["ada"], "topics": ["#"]}]
    node = start_node({**config(tmp_path, rules), "listeners": listeners})
    with Arriving(outside, "a", version=5) as arriving:
        assert arriving.connect().reason_code == 0x87
    with Arriving(inside, "b", version=5) as arriving:
        assert arriving.connect().reason_code == 0
        assert arriving.subscribe("open/x", "plant/x").reason_codes == (0, 0x87)
    node.port = inside
    with client(node, "ada", "wrong", password="guess") as arriving:
        assert arriving.connect().reason_code == 4, "a name must be proven here too"
    with client(node, "ada") as arriving:
        assert arriving.connect().reason_code == 0


def test_a_password_file_is_read_again_when_it_changes(tmp_path: Path, start_node: StartNode) -> None:
    """By ``bascule user``, without a restart; who is connected stays. A broken file changes nothing and is logged once."""
    node = start_node(config(tmp_path))
    path = tmp_path / "passwords"
    with client(node, "ada") as staying:
        assert staying.connect().reason_code == 0
        done = subprocess.run(
            [*bascule("user", "add"), "--stdin", str(path), "ada"],
            input="babbage\n",
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        wait_until(lambda: node.events("passwords.reloaded"), WAIT_S, lambda: node.output[-2000:])
        assert connects(node, "ada", "lovelace") == 4
        assert connects(node, "ada", "babbage") == 0
        staying.ping()

        replace_text(path, "ada:lovelace\n")
        wait_until(lambda: node.events("passwords.refused"), WAIT_S, lambda: node.output[-2000:])
        assert connects(node, "ada", "babbage") == 0
        assert connects(node, "bob", "hope") == 0
        (told,) = node.events("passwords.refused")
        assert told["problems"][0].startswith(f"{path}:1: ")
        assert "bascule user" in told["problems"][0]
        assert "lovelace" not in str(told), "it may be a password"

        password_file(tmp_path, bob=HASHES["bob"])
        wait_until(lambda: len(node.events("passwords.reloaded")) == 2, WAIT_S, lambda: node.output[-2000:])
        assert connects(node, "ada", "babbage") == 4
        assert connects(node, "bob", "hope") == 0
        staying.ping()


def connects(node: Node, user: str, password: str) -> int:
    with Arriving(node.port, f"try-{user}", username=user, password=password) as arriving:
        return arriving.connect().reason_code


def test_an_address_that_fails_too_often_has_to_wait(tmp_path: Path, start_node: StartNode) -> None:
    limits = {"failures_max": 5, "period": "1m", "block": "5s"}
    node = start_node(config(tmp_path, login_limits=limits))
    assert [connects(node, "ada", f"guess-{number}") for number in range(5)] == [4] * 5
    with client(node, "ada", version=5) as arriving:
        assert arriving.connect().reason_code == 0x9F
    assert connects(node, "ada", "lovelace") == 3
    assert node.events("address.blocked")[0]["address"] == "127.0.0.1"
    wait_until(lambda: connects(node, "ada", "lovelace") == 0, WAIT_S, "login after the block")
    found = figures(node)
    assert (found["logins_failed"], found["addresses_blocked"]) == (5, 1)


def test_a_flood_of_logins_does_not_hold_up_who_is_there(tmp_path: Path, start_node: StartNode) -> None:
    """Hundreds of guesses wait in threads' time; after the fifth wrong one the rest are refused without a look."""
    node = start_node(config(tmp_path, login_limits={"failures_max": 5, "period": "1m", "block": "1m"}))
    with client(node, "ada") as staying:
        assert staying.connect().reason_code == 0
        flood = [client(node, "bob", f"flood-{number}", password=f"guess-{number}") for number in range(100)]
        try:
            for guessing in flood:
                guessing.connect_without_waiting()
            staying.ping()
            codes = [guessing.read(WAIT_S).reason_code for guessing in flood]
        finally:
            for guessing in flood:
                guessing.close()
        assert set(codes) == {4, 3}
        assert 5 <= codes.count(4) <= 6, "those that fail, and one more that was being verified"
        staying.ping()
    assert figures(node)["logins_failed"] == codes.count(4)


# --- certificates ---


def certificate_listener(authority: Authority, server_pair: Pair, port: int, **keys: Any) -> dict[str, Any]:
    """A listener over TLS whose clients' common names are their user names; a certificate is optional."""
    tls = tls_keys(server_pair, ca_file=str(authority.ca_file), client_certificate="optional", identity="common-name")
    return {"bind": f"127.0.0.1:{port}", "protocol": "tls", "tls": tls, **keys}


@VERSIONS
def test_a_certificate_logs_in_and_the_rules_are_those_of_its_user(
    tmp_path: Path, start_node: StartNode, authority: Authority, server_pair: Pair, client_pair: Pair, version: int
) -> None:
    """Without a password file: no password is asked for, and another user name in CONNECT gives no other rights."""
    port, no = free_port(), 0x87 if version == 5 else 0x80
    rules: list[dict[str, Any]] = [{"users": ["pump-7"], "topics": ["pumps/#", "own/%u/#"]}, {"users": ["ada"], "topics": ["#"]}]
    listeners = [certificate_listener(authority, server_pair, port)]
    node = start_node({**node_config(access={"acl": rules}), "listeners": listeners})
    certified = client_context(authority.ca_file, client_pair)
    for user, password in ((None, None), ("ada", None), ("ada", "guess")):
        with Arriving(port, "c", version=version, username=user, password=password, tls=certified) as arriving:
            assert arriving.connect().reason_code == 0
            asked = ("pumps/+", "own/pump-7/#", "own/ada/#", "secret")
            assert arriving.subscribe(*asked).reason_codes == (0, 0, no, no)
            arriving.publish("secret", "denied", qos=1)
            assert arriving.expect(PUBACK).reason_code == (0x87 if version == 5 else 0)
            arriving.publish("pumps/a", "allowed", qos=0)
            assert arriving.expect(PUBLISH).payload == b"allowed"
    with Arriving(port, "c", version=version, username="pump-7", password="x", tls=client_context(authority.ca_file)) as arriving:
        assert arriving.connect().reason_code == (0x87 if version == 5 else 5), "a name without the certificate is none"
    found = figures(node)
    assert (found["logins"], found["logins_refused"], found["publishes_forbidden"]) == (3, 1, 3)


def test_at_one_listener_some_show_certificates_and_others_have_passwords(
    tmp_path: Path, start_node: StartNode, authority: Authority, server_pair: Pair, client_pair: Pair
) -> None:
    port = free_port()
    rules: list[dict[str, Any]] = [{"users": ["pump-7"], "topics": ["pumps/#"]}, {"users": ["ada"], "topics": ["#"]}]
    start_node({**config(tmp_path, rules), "listeners": [certificate_listener(authority, server_pair, port)]})
    plain = client_context(authority.ca_file)
    with Arriving(port, "reader", username="ada", password="lovelace", tls=plain) as reader:
        assert reader.connect().reason_code == 0
        assert reader.subscribe("#").reason_codes == (0,)
        options = [*client_words(authority.ca_file, client_pair), "-u", "ada", "-P", "wrong"]
        mosquitto_pub(port, "pumps/7", ["from the pump"], qos=1, options=options)
        assert reader.expect(PUBLISH).payload == b"from the pump"
    with Arriving(port, "c", version=5, username="ada", password="wrong", tls=plain) as arriving:
        assert arriving.connect().reason_code == 0x86


@VERSIONS
def test_another_user_does_not_take_a_connection_over(
    tmp_path: Path, start_node: StartNode, authority: Authority, server_pair: Pair, client_pair: Pair, version: int
) -> None:
    """A client with a password cannot throw out others by their client identifiers; one's own connection is taken over."""
    plain, secure = free_port(), free_port()
    listeners = [
        {"bind": f"127.0.0.1:{plain}", "access": {"allow_anonymous": True}},
        certificate_listener(authority, server_pair, secure),
    ]
    node = start_node({**config(tmp_path), "listeners": listeners})
    node.port = plain
    refused = 0x85 if version == 5 else 2
    with client(node, "ada", "same", version=version) as owner:
        assert owner.connect().reason_code == 0
        others = [
            client(node, "bob", "same", version=version),
            client(node, None, "same", version=version),
            Arriving(secure, "same", version=version, tls=client_context(authority.ca_file, client_pair)),
        ]
        for other in others:
            with other as arriving:
                assert arriving.connect().reason_code == refused
                with pytest.raises((Closed, ConnectionResetError)):
                    arriving.read()
        owner.ping()
        with client(node, "ada", "same", version=version) as again:
            assert again.connect().reason_code == 0
            if version == 5:
                assert owner.expect(DISCONNECT).reason_code == 0x8E
            with pytest.raises((Closed, ConnectionResetError)):
                owner.read()
            again.ping()
    wait_until(lambda: node.status()["listener"]["clients"] == 0, WAIT_S, "all gone")
    with client(node, "bob", "same", version=version) as other:
        assert other.connect().reason_code == 0, "nobody holds it now"
    assert figures(node)["takeovers_forbidden"] == 3
    told = node.events("takeover.forbidden")[0]
    assert (told["client_id"], told["user"], told["owner"]) == ("same", "bob", "ada")


@VERSIONS
def test_a_session_that_is_kept_is_its_users_alone(tmp_path: Path, start_node: StartNode, version: int) -> None:
    """Nobody else sees what waits in it, ends it with a clean start or has its Will published; nor after a restart of the node."""
    node = start_node(config(tmp_path))
    kept: dict[str, Any] = {"clean": False, "version": version, "session_expiry_s": 600 if version == 5 else 0}
    with client(node, "ada", "kept", **kept) as owner:
        owner.connect()
        owner.subscribe("allowed/#", qos=1)
        owner.disconnect()
    with client(node, "bob", "writer") as writer:
        writer.connect()
        publish(writer, "allowed/t", "secret", qos=1)
    for restarts in range(2):
        for clean in (False, True):
            with client(node, "bob", "kept", version=version, clean=clean) as other:
                assert other.connect().reason_code == (0x85 if version == 5 else 2)
                with pytest.raises((Closed, ConnectionResetError)):
                    other.read()
        assert figures(node)["takeovers_forbidden"] == 2
        if not restarts:
            node.restart()
    with client(node, "ada", "kept", **kept) as owner:
        assert owner.connect().session_present
        assert take_one(owner).payload == b"secret"


# --- rights ---


@VERSIONS
def test_a_forbidden_publish_is_answered_in_its_place_and_goes_nowhere(tmp_path: Path, start_node: StartNode, version: int) -> None:
    """MQTT 5 says 0x87; MQTT 3.1.1 has no way to say it and gets the normal answer [MQTT-3.3.5-2]."""
    node = start_node(config(tmp_path, RULES))
    no = 0x87 if version == 5 else 0
    with client(node, "ada", "reader") as reader, client(node, "bob", "writer", version=version) as writer:
        assert reader.connect().reason_code == 0
        assert writer.connect().reason_code == 0
        reader.subscribe("#")
        topics = ["own/bob/a", "plant/a", "plant/a", "own/ada/a", "own/bob/b", "by/writer/a", "by/reader/a", "own/bob/c"]
        for qos in (0, 1, 2):
            sent = b"".join(writer.encode_publish(topic, f"{qos} {topic}", qos, at + 1) for at, topic in enumerate(topics))
            writer.send(sent)
            if not qos:
                continue
            answers = [writer.expect(PUBACK if qos == 1 else PUBREC, packet_id=at + 1).reason_code for at in range(len(topics))]
            assert answers == [0, no, no, no, 0, 0, no, 0]
            if qos == 2:
                writer.send(b"".join(b"\x62\x02\x00" + bytes([at + 1]) for at, code in enumerate(answers) if not code))
                for at, code in enumerate(answers):
                    if not code:
                        assert writer.expect(PUBCOMP, packet_id=at + 1).reason_code == 0
        allowed = [topic for topic, code in zip(topics, [0, 1, 1, 1, 0, 0, 1, 0], strict=True) if not code]
        for qos in (0, 1, 2):
            for topic in allowed:
                packet = reader.expect(PUBLISH)
                assert (packet.topic, packet.payload.decode()) == (topic, f"{qos} {topic}")
        writer.ping()
    assert figures(node)["publishes_forbidden"] == 12


def test_an_alias_does_not_get_round_the_rules(tmp_path: Path, start_node: StartNode) -> None:
    alias = [(0x23, 1)]
    node = start_node(config(tmp_path, RULES))
    with client(node, "ada", "reader") as reader, client(node, "bob", "writer", version=5) as writer:
        assert reader.connect().reason_code == 0
        assert writer.connect().reason_code == 0
        reader.subscribe("#")
        writer.publish("plant/a", "named", qos=1, properties=alias)
        assert writer.expect(PUBACK).reason_code == 0x87
        writer.publish("", "by alias", qos=1, properties=alias)
        assert writer.expect(PUBACK).reason_code == 0x87
        writer.publish("own/bob/a", "allowed", qos=1, properties=alias)
        writer.publish("", "allowed too", qos=1, properties=alias)
        assert [writer.expect(PUBACK).reason_code for _ in range(2)] == [0, 0]
        assert [reader.expect(PUBLISH).payload for _ in range(2)] == [b"allowed", b"allowed too"]


@VERSIONS
def test_a_forbidden_subscription_is_refused_and_what_is_denied_within_a_granted_one_is_left_out(
    tmp_path: Path, start_node: StartNode, version: int
) -> None:
    node = start_node(config(tmp_path, RULES))
    no = 0x87 if version == 5 else 0x80
    with client(node, "bob", "reader", version=version) as reader, client(node, "ada", "writer") as writer:
        assert reader.connect().reason_code == 0
        assert writer.connect().reason_code == 0
        asked = ("#", "plant/#", "plant/secret/#", "plant/secret/x", "own/bob/+", "own/+/x", "own/ada/x")
        assert reader.subscribe(*asked).reason_codes == (no, 0, no, no, 0, no, no)
        for topic in ("plant/a", "plant/secret/x", "own/ada/x", "own/bob/x", "plant/secret/y", "plant/b"):
            writer.publish(topic, topic, qos=1)
        assert [reader.expect(PUBLISH).topic for _ in range(3)] == ["plant/a", "own/bob/x", "plant/b"]
        reader.ping()
    found = figures(node)
    assert found["subscriptions_forbidden"] == 5
    assert found["deliveries_forbidden"] == 2


def test_names_with_wildcards_widen_nothing(tmp_path: Path, start_node: StartNode) -> None:
    """A client chooses its identifier: ``+``, ``#``, a slash or ``$`` in it must not open what is others'."""
    node = start_node(config(tmp_path, [{"topics": ["by/%c/#", "%c/x"]}]))
    for client_id in ("+", "#", "a/b", "$SYS", "+/x"):
        with client(node, "bob", client_id, version=5) as arriving:
            assert arriving.connect().reason_code == 0
            asked = arriving.subscribe("by/+/#", "by/#", "by/a/b", "by/a", "$SYS/x", "a/b/x", "+/x")
            assert asked.reason_codes == (0x87,) * 7, client_id


@VERSIONS
def test_a_will_that_may_not_be_published_is_refused_at_once(tmp_path: Path, start_node: StartNode, version: int) -> None:
    node = start_node({**config(tmp_path, RULES), "log": {"level": "debug"}})
    words = [program("mosquitto_sub"), "-p", str(node.port), "-u", "bob", "-P", "hope", "-t", "plant/#"]
    words += ["-V", "5" if version == 5 else "311", "--will-payload", "gone", "-W", "60", "--will-topic"]
    refused = subprocess.run([*words, "plant/will"], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert "not authori" in refused.stderr.lower(), refused
    with client(node, "ada", "reader") as reader:
        assert reader.connect().reason_code == 0
        reader.subscribe("own/bob/will")
        living = subprocess.Popen([*words, "own/bob/will"])
        wait_until(lambda: len(node.events("client.connected")) == 2, WAIT_S, "the client with a Will")
        living.kill()
        living.wait(WAIT_S)
        assert reader.expect(PUBLISH).payload == b"gone"


def test_an_acl_file_is_read_again_when_it_changes(tmp_path: Path, start_node: StartNode) -> None:
    """Living connections and granted subscriptions are judged by the new rules; so is everyone who comes to the next process."""
    acl = tmp_path / "acl.yaml"
    write_acl(acl, "{users: [ada], topics: ['#']}", "{users: [bob], topics: ['a/#']}")
    node = start_node(config(tmp_path, acl_file=str(acl)))
    with (
        client(node, "bob", "bob", version=5) as bob,
        client(node, "ada", "ada") as ada,
        client(node, "bob", "w", version=5) as writer,
    ):
        assert [each.connect().reason_code for each in (bob, ada, writer)] == [0, 0, 0]
        assert bob.subscribe("a/#", "b/#").reason_codes == (0, 0x87)
        assert publishes(writer, "a/x") == 0

        write_acl(acl, "{users: [ada], topics: ['#']}", "{users: [bob], topics: ['b/#']}")
        wait_until(lambda: node.events("acl.reloaded"), WAIT_S, lambda: node.output[-2000:])
        assert publishes(writer, "a/x") == 0x87
        ada.publish("a/y", "not for bob", qos=1)
        ada.expect(PUBACK)
        assert bob.expect(PUBLISH).topic == "a/x"
        assert bob.subscribe("b/#", "a/z").reason_codes == (0, 0x87)
        ada.publish("b/y", "for bob", qos=1)
        assert bob.expect(PUBLISH).topic == "b/y"

        replace_text(acl, "acl:\n  - {users: [bob], topics: ['#/b']}\n")
        wait_until(lambda: node.events("acl.refused"), WAIT_S, lambda: node.output[-2000:])
        assert node.events("acl.refused")[0]["problems"][0].startswith(f"{acl}:2:")
        assert publishes(writer, "b/x") == 0
    node.wait_replaced("clients", node.kill("clients"))
    with client(node, "bob", "bob", version=5) as bob:
        assert bob.connect().reason_code == 0
        assert bob.subscribe("a/#", "b/#").reason_codes == (0x87, 0)
    maps = Path(f"/proc/{node.supervisor.pid}/maps").read_text()
    assert "zmq" in maps
    assert "pydantic" not in maps, "another process reads it"


def write_acl(path: Path, *rules: str) -> None:
    replace_text(path, "acl:\n" + "".join(f"  - {rule}\n" for rule in rules))


def publishes(writer: MqttClient, topic: str) -> int:
    """The reason code of the PUBACK for a message to ``topic``."""
    writer.publish(topic, topic, qos=1)
    return writer.expect(PUBACK).reason_code


# --- before the start ---


def test_check_looks_into_the_password_file_and_the_acl_file(tmp_path: Path) -> None:
    passwords, acl = tmp_path / "passwords", tmp_path / "acl.yaml"
    node = Node(config(tmp_path, acl_file=str(acl)), tmp_path / "node")
    passwords.write_text(f"ada:{HASHES['ada']}\n\nbob:$6$salt$hash\nada:{HASHES['ada']}\n")
    acl.write_text("acl:\n  - {users: [ada], topic: ['#']}\n")
    node.configure(config_with(passwords, acl))
    done = node.cli("check", str(node.config_path))
    assert done.returncode == 78
    lines = done.stderr.splitlines()
    assert any(line.startswith(f"{passwords}:3: ") and "argon2id" in line and "bascule user" in line for line in lines), lines
    assert any(line.startswith(f"{passwords}:4: ") and "line 1" in line for line in lines), lines
    assert any(line.startswith(f"{acl}:2:") and "did you mean topics?" in line for line in lines), lines
    assert all(line.startswith((f"{passwords}:", f"{acl}:")) for line in lines)


def config_with(passwords: Path, acl: Path) -> Config:
    return node_config(access={"password_file": str(passwords), "acl_file": str(acl)})
