"""Strategies: tapes, faults, schedules, streams and whole plans."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from hypothesis import strategies as st

from tflow.combinators.actors import create_actor, create_actors
from tflow.combinators.create import from_range, par_from_items, par_from_range, par_scatter
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.errors import PlanError
from tflow.runtime.sim import CALL_FAULTS, NO_FAULTS, Faults
from tflow.types import ActorOp, Shard


class SimSchedule(NamedTuple):
    """What decides a simulated run: ``simulate(plan, *schedule)``."""

    tape: list[int]
    faults: Faults = NO_FAULTS


def tapes(max_size: int = 60) -> st.SearchStrategy[list[int]]:
    """Orders of events. They shrink to the empty tape, which is oldest first and without a fault."""
    # Bytes, because hypothesis draws them in one go, much faster than a list of numbers. Left to itself, it makes most of them
    # a few numbers long, whatever they may be; so there is a choice of how long they are at least, which shrinks to 0.
    least = range(0, max_size, max(1, max_size // 6)) if max_size else [0]
    return st.one_of(*(st.binary(min_size=size, max_size=max_size) for size in least)).map(list)


KINDS = (*CALL_FAULTS, "refuses")
LONGEST_CALM = 20
"""How many calls may go well before a fault. Without it, nearly all would strike the first calls."""


def fault_profiles(
    kinds: Collection[str] = ("dies_before", "dies_after", "slow", "refuses"), *, most: int = 1
) -> st.SearchStrategy[Faults]:
    """What may go wrong in a run: first which kinds, then how often each, so that not every run drowns in the same faults; and
    how many calls go well before each.

    ``hangs`` is for plans with ``timeout_s=``, ``raises`` for those that may end with an error. With ``most=1`` no shard dies so
    often in a row that it is given up.
    """
    unknown = set(kinds) - set(KINDS)
    if unknown:
        raise PlanError(f"fault_profiles: there is no fault {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}.")
    return _profiles(sorted(kinds), most)


@st.composite
def _profiles(draw: st.DrawFn, kinds: list[str], most: int) -> Faults:
    chosen, often = draw(st.integers(0, 2 ** len(kinds) - 1)), draw(st.integers(1, most))
    calm = draw(st.just(0) | st.integers(1, LONGEST_CALM))  # short plans have few calls
    return Faults(**{kind: often for bit, kind in enumerate(kinds) if chosen >> bit & 1}, calm=calm if chosen else 0)


def schedules(faults: st.SearchStrategy[Faults] | None = None, *, max_size: int = 60) -> st.SearchStrategy[SimSchedule]:
    """Tapes, with faults if a strategy for them is given."""
    return st.builds(SimSchedule, tapes(max_size), st.just(NO_FAULTS) if faults is None else faults)


# --------------------------------------------------------------------------- streams and plans


class Total(ActorOp[list[int], int, int]):
    """Keeps all numbers in its actor and answers with their sum."""

    def apply(self, actor: list[int], item: int, /) -> int:
        actor.append(item)
        return sum(actor)


def an_empty_list(shard: Shard) -> list[int]:
    return []


Piece = Callable[[Iter[int], Callable[[int], int]], Iter[int]]

SEQUENTIAL: tuple[Piece, ...] = (
    lambda s, f: s.map(f),
    lambda s, f: s.tap(f),
    lambda s, f: s.filter(lambda x: f(x) % 5 != 0),
    lambda s, f: s.flat_map(lambda x: [f(x)] * (x % 3)),
    lambda s, f: s.batch(3).map(lambda b: [f(x) + len(b) for x in b]).flatten(),
    lambda s, f: s.scan(lambda total, x: (total + f(x)) % 97, 0),
    lambda s, f: s.map(f).take(11),
    lambda s, f: s.shuffle(4).map(f),
    lambda s, f: s.every(items=2).map(f),
)
"""Ways from numbers to numbers on the driver, each with a place where a function of the user runs."""

PARALLEL: tuple[Piece, ...] = (
    lambda s, f: s.zip(from_range(15).map(f)).map(lambda pair: pair[0] + pair[1]),
    lambda s, f: Union(s, par_from_range(6, shards=3).par_map(f).gather_sync()),
    lambda s, f: Union(s, par_from_range(6, shards=3).par_map(f).gather_async(in_flight=2, per_call=2)),
    lambda s, f: Union(*(branch.map(f) for branch in s.split(3))),
    lambda s, f: Union(*(branch.map(f) for branch in s.split(2, max_lag=2)), mode="async"),
    lambda s, f: s.map(f).call(create_actor(an_empty_list), Total()),
    lambda s, f: s.map(f).hand_off(create_actor(an_empty_list), Total(), mailbox=2),
    lambda s, f: Union(s, par_from_items([1, 2, 3]).repartition(2).par_map(f).gather_async()),
    lambda s, f: Union(s.map(f).drain(), par_from_items([4, 5]).gather_sync()),
    lambda s, f: Union(s, par_from_range(6, shards=3).par_map(f).par_all_gather().par_map(sum).gather_sync()),
    lambda s, f: par_scatter(s.map(f).batch(1), create_actors(an_empty_list, num=1)).par_all_gather().par_map(sum).gather_async(),
)
"""Ways that involve actors, several streams, or both."""


def plain(value: int) -> int:
    return value


def build(pieces: Collection[int], length: int, fn: Callable[[int], int] = plain) -> Iter[int]:
    """The numbers below ``length``, through the given pieces, with ``fn`` where a function of the user runs."""
    stream: Iter[int] = from_range(length)
    for piece in pieces:
        stream = (*SEQUENTIAL, *PARALLEL)[piece](stream, fn)
    return stream


def streams(*, max_pieces: int = 4) -> st.SearchStrategy[Iter[int]]:
    """Driver streams of numbers, without actors."""
    pieces = st.lists(st.integers(0, len(SEQUENTIAL) - 1), max_size=max_pieces)
    return st.builds(build, pieces, st.integers(0, 20))


def plans(*, max_pieces: int = 4) -> st.SearchStrategy[Iter[int]]:
    """Finite plans of any shape: gathers, unions, splits, calls and hand-offs, nested."""
    pieces = st.lists(st.integers(0, len(SEQUENTIAL) + len(PARALLEL) - 1), max_size=max_pieces)
    return st.builds(build, pieces, st.integers(0, 20))
