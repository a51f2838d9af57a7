"""``stream.with_columns(op)``: an operator reads some columns of a batch and adds others; all that the batch had stays.

What makes the types exact is that ``with_columns`` is a property: a checker first learns which columns the stream has, then asks
the operator to read no others. (As a method with two type variables to solve at once, checkers give up or guess.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, get_args, get_origin

from typing_extensions import TypeVar

from tflow.combinators import check, hints, nodes
from tflow.errors import PlanError
from tflow.types import Async, OnActor, R, Signature, Stateless

if TYPE_CHECKING:
    from tflow.combinators.par import ParIter
    from tflow.combinators.stream import Iter
    from tflow.rl.data.arrays import Array
    from tflow.rl.data.batch import Batch

K = TypeVar("K", bound=str)
K2 = TypeVar("K2", bound=str)
Ci = TypeVar("Ci", bound=Async)
Gi = TypeVar("Gi", bound=Async)
Hi = TypeVar("Hi")
Reads = TypeVar("Reads", bound=str, covariant=True)
Adds = TypeVar("Adds", bound=str, covariant=True)


class AddColumns(ABC, Generic[Reads, Adds, R]):
    """An operator on batches that reads some columns and adds others."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it reads, as far as its class tells."""
        return _literals(hints.base_arguments(type(self), AddColumns)[:1])

    @property
    def adds(self) -> tuple[str, ...]:
        """The columns that it adds, as far as its class tells."""
        return _literals(hints.base_arguments(type(self), AddColumns)[1:2])

    @abstractmethod
    def compute(self, batch: Batch[Reads], /) -> Mapping[Adds, Array]:
        """The new columns, one row per row of the batch."""


def _literals(arguments: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(name for each in arguments if get_origin(each) is Literal for name in get_args(each))


@dataclass(frozen=True)
class Widen(Stateless["Batch[str]", "Batch[str]"]):
    """Applies an ``AddColumns`` to each batch."""

    columns: AddColumns[str, str, object]

    def signature(self, usual: Signature, /) -> Signature:
        return replace(usual, label=type(self.columns).__name__, reads=self.columns.reads, produces=self.widened(usual.given))

    def widened(self, given: object) -> object:
        """What batches of a type become."""
        have = hints.columns_of(given)
        if have is None:
            return given
        return hints.generic(get_origin(given), Literal[(*dict.fromkeys((*have, *self.columns.adds)),)])

    def apply(self, item: Batch[str], /) -> Batch[str]:
        return item.with_columns(self.columns.compute(item)) if len(item) else item


class WithColumns(Generic[K, Ci]):
    """What ``stream.with_columns`` is: call it with an operator."""

    def __init__(self, node: nodes.Node) -> None:
        self.node = node

    def __call__(self, op: AddColumns[K, K2, Ci], /) -> Iter[Batch[K | K2], Ci]:
        from tflow.combinators.stream import Iter

        return Iter(_widened("with_columns", self.node, op))


class ParWithColumns(Generic[K, Gi, Hi]):
    """What ``stream.par_with_columns`` is: call it with an operator."""

    def __init__(self, node: nodes.Node) -> None:
        self.node = node

    def __call__(self, op: AddColumns[K, K2, OnActor[Hi]], /) -> ParIter[Batch[K | K2], Gi, Hi]:
        from tflow.combinators.par import ParIter

        return ParIter(_widened("par_with_columns", self.node, op))


def _widened(where: str, node: nodes.Node, op: object) -> nodes.ForEach:
    if not isinstance(op, AddColumns):
        raise PlanError(f"{where}: expected an operator that adds columns (its class derives from AddColumns), got {op!r}.")
    return nodes.ForEach(node, check.operator(where, Widen(op)))
