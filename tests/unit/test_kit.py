"""The kit itself: oracles, searching, saving and replaying, and what it says when it is used wrongly."""

from __future__ import annotations

import datetime
import json
import random
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from examples import one_of_each
from tests.laws.world import Learn, samplers, sampling
from tflow import (
    Actors,
    AddColumns,
    Batch,
    ComputeAdvantages,
    Iter,
    Live,
    LiveOp,
    PlanError,
    Shard,
    Stateful,
    Stateless,
    Union,
    par_from_range,
    testing,
)
from tflow.laws import (
    BATCH_LAWS,
    CONSERVATION,
    ERROR_PROPAGATION,
    FAIRNESS,
    FRESHNESS,
    GENERAL_LAWS,
    LAWS,
    LAZINESS,
    ORDER,
    LawBroken,
)
from tflow.rl.data.batch import Rollout
from tflow.runtime.sim import NO_FAULTS
from tflow.testing import (
    Counterexample,
    Faults,
    History,
    SimRuntime,
    check_combinator,
    check_laws,
    explore,
    fault_profiles,
    replay,
    rollouts,
    simulate,
)
from tflow.testing.history import without_zeros
from tflow.testing.values import Poison, Poisoned, fits, snapshot
from tflow.types import StatefulActorOp

ROOT = Path(__file__).parent.parent.parent
RIGHT, CHECK = "examples.one_of_each:right_plan", "examples.one_of_each:one_of_each"


# --------------------------------------------------------------------------- oracles


def test_a_sound_history_has_nothing_to_complain_of() -> None:
    history = simulate(sampling(samplers(2, [3, 3])).gather_async())
    assert (history.lost(), history.duplicated(), history.out_of_order(), history.unbalanced()) == ([], [], [], [])
    assert history.complete
    history.check()


def test_oracles_see_what_was_lost_shown_twice_and_out_of_order() -> None:
    history = simulate(sampling(samplers(1, [4])).gather_async())
    first, second, third, fourth = history.origins
    (lost,) = second.sources
    history.origins[:] = [first, fourth, third, third]
    assert history.lost() == [lost]
    assert [source.sequence for source in history.duplicated()] == [2]
    assert [source.sequence for source in history.out_of_order()] == [2, 2]
    with pytest.raises(LawBroken, match="conservation"):
        history.check()


def test_what_is_dropped_and_counted_is_not_lost() -> None:
    actors = samplers(3, [4, 4, 4])
    history = simulate(sampling(actors).gather_async(max_staleness=0).for_each(Learn(actors)), [1, 2, 3, 4, 5, 6, 7])
    assert history.ledgers[-1].items.dropped["stale"] > 0
    assert history.lost() == []


def test_weight_lag_is_measured_per_policy() -> None:
    actors = samplers(2)
    history = simulate(sampling(actors).gather_async(in_flight=2).for_each(Learn(actors)).take(10))
    assert history.weight_lag() == 3, "two calls each at two actors: three of the others come before"
    assert history.weight_lag("other") == 0


def test_a_history_tells_its_schedule() -> None:
    history = simulate(par_from_range(2).gather_sync(), [0, 0, 7], Faults(dies_before=1), seed=3)
    assert str(history).splitlines()[0] == f"tape={history.tape} faults=Faults(dies_before=1) seed=3"
    assert str(history).endswith("-> 2 items, then the end")
    assert simulate(par_from_range(9).gather_sync(), most=2).complete is False
    assert without_zeros([0, 1, 0, 0]) == [0, 1]


# --------------------------------------------------------------------------- searching and replaying


def test_explore_finds_the_smallest_schedule_and_the_right_plan_has_none(tmp_path: Path) -> None:
    found = explore(one_of_each.wrong_plan, one_of_each.one_of_each, save=tmp_path)
    assert found is not None
    assert found.tape == [0, 0, 1]
    assert found.faults == NO_FAULTS
    assert "one-sided" in str(found)
    assert "examples.one_of_each:wrong_plan under this schedule" in str(found)
    assert explore(one_of_each.right_plan, one_of_each.one_of_each, faults=fault_profiles()) is None
    (saved,) = tmp_path.iterdir()
    assert saved.name == "examples.one_of_each.wrong_plan-one_of_each.schedule.json"
    with pytest.raises(AssertionError, match="one-sided"):
        replay(saved)


