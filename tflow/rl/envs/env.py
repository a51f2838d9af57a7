"""Vectorised environments behind one interface.

``LoopEnvs`` steps single gymnasium envs one after the other. ``VectorEnvs`` (``tflow.rl.envs.vector_env``) speaks to a gymnasium
vector env. ``tflow.rl.envs.env_spec`` decides which one a plan gets.

Both validate observations and rewards, whole batches at a time: an invalid value is an ``EnvError`` that names the env, the copy
and the field. With ``on_error="restart"`` a loop restarts that one copy instead, and continues.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from gymnasium import Env
from gymnasium.vector import VectorEnv

from tflow.combinators.labels import one_line
from tflow.errors import EnvError, MissingExtra, PlanError
from tflow.rl.data.arrays import Array, Obs, picked
from tflow.rl.envs.snapshot import env_state, load_env
from tflow.rl.envs.spaces import ActionLayout, AnySpace, Mismatch, ObsLayout, reward_of, reward_problem

AnyEnv = Env[Any, Any]  # Any: envs are generic in observations and actions, which are checked against their spaces instead
AnyVectorEnv = VectorEnv[Any, Any, Any]  # Any: as above
Infos = Mapping[str, Any]  # Any: infos hold anything
OnError = Literal["raise", "restart"]
MAX_RESTARTS = 10  # of an env without a finished step in between; then its error is raised
MASK_FROM_THE_START = "is in the infos, but the first reset gave none. Give it in every reset and step."


class EnvStep(NamedTuple):
    """The result of a step. The next call of ``step`` or ``reset`` may overwrite the arrays."""

    obs: Obs
    """Next observations, one row per env. Where an episode ended, the first of the next episode; or, if the env resets in the
    following step, the last one again."""
    rewards: Array  # float32 (num,)
    terminated: Array  # bool (num,)
    truncated: Array  # bool (num,)
    final_obs: Obs | None
    """Final observations: one row for each env that is terminated or truncated, in order. None if there are none."""
    valid: Array | None
    """bool (num,). False: no transition; the env merely reset itself (its action was ignored) or failed. None: all valid."""
    masks: Array | None
    """bool (num, actions): action masks, if the env's infos have "action_mask"."""
    failed: tuple[int, ...] = ()
    """Envs that failed in this step and were restarted: their episodes are to be discarded."""
    final_masks: Array | None = None
    """Action masks of the final observations, row by row, if there are masks: all actions where a mask means nothing, because the
    episode is terminated, or where the env gives none."""


def layers(env: object) -> Iterator[object]:
    """An env and what it wraps, from the outside in."""
    seen: set[int] = set()
    while env is not None and id(env) not in seen:
        seen.add(id(env))
        yield env
        env = vars(env).get("env") if hasattr(env, "__dict__") else None


class Adjustable(ABC):
    """Copies of an env whose attributes can be set."""

    name: str
    settings: Mapping[str, float] = MappingProxyType({})
    """Attributes that were set."""

    def set(self, settings: Mapping[str, float]) -> None:
        """Set attributes of all copies, and of those that are made later: in whole numbers where they have whole numbers."""
        self.settings = dict(settings)
        for env in self.copies():
            self.apply_settings(env)

    @abstractmethod
    def copies(self) -> Iterable[object]:
        """What has the attributes of the copies."""

    def apply_settings(self, env: object) -> None:
        """Set what was set before in one that is new."""
        for name, value in self.settings.items():
            owner = next((each for each in layers(env) if name in vars(each)), None) or next(
                (each for each in layers(env) if hasattr(type(each), name)), None
            )
            if owner is None:
                raise EnvError(f"has no attribute {name!r}, which its curriculum sets.", self.name)
            before = getattr(owner, name)
            whole = isinstance(before, (int, np.integer)) and not isinstance(before, bool)
            setattr(owner, name, round(value) if whole else value)


