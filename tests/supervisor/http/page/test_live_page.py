"""The page of a real node in a real Chromium: trouble is said with its reason, turns when it turns, and orders are carried out."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from tests.supervisor.http.page.live_page import TURNS_WITHIN_S, LivePage
from tests.supervisor.http.page.scene import ARCHIVE_MOST, FORBIDDEN, LARGEST, NODE, Scene
from tests.support.contrast import faint_texts
from tests.support.mqtt_client import MqttClient
from tests.support.node import bridge_config
from tests.support.ports import free_port
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

HOSTILE_PAYLOAD = "<script>window.hacked=1</script>"
HOSTILE = 'plant/<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>\u202e\''
REASONS = {  # words, detail and address of each
    "box:1883: credentials: lab.password: Permission denied": (
        "its credentials cannot be read",
        "lab.password: Permission denied",
        "box:1883",
    ),
    "box:1883: name: Name or service not known": ("the remote's name is not known", "Name or service not known", "box:1883"),
    "[::1]:1883: tcp: No route to host": ("the remote cannot be reached", "No route to host", "[::1]:1883"),
    "box:8883: tls: certificate has expired": ("TLS with the remote fails", "certificate has expired", "box:8883"),
    "box:1883: connack: refused: Server busy (0x89)": ("the remote does not let it in", "Server busy (0x89)", "box:1883"),
    "box:1883: connack: no CONNACK in time": ("the remote does not answer the CONNECT", "no CONNACK in time", "box:1883"),
    "box:1883: connection lost: closed": ("", "box:1883: connection lost: closed", ""),
}
MARK = "window.marked = (window.marked ?? 0) + 1; return window.marked"


@pytest.fixture(autouse=True)
def loaded(page: LivePage) -> None:
    """Each test begins with an administrator's page, loaded by one before it or now, and with bridges that are connected."""
    page.stay("admin")
    page.wait_state("cloud", "connected")
    page.wait_state("archive", "connected")


def test_the_page_says_which_bridge_is_in_trouble_why_and_what_to_do(page: LivePage) -> None:
    page.wait_says("#headline", "1 of 4 bridges is in trouble: lab.")

    group = "#troubles > li:first-child"
    page.wait_says(group, "lab", "does not let it in: Not authorized", "next attempt in", "What to do: Check remote.username")
    page.wait_state("lab", "no connection")
    assert page.browser.ask("return document.title").startswith(f"✖ {NODE}: 1 of 4 bridges is in trouble: lab")
    page.browser.click(f"{group} a")
    assert page.browser.ask("return location.hash") == "#b-lab"


def test_figures_follow_without_loading_anew(page: LivePage, scene: Scene) -> None:
    page.browser.ask(MARK)
    accepted = "#ledger-rows tr[data-key='lab:0'] td:nth-child(2)"
    before = int(page.says(accepted).replace(",", ""))

    scene.publish("line/4/count", *"12345")

    wait_until(lambda: page.says(accepted) == f"{before + 5:,}", TURNS_WITHIN_S, "the page asks by itself", period_s=0.2)
    page.wait_says("#b-lab dl", f"{before + 5:,}")
    assert page.browser.ask(MARK) == 2


def test_a_bridge_process_that_is_killed_is_told_and_recovers(page: LivePage, scene: Scene) -> None:
    page.wait("document.querySelector('#event-rows tbody tr')", "events")
    pid = scene.node.kill("bridge", signal.SIGKILL, "archive")

    page.wait_says("#troubles", "archive", "ended", "signal 9", "started again")
    page.wait_says("#event-rows", "process.ended")
    page.wait("document.querySelector('#b-archive.s-attention')", "the card of the bridge is marked")
    page.wait_state("archive", "connected")
    page.wait_says("#troubles", "Nothing to do: it has recovered.")
    page.wait(f"!document.getElementById('processes').textContent.includes({pid})", "another process")


