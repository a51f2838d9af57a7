"""Strategies: tapes, faults, schedules, streams and whole plans."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tflow.combinators import nodes
from tflow.combinators.actors import Actors, create_actor, create_actors
from tflow.combinators.create import from_actors, from_items, from_range, par_from_items, par_from_range, par_scatter
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.combinators.union import ParUnion, Union
from tflow.errors import PlanError
from tflow.runtime.sim import CALL_FAULTS, NO_FAULTS, Faults
from tflow.types import ActorOp, Async, Shard, Stateful, Stateless, TimeBudget


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


class Pairs(Stateful[int, list[int], tuple[int, ...]]):
    """Sums of two numbers; the last one is left if they are odd."""

    def init(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], item: int, /) -> tuple[tuple[int, ...], list[int]]:
        return ((), [sum(state) + item]) if state else ((item,), [])

    def at_end(self, state: tuple[int, ...], /) -> list[list[int]]:
        return [list(state)] if state else []


class Numbers:
    """An actor that has some numbers."""

    def __init__(self, shard: Shard) -> None:
        self.left = [shard.index, shard.index + 2, shard.index + 4]

    def number(self) -> int:
        if not self.left:
            raise StopIteration
        return self.left.pop(0)


class Sum(Stateless[list[int], int]):
    def apply(self, item: list[int], /) -> int:
        return sum(item)


Function = Callable[[int], int]
Piece = Callable[[Iter[int], Function], Iter[int]]
Shards = ParIter[int, Async, Any]  # Any: whatever the actors are

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
    lambda s, f: s.map(f).hand_off(create_actor(an_empty_list), Total(), mailbox=2, timeout_s=60.0),
    lambda s, f: Union(s, par_from_items([1, 2, 3]).repartition(2).par_map(f).gather_async()),
    lambda s, f: Union(s.map(f).drain(), par_from_items([4, 5]).gather_sync()),
    lambda s, f: Union(s, par_from_range(6, shards=3).par_map(f).par_all_gather().par_map(sum).gather_sync()),
    lambda s, f: par_scatter(s.map(f).batch(1), create_actors(an_empty_list, num=1)).par_all_gather().par_map(sum).gather_async(),
    lambda s, f: s.map(f).for_each(Pairs()).flatten(),
    lambda s, f: Iter(nodes.MixIn(s.map(f).node, slots=3, proportion=0.5, seed=1)),
    lambda s, f: s.map(f).hand_off(create_actor(an_empty_list), Total(), mailbox=1, on_full="drop_oldest", on_death="restart"),
    lambda s, f: s.batch(4, weigh=lambda x: 1 + f(x) % 3).flatten(),
    lambda s, f: s.map(lambda x: [f(x)] * (1 + x % 6)).batch(4, weigh=len, cut=lambda x, n: (x[:n], x[n:])).flatten().flatten(),
    lambda s, f: Union(s, from_items([1, 2], repeat=True).take(5).map(f), weights=(2, 1)),
    lambda s, f: s.call(create_actor(an_empty_list), Total(), on_death="restart", timeout_s=60.0).map(f),
)
"""Ways that involve actors, several streams, or both."""

SOURCES: tuple[Callable[[Function], Shards], ...] = (
    lambda f: par_from_range(7, shards=3),
    lambda f: par_from_items([3, 1, 2, 5], shards=2),
    lambda f: from_actors(create_actors(Numbers, num=2), Numbers.number),
    lambda f: par_from_items([1, 2], repeat=True).par_take(3),
    lambda f: par_scatter(from_range(4).map(lambda x: [f(x)]), create_actors(an_empty_list, num=1)),
    lambda f: zipped(create_actors(Numbers, num=2), f),
)
"""Where a parallel stream begins."""

SHARDED: tuple[Callable[[Shards, Function], Shards], ...] = (
    lambda p, f: p.par_map(f),
    lambda p, f: p.par_tap(f),
    lambda p, f: p.par_filter(lambda x: f(x) % 5 != 0),
    lambda p, f: p.par_flat_map(lambda x: [f(x)] * (x % 3)),
    lambda p, f: p.par_batch(2).par_flatten(),
    lambda p, f: p.par_take(3),
    lambda p, f: p.par_scan(lambda total, x: (total + f(x)) % 97, 0),
    lambda p, f: p.par_shuffle(3),
    lambda p, f: p.par_for_each(Pairs()).par_flatten(),
    lambda p, f: p.select_shards(0),
    lambda p, f: ParUnion(p, par_from_items([8], shards=1)),
    lambda p, f: p.repartition(2),
    lambda p, f: p.par_all_reduce(Sum(), on_death="skip", timeout_s=60.0),
    lambda p, f: p.par_batch_together(2).par_map(sum),
    lambda p, f: p.par_batch_together(3, share=0.5, per_call=TimeBudget(), on_death="skip", timeout_s=60.0).par_map(sum),
)
"""Ways from shards to shards."""

GATHERS: tuple[Callable[[Shards], Iter[int]], ...] = (
    lambda p: p.gather_sync(),
    lambda p: p.gather_sync(on_death="skip", timeout_s=60.0),
    lambda p: p.gather_sync(on_death="raise"),
    lambda p: p.gather_rounds().flatten(),
    lambda p: p.gather_async(),
    lambda p: p.gather_async(in_flight=2, per_call=2, timeout_s=60.0),
    lambda p: p.gather_async(on_death="skip", max_staleness=1),
    lambda p: p.gather_async(on_death="raise", per_call=TimeBudget(items=3)),
)
"""Ways from shards to the driver."""


def zipped(actors: Actors[Numbers], fn: Function) -> Shards:
    """Two streams over the same actors, side by side."""
    one, other = (from_actors(actors, Numbers.number) for _ in range(2))
    return one.par_zip(other.par_map(fn)).par_map(sum)


class InActors(NamedTuple):
    """A piece of a plan that is parallel: where it begins, what it goes through, how it comes to the driver."""

    source: int
    through: tuple[int, ...]
    gather: int

    def beside(self, stream: Iter[int], fn: Function) -> Iter[int]:
        shards = SOURCES[self.source](fn)
        for piece in self.through:
            with suppress(PlanError):  # it does not fit behind the others, as a union does not behind a collective: leave it out
                shards = SHARDED[piece](shards, fn)
        gathered = shards.gather_async(in_flight=2)
        with suppress(PlanError):  # nor do all options behind shards that are fed
            gathered = GATHERS[self.gather](shards)
        return Union(stream, gathered)


def plain(value: int) -> int:
    return value


def build(pieces: Collection[int | InActors], length: int, fn: Function = plain) -> Iter[int]:
    """The numbers below ``length``, through the given pieces, with ``fn`` where a function of the user runs."""
    stream: Iter[int] = from_range(length)
    for piece in pieces:
        stream = piece.beside(stream, fn) if isinstance(piece, InActors) else (*SEQUENTIAL, *PARALLEL)[piece](stream, fn)
    return stream


def pieces(*, max_pieces: int = 4) -> st.SearchStrategy[list[int | InActors]]:
    """Pieces of all kinds, for ``build``."""
    through = st.lists(st.integers(0, len(SHARDED) - 1), max_size=4).map(tuple)
    in_actors = st.builds(InActors, st.integers(0, len(SOURCES) - 1), through, st.integers(0, len(GATHERS) - 1))
    return st.lists(st.integers(0, len(SEQUENTIAL) + len(PARALLEL) - 1) | in_actors, max_size=max_pieces)


def streams(*, max_pieces: int = 4) -> st.SearchStrategy[Iter[int]]:
    """Driver streams of numbers, without actors."""
    pieces = st.lists(st.integers(0, len(SEQUENTIAL) - 1), max_size=max_pieces)
    return st.builds(build, pieces, st.integers(0, 20))


def plans(*, max_pieces: int = 4) -> st.SearchStrategy[Iter[int]]:
    """Finite plans of any shape: gathers, unions, splits, calls and hand-offs, nested."""
    return st.builds(build, pieces(max_pieces=max_pieces), st.integers(0, 20))
