"""Evidence, law by law: each function puts an operator to work and quotes the law."""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle, islice
from typing import Any, cast

import numpy as np

from tflow.combinators.actors import create_actor, create_actors
from tflow.combinators.columns import Widen
from tflow.combinators.create import from_actors, from_items
from tflow.errors import CheckpointError
from tflow.laws import (
    BOUNDED_MEMORY,
    CHUNKING,
    ENDS,
    ERROR_PROPAGATION,
    FINITENESS,
    MESSAGES,
    NO_TRACES,
    OWNERSHIP,
    PADDING,
    PIECES,
    PURITY,
    RELEASE,
    REPEATABILITY,
    RESUMPTION,
    ROWS,
    TRAVEL,
    TYPING,
    UNOPENED,
    LawBroken,
)
from tflow.runtime.sim import SimRuntime
from tflow.testing import rows, world
from tflow.testing.bench import BESIDE, LIVE, Bench, Candidate, Item, Make, bench, fresh, raw_copy, results
from tflow.testing.elsewhere import run_elsewhere
from tflow.testing.leftovers import distinct, shows_what_is_left
from tflow.testing.reach import amount, change_arrays, kept, memory_in, walk
from tflow.testing.spy import Message, opened
from tflow.testing.values import POISONS, Poison, fits, poisoned, snapshot
from tflow.types import AnyOp, Op, Shard, Stateless, steps_of

MANY = 24
"""How many different items show what grows with each new one."""
LONG, LONGER = 12, 60
"""Some mistakes show only after a while, and some later still."""
SIZES = (50, 100, 200)
SURE_SIZES = (800, 1600, 3200)
"""After how many items memory is measured: first, and again if it seems to grow."""


def longer(items: list[Item], least: int = LONG) -> list[Item]:
    """The items again and again, each a copy of its own."""
    return fresh(list(islice(cycle(items), max(least, len(items)))))


def shown(candidate: Candidate, items: list[Item]) -> list[object]:
    """The results themselves."""
    with bench(candidate) as at_work:
        return [*(at_work.result(item) for item in items), *at_work.rest()]


# --------------------------------------------------------------------------- what it does to others


def is_pure(candidate: Candidate, items: list[Item]) -> None:
    with bench(candidate) as at_work:
        for item in fresh(items):
            before = snapshot(item)
            at_work.result(item)
            PURITY.check(before, snapshot(item))


def leaves_no_traces(candidate: Candidate, items: list[Item]) -> None:
    with bench(candidate) as at_work:
        for item in fresh(items):
            before, modes = world.settings(), world.modes_of(at_work.actor)
            at_work.result(item)
            left = [*world.changed(before, world.settings()), *world.changed(modes, world.modes_of(at_work.actor))]
            NO_TRACES.check(left)


def releases_items(candidate: Candidate, items: list[Item]) -> None:
    with bench(candidate) as at_work:
        known, given = memory_in(at_work.roots), longer(items)
        for number, item in enumerate(given, 1):
            at_work.result(item)
            RELEASE.check(kept(at_work.roots, given[:number], known))
        given += longer(items, LONGER)
        for item in given[-LONGER:]:
            at_work.result(item)
        RELEASE.check(kept(at_work.roots, given, known))
    if isinstance(candidate.op, BESIDE):  # an actor may store what it is given, but not show what has become of it
        untouched = results(candidate, longer(items))
        with bench(candidate) as at_work:
            for item, expected in zip(longer(items), untouched, strict=False):  # more is left at the end
                if at_work.step(item) != expected:
                    RELEASE.check("what it shows of its actor")
                change_arrays(item)


def gives_up_results(candidate: Candidate, items: list[Item]) -> None:
    with bench(candidate) as at_work:
        given: list[tuple[object, object]] = []
        sent: list[Message] = []
        for item in longer(items):
            result = at_work.result(item)
            given.append((result, snapshot(result)))
            sent += at_work.messages
        undo = change_arrays(at_work.actor)
        try:
            for result, then in given:
                OWNERSHIP.check(then, snapshot(result))
        finally:
            undo()
        for message in sent:
            OWNERSHIP.check(message.looked, snapshot(opened(message.value)), f"what it sent to {message.to}")


# --------------------------------------------------------------------------- what it depends on


