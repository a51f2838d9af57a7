"""The examples of ``docs/customising.md`` do what they say. (The page itself is run by ``tests/test_docs.py``.)"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tflow
from benchmarks import loc
from examples import callbacks, mixed_replay, own_loss, own_model, own_operator, own_part, two_frequencies
from tflow import Stop
from tflow.algos import PPO

EXAMPLES = Path(__file__).parent.parent / "examples"
OURS = ["callbacks", "mixed_replay", "own_loss", "own_model", "own_operator", "two_frequencies"]


def test_a_loss_of_ones_own_is_what_is_made_small() -> None:
    without, with_term = own_loss.main(updates=40)
    assert 0 <= with_term < without / 10


def test_a_derived_loss_has_the_options_of_the_configuration() -> None:
    config = own_loss.MirrorPPO(clip=0.1, max_kl=0.5, mirror_coef=2.0)
    assert config.loss() == own_loss.MirrorLoss(clip=0.1, max_kl=0.5, mirror_coef=2.0, advantage_floor=0.1)


def test_a_policy_with_a_module_of_ones_own_is_the_same_after_loading(tmp_path: Path) -> None:
    file = tmp_path / "waves.safetensors"
    trained, loaded = own_model.main(updates=10, file=file)
    for policy in (trained, loaded):
        assert {type(module) for module in policy.module.modules()} >= {own_model.Waves}
    np.testing.assert_array_equal(trained.flat.get(), loaded.flat.get())
    assert [loaded.act(obs) for obs in own_model.PROBES] == [trained.act(obs) for obs in own_model.PROBES]
    with pytest.raises(tflow.errors.CheckpointError, match="pass it again as model="):
        tflow.Policy.load(file)


def test_a_part_of_ones_own_is_trained_by_its_own_loss_optimiser_and_period() -> None:
    first, last = own_part.main(env_steps=400)
    assert list(first) == ["critics", "actor", "temperature", "dynamics"]
    assert 0 < last["dynamics"] < first["dynamics"] / 2
    config = own_part.CuriousSAC(dynamics_lr=0.1, lr=1e-4, actor_every=3, bonus_coef=2.0)
    assert {part: rule.every for part, rule in config.loss().parts().items()} == {
        **dict.fromkeys(first, 3),
        "critics": 1,
        "dynamics": 2,
    }
    assert {part: each.lr for part, each in config.optimizer().items()} == {**dict.fromkeys(first, 1e-4), "dynamics": 0.1}
    assert config.loss() == own_part.CuriousLoss(actor_every=3, bonus_coef=2.0, spec=own_part.CuriousSpec())


def test_the_bonus_is_part_of_the_td_targets_and_workers_are_sent_the_actor_alone() -> None:
    def trained(**options: float) -> own_part.Curious:
        config = own_part.CuriousSAC(batch=8, learning_starts=8, model=tflow.models.MLP((8,)), **options)  # type: ignore[arg-type]  # floats
        run = config.run(stop=Stop(updates=4))
        run.finish()
        policy = run.policy()
        assert isinstance(policy, own_part.Curious)
        return policy

    without, with_bonus = trained(bonus_coef=0.0), trained(bonus_coef=10.0)
    same = {
        part: torch.equal(weights.parameter, with_bonus.flat.parts[part].parameter)
        for part, weights in without.flat.parts.items()
    }
    assert same["dynamics"], "its loss knows no bonus"
    assert not same["critics"]
    assert without.flat.acting == without.flat.parts["actor"].parameter.numel()


def test_operators_of_ones_own_see_every_batch_and_remember() -> None:
    seen = own_operator.main(updates=30)
    assert len(seen) >= 2
    every = np.zeros(0)
    for batch in seen:
        np.testing.assert_array_equal(batch["env_rewards"], 1)
        shaped = batch["env_rewards"] - own_operator.ShapeRewards().per_radian * np.abs(batch["obs"][:, own_operator.ANGLE])
        every = np.concatenate([every, shaped])
        np.testing.assert_allclose(batch["rewards"], shaped / np.sqrt(np.square(every).mean()), rtol=1e-4)


def test_policies_are_updated_in_the_ratio_that_the_plan_says() -> None:
    updates, rows = two_frequencies.main(calm_updates=4, group=3)
    assert updates == {"quick": 12, "calm": 4}
    updates, fewer = two_frequencies.main(calm_updates=4, group=3, skip=True)
    assert updates == {"quick": 12, "calm": 4}
    assert fewer["calm"] < rows["calm"] / 2, "what lies between was left out"


def test_callbacks_see_every_item_and_change_nothing() -> None:
    log, by_steps, by_function = callbacks.main(env_steps=700, growth=1.0)
    assert len(log.stats) == by_steps.training.steps == len(log.batches)
    assert len(log.fragments) == 2 * len(log.batches)
    assert sum(log.fragments) == sum(log.batches) == by_steps.training.rows == by_steps.env_steps
    assert [stats.version for stats in log.stats] == list(range(1, len(log.stats) + 1))
    before = sum(log.batches[:-1])
    assert before < 700 <= by_steps.env_steps
    untapped = PPO(num_workers=2, num_envs=4, fragment=32, epochs=2, minibatch=64).run(stop=Stop(env_steps=700)).finish()
    assert (untapped.training, untapped.episodes.returns) == (by_steps.training, by_steps.episodes.returns)
    assert by_function.training.steps >= 2


def test_a_stop_of_ones_own_ends_training() -> None:
    returns: list[float] = []

    def third(metrics: tflow.Metrics) -> bool:
        returns.append(metrics.mean_return)
        return len(returns) == 3

    last = PPO(num_workers=1, num_envs=4, fragment=32, epochs=1).run(stop=third).finish()
    assert last.training.steps == 3 == len(returns)


def test_evaluation_happens_when_it_is_due() -> None:
    steps, last = mixed_replay.main(every=400, evaluations=3)
    per_round = 4 * 50
    assert len(steps) == 3
    for due, found in zip((400, 800, 1_200), steps, strict=True):
        assert due <= found < due + 2 * per_round  # with the next report after the round in which it was due
    assert last.evaluation.count == 4
    assert last.training.worst_lag == 0, "fresh data is fresh, although another loss trains the same policy"
    assert last.training.latest["advantages"] > 0, "replayed rows were learned from"


@pytest.mark.parametrize("name", OURS)
def test_examples_stay_small(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 75


def test_an_algorithm_with_a_part_of_ones_own_is_short() -> None:
    source = (EXAMPLES / "own_part.py").read_text()
    imports = {
        row for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom)) for row in loc.span(node)
    }
    assert len(loc.code_rows(source) - imports) < 60


def test_tflow_check_finds_nothing_in_the_examples() -> None:
    files = [str(EXAMPLES / f"{name}.py") for name in (*OURS, "own_part")]
    command = [sys.executable, "-m", "tflow.cli", "check", *files]
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
