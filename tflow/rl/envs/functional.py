"""Envs that are functions, as those of gymnax and Brax: JAX compiles a step of all copies into one program.

Such an env remembers nothing: what it knows between two steps is a state, a tree of arrays, which it is given and gives back.
``FunctionalEnvs`` makes a gymnasium vector env of it, which ``tflow.rl.envs.vector_env`` adapts like any other. JAX is imported
when one is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tflow.errors import EnvError
from tflow.extras import require
from tflow.rl.data.arrays import Array
from tflow.rl.envs.spaces import AnySpace, Mismatch

Tree = Any  # Any: arrays, or dictionaries, tuples and dataclasses of them
Key = Any  # Any: a random key of JAX
Params = Any  # Any: whatever the functions of an env take
SIX = "(obs, state, reward, terminated, truncated, infos)"


class FunctionalEnv(Protocol):
    """What a functional env offers, as in gymnax. Its functions are compiled by JAX, so they branch by ``jax.numpy.where``."""

    @property
    def default_params(self) -> Params:
        """What can be changed: a dataclass, or None."""
        ...

    def observation_space(self, params: Params, /) -> Any:  # Any: a space of gymnasium or gymnax
        """The space of observations."""
        ...

    def action_space(self, params: Params, /) -> Any:  # Any: as above
        """The space of actions."""
        ...

    def reset(self, key: Key, params: Params, /) -> tuple[Tree, Tree]:
        """The first observation of an episode and the state behind it."""
        ...

    def step(self, key: Key, state: Tree, action: Tree, params: Params, /) -> tuple[Tree, Tree, Tree, Tree, Tree, Tree]:
        """(obs, state, reward, terminated, truncated, infos). It never starts the next episode by itself."""
        ...


class BraxLike(Protocol):
    """An env like those of Brax: what ``reset(key)`` and ``step(state, action)`` give is in a state, with ``obs``, ``reward`` and
    ``done``. It neither resets itself nor limits its time."""

    @property
    def observation_size(self) -> Any:  # Any: Brax has no types
        """Number of observed values."""
        ...

    @property
    def action_size(self) -> Any:  # Any: as above
        """Number of values of an action."""
        ...

    def reset(self, key: Key, /) -> Tree:
        """The first state of an episode."""
        ...

    def step(self, state: Tree, action: Tree, /) -> Tree:
        """The next state."""
        ...


class FunctionalEnvs(VectorEnv[Any, Any, Any]):  # Any: observations and actions of all kinds
    """Copies of a functional env, stepped together by one call of a compiled program.

    Observations, rewards and ends are views of JAX's memory, not copies; nobody may write to them. A copy is a function of its
    seed and its actions alone.

    Args:
        env: The env.
        num_envs: Number of copies.
        params: What its functions take as ``params``.
        mode: When an episode that has ended is followed by the next one: in the same step or in the next one.
    """

    def __init__(
        self, env: FunctionalEnv, num_envs: int, params: object = None, mode: AutoresetMode = AutoresetMode.SAME_STEP
    ) -> None:
        self.jax: Any = require("jax", extra="jax", feature="Functional envs")  # Any: no part of our environment
        self.env, self.num_envs, self.params, self.mode = env, num_envs, params, mode
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = space_of("obs", env.observation_space(params))
        self.single_action_space = space_of("actions", env.action_space(params))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._begin, self._advance = self.jax.jit(self._begun), self.jax.jit(self._advanced)
        self._carried: Tree = None
        """What a step gives to the next one: keys, states, and which episodes are over, by copy."""

    def reset(
        self,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,  # Any: gymnasium's
    ) -> tuple[Tree, dict[str, Any]]:  # Any: as above
        """Start all episodes, copy i with ``seed + i``."""
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        seeds = ((seed + np.arange(self.num_envs)) % 2**32).astype(np.uint32)
        self._carried, obs = self._begin(seeds)
        return self._seen(obs), {}

    def step(self, actions: Array) -> tuple[Tree, Array, Array, Array, dict[str, Any]]:  # Any: as above
        """Act in every copy."""
        self._carried, obs, rewards, terminated, truncated, finals = self._advance(self._carried, actions)
        over, cut, infos = np.asarray(terminated), np.asarray(truncated), {}
        if self.mode is AutoresetMode.SAME_STEP and (over.any() or cut.any()):
            infos["final_obs"] = self._seen(finals)
        return self._seen(obs), np.asarray(rewards), over, cut, infos

    def state(self) -> list[Array]:
        """The arrays of keys and states."""
        return [np.asarray(leaf) for leaf in self.jax.tree.leaves(self._carried)]

    def load(self, state: list[Array]) -> None:
        """Go on from a state."""
        self._carried = self.jax.tree.unflatten(self.jax.tree.structure(self._carried), state)

    def _seen(self, tree: Tree) -> Tree:
        return self.jax.tree.map(np.asarray, tree)

    # ------------------------------------------------------------------ compiled: nothing here sees numbers

    def _begun(self, seeds: Tree) -> tuple[Tree, Tree]:
        keys, _, again = self._split(self.jax.vmap(self.jax.random.PRNGKey)(seeds))
        obs, states = self._first(again)
        return (keys, self._strong(states), self.jax.numpy.zeros(self.num_envs, "bool")), obs

    def _advanced(self, carried: Tree, actions: Tree) -> tuple[Tree, ...]:
        jnp = self.jax.numpy
        keys, states, over = carried
        keys, now, again = self._split(keys)
        act = self.jax.vmap(lambda key, state, action: checked(self.env.step(key, state, action, self.params)))
        seen, states, rewards, terminated, truncated = act(now, states, actions)
        rewards = jnp.asarray(rewards, "float32")
        terminated, truncated = jnp.asarray(terminated, "bool"), jnp.asarray(truncated, "bool")
        if self.mode is AutoresetMode.NEXT_STEP:  # those that were over start anew, whatever the action
            rewards, terminated, truncated = jnp.where(over, 0, rewards), terminated & ~over, truncated & ~over
        else:
            over = terminated | truncated
        obs, states = self._restarted(over, again, (seen, states))
        return (keys, self._strong(states), terminated | truncated), obs, rewards, terminated, truncated, seen

    def _split(self, keys: Tree) -> tuple[Tree, Tree, Tree]:
        """Keys for the next call, for the env's step, and for its reset."""
        three = self.jax.vmap(lambda key: self.jax.random.split(key, 3))(keys)
        return three[:, 0], three[:, 1], three[:, 2]

    def _first(self, keys: Tree) -> Tree:
        return self.jax.vmap(lambda key: self.env.reset(key, self.params))(keys)

    def _restarted(self, over: Tree, keys: Tree, now: Tree) -> Tree:
        """Observations and states, with first ones where episodes are over. Most steps have none of these."""
        jax, choose = self.jax, self.jax.vmap(self.jax.numpy.where)
        return jax.lax.cond(
            over.any(), lambda: jax.tree.map(lambda new, old: choose(over, new, old), self._first(keys), now), lambda: now
        )

    def _strong(self, states: Tree) -> Tree:
        """With types of their own: a state that was loaded is no other than one that was computed."""
        return self.jax.tree.map(lambda leaf: self.jax.numpy.asarray(leaf, leaf.dtype), states)


