"""Schedules with a character, for what random tapes do not reach.

On a uniform tape everything is mixed: no shard gets far ahead of another, and what may go wrong goes wrong at once. Here a tape
is made of a few *motifs*, each a handful of choices that is repeated: "the newest call, then look, then the newest call again"
lets one shard run ahead, "the oldest" keeps all in step, and a fault that comes after a motif comes late. A motif is repeated
whatever the choices mean, so this works for plans of any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hypothesis import strategies as st

from tflow.combinators.runnable import Runnable
from tflow.runtime.base import Call
from tflow.runtime.shards import LivePool
from tflow.runtime.sim import CALL_FAULTS, NO_FAULTS, Faults, SimHost, SimRuntime, SimulatedFault
from tflow.testing.history import History, observe, without_zeros
from tflow.testing.strategies import SimSchedule, tapes
from tflow.types import Shard, T

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


class Retelling(SimRuntime):
    """Follows a tape, and notes the tape that says the same if no more may go wrong than did."""

    def __init__(self, tape: list[int], faults: Faults, needed: Faults) -> None:
        super().__init__(tape, faults)
        self.needed = {kind: int(getattr(needed, kind)) for kind in self.left}

    def outcome(self, call: Call) -> str:
        before = len(self.choices)
        outcome = super().outcome(call)
        if len(self.choices) > before:
            possible = ["answers", *(kind for kind in CALL_FAULTS if self.needed[kind])]
            self.choices[before:] = [possible.index(outcome)] if len(possible) > 1 else []
        if outcome in self.needed:
            self.needed[outcome] -= 1
        return outcome

    def spawn(self, pool: LivePool, shard: Shard) -> SimHost:
        before, may_refuse = len(self.choices), self.needed["refuses"] > 0
        try:
            return super().spawn(pool, shard)
        except SimulatedFault:
            self.needed["refuses"] -= 1
            raise
        finally:
            if not may_refuse:
                del self.choices[before:]


def needed(history: History[T]) -> Faults:
    """What may go wrong, no more than did go wrong in a run."""
    return replace(history.faults, **{kind: history.happened(kind) for kind in (*CALL_FAULTS, "refuses")})


def retold(plan: Runnable[T], history: History[T], *, most: int) -> SimSchedule:
    """The schedule of a run, without faults that could have happened and did not."""
    sim = Retelling(history.tape, history.faults, needed(history))
    observe(plan, sim, history.faults, seed=history.seed, most=most)
    return SimSchedule(without_zeros(sim.choices), needed(history))


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
