"""What a run looks like from outside: the statistics of its operators and its ledger."""

from __future__ import annotations

from tflow.combinators.actors import Actors
from tflow.runtime.driver import Driver
from tflow.runtime.gather import Gather
from tflow.runtime.ledger import Ledger
from tflow.runtime.stats import OperatorStats, Reading, RunStats
from tflow.types import W


def ledger_of(driver: Driver) -> Ledger:
    """Where every call and every item is."""
    buffered = sum(cell.buffered() for cell in driver.cells if isinstance(cell, Gather))
    return driver.counters.snapshot(in_flight=len(driver.mailbox.in_flight), buffered=buffered)


def stats_of(driver: Driver) -> RunStats:
    """Counts, busy time and queues of every operator so far."""
    readings: dict[int, list[Reading]] = {}
    positions, staleness = driver.positions, {}
    for cell in driver.cells:
        for node, reading in cell.readings():
            readings.setdefault(positions[node], []).append(reading)
        if isinstance(cell, Gather):
            staleness[positions[cell.node]] = cell.staleness
            for position, reading in cell.remote_readings():
                readings.setdefault(position, []).append(reading)
    for node, position in positions.items():
        if node.arranges:  # they run nothing: what enters them leaves them
            entered = sum(r.shown for up in node.inputs for r in readings.get(positions[up], ()))
            readings[position] = [Reading(entered, entered, 0, 0)]
    return RunStats(
        tuple(
            OperatorStats(
                position=position,
                operator=node.label,
                where=node.where,
                seen=sum(r.seen for r in readings.get(position, ())),
                shown=sum(r.shown for r in readings.get(position, ())),
                busy_s=sum(r.busy_ns for r in readings.get(position, ())) / 1e9,
                queued=sum(r.queued for r in readings.get(position, ())),
                staleness=dict(staleness.get(position, {})),
            )
            for node, position in positions.items()
        ),
        driver.env_steps,
        driver.waited_ns / 1e9,
    )


class RunProgress:
    """A run, as its operators may look at it."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def now(self) -> float:
        return self.driver.now()

    def seconds(self) -> float:
        return self.driver.now() - self.driver.began

    def is_over(self) -> bool:
        return self.driver.is_over

    def env_steps(self, actors: Actors[W], /) -> int:
        return self.driver.sampled.get(actors, (0, None))[0]

    def stops_at(self) -> int | None:
        return self.driver.stops_at

    def summary(self, actors: Actors[W], /) -> object:
        return self.driver.sampled.get(actors, (0, None))[1]

    def stats(self) -> RunStats:
        return stats_of(self.driver)

    def ledger(self) -> Ledger:
        return ledger_of(self.driver)
