"""What the kit leaves behind, how far its schedules reach, and what it can be pointed at."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from statistics import median
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.world import samplers
from tests.unit.test_kit import names
from tflow import ComputeAdvantages, Live, LiveOp, PlanError, Stateless, from_range, par_from_range, testing
from tflow.laws import LawBroken
from tflow.testing import Faults, SimSchedule, check_laws, fault_profiles, rollouts, schedules, simulate
from tflow.testing.schedules import searching
from tflow.testing.values import close


class End(Enum):
    TERMINATED = 253


@dataclass
class Ending:
    end: End
    itself: object = None


class Ends(Stateless[Ending, int]):
    def apply(self, item: Ending, /) -> int:
        return int(item.end.value)


def cyclic(end: End) -> Ending:
    item = Ending(end)
    item.itself = [item]
    return item


def test_checking_leaves_members_of_enums_alone_and_bears_items_that_contain_themselves() -> None:
    tests = check_laws(Ends(), items=st.builds(cyclic, st.just(End.TERMINATED)))
    for name in names(tests):
        vars(tests)[f"test_{name}"](object())
    assert End.TERMINATED.value == 253


def test_the_names_of_the_kit_are_what_they_say() -> None:
    assert not [name for name in testing.__all__ if isinstance(getattr(testing, name), ModuleType)]


def test_tapes_are_as_long_as_they_may_be_and_faults_strike_late_too() -> None:
    lengths: list[int] = []
    strikes: list[int] = []

    @searching(200)
    @given(schedule=schedules(fault_profiles(["dies_after"])))
    def look(schedule: SimSchedule) -> None:
        lengths.append(len(schedule.tape))
        history = simulate(par_from_range(40).gather_async(), *schedule)
        calls = [moment.what for moment in history.trace if moment.call]
        strikes.extend(index for index, what in enumerate(calls) if what == "dies_after")

    look()
    assert median(lengths) > 15
    assert max(lengths) > 50
    assert len(strikes) > 30
    assert sum(strike > 6 for strike in strikes) > len(strikes) / 10


def test_a_restarted_shard_comes_back_while_others_go_on() -> None:
    back = 0
    for number in range(40):
        tape = random.Random(number).choices(range(256), k=60)
        plan = par_from_range(9, shards=3, repeat=True).gather_async().take(40)
        back += simulate(plan, tape, Faults(dies_after=1)).happened("starts")
    assert back > 20


@pytest.mark.parametrize("parallel", [False, True])
def test_a_plan_that_shows_nothing_is_not_run_for_ever(parallel: bool) -> None:
    source = par_from_range(5, repeat=True).gather_async() if parallel else from_range(5, repeat=True)
    with pytest.raises(PlanError, match="has shown nothing for 300 steps"):
        simulate(source.filter(lambda x: x > 5), steps=300)


SCRIPT = """
from tflow import par_from_range
from tflow.testing import simulate
seen = []
def note(x):
    seen.append(x)
    return x
simulate(par_from_range(4).par_map(note).gather_async())
print(sorted(seen))
"""


def test_a_script_shares_its_globals_with_its_plans_as_a_module_does() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[0, 1, 2, 3]", done.stderr


class Raises(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        if item > 3:
            raise ValueError("too large")
        return item


def test_an_operator_that_raises_says_so_under_every_law() -> None:
    tests = check_laws(Raises(), items=st.integers(0, 9))
    for name in names(tests) - {"bounded_memory"}:
        with pytest.raises(Exception, match="too large"):
            vars(tests)[f"test_{name}"](object())


class Doubles32(Stateless[int, "np.float32"]):
    def apply(self, item: int, /) -> np.float32:
        return np.float32(item * 0.2)


def fifths(items: list[int]) -> list[object]:
    return [item * 0.2 for item in items]


def test_like_allows_for_rounding_and_for_scalars_of_numpy() -> None:

    integers = st.integers(-9, 9)
    check_laws(Doubles32(), items=integers, like=fifths)().test_equivalence()
    with pytest.raises(LawBroken, match="equivalence"):
        check_laws(Doubles32(), items=integers, like=fifths, tolerance=1e-12)().test_equivalence()
    assert close([1, np.float64(2), {"a": np.array([1.0])}], [1.0, 2, {"a": [1.0 + 1e-9]}], 1e-6)
    assert not close([1, 2], [1, 3], 1e-6)


def double(item: int) -> int:
    return 2 * item


def test_functions_and_what_adds_columns_are_checked_too() -> None:
    for tests in (
        check_laws(double, items=st.integers(), like=lambda items: [2 * item for item in items]),
        check_laws(ComputeAdvantages(), items=rollouts(max_pieces=3)),
    ):
        for name in names(tests):
            vars(tests)[f"test_{name}"](object())


def test_a_broken_law_says_which_one_comes_first() -> None:
    class Counts(Stateless[list[int], int]):
        seen: list[int]

        def __init__(self) -> None:
            self.seen = []

        def apply(self, item: list[int], /) -> int:
            item.append(random.randrange(9))
            self.seen.append(item[-1])
            return sum(self.seen)

    with pytest.raises(LawBroken, match="resumption") as raised:
        check_laws(Counts(), items=st.lists(st.integers(), max_size=2))().test_resumption()
    assert "break the law 'purity', which comes first" in raised.value.__notes__[0]


def test_items_of_live_operators_come_from_the_actors_that_they_name() -> None:
    class Where(LiveOp[int, tuple[int, ...]]):
        def __init__(self) -> None:
            self.actors = samplers(3)

        def apply(self, live: Live, item: int, /) -> tuple[int, ...]:
            return live.shards(self.actors)

    tests = check_laws(Where(), items=st.just(0), like=lambda items: [(number % 3,) for number, _ in enumerate(items)])
    tests().test_equivalence()
