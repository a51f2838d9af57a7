"""Names of other libraries, and ours: for the sentences that answer a name which is not there, on the command line, in files and
in Python."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from tflow.combinators import check
from tflow.errors import FieldError
from tflow.rl.schedules import schedule_of
from tflow.sentences import did_you_mean, listed

FIELDS: dict[str, tuple[str, ...]] = {
    "action_noise": ("noise",),
    "adam_epsilon": ("eps",),
    "alpha_lr": ("lr",),
    "fcnet_hiddens": ("hidden", "model"),
    "batch_size": ("minibatch", "batch"),
    "buffer_size": ("capacity",),
    "clip_coef": ("clip",),
    "clip_grad_norm": ("max_grad_norm",),
    "clip_param": ("clip",),
    "clip_range": ("clip",),
    "clip_range_vf": ("value_clip",),
    "clip_ratio": ("clip",),
    "clip_vloss": ("value_clip",),
    "discount": ("gamma",),
    "discount_factor": ("gamma",),
    "double_q": ("double",),
    "duelling": ("dueling",),
    "ent_coef": ("entropy_coef", "temperature", "initial_temperature"),
    "entropy_coeff": ("entropy_coef",),
    "env_id": ("env",),
    "env_name": ("env",),
    "environment": ("env",),
    "exploration_fraction": ("epsilon",),
    "exploration_final_eps": ("epsilon",),
    "exploration_initial_eps": ("epsilon",),
    "gae_lambda": ("lam",),
    "grad_clip": ("max_grad_norm",),
    "hidden_layers": ("hidden",),
    "hidden_sizes": ("hidden",),
    "initial_alpha": ("initial_temperature",),
    "kl_coeff": ("kl_coef",),
    "kl_target": ("max_kl",),
    "lambda_": ("lam",),
    "learning_rate": ("lr",),
    "lmbda": ("lam",),
    "max_steps": ("max_episode_steps",),
    "mini_batch_size": ("minibatch", "batch"),
    "minibatch_size": ("minibatch", "batch"),
    "min_size": ("learning_starts",),
    "n_critics": ("critics",),
    "n_envs": ("num_envs",),
    "n_epochs": ("epochs",),
    "n_quantiles": ("quantiles", "atoms"),
    "n_steps": ("fragment",),
    "n_workers": ("num_workers",),
    "net_arch": ("hidden", "model"),
    "network": ("model",),
    "norm_adv": ("normalize",),
    "norm_obs": ("normalize_obs",),
    "norm_reward": ("normalize_rewards",),
    "normalize_advantage": ("normalize",),
    "num_atoms": ("atoms",),
    "num_env_runners": ("num_workers",),
    "num_envs_per_env_runner": ("num_envs",),
    "num_envs_per_worker": ("num_envs",),
    "num_epochs": ("epochs",),
    "num_rollout_workers": ("num_workers",),
    "num_sgd_iter": ("epochs",),
    "num_steps": ("fragment",),
    "num_steps_sampled_before_learning_starts": ("learning_starts",),
    "num_timesteps": ("stop_steps", "env_steps"),
    "policy": ("model",),
    "policy_delay": ("actor_every",),
    "policy_kwargs": ("model",),
    "policy_net": ("model",),
    "polyak": ("tau",),
    "prioritized_replay_alpha": ("alpha",),
    "prioritized_replay_beta": ("beta",),
    "replay_buffer_size": ("capacity",),
    "rollout": ("fragment",),
    "rollout_fragment_length": ("fragment",),
    "rollout_length": ("fragment",),
    "samples_per_insert": ("update_ratio",),
    "sgd_minibatch_size": ("minibatch",),
    "soft_target_tau": ("tau",),
    "start_steps": ("learning_starts",),
    "target_kl": ("max_kl",),
    "target_network_frequency": ("target_every",),
    "target_network_update_freq": ("target_every",),
    "target_noise_clip": ("smoothing_clip",),
    "target_policy_noise": ("smoothing",),
    "target_update_interval": ("target_every",),
    "timesteps": ("stop_steps", "env_steps"),
    "total_steps": ("stop_steps", "env_steps"),
    "total_timesteps": ("stop_steps", "env_steps"),
    "train_batch_size": ("batch", "fragment"),
    "train_batch_size_per_learner": ("batch", "fragment"),
    "train_freq": ("update_ratio",),
    "gradient_steps": ("update_ratio",),
    "units": ("hidden",),
    "use_gae": ("lam",),
    "use_sde": ("sde",),
    "utd_ratio": ("update_ratio",),
    "vf_clip_param": ("value_clip",),
    "vf_coef": ("value_coef",),
    "vf_loss_coeff": ("value_coef",),
    "warmup_steps": ("learning_starts",),
}
"""Names of settings in other libraries, and what means the same here; of several, the first that there is."""
OF_THE_RUN: dict[str, str] = {
    "callback": "run(callbacks=[...])",
    "callbacks": "run(callbacks=[...])",
    "eval_episodes": "run(eval_episodes=...)",
    "eval_every": "run(eval_every=...)",
    "eval_freq": "run(eval_every=...)",
    "evaluation_interval": "run(eval_every=...)",
    "resume": "run(resume=...)",
    "runtime": "run(runtime=...)",
    "seed": "run(seed=...)",
    "stop": "run(stop=Stop(...))",
    "stop_return": "run(stop=Stop(mean_return=...))",
    "stop_steps": "run(stop=Stop(env_steps=...))",
    "stop_time": "run(stop=Stop(seconds=...))",
    "tensorboard_log": "run(callbacks=[RunFolder(...)])",
    "total_timesteps": "run(stop=Stop(env_steps=...))",
    "verbose": "run(callbacks=[ShowProgress()])",
}
"""What is said where a configuration is run."""
METHODS: dict[str, str] = {
    "act": "config.run(...).policy().act(observation)",
    "build": "config.run(...)",
    "build_algo": "config.run(...)",
    "compute_single_action": "config.run(...).policy().act(observation)",
    "evaluate": "evaluate(policy, env)",
    "fit": "config.run(stop=Stop(env_steps=...)).finish()",
    "learn": "config.run(stop=Stop(env_steps=...)).finish()",
    "load": "Policy.load(path)",
    "predict": "config.run(...).policy().act(observation)",
    "save": "config.run(...).policy().save(path)",
    "train": "config.run(stop=Stop(env_steps=...)).finish()",
    "training": "replace(config, ...), of dataclasses",
}
"""Methods of other libraries' algorithms, and what does the same here."""
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy", "CnnLstmPolicy", "MultiInputLstmPolicy")
"""What Stable-Baselines3 takes before the env."""


