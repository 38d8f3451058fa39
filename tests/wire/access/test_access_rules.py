"""Access control lists: which rule decides, and that no name widens a pattern."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.access.access_rules import CACHED_TOPICS_MAX, AccessRules, ClientAccess, pattern_fault, resolve
from wire.config_settings import AclRuleSettings
from wire.mqtt.topics import covers, filter_fault, matches, topic_fault


def rule(
    *topics: str,
    allow: bool = True,
    action: str = "both",
    users: tuple[str, ...] = (),
    anonymous: bool = False,
    clients: tuple[str, ...] = (),
) -> AclRuleSettings:
    return AclRuleSettings(topics, allow, action, users, anonymous, clients)


def client(*rules: AclRuleSettings, user: str | None = "ada", client_id: str = "c-1") -> ClientAccess:
    return AccessRules(rules).for_client(user, client_id)


def test_what_no_rule_allows_is_denied() -> None:
    """access.first-rule-decides"""
    for access in (client(), client(rule("a/#", users=("bob",))), client(rule("b"))):
        assert not access.may_publish(b"a/x")
        assert not access.may_receive(b"a/x")
        assert not access.may_subscribe("a/x")


def test_the_first_rule_that_fits_decides() -> None:
    """access.first-rule-decides"""
    access = client(rule("a/b", allow=False), rule("a/+"), rule("a/c", allow=False))
    assert [access.may_publish(topic) for topic in (b"a/b", b"a/c", b"a/d")] == [False, True, True]


def test_publish_and_subscribe_are_apart() -> None:
    access = client(rule("p", action="publish"), rule("s", action="subscribe"))
    assert (access.may_publish(b"p"), access.may_receive(b"p"), access.may_subscribe("p")) == (True, False, False)
    assert (access.may_publish(b"s"), access.may_receive(b"s"), access.may_subscribe("s")) == (False, True, True)


@pytest.mark.parametrize(
    ("users", "anonymous", "who", "fits"),
    [
        ((), False, "ada", True),
        ((), False, None, True),
        (("ada",), False, "ada", True),
        (("ada",), False, "bob", False),
        (("ada",), False, None, False),
        ((), True, None, True),
        ((), True, "ada", False),
        (("ada",), True, "ada", True),
        (("ada",), True, None, True),
        (("ada",), True, "bob", False),
    ],
)
def test_a_rule_is_for_users_for_the_anonymous_or_for_everyone(
    users: tuple[str, ...], anonymous: bool, who: str | None, fits: bool
) -> None:
    assert client(rule("t", users=users, anonymous=anonymous), user=who).may_publish(b"t") is fits


@pytest.mark.parametrize(
    ("pattern", "client_id", "fits"),
    [
        ("c-1", "c-1", True),
        ("c-1", "c-11", False),
        ("c-*", "c-11", True),
        ("*-1", "c-1", True),
        ("c.1", "cx1", False),
        ("*", "a\nb", True),
    ],
)
def test_a_rule_may_name_clients(pattern: str, client_id: str, fits: bool) -> None:
    assert client(rule("t", clients=(pattern,)), client_id=client_id).may_publish(b"t") is fits


def test_a_subscription_needs_one_pattern_that_covers_it() -> None:
    """access.whole-filter-allowed"""
    access = client(rule("a/secret/#", allow=False), rule("a/#", "b/+"))
    granted = ("a/#", "a/+/x", "a", "b/c", "b/+", "$share/g/b/+")
    refused = ("#", "+/x", "b/#", "a/secret/x", "a/secret/#", "a/secret", "$share/g/#", "$SYS/#")
    assert [topic_filter for topic_filter in (*granted, *refused) if access.may_subscribe(topic_filter)] == list(granted)
    assert [access.may_receive(topic) for topic in (b"a/x", b"a/secret/x", b"b/c")] == [True, False, True]


def test_a_hash_sign_does_not_open_dollar_topics() -> None:
    """[MQTT-4.7.2-1]"""
    assert not client(rule("#")).may_subscribe("$SYS/#")
    assert not client(rule("#")).may_receive(b"$SYS/uptime")
    assert client(rule("$SYS/#")).may_receive(b"$SYS/uptime")


@pytest.mark.parametrize(
    ("pattern", "user", "client_id", "resolved"),
    [
        ("a/%u/b", "ada", "c", "a/ada/b"),
        ("a/%c/%u", "ada", "c", "a/c/ada"),
        ("dev-%c-x/#", "ada", "c", "dev-c-x/#"),
        ("100%%/%u", "%c", "c", "100%/%c"),
        ("%u", "%%", "c", "%%"),
    ],
)
def test_names_are_put_in_once_and_as_they_are(pattern: str, user: str, client_id: str, resolved: str) -> None:
    assert resolve(pattern, allow=True, user=user, client_id=client_id) == resolved


@pytest.mark.parametrize("name", ["+", "#", "a/b", "a+", "/", "", "x#"])
def test_a_name_that_is_no_level_opens_nothing_and_closes_all_below(name: str) -> None:
    """access.name-never-widens"""
    assert resolve("own/%c/x", allow=True, user=None, client_id=name) is None
    assert resolve("own/%c/x", allow=False, user=None, client_id=name) == "own/#"
    assert resolve("own/%u/x", allow=True, user=name or None, client_id="c") is None
    assert resolve("own/%u/x", allow=False, user=name or None, client_id="c") == "own/#"


def test_a_name_does_not_make_a_dollar_topic() -> None:
    assert resolve("%c/#", allow=True, user=None, client_id="$SYS") is None
    assert resolve("$x/%c", allow=True, user=None, client_id="$SYS") == "$x/$SYS"


_names = st.text(st.sampled_from("ab+#/$%uc"), max_size=5)
_patterns = st.lists(st.sampled_from(["a", "b", "%u", "%c", "x%c", "%%", "+", "$S"]), min_size=1, max_size=4).map("/".join)
_topics = st.lists(st.text(st.sampled_from("abx$%+uc"), max_size=4), min_size=1, max_size=5).map("/".join)


@given(pattern=_patterns, user=_names, client_id=_names, topic=_topics)
def test_no_name_opens_more_than_one_level(pattern: str, user: str, client_id: str, topic: str) -> None:
    """access.name-never-widens: whatever the names are, an allowing pattern opens no more than the same pattern with ``+`` in their
    place.
    """
    wide = "/".join("+" if "%u" in level or "%c" in level else level.replace("%%", "%") for level in pattern.split("/"))
    resolved = resolve(pattern, allow=True, user=user, client_id=client_id)
    if resolved is None:
        return
    assert filter_fault(resolved) is None
    assert covers(wide, resolved)
    if topic_fault(topic) is None and matches(resolved, topic):
        assert matches(wide, topic)


@given(pattern=_patterns, user=_names, client_id=_names)
def test_no_name_escapes_a_denial(pattern: str, user: str, client_id: str) -> None:
    """access.name-never-widens"""
    resolved = resolve(pattern, allow=False, user=user, client_id=client_id)
    assert resolved is not None
    allowed = resolve(pattern, allow=True, user=user, client_id=client_id)
    assert allowed is None or resolved == allowed


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [("a/%x", "%x is not"), ("a/%", "%c"), ("a/#/%u", "4.7.1-1"), ("a+", "4.7.1-2"), ("", "empty"), ("$share/g/a", "shared")],
)
def test_a_bad_pattern_is_told_what_is_wrong(pattern: str, hint: str) -> None:
    assert hint in (pattern_fault(pattern) or "")


@pytest.mark.parametrize("pattern", ["#", "a/%u/#", "%c", "100%%/+", "dev-%c/x"])
def test_a_good_pattern_has_no_fault(pattern: str) -> None:
    assert pattern_fault(pattern) is None


def test_clients_of_a_user_share_what_does_not_depend_on_them() -> None:
    rules = AccessRules([rule("a", users=("ada",)), rule("b/%c", users=("bob",))])
    held = rules.for_client("ada", "1")
    assert rules.for_client("ada", "2") is held
    one = rules.for_client("bob", "1")
    assert rules.for_client("bob", "2") is not one
    assert (one.may_publish(b"b/1"), one.may_publish(b"b/2")) == (True, False)


def test_the_caches_are_bounded() -> None:
    access = client(rule("a/#"))
    for number in range(3 * CACHED_TOPICS_MAX):
        assert access.may_publish(b"a/%d" % number)
        assert not access.may_receive(b"b/%d" % number)
    assert access.may_publish(b"a/" + bytes(300).replace(b"\0", b"x"))
    assert max(len(access._may_publish), len(access._may_receive)) <= CACHED_TOPICS_MAX


def test_forbidden_topics_of_a_batch_are_found_by_index() -> None:
    access = client(rule("a/#"))
    assert access.forbidden([b"a/1", b"b/1", b"a/2", b"b/2"], [0, 1, 3]) == {1, 3}
