"""Evidence, law by law: each function makes a test that puts a combinator to work and quotes the law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from tflow.combinators.create import from_actors
from tflow.combinators.runnable import Described
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.laws import (
    BALANCE,
    BOUNDEDNESS,
    COMPLETENESS,
    CONSERVATION,
    FAIRNESS,
    FRESHNESS,
    ISOLATION,
    LAZINESS,
    NO_EFFECTS,
    NO_STARVATION,
    ORDER,
    SURVIVAL,
)
from tflow.runtime.sim import NO_FAULTS, SimRuntime
from tflow.testing.history import History, simulate
from tflow.testing.sources import Announce, Item, Maker, Subject, everything, makers, numbered
from tflow.testing.strategies import SimSchedule, fault_profiles, schedules

Test = Callable[..., None]


def conserves(subject: Subject) -> Test:
    @settings(deadline=None)
    @given(lengths=subject.lengths(), schedule=schedules())
    def test(self: object, lengths: list[int], schedule: SimSchedule) -> None:
        history = simulate(subject.finite(lengths), *schedule)
        dropped = sum(history.ledgers[-1].items.dropped.values())
        CONSERVATION.check(everything(lengths), [item[:2] for item in items_of(history)], dropped)

    return test


def keeps_order(subject: Subject) -> Test:
    @settings(deadline=None)
    @given(lengths=subject.lengths(), schedule=schedules())
    def test(self: object, lengths: list[int], schedule: SimSchedule) -> None:
        ORDER.check(item[:2] for item in items_of(simulate(subject.finite(lengths), *schedule)))

    return test


def completes(subject: Subject) -> Test:
    """Each branch gets lists, looks at them, and then spoils them: that must not reach the others."""

    @settings(deadline=None)
    @given(length=st.integers(0, 8), schedule=schedules())
    def test(self: object, length: int, schedule: SimSchedule) -> None:
        items = [Item(0, number) for number in range(length)]
        branches: Sequence[Iter[list[Item]]] = subject.build(numbered(0, length).map(lambda item: [item]))
        seen: list[list[Item]] = [[] for _ in branches]
        looked = [branch.map(partial(look, seen[index])) for index, branch in enumerate(branches)]
        simulate(Union(*looked), *schedule)
        COMPLETENESS.check(items, seen)

    return test


def look(seen: list[Item], item: list[Item]) -> None:
    seen.extend(item)
    item.clear()


def is_fair(subject: Subject) -> Test:
    @settings(deadline=None)
    @given(turns=st.integers(0, 60))
    def test(self: object, turns: int) -> None:
        endless = subject.over(*(numbered(source, None) for source in range(subject.inputs)))
        FAIRNESS.check([item.source for item in endless.take(turns).run()], subject.weights or [1.0] * subject.inputs)

    return test


def has_no_starvation(subject: Subject) -> Test:
    @settings(deadline=None)
    @given(turns=st.integers(0, 60))
    def test(self: object, turns: int) -> None:
        endless = subject.over(*(numbered(source, None) for source in range(subject.inputs)))
        NO_STARVATION.check([item.source for item in endless.take(turns).run()], subject.inputs)

    return test


def is_lazy(subject: Subject) -> Test:
    @settings(deadline=None)
    @given(num=st.integers(1, 3), wanted=st.integers(0, 8), schedule=schedules())
    def test(self: object, num: int, wanted: int, schedule: SimSchedule) -> None:
        with SimRuntime(schedule.tape) as sim:
            if subject.parallel:
                stream = subject.over(from_actors(makers(num), Maker.make)).take(wanted)
                with stream.run(runtime=sim) as run:
                    before = run.ledger.calls.issued
                    enough(list(run), wanted)
                LAZINESS.check(before, run.ledger.calls.issued, wanted + num * subject.in_flight - 1 if wanted else 0)
            else:
                pulled: list[str] = []
                stream = subject.over(*(numbered(source, None, pulled) for source in range(subject.inputs))).take(wanted)
                run = stream.run(runtime=sim)
                before = len(pulled)
                enough(list(run), wanted)
                LAZINESS.check(before, len(pulled), wanted + subject.bound if wanted else 0)

    return test


def is_bounded(subject: Subject) -> Test:
    @settings(deadline=None)
    @given(num=st.integers(1, 3), wanted=st.integers(1, 12), schedule=schedules())
    def test(self: object, num: int, wanted: int, schedule: SimSchedule) -> None:
        with SimRuntime(schedule.tape) as sim:
            if subject.parallel:
                run = subject.over(from_actors(makers(num), Maker.make)).take(wanted).run(runtime=sim)
                under_way = [run.ledger.calls.in_flight + run.ledger.items.buffered for _ in run]
                BOUNDEDNESS.check(under_way, num * subject.bound)
            else:
                pulled: list[str] = []
                streams = [numbered(source, None, pulled) for source in range(subject.inputs)]
                run = subject.over(*streams).take(wanted).run(runtime=sim)
                held = [len(pulled) - shown for shown, _ in enumerate(run, 1)]
                BOUNDEDNESS.check(held, subject.bound)

    return test


def is_isolated(subject: Subject) -> Test:
    """Two runs in one session, over the same actors, that take turns."""

    @settings(deadline=None)
    @given(lengths=subject.lengths(), turns=st.lists(st.booleans(), max_size=20), schedule=schedules())
    def test(self: object, lengths: list[int], turns: list[bool], schedule: SimSchedule) -> None:
        plan = marked = subject.finite(lengths)
        if subject.parallel:  # items of an actor go to one run each; what must not go to the other is the operator
            actors = makers(len(lengths), lengths)
            plan = subject.over(from_actors(actors, Maker.make))
            marked = subject.over(from_actors(actors, Maker.make).par_map(mark))
        together: tuple[list[Item], list[Item]] = ([], [])
        with SimRuntime(schedule.tape) as sim, plan.run(runtime=sim) as one, marked.run(runtime=sim) as two:
            for turn in [*turns, False, True]:
                found = next((one, two)[turn], None)
                together[turn].extend([] if found is None else [found])
            together[0].extend(one)
            together[1].extend(two)
        whole = Counter(item[:2] for item in plan.run())
        if subject.parallel:
            ISOLATION.check({item.version for item in together[0]} - {0}, set())
            ISOLATION.check({item.version for item in together[1]} - {MARK}, set())
            ISOLATION.check(Counter(item[:2] for item in [*together[0], *together[1]]), whole)
        else:
            for seen in together:
                ISOLATION.check(Counter(item[:2] for item in seen), whole)

    return test


MARK = 99


def mark(item: Item) -> Item:
    return item._replace(version=MARK)


def is_fresh(subject: Subject) -> Test:
    """Also if actors die: the next incarnation starts with the latest that was sent."""

    @settings(deadline=None)
    @given(num=st.integers(1, 3), schedule=schedules(fault_profiles(DEATHS, most=2)))
    def test(self: object, num: int, schedule: SimSchedule) -> None:
        actors = makers(num)
        stream = subject.over(from_actors(actors, Maker.make)).for_each(Announce(actors)).take(20)
        handled: dict[int, list[int]] = {source: [0] * subject.in_flight for source in range(num)}
        seen = []
        for updates, item in enumerate(simulate(stream, *schedule).items, 1):
            seen.append((handled[item.source][-subject.in_flight], item.version))
            handled[item.source].append(updates)
        FRESHNESS.check(seen)

    return test


DEATHS = ("dies_before", "dies_after", "refuses")


def survives(subject: Subject) -> Test:
    @settings(deadline=None)
    @given(lengths=subject.lengths(), schedule=schedules(fault_profiles(DEATHS, most=2)))
    def test(self: object, lengths: list[int], schedule: SimSchedule) -> None:
        """Shards that nothing happens to show all of theirs, or the run raises."""
        history = simulate(subject.finite(lengths), *schedule)
        struck = {moment.place for moment in history.trace if moment.what.startswith("dies")}
        well = {source: list(range(length)) for source, length in enumerate(lengths) if f"makers[{source}]" not in struck}
        shown = {source: [item.number for item in history.items if item.source == source] for source in well}
        if history.error is None:
            SURVIVAL.check(shown, well)
        if all(len(origin.sources) < 2 for origin in history.origins):  # rounds and batches come from several
            history.check()

    return test


def balances(subject: Subject) -> Test:
    @settings(deadline=None)
    @given(lengths=subject.lengths(), schedule=schedules(fault_profiles(("dies_before", "dies_after", "raises", "slow"))))
    def test(self: object, lengths: list[int], schedule: SimSchedule) -> None:
        faults = schedule.faults if subject.parallel else NO_FAULTS
        for ledger in simulate(subject.finite(lengths), schedule.tape, faults).ledgers:
            BALANCE.check(ledger)

    return test


def enough(shown: list[Item], wanted: int) -> None:
    assert len(shown) == wanted, f"it shows {len(shown)} items and then no more, although its input goes on"


def items_of(history: History[Item]) -> list[Item]:
    for item in history.items:
        assert isinstance(item, Item), f"this law is about combinators that pass on their items as they are; it shows {item!r}"
    return history.items


def has_no_effects(subject: Subject) -> Test:
    def test(self: object) -> None:
        happened: list[str] = []
        if subject.parallel:
            made = subject.build(from_actors(makers(2, happened=happened), Maker.make))
        else:
            made = subject.build(*(numbered(source, 3, happened) for source in range(subject.inputs)))
        for stream in made if isinstance(made, (tuple, list)) else [made]:
            assert isinstance(stream, Described)
            str(stream)
        NO_EFFECTS.check(happened)

    return test


EVIDENCE: dict[str, Callable[[Subject], Test]] = {
    CONSERVATION.name: conserves,
    ORDER.name: keeps_order,
    COMPLETENESS.name: completes,
    FAIRNESS.name: is_fair,
    NO_STARVATION.name: has_no_starvation,
    LAZINESS.name: is_lazy,
    BOUNDEDNESS.name: is_bounded,
    ISOLATION.name: is_isolated,
    FRESHNESS.name: is_fresh,
    SURVIVAL.name: survives,
    BALANCE.name: balances,
    NO_EFFECTS.name: has_no_effects,
}
"""How the kit gathers evidence for each law that a combinator can claim."""
