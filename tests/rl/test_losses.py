"""Losses against slow, plain computations on fixed data."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tests.rl.test_policy import batch, replayed
from tflow import Batch, ComputeAdvantages
from tflow.losses import A3CLoss, DQNLoss, PPOLoss
from tflow.models import QSpec
from tflow.rl.learning.q_learning import projected, quantile_loss
from tflow.rl.policy.network_spec import MLP
from tflow.rl.policy.policy import ActorCritic, QPolicy
from tflow.rl.policy.policy_spec import PolicySpec, make_policy
from tflow.rl.policy.tensors import Tensors

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


def made(spec: PolicySpec, seed: int = 0) -> Any:  # Any: the kind that the spec says
    return make_policy(spec, MLP((8,)), BOX, spaces.Discrete(4), seed=seed)


def says(policy: ActorCritic, rows: Batch[str]) -> list[tuple[list[float], float]]:
    """The probabilities of all actions and the value, row by row."""
    inputs, values, _ = policy.net(torch.from_numpy(np.array(rows["obs"])))
    return [(torch.softmax(row, 0).tolist(), float(value)) for row, value in zip(inputs.detach(), values.detach(), strict=True)]


def test_actor_critic_row_by_row() -> None:
    loss = A3CLoss(gamma=0.9, lam=1.0, value_coef=0.7, entropy_coef=0.1)
    policy, rows = made(loss.policy()), batch()
    got = loss.compute(policy, Tensors.of(loss.prepare(rows)), target=None, steps=0)
    # n-step returns, bootstrapped from the value after each piece
    returns = np.zeros(12)
    for start, end, final in ((0, 5, 1.0), (6, 11, 1.0)):
        following = final
        for row in range(end, start - 1, -1):
            following = float(rows["rewards"][row]) + 0.9 * following
            returns[row] = following
    gain = miss = entropy = 0.0
    for row, (chances, value) in enumerate(says(policy, rows)):
        gain += math.log(chances[rows["actions"][row]]) * (returns[row] - float(rows["values"][row])) / 12
        miss += (value - returns[row]) ** 2 / 12
        entropy -= sum(chance * math.log(chance) for chance in chances) / 12
    assert float(got.total.detach()) == pytest.approx(-gain + 0.7 * miss - 0.1 * entropy, rel=1e-5)
    assert float(got.stats["entropy"].detach()) == pytest.approx(entropy, rel=1e-5)


@pytest.mark.parametrize("value_clip", [None, 0.1])
@pytest.mark.parametrize("normalize", [True, False])
def test_ppo_row_by_row(value_clip: float | None, normalize: bool) -> None:
    loss = PPOLoss(clip=0.1, value_clip=value_clip, value_coef=0.5, entropy_coef=0.02, normalize=normalize)
    policy = made(loss.policy())
    rows = batch().with_columns(ComputeAdvantages(gamma=0.9, lam=0.8).compute(batch()))
    got = loss.compute(policy, Tensors.of(rows), target=None, steps=0)
    advantages = np.array(rows["advantages"], np.float64)
    if normalize:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    gain = miss = entropy = clipped = kl = 0.0
    for row, (chances, value) in enumerate(says(policy, rows)):
        ratio = math.exp(math.log(chances[rows["actions"][row]]) - float(rows["logp"][row]))
        gain += min(ratio * advantages[row], max(0.9, min(1.1, ratio)) * advantages[row]) / 12
        old, target = float(rows["values"][row]), float(rows["returns"][row])
        error = (value - target) ** 2
        if value_clip is not None:
            error = max(error, (old + max(-value_clip, min(value_clip, value - old)) - target) ** 2)
        miss += error / 12
        entropy -= sum(chance * math.log(chance) for chance in chances) / 12
        clipped += (abs(ratio - 1) > 0.1) / 12
        kl += (ratio - 1 - math.log(ratio)) / 12
    assert float(got.total.detach()) == pytest.approx(-gain + 0.5 * miss - 0.02 * entropy, rel=1e-4)
    assert float(got.stats["clipped"]) == pytest.approx(clipped, rel=1e-5)
    assert float(got.stats["kl"]) == pytest.approx(kl, rel=1e-4)


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("huber", [None, 0.3])
def test_q_learning_row_by_row(double: bool, huber: float | None) -> None:
    loss = DQNLoss(double=double, huber=huber)
    policy: QPolicy = made(loss.policy())
    target: QPolicy = made(loss.policy(), seed=5)
    rows = replayed()
    got = loss.compute(policy, Tensors.of(rows), target=target, steps=0)

    def q(of: QPolicy, name: str) -> np.ndarray[Any, np.dtype[Any]]:  # Any: floats
        return np.asarray(of.net(torch.from_numpy(np.array(rows[name])))[0].detach().numpy())

    own, after, judged = q(policy, "obs"), q(target, "next_obs"), q(policy if double else target, "next_obs")
    total = 0.0
    errors = []
    for row in range(12):
        target = float(rows["rewards"][row]) + 0.9 * after[row, judged[row].argmax()]
        error = float(own[row, rows["actions"][row]] - target)
        errors.append(abs(error))
        linear = huber is not None and abs(error) > huber
        distance = huber * (abs(error) - 0.5 * huber) if linear and huber is not None else 0.5 * error**2
        total += float(rows["weights"][row]) * distance / 12
    assert float(got.total.detach()) == pytest.approx(total, rel=1e-4)
    assert got.td_errors is not None
    np.testing.assert_allclose(got.td_errors.numpy(), errors, rtol=1e-4, atol=1e-6)


def test_the_projection_of_c51_atom_by_atom() -> None:
    rng = np.random.default_rng(0)
    chances = torch.from_numpy(rng.dirichlet(np.ones(5), size=6).astype(np.float32))
    rewards = torch.tensor([0.0, 0.3, 9.0, -9.0, 1.0, 0.5])
    discounts = torch.tensor([1.0, 0.9, 0.9, 0.9, 0.0, 0.5])
    got = projected(chances, rewards, discounts, v_min=-2.0, v_max=2.0).numpy()
    want = np.zeros((6, 5))
    support = np.linspace(-2, 2, 5)
    for row in range(6):
        for atom in range(5):
            value = min(2.0, max(-2.0, float(rewards[row]) + float(discounts[row]) * support[atom]))
            place = value + 2.0  # atoms are 1 apart
            low = min(int(place), 3)
            want[row, low] += float(chances[row, atom]) * (1 - (place - low))
            want[row, low + 1] += float(chances[row, atom]) * (place - low)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(got[0], chances[0].numpy(), rtol=1e-5)  # nothing moves without reward and discount


@pytest.mark.parametrize("huber", [0.5, None])
def test_the_quantile_loss_pair_by_pair(huber: float | None) -> None:
    rng = np.random.default_rng(0)
    quantiles, targets = rng.normal(size=(2, 3)), rng.normal(size=(2, 4))
    got = quantile_loss(torch.from_numpy(quantiles), torch.from_numpy(targets), huber=huber).numpy()
    for row in range(2):
        total = 0.0
        for i in range(3):
            for target in targets[row]:
                error = target - quantiles[row, i]
                weight = abs((i + 0.5) / 3 - (error < 0))
                distance = error**2 if abs(error) <= 0.5 else abs(error) - 0.25
                total += weight * (abs(error) if huber is None else distance) / 4
        assert got[row] == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("kind", ["categorical", "quantile"])
def test_distributions_are_learned(kind: Literal["categorical", "quantile"]) -> None:
    """A state with one sure reward: its value is found, whatever it is made of."""
    from tflow.optimizers import Adam
    from tflow.rl.learning.learner import Learner

    loss = DQNLoss(spec=QSpec(kind=kind, atoms=21, v_min=-2.0, v_max=2.0))
    learner = Learner(made(loss.policy()), loss, Adam(lr=0.01))
    rows = replayed(64).with_columns({"rewards": np.full(64, 1.3, np.float32), "discounts": np.zeros(64, np.float32)})
    for _ in range(300):
        learner.train(rows)
    values = learner.policy.scores(rows["obs"])[np.arange(64), rows["actions"]]
    assert np.abs(values - 1.3).mean() < 0.1


def test_padding_does_not_count() -> None:
    loss = A3CLoss()
    policy = made(loss.policy())
    rows = loss.prepare(batch())
    alone = loss.compute(policy, Tensors.of(rows), target=None, steps=0).total
    padded = rows.sequences(5)
    columns = {name: padded[name] for name in padded.columns}
    dirty: Batch[str] = Batch(
        {**columns, "returns": np.where(padded["mask"], padded["returns"], 1e6).astype(np.float32)}, ends=padded.ends
    )
    again = loss.compute(policy, Tensors.of(dirty), target=None, steps=0).total
    assert float(again.detach()) == pytest.approx(float(alone.detach()), rel=1e-5)


@pytest.mark.parametrize(("factor", "scaled"), [(1.0, False), (100.0, True)])
def test_errors_of_values_count_in_units_of_what_returns_vary_by(factor: float, scaled: bool) -> None:
    rows = batch().with_columns(ComputeAdvantages(gamma=0.9, lam=0.8).compute(batch()))
    rows = rows.with_columns({"returns": rows["returns"] * np.float32(factor)})
    variance = float(rows["returns"].astype(np.float64).var())
    assert (variance > 1) is scaled
    policy = made(PPOLoss().policy())
    plain, usual = (
        loss.compute(policy, Tensors.of(rows), target=None, steps=0)
        for loss in (PPOLoss(scale_values=False, entropy_coef=0), PPOLoss(entropy_coef=0))
    )
    errors = [float((got.total - got.stats["policy_loss"]).detach()) for got in (plain, usual)]
    assert errors[1] == pytest.approx(errors[0] / max(1.0, variance), rel=1e-4)
    assert float(plain.stats["value_loss"].detach()) == float(usual.stats["value_loss"].detach()), "reported as it is"
