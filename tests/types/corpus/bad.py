"""One mistake per marked line. Every checker rejects exactly these lines."""

from __future__ import annotations

from world import (
    ApplyGradients,
    ComputeGradients,
    Iter,
    LearnerStep,
    Length,
    Metrics,
    OffPolicyStep,
    OnPolicyStep,
    Report,
    Rollout,
    TrainStats,
    Worker,
    learner,
    workers,
)

from tflow import (
    create_actors, from_actors, from_items, from_range, Live, par_from_items, par_scatter, ParIter, ParUnion, Plan,
    Stateful, Stateless, Sync, Union,
)
from tflow.actors import Place
from tflow.types import Ref, RefOp


def needs_sync(stream: Iter[Rollout, Sync]) -> Iter[TrainStats]:
    return stream.for_each(OnPolicyStep())


def elements(shards: ParIter[Rollout], stream: Iter[Rollout], numbers: Iter[int]) -> None:
    stream.for_each(ApplyGradients(workers))  # ERR consumes Gradients PLUGIN flow
    numbers.for_each(OffPolicyStep())  # ERR consumes Rollout PLUGIN flow
    shards.par_map(len)  # ERR a Rollout has no length
    numbers.map(lambda x: x.upper())  # ERR an int has no upper
    numbers.filter(str.isdigit)  # ERR an int is no str
    numbers.flatten()  # ERR an int is not iterable PLUGIN flow
    shards.par_batch(2).par_for_each(ComputeGradients())  # ERR consumes Rollout, not list[Rollout] PLUGIN flow
    shards.gather_rounds().for_each(OffPolicyStep())  # ERR consumes Rollout, not list[Rollout] PLUGIN flow
    from_items(["a"]).for_each(Length())  # ERR consumes Rollout PLUGIN flow


def placement(shards: ParIter[Rollout], stream: Iter[Rollout, Sync]) -> None:
    stream.for_each(ComputeGradients())  # ERR runs inside an actor PLUGIN placement
    shards.par_for_each(ComputeGradients()).par_for_each(ApplyGradients(workers))  # ERR runs on the driver PLUGIN placement
    shards.par_for_each(OnPolicyStep())  # ERR runs on the driver PLUGIN placement
    stream.for_each(LearnerStep())  # ERR runs inside an actor PLUGIN placement
    stream.call(learner, ComputeGradients())  # ERR works beside a Worker, not a Learner PLUGIN placement
    stream.hand_off(learner, ComputeGradients())  # ERR works beside a Worker, not a Learner PLUGIN placement
    stream.hand_off(learner, OnPolicyStep())  # ERR runs on the driver PLUGIN placement
    stream.call(workers, LearnerStep())  # ERR needs a single actor


def synchrony(shards: ParIter[Rollout], sync: Iter[Rollout, Sync]) -> None:
    shards.gather_async().for_each(OnPolicyStep())  # ERR on-policy PLUGIN sync
    needs_sync(shards.gather_async())  # ERR on-policy PLUGIN sync
    needs_sync(sync.shuffle(4))  # ERR shuffle keeps items across updates PLUGIN sync
    needs_sync(Union(sync, sync))  # ERR a union is asynchronous PLUGIN sync linear
    needs_sync(shards.par_shuffle(4).gather_sync())  # ERR holds items of earlier calls back PLUGIN sync
    needs_sync(shards.par_flat_map(lambda rollout: [rollout]).gather_sync())  # ERR holds items of earlier calls back PLUGIN sync
    needs_sync(shards.par_batch(2).par_flatten().gather_sync())  # ERR holds items of earlier calls back PLUGIN sync
    needs_sync(shards.repartition(2).gather_sync())  # ERR pulled ahead of time PLUGIN sync
    needs_sync(ParUnion(shards, shards.par_shuffle(2)).gather_sync())  # ERR one of them holds items back PLUGIN sync linear
    late, later = sync.split(2, max_lag=3)
    needs_sync(late)  # ERR branches may drift PLUGIN sync


def kinds(shards: ParIter[Rollout], stream: Iter[Rollout]) -> None:
    stream.map(OffPolicyStep())  # ERR an operator is not a function PLUGIN flow
    stream.for_each(print)  # ERR a function is not an operator PLUGIN flow
    stream.for_each(OffPolicyStep)  # ERR a class is not a value of it PLUGIN flow
    shards.for_each(OffPolicyStep())  # ERR gather first PLUGIN placement
    stream.par_map(str)  # ERR already on the driver PLUGIN placement
    shards.zip(stream)  # ERR gather first PLUGIN placement
    stream.gather_sync()  # ERR already gathered PLUGIN placement
    Union(shards, stream)  # ERR gather first PLUGIN placement
    stream.call(Worker, LearnerStep())  # ERR a class is not an actor
    from_actors(Worker, Worker.sample)  # ERR a class is not actors
    from_actors(workers, len)  # ERR a worker has no length


