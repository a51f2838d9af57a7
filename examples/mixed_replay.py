"""On-policy and replayed data in one plan, and evaluation alongside training.

``imitating`` is PPO with self-imitation learning (arXiv 1806.05635), which replays transitions with positive advantage: one
policy, two losses, each on a stream that fits it. ``evaluated`` adds evaluation to any training: whole episodes without
exploration, once per ``every`` env steps, by workers of their own, to which ``UpdateWeights`` sends the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

import tflow
from tflow import Async, Iter, Policy, Rollout, Sync, TrainStats
from tflow.actors import AnyWorkers
from tflow.algos import PPO
from tflow.data import Episodes, Replayed
from tflow.losses import Loss, LossValue, actor_critic
from tflow.models import ActorCriticSpec


@dataclass(frozen=True)
class ImitateLoss(Loss[Replayed, Async]):
    """Self-imitation: policy gradient on positive advantages only."""

    def policy(self) -> ActorCriticSpec:
        return ActorCriticSpec()

    @override
    def compute(self, policy: Policy, batch: tflow.Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        acting = actor_critic(self, policy)
        found, (_, following, _) = acting.evaluate(batch), acting.net(batch["next_obs"])
        advantages = (batch["rewards"] + batch["discounts"] * following - found.values).detach().clamp(min=0)
        return LossValue(-batch.mean(found.logp * advantages), {"advantages": batch.mean(advantages)}, td_errors=advantages)


def imitating(rollouts: Iter[Rollout, Sync], workers: AnyWorkers, config: PPO) -> Iter[TrainStats]:
    """A sub-flow like ``ppo_plan``: rollouts are stored on their way to PPO; half as many rows are replayed."""
    replay = tflow.create_replay_actors(capacity=5_000, batch=64, min_size=500, update_ratio=1 / 128, gamma=config.gamma)
    fresh = tflow.algos.ppo_plan(rollouts.for_each(tflow.StoreToBuffer(replay)), workers, config)
    again = tflow.ParallelReplay(replay).gather_sync().for_each(tflow.TrainOneStep(workers, loss=ImitateLoss()))
    return tflow.Union(fresh, again.for_each(tflow.operators.SendPriorities()))


def evaluated(stats: Iter[TrainStats], workers: AnyWorkers, every: int) -> Iter[TrainStats | Episodes]:
    """What it is given, and evaluations in between."""
    evaluators = tflow.create_evaluation_workers(workers, episodes=4, every=every)
    sent = stats.for_each(tflow.UpdateWeights(workers, evaluators))
    return tflow.Union(sent, tflow.ParallelEvaluations(evaluators).gather_sync())


def main(every: int = 1_000, evaluations: int = 2) -> tuple[list[int], tflow.Metrics]:
    """Train; the env steps after which an evaluation was new, and the metrics of the last."""
    config = PPO(num_workers=1, num_envs=4, fragment=50, epochs=2, minibatch=64)
    workers = config.workers(config.loss())
    rollouts = tflow.ConcatRounds(tflow.ParallelRollouts(workers).gather_rounds())
    plan = tflow.ReportMetrics(evaluated(imitating(rollouts, workers, config), workers, every), workers)
    print(plan, end="\n\n")
    latest, steps = Episodes(), list[int]()

    def enough(metrics: tflow.Metrics) -> bool:
        nonlocal latest
        if metrics.evaluation.count and metrics.evaluation is not latest:  # it stays there until the next
            latest = metrics.evaluation
            steps.append(metrics.env_steps)
            print(f"after {metrics.env_steps} env steps and {metrics.training.updates} updates: {latest}")
        return len(steps) >= evaluations

    return steps, tflow.train(plan, stop=enough).finish()


if __name__ == "__main__":
    main()
