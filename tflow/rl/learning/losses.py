"""Losses, to be minimised. A loss says in its type which columns it reads and whether it needs a synchronous stream.

``Loss[A, R]``: ``A`` is the batch it reads, ``R`` the capability that training on it requires: ``Sync`` if the data must come
from the current weights. Workers carry their loss in their type, so ``TrainOneStep(workers)`` asks its stream for exactly that.
A loss that trains all weights together defines ``compute``; one with parts (actor, critics) ``parts`` and ``losses``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, cast, get_args

from typing_extensions import TypeVar

from tflow.combinators import check
from tflow.combinators.hints import base_arguments
from tflow.errors import PlanError, TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, Rollout
from tflow.rl.data.moments import ByColumn
from tflow.rl.elsewhere import Configured
from tflow.rl.learning.parts import HardUpdate, Part
from tflow.rl.policy.policy_spec import ActorCriticSpec, PolicySpec, QSpec
from tflow.rl.policy.weights import WHOLE
from tflow.rl.schedules import Schedule, schedule_of
from tflow.types import Async, Sync

if TYPE_CHECKING:
    from torch import Tensor

    from tflow.rl.learning.vtrace import VTraceTargets
    from tflow.rl.policy.policy import ActorCritic, Evaluated, Policy, QPolicy
    from tflow.rl.policy.tensors import Tensors

MAX_LOG_RATIO = 20.0
"""Log probability ratios are capped at this: beyond, the exponential overflows, and even a clipped row has a NaN gradient."""
Reads = TypeVar("Reads", contravariant=True)
Requires = TypeVar("Requires", contravariant=True, bound=Async, default=Async)

ReplayedColumns = Literal["obs", "actions", "rewards", "terminated", "next_obs", "discounts", "weights", "ids"]
Replayed: TypeAlias = Batch[ReplayedColumns]
"""What replay yields: single transitions. ``discounts`` multiplies the value of ``next_obs`` (0 after termination), ``weights``
are the importance-sampling weights of prioritized replay, ``ids`` identify the rows in the buffer."""


SequenceColumns = Literal["obs", "actions", "rewards", "terminated", "discounts", "ahead", "weights", "mask", "burn_in"]
ReplayedSequences: TypeAlias = Batch[SequenceColumns]
"""What replay of sequences yields, one after the other. A row bootstraps from the one that is ``ahead`` rows further on.
``mask`` is false for padding, ``burn_in`` true for rows that only warm up the recurrent state. ``finals`` has that state at the
start of each sequence, the observation after it, and its id."""


class LossValue(NamedTuple):
    """A loss on one minibatch."""

    total: Tensor
    """The scalar to minimise."""
    stats: Mapping[str, Tensor]
    """Scalars to report."""
    td_errors: Tensor | None = None
    """Absolute TD error of each row, for priorities."""
    td_targets: Tensor | None = None
    """TD target of each row, without gradient. Passed on in the batch, it is computed once."""
    early_stop: float = 0.0
    """How far the policy has moved from the one that sampled, as a share of what is allowed: from 1 on, which is True, this part
    is left alone until the next batch. Several learners go by the mean over all rows."""


class Loss(Configured, ABC, Generic[Reads, Requires]):
    """A training objective. Derive from it with the batch that yours reads and the capability that it requires."""

    adapts: ClassVar[bool] = False
    """Meta-learning: workers sample a task at a time, and ``AdaptToTask`` adapts the policy to it."""
    full_batch: ClassVar[bool] = False
    """It needs whole batches: no minibatches."""
    sequential: ClassVar[bool] = False
    """It needs consecutive steps, so minibatches are made of whole pieces."""
    measured: ClassVar[tuple[str, ...]] = ()
    """Columns whose mean and variance over the whole batch it is given, by ``share``, where a batch is divided."""

    @abstractmethod
    def policy(self) -> PolicySpec:
        """The kind of policy that it trains."""

    def parts(self) -> Mapping[str, Part]:
        """How each part of the weights is trained, in this order. By default all weights are one part without a target."""
        return {WHOLE: Part()}

    def prepare(self, batch: Batch[str], /) -> Batch[str]:
        """Add columns that are computed once per batch, before it is split into minibatches."""
        return batch

    def share(self, batch: Batch[str], moments: ByColumn, /) -> Batch[str]:
        """Prepare a share of a larger batch, given the moments of its ``measured`` columns over all shares."""
        return batch

    def losses(
        self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int
    ) -> Mapping[str, Callable[[], LossValue]]:
        """The loss of each part on a minibatch, as functions.

        A function is called when its part is due, with the parts before it already updated. The gradient of its loss reaches
        that part only. The arguments are those of ``compute``.
        """
        return {WHOLE: lambda: self.compute(policy, batch, target=target, steps=steps)}

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        """Compute the loss on a minibatch, if all weights are one part.

        Args:
            policy: The policy to train.
            batch: The minibatch. Its tensors share memory with the batch: do not change them in place.
            target: The target network, if the loss has one.
            steps: Env steps so far, for schedules.
        """
        raise NotImplementedError

    def priorities(self, batch: Batch[str], errors: Array, /) -> Array:
        """The priorities of replayed rows, or one per sequence, given the absolute TD error of each row."""
        from tflow.rl.replay.sequence_buffer import sequence_priorities

        return sequence_priorities(errors, batch) if "ids" in batch.finals else errors

    @property
    def has_target(self) -> bool:
        """True if it uses a target network."""
        return any(part.target is not None for part in self.parts().values())

    @classmethod
    def stand_in(cls, hint: object, name: str) -> Loss[Any, Any]:  # Any: known only at run time
        """A loss for drawings of functions that need one: of the class that is asked for, or one that reads the same batches."""
        fitting = [each for each in (A3CLoss, PPOLoss, DQNLoss) if base_arguments(each, Loss) == get_args(hint)]
        return cls() if cls is not Loss else fitting[0]() if fitting else DQNLoss()


def batch_of(loss: Loss[Any, Any]) -> object:  # Any: whatever it reads and requires
    """The type of the batch that a loss reads, as its class says."""
    return base_arguments(type(loss), Loss)[0]


def replays(loss: Loss[Any, Any]) -> bool:  # Any: whatever it reads and requires
    """True if a loss says in its type that it reads replayed rows."""
    return "discounts" in get_args(get_args(batch_of(loss))[0]) if get_args(batch_of(loss)) else False


def replays_sequences(loss: Loss[Any, Any]) -> bool:  # Any: whatever it reads and requires
    """True if a loss says in its type that it reads replayed sequences."""
    return replays(loss) and "mask" in get_args(get_args(batch_of(loss))[0])


def is_on_policy(loss: Loss[Any, Any]) -> bool:  # Any: whatever it reads and requires
    """True if a loss says in its type that it requires a synchronous stream."""
    return base_arguments(type(loss), Loss)[1:2] == (Sync,)


def actor_critic(loss: object, policy: Policy) -> ActorCritic:
    """The policy as an actor-critic; raises if it is none."""
    from tflow.rl.policy.policy import ActorCritic

    check.instance(
        type(loss).__name__, "the policy", policy, ActorCritic, "an actor-critic, with an action distribution and a state value"
    )
    return cast("ActorCritic", policy)


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """PPO's objective of each row, to be maximised."""
    import torch

    return torch.minimum(advantages * ratio, advantages * ratio.clamp(1 - clip, 1 + clip))


