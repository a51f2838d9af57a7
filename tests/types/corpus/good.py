"""Plans that every checker accepts, and the types that they must infer."""

from __future__ import annotations

from itertools import count
from typing import Never

from typing_extensions import TypeGuard, TypeIs, assert_type
from world import (
    ApplyGradients,
    ComputeGradients,
    Count,
    CountOnActor,
    First,
    Gradients,
    Learner,
    LearnerStep,
    Length,
    LongRollout,
    LongWorker,
    Metrics,
    OffPolicyStep,
    OnPolicyStep,
    Report,
    Rollout,
    T,
    TrainStats,
    Worker,
    learner,
    workers,
)

from tflow import (
    Actors, Async, create_actors, from_actors, from_items, from_iterable, from_range, Iter, Live,
    LocalRuntime, par_from_items, par_from_iterables, par_from_range, par_scatter, ParIter, ParUnion, Plan, RayRuntime,
    Run, Sync, TimeBudget, Union,
)
from tflow.actors import Actor, Place
from tflow.types import Ref, RefOp


def rollouts() -> ParIter[Rollout]:
    return from_actors(workers, Worker.sample)


def length(rollout: Rollout) -> int:
    return 1


def add(total: int, rollout: Rollout) -> int:
    return total + 1


def maybe(rollout: Rollout) -> int | None:
    return 1


def is_number(value: int | None) -> TypeGuard[int]:
    return value is not None


def is_int(value: int | None) -> TypeIs[int]:
    return value is not None


def on_the_learner(stream: Iter[Rollout, Sync], any_worker: Actor[LongWorker]) -> None:
    """An operator for a base class works beside its subclasses."""
    assert_type(stream.call(any_worker, ComputeGradients()), Iter[Gradients, Sync])


def sources(letters: tuple[str, ...]) -> None:
    assert_type(from_items([1, 2]), Iter[int, Sync])
    assert_type(from_items(letters), Iter[str, Sync])
    assert_type(from_range(3), Iter[int, Sync])
    assert_type(from_iterable(count), Iter[int, Sync])
    assert_type(par_from_items(letters), ParIter[str, Sync, object])
    assert_type(par_from_range(4, shards=2), ParIter[int, Sync, object])
    assert_type(par_from_iterables([[1], [2]]), ParIter[int, Sync, object])
    assert_type(from_actors(workers, Worker.sample), ParIter[Rollout, Sync, Worker])
    assert_type(workers, Actors[Worker])
    assert_type(learner, Actor[Learner])


def a3c() -> Plan[Metrics]:
    grads = rollouts().par_for_each(ComputeGradients()).gather_async()
    assert_type(grads, Iter[Gradients, Async])
    stats = grads.for_each(ApplyGradients(workers))
    assert_type(stats, Iter[TrainStats, Async])
    return Report(stats, workers)


def on_policy() -> Plan[Metrics]:
    batches = rollouts().gather_sync()
    assert_type(batches, Iter[Rollout, Sync])
    stats = batches.for_each(OnPolicyStep())
    assert_type(stats, Iter[TrainStats, Sync])
    return Report(stats, workers)


