"""The driver as a place where cells run: it issues calls, keeps the ledger, and knows the live actors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, cast

from tflow.combinators import graph, nodes
from tflow.combinators.actors import Actors, Resident
from tflow.errors import RunClosed, ShardFailed, TflowError
from tflow.runtime.base import Call, Mailbox, Owner, Runtime, derive_seed, log
from tflow.runtime.cell import Site, attempt_all
from tflow.runtime.ledger import LedgerCounters
from tflow.runtime.observer import DeathLog, RunObserver, WorkSpan
from tflow.runtime.recording import ReplayRuntime, RunRecorder
from tflow.runtime.refs import carriers
from tflow.runtime.shards import LivePool, LiveShard
from tflow.types import W, merged, summary_of

if TYPE_CHECKING:
    from tflow.runtime.snapshot import SavedRun

MIN_WAIT_S = 0.001
"""The shortest pause before an alarm; 0 would mean not to wait at all."""
PATIENCE_S = 30.0
"""How long a driver waits for an answer before it says whom it waits for."""
LEAST_HANG_S = 900.0
"""No actor counts as hung before, unless ``timeout_s`` says so: an evaluation of long episodes may follow one of short ones."""
POLLS_BETWEEN_COLLECTS = 64
"""After this many polls without an item the driver collects finished calls: a stream that is always ready starves no actor."""


class Driver(Site):
    """The driver side of one run."""

    def __init__(self, sink: nodes.Node, runtime: Runtime, *, seed: int, fuse: bool) -> None:
        super().__init__(shard=None, seed="driver")
        self.sink = sink
        self.runtime = runtime
        self.run = runtime.new_run()
        self.run_seed = seed
        if runtime.session_seed is None:
            runtime.session_seed = seed
        self.fuse = fuse
        order = graph.walk(sink)
        self.positions = {node: index for index, node in enumerate(order)}
        self.carriers = carriers(order)
        named = dict.fromkeys(graph.actors_in(sink))
        self.ranks = {actors: rank for rank, actors in enumerate(named)}
        """The rank of each description in the plan; seeds depend on it, not on the order of creation."""
        self.given: dict[Actors[object], object] = {}
        """What this run gives to actors when they are made."""
        self.mailbox = Mailbox()
        self.counters = LedgerCounters()
        self.pools: list[LivePool] = []
        self.polls_left = POLLS_BETWEEN_COLLECTS
        self.has_arrivals = False
        """A call has arrived since the driver last waited: cells that were polled before that may answer otherwise now."""
        self.failure: TflowError | None = None
        """What a message to an actor raised."""
        self.timed: dict[Call, None] = {}
        """Calls in flight that have a time limit."""
        self.sampled: dict[Actors[object], tuple[int, object]] = {}
        """Env steps and merged summaries of all items that have reached the driver, by the description of their actors."""
        self.events: dict[LiveShard, int] = {}
        """Events of this run that are on their way to each shard."""
        self.tape: RunRecorder | ReplayRuntime | None = None
        """What happens is written down here, or read from here."""
        if isinstance(runtime, ReplayRuntime):
            self.tape, runtime.name_of = runtime, self.name_of
        self.deaths = DeathLog(lambda: self.seconds)
        self.observers: list[RunObserver] = [self.deaths]
        self.starting_s = 0.0
        """How long it took to make the actors, each time the run was started or resumed."""
        self.waited_ns = 0
        """How long it has waited for answers; on the local runtime, actors work meanwhile."""
        self.looked_at = self.attentive_since = self.watches_at = 0.0
        """When the driver last looked for answers, since when it does so without long pauses, and when it next watches actors."""
        self.numbers = count(1)
        self.turns = 0
        """Answers of the sink so far, if they are recorded or repeated: they say when somebody asked from outside."""
        self.asked_from_outside = False
        """Somebody asks an actor, past the plan."""
        self.resumed: SavedRun | None = None
        """What the run goes on from, if it does."""

        self.clock = 0.0
        """What the clock of the run is ahead of that of its runtime: a run that was stopped and continued has one clock."""
        self.began = runtime.now()
        """When the first item was asked for."""
        self.ended: float | None = None
        """When the run was over."""
        self.ends_at: float | None = None
        """When the consumer will take no more items; None: whenever they come."""
        self.stops_at: int | None = None
        """Env steps after which the consumer will take no more items; None: not known."""

    def now(self) -> float:
        now = self.unrecorded_now()
        return now if self.tape is None else self.tape.reading(now)

    @property
    def seconds(self) -> float:
        """How long the run goes on, or how long it went."""
        return (self.unrecorded_now() if self.ended is None else self.ended) - self.began

    def record(self, recorder: RunRecorder) -> None:
        """Let what happens be written down."""
        recorder.name_of = self.name_of
        self.tape = recorder
        self.observers.append(recorder)

    def name_of(self, pool: LivePool) -> str:
        """What recordings call actors: as if this were the only run of the session, which numbers those of one name. Empty for
        those of another run."""
        alike = [each for each in self.pools if each.actors.name == pool.actors.name]
        if pool not in alike:
            return ""
        return pool.actors.name if alike[0] is pool else f"{pool.actors.name}#{alike.index(pool) + 1}"

    def position(self, node: nodes.Node) -> int:
        return self.positions[node]

    def unrecorded_now(self) -> float:
        """The clock as it is, which is no event of a recording."""
        return self.runtime.now() + self.clock

    @property
    def is_over(self) -> bool:
        """True if the time of the run is over."""
        return self.ends_at is not None and self.now() >= self.ends_at

    @property
    def time_left(self) -> float | None:
        """Seconds until it is; None if it is already, or if there is no limit."""
        left = 0.0 if self.ends_at is None else self.ends_at - self.now()
        return max(left, MIN_WAIT_S) if left > 0 else None

    def live(self, actors: Actors[object]) -> LivePool:
        """The live actors of a description that the plan names."""
        if actors.place.beside is not None:
            self.live(actors.place.beside)
        seed = derive_seed(self.run_seed, self.ranks.setdefault(actors, len(self.ranks)))
        saved = self.resumed.revived(self, actors, seed) if self.resumed is not None and not self.has(actors) else None
        pool = saved or self.runtime.pool(actors, seed, self.given.get(actors), self.stops_at)
        if pool not in self.pools:
            self.pools.append(pool)
            pool.stops_at = self.stops_at  # those that are restarted begin with that of the latest run
        return pool

    def has(self, actors: Actors[object]) -> bool:
        """True if the run has asked for these actors before."""
        return any(pool.actors is actors for pool in self.pools)

    def resident(self, resident: Resident[W]) -> W:
        """The driver's own object of a description that the plan names."""
        seed = derive_seed(self.run_seed, self.ranks.setdefault(resident, len(self.ranks)))
        return cast("W", self.runtime.resident(resident, seed, self.given.get(resident)))

    def count(self, actors: Actors[object], env_steps: int, items: list[object]) -> None:
        """Items have reached the driver."""
        self.env_steps += env_steps
        said = summary_of(items)
        if env_steps or said is not None:
            steps, summary = self.sampled.get(actors, (0, None))
            self.sampled[actors] = steps + env_steps, merged((summary, said))

    def state(self) -> dict[str, object]:
        """What the driver itself remembers, as data; its shards, calls and cells are apart."""
        return {
            "now": self.unrecorded_now(),
            "began": self.began,
            "env_steps": self.env_steps,
            "counters": vars(self.counters),
            "polls_left": self.polls_left,
            "has_arrivals": self.has_arrivals,
            "waited_ns": self.waited_ns,
            "starting_s": self.starting_s,
            "sampled": [(self.ranks[actors], *sampled) for actors, sampled in self.sampled.items()],
        }

    def load(self, state: dict[str, Any]) -> None:  # Any: what state() gave
        """Go on as the driver whose state this was."""
        self.clock = state["now"] - self.runtime.now()
        self.began, self.env_steps = state["began"], state["env_steps"]
        vars(self.counters).update(state["counters"])
        self.polls_left, self.has_arrivals = state["polls_left"], state["has_arrivals"]
        self.waited_ns, self.starting_s = state.get("waited_ns", 0), state.get("starting_s", 0.0)
        actors = {rank: actors for actors, rank in self.ranks.items()}
        self.sampled = {actors[rank]: (steps, summary) for rank, steps, summary in state["sampled"]}

    def size(self, actors: Actors[object]) -> int:
        """How many actors of a description there are now."""
        return len(self.live(actors).shards)

    def lose(self, loss: ShardFailed, count: int) -> None:
        self.counters.delivered -= count
        self.counters.dropped["lost"] += count
        log.warning("%s The item is dropped.", loss)

    def issue(
        self, shard: LiveShard, method: str, args: tuple[object, ...], owner: Owner, *, timeout_s: float | None = None
    ) -> Call:
        """Call an actor. Its pending state is piggybacked on the call."""
        if self.runtime.closed:
            raise RunClosed(f"The {type(self.runtime).__name__} of this run is closed, and its actors with it.")
        return self.submit(Call(shard, method, args, self.mailbox, owner), timeout_s=timeout_s)

    def submit(self, call: Call, *, timeout_s: float | None = None) -> Call:
        self.counters.issued += 1
        if call.method != "ask":
            call.number = next(self.numbers)
        self.mailbox.in_flight[call] = None
        if timeout_s is not None and self.runtime.limits_time:
            call.timeout_s = timeout_s
            self.timed[call] = None
        for each in self.observers:
            each.issuing(call)
        try:
            self.runtime.dispatch(call)
        except BaseException:
            self.abandon([call])
            raise
        for each in self.observers:
            each.issued(call)
        return call

    def collect(self, *, timeout: float | None = None) -> None:
        """Wait until a call is finished or a timer rings, then tell the owners of all that are finished."""
        self.has_waited(arrivals=False)
        if self.runtime.has_processes:
            self._pay_attention()
        if self.runtime.dead or self.timed:
            timeout = self._next_alarm(timeout)
        began = perf_counter_ns()
        if timeout is None and self.runtime.has_processes:
            self._wait_with_patience()
        else:
            self.runtime.wait(self.mailbox, timeout=timeout)
        ended = perf_counter_ns()
        self.waited_ns += ended - began
        if self.spans is not None:
            self.spans.append(WorkSpan("wait", began, ended))
        self.see_finished()
        if self.runtime.has_processes:
            self._watch_others()

    def has_waited(self, *, arrivals: bool = True) -> None:
        """The driver has looked for answers, and found some."""
        self.polls_left = POLLS_BETWEEN_COLLECTS
        self.has_arrivals = self.has_arrivals or arrivals

    def see_finished(self) -> None:
        """Tell the owners of all calls that are finished."""
        finished = self.mailbox.finished
        for each in self.observers:
            each.collected(finished, turn=self.turns if self.asked_from_outside else None)
        while finished:
            call = finished.popleft()
            if call in self.mailbox.in_flight:
                del self.mailbox.in_flight[call]
                self.timed.pop(call, None)
                self._answered(call)
                if call.lost:
                    self.counters.lost += 1
                else:
                    self.counters.answered += 1
                call.done = self.has_arrivals = True
                call.owner.arrived(call)

    def _answered(self, call: Call) -> None:
        was_alive = call.shard.handle is not None
        self.runtime.answered(call)
        if was_alive and call.shard.handle is None and call.lost:
            for each in self.observers:
                each.died(call.shard, call, turn=self.turns)

    def _wait_with_patience(self) -> None:
        """Wait for an answer. If none comes for long, say whom it waits for; end an actor that counts as hung."""
        while not self.mailbox.finished:
            self.runtime.wait(self.mailbox, timeout=PATIENCE_S if self.mailbox.tickets else None)
            if self.mailbox.finished or self.runtime.dead:
                return
            for shard in {call.shard: None for call in self.mailbox.in_flight}:
                self._watch(shard)

    def _pay_attention(self) -> None:
        """Count from here on if the driver was away for long: answers may have come meanwhile, and it is not the actors that
        are slow."""
        now = self.runtime.now()
        if now - self.looked_at > PATIENCE_S:
            self.attentive_since = now

    def _watch_others(self) -> None:
        """Now and then, look at the actors that have not answered while others did."""
        self.looked_at = self.runtime.now()
        if self.looked_at >= self.watches_at:
            self.watches_at = self.looked_at + PATIENCE_S / 2
            for shard in {call.shard: None for call in self.mailbox.in_flight}:
                self._watch(shard)

    def _watch(self, shard: LiveShard) -> None:
        """Look at an actor that has not answered for a while."""
        oldest = next(iter(shard.in_flight), None)
        if oldest is None or shard.handle is None:
            return
        since = max(oldest.sent_at, shard.last_answer_at, self.runtime.up_since(shard.handle), self.attentive_since)
        waited = self.runtime.now() - since
        limit = self.runtime.hung_after
        if limit is not None and waited > max(LEAST_HANG_S, limit * shard.longest_call_s):
            self.runtime.kill(shard.handle)
        elif waited > max(PATIENCE_S, 3 * shard.longest_call_s, 2 * shard.warned_at):
            shard.warned_at = waited
            usual = (
                f"its longest call so far took {shard.longest_call_s:.1f} s"
                if shard.longest_call_s
                else "it has not answered yet"
            )
            log.warning(
                "Waiting for %s since %.0f s (%s). If it is stopped or hangs, end its process: it is restarted. With timeout_s= "
                "that happens by itself.",
                shard.place,
                waited,
                usual,
            )

    def settle(self) -> None:
        """Wait until no call is on its way to an actor or back. Nobody is told of the answers yet."""
        while not self.runtime.settle(self.mailbox, timeout=self._next_alarm(None) if self.timed else None):
            continue

    def _next_alarm(self, timeout: float | None) -> float | None:
        """Kill actors that exceeded their time limit and restart dead ones. Returns how long to wait for the next of these."""
        now = self.runtime.now()
        for call in list(self.timed):
            if self.runtime.deadline(call) <= now:
                self.runtime.kill(call.shard.handle)
        before = [shard for shard in self.runtime.dead if shard.handle is None]
        self.runtime.restart_dead()
        back = [shard for shard in before if shard not in self.runtime.dead]
        for each in self.observers:
            each.restarted(back, turn=self.turns if self.asked_from_outside else None)
        alarm = min([self.runtime.next_restart_at(), *map(self.runtime.deadline, self.timed)])
        return timeout if timeout == 0 or alarm == float("inf") else max(alarm - now, MIN_WAIT_S)

    def polled_while_waiting(self) -> None:
        """Count a poll of a cell that waits for a call while other streams are busy; now and then, collect finished calls."""
        self.polls_left -= 1
        if self.polls_left <= 0 and self.mailbox.in_flight:
            self.collect(timeout=0)

    def abandon(self, calls: Iterable[Call]) -> None:
        """Cancel calls. State that was piggybacked on one that never runs becomes pending again."""
        unwanted = {call for call in calls if call in self.mailbox.in_flight}
        for call in unwanted:
            del self.mailbox.in_flight[call]
            self.timed.pop(call, None)
            if call in call.shard.in_flight:
                del call.shard.in_flight[call]
                if call.timeout_s is not None:  # it may still run, and those after it wait for it
                    call.shard.last_answer_at = max(call.shard.last_answer_at, self.runtime.now()) + call.timeout_s
            if call in call.shard.waiting:
                call.shard.waiting.remove(call)
        self.counters.abandoned += len(unwanted)
        for call in reversed(self.runtime.cancel(unwanted)):  # the latest first: it wins
            call.shard.restore_state(call.piggyback.state)
        for call in unwanted:
            if call.shard.draining:
                self.runtime.retire(call.shard)

    def forget(self) -> None:
        """The run is over: leave nothing of it in the session."""
        self.ended = self.unrecorded_now()
        self.abandon(self.mailbox.in_flight)
        if not self.runtime.closed:
            handles = [shard.handle for pool in self.pools for shard in pool.shards if shard.handle is not None]
            attempt_all([partial(self.runtime.forget, handle, self.run) for handle in handles])