class Envs(Adjustable):
    """``num`` copies of an environment. Call ``reset`` once, then ``step``; envs reset themselves."""

    num: int
    name: str
    observation_space: AnySpace
    """That of a single env."""
    own_action_space: AnySpace
    """That of a single env, as the env itself has it."""
    _begun: Array
    """The actions of a step that was begun."""
    action_space: AnySpace
    """That of a single env, with choices counted from 0: this is what ``step`` takes, whatever the env itself counts from."""
    faults: EnvFaults

    @abstractmethod
    def reset(self, seed: int | None = None, *, task: object = None) -> tuple[Obs, Array | None]:
        """Start all episodes, env i with ``seed + i``. Gives the first observations, and action masks if there are any.

        A ``task`` goes to the envs as ``options={"task": task}``; they keep it until the next one."""

    @property
    @abstractmethod
    def first(self) -> object:
        """The first env, unwrapped."""

    def sample_task(self, rng: np.random.Generator) -> object:
        """Draw a task with the env's ``sample_task(rng)``."""
        own = getattr(self.first, "sample_task", None)
        if own is None:
            problem = (
                "has no tasks. To adapt to tasks, an env needs sample_task(rng), and reset() that takes options={'task': ...}."
            )
            raise EnvError(problem, self.name)
        return own(rng)

    @abstractmethod
    def step(self, actions: Array) -> EnvStep:
        """Act in every env: one row of actions per env."""

    def begin(self, actions: Array) -> None:
        """Start a step. Envs in threads or processes of their own step until ``finish``."""
        self._begun = actions

    def finish(self) -> EnvStep:
        """The result of the step that was begun."""
        return self.step(self._begun)

    @abstractmethod
    def state(self) -> dict[str, Any] | None:  # Any: as envs have it
        """The state of all copies between two steps; None if the env cannot say it."""

    @abstractmethod
    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Go on from a state."""

    @abstractmethod
    def renew(self) -> None:
        """Make all copies anew: what they remember is gone."""

    @abstractmethod
    def close(self) -> None:
        """Close all envs."""


RETURNS = {"reset": "(obs, info)", "step": "(obs, reward, terminated, truncated, info)"}
OLD_GYM = (
    "So are envs of the old gym. Those of gymnasium have reset(self, *, seed=None, options=None), which returns (obs, info), and "
    "step(self, action), which returns (obs, reward, terminated, truncated, info)."
)


SEVERAL_AGENTS = (
    "It is an env for several agents. In Python, make workers with create_multi_workers({'shared': PPO()}, env=..., "
    "policy_of=lambda agent: 'shared'), or with more policies, and give Select(rollouts, policy='shared') to ppo_plan. "
    "tflow train ppo_dqn trains two policies."
)


def no_env(made: object) -> str:
    """What is wrong with something that should be a gymnasium env."""
    problem = f"is made as a {type(made).__name__}, not a gymnasium.Env."
    if hasattr(made, "possible_agents"):
        return f"{problem} {SEVERAL_AGENTS}"
    if any(kind.__module__.partition(".")[0] == "gym" for kind in type(made).__mro__):
        return f"{problem} {OLD_GYM}"
    if hasattr(made, "default_params"):
        return f"{problem} Give EnvSpec its class itself, so that JAX compiles all copies together."
    if callable(getattr(made, "reset", None)) and callable(getattr(made, "step", None)):
        return f"{problem} Derive its class from gymnasium.Env."
    return problem


class EnvFaults:
    """Handles errors of envs: raises them as an ``EnvError``, or allows a restart, up to a limit."""

    def __init__(self, name: str, on_error: OnError) -> None:
        self.name, self.restarts, self._wanted = name, 0, on_error == "restart"
        self._tries: dict[int, int] = {}  # since the last finished step

    def state(self) -> dict[str, object]:
        """How often envs were restarted."""
        return {"restarts": self.restarts, "tries": self._tries}

    def load(self, state: Mapping[str, Any]) -> None:  # Any: numbers
        """Restore a state."""
        self.restarts, self._tries = state["restarts"], state["tries"]

    def sentence(self, error: BaseException, call: str, index: int | None = None) -> EnvError:
        """The error as a sentence that names the env."""
        if isinstance(error, EnvError):
            return error
        if isinstance(error, Mismatch):
            return EnvError(str(error), self.name, error.rows[0] if index is None and error.rows else index, error.field)
        hint = "" if call == "make" else " Fix the env, or continue with EnvSpec(..., vectorizer='loop', on_error='restart')."
        text = str(error).rstrip(".") or "it said no more"
        problem = f"{call} raised {type(error).__name__}: {text}.{hint}"
        if isinstance(error, (TypeError, ValueError)) and "unpack" in text:
            problem = f"{call} must return {RETURNS[call]}: {text}. {OLD_GYM}"
        elif call == "reset" and isinstance(error, TypeError) and "unexpected keyword argument" in text:
            problem = f"reset must take seed= and options=: {text}. {OLD_GYM}"
        elif call == "make" and isinstance(error, TypeError) and "missing" in text and "required" in text:
            problem = f"{problem} Arguments are given by EnvSpec(..., kwargs={{...}}), or --env-arg NAME=VALUE."
        sentence = EnvError(problem, self.name, index)
        sentence.__cause__ = error
        return sentence

    def refuse(self, error: Exception, call: str, index: int | None = None) -> NoReturn:
        """Raise the sentence, or what is one already."""
        failure = error if isinstance(error, (PlanError, MissingExtra)) else self.sentence(error, call, index)
        raise failure from failure.__cause__

    def allow(self, error: Exception, call: str, index: int) -> None:
        """Raise, unless the env may be restarted."""
        if not self._wanted:
            self.refuse(error, call, index)
        failure = self.sentence(error, call, index)
        self._tries[index] = self._tries.get(index, 0) + 1
        if self._tries[index] > MAX_RESTARTS:
            problem = f"was restarted {MAX_RESTARTS} times without finishing a step. The last error: {failure.problem}"
            raise EnvError(problem, self.name, index, failure.field) from failure.__cause__
        self.restarts += 1

    def finished(self, failed: Collection[int]) -> None:
        """All envs but these have finished a step."""
        if self._tries:
            self._tries = {index: tries for index, tries in self._tries.items() if index in failed}

    def seed(self, seed: int | None) -> int | None:
        """A seed for a restarted env: the old one might lead to the same error again."""
        return None if seed is None else int(np.random.SeedSequence([seed, self.restarts]).generate_state(1)[0] >> 1)

    def layouts(self, observation_space: AnySpace, action_space: AnySpace) -> tuple[ObsLayout, ActionLayout]:
        """The layouts of observations and actions."""
        try:
            return ObsLayout(observation_space), ActionLayout(action_space)
        except Mismatch as error:
            self.refuse(error, "make")

    def given(self, layout: ActionLayout, actions: Array, num: int) -> Array:
        """A policy's actions as the env takes them. Errors here are never the env's fault."""
        try:
            return layout.given(actions, num)
        except Mismatch as error:
            self.refuse(error, "step")


class LoopEnvs(Envs):
    """Single envs, stepped in a loop, with autoreset in the same step. Observations alternate between two sets of arrays, so
    those of a step even outlive the next call."""

    def __init__(self, make: Callable[[], AnyEnv], num: int, *, name: str, on_error: OnError = "raise") -> None:
        self.num, self.name, self._make = num, name, make
        self.faults = EnvFaults(name, on_error)
        self._seed: int | None = None
        self._envs: list[AnyEnv] = []
        with ExitStack() as undo:
            undo.callback(self.close)
            for index in range(num):
                self._envs.append(self._made(index))
            self.observation_space, action_space = self._envs[0].observation_space, self._envs[0].action_space
            self._layout, self._actions = self.faults.layouts(self.observation_space, action_space)
            self._seen = [(self.observation_space, action_space)] * num
            for index in range(num):
                self._check_spaces(index)
            undo.pop_all()
        self.action_space, self.own_action_space = self._actions.space, self._actions.own_space
        self._steps = [env.step for env in self._envs]
        self._obs = (self._layout.empty(num), self._layout.empty(num))
        self._writers = (self._layout.writer(self._obs[0]), self._layout.writer(self._obs[1]))
        self._finals = self._layout.empty(num)
        self._write_final = self._layout.writer(self._finals)
        self._masks: Array | None = None
        self._masks_known, self._turn = False, 0
        self._options: dict[str, Any] = {}  # Any: tasks are whatever the env says

    @property
    def first(self) -> object:
        return self._envs[0].unwrapped

    def copies(self) -> Iterable[object]:
        return self._envs

    def reset(self, seed: int | None = None, *, task: object = None) -> tuple[Obs, Array | None]:
        self._seed, self._masks, self._masks_known, self._turn = seed, None, False, self._turn ^ 1
        self._options = self._options if task is None else {"options": {"task": task}}
        for index in range(self.num):
            self._begin(index, None if seed is None else seed + index)
        self._validated(np.zeros(self.num, np.float32), [], [])
        return self._obs[self._turn], self._masks

    def step(self, actions: Array) -> EnvStep:
        given = self.faults.given(self._actions, actions, self.num)
        self._turn ^= 1
        write = self._writers[self._turn]
        rewards = np.zeros(self.num, np.float32)
        terminated, truncated = np.zeros(self.num, np.bool_), np.zeros(self.num, np.bool_)
        self._masks = None if self._masks is None else np.ones_like(self._masks)
        masked = self._masks is not None
        ended: list[int] = []
        failed: list[int] = []
        last_masks: dict[int, Array] = {}  # of truncated episodes: their last states have a value
        for index, (step, action) in enumerate(zip(self._steps, given, strict=True)):
            try:
                obs, reward, over, cut, info = step(action)
                rewards[index] = reward if type(reward) is float else reward_of(reward)
                if over or cut:
                    self._write_final(index, obs)
                    terminated[index], truncated[index] = over, cut
                    if masked and not over:
                        last_masks[index] = self._actions.final_mask(info)
                else:
                    write(index, obs)
                    if masked or "action_mask" in info:
                        self._note_mask(index, info)
                    continue
            except Exception as error:
                self._begin(index, self._restarted(index, "step", error))
                failed.append(index)
                rewards[index] = 0
            else:
                ended.append(index)
                self._begin(index)
        final_obs, valid = self._validated(rewards, ended, failed), None
        if failed:
            terminated[failed] = truncated[failed] = False
            valid = ~np.isin(np.arange(self.num), failed)
        self.faults.finished(failed)
        obs, final_masks = self._obs[self._turn], None
        if masked and final_obs is not None:
            free = np.ones(self._actions.choices, np.bool_)
            final_masks = np.stack([last_masks.get(index, free) for index in np.flatnonzero(terminated | truncated).tolist()])
        lost = tuple(sorted(set(failed)))
        return EnvStep(obs, rewards, terminated, truncated, final_obs, valid, self._masks, lost, final_masks)

    def state(self) -> dict[str, Any] | None:  # Any: as in the base class
        envs = [env_state(env) for env in self._envs]
        own = {name: getattr(self, name) for name in ("_seed", "_masks", "_masks_known", "_options")}
        return None if None in envs else {"envs": envs, "own": own, "faults": self.faults.state()}

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        for name, value in state["own"].items():
            setattr(self, name, value)
        self.faults.load(state["faults"])
        for index, (env, saved) in enumerate(zip(self._envs, state["envs"], strict=True)):
            try:
                env.reset(seed=index, **self._options)  # some make their parts only then
                load_env(env, saved)
            except Exception as error:
                self.faults.refuse(error, "load", index)

    def renew(self) -> None:
        for index in range(self.num):
            with suppress(Exception):  # what matters is the new one
                self._envs[index].close()
            self._envs[index] = self._made(index)
            self._steps[index] = self._envs[index].step

    def close(self) -> None:
        with ExitStack() as stack:
            for env in self._envs:
                stack.callback(env.close)
            self._envs = []

    def _validated(self, rewards: Array, ended: list[int], failed: list[int]) -> Obs | None:
        """Find invalid values, over all rows at once, and restart their envs. Returns the final observations."""
        while True:
            rows = np.asarray([index for index in ended if index not in failed] if failed else ended, np.int64)
            final_obs = picked(self._finals, rows) if len(rows) else None
            problem = reward_problem(rewards)
            if problem is None and final_obs is not None and (problem := self._layout.problem(final_obs)):
                problem = Mismatch(problem.field, problem.problem, tuple(rows[list(problem.rows)].tolist()))
            first = None if problem else self._layout.problem(self._obs[self._turn])
            if (problem := problem or first) is None:
                return final_obs
            for index in problem.rows:
                self._begin(index, self._restarted(index, "step", Mismatch(problem.field, problem.problem)))
                if problem is not first or index not in ended:  # else only the episode that follows was wrong
                    failed.append(index)
                    rewards[index] = 0

    def _made(self, index: int) -> AnyEnv:
        try:
            env = self._make()
        except Exception as error:
            self.faults.refuse(error, "make", index)
        if not isinstance(env, Env):
            raise EnvError(no_env(env), self.name, index)
        self.apply_settings(env)
        return env

    def _begin(self, index: int, seed: int | None = None) -> None:
        """Start an episode of one env: the first observation and the mask go to its row."""
        while True:
            try:
                obs, info = self._envs[index].reset(seed=seed, **self._options)
                if not isinstance(info, Mapping):  # an observation of two numbers
                    raise TypeError(f"cannot unpack its infos: they are a {type(info).__name__}")
                self._check_spaces(index)
                self._writers[self._turn](index, obs)
                self._note_mask(index, info)
                return
            except Exception as error:
                seed = self._restarted(index, "reset", error)

    def _restarted(self, index: int, call: str, error: Exception) -> int | None:
        """Restart one env, if that is allowed. Returns the seed of its next reset."""
        while True:
            self.faults.allow(error, call, index)
            with suppress(Exception):  # it is broken; what matters is the new one
                self._envs[index].close()
            try:
                self._envs[index] = self._made(index)
                self._steps[index] = self._envs[index].step
                return self.faults.seed(self._seed)
            except EnvError as again:
                error = again

    def _check_spaces(self, index: int) -> None:
        env = self._envs[index]
        now = (env.observation_space, env.action_space)
        seen = self._seen[index]
        if now[0] is seen[0] and now[1] is seen[1]:  # comparing spaces is slow, and few envs make new ones
            return
        for what, space, known in zip(("observation space", "action space"), now, self._seen[0], strict=True):
            if space != known:
                problem = f"its {what} is {one_line(space)}, but env 0 began with {one_line(known)}."
                problem += " All copies need the same one, in every episode."
                raise EnvError(problem, self.name, index, what)
        self._seen[index] = now

    def _note_mask(self, index: int, info: Infos) -> None:
        if not self._masks_known:  # the first reset of the first env decides
            self._masks_known = True
            self._masks = np.ones((self.num, max(1, self._actions.choices)), np.bool_) if "action_mask" in info else None
        if self._masks is not None:
            self._masks[index] = self._actions.mask(info)
        elif "action_mask" in info:
            raise Mismatch("action_mask", MASK_FROM_THE_START)
