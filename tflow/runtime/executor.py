"""A run: one driver loop that polls the sink, and waits once over everything in flight when it is not ready."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, Self, cast

from tflow.combinators import check, graph, nodes
from tflow.combinators.actors import Actor, Actors, Resident
from tflow.combinators.runnable import Runnable
from tflow.errors import CheckpointError, Deadlock, PlanError, RunClosed
from tflow.runtime import feed
from tflow.runtime.answers import DONE, SKIP, Answer, Blocked
from tflow.runtime.base import Call, Runtime
from tflow.runtime.build import CELLS, Maker, build
from tflow.runtime.cell import Cell, attempt_all
from tflow.runtime.driver import Driver
from tflow.runtime.frames import fold
from tflow.runtime.gather import Gather
from tflow.runtime.host import Reply
from tflow.runtime.ledger import Ledger
from tflow.runtime.local import LocalRuntime
from tflow.runtime.messages import LiveCell
from tflow.runtime.observer import Death, WorkSpan
from tflow.runtime.recording import Differs, ReplayRuntime, RunRecorder
from tflow.runtime.report import ledger_of, stats_of
from tflow.runtime.stats import RunStats
from tflow.runtime.trace import RunTrace
from tflow.types import NOWHERE, Provenance, T, U, W

if TYPE_CHECKING:
    from tflow.runtime.snapshot import SavedRun
    from tflow.state.folders import Resumable
    from tflow.state.values import Encoded

DRIVER_CELLS: dict[type[nodes.Node], Maker] = {
    **CELLS,
    nodes.ForEach: LiveCell,
    nodes.GatherSync: feed.rounds,
    nodes.GatherWhole: feed.whole_rounds,
    nodes.GatherTogether: feed.TogetherRounds,
    nodes.GatherAsync: feed.stream,
    nodes.CallActor: feed.FedRounds,
    nodes.HandOff: feed.FedStream,
}
"""What runs tflow's own nodes on the driver; gathers and messages to actors exist only there."""
STALL_S = 60.0
"""A plan that consumes items for so long without showing one is worth a warning."""


def saved_run(resume: Resumable, fingerprint: str) -> SavedRun:
    """A checkpoint as a run of the plan with this fingerprint can go on from."""
    from tflow.runtime.snapshot import SavedRun
    from tflow.state.folders import content_of
    from tflow.state.values import Encoded

    folder = None if isinstance(resume, Encoded) else Path(resume).resolve()
    return SavedRun(content_of(resume, fingerprint), folder)


