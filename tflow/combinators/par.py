"""``ParIter[T]``: a stream with one shard per actor. Its operators run inside the actors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeGuard, overload

from typing_extensions import TypeIs, TypeVar

from tflow import sentences
from tflow.combinators import check, graph, nodes
from tflow.combinators.actors import Actors
from tflow.combinators.columns import K, ParWithColumns
from tflow.combinators.runnable import Described
from tflow.combinators.splits import Splits
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.laws import (
    BALANCE,
    BOUNDEDNESS,
    CONSERVATION,
    DETERMINISM,
    EQUIVALENCE,
    FRESHNESS,
    ISOLATION,
    LAZINESS,
    ORDER,
    SURVIVAL,
    obeys,
)
from tflow.types import Async, G, H, OnActor, Op, Shard, T, TimeBudget, U, V

if TYPE_CHECKING:
    from tflow.rl.data.batch import Batch

Gi = TypeVar("Gi", bound=Async)
Hi = TypeVar("Hi")


class ParIter(Described, Splits[Iter[T, G], Iter[T, Async]], Generic[T, G, H]):
    """A parallel stream of ``T``: one shard per actor. ``gather_*`` brings it to the driver.

    ``G`` is what ``gather_sync`` can offer: ``Sync``, unless an operator holds items of earlier calls back. ``H`` is the class of
    the actors; ``object`` where they only hold values. Users write ``ParIter[Rollout]``.
    """

    __slots__ = ()

    def __init__(self, node: nodes.Node) -> None:
        if not node.parallel:
            raise PlanError(f"ParIter: {node.label} is on the driver: use Iter.")
        super().__init__(node)

    if not TYPE_CHECKING:  # so that `a, b = stream` is a type error, and a sentence at run time

        def __iter__(self):
            raise TypeError(
                f"A parallel stream does not iterate ({self.node.label}). Gather it and run it: "
                "`for item in stream.gather_sync().run()`."
            )

        def __getattr__(self, name):
            if hasattr(type(self), name):  # a property that raised: let it say why
                return object.__getattribute__(self, name)
            inside, known = hasattr(ParIter, f"par_{name}"), hasattr(Iter, name)
            raise AttributeError(sentences.no_driver_method(name, inside=inside, known=known), name=name, obj=self)

    # ------------------------------------------------------------------- inside the actors

    @obeys(EQUIVALENCE)
    def par_map(self, fn: Callable[[T], U]) -> ParIter[U, G, H]:
        """Apply a function to each item, inside the actors.

        Law: identity and composition, per shard.

        >>> from tflow import par_from_items
        >>> list(par_from_items([1, 2, 3]).par_map(lambda x: -x).gather_sync().run())
        [-1, -2, -3]
        """
        check.function("par_map", fn)
        return ParIter(nodes.Map(self.node, fn))

    @obeys(EQUIVALENCE, ISOLATION)
    def par_for_each(self, op: Op[T, U, OnActor[H]]) -> ParIter[U, G, H]:
        """Apply an operator to each item, inside the actors; an ``ActorOp`` receives its actor.

        Law: as ``par_map``; state is kept per (run, node, shard).
        """
        return ParIter(nodes.ForEach(self.node, check.operator("par_for_each", op)))

    @property
    def par_with_columns(self: ParIter[Batch[K], Gi, Hi]) -> ParWithColumns[K, Gi, Hi]:
        """``stream.par_with_columns(op)``: as ``with_columns``, inside the actors.

        Law: as ``with_columns``, per shard.
        """
        return ParWithColumns(self.node)

    @obeys(EQUIVALENCE)
    def par_tap(self, fn: Callable[[T], object]) -> ParIter[T, G, H]:
        """Look at each item inside the actors.

        Law: identity.
        """
        check.function("par_tap", fn)
        return ParIter(nodes.Tap(self.node, fn))

    @overload
    def par_filter(self, fn: Callable[[T], TypeGuard[U]]) -> ParIter[U, G, H]: ...
    @overload
    def par_filter(self, fn: Callable[[T], TypeIs[U]]) -> ParIter[U, G, H]: ...
    @overload
    def par_filter(self, fn: Callable[[T], object]) -> ParIter[T, G, H]: ...
    @obeys(EQUIVALENCE)
    def par_filter(self, fn: Callable[[T], object]) -> ParIter[object, G, H]:
        """Keep the items for which ``fn`` is true, inside the actors.

        Law: as the built-in ``filter``, per shard.
        """
        check.function("par_filter", fn)
        return ParIter(nodes.Filter(self.node, fn))

    @obeys(EQUIVALENCE)
    def par_flat_map(self, fn: Callable[[T], Iterable[U]]) -> ParIter[U, Async, H]:
        """Replace each item by zero or more others, inside the actors.

        Law: as ``flat_map``, per shard.
        """
        check.function("par_flat_map", fn)
        return ParIter(nodes.FlatMap(self.node, fn))

    @obeys(EQUIVALENCE)
    def par_flatten(self: ParIter[Iterable[U], Async, Hi]) -> ParIter[U, Async, Hi]:
        """Replace each iterable by its members, inside the actors.

        Law: as ``flatten``, per shard.
        """
        return ParIter(nodes.Flatten(self.node))

    @obeys(EQUIVALENCE)
    def par_batch(self, size: int) -> ParIter[list[T], G, H]:
        """Group consecutive items of each shard; a shorter last list is kept.

        Law: ``par_batch(n)`` then ``par_flatten`` is the identity, per shard.
        """
        check.integer("par_batch", "size", size, least=1, hint="To pass items through unbatched, drop par_batch().")
        return ParIter(nodes.BatchItems(self.node, size))

    @obeys(EQUIVALENCE)
    def par_take(self, count: int) -> ParIter[T, G, H]:
        """The first ``count`` items of each shard.

        Law: as ``take``, per shard.
        """
        check.integer("par_take", "count", count, least=0)
        return ParIter(nodes.Take(self.node, count))

    @obeys(EQUIVALENCE)
    def par_scan(self, fn: Callable[[U, T], U], initial: U) -> ParIter[U, G, H]:
        """Fold the items of each shard into a state and show the state after each.

        Law: as ``scan``, per shard.
        """
        check.function("par_scan", fn)
        return ParIter(nodes.Scan(self.node, fn, initial))

    @obeys(CONSERVATION, DETERMINISM)
    def par_shuffle(self, buffer: int, *, seed: int = 0) -> ParIter[T, Async, H]:
        """Shuffle each shard within a buffer; every shard has its own random numbers.

        Law: as ``shuffle``, per shard.
        """
        check.integer("par_shuffle", "buffer", buffer, least=1)
        check.integer("par_shuffle", "seed", seed, least=0)
        return ParIter(nodes.Shuffle(self.node, buffer, seed))

    @obeys(EQUIVALENCE)
    def par_zip(self: ParIter[U, Gi, Hi], other: ParIter[V, Gi, Hi]) -> ParIter[tuple[U, V], Gi, Hi]:
        """Pair the items of two streams over the same actors, shard by shard.

        Law: as ``zip``, per shard.
        """
        check.instance("par_zip", "other", other, ParIter, "a parallel stream")
        if graph.shards(self.node) != graph.shards(other.node):
            raise PlanError("par_zip: the two streams run on different actors. Gather both, then use zip().")
        if graph.is_fed(self.node) and graph.is_fed(other.node):
            raise PlanError("par_zip: both streams are fed by the driver, each in its own time. Gather both, then use zip().")
        return ParIter(nodes.Zip(self.node, other.node))

    # ------------------------------------------------------------------- which actors

    @obeys(LAZINESS)
    def select_shards(self, *shards: int) -> ParIter[T, G, H]:
        """Keep some of the shards, by index, in the given order.

        Law: the other shards' actors are never called.
        """
        count = len(graph.shards(self.node))
        if not shards:
            raise PlanError("select_shards: give at least one shard.")
        for shard in shards:
            check.integer("select_shards", "a shard", shard, least=0)
            if shard >= count:
                raise PlanError(f"select_shards: there is no shard {shard}; the stream has {count} (0 to {count - 1}).")
        if len(set(shards)) < len(shards):
            raise PlanError(f"select_shards: each shard can be selected once, got {shards}.")
        return ParIter(nodes.SelectShards(self.node, shards))

    @obeys(CONSERVATION)
    def repartition(
        self, shards: int, *, on_death: nodes.OnDeath = "restart", timeout_s: float | None = None
    ) -> ParIter[T, Async, object]:
        """Deal the items to ``shards`` fresh actors, each item to the first that is free.

        ``on_death`` and ``timeout_s`` are about the actors that the items come from, as for ``gather_async``.

        Law: the same multiset of items; at most one item per new actor is in flight.
        """
        check.integer("repartition", "shards", shards, least=1, most=check.MAX_ACTORS)
        check.fault_policy("repartition", on_death, timeout_s)
        fresh: Actors[object] = Actors(Blank(), shards, "repartition")
        return ParIter(nodes.Repartition(fresh, graph.check_gates(nodes.GatherAsync(self.node, on_death, timeout_s))))

    # ------------------------------------------------------------------- between the actors

    @obeys(EQUIVALENCE)
    def par_all_gather(self, *, on_death: nodes.Missing = "raise", timeout_s: float | None = None) -> ParIter[list[T], G, H]:
        """Give every shard the items of all shards, one of each, in shard order. On Ray they do not pass through the driver.

        A round needs one item of every shard. A shard that ends before the others, has nothing to give, dies, or takes longer
        than ``timeout_s``, ends the run with ``ShardFailed``, which names it; with ``on_death="skip"`` the others go on without
        it.

        Law: a shard sees what ``gather_rounds()`` would show.

        >>> from tflow import par_from_range
        >>> list(par_from_range(4, shards=2).par_all_gather().gather_sync().run())
        [[0, 2], [0, 2], [1, 3], [1, 3]]
        """
        check.one_of("par_all_gather", "on_death", on_death, ("raise", "skip"))
        check.fault_policy("par_all_gather", on_death, timeout_s)
        sources = graph.par_sources(self.node)
        if len(sources) > 1:
            raise PlanError("par_all_gather: the shards are actors of several descriptions. Gather each stream by itself.")
        if isinstance(sources[0], nodes.Repartition):
            raise PlanError(
                "par_all_gather: after repartition() an item goes to whichever shard is free, so there is no round of one item "
                "of each. Gather it and use par_scatter()."
            )
        whole = graph.check_gates(nodes.GatherWhole(self.node, on_death, timeout_s, rounds=True))
        return ParIter(nodes.AllGather(sources[0].of, whole, on_death, sources[0]))

    @obeys(EQUIVALENCE)
    def par_all_reduce(
        self, op: Op[list[T], U, OnActor[H]], *, on_death: nodes.Missing = "raise", timeout_s: float | None = None
    ) -> ParIter[U, G, H]:
        """Combine the items of all shards, one of each, and give every shard the result. ``on_death`` and ``timeout_s`` as for
        ``par_all_gather``.

        Law: as ``par_all_gather()``, then ``par_for_each(op)``.
        """
        operator = check.operator("par_all_reduce", op)
        return ParIter(nodes.Reduce(self.par_all_gather(on_death=on_death, timeout_s=timeout_s).node, operator))

    @obeys(EQUIVALENCE, CONSERVATION)
    def par_batch_together(
        self,
        size: int,
        *,
        share: float = 1.0,
        per_call: int | TimeBudget = 1,
        on_death: nodes.Missing = "raise",
        timeout_s: float | None = None,
    ) -> ParIter[list[T], G, H]:
        """Group consecutive items of each shard in rounds of all shards. As soon as ``share`` of the shards have ``size`` items,
        those of the others are cut: they go on with the items that they have, at least one.

        The driver asks for ``per_call`` items at a time, and waits for the calls that it has made; so the items pass through it,
        and should be small. ``on_death`` and ``timeout_s`` as for ``par_all_gather``; a shard that ends gives what it has.

        Law: ``par_flatten`` undoes it, per shard; with ``share=1`` it is ``par_batch(size)``.

        >>> from tflow import par_from_range
        >>> list(par_from_range(6, shards=2).par_batch_together(2).gather_sync().run())
        [[0, 1], [3, 4], [2], [5]]
        """
        where = "par_batch_together"
        check.integer(where, "size", size, least=1)
        check.fraction(where, "share", share)
        check.positive(where, "share", share)
        check.per_call(where, per_call)
        check.one_of(where, "on_death", on_death, ("raise", "skip"))
        check.fault_policy(where, on_death, timeout_s)
        sources = graph.par_sources(self.node)
        if len(sources) > 1:
            raise PlanError(f"{where}: the shards are actors of several descriptions. Batch each stream by itself.")
        if graph.is_fed(self.node) or sources[0].gate is not None:
            raise PlanError(
                f"{where}: the driver says when these shards have items, so none is ahead of the others. Use par_batch()."
            )
        rounds = nodes.GatherTogether(self.node, on_death, timeout_s, rounds=True, size=size, share=share, per_call=per_call)
        return ParIter(nodes.BatchTogether(sources[0].of, graph.check_gates(rounds), on_death, sources[0]))

    # ------------------------------------------------------------------- to the driver

    @obeys(EQUIVALENCE, ORDER, FRESHNESS, SURVIVAL, BALANCE)
    def gather_sync(self, *, on_death: nodes.OnDeath = "restart", timeout_s: float | None = None) -> Iter[T, G]:
        """Bring items to the driver in rounds: one call per shard, items in shard order.

        A shard whose actor dies, or takes longer than ``timeout_s`` to answer, is restarted and asked again within the round
        (``on_death="restart"``), leaves the stream (``"skip"``), or ends the run with ``ShardFailed`` (``"raise"``).

        Law: round r+1 is issued when the consumer asks again after the last item of round r, so every call of a round sees
        all updates made before.
        """
        check.fault_policy("gather_sync", on_death, timeout_s)
        _check_restarts("gather_sync", self.node, on_death)
        return Iter(graph.check_gates(nodes.GatherSync(self.node, on_death, timeout_s, rounds=False)))

    @obeys(EQUIVALENCE, SURVIVAL)
    def gather_rounds(self, *, on_death: nodes.OnDeath = "restart", timeout_s: float | None = None) -> Iter[list[T], G]:
        """As ``gather_sync``, but one list per round.

        Law: ``gather_rounds()`` then ``flatten()`` equals ``gather_sync()``.

        >>> from tflow import par_from_range
        >>> list(par_from_range(5, shards=2).gather_rounds().run())
        [[0, 3], [1, 4], [2]]
        """
        check.fault_policy("gather_rounds", on_death, timeout_s)
        _check_restarts("gather_rounds", self.node, on_death)
        return Iter(graph.check_gates(nodes.GatherSync(self.node, on_death, timeout_s, rounds=True)))

    @obeys(CONSERVATION, ORDER, FRESHNESS, LAZINESS, BOUNDEDNESS, SURVIVAL, BALANCE)
    def gather_async(
        self,
        *,
        in_flight: int = 1,
        per_call: int | TimeBudget = 1,
        max_staleness: int | None = None,
        on_death: nodes.OnDeath = "restart",
        timeout_s: float | None = None,
    ) -> Iter[T, Async]:
        """Bring items to the driver as actors answer; ``in_flight`` calls per shard, ``per_call`` items each.

        ``per_call=TimeBudget()`` brings as many as are ready within some milliseconds, which pays when an item takes much less
        time than a call; the simulator draws the number, and on the local runtime, where calls cost nothing, it is one.

        ``on_death`` and ``timeout_s`` as for ``gather_sync``; the calls that a dead actor had not answered are replaced.

        Law: same multiset as ``gather_sync`` on finite input, order kept per shard. All that was sent to a shard until the
        consumer asks again after the last item of a call is processed there before the call that replaces it.
        In items, the data of a call lags by at most ``in_flight * per_call - 1`` (with a time budget: by its ``items``).
        ``max_staleness`` drops and counts items older than so many updates.
        """
        check.integer("gather_async", "in_flight", in_flight, least=1)
        check.per_call("gather_async", per_call)
        if graph.is_fed(self.node) and (per_call != 1 or max_staleness is not None):
            fed = graph.par_sources(self.node)[0].what.partition("(")[0]
            raise PlanError(
                f"gather_async: after {fed}() each call carries one item, so per_call= and max_staleness= belong to the "
                "gather before it. Write gather_async(in_flight=...) here."
            )
        if max_staleness is not None:
            check.integer("gather_async", "max_staleness", max_staleness, least=0)
        check.fault_policy("gather_async", on_death, timeout_s)
        _check_restarts("gather_async", self.node, on_death)
        gathered = nodes.GatherAsync(self.node, on_death, timeout_s, in_flight, per_call, max_staleness)
        return Iter(graph.check_gates(gathered))

    @obeys(EQUIVALENCE)
    def named(self, name: str) -> ParIter[T, G, H]:
        """Name the operator for errors, drawings and checkpoints.

        Law: identity.
        """
        check.instance("named", "name", name, str, "a string")
        return ParIter(replace(self.node, name=name))

    def _gathered(self) -> nodes.Node:
        return graph.check_gates(nodes.GatherSync(self.node, rounds=False))

    def _branches(self, split: nodes.Split) -> tuple[Iter[T, G], ...]:
        return tuple(Iter(nodes.Branch(split, index)) for index in range(split.branches))


def _check_restarts(where: str, node: nodes.Node, on_death: nodes.OnDeath) -> None:
    """A shard that was restarted has missed a round of all: what it holds is no longer what the others hold."""
    source = next((each for each in graph.par_sources(node) if isinstance(each, nodes.AllGather)), None)
    if on_death != "restart" and source is not None:
        raise PlanError(
            f"{where}: after {source.what.partition('(')[0]}() a death counts for all shards, so on_death= belongs there. "
            f"Write {source.what.partition('(')[0]}(on_death={on_death!r})."
        )


@dataclass(frozen=True)
class Blank:
    """Makes actors that only lend their process to operators."""

    def __call__(self, shard: Shard) -> object:
        return self
