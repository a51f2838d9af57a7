"""``Policy.act``: one observation or several, in whatever form they come, the best action or a sampled one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from tflow import PlanError, Policy
from tflow.errors import TflowError
from tflow.models import LSTM, MLP, ActorCriticSpec, QSpec
from tflow.rl.policy.network_spec import ModelLike
from tflow.rl.policy.policy_spec import PolicySpec, make_policy

AnySpace = spaces.Space[Any]  # Any: whatever it holds
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
DICT = spaces.Dict({"joints": BOX, "mode": spaces.Discrete(3)})
PAIR = spaces.Tuple((spaces.Discrete(3), spaces.Discrete(5)))
GRID = spaces.Box(0, 255, (2, 2), np.uint8)


def policy(
    seen: AnySpace = BOX, acts: AnySpace | None = None, model: ModelLike = "auto", spec: PolicySpec | None = None
) -> Policy:
    return make_policy(spec or ActorCriticSpec(), model, seen, acts or spaces.Discrete(64), seed=1)


def samples(space: AnySpace, count: int) -> list[Any]:  # Any: observations of the space
    space.seed(2)
    return [space.sample() for _ in range(count)]


def stacked(space: AnySpace, each: list[Any]) -> Any:  # Any: as a vector env gives them
    if isinstance(space, spaces.Dict):
        return {name: stacked(part, [one[name] for one in each]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(part, [one[nth] for one in each]) for nth, part in enumerate(space.spaces))
    return np.stack(each)


# --------------------------------------------------------------------------- one or several


@pytest.mark.parametrize("acts", [spaces.Discrete(64), spaces.MultiDiscrete([9, 9]), spaces.Box(-2.0, 2.0, (2,), np.float32)])
@pytest.mark.parametrize("seen", [BOX, GRID, spaces.Discrete(16), spaces.MultiBinary(4), DICT, PAIR])
def test_a_batch_gets_the_actions_that_its_observations_get_one_by_one(seen: AnySpace, acts: AnySpace) -> None:
    made, each = policy(seen, acts), samples(seen, 5)
    made.flat.set(made.flat.get() * 20)
    alone = np.stack([made.act(obs) for obs in each])
    assert len(np.unique(alone, axis=0)) > 1, "they differ, so that the order shows"
    for batch in (each, stacked(seen, each)):
        actions = made.act(batch)
        assert actions.dtype == acts.dtype
        np.testing.assert_allclose(actions, alone, atol=1e-4)
    assert len(made.act(each[:1])) == 1, "a batch of one is a batch"


def test_a_batch_of_as_many_observations_as_there_are_numbers_in_one() -> None:
    made, each = policy(), samples(BOX, 3)
    np.testing.assert_array_equal(made.act(each), [made.act(obs) for obs in each])


def test_a_tuple_has_parts_and_a_list_has_observations() -> None:
    made = policy(PAIR)
    by_observation = [made.act((1, 2)), made.act((0, 1))]
    by_part = [made.act((1, 0)), made.act((2, 1))]
    assert by_observation != by_part
    assert made.act([(1, 2), (0, 1)]).tolist() == by_observation
    assert made.act(([1, 2], [0, 1])).tolist() == by_part
    assert made.act([1, 2]) == by_observation[0], "one observation, as a list"


def test_nothing_to_act_on_gives_no_actions() -> None:
    assert policy().act(np.zeros((0, 3))).shape == (0,)


# --------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("seen", "one", "same"),
    [
        (BOX, [0, 1, 0], np.array([0.0, 1.0, 0.0], np.float32)),
        (BOX, np.array([0, 1, -1]), np.array([0.0, 1.0, -1.0], np.float32)),
        (BOX, [True, False, True], np.array([1.0, 0.0, 1.0], np.float32)),
        (BOX, np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.2, 0.3], np.float32)),
        (GRID, [[0, 255], [7, 8]], np.array([[0, 255], [7, 8]], np.uint8)),
        (GRID, np.array([[0.0, 255.0], [7.0, 8.0]]), np.array([[0, 255], [7, 8]], np.uint8)),
        (spaces.Discrete(16), 3, np.int64(3)),
        (spaces.Discrete(16), 3.0, np.int64(3)),
        (spaces.Discrete(16, start=5), np.uint8(7), np.int64(7)),
    ],
)
def test_numbers_of_another_type_are_converted_if_that_changes_none(seen: AnySpace, one: object, same: object) -> None:
    made = policy(seen)
    assert made.act(one) == made.act(same)
    assert made.act([one, one]).tolist() == [made.act(same)] * 2


@pytest.mark.parametrize(
    ("seen", "obs", "sentence"),
    [
        (BOX, [0, 1], r"obs has shape \(2,\); its space Box\(.*\) says \(3,\), or \(rows, 3\) for a batch\."),
        (BOX, np.zeros((2, 2, 3)), r"obs has shape \(2, 2, 3\); its space Box"),
        (BOX, [[0, 1, 2], [0]], r"obs is a list, which is no array of numbers; its space is Box"),
        (BOX, "left", r"obs is a str, which is no array of numbers"),
        (BOX, [2**24 + 1, 0, 0], r"obs is of type int64, with a value that changes as float32"),
        (BOX, [np.nan, 0, 0], r"obs is not finite"),
        (BOX, [[0, 0, 0], [0, np.inf, 0]], r"obs of row 1 is not finite"),
        (GRID, np.full((2, 2), 0.5), r"obs is of type float64, with a value that changes as uint8"),
        (GRID, np.full((2, 2), 256), r"obs is of type int64, with a value that changes as uint8"),
        (spaces.Discrete(16), 2.5, r"obs is of type float64, with a value that changes as int64"),
        (spaces.Discrete(16), 16, r"obs is not in its discrete space: 16\. Its space is Discrete\(16\)"),
        (spaces.Discrete(16), [3, -1], r"obs of row 1 is not in its discrete space: -1"),
        (spaces.Discrete(16), [[3]], r"its space Discrete\(16\) says \(\), or \(rows,\) for a batch"),
        (DICT, {"mode": 1}, r"obs must have the parts joints, mode, as its space Dict\(.*\) says; got \['mode'\]"),
        (DICT, 3, r"obs must have the parts joints, mode, .* got a int"),
        (DICT, [], r"obs is an empty list; observations of the space Dict"),
        (DICT, [{"joints": [0, 0, 0], "mode": 1}, {"joints": [0], "mode": 1}], r"obs/joints of row 1 has shape \(1,\)"),
        (DICT, {"joints": np.zeros((2, 3)), "mode": 1}, r"different lengths: obs/joints 2 rows and obs/mode one"),
        (PAIR, ([1, 2, 1], [1, 2]), r"different lengths: obs/0 3 rows and obs/1 2 rows"),
    ],
)
def test_what_does_not_fit_is_a_sentence(seen: AnySpace, obs: object, sentence: str) -> None:
    with pytest.raises(TflowError, match=sentence):
        policy(seen).act(obs)


# --------------------------------------------------------------------------- sampled, masked


def test_the_best_action_is_always_the_same_and_sampled_ones_are_not() -> None:
    made, batch = policy(acts=spaces.Discrete(4)), np.zeros((50, 3), np.float32)
    assert len(set(made.act(batch).tolist())) == 1
    assert set(made.act(batch, deterministic=False).tolist()) == {0, 1, 2, 3}
    assert {int(made.act(batch[0], deterministic=False)) for _ in range(50)} == {0, 1, 2, 3}
    greedy = policy(acts=spaces.Discrete(4), spec=QSpec())
    assert set(greedy.act(batch, deterministic=False).tolist()) == {greedy.act(batch[0])}


def test_with_noisy_layers_only_the_best_action_is_without_noise() -> None:
    made = policy(acts=spaces.Discrete(4), spec=QSpec(noisy=True), model=MLP((8,)))
    assert len({int(made.act([0, 1, 0])) for _ in range(20)}) == 1
    assert len({int(made.act([0, 1, 0], deterministic=False)) for _ in range(60)}) > 1


@pytest.mark.parametrize("spec", [ActorCriticSpec(), QSpec()])
@pytest.mark.parametrize("deterministic", [True, False])
def test_masks_have_a_row_for_each_observation(spec: PolicySpec, deterministic: bool) -> None:
    made, batch = policy(acts=spaces.Discrete(3), spec=spec), [[0, 1, 0]] * 3
    assert made.act(batch, masks=np.eye(3), deterministic=deterministic).tolist() == [0, 1, 2]
    assert made.act(batch[0], masks=[0, 0, 1], deterministic=deterministic) == 2


@pytest.mark.parametrize(
    ("acts", "obs", "masks", "sentence"),
    [
        (spaces.Discrete(3), [[0, 1, 0]] * 2, [0, 0, 1], r"masks have shape \(3,\); these observations .* take \(2, 3\)"),
        (spaces.Discrete(3), [0, 1, 0], [[0, 0, 1]], r"masks have shape \(1, 3\); these observations .* take \(3,\)"),
        (spaces.Discrete(3), [0, 1, 0], [0, 0, 0], "allows no action at all"),
        (spaces.Discrete(3), [[0, 1, 0]] * 2, [[0, 0, 1], [1]], r"masks have shape \(\)"),
        (spaces.MultiBinary(3), [0, 1, 0], [1, 1, 1], "has no choices to mask"),
    ],
)
def test_masks_that_do_not_fit_are_a_sentence(acts: AnySpace, obs: object, masks: object, sentence: str) -> None:
    with pytest.raises(TflowError, match=sentence):
        policy(acts=acts).act(obs, masks=masks)


# --------------------------------------------------------------------------- recurrent


def recurrent() -> Policy:
    made = policy(acts=spaces.Box(-2.0, 2.0, (2,), np.float32), model=LSTM(5, MLP((8,))))
    made.flat.set(made.flat.get() * 20)  # so that the state shows in the actions
    return made


def episode(steps: int, seed: int) -> list[Any]:  # Any: observations
    space = spaces.Box(-1.0, 1.0, (3,), np.float32, seed=seed)
    return [space.sample() for _ in range(steps)]


def test_each_row_of_a_batch_has_a_state_of_its_own() -> None:
    one, two = episode(4, 1), episode(4, 2)
    alone = []
    for each in (one, two):
        made = recurrent()
        alone.append([made.act(obs, first=step == 0) for step, obs in enumerate(each)])
    together = recurrent()
    rows = [together.act([left, right], first=step == 0) for step, (left, right) in enumerate(zip(one, two, strict=True))]
    np.testing.assert_allclose(np.stack(rows, axis=1), np.stack(alone), atol=1e-4)
    forgets = recurrent()
    assert not np.allclose(forgets.act(one[3], first=True), alone[0][3]), "the state matters"


def test_rows_can_begin_an_episode_while_others_go_on() -> None:
    long, ends, begins = episode(4, 1), episode(2, 2), episode(2, 3)
    batches = list(zip(long, [*ends, *begins], strict=True))
    together = recurrent()
    shown = [together.act(list(batch), first=np.array([step == 0, step in (0, 2)])) for step, batch in enumerate(batches)]
    alone = recurrent()
    expected = [alone.act(obs, first=step == 0) for step, obs in enumerate(begins)]
    np.testing.assert_allclose([rows[1] for rows in shown[2:]], expected, atol=1e-4)
    whole = recurrent()
    np.testing.assert_allclose(
        [rows[0] for rows in shown], [whole.act(obs, first=step == 0) for step, obs in enumerate(long)], atol=1e-4
    )


def test_another_number_of_rows_starts_anew_and_says_so() -> None:
    made, (obs, *_) = recurrent(), episode(1, 1)
    fresh = made.act(obs)
    made.act(obs)
    with pytest.warns(UserWarning, match="recurrent and has a state for 1 row; it was given 2, so all of them start anew"):
        batch = made.act([obs, obs])
    np.testing.assert_allclose(batch, [fresh, fresh], atol=1e-4)
    made.act([obs] * 3, first=True)  # said, so that nothing needs to be said
    policy().act([obs] * 2)
    assert not np.allclose(made.act([obs] * 3), fresh), "the state is kept"


@pytest.mark.parametrize("first", [1, [True], np.array([0, 1])])
def test_rows_that_begin_are_named_by_bools(first: Any) -> None:  # Any: what is wrong
    with pytest.raises(PlanError, match="first must be True or False, or an array of 2 bools, one for each row"):
        policy().act([[0, 1, 0]] * 2, first=first)


def test_an_observation_that_is_refused_leaves_the_state_as_it_was() -> None:
    one, other = recurrent(), recurrent()
    steps = episode(3, 1)
    wrong: list[Callable[[], object]] = [lambda: one.act([0]), lambda: one.act([[0, 0, 0]] * 2, first=np.array([True]))]
    for obs in steps:
        for each in wrong:
            with pytest.raises(TflowError):
                each()
        np.testing.assert_array_equal(one.act(obs), other.act(obs))