def transforms(stream: Iter[Rollout, Sync]) -> None:
    assert_type(stream.map(lambda rollout: length(rollout)), Iter[int, Sync])
    assert_type(stream.map(str), Iter[str, Sync])
    assert_type(stream.for_each(Length()), Iter[int, Sync])
    assert_type(stream.for_each(Count()), Iter[int, Sync])
    assert_type(stream.tap(print), Iter[Rollout, Sync])
    assert_type(stream.filter(lambda rollout: True), Iter[Rollout, Sync])
    assert_type(stream.map(maybe).filter(is_number), Iter[int, Sync])
    assert_type(stream.map(maybe).filter(is_int), Iter[int, Sync])
    assert_type(stream.map(length).filter(bool), Iter[int, Sync])
    assert_type(stream.flat_map(lambda rollout: [1, 2]), Iter[int, Sync])
    assert_type(stream.batch(3), Iter[list[Rollout], Sync])
    assert_type(stream.batch(3).flatten(), Iter[Rollout, Sync])
    assert_type(stream.batch(3).for_each(First[Rollout]()), Iter[Rollout, Sync])
    assert_type(stream.take(3), Iter[Rollout, Sync])
    assert_type(stream.scan(add, 0), Iter[int, Sync])
    assert_type(stream.zip(from_range(3)), Iter[tuple[Rollout, int], Async])
    assert_type(stream.shuffle(10), Iter[Rollout, Async])
    assert_type(stream.drain(), Iter[Never, Sync])
    assert_type(stream.every(items=10), Iter[Rollout, Sync])
    assert_type(stream.every(steps=10), Iter[Rollout, Sync])
    assert_type(stream.every(seconds=0.5), Iter[Rollout, Sync])
    assert_type(stream.call(learner, LearnerStep()), Iter[TrainStats, Sync])
    assert_type(stream.hand_off(learner, LearnerStep(), mailbox=2), Iter[TrainStats, Async])
    assert_type(stream.call(learner, Length()), Iter[int, Sync])
    assert_type(stream.named("x"), Iter[Rollout, Sync])


def parallel_transforms(stream: ParIter[Rollout]) -> None:
    assert_type(stream.par_map(lambda rollout: length(rollout)), ParIter[int])
    assert_type(stream.par_for_each(Length()), ParIter[int])
    assert_type(stream.par_for_each(CountOnActor()), ParIter[int])
    assert_type(stream.par_tap(print), ParIter[Rollout])
    assert_type(stream.par_filter(lambda rollout: True), ParIter[Rollout])
    assert_type(stream.par_map(maybe).par_filter(is_number), ParIter[int])
    assert_type(stream.par_flat_map(lambda rollout: [1]), ParIter[int, Async])
    assert_type(stream.par_batch(2), ParIter[list[Rollout]])
    assert_type(stream.par_batch(2).par_flatten(), ParIter[Rollout, Async])
    assert_type(stream.par_take(2), ParIter[Rollout])
    assert_type(stream.par_scan(add, 0), ParIter[int])
    assert_type(stream.par_shuffle(4, seed=1), ParIter[Rollout, Async])
    assert_type(stream.par_shuffle(4).gather_sync(), Iter[Rollout, Async])
    assert_type(stream.par_zip(rollouts()), ParIter[tuple[Rollout, Rollout]])
    assert_type(stream.select_shards(0), ParIter[Rollout])
    assert_type(stream.repartition(3), ParIter[Rollout, Async, object])
    assert_type(stream.repartition(3).par_zip(stream), ParIter[tuple[Rollout, Rollout], Async, object])  # PLUGIN linear
    assert_type(stream.named("x"), ParIter[Rollout])
    assert_type(stream.gather_sync(), Iter[Rollout, Sync])
    assert_type(stream.gather_rounds(), Iter[list[Rollout], Sync])
    assert_type(stream.gather_async(in_flight=2, per_call=3, max_staleness=4), Iter[Rollout, Async])


def splits(stream: Iter[int, Sync], shards: ParIter[int], number: int) -> None:
    a, b = stream.split()
    assert_type(a, Iter[int, Sync])
    assert_type(b, Iter[int, Sync])
    assert_type(stream.split(1), tuple[Iter[int, Sync]])
    assert_type(stream.split(3), tuple[Iter[int, Sync], Iter[int, Sync], Iter[int, Sync]])
    c, d, e, f, g, h, i, j = stream.split(8)
    assert_type(j, Iter[int, Sync])
    k, m = stream.split(max_lag=4)
    assert_type(k, Iter[int, Async])
    assert_type(stream.split(3, max_lag=1), tuple[Iter[int, Async], Iter[int, Async], Iter[int, Async]])
    assert_type(stream.split(number), tuple[Iter[int, Sync], ...])
    left, right = shards.split()
    assert_type(left, Iter[int, Sync])
    late, later = shards.split(2, max_lag=1)
    assert_type(late, Iter[int, Async])


