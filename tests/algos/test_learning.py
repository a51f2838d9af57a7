"""They learn: within seconds on the local runtime each algorithm is far above what it was untrained. Seeds are fixed, so a run
is always the same on one machine; how far they get in the end is measured elsewhere."""

from __future__ import annotations

import pytest

from tflow import Metrics, Stop
from tflow.algos import A2C, A3C, DQN, IMPALA, MAML, PPO, PPODQN, Algorithm, ApeX
from tflow.envs import EnvSpec

UNTRAINED = 30.0
"""A random policy balances the pole for about 22 steps."""


def trained(algorithm: Algorithm, env_steps: int, enough: float | None = None) -> tuple[Metrics, Metrics]:
    """The first metrics with episodes in them, and the last: those that show a mean return that is enough, or too many steps."""
    with algorithm.run(stop=Stop(env_steps=env_steps, mean_return=enough)) as run:
        first = next(metrics for metrics in run if metrics.episodes.count >= 10)
        return first, run.finish()


@pytest.mark.parametrize(
    ("algorithm", "env_steps"),
    [
        pytest.param(A3C(), 40_000, id="A3C", marks=pytest.mark.full),
        pytest.param(A2C(), 40_000, id="A2C"),
        pytest.param(PPO(), 40_000, id="PPO"),
        pytest.param(DQN(), 20_000, id="DQN"),
        pytest.param(ApeX(), 60_000, id="ApeX", marks=pytest.mark.full),
        pytest.param(IMPALA(), 50_000, id="IMPALA"),
    ],
)
def test_the_pole_is_balanced_longer(algorithm: Algorithm, env_steps: int) -> None:
    first, last = trained(algorithm, env_steps, enough=3 * UNTRAINED)
    assert first.mean_return < 2 * UNTRAINED, "even by luck"
    assert last.mean_return >= 3 * UNTRAINED


@pytest.mark.parametrize(("algorithm", "env_steps"), [(DQN, 8_000), (PPO, 20_000)])
def test_doors_open_where_masks_allow_it(algorithm: type[DQN] | type[PPO], env_steps: int) -> None:
    """1.4 is best, and about 1 is what drawing from the allowed actions gives; DQN whose targets ignore masks ends below 0."""
    run = algorithm(env="tflow/Doors-v0").run(stop=Stop(env_steps=env_steps), eval_every=env_steps, eval_episodes=200)
    assert run.finish().evaluation.mean_return > 1.3


@pytest.mark.full
def test_two_algorithms_balance_a_pole_each() -> None:
    first, last = trained(PPODQN(ppo_batch=512), 20_000, enough=2 * UNTRAINED)
    for policy in ("PPO", "DQN"):
        assert first.episodes.policies[policy].mean_return < UNTRAINED
        assert last.episodes.policies[policy].mean_return >= 2 * UNTRAINED


@pytest.mark.full
def test_one_step_of_adapting_goes_further_after_learning_to_adapt() -> None:
    """Navigation: goals are drawn anew for every task, so none was seen before. Returns are negative: nearer zero is better."""
    env = EnvSpec("tflow/Navigation-v0", kwargs={"horizon": 50})
    first, last = trained(MAML(env=env, num_envs=10, fragment=50, tasks=5), 200_000)
    before, after = (last.episodes.phases[name].mean_return for name in ("before", "after"))
    assert after > 0.6 * before, "adapting helps"
    assert after > 0.5 * first.episodes.phases["after"].mean_return, "and learning has made it better"
