"""The REST API of a real node: each route does what its command does, and answers what the OpenAPI document says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from supervisor.control.control_socket import COMMANDS
from supervisor.control.roles import NEEDED, ROLES, needed
from supervisor.http import models
from supervisor.terminal.message_text import Messages
from tests.supervisor.http.client import request
from tests.supervisor.http.served import TOKENS, Served, serve
from tests.support.fake_remote import FakeRemote
from tests.support.mqtt_client import MqttClient
from tests.support.node import bridge_config
from tests.support.waiting import wait_until
from wire.status import answers
from wire.status.node_status import Status

pytestmark = pytest.mark.process

NOT_AUTHORIZED = 0x87
DEAD = 3


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A bridge whose remote refuses what is below bad/, and has refused some."""
    with FakeRemote() as remote:
        remote.reason_code = lambda packet: NOT_AUTHORIZED if packet.topic.startswith("bad/") else 0
        with serve(tmp_path_factory.mktemp("rest"), bridge_config("cloud", remote.port, protocol="mqtt5")) as served:
            publish(served, "bad/1", DEAD)
            served.node.wait_lane("cloud", depth=0, dead_lettered=DEAD)
            yield served


def publish(served: Served, topic: str, count: int) -> None:
    with MqttClient(served.node.port, version=5) as client:
        client.publish_burst(topic, [f"{number}" for number in range(1, count + 1)], qos=1)


def fits(kind: Any, answer: Any) -> Any:
    model = kind if issubclass(kind, BaseModel) else models.model_of(kind)
    model.model_validate(answer)
    return answer


def test_the_node_tells_its_status_and_events(served: Served) -> None:
    status = fits(Status, served.get("/status").json)
    assert (status["node"], status["ready"], status["bridges"][0]["dead_lettered"]) == ("edge", True, DEAD)

    page = fits(answers.Events, served.get("/events?count=2").json)
    assert len(page["events"]) == 2
    assert page["events"][0]["kind"] == "store.begun"
    following = served.get(f"/events?from={page['next']}").json
    assert page["next"] + len(following["events"]) == following["until"] == following["next"]


def test_the_past_is_told_from_disk_also_after_the_supervisor_was_killed(served: Served) -> None:
    def told() -> Any:
        return fits(answers.History, served.get("/history?since=1h&bridge=cloud").json)

    def delivered() -> float:
        history = told()
        rates = zip(history["lanes"][0]["rate_out"], history["seconds"], strict=True)
        return float(sum((rate or 0.0) * seconds for rate, seconds in rates))

    wait_until(lambda: any(each["rate_out"][-1] is not None for each in told()["lanes"]), 20.0, "a record that knows its lane")
    publish(served, "good/1", 40)
    wait_until(lambda: round(delivered()) >= 40, 20.0, lambda: f"40 messages in {told()}")
    before = told()
    served.node.kill_supervisor()
    served.node.start()
    wait_until(lambda: served.process["state"] == "ready", 20.0, "the HTTP interface is ready")
    wait_until(lambda: len(told()["at_ms"]) > len(before["at_ms"]), 20.0, "another record")

    assert told()["at_ms"][: len(before["at_ms"])] == before["at_ms"]
    assert told()["lanes"][0]["lane"] == 0
    figures = fits(Status, served.get("/status").json)["history"]
    assert (figures["kept_since_ms"], figures["lost"], figures["damage"]) == (before["kept_since_ms"], 0, "")
    assert served.get("/history?since=tomorrow").status == 400


def test_a_bridge_is_paused_resumed_and_restarted(served: Served) -> None:
    def state() -> str:
        return str(served.get("/status").json["bridges"][0]["state"])

    fits(answers.BridgeOrdered, served.change("/bridges/cloud/pause", role="operate").json)
    wait_until(lambda: state() == "paused", 20.0, "the bridge is paused")
    assert served.change("/bridges/cloud/resume", role="operate").json == {"bridge": "cloud", "processes": ["bridge:cloud:0"]}
    wait_until(lambda: state() == "connected", 20.0, "the bridge is connected")
    assert served.change("/bridges/cloud/restart", role="operate").status == 200
    wait_until(lambda: state() == "connected", 20.0, "the bridge is connected again")