def unions(shards: ParIter[str], a: Iter[int], b: Iter[str], c: Iter[bytes], many: list[Iter[int]]) -> None:
    assert_type(Union(a), Union[int])
    assert_type(Union(a, b), Union[int | str])
    assert_type(Union(a, b, weights=[1, 2]), Union[int | str])
    assert_type(Union(a, b, c, mode="async"), Union[int | str | bytes])
    assert_type(Union(a, a, a, a, b, b, c, c).take(1), Iter[int | str | bytes, Async])  # PLUGIN linear
    assert_type(Union(a.drain(), b).take(1), Iter[str, Async])
    assert_type(Union(*many), Union[int])
    assert_type(ParUnion(shards, par_from_range(3)).gather_sync(), Iter[str | int, Sync])


def accepts_async(stream: Iter[Rollout]) -> Iter[TrainStats]:
    return stream.for_each(OffPolicyStep())


def a_sync_stream_goes_where_any_is_asked_for() -> None:
    accepts_async(rollouts().gather_sync())
    accepts_async(rollouts().gather_async())


def a_subclass_goes_where_its_base_is_asked_for(stream: Iter[LongRollout, Sync]) -> None:
    stream.for_each(OnPolicyStep())
    accepts_async(stream)


def generic_flow(stream: Iter[T]) -> Iter[list[T]]:
    return stream.batch(2)


def generic_flows_keep_the_element() -> None:
    assert_type(generic_flow(from_range(3)), Iter[list[int], Async])


def apex() -> Plan[Metrics]:
    store = rollouts().gather_async().tap(print).drain()
    train = rollouts().gather_async().for_each(OffPolicyStep())
    return Report(Union(store, train), workers)


def running(plan: Plan[Metrics], stream: Iter[int]) -> None:
    for metrics in plan:
        assert_type(metrics, Metrics)
    with LocalRuntime() as runtime, stream.run(runtime=runtime, seed=1) as run:
        assert_type(run, Run[int])
        assert_type(next(run), int)
        assert_type(run.ask(workers, Worker.sample), list[Rollout])


class Keep(RefOp[Rollout]):
    def forward(self, live: Live, item: Ref[Rollout], /) -> None:
        assert_type(item.env_steps, int)
        live[workers].send(keep, item, shard=0)


def keep(worker: Worker, rollout: Rollout) -> None:
    return


def unopened() -> None:
    assert_type(rollouts().gather_async().for_each(Keep()), Iter[Rollout])
    assert_type(rollouts().gather_async(per_call=TimeBudget(seconds=0.01)), Iter[Rollout])


def on_ray() -> None:
    placed = create_actors(Worker, num=2, place=Place(cpus=1, custom={"left": 1}, beside=workers))
    assert_type(placed, Actors[Worker])
    with RayRuntime(num_cpus=2) as session, rollouts().gather_sync().run(runtime=session) as run:
        run.resize(workers, 3)


def collectives(stream: Iter[list[Rollout], Sync]) -> None:
    shards = par_scatter(stream, workers)
    assert_type(shards, ParIter[Rollout, Sync, Worker])
    gradients = shards.par_for_each(ComputeGradients())
    everywhere = gradients.par_all_gather()
    assert_type(everywhere, ParIter[list[Gradients], Sync, Worker])
    assert_type(everywhere.par_map(len).gather_sync(), Iter[int, Sync])


def cut_together(stream: Iter[list[Rollout], Sync]) -> None:
    shards = par_scatter(stream, workers)
    assert_type(shards.par_batch_together(4, share=0.6, per_call=TimeBudget()), ParIter[list[Rollout], Sync, Worker])


def reduced() -> Iter[int]:
    return rollouts().par_all_reduce(First()).par_map(length).gather_async()
