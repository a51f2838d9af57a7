"""Parts of the weights: slices of one flat memory, each with its own loss, optimiser, clipping, update period and target rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tflow import Async, Batch, PlanError
from tflow.errors import TflowError
from tflow.losses import HardUpdate, Loss, LossValue, Part, Replayed, SoftUpdate
from tflow.models import PolicySpec
from tflow.optimizers import SGD, Adam, Optimizer
from tflow.rl.data.arrays import Array, Obs
from tflow.rl.learning.learner import Learner, gradients_of
from tflow.rl.policy.flat import FlatWeights
from tflow.rl.policy.heads import Head, head_for
from tflow.rl.policy.network import AnySpace
from tflow.rl.policy.network_spec import ModelLike
from tflow.rl.policy.policy import Acted, Policy
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.policy.tensors import Tensors
from tflow.schedules import Linear

NAMES = ("a", "b", "c", "d")
OBS, ACTIONS = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2)


@dataclass(frozen=True)
class ChainSpec(PolicySpec):
    """A policy whose parts feed each other: the outputs of each are the inputs of the next."""

    parts: tuple[str, ...] = ("a", "b")
    acting: tuple[str, ...] = ("b",)
    sizes: tuple[int, ...] = (4, 4)
    norms: bool = False

    def build(self, model: ModelLike, observation_space: AnySpace, action_space: AnySpace, device: str) -> Policy:
        return ChainPolicy(self, model, observation_space, action_space, device)


class Chain(nn.Module):
    def __init__(self, spec: ChainSpec) -> None:
        super().__init__()
        size = 3
        for name, width in zip(spec.parts, spec.sizes, strict=True):
            norm = [nn.BatchNorm1d(width)] if spec.norms else []
            setattr(self, name, nn.Sequential(nn.Linear(size, width), *norm, nn.Tanh()))
            size = width


class ChainPolicy(Policy):
    @property
    def options(self) -> ChainSpec:
        assert isinstance(self.spec, ChainSpec)
        return self.spec

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        return {name: (name,) for name in self.options.parts}

    @property
    def acting(self) -> Sequence[str]:
        return self.options.acting

    def make_head(self, action_space: AnySpace) -> Head:
        return head_for(action_space)

    def make_net(self) -> Chain:
        return Chain(self.options)

    def outputs(self, obs: Tensor) -> dict[str, Tensor]:
        found = {}
        for name in self.options.parts:
            obs = found[name] = getattr(self.module, name)(obs)
        return found

    def rows(
        self, obs: Obs, rng: np.random.Generator, *, state: Array, masks: Array | None = None, explore: bool = True
    ) -> Acted:
        raise NotImplementedError

    def values(self, obs: Obs, state: Array) -> Array:
        raise NotImplementedError

    def scores(self, obs: Obs) -> Array:
        raise NotImplementedError


@dataclass(frozen=True)
class ChainLoss(Loss[Replayed, Async]):
    """The loss of each part depends on all parts."""

    rules: Mapping[str, Part] = field(default_factory=lambda: {"a": Part(), "b": Part()})
    spec: ChainSpec = field(default=ChainSpec())
    asked: list[str] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)

    def policy(self) -> PolicySpec:
        return self.spec

    def parts(self) -> Mapping[str, Part]:
        return self.rules

    def losses(
        self, policy: Policy, batch: Tensors, /, *, target: Policy | None, steps: int
    ) -> Mapping[str, Callable[[], LossValue]]:
        return {name: lambda name=name: self.of(name, policy, batch) for name in self.rules}  # type: ignore[misc]  # bound now

    def of(self, name: str, policy: Policy, batch: Tensors) -> LossValue:
        assert isinstance(policy, ChainPolicy)
        self.asked.append(name)
        self.seen.append(float(policy.flat.parts[next(iter(self.rules))].parameter.detach().sum()))
        number = 1.0 + self.spec.parts.index(name)
        everything = torch.cat([each.flatten() for each in policy.outputs(batch["obs"]).values()])
        total = number * everything.square().sum() + everything.sum()
        return LossValue(total, {f"sum_{name}": everything.sum()}, td_errors=batch["obs"].sum(1).abs())


def rows(count: int = 6) -> Batch[str]:
    rng = np.random.default_rng(0)
    return Batch({"obs": rng.standard_normal((count, 3)).astype(np.float32)}, ends=np.arange(count))


def learner(loss: ChainLoss, optimizer: Optimizer | Mapping[str, Optimizer] | None = None, **options: float | None) -> Learner:
    made = make_policy(loss.policy(), "auto", OBS, ACTIONS, seed=3)
    return Learner(made, loss, optimizer or SGD(lr=0.01), **options)  # type: ignore[arg-type]  # max_grad_norm


def weights_of(made: Learner) -> dict[str, list[float]]:
    return {name: part.parameter.detach().tolist() for name, part in made.policy.flat.parts.items()}


@st.composite
def specs(draw: st.DrawFn) -> ChainSpec:
    count = draw(st.integers(1, 4))
    acting = draw(st.lists(st.sampled_from(NAMES[:count]), unique=True, max_size=count))
    sizes = tuple(draw(st.integers(1, 5)) for _ in range(count))
    return ChainSpec(NAMES[:count], tuple(acting), sizes, norms=draw(st.booleans()))


# ------------------------------------------------------------------- memory


@given(specs())
def test_a_part_is_a_slice_and_all_weights_survive(spec: ChainSpec) -> None:
    torch.manual_seed(1)
    plain = Chain(spec)
    before = {name: each.clone() for name, each in plain.state_dict().items()}
    flat = FlatWeights(plain, {name: (name,) for name in spec.parts}, spec.acting)
    for name, each in plain.state_dict().items():
        assert torch.equal(each, before[name])
    assert sum(part.parameter.numel() for part in flat.parts.values()) == flat.trainable
    start = flat.values.data_ptr()
    for part in flat.parts.values():
        assert start <= part.parameter.data_ptr() < start + 4 * flat.values.numel(), "parts own no memory"
    flat.values.add_(1.0)
    for name, each in plain.named_parameters():
        assert torch.equal(each, before[name] + 1)


@given(specs())
def test_acting_weights_are_enough_to_act_and_no_more(spec: ChainSpec) -> None:
    one, other = (make_policy(spec, "auto", OBS, ACTIONS, seed=seed) for seed in (0, 1))
    acting = spec.acting or spec.parts
    sent = one.flat.get(acting=True)
    parameters = sum(one.flat.parts[name].parameter.numel() + one.flat.parts[name].buffers.numel() for name in acting)
    assert sent.shape == (parameters,) == (one.flat.acting,)
    before = {name: part.parameter.detach().clone() for name, part in other.flat.parts.items()}
    other.flat.set(sent)
    for name, part in other.flat.parts.items():
        wanted = one.flat.parts[name].parameter if name in acting else before[name]
        assert torch.equal(part.parameter, wanted)
        if name in acting:
            assert torch.equal(part.buffers, one.flat.parts[name].buffers), "running statistics travel too"


def test_every_weight_belongs_to_one_part() -> None:
    net = Chain(ChainSpec())
    with pytest.raises(PlanError, match="belongs to no part"):
        FlatWeights(net, {"a": ("a",)})
    with pytest.raises(PlanError, match="belongs to the parts a and b"):
        FlatWeights(net, {"a": ("a", "b"), "b": ("b",)})
    with pytest.raises(PlanError, match="'c' is said to act, but the parts are a, b"):
        FlatWeights(net, {"a": ("a",), "b": ("b",)}, ("c",))


# ------------------------------------------------------------------- gradients


@given(specs(), st.data())
def test_the_gradient_of_a_loss_reaches_its_part_only(spec: ChainSpec, data: st.DataObject) -> None:
    trained = data.draw(st.lists(st.sampled_from(spec.parts), unique=True, min_size=1))
    loss = ChainLoss({name: Part() for name in trained}, spec)
    policy = make_policy(spec, "auto", OBS, ACTIONS, seed=2)
    gradient, stats = gradients_of(policy, loss, rows())
    assert set(stats) == {f"{name}_loss" for name in trained} | {f"sum_{name}" for name in trained}
    wanted = np.zeros_like(gradient)
    batch = Tensors.of(rows())
    at = 0
    for name, part in policy.flat.parts.items():
        size = part.parameter.numel()
        if name in trained:
            found = torch.autograd.grad(loss.of(name, policy, batch).total, part.layers)
            wanted[at : at + size] = torch.cat([each.flatten() for each in found]).numpy()
        at += size
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6)


def test_parts_are_trained_in_order_each_with_those_before_it_updated() -> None:
    loss = ChainLoss({"b": Part(), "a": Part()})
    made = learner(loss)
    before = float(made.policy.flat.parts["b"].parameter.detach().sum())
    made.train(rows())
    after = float(made.policy.flat.parts["b"].parameter.detach().sum())
    assert loss.asked == ["b", "a"]
    assert loss.seen == [before, after]
    assert before != after


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 12))
def test_a_part_is_trained_in_its_period_and_its_loss_not_computed_otherwise(one: int, other: int, updates: int) -> None:
    loss = ChainLoss({"a": Part(every=one), "b": Part(every=other)})
    made = learner(loss)
    for _ in range(updates):
        before = weights_of(made)
        loss.asked.clear()
        made.train(rows())
        due = [name for name, every in (("a", one), ("b", other)) if made.updates % every == 0]
        assert loss.asked == due
        after = weights_of(made)
        assert [name for name in "ab" if before[name] != after[name]] == due
    assert made.updates == updates


def test_each_part_has_its_own_optimiser_schedule_and_clipping() -> None:
    loss = ChainLoss()
    plain = learner(loss, SGD(lr=1.0))
    start = weights_of(plain)
    gradient, _ = plain.gradients(rows())
    split = plain.policy.flat.parts["b"].parameter.numel()
    slope = {"b": gradient[:split], "a": gradient[split:]}  # the part that acts comes first
    made = learner(loss, {"a": SGD(lr=Linear(1.0, 0.0, steps=100)), "b": Adam(lr=0.5)}, max_grad_norm={"a": 0.1})  # type: ignore[arg-type]  # by part
    made.apply(gradient, steps=50)
    moved = {name: np.array(weights_of(made)[name]) - np.array(start[name]) for name in "ab"}
    clipped = slope["a"] * (0.1 / np.linalg.norm(slope["a"]))
    np.testing.assert_allclose(moved["a"], -0.5 * clipped, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moved["b"], -0.5 * np.sign(slope["b"]), rtol=1e-3, atol=1e-4)


def test_a_gradient_of_one_part_that_is_not_finite_is_skipped_and_counted() -> None:
    made = learner(ChainLoss())
    gradient = np.zeros(made.policy.flat.trainable, np.float32)
    gradient[0] = np.nan
    assert not made.apply(gradient)
    assert (made.updates, made.rounds) == (0, 1)
    assert np.isfinite(made.policy.flat.get()).all()


# ------------------------------------------------------------------- targets


@given(st.floats(0.01, 1.0), st.integers(1, 4))
def test_targets_follow_by_the_rule_of_their_part(tau: float, every: int) -> None:
    spec = ChainSpec(("a", "b", "c"), ("a",), (4, 4, 2))
    loss = ChainLoss({"a": Part(target=SoftUpdate(tau)), "b": Part(target=HardUpdate(every)), "c": Part()}, spec)
    made = learner(loss)
    assert made.target is not None
    soft = np.array(weights_of(made)["a"])
    hard = weights_of(made)["b"]
    for update in range(1, 6):
        made.train(rows())
        soft = soft + tau * (np.array(weights_of(made)["a"]) - soft)
        hard = weights_of(made)["b"] if update % every == 0 else hard
        target = dict(made.target.module.named_parameters())
        found = torch.cat([each.flatten() for name, each in target.items() if name.startswith("a.")]).detach().numpy()
        np.testing.assert_allclose(found, soft, rtol=1e-4, atol=1e-6)
        assert torch.cat([each.flatten() for name, each in target.items() if name.startswith("b.")]).tolist() == hard
        shared = torch.cat([each.flatten() for name, each in target.items() if name.startswith("c.")]).tolist()
        assert shared == weights_of(made)["c"], "a part without a rule is that of the policy"


def test_without_a_rule_there_is_no_target() -> None:
    assert learner(ChainLoss()).target is None


@given(specs(), st.integers(0, 3), st.integers(0, 3))
def test_a_learner_goes_on_from_its_state_bit_for_bit(spec: ChainSpec, before: int, after: int) -> None:
    kinds = (Part(), Part(every=2, target=SoftUpdate(0.1)), Part(target=HardUpdate(2)), Part(every=3))
    rules = dict(zip(spec.parts, kinds, strict=False))
    one, other = (learner(ChainLoss(rules, spec), Adam(lr=0.01)) for _ in range(2))
    for _ in range(before):
        one.train(rows())
    other.load(one.state())
    for _ in range(after):
        assert one.train(rows()).stats == other.train(rows()).stats
    np.testing.assert_array_equal(one.policy.flat.get(), other.policy.flat.get())
    assert one.target is None or other.target is None or one.target.flat.get().tolist() == other.target.flat.get().tolist()


def test_a_loss_that_trains_a_part_which_is_not_there_is_refused() -> None:
    with pytest.raises(PlanError, match="ChainLoss trains the part 'z', but ChainPolicy has the parts b, a"):
        learner(ChainLoss({"z": Part()}))


def test_losses_and_parts_must_be_the_same() -> None:
    class Odd(ChainLoss):
        def parts(self) -> Mapping[str, Part]:
            return {"a": Part(), "b": Part()}

    with pytest.raises(TflowError, match=r"Odd: parts\(\) has a, b, but losses\(\) gives a\."):
        learner(Odd({"a": Part()})).train(rows())