def test_explore_is_the_same_every_time() -> None:
    first, second = (explore(one_of_each.wrong_plan, one_of_each.one_of_each) for _ in range(2))
    assert first is not None
    assert second is not None
    assert str(first) == str(second)
    assert first.examples == second.examples


def test_a_saved_schedule_is_data(tmp_path: Path) -> None:
    example = Counterexample(
        "examples.one_of_each:right_plan", "examples.one_of_each:one_of_each", [1], Faults(slow=1), 2, 9, "", ""
    )
    path = example.save(tmp_path / "new folder")
    assert json.loads(path.read_text()) == {
        "plan": RIGHT,
        "check": CHECK,
        "tape": [1],
        "faults": {"slow": 1},
        "seed": 2,
        "most": 9,
        "error": "",
    }
    history = replay(path)
    assert (history.seed, history.faults) == (2, Faults(slow=1))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"plan": "examples.one_of_each:gone"}, "'examples.one_of_each:gone' cannot be found"),
        ({"plan": "no_such_module:plan"}, "'no_such_module:plan' cannot be found"),
        ({"plan": "examples.one_of_each:__doc__"}, "cannot be found. Plan and check"),
        ({"plan": "builtins:dict"}, "makes a dict; expected a stream or a plan"),
        ({"tape": "x"}, "is not a saved schedule"),
        ({"faults": {"explodes": 1}}, "is not a saved schedule"),
    ],
)
def test_a_schedule_that_cannot_be_replayed_says_why(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    example = Counterexample(RIGHT, CHECK, [], NO_FAULTS, 0, 9, "", "")
    path = example.save(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(PlanError, match=sentence):
        replay(path)


def tflow(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tflow.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, input="args\nq\n")


def test_the_command_replays_a_schedule_and_stops_in_the_debugger(tmp_path: Path) -> None:
    explore(one_of_each.wrong_plan, one_of_each.one_of_each, save=tmp_path)
    (path,) = tmp_path.iterdir()
    failed = tflow("replay", path)
    assert failed.returncode == 1
    assert "AssertionError: this mean is one-sided" in failed.stderr
    assert "Worker[0]  pull  answers" in failed.stdout
    stopped = tflow("replay", path, "--pdb")
    assert "one_of_each.py" in stopped.stdout
    assert "(Pdb)" in stopped.stdout
    path.write_text(path.read_text().replace("wrong_plan", "right_plan"))
    passed = tflow("replay", path)
    assert passed.returncode == 0, passed.stderr
    assert "The check holds." in passed.stdout
    path.write_text(path.read_text().replace(CHECK, "tests.unit.test_kit:raises_one_of_ours"))
    ours = tflow("replay", path)
    assert ours.returncode == 1
    assert "PlanError: ours" in ours.stderr
    assert "Worker[0]  pull  answers" in ours.stdout
    path.write_text("{}")
    assert tflow("replay", path).returncode == 2


def raises_one_of_ours(history: History[object]) -> None:
    raise PlanError("ours")


# --------------------------------------------------------------------------- using it wrongly


def test_mistakes_are_sentences() -> None:
    with pytest.raises(PlanError, match="not about combinators"):
        check_combinator(lambda s: s, laws=[ERROR_PROPAGATION])
    with pytest.raises(PlanError, match="got the class Add"):
        check_laws(Add, items=st.integers())  # type: ignore[arg-type]  # the mistake
    with pytest.raises(PlanError, match="Faults: dies_before must be at least 0, got -1"):
        Faults(dies_before=-1)
    with pytest.raises(PlanError, match="a tape is made of whole numbers, got 'a'"):
        list(par_from_range(4).gather_async().run(runtime=SimRuntime("ab")))  # type: ignore[arg-type]  # the mistake
    with pytest.raises(PlanError, match="most must be a whole number"):
        simulate(par_from_range(4).gather_async(), most=1.5)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(PlanError, match="examples must be at least 1"):
        explore(one_of_each.right_plan, one_of_each.one_of_each, examples=0)
    wrong: Any = testing  # Any: so that it can be called wrongly
    mistakes: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: wrong.simulate(par_from_range, []), "plan must be a stream or a plan"),
        (lambda: wrong.simulate(par_from_range(4).gather_async(), Faults()), "faults are the next argument"),
        (lambda: wrong.simulate(par_from_range(4).gather_async(), [], {}), "faults must be Faults"),
        (lambda: wrong.simulate(par_from_range(4).gather_async(), "ab"), "a tape is made of whole numbers"),
        (
            lambda: wrong.simulate(par_from_range(4).gather_async()).happened("explodes"),
            "there is no 'explodes'; there are dies_before",
        ),
        (lambda: wrong.explore(one_of_each.right_plan(), one_of_each.one_of_each), "expected a function"),
        (lambda: wrong.check_laws(7, items=st.integers()), "expected an operator"),
        (lambda: wrong.check_laws(abs, items=[1, 2]), "items must be a strategy of hypothesis"),
        (
            lambda: wrong.check_laws(abs, items=st.integers(), laws=[ORDER]),
            "the law 'order' is not about operators; these are: pur",
        ),
        (lambda: wrong.check_combinator(lambda s: s, laws=[]), "say which laws"),
        (lambda: wrong.check_combinator(lambda s: s, laws=["order"]), "every law must be a law of tflow.laws"),
        (lambda: wrong.check_combinator(lambda s: s, laws=[FRESHNESS]), "is about actors; say parallel=True"),
        (lambda: wrong.check_combinator(lambda s: s, laws=[FAIRNESS], parallel=True), "is about driver streams"),
        (lambda: wrong.check_combinator(lambda a, b: a, laws=[FAIRNESS], inputs=2, weights=[1]), "2 inputs and 1 weights"),
    )
    for mistake, sentence in mistakes:
        with pytest.raises(PlanError, match=sentence):
            mistake()
    with pytest.raises(ValueError, match="there is no fault explodes; there are dies_before"):
        fault_profiles(["explodes"])


