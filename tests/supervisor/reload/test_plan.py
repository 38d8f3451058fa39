"""Changes by a changed configuration: every field counts, and one that gives something up says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.config.setting_annotations import Setting, each_setting, settings_of
from supervisor.reload.differences import Difference, differences
from supervisor.reload.plan import Plan, plan
from tests.support.settings import HTTP, OTLP, bridge, itself, limits, node
from wire.config_settings import (
    AccessSettings,
    AclRuleSettings,
    AnnouncementSettings,
    AuthenticationSettings,
    ClassSettings,
    ClientTlsSettings,
    ControlSettings,
    LinkStateSettings,
    ListenerSettings,
    ListenerTlsSettings,
    LogSettings,
    NodeSettings,
    NoticeSettings,
    PersistenceSettings,
    ProxyProtocolSettings,
    ProxySettings,
    RefusalSettings,
    ReplicationSettings,
    RuleSettings,
    TelemetrySettings,
    WillSettings,
    dump,
    load,
)
from wire.setting_kinds import Effect

RULE = RuleSettings(
    name="plant", filters=("plant/#",), excludes=(), destination="{topic}", max_qos=2, preserve_retain=True, user_properties=()
)
ACL = AclRuleSettings(("#",), users=("u",))
ACCESS = AccessSettings(allow_anonymous=False, login_limits=HTTP.login_limits, password_file="/p", acl=(ACL,), acl_file="/acl")
TLS = ListenerTlsSettings(cert_file="/cert", key_file="/key")
PROXIES = ProxyProtocolSettings(sources=("10.0.0.7/32",))
LISTENER = ListenerSettings(
    bind="127.0.0.1:1883", protocol="tls", tls=TLS, access=ACCESS, proxy_protocol=PROXIES, durability=PersistenceSettings()
)
REMOTE = replace(
    bridge().remote,
    authentication=AuthenticationSettings(method="CUSTOM-JWT"),
    will=WillSettings(topic="gone"),
    birth=AnnouncementSettings(topic="here"),
    proxy=ProxySettings(url="http://p:1", username="u", password_file="/proxy"),
)
FULL = node(
    bridge(
        "cloud",
        2,
        remote=REMOTE,
        durability=PersistenceSettings(),
        local_subscriptions=(RULE,),
        remote_subscriptions=(RULE,),
        limits=limits(max_messages=10, max_age_s=60.0),
        classes=(ClassSettings(name="bulk", limits=limits(max_messages=5)),),
        link_state=LinkStateSettings(),
    ),
    bridge("north"),
    listeners=(LISTENER,),
    access=ACCESS,
    http=replace(HTTP, tls=TLS, tokens_file="/tokens"),
    telemetry=TelemetrySettings(
        otlp=replace(OTLP, headers=(("a", "b"),), tls=ClientTlsSettings(ca_file="/ca", cert_file="/own", key_file="/key"))
    ),
    notify=(NoticeSettings(name="n", when=("disk",)),),
    control=ControlSettings(bind="tcp://0.0.0.0:7000", allowed_keys="/keys"),
    replication=ReplicationSettings(
        servers=("nats://127.0.0.1:4222",), stream="edge", member="a", tls=ClientTlsSettings(ca_file="/ca")
    ),
    files=(("/acl", "1"), ("/cert", "1"), ("/tokens", "1"), ("/node.yaml", "1")),
)


def leaves(value: Any, settings: Iterable[Setting] = settings_of(NodeSettings), path: str = "") -> Iterator[str]:
    """The path of every field below ``value``; of lists of bridges and listeners, those of the first."""
    for one in settings:
        held, here = getattr(value, one.field), f"{path}{one.field}"
        if one.key in ("bridges", "listeners"):
            yield from leaves(held[0], one.below(), f"{here}.")
        elif one.section is not None and not one.many and held is not None:
            yield from leaves(held, one.below(), f"{here}.")
        elif here != "include":
            yield here


LEAVES = list(leaves(FULL))


def other(value: Any, hint: Any) -> Any:
    """Something else than ``value`` that the type allows."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, tuple):
        of = next((option for option in (hint, *get_args(hint)) if get_origin(option) is tuple), tuple[str, ...])
        return () if value else (one_of(get_args(of)[0]),)
    if isinstance(value, RefusalSettings):
        return replace(value, default="drop")
    kind = next(option for option in get_args(hint) if option is not type(None))
    return {bool: True, int: 1, float: 1.0, str: "x"}.get(kind, value)


