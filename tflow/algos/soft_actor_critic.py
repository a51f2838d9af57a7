"""What SAC and RNNSAC share: the fields of soft actor-critic, its policy, optimisers and exploration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tflow.algos.off_policy import Replaying, by_part
from tflow.rl.learning.optimizers import Optimizer
from tflow.rl.policy.exploration import Exploration, RandomFirst
from tflow.rl.policy.network_spec import ModelLike
from tflow.rl.policy.policy_spec import ActorQSpec
from tflow.rl.rollout.worker_spec import EnvLike
from tflow.rl.schedules import Schedule


@dataclass(frozen=True, kw_only=True)
class SoftActorCritic(Replaying):
    """What soft actor-critic is, whatever it replays."""

    env: EnvLike = "Pendulum-v1"
    """The environment: a gymnasium id, a function that makes an env, or an ``EnvSpec``."""
    num_envs: int = 1
    """Envs per worker, stepped together as a vector env; usually 1 to 16. More: faster sampling, older policies."""
    fragment: int = 1
    """Env steps per env and rollout, at least ``n_step``; usually 1 to 64. Longer: less overhead, older policies."""
    lr: float | Schedule = 3e-4
    """Learning rate, or a schedule over env steps; usually 1e-4 to 1e-3. Larger: faster, but less stable."""
    critic_lr: float | Schedule | None = None
    """Learning rate of the Q-functions; None takes ``lr``."""
    max_grad_norm: float | None = None
    """Clip the gradient of each part to this norm. None: no clipping."""
    tau: float = 0.005
    """Polyak coefficient of the target networks; usually 0.001 to 0.02. Larger: faster, but less stable."""
    temperature: float | Literal["auto"] = "auto"
    """Weight of the entropy; ``"auto"`` learns it. Usually 0.01 to 1. Larger: more exploration."""
    initial_temperature: float = 1.0
    """Temperature that learning begins with; usually 0.1 to 1. Larger: more exploration at first."""
    target_entropy: float | Literal["auto"] = "auto"
    """Entropy that the temperature is learned for. ``"auto"``: minus the number of action components; for discrete actions half
    of the largest entropy. Larger: more exploration."""
    critics: int = 2
    """Q-functions, computed in one pass; usually 2, in REDQ 10. More: less overestimation, more compute."""
    subset: int | None = None
    """Target networks, drawn at random for each update, whose smallest value is the target; in REDQ 2. None: all."""
    mean_q: bool = False
    """The actor maximises the mean of the Q-functions, as in REDQ and DroQ; otherwise the smallest."""
    actor_every: int = 1
    """Updates of the Q-functions per update of actor and temperature; usually 1, in REDQ and DroQ ``update_ratio``."""
    critic_model: ModelLike | None = None
    """The network of the Q-functions; None takes ``model``."""
    dropout: float = 0.0
    """Dropout probability in the Q-functions; in DroQ 0.01. Larger: less overfitting, slower learning."""
    layer_norm: bool = False
    """Layer normalisation in the Q-functions, as in DroQ."""
    sde: bool = False
    """State-dependent exploration (gSDE, arXiv 2005.05719): smooth noise for real robots."""
    sde_every: int = 64
    """Steps between draws of that noise; usually 4 to 64. Larger: smoother actions."""

    def shared(self) -> dict[str, Any]:  # Any: fields of several types
        """The fields of the loss, whatever it reads."""
        return {
            "temperature": self.temperature,
            "initial_temperature": self.initial_temperature,
            "target_entropy": self.target_entropy,
            "tau": self.tau,
            "subset": self.subset,
            "mean_q": self.mean_q,
            "actor_every": self.actor_every,
            "spec": self.spec(),
        }

    def spec(self) -> ActorQSpec:
        """The options of the policy."""
        return ActorQSpec(
            critics=self.critics,
            critic_model=self.critic_model,
            dropout=self.dropout,
            layer_norm=self.layer_norm,
            sde=self.sde,
            sde_every=self.sde_every,
        )

    def optimizer(self) -> Mapping[str, Optimizer]:
        return by_part(self.loss().parts(), self.lr, self.critic_lr)

    def exploration(self) -> Exploration:
        return RandomFirst(self.learning_starts)
