"""What is in a drawing: the nodes of a plan, how its streams flow, and the messages to actors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from tflow import (
    ActorOp,
    Actors,
    Iter,
    Live,
    LiveOp,
    ParallelReplay,
    ParallelRollouts,
    ReportMetrics,
    Shard,
    StoreToBuffer,
    TrainOneStep,
    Union,
    UpdatePriorities,
    UpdateWeights,
    create_actor,
    create_actors,
    create_replay_actors,
    create_rollout_workers,
    from_actors,
    from_range,
)
from tflow.actors import Actor, Resident, create_resident
from tflow.algos.names import ALGORITHMS
from tflow.combinators import nodes
from tflow.combinators.runnable import Described
from tflow.drawing.built import of_plan
from tflow.drawing.model import DrawnEdge, Graph
from tflow.drawing.text import text
from tflow.losses import DQNLoss
from tflow.types import Sends

OFF_POLICY = {
    ("for_each(StoreToBuffer)", "replay", "rows"),
    ("for_each(TrainOneStep)", "workers", "weights"),
    ("for_each(SendPriorities)", "replay", "priorities"),
}
APEX = {
    ("for_each(StoreToBuffer)", "replay[2]", "rows"),
    ("for_each(SendPriorities)", "replay[2]", "priorities"),
    ("for_each(SendWeights)", "workers[2]", "weights"),
    ("for_each(SendWeights)", "learner", "env steps"),
}
WITH_A_LEARNER = {("for_each(SendWeights)", "workers[2]", "weights"), ("for_each(SendWeights)", "learner", "env steps")}
MESSAGES = {
    **dict.fromkeys(("dqn", "simple_q", "rainbow", "r2d2", "sac", "rnnsac", "tqc", "crossq", "td3", "ddpg"), OFF_POLICY),
    **dict.fromkeys(("apex", "apex_ddpg", "apex_td3", "apex_sac"), APEX),
    "a2c": {("for_each(TrainOneStep)", "workers[2]", "weights")},
    "a3c": {("for_each(ApplyGradients)", "workers[2]", "weights")},
    "pg": {("for_each(TrainOneStep)", "workers[2]", "weights")},
    "pqn": {("for_each(TrainOneStep)", "workers[2]", "weights")},
    "rnd": {("for_each(TrainOneStep)", "workers[2]", "weights")},
    "ddppo": {("for_each(KeepWeights)", "workers[2]", "progress")},
    "ppo": {("for_each(TrainOneStep)", "workers[2]", "weights")},
    "maml": {("for_each(TrainOneStep)", "workers[2]", "weights")},
    "appo": WITH_A_LEARNER,
    "impala": WITH_A_LEARNER,
    "ppo_dqn": {
        ("for_each(TrainOneStep)", "workers[2]", "weights"),
        ("for_each(StoreToBuffer)", "replay", "rows"),
        ("for_each(SendPriorities)", "replay", "priorities"),
    },
}
LEARNERS = {name: {"learner (driver)"} for name in ALGORITHMS} | {
    **{name: {"learner", "learner (driver)"} for name in ("apex", "apex_ddpg", "apex_td3", "apex_sac")},
    "appo": {"learner", "learner (driver)"},
    "impala": {"learner", "learner (driver)"},
    "ppo_dqn": {"learner of PPO, learner of DQN (driver)"},
}


def between(graph: Graph, kind: str) -> set[tuple[str, str, str]]:
    """The edges of a kind, by the labels of their ends."""
    return {
        (graph.nodes[edge.source].label, graph.nodes[edge.target].label, edge.shown) for edge in graph.edges if edge.kind == kind
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_message_of_an_algorithm_is_an_edge_to_its_actors(name: str) -> None:
    plan = ALGORITHMS[name]().plan()
    graph = of_plan(plan)
    assert between(graph, "message") == MESSAGES[name]
    actors = {node.label for node in graph.nodes if node.shape == "actors"}
    assert actors == {target for _, target, _ in MESSAGES[name]} | LEARNERS[name], "gates belong to the streams that they open"
    workers = next(target for _, target, what in MESSAGES[name] if what in ("weights", "progress"))
    source = "PreemptedRollouts(workers)" if name == "ddppo" else "ParallelRollouts(workers)"
    assert (source, workers, "") in between(graph, "use")
    shown = text(plan, graph)
    assert shown.startswith(str(plan))
    assert {line.split("  ", 1)[1].strip() for line in shown.splitlines() if " -> " in line} == {
        f"{source} -> {target}: {what}" for source, target, what in MESSAGES[name]
    }


def test_the_messages_of_the_slides() -> None:
    """Ape-X as the paper has it."""
    workers = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
    replay = create_replay_actors()
    store = ParallelRollouts(workers).gather_async().for_each(StoreToBuffer(replay)).for_each(UpdateWeights(workers))
    replayed = ParallelReplay(replay).gather_async().for_each(UpdatePriorities(workers)).for_each(TrainOneStep(workers))
    graph = of_plan(ReportMetrics(Union(store.drain(), replayed), workers))
    assert between(graph, "message") == {
        ("for_each(StoreToBuffer)", "replay", "rows"),
        ("for_each(UpdateWeights)", "workers[2]", "weights"),
        ("for_each(UpdatePriorities)", "replay", "priorities"),
        ("for_each(TrainOneStep)", "workers[2]", "weights"),
    }
    assert {edge.source for edge in graph.relations if graph.nodes[edge.target].label == "learner (driver)"} == {
        node.id for node in graph.nodes if node.label.startswith("for_each(U") or node.label == "for_each(TrainOneStep)"
    }


class Worker:
    def __init__(self, shard: Shard) -> None: ...

    def sample(self) -> int:
        return 0


@dataclass(frozen=True)
class Tell(LiveOp[int, int]):
    """Says nothing about what it sends."""

    workers: Actors[Worker]
    others: tuple[Actors[Worker], ...] = ()
    counter: Resident[list[int]] | None = None

    def apply(self, live: Live, item: int, /) -> int:
        return item


class Ask(Tell):
    sends: ClassVar[Sends] = {"others": "questions"}


class Beside(ActorOp[Worker, int, int]):
    def apply(self, actor: Worker, item: int, /) -> int:
        return item


def counted(shard: Shard) -> list[int]:
    return []


def test_operators_that_say_nothing_may_send_to_all_whom_they_name() -> None:
    workers, others = create_actors(Worker, num=2, name="workers"), create_actors(Worker, num=1, name="others")
    counter = create_resident(counted, name="counter")
    items = from_actors(workers, Worker.sample).gather_sync()
    silent = of_plan(items.for_each(Tell(workers, (others,), counter)))
    assert between(silent, "message") == {("for_each(Tell)", "workers[2]", ""), ("for_each(Tell)", "others", "")}
    assert ("for_each(Tell)", "counter (driver)", "") in between(silent, "use")
    said = of_plan(items.for_each(Ask(workers, (others,), counter)))
    assert between(said, "message") == {("for_each(Ask)", "others", "questions")}
    assert text(items, of_plan(items)) == str(items), "no messages, no more to say"


def test_flows_are_told_apart() -> None:
    shards = from_actors(create_actors(Worker, num=2), Worker.sample).par_map(str)
    learner = create_actor(Worker, name="learner")

    def kinds(stream: Described) -> list[tuple[str, str]]:
        return [(edge.shown, edge.kind) for edge in of_plan(stream).edges]

    assert kinds(shards.gather_sync().take(1)) == [("int", "sync"), ("str", "barrier"), ("str", "sync")]
    assert kinds(shards.gather_rounds()) == [("int", "sync"), ("str", "barrier")]
    assert kinds(shards.gather_async().take(1)) == [("int", "sync"), ("str", "async"), ("str", "async")]
    assert [kind for _, kind in kinds(shards.repartition(3).gather_sync())] == ["sync", "async", "async", "barrier"]
    handed = of_plan(from_range(2).hand_off(learner, Beside()).take(1))
    assert [(edge.kind, edge.shown) for edge in handed.edges] == [("sync", "int"), ("async", "int"), ("use", "")]
    assert [(node.label, node.where, node.stacked) for node in handed.nodes] == [
        ("from_range(2)", "driver", False),
        ("hand_off(learner, Beside)", "learner", False),
        ("take(1)", "driver", False),
        ("learner", "learner", False),
    ]
    assert [node.stacked for node in of_plan(shards.gather_sync()).nodes] == [True, True, False]


@dataclass(frozen=True, eq=False)
class Throttle(nodes.Operating):
    """A combinator that drawings have never heard of: it works in an actor, and tells others."""

    helper: Actor[Worker]
    chance: ClassVar[str] = "waits for its helper"
    always_sync: ClassVar[bool | None] = False
    shape: ClassVar[str] = "throttle({applied})"

    @property
    def host(self) -> Actor[object]:
        return self.helper

    @property
    def actors(self) -> tuple[Actors[object], ...]:
        return (self.helper, *self.sends_to)


def test_a_node_of_somebody_else_is_drawn_like_all_others() -> None:
    helper, told = create_actor(Worker, name="helper"), create_actors(Worker, num=3, name="told")
    stream: Iter[int] = Iter(Throttle(from_range(3).node, Tell(told), helper))
    graph = of_plan(stream.take(1), "mine")
    assert [(node.label, node.where) for node in graph.nodes] == [
        ("from_range(3)", "driver"),
        ("throttle(Tell)", "learner"),
        ("take(1)", "driver"),
        ("helper", "learner"),
        ("told[3]", "actor"),
    ]
    assert graph.edges == (
        DrawnEdge(0, 1, "int", "sync"),
        DrawnEdge(1, 2, "int", "async"),
        DrawnEdge(1, 3, "", "use"),
        DrawnEdge(1, 4, "", "message"),
    )
