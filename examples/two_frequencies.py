"""Two policies in one env, trained by two algorithms at different frequencies, from one stream of rollouts.

The policy "quick" learns by A2C from every fragment. The policy "calm" learns by PPO from ``group`` fragments at a time:
from all their rows, or, with ``skip``, from the last fragment alone, so that it holds still meanwhile and sees fewer rows.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import tflow
from tflow import Batch, Metrics, ParallelRollouts, Plan, Select, TrainOneStep, TrainStats, Union
from tflow.actors import MultiWorkers
from tflow.algos import A2C, PPO
from tflow.rl.envs.samples import MultiCartPole

Names = Literal["quick", "calm"]


def policy_of(agent: str) -> Names:
    """Which policy an agent has."""
    return "quick" if agent == "agent_0" else "calm"


def two_frequencies(group: int, *, skip: bool = False) -> Plan[Metrics]:
    """The plan."""
    a2c, ppo = A2C(), PPO(epochs=1, minibatch=None)  # one update per training step
    workers: MultiWorkers[Names] = tflow.create_rollout_workers(  # with the names in its type, a wrong one is a type error
        env=MultiCartPole,
        agents={"quick": a2c.agent(), "calm": ppo.agent()},
        policy_of=policy_of,
        num_workers=1,
        num_envs=4,
        fragment=32,
    )
    all_rollouts = ParallelRollouts(workers).gather_sync()
    first, second = all_rollouts.split()
    quick = tflow.algos.a2c_plan(Select(first, policy="quick"), workers, a2c)
    fragments = Select(second, policy="calm")
    groups = fragments.every(items=group) if skip else fragments.batch(group).map(Batch.concat)
    calm = tflow.algos.ppo_plan(groups, workers, ppo)
    return tflow.ReportMetrics(Union(quick, calm), workers)


def main(calm_updates: int = 6, group: int = 3, *, skip: bool = False) -> tuple[Counter[str], Counter[str]]:
    """Train; the updates of each policy, and the rows that each has learned from."""
    updates, rows = Counter[str](), Counter[str]()

    def count(stats: TrainStats) -> None:
        updates[stats.policy] += stats.updates
        rows[stats.policy] += stats.rows

    plan = two_frequencies(group, skip=skip).tapped(TrainOneStep, count)
    print(plan, end="\n\n")
    metrics = tflow.train(plan, stop=lambda _: updates["calm"] >= calm_updates).finish()
    for name, episodes in metrics.episodes.policies.items():
        print(f"{name:5}: {updates[name]:2} updates on {rows[name]} rows, mean return {episodes.mean_return:.1f}")
    return updates, rows


if __name__ == "__main__":
    main()