def test_without_hypothesis_the_kit_says_what_to_install() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import tflow.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().endswith("The tools of tflow.testing need the package hypothesis: pip install 'tflow[testing]'")


def test_a_plan_that_cannot_be_made_is_not_a_counterexample() -> None:
    def wrong() -> Iter[int]:
        stream = par_from_range(2).gather_sync()
        return Union(stream, stream)

    with pytest.raises(PlanError, match="consumed twice"):
        explore(wrong, lambda history: None)


@contextmanager
def few_examples() -> Iterator[None]:
    """Where the first counterexample will do: most of the time goes into making it small."""
    before = settings.get_current_profile_name()
    settings.load_profile("mutants")
    try:
        yield
    finally:
        settings.load_profile(before)


def test_a_combinator_that_dries_up_or_makes_something_else_is_told_so() -> None:
    for build, law, sentence in (
        (lambda s: s.filter(lambda item: item.number < 3), LAZINESS, "it shows 3 items and then no more"),
        (lambda s: s.take(3), LAZINESS, "it shows 3 items and then no more"),
        (lambda s: s.batch(2), CONSERVATION, "pass on their items as they are; it shows"),
        (lambda s: s.batch(2), ORDER, "pass on their items as they are; it shows"),
    ):
        with few_examples(), pytest.raises(AssertionError, match=sentence):
            getattr(check_combinator(build, laws=[law])(), f"test_{law.name}")()


def test_a_plan_with_a_memory_is_no_counterexample() -> None:
    seen: list[int] = []

    def plan() -> Iter[int]:
        return par_from_range(3).gather_async().tap(seen.append)

    def fails_the_second_time(history: History[int]) -> None:
        assert len(seen) != 6

    with pytest.raises(PlanError, match="remembers something between runs"):
        explore(plan, fails_the_second_time)


def test_a_check_that_returns_false_has_failed() -> None:
    found = explore(lambda: par_from_range(4).gather_async(), lambda history: history.items == sorted(history.items))
    assert found is not None
    assert "returned False" in found.error
    with pytest.raises(PlanError, match="cannot be found"):
        found.save("nowhere")


class Add(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        return item + 1


class Announce(LiveOp[int, int]):
    def __init__(self, actors: Actors[object]) -> None:
        self.actors = actors

    def apply(self, live: Live, item: int, /) -> int:
        return live[self.actors].advance() + item


class Window(Stateful[int, tuple[int, ...], tuple[int, ...]]):
    batching = True

    def init(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], item: int, /) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (*state, item)[-3:], (*state, item)


def names(tests: type) -> set[str]:
    return {name.removeprefix("test_") for name in vars(tests) if name.startswith("test_")}


