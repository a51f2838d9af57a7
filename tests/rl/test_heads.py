"""Heads against torch.distributions, masks, squashed densities, and the numpy way to draw."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor, distributions

from tflow.errors import PlanError, TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.policy.heads import Head, SquashedGaussian, head_for

AnySpace = spaces.Space[Any]  # Any: what a space holds is known only at run time
BOX = spaces.Box(-2.0, 3.0, (3,), np.float32)
SPACES: dict[str, AnySpace] = {
    "discrete": spaces.Discrete(4, start=-1),
    "multi_discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi_binary": spaces.MultiBinary(3),
    "box": BOX,
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """On small tensors, threads that wait for each other take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def f32(values: object) -> Array:
    return np.array(values, np.float32)


def reference(name: str, inputs: Tensor) -> distributions.Distribution:
    """The same distribution, by torch."""
    if name == "discrete":
        return distributions.Categorical(logits=inputs, validate_args=False)
    if name == "multi_binary":
        return distributions.Independent(distributions.Bernoulli(logits=inputs, validate_args=False), 1)
    mean, log_std = inputs.chunk(2, -1)
    return distributions.Independent(distributions.Normal(mean, log_std.exp()), 1)


def parts(inputs: Tensor) -> list[distributions.Categorical]:
    return [distributions.Categorical(logits=part, validate_args=False) for part in torch.split(inputs, [3, 2, 4], -1)]


def draws(width: int, *, rows: int = 5) -> st.SearchStrategy[Array]:
    return hnp.arrays(np.float64, (rows, width), elements=st.floats(-4, 4))


def gradient(of: Callable[[Tensor], Tensor], at: Array) -> Array:
    inputs = torch.tensor(at, requires_grad=True)
    (made,) = torch.autograd.grad(of(inputs).sum(), inputs)
    return np.asarray(made)


