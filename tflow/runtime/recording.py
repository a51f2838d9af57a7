"""What a cluster decides, written down, so that a run can be repeated in one process.

The driver and every actor are deterministic. Not determined on a cluster are the order in which answers arrive, how much a
call with a time budget does, who dies and when a restart happens, and what the clock says. A recording holds just that, a line
for each event in the order in which the driver saw them:

    n 12.25         the clock was read
    c 3 5:2 7!      these calls, by number, were seen answered: the second after two polls, the third was lost
    o 120 8         the same, while somebody asked from outside the plan, after 120 answers of its sink
    r workers 1     an actor was restarted; with a third word, as above
    d workers 1 120 an actor was found dead, as above, when it had none of these calls
    s 120 settled   the run was saved, as above, with the answers to all calls; or, in the process of its actors, as they were
    k 120           it was written: actors that die are restored from it
    h 40 9f86d081   after so many items the weights, or whatever the run was asked to hash, had this hash

The first line says of which plan it is, what it was recorded with, and which checkpoint it was resumed from, if it was. A
checkpoint is an event because envs that cannot be saved are made anew, and because actors that die are restored from it.
"""

from __future__ import annotations

import json
import logging
import os
import platform
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tflow.errors import CheckpointError
from tflow.runtime.base import Call, Mailbox
from tflow.runtime.host import EVERYTHING, Polls, Reply, Request
from tflow.runtime.local import LocalRuntime
from tflow.runtime.observer import RunObserver
from tflow.runtime.side_file import SideFile
from tflow.types import TimeBudget

if TYPE_CHECKING:
    from tflow.runtime.driver import Driver
    from tflow.runtime.shards import LivePool, LiveShard
    from tflow.state.values import Encoded

log = logging.getLogger("tflow")
LOST = -1
TURNS = {"o": 1, "r": 3, "d": 3, "s": 1, "k": 1}
"""Events that may happen while somebody asks from outside, and which of their words says when."""


class Arrival(NamedTuple):
    """A call whose answer the driver has seen."""

    number: int
    polls: int
    """How often the actor was asked for an item, where the call did not bring all that there was; ``LOST`` if it was lost."""
    survived: bool = False
    """It was lost, and its actor was not."""

    def __str__(self) -> str:
        if self.polls == LOST:
            return f"{self.number}{'?' if self.survived else '!'}"
        return f"{self.number}:{self.polls}" if self.polls else str(self.number)

    @staticmethod
    def of(call: Call) -> Arrival:
        if call.lost:
            return Arrival(call.number, LOST, call.actor_survived)
        request, reply = call.args[0] if call.args else None, call.reply
        limited = isinstance(request, Request) and request.most != EVERYTHING
        return Arrival(call.number, reply.polls if limited and isinstance(reply, Reply) else 0)

    @staticmethod
    def read(word: str) -> Arrival:
        if word[-1] in "!?":
            return Arrival(int(word[:-1]), LOST, word[-1] == "?")
        number, _, polls = word.partition(":")
        return Arrival(int(number), int(polls or 0))


def surroundings() -> dict[str, str | None]:
    """What numbers depend on beside the plan: versions, the processor, and what libraries choose their kernels by."""
    from tflow.state.folders import versions

    threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS")}
    return {**versions(), "python": platform.python_version(), "machine": platform.machine(), **threads}


class RunRecorder(RunObserver):
    """Writes down what happens."""

    def __init__(self, path: Path, plan: str, seed: int, resumes: str | None = None) -> None:
        self.file = SideFile(path, "The recording")
        self.name_of: Callable[[LivePool], str] = lambda pool: pool.name
        """What actors are called; the driver knows."""
        self.facts: dict[str, object] = {"plan": plan, "seed": seed, "resumes": resumes, **surroundings()}

    def write(self, *words: object) -> None:
        if self.file.file is None:
            self.file.write(f"{json.dumps(self.facts)}\n")
            self.file.flush()  # readers need this line
        self.file.write(f"{' '.join(map(str, words))}\n")

    def reading(self, now: float) -> float:
        """The clock was read."""
        self.write("n", repr(now))
        return now

    def collected(self, calls: Sequence[Call], *, turn: int | None) -> None:
        seen = [Arrival.of(call) for call in calls if call.number]
        self.write("c", *seen) if turn is None else self.write("o", turn, *seen)

    def restarted(self, shards: Sequence[LiveShard], *, turn: int | None) -> None:
        for shard in shards:
            if name := self.name_of(shard.pool):
                self.write("r", name, shard.index, *(() if turn is None else (turn,)))

    def died(self, shard: LiveShard, by: Call, *, turn: int) -> None:
        """An actor was found dead; if the call has a number, that it was lost says so."""
        if not by.number:
            self.write("d", self.name_of(shard.pool), shard.index, turn)

    def saved(self, *, turn: int, settled: bool) -> None:
        self.write("s", turn, "settled" if settled else "queued")
        self.file.flush()  # a run that is killed is resumed from here

    def kept(self, *, turn: int) -> None:
        self.write("k", turn)

    def hashed(self, items: int, digest: str) -> None:
        """What the run was asked to hash."""
        self.write("h", items, digest)

    def close(self) -> None:
        self.file.close()  # the clock of a run can be read when it is over