def test_which_laws_apply_depends_on_the_kind_of_operator() -> None:
    of_memory = {law.name for law in GENERAL_LAWS}
    everything = of_memory - {"leftovers"}
    assert names(check_laws(Add(), items=st.integers())) == everything
    assert names(check_laws(Window(), items=st.integers())) == of_memory - {"release", "bounded_memory"}
    live = check_laws(Announce(samplers(1)), items=st.integers(), like=lambda items: [])
    assert names(live) == (everything - {"chunking"}) | {"equivalence", "messages"}
    batches = {law.name for law in BATCH_LAWS}
    assert names(check_laws(ComputeAdvantages(), items=rollouts())) == everything | batches
    assert names(check_laws(abs, items=st.integers())) == everything - {"typing"}, "nobody says what it returns"
    assert names(check_laws(Add(), items=st.integers(), laws=[LAWS["purity"], LAWS["rows"]])) == {"purity"}
    assert vars(live)["test_purity"].__doc__ == LAWS["purity"].says


class Roll(NamedTuple):
    reward: np.ndarray


@dataclass
class Fragment:
    reward: float


class Partial(TypedDict, total=False):
    reward: float
    length: int


class Whole(TypedDict):
    reward: float
    length: int


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


class Stacks(Stateless[np.ndarray, "deque[np.ndarray]"]):
    def apply(self, item: np.ndarray, /) -> deque[np.ndarray]:
        return deque([item * 1, item * 2])


class MakesRolls(Stateless[np.ndarray, Roll]):
    def apply(self, item: np.ndarray, /) -> Roll:
        return Roll(item / (item.sum() - item.sum()) if item.size > 2 else item * 2)


class MakesFragments(Stateless[float, Fragment]):
    def apply(self, item: float, /) -> Fragment:
        return Fragment(float("nan") if item < 0 else item)


class Slots(Stateless[int, Slotted]):
    def apply(self, item: int, /) -> Slotted:
        return Slotted(item)


class Measures(Stateless[np.ndarray, int]):
    def apply(self, item: np.ndarray, /) -> int:
        return int(np.asarray(item).size)


class AccumulatesInPlace(Stateful[np.ndarray, float, np.ndarray]):
    def init(self) -> np.ndarray:
        return np.zeros(2)

    def step(self, state: np.ndarray, item: np.ndarray, /) -> tuple[np.ndarray, float]:
        state += item.sum()
        return state, float(state.sum())


class Noisy:
    def __init__(self, shard: Shard) -> None:
        self.dice = random.Random(shard.seed)


class AddsNoise(StatefulActorOp[Noisy, int, float, int]):
    def init(self) -> int:
        return 0

    def step(self, actor: Noisy, state: int, item: int, /) -> tuple[int, float]:
        return state + 1, item + actor.dice.random()


class Doubles(Stateless[torch.Tensor, torch.Tensor]):
    def apply(self, item: torch.Tensor, /) -> torch.Tensor:
        return item * 2


class SendsArrays(LiveOp[np.ndarray, np.ndarray]):
    def __init__(self, actors: Actors[object]) -> None:
        self.actors = actors

    def apply(self, live: Live, item: np.ndarray, /) -> np.ndarray:
        live[self.actors].advance()
        live[self.actors].update(print, item * 2)
        return item


class CutsWindows(Stateless[Rollout, Batch[Literal["rewards", "mask"]]]):
    def apply(self, item: Rollout, /) -> Batch[Literal["rewards", "mask"]]:
        return item.sequences(3)


class Ranks(AddColumns[Literal["rewards"], Literal["rank"]]):
    """How many rows of the batch have smaller rewards: a reward that comes later counts as much as one that came before."""

    def compute(self, batch: Batch[Literal["rewards"]], /) -> dict[Literal["rank"], np.ndarray]:
        return {"rank": (batch["rewards"][:, None] > batch["rewards"]).mean(axis=1, dtype=np.float32)}