def compose(second: Callable[[Tensor], Tensor], first: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda inputs: second(first(inputs))


def same(ours: Callable[[Tensor], Tensor], theirs: Callable[[Tensor], Tensor], at: Array) -> None:
    """Values and gradients agree."""
    inputs = torch.tensor(at)
    torch.testing.assert_close(ours(inputs), theirs(inputs), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient(ours, at), gradient(theirs, at), rtol=1e-7, atol=1e-9)


# --------------------------------------------------------------------------- against torch


@pytest.mark.parametrize("name", ["discrete", "multi_binary", "box"])
@given(data=st.data())
def test_values_and_gradients_are_those_of_torch(name: str, data: st.DataObject) -> None:
    head = head_for(SPACES[name])
    old, new = data.draw(draws(head.inputs)), data.draw(draws(head.inputs))
    actions = head.sample(torch.tensor(old), torch.Generator().manual_seed(0))

    def logp(inputs: Tensor) -> Tensor:
        return reference(name, inputs).log_prob(actions if name == "discrete" else actions.double())

    same(lambda inputs: head.logp(inputs, actions), logp, new)
    same(head.entropy, lambda inputs: reference(name, inputs).entropy(), new)
    fixed = torch.tensor(old)
    divergence = distributions.kl_divergence
    same(lambda inputs: head.kl(fixed, inputs), lambda inputs: divergence(reference(name, fixed), reference(name, inputs)), new)
    same(lambda inputs: head.kl(inputs, fixed), lambda inputs: divergence(reference(name, inputs), reference(name, fixed)), new)


@given(draws(9), draws(9))
def test_several_choices_are_those_of_torch(old: Array, new: Array) -> None:
    head = head_for(SPACES["multi_discrete"])
    actions = head.sample(torch.tensor(old), torch.Generator().manual_seed(0))
    assert (actions < torch.tensor([3, 2, 4])).all()
    choices = actions.unbind(-1)

    def logp(inputs: Tensor) -> Tensor:
        return torch.stack([part.log_prob(choice) for part, choice in zip(parts(inputs), choices, strict=True)]).sum(0)  # type: ignore[no-untyped-call]  # torch has no types there

    def kl(inputs: Tensor) -> Tensor:
        pairs = zip(parts(torch.tensor(old)), parts(inputs), strict=True)
        return torch.stack([distributions.kl_divergence(before, after) for before, after in pairs]).sum(0)

    same(lambda inputs: head.logp(inputs, actions), logp, new)
    same(head.entropy, lambda inputs: torch.stack([part.entropy() for part in parts(inputs)]).sum(0), new)  # type: ignore[no-untyped-call]  # as above
    same(lambda inputs: head.kl(torch.tensor(old), inputs), kl, new)


@given(draws(6), draws(6))
def test_squashed_log_densities_are_those_of_torch(values: Array, at: Array) -> None:
    head = head_for(BOX, squash=True)
    actions = torch.tensor(values[:, :3]).tanh()

    def theirs(inputs: Tensor) -> Tensor:
        mean, log_std = inputs.chunk(2, -1)
        tanh = distributions.TransformedDistribution(
            distributions.Normal(mean, log_std.clamp(-20, 2).exp()), [distributions.TanhTransform()]
        )
        log_prob: Tensor = tanh.log_prob(actions)  # type: ignore[no-untyped-call]  # torch has no types there
        return log_prob.sum(-1)

    same(lambda inputs: head.logp(inputs, actions), theirs, at)


@pytest.mark.parametrize("squash", [False, True])
def test_gradients_flow_through_samples_of_continuous_actions(squash: bool) -> None:
    head = head_for(BOX, squash=squash, predict_std=True)
    at = np.zeros((1, 6)) + 0.3
    flow = gradient(lambda inputs: head.sample(inputs, torch.Generator().manual_seed(1)), at)
    step = 1e-6
    for column in range(6):
        moved = at.copy()
        moved[0, column] += step
        before, after = (head.sample(torch.tensor(x), torch.Generator().manual_seed(1)).sum() for x in (at, moved))
        assert flow[0, column] == pytest.approx(float((after - before) / step), abs=1e-5)


# --------------------------------------------------------------------------- masks


@given(draws(4), draws(4), hnp.arrays(np.bool_, (5, 4)))
def test_masked_actions_have_no_probability_and_all_sums_stay_finite(old: Array, new: Array, masks: Array) -> None:
    masks[:, 1] = True
    head, allowed = head_for(SPACES["discrete"]), torch.tensor(masks)
    inputs = head.masked(torch.tensor(new), allowed)
    probabilities = torch.stack([head.logp(inputs, torch.full((5,), action)).exp() for action in range(4)], -1)
    assert (probabilities[~allowed] == 0).all()
    assert probabilities[allowed].gt(0).all()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(5, dtype=torch.float64))
    among_allowed = [distributions.Categorical(logits=torch.tensor(row[mask])) for row, mask in zip(new, masks, strict=True)]
    torch.testing.assert_close(head.entropy(inputs), torch.stack([one.entropy() for one in among_allowed]))  # type: ignore[no-untyped-call]  # torch has no types there

    def kl(inputs: Tensor) -> Tensor:
        return head.kl(head.masked(torch.tensor(old), allowed), inputs)

    for value in (head.entropy, kl):
        assert torch.isfinite(value(inputs)).all()
        flow = gradient(compose(value, lambda raw: head.masked(raw, allowed)), new)
        assert np.isfinite(flow).all()
        assert (flow[~masks] == 0).all()


@given(st.integers(0, 2**32), hnp.arrays(np.bool_, (64, 9)))
def test_masked_actions_are_never_drawn(seed: int, masks: Array) -> None:
    masks[:, [0, 3, 5]] = True
    head = head_for(SPACES["multi_discrete"])
    inputs = np.random.default_rng(seed).normal(size=(64, 9)).astype(np.float32)
    by_torch = head.sample(head.masked(torch.tensor(inputs), torch.tensor(masks)), torch.Generator().manual_seed(seed)).numpy()
    by_numpy, logp = head.sample_numpy(inputs, np.random.default_rng(seed), masks)
    for actions in (by_torch, by_numpy):
        assert np.take_along_axis(masks, actions + np.array([0, 3, 5]), axis=1).all()
    with_masks = head.masked(torch.tensor(inputs), torch.tensor(masks))
    np.testing.assert_allclose(logp, head.logp(with_masks, torch.tensor(by_numpy)), rtol=1e-5, atol=1e-5)


