"""Policies and models of one's own: what their files say, how they are loaded, and which spaces models are given."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from safetensors import safe_open
from torch import Tensor, nn

from tflow import LocalRuntime, PlanError, Policy, Shard, create_actors, from_actors
from tflow.algos import DQN, PPO
from tflow.algos.sac import SAC
from tflow.errors import CheckpointError
from tflow.models import LSTM, MLP, ActorCriticSpec, DictEncoder
from tflow.rl.policy.network_spec import Encoder, ModelLike, build_encoder
from tflow.rl.policy.policy import ActorCritic
from tflow.rl.policy.policy_spec import ActorQSpec, Device, PolicySpec, QSpec, make_policy

AnySpace: TypeAlias = gymnasium.Space[Any]  # Any: whatever it holds
SEEN, ACTS, BOX = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(4), spaces.Box(-1, 1, (2,), np.float32)


@dataclass(frozen=True)
class Mine(ActorCriticSpec):
    """Only adds fields."""

    my_field: int = 3
    names: tuple[str, ...] = ("a",)
    limit: float | None = None
    extra: Callable[[], object] = field(default=dict)


@dataclass(frozen=True)
class Wide(PolicySpec):
    """Makes a policy of its own, of another size."""

    width: int = 5

    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: Device) -> Policy:
        return ActorCritic(ActorCriticSpec(), MLP((self.width,)), observation_space, action_space, device)


def header(path: Path) -> Any:  # Any: JSON
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["tflow"])


def test_the_file_of_ones_own_policy_says_its_class_and_its_plain_fields(tmp_path: Path) -> None:
    made = make_policy(Mine(my_field=7), MLP((8,)), SEEN, ACTS, seed=1)
    made.save(tmp_path / "p")
    assert header(tmp_path / "p")["policy"] == {
        "own": "Mine",
        "fields": {"shared": "auto", "squash": False, "rescale": False, "log_std": 0.0, "my_field": 7, "limit": None},
    }
    with pytest.raises(
        CheckpointError, match=r"your own class, Mine, and files hold no code.* spec=Mine\(.*my_field=7, limit=None\)"
    ):
        Policy.load(tmp_path / "p")
    again = Policy.load(tmp_path / "p", spec=Mine(my_field=7))
    assert again.spec == Mine(my_field=7)
    assert (again.observation_space, again.action_space, again.model) == (SEEN, ACTS, MLP((8,)))
    np.testing.assert_array_equal(again.flat.get(), made.flat.get())


def test_own_policy_and_own_model(tmp_path: Path) -> None:
    make_policy(Mine(), Plain, SEEN, ACTS).save(tmp_path / "p")
    with pytest.raises(CheckpointError, match="the model was your own module; pass it again as model="):
        Policy.load(tmp_path / "p", spec=Mine())
    with pytest.raises(CheckpointError, match="your own class, Mine"):
        Policy.load(tmp_path / "p", model=Plain)
    assert Policy.load(tmp_path / "p", spec=Mine(), model=Plain).flat.trainable


def test_a_spec_whose_network_does_not_fit(tmp_path: Path) -> None:
    made = make_policy(Wide(), "auto", SEEN, ACTS)
    made.spec = Wide()
    made.save(tmp_path / "p")
    assert Policy.load(tmp_path / "p", spec=Wide()).flat.trainable == made.flat.trainable
    with pytest.raises(CheckpointError, match=r"the weights do not fit the model: .* has the shape \(5, 3\), and \(6, 3\)"):
        Policy.load(tmp_path / "p", spec=Wide(6))
    with pytest.raises(CheckpointError, match="the weights do not fit the model: "):
        Policy.load(tmp_path / "p", spec=QSpec())


@pytest.mark.parametrize(
    "spec",
    [
        ActorQSpec(),
        ActorQSpec(temperature=0.5, critics=3, quantiles=5),
        ActorQSpec(deterministic=True, critic_model=MLP((4, 4), layer_norm=True)),
        ActorQSpec(critic_model="auto", dropout=0.1, sde=True, sde_every=3),
        ActorQSpec(batch_renorm=True),
    ],
)
def test_actors_with_q_functions_are_saved_and_loaded(spec: ActorQSpec, tmp_path: Path) -> None:
    made = make_policy(spec, MLP((8,), "relu"), SEEN, BOX, seed=1)
    made.save(tmp_path / "p")
    again = Policy.load(tmp_path / "p")
    assert (again.spec, again.model) == (made.spec, made.model)
    np.testing.assert_array_equal(again.flat.get(), made.flat.get())


def test_q_functions_of_ones_own_need_the_spec_again(tmp_path: Path) -> None:
    spec = ActorQSpec(critic_model=Plain, critics=3)
    make_policy(spec, MLP((8,)), SEEN, BOX).save(tmp_path / "p")
    with pytest.raises(CheckpointError, match=r"it is of the kind ActorQSpec, with a part of your own.*critics=3"):
        Policy.load(tmp_path / "p")
    assert Policy.load(tmp_path / "p", spec=spec).spec == spec


def test_a_policy_that_knows_only_how_it_acts(tmp_path: Path) -> None:
    made = make_policy(ActorQSpec(temperature=1.0), MLP((8,)), SEEN, BOX, seed=1)
    made.acting_only = True
    made.save(tmp_path / "p")
    with safe_open(tmp_path / "p", framework="pt") as file:
        assert all(name.startswith("actor.") for name in file.keys())  # noqa: SIM118  # it is no dictionary
    again = Policy.load(tmp_path / "p")
    assert again.acting_only
    assert again.copy().acting_only
    np.testing.assert_array_equal(again.flat.get(acting=True), made.flat.get(acting=True))
    assert not np.array_equal(again.flat.get(), made.flat.get())


# --------------------------------------------------------------------------- models and the action space


class Plain(nn.Linear):
    """Asks for nothing else."""

    features = 5

    def __init__(self, observation_space: AnySpace) -> None:
        super().__init__(int(np.prod(observation_space.shape or ())), 5)


class Asks(nn.Module):
    """As wide as the action space says."""

    def __init__(self, observation_space: AnySpace, action_space: AnySpace, times: int = 1) -> None:
        super().__init__()
        self.features = times * spaces.flatdim(action_space)
        self.layer = nn.Linear(int(np.prod(observation_space.shape or ())), self.features)

    def forward(self, obs: Tensor) -> Tensor:
        made: Tensor = self.layer(obs)
        return made


def asks(space: AnySpace, *, action_space: AnySpace) -> nn.Module:
    return Asks(space, action_space)


def both(seen: AnySpace, action_space: AnySpace) -> nn.Module:
    return Asks(seen, action_space)


@dataclass(frozen=True)
class Described:
    """A description that asks, too."""

    def build(self, observation_space: AnySpace, /, action_space: AnySpace | None = None) -> Encoder:
        assert action_space is not None
        return Asks(observation_space, action_space)


MODELS: Sequence[tuple[ModelLike, int]] = [
    (Asks, 4),
    (asks, 4),
    (both, 4),
    (partial(Asks, times=2), 8),
    (Described(), 4),
    (Plain, 5),
    (lambda anything: Plain(anything), 5),
    (LSTM(6, Asks), 6),
]


@pytest.mark.parametrize(("model", "features"), MODELS)
def test_a_model_is_given_the_action_space_if_it_asks(model: ModelLike, features: int) -> None:
    assert build_encoder(model, SEEN, ACTS).features == features
    for spec in (ActorCriticSpec(), QSpec()):
        assert make_policy(spec, model, SEEN, ACTS).module.encoder.features == features  # type: ignore[union-attr]  # a net


@pytest.mark.parametrize("model", [Asks, asks, Described()])
def test_actor_and_q_functions_are_given_it(model: ModelLike) -> None:
    made: Any = make_policy(ActorQSpec(), model, SEEN, BOX)  # Any: its network is that of ActorQ
    assert (made.net.actor.encoder.features, made.net.critics.encoder.features) == (2, 2)


def test_models_inside_others_are_given_it() -> None:
    seen = spaces.Dict({"a": SEEN, "b": SEEN})
    made: Any = build_encoder(LSTM(6, DictEncoder({"a": Asks})), seen, ACTS)  # Any: modules
    assert any(isinstance(each, Asks) and each.features == 4 for each in made.modules())


@pytest.mark.parametrize("algorithm", [PPO, DQN, SAC])
def test_algorithms_give_it(algorithm: type[PPO | DQN | SAC]) -> None:
    algorithm(model=Asks, num_workers=1).check()


def test_a_model_that_needs_more_says_so() -> None:
    def needs(observation_space: AnySpace, width: int) -> nn.Module:
        raise AssertionError

    with pytest.raises(PlanError, match=r"needs\(observation_space.* missing a required argument: 'width'.*functools.partial"):
        build_encoder(needs, SEEN, ACTS)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(PlanError, match="Asks asks for the action space, which is not known here"):
        build_encoder(Asks, SEEN)


# --------------------------------------------------------------------------- what runs give


class Told:
    """Tells what it was given."""

    def __init__(self, shard: Shard) -> None:
        self.given = shard.given

    def next(self) -> object:
        return self.given


def test_a_run_gives_its_actors_something_to_begin_with() -> None:
    told = create_actors(Told, num=2)
    plan = from_actors(told, Told.next).gather_sync().take(4)
    with LocalRuntime() as session:
        run = plan.run(runtime=session)
        run.give(told, {"x": 1})
        assert list(run) == [{"x": 1}] * 4
        with pytest.raises(PlanError, match="live in this session since an earlier run"):
            plan.run(runtime=session).give(told, 2)
    assert list(plan.run()) == [None] * 4
    with pytest.raises(PlanError, match="the plan does not name the actors"):
        plan.run().give(create_actors(Told), 2)
