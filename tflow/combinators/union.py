"""``Union``: several driver streams as one; ``ParUnion``: several parallel streams as one.

Both are overloaded up to eight inputs, so that the element type is exact in every checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, overload

from typing_extensions import TypeVar

from tflow import sentences
from tflow.combinators import check, graph, nodes
from tflow.combinators.par import ParIter
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.laws import CONSERVATION, EQUIVALENCE, FAIRNESS, NO_STARVATION, ORDER, obeys
from tflow.types import Async, G, H, T

Gi = TypeVar("Gi", bound=Async)
Hi = TypeVar("Hi")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T6 = TypeVar("T6")
T7 = TypeVar("T7")
T8 = TypeVar("T8")
Weights = Sequence[float] | None
Mode = nodes.Mode | None


@obeys(CONSERVATION, ORDER, FAIRNESS, NO_STARVATION)
class Union(Iter[T]):
    """Merge driver streams. Without ``mode``: round robin if weights are given or no input depends on
    timing, else async.

    Law: multiset sum, order kept per input; an ended input leaves and loses nothing. *Round robin* counts turns: while no input
    blocks or ends, every prefix is within one turn of the shares, with blocking within two; an input with the weight ``inf`` has
    priority: the others have turns only while it is blocked. *Async*: an input that stays ready is served within k outputs of k
    inputs.

    >>> from tflow import Union, from_items
    >>> list(Union(from_items("aaaa"), from_items("bb"), weights=[2, 1]).run())
    ['a', 'b', 'a', 'a', 'b', 'a']
    """

    __slots__ = ()

    # fmt: off
    @overload
    def __init__(self: Union[T1], a: Iter[T1], /, *, weights: Weights = None, mode: Mode = None) -> None: ...
    @overload
    def __init__(self: Union[T1 | T2], a: Iter[T1], b: Iter[T2], /, *, weights: Weights = None, mode: Mode = None) -> None: ...
    @overload
    def __init__(self: Union[T1 | T2 | T3], a: Iter[T1], b: Iter[T2], c: Iter[T3], /, *, weights: Weights = None, mode: Mode = None) -> None: ...
    @overload
    def __init__(self: Union[T1 | T2 | T3 | T4], a: Iter[T1], b: Iter[T2], c: Iter[T3], d: Iter[T4], /, *, weights: Weights = None, mode: Mode = None) -> None: ...
    @overload
    def __init__(self: Union[T1 | T2 | T3 | T4 | T5], a: Iter[T1], b: Iter[T2], c: Iter[T3], d: Iter[T4], e: Iter[T5], /, *, weights: Weights = None, mode: Mode = None) -> None: ...
    @overload
    def __init__(self: Union[T1 | T2 | T3 | T4 | T5 | T6], a: Iter[T1], b: Iter[T2], c: Iter[T3], d: Iter[T4], e: Iter[T5], f: Iter[T6], /, *, weights: Weights = None, mode: Mode = None) -> None: ...
    @overload
    def __init__(self: Union[T1 | T2 | T3 | T4 | T5 | T6 | T7], a: Iter[T1], b: Iter[T2], c: Iter[T3], d: Iter[T4], e: Iter[T5], f: Iter[T6], g: Iter[T7], /, *, weights: Weights = None, mode: Mode = None) -> None: ...
    @overload
    def __init__(self: Union[T1 | T2 | T3 | T4 | T5 | T6 | T7 | T8], a: Iter[T1], b: Iter[T2], c: Iter[T3], d: Iter[T4], e: Iter[T5], f: Iter[T6], g: Iter[T7], h: Iter[T8], /, *, weights: Weights = None, mode: Mode = None) -> None: ...
    @overload
    def __init__(self: Union[T1], a: Iter[T1], /, *streams: Iter[T1], weights: Weights = None, mode: Mode = None) -> None: ...
    # fmt: on
    def __init__(self, *streams: Iter[object], weights: Weights = None, mode: Mode = None) -> None:
        if not streams:
            raise PlanError("Union: give at least one stream.")
        for stream in streams:
            check.instance("Union", "every input", stream, Iter, sentences.DRIVER_STREAM)
        shares = None if weights is None else _shares(weights, len(streams))
        if mode is None:
            mode = "round_robin" if shares or all(stream.node.deterministic for stream in streams) else "async"
        check.one_of("Union", "mode", mode, ("round_robin", "async"))
        if mode == "async" and shares:
            raise PlanError('Union: weights need turns to share out; drop mode="async" or drop weights=.')
        super().__init__(nodes.UnionOf(tuple(stream.node for stream in streams), shares, mode))


def _shares(weights: Sequence[float], inputs: int) -> tuple[float, ...]:
    shares = tuple(check.number("Union", "every weight", weight) for weight in weights)
    for weight in shares:
        if weight <= 0:
            raise PlanError(f"Union: every weight must be above 0; one that is infinite gives priority. Got {weight}.")
    if len(shares) != inputs:
        raise PlanError(f"Union: {inputs} streams got {len(shares)} weights; give one weight per stream.")
    return shares


@obeys(EQUIVALENCE)
class ParUnion(ParIter[T, G, H], Generic[T, G, H]):
    """Put the shards of several parallel streams side by side.

    Law: the shards of the first stream, then those of the second, and so on, each unchanged.

    >>> from tflow import ParUnion, par_from_items
    >>> list(ParUnion(par_from_items("ab"), par_from_items([1])).gather_sync().run())
    ['a', 'b', 1]
    """

    __slots__ = ()

    # fmt: off
    @overload
    def __init__(self: ParUnion[T1, Gi, Hi], a: ParIter[T1, Gi, Hi], /) -> None: ...
    @overload
    def __init__(self: ParUnion[T1 | T2, Gi, Hi], a: ParIter[T1, Gi, Hi], b: ParIter[T2, Gi, Hi], /) -> None: ...
    @overload
    def __init__(self: ParUnion[T1 | T2 | T3, Gi, Hi], a: ParIter[T1, Gi, Hi], b: ParIter[T2, Gi, Hi], c: ParIter[T3, Gi, Hi], /) -> None: ...
    @overload
    def __init__(self: ParUnion[T1 | T2 | T3 | T4, Gi, Hi], a: ParIter[T1, Gi, Hi], b: ParIter[T2, Gi, Hi], c: ParIter[T3, Gi, Hi], d: ParIter[T4, Gi, Hi], /) -> None: ...
    @overload
    def __init__(self: ParUnion[T1 | T2 | T3 | T4 | T5, Gi, Hi], a: ParIter[T1, Gi, Hi], b: ParIter[T2, Gi, Hi], c: ParIter[T3, Gi, Hi], d: ParIter[T4, Gi, Hi], e: ParIter[T5, Gi, Hi], /) -> None: ...
    @overload
    def __init__(self: ParUnion[T1 | T2 | T3 | T4 | T5 | T6, Gi, Hi], a: ParIter[T1, Gi, Hi], b: ParIter[T2, Gi, Hi], c: ParIter[T3, Gi, Hi], d: ParIter[T4, Gi, Hi], e: ParIter[T5, Gi, Hi], f: ParIter[T6, Gi, Hi], /) -> None: ...
    @overload
    def __init__(self: ParUnion[T1 | T2 | T3 | T4 | T5 | T6 | T7, Gi, Hi], a: ParIter[T1, Gi, Hi], b: ParIter[T2, Gi, Hi], c: ParIter[T3, Gi, Hi], d: ParIter[T4, Gi, Hi], e: ParIter[T5, Gi, Hi], f: ParIter[T6, Gi, Hi], g: ParIter[T7, Gi, Hi], /) -> None: ...
    @overload
    def __init__(self: ParUnion[T1 | T2 | T3 | T4 | T5 | T6 | T7 | T8, Gi, Hi], a: ParIter[T1, Gi, Hi], b: ParIter[T2, Gi, Hi], c: ParIter[T3, Gi, Hi], d: ParIter[T4, Gi, Hi], e: ParIter[T5, Gi, Hi], f: ParIter[T6, Gi, Hi], g: ParIter[T7, Gi, Hi], h: ParIter[T8, Gi, Hi], /) -> None: ...
    @overload
    def __init__(self: ParUnion[T1, Gi, Hi], a: ParIter[T1, Gi, Hi], b: ParIter[T1, Gi, Hi], c: ParIter[T1, Gi, Hi], d: ParIter[T1, Gi, Hi], e: ParIter[T1, Gi, Hi], f: ParIter[T1, Gi, Hi], g: ParIter[T1, Gi, Hi], h: ParIter[T1, Gi, Hi], i: ParIter[T1, Gi, Hi], /, *streams: ParIter[T1, Gi, Hi]) -> None: ...
    # fmt: on
    def __init__(self, *streams: ParIter[object, Async]) -> None:
        if not streams:
            raise PlanError("ParUnion: give at least one stream.")
        for stream in streams:
            check.instance("ParUnion", "every input", stream, ParIter, "a parallel stream")
            if graph.is_fed(stream.node):
                fed = graph.par_sources(stream.node)[0].what.partition("(")[0]
                raise PlanError(f"ParUnion: a stream after {fed}() is fed by the driver. Gather it and use Union().")
        super().__init__(nodes.ParUnionOf(tuple(stream.node for stream in streams)))