def q_policy(loss: object, policy: Policy | None) -> QPolicy:
    """The policy as a Q-network; raises if it is none."""
    from tflow.rl.policy.policy import QPolicy

    check.instance(type(loss).__name__, "the policy", policy, QPolicy, "one with Q-values")
    return cast("QPolicy", policy)


def next_masks(batch: Tensors) -> Tensor:
    """The action masks of the next observations; raises if one allows nothing, though the value of its observation counts."""
    found = batch["next_masks"]
    if not bool((found.any(dim=-1) | (batch["discounts"] == 0)).all()):
        raise TflowError(
            "Action masks: that of a next observation allows no action at all, so that it has no value to bootstrap from. "
            "Allow at least one action in every row of next_masks whose discount is not 0."
        )
    return found


def check_coefficients(loss: object, **coefs: float | Schedule) -> None:
    """Raise for a weight of a part of the loss that is negative, which would turn its meaning around."""
    where = type(loss).__name__
    for name, coef in coefs.items():
        check.at_least_zero(where, name, coef.at(0) if isinstance(coef, Schedule) else coef)


@dataclass(frozen=True)
class A3CLoss(Loss[Rollout, Async]):
    """Advantage actor-critic (arXiv 1602.01783): policy gradient, squared value error, entropy bonus.

    Advantages are computed from the values predicted at sampling time.
    """

    gamma: float = 0.99
    """Discount factor; usually 0.95 to 0.999."""
    lam: float = 1.0
    """GAE lambda. 0 is one-step TD, 1 the n-step return of the paper; usually 0.9 to 1."""
    value_coef: float = 0.5
    """Weight of the value loss; usually 0.25 to 1."""
    entropy_coef: float | Schedule = 0.01
    """Weight of the entropy bonus, or a schedule; usually 0 to 0.01. Larger: more exploration."""
    spec: ActorCriticSpec = field(default=ActorCriticSpec())
    """Options of the actor-critic."""

    def __post_init__(self) -> None:
        check.fraction("A3CLoss", "gamma", self.gamma)
        check.fraction("A3CLoss", "lam", self.lam)
        check_coefficients(self, value_coef=self.value_coef, entropy_coef=self.entropy_coef)

    def policy(self) -> PolicySpec:
        return self.spec

    def prepare(self, batch: Batch[str], /) -> Batch[str]:
        from tflow.rl.data.advantages import ComputeAdvantages

        return batch.with_columns(ComputeAdvantages(gamma=self.gamma, lam=self.lam).compute(batch))

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        found = actor_critic(self, policy).evaluate(batch)
        policy_loss = -batch.mean(found.logp * batch["advantages"])
        value_loss = batch.mean((found.values - batch["returns"]).square())
        entropy = batch.mean(found.entropy)
        total = policy_loss + self.value_coef * value_loss - schedule_of(self.entropy_coef).at(steps) * entropy
        return LossValue(total, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy})


