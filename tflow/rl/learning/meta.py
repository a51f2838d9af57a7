"""Learning to adapt (MAML, arXiv 1703.03400): workers adapt to a task each, the learner makes that adaptation better.

A worker plays a task, makes ``inner_steps`` plain gradient steps on what it saw, playing again after each, and goes back to the
weights that it was sent. What it yields is one batch: ``task`` says which task a row is about, ``phase`` after how many inner
steps it was played. The loss makes the same inner steps once more, differentiably, and judges the rows of the last phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from tflow.combinators import check
from tflow.errors import TflowError
from tflow.rl.data import estimators
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, Rollout, Sampled
from tflow.rl.data.episodes import NONE, Episodes
from tflow.rl.learning.losses import MOST_SHIFT, Loss, LossValue, actor_critic
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
"""What workers yield that adapt to tasks."""
Ready: TypeAlias = Batch[Sampled | Literal["advantages"]]
MAMLReads: TypeAlias = Batch[Literal["obs", "actions", "logp", "advantages", "task", "phase"]]


@dataclass(frozen=True)
class MAMLLoss(Loss[MAMLReads, Sync]):
    """How well a policy does after adapting: the clipped policy gradient (as PPO) on what was played last, differentiated
    through ``inner_steps`` gradient steps of size ``inner_lr`` on what was played before."""

    adapts: ClassVar[bool] = True
    full_batch: ClassVar[bool] = True
    inner_lr: float = 0.1
    inner_steps: int = 1
    first_order: bool = False
    """Leave out the derivative of the inner gradients: cheaper, and less exact."""
    clip: float = 0.2
    entropy_coef: float = 0.0
    gamma: float = 0.99
    lam: float = 1.0
    spec: ActorCriticSpec = field(default=ActorCriticSpec())

    def __post_init__(self) -> None:
        check.positive("MAMLLoss", "inner_lr", self.inner_lr)
        check.whole("MAMLLoss", "inner_steps", self.inner_steps, least=1)
        check.positive("MAMLLoss", "clip", self.clip)
        check.share("MAMLLoss", "gamma", self.gamma)
        check.share("MAMLLoss", "lam", self.lam)

    def policy(self) -> PolicySpec:
        return self.spec

    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        import torch

        acting, tasks = actor_critic(self, policy), batch["task"]
        found = [self.after_adapting(acting, batch.take((tasks == task).nonzero()[:, 0])) for task in torch.unique(tasks)]
        gain, entropy, shift = (torch.stack(numbers).mean() for numbers in zip(*found, strict=True))
        return LossValue(-gain - self.entropy_coef * entropy, {"policy_loss": -gain, "entropy": entropy, "kl": shift})

    def after_adapting(self, policy: ActorCritic, batch: Tensors) -> tuple[Tensor, Tensor, Tensor]:
        """What is gained on one task, the entropy there, and how far the adapted policy has moved since it was played."""
        import torch

        weights: Tensor = policy.flat.parameter
        for phase in range(self.inner_steps):
            weights = self.inner_step(policy, weights, rows_of(batch, phase))
        last = rows_of(batch, self.inner_steps)
        found = policy.evaluate(last, weights)
        shift = found.logp - last["logp"]
        ratio, advantages = shift.clamp(max=MOST_SHIFT).exp(), last["advantages"]
        gain = torch.minimum(advantages * ratio, advantages * ratio.clamp(1 - self.clip, 1 + self.clip)).mean()
        return gain, found.entropy.mean(), (ratio - 1 - shift).mean().detach()

    def inner_step(self, policy: ActorCritic, weights: Tensor, batch: Tensors) -> Tensor:
        """The weights after one step of plain policy gradient. Ratios keep it right when the learner has moved on since."""
        import torch

        found = policy.evaluate(batch, weights)
        loss = -((found.logp - batch["logp"]).clamp(max=MOST_SHIFT).exp() * batch["advantages"]).mean()
        (gradient,) = torch.autograd.grad(loss, weights, create_graph=not self.first_order, materialize_grads=True)
        return weights - self.inner_lr * gradient

    def with_advantages(self, batch: Rollout) -> Ready:
        """Adds standardised advantages over a baseline that is fitted to this very batch: no critic knows an unseen task."""
        final = np.zeros(len(batch.ends))
        returns = estimators.discounted_returns(batch["rewards"], final, batch["terminated"], batch.ends, gamma=self.gamma)
        baseline = fitted(batch, returns)
        advantages, _ = estimators.gae(
            batch["rewards"], baseline, final, batch["terminated"], batch.ends, gamma=self.gamma, lam=self.lam
        )
        column: Mapping[Literal["advantages"], Array] = {"advantages": estimators.standardized(advantages)}
        return batch.with_columns(column)


def rows_of(batch: Tensors, phase: int) -> Tensors:
    """What was played after so many inner steps."""
    return batch.take((batch["phase"] == phase).nonzero()[:, 0])


def fitted(batch: Rollout, returns: Array) -> Array:
    """Least squares of the returns over observations, their squares and powers of time (Duan et al. 2016), slightly damped."""
    parts = [column for name, column in batch.columns.items() if name.partition("/")[0] == "obs"]
    obs = np.concatenate([part.reshape(len(batch), -1).clip(-10, 10).astype(np.float64) for part in parts], axis=1)
    time = batch["t"][:, None] / 100.0
    features = np.concatenate([obs, obs**2, time, time**2, time**3, np.ones_like(time)], axis=1)
    damped = features.T @ features + 1e-5 * np.eye(features.shape[1])
    return np.asarray(features @ np.linalg.solve(damped, features.T @ returns), np.float32)


class AdaptToTask(ActorOp["RolloutWorker", "Rollout", Adapted]):
    """Adapts the worker's policy to the task that the rollout is about, plays again, then goes on to the next task with the
    weights that it was sent. Both rollouts come back in one batch; it needs workers with a ``MAMLLoss``.

    The episodes before and after adapting are reported apart, as ``before`` and ``after``.
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
    """The episodes after adapting; beside them, those before and after."""
    each = [batch.summary if isinstance(batch.summary, Episodes) else NONE for batch in played]
    before, after = each[0], each[-1] if len(each) > 1 else NONE
    lost = sum(episodes.lost for episodes in each)
    return Episodes(after.count, after.returns, after.lengths, lost, phases={"before": before, "after": after})
