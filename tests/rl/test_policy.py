"""Policies: acting, flat weights, files, memory; and learners that train them."""

from __future__ import annotations

import json
import struct
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tflow import Batch, PlanError
from tflow.errors import CheckpointError
from tflow.losses import A3CLoss, DQNLoss
from tflow.models import ActorCriticSpec, QSpec
from tflow.optimizers import Adam, RMSprop
from tflow.rl.learning.learner import Learner
from tflow.rl.learning.optimizers import SGD, Optimizer
from tflow.rl.policy.flat import FlatWeights, tensor
from tflow.rl.policy.network_spec import LSTM, MLP, DictEncoder, ImpalaCNN, ModelLike, NatureCNN, SmallCNN
from tflow.rl.policy.policy import ActorCritic, Policy, QPolicy
from tflow.rl.policy.policy_spec import PolicySpec, make_policy
from tflow.rl.policy.saving import space_from_json, space_to_json
from tflow.rl.schedules import Linear

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
PICTURE = spaces.Box(0, 255, (4, 36, 36), np.uint8)
NESTED = spaces.Dict({"camera": PICTURE, "joints": BOX, "mode": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2)))})
SMALL = MLP((8,))
AnySpace = spaces.Space[Any]  # Any: whatever it holds


def policy(
    seen: AnySpace = BOX,
    acts: AnySpace | None = None,
    model: ModelLike = SMALL,
    spec: PolicySpec | None = None,
    seed: int = 0,
) -> Policy:
    return make_policy(spec or ActorCriticSpec(), model, seen, acts or spaces.Discrete(4), seed=seed)


@pytest.mark.parametrize(
    ("seen", "acts", "model", "spec"),
    [
        (BOX, spaces.Discrete(4), MLP((8,)), ActorCriticSpec()),
        (BOX, spaces.Discrete(4, start=2), MLP((8,)), ActorCriticSpec(shared=True)),
        (BOX, spaces.MultiDiscrete([2, 3]), MLP((8,)), ActorCriticSpec()),
        (BOX, spaces.MultiBinary(3), MLP((8,)), ActorCriticSpec()),
        (BOX, spaces.Box(-2.0, 2.0, (2,), np.float32), MLP((8,)), ActorCriticSpec()),
        (BOX, spaces.Box(-2.0, 2.0, (2,), np.float32), MLP((8,)), ActorCriticSpec(squash=True)),
        (spaces.Discrete(5), spaces.Discrete(2), "auto", ActorCriticSpec()),
        (NESTED, spaces.Discrete(2), "auto", ActorCriticSpec(shared=True)),
        (NESTED, spaces.Discrete(2), DictEncoder({"camera": SmallCNN(16)}, MLP((8,))), QSpec(dueling=True)),
        (PICTURE, spaces.Discrete(6), NatureCNN(16), QSpec(kind="categorical", atoms=11)),
        (PICTURE, spaces.Discrete(6), ImpalaCNN((4,), 8), ActorCriticSpec(shared=True)),
        (BOX, spaces.Discrete(4), LSTM(5, MLP((8,))), ActorCriticSpec()),
        (BOX, spaces.Discrete(4), MLP((8,)), QSpec(kind="quantile", atoms=7, noisy=True)),
    ],
)
def test_a_policy_acts_within_its_space_and_survives_a_file(
    seen: AnySpace, acts: AnySpace, model: ModelLike, spec: PolicySpec, tmp_path: Path
) -> None:
    made = policy(seen, acts, model, spec)
    seen.seed(1)
    made.save(tmp_path / "deep" / "p.safetensors")
    again = Policy.load(tmp_path / "deep" / "p.safetensors")
    assert type(again) is type(made)
    np.testing.assert_array_equal(again.flat.get(), made.flat.get())
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["p.safetensors"], "nothing is left beside it"
    for first in (True, False, False):
        obs = seen.sample()
        action = made.act(obs, first=first)
        assert acts.contains(action), action
        np.testing.assert_array_equal(again.act(obs, first=first), action)
        assert acts.contains(made.copy().act(obs, deterministic=False))


def test_the_weights_are_a_function_of_the_seed_and_leave_the_dice_of_torch_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, same, other = policy(seed=1), policy(seed=1), policy(seed=2)
    assert bool((torch.random.get_rng_state() == before).all())
    np.testing.assert_array_equal(one.flat.get(), same.flat.get())
    assert (one.flat.get() != other.flat.get()).any()


