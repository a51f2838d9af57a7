"""Adapter of gymnasium vector envs: native ones (CartPole, Atari), processes, EnvPool, a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv

from tflow.errors import EnvError
from tflow.rl.data.arrays import Array, Obs, flat, picked
from tflow.rl.envs.env import MASK_FROM_THE_START, AnyVectorEnv, EnvFaults, Envs, EnvStep, Infos
from tflow.rl.envs.snapshot import env_state, load_env
from tflow.rl.envs.spaces import Mismatch, reward_problem

MakeVector = Callable[[int | None], AnyVectorEnv]


class VectorEnvs(Envs):
    """A gymnasium vector env, with any autoreset mode.

    Its arrays are handed on without a copy, so they live as long as it leaves them alone: at least until the next call.
    ``make`` takes a seed, for vector envs that can be seeded only then (``seeded_when_made``); others ignore it.
    """

    def __init__(self, make: MakeVector, num: int, *, name: str, seed: int | None = None, seeded_when_made: bool = False) -> None:
        self.num, self.name, self._make = num, name, make
        self.faults = EnvFaults(name, "raise")
        self._unused_seed, self._seeded_when_made = seed, seeded_when_made
        try:
            self._env = make(seed)
        except Exception as error:
            self.faults.refuse(error, "make")
        self.observation_space = self._env.single_observation_space
        self._layout, self._actions = self.faults.layouts(self.observation_space, self._env.single_action_space)
        self.action_space, self.own_action_space = self._actions.space, self._actions.own_space
        self._mode = _autoreset_mode(self.name, self._env)
        leaf, discrete = self._layout.leaves[0], isinstance(self._env.single_action_space, Discrete) and not self._actions.shifted
        self._usual = (self._actions.dtype if discrete else None, leaf.dtype if self._layout.single else None, (num, *leaf.shape))
        self._send, self._recv = _halves(self._env)
        self._masked = False
        self._resetting: Array | None = None  # envs whose episode ended in the last step, and which reset in this one

    @property
    def first(self) -> object:
        return getattr(self._env, "envs", [self._env])[0].unwrapped

    def copies(self) -> Iterable[object]:
        base = self._env.unwrapped
        if isinstance(base, AsyncVectorEnv):
            raise EnvError("steps in processes of its own, where no curriculum reaches it. Use vectorizer='loop'.", self.name)
        return getattr(base, "envs", [base])

    def reset(self, seed: int | None = None, *, task: object = None) -> tuple[Obs, Array | None]:
        try:
            if self._seeded_when_made and seed is not None and seed != self._unused_seed:
                self._env.close()
                self._env = self._make(seed)
                self._send, self._recv = _halves(self._env)
            self._unused_seed = None
            options = {} if task is None else {"options": {"task": task}}
            raw, infos = self._env.reset(seed=None if self._seeded_when_made else seed, **options)
            obs = self._layout.batch(raw, self.num)
            if problem := self._layout.problem(obs):
                raise problem
            self._resetting, self._masked = None, "action_mask" in infos
            return obs, self._masks_of(infos)
        except Exception as error:
            self._fail(error, "reset")

    def step(self, actions: Array) -> EnvStep:
        self.begin(actions)
        return self.finish()

    def begin(self, actions: Array) -> None:
        usual = actions.dtype is self._usual[0] and actions.shape == (self.num,)  # calls that do nothing cost time in every step
        self._begun = actions if usual else self.faults.given(self._actions, actions, self.num)
        if self._send is not None:
            try:
                self._send(self._begun)
            except Exception as error:
                self._fail(error, "step")

    def finish(self) -> EnvStep:
        try:
            raw, rewards, terminated, truncated, infos = self._env.step(self._begun) if self._recv is None else self._recv()
            usual = type(raw) is np.ndarray and raw.dtype is self._usual[1] and raw.shape == self._usual[2]
            obs = raw if usual else self._layout.batch(raw, self.num)
            rewards = np.asarray(rewards, np.float32)
            terminated, truncated = np.asarray(terminated, np.bool_), np.asarray(truncated, np.bool_)
            if not rewards.shape == terminated.shape == truncated.shape == (self.num,):
                shapes = f"{rewards.shape}, {terminated.shape} and {truncated.shape}"
                raise Mismatch("reward", f"and terminated and truncated have the shapes {shapes}; all need {(self.num,)}.")
            if problem := reward_problem(rewards) or self._layout.problem(obs):
                raise problem
            done = terminated | truncated
            masks = None
            if self._masked or "action_mask" in infos:
                masks = self._masks_of(infos, None if self._mode is AutoresetMode.SAME_STEP else done)
            valid = None if self._resetting is None else ~self._resetting
            final_obs = final_masks = self._resetting = None
            if b"\1" in done.tobytes():
                if self._masked:  # before a reset, which may write to the same arrays
                    last = infos if self._mode is not AutoresetMode.SAME_STEP else infos.get("final_info")
                    final_masks = self._actions.final_masks(last if isinstance(last, dict) else {}, done, terminated)
                final_obs, obs, masks = self._ended(obs, masks, infos, done)
        except Exception as error:
            self._fail(error, "step")
        return EnvStep(obs, rewards, terminated, truncated, final_obs, valid, masks, final_masks=final_masks)

    def _ended(self, obs: Obs, masks: Array | None, infos: Infos, done: Array) -> tuple[Obs, Obs, Array | None]:
        """The last observations of the episodes that ended, and what the policy sees next."""
        if self._mode is AutoresetMode.NEXT_STEP:
            self._resetting = done
            return picked(obs, done), obs, masks
        if self._mode is AutoresetMode.SAME_STEP:
            return self._layout.finals(infos, done), obs, masks
        final_obs, obs = picked(obs, done), picked(obs, np.arange(self.num))  # copies: the reset may write to the same arrays
        raw, infos = self._env.reset(options={"reset_mask": done.copy()})
        first = self._layout.batch(raw, self.num)
        if problem := self._layout.problem(first):
            raise problem
        for name, part in flat("obs", obs).items():
            part[done] = flat("obs", first)[name][done]
        if masks is not None:
            masks = np.where(done[:, None], self._actions.vector_masks(infos, self.num, ~done), masks)
        return final_obs, obs, masks

    def _masks_of(self, infos: Infos, over: Array | None = None) -> Array | None:
        if "action_mask" in infos and not self._masked:
            raise Mismatch("action_mask", MASK_FROM_THE_START)
        return self._actions.vector_masks(infos, self.num, over) if self._masked else None

    def state(self) -> dict[str, Any] | None:  # Any: as in the base class
        if self._seeded_when_made or isinstance(self._env.unwrapped, AsyncVectorEnv):
            return None
        env = env_state(self._env)
        return None if env is None else {"env": env, "resetting": self._resetting, "masked": self._masked}

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        try:
            self._env.reset(seed=0)  # some make their parts only then
            load_env(self._env, state["env"])
        except Exception as error:
            self._fail(error, "load")
        self._resetting, self._masked, self._unused_seed = state["resetting"], state["masked"], None

    def renew(self) -> None:
        try:
            self._env.close()
            self._env = self._make(None)
        except Exception as error:
            self.faults.refuse(error, "make")
        for env in self.copies() if self.settings else ():
            self.apply_settings(env)
        self._send, self._recv = _halves(self._env)
        self._unused_seed = None

    def close(self) -> None:
        self._env.close()

    def _fail(self, error: Exception, call: str) -> NoReturn:
        base, index = self._env.unwrapped, None
        if isinstance(base, AsyncVectorEnv) and not base.closed and not isinstance(error, Mismatch):
            index = next((place for place, pipe in enumerate(map(bool, base.parent_pipes)) if not pipe), None)  # None: it raised
            if isinstance(error, (EOFError, OSError)):
                error = ChildProcessError("a process has died")
            base.closed = True  # its own way to close would wait for processes that may be dead
            for process in base.processes:
                process.terminate()
                process.join()
        self.faults.refuse(error, call, index)


def _halves(env: AnyVectorEnv) -> tuple[Callable[[Array], object] | None, Callable[[], Any] | None]:  # Any: as step gives it
    """A step in two halves, if the vector env steps asynchronously: ale-py in threads, gymnasium in processes."""
    if isinstance(env, AsyncVectorEnv):
        return env.step_async, env.step_wait
    if type(env).__module__.startswith("ale_py"):  # others may mean something else by these names; wrappers know whole steps only
        return getattr(env, "send", None), getattr(env, "recv", None)
    return None, None


def _autoreset_mode(name: str, env: AnyVectorEnv) -> AutoresetMode:
    # ale-py writes its mode into the metadata that all vector envs without their own share, so the attribute comes first.
    shared = env.unwrapped.metadata is VectorEnv.metadata
    mode = getattr(env.unwrapped, "autoreset_mode", None if shared else env.metadata.get("autoreset_mode"))
    try:
        return AutoresetMode(mode)
    except ValueError:
        problem = f"has the autoreset mode {mode!r}. Give its class metadata = {{'autoreset_mode': AutoresetMode(...)}}."
        raise EnvError(problem, name, None, "metadata") from None
