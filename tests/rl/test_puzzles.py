"""A room with a key and a CartPole whose actions change do what they say, compared with plain Python and gymnasium."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from tflow.errors import EnvError, PlanError
from tflow.rl.envs.puzzles import KeyDoor, ParametricCartPole


@given(size=st.integers(2, 4), horizon=st.integers(1, 30), actions=st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_leaving_with_the_key_pays_and_nothing_else_does(size: int, horizon: int, actions: list[int]) -> None:
    env = KeyDoor(size, horizon)
    assert env.reset()[0].tolist() == [0, 0, 0]
    row = column = 0
    has_key = False
    for steps, action in enumerate(actions, 1):
        obs, reward, terminated, truncated, _ = env.step(action)
        row = min(max(row + (action == 0) - (action == 1), 0), size - 1)
        column = min(max(column + (action == 2) - (action == 3), 0), size - 1)
        has_key = has_key or (row, column) == (size - 1, 0)
        left = has_key and (row, column) == (0, size - 1)
        assert obs.tolist() == [row, column, has_key]
        assert env.observation_space.contains(obs)
        assert (reward, terminated, truncated) == (float(left), left, steps >= horizon)
        if left:
            assert env.reset()[0].tolist() == [0, 0, 0], "the key is back in its place"
            return


def test_gymnasium_finds_nothing_wrong_with_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(render|no spec).*")
        check_env(KeyDoor())


def test_a_room_has_two_corners_at_least() -> None:
    with pytest.raises(PlanError, match="KeyDoor: size must be at least 2, got 1"):
        KeyDoor(size=1)


@given(seed=st.integers(0, 1000), slots=st.integers(2, 6), pushes=st.lists(st.integers(0, 1), min_size=1, max_size=60))
def test_the_slots_that_push_are_known_by_their_embeddings(seed: int, slots: int, pushes: list[int]) -> None:
    env = ParametricCartPole(slots)
    cart: Any = CartPoleEnv()  # Any: gymnasium does not type its actions
    (seen, infos), (expected, _) = env.reset(seed=seed), cart.reset(seed=seed)
    over = False
    for push in pushes:
        np.testing.assert_array_equal(seen["cart"], expected)
        embeddings = seen["actions"].reshape(slots, 2)
        np.testing.assert_array_equal(embeddings.any(axis=1), infos["action_mask"] == 1)
        (slot,) = np.flatnonzero((embeddings == ParametricCartPole.EMBEDDINGS[push]).all(axis=1))
        if over:
            break
        seen, reward, over, _, infos = env.step(slot)
        expected, wanted, fallen, _, _ = cart.step(push)
        assert (reward, over) == (wanted, fallen)


def test_a_slot_that_pushes_nothing_is_no_action() -> None:
    env = ParametricCartPole(3)
    _, infos = env.reset(seed=0)
    (idle,) = np.flatnonzero(infos["action_mask"] == 0)
    with pytest.raises(EnvError, match=f"action {idle} is not possible here"):
        env.step(idle)
