"""Torch's number of threads, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

SMALL = 150_000
"""Networks with fewer weights are faster with one thread: two took 0.65 times as long for SAC's 200,000, on two idle cores. Where
others need the cores, waiting threads must not spin for long. With ``GOMP_SPINCOUNT=1000``, which the command line sets, an
update took 8 ms on idle cores and 17 beside another program; with the default 7 and 43."""


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with ``count`` threads."""
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
    """Compute with one thread: inference on few rows is slower with more, and other workers need the cores."""
    return threads(1)


def fitting(weights: int, wanted: int | None) -> int:
    """The threads asked for; by default one for a small network, else torch's default."""
    import torch

    if wanted is not None:
        return wanted
    return 1 if weights < SMALL else torch.get_num_threads()
