"""Descriptions of environments, from which the copies are made where they run.

Nothing here imports gymnasium before something is made. The adapters are in ``tflow.rl.envs.env``, those for several agents in
``tflow.rl.envs.multi_env``.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args

from tflow import sentences
from tflow.combinators import check
from tflow.combinators.labels import label_of
from tflow.errors import EnvError, PlanError
from tflow.extras import require
from tflow.rl.elsewhere import Configured
from tflow.rl.schedules import Schedule

if TYPE_CHECKING:
    from tflow.rl.envs.env import AnyEnv, AnyVectorEnv, Envs, OnError
    from tflow.rl.envs.functional import BraxLike, FunctionalEnv
    from tflow.rl.envs.multi_env import MultiEnvs

Vectorizer = Literal["auto", "native", "loop", "processes", "envpool"]
LIBRARIES = ("envpool", "gymnax", "brax")
"""Libraries whose envs are known by an id of theirs, ``gymnax:CartPole-v1``."""
FUNCTIONS = (("reset", "step", "default_params", "action_space"), ("reset", "step", "observation_size", "action_size"))
"""What makes a class one of functional envs, like those of gymnax or of Brax (``tflow.rl.envs.functional``)."""


class MultiAgentEnv(Protocol):
    """What PettingZoo's parallel and turn-based envs have in common: spaces by agent."""

    def observation_space(self, agent: Any, /) -> Any: ...  # Any: PettingZoo has no types
    def action_space(self, agent: Any, /) -> Any: ...  # Any: PettingZoo has no types


Maker = Callable[..., "AnyEnv | AnyVectorEnv | MultiAgentEnv | FunctionalEnv | BraxLike"]


