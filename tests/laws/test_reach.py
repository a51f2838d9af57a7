"""Random plans reach every node and every option: what is never drawn is tested by no property. Of pairs of neighbours there are
too many to be drawn: here all of them run."""

from __future__ import annotations

import random
import typing
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from itertools import islice, product
from types import NoneType, UnionType

import pytest
from hypothesis import Phase, given, settings

from tflow import Iter, TimeBudget, from_range, par_from_range
from tflow.combinators import graph, nodes
from tflow.errors import NoHealthyShards, ShardFailed
from tflow.testing import Faults, simulate
from tflow.testing.strategies import GATHERS, PARALLEL, SEQUENTIAL, SHARDED, SOURCES, InActors, Shards, build, pieces, plain

DRAWN = 500
"""Plans: fewer than the properties of ``tests/laws`` draw in a run."""

NOT_A_PLAN_OF_ITS_OWN = {nodes.Pulled, nodes.Fed}
"""Stand inside actors only."""

NEVER_DRAWN = {
    ("Every", "unit", "steps"): "there are no env steps in plans of numbers: it would never open",
    ("Every", "unit", "seconds"): "reads the clock, and such a plan is not the same twice",
    ("FromActors", "limiter", "given"): "gates are drawn by tests/unit/test_residents.py",
    ("FromActors", "stored", True): "says that items wait in an actor, such as replay; nothing runs differently",
    ("CallActor", "on_death", "skip"): "refused: there is one actor only",
    ("HandOff", "on_death", "skip"): "refused: there is one actor only",
    ("GatherWhole", "on_death", "restart"): "refused: who comes back cannot join the round",
    ("GatherWhole", "rounds", False): "it is whole rounds by definition",
    ("GatherTogether", "on_death", "restart"): "as for GatherWhole",
    ("GatherTogether", "rounds", False): "as for GatherWhole",
}
"""Options that random plans leave out, and why."""


def classes(kind: type[nodes.Node]) -> set[type[nodes.Node]]:
    return {kind}.union(*map(classes, kind.__subclasses__()))


def concrete() -> set[type[nodes.Node]]:
    """The nodes of tflow's own that a plan of a user can have."""
    kinds = classes(nodes.Node)
    own = {kind for kind in kinds if kind.__module__.startswith(f"{nodes.__name__}.")} - NOT_A_PLAN_OF_ITS_OWN
    abstract = {nodes.Node, nodes.ParSource, nodes.FedSource, nodes.Unary, nodes.Passing, nodes.Applying, nodes.Operating}
    return own - abstract - {nodes.Gathering, nodes.Merging}


def options(kind: type[nodes.Node]) -> dict[str, tuple[object, ...]]:
    """What each field of a node may be: one of a few words, true or false, given or not, of one of two types."""
    found: dict[str, tuple[object, ...]] = {}
    hints_ = typing.get_type_hints(kind, localns=dict(vars(nodes)))
    for each in (each for each in fields(kind) if each.name not in ("name", "shown_as")):  # how it is called
        hint = hints_[each.name]
        if hint is bool:
            found[each.name] = True, False
        elif typing.get_origin(hint) is typing.Literal:
            found[each.name] = typing.get_args(hint)
        elif typing.get_origin(hint) in (typing.Union, UnionType) and NoneType in typing.get_args(hint):
            found[each.name] = "given", None
        elif hint == int | TimeBudget:
            found[each.name] = int, TimeBudget
    return found


def chosen(node: nodes.Node, option: str) -> object:
    value = getattr(node, option)
    allowed = options(type(node))[option]
    if int in allowed:
        return type(value)
    return value if value in allowed else "given"


@cache
def drawn() -> set[tuple[str, int]]:
    """The pieces of random plans."""
    found: set[tuple[str, int]] = set()

    @settings(max_examples=DRAWN, phases=[Phase.generate], deadline=None, derandomize=True, database=None)
    @given(chosen=pieces())
    def draw(chosen: list[int | InActors]) -> None:
        for piece in chosen:
            if isinstance(piece, InActors):
                found.update({("source", piece.source), ("gather", piece.gather), *(("shards", n) for n in piece.through)})
            else:
                found.add(("driver", piece))

    draw()
    return found


@cache
def made_of() -> list[nodes.Node]:
    """The nodes of all pieces that are drawn."""
    stream, shards = from_range(4), par_from_range(4)
    made: dict[str, Callable[[int], Iter[int] | Shards]] = {
        "driver": lambda n: (*SEQUENTIAL, *PARALLEL)[n](stream, plain),
        "source": lambda n: SOURCES[n](plain),
        "shards": lambda n: SHARDED[n](shards, plain),
        "gather": lambda n: GATHERS[n](shards),
    }
    return [node for kind, n in sorted(drawn()) for node in graph.walk(made[kind](n).node)]


def test_every_node_is_drawn() -> None:
    assert {kind.__name__ for kind in concrete() - {type(node) for node in made_of()}} == set()


def test_every_option_is_drawn() -> None:
    given_ = {(type(node).__name__, option, chosen(node, option)) for node in made_of() for option in options(type(node))}
    wanted = {
        (kind.__name__, option, value) for kind in concrete() for option, values in options(kind).items() for value in values
    }
    assert wanted - given_ == NEVER_DRAWN.keys()


def runs_well(plan: Iter[int], dice: random.Random) -> None:
    """On every schedule the books balance; without one, and on the local runtime, it shows the same, also if it is stopped."""
    tape, faults = [dice.randrange(64) for _ in range(40)], Faults(dies_after=1, slow=1, calm=dice.randrange(6))
    history = simulate(plan, tape, faults)
    assert history.unbalanced() == []
    assert history.error is None or isinstance(history.error, ShardFailed | NoHealthyShards)
    whole = simulate(plan).items
    assert list(plan.run()) == whole
    run, taken = plan.run(), dice.randrange(len(whole) + 1)
    found = list(islice(run, taken))
    assert found == whole[:taken]
    if taken < len(whole):
        assert found + list(plan.run(resume=run.snapshot())) == whole


@pytest.mark.full
@pytest.mark.parametrize("first", range(len(SEQUENTIAL) + len(PARALLEL)))
def test_every_two_pieces_of_the_driver_work_behind_each_other(first: int) -> None:
    dice = random.Random(first)
    for second in range(len(SEQUENTIAL) + len(PARALLEL)):
        runs_well(build([first, second], 5), dice)


@pytest.mark.parametrize("first", range(len(SHARDED)))
def test_every_two_pieces_in_actors_work_behind_each_other(first: int) -> None:
    dice = random.Random(first)
    for second in range(len(SHARDED)):
        source, gather = dice.randrange(len(SOURCES)), second % len(GATHERS)
        runs_well(build([InActors(source, (first, second), gather)], 2), dice)


@pytest.mark.parametrize("source", range(len(SOURCES)))
def test_every_piece_in_actors_works_between_every_source_and_gather(source: int) -> None:
    dice = random.Random(source)
    for piece, gather in product(range(len(SHARDED)), range(len(GATHERS))):
        history = simulate(build([InActors(source, (piece,), gather)], 2), [dice.randrange(64) for _ in range(20)])
        assert history.unbalanced() == []
        assert history.error is None
