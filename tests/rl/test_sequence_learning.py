"""Learning from replayed sequences: what replay hands out, and the losses of R2D2 and RNNSAC, row by row."""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.rl.test_buffers import rollouts
from tflow import (
    Batch,
    ParallelReplay,
    ParallelRollouts,
    PlanError,
    Stop,
    StoreToBuffer,
    TrainOneStep,
    create_replay_actors,
    create_rollout_workers,
)
from tflow.algos import RNNSAC
from tflow.losses import DQNLoss, LossValue, R2D2Loss, RNNSACLoss, SACLoss
from tflow.models import GRU, LSTM, MLP, GTrXL, QSpec
from tflow.optimizers import SGD
from tflow.rl.data.arrays import Array
from tflow.rl.learning import q_learning
from tflow.rl.learning.agent import Agent, AnyLoss
from tflow.rl.learning.learner import Learner
from tflow.rl.policy.actor_q import ActorQ
from tflow.rl.policy.network import Memory
from tflow.rl.policy.network_spec import ModelLike
from tflow.rl.policy.policy import Policy, QPolicy
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.policy.tensors import Tensors
from tflow.rl.replay.replay import SequenceReplayActor
from tflow.rl.replay.sequence_buffer import SequenceBuffer, sequence_priorities
from tflow.types import Shard

OBS, ACTIONS = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(4)
MODELS: list[ModelLike] = [LSTM(5, MLP((6,))), GRU(5, MLP((6,))), GTrXL(6, MLP((6,)), heads=2, layers=2, window=4)]
LENGTH, BURN_IN, N_STEP, GAMMA = 6, 2, 3, 0.9
by_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


# --------------------------------------------------------------------------- rescaling


@given(st.floats(-1e4, 1e4), st.sampled_from([1e-3, 1e-2, 0.1]))
def test_unrescaling_undoes_rescaling(value: float, eps: float) -> None:
    given_value = torch.tensor(value, dtype=torch.float64)
    rescaled = q_learning.rescaled(given_value, eps)
    assert float(rescaled) == pytest.approx(math.copysign(math.sqrt(abs(value) + 1) - 1, value) + eps * value, abs=1e-9)
    assert float(q_learning.unrescaled(rescaled, eps)) == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert float(q_learning.rescaled(q_learning.unrescaled(given_value, eps), eps)) == pytest.approx(value, rel=1e-9, abs=1e-9)


@given(st.lists(st.floats(-300, 300), min_size=1, max_size=5))
def test_single_precision_is_enough_to_undo_rescaling(values: list[float]) -> None:
    small = torch.tensor(values)
    torch.testing.assert_close(q_learning.unrescaled(q_learning.rescaled(small, 1e-3), 1e-3), small, rtol=1e-4, atol=1e-5)


# --------------------------------------------------------------------------- what replay hands out


@given(rollouts(), st.integers(1, 6), st.integers(1, 4), st.data())
def test_rows_of_sequences_bootstrap_as_a_loop_says(batch: Batch[str], length: int, n_step: int, data: st.DataObject) -> None:
    burn_in = data.draw(st.integers(0, length - 1))
    plain, found = (
        SequenceBuffer(100, length=length, burn_in=burn_in, n_step=n, gamma=gamma) for n, gamma in ((1, None), (n_step, 0.5))
    )
    for buffer in (plain, found):
        buffer.insert(batch)
    before, after = plain.sample(30), found.sample(30)
    for end in after.ends:
        rows = [row for row in range(end + 1 - length, end + 1) if after["mask"][row]]
        for row in rows:
            total, discount, ahead = 0.0, 1.0, 0
            for step in rows[rows.index(row) :][:n_step]:
                total += discount * float(before["rewards"][step])
                discount *= 0.0 if before["terminated"][step] else 0.5
                ahead += 1
            assert after["rewards"][row] == pytest.approx(total, rel=1e-5, abs=1e-5)
            assert (after["discounts"][row], after["ahead"][row]) == (pytest.approx(discount), ahead)
    assert not after["discounts"][~after["mask"]].any()


