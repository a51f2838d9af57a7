"""Losses of off-policy actors with Q-functions: SAC, TQC, CrossQ, REDQ, DroQ, TD3, DDPG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

from tflow.combinators import check
from tflow.errors import PlanError
from tflow.rl.learning.losses import Loss, LossValue, Reads, Replayed, next_masks
from tflow.rl.learning.parts import Part, SoftUpdate
from tflow.rl.policy.policy_spec import ActorQSpec, PolicySpec
from tflow.types import Async

if TYPE_CHECKING:
    from torch import Tensor

    from tflow.rl.policy.actor_q import ActorQ
    from tflow.rl.policy.policy import Policy
    from tflow.rl.policy.tensors import NetInputs, Tensors

Losses = Mapping[str, Callable[[], LossValue]]


def actor_q(loss: object, policy: Policy | None) -> ActorQ:
    """The policy as an actor with Q-functions; raises if it is none."""
    from tflow.rl.policy.actor_q import ActorQ

    check.instance(type(loss).__name__, "the policy", policy, ActorQ, "one with an actor and Q-functions")
    return cast("ActorQ", policy)


def weighted(batch: Tensors, errors: Tensor) -> Tensor:
    """The mean over rows, by the importance weights of prioritized replay."""
    return batch.mean(errors * batch["weights"] if "weights" in batch else errors)


def critic_value(batch: Tensors, values: Tensor, targets: Tensor) -> LossValue:
    """Half the squared TD error, summed over the Q-functions: (members, rows) against (rows,)."""
    errors = values - targets
    total = weighted(batch, 0.5 * errors.square().sum(0))
    td = errors.detach().abs().mean(0)
    return LossValue(total, {"q": values.detach().mean(), "td_error": batch.mean(td)}, td, targets)


@dataclass(frozen=True)
class SoftActorCriticLoss(Loss[Reads, Async]):
    """Soft Q-functions with target networks, an actor that maximises the smallest of them plus its entropy, a temperature that is
    learned. Derived classes say what they read: rows or sequences."""

    temperature: float | Literal["auto"] = "auto"
    """Weight of the entropy; ``"auto"`` learns it. Usually 0.01 to 1. Larger: more exploration."""
    initial_temperature: float = 1.0
    """Temperature that learning begins with; usually 0.1 to 1."""
    target_entropy: float | Literal["auto"] = "auto"
    """Entropy that the temperature is learned for. ``"auto"``: minus the number of action components; for discrete actions half
    of the largest entropy."""
    tau: float = 0.005
    """Polyak coefficient of the target networks; usually 0.001 to 0.02."""
    subset: int | None = None
    """Target networks, drawn at random, whose smallest value is the target, as in REDQ; usually 2. None: all."""
    mean_q: bool = False
    """The actor maximises the mean of the Q-functions, as in REDQ; otherwise the smallest."""
    actor_every: int = 1
    """Updates of the Q-functions per update of actor and temperature; usually 1 to 20."""
    spec: ActorQSpec = field(default=ActorQSpec())
    """Options of the policy; its temperature follows from ``temperature``."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.temperature != "auto":
            check.at_least_zero(name, "temperature", self.temperature)
            if self.initial_temperature != 1.0 or self.target_entropy != "auto":
                raise PlanError(f"{name}: initial_temperature= and target_entropy= are for temperature='auto', which learns it.")
        check.positive(name, "initial_temperature", self.initial_temperature)
        wanted: object = self.target_entropy
        if wanted != "auto" and not (isinstance(wanted, (int, float)) and math.isfinite(wanted)):
            raise PlanError(f"{name}: target_entropy must be a number, or 'auto'; got {self.target_entropy!r}.")
        if self.spec.quantiles > 1 and not isinstance(self, TQCLoss):
            raise PlanError(f"{name}: its Q-functions predict means, not quantiles; leave out quantiles=, or use TQCLoss.")
        if self.spec.batch_renorm != isinstance(self, CrossQLoss):
            raise PlanError(f"{name}: batch_renorm=True is for CrossQLoss, and CrossQLoss needs it.")
        check.integer(name, "actor_every", self.actor_every, least=1)
        check.fraction(name, "tau", self.tau)
        if self.subset is not None:
            check.integer(name, "subset", self.subset, least=1, most=self.spec.critics, hint="There are no more critics.")
        if self.spec.deterministic:
            raise PlanError(f"{name}: its actor is stochastic; leave out deterministic=True, or use TD3Loss.")

    def policy(self) -> PolicySpec:
        return (
            replace(self.spec, temperature=self.initial_temperature)
            if self.temperature == "auto"
            else replace(self.spec, temperature=None)
        )

    def parts(self) -> Mapping[str, Part]:
        found = {"critics": Part(target=SoftUpdate(self.tau)), "actor": Part(every=self.actor_every)}
        return {**found, "temperature": Part(every=self.actor_every)} if self.temperature == "auto" else found

    def losses(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> Losses:
        mine, others = actor_q(self, policy), actor_q(self, policy if target is None else target)
        drawn: list[Tensor] = []  # the log-probabilities of the actor's actions, for the temperature
        found: dict[str, Callable[[], LossValue]] = {
            "critics": lambda: self.critic_loss(mine, others, batch),
            "actor": lambda: self.actor_loss(mine, batch, drawn),
        }
        if self.temperature == "auto":
            found["temperature"] = lambda: self.temperature_loss(mine, batch, drawn)
        return found

    def alpha(self, policy: ActorQ) -> Tensor | float:
        """The temperature, without gradient."""
        return policy.temperature.detach() if self.temperature == "auto" else self.temperature

    # ------------------------------------------------------------------- critics

    def critic_loss(self, policy: ActorQ, target: ActorQ, batch: Tensors) -> LossValue:
        """The loss of the Q-functions."""
        known = "td_targets" in batch
        targets = batch["td_targets"] if known else self.td_targets(policy, target, batch)
        return self.td_loss(batch, self.taken(policy, policy.q_values(*self.given(policy, batch), train=True), batch), targets)

    def given(self, policy: ActorQ, batch: Tensors) -> tuple[NetInputs, Tensor | None]:
        """What the Q-functions are asked about: observations, and the actions taken if they are continuous."""
        return policy.net_inputs(batch, "obs"), None if policy.discrete else batch["actions"]

    def taken(self, policy: ActorQ, values: Tensor, batch: Tensors) -> Tensor:
        """The values of the actions taken."""
        if not policy.discrete:
            return values
        actions = batch["actions"].long().expand(len(values), -1)
        return values.gather(2, actions.unsqueeze(-1)).squeeze(-1)

    def td_loss(self, batch: Tensors, values: Tensor, targets: Tensor) -> LossValue:
        """The loss, given predictions and TD targets."""
        return critic_value(batch, values, targets)

    def td_targets(self, policy: ActorQ, target: ActorQ, batch: Tensors) -> Tensor:
        """TD targets of the actions taken: the reward plus the discounted soft value of the next observation."""
        import torch

        with torch.no_grad():
            obs = policy.net_inputs(batch, "next_obs")
            inputs = policy.act_on(obs)
            if policy.discrete:
                inputs = policy.head.masked(inputs, next_masks(batch)) if "next_masks" in batch else inputs
                logp = inputs.log_softmax(-1)
                smallest = self.smallest(policy, target.q_values(obs))
                value = (logp.exp() * (smallest - self.alpha(policy) * logp)).sum(-1)
            else:
                actions, logp = policy.head.sample_logp(inputs, policy.generator)
                value = self.smallest(policy, target.q_values(obs, actions)) - self.alpha(policy) * logp
            return batch["rewards"] + batch["discounts"] * value

    def smallest(self, policy: ActorQ, values: Tensor) -> Tensor:
        """The smallest value over the Q-functions, or over some of them."""
        import torch

        if self.subset is not None and self.subset < len(values):
            picked = torch.randperm(len(values), generator=policy.generator, device=values.device)[: self.subset]
            values = values[picked]
        return values.amin(0)

    # ------------------------------------------------------------------- actor and temperature

    def actor_loss(self, policy: ActorQ, batch: Tensors, drawn: list[Tensor]) -> LossValue:
        """The loss of the actor: minus the value of its actions, minus the entropy times the temperature."""
        obs = policy.net_inputs(batch, "obs")
        inputs, alpha = policy.act_on(obs, train=True), self.alpha(policy)
        if policy.discrete:
            inputs = policy.head.masked(inputs, batch["masks"]) if "masks" in batch else inputs
            logp = inputs.log_softmax(-1)
            entropy = -(logp.exp() * logp).sum(-1)
            value = (logp.exp() * self.judged(policy.q_values(obs)).detach()).sum(-1)
        else:
            actions, logp = policy.head.sample_logp(inputs, policy.generator)
            entropy, value = -logp, self.judged(policy.q_values(obs, actions))
        drawn.append(entropy.detach())
        return LossValue(-batch.mean(value + alpha * entropy), {"entropy": batch.mean(entropy)})

    def judged(self, values: Tensor) -> Tensor:
        """What the actor maximises, of the values of the Q-functions."""
        return values.mean(0) if self.mean_q else values.amin(0)

    def wanted_entropy(self, policy: ActorQ, batch: Tensors) -> Tensor | float:
        """The usual target entropy; of discrete actions, half of the largest that those which are allowed can have."""
        if not policy.discrete:
            return -float(policy.head.form.size)
        if "masks" not in batch:
            return 0.5 * math.log(policy.head.inputs)
        return 0.5 * batch["masks"].sum(-1).clamp(min=1).log()  # padding allows nothing

    def temperature_loss(self, policy: ActorQ, batch: Tensors, drawn: list[Tensor]) -> LossValue:
        """The loss of the temperature: it grows while the entropy is below its target."""
        wanted: Tensor | float = self.wanted_entropy(policy, batch) if self.target_entropy == "auto" else self.target_entropy
        temperature = policy.temperature
        total = temperature.log().squeeze() * batch.mean(drawn[-1] - wanted)
        return LossValue(total, {"temperature": temperature.detach().squeeze()})


@dataclass(frozen=True)
class SACLoss(SoftActorCriticLoss[Replayed]):
    """Soft actor-critic (arXiv 1812.05905): soft Q-functions with target networks, an actor that maximises the smallest of them
    plus its entropy, and a temperature that is learned."""


@dataclass(frozen=True)
class TQCLoss(SACLoss):
    """Truncated quantile critics (arXiv 2005.04269): SAC with Q-functions that predict quantiles; the largest are left out of the
    targets."""

    drop: int = 2
    """Largest quantiles per Q-function that are left out of the target; usually 0 to 5. Larger: less overestimation."""
    spec: ActorQSpec = field(default=ActorQSpec(quantiles=25))
    """Options of the policy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.integer("TQCLoss", "drop", self.drop, least=0, most=self.spec.quantiles - 1, hint="Give it more quantiles.")
        if self.spec.quantiles < 2:
            raise PlanError("TQCLoss: its Q-functions predict quantiles: ActorQSpec(quantiles=25).")
        if self.subset is not None or self.mean_q:
            raise PlanError("TQCLoss: it pools the quantiles of all Q-functions; leave out subset= and mean_q=.")

    def td_targets(self, policy: ActorQ, target: ActorQ, batch: Tensors) -> Tensor:
        import torch

        with torch.no_grad():
            obs = batch.nested("next_obs")
            actions, logp = policy.head.sample_logp(policy.act_on(obs), policy.generator)
            atoms = target.q_values(obs, actions)  # (members, rows, quantiles)
            pooled = atoms.movedim(0, 1).flatten(1).sort(-1).values[:, : atoms.shape[0] * (atoms.shape[2] - self.drop)]
            soft = pooled - (self.alpha(policy) * logp).unsqueeze(-1)
            return batch["rewards"].unsqueeze(-1) + batch["discounts"].unsqueeze(-1) * soft

    def td_loss(self, batch: Tensors, values: Tensor, targets: Tensor) -> LossValue:
        from tflow.rl.learning.q_learning import quantile_loss

        each = sum(quantile_loss(member, targets, huber=1.0) / member.shape[-1] for member in values)
        td = (values.detach().mean((0, 2)) - targets.mean(-1)).abs()
        total = weighted(batch, cast("Tensor", each) / len(values))
        return LossValue(total, {"q": values.detach().mean(), "td_error": batch.mean(td)}, td, targets)

    def judged(self, values: Tensor) -> Tensor:
        return values.mean((0, 2))


@dataclass(frozen=True)
class CrossQLoss(SACLoss):
    """CrossQ (arXiv 1902.05605): SAC without target networks. Both observations of a transition pass the Q-functions together, so
    that batch renormalisation sees the same mixture."""

    actor_every: int = 3
    """Updates of the Q-functions per update of actor and temperature; usually 3."""
    spec: ActorQSpec = field(default=ActorQSpec(batch_renorm=True))
    """Options of the policy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tau != SACLoss.tau:
            raise PlanError("CrossQLoss: it has no target networks; leave out tau=.")

    def parts(self) -> Mapping[str, Part]:
        return {name: replace(part, target=None) for name, part in super().parts().items()}

    def critic_loss(self, policy: ActorQ, target: ActorQ, batch: Tensors) -> LossValue:
        import torch

        obs, following = batch.nested("obs"), batch.nested("next_obs")
        with torch.no_grad():
            actions, logp = policy.head.sample_logp(policy.act_on(following), policy.generator)
        both = joined(obs, following)
        values, next_values = policy.q_values(both, torch.cat((batch["actions"], actions)), train=True).chunk(2, 1)
        with torch.no_grad():
            soft = self.smallest(policy, next_values) - self.alpha(policy) * logp
            targets = batch["rewards"] + batch["discounts"] * soft
        return self.td_loss(batch, values, targets)


def joined(one: Tensor | dict[str, Tensor], other: Tensor | dict[str, Tensor]) -> Tensor | dict[str, Tensor]:
    """Observations one after the other."""
    import torch

    if isinstance(one, dict) and isinstance(other, dict):
        return {name: torch.cat((part, other[name])) for name, part in one.items()}
    return torch.cat((cast("Tensor", one), cast("Tensor", other)))


@dataclass(frozen=True)
class TD3Loss(Loss[Replayed, Async]):
    """Twin delayed deep deterministic policy gradient (arXiv 1802.09477); DDPG (arXiv 1509.02971) with one Q-function, no delay
    and no smoothing."""

    tau: float = 0.005
    """Polyak coefficient of the target networks; usually 0.001 to 0.02."""
    actor_every: int = 2
    """Policy delay: updates of the Q-functions per update of the actor; usually 2, in DDPG 1."""
    smoothing: float = 0.2
    """Target policy smoothing: standard deviation of the noise on the target actions, in [-1, 1]; usually 0.2, in DDPG 0."""
    smoothing_clip: float = 0.5
    """Largest absolute value of that noise; usually 0.5."""
    spec: ActorQSpec = field(default=ActorQSpec(deterministic=True))
    """Options of the policy."""

    def __post_init__(self) -> None:
        check.integer("TD3Loss", "actor_every", self.actor_every, least=1)
        check.fraction("TD3Loss", "tau", self.tau)
        check.at_least_zero("TD3Loss", "smoothing", self.smoothing)
        check.at_least_zero("TD3Loss", "smoothing_clip", self.smoothing_clip)
        if not self.spec.deterministic or self.spec.temperature is not None:
            raise PlanError("TD3Loss: its actor is deterministic, without a temperature: ActorQSpec(deterministic=True).")
        if self.spec.quantiles > 1:
            raise PlanError("TD3Loss: its Q-functions predict means, not quantiles; leave out quantiles=.")

    def policy(self) -> PolicySpec:
        return self.spec

    def parts(self) -> Mapping[str, Part]:
        target = SoftUpdate(self.tau, every=self.actor_every)
        return {"critics": Part(target=target), "actor": Part(every=self.actor_every, target=target)}

    def losses(self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int) -> Losses:
        mine, others = actor_q(self, policy), actor_q(self, target)
        return {
            "critics": lambda: self.critic_loss(mine, others, batch),
            "actor": lambda: self.actor_loss(mine, batch),
        }

    def critic_loss(self, policy: ActorQ, target: ActorQ, batch: Tensors) -> LossValue:
        """The loss of the Q-functions."""
        known = "td_targets" in batch
        targets = batch["td_targets"] if known else self.td_targets(policy, target, batch)
        return critic_value(batch, policy.q_values(batch.nested("obs"), batch["actions"], train=True), targets)

    def td_targets(self, policy: ActorQ, target: ActorQ, batch: Tensors) -> Tensor:
        """TD targets of the actions taken, by the target actor, smoothed, and the smallest target Q-function."""
        import torch

        with torch.no_grad():
            obs = batch.nested("next_obs")
            actions = target.act_on(obs).tanh()
            if self.smoothing:
                noise = torch.randn(actions.shape, generator=policy.generator, device=actions.device) * self.smoothing
                actions = (actions + noise.clamp(-self.smoothing_clip, self.smoothing_clip)).clamp(-1, 1)
            return batch["rewards"] + batch["discounts"] * target.q_values(obs, actions).amin(0)

    def actor_loss(self, policy: ActorQ, batch: Tensors) -> LossValue:
        """The loss of the actor: minus the value of its actions, by the first Q-function."""
        obs = batch.nested("obs")
        value = policy.q_values(obs, policy.act_on(obs, train=True).tanh())[0]
        return LossValue(-batch.mean(value), {})
