"""Names of other libraries: one table answers on the command line and in Python."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from tflow import Stop
from tflow.algos import DQN, MAML, PPO, SAC
from tflow.algos.names import ALGORITHMS
from tflow.envs import EnvSpec
from tflow.errors import FieldError, PlanError
from tflow.losses import PPOLoss
from tflow.models import MLP
from tflow.optimizers import Adam
from tflow.rl.elsewhere import FIELDS, METHODS, OF_THE_RUN
from tflow.settings.fields import configured


def wrong(kind: object) -> Any:  # Any: so that it can be called as its signature forbids
    return kind


SB3 = {"learning_rate": "lr", "n_steps": "fragment", "n_epochs": "epochs", "gae_lambda": "lam", "clip_range": "clip"}
RLLIB = {
    "num_env_runners": "num_workers",
    "minibatch_size": "minibatch",
    "entropy_coeff": "entropy_coef",
    "grad_clip": "max_grad_norm",
}
NEAR = {"gama": "gamma", "epoch": "epochs", "num_env": "num_envs"}


@pytest.mark.parametrize(("given", "ours"), [*SB3.items(), *RLLIB.items(), *NEAR.items()])
def test_both_ways_in_give_the_same_hint(given: str, ours: str) -> None:
    said = f"PPO has no field '{given}'. It is called {ours} here." if given in FIELDS else f"Did you mean {ours}"
    for make in (lambda: wrong(PPO)(**{given: 1}), lambda: configured(PPO, {given: 1})):
        with pytest.raises(PlanError) as caught:
            make()
        assert said in str(caught.value)


def test_of_several_meanings_the_one_that_the_algorithm_has() -> None:
    for kind, ours in ((PPO, "minibatch"), (DQN, "batch"), (SAC, "batch")):
        with pytest.raises(TypeError, match=f"It is called {ours} here"):
            wrong(kind)(batch_size=64)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: wrong(PPO)("CartPole-v1"), "PPO takes its settings by name: PPO(env='CartPole-v1')."),
        (
            lambda: wrong(PPO)("MlpPolicy", "Acrobot-v1"),
            "PPO(env='Acrobot-v1'). The network follows from the env, or say model=.",
        ),
        (lambda: wrong(PPO)(seed=3), "It is said where it runs: PPO(...).run(seed=...)."),
        (lambda: wrong(PPO)(total_timesteps=9), "PPO(...).run(stop=Stop(env_steps=...))."),
        (lambda: wrong(PPO)(quux=1), "PPO has no field 'quux'. It has env, num_workers, "),
        (lambda: wrong(Stop)(total_timesteps=9), "Stop has no field 'total_timesteps'. It is called env_steps here."),
        (lambda: wrong(Stop)(100), "Stop takes its settings by name, such as Stop(env_steps=...)."),
        (lambda: wrong(PPOLoss)(clip_range=0.1), "PPOLoss has no field 'clip_range'. It is called clip here."),
        (lambda: wrong(Adam)(learning_rate=1e-3), "Adam has no field 'learning_rate'. It is called lr here."),
        (lambda: wrong(MLP)(net_arch=(64,)), "MLP has no field 'net_arch'. It is called hidden here."),
        (lambda: wrong(EnvSpec)("CartPole-v1", wrapper=1), "EnvSpec has no field 'wrapper'. Did you mean wrappers"),
        (lambda: wrong(replace)(PPO(), n_envs=3), "PPO has no field 'n_envs'. It is called num_envs here."),
    ],
)
def test_constructors_answer(make: Callable[[], object], said: str) -> None:
    with pytest.raises(FieldError) as caught:
        make()
    assert said in str(caught.value)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), TypeError), "who expects Python's own error gets it"


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_other_libraries_name_ours(name: str) -> None:
    with pytest.raises(AttributeError, match="Here it is ") as caught:
        getattr(PPO(), name)
    assert METHODS[name] in str(caught.value)
    assert not hasattr(PPO(), name)


def test_the_tables_name_only_what_is_not_ours_and_what_there_is() -> None:
    ours = {each.name for kind in (*ALGORITHMS.values(), Stop, MLP, Adam, EnvSpec) for each in fields(kind)} | {
        "stop_steps",
        "eps",
    }
    assert [name for name, meant in FIELDS.items() if not set(meant) <= ours] == []
    assert [name for name in METHODS if hasattr(PPO, name)] == []
    assert [name for name in OF_THE_RUN if name in {each.name for each in fields(PPO)}] == []


@dataclass(frozen=True, kw_only=True)
class Wider(PPO):
    """Somebody's own."""

    width: int = 3


class Takes(MAML):
    """Somebody's own, with a constructor of its own."""

    def __init__(self, size: int, **rest: int) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]  # whole numbers are settings, too
        object.__setattr__(self, "size", size)


def test_own_classes_are_made_copied_and_sent_as_before() -> None:
    for made in (Wider(width=4, lr=1e-2), PPO(), EnvSpec("CartPole-v1", {"a": 1}), MLP((3,)), Stop(updates=3)):
        assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == replace(made) == made
    assert vars(Takes(5, tasks=3))["size"] == 5
    with pytest.raises(FieldError, match=r"Wider has no field 'widht'\. Did you mean width\?"):
        wrong(Wider)(widht=3)
