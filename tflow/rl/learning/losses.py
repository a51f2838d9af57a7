"""Losses: what is made small. A loss says in its type which columns it reads and whether it needs a synchronous stream.

``Loss[A, R]``: ``A`` is the batch it reads, ``R`` the capability that training on it requires: ``Sync`` if the data must come
from the current weights. Workers carry their loss in their type, so ``TrainOneStep(workers)`` asks its stream for exactly that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, cast, get_args

from typing_extensions import TypeVar

from tflow.combinators import check
from tflow.combinators.hints import base_arguments
from tflow.rl.data.batch import Batch, Rollout
from tflow.rl.policy.policy_spec import ActorCriticSpec, PolicySpec, QSpec
from tflow.rl.schedules import Schedule, schedule_of
from tflow.types import Async, Sync

if TYPE_CHECKING:
    from torch import Tensor

    from tflow.rl.policy.policy import ActorCritic, Policy, QPolicy
    from tflow.rl.policy.tensors import Tensors

MOST_SHIFT = 20.0
"""Ratios of probabilities are at most e to this: beyond, a clipped row would still have a gradient that is not a number."""
Reads = TypeVar("Reads", contravariant=True)
Requires = TypeVar("Requires", contravariant=True, bound=Async, default=Async)

ReplayedColumns = Literal["obs", "actions", "rewards", "terminated", "next_obs", "discounts", "weights", "ids"]
Replayed: TypeAlias = Batch[ReplayedColumns]
"""What replay yields: rows that stand alone. ``discounts`` says how much the value of ``next_obs`` counts, ``weights`` corrects
for sampling by priority, ``ids`` tell the buffer which rows these are."""


class LossValue(NamedTuple):
    """A loss on one minibatch."""

    total: Tensor
    """What is made small."""
    stats: Mapping[str, Tensor]
    """Numbers to report."""
    errors: Tensor | None = None
    """How wrong each row was, for priorities."""
    goals: Tensor | None = None
    """What the errors are measured against, without a gradient: handed on in the batch, it is computed once."""
    enough: bool = False
    """The policy has moved as far as this batch can carry it: no more updates on it."""


class Loss(ABC, Generic[Reads, Requires]):
    """What a policy is trained on. Derive from it, with the batch that yours reads and the capability that it requires."""

    has_target: ClassVar[bool] = False
    """It compares with an older copy of the policy, which ``UpdateTargetNetwork`` renews."""
    adapts: ClassVar[bool] = False
    """Workers go from task to task, and ``AdaptToTask`` follows them."""
    undivided: ClassVar[bool] = False
    """It looks at a batch as a whole: there are no minibatches."""
    in_order: ClassVar[bool] = False
    """It looks at rows that follow each other, so minibatches are made of whole pieces."""

    @abstractmethod
    def policy(self) -> PolicySpec:
        """The kind of policy that it trains."""

    def renews_every(self) -> int | None:
        """After how many updates the learner renews the target network by itself; None: somebody else does."""
        return None

    def prepare(self, batch: Batch[str], /) -> Batch[str]:
        """Add what can be computed once, before the batch is cut into minibatches."""
        return batch

    @abstractmethod
    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        """The loss on some rows, after so many env steps. The tensors share memory with the batch: change none in place."""

    @classmethod
    def stand_in(cls, hint: object, name: str) -> Loss[Any, Any]:  # Any: known only at run time
        """A loss for drawings of functions that need one: of the class that is asked for, or one that reads the same batches."""
        fitting = [each for each in (A3CLoss, PPOLoss, DQNLoss) if base_arguments(each, Loss) == get_args(hint)]
        return cls() if cls is not Loss else fitting[0]() if fitting else DQNLoss()


def actor_critic(loss: object, policy: Policy) -> ActorCritic:
    """The policy as the kind that a loss needs."""
    from tflow.rl.policy.policy import ActorCritic

    check.instance(type(loss).__name__, "the policy", policy, ActorCritic, "one with a distribution and a value")
    return cast("ActorCritic", policy)


def q_policy(loss: object, policy: Policy | None) -> QPolicy:
    """The policy as the kind that a loss needs."""
    from tflow.rl.policy.policy import QPolicy

    check.instance(type(loss).__name__, "the policy", policy, QPolicy, "one with a value of each action")
    return cast("QPolicy", policy)


@dataclass(frozen=True)
class A3CLoss(Loss[Rollout, Async]):
    """Advantage actor-critic (arXiv 1602.01783): policy gradient, squared error of the values, entropy.

    Advantages are computed from the values that the rollout came with; ``lam=1`` is the n-step return of the paper.
    """

    gamma: float = 0.99
    lam: float = 1.0
    value_coef: float = 0.5
    entropy_coef: float | Schedule = 0.01
    spec: ActorCriticSpec = field(default=ActorCriticSpec())

    def __post_init__(self) -> None:
        check.share("A3CLoss", "gamma", self.gamma)
        check.share("A3CLoss", "lam", self.lam)

    def policy(self) -> PolicySpec:
        return self.spec

    def prepare(self, batch: Batch[str], /) -> Batch[str]:
        from tflow.rl.data.advantages import ComputeAdvantages

        return batch.with_columns(ComputeAdvantages(gamma=self.gamma, lam=self.lam).compute(batch))

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        found = actor_critic(self, policy).evaluate(batch)
        gain = batch.mean(found.logp * batch["advantages"])
        miss = batch.mean((found.values - batch["returns"]).square())
        entropy = batch.mean(found.entropy)
        total = -gain + self.value_coef * miss - schedule_of(self.entropy_coef).at(steps) * entropy
        return LossValue(total, {"policy_loss": -gain, "value_loss": miss, "entropy": entropy})


PPOReads: TypeAlias = Batch[Literal["obs", "actions", "logp", "values", "advantages", "returns"]]


@dataclass(frozen=True)
class PPOLoss(Loss[PPOReads, Sync]):
    """Proximal policy optimisation with clipped ratios (arXiv 1707.06347)."""

    clip: float | Schedule = 0.2
    value_clip: float | None = None
    """How far the values may move per batch; None lets them."""
    value_coef: float = 0.5
    entropy_coef: float | Schedule = 0.0
    scale_values: bool = True
    """The error of the values counts in units of the variance of the returns, where that is more than 1: however large rewards
    are, it does not drown what the policy is to learn."""
    normalize: bool = True
    """Standardise the advantages of each minibatch."""
    kl_coef: float | Schedule = 0.0
    """How much the divergence from the policy that acted is penalised."""
    max_kl: float | None = None
    """A minibatch on which the policy has diverged further than this ends the training on its batch; None goes on."""
    spec: ActorCriticSpec = field(default=ActorCriticSpec())

    def __post_init__(self) -> None:
        check.positive("PPOLoss", "clip", schedule_of(self.clip, where="PPOLoss: clip").at(0))
        check.at_least_zero("PPOLoss", "kl_coef", schedule_of(self.kl_coef, where="PPOLoss: kl_coef").at(0))
        for name, limit in (("value_clip", self.value_clip), ("max_kl", self.max_kl)):
            if limit is not None:
                check.positive("PPOLoss", name, limit)

    def policy(self) -> PolicySpec:
        return self.spec

    def gains(self, ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
        """What is gained per row when the probability of its action changes by a ratio: nothing more beyond the clip."""
        import torch

        return torch.minimum(advantages * ratio, advantages * ratio.clamp(1 - clip, 1 + clip))

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        import torch

        found = actor_critic(self, policy).evaluate(batch)
        advantages, clip = batch["advantages"], schedule_of(self.clip).at(steps)
        if self.normalize and len(batch) > 1:
            advantages = batch.standardized(advantages)
        shift = found.logp - batch["logp"]
        ratio = shift.clamp(max=MOST_SHIFT).exp()
        gain = batch.mean(self.gains(ratio, advantages, clip))
        misses = (found.values - batch["returns"]).square()
        if self.value_clip is not None:
            near = batch["values"] + (found.values - batch["values"]).clamp(-self.value_clip, self.value_clip)
            misses = torch.maximum(misses, (near - batch["returns"]).square())
        miss, entropy = batch.mean(misses), batch.mean(found.entropy)
        kl = batch.mean(ratio - 1 - shift)  # an unbiased estimate that is never negative, and so is its gradient's
        scale = batch.moments(batch["returns"])[1].square().clamp(min=1.0) if self.scale_values else 1.0
        total = self.value_coef * miss / scale - gain
        bonus, penalty = schedule_of(self.entropy_coef).at(steps), schedule_of(self.kl_coef).at(steps)
        if bonus:  # what counts nothing is left out: its gradient would be computed all the same
            total = total - bonus * entropy
        if penalty:
            total = total + penalty * kl
        clipped = batch.mean(((ratio.detach() - 1).abs() > clip).float())
        stats = {"policy_loss": -gain, "value_loss": miss, "entropy": entropy, "kl": kl.detach(), "clipped": clipped}
        return LossValue(total, stats, enough=self.max_kl is not None and float(kl.detach()) > self.max_kl)


IMPALAReads: TypeAlias = Batch[Literal["obs", "actions", "logp", "rewards", "terminated"]]


@dataclass(frozen=True)
class IMPALALoss(Loss[IMPALAReads, Async]):
    """Actor-critic whose learner is ahead of the policy that acted, corrected by V-trace (arXiv 1802.01561).

    Ratios of probabilities are clipped at ``clip_rho`` in the targets of the values and at ``clip_pg_rho`` in the policy
    gradient; ``clip_c`` says how far corrections reach back.
    """

    in_order: ClassVar[bool] = True
    gamma: float = 0.99
    lam: float = 1.0
    clip_rho: float = 1.0
    clip_c: float = 1.0
    clip_pg_rho: float = 1.0
    value_coef: float = 0.5
    entropy_coef: float | Schedule = 0.01
    spec: ActorCriticSpec = field(default=ActorCriticSpec())

    def __post_init__(self) -> None:
        check.share("IMPALALoss", "gamma", self.gamma)
        check.share("IMPALALoss", "lam", self.lam)
        for name, clip in (("clip_rho", self.clip_rho), ("clip_c", self.clip_c), ("clip_pg_rho", self.clip_pg_rho)):
            if clip != math.inf:  # which clips nothing
                check.positive("IMPALALoss", name, clip)

    def policy(self) -> PolicySpec:
        return self.spec

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        from tflow.rl.learning.vtrace import corrected

        found = actor_critic(self, policy).evaluate(batch)
        clips = {"clip_rho": self.clip_rho, "clip_c": self.clip_c, "clip_pg_rho": self.clip_pg_rho}
        goals = corrected(actor_critic(self, policy), batch, found, gamma=self.gamma, lam=self.lam, **clips)
        gain = batch.mean(found.logp * goals.advantages)
        miss = batch.mean((found.values - goals.values).square())
        entropy = batch.mean(found.entropy)
        total = -gain + self.value_coef * miss - schedule_of(self.entropy_coef).at(steps) * entropy
        stats = {"policy_loss": -gain, "value_loss": miss, "entropy": entropy, "rho": batch.mean(goals.rhos)}
        return LossValue(total, stats)


@dataclass(frozen=True)
class DQNLoss(Loss[Replayed, Async]):
    """Deep Q-learning: the error against the value that a target network gives the next state, best action by the policy itself
    (``double``); on distributions instead of means if the policy has them (C51, quantile regression)."""

    has_target: ClassVar[bool] = True
    double: bool = True
    huber: float | None = 1.0
    """From where on errors count linearly; None: all are squared."""
    target_every: int | None = 500
    """Updates after which the learner renews the target network; None leaves it to ``UpdateTargetNetwork``."""
    spec: QSpec = field(default=QSpec())

    def __post_init__(self) -> None:
        if self.huber is not None:
            check.positive("DQNLoss", "huber", self.huber)
        if self.target_every is not None:
            check.whole("DQNLoss", "target_every", self.target_every, least=1)

    def policy(self) -> PolicySpec:
        return self.spec

    def renews_every(self) -> int | None:
        return self.target_every

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        import torch

        from tflow.rl.learning import q_learning

        own = q_policy(self, policy)
        own.net.train()  # noisy layers learn with noise
        own.fresh_noise()
        goals = batch["goals"] if "goals" in batch else self.goals(own, q_policy(self, target), batch)
        errors, taken = q_learning.errors(own, batch, goals, huber=self.huber)
        weights = batch["weights"] if "weights" in batch else torch.ones_like(batch["rewards"])
        total = batch.mean(weights * errors.loss)
        stats = {"q": batch.mean(taken), "td_error": batch.mean(errors.td.abs())}
        return LossValue(total, stats, errors.td.abs(), goals)

    def goals(self, policy: QPolicy, target: QPolicy, batch: Tensors) -> Tensor:
        """What the values of the actions taken should have been: reward and value of the next state, by the target network."""
        import torch

        from tflow.rl.learning import q_learning

        target.fresh_noise()
        with torch.no_grad():
            following = target.outputs(batch, "next_obs")
            judged = policy.outputs(batch, "next_obs") if self.double else following
            values = policy.net.q_values(judged)
            if "next_masks" in batch:
                values = values.masked_fill(~batch["next_masks"], -math.inf)
            best = values.argmax(dim=1)
            return q_learning.goals(policy, batch, following, best)