def is_repeatable(candidate: Candidate, items: list[Item]) -> None:
    with bench(candidate) as at_work:
        first = []
        for item in fresh(items):
            before = world.dice()
            result = at_work.result(item)
            first.append(at_work.looked(result))
            call_all(result, at_work.roots, item)
            REPEATABILITY.check(None, None, world.changed(before, world.dice()))
        first += at_work.end()
    with (
        bench(candidate, clean=False) as at_work,
        world.other_world(candidate.surroundings) as asked,
    ):  # what the first left is there
        second = []
        for item in fresh(items):
            asked.clear()
            result = at_work.result(item)
            second.append(at_work.looked(result))
            call_all(result, at_work.roots, item)
            REPEATABILITY.check(None, None, sorted(set(asked)))
        second += at_work.end()
    REPEATABILITY.check(first, second)


def call_all(result: object, *others: object) -> None:
    """Call the functions that a result is made of, if they need no arguments: their dice are those of the operator."""
    known = {id(value) for _, value in walk([("", others)])}
    for _, value in walk([("", result)]):
        if isinstance(value, types.FunctionType) and id(value) not in known and world.is_of_user(value) and takes_nothing(value):
            with contextlib.suppress(Exception):
                value()


def takes_nothing(function: types.FunctionType) -> bool:
    with contextlib.suppress(TypeError, ValueError):
        inspect.signature(function).bind()
        return True
    return False


def is_resumable(candidate: Candidate, items: list[Item]) -> None:
    """Between any two items, the state is saved as in a checkpoint, and given to a fresh operator in a fresh process."""
    whole = results(candidate, longer(items))
    with bench(candidate) as at_work:
        resumed: list[object] = []
        try:
            for item in longer(items):
                at_work.renew()
                resumed.append(at_work.step(item))
            at_work.renew()
            resumed += at_work.end()
        except CheckpointError as error:
            raise LawBroken(f"resumption: {RESUMPTION.says} But its state cannot be saved: {error}") from error
    RESUMPTION.check(whole, resumed)


class Seeded:
    """Makes an actor; what it draws from global generators is the same every time."""

    def __init__(self, make: Make | None) -> None:
        self.make = make

    def __call__(self, shard: Shard) -> object:
        if self.make is None:
            return shard
        with world.global_seed(0):
            return self.make(Shard("actor", 0, 1, 0, 0))


def travels(candidate: Candidate, items: list[Item]) -> None:
    if isinstance(candidate.op, LIVE):
        there = results(candidate, fresh(items))
    else:
        lone = cast("Op[Item, object, Any]", candidate.op)  # Any: of that actor, or of none
        with world.contained(), SimRuntime() as sim:
            candidate.surroundings.restore()
            run = from_items(fresh(items)).call(create_actor(Seeded(candidate.actor), name="actor"), lone).run(runtime=sim)
            there = [snapshot(item) for item in run]
    modules = {getattr(each, "__module__", "") or "" for each in (type(candidate.op), candidate.actor, *map(type, items))}
    modules |= {type(value).__module__ for value in getattr(candidate.op, "__dict__", {}).values()}
    own = {name for name in modules if name.partition(".")[0] not in ("builtins", "tflow", "numpy", "torch", "")}
    how, elsewhere = run_elsewhere(work_elsewhere, candidate.op, candidate.actor, fresh(items), modules=own)
    here = results(candidate, items, raw_copy(candidate) if not isinstance(candidate.op, LIVE) else None)
    TRAVEL.check(here, there)
    if how != "gone":
        TRAVEL.check(here, elsewhere, "in another process")


def work_elsewhere(op: AnyOp, actor: Make | None, items: list[Item]) -> list[object]:
    """What the second process does."""
    return results(Candidate.of(op, actor), items)


def is_independent_of_chunks(candidate: Candidate, items: list[Item]) -> None:
    """The actor reads the items itself, so that several fit into one call."""

    def read(actor: object) -> Item:
        if not waiting:
            raise StopIteration
        return waiting.popleft()

    outcomes = []
    for per_call, in_flight in ((1, 1), (3, 1), (2, 2)):
        waiting = deque(fresh(items))
        stream = from_actors(create_actors(Seeded(candidate.actor), num=1, name="actor"), read)
        worked = stream.par_for_each(cast("Op[Item, object, Any]", candidate.op))  # Any: of that actor, or of none
        with world.contained(), SimRuntime() as sim:
            candidate.surroundings.restore()
            run = worked.gather_async(per_call=per_call, in_flight=in_flight).run(runtime=sim)
            outcomes.append([snapshot(item) for item in run])
    CHUNKING.check(outcomes[0], outcomes[1])
    CHUNKING.check(outcomes[0], outcomes[2])


# --------------------------------------------------------------------------- what it keeps


def is_bounded(candidate: Candidate, items: list[Item]) -> None:
    """The same items again and again; and each that differs once, for what is remembered by a key."""
    BOUNDED_MEMORY.check(grows(candidate, items) or grows_with_new_ones(candidate, items))


