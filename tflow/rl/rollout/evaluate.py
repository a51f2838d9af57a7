"""``evaluate``: a policy on whole episodes of an env, in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gymnasium import spaces

from tflow.combinators import check
from tflow.combinators.labels import one_line
from tflow.errors import PlanError
from tflow.rl.data.episodes import Episodes
from tflow.rl.envs.spaces import ObsLayout
from tflow.rl.learning.losses import A3CLoss
from tflow.rl.policy.policy import Policy
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import EnvLike, WorkerSpec, create_rollout_workers
from tflow.types import Shard

if TYPE_CHECKING:
    from tflow.rl.policy.network_spec import AnySpace

MOST_ENVS = 16
"""Envs that are stepped together, unless ``num_envs`` says otherwise."""


def evaluate(
    policy: Policy,
    env: EnvLike,
    *,
    episodes: int = 10,
    deterministic: bool = True,
    seed: int = 0,
    num_envs: int | None = None,
    cut_after: int | None = None,
) -> Episodes:
    """Evaluate a policy on whole episodes. Each env contributes its first ones, so that short ones are not over-represented.

    Args:
        policy: The policy, from ``Policy.load`` or ``run.policy()``. It stays as it is.
        env: A gymnasium id, a function that makes an env, or an ``EnvSpec``.
        episodes: Number of episodes.
        deterministic: Take the most likely actions; False samples them.
        seed: Random seed of the envs and of sampled actions.
        num_envs: Envs that are stepped together; None takes one per episode, at most 16.
        cut_after: Cut episodes after so many steps; None raises for one that seems to be endless.

    Returns:
        The statistics of the episodes, such as ``mean_return``.
    """
    check.instance("evaluate", "policy", policy, Policy, "a policy, such as Policy.load(path) or run.policy() gives")
    check.integer("evaluate", "episodes", episodes, least=1)
    check.boolean("evaluate", "deterministic", deterministic)
    check.integer("evaluate", "seed", seed, least=0)
    if num_envs is not None:
        check.integer("evaluate", "num_envs", num_envs, least=1)
    envs = min(MOST_ENVS, episodes) if num_envs is None else num_envs
    described = create_rollout_workers(env=env, loss=A3CLoss(), num_envs=envs)  # workers have a loss; nothing is learned here
    spec = replace(described.spec, explore=False, episodes=episodes, cut_after=cut_after)
    check_spaces(policy, spec)
    worker = PolicyWorker(policy, spec, Shard("evaluation", 0, 1, 0, seed))
    worker.deterministic = deterministic
    try:
        return worker.evaluate()
    finally:
        worker.close()


class PolicyWorker(SingleWorker):
    """A worker that acts with a copy of a policy, instead of making one."""

    def __init__(self, policy: Policy, spec: WorkerSpec, shard: Shard) -> None:
        self.given = policy
        super().__init__(spec, shard)

    def add_policy(self, name: str, observation_space: AnySpace, action_space: AnySpace) -> Policy:
        self.policies[name] = self.given.copy()
        return self.policies[name]


def check_spaces(policy: Policy, spec: WorkerSpec) -> None:
    """Raise if a policy cannot act in an env, which is made once for its spaces, and closed."""
    seen, taken = spec.spaces_of("default")
    pairs = (("observation", seen, policy.observation_space), ("action", taken, policy.action_space))
    fit = _arrays(seen) == _arrays(policy.observation_space), taken == policy.action_space
    wrong = [
        f"its {what} space is {one_line(env)}, the policy's is {one_line(own)}"
        for (what, env, own), fits in zip(pairs, fit, strict=True)
        if not fits
    ]
    if wrong:
        raise PlanError(
            f"{spec.env.name} does not fit the policy: {'; '.join(wrong)}. Evaluate it on an env like that of its training."
        )


def _arrays(space: AnySpace) -> dict[str, tuple[object, ...]]:
    """What a network depends on: the arrays of an observation space, and what discrete ones choose from. Bounds may differ."""
    choices = (spaces.Discrete, spaces.MultiDiscrete)
    return {
        leaf.name: (leaf.shape, leaf.dtype, leaf.space if isinstance(leaf.space, choices) else type(leaf.space))
        for leaf in ObsLayout(space).leaves
    }
