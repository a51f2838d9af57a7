"""``simulate``: one run in the simulator, and the history of it, which oracles judge.

Oracles look at what happened, not at where it ended: every item knows the actor, the incarnation and the number that
it was made with, so what was lost, duplicated or out of order can be told from the history alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, NamedTuple, cast

from tflow.combinators import check
from tflow.combinators.runnable import Runnable
from tflow.errors import PlanError, TflowError
from tflow.laws import BALANCE, CONSERVATION, ORDER
from tflow.runtime.base import log
from tflow.runtime.executor import Run
from tflow.runtime.ledger import Ledger
from tflow.runtime.sim import CALL_FAULTS, NO_FAULTS, Faults, Moment, SimRuntime
from tflow.runtime.stats import RunStats
from tflow.testing import sequence
from tflow.types import Provenance, Source, T

EVENT_KINDS = (*CALL_FAULTS, "refuses", "answers", "starts", "is ended", "time passes")
LATEST: list[History[object]] = []
"""The last history of the test that runs: what a failing test shows."""


@dataclass(frozen=True)
class History(Generic[T]):
    """All that happened in one simulated run."""

    items: list[T]
    origins: list[Provenance]
    """Where each item came from."""
    ledgers: list[Ledger]
    """The ledger after each item, and at the end."""
    error: TflowError | None
    """What ended the run, if it did not end by itself."""
    complete: bool
    """The stream ended by itself: nobody stopped it, nothing was raised."""
    trace: list[Moment]
    stats: RunStats
    tape: list[int]
    """The choices that were made; as a tape, they give this run again."""
    faults: Faults
    seed: int
    sim: SimRuntime = field(repr=False)
    shown_after: list[int] = field(default_factory=list, repr=False)
    """How many moments of the trace had passed when each item was shown."""

    @property
    def script(self) -> str:
        """What happened, a line each."""
        return self.sim.script

    @property
    def diagram(self) -> str:
        """What happened, drawn as a sequence diagram in text."""
        return sequence.drawn(self.trace, self.items, self.shown_after)

    @property
    def mermaid(self) -> str:
        """The same diagram for mermaid."""
        return sequence.mermaid(self.trace, self.items, self.shown_after)

    # ------------------------------------------------------------------- oracles

    def lost(self) -> list[Source]:
        """Items that an actor answered with, and that were neither shown nor counted as dropped. For plans whose every item of an
        actor goes into exactly one item shown, and that were not stopped early."""
        made = Counter(source for moment in self.trace for source in moment.made)
        missing = list((made - Counter(self.shown())).elements())
        dropped = sum(self.ledgers[-1].items.dropped.values())
        return missing if len(missing) > dropped else []

    def duplicated(self) -> list[Source]:
        """Items of actors that were shown more than once. For plans in which an item of an actor becomes one item at most."""
        return [source for source, count in Counter(self.shown()).items() if count > 1]

    def out_of_order(self) -> list[Source]:
        """Items that were shown after a later one of the same actor."""
        last: dict[tuple[str, int], tuple[int, int]] = {}
        found = []
        for source in self.shown():
            place, number = (source.actors, source.shard), (source.incarnation, source.sequence)
            if number < last.get(place, number):
                found.append(source)
            last[place] = max(number, last.get(place, number))
        return found

    def unbalanced(self) -> list[Ledger]:
        """The ledgers that do not add up."""
        return [ledger for ledger in self.ledgers if BALANCE.wrong(ledger)]

    def weight_lag(self, policy: str = "default") -> int:
        """The most updates of the policy that were made between a call's issue and the use of an item of it."""
        measured = [operator.staleness[policy].worst for operator in self.stats.operators if policy in operator.staleness]
        return max(measured, default=0)

    def shown(self) -> Iterator[Source]:
        """The sources of all items, in order."""
        return (source for origin in self.origins for source in sorted(origin.sources))

    def happened(self, what: str) -> int:
        """How often a fault happened: a test of faults in which none happened proves nothing."""
        if what not in EVENT_KINDS:
            raise PlanError(f"happened: there is no {what!r}; there are {', '.join(EVENT_KINDS)}.")
        return sum(moment.what == what for moment in self.trace)

    def check(self) -> None:
        """Raise ``LawBroken`` if the run was unsound: items were lost, duplicated or reordered, or the ledger does not balance.

        For plans in which every item of an actor becomes one item shown, in order: no batches, filters, splits or shuffles.
        """
        for ledger in self.ledgers:
            BALANCE.check(ledger)
        CONSERVATION.check([*dict.fromkeys(self.shown()), *self.lost()], self.shown())
        ORDER.check(((source.actors, source.shard), source.incarnation << 32 | source.sequence) for source in self.shown())

    def __str__(self) -> str:
        ended = f"{type(self.error).__name__}: {self.error}" if self.error else "the end" if self.complete else "stopped"
        return f"tape={self.tape} faults={self.faults} seed={self.seed}\n{self.script}\n-> {len(self.items)} items, then {ended}"