class NoWaiting(np.random.Generator):
    """A generator whose exponential numbers are all zero, which happens about once in 2 ** 53 draws."""

    def standard_exponential(self, size: Any = None, *_: Any, **__: Any) -> Any:  # Any: as numpy declares it, with many overloads
        return np.zeros(size)


def test_a_masked_action_is_not_drawn_even_if_its_wait_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = np.array([[False, True], [True, False]])
    head = head_for(spaces.Discrete(2))
    actions, _ = head.sample_numpy(np.zeros((2, 2), np.float32), NoWaiting(np.random.PCG64(0)), masks)
    assert actions.tolist() == [1, 0]
    monkeypatch.setattr(Tensor, "exponential_", lambda waits, generator: waits.zero_())
    assert head.sample(head.masked(torch.zeros(2, 2), torch.tensor(masks))).tolist() == [1, 0]


def test_masks_that_do_not_fit_are_refused() -> None:
    rng, inputs = np.random.default_rng(0), np.zeros((2, 4), np.float32)
    discrete, box = head_for(SPACES["discrete"]), head_for(BOX)
    with pytest.raises(TflowError, match="a row allows no action at all"):
        discrete.sample_numpy(inputs, rng, np.array([[True] * 4, [False] * 4]))
    with pytest.raises(TflowError, match="a row allows no action at all"):
        head_for(SPACES["multi_discrete"]).sample_numpy(
            np.zeros((1, 9), np.float32), rng, np.array([[True] * 3 + [False] * 2 + [True] * 4])
        )
    with pytest.raises(TflowError, match=r"shape \(2, 4\), got shape \(2, 3\)"):
        discrete.sample_numpy(inputs, rng, np.ones((2, 3), np.bool_))
    with pytest.raises(TflowError, match=r"shape \(2, 4\), got shape \(1, 4\)"):
        discrete.masked(torch.zeros(2, 4), torch.ones(1, 4, dtype=torch.bool))
    for head in (box, head_for(BOX, squash=True), head_for(SPACES["multi_binary"])):
        with pytest.raises(TflowError, match="need a Discrete or MultiDiscrete"):
            head.masked(torch.zeros(2, 6), torch.ones(2, 6, dtype=torch.bool))
        with pytest.raises(TflowError, match="need a Discrete or MultiDiscrete"):
            head.sample_numpy(np.zeros((2, head.inputs), np.float32), rng, np.ones((2, head.inputs), np.bool_))


# --------------------------------------------------------------------------- squashed


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (1.5, -1.0), (-0.5, 0.7), (3.0, -2.0), (0.0, 1.0)])
def test_squashed_densities_integrate_to_one_and_entropies_are_their_integrals(mean: float, log_std: float) -> None:
    head = head_for(spaces.Box(-1, 1, (1,)), squash=True)
    # Places that are dense towards both ends, where the density may grow without bound.
    grid = torch.linspace(-15, 15, 100_001, dtype=torch.float64)
    actions = grid.tanh()
    inputs = torch.tensor([mean, log_std], dtype=torch.float64)
    logp = head.logp(inputs.expand(len(actions), 2), actions.unsqueeze(1))
    assert float(torch.trapezoid(logp.exp(), actions)) == pytest.approx(1, abs=1e-6)
    entropy = float(torch.trapezoid(-logp * logp.exp(), actions))
    assert float(head.entropy(inputs)) == pytest.approx(entropy, abs=1e-5)