def test_a_link_that_is_cut_turns_and_recovers(page: LivePage, scene: Scene) -> None:
    sign = "document.querySelector('#picture [data-key=\"remote:cloud:0\"]').classList"
    page.wait(f"{sign}.contains('s-ok')", "the remote is well in the picture")
    scene.cloud_link.cut()
    try:
        page.wait_says("#headline", "2 of 4 bridges are in trouble", "cloud")
        page.wait_state("cloud", "no connection")
        page.wait(f"{sign}.contains('s-problem')", "the remote is in trouble in the picture")
        scene.publish("plant/1/pressure", "1.5")
        page.wait_says("#troubles", "does not answer the CONNECT")
        page.wait_says("#troubles", "1 message")
    finally:
        scene.cloud_link.restore()

    page.wait_state("cloud", "connected")
    page.wait_says("#event-rows", "link.up")
    page.wait(f"{sign}.contains('s-ok')", "the remote is well again in the picture")
    page.wait_says("#headline", "trouble: lab.")


def test_who_does_not_know_the_node_reads_which_bridge_is_in_trouble_why_and_what_to_do(page: LivePage, scene: Scene) -> None:
    """Four bridges: one is refused, one has no remote and hardly any room, one is paused, one is well."""
    with scene.bad_day(backlog=ARCHIVE_MOST - 150):
        page.wait_says("#headline", "2 of 4 bridges are in trouble", "lab", "archive")
        page.wait("document.querySelector('.contents a[href=\"#queues\"] .s-attention')", "the queues have their sign")
        page.wait_says(
            "#troubles > [data-key=lab]",
            "does not let it in: Not authorized",
            "messages",
            "Check remote.username, remote.password_file",
        )
        archive = "#troubles > [data-key=archive]"
        page.wait_says(archive, "cannot be reached: Connection refused", f"at 127.0.0.1:{scene.archive.port}", "1,853 messages")
        page.wait_says(
            archive,
            "Check the port in remote.addresses",
            "queue is 92 % full: 1,853 of 2,000 messages",
            "nothing acknowledged is lost",
            "raise limits.max_messages",
        )
        page.wait_says("#troubles > [data-key=depot]", "Paused by an operator", "12 messages", "Resume it when")
        page.wait("document.querySelector('#trouble-archive figure .down')", "when its link was down")
        page.wait_says("#balance", "restarts included")
        assert page.browser.seen("#troubles > [data-key=cloud]") == 0
        for bridge, state, verdict in (
            ("cloud", "connected", "ok"),
            ("lab", "no connection", "problem"),
            ("archive", "no connection", "problem"),
        ):
            page.wait_says(f"#b-{bridge} .badge", state)
            assert page.browser.seen(f"#b-{bridge}.s-{verdict}") == 1
        page.wait_says("#b-archive dl", "Queue full\n92 %", "Drains in\nnot now")
        said = page.says("main")
        for once in ("does not let it in", "cannot be reached", "queue is 92 % full", "by an operator"):
            assert said.partition("Events")[0].count(once) == 1, once
        assert "Messages flow" not in said
        page.browser.click("#b-depot .why a")
        assert page.browser.ask("return location.hash") == "#trouble-depot"
        assert page.says(page.browser.ask("return location.hash")).startswith("depot")

    page.wait_state("archive", "connected")
    page.wait_says("#headline", "trouble: lab.")


def test_reasons_of_the_node_are_taken_apart_into_words(page: LivePage) -> None:
    told = page.browser.ask_later(
        """
        const [reasons, done] = arguments;
        import("./assets/reasons.js").then(({ failureOf }) => done(reasons.map((one) => failureOf(one))));
        """,
        list(REASONS),
    )

    assert [(one["words"], one["detail"], one["address"]) for one in told] == list(REASONS.values())