def pieces(seed: int = 0, masks: bool = False, recurrent: int = 0) -> Batch[str]:
    """Rollouts of three pieces, one shorter than a sequence; the second ends an episode."""
    rng, ends = np.random.default_rng(seed), np.array([8, 12, 30])

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    columns = {
        "obs": normal(31, 3),
        "actions": rng.integers(4, size=31),
        "rewards": normal(31) * 3,
        "terminated": np.arange(31) == 12,
        "truncated": np.zeros(31, np.bool_),
    }
    finals = {"obs": normal(3, 3)}
    if masks:
        columns["masks"], finals["masks"] = (rng.random((rows, 4)) < 0.5 for rows in (31, 3))
        for each in (columns["masks"], finals["masks"]):
            each[:, 1] = True
    if recurrent:
        columns["state"] = normal(31, recurrent) * 0.5
    return Batch(columns, ends=ends, finals=finals)


def sampled(policy: Policy, *, masks: bool = False, size: int = 8) -> Batch[str]:
    buffer = SequenceBuffer(50, length=LENGTH, burn_in=BURN_IN, n_step=N_STEP, gamma=GAMMA, beta=0.7)
    buffer.insert(pieces(masks=masks, recurrent=policy.state_size))
    buffer.update_priorities(np.arange(len(buffer)), np.arange(1, len(buffer) + 1))
    return buffer.sample(size)


def test_masks_of_bootstrapped_rows_are_theirs() -> None:
    loss = R2D2Loss()
    batch = sampled(made(loss, LSTM(5)), masks=True)
    for number, end in enumerate(batch.ends):
        rows = range(end + 1 - LENGTH, end + 1)
        masks = [batch["masks"][row] for row in rows if batch["mask"][row]] + [batch.finals["masks"][number]]
        for place, row in enumerate(rows):
            if batch["mask"][row]:
                np.testing.assert_array_equal(batch["next_masks"][row], masks[place + int(batch["ahead"][row])])


def test_priorities_of_sequences_that_are_gone_are_ignored() -> None:
    spec = create_replay_actors(kind="sequences", capacity=12, batch=4, length=4, burn_in=1, min_size=0).make
    actor = cast("SequenceReplayActor", spec(Shard("replay", 0, 1, 5, 0)))
    assert actor.buffer.capacity == 4, "12 new rows, 3 in each"
    actor.insert(pieces())
    old = actor.sequences().untyped().finals["ids"]
    actor.insert(pieces(1))
    before = np.asarray(actor.buffer.state()["priorities"]).copy()
    actor.update_priorities(("default", old, np.full(4, 99.0)))
    assert np.asarray(actor.buffer.state()["priorities"]).tolist() == before.tolist()
    assert actor.buffer.state()["stale"] == 4
    again = cast("SequenceReplayActor", spec(Shard("replay", 0, 1, 5, 0)))
    again.load(actor.state())
    for name, column in actor.sequences().untyped().columns.items():
        if name == "weights":
            continue
        assert column.shape[0] == 16
    fresh = cast("SequenceReplayActor", spec(Shard("replay", 0, 1, 5, 0)))
    fresh.load(again.state())
    np.testing.assert_array_equal(again.sequences().untyped()["obs"], fresh.sequences().untyped()["obs"])


# --------------------------------------------------------------------------- losses, against one step after the other


def made(loss: AnyLoss, model: ModelLike, seed: int = 0) -> Policy:
    policy = make_policy(loss.policy(), model, OBS, ACTIONS, seed=seed)
    with torch.no_grad():
        for number, part in enumerate(policy.module.parameters()):
            part.copy_(torch.randn(part.shape, generator=torch.Generator().manual_seed(100 * seed + number)) * 0.4)
    return policy


def tensors(policy: Policy, batch: Batch[str]) -> Tensors:
    return Tensors.of(batch, length=LENGTH)


def remembered(encoder: Any, obs: Tensor, state: Tensor | None) -> Tensor:  # Any: a recurrent encoder
    """Features of the steps of one sequence, one after the other."""
    found, memory = [], cast("Memory", encoder.memory)
    for step in obs:
        features = encoder.encoder(step[None])[None]
        shown, state = memory(features, state, None)
        found.append(shown[0, 0])
    return torch.stack(found)


def each_sequence(batch: Batch[str]) -> list[tuple[list[int], Tensor, Tensor]]:
    """The rows of each sequence that are no padding, their observations with the final one behind them, and the state before."""
    found = []
    for number, end in enumerate(batch.ends):
        rows = [row for row in range(int(end) + 1 - LENGTH, int(end) + 1) if batch["mask"][row]]
        obs = np.concatenate([batch["obs"][rows], batch.finals["obs"][number : number + 1]])
        found.append((rows, torch.from_numpy(obs), torch.from_numpy(batch.finals["state"][number : number + 1].copy())))
    return found


