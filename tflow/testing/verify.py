"""``verify``: run a small plan under *all* schedules of its first events, and under all placements of a few faults.

Schedules are tried from the smallest up: first the boring one, then all that depart from it once, then twice, and so on. So the
first that fails is the smallest there is. A run that comes to a state in which an earlier one has been (``run_state.py``) is not
followed any further: whatever can happen from there on is tried from the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from time import monotonic
from typing import Generic, cast

from tflow.combinators import check as argument
from tflow.errors import PlanError
from tflow.runtime.base import Call, Mailbox
from tflow.runtime.executor import Run
from tflow.runtime.sim import NO_FAULTS, Faults, SimRuntime
from tflow.testing.history import History, ShownSoFar, observe, simulate
from tflow.testing.run_state import RunState
from tflow.testing.schedules import Check, Counterexample, MakePlan, counterexample, judge
from tflow.testing.swarm import retold
from tflow.types import T, U

END = -1
"""Where a schedule leads that is over."""


class Refuted(AssertionError):
    """A check fails under a schedule: the smallest one, as ``counterexample``."""

    def __init__(self, counterexample: Counterexample) -> None:
        super().__init__(f"{counterexample}\n\n{counterexample.diagram}")
        self.counterexample = counterexample


class NotAllTried(AssertionError):
    """There are more schedules than ``verify`` was allowed to run. None of those that were run has failed."""


@dataclass(frozen=True)
class Verified:
    """A check holds under all schedules of a plan."""

    schedules: int
    """How many there are."""
    runs: int
    """How many were run to their end; every other one is equivalent to one of these."""
    merged: int
    """How many runs were cut short because an earlier one had been in the same state."""
    events: int
    """The bound on events: calls that are answered, or that fail."""
    longest: int
    """The most events that a run has had."""
    exhausted: bool
    """No run has a choice after so many events: there are no other schedules at all."""
    faults: Faults = NO_FAULTS
    """What may go wrong."""

    def __str__(self) -> str:
        many = f"all {self.schedules:,} schedules" if self.schedules > 1 else "the only schedule"
        bound = "" if self.exhausted else f" of up to {self.events} events"
        faults = "" if self.faults == NO_FAULTS else f" under {self.faults} or less"
        holds = "hold" if self.schedules > 1 else "holds"
        ends = f"no run has more than {self.longest} events" if self.exhausted else "longer runs go on oldest first"
        return (
            f"{many}{bound}{faults} {holds} ({self.runs:,} were run, {self.schedules - self.runs:,} pruned as equivalent; {ends})"
        )


def verify(
    plan: MakePlan[U],
    check: Check[U],
    *,
    events: int = 12,
    faults: Faults = NO_FAULTS,
    limit: int = 20_000,
    seconds: float = 600.0,
    reduce: bool = True,
    seed: int = 0,
    most: int = 100,
    save: str | Path | None = None,
) -> Verified:
    """Run a plan under all schedules of its first ``events`` events, and show that ``check(history)`` never raises.

    An event is a call to an actor that is answered or fails. What may go wrong is said by ``faults``, as often as it says or less
    often, anywhere. A run with more events goes on oldest first and without faults; the number of events of an exhausted plan is
    that of its longest run. For plans that are too large there is ``explore``.

    Two schedules are equivalent, and only one of them is run, if the check cannot tell them apart: calls to different actors
    that do not meet may change places. This trusts that actors and operators are deterministic, and that what operators of the
    driver remember is in their state.

    Args:
        plan: Makes the plan, anew for every schedule.
        check: Looks at the history of a run, and raises or returns False if it is wrong.
        events: How many events of a run are enumerated.
        faults: What may go wrong, and how often at most.
        limit: The most runs. If there are more schedules, ``NotAllTried`` is raised.
        seconds: The longest that it may take; likewise.
        reduce: False runs every schedule, also those that are equivalent to others.
        seed: The seed of the runs.
        most: The most items of a run, for plans that do not end by themselves.
        save: Where to write a counterexample, as a regression test.

    Raises:
        Refuted: With the smallest counterexample, its script and a drawing of it.

    >>> from tflow import par_from_range
    >>> from tflow.testing import verify
    >>> def plan():
    ...     return par_from_range(4).gather_async()
    >>> def complete(history):
    ...     assert sorted(history.items) == [0, 1, 2, 3]
    >>> print(verify(plan, complete))
    all 136 schedules hold (48 were run, 88 pruned as equivalent; no run has more than 6 events)
    """
    argument.function("verify", plan)
    argument.function("verify", check)
    argument.integer("verify", "events", events, least=0)
    argument.integer("verify", "limit", limit, least=1)
    argument.positive("verify", "seconds", seconds)
    argument.integer("verify", "most", most, least=0)
    argument.instance("verify", "faults", faults, Faults, "Faults(...): what may go wrong, and how often at most")
    looked_at: set[str] = set()
    while True:
        known = frozenset(looked_at)
        search = Search(plan, check, events, faults, limit, seconds, reduce, seed, most, known)
        found = search.run(looked_at)
        if isinstance(found, list):
            break
        if looked_at == known:
            return found
    history = simulate(plan(), found, faults, seed=seed, most=most)
    history = simulate(plan(), *retold(plan(), history, most=most), seed=seed, most=most)
    try:
        judge(check, history)
    except Exception as error:
        example = counterexample(plan, check, history, error, most=most, examples=search.tried)
        if save is not None:
            example.save(save)
        raise Refuted(example) from error
    raise PlanError(REMEMBERS)


REMEMBERS = (
    "verify: the plan does one thing under a schedule at one time and another thing at another. It, an operator or the check "
    "remembers something between runs."
)


@dataclass
class Search(Generic[U]):
    """One enumeration, for a check that looks at certain parts of a history."""

    plan: MakePlan[U]
    check: Check[U]
    events: int
    faults: Faults
    limit: int
    seconds: float
    reduce: bool
    seed: int
    most: int
    known: frozenset[str]
    """What the check is known to look at."""
    tried: int = 0

    def run(self, looked_at: set[str]) -> Verified | list[int]:
        """Try everything; a tape is one under which the check fails.

        What the check looks at is added to ``looked_at``. If that is more than was known, the search is given up: schedules may
        have been taken for equivalent that are not.
        """
        atlas, until = Atlas(), monotonic() + self.seconds
        waiting: list[tuple[int, int, list[int], int, int]] = [(0, 0, [], END, 0)]
        """Departures from the boring schedule, length, tape, the place of the last departure and which way it goes there."""
        runs = longest = cut = 0
        while waiting and looked_at <= self.known:
            if self.tried >= self.limit or monotonic() > until:
                raise NotAllTried(
                    f"stopped after {self.tried:,} schedules; not all were tried. None of these failed. Ask for fewer events=, "
                    "actors or faults, or raise limit= and seconds=; explore() samples what is too large."
                )
            self.tried += 1
            departures, _, tape, origin, way = heappop(waiting)
            sim = GuidedSim(tape, self.faults, self.events, atlas)
            end = END
            try:
                history = self.observed(sim)
            except Merged as merged:
                end = merged.place
            else:
                if len(sim.choices) < len(tape):
                    raise PlanError(REMEMBERS)
                runs, longest, cut = runs + 1, max(longest, sim.moved), cut + sim.was_cut
                try:
                    judge(self.check, watched(history, looked_at))
                except Exception:
                    return sim.choices
            atlas.link(origin, way, [place for _, place, _ in sim.departures], end)
            for made, place, ways in sim.departures:
                for other in range(1, ways):
                    longer = [*tape, *[0] * (made - len(tape)), other]
                    heappush(waiting, (departures + 1, len(longer), longer, place, other))
        return Verified(atlas.schedules(), runs, self.tried - runs, self.events, longest, not cut, self.faults)

    def observed(self, sim: GuidedSim) -> History[U]:
        """One run, along the tape of a simulator and then the boring way."""

        def started(run: Run[U], shown: ShownSoFar) -> None:
            if self.reduce:
                sim.state = RunState(sim, run._driver, shown, self.known)

        return observe(self.plan(), sim, self.faults, seed=self.seed, most=self.most, started=started)


class Merged(BaseException):
    """An earlier run has been here. Not an ``Exception``: no operator is to catch it."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


