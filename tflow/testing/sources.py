"""What the kit sends through combinators: numbered items, from the driver and from actors, that tell what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tflow.combinators.actors import Actors, create_actors
from tflow.combinators.create import from_actors, from_iterable, par_from_items
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.live import Live
from tflow.types import LiveOp, Shard

PLENTY = 2000
"""More than any test takes, so that a combinator that shows nothing any more comes to an end."""


class Item(NamedTuple):
    """What the kit sends through a combinator: which input or shard it comes from, its number there, and the version of the
    weights that its actor had."""

    source: int
    number: int
    version: int = 0


class Maker:
    """An actor that makes numbered items, up to a limit."""

    def __init__(self, shard: Shard, limits: Sequence[int] | None, happened: list[str] | None) -> None:
        if happened is not None:
            happened.append(f"{shard.actors}[{shard.index}] was made")
        self.shard = shard.index
        self.limit = PLENTY if limits is None else limits[shard.index]
        self.made = self.version = 0

    def make(self) -> Item:
        if self.made == self.limit:
            raise StopIteration
        self.made += 1
        return Item(self.shard, self.made - 1, self.version)

    def set_version(self, version: int) -> None:
        self.version = version


def makers(num: int, limits: Sequence[int] | None = None, happened: list[str] | None = None) -> Actors[Maker]:
    return create_actors(partial(Maker, limits=limits, happened=happened), num=num, name="makers")


class Announce(LiveOp[Item, Item]):
    """After the k-th item, all actors are sent version k."""

    def __init__(self, actors: Actors[Maker]) -> None:
        self.actors = actors

    def apply(self, live: Live, item: Item, /) -> Item:
        live[self.actors].update(Maker.set_version, live[self.actors].advance())
        return item


class Subject(NamedTuple):
    """A combinator and what is claimed of it."""

    build: Callable[..., Any]  # Any: from driver streams or a parallel one, to one stream or several
    inputs: int
    parallel: bool
    weights: Sequence[float] | None
    bound: int
    in_flight: int

    def over(self, *streams: Iter[Item] | ParIter[Item]) -> Iter[Item]:
        """The combinator over these inputs, as one stream; branches are put side by side."""
        made: Iter[Item] | Sequence[Iter[Item]] = self.build(*streams)
        return made if isinstance(made, Iter) else Union(*made)

    def lengths(self) -> st.SearchStrategy[list[int]]:
        shards = st.integers(1, 3) if self.parallel else st.just(self.inputs)
        return shards.flatmap(lambda num: st.lists(st.integers(0, 6), min_size=num, max_size=num))

    def finite(self, lengths: Sequence[int]) -> Iter[Item]:
        """Over inputs of these lengths, some made by actors, so that schedules matter."""
        if self.parallel:
            return self.over(from_actors(makers(len(lengths), lengths), Maker.make))
        return self.over(*(numbered(n, length) if n % 2 else remote(n, length) for n, length in enumerate(lengths)))


def numbered(source: int, length: int | None, pulled: list[str] | None = None) -> Iter[Item]:
    """A driver stream of numbered items that notes what is pulled."""

    def read() -> Iterator[Item]:
        for number in range(PLENTY if length is None else length):
            if pulled is not None:
                pulled.append(f"item {number} of input {source} was read")
            yield Item(source, number)

    return from_iterable(read)


def remote(source: int, length: int) -> Iter[Item]:
    """The same from an actor."""
    return par_from_items([Item(source, number) for number in range(length)], shards=1).gather_async()


def everything(lengths: Sequence[int]) -> list[tuple[int, int]]:
    return [(source, number) for source, length in enumerate(lengths) for number in range(length)]