def checked(given: Any) -> tuple[Tree, ...]:  # Any: whatever an env gave
    """What a step gave, without its infos."""
    if not isinstance(given, tuple) or len(given) != 6:
        what = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
        raise Mismatch("step", f"must return {SIX}, but returned {what}.")
    if "final_observation" in given[5]:
        raise Mismatch("step", "starts the next episode by itself. Give the last observation and the state behind it instead.")
    return given[:5]


def space_of(field: str, space: Any) -> AnySpace:  # Any: a space of gymnax, or of gymnasium
    """A space of gymnax as one of gymnasium."""
    if isinstance(space, spaces.Space):
        return space
    if isinstance(parts := getattr(space, "spaces", None), Mapping):
        return spaces.Dict({name: space_of(f"{field}/{name}", part) for name, part in parts.items()})
    if parts is not None:
        return spaces.Tuple([space_of(f"{field}/{place}", part) for place, part in enumerate(parts)])
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if all(hasattr(space, name) for name in ("low", "high", "shape", "dtype")):
        dtype, shape = np.dtype(space.dtype), tuple(space.shape)
        low, high = (np.broadcast_to(np.asarray(bound, dtype), shape) for bound in (space.low, space.high))
        return spaces.Box(low, high, shape, dtype.type)
    raise Mismatch(field, f"has the space {space}. Supported are Box, Discrete, Dict and Tuple, of gymnax or gymnasium.")