@dataclass(frozen=True)
class PGLoss(A3CLoss):
    """REINFORCE (Williams 1992): the policy gradient with returns instead of advantages, standardised over the batch.

    The critic is no baseline. It completes the returns of episodes that a rollout cuts off.
    """

    normalize: bool = True
    """Standardise returns over the batch."""

    def prepare(self, batch: Batch[str], /) -> Batch[str]:
        ready = super().prepare(batch)
        returns = ready["returns"]
        weights = (returns - returns.mean()) / (returns.std() + 1e-8) if self.normalize and len(ready) > 1 else returns
        return ready.with_columns({"advantages": weights})


PPOReads: TypeAlias = Batch[Literal["obs", "actions", "logp", "values", "advantages", "returns"]]


@dataclass(frozen=True)
class PPOLoss(Loss[PPOReads, Sync]):
    """Proximal policy optimisation with the clipped surrogate objective (arXiv 1707.06347)."""

    measured: ClassVar[tuple[str, ...]] = ("advantages", "returns")
    clip: float | Schedule = 0.2
    """Clip range of the probability ratio, or a schedule; usually 0.1 to 0.3. Larger: larger policy updates."""
    value_clip: float | None = None
    """Clip range of the values, around those predicted at sampling time. None: no clipping."""
    value_coef: float = 0.5
    """Weight of the value loss; usually 0.25 to 1."""
    entropy_coef: float | Schedule = 0.01
    """Weight of the entropy bonus, or a schedule; usually 0 to 0.01. Larger: more exploration."""
    scale_values: bool = True
    """Normalise the value loss by the variance of the returns where that is above 1, so that it does not dominate when rewards
    are large."""
    normalize: bool = True
    """Standardise advantages per minibatch."""
    advantage_floor: float = 0.0
    """Least standard deviation to divide advantages by. Where rewards are normalised, 0.1 keeps what is noise small."""
    kl_coef: float | Schedule = 0.0
    """Coefficient of the penalty on the KL divergence from the policy that sampled, or a schedule; 0 is off."""
    max_kl: float | None = 0.03
    """Early stopping: a minibatch with a larger KL divergence ends the epochs on its batch; usually 0.01 to 0.05. None: off."""
    spec: ActorCriticSpec = field(default=ActorCriticSpec())
    """Options of the actor-critic."""

    def __post_init__(self) -> None:
        check.positive("PPOLoss", "clip", schedule_of(self.clip, where="PPOLoss: clip").at(0))
        check.at_least_zero("PPOLoss", "advantage_floor", self.advantage_floor)
        check_coefficients(self, value_coef=self.value_coef, entropy_coef=self.entropy_coef, kl_coef=self.kl_coef)
        for name, limit in (("value_clip", self.value_clip), ("max_kl", self.max_kl)):
            if limit is not None:
                check.positive("PPOLoss", name, limit)

    def policy(self) -> PolicySpec:
        return self.spec

    def share(self, batch: Batch[str], moments: ByColumn, /) -> Batch[str]:
        """What is standardised per minibatch elsewhere, is standardised over all shares: one of them may be short."""
        import numpy as np

        advantages, over = batch["advantages"], moments["advantages"]
        if self.normalize and over.count > 1:
            spread = max(float(np.sqrt(over.variance)), self.advantage_floor) + 1e-8
            advantages = ((advantages - float(over.mean)) / spread).astype(np.float32)
        variance = np.full(len(batch), float(moments["returns"].variance), np.float32)
        return batch.with_columns({"advantages": advantages, "return_variance": variance})

    def surrogate(self, ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
        """The clipped surrogate objective of each row, to be maximised, given the probability ratios."""
        return clipped_surrogate(ratio, advantages, clip)

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        import torch

        found = actor_critic(self, policy).evaluate(batch)
        advantages, clip = batch["advantages"], schedule_of(self.clip).at(steps)
        shared = "return_variance" in batch
        if self.normalize and len(batch) > 1 and not shared:
            advantages = batch.standardized(advantages, self.advantage_floor)
        log_ratio = found.logp - batch["logp"]
        ratio = log_ratio.clamp(max=MAX_LOG_RATIO).exp()
        policy_loss = -batch.mean(self.surrogate(ratio, advantages, clip))
        value_errors = (found.values - batch["returns"]).square()
        if self.value_clip is not None:
            clipped_values = batch["values"] + (found.values - batch["values"]).clamp(-self.value_clip, self.value_clip)
            value_errors = torch.maximum(value_errors, (clipped_values - batch["returns"]).square())
        value_loss, entropy = batch.mean(value_errors), batch.mean(found.entropy)
        kl = batch.mean(ratio - 1 - log_ratio)  # unbiased and never negative, and its gradient is unbiased too
        total = self.value_coef * value_loss + policy_loss
        if self.scale_values:
            variance = batch["return_variance"].max() if shared else batch.moments(batch["returns"])[1].square()
            total = self.value_coef * value_loss / variance.clamp(min=1.0) + policy_loss
        entropy_coef, kl_coef = schedule_of(self.entropy_coef).at(steps), schedule_of(self.kl_coef).at(steps)
        if entropy_coef:  # a term of weight 0 is left out: its gradient would be computed all the same
            total = total - entropy_coef * entropy
        if kl_coef:
            total = total + kl_coef * kl
        clipped = batch.mean(((ratio.detach() - 1).abs() > clip).float())
        stats = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": kl.detach(),
            "clipped": clipped,
        }
        return LossValue(total, stats, early_stop=0.0 if self.max_kl is None else float(kl.detach()) / self.max_kl)


