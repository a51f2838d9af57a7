"""Plans read from source: each way to write one is drawn, nothing is lost, and it is what would really be built."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from types import ModuleType
from typing import get_args

import pytest

import tflow
from tests.drawing import plans
from tests.drawing.conftest import PLANS, SLIDES, Draw, Drawings
from tflow import Iter, ParIter
from tflow.combinators.runnable import Described, Plan
from tflow.combinators.splits import Splits
from tflow.drawing.built import of_plan
from tflow.drawing.model import Graph
from tflow.drawing.shown import shown
from tflow.drawing.static.library import LIBRARY
from tflow.drawing.static.operators import LOOKING, METHODS
from tflow.drawing.text import arrows, text
from tflow.rl.data.batch import Sampled
from tflow.rl.learning.losses import ReplayedColumns
from tflow.sentences import REPLAYED, ROLLOUT

LOOP = "for each branch in from_range(9).split"
ZIPPED = "for each index, (left, right) in enumerate(zip([from_range(1…"
DRAWN: dict[str, list[str]] = {
    # paths: both alternatives, and a node where they meet
    "branching": [
        "from_range(5)", "take(2)", "map(twice) <- 0", "if <- 2 if answer > 3, 0 else", "if <- 1 if fast, 3 else",
        "filter(is_even)",
    ],
    "either": ["from_range(1)", "from_range(2)", "map(twice)", "if <- 0 if fast, 2 else", "filter(is_even)"],
    "or_else": ["given: Iter[int, Async] | None", "from_range(2)", "or <- 0, 1 or", "map(twice)"],
    "early": ["from_range(5)", "return <- 0 if fast", "map(twice) <- 0", "return <- 2 else"],
    "optional": ["from_range(5)", "from_range(2)", "Union() <- 0, 1 if extra", "if <- 0 if more is None, 2 else"],
    "matched": [
        "from_range(5)", "filter(is_even)", "map(twice) <- 0", 'match <- 1 case "even", 2 case "double"', "take(1)",
    ],
    "tried": ["from_range(5)", "map(twice)", "take(2) <- 0", "try <- 1, 2 except ValueError", "filter(is_even)"],
    "with_file": ["from_range(len(file.read()))", "map(twice)", "take(1)"],
    "walrus": ["from_range(3)", "map(twice)", "if <- 1 if (r := from_range(3)) is not None, 0 else"],
    "guarded": [
        "stream: Iter[int, Async]", "map(twice)  in while True", "take(1)", "if <- 2 else, 1 if stream.deterministic",
    ],
    "branches_of_either": [
        "from_range(1)", "split(2)", "branch 0", "from_range(2)", "split(2)", "branch 0", "if <- 2 if fast, 5 else",
        "map(twice)", "branch 1 <- 1", "branch 1 <- 4", "if <- 8 if fast, 9 else", "Union() <- 7, 10",
    ],
    # loops: once, marked
    "in_a_loop": ["from_range(9)", "split(3)", f"map(twice) <- 1 for each  in {LOOP}(3)", "Union() <- 2 *"],
    "comprehended": ["from_range(9)", "split(n)", f"map(twice) <- 1 for each  in {LOOP}(n)", "Union() <- 2 *"],
    "again": ["from_range(9)", "filter(is_even)  in for each _ in range(times)", "take(times)  in while times > 3", "map(twice)"],
    "skipping": ["from_range(3)", "map(twice)  in for each turn in range(times)", "if <- 1, 0 if turn == 2", "take(1)"],
    "nested_loops": [
        "from_range(size)  in for each size in range(times) / for each shift in range(size)",
        "take(shift)  in for each size in range(times) / for each shift in range(size)",
        "Union() <- 1 *",
    ],
    "by_name": [
        "from_range(3)  in for each name in names", "map(twice) 'name'  in for each name in names", "Union() <- 1 *",
    ],
    # several at once
    "in_lists": [
        "from_range(1)", "from_range(2)", "map(twice)", "from_range(3)", "from_range(4)", "kept <- 0, 2, 3, 4",
        "Union() <- 0, 2, 3, 4", "Union() <- 0, 5, 6",
    ],
    "in_dicts": [
        "from_range(3)", "map(twice)", "from_range(1)", "from_range(2)", "named <- 2, 3, 1",
        "named.values() <- 2, 3, 1  in for each each in named.values()",
        "take(1) <- 5 for each  in for each each in named.values()",
        "Union() <- 1, 4, 6 *, 2, 3, 1",
    ],
    "zipped_loops": [
        "from_range(1)", "from_range(2)", "[from_range(1), from_range(2)] <- 0, 1", "from_range(9)", "split(2)",
        f"zip() <- 2 for each, 4 for each  in {ZIPPED}", f"map(<lambda>)  in {ZIPPED}", f"take(index)  in {ZIPPED}",
        "Union() <- 7 *",
    ],
    "in_fields": [
        "from_range(1)", "from_items(...)", "kept.source: Iter[int, Async]", "map(twice)",
        "kept.streams: dict[str, Iter[int, Async]]", "Union() <- 0, 1, 3, 4",
    ],
    "many": [
        "streams: tuple[Iter[int, Async], ...]", "named: dict[str, Iter[str, Async]]",
        "map(len) <- 1 for each  in for each each in named.values()", "Union() <- 0 *, 2 *", "unused: ParIter[int]",
    ],
    # functions that are not looked into
    "calling": [
        "from_range(9)", "split(2)", "branch 0", "halved(Iter[int, Sync])", "branch 1 <- 1", "halved(Iter[int, Sync])",
        "doubled(Iter[int, Async])", "Union() <- 3, 6",
    ],
    "both_parts": ["from_range(4)", "parted(Iter[int, Async])", "map(twice)", "Union() <- 2, 1"],
    "local_flow": ["from_range(4)", "more(...)", "flatten()"],
    "through_lambda": ["from_range(3)", "make()"],
    "waiting": ["stream: Iter[int, Async]", "<lambda>(...)"],
    "over_given": ["from_actors(fleet, pull)", "gather_async()", "batch(size)"],
    "own_class": ["from_range(2)", "Reported(Iter[int, Async])", "map(twice)"],
    "Trainer.plan": ["from_range(2)", "finish(Iter[int, Async])", "self.source: Iter[int, Async]", "map(twice)"],
    "Trainer.finish": ["self.made: Iter[int, Async]", "stream: Iter[int, Async]", "take(1)", "Union() <- 0, 2"],
    "Trainer.gather": ["self.source: Iter[int, Async]", "map(twice)", "take(2) <- 0", "Union() <- 1, 2"],
    "Trainer.start": ["from_range(3)", "cls(Iter[int, Async])", "plan()"],
    # what nobody consumes, and what cannot be followed, is there as well
    "left_over": ["from_range(2)", "split(2)", "branch 1", "map(str) <- 0", "branch 0 <- 1"],
    "given_away": ["from_range(2)", "split(2)", "branch 1", "branch 0 <- 1", "keep(Iter[int, Async])"],
    "folded": ["from_range(1)", "from_range(2)", "reduce(...) <- 0, 1"],
    "untyped": ["r: Any", "par_map(twice)", "gather_sync()", "for_each(op)"],
    "yielded": ["from_range(1)", "yield", "from_range(2)", "map(twice)", "yield"],
    "compared": ["streams: list[Iter[int, Async]]", "map(twice)"],
    "multiplied": ["r: Iter[int, Async]", "map(twice)", "? [r.map(twice)] * 3"],
    "both_ways": ["from_items(...)", "map(upper)", "from_range(2)"],
}  # fmt: skip
EXPANDED: dict[str, list[str]] = {
    "calling": [
        "from_range(9)", "split(2)", "branch 0", "map(<lambda>)  in halved", "take(2)  in halved", "branch 1 <- 1",
        "map(<lambda>)  in halved", "take(3)  in halved", "map(twice)  in doubled", "Union() <- 4, 8",
    ],
    "calling_choice": [
        "from_range(3)", "take(1)  in choose", "map(twice) <- 0  in choose", "if <- 1 if fast, 2 else", "filter(is_even)",
    ],
    "Trainer.start": [
        "from_range(3)", "cls(Iter[int, Async])", "map(twice)  in plan", "from_range(2)  in plan",
        "take(1)  in plan / finish", "Union() <- 2, 4  in plan / finish",
    ],
}  # fmt: skip
SAME = (
    "chain", "inside", "sources", "learner", "rounds", "aliases", "other_names", "used_elsewhere", "together", "calling",
    "both_parts", "local_flow", "through_lambda", "over_made", "looked_at", "own_actors", "letters", "pairs",
)  # fmt: skip
SLIDE_PLANS = ("a3c", "a2c", "ppo", "apex", "beside_sampling", "evaluated", "several")
TABLES = {
    "a3c": """
