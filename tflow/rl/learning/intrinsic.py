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
from tflow.rl.data.batch import Batch, Rollout, Sampled
from tflow.rl.learning.losses import LossValue, PPOLoss, actor_critic
from tflow.rl.learning.parts import Part
from tflow.rl.learning.training import check_training
from tflow.rl.policy.policy_spec import ActorCriticSpec, CuriousSpec
from tflow.rl.rollout.worker_spec import AnyWorkers
from tflow.types import LiveOp, Sync

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


class ComputeIntrinsicRewards(LiveOp[Rollout, Curious, Sync]):
    """Adds intrinsic rewards and advantages of both streams to each batch: how wrong the predictor is about where a step led.

    Observations are normalised by their running mean and standard deviation and clipped, intrinsic rewards divided by the running
    standard deviation of their returns. Intrinsic returns do not end with an episode: what is new in the next one counts, too.

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

    def apply(self, live: Live, item: Rollout, /) -> Curious:
        learner: Learner = live.resident(self.learners[item.policy]).learner
        return self.added(curious("ComputeIntrinsicRewards", learner.policy), item, learner.rng)

    def added(self, policy: CuriousActorCritic, item: Rollout, rng: np.random.Generator) -> Curious:
        """The batch with what is added to it."""
        if not len(item):
            return cast("Curious", item)
        streams, novelty = self.streams, policy.novelty
        outside = ComputeAdvantages(gamma=streams.gamma, lam=streams.lam).compute(item)
        after = policy.vectors_of(item.with_next_obs().untyped(), "next_obs")
        novelty.observe(after)
        left, reached = novelty.normalized(policy.vectors_of(item.untyped())), novelty.normalized(after)
        ends = item.ends[~goes_on(item)]
        errors, values, final_values = policy.judged(reached, left, reached[ends])
        rewards = errors * np.float32(novelty.count_returns(so_far(errors, ends, streams.intrinsic_gamma)))
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
        return cast("Curious", item.untyped().with_columns(added))


def goes_on(batch: Rollout) -> Array:
    """Pieces after which the next one is of the same env: its episode is over, and another one has begun."""
    ends = batch.ends
    over = (batch["terminated"] | batch["truncated"])[ends[:-1]]
    return np.append(over & (batch["t"][batch.starts[1:]] == 0), False)


def so_far(rewards: Array, ends: Array, gamma: float) -> Array:
    """The discounted sum of the rewards up to each row, from the beginning of what belongs together."""
    last = len(rewards) - 1
    starts = np.append(0, ends[:-1] + 1)
    none, never = np.zeros(len(ends), np.float32), np.zeros(len(rewards), bool)
    return estimators.discounted_returns(rewards[::-1], none, never, last - starts[::-1], gamma=gamma)[::-1]
