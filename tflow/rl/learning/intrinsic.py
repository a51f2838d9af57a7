"""Intrinsic rewards: random network distillation (Burda et al. 2018, arXiv 1810.12894), with two streams of returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

import numpy as np

from tflow.combinators import check
from tflow.errors import PlanError, TflowError
from tflow.live import Live
from tflow.rl.data import estimators
from tflow.rl.data.advantages import ComputeAdvantages
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import SLOT, Batch, Rollout, Sampled
from tflow.rl.learning.losses import LossValue, PPOLoss, actor_critic
from tflow.rl.learning.parts import Part
from tflow.rl.learning.training import check_training
from tflow.rl.policy.policy_spec import ActorCriticSpec, CuriousSpec
from tflow.rl.policy.threads import threads
from tflow.rl.rollout.worker_spec import AnyWorkers
from tflow.types import StatefulLiveOp, Sync

if TYPE_CHECKING:
    from tflow.rl.learning.learner import Learner
    from tflow.rl.policy.curious import CuriousActorCritic
    from tflow.rl.policy.policy import Policy
    from tflow.rl.policy.tensors import Tensors

Curious: TypeAlias = Batch[
    Sampled | Literal["advantages", "returns", "intrinsic_rewards", "intrinsic_returns", "left", "reached", "kept"]
]
"""A rollout with what ``RNDLoss`` reads. ``left`` and ``reached`` are the observations before and after each step, as normalised
vectors, ``kept`` says which rows the predictor learns from."""


def curious(where: str, policy: Policy) -> CuriousActorCritic:
    """The policy as one with intrinsic rewards; raises if it is none."""
    from tflow.rl.policy.curious import CuriousActorCritic

    if not isinstance(policy, CuriousActorCritic):
        raise TflowError(
            f"{where}: {type(policy).__name__} has no networks for intrinsic rewards. Make the workers with RNDLoss()."
        )
    return policy


@dataclass(frozen=True)
class RNDLoss(PPOLoss):
    """PPO on advantages that are partly intrinsic, and, as a part of its own, the error of the predictor and of the values of
    intrinsic returns."""

    spec: ActorCriticSpec = field(default=CuriousSpec())
    """Options of the actor-critic, and of the networks for intrinsic rewards."""
    measured: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check.instance("RNDLoss", "spec", self.spec, CuriousSpec, "a CuriousSpec")

    def parts(self) -> Mapping[str, Part]:
        return {"actor_critic": Part(), "novelty": Part()}

    def losses(
        self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int
    ) -> Mapping[str, Callable[[], LossValue]]:
        return {
            "actor_critic": lambda: self.compute(actor_critic(self, policy), batch, target=target, steps=steps),
            "novelty": lambda: self.novelty(curious("RNDLoss", policy), batch),
        }

    def novelty(self, policy: CuriousActorCritic, batch: Tensors) -> LossValue:
        """The error of the predictor, on the rows that it learns from, and that of the values."""
        reached, kept = batch["reached"], batch["kept"]
        errors = policy.novelty.errors(reached)
        error = batch.mean(errors * kept) / batch.mean(kept).clamp(min=1e-3)
        value_loss = batch.mean((policy.novelty.values(batch["left"]) - batch["intrinsic_returns"]).square())
        return LossValue(error + self.value_coef * value_loss, {"predictor_error": error, "intrinsic_value_loss": value_loss})


@dataclass(frozen=True)
class TwoStreams:
    """How extrinsic and intrinsic returns are computed and weighed."""

    gamma: float = 0.99
    """Discount factor of extrinsic returns."""
    intrinsic_gamma: float = 0.99
    """Discount factor of intrinsic returns."""
    lam: float = 0.95
    """GAE lambda, of both."""
    extrinsic_coef: float = 2.0
    """Weight of extrinsic advantages."""
    intrinsic_coef: float = 1.0
    """Weight of intrinsic advantages."""
    keep: float = 1.0
    """Share of the rows that the predictor learns from."""

    def __post_init__(self) -> None:
        for name in ("gamma", "intrinsic_gamma", "lam", "keep"):
            check.fraction("TwoStreams", name, getattr(self, name))
        for name in ("extrinsic_coef", "intrinsic_coef"):
            check.at_least_zero("TwoStreams", name, getattr(self, name))
        check.positive("TwoStreams", "keep", self.keep)


SoFar: TypeAlias = Mapping[int, float]
"""The discounted sum of the intrinsic rewards of each env so far, by its number."""


class ComputeIntrinsicRewards(StatefulLiveOp[Rollout, Curious, SoFar, Sync]):
    """Adds intrinsic rewards and advantages of both streams to each batch: how wrong the predictor is about where a step led.

    Observations are normalised by their running mean and standard deviation and clipped, intrinsic rewards divided by the running
    standard deviation of their returns. Intrinsic returns do not end with an episode: what is new in the next one counts, too.
    The sums whose standard deviation it is go on from batch to batch.

    Args:
        workers: The workers, whose loss is an ``RNDLoss``.
        streams: How the two streams are computed and weighed.
    """

    def __init__(self, workers: AnyWorkers, streams: TwoStreams = TwoStreams()) -> None:  # noqa: B008  # it is frozen
        check_training("ComputeIntrinsicRewards", workers)
        check.instance("ComputeIntrinsicRewards", "streams", streams, TwoStreams, "TwoStreams(...)")
        if not any(isinstance(loss, RNDLoss) for loss in workers.spec.losses.values()) and not workers.spec.stands_in:
            raise PlanError(f"ComputeIntrinsicRewards: {workers.name} have no RNDLoss, whose networks it needs.")
        self.learners = workers.learners
        self.streams = streams

    def init(self) -> SoFar:
        return {}

    def step(self, live: Live, state: SoFar, item: Rollout, /) -> tuple[SoFar, Curious]:
        learner: Learner = live.resident(self.learners[item.policy]).learner
        with threads(learner.threads):
            return self.added(curious("ComputeIntrinsicRewards", learner.policy), state, item, learner.rng)

    def added(self, policy: CuriousActorCritic, before: SoFar, item: Rollout, rng: np.random.Generator) -> tuple[SoFar, Curious]:
        """The sums of intrinsic rewards, and the batch with what is added to it."""
        if not len(item):
            return before, cast("Curious", item)
        streams, novelty = self.streams, policy.novelty
        outside = ComputeAdvantages(gamma=streams.gamma, lam=streams.lam).compute(item)
        after = policy.vectors_of(item.with_next_obs().untyped(), "next_obs")
        novelty.observe(after)
        left, reached = novelty.normalized(policy.vectors_of(item.untyped())), novelty.normalized(after)
        ends = item.ends[~goes_on(item)]
        errors, values, final_values = policy.judged(reached, left, reached[ends])
        slots = np.repeat(item.finals[SLOT], item.ends - item.starts + 1)
        sums, following = so_far(errors, slots, before, streams.intrinsic_gamma)
        rewards = errors * np.float32(novelty.count_returns(sums))
        never = np.zeros(len(item), bool)
        advantages, returns = estimators.gae(
            rewards, values, final_values, never, ends, gamma=streams.intrinsic_gamma, lam=streams.lam
        )
        added = {
            "advantages": streams.extrinsic_coef * outside["advantages"] + streams.intrinsic_coef * advantages,
            "returns": outside["returns"],
            "intrinsic_rewards": rewards,
            "intrinsic_returns": returns,
            "left": left,
            "reached": reached,
            "kept": (rng.random(len(item)) < streams.keep).astype(np.float32),
        }
        return following, cast("Curious", item.untyped().with_columns(added))


def goes_on(batch: Rollout) -> Array:
    """Pieces after which the next one is of the same env: its episode is over, and another one has begun."""
    ends, slots = batch.ends, batch.finals[SLOT]
    over = (batch["terminated"] | batch["truncated"])[ends[:-1]]
    return np.append(over & (batch["t"][batch.starts[1:]] == 0) & (slots[1:] == slots[:-1]), False)


def so_far(rewards: Array, slots: Array, before: SoFar, gamma: float) -> tuple[Array, SoFar]:
    """The discounted sum of the rewards of its env up to each row, and the sums of all envs after them.

    Args:
        rewards: Rewards, those of an env in the order of time.
        slots: The number of the env of each row.
        before: The sums before.
        gamma: The discount factor.
    """
    order = np.argsort(slots, kind="stable")  # env by env
    envs, counts = np.unique(slots, return_counts=True)
    starts, last = np.cumsum(counts) - counts, len(rewards) - 1
    known = np.array([before.get(env, 0.0) for env in envs.tolist()], np.float32)
    never = np.zeros(len(rewards), bool)
    backwards = estimators.discounted_returns(rewards[order][::-1], known[::-1], never, last - starts[::-1], gamma=gamma)
    sums = backwards[::-1]
    found = np.empty_like(sums)
    found[order] = sums
    return found, {**before, **dict(zip(envs.tolist(), sums[starts + counts - 1].tolist(), strict=True))}
