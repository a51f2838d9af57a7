"""``split``, typed once for both kinds of stream: the tuple has exactly as many branches as were asked for."""

from __future__ import annotations

from typing import Generic, Literal, overload

from typing_extensions import TypeVar

from tflow.combinators import check, nodes
from tflow.laws import BOUNDEDNESS, COMPLETENESS, obeys

I = TypeVar("I", covariant=True)  # noqa: E741  # the branch of a lock-step split
J = TypeVar("J", covariant=True)
"""The branch of a split that may drift."""


class Splits(Generic[I, J]):
    """A stream that can feed several consumers."""

    __slots__ = ()

    @overload
    def split(self, n: Literal[2] = 2) -> tuple[I, I]: ...
    @overload
    def split(self, n: Literal[1]) -> tuple[I]: ...
    @overload
    def split(self, n: Literal[3]) -> tuple[I, I, I]: ...
    @overload
    def split(self, n: Literal[4]) -> tuple[I, I, I, I]: ...
    @overload
    def split(self, n: Literal[5]) -> tuple[I, I, I, I, I]: ...
    @overload
    def split(self, n: Literal[6]) -> tuple[I, I, I, I, I, I]: ...
    @overload
    def split(self, n: Literal[7]) -> tuple[I, I, I, I, I, I, I]: ...
    @overload
    def split(self, n: Literal[8]) -> tuple[I, I, I, I, I, I, I, I]: ...
    @overload
    def split(self, n: int) -> tuple[I, ...]: ...
    @overload
    def split(self, n: Literal[2] = 2, *, max_lag: int) -> tuple[J, J]: ...
    @overload
    def split(self, n: Literal[1], *, max_lag: int) -> tuple[J]: ...
    @overload
    def split(self, n: Literal[3], *, max_lag: int) -> tuple[J, J, J]: ...
    @overload
    def split(self, n: Literal[4], *, max_lag: int) -> tuple[J, J, J, J]: ...
    @overload
    def split(self, n: Literal[5], *, max_lag: int) -> tuple[J, J, J, J, J]: ...
    @overload
    def split(self, n: Literal[6], *, max_lag: int) -> tuple[J, J, J, J, J, J]: ...
    @overload
    def split(self, n: Literal[7], *, max_lag: int) -> tuple[J, J, J, J, J, J, J]: ...
    @overload
    def split(self, n: Literal[8], *, max_lag: int) -> tuple[J, J, J, J, J, J, J, J]: ...
    @overload
    def split(self, n: int, *, max_lag: int) -> tuple[J, ...]: ...
    @obeys(COMPLETENESS, BOUNDEDNESS)
    def split(self, n: int = 2, *, max_lag: int | None = None) -> tuple[I | J, ...]:
        """Feed ``n`` consumers; each must be used. A parallel stream is gathered synchronously first.

        Law: every branch sees every item exactly once, in order, under any schedule. The next item is pulled when every open
        branch has asked for it; with ``max_lag=k`` a branch may be up to ``k`` items ahead of the slowest.

        >>> from tflow import from_items
        >>> small, large = from_items([1, 2]).split()
        >>> list(small.zip(large.map(lambda x: 10 * x)).run())
        [(1, 10), (2, 20)]
        """
        where = f"split({n})"
        check.integer(where, "n", n, least=1, most=check.MAX_BRANCHES)
        if max_lag is not None:
            check.integer(where, "max_lag", max_lag, least=1, hint="Leave it out to keep the branches in lock step.")
        return self._branches(nodes.Split(self._gathered(), n, max_lag))

    def _gathered(self) -> nodes.Node:
        raise NotImplementedError

    def _branches(self, split: nodes.Split) -> tuple[I | J, ...]:
        raise NotImplementedError