@pytest.mark.parametrize(("log_std", "error"), [(-2.0, 1e-6), (1.0, 1e-6), (2.0, 2e-4)])
@pytest.mark.parametrize("mean", [0.0, 0.7, 3.0])
def test_entropies_of_squashed_actions_are_as_exact_as_promised(mean: float, log_std: float, error: float) -> None:
    normal = torch.linspace(-9, 9, 200_001, dtype=torch.float64)
    density = torch.exp(-0.5 * normal.square()) / math.sqrt(2 * math.pi)
    values = mean + math.exp(log_std) * normal
    log_slope = torch.trapezoid(density * torch.log(1 / values.cosh().square()), normal)
    exact = 0.5 * math.log(2 * math.pi * math.e) + log_std + float(log_slope)
    head = head_for(spaces.Box(-1, 1, (1,)), squash=True)
    assert float(head.entropy(torch.tensor([mean, log_std], dtype=torch.float64))) == pytest.approx(exact, abs=error)


def test_squashed_log_densities_are_exact_where_tanh_is_flat() -> None:
    head = head_for(spaces.Box(-1, 1, (1,)), squash=True)
    inputs = torch.tensor([[12.0, -3.0]])
    actions, logp = head.sample_logp(inputs, torch.Generator().manual_seed(0))
    assert float(actions) == 1.0  # no float32 is nearer
    exact, exact_logp = head.sample_logp(inputs.double(), torch.Generator().manual_seed(0))
    assert torch.isfinite(head.logp(inputs, actions)).all()
    assert float(exact) < 1.0
    # log density of the normal at its mean, less the log slope of tanh at 12, up to the noise of a few standard deviations
    assert float(logp) == pytest.approx(3 - 0.5 * math.log(2 * math.pi) + 24 - math.log(4), abs=6)
    torch.testing.assert_close(exact_logp, head.logp(inputs.double(), exact), rtol=1e-4, atol=1e-3)


def test_divergences_do_not_change_by_squashing() -> None:
    plain, squashed = head_for(BOX, rescale=True, predict_std=True), head_for(BOX, squash=True)
    old, new = torch.randn(2, 7, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(squashed.kl(old, new), plain.kl(old, new))
    torch.testing.assert_close(squashed.mode(new), plain.mode(new).tanh())


def test_a_predicted_spread_is_bounded_and_a_free_one_is_not() -> None:
    far = torch.tensor([[0.0, 50.0], [0.0, -50.0]])
    one = spaces.Box(-1, 1, (1,))
    constant = 0.5 + 0.5 * math.log(2 * math.pi)
    assert head_for(one, predict_std=True).entropy(far).tolist() == pytest.approx([2 + constant, -20 + constant])
    assert head_for(one).entropy(far).tolist() == pytest.approx([50 + constant, -50 + constant])
    assert head_for(one, log_std_range=(-1, 1)).entropy(far).tolist() == pytest.approx([1 + constant, -1 + constant])
    wide, _ = head_for(one, predict_std=True).sample_numpy(f32([[0, 50]] * 1000), np.random.default_rng(0))
    assert wide.std() == pytest.approx(math.exp(2), rel=0.1)


# --------------------------------------------------------------------------- numpy


def chi_square(counts: Array, probabilities: Array) -> float:
    expected = counts.sum() * probabilities
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("masked", [False, True])
def test_frequencies_match_probabilities(masked: bool) -> None:
    head, rows = head_for(spaces.Discrete(6)), 60_000
    logits = f32([0.5, -1.0, 2.0, 0.0, 1.0, -0.3])
    mask = np.array([True, True, False, True, True, True]) if masked else np.ones(6, np.bool_)
    weights = np.exp(logits, dtype=np.float64) * mask
    probabilities = (weights / weights.sum())[mask]
    inputs, masks = np.tile(logits, (rows, 1)), np.tile(mask, (rows, 1))
    by_numpy, _ = head.sample_numpy(inputs, np.random.default_rng(0), masks if masked else None)
    given_torch = head.masked(torch.tensor(inputs), torch.tensor(masks)) if masked else torch.tensor(inputs)
    by_torch = head.sample(given_torch, torch.Generator().manual_seed(0)).numpy()
    for actions in (by_numpy, by_torch):
        counts = np.bincount(actions, minlength=6)
        assert counts[~mask].sum() == 0
        assert chi_square(counts[mask], probabilities) < 20.5  # the 0.999 quantile with 5 degrees of freedom


def test_normal_and_binary_draws_have_the_right_moments() -> None:
    normal, binary = np.tile(f32([1, -2, 0, 0, -1, 0.5]), (100_000, 1)), np.tile(f32([0, 2, -1]), (100_000, 1))
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    head = head_for(BOX)
    for drawn in (head.sample_numpy(normal, rng)[0], head.sample(torch.tensor(normal), generator).numpy()):
        np.testing.assert_allclose(drawn.mean(axis=0), [1, -2, 0], atol=0.02)
        np.testing.assert_allclose(drawn.std(axis=0), np.exp([0, -1, 0.5]), rtol=0.01)
    head = head_for(SPACES["multi_binary"])
    for drawn in (head.sample_numpy(binary, rng)[0], head.sample(torch.tensor(binary), generator).numpy()):
        np.testing.assert_allclose(drawn.mean(axis=0), 1 / (1 + np.exp([0, -2, 1])), atol=0.01)


HEADS: dict[str, Head] = {name: head_for(space) for name, space in SPACES.items()} | {
    "predicted": head_for(BOX, predict_std=True),
    "squashed": head_for(BOX, squash=True),
}


@pytest.mark.parametrize("name", HEADS)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 70))
def test_numpy_log_probabilities_are_those_of_torch(name: str, seed: int, rows: int) -> None:
    head, rng = HEADS[name], np.random.default_rng(seed)
    inputs = np.clip(rng.normal(size=(rows, head.inputs)), -1, 0.5).astype(np.float32)
    kept = inputs.copy()
    actions, logp = head.sample_numpy(inputs, rng)
    assert (inputs == kept).all()
    assert logp.shape == (rows,)
    assert logp.dtype == np.float32
    by_torch = head.sample(torch.tensor(inputs), torch.Generator().manual_seed(seed))
    assert actions.shape == tuple(by_torch.shape)
    assert torch.tensor(actions).dtype == by_torch.dtype
    near = (
        np.abs(actions) < 0.999 if name == "squashed" else np.ones(actions.shape, np.bool_)
    )  # beyond, float32 inverts tanh badly
    fine = near.reshape(rows, -1).all(axis=1)
    theirs = head.logp(torch.tensor(inputs), torch.tensor(actions)).numpy()
    np.testing.assert_allclose(logp[fine], theirs[fine], rtol=1e-3 if name == "squashed" else 1e-5, atol=1e-4)