class Differs(CheckpointError):
    """A run that is repeated does not do what the recorded one did."""


class ReplayRuntime(LocalRuntime):
    """Repeats a recorded run in this process: calls are answered in the order in which they were.

    When the recording is over, the runtime goes on as the local one.

    Args:
        path: The recording.
        any_plan: Run another plan in this order, as far as it makes the same calls; hashes are not compared.
    """

    def __init__(self, path: Path, *, any_plan: bool = False) -> None:
        super().__init__()
        self.any_plan = any_plan
        self.name_of: Callable[[LivePool], str] = lambda pool: pool.name
        """What the recording calls actors; the driver knows."""
        try:
            first, *lines, _ = path.read_text(encoding="ascii").split("\n")  # a last line without an end was cut off
            self.facts: dict[str, object] = dict(json.loads(first))
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path} is no recording of a run: {error}.") from error
        self.events = deque(line.split() for line in lines)
        self.read = self.compared = 0
        """Events that were repeated, and hashes that were compared."""
        self.calls: dict[int, Call] = {}
        """By number: those that were issued and not seen answered."""
        self.performed: set[Call] = set()
        self.saved: Encoded | None = None
        """The latest checkpoint, if actors will be restored from it."""

    def check(self, plan: str, resumes: str | None) -> None:
        """Raise if the recording is of another plan, or began elsewhere; warn if it was made with other versions or on another
        kind of machine."""
        if self.facts.get("plan") != plan and not self.any_plan:
            raise Differs(f"The recording is of another plan: {self.facts.get('plan')}, and this one is {plan}.")
        if self.facts.get("resumes") != resumes:
            began = self.facts.get("resumes")
            said = "began at the start" if began is None else f"was resumed from the checkpoint {began}"
            raise Differs(f"The recorded run {said}: this one must do so, too (resume=).")
        others = {name: (self.facts.get(name), now) for name, now in surroundings().items() if self.facts.get(name) != now}
        for name, (then, now) in others.items():
            log.warning("Recorded with %s %s, repeated with %s: numbers may differ in their last digits.", name, then, now)

    @property
    def seconds(self) -> float | None:
        """The time limit of the recorded run."""
        limit = self.facts.get("seconds")
        return limit if isinstance(limit, (int, float)) else None

    @property
    def stops_at(self) -> int | None:
        """The env steps after which the recorded run was to stop."""
        steps = self.facts.get("stops_at")
        return steps if isinstance(steps, int) else None

    def next_is(self, kind: str) -> bool:
        return bool(self.events) and self.events[0][0] == kind

    def take(self, kind: str) -> list[str]:
        """The next event, which must be of this kind; nothing when the recording is over."""
        if not self.events:
            return []
        if not self.next_is(kind):
            expected = {"n": "reads the clock", "c": "waits for answers", "r": "restarts an actor", "o": "is asked from outside"}
            does, noted = expected.get(kind, kind), " ".join(self.events[0])
            raise Differs(
                f"The run differs from the recorded one at event {self.read + 1}: it {does}, and the recording has {noted!r}. It "
                "needs the same plan, seed and versions."
            )
        self.read += 1
        return self.events.popleft()[1:]

    def reading(self, now: float) -> float:
        """What the clock said."""
        found = self.take("n")
        return float(found[0]) if found else now

    # ------------------------------------------------------------------- calls

    def submit(self, call: Call) -> None:
        super().submit(call)
        if call.number:
            self.calls[call.number] = call

    def most_items(self, per_call: int | TimeBudget) -> int | TimeBudget:
        return per_call if self.events else super().most_items(per_call)

    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        if not self.events or any(call.method == "ask" for call in self.queue):
            super().wait(mailbox, timeout=timeout)
        else:
            self.answer(mailbox, self.take("c"))

    def outside(self, driver: Driver) -> None:
        """Between two items: what arrived while somebody asked from outside."""
        from tflow.runtime.snapshot import remember_in_memory

        now = str(driver.turns)
        while self.events and self.events[0][0] in TURNS and self.events[0][TURNS[self.events[0][0]] :][:1] == [now]:
            kind = self.events[0][0]
            words = self.take(kind)
            if kind == "r":
                self.restart_named(*words[:2])
            elif kind == "d":
                self.find_dead(*words[:2])
            elif kind == "s":
                self.save(driver, words[0], settled=words[1] == "settled")
            elif kind == "k":
                if self.saved is not None:
                    remember_in_memory(driver, self.saved)
            else:
                self.answer(driver.mailbox, words[1:])
                driver.see_finished()
                driver.has_waited()

    def save(self, driver: Driver, turn: str, *, settled: bool) -> None:
        """Do what saving did to the recorded run, and keep the states of actors that will be restored from it."""
        from tflow.runtime.snapshot import snapshot

        if settled:
            arrivals = {arrival.number: arrival for arrival in self.arrivals()}
            for call in [call for call in self.queue if call.mailbox is driver.mailbox]:
                arrival = arrivals.get(call.number)
                if arrival is None or arrival.polls != LOST:
                    self.perform_up_to(call, 0 if arrival is None else arrival.polls, answers=False)
        while self.next_is("r") and len(self.events[0]) == 4:  # the run has waited for these, too
            self.restart_named(*self.take("r")[:2])
        try:
            encoded = snapshot(driver)
        except CheckpointError as error:
            if any(event[:2] == ["k", turn] for event in self.events):
                raise Differs(f"The recorded run was saved before event {self.read}, and this one cannot be: {error}") from error
            return  # the recorded run could not be saved either, and went on
        restarted = {event[1] for event in self.events if event[0] == "r"}
        if any(pool.actors.restores and self.name_of(pool) in restarted for pool in driver.pools):
            self.saved = encoded.copied()

    def arrivals(self) -> Iterator[Arrival]:
        """All answers that are still to come."""
        for kind, *words in self.events:
            if kind in ("c", "o"):
                yield from map(Arrival.read, words if kind == "c" else words[1:])

    def find_dead(self, name: str, index: str) -> None:
        """An actor is dead."""
        for pool in self.pools.values():
            for shard in pool.shards:
                if (self.name_of(pool), shard.index) == (name, int(index)) and shard.handle is not None:
                    self.found_dead(shard, "it died in the recorded run")

    def answer(self, mailbox: Mailbox, words: list[str]) -> None:
        """Let calls be answered, in this order."""
        early = {call.number: call for call in mailbox.finished}  # those that were lost before they left
        mailbox.finished.clear()
        for arrival in map(Arrival.read, words):
            call = self.calls.pop(arrival.number, None) or early.get(arrival.number)
            if call is None:
                raise Differs(f"The run differs from the recorded one at event {self.read}: there is no call {arrival.number}.")
            if arrival.polls == LOST:
                if call in self.queue:
                    self.queue.remove(call)
                call.actor_survived, call.reply = arrival.survived, None
                call.finish(lost=call.lost or "it died in the recorded run")
            elif arrival.number in early:
                mailbox.finished.append(call)
            else:
                self.perform_up_to(call, arrival.polls)
                call.finish()

    def perform_up_to(self, call: Call, polls: int, *, answers: bool = True) -> None:
        """Run a call, after those that its actor was sent before it. Without ``answers``, it is answered later."""
        for earlier in [each for each in self.queue if each.shard is call.shard]:
            asked = earlier.args
            request = asked[0] if asked else None
            if earlier is call and polls and isinstance(request, Request):
                earlier.args = (request._replace(most=Polls(polls)),)
            self.queue.remove(earlier)
            if earlier not in self.performed:
                self.performed.add(earlier)
                self.attempt(earlier)
            earlier.args = asked  # as a checkpoint has it
            if earlier is call:
                break
        if answers:
            self.performed.discard(call)

    def restart_dead(self) -> None:
        if not self.events:
            super().restart_dead()
        while self.next_is("r") and len(self.events[0]) == 3:
            self.restart_named(*self.take("r"))

    def restart_named(self, name: str, index: str) -> None:
        """Restart one actor."""
        for shard in [shard for shard in self.dead if (self.name_of(shard.pool), shard.index) == (name, int(index))]:
            self.restart(shard)
