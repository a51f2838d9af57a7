"""Schedules with a character, for what random tapes do not reach.

On a uniform tape everything is mixed: no shard gets far ahead of another, and what may go wrong goes wrong at once. Here a tape
is made of a few *motifs*, each a handful of choices that is repeated: "the newest call, then look, then the newest call again"
lets one shard run ahead, "the oldest" keeps all in step, and a fault that comes after a motif comes late. A motif is repeated
whatever the choices mean, so this works for plans of any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from tflow.runtime.sim import NO_FAULTS, Faults
from tflow.testing.history import without_zeros
from tflow.testing.strategies import SimSchedule, tapes

NEWEST = 59
"""The last of two, three, four or five things: of calls, the newest."""
PACE = st.sampled_from([NEWEST, 0, 1])
"""Whose turn it is, again and again."""


@st.composite
def motifs(draw: st.DrawFn, max_size: int = 60) -> list[int]:
    """Tapes that are made of up to three motifs: a turn, then boring choices, many times; then something sudden."""
    tape: list[int] = []
    for _ in range(draw(st.integers(1, 3))):
        motif = [draw(PACE), *[0] * draw(st.integers(0, 2))]
        tape += motif * draw(st.integers(1, 12)) + list(draw(st.binary(max_size=3)))
    return tape[:max_size]


def swarm(faults: st.SearchStrategy[Faults] | None = None, *, max_size: int = 60) -> st.SearchStrategy[SimSchedule]:
    """Schedules of all characters, the uniform ones among them."""
    return st.builds(SimSchedule, tapes(max_size) | motifs(max_size), st.just(NO_FAULTS) if faults is None else faults)


def shrink(tape: list[int], fails: Callable[[list[int]], bool], *, attempts: int = 300) -> list[int]:
    """A tape with fewer choices that still fails: hypothesis shrinks motifs as a whole, this looks at each choice."""
    left = attempts
    while True:
        for smaller in simpler(tape):
            if left == 0:
                return tape
            left -= 1
            if fails(smaller):
                tape = smaller
                break
        else:
            return tape


def simpler(tape: list[int]) -> Iterator[list[int]]:
    """Tapes that are simpler by one step, the simplest first."""
    for size in (8, 4, 2, 1):
        for start in range(0, len(tape), size):
            yield without_zeros([*tape[:start], *tape[start + size :]])
    for index, choice in enumerate(tape):
        for other in (0, 1):
            if other < choice:
                yield without_zeros([*tape[:index], other, *tape[index + 1 :]])