arrays = st.lists(st.floats(-2, 2), min_size=1, max_size=3).map(np.array)
tensors = st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=3).map(torch.tensor)
RIGHT_ONES: dict[str, type] = {
    "deque": check_laws(Stacks(), items=arrays),
    "named tuple": check_laws(MakesRolls(), items=st.just(np.ones(2))),
    "dataclass and NaN": check_laws(MakesFragments(), items=st.floats(-1, 1)),
    "slots": check_laws(Slots(), items=st.integers()),
    "numpy": check_laws(Measures(), items=arrays),
    "state in place": check_laws(AccumulatesInPlace(), items=arrays),
    "seeded actor": check_laws(AddsNoise(), items=st.integers(), actor=Noisy),
    "torch": check_laws(Doubles(), items=tensors),
    "arrays in messages": check_laws(SendsArrays(samplers(1)), items=arrays),
    "ranks": check_laws(Ranks(), items=rollouts(min_pieces=1)),
    "windows of batches": check_laws(CutsWindows(), items=rollouts()),
}


@pytest.mark.parametrize("kind", RIGHT_ONES)
def test_right_operators_on_values_of_many_kinds_raise_no_alarm(kind: str) -> None:
    for name in names(RIGHT_ONES[kind]):
        vars(RIGHT_ONES[kind])[f"test_{name}"](object())


def test_the_laws_of_operators_with_memory_and_live_ones_hold() -> None:
    for tests in (check_laws(Window(), items=st.integers()), check_laws(Announce(samplers(1)), items=st.integers())):
        for name in names(tests):
            vars(tests)[f"test_{name}"](object())


def by_the_hour(item: int) -> int:
    return item + datetime.datetime.now().hour


def test_what_depends_on_the_hour_is_found() -> None:
    with pytest.raises(LawBroken, match=r"repeatability.*another clock"):
        vars(check_laws(by_the_hour, items=st.integers(), laws=[LAWS["repeatability"]]))["test_repeatability"](object())


# --------------------------------------------------------------------------- laws and values


def test_a_broken_law_says_what_it_is_and_what_was_seen() -> None:
    with pytest.raises(LawBroken, match=r"order: Items of one source .* But item 0 of a comes after item 1\."):
        ORDER.check([("a", 1), ("a", 0)])
    assert FAIRNESS.wrong([0, 1, 0, 1], [1, 1]) == ""
    assert FAIRNESS.wrong([0, 0, 0], [1, 1]) == "after 3 turns input 0 has had 3, its share is 1.5"


def closing_over(offset: list[int]) -> Callable[[], list[int]]:
    return lambda: offset


def test_snapshots_compare_by_content() -> None:
    class Plain:
        def __init__(self, value: object) -> None:
            self.value = value

    for value in (np.arange(3), [float("nan")], {"a": (1, [2])}, Plain([1]), Add()):
        before = snapshot(value)
        assert before == snapshot(value)
    array = np.arange(3)
    before = snapshot(array)
    array[0] = 7
    assert snapshot(array) != before
    assert snapshot(closing_over([1])) != snapshot(closing_over([2])), "what a function closes over is part of it"


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, int, True),
        (True, int, True),
        (1, float, True),
        ("a", int, False),
        ([1, "a"], list[int], False),
        ([1], list[int], True),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ((1, 2, 3), tuple[int, ...], True),
        ({"a": 1}, dict[str, int], True),
        ({"a": "b"}, dict[str, int], False),
        (None, int | None, True),
        (None, int, False),
        (1, None, False),
        ("text", list[str], False),
    ],
)
def test_values_fit_their_types(value: object, hint: object, expected: bool) -> None:
    assert fits(value, hint) is expected


def test_poison_remembers_what_was_done_to_it() -> None:
    poison = Poison()
    with pytest.raises(Poisoned):
        len(poison)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(Poisoned):
        _ = poison.reward  # type: ignore[attr-defined]  # that is the point
    assert poison.touched == ["__len__", "reward"]


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (np.ones(2, np.float32), NDArray[np.float32], True),
        (np.ones(2), NDArray[np.float32], False),
        (np.ones(2, np.float32), NDArray[np.floating[Any]], True),
        ({"reward": 1.0}, Partial, True),
        ({"reward": 1.0}, Whole, False),
        ({"reward": 1.0, "length": 2}, Whole, True),
        ({"reward": 1.0, "length": "2"}, Whole, False),
        (Fragment(1.0), Fragment, True),
        (Fragment(None), Fragment, False),  # type: ignore[arg-type]  # the mistake
        (Roll([1]), Roll, False),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_what_is_inside_fits_its_type_too(value: object, hint: object, expected: bool) -> None:
    assert fits(value, hint) is expected
