"""Where streams begin: items, ranges, iterables and actors.

A name that starts with ``par_`` makes a parallel stream; the others make a driver stream, which is synchronous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Generic, cast

from tflow import sentences
from tflow.combinators import check, hints, labels, nodes
from tflow.combinators.actors import Actors, Resident
from tflow.combinators.methods import is_foreign
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Ci, Iter
from tflow.errors import PlanError
from tflow.laws import EQUIVALENCE, ISOLATION, PROVENANCE, obeys
from tflow.types import Shard, Sync, U, W


@obeys(EQUIVALENCE)
@labels.shaped("from_items(...)")
def from_items(items: Iterable[U], *, repeat: bool = False) -> Iter[U, Sync]:
    """A driver stream of some values. They are read now; the plan keeps a copy.

    Law: yields the items in order; with ``repeat=True`` again and again.

    >>> from tflow import from_items
    >>> list(from_items("abc").run())
    ['a', 'b', 'c']
    """
    return Iter(nodes.FromItems(frozen("from_items", items), check.boolean("from_items", "repeat", repeat)))


@obeys(EQUIVALENCE)
@labels.shaped("from_range({count})")
def from_range(count: int, *, repeat: bool = False) -> Iter[int, Sync]:
    """The numbers from 0 to ``count - 1``.

    Law: as ``from_items(range(count))``.
    """
    check.integer("from_range", "count", count, least=0)
    return Iter(nodes.FromItems(range(count), check.boolean("from_range", "repeat", repeat)))


@obeys(EQUIVALENCE)
@labels.shaped("from_iterable({make})")
def from_iterable(make: Callable[[], Iterable[U]]) -> Iter[U, Sync]:
    """A driver stream of whatever ``make()`` yields; it is called once per run and may be endless.

    Law: yields what ``make()`` yields, in order; one item is read per item asked for.

    >>> from itertools import count
    >>> from tflow import from_iterable
    >>> list(from_iterable(count).take(3).run())
    [0, 1, 2]
    """
    if not callable(make):
        raise PlanError(f"from_iterable: expected a function that makes an iterable, got {make!r}. For values use from_items().")
    return Iter(nodes.FromItems(make, repeat=False))


@obeys(ISOLATION, PROVENANCE)
@labels.shaped("from_actors({actors}, {pull})")
def from_actors(actors: Actors[W], pull: Callable[[W], U]) -> ParIter[U, Sync, W]:
    """A parallel stream over actors of any class: an item is one call of ``pull(actor)``.

    Law: items of a shard come in call order; ``StopIteration`` ends that shard and no other.
    """
    check.instance("from_actors", "actors", actors, Actors, "actors, made by create_actors()")
    if isinstance(actors, Resident):
        raise PlanError(
            f"from_actors: {actors.name} lives in the driver and has no shards. Describe actors with create_actors()."
        )
    check.function("from_actors", pull)
    check.called_with("from_actors", pull, "the actor alone")
    known = actors.actor_class()
    if known is not None and is_foreign(pull, known):
        raise PlanError(f"from_actors: {pull.__qualname__} is not a method of {known.__name__}, the class of the actors.")
    return ParIter(nodes.FromActors(actors, pull))


@obeys(EQUIVALENCE, ISOLATION)
@labels.shaped("par_scatter({actors})")
def par_scatter(stream: Iter[list[U], Ci], actors: Actors[W]) -> ParIter[U, Ci, W]:
    """Send lists with one member per actor to actors: member i goes to shard i.

    Law: ``gather_rounds()`` shows the lists again.

    >>> from tflow import create_actors, from_items, par_scatter
    >>> actors = create_actors(lambda shard: {}, num=2, name="learners")
    >>> list(par_scatter(from_items([[1, 2], [3, 4]]), actors).par_map(lambda x: -x).gather_rounds().run())
    [[-1, -2], [-3, -4]]
    """
    check.instance("par_scatter", "stream", stream, Iter, sentences.DRIVER_STREAM)
    check.instance("par_scatter", "actors", actors, Actors, "actors, made by create_actors()")
    if isinstance(actors, Resident):
        raise PlanError(
            f"par_scatter: {actors.name} lives in the driver and has no shards. Describe actors with create_actors()."
        )
    return ParIter(nodes.Scatter(actors, stream.node))


@obeys(EQUIVALENCE)
@labels.shaped("par_from_items(...)")
def par_from_items(items: Iterable[U], *, shards: int = 2, repeat: bool = False) -> ParIter[U, Sync, object]:
    """A parallel stream of some values, dealt to ``shards`` fresh actors in turn.

    Law: ``gather_sync`` yields the items in order.

    >>> from tflow import par_from_items
    >>> list(par_from_items("abc", shards=2).gather_sync().run())
    ['a', 'b', 'c']
    """
    check.integer("par_from_items", "shards", shards, least=1, most=check.MAX_ACTORS)
    values = frozen("par_from_items", items)
    parts = tuple(values[index::shards] for index in range(shards))
    return _over_parts("par_from_items", parts, repeat, hints.of_values(values))


@obeys(EQUIVALENCE)
@labels.shaped("par_from_range(...)")
def par_from_range(count: int, *, shards: int = 2, repeat: bool = False) -> ParIter[int, Sync, object]:
    """The numbers from 0 to ``count - 1`` in ``shards`` consecutive blocks, the first ones longer by one where needed.

    Law: the shards, one after the other, are ``range(count)``.
    """
    check.integer("par_from_range", "shards", shards, least=1, most=check.MAX_ACTORS)
    check.integer("par_from_range", "count", count, least=0)
    small, longer = divmod(count, shards)
    edges = [index * small + min(index, longer) for index in range(shards + 1)]
    parts = tuple(range(start, stop) for start, stop in pairwise(edges))
    return _over_parts("par_from_range", parts, repeat, int)


@obeys(EQUIVALENCE)
@labels.shaped("par_from_iterables(...)")
def par_from_iterables(
    iterables: Sequence[Iterable[U] | Callable[[], Iterable[U]]], *, repeat: bool = False
) -> ParIter[U, Sync, object]:
    """One shard per iterable, or per function that makes one (it is called inside the actor, and may be endless).

    Law: shard i yields what ``iterables[i]`` yields, in order.
    """
    parts = frozen("par_from_iterables", iterables)
    if not parts:
        raise PlanError("par_from_iterables: give at least one iterable; a parallel stream has at least one shard.")
    for part in parts:
        check.rerunnable("par_from_iterables", part)
    kept = tuple(part if callable(part) else frozen("par_from_iterables", part) for part in parts)
    return _over_parts("par_from_iterables", kept, repeat, hints.UNKNOWN)


def frozen(where: str, items: Iterable[U]) -> Sequence[U]:
    """A copy that nobody can change; ranges already are."""
    if callable(items):
        instead = "par_from_iterables([...])" if where.startswith("par_") else "from_iterable()"
        raise PlanError(f"{where}: got the function {labels.label_of(items)}; use {instead} for functions.")
    check.rerunnable(where, items)
    return cast("Sequence[U]", items) if isinstance(items, range) else tuple(items)


@dataclass(frozen=True)
class ShardValues(Generic[U]):
    """The actor of a shard of values. It only holds them: each run reads them from the start."""

    values: Iterable[U] | Callable[[], Iterable[U]]
    repeat: bool

    def state(self) -> None:
        """Nothing: it does not change."""

    def load(self, state: None) -> None:
        """Nothing to load."""

    def read(self) -> Iterator[U]:
        values = self.values() if callable(self.values) else self.values
        return cycle(values) if self.repeat else iter(values)


@dataclass(frozen=True)
class Dealt(Generic[U]):
    """Makes the actor of each shard."""

    parts: tuple[ShardValues[U], ...]

    def __call__(self, shard: Shard) -> ShardValues[U]:
        return self.parts[shard.index]


def _over_parts(
    name: str, parts: tuple[Iterable[U] | Callable[[], Iterable[U]], ...], repeat: bool, element: object
) -> ParIter[U, Sync, object]:
    check.boolean(name, "repeat", repeat)
    deal = Dealt(tuple(ShardValues(values, repeat) for values in parts))
    return ParIter(nodes.FromActors(Actors(deal, len(parts), name), ShardValues.read, opens=True, holds=element))