def test_dead_letters_are_seen_replayed_and_arrive(page: LivePage, scene: Scene) -> None:
    scene.publish(FORBIDDEN, "salt 3", "sugar 2")
    page.wait_says("#dead-letters", "2 dead letters", "not authorized", FORBIDDEN, "salt 3")
    page.wait_says("#troubles", "cloud", "2 dead letters: refused by the remote: not authorized (0x87)")

    scene.forbid()
    try:
        with Subscriber(scene.cloud.port, FORBIDDEN) as subscriber:
            page.press("Replay all dead letters of cloud")
            page.wait_says("#said", "cloud: replay: 2 messages back in the queue.")
            assert subscriber.wait_for(FORBIDDEN, ["salt 3", "sugar 2"]).missing == []
        page.wait_says("#dead-letters", "None")
    finally:
        scene.forbid(FORBIDDEN)


def test_dead_letters_are_purged_once_it_is_confirmed(page: LivePage, scene: Scene) -> None:
    scene.publish(FORBIDDEN, "pepper 1")
    page.wait_says("#dead-letters", "pepper 1")

    page.press("Purge the dead letters of cloud")
    page.wait_asks()
    page.browser.press("ESCAPE")
    page.wait("!document.getElementById('confirm').open", "no question any more")
    page.wait_says("#dead-letters", "1 dead letter")
    page.press("Purge the dead letters of cloud")
    page.say_yes("cloud")

    page.wait_says("#said", "1 dead letter purged")
    page.wait_says("#dead-letters", "None")


def test_dead_letters_of_one_reason_are_purged_and_the_others_stay(page: LivePage, scene: Scene) -> None:
    scene.publish(FORBIDDEN, "cumin 4")
    scene.publish("plant/large", "x" * LARGEST)
    page.wait_says("#dead-letters", "1 refused by the remote: not authorized (0x87)", "1 larger than the remote takes")

    page.press("Purge dead letters of cloud with reason packet_too_large")
    page.wait_says("#confirm-text", "1 dead letter, larger than the remote takes, will be removed for good")
    page.say_yes("cloud")
    page.wait_says("#said", "1 dead letter purged")
    page.wait_says("#dead-letters", "cumin 4", "1 dead letter")

    page.press("Purge the dead letters of cloud")
    page.say_yes("cloud")
    page.wait_says("#dead-letters", "None")


def test_a_queue_is_looked_into_exported_and_purged(page: LivePage, scene: Scene, tmp_path: Path) -> None:
    scene.publish("line/4/count", "first", HOSTILE_PAYLOAD)
    page.press("Look into the queue of lab")
    page.wait_says("#queue tbody", "line/4/count", "first", "waiting", "<script>")
    assert page.browser.ask("return document.activeElement.selectedOptions[0].textContent").startswith("lab: ")

    page.browser.downloads(tmp_path)
    page.browser.click("#queue button[data-role=operate]")
    saved = tmp_path / "lab-0.jsonl"
    wait_until(saved.exists, TURNS_WITHIN_S, "the file is saved")
    exported = scene.node.cli("queue", "export", str(scene.node.config_path), "lab", "--to", "-").stdout
    assert [without_age(line) for line in saved.read_text().splitlines()] == [without_age(line) for line in exported.splitlines()]
    page.wait_says("#said", "lab: export:", "exported")

    page.browser.click("#queue button[data-role=admin]")
    page.wait_says("#confirm-text", f"Up to {len(exported.splitlines())} messages", "removed for good")
    page.say_yes("lab")
    page.wait_says("#said", "messages purged")
    page.wait_says("#queue [role=status]", "Nothing waits here.")