# --------------------------------------------------------------------------- envs of gymnax, Brax and one's own


class GymnaxEnv:
    """An env of gymnax whose steps leave it to others to start the next episode.

    Args:
        env: The env.
    """

    def __init__(self, env: Any) -> None:  # Any: gymnax is no part of our environment
        self.env = env
        self.default_params, self.observation_space, self.action_space = (
            env.default_params,
            env.observation_space,
            env.action_space,
        )

    def reset(self, key: Key, params: Params, /) -> tuple[Tree, Tree]:
        """As in ``FunctionalEnv``."""
        obs, state = self.env.reset_env(key, params)
        return self._typed(obs, params), state

    def step(self, key: Key, state: Tree, action: Tree, params: Params, /) -> Tree:
        """As in ``FunctionalEnv``."""
        obs, state, reward, terminated, infos = self.env.step_env(key, state, action, params)
        return self._typed(obs, params), state, reward, terminated, self.env.is_truncated(state, params), infos

    def _typed(self, obs: Tree, params: Params) -> Tree:
        """The observation as its space has it: in some envs of gymnax it is of another type."""
        dtype = getattr(self.observation_space(params), "dtype", None)
        return obs if dtype is None else obs.astype(dtype)


@dataclass(frozen=True)
class BraxParams:
    """What can be changed of an env like those of Brax."""

    max_steps_in_episode: int = 1000
    """Time limit."""


class BraxEnv:
    """An env like those of Brax with a time limit, as a functional env.

    Args:
        env: The env.
    """

    default_params = BraxParams()

    def __init__(self, env: BraxLike) -> None:
        self.env = env

    def observation_space(self, params: BraxParams, /) -> AnySpace:
        """As in ``FunctionalEnv``."""
        return spaces.Box(-np.inf, np.inf, (int(self.env.observation_size),), np.float32)

    def action_space(self, params: BraxParams, /) -> AnySpace:
        """As in ``FunctionalEnv``."""
        return spaces.Box(-1, 1, (int(self.env.action_size),), np.float32)

    def reset(self, key: Key, params: BraxParams, /) -> tuple[Tree, Tree]:
        """As in ``FunctionalEnv``."""
        state = self.env.reset(key)
        return state.obs, (state, 0)

    def step(self, key: Key, state: Tree, action: Tree, params: BraxParams, /) -> Tree:
        """As in ``FunctionalEnv``."""
        before, age = state
        after, age = self.env.step(before, action), age + 1
        return after.obs, (after, age), after.reward, after.done > 0, age >= params.max_steps_in_episode, {}


def functional_envs(
    make: Callable[..., Any],  # Any: an env of gymnax, Brax or one's own
    num: int,
    kwargs: Mapping[str, object],
    *,
    name: str,
    mode: AutoresetMode = AutoresetMode.SAME_STEP,
) -> FunctionalEnvs:
    """Copies of a functional env, be it of one's own, of gymnax or of Brax.

    Args:
        make: Its class, or a function that makes one.
        num: Number of copies.
        kwargs: Arguments of its class, and fields of its params.
        name: Its name in errors.
        mode: As in ``FunctionalEnvs``.
    """
    takes = [*inspect.signature(make if isinstance(make, type) else type(make())).parameters]
    env = make(**{key: value for key, value in kwargs.items() if key in takes})
    if hasattr(env, "step_env"):
        if not hasattr(env, "is_truncated"):
            raise EnvError(
                "cannot tell time limits from other ends. Envs of gymnax can since 1.0: pip install 'tflow[jax]'.", name
            )
        env = GymnaxEnv(env)
    elif not hasattr(env, "default_params"):
        env = BraxEnv(env)
    params: Params = env.default_params
    rest = {key: value for key, value in kwargs.items() if key not in takes}
    known = [*takes, *_names(params)]
    if unknown := [key for key in rest if key not in known]:
        raise EnvError(f"takes no {' and no '.join(unknown)}. It takes {', '.join(known) or 'no arguments'}.", name)
    return FunctionalEnvs(env, num, replace(params, **rest) if rest else params, mode)


def _names(params: Params) -> list[str]:
    return [each.name for each in fields(params)] if is_dataclass(params) else []
