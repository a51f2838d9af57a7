"""Which plans are written: general ones and such of reinforcement learning, about half of them with a mistake."""

from __future__ import annotations

from tests.types.agreement.drafts import Draft
from tests.types.agreement.streams import Writer
from tests.types.agreement.training import TrainingWriter


def drafts(count: int, first: int = 0) -> list[Draft]:
    """The plans of some seeds."""
    return [draft(seed) for seed in range(first, first + count)]


def draft(seed: int) -> Draft:
    """Of each kind as many with a mistake as without."""
    kind = Writer if seed % 2 else TrainingWriter
    return kind(seed).plan(wrong=seed % 4 < 2)