def without_age(line: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(line)
    return told | {"age_s": None}


def test_a_bridge_is_made_changed_as_text_and_removed_and_what_is_wrong_is_said_where_it_is(page: LivePage, scene: Scene) -> None:
    port = free_port()
    page.press_words("New bridge …")
    page.fill("Name", "spur")
    page.fill("Addresses of the remote", f"127.0.0.1:{port}, 9")
    page.fill("Client identifier", "spur")
    page.fill("Topics to the remote", "spur/#/x")
    page.browser.click("#bridge-form .primary")
    page.wait_says("#bridge-form", "It does not hold: see what is marked.")
    assert "port" in page.fault("Addresses of the remote")
    assert "#" in page.fault("Topics to the remote")
    assert page.browser.ask("return document.activeElement.id") == "bridge-remote-addresses"
    page.browser.resize(390)
    assert page.browser.ask("const one = document.getElementById('bridge-form'); return one.scrollWidth <= one.clientWidth")

    page.fill("Addresses of the remote", f"127.0.0.1:{port}")
    page.fill("Topics to the remote", "spur/#")
    assert page.fault("Addresses of the remote") == ""
    page.browser.click("#bridge-form .primary")
    page.wait_says("#bridge-form .changes", "bridge spur: added")
    page.browser.press("ENTER")
    page.say_yes()
    page.wait("!document.querySelector('dialog[open]')", "the form is done")
    page.wait_says("#said", "spur: change: applied.")
    page.wait_state("spur", "no connection")
    scene.publish("spur/1", "kept")
    page.wait_says("#b-spur dl", "Waiting\n1")

    page.press("Change spur")
    page.wait_says("#bridge-form h2", "Change spur")
    faint = faint_texts(page.browser)[1]
    inputs = [one for one in page.browser.accessibility() if one["role"]["value"] in ("textbox", "combobox", "checkbox")]
    assert "Addresses of the remote" in {one["name"]["value"] for one in inputs}
    assert [one for one in inputs if not one["name"]["value"]] == []
    assert faint == []
    page.fill("Client identifier", "other")
    page.press_words("Write it as text")
    text = page.browser.ask("return document.getElementById('bridge-text').value")
    assert 'client_id: "other"' in text
    page.fill("The bridge's file (YAML)", text.replace("spur/#", "# spur").replace('"', ""))
    page.browser.click("#bridge-form .choices .primary")
    page.wait_says("#bridge-faults", "Line ")
    lazy = 'client_id: "other"\n      dial: when-needed\n      when_needed: {messages: 100, age: 1h}'
    text = text.replace('client_id: "other"', lazy).replace("      - filters", "      - keep_last: true\n        filters")
    page.fill("The bridge's file (YAML)", text)
    page.browser.click("#bridge-form .choices .primary")
    page.wait_says("#bridge-form", "1 would give something up for good", "destructive", "remote.client_id")
    page.browser.press("ENTER")
    page.wait_says("#confirm-details", "remote.client_id", "the session at the former remote is left")
    page.say_yes("spur")
    page.wait("!document.querySelector('dialog[open]')", "the form is done")
    scene.publish("spur/2", "old", "new")
    page.wait_says("#b-spur dl", "Waiting\n2")
    page.press("Look into the queue of spur")
    page.wait_says("#queue tbody", "spur/1", "kept")
    page.press_words("Next page")
    page.wait_says("#queue tbody", "spur/2", "new", "held by its rule")
    page.wait_state("spur", "closed")
    page.wait_says("#b-spur", "Closed by choice for", "it connects when more waits")
    assert page.browser.seen("#b-spur.s-ok") == 1
    assert page.browser.seen("#troubles > [data-key=spur]") == 0
    page.press("Restart spur")
    page.wait_says("#troubles > [data-key=spur]", "cannot be reached: Connection refused")

    page.press("Change spur")
    page.wait_says("#bridge-form h2", "Change spur")
    page.press_words("Remove the bridge …")
    page.wait_says("#confirm-details", "bridge spur: removed", "2 messages")
    page.say_yes("spur")
    page.wait_says("#said", "spur: remove: applied.")
    page.wait("!document.getElementById('b-spur')", "no card of that bridge any more")
    with ControlClient.of_run_dir(scene.node.data_dir / "run") as node:
        node.purge("spur")


def test_users_and_rights_are_read_and_no_secret_of_theirs(page: LivePage) -> None:
    page.browser.ask("document.getElementById('access').scrollIntoView()")

    page.wait_says("#rights", "Clients without a user name are let in.", "everybody may publish and get everything")
    page.wait_says("#rights", "view: view", "operate: operate", "admin: admin")


def test_a_trouble_has_its_past_beside_it_as_soon_as_the_page_is_opened(page: LivePage, scene: Scene) -> None:
    with ControlClient.of_run_dir(scene.node.data_dir / "run") as node:
        wait_until(lambda: len(node.history().at_ms) >= 1, TURNS_WITHIN_S, "something is on record", period_s=0.5)
    page.open("admin")

    page.wait("document.querySelector('#trouble-lab figure .line').getAttribute('d')", "a plot")
    page.wait("document.querySelector('#trouble-lab figure .down')", "the times at which its link was down")
    told = page.browser.ask("return document.querySelector('#trouble-lab figure svg').getAttribute('aria-label')")
    assert told.startswith("Waiting over the last")
    assert told.endswith("its link was down within that time")


def test_a_bridge_is_paused_and_resumed_by_the_keyboard_alone(page: LivePage, scene: Scene) -> None:
    page.browser.ask("""document.querySelector('button[aria-label="Pause archive"]').focus()""")
    page.browser.press("ENTER")

    page.wait_state("archive", "paused")
    page.wait_says("#troubles", "archive", "Paused by an operator")
    scene.publish("plant/1/temperature", "21.7")
    page.wait_says("#b-archive dl", "Waiting\n1")
    with Subscriber(scene.archive.port, "plant/1/temperature") as subscriber:
        page.browser.ask("""document.querySelector('button[aria-label="Resume archive"]').focus()""")
        page.browser.press(" ")
        assert subscriber.wait_for("plant/1/temperature", ["21.7"]).missing == []
    page.wait_state("archive", "connected")


def test_restart_starts_the_processes_of_a_bridge_anew(page: LivePage, scene: Scene) -> None:
    page.press("Restart archive")

    page.wait_says("#said", "archive: restart: done.")
    wait_until(
        lambda: [event for event in scene.node.events("child.restarted") if event["child"] == "bridge:archive:0"],
        20.0,
        "another life",
    )
    page.wait_state("archive", "connected")


def test_hostile_topics_payloads_and_clients_are_text(page: LivePage, scene: Scene) -> None:
    scene.forbid("plant/#")
    try:
        with MqttClient(scene.node.port, HOSTILE, version=5):
            scene.publish(HOSTILE, HOSTILE_PAYLOAD)
            page.wait_says("#dead-letters", "onerror=")
            assert HOSTILE in page.browser.texts("#dead-letters td:nth-child(4)")
            assert any(text.startswith("<script>") for text in page.browser.texts("#dead-letters td:nth-child(8)"))
            page.browser.ask("document.getElementById('clients').scrollIntoView()")
            page.wait_says("#sessions tbody", "onerror=")
            assert HOSTILE in page.browser.texts("#sessions td:nth-child(1)")
    finally:
        scene.forbid(FORBIDDEN)
    assert page.browser.ask("return document.querySelectorAll('img, main script').length") == 0


def test_a_page_whose_server_has_gone_says_so_keeps_what_it_had_and_goes_on_when_it_is_back(page: LivePage, scene: Scene) -> None:
    page.browser.offline(True)
    page.wait_says("#lost", "The server does not answer.", "What you see is of", "The page goes on asking.")
    page.wait("document.querySelector('.pulse.late') && document.querySelector('.layout.old')", "what there is turns grey")
    page.wait_says("#headline", "lab")
    assert page.browser.ask("return Array.from(document.querySelectorAll('[data-role]')).every((one) => one.disabled)")
    page.browser.offline(False)
    page.wait("document.getElementById('lost').hidden && document.querySelector('.pulse.live')", "live figures")

    scene.node.kill("http")
    page.wait_says("#event-rows tbody", "process.ended", "http")
    page.wait("document.getElementById('lost').hidden && document.querySelector('.pulse.live')", "live figures")


def test_colours_follow_the_system_until_the_reader_chooses(page: LivePage) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.browser.ask(ground)
    page.browser.media("screen", dark=True)
    dark = page.browser.ask(ground)
    assert light != dark

    page.browser.click('.themes [data-theme="light"]')
    assert page.browser.ask(ground) == light
    page.open("admin", dark=True)  # it is kept
    assert page.browser.ask(ground) == light
    page.browser.click('.themes [data-theme="auto"]')
    assert page.browser.ask(ground) == dark


def test_events_are_filtered_by_word_and_by_kind(page: LivePage) -> None:
    page.wait_says("#event-rows", "process.started", "link.failed")

    page.browser.find("#event-rows input").send_keys("lab refused")
    page.wait("!document.querySelector('#event-rows tbody').textContent.includes('process.started')", "only what has those words")
    page.wait_says("#event-rows tbody", "link.failed", "Not authorized")
    page.browser.find("#event-rows input").clear()
    page.browser.press("x", "BACKSPACE")
    page.browser.click("#event-rows .chip[data-key='link.failed']")
    page.wait("!document.querySelector('#event-rows tbody').textContent.includes('link.failed')", "no such events")
    page.browser.click("#event-rows .chip[data-key='link.failed']")


def test_a_changed_configuration_is_told_planned_and_applied_and_what_it_leaves_is_purged(page: LivePage, scene: Scene) -> None:
    """A bridge comes, gets a message that it cannot send, and goes: its queue stays until it is purged."""
    page.wait_says("#configuration", "bascule.yaml, read at", "Nothing of it has changed")
    scene.configure(bridge_config("spare", free_port(), local_subscriptions=[{"filters": ["spare/#"]}]))
    page.wait_says("#troubles", "Configuration", "bascule.yaml has changed")
    apply_plan(page, "1 change.", "bridge spare: added")
    page.wait_state("spare", "no connection")
    scene.publish("spare/1", "kept")
    page.wait_says("#b-spare dl", "Waiting\n1")

    scene.configure()
    page.wait_says("#troubles", "Configuration", "bascule.yaml has changed")
    apply_plan(page, "1 would give something up for good", "bridge spare: removed")

    page.wait("!document.getElementById('b-spare')", "no card of that bridge any more")
    page.wait_says("#orphans tbody", "bridge:spare:0", "1")
    page.wait_says("#troubles", "no bridge of the configuration serves them")
    page.press("Purge the queue bridge:spare:0")
    page.say_yes("spare")
    page.wait_says("#said", "1 message purged")
    page.wait("document.getElementById('orphans').hidden", "no orphaned queue any more")


def apply_plan(page: LivePage, *words: str) -> None:
    """Have the plan shown, which has ``words``, and apply it."""
    page.browser.click("#configuration button[data-role=view]")
    page.wait_says("#configuration", *words)
    page.browser.click("#configuration button.primary")
    page.say_yes()
    page.wait_says("#said", "Configuration: applied.")
    page.wait_says("#configuration", "Nothing of it has changed")


def test_a_configuration_that_does_not_hold_is_said_with_its_fault(page: LivePage, scene: Scene) -> None:
    scene.configure({"name": "nowhere"})
    try:
        page.wait_says("#troubles", "Configuration")
        page.browser.click("#configuration button[data-role=view]")
        page.wait_says("#configuration", "The file does not hold:", "bridges[4].remote: is missing")
        assert page.browser.seen("#configuration button.primary") == 0
    finally:
        scene.configure()


def test_what_flows_is_seen_by_topic_while_it_is_watched(page: LivePage, scene: Scene) -> None:
    page.browser.click("#flow button")
    page.wait_says("#flow", "Nothing has flown")

    scene.publish("gate/open", "1", "2", "3")
    scene.publish(HOSTILE, "4")

    page.wait_says("#flow ol", "gate/open", "3 (3 B)", "onerror=")
    assert HOSTILE in page.browser.texts("#flow .name")
    page.browser.click("#flow button")
    page.wait_says("#flow", "Stopped")


def test_one_message_is_followed_step_by_step(page: LivePage, scene: Scene) -> None:
    page.browser.find("#trace-filter").send_keys("gate/#")
    page.browser.press("ENTER")
    page.wait_says("#traces", "is waited for")

    scene.publish("gate/open", "1")

    page.wait_says("#traces", "The message has left every queue.")
    page.wait_says("#traces ol", "taken from its publisher", "committed to disk", "acknowledged by the remote", "bridge:cloud:0")