a3c: Plan[Metrics]
   operator                        where   yields
0  ParallelRollouts(workers)       actor   ParIter[Rollout]
1  par_for_each(ComputeGradients)  actor   ParIter[Gradients]
2  gather_async()                  driver  Iter[Gradients, Async]
3  for_each(ApplyGradients)        driver  Iter[TrainStats, Async]
4  for_each(CollectMetrics)        driver  Plan[Metrics]
""",
    "ppo": """
ppo: Plan[Metrics]
   operator                         where   yields
0  ParallelRollouts(workers)        actor   ParIter[Rollout]
1  par_for_each(ComputeAdvantages)  actor   ParIter[Rollout+advantages+returns]
2  gather_rounds()                  driver  Iter[list[Rollout+advantages+returns], Sync]
3  ConcatRounds()                   driver  Iter[Rollout+advantages+returns, Sync]
4  for_each(StandardizeFields)      driver  Iter[Rollout+advantages+returns, Sync]
5  for_each(TrainOneStep)           driver  Iter[TrainStats, Sync]
6  for_each(CollectMetrics)         driver  Plan[Metrics]
""",
    "apex": """
apex: Plan[Metrics]
    operator                       where   yields
0   ParallelRollouts(workers)      actor   ParIter[Rollout]
1   gather_async()                 driver  Iter[Rollout, Async]
2   for_each(StoreToBuffer)        driver  Iter[Rollout, Async]
3   for_each(UpdateWeights)        driver  Iter[Rollout, Async]
4   ParallelReplay(replay)         actor   ParIter[Replayed]
5   gather_async()                 driver  Iter[Replayed, Async]
6   for_each(UpdatePriorities)     driver  Iter[Replayed, Async]
7   for_each(TrainOneStep)         driver  Iter[TrainStats, Async]
8   for_each(UpdateTargetNetwork)  driver  Iter[TrainStats, Async]
9   Union() <- 3, 8                driver  Iter[Rollout | TrainStats, Async]
10  for_each(CollectMetrics)       driver  Plan[Metrics]
""",
    "beside_sampling": """
