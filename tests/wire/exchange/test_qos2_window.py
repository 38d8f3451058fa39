"""How many QoS 2 messages may be in flight, at remotes that say so and at those that do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.outbound_steps import burst, flow_at, offer
from wire.exchange.qos2_window import UNKNOWN, UNSTATED, UNSTATED_MAX, Qos2Window
from wire.status.states import WindowReason


@pytest.mark.parametrize(
    ("told", "maximum", "reason"),
    [
        (None, UNKNOWN, WindowReason.UNKNOWN),
        (20, 20, WindowReason.STATED),
        (7, 7, WindowReason.STATED),
        (500, 500, WindowReason.STATED),
        (5000, 1000, WindowReason.CONFIGURED),
        (UNSTATED, UNSTATED_MAX, WindowReason.STATED),
    ],
)
def test_one_is_taken_for_granted_and_more_when_the_remote_was_asked(told: int | None, maximum: int, reason: WindowReason) -> None:
    window = Qos2Window(0)
    window.on_connected(4, 1000, stated=False)
    assert (window.maximum, window.reason, window.asks) == (1, WindowReason.FIRST, True)
    window.on_asked()
    assert not window.asks
    window.on_told(told)
    assert (window.maximum, window.reason) == (maximum, reason)
    window.on_connected(4, 1000, stated=False)
    assert (window.maximum, window.asks) == (1, True), "another connection asks anew"


def test_a_remote_is_not_asked_by_mqtt_5_or_with_a_number_or_where_one_is_the_most() -> None:
    stated = Qos2Window(0)
    stated.on_connected(5, 50, stated=True)
    assert (stated.maximum, stated.reason, stated.asks) == (49, WindowReason.STATED, False)
    number = Qos2Window(30)
    number.on_connected(4, 1000, stated=False)
    assert (number.maximum, number.reason, number.asks) == (30, WindowReason.CONFIGURED, False)
    small = Qos2Window(0)
    small.on_connected(4, 1, stated=False)
    assert (small.maximum, small.reason, small.asks) == (1, WindowReason.CONFIGURED, False)
    client = Qos2Window(None)
    client.on_connected(4, 1000, stated=False)
    assert (client.maximum, client.asks) == (1000, False)


def test_what_waits_leaves_when_the_remote_has_said_that_it_takes_more() -> None:
    """exchange.qos2-maximum-kept"""
    flow = flow_at(qos2_maximum=0)
    offer(flow, 0, *[2] * 90)
    assert len(burst(flow)) == 1
    flow.in_flight.qos2_window.on_told(64)
    assert len(burst(flow)) == 63
    flow.in_flight.qos2_window.on_told(10)
    assert not burst(flow)


@given(
    qos2_maximum=st.none() | st.integers(0, 200),
    steps=st.lists(
        st.tuples(st.just("connected"), st.sampled_from([4, 5]), st.integers(1, 1000), st.booleans())
        | st.tuples(st.just("told"), st.none() | st.integers(1, UNSTATED))
        | st.tuples(st.just("asked"))
    ),
)
def test_it_never_exceeds_what_is_configured_and_what_is_known_of_the_connection(
    qos2_maximum: int | None, steps: list[tuple[object, ...]]
) -> None:
    window, most, by_told, level = Qos2Window(qos2_maximum), 0, 1, 4
    for kind, *facts in steps:
        if kind == "connected":
            level, most, stated = facts  # type: ignore[assignment]
            window.on_connected(level, most, stated=bool(stated))
            by_told = 1
            assert window.asks == (level == 4 and qos2_maximum == 0 and most > 1)
        elif kind == "asked" and window.asks:
            window.on_asked()
        elif kind == "told" and most and level == 4 and qos2_maximum == 0:
            window.on_told(facts[0])  # type: ignore[arg-type]
            told = UNKNOWN if facts[0] is None else facts[0]
            by_told = UNSTATED_MAX if told == UNSTATED else told  # type: ignore[assignment]
        if most:
            assert 1 <= window.maximum <= most
            if level == 4 and qos2_maximum is not None:
                assert window.maximum <= (qos2_maximum or by_told)
