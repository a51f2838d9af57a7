"""The simulator: the same plans in a world where a tape of numbers decides what happens next, and what goes wrong.

Actors have mailboxes that are served first come, first served; which actor moves next, and whether its call is answered, is read
from the *tape*. The number 0 is always the boring choice: the oldest call, answered without a fault. So the empty tape is the
schedule of the local runtime, and a search that makes tapes shorter and numbers smaller ends at the least that can go wrong.

Time is virtual. It passes a little with every call, and else only when nothing but time can change anything, so a call that
hangs for an hour costs nothing. Whatever crosses the border of an actor is copied, and arrays arrive read-only, as from Ray.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tflow.combinators import check
from tflow.combinators.labels import only_given
from tflow.errors import Deadlock, OperatorError, PlanError
from tflow.runtime.base import Call, Mailbox
from tflow.runtime.border import SIMPLE, Parcel, is_frozen, serialised_copy
from tflow.runtime.host import Host, Reply, Request
from tflow.runtime.local import LocalRuntime
from tflow.runtime.program import packed
from tflow.runtime.shards import LivePool
from tflow.types import Shard, Source, TimeBudget

Pause = Literal["look", "pass time"]
"""What the driver does while no actor moves."""
NEVER = float("inf")
TICK_S = 0.001
"""What every call takes."""
READING_S = 1e-6
"""What a look at the clock takes, so that a driver that does nothing but wait for a time to come sees it come."""
MOST_CHOSEN = 64
"""Items that a call with a time budget brings at most here."""
CALL_FAULTS = ("dies_before", "dies_after", "raises", "hangs", "slow")
"""How a call can fail to be answered at once."""


@dataclass(frozen=True)
class Faults:
    """What may go wrong in one run, and how often at most. Whether and when it does is up to the tape.

    >>> from tflow.runtime.sim import Faults
    >>> Faults(dies_after=1)
    Faults(dies_after=1)
    """

    dies_before: int = 0
    """The actor dies before it runs the call."""
    dies_after: int = 0
    """The actor runs the call and dies before it can answer: whoever asked cannot know that it ran."""
    raises: int = 0
    """The environment or an operator raises."""
    hangs: int = 0
    """The call never ends. Only ``timeout_s`` helps."""
    slow: int = 0
    """The call takes ``slow_s`` seconds."""
    refuses: int = 0
    """The constructor raises when the actor is restarted."""
    slow_s: float = 60.0
    calm: int = 0
    """How many calls go well before the first fault, and between any two."""

    def __post_init__(self) -> None:
        for kind in (*CALL_FAULTS, "refuses", "calm"):
            check.integer("Faults", kind, getattr(self, kind), least=0)
        check.positive("Faults", "slow_s", self.slow_s)

    def __repr__(self) -> str:
        return only_given(self)


NO_FAULTS = Faults()


class SimulatedFault(Exception):
    """Raised where the tape says that user code raises."""


class Moment(NamedTuple):
    """One thing that happened."""

    at: float
    place: str
    """The shard; empty for the passing of time."""
    incarnation: int
    what: str
    """``answers``, one of the faults, ``starts``, ``is ended``, ``time passes``."""
    call: str = ""
    """What the call was about."""
    items: tuple[object, ...] = ()
    """What the actor answered with."""
    made: tuple[Source, ...] = ()
    """Where these come from, if the actor made them."""
    told: tuple[tuple[str, object], ...] = ()
    """The messages that the call brought, in order: the name of the method, and what it was given."""

    @property
    def who(self) -> str:
        return f"{self.place} incarnation {self.incarnation}" if self.incarnation else self.place

    @property
    def sentence(self) -> str:
        told = SENTENCES.get(self.what, self.what)
        return f"{told} {', '.join(map(short, self.items))}" if self.items else told


SENTENCES = {
    "refuses": "refuses to start",
    "dies_before": "dies before it runs this",
    "dies_after": "runs this, then dies before it can answer",
    "raises": "raises",
    "hangs": "hangs",
    "slow": "is slow",
}


def short(value: object) -> str:
    """A value on one short line."""
    text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else repr(value)
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))
    return text if len(text) <= 100 else f"{text[:97]}..."


class SentValue:
    """What a value looked like when it was sent: it may have changed since."""

    def __init__(self, value: object) -> None:
        self.text = short(value)

    def __repr__(self) -> str:
        return self.text


class SimHost(Host):
    """An actor that can hang, lag and die."""

    gone = False
    stuck: Call | None = None
    """The call that it will never finish, or not for a while."""
    answers_at = NEVER


class SimRuntime(LocalRuntime):
    """A session in the simulator.

    >>> from tflow import par_from_range
    >>> from tflow.runtime.sim import Faults, SimRuntime
    >>> with SimRuntime([0, 1], Faults(dies_after=1)) as sim:
    ...     list(par_from_range(4).gather_sync().run(runtime=sim))
    [0, 2, 1, 3]
    >>> print(sim.script)
       0.001s  par_from_range[0]                pull  runs this, then dies before it can answer
       0.002s  par_from_range[1]                pull  answers 2
       0.101s                                         time passes
       0.101s  par_from_range[0] incarnation 1        starts
       0.102s  par_from_range[0] incarnation 1  pull  answers 0
       0.103s  par_from_range[0] incarnation 1  pull  answers 1
       0.104s  par_from_range[1]                pull  answers 3
       0.105s  par_from_range[0] incarnation 1  pull  answers
       0.106s  par_from_range[1]                pull  answers
    """

    limits_time = True

    def __init__(self, tape: Iterable[int] = (), faults: Faults = NO_FAULTS) -> None:
        super().__init__()
        self.tape = iter(tape)
        self.left = {fault: int(getattr(faults, fault)) for fault in (*CALL_FAULTS, "refuses")}
        self.slow_s = faults.slow_s
        self.calm = self.calm_left = faults.calm
        self.clock = 0.0
        self.late: list[SimHost] = []
        """Actors that are slow to answer."""
        self.choices: list[int] = []
        """What the tape was read as: a tape that gives the same run."""
        self.trace: list[Moment] = []
        self.idle_steps = 0
        """Calls and looks at the clock since the consumer was last shown something."""
        self.most_steps: int | None = None
        """How many of these there may be; None: any number."""
        self.parcels: dict[LivePool, Parcel[Callable[[Shard], object]]] = {}
        """What makes actors, packed once for all of them."""

    @property
    def script(self) -> str:
        """All that happened, a line each. The same tape gives the same script, byte for byte."""
        width = max((len(moment.who) for moment in self.trace), default=0)
        return "\n".join(f"{m.at:8.3f}s  {m.who:<{width}}  {m.call:<4}  {m.sentence}" for m in self.trace)

    def choose(self, count: int) -> int:
        """Read which of ``count`` things happens; where there is no choice, nothing is read."""
        if count == 1:
            return 0
        number = next(self.tape, 0)
        if not isinstance(number, int):
            raise PlanError(f"SimRuntime: a tape is made of whole numbers, got {number!r}.")
        self.choices.append(number % count)
        return self.choices[-1]

    def note(
        self,
        host: SimHost,
        what: str,
        call: Call | None = None,
        items: tuple[object, ...] = (),
        made: tuple[Source, ...] = (),
    ) -> None:
        shown = tuple(item if type(item) in SIMPLE or is_frozen(item) else SentValue(item) for item in items)
        method, told = ("", ()) if call is None else (call.method, told_by(call))
        self.trace.append(Moment(self.clock, host.place, host.shard.incarnation, what, method, shown, made, told))

    # ------------------------------------------------------------------- time and choice

    def count_step(self) -> None:
        self.idle_steps += 1
        if self.most_steps is not None and self.idle_steps > self.most_steps:
            raise PlanError(
                f"The plan has shown nothing for {self.most_steps:,} steps. If it comes to an end at all, allow more with steps=."
            )

    def now(self) -> float:
        self.count_step()
        self.clock += READING_S
        return self.clock

    def wait(self, mailbox: Mailbox, *, timeout: float | None = None) -> None:
        alarm = NEVER if timeout is None else self.clock + timeout
        while True:
            moves: list[Call | Pause] = [*self.heads()]
            if mailbox.finished:
                moves.insert(0, "look")
            elif timeout == 0:
                if self.next_ring() < NEVER:
                    moves.append("pass time")
                moves.append("look")
            elif (
                self.next_ring() <= alarm < NEVER or (self.late and self.next_answer() <= alarm) or (not moves and alarm < NEVER)
            ):
                moves.append("pass time")  # while an actor could move, not so far that it would seem to hang
            if not moves:
                raise Deadlock(self.stuck_sentence())
            move = moves[self.choose(len(moves))]
            if move == "look":
                return
            if move == "pass time":
                self.pass_time(self.next_ring() if timeout == 0 else alarm)
            else:
                self.move(move)
            if self.clock >= alarm:
                return

    def heads(self) -> list[Call]:
        """The calls that could run now: the oldest of each actor that is free."""
        seen = set(self.busy)
        found = []
        for call in self.queue:
            if call.shard not in seen:
                seen.add(call.shard)
                if host_of(call).stuck is None:
                    found.append(call)
        return found

    def next_answer(self) -> float:
        """When the next actor that is slow will answer."""
        return min((host.answers_at for host in self.late), default=NEVER)

    def next_ring(self) -> float:
        """When time alone changes something: a late answer, a restart."""
        return min(self.next_answer(), self.next_restart_at())

    def pass_time(self, alarm: float) -> None:
        """Until the next thing happens: a late answer, or the driver's alarm."""
        self.clock = max(self.clock, min(alarm, self.next_answer()))
        self.trace.append(Moment(self.clock, "", 0, "time passes"))
        for host in [host for host in self.late if host.answers_at <= self.clock]:
            self.late.remove(host)
            call, host.stuck = host.stuck, None
            assert call is not None
            self.answer(host, call)

    def stuck_sentence(self) -> str:
        hung = sorted({call.shard.place for call in self.queue if host_of(call).stuck} | self.hanging())
        if not hung:
            places = ", ".join(sorted({call.shard.place for call in self.queue}))
            return f"A run that an operator started inside an actor waits for that actor itself: {places}."
        return (
            f"{', '.join(hung)} will never answer. Give the gather timeout_s=, or, if it is a message that hangs, the actors, so "
            "that an actor that hangs is restarted."
        )

    def hanging(self) -> set[str]:
        shards = [shard for pool in self.pools.values() for shard in pool.shards]
        return {shard.place for shard in shards if isinstance(shard.handle, SimHost) and shard.handle.stuck is not None}

    # ------------------------------------------------------------------- the outcome of a call

    def move(self, call: Call) -> None:
        """Run one call, with the outcome that the tape chooses."""
        self.count_step()
        self.queue.remove(call)
        host = host_of(call)
        self.clock += TICK_S
        outcome = self.outcome(call)
        if outcome != "answers":
            self.note(host, outcome, call)
        if outcome == "answers":
            self.attempt(call)
            self.answer(host, call)
        elif outcome == "raises":
            self.attempt(without_work(call))
            cause = SimulatedFault("the schedule says so")
            call.error = OperatorError("An operator or environment", item=0, cause=cause, shard=host.place)
            call.finish()
        elif outcome == "hangs":
            host.stuck = call
        elif outcome == "slow":
            self.attempt(call)
            host.stuck, host.answers_at = call, self.clock + self.slow_s
            self.late.append(host)
        else:
            if outcome == "dies_after":
                self.attempt(call)
                call.reply = call.error = None
            self.die(host, "it died before it answered", call)

    def outcome(self, call: Call) -> str:
        if call.method == "ask":  # which has no faults
            return "answers"
        if self.calm_left:
            self.calm_left -= 1
            return "answers"
        possible = [fault for fault in CALL_FAULTS if self.left[fault]]
        outcome = ("answers", *possible)[self.choose(len(possible) + 1)]
        if outcome in self.left:
            self.left[outcome] -= 1
            self.calm_left = self.calm
        return outcome

    def answer(self, host: SimHost, call: Call) -> None:
        reply = call.reply
        if isinstance(reply, Reply):
            sources = (source for origin in reply.origins for source in origin.sources)
            made = tuple(source for source in sources if made_by(host, source))
            self.note(host, "answers", call, tuple(reply.items) if reply.error is None else (*reply.items, reply.error), made)
        else:
            self.note(host, "answers", call, (call.error,))
        call.finish()

    def die(self, host: SimHost, why: str, call: Call | None = None) -> None:
        """Kill an actor: all of its calls are lost."""
        host.gone = True
        if host in self.late:
            self.late.remove(host)
        lost = [each for each in (call, host.stuck, *self.queue) if each is not None and host_of(each) is host]
        host.stuck = None
        for each in lost:
            if each in self.queue:
                self.queue.remove(each)
            each.reply = each.error = None
            each.finish(lost=why)

    # ------------------------------------------------------------------- the border of an actor

    def hold(self, value: object) -> object:
        return serialised_copy(value)

    def most_items(self, per_call: int | TimeBudget) -> int:
        return 1 + self.choose(min(per_call.items, MOST_CHOSEN)) if isinstance(per_call, TimeBudget) else per_call

    def spawn(self, pool: LivePool, shard: Shard) -> SimHost:
        if shard.incarnation and self.left["refuses"] and self.choose(2):
            self.left["refuses"] -= 1
            self.trace.append(Moment(self.clock, f"{shard.actors}[{shard.index}]", shard.incarnation, "refuses"))
            raise SimulatedFault("the schedule says so")
        if pool not in self.parcels:
            self.parcels[pool] = Parcel(pool.make, in_process=True)
        host = SimHost(self.parcels[pool].open(), shard)
        if shard.incarnation:
            self.note(host, "starts")
        return host

    def submit(self, call: Call) -> None:
        if host_of(call).gone:
            call.finish(lost="it had died before")
        else:
            state = {key: (number, serialised_copy(value)) for key, (number, value) in call.piggyback.state.items()}
            call.piggyback = call.piggyback._replace(state=state)
            call.args = tuple(map(arriving, call.args))
            self.queue.append(call)

    def perform(self, call: Call) -> object:
        reply = super().perform(call)
        assert isinstance(reply, Reply)
        return reply._replace(items=list(serialised_copy(tuple(reply.items))), error=serialised_copy(reply.error))

    def kill(self, handle: object) -> None:
        if isinstance(handle, SimHost) and not handle.gone:
            self.note(handle, "is ended")
            self.die(handle, "it took too long to answer and was ended")