def called_here(name: str, known: Iterable[str]) -> str:
    """`` It is called lr here.``, or what else a name may have been meant for; nothing if nothing is like it."""
    names = list(known)
    here = next((each for each in FIELDS.get(name, ()) if each in names), None)
    return f" It is called {here} here." if here is not None else did_you_mean(name, names)


def no_method(cls: type, name: str) -> str:
    """What is said of a method that an algorithm does not have."""
    return (
        f"{cls.__name__} has no {name!r}.{f' Here it is {METHODS[name]}.' if name in METHODS else did_you_mean(name, dir(cls))}"
    )


class Configured:
    """Base class of configurations: names that they do not have are answered with those that may have been meant."""

    if not TYPE_CHECKING:  # what may be given is what the dataclass says

        def __new__(cls, *args: object, **given: object) -> Self:
            check_arguments(cls, args, given)
            check_values(cls, args, given)
            return super().__new__(cls)


def check_arguments(cls: type, args: tuple[object, ...], given: dict[str, Any]) -> None:  # Any: arguments of whatever kind
    """Raise unless a configuration takes these arguments."""
    init = [each.name for each in dataclasses.fields(cls) if each.init] if dataclasses.is_dataclass(cls) else []
    if not args and given.keys() <= set(init):
        return
    parameters = list(inspect.signature(getattr(cls, "__init__")).parameters.values())[1:]  # noqa: B009  # checkers take it for unsafe
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return  # of a class of the user's own, which says itself what it takes
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    for name in given:
        if name not in named:
            raise FieldError(unknown(cls, name, named))
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(args) > len(positional) and not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        raise FieldError(by_name(cls.__name__, args, positional, named))


def check_values(cls: type, args: tuple[object, ...], given: dict[str, Any]) -> None:  # Any: as above
    """Raise for what is no number, or neither True nor False, where a configuration says that it has one."""
    kinds, where = kinds_of(cls), cls.__name__
    values: list[tuple[str, Any]] = [*zip(kinds, args, strict=False), *given.items()]  # Any: as above
    for name, value in values:
        kind = kinds.get(name, "")
        if value is not None or not kind.endswith("| None"):
            check_value(where, name, value, kind.removesuffix(" | None"))


def check_value(where: str, name: str, value: Any, kind: str) -> None:  # Any: that is the question
    """Raise for a value that is not of a kind which is written so."""
    match kind:
        case "bool":
            check.boolean(where, name, value)
        case "int":
            check.whole(where, name, value)
        case "float":
            check.number(where, name, value)
        case "float | Schedule":
            schedule_of(value, where=f"{where}: {name}")


@lru_cache(maxsize=256)
def kinds_of(cls: type) -> dict[str, str]:
    """The types of the fields of a dataclass, as they are written."""
    found = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return {each.name: getattr(each.type, "__name__", str(each.type)) for each in found if each.init}


def unknown(cls: type, name: str, known: list[str]) -> str:
    """What is said of a field that is not there."""
    hint = called_here(name, known)
    if name in OF_THE_RUN and callable(getattr(cls, "run", None)):
        hint = f" It is said where it runs: {cls.__name__}(...).{OF_THE_RUN[name]}."
    return f"{cls.__name__} has no field {name!r}.{hint or f' It has {listed(known)}.'}"


def by_name(called: str, args: tuple[object, ...], positional: list[str], named: list[str]) -> str:
    """What is said of values without names."""
    if positional:
        return f"{called} takes {listed(positional)} in this order, and {len(args)} values were given."
    first, *rest = [each for each in args if each not in POLICIES] or ["CartPole-v1"]
    network = " The network follows from the env, or say model=." if len(rest) < len(args) - 1 else ""
    env = f": {called}(env={first!r})" if "env" in named and isinstance(first, str) else f", such as {called}({named[0]}=...)"
    return f"{called} takes its settings by name{env}.{network}"