class Odd(nn.Module):
    """A user's own encoder, with a buffer, a tied weight and something that is not saved."""

    running: Tensor

    def __init__(self, observation_space: AnySpace) -> None:
        super().__init__()
        self.features = 3
        self.layer = nn.Linear(3, 3)
        self.twin = self.layer
        self.register_buffer("running", torch.full((3,), 0.5))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("noise", torch.ones(3), persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        made: Tensor = self.layer(obs) + self.running
        return made


def test_weights_are_one_piece_of_memory_that_the_module_uses(tmp_path: Path) -> None:
    made = policy(model=Odd, spec=ActorCriticSpec(shared=True))
    flat = made.flat.get()
    assert len(flat) == sum(part.numel() for part in made.module.parameters()) + 3, "the buffer goes along, the rest does not"
    x = torch.ones(2, 3)
    before = made.module(x)[0].detach().clone()
    made.flat.set(flat * 2)
    assert (made.module(x)[0] != before).any()
    made.flat.set(flat)
    assert bool((made.module(x)[0] == before).all())
    loss = made.module(x)[1].sum()
    gradient = made.flat.gradients_of(loss)
    assert gradient.abs().sum() > 0
    assert all(part.grad is not None for part in made.module.parameters())
    with pytest.raises(ValueError, match="weights, got"):
        made.flat.set(flat[1:])
    made.save(tmp_path / "odd.safetensors")
    with pytest.raises(CheckpointError, match="was your own module; pass it again as model="):
        Policy.load(tmp_path / "odd.safetensors")
    np.testing.assert_array_equal(Policy.load(tmp_path / "odd.safetensors", model=Odd).flat.get(), flat)
    with pytest.raises(CheckpointError, match="do not fit the model"):
        Policy.load(tmp_path / "odd.safetensors", model=MLP((8,)))


def test_modules_that_cannot_be_flat_are_refused() -> None:
    with pytest.raises(PlanError, match="one dtype and be on one device"):
        FlatWeights(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()))
    with pytest.raises(PlanError, match="there must be some; got none"):
        FlatWeights(nn.ReLU())