IMPALAReads: TypeAlias = Batch[Literal["obs", "actions", "logp", "rewards", "terminated"]]


@dataclass(frozen=True)
class IMPALALoss(Loss[IMPALAReads, Async]):
    """Off-policy actor-critic with V-trace (arXiv 1802.01561)."""

    sequential: ClassVar[bool] = True
    gamma: float = 0.99
    """Discount factor; usually 0.95 to 0.999."""
    lam: float = 1.0
    """Lambda of V-trace: 0 is one-step TD, 1 as in the paper; usually 0.9 to 1."""
    clip_rho: float = 1.0
    """Clip of the importance weights in the value targets (rho-bar); usually 1. Larger: less bias, more variance."""
    clip_c: float = 1.0
    """Clip of the trace coefficients (c-bar); usually 1. Larger: corrections reach further back, with more variance."""
    clip_pg_rho: float = 1.0
    """Clip of the importance weights in the policy gradient; usually 1. Larger: less bias, more variance."""
    value_coef: float = 0.5
    """Weight of the value loss; usually 0.25 to 1."""
    entropy_coef: float | Schedule = 0.01
    """Weight of the entropy bonus, or a schedule; usually 0 to 0.01. Larger: more exploration."""
    spec: ActorCriticSpec = field(default=ActorCriticSpec())
    """Options of the actor-critic."""

    def __post_init__(self) -> None:
        check.fraction("IMPALALoss", "gamma", self.gamma)
        check.fraction("IMPALALoss", "lam", self.lam)
        for name, clip in (("clip_rho", self.clip_rho), ("clip_c", self.clip_c), ("clip_pg_rho", self.clip_pg_rho)):
            if clip != math.inf:  # which clips nothing
                check.positive("IMPALALoss", name, clip)
        check_coefficients(self, value_coef=self.value_coef, entropy_coef=self.entropy_coef)

    def policy(self) -> PolicySpec:
        return self.spec

    def targets(self, policy: ActorCritic, batch: Tensors, found: Evaluated) -> VTraceTargets:
        """Targets of the values, and advantages, given the evaluation of the batch."""
        from tflow.rl.learning.vtrace import vtrace_targets

        clips = {"clip_rho": self.clip_rho, "clip_c": self.clip_c, "clip_pg_rho": self.clip_pg_rho}
        return vtrace_targets(policy, batch, found, gamma=self.gamma, lam=self.lam, **clips)

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        found = actor_critic(self, policy).evaluate(batch)
        targets = self.targets(actor_critic(self, policy), batch, found)
        policy_loss = -batch.mean(found.logp * targets.advantages)
        value_loss = batch.mean((found.values - targets.values).square())
        entropy = batch.mean(found.entropy)
        total = policy_loss + self.value_coef * value_loss - schedule_of(self.entropy_coef).at(steps) * entropy
        rho = batch.mean(targets.rhos)
        stats = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "rho": rho}
        return LossValue(total, stats)


