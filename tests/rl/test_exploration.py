"""Schedules and exploration: published numbers, masks, what is reset and what is kept, same seed same actions."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tflow.errors import PlanError, TflowError
from tflow.rl.data.arrays import Array
from tflow.rl.policy.exploration import (
    ActionForm,
    ApexEpsilons,
    EpsilonGreedy,
    Exploration,
    Explorer,
    GaussianNoise,
    OUNoise,
    ParameterNoise,
    softmax_kl,
    uniform_choices,
)
from tflow.rl.schedules import Constant, Exponential, Linear, Piecewise, Schedule, schedule_of

CHOICES = ActionForm(choices=(4,))
VECTORS = ActionForm(size=3)
finite = st.floats(-1e6, 1e6)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --------------------------------------------------------------------------- schedules


def test_the_epsilon_of_dqn() -> None:
    epsilon = Linear(1.0, 0.1, steps=1_000_000)
    assert [epsilon.at(steps) for steps in (0, 250_000, 500_000, 1_000_000, 5_000_000)] == pytest.approx(
        [1, 0.775, 0.55, 0.1, 0.1]
    )


def test_the_beta_of_prioritised_replay() -> None:
    beta = Linear(0.4, 1.0, steps=200_000)
    assert [beta.at(steps) for steps in (0, 100_000, 200_000)] == pytest.approx([0.4, 0.7, 1.0])


def test_exponential_schedules_shrink_by_the_same_factor() -> None:
    rate = Exponential(1e-3, 1e-5, steps=1000)
    values = [rate.at(steps) for steps in range(0, 1001, 100)]
    assert [after / before for before, after in pairwise(values)] == pytest.approx([10**-0.2] * 10)
    assert rate.at(1000) == rate.at(10**9) == 1e-5


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), st.integers(1, 10**9))
def test_exponential_schedules_start_and_end_exactly(start: float, end: float, steps: int) -> None:
    schedule = Exponential(start, end, steps)
    assert (schedule.at(0), schedule.at(steps), schedule.at(2 * steps)) == (start, end, end)


def test_piecewise_schedules_go_through_their_points_and_stay_at_the_last() -> None:
    schedule = Piecewise(((100, 1.0), (200, 0.5), (400, -0.5)))
    given = [0, 100, 150, 200, 300, 400, 10**9]
    assert [schedule.at(steps) for steps in given] == pytest.approx([1, 1, 0.75, 0.5, 0, -0.5, -0.5])
    assert Piecewise(((5, 2.0),)).at(0) == 2.0


@given(finite, finite, st.integers(1, 10**9), st.integers(0, 10**10))
def test_linear_schedules_stay_between_their_ends_and_equal_piecewise_ones(
    start: float, end: float, steps: int, now: int
) -> None:
    value = Linear(start, end, steps).at(now)
    slack = 1e-9 * (abs(start) + abs(end))
    assert min(start, end) - slack <= value <= max(start, end) + slack
    assert value == Piecewise(((0, start), (steps, end))).at(now)
    assert Linear(start, end, steps).at(0) == start
    assert Linear(start, end, steps).at(steps) == end


def test_numbers_are_constant_schedules() -> None:
    assert schedule_of(3).at(10**6) == schedule_of(np.float64(3)).at(0) == Constant(3).at(5) == 3.0
    line = Linear(1.0, 0.0, 10)
    assert schedule_of(line) is line
    assert isinstance(line, Schedule)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: schedule_of("fast"), r"schedule: expected a finite number or a schedule such as Linear.*got 'fast'"),  # type: ignore[arg-type]  # the mistake
        (lambda: schedule_of(math.nan, where="PPO: lr"), r"PPO: lr: expected a finite number.*got nan"),
        (lambda: schedule_of(True), "got True"),
        (lambda: schedule_of(Linear), "expected a finite number or a schedule"),  # type: ignore[arg-type]  # the mistake
        (lambda: Constant(math.inf), "Constant: value must be a finite number, got inf"),
        (lambda: Linear(1.0, 0.1, 0), "Linear: steps must be at least 1, got 0"),
        (lambda: Linear(1.0, math.nan, 5), "Linear: end must be a finite number"),
        (lambda: Exponential(0.0, 1.0, 5), "Exponential: start must be finite and above 0"),
        (lambda: Exponential(1.0, -1.0, 5), "Exponential: end must be finite and above 0"),
        (lambda: Piecewise(()), r"Piecewise: points must be pairs \(env steps, value\)"),
        (lambda: Piecewise(((0, 1.0), (0, 2.0))), r"steps of the points must increase, got \[0, 0\]"),
        (lambda: Piecewise([(0, 1.0)]), "points must be pairs"),  # type: ignore[arg-type]  # the mistake
        (lambda: Piecewise(((-1, 1.0),)), "must be at least 0, got -1"),
        (lambda: EpsilonGreedy(1.5), "EpsilonGreedy: epsilon is a probability, at most 1, got 1.5"),
        (lambda: EpsilonGreedy(-0.5), "EpsilonGreedy: epsilon must be finite and at least 0"),
        (lambda: ApexEpsilons(base=2), "ApexEpsilons: base is a probability"),
        (lambda: ApexEpsilons(alpha=-1), "ApexEpsilons: alpha must be finite and at least 0"),
        (lambda: GaussianNoise(-1.0), "GaussianNoise: sigma must be finite and at least 0"),
        (lambda: OUNoise(dt=0), "OUNoise: dt must be finite and above 0"),
        (lambda: ParameterNoise(sigma=0), "ParameterNoise: sigma must be finite and above 0"),
        (lambda: ParameterNoise(factor=1), "ParameterNoise: factor must be above 1, got 1"),
        (lambda: ParameterNoise(target_distance=0), "target_distance must be finite and above 0"),
        (lambda: EpsilonGreedy().start(2, VECTORS), r"needs discrete actions.*GaussianNoise"),
        (lambda: ApexEpsilons().start(2, VECTORS), r"ApexEpsilons: needs discrete actions"),
        (lambda: GaussianNoise().start(2, CHOICES), r"needs continuous actions.*EpsilonGreedy"),
        (lambda: OUNoise().start(2, CHOICES), r"OUNoise: needs continuous actions"),
        (lambda: OUNoise().start(0, VECTORS), "num_envs must be at least 1"),
        (lambda: ApexEpsilons().start(1, CHOICES, shard_index=3, shard_count=3), "shard_index must be at most 2, got 3"),
    ],
)
def test_mistakes_get_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        make()


# --------------------------------------------------------------------------- epsilon-greedy


def test_epsilon_greedy_explores_as_often_as_it_says_and_evenly() -> None:
    explorer = EpsilonGreedy(Linear(1.0, 0.2, steps=100)).start(40_000, CHOICES)
    greedy = np.full(40_000, 2)
    for steps, epsilon in ((0, 1.0), (50, 0.6), (1000, 0.2)):
        taken = explorer.apply(greedy, steps=steps, rng=rng(steps))
        shares = np.bincount(taken, minlength=4) / len(taken)
        expected = np.full(4, epsilon / 4)
        expected[2] += 1 - epsilon
        np.testing.assert_allclose(shares, expected, atol=0.01)
        assert explorer.metrics(steps)["epsilon"] == pytest.approx(epsilon)
    assert (greedy == 2).all(), "the input is not changed"
    assert (EpsilonGreedy(0.0).start(40_000, CHOICES).apply(greedy, steps=0, rng=rng()) == 2).all()


def test_the_epsilons_of_apex() -> None:
    published = [0.4 ** (1 + 7 * i / 359) for i in range(360)]  # 360 actors, as in the paper
    assert ApexEpsilons().epsilons(360).tolist() == pytest.approx(published)
    eight = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.0016384, 0.00065536]
    assert ApexEpsilons().epsilons(8).tolist() == pytest.approx(eight)
    assert ApexEpsilons().epsilons(1).tolist() == [0.4]
    explorers = [ApexEpsilons().start(2, CHOICES, shard_index=shard, shard_count=4) for shard in range(4)]
    means = [explorer.metrics(0)["epsilon"] for explorer in explorers]
    assert means == pytest.approx([(first + second) / 2 for first, second in zip(eight[::2], eight[1::2], strict=True)])


def test_each_row_explores_with_its_own_epsilon() -> None:
    explorer = ApexEpsilons(base=0.5, alpha=3).start(2, ActionForm(choices=(1_000_000,)), shard_index=1, shard_count=2)
    generator, greedy = rng(), np.full(2, -1)
    often = np.mean([explorer.apply(greedy, steps=0, rng=generator) >= 0 for _ in range(20_000)], axis=0)
    np.testing.assert_allclose(often, [0.5**3, 0.5**4], atol=0.01)


@given(st.integers(0, 2**32), hnp.arrays(np.bool_, (50, 7)))
def test_exploration_respects_masks(seed: int, masks: Array) -> None:
    masks[:, [1, 4]] = True
    form = ActionForm(choices=(3, 4))
    taken = EpsilonGreedy(1.0).start(50, form).apply(np.zeros((50, 2), np.int64), steps=0, rng=rng(seed), masks=masks)
    assert taken.shape == (50, 2)
    assert np.take_along_axis(masks, taken + np.array([0, 3]), axis=1).all()


def test_masked_exploration_is_even_among_what_is_allowed() -> None:
    masks = np.tile([True, False, True, True], (30_000, 1))
    drawn = uniform_choices(rng().random((1, 30_000)), (4,), masks)[0]
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 30_000, [1 / 3, 0, 1 / 3, 1 / 3], atol=0.01)


@given(st.integers(1, 50), st.floats(0, 1, exclude_max=True))
def test_numbers_of_the_unit_interval_become_choices(choices: int, uniform: float) -> None:
    everything = np.ones((1, choices), np.bool_)
    one = uniform_choices(np.array([[uniform]]), (choices,), None)
    assert one == uniform_choices(np.array([[uniform]]), (choices,), everything) == math.floor(uniform * choices) < choices


def test_a_row_without_allowed_actions_is_refused() -> None:
    with pytest.raises(TflowError, match="a row allows no action at all"):
        EpsilonGreedy(0.1).start(2, CHOICES).apply(np.zeros(2, int), steps=0, rng=rng(), masks=np.zeros((2, 4), np.bool_))


def test_the_numbers_drawn_do_not_depend_on_what_happened_before() -> None:
    """Masks, epsilons and actions change what is done, never which random numbers come next."""
    masks = np.ones((5, 4), np.bool_)
    after = []
    for epsilon, allowed in ((0.0, None), (1.0, None), (0.5, masks)):
        generator = rng(3)
        EpsilonGreedy(epsilon).start(5, CHOICES).apply(np.zeros(5, int), steps=0, rng=generator, masks=allowed)
        after.append(generator.random())
    assert after[0] == after[1] == after[2]


# --------------------------------------------------------------------------- noise on actions


def test_gaussian_noise_has_its_sigma_and_keeps_the_bounds() -> None:
    explorer = GaussianNoise(Linear(0.2, 0.1, steps=10)).start(50_000, VECTORS)
    actions = np.zeros((50_000, 3), np.float32)
    for steps, sigma in ((0, 0.2), (10, 0.1)):
        noisy = explorer.apply(actions, steps=steps, rng=rng())
        assert noisy.dtype == np.float32
        np.testing.assert_allclose(noisy.std(axis=0), sigma, rtol=0.02)
        np.testing.assert_allclose(noisy.mean(axis=0), 0, atol=0.005)
        assert explorer.metrics(steps) == {"sigma": pytest.approx(sigma)}
    assert (actions == 0).all()
    low, high = np.array([-2, 0, 5]), np.array([2, 1, 6])
    for way in (GaussianNoise(100.0), OUNoise(sigma=1000.0)):
        wild = way.start(50, ActionForm(size=3, low=low, high=high)).apply(actions[:50], steps=0, rng=rng())
        assert wild.dtype == np.float32
        assert (wild >= low).all()
        assert (wild <= high).all()
        assert {-2, 2, 0, 1, 5, 6} <= set(np.unique(wild))


def test_ou_noise_is_the_process_it_claims() -> None:
    process = OUNoise(theta=0.15, sigma=0.2, dt=0.5)
    explorer, zeros = process.start(4, VECTORS), np.zeros((4, 3), np.float32)
    generator, same = rng(5), rng(5)
    noise = np.zeros((4, 3))
    for step in range(20):
        taken = explorer.apply(zeros, steps=step, rng=generator)
        noise = noise - 0.15 * noise * 0.5 + 0.2 * math.sqrt(0.5) * same.standard_normal((4, 3), dtype=np.float32)
        np.testing.assert_allclose(taken, np.clip(noise, -1, 1), atol=1e-6)


def test_ou_noise_settles_at_its_stationary_spread_and_is_correlated() -> None:
    explorer, zeros = (
        OUNoise(theta=0.15, sigma=0.2, dt=1.0).start(5000, ActionForm(size=1, low=-9, high=9)),
        np.zeros((5000, 1), np.float32),
    )
    generator = rng()
    series = np.array([explorer.apply(zeros, steps=step, rng=generator)[:, 0] for step in range(60)])
    assert series[-1].std() == pytest.approx(0.2 / math.sqrt(1 - 0.85**2), rel=0.05)
    assert np.corrcoef(series[-1], series[-2])[0, 1] == pytest.approx(0.85, abs=0.02)


def test_ou_noise_starts_again_only_in_rows_whose_episode_ended() -> None:
    explorer, zeros = OUNoise().start(3, VECTORS), np.zeros((3, 3), np.float32)
    for step in range(5):
        explorer.apply(zeros, steps=step, rng=rng(step))
    before = explorer.state()["noise"]
    explorer.ended(np.array([False, True, False]))
    after = explorer.state()["noise"]
    assert (after[1] == 0).all()
    assert (after[[0, 2]] == before[[0, 2]]).all()
    assert (before != 0).all(), "a state that was handed out does not change"


# --------------------------------------------------------------------------- noise on weights


def test_parameter_noise_perturbs_weights_and_leaves_actions_alone() -> None:
    explorer = ParameterNoise(sigma=0.3).start(2, VECTORS)
    flat = np.ones(50_000, np.float32)
    noisy = explorer.weights(flat, rng=rng())
    assert noisy.dtype == np.float32
    assert (flat == 1).all()
    assert float((noisy - flat).std()) == pytest.approx(0.3, rel=0.02)
    actions = np.zeros((2, 3))
    assert explorer.apply(actions, steps=0, rng=rng()) is actions


def test_the_strength_of_parameter_noise_follows_the_distance() -> None:
    explorer = ParameterNoise(sigma=0.1, target_distance=0.2, factor=1.01).start(2, VECTORS)
    plain = np.zeros((4, 3))
    explorer.adapt(plain, plain + 0.19)
    assert explorer.metrics(0) == {"sigma": pytest.approx(0.101), "distance": pytest.approx(0.19)}
    explorer.adapt(plain, plain - 0.21)
    explorer.adapt(plain, plain - 0.21)
    assert explorer.metrics(0) == {"sigma": pytest.approx(0.1 / 1.01), "distance": pytest.approx(0.21)}
    fixed = ParameterNoise(sigma=0.1, target_distance=None).start(2, VECTORS)
    fixed.adapt(plain, plain)
    assert fixed.metrics(0)["sigma"] == 0.1


def test_adaptive_parameter_noise_finds_the_strength_that_gives_the_distance() -> None:
    """A linear policy whose actions move by the noise of its weights: the distance is about the strength itself."""
    explorer, generator, features = ParameterNoise(sigma=1.0, target_distance=0.05).start(8, VECTORS), rng(), np.eye(30)
    plain = np.zeros(30, np.float32)
    for _ in range(600):
        explorer.adapt(features @ plain, features @ explorer.weights(plain, rng=generator))
    assert explorer.metrics(0)["sigma"] == pytest.approx(0.05, rel=0.1)


def test_the_distance_of_values_is_the_divergence_of_their_softmax() -> None:
    plain, perturbed = np.array([[0.0, 1, 2]]), np.array([[1.0, 1, 1]])
    p, q = (np.exp(values) / np.exp(values).sum() for values in (plain, perturbed))
    assert softmax_kl(plain, perturbed) == pytest.approx(float((p * np.log(p / q)).sum()))
    assert softmax_kl(plain, plain + 5000) == pytest.approx(0), "only differences between values count"
    explorer = ParameterNoise(target_distance=1e-3).start(1, CHOICES)
    explorer.adapt(plain, perturbed)
    assert explorer.metrics(0)["distance"] == pytest.approx(softmax_kl(plain, perturbed))


# --------------------------------------------------------------------------- the protocol

WAYS: list[tuple[Exploration, ActionForm]] = [
    (EpsilonGreedy(0.5), CHOICES),
    (ApexEpsilons(), CHOICES),
    (GaussianNoise(0.3), VECTORS),
    (OUNoise(), VECTORS),
    (ParameterNoise(), VECTORS),
]


def journey(explorer: Explorer, form: ActionForm, generator: np.random.Generator, steps: range) -> list[Array]:
    """All that a worker asks of an explorer in some steps."""
    seen = []
    for step in steps:
        weights = explorer.weights(np.ones(4, np.float32), rng=generator)
        actions = np.zeros(6, np.int64) if form.choices else np.zeros((6, 3), np.float32)
        seen += [weights, explorer.apply(actions, steps=step, rng=generator)]
        explorer.ended(np.arange(6) == step)
        explorer.adapt(np.zeros((6, 3)), weights[:3] - 1)
    return seen


@pytest.mark.parametrize(("way", "form"), WAYS, ids=lambda value: type(value).__name__)
def test_same_seed_same_journey_also_when_it_is_interrupted(way: Exploration, form: ActionForm) -> None:
    one, other, different = (journey(way.start(6, form), form, rng(seed), range(12)) for seed in (1, 1, 2))
    assert all((left == right).all() for left, right in zip(one, other, strict=True))
    assert any((left != right).any() for left, right in zip(one, different, strict=True))
    generator, first, second = rng(1), way.start(6, form), way.start(6, form)
    halves = journey(first, form, generator, range(5))
    second.load(pickle.loads(pickle.dumps(first.state())))
    halves += journey(second, form, generator, range(5, 12))
    assert all((left == right).all() for left, right in zip(one, halves, strict=True))
    assert way == pickle.loads(pickle.dumps(way))


def test_a_plain_explorer_changes_nothing() -> None:
    explorer, actions = Explorer(), np.zeros(3)
    assert explorer.apply(actions, steps=0, rng=rng()) is actions
    assert explorer.weights(actions, rng=rng()) is actions
    assert explorer.metrics(0) == explorer.state() == {}


def test_exploring_needs_neither_torch_nor_gymnasium() -> None:
    code = "import sys, tflow.rl.policy.exploration, tflow.rl.policy.network_spec; "
    "assert not {'torch', 'gymnasium'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
