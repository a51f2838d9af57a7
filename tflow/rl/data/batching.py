"""Rebatching of streams, and standardisation of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Never, cast, overload

from typing_extensions import TypeVar

from tflow import sentences
from tflow.combinators import check
from tflow.combinators.columns import AddColumns
from tflow.combinators.nodes import Map
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.rl.data import estimators
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import Batch
from tflow.types import Async

K = TypeVar("K", bound=str)
Ki = TypeVar("Ki", bound=str)
Ci = TypeVar("Ci", bound=Async)


def rows_in(batch: Batch[K]) -> int:
    """How many rows a batch has."""
    return len(batch)


def cut_at(batch: Batch[K], rows: int) -> tuple[Batch[K], Batch[K]]:
    """A batch in two."""
    return batch.slice(0, rows), batch.slice(rows, len(batch))


class ConcatBatches(Iter[Batch[K], Ci]):
    """Batches of at least ``rows`` rows, made of consecutive ones; a smaller last one is kept. With ``exact`` they have just so
    many; what is cut off waits for the next batch, so the stream is no longer synchronous.

    Law: all rows are there, in order; what was made of several batches has the provenance of all.
    """

    __slots__ = ()
    shape: ClassVar[str] = "ConcatBatches({rows})"

    @overload
    def __init__(self, stream: Iter[Batch[K], Ci], *, rows: int, exact: Literal[False] = False) -> None: ...
    @overload
    def __init__(self: ConcatBatches[Ki, Async], stream: Iter[Batch[Ki], Async], *, rows: int, exact: bool) -> None: ...
    def __init__(self, stream: Iter[Batch[Any], Any], *, rows: int, exact: bool = False) -> None:  # Any: typed above
        check.instance("ConcatBatches", "stream", stream, Iter, sentences.DRIVER_STREAM)
        check.integer("ConcatBatches", "rows", rows, least=1)
        check.boolean("ConcatBatches", "exact", exact)
        grouped = stream.batch(rows, weigh=rows_in, cut=cut_at if exact else None)
        super().__init__(Map(grouped.node, Batch.concat, shown_as=self.shown(rows=rows)))


class ConcatRounds(Iter[Batch[K], Ci]):
    """One batch per round of a synchronous stream: what all workers sampled with the same weights.

    Law: as ``gather_rounds()`` with the batches of each round put together.
    """

    __slots__ = ()
    shape: ClassVar[str] = "ConcatRounds()"

    def __init__(self, stream: Iter[list[Batch[K]], Ci]) -> None:
        check.instance("ConcatRounds", "stream", stream, Iter, "what gather_rounds() gives")
        super().__init__(Map(stream.node, Batch.concat, shown_as=self.shape))


@dataclass(frozen=True)
class StandardizeFields(AddColumns[K, Never]):
    """Standardises columns to mean 0 and standard deviation 1 over the batch, padding excluded."""

    fields: tuple[K, ...]

    def __init__(self, field: K, *more: K) -> None:
        fields = (field, *more)
        if not all(isinstance(field, str) for field in fields):
            raise PlanError(f"StandardizeFields: give the names of columns, such as 'advantages'; got {fields!r}.")
        object.__setattr__(self, "fields", fields)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.fields

    def compute(self, batch: Batch[K], /) -> Mapping[Never, Array]:
        mask = batch.columns.get("mask")
        new = {field: estimators.standardized(batch[field], mask=mask) for field in self.fields}
        return cast("Mapping[Never, Array]", new)  # in place of columns that are there: no name is added


def aggregate(stream: ParIter[Batch[K], Async, object], *, aggregators: int, batches: int) -> ParIter[Batch[K], Async, object]:
    """Tree aggregation: ``aggregators`` actors concatenate ``batches`` batches at a time, so that the driver handles fewer.

    Batches go from worker to aggregator; the driver only passes on where they are.
    """
    return cast("ParIter[Batch[K], Async, object]", stream.repartition(aggregators).par_batch(batches).par_map(Batch.concat))