@dataclass(frozen=True)
class APPOLoss(IMPALALoss):
    """Asynchronous PPO: the clipped surrogate objective around a target policy, which is an earlier copy of the weights, as in
    IMPACT (arXiv 1912.00167). Importance weights lead from the policy that sampled to the target, probability ratios from there
    to the policy that is trained."""

    clip: float | Schedule = 0.2
    """Clip range of the probability ratio, or a schedule; usually 0.1 to 0.4. Larger: larger policy updates."""
    vtrace: bool = True
    """Advantages and value targets by V-trace. False: by GAE, from the values predicted at sampling time."""
    kl_coef: float | Schedule = 0.0
    """Coefficient of the penalty on the KL divergence from the target policy, or a schedule; 0 is off."""
    target_every: int = 8
    """Updates between copies of the weights to the target policy; usually 2 to 32. Larger: more stable, but slower."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.positive("APPOLoss", "clip", schedule_of(self.clip, where="APPOLoss: clip").at(0))
        check_coefficients(self, kl_coef=self.kl_coef)
        check.integer("APPOLoss", "target_every", self.target_every, least=1)

    def parts(self) -> Mapping[str, Part]:
        return {WHOLE: Part(target=HardUpdate(self.target_every))}

    def prepare(self, batch: Batch[str], /) -> Batch[str]:
        from tflow.rl.data.advantages import ComputeAdvantages

        return batch if self.vtrace else batch.with_columns(ComputeAdvantages(gamma=self.gamma, lam=self.lam).compute(batch))

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        import torch

        online = actor_critic(self, policy)
        found, clip = online.evaluate(batch), schedule_of(self.clip).at(steps)
        with torch.no_grad():
            old = actor_critic(self, cast("Policy", target)).evaluate(batch)
        rhos = (old.logp - batch["logp"]).clamp(max=MAX_LOG_RATIO).exp()
        if self.vtrace:
            returns, advantages, _ = self.targets(online, batch, found._replace(logp=old.logp))
        else:
            advantages, returns = batch["advantages"] * rhos.clamp(max=self.clip_pg_rho), batch["returns"]
        log_ratio = found.logp - old.logp
        ratio = log_ratio.clamp(max=MAX_LOG_RATIO).exp()
        policy_loss = -batch.mean(clipped_surrogate(ratio, advantages, clip))
        value_loss = batch.mean((found.values - returns).square())
        entropy, rho = batch.mean(found.entropy), batch.mean(rhos.clamp(max=self.clip_rho))
        kl = batch.mean(rhos.clamp(max=1.0) * (ratio - 1 - log_ratio))
        total = policy_loss + self.value_coef * value_loss - schedule_of(self.entropy_coef).at(steps) * entropy
        if kl_coef := schedule_of(self.kl_coef).at(steps):
            total = total + kl_coef * kl
        clipped = batch.mean(((ratio.detach() - 1).abs() > clip).float())
        stats = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "rho": rho}
        return LossValue(total, {**stats, "kl": kl.detach(), "clipped": clipped})


PQNReads: TypeAlias = Batch[Literal["obs", "actions", "returns"]]


@dataclass(frozen=True)
class PQNLoss(Loss[PQNReads, Sync]):
    """Q-learning without replay and without a target network (arXiv 2407.04811): squared error to lambda returns, whose values
    are the largest Q-values at sampling time."""

    spec: QSpec = field(default=QSpec(layer_norm=True))
    """Options of the Q-network."""

    def __post_init__(self) -> None:
        if self.spec.kind != "scalar":
            raise PlanError(f"PQNLoss: returns are numbers, so kind must be 'scalar', got {self.spec.kind!r}.")

    def policy(self) -> PolicySpec:
        return self.spec

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        from tflow.rl.learning import q_learning

        online = q_policy(self, policy)
        taken = q_learning.chosen(online.outputs(batch, "obs"), batch["actions"].long())
        td = taken - batch["returns"]
        return LossValue(batch.mean(0.5 * td.square()), {"q": batch.mean(taken), "td_error": batch.mean(td.abs())})


@dataclass(frozen=True)
class QLearningLoss(Loss[Reads, Async]):
    """Deep Q-learning with a target network: Huber loss on TD errors, or the distributional losses of C51 and QR-DQN if ``spec``
    says so. Derived classes say what they read: rows or sequences."""

    double: bool = True
    """Double Q-learning: the policy chooses the next action, the target network evaluates it."""
    huber: float | None = 1.0
    """Huber threshold: larger TD errors count linearly; usually 1. None: squared error, or the plain quantile loss."""
    target_every: int | None = 500
    """Updates between copies of the weights to the target network; None leaves them to ``UpdateTargetNetwork``."""
    spec: QSpec = field(default=QSpec())
    """Options of the Q-network."""

    def __post_init__(self) -> None:
        if self.huber is not None:
            check.positive(type(self).__name__, "huber", self.huber)
        if self.target_every is not None:
            check.integer(type(self).__name__, "target_every", self.target_every, least=1)

    def policy(self) -> PolicySpec:
        return self.spec

    def parts(self) -> Mapping[str, Part]:
        return {WHOLE: Part(target=HardUpdate(self.target_every))}

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        import torch

        from tflow.rl.learning import q_learning

        online = q_policy(self, policy)
        if not online.net.training:  # which walks over all layers
            online.net.train()  # noisy layers learn with noise
        online.fresh_noise()
        known = "td_targets" in batch
        td_targets = batch["td_targets"] if known else self.td_targets(online, q_policy(self, target), batch)
        errors, taken = q_learning.errors(online, batch, td_targets, huber=self.huber)
        weights = batch["weights"] if "weights" in batch else torch.ones_like(batch["rewards"])
        total = batch.mean(weights * errors.loss)
        stats = {"q": batch.mean(taken), "td_error": batch.mean(errors.td.abs())}
        return LossValue(total, stats, errors.td.abs(), td_targets)

    def td_targets(self, policy: QPolicy, target: QPolicy, batch: Tensors) -> Tensor:
        """TD targets of the actions taken: the reward plus the discounted value of the next state, by the target network."""
        import torch

        target.fresh_noise()
        with torch.no_grad():
            next_outputs = target.outputs(batch, "next_obs")
            values = policy.net.q_values(policy.outputs(batch, "next_obs") if self.double else next_outputs)
            if "next_masks" in batch:
                values = values.masked_fill(~next_masks(batch), -math.inf)
            return self.backed_up(policy, batch, next_outputs, values.argmax(dim=1))

    def backed_up(self, policy: QPolicy, batch: Tensors, next_outputs: Tensor, best: Tensor) -> Tensor:
        """TD targets, given the outputs of the target network for the next observations and the actions chosen there."""
        from tflow.rl.learning import q_learning

        return q_learning.td_targets(policy, batch, next_outputs, best)


@dataclass(frozen=True)
class DQNLoss(QLearningLoss[Replayed]):
    """Deep Q-learning with a target network (Mnih et al. 2015): Huber loss on TD errors, or the distributional losses of C51 and
    QR-DQN if ``spec`` says so."""