def test_a_tensor_over_a_read_only_array_shares_its_memory() -> None:
    array = np.arange(6, dtype=np.float32)
    array.flags.writeable = False
    assert tensor(array).data_ptr() == array.ctypes.data
    assert tensor(array[::2]).tolist() == [0, 2, 4]
    assert tensor(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nonsense", "is not a policy saved by tflow"),
        (b"", "is not a policy saved by tflow"),
        ({"other": "x"}, "it has weights, but no description of it"),
        ({"tflow": json.dumps({"format": 1})}, "is damaged: its description of the policy cannot be read"),
        ({"tflow": "[]"}, "is damaged: its description of the policy cannot be read"),
        ({"tflow": json.dumps({"format": 99})}, "has format 99; this version reads format 1"),
        (
            {"tflow": json.dumps({"format": 1, "model": {"class": "os.system"}, "policy": {"class": "QSpec"}})},
            r"describes a os\.system, which this version does not know",
        ),
        (
            {"tflow": json.dumps({"format": 1, "model": {"class": "MLP", "width": 3}, "policy": {"class": "QSpec"}})},
            "describes a MLP that this version cannot make",
        ),
    ],
)
def test_files_that_are_no_policies_are_refused(content: bytes | dict[str, str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    if isinstance(content, dict):
        header = json.dumps({"__metadata__": content}).encode()
        content = struct.pack("<Q", len(header)) + header
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        Policy.load(path)
    with pytest.raises(CheckpointError, match="There is no file"):
        Policy.load(tmp_path / "nothing")


@pytest.mark.parametrize("space", [BOX, PICTURE, NESTED, spaces.Box(-np.inf, np.array([1.0, np.inf]), (2,), np.float64)])
def test_spaces_survive_json(space: AnySpace) -> None:
    assert space_from_json(json.loads(json.dumps(space_to_json(space)))) == space


def test_the_parts_of_a_dictionary_keep_their_order(tmp_path: Path) -> None:
    seen = spaces.Dict(OrderedDict([("b", BOX), ("a", BOX)]))
    made = policy(seen, model="auto")
    made.save(tmp_path / "p")
    obs = {"a": np.full(3, 0.5, np.float32), "b": np.full(3, -1.0, np.float32)}
    again = Policy.load(tmp_path / "p")
    row = made.layout.row(obs)
    np.testing.assert_array_equal(again.scores(again.layout.row(obs)), made.scores(row))


def test_spaces_that_cannot_be_saved_are_named() -> None:
    with pytest.raises(CheckpointError, match="A Text space cannot be saved"):
        space_to_json(spaces.Text(3))
    with pytest.raises(CheckpointError, match="describes a Graph space"):
        space_from_json({"kind": "Graph"})


# --------------------------------------------------------------------------- learners


def batch(rows: int = 12, seed: int = 0) -> Batch[str]:
    rng = np.random.default_rng(seed)
    return Batch(
        {
            "obs": rng.random((rows, 3), dtype=np.float32),
            "actions": rng.integers(4, size=rows),
            "rewards": rng.random(rows, dtype=np.float32),
            "terminated": np.zeros(rows, bool),
            "values": rng.random(rows, dtype=np.float32),
            "logp": -np.ones(rows, np.float32),
        },
        ends=np.array([rows // 2 - 1, rows - 1]),
        finals={"values": np.ones(2, np.float32), "obs": np.zeros((2, 3), np.float32)},
    )


@pytest.mark.parametrize(
    ("optimizer", "torchs"),
    [
        (Adam(lr=0.01), partial(torch.optim.Adam, lr=0.01, eps=1e-5)),
        (Adam(lr=0.01, weight_decay=0.1), partial(torch.optim.AdamW, lr=0.01, eps=1e-5, weight_decay=0.1)),
        (RMSprop(lr=0.01), partial(torch.optim.RMSprop, lr=0.01, alpha=0.99, eps=1e-5)),
        (SGD(lr=0.1, momentum=0.9), partial(torch.optim.SGD, lr=0.1, momentum=0.9)),
    ],
)
def test_one_flat_step_is_what_torch_does_layer_by_layer(
    optimizer: Optimizer, torchs: Callable[[list[nn.Parameter]], torch.optim.Optimizer]
) -> None:
    learner = Learner(policy(), A3CLoss(), optimizer)
    twin = policy()
    parts = [nn.Parameter(part.detach().clone()) for part in twin.module.parameters()]
    reference = torchs(parts)
    for _ in range(3):
        gradient, _ = learner.gradients(batch())
        at = 0
        for part in parts:
            part.grad = torch.from_numpy(gradient[at : at + part.numel()].copy()).view_as(part)
            at += part.numel()
        reference.step()
        learner.apply(gradient)
    expected = np.concatenate([part.detach().numpy().ravel() for part in parts])
    np.testing.assert_allclose(learner.policy.flat.get(), expected, rtol=1e-5, atol=1e-7)


def test_training_is_clipped_and_scheduled() -> None:
    learner = Learner(policy(), A3CLoss(), SGD(lr=Linear(1.0, 0.0, steps=100)), max_grad_norm=1.0)
    before = learner.weights
    gradient = np.full(learner.policy.flat.trainable, 3.0, np.float32)
    learner.apply(gradient, steps=50)
    moved = learner.weights - before
    assert np.linalg.norm(moved) == pytest.approx(0.5, rel=1e-5), "a norm of 1, at half the rate"
    learner.apply(gradient, steps=100)
    np.testing.assert_array_equal(learner.weights, before + moved)


@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(1, 14))
def test_every_row_is_used_once_per_epoch(epochs: int, minibatch: int) -> None:
    seen: list[float] = []

    class Spy(A3CLoss):
        def compute(self, policy: Any, batch: Any, /, *, target: Any, steps: int) -> Any:  # Any: as it comes
            seen.extend(batch["rewards"].tolist())
            return super().compute(policy, batch, target=target, steps=steps)

    rows = batch()
    outcome = Learner(policy(), Spy(), Adam()).train(rows, epochs=epochs, minibatch=minibatch)
    assert sorted(seen) == sorted(rows["rewards"].tolist() * epochs)
    assert outcome.updates == epochs * -(-12 // minibatch)
    assert outcome.rows == 12


def test_nothing_comes_of_an_empty_batch() -> None:
    learner = Learner(policy(), A3CLoss(), Adam())
    before = learner.weights
    outcome = learner.train(Batch({}))
    assert (outcome.rows, outcome.updates) == (0, 0)
    np.testing.assert_array_equal(learner.weights, before)


def test_a_learner_goes_on_exactly_from_its_state() -> None:
    one = Learner(policy(spec=QSpec()), DQNLoss(), Adam(lr=0.01), seed=3)
    data = replayed()
    one.train(data, minibatch=4)
    one.update_target(every=1)
    other = Learner(policy(spec=QSpec(), seed=9), DQNLoss(), Adam(lr=0.01), seed=8)
    other.load(one.state())
    for learner in (one, other):
        learner.train(data, minibatch=4)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.updates == other.updates


def replayed(rows: int = 12) -> Batch[str]:
    rng = np.random.default_rng(1)
    return Batch(
        {
            "obs": rng.random((rows, 3), dtype=np.float32),
            "next_obs": rng.random((rows, 3), dtype=np.float32),
            "actions": rng.integers(4, size=rows),
            "rewards": rng.random(rows, dtype=np.float32),
            "terminated": np.zeros(rows, bool),
            "discounts": np.full(rows, 0.9, np.float32),
            "weights": rng.random(rows, dtype=np.float32),
            "ids": np.arange(rows),
        }
    )


def test_the_target_network_follows_hard_or_softly() -> None:
    learner = Learner(policy(spec=QSpec()), DQNLoss(), Adam(lr=0.05))
    assert learner.target is not None
    start = learner.weights
    learner.train(replayed())
    np.testing.assert_array_equal(learner.target.flat.get(), start)
    assert not learner.update_target(every=2)
    assert learner.update_target(every=1, tau=0.25)
    np.testing.assert_allclose(learner.target.flat.get(), start + 0.25 * (learner.weights - start), rtol=1e-5, atol=1e-7)
    learner.train(replayed())
    learner.update_target()
    np.testing.assert_array_equal(learner.target.flat.get(), learner.weights)


def test_noisy_layers_have_new_noise_in_every_update_and_the_same_in_every_run() -> None:
    def trained() -> Learner:
        learner = Learner(policy(spec=QSpec(noisy=True)), DQNLoss(), Adam(lr=0.01))
        for _ in range(3):
            learner.train(replayed(), minibatch=4)
        return learner

    torch.manual_seed(1)
    one = trained()
    torch.manual_seed(2)
    np.testing.assert_array_equal(trained().weights, one.weights)
    assert one.target is not None
    noises = []
    for _ in range(2):
        one.train(replayed())
        noises.append([part.clone() for name, part in one.policy.module.named_buffers() if name.endswith("noise_in")])
    assert all(bool((before != after).any()) for before, after in zip(*noises, strict=True))
    np.testing.assert_array_equal(
        Learner(policy(spec=QSpec(noisy=True)), DQNLoss(), Adam()).weights, policy(spec=QSpec(noisy=True)).flat.get()
    )


def test_making_a_target_network_leaves_the_dice_of_torch_alone() -> None:
    made = policy(spec=QSpec())
    before = torch.random.get_rng_state()
    Learner(made, DQNLoss(), Adam())
    assert bool((torch.random.get_rng_state() == before).all())


def test_the_kind_of_policy_must_fit_the_loss() -> None:
    with pytest.raises(PlanError, match="DQNLoss: the policy must be one with Q-values"):
        Learner(policy(), DQNLoss(), Adam()).train(replayed())
    with pytest.raises(
        PlanError, match="A3CLoss: the policy must be an actor-critic, with an action distribution and a state value"
    ):
        Learner(policy(spec=QSpec()), A3CLoss(), Adam()).train(batch())
    assert isinstance(policy(), ActorCritic)
    assert isinstance(policy(spec=QSpec()), QPolicy)


def test_a_policy_with_a_memory_is_trained_on_sequences() -> None:
    learner = Learner(policy(model=LSTM(4, MLP((8,)), length=4)), A3CLoss(), Adam(lr=0.01))
    data = batch().with_columns({"state": np.zeros((12, learner.policy.state_size), np.float32)})
    before = learner.weights
    outcome = learner.train(data, minibatch=6)
    assert outcome.updates == 2  # 4 sequences, two of 4 rows and two of 2: a minibatch of 6 rows holds two
    whole = Learner(policy(model=LSTM(4, MLP((8,)))), A3CLoss(), Adam(lr=0.01))
    assert whole.train(data, minibatch=6).updates == 2  # no piece is longer than 6, so nothing is padded
    assert (learner.weights != before).any()
    with pytest.raises(PlanError, match="is trained on sequences"):
        from tflow.rl.policy.tensors import Tensors

        learner.policy.evaluate(Tensors.of(data))  # type: ignore[attr-defined]  # an actor-critic


@pytest.mark.parametrize(
    ("seen", "model", "shared"),
    [
        (BOX, "auto", False),
        (PICTURE, "auto", True),
        (PICTURE, LSTM(4, ImpalaCNN((4,), 8)), True),
        (PICTURE, MLP((8,)), False),
        (NESTED, "auto", False),
    ],
)
def test_images_are_seen_once_for_actions_and_values(seen: Any, model: ModelLike, shared: bool) -> None:  # Any: a space
    made = make_policy(ActorCriticSpec(), model, seen, spaces.Discrete(2))
    assert isinstance(made, ActorCritic)
    assert (made.net.value_encoder is None) is shared