def without_work(call: Call) -> Call:
    """The call up to where user code would raise: state is applied and the program is installed."""
    request = call.args[0]
    before = Call(call.shard, call.method, call.args, call.mailbox, call.owner)
    if isinstance(request, Request):
        before.args = (request._replace(most=0, feed=()),)
    else:
        before.method, before.args = "arrive", ()
    before.piggyback = call.piggyback
    return before


def host_of(call: Call) -> SimHost:
    host = call.shard.handle
    assert isinstance(host, SimHost)
    return host


def told_by(call: Call) -> tuple[tuple[str, object], ...]:
    """The messages in a call: state that rides along, then the event, if it is one."""
    state = [(named(method), value) for (_, method), (_, value) in call.piggyback.state.items()]
    event = [(named(method), call.args[1]) for method in call.args[:1] if call.method == "tell"]
    return (*state, *event)


def named(method: object) -> str:
    return str(getattr(method, "__qualname__", method))


def made_by(host: SimHost, source: Source) -> bool:
    return (source.actors, source.shard, source.incarnation) == (host.shard.actors, host.shard.index, host.shard.incarnation)


def arriving(argument: object) -> object:
    """An argument of a call, as the actor gets it."""
    if not isinstance(argument, Request):
        return serialised_copy(argument)
    feed = tuple((serialised_copy(value), origin) for value, origin in argument.feed)
    program = argument.program and packed(argument.program, in_process=True).open()[-1]
    return argument if program is None and not feed else argument._replace(program=program, feed=feed)