beside_sampling: Plan[Metrics]
    operator                         where    yields
0   ParallelRollouts(workers)        actor    ParIter[Rollout]
1   gather_async()                   driver   Iter[Rollout, Async]
2   repartition(2)                   actor    ParIter[Rollout, Async]
3   par_batch(4)                     actor    ParIter[list[Rollout], Async]
4   par_map(concat)                  actor    ParIter[Rollout, Async]
5   gather_async()                   driver   Iter[Rollout, Async]
6   batch(512)                       driver   Iter[list[Rollout], Async]
7   ConcatBatches(512)               driver   Iter[Rollout, Async]
8   MixInReplay()                    driver   Iter[Rollout, Async]
9   hand_off(learner, LearnOnBatch)  learner  Iter[TrainStats, Async]
10  for_each(SendWeights)            driver   Iter[TrainStats, Async]
11  for_each(CollectMetrics)         driver   Plan[Metrics]
""",
    "several": """
several: Plan[Metrics]
    operator                        where   yields
0   ParallelRollouts(workers)       actor   ParIter[MultiBatch[PPO, DQN]]
1   gather_sync()                   driver  Iter[MultiBatch[PPO, DQN], Sync]
2   split(2)                        driver  Iter[MultiBatch[PPO, DQN], Sync]
3   branch 0                        driver  Iter[MultiBatch[PPO, DQN], Sync]
4   for_each(OfPolicy)              driver  Iter[Rollout, Sync]
5   Select(PPO)                     driver  Iter[Rollout, Sync]
6   ppo_plan(Iter[Rollout, Sync])   driver  Iter[TrainStats, Async]
7   branch 1 <- 2                   driver  Iter[MultiBatch[PPO, DQN], Sync]
8   for_each(OfPolicy)              driver  Iter[Rollout, Sync]
9   Select(DQN)                     driver  Iter[Rollout, Sync]
10  dqn_plan(Iter[Rollout, Async])  driver  Iter[TrainStats, Async]
11  Union() <- 6, 10                driver  Iter[TrainStats, Async]
12  for_each(CollectMetrics)        driver  Plan[Metrics]
""",
}
TYPES = {
    "number": "int | None",
    "pair": "tuple[int, ...]",
    "two": "tuple[int, str]",
    "rollout": "Rollout",
    "widened": "Rollout+advantages+returns",
    "replayed": "Replayed",
    "few": "Batch[rewards, values]",
    "any_batch": "AnyBatch",
    "open_batch": "Batch[str]",
    "multi": "MultiBatch[PPO, DQN]",
    "multi_replayed": "MultiBatch[Replayed: PPO]",
    "multi_open": "MultiBatch[str]",
    "names": "Literal['a', 'b'] | None",
    "columns": "Sampled",
    "column_union": "Sampled",
    "stream": "Iter[list[Rollout], Async]",
    "fresh": "Iter[Rollout, Sync]",
    "shards": "ParIter[Rollout]",
    "late": "ParIter[Rollout, Async]",
    "union": "Iter[int | str, Async]",
    "rollouts": "ParIter[Rollout]",
    "report": "Plan[Metrics]",
    "plan": "Plan[Gradients]",
    "function": "(int, str) -> list[int]",
    "either": "((int) -> int) | int",
    "anything": "(...) -> object",
    "cls": "type[Rollout]",
    "array": "ndarray",
    "named": "Parts",
    "scalar": "Score",
    "unknown": "Any",
    "deep": "dict[str, list[Iter[int, Async]]]",
    "parameter": "T",
    "parameters": "list[T]",
}


def rows(graph: Graph) -> list[str]:
    """Labels, inputs that are not the line before, and groups from the outermost."""
    groups = {group.id: group for group in graph.groups}
    found = []
    for node in graph.nodes:
        titles: list[str] = []
        group = node.group
        while group is not None:
            titles.insert(0, groups[group].title)
            group = groups[group].parent
        found.append(node.label + arrows(node, graph.inputs[node.id]) + (f"  in {' / '.join(titles)}" if titles else ""))
    return found


def shape(graph: Graph) -> list[tuple[str, str, list[int]]]:
    """What does not depend on how types are found: labels, places and inputs."""
    return [(node.label, node.where, [edge.source for edge in graph.inputs[node.id]]) for node in graph.nodes]


@pytest.mark.parametrize("name", DRAWN)
def test_every_way_to_write_it_is_drawn(draw: Draw, name: str) -> None:
    assert rows(draw(name)) == DRAWN[name]


def test_no_stream_is_lost(drawings: Drawings) -> None:
    """Wherever a program makes a stream, there is a node."""
    assert drawings.calls > 200
    assert drawings.lost == []


@pytest.mark.parametrize("name", EXPANDED)
def test_functions_are_looked_into_on_demand(draw: Draw, name: str) -> None:
    assert rows(draw(name, expand=True)) == EXPANDED[name]


@pytest.mark.parametrize("name", SAME)
def test_what_is_drawn_is_what_is_built(draw: Draw, name: str) -> None:
    found = getattr(plans, name)
    made = found if isinstance(found, Described) else found()
    assert shape(draw(name, expand=True)) == shape(of_plan(made))


def test_branches_that_nobody_takes_are_drawn_behind_the_rest(draw: Draw) -> None:
    found = shape(draw("of_splits"))
    built = shape(of_plan(plans.of_splits()))
    assert found[: len(built)] == built
    assert [(label, found[inputs[0]][0]) for label, _, inputs in found[len(built) :]] == [
        ("branch 1", "split(2)"),
        ("branch 0", "split(2)"),
    ]


@pytest.fixture(scope="module")
def slides() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rl_good", SLIDES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rl_good"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SLIDE_PLANS)
def test_the_plans_of_the_slides_are_drawn_as_they_are_built(draw: Draw, slides: ModuleType, name: str) -> None:
    drawn, built = draw(name, expand=True, slides=True), of_plan(getattr(slides, name)())
    assert shape(drawn) == shape(built)
    known = [(one.yields, other.yields) for one, other in zip(drawn.nodes, built.nodes, strict=True) if "?" not in other.yields]
    same = [one == other for one, other in known if not one.startswith("Plan")]
    assert sum(same) > len(same) / 2, "where annotations tell a type at run time, it is mostly as exact as the one of mypy"


def test_the_types_are_those_that_mypy_infers_for_each_stream_by_itself(draw: Draw) -> None:
    """In its place, as an argument, a stream is often said to yield all that the parameter would accept."""
    yields = {node.label: node.yields for node in draw("ppo", slides=True).nodes}
    assert yields["for_each(TrainOneStep)"] == "Iter[TrainStats, Sync]"
    assert yields["gather_rounds()"] == "Iter[list[Rollout+advantages+returns], Sync]"
    assert [node.yields for node in draw("several", slides=True).nodes if node.label == "Select(DQN)"] == ["Iter[Rollout, Sync]"]


def test_a_box_says_what_it_takes_and_edges_say_what_they_carry(draw: Draw) -> None:
    graph = draw("both_parts")
    assert [(edge.source, edge.target, edge.shown) for edge in graph.edges] == [
        (0, 1, "Iter[int, Sync]"),
        (1, 2, "Iter[int, Async]"),
        (2, 3, "Iter[int, Async]"),
        (1, 3, "Iter[str, Async]"),
    ]
    assert [node.kind for node in graph.nodes] == ["operator", "flow", "operator", "operator"]


def test_nodes_know_their_lines(draw: Draw) -> None:
    lines = PLANS.read_text().splitlines()
    for node in draw("chain").nodes:
        assert node.line is not None
        assert node.label.split("(")[0] in lines[node.line - 1]


def without_lines(graph: Graph) -> Graph:
    """Line numbers change whenever somebody edits the file."""
    return replace(graph, nodes=tuple(replace(node, line=None) for node in graph.nodes))


@pytest.mark.parametrize("name", TABLES)
def test_text_is_a_table_like_that_of_print(draw: Draw, name: str) -> None:
    assert text(without_lines(draw(name, slides=True))) == TABLES[name].strip("\n")


def test_text_has_lines_and_groups_where_there_are_any(draw: Draw) -> None:
    table = text(draw("calling", expand=True)).splitlines()
    assert table[1].split() == ["operator", "where", "yields", "line", "in"]
    assert table[5].split()[-2:] == [str(line_of("return stream.map(lambda x: x // by)")), "halved"]


def line_of(code: str) -> int:
    return next(number for number, line in enumerate(PLANS.read_text().splitlines(), 1) if code in line)


def test_types_are_shown_as_people_write_them(drawings: Drawings) -> None:
    assert drawings.types == TYPES
    assert shown(None) == "?"


def test_named_columns_are_those_of_the_batches() -> None:
    assert get_args(Sampled) == ROLLOUT
    assert get_args(ReplayedColumns) == REPLAYED


def test_every_operator_has_its_drawing() -> None:
    """A new method or class that makes streams must be listed, or its nodes would not be those of the plan."""
    methods = {name for cls in (Iter, ParIter, Splits, Plan) for name in vars(cls) if not name.startswith("_")}
    assert methods - METHODS.keys() - LOOKING == set()
    listed = {name.rpartition(".")[2] for name in LIBRARY}
    for name in tflow.__all__:
        public = getattr(tflow, name)
        if isinstance(public, type) and issubclass(public, Described):
            assert name in listed or public in (Iter, ParIter, Plan), name
        elif callable(public) and not isinstance(public, type):
            returned = str(getattr(public, "__annotations__", {}).get("return", ""))
            makes = returned.startswith(("Iter", "ParIter", "Plan", "Actor", "Resident", "AnyWorkers", "AnyReplay"))
            sub_flow = str(tflow.home_of(name)).startswith("tflow.algos.")  # drawn as any function, or looked into
            assert name in listed or sub_flow or not makes, name