def test_dead_letters_are_seen_replayed_and_purged(served: Served) -> None:
    queues = fits(answers.Queues, served.get("/queues?bridge=cloud").json)
    assert (len(queues["queues"]), queues["dead_letters"][0]["held"]) == (1, DEAD)
    page = fits(Messages, served.get("/queues/cloud/messages?dead=true&count=2", "operate").json)
    assert [(row["topic"], row["payload"], row["reason"]) for row in page["messages"]] == [
        ("bad/1", "1", "remote_0x87"),
        ("bad/1", "2", "remote_0x87"),
    ]
    rest = served.get(f"/queues/cloud/messages?dead=true&whole=true&from={page['next']}", "operate").json
    assert [(row["payload_text"], row["payload_base64"]) for row in rest["messages"]] == [("3", "Mw==")]
    assert fits(Messages, served.get("/queues/cloud/messages?lane=0", "operate").json)["messages"] == []

    replayed = fits(answers.Replayed, served.change("/queues/cloud/replay", {"from": 1, "count": 1}, "operate").json)
    assert replayed["replayed"] == 1
    served.node.wait_lane("cloud", depth=0, dead_lettered=DEAD + 1)
    assert served.change("/queues/cloud/replay", {"reason": "other"}, "operate").json["replayed"] == 0
    outline = fits(Messages, served.get("/queues/cloud/outline?dead=true").json)["messages"]
    assert [(row["topic"], row["size"], row["reason"]) for row in outline] == [("bad/1", 1, "remote_0x87")] * DEAD
    assert {"payload", "properties", "payload_base64"}.isdisjoint(outline[0])
    assert served.get("/queues/cloud/outline?lane=0&held=true").json["messages"] == []
    assert served.get("/queues/cloud/messages?lane=0&left=true&since_ms=0", "operate").kind == "not_kept"
    assert served.change("/queues/cloud/purge", {"reason": "remote_0x87"}).kind == "bad_arguments"
    of_other = fits(answers.Purged, served.change("/queues/cloud/purge", {"dead": True, "reason": "other", "from": 0}).json)
    assert (of_other["purged"], of_other["next"]) == (0, None)
    of_one = served.change("/queues/cloud/purge", {"dead": True, "reason": "remote_0x87"}).json
    assert (of_one["purged"], of_one["next"]) == (DEAD, None)
    publish(served, "bad/1", DEAD)
    served.node.wait_lane("cloud", depth=0, dead_lettered=2 * DEAD + 1)
    assert fits(answers.Purged, served.change("/queues/cloud/purge", {"dead": True}).json)["purged"] == DEAD
    assert served.change("/queues/cloud/purge", {"lane": 0}).json["purged"] == 0
    assert served.change("/queues/cloud/resend", {"run": "r"}, "operate").json["error"]["kind"] == "not_kept"
    junk = served.change("/queues/cloud/import", {"run": "r", "from": 0, "below": 1, "messages": "junk"}).json["error"]
    assert (junk["kind"], "line 1: it is not JSON" in junk["message"]) == ("bad_arguments", True)


def test_sessions_are_listed_shown_and_ended(served: Served) -> None:
    name = "site/pump 7"
    with MqttClient(served.node.port, client_id=name, version=5) as client:
        client.subscribe("a/#")
        page = fits(answers.Sessions, served.get("/sessions?like=site/*&connected=true").json)
        assert [row["client_id"] for row in page["sessions"]] == [name]
        assert fits(answers.Session, served.get("/sessions/site/pump%207").json)["filters"][0]["filter"] == "a/#"
        assert served.get("/sessions/site%2Fpump%207").json["client_id"] == name
        assert (
            fits(answers.Disconnected, served.change("/sessions/site%2Fpump%207/disconnect", role="operate").json)["client_id"]
            == name
        )
    with MqttClient(served.node.port, client_id=name, version=5):
        ended = fits(answers.SessionEnded, served.change("/sessions/site/pump%207", method="DELETE").json)
        assert (ended["was_connected"], ended["will"]) == (True, "none")
    assert served.get("/sessions/site/pump%207").kind == "no_such_session"


def test_a_snapshot_is_made(served: Served) -> None:
    begun = served.change("/snapshots", role="operate")
    assert begun.status == 202
    path = f"/snapshots/{fits(answers.SnapshotBegun, begun.json)['number']}"
    wait_until(lambda: fits(answers.SnapshotState, served.get(path).json)["state"] == "made", 20.0, "the snapshot is made")


def test_a_reload_is_planned_and_done_and_a_wrong_file_is_named(served: Served) -> None:
    path = served.node.config_path
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "log": {"level": "debug"}}))
    planned = fits(answers.ReloadPlan, served.get("/reload/plan").json)
    assert [(change["what"], change["how"]) for change in planned["changes"]] == [("log.level", "live")]
    assert served.change("/reload", {}, role="operate").kind == "forbidden"
    done = fits(answers.ReloadPlan, served.change("/reload", {}).json)
    assert (done["applied"], done["refused"], done["number"]) == (True, None, 2)
    wait_until(lambda: not served.get("/status").json["configuration"]["pending"], 20.0, "all go by it")
    path.write_text(json.dumps({**json.loads(before), "nonsense": 1}))
    wrong = served.change("/reload", {"yes": True}).json
    assert (wrong["applied"], "nonsense" in wrong["problems"][0]) == (False, True)
    path.write_text(before)
    assert served.change("/reload", {}).json["applied"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", "/bridges/clud/pause", None, 404, "unknown_bridge"),
        ("GET", "/queues/cloud/messages?lane=7", None, 404, "unknown_lane"),
        ("GET", "/queues/cloud/messages", None, 400, "bad_arguments"),
        ("GET", "/queues/cloud/messages?lane=x", None, 404, "unknown_lane"),
        ("GET", "/events?count=0", None, 400, "bad_arguments"),
        ("POST", "/queues/cloud/purge", {"lane": -1}, 404, "unknown_lane"),
        ("POST", "/queues/cloud/purge", {"dad": True}, 400, "bad_arguments"),
        ("POST", "/queues/cloud/purge", None, 400, "bad_arguments"),
        ("POST", "/sessions/nobody/disconnect", None, 404, "no_such_session"),
        ("DELETE", "/sessions/nobody", None, 404, "no_such_session"),
        ("GET", "/snapshots/999", None, 404, "unknown"),
        ("POST", "/cluster/promote", None, 409, "not_replicated"),
        ("POST", "/cluster/step-down", {"to": "b"}, 409, "not_replicated"),
        ("DELETE", "/cluster/members/b", None, 409, "not_replicated"),
        ("GET", "/nothing", None, 404, "not_found"),
        ("PUT", "/status", None, 405, "method_not_allowed"),
    ],
)
def test_what_is_wrong_is_said_in_one_form(served: Served, method: str, path: str, body: object, status: int, kind: str) -> None:
    answer = served.change(path, body, method=method)

    assert (answer.status, answer.kind) == (status, kind)
    fits(models.Error, answer.json)
    assert answer.headers["content-type"] == "application/json"


