"""What a cluster decides, written down, so that a run can be repeated in one process.

The driver and every actor are deterministic. Not determined on a cluster are the order in which answers arrive, how many items a
call with a time budget brings, who dies and when a restart happens, and what the clock says. A recording holds just that, a line
for each event in the order in which the driver saw them:

    n 12.25         the clock was read
    c 3 5:2 7!      these calls, by number, were seen answered: the second with two items, the third was lost
    o 8             the same, while somebody asked from outside the plan
    r workers 1     an actor was restarted
    h 40 9f86d081   after so many items the weights, or whatever the run was asked to hash, had this hash
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from tflow.errors import CheckpointError
from tflow.runtime.base import Call, Mailbox
from tflow.runtime.host import Reply, Request
from tflow.runtime.local import LocalRuntime
from tflow.types import TimeBudget

if TYPE_CHECKING:
    from tflow.runtime.driver import Driver
    from tflow.runtime.shards import LiveShard

log = logging.getLogger("tflow")
LOST = -1


class Arrival(NamedTuple):
    """A call whose answer the driver has seen."""

    number: int
    items: int
    """How many the answer brought, if that is not determined; ``LOST`` if the call was lost."""
    survived: bool = False
    """It was lost, and its actor was not."""

    def __str__(self) -> str:
        if self.items == LOST:
            return f"{self.number}{'?' if self.survived else '!'}"
        return f"{self.number}:{self.items}" if self.items else str(self.number)

    @staticmethod
    def of(call: Call) -> Arrival:
        if call.lost:
            return Arrival(call.number, LOST, call.actor_survived)
        request = call.args[0] if call.args else None
        counted = isinstance(request, Request) and isinstance(request.most, TimeBudget) and isinstance(call.reply, Reply)
        return Arrival(call.number, len(call.reply.items) if counted and isinstance(call.reply, Reply) else 0)

    @staticmethod
    def read(word: str) -> Arrival:
        if word[-1] in "!?":
            return Arrival(int(word[:-1]), LOST, word[-1] == "?")
        number, _, items = word.partition(":")
        return Arrival(int(number), int(items or 0))


class Recorder:
    """Writes down what happens."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file: TextIO = path.open("w", encoding="ascii")

    def write(self, *words: object) -> None:
        self.file.write(f"{' '.join(map(str, words))}\n")

    def reading(self, now: float) -> float:
        """The clock was read."""
        self.write("n", repr(now))
        return now

    def collected(self, calls: Sequence[Call], *, outside: bool) -> None:
        """The driver has seen these answers."""
        seen = [Arrival.of(call) for call in calls if call.number]
        if seen or not outside:
            self.write("o" if outside else "c", *seen)

    def restarted(self, shards: Sequence[LiveShard]) -> None:
        """These actors were restarted."""
        for shard in shards:
            self.write("r", shard.pool.name, shard.index)

    def hashed(self, items: int, digest: str) -> None:
        """What the run was asked to hash."""
        self.write("h", items, digest)
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class Differs(CheckpointError):
    """A run that is repeated does not do what the recorded one did."""


class ReplayRuntime(LocalRuntime):
    """Repeats a recorded run in this process: calls are answered in the order in which they were.

    When the recording is over, the runtime goes on as the local one.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            self.events = deque(line.split() for line in path.read_text(encoding="ascii").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"The recording {path} cannot be read: {error}.") from error
        self.read = 0
        self.calls: dict[int, Call] = {}
        """By number: those that were issued and not seen answered."""
        self.performed: set[Call] = set()

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
        while self.next_is("o"):
            self.answer(driver.mailbox, self.take("o"))
            driver.see_finished()

    def answer(self, mailbox: Mailbox, words: list[str]) -> None:
        """Let calls be answered, in this order."""
        early = {call.number: call for call in mailbox.finished}  # those that were lost before they left
        mailbox.finished.clear()
        for arrival in map(Arrival.read, words):
            call = self.calls.pop(arrival.number, None) or early.get(arrival.number)
            if call is None:
                raise Differs(f"The run differs from the recorded one at event {self.read}: there is no call {arrival.number}.")
            if arrival.items == LOST:
                if call in self.queue:
                    self.queue.remove(call)
                call.actor_survived, call.reply = arrival.survived, None
                call.finish(lost=call.lost or "it died in the recorded run")
            elif arrival.number in early:
                mailbox.finished.append(call)
            else:
                self.perform_up_to(call, arrival.items)
                call.finish()

    def perform_up_to(self, call: Call, items: int) -> None:
        """Run a call, after those that its actor was sent before it."""
        for earlier in [each for each in self.queue if each.shard is call.shard]:
            request = earlier.args[0] if earlier.args else None
            if earlier is call and items and isinstance(request, Request):
                earlier.args = (request._replace(most=items),)
            self.queue.remove(earlier)
            if earlier not in self.performed:
                self.performed.add(earlier)
                self.attempt(earlier)
            if earlier is call:
                break
        self.performed.discard(call)

    def restart_dead(self) -> None:
        if not self.events:
            super().restart_dead()
        while self.next_is("r"):
            name, index = self.take("r")
            for shard in self.dead:
                shard.restart_at = 0.0 if (shard.pool.name, shard.index) == (name, int(index)) else float("inf")
            super().restart_dead()
