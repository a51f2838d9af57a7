"""Meta-learning (MAML, arXiv 1703.03400): workers adapt the policy to a task each, the learner takes the meta-gradient.

A worker samples a task, takes ``inner_steps`` steps of policy gradient, sampling again after each, and goes back to the weights
that it was sent. It yields one batch: ``task`` is the task of a row, ``phase`` the number of inner steps before it was sampled.
The loss repeats the inner steps, differentiably, and evaluates the outer objective on the rows of the last phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from tflow.combinators import check
from tflow.errors import TflowError
from tflow.rl.data import estimators
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, Rollout, Sampled
from tflow.rl.data.episodes import NONE, Episodes
from tflow.rl.data.moments import merged_moments
from tflow.rl.learning.losses import MAX_LOG_RATIO, Loss, LossValue, actor_critic
from tflow.rl.policy.policy_spec import ActorCriticSpec, PolicySpec
from tflow.rl.policy.threads import one_thread
from tflow.rl.rollout.worker import SingleWorker
from tflow.types import ActorOp, Sync

if TYPE_CHECKING:
    from torch import Tensor

    from tflow.rl.policy.policy import ActorCritic, Policy
    from tflow.rl.policy.tensors import Tensors
    from tflow.rl.rollout.worker import RolloutWorker

Adapted: TypeAlias = Batch[Sampled | Literal["advantages", "task", "phase"]]
"""What ``AdaptToTask`` yields."""
Ready: TypeAlias = Batch[Sampled | Literal["advantages"]]
MAMLReads: TypeAlias = Batch[Literal["obs", "actions", "logp", "advantages", "task", "phase"]]


@dataclass(frozen=True)
class MAMLLoss(Loss[MAMLReads, Sync]):
    """The outer objective of MAML: PPO's clipped surrogate after adaptation, differentiated through the inner steps."""

    adapts: ClassVar[bool] = True
    full_batch: ClassVar[bool] = True
    inner_lr: float = 0.1
    """Learning rate of the inner loop; usually 0.01 to 0.5. Larger: faster adaptation, but less stable."""
    inner_steps: int = 1
    """Gradient steps of adaptation per task; usually 1 to 5."""
    first_order: bool = False
    """First-order MAML: leave out the second derivatives. Cheaper, but the meta-gradient is biased."""
    clip: float = 0.2
    """Clip range of the probability ratio; usually 0.1 to 0.3."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus of the adapted policy; usually 0 to 0.01."""
    gamma: float = 0.99
    """Discount factor; usually 0.95 to 0.999."""
    lam: float = 1.0
    """GAE lambda. 0 is one-step TD, 1 Monte Carlo; usually 0.95 to 1."""
    spec: ActorCriticSpec = field(default=ActorCriticSpec())
    """Options of the actor-critic."""

    def __post_init__(self) -> None:
        check.positive("MAMLLoss", "inner_lr", self.inner_lr)
        check.integer("MAMLLoss", "inner_steps", self.inner_steps, least=1)
        check.positive("MAMLLoss", "clip", self.clip)
        check.fraction("MAMLLoss", "gamma", self.gamma)
        check.fraction("MAMLLoss", "lam", self.lam)

    def policy(self) -> PolicySpec:
        return self.spec

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        import torch

        adaptable, tasks = actor_critic(self, policy), batch["task"]
        found = [self.after_adapting(adaptable, batch.take((tasks == task).nonzero()[:, 0])) for task in torch.unique(tasks)]
        surrogate, entropy, kl = (torch.stack(numbers).mean() for numbers in zip(*found, strict=True))
        return LossValue(-surrogate - self.entropy_coef * entropy, {"policy_loss": -surrogate, "entropy": entropy, "kl": kl})

    def after_adapting(self, policy: ActorCritic, batch: Tensors) -> tuple[Tensor, Tensor, Tensor]:
        """Of one task: the surrogate objective, the entropy, and the KL divergence from the adapted policy that sampled."""
        import torch

        weights: Tensor = policy.flat.parameter
        for phase in range(self.inner_steps):
            weights = self.inner_step(policy, weights, rows_of(batch, phase))
        last = rows_of(batch, self.inner_steps)
        found = policy.evaluate(last, weights)
        log_ratio = found.logp - last["logp"]
        ratio, advantages = log_ratio.clamp(max=MAX_LOG_RATIO).exp(), last["advantages"]
        surrogate = torch.minimum(advantages * ratio, advantages * ratio.clamp(1 - self.clip, 1 + self.clip)).mean()
        return surrogate, found.entropy.mean(), (ratio - 1 - log_ratio).mean().detach()

    def inner_step(self, policy: ActorCritic, weights: Tensor, batch: Tensors) -> Tensor:
        """The weights after one policy gradient step; importance weights correct for weights that have changed since sampling."""
        import torch

        found = policy.evaluate(batch, weights)
        loss = -((found.logp - batch["logp"]).clamp(max=MAX_LOG_RATIO).exp() * batch["advantages"]).mean()
        (gradient,) = torch.autograd.grad(loss, weights, create_graph=not self.first_order, materialize_grads=True)
        return weights - self.inner_lr * gradient

    def with_advantages(self, batch: Rollout) -> Ready:
        """Add standardised advantages over a baseline fitted to this batch: no critic knows an unseen task."""
        final = np.zeros(len(batch.ends))
        returns = estimators.discounted_returns(batch["rewards"], final, batch["terminated"], batch.ends, gamma=self.gamma)
        baseline = fitted(batch, returns)
        advantages, _ = estimators.gae(
            batch["rewards"], baseline, final, batch["terminated"], batch.ends, gamma=self.gamma, lam=self.lam
        )
        column: Mapping[Literal["advantages"], Array] = {"advantages": estimators.standardized(advantages)}
        return batch.with_columns(column)