class Run(Generic[T]):
    """One execution of a plan: an iterator and a context manager. Nothing happens before the first item is asked for.

    It ends when the stream ends, when it is closed, or when something raises; then everything is torn down.
    """

    cannot_travel: ClassVar[str] = "a run"

    def __init__(
        self,
        plan: Runnable[T],
        *,
        runtime: Runtime | None,
        seed: int,
        fuse: bool,
        resume: Resumable | None = None,
        record: str | os.PathLike[str] | None = None,
        trace: str | os.PathLike[str] | None = None,
    ) -> None:
        self._closed = True  # until everything below has worked
        saved = None if resume is None else saved_run(resume, plan.fingerprint)
        check.integer("run", "seed", seed, least=0)
        if runtime is not None:
            check.instance("run", "runtime", runtime, Runtime, "a runtime, such as LocalRuntime()")
            if runtime.closed:
                raise RunClosed(f"This {type(runtime).__name__} is closed; open a new one.")
        plan.validate()
        self.plan = plan
        self._own_session = runtime is None
        self._runtime = runtime if runtime is not None else LocalRuntime()
        if saved is not None:
            seed, fuse = saved.seed, saved.fuse
            if self._runtime.session_seed is None:
                self._runtime.session_seed = saved.session_seed
        self._driver = Driver(plan.node, self._runtime, seed=seed, fuse=fuse)
        self._driver.resumed = saved
        if record is not None:
            self._driver.record(RunRecorder(Path(record), plan.fingerprint, seed, None if saved is None else saved.name))
        if trace is not None:
            self._driver.observers.append(RunTrace(Path(trace), self._driver))
        if isinstance(self._runtime, ReplayRuntime):
            self._runtime.check(plan.fingerprint, None if saved is None else saved.name)
            self._driver.stops_at = self._runtime.stops_at
        self._sink: Cell | None = None
        self._seconds = self._runtime.seconds if isinstance(self._runtime, ReplayRuntime) else None
        self._shown = False
        self._ended = False
        self._failure: BaseException | None = None
        self._given_at = 0
        """When the consumer was given the last item, if the run is traced."""
        self._provenance = NOWHERE
        self._fingerprint = ""
        self._checkpoint = None if saved is None else saved.folder
        self._attention = self._driver.tape is not None
        """Something is to be done between two polls."""
        self._action: Callable[[], object] = lambda: None
        self._closed = False

    # ------------------------------------------------------------------- items

    def __iter__(self) -> Iterator[T]:
        if self._ended and self._failure is None:
            return iter(())
        self._check_open()
        return self._items()

    def __next__(self) -> T:
        for item in self:
            return item
        raise StopIteration

    def _items(self) -> Iterator[T]:
        """Poll the sink until the stream or its time is over."""
        driver = self._driver
        try:
            self._repeat_outside()
            self._started()  # before the first poll somebody may ask or save; what is then made is made here, too
            self._repeat_outside()
            shown_at = driver.now()
            self._taken()
            while not self._ended and not (self._driver.is_over and self._shown):
                if self._attention and self._stops():
                    return
                answer: Answer | None = None
                for answer in islice(self._started().stream, 64):
                    if type(answer) is tuple:
                        value, self._provenance = answer
                        self._shown = True
                        shown_at = 0.0
                        if driver.spans is None:
                            yield value  # type: ignore[misc]  # the sink yields T, and a cast would cost more than the item
                        else:
                            self._given_at = perf_counter_ns()
                            yield cast("T", value)
                            self._taken()
                    elif answer is not SKIP:
                        self._rest(answer)
                        break
                    if self._attention:
                        break
                else:
                    shown_at = self._went_on(answer, shown_at)
        except GeneratorExit:  # the consumer closed this iterator; the run itself goes on
            raise
        except BaseException as error:
            self._fail(error)
            fold(error)
            raise

    def _taken(self) -> None:
        """The consumer asks again: note how long it had the last item, if the run is traced."""
        if self._driver.spans is not None and self._given_at:
            self._driver.spans.append(WorkSpan("consumer", self._given_at, perf_counter_ns()))
            self._given_at = 0

    def _went_on(self, answer: Answer | None, shown_at: float) -> float:
        """After some polls without a pause: see whether something is wrong."""
        if answer is None:
            raise RunClosed("User code raised GeneratorExit, which ended the run; start a new one.")
        return self._warn_if_stalled(shown_at or self._driver.now())

    def _fail(self, error: BaseException) -> None:
        """Tear everything down: the run has failed."""
        self._failure = error
        try:
            self.close()
        except Exception as another:
            error.add_note(f"While closing: {type(another).__name__}: {another}")

    def _stops(self) -> bool:
        """Between two polls: True if the consumer or user code has closed the run meanwhile; do what was asked for."""
        if self._closed:
            if self._failure is not None:
                self._check_open()
            return True
        self._repeat_outside()
        self._driver.turns += 1  # what the action does is told apart from what the consumer does before and after the next poll
        self._repeat_outside()
        self._attention = self._driver.tape is not None
        self._action()
        self._driver.turns += 1
        return False

    def _repeat_outside(self) -> None:
        """Let arrive what arrived here while somebody asked from outside, if this run repeats another."""
        if isinstance(self._runtime, ReplayRuntime):
            self._runtime.outside(self._driver)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise RunClosed(f"This run failed earlier ({self._failure}); start a new one.") from self._failure
        if self._closed:
            raise RunClosed("This run is closed; start a new one with plan.run().")

    def _started(self) -> Cell:
        if self._sink is None:
            began = perf_counter_ns()
            with self._noted("start"):
                self._sink = self._built()
            self._driver.starting_s += (perf_counter_ns() - began) / 1e9
        return self._sink

    def _built(self) -> Cell:
        driver = self._driver
        driver.began = driver.now()
        if driver.resumed is not None:
            driver.resumed.give(driver)
        sink = build(self.plan.node, driver, fuse=driver.fuse, cells=DRIVER_CELLS)
        if driver.resumed is not None:
            driver.resumed.load(driver)
            driver.resumed = None
        if self._seconds is not None:
            driver.ends_at = driver.began + self._seconds
        return sink

    def _rest(self, answer: Answer) -> None:
        """The sink has no item: wait for what is in flight, end, or explain why nothing can ever happen."""
        driver = self._driver
        if answer is DONE:
            for cell in driver.cells:  # messages that were sent are delivered
                while isinstance(cell, LiveCell) and not cell.sent():
                    driver.collect()
            while driver.mailbox.in_flight:
                driver.collect()
            self._raise_failed_message()
            self._ended = True
            self.close()
            for cell in driver.cells:  # enough items came without a failed shard; its error is raised all the same
                if isinstance(cell, Gather):
                    cell.raise_failure()
        elif driver.mailbox.in_flight:
            driver.collect(timeout=driver.time_left)
            self._raise_failed_message()
        elif driver.has_arrivals:  # a look in between has collected what a cell was waiting for: ask again
            driver.has_arrivals = False
        else:
            why = answer.why if isinstance(answer, Blocked) else "nothing is in flight"
            raise Deadlock(f"The plan cannot go on: {why}. Nothing is in flight that could change this.")

    def _raise_failed_message(self) -> None:
        if self._driver.failure is not None:
            raise self._driver.failure

    def _warn_if_stalled(self, since: float) -> float:
        if self._driver.now() - since < STALL_S:
            return since
        hungry = [s.operator for s in self.stats().operators if s.seen and not s.shown]
        warnings.warn(
            f"No item for {STALL_S:.0f} s although items are being consumed. Nothing leaves {' or '.join(hungry) or 'the plan'}.",
            RuntimeWarning,
            stacklevel=4,
        )
        return self._driver.now()

    def limit(self, seconds: float | None) -> None:
        """Yield no more items, but at least one, when so many seconds have passed since the first was asked for; None: no limit.

        Time is looked at between calls to actors, and between minibatches, so that it is over soon even if items are rare.
        """
        self._check_open()
        if isinstance(self._runtime, ReplayRuntime):
            return  # it has the limit of the recorded run
        self._seconds = None if seconds is None else check.positive("limit", "seconds", seconds)
        if isinstance(self._driver.tape, RunRecorder):
            self._driver.tape.facts["seconds"] = seconds
        if self._sink is not None:
            self._driver.ends_at = None if seconds is None else self._driver.began + seconds

    def will_stop(self, env_steps: int | None) -> None:
        """Say after how many env steps the consumer will take no more items; None: not known.

        Nothing ends by it: it is what operators and actors plan with, such as a learning rate that is 0 at the end.
        """
        self._check_open()
        if isinstance(self._runtime, ReplayRuntime):
            return  # it plans with what the recorded run planned with
        self._driver.stops_at = None if env_steps is None else check.integer("will_stop", "env_steps", env_steps, least=1)
        if isinstance(self._driver.tape, RunRecorder):
            self._driver.tape.facts["stops_at"] = env_steps

    @property
    def is_loaded(self) -> bool:
        """False as long as a run that was resumed lacks what it goes on from."""
        return self._driver.resumed is None

    def load(self) -> None:
        """Load what a run that was resumed goes on from, before the first poll does so."""
        if not self.is_loaded:
            self._check_open()
            self._started()

    @property
    def is_over(self) -> bool:
        """True if the time that ``limit`` gave is over."""
        ends_at = self._driver.ends_at
        return ends_at is not None and self._driver.unrecorded_now() >= ends_at  # it is not the plan that asks

    # ------------------------------------------------------------------- looking at it

    @property
    def provenance(self) -> Provenance:
        """Where the last item came from."""
        return self._provenance

    @property
    def ledger(self) -> Ledger:
        """Where every call and every item is.

        Law: both sums hold after every poll.
        """
        return ledger_of(self._driver)

    @property
    def seconds(self) -> float:
        """Seconds since the first item was asked for, until now or until it was over; with those before it was resumed."""
        return self._driver.seconds if self._sink is not None else 0.0

    @property
    def starting_s(self) -> float:
        """How much of that it took to make the actors."""
        return self._driver.starting_s

    @property
    def deaths(self) -> tuple[Death, ...]:
        """The actors that died, and when they were restarted."""
        return tuple(self._driver.deaths.deaths)

    @property
    def seed(self) -> int:
        """The random seed of the run; of one that goes on, that with which it began."""
        return self._driver.run_seed

    @property
    def runtime(self) -> Runtime:
        """The session it runs in."""
        return self._runtime

    def stats(self) -> RunStats:
        """Counts, busy time and queues of every operator so far."""
        return stats_of(self._driver)

    def ask(self, actors: Actors[W], method: Callable[[W], U]) -> list[U]:
        """Call ``method(actor)`` on every actor of a description that the plan names, and return the results.

        On the local runtime this also works when the run is over: the final state outlives it, as ``close`` left it.
        """
        if not any(actors is named for named in graph.actors_in(self.plan.node)):
            raise PlanError(f"ask: the plan does not name the actors {actors!r}.")
        self.load()
        if isinstance(actors, Resident):
            return [method(self._driver.resident(actors))]
        question = _Question()
        pool = self._runtime.pools.get(actors) if self._closed else self._driver.live(actors)
        if pool is None:
            raise RunClosed(f"This run is over and never made the actors {actors!r}.")
        calls = [self._driver.submit(Call(shard, "ask", (method,), self._driver.mailbox, question)) for shard in pool.shards]
        self._driver.asked_from_outside = True
        try:
            while not all(call.done for call in calls):
                self._driver.collect()
        finally:
            self._driver.asked_from_outside = False
        for call in calls:
            if call.lost:
                raise call.shard.failure("died before it could answer")
            if call.error is not None:
                raise call.error
        return [cast("U", call.reply.items[0]) for call in calls if isinstance(call.reply, Reply)]

    def give(self, actors: Actors[object], value: object) -> None:
        """Give all actors of a description something to begin with: they find it in ``Shard.given`` when they are made, again
        after each restart.

        Law: the plan, and so its fingerprint, stays the same; another run in the same session is given nothing.
        """
        self._check_open()
        if not any(actors is named for named in graph.actors_in(self.plan.node)):
            raise PlanError(f"give: the plan does not name the actors {actors!r}.")
        if actors in self._runtime.pools or actors in self._runtime.residents:
            raise PlanError(
                f"give: {actors.name} live in this session since an earlier run of the plan, so they cannot begin with something "
                "else. Describe the plan again, or open another session."
            )
        self._driver.given[actors] = value

    def resize(self, actors: Actors[W], num: int) -> None:
        """Make a pool of actors larger or smaller while the run goes on.

        Newcomers have the newest state that any of the others was sent and take part from the next call on (with ``gather_sync``:
        from the next round on). The last ones leave: they answer what they were asked, and then end.

        Law: nothing that was asked for is lost.
        """
        self._check_open()
        check.integer("resize", "num", num, least=1, most=check.MAX_ACTORS)
        if not any(actors is named for named in graph.actors_in(self.plan.node)):
            raise PlanError(f"resize: the plan does not name the actors {actors!r}.")
        if isinstance(actors, (Actor, Resident)):
            raise PlanError(
                f"resize: {actors.name} is a single actor. Describe actors that can become more with create_actors()."
            )
        self._runtime.resize(self._driver.live(actors), num)

    @property
    def is_compared(self) -> bool:
        """True if it is recorded, or repeats a recording."""
        return self._driver.tape is not None

    def compare(self, number: int, digest: str) -> None:
        """A run that is recorded notes a hash, such as that of its weights; one that repeats it must come to the same.

        Args:
            number: What the hash is of, such as the number of the report.
            digest: The hash.
        """
        tape = self._driver.tape
        if isinstance(tape, RunRecorder):
            tape.hashed(number, digest)
        elif tape is not None and (noted := tape.take("h")):
            tape.compared += 1
            if noted != [str(number), digest] and not tape.any_plan:
                raise Differs(
                    f"The run differs from the recorded one at {number}: the hash is {digest}, and was {' '.join(noted)}."
                )

    def at_next_poll(self, action: Callable[[], object]) -> None:
        """Call a function soon, between two polls, where the run can be saved; what it raises ends the run. For signals."""
        self._action, self._attention = action, True

    # ------------------------------------------------------------------- saving

    @property
    def closed(self) -> bool:
        """True if it is over, or was closed."""
        return self._closed

    def identify(self) -> None:
        """Note which plan it is, before its functions change anything that they refer to; checkpoints are of this plan."""
        self._fingerprint = self.plan.fingerprint

    def _check_between_polls(self) -> None:
        self._check_open()
        if any(getattr(cell.stream, "gi_running", False) for cell in self._driver.cells if hasattr(cell, "stream")):
            raise CheckpointError(
                "A run is saved between two items, not by its own operators. run.at_next_poll(...) finds such a moment."
            )
        self._started()

    def snapshot(self) -> Encoded:
        """The state of everything that the run has, in memory: ``plan.run(resume=...)`` goes on from there."""
        from tflow.runtime.snapshot import snapshot

        self._check_between_polls()
        with self._saving():
            return snapshot(self._driver).copied()

    @contextmanager
    def _saving(self) -> Iterator[None]:
        """Note in a recording that the run is saved here."""
        for each in self._driver.observers:
            each.saved(turn=self._driver.turns, settled=self._runtime.has_processes)
        self._driver.asked_from_outside = True
        try:
            with self._noted("save"):
                yield
        finally:
            self._driver.asked_from_outside = False

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """Note how long something takes, if the run is traced."""
        began = perf_counter_ns()
        yield
        if self._driver.spans is not None:
            self._driver.spans.append(WorkSpan(what, began, perf_counter_ns()))

    def save(self, path: str | os.PathLike[str], facts: Mapping[str, object] | None = None) -> None:
        """Write a checkpoint: a new folder with the state of everything that the run has. ``plan.run(resume=path)`` goes on from
        there, in this process or another.

        Args:
            path: The folder. It is there when it is complete, and not before; one that is there already is replaced.
            facts: What else to write into its manifest.

        Law: saving is invisible; the run that goes on and the one that is resumed yield the same on the local runtime.
        """
        from tflow.runtime.snapshot import remember, snapshot_into
        from tflow.state.folders import write

        self._check_between_polls()
        known = {"plan": self._fingerprint or self.plan.fingerprint, "env_steps": self._driver.env_steps}
        make = partial(snapshot_into, self._driver, before=self._checkpoint)
        with self._saving():
            write(Path(path), make, {**known, **(facts or {})}, self._checkpoint)
        self._checkpoint = Path(path).resolve()
        remember(self._driver, self._checkpoint)
        for each in self._driver.observers:
            each.kept(turn=self._driver.turns)

    # ------------------------------------------------------------------- the end

    def close(self) -> None:
        """Close the run: no more calls are issued, those in flight are cancelled, its own actors end. Idempotent."""
        if self._closed:
            return
        self._closed = self._attention = True
        steps: list[Callable[[], object]] = [] if self._sink is None else [self._sink.close]
        steps += [cell.abandon_outbox for cell in self._driver.cells if isinstance(cell, LiveCell)]
        steps.append(self._driver.forget)
        steps += [each.close for each in self._driver.observers]
        if self._own_session:
            steps.append(self._runtime.close)
        attempt_all(steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class _Question:
    """The owner of questions from outside: they are read where they were asked."""

    def arrived(self, call: Call) -> None:
        return
