"""Batches for property tests: rollouts with pieces of all lengths, episodes that terminate, are truncated, or are cut off."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from hypothesis import strategies as st

from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch, Rollout
from tflow.rl.data.episodes import Episodes

End = Literal["terminated", "truncated", "cut"]
ENDS: tuple[End, ...] = ("terminated", "truncated", "cut")


@st.composite
def rollouts(
    draw: st.DrawFn, *, min_pieces: int = 0, max_pieces: int = 5, longest: int = 6, dict_obs: bool | None = None
) -> Rollout:
    """A rollout. Every observation is a number of its own, so that a test can tell rows apart and check what follows which.

    Pieces of one env follow each other as they do in a fragment: after a piece that was cut off comes another env. With
    ``dict_obs`` observations are dictionaries; None draws whether they are.
    """
    lengths = draw(st.lists(st.integers(1, longest), min_size=min_pieces, max_size=max_pieces))
    rows, pieces = sum(lengths), len(lengths)
    # All choices in one go: to draw them one by one takes hypothesis longer than most operators take to work on them.
    dice = np.frombuffer(draw(st.binary(min_size=3 * (rows + pieces), max_size=3 * (rows + pieces))), np.uint8)
    actions, rewards, values = dice[: 3 * rows].reshape(3, rows)
    chosen_ends, first, final_values = dice[3 * rows :].reshape(3, pieces)
    ends = [ENDS[choice % 3] for choice in chosen_ends]
    numbers = np.arange(rows + pieces, dtype=np.float32)
    last = np.cumsum(lengths, dtype=np.int64) - 1 if lengths else np.empty(0, np.int64)
    finals = last + np.arange(1, pieces + 1)  # each piece is followed by its final observation
    inside = np.setdiff1d(np.arange(len(numbers)), finals)
    columns: dict[str, Array] = {
        "actions": (actions % 2).astype(np.int64),
        "rewards": _small(rewards),
        "terminated": _marks(rows, last, [end == "terminated" for end in ends]),
        "truncated": _marks(rows, last, [end == "truncated" for end in ends]),
        "t": np.concatenate(
            [np.empty(0, np.int32), *(start % 4 + np.arange(n, dtype=np.int32) for start, n in zip(first, lengths, strict=True))]
        ),
        "logp": -np.ones(rows, np.float32),
        "values": _small(values),
    }
    following: dict[str, Array] = {"values": _small(final_values)}
    if draw(st.booleans()) if dict_obs is None else dict_obs:
        columns |= {"obs/here": numbers[inside], "obs/there": np.stack([-numbers[inside]] * 2, axis=1)}
        following |= {"obs/here": numbers[finals], "obs/there": np.stack([-numbers[finals]] * 2, axis=1)}
    else:
        columns["obs"] = numbers[inside][:, None]
        following["obs"] = numbers[finals][:, None]
    over = sum(end != "cut" for end in ends)
    summary = draw(st.sampled_from([None, Episodes(over, (1.0,) * over, (2,) * over)]))
    batch: Batch[str] = Batch(columns, ends=last, finals=following, env_steps=rows, summary=summary)
    return cast("Rollout", batch)


def _small(choices: Array) -> Array:
    """Small whole numbers, zero first."""
    return (choices.astype(np.int64) + 3).astype(np.float32) % 7 - 3


def _marks(rows: int, last: Array, marked: list[bool]) -> Array:
    column = np.zeros(rows, dtype=bool)
    column[last[np.array(marked, dtype=bool)]] = True
    return column