def rows_of(batch: Tensors, phase: int) -> Tensors:
    """The rows sampled after so many inner steps."""
    return batch.take((batch["phase"] == phase).nonzero()[:, 0])


def fitted(batch: Rollout, returns: Array) -> Array:
    """Linear baseline: ridge regression of the returns on observations, their squares and powers of time (Duan et al. 2016)."""
    parts = [column for name, column in batch.columns.items() if name.partition("/")[0] == "obs"]
    obs = np.concatenate([part.reshape(len(batch), -1).clip(-10, 10).astype(np.float64) for part in parts], axis=1)
    time = batch["t"][:, None] / 100.0
    features = np.concatenate([obs, obs**2, time, time**2, time**3, np.ones_like(time)], axis=1)
    gram = features.T @ features + 1e-5 * np.eye(features.shape[1])
    return np.asarray(features @ np.linalg.solve(gram, features.T @ returns), np.float32)


class AdaptToTask(ActorOp["RolloutWorker", "Rollout", Adapted]):
    """Adapts the worker's policy to the task of the rollout, samples again, then restores the weights and draws the next task.
    All rollouts come back in one batch; it needs workers with a ``MAMLLoss``.

    Episodes before and after adaptation are reported separately, as ``before`` and ``after``.
    """

    def apply(self, actor: RolloutWorker, item: Rollout, /) -> Adapted:
        loss = actor.spec.losses[item.policy]
        if not isinstance(loss, MAMLLoss) or not isinstance(actor, SingleWorker):
            raise TflowError(f"AdaptToTask: workers with a {type(loss).__name__} do not adapt to tasks. Give them a MAMLLoss().")
        played = [item]
        ready: list[Ready] = []
        sent = actor.policy.flat.get()
        try:
            with one_thread():
                while len(played) <= loss.inner_steps and len(played[-1]):
                    ready.append(loss.with_advantages(played[-1]))
                    actor.policy.flat.set(self.stepped(loss, actor, ready[-1]))
                    actor.restart_episodes()
                    played.append(actor.sample())
        finally:
            actor.policy.flat.set(sent)
        actor.next_task()
        if not len(played[-1]):  # its envs failed: there is nothing to learn from this task
            return Batch(
                {}, env_steps=sum(each.env_steps for each in played), policy=item.policy, summary=before_and_after(played)
            )
        ready.append(loss.with_advantages(played[-1]))
        return self.joined(ready, before_and_after(played), number=actor.steps * actor.shard.count + actor.shard.index)

    @staticmethod
    def stepped(loss: MAMLLoss, actor: SingleWorker, batch: Ready) -> Array:
        from tflow.rl.policy.tensors import Tensors

        policy = actor_critic(loss, actor.policy)
        tensors = Tensors.of(batch.untyped(), policy.device)
        found = policy.flat.values.detach().clone()
        found[: policy.flat.trainable] = loss.inner_step(policy, policy.flat.parameter, tensors).detach()
        return np.asarray(found.cpu().numpy())

    @staticmethod
    def joined(ready: list[Ready], summary: Episodes, *, number: int) -> Adapted:
        batch = Batch.concat(ready)
        phases = np.repeat(np.arange(len(ready)), [len(each) for each in ready])
        columns: Mapping[Literal["task", "phase"], Array] = {"task": np.full(len(batch), number), "phase": phases}
        whole, steps = batch.with_columns(columns), batch.env_steps
        return Batch(whole.columns, ends=whole.ends, finals=whole.finals, env_steps=steps, policy=batch.policy, summary=summary)


def before_and_after(played: list[Rollout]) -> Episodes:
    """The episodes after adaptation, with those of both phases."""
    each = [batch.summary if isinstance(batch.summary, Episodes) else NONE for batch in played]
    before, after = each[0], each[-1] if len(each) > 1 else NONE
    discarded = sum(episodes.discarded for episodes in each)
    moments = reduce(merged_moments, (episodes.moments for episodes in each))
    phases = {"before": replace(before, moments={}), "after": replace(after, moments={})}
    return Episodes(after.count, after.returns, after.lengths, discarded, phases=phases, moments=moments)
