"""Liveness: nobody is dead too early (tree.nobody-dead-early), nor too late (tree.nobody-dead-early)."""

from __future__ import annotations

from supervisor.tree.late_heartbeats import LATE_S, STARTUP_TIMEOUT_S, Health, HeartbeatMonitor
from tests.support.settings import node
from wire.config_settings import NodeSettings, SettingsNow, SupervisionSettings

PERIOD_S, TIMEOUT_S = 1.0, 5.0


def judged_by(period_s: float) -> NodeSettings:
    return node(supervision=SupervisionSettings(heartbeat_period_s=period_s, heartbeat_timeout_s=TIMEOUT_S))


def watching(*names: str) -> HeartbeatMonitor:
    """A judge at 0 s that has heard ``names`` as ready at 0 s."""
    liveness = HeartbeatMonitor(SettingsNow(judged_by(PERIOD_S)), 0.0)
    for name in names:
        liveness.on_started(name, 0.0)
        liveness.on_heard(name, 0.0, starting=False)
    return liveness


def ticked(liveness: HeartbeatMonitor, first_s: int, last_s: int) -> list[list[str]]:
    """The verdict of each tick, one a second."""
    return [liveness.tick(float(now_s)) for now_s in range(first_s, last_s + 1)]


def test_a_silent_child_is_late_and_then_dead() -> None:
    """tree.nobody-dead-early"""
    settings = SettingsNow(judged_by(PERIOD_S))
    liveness = HeartbeatMonitor(settings, 0.0)
    liveness.on_started("store", 0.0)
    liveness.on_heard("store", 0.0, starting=False)
    assert liveness.judge("store", LATE_S) is Health.ALIVE, "twice the period is less"
    assert liveness.judge("store", LATE_S + 0.1) is Health.LATE
    settings.change(judged_by(2.0))
    assert liveness.judge("store", 4.0) is Health.ALIVE
    assert liveness.judge("store", 4.1) is Health.LATE
    settings.change(judged_by(1.0))
    assert ticked(liveness, 1, 4) == [[]] * 4
    assert liveness.tick(4.99) == []
    assert liveness.tick(5.0) == ["store"]
    assert liveness.judge("store", 5.0) is Health.DEAD


def test_a_heartbeat_keeps_alive() -> None:
    """tree.nobody-dead-early"""
    liveness = watching("store", "listener")
    for now_s in range(1, 20):
        liveness.on_heard("store", float(now_s), starting=False)
        dead = liveness.tick(float(now_s))
        assert dead == (["listener"] if now_s >= TIMEOUT_S else [])
    assert liveness.age_s("store", 19.5) == 0.5


def test_a_starting_child_has_longer() -> None:
    """tree.nobody-dead-early"""
    liveness = watching()
    liveness.on_started("store", 0.0)
    assert not any(ticked(liveness, 1, int(STARTUP_TIMEOUT_S) - 1))
    assert liveness.tick(STARTUP_TIMEOUT_S) == ["store"]


def test_a_child_that_reports_from_its_start_has_longer_too() -> None:
    """tree.nobody-dead-early"""
    liveness = watching()
    liveness.on_started("store", 0.0)
    liveness.on_heard("store", 1.0, starting=True)
    assert not any(ticked(liveness, 1, int(STARTUP_TIMEOUT_S)))
    assert liveness.tick(STARTUP_TIMEOUT_S + 1.0) == ["store"]


def test_the_time_that_the_judge_itself_missed_is_nobodys_silence() -> None:
    """tree.nobody-dead-early"""
    liveness = watching("store", "listener")
    assert ticked(liveness, 1, 3) == [[]] * 3
    assert liveness.tick(603.0) == [], "stopped for ten minutes"
    liveness.on_heard("store", 603.5, starting=False)
    assert liveness.tick(603.9) == []
    assert liveness.tick(604.0) == ["listener"], "five seconds of silence while the judge ran: until 3 s, a period, and one more"


def test_ticks_a_little_late_still_count_as_silence() -> None:
    """tree.nobody-dead-early"""
    liveness = watching("store")
    now_s = 0.0
    dead: list[str] = []
    while not dead:
        now_s += 1.9 * PERIOD_S
        dead = liveness.tick(now_s)
    assert now_s < TIMEOUT_S + 2 * PERIOD_S


def test_an_ended_child_is_not_judged_and_a_new_life_starts_afresh() -> None:
    liveness = watching("store")
    liveness.on_ended("store")
    assert liveness.age_s("store", 3.0) is None
    liveness.on_heard("store", 3.0, starting=False)
    assert ticked(liveness, 1, 10) == [[]] * 10, "a late heartbeat of an ended life brings nobody back"
    liveness.on_started("store", 10.0)
    assert liveness.age_s("store", 11.0) == 1.0