@by_model
@pytest.mark.parametrize(("double", "rescale", "masks"), [(True, 1e-3, False), (False, 1e-2, True), (True, None, True)])
def test_r2d2(model: ModelLike, double: bool, rescale: float | None, masks: bool) -> None:
    loss = R2D2Loss(double=double, rescale=rescale, spec=QSpec(dueling=True))
    policy, target = (cast("QPolicy", made(loss, model, seed)) for seed in (0, 1))
    batch = sampled(policy, masks=masks)

    def q_of(policy: QPolicy, obs: Tensor, state: Tensor) -> Tensor:
        features = remembered(policy.net.encoder, obs, state)
        advantages = policy.net.advantage(features)
        assert policy.net.value is not None
        return cast("Tensor", advantages - advantages.mean(1, keepdim=True) + policy.net.value(features))

    def h(x: float) -> float:
        return x if rescale is None else math.copysign(math.sqrt(abs(x) + 1) - 1, x) + rescale * x

    def h_inverse(x: float) -> float:
        if rescale is None:
            return x
        return math.copysign(((math.sqrt(1 + 4 * rescale * (abs(x) + 1 + rescale)) - 1) / (2 * rescale)) ** 2 - 1, x)

    total, counted, errors = 0.0, 0, np.zeros(len(batch))
    with torch.no_grad():
        for rows, obs, state in each_sequence(batch):
            online, other = q_of(policy, obs, state), q_of(target, obs, state)
            for place, row in enumerate(rows):
                there = place + int(batch["ahead"][row])
                choice = (online if double else other)[there]
                if masks:
                    choice = choice.masked_fill(~torch.from_numpy(batch["next_masks"][row].copy()), -math.inf)
                value = h_inverse(float(other[there, int(choice.argmax())]))
                wanted = h(float(batch["rewards"][row]) + float(batch["discounts"][row]) * value)
                errors[row] = error = abs(float(online[place, int(batch["actions"][row])]) - wanted)
                if not batch["burn_in"][row]:
                    counted += 1
                    total += float(batch["weights"][row]) * (0.5 * error**2 if error <= 1 else error - 0.5)
    found = loss.compute(policy, tensors(policy, batch), target=target, steps=0)
    assert float(found.total.detach()) == pytest.approx(total / counted, rel=2e-3)
    assert found.td_errors is not None
    kept = batch["mask"]
    np.testing.assert_allclose(found.td_errors.numpy()[kept], errors[kept], rtol=5e-3, atol=2e-3)
    columns = cast("Batch[Literal['mask', 'burn_in']]", batch)
    np.testing.assert_allclose(
        loss.priorities(batch, found.td_errors.numpy()), sequence_priorities(errors, columns, eta=0.9), rtol=5e-3, atol=2e-3
    )


@by_model
@pytest.mark.parametrize("masks", [False, True])
def test_rnnsac(model: ModelLike, masks: bool) -> None:
    """Discrete actions: expectations are exact, so that nothing is drawn."""
    loss = RNNSACLoss(temperature=0.3)
    policy, target = (cast("ActorQ", made(loss, model, seed)) for seed in (0, 1))
    batch = sampled(policy, masks=masks)

    def q_of(policy: ActorQ, obs: Tensor) -> Tensor:
        critics = policy.net.critics
        return cast("Tensor", critics.layers(remembered(critics.encoder, obs, None)).amin(0))

    def logp_of(obs: Tensor, state: Tensor, allowed: Array | None) -> Tensor:
        actor = policy.net.actor
        logits = actor.inputs(remembered(actor.encoder, obs, state))
        return (logits if allowed is None else logits.masked_fill(~torch.from_numpy(allowed), -1e9)).log_softmax(-1)

    critic_total, actor_total, counted = 0.0, 0.0, 0
    with torch.no_grad():
        for number, (rows, obs, state) in enumerate(each_sequence(batch)):
            allowed = np.concatenate([batch["masks"][rows], batch.finals["masks"][number : number + 1]]) if masks else None
            logp, other = logp_of(obs, state, allowed), q_of(target, obs)
            critics = policy.net.critics
            own = critics.layers(remembered(critics.encoder, obs, None))
            values = (logp.exp() * (other - 0.3 * logp)).sum(-1)
            for place, row in enumerate(rows):
                if batch["burn_in"][row]:
                    continue
                wanted = float(batch["rewards"][row]) + float(batch["discounts"][row]) * float(
                    values[place + int(batch["ahead"][row])]
                )
                taken = own[:, place, int(batch["actions"][row])]
                critic_total += float(batch["weights"][row]) * 0.5 * float((taken - wanted).square().sum())
                chances = logp[place].exp()
                actor_total -= float((chances * (own[:, place].amin(0) - 0.3 * logp[place])).sum())
                counted += 1
    found: dict[str, LossValue] = {
        name: each() for name, each in loss.losses(policy, tensors(policy, batch), target=target, steps=0).items()
    }
    assert float(found["critics"].total.detach()) == pytest.approx(critic_total / counted, rel=1e-3)
    assert float(found["actor"].total.detach()) == pytest.approx(actor_total / counted, rel=1e-3)


