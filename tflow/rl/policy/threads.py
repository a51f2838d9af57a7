"""How many threads torch computes with, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

SMALL = 300_000
"""Networks with fewer weights are slower with more than one thread."""


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with so many threads."""
    import torch

    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """What acts on a handful of rows is slower with more, and other workers want the other cores."""
    return threads(1)


def fitting(weights: int, wanted: int | None) -> int:
    """As many as were asked for; by default one for a small network, else as many as torch likes."""
    import torch

    if wanted is not None:
        return wanted
    return 1 if weights < SMALL else torch.get_num_threads()