def one_of(hint: Any) -> Any:
    """A value of the type, which is plain or a tuple of such."""
    return tuple(map(one_of, get_args(hint))) if get_origin(hint) is tuple else {int: 1, float: 1.0, str: "x"}[hint]


def changed(settings: Any, path: str) -> Any:
    """``settings`` with another value in the field ``path``."""
    name, _, below = path.partition(".")
    held = getattr(settings, name)
    if not below:
        return replace(settings, **{name: other(held, get_type_hints(type(settings))[name])})
    if isinstance(held, tuple):
        return replace(settings, **{name: (changed(held[0], below), *held[1:])})
    return replace(settings, **{name: changed(held, below)})


def hows(made: Plan) -> dict[str, str]:
    return {change.what: change.how for change in made.changes}


@pytest.mark.parametrize("path", LEAVES)
def test_every_field_that_differs_is_a_change(path: str) -> None:
    """reload.no-field-forgotten"""
    after = changed(FULL, path)
    assert after != FULL
    assert plan(FULL, after).changes, path


def test_every_field_is_a_setting_but_those_that_the_node_notes_itself() -> None:
    """reload.no-field-forgotten"""
    sections = {NodeSettings, *(one.section for _, one in each_setting() if one.section is not None)}
    undeclared = {
        (section.__name__, field.name)
        for section in sections
        for field in fields(section)
        if field.name not in {one.field for one in settings_of(section)}
    }
    assert undeclared == {("NodeSettings", name) for name in ("run_dir", "files", "number", "apart", "remote_batch")}


def test_each_part_of_the_file_says_how_a_change_is_taken() -> None:
    """reload.no-field-forgotten"""
    assert [one.key for one in settings_of(NodeSettings) if one.effect is None] == []


@given(paths=st.sets(st.sampled_from(LEAVES)))
def test_what_is_the_same_is_no_change_and_what_differs_is(paths: set[str]) -> None:
    """reload.no-field-forgotten"""
    after = FULL
    for path in sorted(paths):
        after = changed(after, path)
    made = plan(FULL, load(dump(after)))
    assert bool(made.changes) == bool(paths)
    assert {change.how for change in made.changes} <= {"live", "reconnect", "restart", "destructive", "node-restart"}
    assert plan(after, after).changes == ()


def test_the_places_of_bridges_and_listeners_in_the_file_mean_nothing() -> None:
    after = replace(FULL, bridges=FULL.bridges[::-1])
    assert hows(plan(FULL, after)) == {"bridges: their order": "live"}


def one(before: NodeSettings, after: NodeSettings, waiting: dict[str, tuple[int, int]] | None = None) -> tuple[str, str, str]:
    (change,) = plan(before, after, waiting).changes
    return change.what, change.how, change.target


def cloud(**changed: Any) -> NodeSettings:
    return node(bridge("cloud", **changed), bridge("north"))


BEFORE = cloud()
WAITING = {"cloud": (5, 500), "north": (0, 0)}


def remote(**changed: Any) -> NodeSettings:
    return cloud(remote=replace(BEFORE.bridges[0].remote, **changed))


@pytest.mark.parametrize(
    ("after", "how", "waiting"),
    [
        (remote(keep_alive_s=5), "reconnect", WAITING),
        (remote(username="other"), "reconnect", WAITING),
        (remote(client_id="other"), "destructive", WAITING),
        (remote(client_id="other"), "destructive", None),
        (remote(client_id="other"), "reconnect", {"cloud": (0, 0)}),
        (remote(addresses=(("127.0.0.1", 1), ("127.0.0.1", 2))), "reconnect", WAITING),
        (remote(addresses=(("127.0.0.1", 2),)), "destructive", WAITING),
        (remote(clean_start=True), "destructive", WAITING),
        (cloud(lanes=3), "live", WAITING),
        (cloud(local_subscriptions=(RULE,)), "live", WAITING),
        (cloud(remote_subscriptions=(RULE,)), "reconnect", WAITING),
        (cloud(on_session_loss="republish"), "reconnect", WAITING),
        (cloud(limits=limits(max_messages=4)), "live", WAITING),
        (cloud(limits=limits(max_age_s=60.0)), "destructive", WAITING),
        (cloud(limits=limits(max_age_s=60.0)), "reconnect", {"cloud": (0, 0)}),
        (cloud(limits=limits(overflow="drop-oldest")), "destructive", WAITING),
        (cloud(dead_letter=replace(BEFORE.bridges[0].dead_letter, max_messages=1)), "destructive", WAITING),
    ],
)
def test_a_change_of_a_bridge_is_about_that_bridge_alone(after: NodeSettings, how: str, waiting: Any) -> None:
    """reload.nothing-given-up-unasked"""
    assert one(BEFORE, after, waiting)[1:] == (how, "cloud")