@dataclass(frozen=True)
class EnvSpec(Configured):
    """An environment, and how its copies are run.

    >>> EnvSpec("CartPole-v1", vectorizer="loops")
    Traceback (most recent call last):
    tflow.errors.PlanError: EnvSpec: vectorizer must be 'auto' or 'native' or 'loop' or 'processes' or 'envpool', got 'loops'.

    Atari games ("ALE/Pong-v5", extra ``atari``) run as one vector env of ale-py with the usual preprocessing: 84 x 84 grey, 4
    frames stacked, 4 skipped, the maximum of the last two, up to 30 idle steps at the start, rewards clipped to [-1, 1].
    ``kwargs`` change that: ``reward_clipping``, ``episodic_life``, ``repeat_action_probability`` (0.25, as these ids say),
    ``num_threads``, and all else that ale-py's ``AtariVectorEnv`` takes. With ``wrappers`` or ``vectorizer="loop"`` the games are
    raw.
    """

    env: str | Maker
    """A gymnasium id, or a class or function that makes an env. One that takes ``num_envs`` makes a vector env.
    ``envpool:Pong-v5``, ``gymnax:CartPole-v1`` and ``brax:ant`` are envs of these libraries. JAX compiles those of the last two,
    and classes with the methods of a ``FunctionalEnv`` (``tflow.rl.envs.functional``)."""
    kwargs: Mapping[str, object] = field(default_factory=dict)
    """Keyword arguments of whatever makes the env; of functional envs, also fields of their ``params``."""
    wrappers: Iterable[Callable[[Any], Any]] = ()  # Any: wrappers change the types of observations and actions
    """Wrappers of each single env, innermost first: classes or functions, ``partial(FrameStackObservation, stack_size=4)``."""
    vector_wrappers: Iterable[Callable[[Any], Any]] = ()  # Any: as above
    """Wrappers of the vector env, such as ``gymnasium.wrappers.vector.NormalizeObservation``."""
    vectorizer: Vectorizer = "auto"
    """How copies are stepped. ``native``: by the env's own vector env. ``loop``: one after the other. ``processes``: in one
    process each. ``envpool``: by EnvPool, with its id (extra ``envpool``), as ``envpool:`` before the id says, too. ``auto``:
    native if there is one and neither wrappers nor restarts need single envs, else a loop."""
    max_episode_steps: int | None = None
    """Time limit: episodes are truncated after this many steps. None: the env's own limit."""
    on_error: OnError = "raise"
    """What to do if an env raises or gives invalid values: raise an ``EnvError``, or restart that copy and discard its episode
    (vectorizer "loop" only)."""

    curriculum: Mapping[str, Schedule] = field(default_factory=dict)
    """Attributes of the envs that change with training, ``{"length": Linear(4, 40, 100_000)}``: schedules over env steps. Workers
    set them between two rollouts, in whole numbers where the env has whole numbers. Evaluations play the env as it is made."""

    def __post_init__(self) -> None:
        check.instance("EnvSpec", "curriculum", self.curriculum, Mapping, "schedules by attribute")
        for name, schedule in self.curriculum.items():
            if not isinstance(schedule, Schedule):
                raise PlanError(
                    f"EnvSpec: curriculum[{name!r}] must be a schedule such as Linear(4, 40, 100_000), got {schedule!r}."
                )
        for name in ("wrappers", "vector_wrappers"):
            object.__setattr__(self, name, _functions(name, getattr(self, name)))
        check.one_of("EnvSpec", "vectorizer", self.vectorizer, get_args(Vectorizer))
        check.one_of("EnvSpec", "on_error", self.on_error, ("raise", "restart"))
        if self.max_episode_steps is not None:
            check.integer("EnvSpec", "max_episode_steps", self.max_episode_steps, least=1)
        check.instance("EnvSpec", "kwargs", self.kwargs, Mapping, "a mapping of arguments")
        if not isinstance(self.env, str) and not callable(self.env):
            hint = " Pass a function that makes it: every worker needs its own." if hasattr(self.env, "step") else ""
            raise PlanError(f"EnvSpec: env must be a gymnasium id or something that makes an env, got {self.env!r}.{hint}")
        for wrong, sentence in self._contradictions():
            if wrong:
                raise PlanError(f"EnvSpec: {sentence}")

    def _contradictions(self) -> list[tuple[bool, str]]:
        how, restart = self.vectorizer, self.on_error == "restart"
        whole = how in ("native", "envpool") or self._makes_vectors
        return [
            (
                bool(self._library) and how not in ("auto", "envpool" if self._library == "envpool" else "native"),
                f"{self.name} runs as one vector env; leave out vectorizer={how!r}.",
            ),
            (whole and bool(self.wrappers), "wrappers go around single envs, but this is one vector env. Use vector_wrappers."),
            (
                how == "envpool" and not isinstance(self.env, str),
                "vectorizer='envpool' needs the id that EnvPool has for the env.",
            ),
            (
                how in ("loop", "processes") and self._makes_vectors,
                f"{self.name} makes vector envs; leave out vectorizer={how!r}.",
            ),
            (how == "native" and callable(self.env) and not self._makes_vectors, f"{self.name} must take num_envs to be native."),
            (restart and (whole or how == "processes"), "on_error='restart' needs single envs in a loop: vectorizer='loop'."),
            (
                restart and bool(self.vector_wrappers),
                "on_error='restart' restarts single envs; vector_wrappers do not allow that.",
            ),
            (
                restart and how == "auto" and self._atari,
                "Atari games run as one vector env, without on_error='restart'. With vectorizer='loop' they are single, and raw.",
            ),
            (
                self._makes_vectors
                and not (self._library or self._functional)
                and self.max_episode_steps is not None
                and not _takes(self.env, "max_episode_steps"),
                f"{self.name} makes vector envs and takes no max_episode_steps.",
            ),
        ]

    @classmethod
    def of(cls, env: EnvSpec | str | Maker) -> EnvSpec:
        """A spec from whatever a user passes as an env."""
        return env if isinstance(env, EnvSpec) else cls(env)

    @property
    def name(self) -> str:
        """Its name in errors."""
        env: object = self.env
        while isinstance(env, partial):  # its arguments are given, its name is that of the function
            env = env.func
        return env if isinstance(env, str) else label_of(cast("Maker", env))

    @property
    def _atari(self) -> bool:
        return isinstance(self.env, str) and self.env.startswith("ALE/")

    @property
    def _library(self) -> str:
        """The library of an id such as ``gymnax:CartPole-v1``, if it is one that gymnasium has no part in."""
        library = self.env.partition(":")[0] if isinstance(self.env, str) and ":" in self.env else ""
        return library if library in LIBRARIES else ""

    @property
    def _functional(self) -> bool:
        """Whether it is a class of functional envs."""
        return isinstance(self.env, type) and any(all(hasattr(self.env, name) for name in names) for names in FUNCTIONS)

    @property
    def _makes_vectors(self) -> bool:
        """Whether a class or function makes vector envs. Who passes a class has imported gymnasium; we need not."""
        if self._library or self._functional:
            return True
        gymnasium = sys.modules.get("gymnasium")
        if isinstance(self.env, type) and gymnasium is not None and issubclass(self.env, gymnasium.vector.VectorEnv):
            return True
        return _takes(self.env, "num_envs")

    def solved_at(self) -> float | None:
        """The mean return at which the env counts as solved: gymnasium's ``reward_threshold``, if it has one."""
        import gymnasium

        known = gymnasium.registry.get(self.env.rpartition(":")[2]) if isinstance(self.env, str) else None
        return None if known is None or known.reward_threshold is None else float(known.reward_threshold)

    def computes_beside(self) -> bool:
        """True if the vector env steps asynchronously, in threads or processes of its own, so that a policy can act meanwhile."""
        how = self._chosen()
        return not self.vector_wrappers and (how == "processes" or (how == "native" and self._atari))

    # ------------------------------------------------------------------- making

    def make(self, num: int, seed: int | None = None) -> Envs:
        """Make ``num`` copies. They still have to be reset, with the same seed; some envs are seeded only when made."""
        from tflow.rl.envs.env import LoopEnvs
        from tflow.rl.envs.vector_env import VectorEnvs

        check.integer("EnvSpec.make", "num", num, least=1)
        how = "loop" if num == 1 and self._has_plain_single() else self._chosen()
        if how == "loop" and not self.vector_wrappers:
            return LoopEnvs(self._single, num, name=self.name, on_error=self.on_error)
        by_vectorizer: dict[str, Callable[[int, int | None], AnyVectorEnv]] = {
            "native": self._native,
            "envpool": self._envpool,
            "loop": self._in_one_process,
            "processes": self._in_processes,
        }

        def make(seed: int | None) -> AnyVectorEnv:
            env = by_vectorizer[how](num, seed)
            for wrapper in self.vector_wrappers:
                env = wrapper(env)
            return env

        return VectorEnvs(make, num, name=self.name, seed=seed, seeded_when_made=how == "envpool")

    def make_multi(self, num: int, policy_of: Callable[[str], str] = str) -> MultiEnvs:
        """``num`` copies of a PettingZoo env: an id of its registry ("classic/tictactoe-v3"), a module with ``parallel_env`` or
        ``env``, or something that makes one."""
        from tflow.rl.envs.multi_env import MultiEnvs

        check.integer("EnvSpec.make_multi", "num", num, least=1)
        if self.vectorizer not in ("auto", "loop") or self.vector_wrappers or self.max_episode_steps is not None:
            raise PlanError("EnvSpec: envs for several agents run in a loop, without vector_wrappers and max_episode_steps.")
        return MultiEnvs(self._multi, num, name=self.name, policy_of=policy_of, on_error=self.on_error)

    def _has_plain_single(self) -> bool:
        """True if one env may be a single one, which is faster than a vector env of one, although there is a native one."""
        if self.vectorizer != "auto" or not isinstance(self.env, str) or self._atari or self.vector_wrappers or self.kwargs:
            return False
        if self._library:
            return False
        return self._registered().entry_point is not None

    def _chosen(self) -> Vectorizer:
        if self.vectorizer != "auto":
            return self.vectorizer
        if self._library == "envpool":
            return "envpool"
        if isinstance(self.env, str) and not self._library:
            native = self._registered().vector_entry_point is not None
            return "native" if native and not self.wrappers and self.on_error == "raise" else "loop"
        return "native" if self._makes_vectors else "loop"

    def _registered(self) -> Any:  # Any: gymnasium's own description of the env, EnvSpec by name too
        """What gymnasium knows about the id."""
        import gymnasium

        assert isinstance(self.env, str)
        if self._atari or "NoFrameskip-v" in self.env:
            require("ale_py", extra="atari", feature="Atari games")
        module, _, name = self.env.rpartition(":")
        self._imported(module or ("tflow.rl.envs.samples" if name.startswith("tflow/") else "gymnasium"))
        found = gymnasium.registry.get(name)
        if found is None and self._is_multi_agent(name):
            from tflow.rl.envs.env import SEVERAL_AGENTS

            raise EnvError(SEVERAL_AGENTS, self.name)
        if found is None:
            raise self._unknown(
                name, gymnasium.registry, "gymnasium", "Import the package that registers it, or write 'package:id'."
            )
        return found

    @staticmethod
    def _is_multi_agent(name: str) -> bool:
        """True for what PettingZoo knows, and for the names of its modules."""
        pettingzoo = sys.modules.get("pettingzoo")
        known = (getattr(pettingzoo, kind, {}) for kind in ("parallel_registry", "aec_registry"))
        return name.startswith("pettingzoo.") or any(name in ids for ids in known)

    def _imported(self, module: str) -> ModuleType:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            raise EnvError(f"needs a module that is not there: {error}.", self.name) from error

    def _unknown(self, name: str, known: Iterable[str], where: str, hint: str) -> EnvError:
        return EnvError(f"is not an env that {where} knows.{sentences.did_you_mean(name, known, most=3)} {hint}", self.name)

    def make_single(self, **kwargs: object) -> AnyEnv:
        """Make one single env, with its wrappers and these arguments too, which an env of your own gets if it takes them."""
        how = self._chosen()
        if self.vector_wrappers or self._makes_vectors or how == "envpool" or (how == "native" and self._atari):
            raise PlanError(
                f"EnvSpec: {self.name} runs as a vector env, whose copies cannot be made one by one as they are trained on."
            )
        given = {name: value for name, value in kwargs.items() if isinstance(self.env, str) or _takes(self.env, name)}
        try:
            return replace(self, kwargs={**self.kwargs, **given})._single()
        except Exception as error:
            raise EnvError(f"cannot be made with {given}: {type(error).__name__}: {error}", self.name) from error

    def _single(self) -> AnyEnv:
        import gymnasium

        if isinstance(self.env, str):
            self._registered()
            options: dict[str, Any] = dict(self.kwargs)  # Any: whatever the env takes
            env: Any = gymnasium.make(  # Any: the user's maker may give anything; the adapter looks
                self.env, max_episode_steps=self.max_episode_steps, disable_env_checker=True, **options
            )
        else:
            env = self.env(**self.kwargs)
            if self.max_episode_steps is not None:
                env = gymnasium.wrappers.TimeLimit(env, self.max_episode_steps)
        for wrapper in self.wrappers:
            env = wrapper(env)
        made: AnyEnv = env
        return made

    def _native(self, num: int, _: int | None) -> AnyVectorEnv:
        import gymnasium
        from gymnasium.vector import AutoresetMode, VectorEnv

        options: dict[str, Any] = dict(self.kwargs)  # Any: whatever the env takes
        # Vector wrappers of gymnasium need envs that reset in the next step; all else is simpler if it is the same one.
        mode = AutoresetMode.NEXT_STEP if self.vector_wrappers else AutoresetMode.SAME_STEP
        if self._library or self._functional:
            from tflow.rl.envs.functional import functional_envs

            if self.max_episode_steps is not None:
                options["max_steps_in_episode"] = self.max_episode_steps
            return functional_envs(self._functional_maker(), num, options, name=self.name, mode=mode)
        if isinstance(self.env, str):
            if self._registered().vector_entry_point is None:
                raise EnvError("has no vector env of its own. Use vectorizer='loop' or 'processes'.", self.name)
            if self._atari:
                options.setdefault("autoreset_mode", mode)
                if self.max_episode_steps is not None:
                    options["max_num_frames_per_episode"] = self.max_episode_steps * int(options.get("frameskip", 4))
            elif self.max_episode_steps is not None:
                options["max_episode_steps"] = self.max_episode_steps
            return gymnasium.make_vec(self.env, num_envs=num, vectorization_mode="vector_entry_point", **options)
        if self.max_episode_steps is not None:
            options["max_episode_steps"] = self.max_episode_steps
        env: object = self.env(num_envs=num, **options)
        if not isinstance(env, VectorEnv) or env.num_envs != num:
            what = f"a vector env of {env.num_envs}" if isinstance(env, VectorEnv) else f"a {type(env).__name__}"
            raise EnvError(f"is made as {what}, but takes num_envs={num}: it must make a vector env of so many.", self.name)
        return env

    def _functional_maker(self) -> Callable[..., Any]:  # Any: gymnax and Brax are no part of our environment
        if not isinstance(self.env, str):
            return self.env
        library, _, name = self.env.partition(":")
        if library == "gymnax":
            gymnax: Any = require("gymnax", extra="jax", feature="Envs of gymnax")  # Any: as above
            known: Iterable[str] = gymnax.registered_envs
            make: Callable[..., Any] = lambda **kwargs: gymnax.make(name, **kwargs)[0]  # noqa: E731  # Any: as above
        else:
            require("brax", extra="brax", feature="Envs of Brax")
            brax: Any = import_module("brax.envs")  # Any: as above
            known, make = brax._envs, partial(brax.get_environment, name)
        if name not in known:
            raise self._unknown(name, known, library, f"Register it with {library}, or give its class.")
        return make

    def _envpool(self, num: int, seed: int | None) -> AnyVectorEnv:
        import numpy as np

        pool = require("envpool", extra="envpool", feature="EnvPool environments")
        assert isinstance(self.env, str)
        name = self.env.removeprefix("envpool:")
        if name not in (known := pool.list_all_envs()):
            raise self._unknown(name, known, "EnvPool", "EnvPool has its own ids: Pong-v5, not ALE/Pong-v5.")
        options: dict[str, Any] = dict(self.kwargs)  # Any: whatever the env takes
        if self.max_episode_steps is not None:
            options["max_episode_steps"] = self.max_episode_steps
        if options.get("batch_size", num) != num:
            raise EnvError(f"must step all {num} copies at once. Leave out batch_size.", self.name)
        if seed is None:  # EnvPool's own default is the same for everyone
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        with warnings.catch_warnings():  # its spaces are made when they are first asked for, with warnings about float32
            warnings.simplefilter("ignore")
            env: AnyVectorEnv = pool.make(name, env_type="gymnasium", num_envs=num, seed=seed, **options)
            assert env.single_observation_space is not None
            assert env.single_action_space is not None
        return env

    def _in_one_process(self, num: int, _: int | None) -> AnyVectorEnv:
        from gymnasium.vector import AutoresetMode, SyncVectorEnv

        return SyncVectorEnv([self._single] * num, autoreset_mode=AutoresetMode.NEXT_STEP)

    def _in_processes(self, num: int, _: int | None) -> AnyVectorEnv:
        from gymnasium import Wrapper
        from gymnasium.vector import AsyncVectorEnv, AutoresetMode

        class KeepsTheLast(Wrapper[Any, Any, Any, Any]):  # Any: it changes no types
            """gymnasium sends the last observation after the reset, when an env with one array has written over it."""

            def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:  # Any: gymnasium's
                obs, reward, over, cut, info = self.env.step(action)
                return deepcopy(obs) if over or cut else obs, reward, over, cut, info

        mode = AutoresetMode.NEXT_STEP if self.vector_wrappers else AutoresetMode.SAME_STEP
        makers = [lambda: KeepsTheLast(self._single())] * num
        return AsyncVectorEnv(makers, copy=bool(self.vector_wrappers), autoreset_mode=mode)

    def _multi(self) -> object:
        maker = self._multi_maker(self.env) if isinstance(self.env, str) else self.env
        made: Any = maker(**self.kwargs)  # Any: PettingZoo has no types
        for wrapper in self.wrappers:
            made = wrapper(made)
        return made

    def _multi_maker(self, name: str) -> Callable[..., Any]:  # Any: PettingZoo has no types
        pettingzoo = require("pettingzoo", extra="multiagent", feature="Envs for several agents")
        known: dict[str, Mapping[str, object]] = {  # PettingZoo has them since 1.27
            "parallel": getattr(pettingzoo, "parallel_registry", {}),
            "aec": getattr(pettingzoo, "aec_registry", {}),
        }
        for kind, ids in known.items():
            if name in ids:
                return partial(pettingzoo.make, kind, name)
        import gymnasium

        if name in gymnasium.registry:
            raise EnvError("is an env for one agent; here, several agents learn. Name a PettingZoo env.", name)
        if "/" in name:
            raise self._unknown(name, [*known["parallel"], *known["aec"]], "PettingZoo", "Register it, or name its module.")
        module = self._imported(name)
        maker: Callable[..., Any] = getattr(module, "parallel_env", None) or module.env  # Any: PettingZoo has no types
        return maker


def _functions(name: str, given: Iterable[Callable[[Any], Any]]) -> tuple[Callable[[Any], Any], ...]:  # Any: as in EnvSpec
    if callable(given) or not isinstance(given, Iterable):
        raise PlanError(f"EnvSpec: {name} must be a list of wrappers, got {given!r}.")
    wrappers = tuple(given)
    for wrapper in wrappers:
        if not callable(wrapper):
            hint = " Write partial(Wrapper, argument=...) for one with arguments." if isinstance(wrapper, tuple) else ""
            raise PlanError(f"EnvSpec: {name} must be classes or functions that take an env, got {wrapper!r}.{hint}")
    return wrappers


def _takes(maker: object, name: str) -> bool:
    try:
        return callable(maker) and name in inspect.signature(maker).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False
