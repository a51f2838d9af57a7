"""PPO with a loss of your own: a regularisation term for symmetric policies (arXiv 1801.08093).

CartPole in a mirror is CartPole: with the observation negated, left should be as likely as right was. The loss derives from
``PPOLoss``: it reads the same columns and needs fresh data, too. The configuration derives from ``PPO`` and says which loss
it is; workers, plan and metrics follow.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from tflow import Policy, Stop, Sync, Tensors
from tflow.algos import PPO
from tflow.losses import Loss, LossValue, PPOLoss, PPOReads, actor_critic


@dataclass(frozen=True)
class MirrorLoss(PPOLoss):
    """PPO's loss, plus a penalty on asymmetric action probabilities."""

    mirror_coef: float = 1.0

    @override
    def compute(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> LossValue:
        value = super().compute(policy, batch, target=target, steps=steps)
        net = actor_critic(self, policy).net
        logits, _, _ = net(batch["obs"])
        mirrored, _, _ = net(-batch["obs"])
        gaps = (logits.log_softmax(-1) - mirrored.log_softmax(-1).flip(-1)).square().sum(-1)
        asymmetry = batch.mean(gaps)
        total = value.total + self.mirror_coef * asymmetry
        return value._replace(total=total, stats={**value.stats, "asymmetry": asymmetry})  # stats are reported


@dataclass(frozen=True, kw_only=True)
class MirrorPPO(PPO):
    """PPO with one field more."""

    mirror_coef: float = 1.0

    @override
    def loss(self) -> Loss[PPOReads, Sync]:
        return MirrorLoss(**vars(super().loss()), mirror_coef=self.mirror_coef)  # with all that PPO passes to its own


def asymmetry_after(mirror_coef: float, updates: int) -> float:
    """Train, and return the asymmetry in the last step of training."""
    config = MirrorPPO(mirror_coef=mirror_coef, num_workers=1, num_envs=8, fragment=64, epochs=4, minibatch=128)
    return config.run(stop=Stop(updates=updates), seed=1).finish().training.latest["asymmetry"]


def main(updates: int = 80) -> tuple[float, float]:
    """The asymmetry of a policy that was trained without the term, and of one that was trained with it."""
    print(MirrorPPO().plan(), end="\n\n")
    without, with_term = asymmetry_after(0.0, updates), asymmetry_after(1.0, updates)
    print(f"asymmetry after {updates} updates: {without:.4f} without the term, {with_term:.4f} with it")
    return without, with_term


if __name__ == "__main__":
    main()
