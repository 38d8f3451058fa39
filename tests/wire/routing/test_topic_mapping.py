"""Destination templates by example, and what they make of topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import ConfigError
from wire.mqtt.topics import topic_fault
from wire.routing.topic_mapping import Mapped, TopicMapper, TopicTemplate


@pytest.mark.parametrize(
    ("template", "topic", "remote"),
    [
        ("{#}", "plant/a/b", "plant/a/b"),
        ("site/${node.name}/{#}", "plant/a", "site/edge-1/plant/a"),
        ("${bridge.name}/{1}", "plant/a", "cloud/plant"),
        ("cmd/{3-#}", "cmd/edge-1/valve/7", "cmd/valve/7"),
        ("{2-3}/x/{1}", "a/b/c/d", "b/c/x/a"),
        ("{2-#}", "site/temperature", "temperature"),
        ("fixed", "a/b", "fixed"),
        ("{2}{1}", "a/b", "ba"),
        ("x/{5}/y", "a/b", "x//y"),
        ("x/{2-4}", "a/b", "x/b"),
        ("{1-2}", "a//b", "a/"),
        (r"\{n\}/\$\{x\}/\\/{1}", "a/b", "{n}/${x}/\\/a"),
        ("$aws/things/{1}", "a", "$aws/things/a"),
        ("ä/{1}", "日本/x", "ä/日本"),
    ],
)
def test_a_template_maps(template: str, topic: str, remote: str) -> None:
    named = TopicTemplate.parse(template).named(bridge="cloud", node="edge-1")
    assert named.map(topic.encode()).decode() == remote


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("", "empty destination"),
        ("a/{", "character 3: '{' without '}'"),
        ("a/}", "character 3: '}' without '{'"),
        ("{x}", "{x} is none of"),
        ("{}", "{} is none of"),
        ("{1-}", "{1-} is none of"),
        ("{-2}", "{-2} is none of"),
        ("{ 1 }", "is none of"),
        ("{²}", "is none of"),
        ("a/{0}", "character 3: levels are counted from 1"),
        ("{3-2}", "ends before it begins"),
        ("a/+/b", "character 3: wildcard '+'"),
        ("a/#", "character 3: wildcard '#'"),
        ("${nobody}", "unknown name 'nobody'"),
        ("a\\b", "character 2: '\\' that is not before"),
        ("a\\", "character 2: '\\' that is not before"),
        ("a\0", "character 2: a character that no topic may have"),
        ("x" * 65_536, "more than 65535 bytes"),
    ],
)
def test_a_bad_template_is_refused_and_says_where(template: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TopicTemplate.parse(template)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("template", "filters", "level"),
    [
        ("{3}", ("a/b",), 3),
        ("x/{2-4}", ("a/+", "a/b/c"), 4),
        ("{4-#}", ("+/+/+",), 4),
        ("x/{3}", ("a/#",), 3),
        ("x/{3}", ("a/b", "a/b/+"), 3),
        ("x/{2}", ("#",), 2),
    ],
)
def test_a_level_that_not_every_topic_has_is_refused(template: str, filters: tuple[str, ...], level: int) -> None:
    with pytest.raises(ConfigError, match=f"asks for level {level}"):
        TopicTemplate.parse(template, filters=filters)


@pytest.mark.parametrize(
    ("template", "filters"),
    [("{2}", ("a/#",)), ("{3}", ("a/+/#", "a/b/+")), ("{2-#}", ("a/+",)), ("x/{2-#}", ("#",)), ("{3-#}", ("a/#",))],
)
def test_a_level_that_every_topic_has_is_accepted_and_so_is_an_open_end(template: str, filters: tuple[str, ...]) -> None:
    assert TopicTemplate.parse(template, filters=filters).text == template


@pytest.mark.parametrize("name", ["", "a+b", "#", "a\0"])
def test_a_name_that_makes_no_topic_is_refused_where_it_is_used(name: str) -> None:
    TopicTemplate.parse("{#}").named(bridge=name, node=name)
    with pytest.raises(ConfigError, match=r"\$\{node.name\}"):
        TopicTemplate.parse("${node.name}").named(bridge="b", node=name)


@given(st.text(st.sampled_from("ab/{}#-12$\\+")))
def test_whatever_parses_maps_to_a_topic_name_or_to_nothing(text: str) -> None:
    try:
        template = TopicTemplate.parse(text).named(bridge="b", node="n")
    except ConfigError:
        return
    remote = template.map(b"x/y/z").decode()
    assert remote == "" or topic_fault(remote) is None


@given(st.lists(st.text(st.sampled_from("ab"), max_size=2), min_size=1, max_size=4).map("/".join).filter(bool))
def test_a_topic_is_put_together_again_from_its_levels(topic: str) -> None:
    for template in ("{#}", "{1-#}", "{1-9}"):
        assert TopicTemplate.parse(template).map(topic.encode()).decode() == topic


@pytest.mark.parametrize("text", ["{#}", "{2-#}x", "{2}/{3}", "{1-2}", r"\{n\}/\$\{x\}/\\/{1}", "site/${node.name}/${bridge.name}"])
def test_a_template_whose_names_are_filled_in_is_written_so_that_it_maps_the_same(text: str) -> None:
    named = TopicTemplate.parse(text).named(bridge="cloud", node="edge")
    assert TopicTemplate.parse(named.text) == named
    assert named.text == text.replace("${node.name}", "edge").replace("${bridge.name}", "cloud")


def test_a_name_that_makes_a_destination_too_long_is_refused() -> None:
    template = TopicTemplate.parse("x" * 65_530 + "${node.name}")
    with pytest.raises(ConfigError, match="more than 65535 bytes"):
        template.named(bridge="b", node="longer")


def test_a_topic_that_would_be_empty_or_too_long_is_unchanged() -> None:
    mapper = TopicMapper()
    assert mapper.map(b"a/", "{2-#}") == Mapped(b"a/", unmapped=True)
    longest = b"a/" + b"x" * 65_533
    assert mapper.map(longest, "x/{#}") == Mapped(longest, unmapped=True)
    assert mapper.map(b"a/b", "x/{#}") == Mapped(b"x/a/b", unmapped=False)


def test_the_cache_stays_bounded_and_answers_the_same() -> None:
    mapper = TopicMapper(cache_topics_max=3)
    for _ in range(2):
        for number in range(10):
            for destination in ("all/{#}", "{2}"):
                wanted = b"all/plant/%d" if destination == "all/{#}" else b"%d"
                assert mapper.map(b"plant/%d" % number, destination).topic == wanted % number
                assert len(mapper._cache) <= 3
