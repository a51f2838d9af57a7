"""Weights as messages to workers, and the seeds that make initial weights equal everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tflow.rl.data.arrays import Array
from tflow.types import Shard

WHOLE = "policy"
"""The name of the only part of the weights, where they are not divided."""


class Weights(NamedTuple):
    """The weights of a policy, the env steps of all workers when they were sent, and those after which the run stops."""

    policy: str
    values: Array
    env_steps: int = 0
    stops_at: int | None = None


def given_weights(shard: Shard, policy: str) -> Array | None:
    """The weights with which a policy starts in this run; None if they are fresh."""
    given = shard.given
    return given.get(policy) if isinstance(given, Mapping) else None


def seed_for(*parts: int | str) -> int:
    """A seed that is a function of numbers and names, the same everywhere."""
    words = [word for part in parts for word in ([part % 2**64] if isinstance(part, int) else part.encode())]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> 33)