def grows(candidate: Candidate, items: list[Item]) -> str:
    with bench(candidate) as at_work:
        if not any(map(linear, measured(at_work, items, SIZES).values())):
            return ""
        sizes = measured(at_work, items, SURE_SIZES)
        growing = next((what for what, amounts in sizes.items() if linear(amounts)), "")
        if not growing or (growing == BY_ITS_ACTOR and leaves_it_to_its_actor(at_work, items[0])):
            return ""
    return f"after {', '.join(map(str, SURE_SIZES))} items {growing} {', '.join(map(str, sizes[growing]))} values"


def leaves_it_to_its_actor(at_work: Bench, item: Item) -> bool:
    """True if a method of the actor is called: what an actor stores of what it is given is its own business."""
    called: list[str] = []

    def look(frame: types.FrameType, event: str, what: object) -> None:
        code = frame.f_code
        own = frame.f_locals.get(code.co_varnames[0]) if event == "call" and code.co_argcount else getattr(what, "__self__", None)
        if own is at_work.actor and (event == "c_call" or hasattr(type(own), code.co_name)):
            called.append(event)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        at_work.result(copy.deepcopy(item))
    finally:
        sys.setprofile(before)
    return bool(called)


def grows_with_new_ones(candidate: Candidate, items: list[Item]) -> str:
    different = distinct(items)
    third = len(different) // 3
    if len(different) < 0.8 * MANY or not third:
        return ""  # too few to tell what has a bound from what has none
    with bench(candidate) as at_work:
        memory = measured(at_work, different, (third, 2 * third, 3 * third))[BY_ITSELF]
    with bench(candidate) as at_work:
        repeated = measured(at_work, different[:1], (third, 2 * third, 3 * third))[BY_ITSELF]
    steps = memory[1] - memory[0], memory[2] - memory[1]
    if repeated[0] == repeated[2] and steps[0] >= 0.8 * third and steps[1] >= 0.8 * steps[0]:
        return f"after {third}, {2 * third}, {3 * third} items, all different, it holds {', '.join(map(str, memory))} values"
    return ""


BY_ITSELF, BY_ITS_ACTOR, IN_MESSAGES = "it holds", "its actor, of which it calls no method, holds", "it sends"


def measured(at_work: Bench, items: list[Item], sizes: Iterable[int]) -> dict[str, list[int]]:
    """How much there is after so many items, by where it is."""
    found: dict[str, list[int]] = {BY_ITSELF: [], BY_ITS_ACTOR: [], IN_MESSAGES: []}
    for size in sizes:
        while at_work.number < size:
            at_work.result(copy.deepcopy(items[at_work.number % len(items)]))
        found[BY_ITSELF].append(amount(at_work.roots))
        found[BY_ITS_ACTOR].append(amount([("", at_work.actor)]))
        found[IN_MESSAGES].append(amount([("", [message.value for message in at_work.messages])]))
    return found


def linear(sizes: list[int]) -> bool:
    """True if it has grown, and the second time at least as fast as the first."""
    return sizes[1] > sizes[0] and sizes[2] - sizes[1] >= 1.5 * (sizes[1] - sizes[0])


# --------------------------------------------------------------------------- what it shows


def matches_its_types(candidate: Candidate, items: list[Item]) -> None:
    with bench(candidate) as at_work:
        for item in fresh(items):
            result: Any = at_work.result(item)  # Any: whatever it gives
            if isinstance(candidate.op, Widen):
                missing = [name for name in candidate.op.columns.adds if len(item) and name not in result]
                TYPING.check(f"the columns {', '.join(candidate.op.columns.adds)}", result, not missing)
            else:
                has_its_type(candidate.op, result)
        for result in at_work.rest():
            has_its_type(candidate.op, result)


def has_its_type(op: AnyOp, result: object) -> None:
    declared = declared_by(op)
    TYPING.check(declared, result, fits(result, declared))


def declared_by(op: AnyOp) -> object:
    from tflow.testing.operators import declared_result

    return declared_result(op)


def propagates_errors(candidate: Candidate, items: list[Item]) -> None:
    """Something in the item raises, or the actor does."""
    for touched, item in poisoned(fresh(items[-1:])[0]):
        with bench(candidate) as at_work:
            for before in fresh(items[:-1][-2:]):
                at_work.result(before)
            ERROR_PROPAGATION.check(touched, raises(at_work, item))
    if isinstance(candidate.op, BESIDE):
        for poison in map(Poison, POISONS):
            with bench(candidate) as at_work:
                at_work.actor = poison
                ERROR_PROPAGATION.check(poison.touched, raises(at_work, fresh(items[:1])[0]))