def simulate(
    plan: Runnable[T],
    tape: Iterable[int] = (),
    faults: Faults = NO_FAULTS,
    *,
    seed: int = 0,
    most: int = 1000,
    steps: int = 20_000,
) -> History[T]:
    """Run a plan in the simulator, for at most ``most`` items. Errors of tflow end the run and are part of its history.

    A plan that does as many as ``steps`` steps (calls, and rounds of 64 polls) without showing an item is refused: it would go on
    for ever.

    >>> from tflow import par_from_range
    >>> from tflow.testing import Faults, simulate
    >>> history = simulate(par_from_range(4).gather_async(), [1], Faults(dies_after=1))
    >>> sorted(history.items), history.lost(), history.duplicated()
    ([0, 1, 2, 3], [], [])
    """
    check.instance("simulate", "plan", plan, Runnable, "a stream or a plan")
    check.instance("simulate", "tape", tape, Iterable, "whole numbers; faults are the next argument")
    check.instance("simulate", "faults", faults, Faults, "Faults(...)")
    check.integer("simulate", "most", most, least=0)
    check.integer("simulate", "steps", steps, least=1)
    sim = SimRuntime(tape, faults)
    sim.most_steps = steps
    return observe(plan, sim, faults, seed=seed, most=most)


class ShownSoFar(NamedTuple):
    """What a run has shown so far."""

    items: list[object]
    origins: list[Provenance]
    ledgers: list[Ledger]
    after: list[int]


def observe(
    plan: Runnable[T],
    sim: SimRuntime,
    faults: Faults,
    *,
    seed: int,
    most: int,
    started: Callable[[Run[T], ShownSoFar], object] = lambda run, shown: None,
) -> History[T]:
    """Run a plan in a simulator that was made for it, and return what happened; ``started`` is told what it may look at."""
    items: list[T] = []
    shown = ShownSoFar(cast("list[object]", items), [], [], [])
    error: TflowError | None = None
    with quiet(), sim, plan.run(runtime=sim, seed=seed) as run:
        started(run, shown)
        complete = False
        try:
            for item in islice(run, most):
                sim.idle_steps = 0
                items.append(item)
                shown.origins.append(run.provenance)
                shown.ledgers.append(run.ledger)
                shown.after.append(len(sim.trace))
            complete = len(items) < most
        except PlanError:
            raise  # a mistake in the plan or in these arguments, not something that happened
        except TflowError as failure:
            error = failure
        run.close()
        shown.ledgers.append(run.ledger)
    history = History(
        items,
        shown.origins,
        shown.ledgers,
        error,
        complete,
        sim.trace,
        run.stats(),
        without_zeros(sim.choices),
        faults,
        seed,
        sim,
        shown.after,
    )
    LATEST[:] = [history]
    return history


@contextmanager
def quiet() -> Iterator[None]:
    """Deaths are on purpose here: they are in the history, not in the log."""
    before, log.disabled = log.disabled, True  # setLevel clears the caches of all loggers, which is slow
    try:
        yield
    finally:
        log.disabled = before


def without_zeros(tape: list[int]) -> list[int]:
    """The tape without the zeros at its end, which are what an empty tape gives."""
    end = len(tape)
    while end and tape[end - 1] == 0:
        end -= 1
    return tape[:end]
