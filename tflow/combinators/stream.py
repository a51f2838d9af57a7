"""``Iter[T, C]``: a stream on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Never, TypeGuard, overload

from typing_extensions import TypeIs, TypeVar

from tflow import sentences
from tflow.combinators import check, nodes
from tflow.combinators.actors import Actor
from tflow.combinators.columns import K, WithColumns
from tflow.combinators.runnable import Runnable
from tflow.combinators.splits import Splits
from tflow.errors import PlanError
from tflow.laws import BOUNDEDNESS, CONSERVATION, DETERMINISM, EQUIVALENCE, ISOLATION, LAZINESS, ORDER, PROVENANCE, obeys
from tflow.types import Async, C, OnActor, Op, T, U, V, W

if TYPE_CHECKING:
    from tflow.rl.data.batch import Batch

Ci = TypeVar("Ci", bound=Async)


class Iter(Runnable[T], Splits["Iter[T, C]", "Iter[T, Async]"], Generic[T, C]):
    """A stream of ``T`` on the driver: an edge of a plan, used once.

    ``C`` says what the stream offers: ``Sync`` behind a barrier, else ``Async``. Users write ``Iter[Rollout]``; a ``Sync``
    stream is accepted wherever that is asked for. A stream does not iterate: ``stream.run()`` does.
    """

    __slots__ = ()

    def __init__(self, node: nodes.Node) -> None:
        if node.parallel:
            raise PlanError(f"Iter: {node.label} is a parallel stream: use ParIter, or gather it first.")
        super().__init__(node)

    if not TYPE_CHECKING:  # so that `a, b = stream` is a type error, and a sentence at run time

        def __iter__(self):
            raise TypeError(
                f"A stream does not iterate ({self.node.label}). To run it, write `for item in stream.run()`; "
                "to feed two consumers, write `a, b = stream.split()`."
            )

        def __getattr__(self, name):
            if hasattr(type(self), name):  # a property that raised: let it say why
                return object.__getattribute__(self, name)
            raise AttributeError(sentences.no_parallel_method(name), name=name, obj=self)

    @obeys(EQUIVALENCE)
    def map(self, fn: Callable[[T], U]) -> Iter[U, C]:
        """Apply a function to each item.

        Law: identity and composition: mapping twice equals mapping the composition.

        >>> from tflow import from_items
        >>> list(from_items([1, 2]).map(lambda x: x + 1).run())
        [2, 3]
        """
        check.function("map", fn)
        return Iter(nodes.Map(self.node, fn))

    @obeys(EQUIVALENCE, ISOLATION)
    def for_each(self, op: Op[T, U, C]) -> Iter[U, C]:
        """Apply an operator to each item; it runs on the driver.

        Law: as ``map``; a stateful operator starts fresh in every run.
        """
        return Iter(nodes.ForEach(self.node, check.operator("for_each", op)))

    @property
    def with_columns(self: Iter[Batch[K], Ci]) -> WithColumns[K, Ci]:
        """``stream.with_columns(op)``: add columns to each batch; ``op`` says which it reads and which it adds.

        Law: as ``map``; all columns that a batch had stay.
        """
        return WithColumns(self.node)

    @obeys(EQUIVALENCE)
    def tap(self, fn: Callable[[T], object]) -> Iter[T, C]:
        """Look at each item without changing the stream.

        Law: identity; ``fn`` sees every item once, in order.
        """
        check.function("tap", fn)
        return Iter(nodes.Tap(self.node, fn))

    @overload
    def filter(self, fn: Callable[[T], TypeGuard[U]]) -> Iter[U, C]: ...
    @overload
    def filter(self, fn: Callable[[T], TypeIs[U]]) -> Iter[U, C]: ...
    @overload
    def filter(self, fn: Callable[[T], object]) -> Iter[T, C]: ...
    @obeys(EQUIVALENCE)
    def filter(self, fn: Callable[[T], object]) -> Iter[object, C]:
        """Keep the items for which ``fn`` is true.

        Law: as the built-in ``filter``.

        >>> from tflow import from_items
        >>> list(from_items([1, 2, 3]).filter(lambda x: x != 2).run())
        [1, 3]
        """
        check.function("filter", fn)
        return Iter(nodes.Filter(self.node, fn))

    @obeys(EQUIVALENCE)
    def flat_map(self, fn: Callable[[T], Iterable[U]]) -> Iter[U, C]:
        """Replace each item by zero or more others.

        Law: as ``map`` then ``flatten``; associative.

        >>> from tflow import from_items
        >>> list(from_items([0, 2]).flat_map(range).run())
        [0, 1]
        """
        check.function("flat_map", fn)
        return Iter(nodes.FlatMap(self.node, fn))

    @obeys(EQUIVALENCE)
    def flatten(self: Iter[Iterable[U], Ci]) -> Iter[U, Ci]:
        """Replace each iterable by its members.

        Law: as ``itertools.chain.from_iterable``; ``batch(n)`` then ``flatten`` is the identity.
        """
        return Iter(nodes.Flatten(self.node))

    @obeys(EQUIVALENCE, PROVENANCE)
    def batch(
        self,
        size: int,
        *,
        weigh: Callable[[T], int] | None = None,
        cut: Callable[[T, int], tuple[T, T]] | None = None,
    ) -> Iter[list[T], C]:
        """Group consecutive items into lists of ``size``; a shorter last list is kept.

        With ``weigh``, a list is full when its items weigh at least ``size`` together. With ``cut(item, weight)`` as well, which
        gives the first part of an item, of that weight, and the rest, every list but the last weighs just ``size``.

        Law: ``batch(n)`` then ``flatten`` is the identity.

        >>> from tflow import from_items
        >>> list(from_items([1, 2, 3]).batch(2).run())
        [[1, 2], [3]]
        """
        check.integer("batch", "size", size, least=1, hint="To pass items through unbatched, drop batch().")
        for function in (weigh, cut):
            if function is not None:
                check.function("batch", function)
        if cut is not None and weigh is None:
            raise PlanError("batch: cut= needs weigh=, which says how much an item counts.")
        return Iter(nodes.BatchItems(self.node, size, weigh, cut))

    @obeys(EQUIVALENCE, LAZINESS)
    def take(self, count: int) -> Iter[T, C]:
        """The first ``count`` items; then everything before it is closed.

        Law: as ``itertools.islice``; issues at most ``count`` calls plus what may be in flight.
        """
        check.integer("take", "count", count, least=0)
        return Iter(nodes.Take(self.node, count))

    @obeys(EQUIVALENCE, ISOLATION)
    def scan(self, fn: Callable[[U, T], U], initial: U) -> Iter[U, C]:
        """Fold items into a state and show the state after each. ``initial`` is copied for every run.

        Law: as ``itertools.accumulate`` without the initial value.

        >>> from tflow import from_items
        >>> list(from_items([1, 2, 3]).scan(lambda total, x: total + x, 0).run())
        [1, 3, 6]
        """
        check.function("scan", fn)
        return Iter(nodes.Scan(self.node, fn, initial))

    @obeys(EQUIVALENCE, PROVENANCE)
    def zip(self, other: Iter[V]) -> Iter[tuple[T, V], Async]:  # said in full: mypy before 2.0 mixes up what it fills in
        """Pair items of two streams; ends with the shorter one.

        Law: as the built-in ``zip``.
        """
        check.instance("zip", "other", other, Iter, sentences.DRIVER_STREAM)
        return Iter(nodes.Zip(self.node, other.node))

    @obeys(CONSERVATION, DETERMINISM)
    def shuffle(self, buffer: int, *, seed: int = 0) -> Iter[T]:
        """Give items out in random order from a buffer of ``buffer``.

        Law: a permutation, a function of the seed; no item comes out more than ``buffer`` places early.
        """
        check.integer("shuffle", "buffer", buffer, least=1)
        check.integer("shuffle", "seed", seed, least=0)
        return Iter(nodes.Shuffle(self.node, buffer, seed))

    @obeys(EQUIVALENCE)
    def drain(self) -> Iter[Never, C]:
        """Run the flow and show nothing, so that ``Union(store.drain(), train)`` reports only ``train``.

        Law: every item is consumed, none is shown.
        """
        return Iter(nodes.Drain(self.node))

    @overload
    def every(self, *, items: int) -> Iter[T, C]: ...
    @overload
    def every(self, *, steps: int) -> Iter[T, C]: ...
    @overload
    def every(self, *, seconds: float) -> Iter[T, C]: ...
    @obeys(EQUIVALENCE)
    def every(self, *, items: int | None = None, steps: int | None = None, seconds: float | None = None) -> Iter[T, C]:
        """A gate that passes one item per so many items, env steps, or seconds of the runtime's clock.

        Law: ``every(items=n)`` shows items n, 2n, 3n, ...; the others are consumed and not shown.

        >>> from tflow import from_range
        >>> list(from_range(7).every(items=3).run())
        [2, 5]
        """
        given = {unit: n for unit, n in (("items", items), ("steps", steps), ("seconds", seconds)) if n is not None}
        if len(given) != 1:
            raise PlanError(f"every: give exactly one of items=, steps= and seconds=, got {sorted(given) or 'none'}.")
        if seconds is not None:
            return Iter(nodes.Every(self.node, "seconds", check.positive("every", "seconds", seconds)))
        if steps is not None:
            return Iter(nodes.Every(self.node, "steps", check.integer("every", "steps", steps, least=1)))
        return Iter(nodes.Every(self.node, "items", check.integer("every", "items", items or 0, least=1)))

    @obeys(EQUIVALENCE, BOUNDEDNESS)
    def call(
        self,
        actor: Actor[W],
        op: Op[T, U, OnActor[W]],
        *,
        on_death: nodes.OnDeath = "raise",
        timeout_s: float | None = None,
    ) -> Iter[U, C]:
        """Apply an operator inside an actor and wait for each result: a synchronous stream stays synchronous.

        If the actor dies, or takes longer than ``timeout_s``, the run ends with ``ShardFailed``; with ``on_death="restart"`` a
        fresh actor takes over and the item that was lost is not tried again.

        Law: as ``for_each``; one call in flight, and nothing is pulled meanwhile.
        """
        check.instance("call", "actor", actor, Actor, "one actor, made by create_actor()")
        check.fault_policy("call", on_death, timeout_s)
        return Iter(nodes.CallActor(self.node, check.operator("call", op), actor=actor, on_death=on_death, timeout_s=timeout_s))

    @obeys(CONSERVATION, ORDER, BOUNDEDNESS)
    def hand_off(
        self,
        actor: Actor[W],
        op: Op[T, U, OnActor[W]],
        *,
        mailbox: int = 2,
        on_full: nodes.OnFull = "block",
        on_death: nodes.OnDeath = "raise",
        timeout_s: float | None = None,
    ) -> Iter[U]:
        """Apply an operator inside an actor that works beside the driver; results come in order. ``on_death`` and ``timeout_s``
        as for ``call``.

        Law: at most ``mailbox`` items are at the actor; nothing is lost with ``on_full="block"``, and every item that
        ``"drop_oldest"`` drops is counted.
        """
        check.instance("hand_off", "actor", actor, Actor, "one actor, made by create_actor()")
        check.integer("hand_off", "mailbox", mailbox, least=1)
        check.one_of("hand_off", "on_full", on_full, ("block", "drop_oldest"))
        check.fault_policy("hand_off", on_death, timeout_s)
        operator = check.operator("hand_off", op)
        return Iter(
            nodes.HandOff(
                self.node, operator, actor=actor, on_death=on_death, timeout_s=timeout_s, mailbox=mailbox, on_full=on_full
            )
        )

    @obeys(EQUIVALENCE)
    def named(self, name: str) -> Iter[T, C]:
        """Name the operator for errors, drawings and checkpoints.

        Law: identity.
        """
        check.instance("named", "name", name, str, "a string")
        return Iter(replace(self.node, name=name))

    def _gathered(self) -> nodes.Node:
        return self.node

    def _branches(self, split: nodes.Split) -> tuple[Iter[T, C], ...]:
        return tuple(Iter(nodes.Branch(split, index)) for index in range(split.branches))