class Atlas:
    """The places where there was a choice, by number, and where each choice leads to from there."""

    def __init__(self) -> None:
        self.known: dict[bytes, int] = {}
        """The places by what the run had come to."""
        self.ways: list[list[int]] = []

    def place(self, state: bytes | None, ways: int) -> int:
        """A new place, from which so many ways lead on."""
        self.ways.append([END] * ways)
        if state is not None:
            self.known[state] = len(self.ways) - 1
        return len(self.ways) - 1

    def link(self, origin: int, way: int, places: list[int], end: int) -> None:
        """From a place one way was taken, then the first way at all these places, to some end."""
        for place in [*places, end]:
            if origin != END:
                self.ways[origin][way] = place
            origin, way = place, 0

    def schedules(self) -> int:
        """How many ways lead from the first place to an end."""
        counted = {END: 1}
        waiting = [0 if self.ways else END]
        while waiting:
            missing = [] if waiting[-1] in counted else [way for way in self.ways[waiting[-1]] if way not in counted]
            if missing:
                waiting.extend(missing)
            else:
                place = waiting.pop()
                counted[place] = counted.get(place) or sum(counted[way] for way in self.ways[place])
        return counted[0 if self.ways else END]


class GuidedSim(SimRuntime):
    """A simulator that follows a tape, then takes the boring choices, and notes where others were possible."""

    def __init__(self, tape: list[int], faults: Faults, events: int, atlas: Atlas) -> None:
        super().__init__(tape, faults)
        self.told = tape
        self.events = events
        self.atlas = atlas
        self.moved = 0
        """How many events there were."""
        self.was_cut = False
        """There were choices after the last of the events that are enumerated."""
        self.departures: list[tuple[int, int, int]] = []
        """Where other choices were possible after the tape: how many choices were made before, the place, how many ways."""
        self.state: RunState | None = None
        """None: no two states are taken for equal."""
        self.waits_for: Mailbox | None = None
        self.between_moves = False
        """The next choice is what happens next, not how it ends: there is nothing half done."""

    def choose(self, count: int) -> int:
        between_moves, self.between_moves = self.between_moves, False
        made = len(self.choices)
        if count == 1:
            return 0
        if made < len(self.told):
            if self.told[made] >= count:
                raise PlanError(REMEMBERS)
        elif self.moved < self.events:
            state = self.state.digest(self.waits_for) if between_moves and self.state is not None else None
            if state is not None and state in self.atlas.known:
                raise Merged(self.atlas.known[state])
            self.departures.append((made, self.atlas.place(state, count), count))
        else:
            self.was_cut = True
        return super().choose(count)

    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        outer = self.waits_for
        self.waits_for = None if timeout == 0 else mailbox  # a look in the middle of a poll: cells are half-way
        try:
            super().wait(mailbox, timeout=timeout)
        finally:
            self.waits_for = outer

    def heads(self) -> list[Call]:
        self.between_moves = self.waits_for is not None
        return super().heads()

    def move(self, call: Call) -> None:
        self.between_moves = False
        super().move(call)

    def outcome(self, call: Call) -> str:
        outcome = super().outcome(call)
        self.moved += 1  # now: how the last of the events ends is a choice, too
        if self.state is not None:
            self.state.ran(call, outcome)
        return outcome

    def submit(self, call: Call) -> None:
        if self.state is not None:
            self.state.submitted(call)
        super().submit(call)


LOOKS: dict[str, str] = {
    **dict.fromkeys(("ledgers", "unbalanced", "check"), "ledgers"),
    **dict.fromkeys(("trace", "script", "tape", "sim", "shown_after", "diagram", "mermaid"), "trace"),
}
"""What of a history tells schedules apart that show the same items."""


class WatchedHistory(History[T]):
    """A history that notes what a check looks at: schedules that differ in nothing else are equivalent for it."""

    def __getattribute__(self, name: str) -> object:
        own = object.__getattribute__(self, "__dict__")
        if name in LOOKS:
            own["looked_at"].add(LOOKS[name])
        return object.__getattribute__(self, name) if name.startswith("__") else getattr(own["plain"], name)


def watched(history: History[T], looked_at: set[str]) -> History[T]:
    """The same history; what is looked at is noted."""
    made = cast("History[T]", object.__new__(WatchedHistory))
    object.__getattribute__(made, "__dict__").update(plain=history, looked_at=looked_at)
    return made