@pytest.mark.parametrize(
    ("before_s", "after_s", "found"),
    [
        (0.0, 60.0, ("restart", "store")),
        (60.0, 90.0, ("live", "cloud")),
        (60.0, 30.0, ("destructive", "cloud")),
        (60.0, 0.0, ("destructive", "store")),
    ],
)
def test_whether_a_history_is_kept_is_for_a_store_that_begins_anew(before_s: float, after_s: float, found: tuple[str, str]) -> None:
    def kept(mode: str, retention_s: float) -> NodeSettings:
        return replace(cloud(retention_s=retention_s), persistence=replace(BEFORE.persistence, mode=mode))

    before, after = kept("file-native", before_s), kept("file-native", after_s)
    assert one(before, after, WAITING)[1:] == found
    assert (plan(before, after, WAITING).restarts == {"store"}) == (found[1] == "store")
    if found[1] == "store":
        assert one(kept("in-memory", before_s), kept("in-memory", after_s))[1] == "destructive", "all that is in memory goes"


@pytest.mark.parametrize(("most", "how"), [(5, "live"), (4, "destructive")])
def test_a_lower_limit_gives_up_what_does_not_fit_any_more(most: int, how: str) -> None:
    """reload.nothing-given-up-unasked"""
    before = cloud(limits=limits(max_messages=10, overflow="drop-oldest"))
    assert one(before, cloud(limits=limits(max_messages=most, overflow="drop-oldest")), WAITING)[1] == how


@pytest.mark.parametrize(("most", "how"), [(5, "live"), (4, "destructive")])
def test_a_lower_limit_of_a_class_gives_up_what_does_not_fit_any_more(most: int, how: str) -> None:
    """reload.nothing-given-up-unasked: all that waits in the bridge may be of that class."""
    rules = (replace(RULE, priority="bulk"),)
    before, after = (
        cloud(
            local_subscriptions=rules,
            classes=(ClassSettings(name="bulk", limits=limits(max_messages=each, overflow="drop-oldest")),),
        )
        for each in (10, most)
    )
    assert one(before, after, WAITING)[1] == how


def test_a_change_of_class_is_told_with_what_becomes_of_what_waits() -> None:
    before, after = (cloud(local_subscriptions=(replace(RULE, priority=each),)) for each in ("normal", "urgent"))
    (change,) = plan(before, after, WAITING).told()
    assert (change.how, change.detail) == (
        "live",
        "changed: plant; plant is of class urgent, and was of normal: what waits stays in its lane",
    )


def test_a_bridge_that_goes_gives_up_what_waits_for_it_and_nothing_else() -> None:
    """reload.nothing-given-up-unasked"""
    assert one(BEFORE, node(bridge("cloud")), WAITING) == ("bridge north: removed", "live", "north")
    gone = plan(BEFORE, node(bridge("north")), WAITING)
    assert [change.how for change in gone.changes] == ["destructive"]
    assert "stays (5 messages), and nobody sends it" in gone.changes[0].told().detail
    assert plan(BEFORE, node(bridge("north"))).changes[0].how == "destructive", "nobody knows what waits"
    assert one(node(), node(bridge("north")))[0] == "bridge north: added"


def test_what_is_destructive_waits_for_a_yes_and_the_nodes_own_place_for_its_restart() -> None:
    """reload.nothing-given-up-unasked"""
    made = plan(BEFORE, remote(client_id="other"), WAITING)
    assert set(made.reconnects) == {"cloud"}
    assert not made.restarts
    assert "bridge cloud: remote.client_id" in str(made.refusal(yes=False))
    assert made.refusal(yes=True) is None
    moved = plan(BEFORE, itself(replace(BEFORE, log=LogSettings(level="debug")), data_dir="/elsewhere"))
    assert hows(moved) == {"node.data_dir": "node-restart", "log.level": "live"}
    assert "node.data_dir cannot change while the node runs" in str(moved.refusal(yes=True))