@by_model
def test_what_only_warms_up_changes_no_weight(model: ModelLike) -> None:
    """Whatever the rows before it, a step of burn-in contributes nothing to the gradient but through the state it leaves."""
    loss = R2D2Loss()
    policy = cast("QPolicy", made(loss, model))
    batch = sampled(policy)
    warm = batch["burn_in"]
    assert warm.any()
    others = dict(batch.columns)
    others["rewards"] = np.where(warm, np.float32(50), batch["rewards"])
    others["actions"] = np.where(warm, 0, batch["actions"])
    changed: Batch[str] = Batch(others, ends=batch.ends, finals=batch.finals)
    gradients = []
    for each in (batch, changed):
        learner = Learner(cast("QPolicy", made(loss, model)), loss, SGD(lr=1.0))
        gradients.append(learner.gradients(each)[0])
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
    assert np.abs(gradients[0]).max() > 1e-3


def test_padding_where_nothing_is_allowed_does_not_count_for_the_temperature() -> None:
    algorithm = RNNSAC(
        env="tflow/Doors-v0", num_envs=2, fragment=12, length=8, burn_in=4, learning_starts=50, batch=3, capacity=400,
        update_ratio=0.5, model=LSTM(4, MLP((8,))),
    )  # fmt: skip
    last = algorithm.run(stop=Stop(updates=20), seed=0).finish()
    assert last.training.skipped == 0
    assert 0 < last.training.latest["temperature"] < 1


def test_sequences_are_learned_from_without_a_memory_too() -> None:
    loss = R2D2Loss()
    policy = made(loss, MLP((6,)))
    buffer = SequenceBuffer(50, length=LENGTH, burn_in=BURN_IN, n_step=N_STEP, gamma=GAMMA)
    buffer.insert(pieces())
    outcome = Learner(policy, loss, SGD(lr=0.1)).train(buffer.sample(4))
    assert outcome.updates == 1
    assert outcome.td_errors is not None
    assert len(outcome.td_errors) == 4 * LENGTH


# --------------------------------------------------------------------------- what does not fit


def test_rows_and_sequences_do_not_mix() -> None:
    of_rows = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
    of_sequences = create_rollout_workers(env="CartPole-v1", loss=R2D2Loss())
    rows, sequences = create_replay_actors(), create_replay_actors(kind="sequences")
    wrong: list[tuple[Any, Any, str]] = [(of_rows, sequences, "next_obs"), (of_sequences, rows, "mask")]  # Any: the mistakes
    for workers, replay, missing in wrong:
        ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
        with pytest.raises(PlanError, match=missing):
            next(iter(ParallelReplay(replay).gather_sync().for_each(TrainOneStep(workers)).run()))


@pytest.mark.parametrize("loss", [DQNLoss(), SACLoss()])
@by_model
def test_a_memory_needs_sequences(loss: AnyLoss, model: ModelLike) -> None:
    with pytest.raises(PlanError, match=r"reads replayed rows, but a recurrent network is trained on sequences.*R2D2Loss"):
        Agent(loss, model=model)


def test_sentences() -> None:
    with pytest.raises(PlanError, match=r"R2D2Loss: distributions are not rescaled; with kind='quantile', say rescale=None"):
        R2D2Loss(spec=QSpec(kind="quantile"))
    with pytest.raises(PlanError, match="RNNSACLoss: eta must be from 0 to 1, got 2"):
        RNNSACLoss(eta=2)
    assert R2D2Loss(rescale=None, spec=QSpec(kind="quantile")).rescale is None