def arity(stream: Iter[int, Sync], shards: ParIter[int]) -> None:
    a, b = stream.split(3)  # ERR three branches
    c, d, e = stream.split()  # ERR two branches
    f, g = shards.split(1)  # ERR one branch
    h, i = stream  # ERR a stream does not iterate
    Union()  # ERR no input PLUGIN literal


def arguments(stream: Iter[int], shards: ParIter[int]) -> None:
    stream.batch("2")  # ERR not a number PLUGIN literal
    stream.every(items=3, seconds=2.0)  # ERR one unit PLUGIN literal
    stream.every()  # ERR one unit PLUGIN literal
    stream.hand_off(learner, Length(), on_full="explode")  # ERR unknown choice, and an int is no Rollout PLUGIN flow literal
    Union(stream, stream, mode="both")  # ERR unknown choice PLUGIN linear literal
    shards.gather_async(2)  # ERR in_flight is a keyword
    stream.filter(lambda x, y: True)  # ERR takes one item
    shards.select_shards("0")  # ERR shards are numbers PLUGIN literal
    from_range("3")  # ERR not a number PLUGIN literal
    par_from_items(3)  # ERR not iterable PLUGIN literal


def not_a_plan(stream: Iter[TrainStats]) -> Plan[Metrics]:
    return stream  # ERR only a report ends a plan


def wrong_report(stream: Iter[Rollout]) -> Plan[Metrics]:
    return Report(stream, workers)  # ERR reports TrainStats PLUGIN flow


def plans_end(plan: Plan[Metrics]) -> None:
    plan.map(str)  # ERR nothing follows a plan


class WrongApply(Stateless[int, str]):
    def apply(self, item: int, /) -> int:  # ERR returns int
        return item


class WrongStep(Stateful[int, str, float]):
    def init(self) -> str:  # ERR the state is a float
        return ""

    def step(self, state: float, item: int, /) -> tuple[float, str]:
        return state, ""


def messages(live: Live) -> None:
    live[workers].update(Worker.set_weights, "heavy")  # ERR weights are numbers
    live[workers].send(len, 1, shard=0)  # ERR not a method of a worker
    live[Worker].advance()  # ERR a class is not actors


class Keep(RefOp[Rollout]):
    def forward(self, live: Live, item: Ref[Rollout], /) -> None:
        live[workers].send(Worker.set_weights, item, shard=0)  # ERR a rollout is not a number
        item.observations  # ERR it is not opened


class Forward(RefOp[int]):
    def forward(self, live: Live, item: int, /) -> None:  # ERR it gets a Ref
        return


def unopened(stream: ParIter[Rollout]) -> None:
    stream.par_for_each(Keep())  # ERR works on the driver PLUGIN placement
    from_items([1]).for_each(Keep())  # ERR numbers are not rollouts PLUGIN flow
    stream.gather_async(per_call="5 ms")  # ERR a number or a budget PLUGIN literal


def on_ray() -> None:
    create_actors(Worker, place="spread")  # ERR a Place PLUGIN literal
    Place(nodes="everywhere")  # ERR any, spread or same PLUGIN literal
    Place(beside=Worker)  # ERR actors, not a class


def misspelt_names() -> None:
    from tflow import TrainOnStep  # ERR there is a TrainOneStep
    from tflow.losses import PPOLos  # ERR there is a PPOLoss

    print(TrainOnStep, PPOLos)


def collectives(shards: ParIter[Rollout], stream: Iter[Rollout, Sync]) -> None:
    par_scatter(stream, workers)  # ERR members of lists are scattered PLUGIN flow
    par_scatter(shards, workers)  # ERR gather first PLUGIN placement
    shards.par_all_reduce(ComputeGradients())  # ERR consumes Rollout, not list[Rollout]
    shards.par_all_gather().par_for_each(ComputeGradients())  # ERR consumes Rollout, not list[Rollout] PLUGIN flow
    shards.par_batch_together(2).par_for_each(ComputeGradients())  # ERR consumes Rollout, not list[Rollout] PLUGIN flow
