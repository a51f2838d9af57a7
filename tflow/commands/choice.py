"""The algorithm and its configuration from the command line and from files, for ``train``, ``graph`` and ``eval``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

from tflow import loading
from tflow.algos.algorithm import Algorithm, SinglePolicy
from tflow.algos.evaluation import with_evaluation
from tflow.algos.installed import algorithm_names, installed, name_of, plain, registered
from tflow.algos.names import ALGORITHMS
from tflow.combinators.runnable import Plan
from tflow.errors import PlanError
from tflow.observe.facts import copies_in
from tflow.presets import Preset, no_preset, preset_for
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.metrics import Metrics
from tflow.sentences import did_you_mean
from tflow.settings.fields import affirmed, configured
from tflow.settings.files import read_file
from tflow.settings.flags import from_flags, merged
from tflow.settings.run import RunSettings
from tflow.settings.values import read, wrapper_named

RUN_FIELDS = tuple(each.name for each in dataclasses.fields(RunSettings))
OPTIONS = (*RUN_FIELDS, "workers")
"""Other flags than fields of the algorithm."""


class Choice(NamedTuple):
    """An algorithm and the settings of its run."""

    algorithm: Algorithm
    run: RunSettings
    preset: Preset | None = None
    """Where fields come from that nothing else said; None if there are no such fields."""

    @property
    def eval_every(self) -> int | None:
        """Env steps between evaluations. An algorithm that adapts to tasks reports what an evaluation would."""
        adapts = isinstance(self.algorithm, SinglePolicy) and self.algorithm.loss().adapts
        return None if adapts and self.run.eval_every == "auto" else self.run.evaluates_every

    def plan(self) -> Plan[Metrics]:
        """The plan that is run."""
        plan, every = self.algorithm.plan(), self.eval_every
        return plan if every is None else with_evaluation(plan, every=every, episodes=self.run.eval_episodes)


def chosen(words: Sequence[str], options: Mapping[str, object | None] | None = None, file: Path | None = None) -> Choice:
    """Combine a file, the given options and, from words, the name of an algorithm and flags for its fields. The command line
    takes precedence over the file."""
    fields, table = ({}, {}) if file is None else read_file(file)
    if file is not None:
        loading.keep_copies(copies_in(file.parent))
    table = {**{name: fields.pop(name) for name in RUN_FIELDS if name in fields}, **table}
    names, by_flag = from_flags(words)
    if "workers" in by_flag:
        by_flag["num_workers"] = by_flag.pop("workers")
    if names[1:]:
        raise PlanError(f"{names[1]!r} is one word too many. Settings are written --name value.")
    asked = {name: value for name, value in (options or {}).items() if value is not None}
    asked |= {name: by_flag.pop(name) for name in RUN_FIELDS if name in by_flag}
    if names:
        asked["algo"] = names[0]
    around = EnvWords(*(texts(asked.pop(name, by_flag.pop(name, ()))) for name in ("env_arg", "wrapper")))
    settings = configured(RunSettings, merged(table, asked), called="tflow train")
    if not settings.algo:
        where = f" {str(file)!r} has no algo in its table [run]." if file else ""
        raise PlanError(f"Which algorithm?{where} Say one of {', '.join(algorithm_names())}: tflow train ppo --env CartPole-v1.")
    kind = algorithm_named(settings.algo)
    said = merged(fields, affirmed(kind, by_flag))
    preset = preset_of(kind, settings.preset, said)
    listing = f" tflow algos {settings.algo} lists them."
    algorithm = configured(kind, {**({} if preset is None else preset.fields), **said}, others=OPTIONS, listing=listing)
    return Choice(around.put_around(algorithm), settings, preset)


def texts(given: object) -> tuple[str, ...]:
    """One text or several."""
    return tuple(map(str, given)) if isinstance(given, (list, tuple)) else (str(given),)


class EnvWords(NamedTuple):
    """``--env-arg NAME=VALUE`` and ``--wrapper PLACE``, as they were typed."""

    arguments: Sequence[str] = ()
    wrappers: Sequence[str] = ()

    def put_around(self, algorithm: Algorithm) -> Algorithm:
        """The same configuration, with these arguments and wrappers of its env."""
        if not self.arguments and not self.wrappers:
            return algorithm
        spec = EnvSpec.of(algorithm.env)
        named: dict[str, object] = {}
        for word in self.arguments:
            name, equals, value = word.partition("=")
            if not equals or not name.isidentifier():
                raise PlanError(f"--env-arg is written NAME=VALUE, such as --env-arg size=7; got {word!r}.")
            named[name] = read(value)
        known = arguments_of(spec)
        for name in named:
            if known and name not in known and (meant := did_you_mean(name, known)):
                raise PlanError(f"--env-arg: {spec.name} takes no {name!r}.{meant}")
        wrappers = [wrapper_named(word) for word in self.wrappers]
        spec = dataclasses.replace(spec, kwargs={**spec.kwargs, **named}, wrappers=(*spec.wrappers, *wrappers))
        return dataclasses.replace(algorithm, env=spec)


def arguments_of(spec: EnvSpec) -> list[str]:
    """The names of what the maker of an env takes; empty if that is not known, or if it takes any."""
    with suppress(Exception):  # whatever happens in a module of the user's is told when the env is made
        maker: object = spec.env
        if isinstance(maker, str):
            from gymnasium.envs.registration import load_env_creator, registry

            maker = registry[maker].entry_point
            maker = load_env_creator(maker) if isinstance(maker, str) else maker
        found = inspect.signature(cast("Callable[..., object]", maker)).parameters
        return [] if any(each.kind is each.VAR_KEYWORD for each in found.values()) else list(found)
    return []


def preset_of(kind: type[Algorithm], wanted: str, said: Mapping[str, object]) -> Preset | None:
    """The preset that fills in what was not said; None if it would fill in nothing."""
    if wanted == "none":
        return None
    name = name_of(kind)
    if wanted == "auto":
        usual = next(each.default for each in dataclasses.fields(kind) if each.name == "env")
        found = preset_for(name, said.get("env", usual))
    else:
        found = preset_for(name, wanted)
        if found is None:
            raise no_preset(name or kind.__name__, wanted)
    return found if found is not None and found.fields.keys() - said.keys() else None


def algorithm_named(name: str) -> type[Algorithm]:
    """The class of an algorithm, by its name, of tflow or of a package, or as ``FILE.py:NAME``."""
    known = ALGORITHMS.get(plain(name))
    if known is not None:
        return known
    if plain(name) in registered():
        return installed(plain(name))
    if ":" not in name:
        raise PlanError(
            f"There is no algorithm {name!r}.{did_you_mean(name, algorithm_names())} There are {', '.join(algorithm_names())}."
        )
    found = loading.find(name)
    if not inspect.isclass(found) or not issubclass(found, Algorithm) or inspect.isabstract(found):
        raise PlanError(f"{name} is not an algorithm: derive a dataclass from one, such as class {name.rpartition(':')[2]}(PPO).")
    return found
