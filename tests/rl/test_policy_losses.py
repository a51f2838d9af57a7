"""Losses of PG, APPO and PQN against formulas written row by row."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tflow import Batch
from tflow.errors import PlanError
from tflow.losses import APPOLoss, Loss, PGLoss, PQNLoss
from tflow.models import MLP, QSpec
from tflow.rl.policy.policy import ActorCritic, Policy, QPolicy
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.policy.tensors import Tensors

BOX, ACTIONS = spaces.Box(-1, 1, (3,), np.float32), 4
ENDS = np.array([2, 5])
"""Two pieces of three rows; the first ends with its episode, the second goes on."""
AnyLoss = Loss[Any, Any]  # Any: whatever it reads and requires


def made(loss: AnyLoss, seed: int) -> Policy:
    return make_policy(loss.policy(), MLP((8,)), BOX, spaces.Discrete(ACTIONS), seed=seed)


def rows(*, masks: bool) -> Batch[str]:
    rng = np.random.default_rng(3)
    columns = {
        "obs": rng.normal(size=(6, 3)).astype(np.float32),
        "actions": np.array([0, 1, 2, 3, 0, 1]),
        "rewards": rng.normal(size=6).astype(np.float32),
        "terminated": np.array([0, 0, 1, 0, 0, 0], bool),
        "truncated": np.zeros(6, bool),
        "logp": np.log(rng.uniform(0.1, 0.9, 6)).astype(np.float32),
        "values": rng.normal(size=6).astype(np.float32),
        "t": np.array([4, 5, 6, 0, 1, 2], np.int32),
    }
    if masks:
        allowed = rng.random((6, ACTIONS)) < 0.5
        allowed[np.arange(6), columns["actions"]] = allowed[:, 3] = True
        columns["masks"] = allowed
    finals = {"obs": rng.normal(size=(2, 3)).astype(np.float32), "values": rng.normal(size=2).astype(np.float32)}
    return Batch(columns, ends=ENDS, finals=finals)


def evaluated(policy: Policy, batch: Batch[str], obs: Any) -> tuple[Any, Any, Any]:  # Any: arrays
    """Log-probabilities of all actions, values, and entropies, of what the masks allow."""
    assert isinstance(policy, ActorCritic)
    with torch.no_grad():
        logits, values, _ = policy.net(torch.from_numpy(np.array(obs)))
    logits = logits.double().numpy()
    if "masks" in batch and len(obs) == len(batch):
        logits = np.where(batch["masks"], logits, -np.inf)
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    plogp = np.where(np.isfinite(logp), np.exp(logp) * np.where(np.isfinite(logp), logp, 0), 0)
    return logp, values.double().numpy(), -plogp.sum(1)


def returns_of(batch: Batch[str], gamma: float) -> Any:  # Any: an array
    found = np.zeros(6)
    for row in reversed(range(6)):
        last = row in ENDS
        after = float(batch.finals["values"][list(ENDS).index(row)]) if last else found[row + 1]
        found[row] = batch["rewards"][row] + (0 if batch["terminated"][row] else gamma * after)
    return found


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("normalize", [True, False])
def test_pg_weighs_log_probabilities_by_returns(normalize: bool, masks: bool) -> None:
    loss = PGLoss(gamma=0.9, entropy_coef=0.05, value_coef=0.3, normalize=normalize)
    policy, batch = made(loss, 1), rows(masks=masks)
    found = loss.compute(policy, Tensors.of(loss.prepare(batch)), target=None, steps=0)
    logp, values, entropy = evaluated(policy, batch, batch["obs"])
    returns = returns_of(batch, 0.9)
    weights = (returns - returns.mean()) / returns.std() if normalize else returns
    taken = logp[np.arange(6), batch["actions"]]
    expected = -(taken * weights).mean() + 0.3 * np.square(values - returns).mean() - 0.05 * entropy.mean()
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("vtrace", [True, False])
def test_appo_clips_around_the_target_policy(vtrace: bool, masks: bool) -> None:
    options: Any = {"clip_rho": 0.8, "clip_c": 0.7, "clip_pg_rho": 0.9}  # Any: keyword arguments
    loss = APPOLoss(gamma=0.9, lam=0.8, clip=0.1, entropy_coef=0.05, kl_coef=0.2, vtrace=vtrace, **options)
    policy, target, batch = made(loss, 1), made(loss, 2), rows(masks=masks)
    with torch.no_grad():  # far enough apart that some ratios are clipped
        for each, factor in ((policy, 60.0), (target, 40.0)):
            cast("torch.nn.Linear", cast("ActorCritic", each).net.action).weight.mul_(factor)
    found = loss.compute(policy, Tensors.of(loss.prepare(batch)), target=target, steps=0)
    logp, values, entropy = evaluated(policy, batch, batch["obs"])
    old, _, _ = evaluated(target, batch, batch["obs"])
    _, last, _ = evaluated(policy, batch, batch.finals["obs"])
    now, before = (each[np.arange(6), batch["actions"]] for each in (logp, old))
    rho = np.exp(before - batch["logp"])
    predicted, final = (values, last) if vtrace else (batch["values"], batch.finals["values"])
    targets, advantages = np.zeros(6), np.zeros(6)
    for row in reversed(range(6)):
        end, over = row in ENDS, bool(batch["terminated"][row])
        piece = list(ENDS).index(row) if end else -1
        following = 0.0 if over else final[piece] if end else predicted[row + 1]
        error = batch["rewards"][row] + 0.9 * following - predicted[row]
        if vtrace:
            carried = 0.0 if end else targets[row + 1] - predicted[row + 1]
            targets[row] = predicted[row] + min(rho[row], 0.8) * error + 0.9 * 0.8 * min(rho[row], 0.7) * carried
            after = 0.0 if over else final[piece] if end else targets[row + 1]
            advantages[row] = min(rho[row], 0.9) * (batch["rewards"][row] + 0.9 * after - predicted[row])
        else:
            carried = 0.0 if end else targets[row + 1] - predicted[row + 1]
            targets[row] = predicted[row] + error + 0.9 * 0.8 * carried
            advantages[row] = min(rho[row], 0.9) * (targets[row] - predicted[row])
    ratio = np.exp(now - before)
    surrogate = np.minimum(ratio * advantages, np.clip(ratio, 0.9, 1.1) * advantages)
    kl = (np.minimum(rho, 1) * (ratio - 1 - (now - before))).mean()
    expected = -surrogate.mean() + 0.5 * np.square(values - targets).mean() - 0.05 * entropy.mean() + 0.2 * kl
    assert 0 < float(found.stats["clipped"]) <= 1
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-4)


def test_the_target_policy_of_appo_has_no_gradient() -> None:
    loss = APPOLoss()
    policy, target = made(loss, 1), made(loss, 2)
    loss.compute(policy, Tensors.of(loss.prepare(rows(masks=False))), target=target, steps=0).total.backward()  # type: ignore[no-untyped-call]  # torch's
    assert float(policy.flat.gradient.abs().max()) > 0
    assert float(target.flat.gradient.abs().max()) == 0


def test_pqn_is_the_squared_error_to_returns() -> None:
    loss = PQNLoss()
    policy = made(loss, 1)
    assert isinstance(policy, QPolicy)
    batch = rows(masks=False).with_columns({"returns": np.arange(6, dtype=np.float32)})
    found = loss.compute(policy, Tensors.of(batch), target=None, steps=0)
    q = policy.scores(batch["obs"])[np.arange(6), batch["actions"]]
    assert float(found.total.detach()) == pytest.approx(0.5 * np.square(q - np.arange(6)).mean(), rel=1e-4)
    assert any(isinstance(each, torch.nn.LayerNorm) for each in policy.module.modules())
    with pytest.raises(PlanError, match="PQNLoss: returns are numbers, so kind must be 'scalar', got 'quantile'"):
        PQNLoss(spec=QSpec(kind="quantile"))


def test_the_values_in_the_returns_of_pqn_are_maxima_over_what_is_allowed() -> None:
    policy = cast("QPolicy", made(PQNLoss(), 1))
    batch = rows(masks=True)
    acted = policy.rows(batch["obs"], np.random.default_rng(0), state=policy.initial_state(6), masks=batch["masks"])
    assert acted.values is not None
    q = policy.scores(batch["obs"])
    assert (q.argmax(1) != np.where(batch["masks"], q, -np.inf).argmax(1)).any(), "else masks would not matter"
    np.testing.assert_allclose(acted.values, np.where(batch["masks"], q, -np.inf).max(1), rtol=1e-5)
    assert batch["masks"][np.arange(6), acted.actions].all()