def operations(served: Served) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, path, operation) of each operation below /api/v1 in the OpenAPI document."""
    document = request(served.port, "/openapi.json").json
    for path, methods in document["paths"].items():
        if path.startswith("/api/v1"):
            for method, operation in methods.items():
                yield method.upper(), path.removeprefix("/api/v1"), operation


def test_each_command_has_a_route_that_says_its_role(served: Served) -> None:
    roles = [operation["description"].rpartition("Role: ")[2].rstrip(".") for _, _, operation in operations(served)]

    assert set(roles) == set(ROLES)
    of_client = {"ping", "queue.export"}  # /health/live, and /queues/{bridge}/messages?whole=true
    assert len(roles) >= len(set(COMMANDS) - of_client)
    assert set(COMMANDS) <= set(NEEDED)


def test_each_route_is_for_its_role_and_those_above_it_only(served: Served) -> None:
    """Wrong arguments, so that nothing is done: who may is told what is wrong, who may not is told that."""
    filled = {"bridge": "%00", "client_id": "%00", "client_id:path": "%00", "member": "x", "number": "x"}
    for method, template, operation in operations(served):
        if template in (
            "/caller",
            "/status",
            "/stop",
            "/sessions",
            "/queues",
            "/reload",
            "/reload/plan",
            "/snapshots",
            "/events",
            "/topics",
            "/traces",
            "/access",
            "/cluster/promote",
        ):
            continue
        least = operation["description"].rpartition("Role: ")[2].rstrip(".")
        path = template.format(**filled)
        for role in ROLES:
            answer = served.change(path, {"no": "such key"}, role, method=method)
            allowed = ROLES.index(role) >= ROLES.index(least)
            assert (answer.status == 403) is not allowed, (method, path, role, answer)
    assert served.change("/stop", role="operate").kind == "forbidden"
    assert served.change("/snapshots", role="view").kind == "forbidden"
    assert needed("stop") == "admin"


def test_who_may_do_what_is_told_to_operators(served: Served) -> None:
    told = fits(answers.Access, served.get("/access", "operate").json)

    assert [(one["name"], one["role"]) for one in told["tokens"]] == [(role, role) for role in ROLES]
    assert (told["listeners"][0]["allow_anonymous"], told["listeners"][0]["rules"]) == (True, None)
    assert served.get("/access", "view").kind == "forbidden"


def test_a_caller_is_told_who_it_is(served: Served) -> None:
    for role in ROLES:
        assert fits(models.Caller, served.get("/caller", role).json) == {"name": role, "role": role}


def test_nobody_is_let_in_without_a_token_or_with_a_wrong_one(served: Served) -> None:
    before = served.figures["refused"]

    without = request(served.port, "/api/v1/status")
    assert (without.status, without.kind, without.headers["www-authenticate"]) == (401, "no_token", "Bearer")
    wrong = request(served.port, "/api/v1/status", token="bascule_wrong")
    assert (wrong.status, wrong.kind) == (401, "wrong_token")
    assert request(served.port, "/api/v1/status", headers={"Authorization": f"Basic {TOKENS['view']}"}).kind == "no_token"

    after = served.figures["refused"]
    assert after["no_token"] == before.get("no_token", 0) + 2
    assert after["wrong_token"] == before.get("wrong_token", 0) + 1
    assert request(served.port, "/health/ready").status == 200, "health is open"


def test_a_token_that_is_taken_out_of_the_file_lets_nobody_in(served: Served) -> None:
    text = served.tokens_file.read_text()

    served.tokens_file.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("view:")))
    wait_until(lambda: served.get("/status").status == 401, 20.0, "the token is refused")
    served.tokens_file.write_text("what is this")
    assert served.get("/status", "admin").status == 200, "a file that is wrong changes nothing"
    served.tokens_file.write_text(text)
    wait_until(lambda: served.get("/status").status == 200, 20.0, "the token is known again")