@pytest.mark.parametrize("name", HEADS)
def test_same_seed_same_actions(name: str) -> None:
    head = HEADS[name]
    inputs = np.random.default_rng(7).normal(size=(64, head.inputs)).astype(np.float32)
    by_numpy = [head.sample_numpy(inputs, np.random.default_rng(seed))[0] for seed in (1, 1, 2)]
    by_torch = [head.sample(torch.tensor(inputs), torch.Generator().manual_seed(seed)).numpy() for seed in (1, 1, 2)]
    for first, again, other in (by_numpy, by_torch):
        assert (first == again).all()
        assert (first != other).any()
    actions, logp = head.sample_logp(torch.tensor(inputs), torch.Generator().manual_seed(1))
    assert (actions.numpy() == by_torch[0]).all()
    assert logp.shape == (64,)


# --------------------------------------------------------------------------- spaces


@pytest.mark.parametrize(
    "space",
    [
        *SPACES.values(),
        spaces.MultiDiscrete(np.array([[3, 2], [4, 5]]), start=np.array([[1, 0], [-1, 7]])),
        spaces.MultiBinary((2, 3)),
        spaces.Box(-1, 1, (), np.float32),
        spaces.Box(np.array([[-1.0, 0], [2, -3]]), np.array([[1.0, 10], [3, -2.5]]), dtype=np.float64),
        spaces.Box(-128, 127, (2,), np.int8),
        spaces.Box(-np.inf, np.inf, (2,), np.float32),
        spaces.Discrete(3, dtype=np.int32),
    ],
    ids=str,
)
@pytest.mark.parametrize("option", ["plain", "squash", "rescale"])
def test_actions_fit_every_space(space: AnySpace, option: str) -> None:
    bounded = not isinstance(space, spaces.Box) or bool(np.isfinite(space.high).all())
    if not bounded and option != "plain":
        with pytest.raises(PlanError, match=f"{option}=True needs finite bounds"):
            head_for(space, squash=option == "squash", rescale=option == "rescale")
        return
    head = head_for(space, squash=option == "squash", rescale=option == "rescale")
    rng = np.random.default_rng(0)
    actions, _ = head.sample_numpy((5 * rng.normal(size=(40, head.inputs))).astype(np.float32), rng)
    kept = actions.copy()
    for row in head.to_env(actions):
        assert space.contains(np.asarray(row) if isinstance(space, spaces.Box) else row), row
    assert (actions == kept).all()
    for leading in ((), (6,), (2, 3)):  # sequences of rows work as well
        inputs = torch.randn(*leading, head.inputs)
        drawn = head.sample(inputs)
        assert drawn.shape[: len(leading)] == leading
        assert head.mode(inputs).shape == drawn.shape
        for value in (head.logp(inputs, drawn), head.entropy(inputs), head.kl(inputs, inputs)):
            assert value.shape == leading
        torch.testing.assert_close(head.kl(inputs, inputs), torch.zeros(leading))
    again = pickle.loads(pickle.dumps(head))
    np.testing.assert_array_equal(again.to_env(actions), head.to_env(actions))