def test_the_store_begins_anew_by_other_terms_of_persistence_and_in_memory_that_loses_all() -> None:
    """reload.nothing-given-up-unasked"""
    kept = replace(BEFORE, persistence=replace(BEFORE.persistence, mode="file-native"))
    made = plan(kept, replace(kept, persistence=replace(kept.persistence, sync="full")), WAITING)
    assert hows(made) == {"persistence.sync": "restart"}
    assert set(made.restarts) == {"store"}
    assert one(BEFORE, replace(BEFORE, persistence=replace(BEFORE.persistence, sync="full")))[1] == "destructive"


def test_http_begins_anew_comes_and_goes() -> None:
    assert one(node(), node(http=HTTP))[1:] == one(node(http=HTTP), node())[1:] == ("restart", "http")
    assert one(node(http=HTTP), node(http=replace(HTTP, calls_max=3))) == ("http.calls_max", "restart", "http")


def test_telemetry_begins_anew_comes_and_goes_and_its_headers_are_not_told() -> None:
    before = node(telemetry=TelemetrySettings(otlp=OTLP))
    assert one(node(), before)[1:] == one(before, node())[1:] == ("restart", "telemetry")
    after = node(telemetry=TelemetrySettings(otlp=replace(OTLP, headers=(("authorization", "secret"),), interval_s=5.0)))
    made = plan(before, after)
    assert hows(made) == {"telemetry.otlp.headers": "restart", "telemetry.otlp.interval": "restart"}
    assert set(made.restarts) == {"telemetry"}
    assert "secret" not in str([change.told() for change in made.changes])

    tls = node(telemetry=TelemetrySettings(otlp=replace(OTLP, tls=ClientTlsSettings(ca_file="/ca"))), files=(("/ca", "1"),))
    assert one(tls, replace(tls, files=(("/ca", "2"),))) == ("telemetry: the content of /ca", "restart", "telemetry")


def test_remotes_that_publish_here_are_told_how_large_a_packet_may_be() -> None:
    before = node(bridge("cloud", remote_subscriptions=(RULE,)), bridge("north"))
    made = plan(before, replace(before, clients=replace(before.clients, packet_max_bytes=2048)))
    assert [(change.how, change.target) for change in made.changes] == [("live", ""), ("reconnect", "cloud")]


def test_another_content_of_a_file_is_a_change_of_who_reads_it() -> None:
    own = replace(BEFORE.bridges[0].remote, password_file="/secret")
    before = node(bridge("cloud", remote=own), bridge("north"), access=ACCESS, files=(("/secret", "1"), ("/p", "1"), ("/n", "1")))
    made = plan(before, replace(before, files=(("/secret", "2"), ("/p", "2"), ("/n", "2"))))
    assert [(change.what, change.how, change.target) for change in made.changes] == [
        ("bridge cloud: the content of /secret", "reconnect", "cloud"),
        ("the content of /p", "live", ""),
    ]


def test_a_plan_tells_values_but_nobodys_name() -> None:
    assert plan(BEFORE, remote(keep_alive_s=5)).changes[0].told().detail == "60 -> 5"
    assert plan(BEFORE, remote(username="secret")).changes[0].told().detail == ""
    rules = (RULE, replace(RULE, name="b"))
    before = cloud(local_subscriptions=rules)
    after = cloud(local_subscriptions=(replace(RULE, max_qos=0), replace(RULE, name="c")))
    assert plan(before, after).changes[0].told().detail == "added: c; removed: b; changed: plant"
    unnamed = [replace(RULE, name=", ".join(filters), filters=filters) for filters in (("p/#",), ("p/#", "s/#"), ("x/#",))]
    more = plan(cloud(local_subscriptions=unnamed[:1]), cloud(local_subscriptions=unnamed[1:2])).changes[0].told()
    other = plan(cloud(local_subscriptions=unnamed[:1]), cloud(local_subscriptions=unnamed[2:])).changes[0].told()
    assert (more.detail, other.detail) == ("changed: p/# (+ s/#)", "added: x/#; removed: p/#")
    assert plan(before, cloud(local_subscriptions=rules[::-1])).changes[0].told().detail == "their order"


def test_listeners_at_any_free_port_are_told_apart_by_their_order() -> None:
    free = replace(LISTENER, bind="127.0.0.1:0")
    found = list(differences(node(listeners=(free, free)), node(listeners=(free, replace(free, connections_max=3)))))
    assert found == [Difference(key="listeners.connections_max", effect=Effect.LIVE, item="127.0.0.1:0", before=None, after=3)]
