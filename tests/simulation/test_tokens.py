"""Two days with tokens of one hour: the whole node, its bridge and a remote that closes on a token that has run out."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.simulation.options import UNLIMITED
from tests.simulation.plan import CLIENT_ID, Fault, Plan, make_plan
from tests.simulation.publisher import Message
from tests.simulation.simulation import Simulation, patched
from tests.simulation.tokens import AUTH, LIFE_S, PASSWORD, Tokens, minted_by
from wire.routing.message_route import ALL
from wire.routing.provenance import NOT_TOLD

HOURS = 48
STEP_S = 150.0  # of the wall clock, each ``BETWEEN_S`` of the node's own time
BETWEEN_S = 0.4
STEPS = int(HOURS * 3600 / STEP_S)
MESSAGES = 120


def plan_of(seed: int, placement: str, login: str, faults: tuple[Fault, ...]) -> Plan:
    """Messages of QoS 1 and 2 all the time, on a node that promises most."""
    rng, lasts_s = Random(f"tokens {seed}"), STEPS * BETWEEN_S
    times = [*sorted(1.0 + rng.random() * (lasts_s - 1.0) for _ in range(MESSAGES - 1)), lasts_s]
    messages = tuple(
        Message(100 + number, 0, at_s, f"plant/0/{rng.choice('ab')}", rng.choice((1, 2)), 5) for number, at_s in enumerate(times)
    )
    shape = replace(
        make_plan(0, placement).shape,
        mode="file-native",
        persist=True,
        acknowledge="after-commit",
        sync="full",
        flush_period_s=0.0,
        level=5,
        lanes=1,
        window=20,
        remote_window=20,
        max_qos=2,
        min_qos=0,
        max_messages=None,
        publishers=((5, 20),),
        rate=UNLIMITED,
        provenance=NOT_TOLD,
        thinning=ALL,
        backlog="oldest-first",
        latency_s=0.002,
        max_age_s=None,
        restarts_max=50,
        second="",
        socket_window=65_536,
        classes=(),
        login=login,
    )
    return Plan(seed, shape, faults, messages)


@pytest.mark.parametrize(
    ("login", "takes_auth", "placement"),
    [(AUTH, True, "together"), (AUTH, False, "isolated"), (PASSWORD, False, "together")],
    ids=["auth", "auth-not-taken", "password"],
)
def test_two_days_of_tokens_of_one_hour_cost_no_message_and_no_session(login: str, takes_auth: bool, placement: str) -> None:
    """The node is killed twice, and the vault is away for a while."""
    lasts_s = STEPS * BETWEEN_S
    kills = (Fault(0, lasts_s * 0.3, "kill", "bridge:cloud:0", 0.0), Fault(1, lasts_s * 0.6, "kill", "store", 3.0))
    plan = plan_of(1, placement, login, kills)
    with patched(plan):
        simulation = Simulation(plan)
        world, broker = simulation.world, simulation.broker
        tokens = broker.tokens = Tokens(world, takes_auth=takes_auth, by_auth=login == AUTH)
        for step in range(1, STEPS + 1):
            world.after(step * BETWEEN_S, tokens.move, STEP_S)
        world.after(lasts_s * 0.1, setattr, tokens, "vault_is_away", True)
        world.after(lasts_s * 0.1 + BETWEEN_S, setattr, tokens, "vault_is_away", False)

        with minted_by(tokens):
            simulation.run()

    moved_s = world.wall_s() - 1_790_000_000.0
    assert moved_s >= HOURS * 3600 - STEP_S
    assert (tokens.expired, tokens.refused, broker.sessions_lost) == (0, 0, 0)
    arrived = {payload: len(sessions) for payload, sessions in simulation.oracle.deliveries.items()}
    assert len(arrived) == MESSAGES, "none is lost"
    assert all(arrived[message.payload] == 1 for message in plan.messages if message.qos == 2), "none is doubled"
    assert {session for sessions in simulation.oracle.deliveries.values() for session in sessions} == {1}, "in one session"
    renewals = tokens.renewed if takes_auth else tokens.connections[CLIENT_ID] - 1
    assert renewals >= moved_s // LIFE_S
    if takes_auth:
        assert tokens.connections[CLIENT_ID] <= 1 + len(kills), "the connection stays, but for those who were killed"
