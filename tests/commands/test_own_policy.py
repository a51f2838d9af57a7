"""Policies of one's own on the command line: trained, saved, evaluated, loaded, and started from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands.conftest import Typed
from tflow import Policy, evaluate
from tflow.commands.evaluate import evaluate_asked
from tflow.commands.targets import Asked
from tflow.errors import CheckpointError
from tflow.loading import find

OWN = '''
from dataclasses import dataclass, field

import torch
from torch import nn

from tflow.algos import IMPALA, PPO
from tflow.losses import IMPALALoss, LossValue, PPOLoss
from tflow.models import ActorCriticSpec
from tflow.rl.learning.parts import Part
from tflow.rl.policy.policy import ActorCritic
from tflow.rl.policy.policy_network import ActorCriticNet


class WithWorld(ActorCritic):
    """An actor-critic, and a model of the world that it does not need to act."""

    def make_net(self):
        net = super().make_net()
        net.world = nn.Linear(self.observation_space.shape[0], self.options.size)
        return net

    @property
    def parts(self):
        children = [name for name, _ in self.module.named_children() if name != "world"]
        return {"actor": children, "world": ["world"]}

    @property
    def acting(self):
        return ["actor"]


@dataclass(frozen=True)
class WorldSpec(ActorCriticSpec):
    size: int = 4

    def build(self, model, observation_space, action_space, device):
        return WithWorld(self, model, observation_space, action_space, device)


def world_loss(policy, batch):
    seen = policy.module.world(batch["obs"])
    error = (seen[:, :4] - batch["obs"]).square().mean()
    return LossValue(error, {"world_error": error})


@dataclass(frozen=True)
class WorldLoss(PPOLoss):
    def parts(self):
        return {"actor": Part(), "world": Part(every=2)}

    def losses(self, policy, batch, /, *, target, steps):
        return {
            "actor": lambda: self.compute(policy, batch, target=target, steps=steps),
            "world": lambda: world_loss(policy, batch),
        }


@dataclass(frozen=True)
class WorldIMPALALoss(IMPALALoss):
    def parts(self):
        return {"actor": Part(), "world": Part()}

    def losses(self, policy, batch, /, *, target, steps):
        return {
            "actor": lambda: self.compute(policy, batch, target=target, steps=steps),
            "world": lambda: world_loss(policy, batch),
        }


@dataclass(frozen=True, kw_only=True)
class WorldPPO(PPO):
    size: int = 4

    def loss(self):
        return WorldLoss(**{**vars(super().loss()), "spec": WorldSpec(size=self.size)})


@dataclass(frozen=True, kw_only=True)
class WorldIMPALA(IMPALA):
    def loss(self):
        return WorldIMPALALoss(**{**vars(super().loss()), "spec": WorldSpec()})


class Net(nn.Linear):
    """As wide as there are actions."""

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space.shape[0], 3 * int(action_space.n))
        self.features = 3 * int(action_space.n)


def other(observation_space):
    net = nn.Linear(observation_space.shape[0], 7)
    net.features = 7
    return net
'''
PLAIN = ("--no-normalize-obs", "--no-normalize-rewards")  # which would go on changing
QUICK = ("--num-envs", "2", "--fragment", "32", "--workers", "1", "--stop-steps", "300", "--plain", *PLAIN)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_policy", raising=False)
    (tmp_path / "own_policy.py").write_text(OWN)
    return tmp_path


def spec(**fields: Any) -> Any:  # Any: of a file that is made above
    return find("own_policy.py:WorldSpec")(**fields)  # type: ignore[operator]  # it is a class


def test_it_is_trained_saved_evaluated_and_loaded(typed: Typed) -> None:
    words = ("own_policy.py:WorldPPO", "--size", "6", "--eval-every", "100", "--eval-episodes", "2", *QUICK)
    code, _, err = typed("train", *words, "--out", "run")
    assert code == 0, err
    for best in (False, True):
        file = Path("run") / ("best.safetensors" if best else "policy.safetensors")
        with pytest.raises(CheckpointError, match=r"your own class, WorldSpec, .* such as spec=WorldSpec\(.*size=6\)"):
            Policy.load(file)
        policy = Policy.load(file, spec=spec(size=6))
        assert type(policy).__name__ == "WithWorld"
        assert policy.acting_only is best, "evaluation workers know nothing of the world model"
        wanted = evaluate(policy, "CartPole-v1", episodes=3, seed=2)
        for path in (Path("run"), file):
            found = evaluate_asked(Asked(path, best and path.is_dir()), episodes=3, seed=2)
            assert found == {"": wanted}
        assert typed("eval", "run", "--episodes", "2", *(["--best"] if best else []))[0] == 0


def test_all_parts_of_it_are_trained_and_saved(typed: Typed) -> None:
    typed("train", "own_policy.py:WorldPPO", *QUICK, "--out", "one", "--lr", "0.01")
    typed("train", "own_policy.py:WorldPPO", *QUICK, "--out", "two", "--lr", "0.01", "--stop-steps=64")
    one, two = (Policy.load(folder, spec=spec()) for folder in ("one", "two"))
    for part in ("actor", "world"):
        values = [policy.flat.parts[part].parameter.detach().numpy() for policy in (one, two)]
        assert not np.array_equal(values[0], values[1]), part


def test_another_spec_does_not_fit(typed: Typed) -> None:
    typed("train", "own_policy.py:WorldPPO", *QUICK, "--out", "run")
    with pytest.raises(CheckpointError, match=r"world.weight has the shape \(4, 4\), and \(9, 4\) in the network"):
        Policy.load("run", spec=spec(size=9))
    with pytest.raises(CheckpointError, match=r"spec must be a description of a policy, a PolicySpec; got 3"):
        Policy.load("run", spec=3)  # type: ignore[arg-type]  # that is the point
    Path("run/policy.safetensors").rename("lone.safetensors")
    code, _, err = typed("eval", "lone.safetensors", "--env", "CartPole-v1")
    assert code == 2
    assert "a policy of your own class, WorldSpec" in err


def test_a_learner_elsewhere_sends_what_acts_and_that_is_saved(typed: Typed) -> None:
    code, _, err = typed("train", "own_policy.py:WorldIMPALA", *QUICK, "--out", "run")
    assert code == 0, err
    assert typed("eval", "run", "--episodes", "2")[0] == 0
    assert Policy.load("run", spec=spec()).acting_only
    code, _, err = typed("train", "own_policy.py:WorldIMPALA", *QUICK, "--from", "run")
    assert code == 2
    assert "it holds only the weights that it acts with, not those of world." in err


def test_a_model_that_asks_for_the_action_space(typed: Typed) -> None:
    for algorithm in ("ppo", "dqn", "own_policy.py:WorldPPO"):
        out = algorithm.rpartition(":")[2]
        code, _, err = typed("train", algorithm, *QUICK, "--model", "own_policy.py:Net", "--out", out)
        assert code == 0, err
        code, _, err = typed("eval", out, "--episodes", "2")
        assert code == 0, err
    assert Policy.load("ppo", model=find("own_policy.py:Net")).module.encoder.features == 6  # type: ignore[arg-type, union-attr]  # a class; its


def test_training_starts_from_a_run_or_a_file(typed: Typed) -> None:
    own = ("train", "own_policy.py:WorldPPO", *QUICK)
    typed(*own, "--out", "run")
    for place in ("run", "run/policy.safetensors"):
        out = f"from-{Path(place).stem}"
        code, _, err = typed(*own, "--lr", "1e-9", "--from", place, "--out", out)
        assert code == 0, err
        weights = [Policy.load(folder, spec=spec()).flat.get() for folder in ("run", out)]
        np.testing.assert_allclose(weights[0], weights[1], atol=1e-6)
        assert f'start_from = "{Path(place).resolve()}"' in (Path(out) / "config.toml").read_text()
    code, _, err = typed("train", "--config", "from-policy/config.toml", "--plain", "--out", "again")
    assert code == 0, err
    weights = [Policy.load(folder, spec=spec()).flat.get() for folder in ("from-policy", "again")]
    np.testing.assert_array_equal(weights[0], weights[1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--from", "nowhere"),
            "start_from: there is no 'nowhere'. Name a policy file, or a run folder, which tflow train makes.",
        ),
        (("--from", "run", "--env", "Acrobot-v1"), "does not fit the policy of the run: its observation space is Box("),
        (("--from", "run", "--model", "MLP((9,))"), "its model is MLP(hidden=(64, 64), "),
        (
            ("--from", "run", "--model", "own_policy.py:other"),
            "its network is another: the network has encoder.weight, which is not among the saved weights.",
        ),
        (("--from", ""), "start_from"),
        (("--from", "{'a': 'run'}"), "start_from: there is no policy 'a'; the policies are default."),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_leaves_nothing(words: tuple[str, ...], message: str, typed: Typed) -> None:
    typed("train", "ppo", *QUICK, "--out", "run")
    before = sorted(Path.cwd().rglob("*"))
    code, _, err = typed("train", "ppo", *QUICK, *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert [path for path in sorted(Path.cwd().rglob("*")) if path not in before and "__pycache__" not in path.parts] == []
