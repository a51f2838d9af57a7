"""Functions that need arguments are drawn with stand-ins for them, made from their annotations."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from typing_extensions import TypeVar

from tflow import ActorOp, Actors, Async, Iter, ParIter, Rollout, Shard, Stateless, Sync, TrainStats, Union, Workers, flow
from tflow.actors import Actor, AnyWorkers, MultiWorkers, Resident
from tflow.algos import PPO, a2c, a3c, apex, appo, ddppo, dqn, impala, maml, pg, ppo, ppo_dqn, pqn, rnd
from tflow.drawing.built import of_plan
from tflow.drawing.named import built
from tflow.errors import PlanError
from tflow.losses import DQNLoss, Loss, PPOLoss
from tflow.rl.learning.losses import PPOReads, Replayed
from tflow.rl.replay.replay_spec import MultiReplayActors, ReplayActors
from tflow.rl.rollout.evaluation import Evaluators

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")
N = TypeVar("N", bound=int)
FLOWS = [
    a2c.a2c_plan,
    a3c.a3c_plan,
    apex.apex_plan,
    appo.appo_plan,
    dqn.dqn_plan,
    impala.impala_plan,
    maml.maml_plan,
    pg.pg_plan,
    ddppo.ddppo_plan,
    rnd.rnd_plan,
    ppo.ppo_plan,
    ppo_dqn.ppo_dqn_plan,
    pqn.pqn_plan,
]


class Colour(enum.Enum):
    RED = 1


@dataclass
class Config:
    size: int = 3
    names: list[str] = field(default_factory=list)


class Worker:
    def __init__(self, shard: Shard) -> None: ...


class Needy:
    def __init__(self, thing: int) -> None: ...


@pytest.mark.parametrize("function", FLOWS, ids=lambda function: str(function.__name__))
def test_the_parts_of_algorithms_are_drawn_with_their_streams_as_inputs(function: Callable[..., Iter[TrainStats]]) -> None:
    graph = of_plan(built(function, "it"))
    assert [node.label for node in graph.nodes if node.shape == "input"] == ["stream"]
    assert "workers[2]" in [node.label for node in graph.nodes if node.shape == "actors"]


def test_streams_are_inputs_with_the_annotated_types() -> None:
    @flow
    def several(
        old: Iter[int], new: Iter[str, Sync], shards: ParIter[Rollout], late: ParIter[bool, Async], many: list[Iter[float]]
    ) -> Iter[object]:
        return Union(old, new, shards.gather_sync(), late.gather_sync(), *many)

    inputs = [node for node in of_plan(built(several, "several")).nodes if node.shape == "input"]
    assert [(node.label, node.yields, node.stacked) for node in inputs] == [
        ("old", "Iter[int, Async]", False),
        ("new", "Iter[str, Sync]", False),
        ("shards", "ParIter[Rollout]", True),
        ("late", "ParIter[bool, Async]", True),
        ("many[0]", "Iter[float, Async]", False),
        ("many[1]", "Iter[float, Async]", False),
    ]


def test_what_is_not_a_stream_is_of_the_right_type() -> None:
    seen: dict[str, object] = {}

    def needs(
        stream: Iter[int],
        size: int,
        rate: float,
        name: str,
        switch: bool,
        maybe: Needy | int | None,
        nothing: Needy | None,
        mode: Literal["fast", "slow"],
        colour: Colour,
        config: Config,
        algorithm: PPO,
        pair: tuple[int, str],
        row: Sequence[int],
        table: Mapping[str, int],
        cls: type[Worker],
        noted: Annotated[int, "a note"],
        number: N,  # pyright: ignore[reportInvalidTypeVarUse]  # what it stands for is the question
        *args: object,
        kept: str = "default",
        keyword: int,
        **kwargs: object,
    ) -> Iter[int]:
        seen.update(locals())
        return stream

    built(needs, "needs")
    del seen["stream"], seen["seen"]
    assert seen == {
        "size": 2,
        "rate": 0.5,
        "name": "name",
        "switch": False,
        "maybe": 2,
        "nothing": None,
        "mode": "fast",
        "colour": Colour.RED,
        "config": Config(),
        "algorithm": PPO(),
        "pair": (2, "pair[1]"),
        "row": [2, 2],
        "table": {"table": 2},
        "cls": Worker,
        "noted": 2,
        "number": 2,
        "args": (),
        "kept": "default",
        "keyword": 2,
        "kwargs": {},
    }


def test_workers_and_replay_are_made_as_they_are_asked_for() -> None:
    def losses_of(annotated: object) -> Mapping[str, object]:
        def needs(stream: Iter[int], workers: AnyWorkers) -> Iter[int]:
            found.update(workers.spec.losses)
            return stream

        found: dict[str, object] = {}
        needs.__annotations__["workers"] = annotated
        built(needs, "needs")
        return found

    assert losses_of(Workers[PPOReads, Sync]) == {"default": PPOLoss()}
    assert losses_of(Workers[Replayed, Async]) == {"default": DQNLoss()}
    assert losses_of(AnyWorkers).keys() == losses_of(Evaluators).keys() == {"default"}
    assert losses_of(MultiWorkers[Literal["PPO", "DQN"]]).keys() == {"PPO", "DQN"}

    def replays(
        stream: Iter[int],
        one: ReplayActors,
        many: MultiReplayActors[Literal["a", "b"]],
        loss: PPOLoss,
        any_loss: Loss[Replayed, Async],
    ) -> Iter[int]:
        assert (one.name, many.name, loss, any_loss) == ("one", "many", PPOLoss(), DQNLoss())
        return stream

    built(replays, "replays")


def test_actors_functions_and_operators_are_called_by_the_name_of_their_parameter() -> None:
    def needs(
        stream: Iter[int],
        workers: Actors[Worker],
        learner: Actor[Worker],
        memory: Resident[Worker],
        halve: Callable[[int], float],
        show: Stateless[float, str],
        train: ActorOp[Worker, str, bytes],
        build: Callable[[Iter[bytes]], Iter[complex]],
    ) -> Iter[complex]:
        assert [each.num for each in (workers, learner, memory)] == [2, 1, 1]
        assert workers.actor_class() is Worker
        trained = stream.map(halve).for_each(show).call(learner, train)
        assert [node.yields for node in of_plan(trained).nodes[1:4]] == [
            "Iter[float, Async]",
            "Iter[str, Async]",
            "Iter[bytes, Async]",
        ]
        assert [node.label for node in of_plan(trained).nodes] == [
            "stream",
            "map(halve)",
            "for_each(show)",
            "call(learner, train)",
            "learner",
        ]
        return build(trained)

    assert of_plan(built(needs, "needs")).nodes[0].yields == "Iter[complex, Async]"


def test_classes_instances_and_methods_are_asked_for_their_plan() -> None:
    assert str(built(PPO, "PPO")) == str(built(PPO(), "PPO()")) == str(built(PPO().plan, "plan"))


ADVICE = "draw a function without parameters that calls it."


def unannotated(stream):  # type: ignore[no-untyped-def]  # on purpose
    return stream


def needs_a_needy(thing: Needy) -> None: ...


def only_for_checkers(amount: Decimal) -> None: ...


def refused(stream: Iter[int]) -> Iter[int]:
    return stream.take(-1)


def broken(stream: Iter[int]) -> Iter[int]:
    raise ValueError("no.")


MISTAKES: list[tuple[object, str]] = [
    (unannotated, f"it needs 'stream', which has no annotation. Annotate it, or {ADVICE}"),
    (
        needs_a_needy,
        "it needs 'thing', and nothing can stand in for Needy: only streams, workers, actors, configurations, functions, "
        f"operators and plain values can be made up. Give it a default, or {ADVICE}",
    ),
    (
        only_for_checkers,
        "it needs 'amount', whose annotation 'Decimal' cannot be evaluated (NameError: name 'Decimal' is not defined). Import "
        f"what it names outside of TYPE_CHECKING, or {ADVICE}",
    ),
    (
        refused,
        "it cannot be built with stand-ins for stream: take: count must be at least 0, got -1. If a stand-in is to "
        f"blame, {ADVICE}",
    ),
    (broken, f"it cannot be built with stand-ins for stream: ValueError: no. If a stand-in is to blame, {ADVICE}"),
    (42, "it is an int; expected a stream, a plan, a function that returns one, or a configuration such as PPO."),
]


@pytest.mark.parametrize(("found", "sentence"), MISTAKES, ids=[sentence[:30] for _, sentence in MISTAKES])
def test_what_cannot_be_built_is_a_sentence(found: object, sentence: str) -> None:
    with pytest.raises(PlanError) as raised:
        built(found, "it")
    assert str(raised.value) == sentence


@dataclass(frozen=True)
class Sizes:
    small: int
    large: int = 4


class Batched:
    def __call__(self, stream: Iter[int], size: int) -> Iter[list[int]]:
        return stream.batch(size)


def test_several_streams_partial_functions_instances_and_configurations_that_need_values() -> None:
    def merged(*streams: Iter[int], sizes: Sizes) -> Iter[list[int]]:
        return Union(*streams).batch(sizes.small + sizes.large)

    assert [node.label for node in of_plan(built(merged, "merged")).nodes] == ["streams", "streams", "Union()", "batch(6)"]
    assert built(partial(Batched().__call__, size=3), "part").node.label == "batch(3)"
    assert built(Batched(), "instance").node.label == "batch(2)"


def test_what_cannot_be_called_or_ends_the_program_is_a_sentence() -> None:
    def leaves() -> Iter[int]:
        raise SystemExit(3)

    with pytest.raises(PlanError, match=r"zip does not say which arguments it takes. Name a function of yours that calls it."):
        built(zip, "zip")
    with pytest.raises(PlanError, match=r"leaves cannot be built: SystemExit: 3."):
        built(leaves, "leaves")