def test_actions_reach_the_bounds_they_should() -> None:
    ends = f32([[-1, -1, -1], [1, 1, 1], [0, 0, 0], [-9, 9, 0.5]])
    clipped = head_for(BOX).to_env(ends)
    assert clipped.tolist() == [[-1] * 3, [1] * 3, [0] * 3, [-2, 3, 0.5]]
    for head in (head_for(BOX, rescale=True), head_for(BOX, squash=True)):
        np.testing.assert_allclose(head.to_env(ends), f32([[-2] * 3, [3] * 3, [0.5] * 3, [-2, 3, 1.75]]))
    assert head_for(spaces.Box(-128, 127, (1,), np.int8), rescale=True).to_env(f32([[-1], [1], [0.0095]])).ravel().tolist() == [
        -128,
        127,
        1,
    ]
    assert head_for(SPACES["discrete"]).to_env(np.array([0, 3])).tolist() == [-1, 2]


def test_the_mode_is_the_likeliest_action() -> None:
    inputs = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    head = head_for(spaces.Discrete(4))
    each = torch.stack([head.logp(inputs, torch.full((50,), action)) for action in range(4)], -1)
    assert (head.mode(inputs) == each.argmax(-1)).all()
    assert head_for(spaces.MultiBinary(2)).mode(torch.tensor([[0.1, -0.1]])).tolist() == [[1, 0]]
    assert head_for(spaces.MultiDiscrete([2, 3])).mode(torch.tensor([[0.0, 1, 5, 0, 6]])).tolist() == [[1, 2]]
    assert head_for(BOX).mode(torch.arange(6.0)).tolist() == [0, 1, 2]


def test_a_head_tells_what_its_actions_look_like_and_which_inputs_are_free() -> None:
    free, predicted, squashed = (
        head_for(BOX, log_std_init=-0.5),
        head_for(BOX, predict_std=True, rescale=True),
        head_for(BOX, squash=True),
    )
    assert (free.inputs, free.free, free.free_init) == (6, 3, -0.5)
    assert (predicted.inputs, predicted.free) == (6, 0)
    assert isinstance(squashed, SquashedGaussian)
    assert squashed.free == 0
    assert head_for(BOX, squash=True, predict_std=False).free == 3
    assert (np.asarray(free.form.low).tolist(), np.asarray(free.form.high).tolist()) == ([-2] * 3, [3] * 3)
    assert (predicted.form.low, squashed.form.high, squashed.form.size) == (-1, 1, 3)
    assert head_for(SPACES["multi_discrete"]).form.choices == (3, 2, 4)


def test_other_spaces_are_refused() -> None:
    with pytest.raises(PlanError, match=r"no head fits the action space Dict.*action wrapper"):
        head_for(spaces.Dict({"a": spaces.Discrete(2)}))
