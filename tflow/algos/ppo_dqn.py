"""PPO and DQN in one multi-agent env: each trains some of the agents, from one stream of rollouts.

The composition of the paper (arXiv 2011.12719, section on multi-agent training): two algorithms with different losses, at
different frequencies, one on-policy, one with replay, neither of them rewritten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tflow.algos.algorithm import Algorithm, SinglePolicy, create_multi_workers
from tflow.algos.dqn import DQN, dqn_plan
from tflow.algos.ppo import PPO, ppo_plan
from tflow.combinators import check
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.errors import PlanError
from tflow.rl.data.batch import MultiBatch, Sampled
from tflow.rl.data.batching import ConcatBatches
from tflow.rl.envs.multi_cart_pole import MultiCartPole
from tflow.rl.learning.training import TrainStats
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.worker_spec import EnvLike, MultiWorkers, ParallelRollouts, Select
from tflow.types import Sync

Names = Literal["PPO", "DQN"]


def every_other(agent: str) -> Names:
    """The policy of an agent whose name ends in a number: even ones learn by PPO, odd ones by DQN."""
    return "DQN" if agent[-1:] in set("13579") else "PPO"


@dataclass(frozen=True, kw_only=True)
class PPODQN(Algorithm):
    """PPO and DQN, each for some of the agents of an env.

    Args:
        env: A multi-agent env: a PettingZoo id, a function that makes an env, or an ``EnvSpec``.
        num_workers: Rollout workers, each a process of its own on Ray. More: faster sampling.
        num_envs: Envs per worker, stepped together as a vector env; usually 1 to 64. More: larger batches and faster sampling.
        fragment: Env steps per env and rollout. Longer: less bias from bootstrapping, fewer updates.
        device: Torch device of the learner; ``"auto"`` picks a GPU if there is one.
        policy_of: Maps the name of an agent to its policy: ``"PPO"`` or ``"DQN"``.
        ppo: Hyperparameters of the policy "PPO"; its env and workers are those of this configuration.
        dqn: Hyperparameters of the policy "DQN"; its env and workers are those of this configuration.
        ppo_batch: Rows of the policy "PPO" per training batch; usually 500 to 10,000. Larger: less noisy, but rarer updates.
            Agents that leave an episode early have fewer rows than there are env steps.
    """

    env: EnvLike = MultiCartPole
    """A multi-agent env: a PettingZoo id, a function that makes an env, or an ``EnvSpec``."""
    fragment: int = 32
    """Env steps per env and rollout. Longer: less bias from bootstrapping, fewer updates."""
    policy_of: Callable[[str], Names] = every_other
    """Maps the name of an agent to its policy: ``"PPO"`` or ``"DQN"``."""
    ppo: PPO = field(default=PPO(lr=1e-3, epochs=10, minibatch=256))
    """Hyperparameters of the policy "PPO"; its env and workers are those of this configuration."""
    dqn: DQN = field(default=DQN())
    """Hyperparameters of the policy "DQN"; its env and workers are those of this configuration."""
    ppo_batch: int = 512
    """Rows of the policy "PPO" per training batch; usually 500 to 10,000. Larger: less noisy, but rarer updates. Agents that
    leave an episode early have fewer rows than there are env steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.integer("PPODQN", "ppo_batch", self.ppo_batch, least=1)
        minibatch = self.ppo.minibatch
        if minibatch not in (None, PPO.minibatch, PPODQN.ppo.minibatch) and minibatch > self.ppo_batch:
            raise PlanError(
                f"PPODQN: the minibatch of ppo is {minibatch:,}, but ppo_batch is {self.ppo_batch:,}. Make ppo_batch larger, or "
                "the minibatch smaller."
            )

    def workers(self) -> MultiWorkers[Names]:
        """The rollout workers of this configuration."""
        algorithms: dict[Names, SinglePolicy] = {"PPO": self.ppo, "DQN": self.dqn}
        return create_multi_workers(
            algorithms,
            env=self.env,
            policy_of=self.policy_of,
            num_workers=self.num_workers,
            num_envs=self.num_envs,
            fragment=self.fragment,
            device=self.device,
        )

    def plan(self) -> Plan[Metrics]:
        workers = self.workers()
        return ReportMetrics(ppo_dqn_plan(ParallelRollouts(workers).gather_sync(), workers, self), workers)


def ppo_dqn_plan(
    stream: Iter[MultiBatch[Sampled, Names], Sync], workers: MultiWorkers[Names], config: PPODQN = PPODQN()
) -> Iter[TrainStats]:
    """Both algorithms on one stream of rollouts."""
    r1, r2 = stream.split()
    ppo_op = ppo_plan(ConcatBatches(Select(r1, policy="PPO"), rows=config.ppo_batch), workers, config.ppo)
    dqn_op = dqn_plan(Select(r2, policy="DQN"), workers, config.dqn)
    return Union(ppo_op, dqn_op)
