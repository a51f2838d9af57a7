"""What may look at a run while it goes on: a recorder, a trace, the list of its deaths. All of them see the same events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tflow.runtime.base import Call
    from tflow.runtime.shards import LiveShard


class WorkSpan(NamedTuple):
    """What took how long, on the clock of ``time.perf_counter_ns`` of the process that did it."""

    what: int | str
    """An operator, by its position in the plan, or anything else by name."""
    began: int
    ended: int
    call: int = 0
    """The number of the call that this was."""


class RunObserver:
    """Sees what happens to the calls and actors of a run, in the order in which its driver sees it. ``turn`` is None inside the
    plan; while somebody asks from outside, it says when."""

    def issuing(self, call: Call) -> None:
        """A call is about to be sent."""

    def issued(self, call: Call) -> None:
        """It is sent, or waits for the restart of its actor."""

    def collected(self, calls: Sequence[Call], *, turn: int | None) -> None:
        """These calls are answered, or lost."""

    def died(self, shard: LiveShard, by: Call, *, turn: int) -> None:
        """An actor was found dead by a call."""

    def restarted(self, shards: Sequence[LiveShard], *, turn: int | None) -> None:
        """These actors were restarted, or given up."""

    def saved(self, *, turn: int, settled: bool) -> None:
        """The run is about to be saved; ``settled``: its actors have answered all calls."""

    def kept(self, *, turn: int) -> None:
        """The checkpoint was written."""

    def close(self) -> None:
        """The run is over."""


@dataclass(frozen=True)
class Death:
    """An actor that died."""

    actor: str
    seconds: float
    """When it was found dead, since the run began."""
    why: str
    back_after: float | None = None
    """Seconds until it was restarted; None if it was not."""


class DeathLog(RunObserver):
    """The deaths of a run, and which of the dead came back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.deaths: list[Death] = []

    def died(self, shard: LiveShard, by: Call, *, turn: int) -> None:
        self.deaths.append(Death(shard.place, self.clock(), shard.death_reason))

    def restarted(self, shards: Sequence[LiveShard], *, turn: int | None) -> None:
        for shard in shards:
            for place in reversed(range(len(self.deaths))):
                death = self.deaths[place]
                if death.actor == shard.place:
                    if shard.handle is not None and death.back_after is None:
                        self.deaths[place] = replace(death, back_after=self.clock() - death.seconds)
                    break
