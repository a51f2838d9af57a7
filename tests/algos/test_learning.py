"""They learn: within seconds on the local runtime each algorithm is far above what it was untrained. Seeds are fixed, so a run
is always the same; how far they get in the end is measured elsewhere."""

from __future__ import annotations

import pytest

from tflow import A2C, A3C, DQN, IMPALA, PPO, Algorithm, ApeX, Metrics, Stop

UNTRAINED = 30.0
"""A random policy balances the pole for about 22 steps."""


def trained(algorithm: Algorithm, env_steps: int) -> Metrics:
    return algorithm.run(stop=Stop(env_steps=env_steps)).finish()


@pytest.mark.parametrize(
    ("algorithm", "env_steps"),
    [
        pytest.param(A3C(), 40_000, id="A3C"),
        pytest.param(A2C(), 40_000, id="A2C"),
        pytest.param(PPO(), 20_000, id="PPO"),
        pytest.param(DQN(), 15_000, id="DQN"),
        pytest.param(ApeX(), 50_000, id="ApeX"),
        pytest.param(IMPALA(), 60_000, id="IMPALA"),
    ],
)
def test_the_pole_is_balanced_longer(algorithm: Algorithm, env_steps: int) -> None:
    start = trained(algorithm, 1_000)
    assert start.mean_return < UNTRAINED
    assert trained(algorithm, env_steps).mean_return > 4 * UNTRAINED