def raises(at_work: Bench, item: Item) -> bool:
    try:
        at_work.result(item)
    except Exception:  # whatever it makes of it
        return True
    return False


def stays_finite(candidate: Candidate, items: list[Item]) -> None:
    signals: list[str] = []
    with bench(candidate) as at_work:
        for item in fresh(items):
            if rows.is_empty(item) or rows.not_finite(item):
                continue
            signals.clear()
            with np.errstate(divide="call", invalid="call", over="call", call=lambda kind, _: signals.append(kind)):
                result = at_work.result(item)
            if signals:
                FINITENESS.check(rows.not_finite(result))


# --------------------------------------------------------------------------- what it sends


def sends_well(candidate: Candidate, items: list[Item]) -> None:
    targets: Counter[tuple[str, int]] = Counter()
    with bench(candidate) as at_work:
        sources = {actors.name: actors.num for actors in at_work.live.actors}
        for item in longer(items):
            at_work.result(item)
            told = [each for message in at_work.messages for each in message.arrives]
            twice = [each for number, each in enumerate(told) if each in told[:number]]
            MESSAGES.check(twice, "", too_early(at_work.messages))
            targets.update((message.to, shard) for message in at_work.messages for shard in message.shards)
    if len(distinct(items)) < MANY // 2:
        return  # the shard may depend on what is in the item
    for name in {name for name, _ in targets}:
        hit = [shard for to, shard in targets if to == name]
        if len(hit) == 1 and sources[name] > 1 and targets[name, hit[0]] > sources[name]:
            MESSAGES.check([], f"{name}[{hit[0]}] of {sources[name]}", [])


def too_early(messages: list[Message]) -> list[str]:
    """The actors that are sent something before the update is counted, and not again afterwards."""
    found: dict[tuple[str, str], str] = {}
    for message in messages:
        key = message.to, message.policy
        if message.kind == "update":
            found[key] = "update"
        elif message.kind == "advance" and found.get(key) == "update":
            found[key] = "advance"
    return [to for (to, _), last in found.items() if last == "advance"]


def stays_closed(candidate: Candidate, items: list[Item]) -> None:
    with bench(candidate) as at_work:
        for item in fresh(items):
            at_work.result(item)
            assert at_work.ref is not None
            UNOPENED.check(sorted(set(at_work.ref.opened)))


# --------------------------------------------------------------------------- what it makes of batches


def keeps_what_travels_along(candidate: Candidate, items: list[Item]) -> None:
    steps_in = steps_out = 0
    with bench(candidate) as at_work:
        for item in fresh(items):
            result = at_work.result(item)
            steps_in += steps_of(item)
            steps_out += steps_of(result)
            ROWS.check(rows.lost(item, result) if rows.batches([item]) else [], steps_in, steps_out)


def keeps_pieces_apart(candidate: Candidate, items: list[Item]) -> None:
    for item in rows.batches(items) if isinstance(candidate.op, Stateless) else []:
        PIECES.check(rows.differs_by_order(item, rows.applied(candidate, item), rows.applied(candidate, rows.reordered(item))))


def treats_ends_well(candidate: Candidate, items: list[Item]) -> None:
    for item in rows.batches(items) if isinstance(candidate.op, Stateless) else []:
        ENDS.check(rows.wrong_end(candidate, item))


def ignores_padding(candidate: Candidate, items: list[Item]) -> None:
    for item in rows.batches(items):
        if "mask" in item.columns and isinstance(candidate.op, Stateless):
            other = rows.with_other_padding(item)
            PADDING.check(rows.differs_by_padding(item, rows.applied(candidate, item), rows.applied(candidate, other)))


EVIDENCE: Mapping[str, Callable[[Candidate, list[Item]], None]] = {
    "purity": is_pure,
    "no_traces": leaves_no_traces,
    "repeatability": is_repeatable,
    "travel": travels,
    "resumption": is_resumable,
    "release": releases_items,
    "bounded_memory": is_bounded,
    "leftovers": shows_what_is_left,
    "ownership": gives_up_results,
    "chunking": is_independent_of_chunks,
    "typing": matches_its_types,
    "error_propagation": propagates_errors,
    "finiteness": stays_finite,
    "messages": sends_well,
    "unopened": stays_closed,
    "rows": keeps_what_travels_along,
    "pieces": keeps_pieces_apart,
    "ends": treats_ends_well,
    "padding": ignores_padding,
}
"""How the kit gathers evidence for each law of operators."""
