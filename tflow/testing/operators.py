"""``check_laws``: one test per law that applies to an operator.

The operator is put to work as plans do it, in a real run on the local runtime, where nothing is copied, so that aliasing shows;
and for the law of travel inside an actor of the simulator.
"""

from __future__ import annotations

import copy
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from tflow.combinators import check, hints
from tflow.combinators.actors import create_actor, create_actors
from tflow.combinators.create import from_actors, from_items, from_iterable
from tflow.combinators.signatures import type_arguments
from tflow.combinators.stream import Iter
from tflow.errors import OperatorError, PlanError
from tflow.laws import (
    CHUNKING,
    EQUIVALENCE,
    ERROR_PROPAGATION,
    OPERATOR_LAWS,
    PURITY,
    RELEASE,
    REPEATABILITY,
    RESUMPTION,
    TRAVEL,
    TYPING,
    Law,
)
from tflow.runtime.border import serialised_copy
from tflow.runtime.executor import Run
from tflow.runtime.local import LocalRuntime
from tflow.runtime.sim import SimRuntime
from tflow.testing.values import Poison, fits, scramble, snapshot
from tflow.types import ActorOp, AnyOp, LiveOp, Op, Shard, Stateful, StatefulActorOp, StatefulLiveOp, Stateless

Item = Any  # Any: whatever the operator under test consumes
Make = Callable[[Shard], object]
Evidence = Callable[[AnyOp, Make | None, list[Item]], None]


class Bench:
    """An operator at work, one item at a time."""

    def __init__(self, op: AnyOp, actor: Make | None) -> None:
        self.queue: deque[Item] = deque()
        stream: Iter[Item] = from_iterable(self._read)
        if isinstance(op, (ActorOp, StatefulActorOp)):
            assert actor is not None
            shown = stream.call(create_actor(actor, name="actor"), cast("Op[Item, object, Any]", op))  # Any: of that actor
        else:
            shown = stream.for_each(cast("Op[Item, object]", op))
        self.run: Run[object] = shown.run(seed=0)

    def _read(self) -> Iterator[Item]:
        while True:
            yield self.queue.popleft()

    def step(self, item: Item) -> object:
        """Process one item and return what the result is made of."""
        return snapshot(self.result(item))

    def result(self, item: Item) -> object:
        self.queue.append(item)
        return next(self.run)


@contextmanager
def bench(op: AnyOp, actor: Make | None) -> Iterator[Bench]:
    """An operator at work, torn down afterwards."""
    made = Bench(op, actor)
    with made.run:
        yield made


def results(op: AnyOp, actor: Make | None, items: list[Item]) -> list[object]:
    """What the operator gives for each of the items."""
    with bench(op, actor) as at_work:
        return [at_work.step(item) for item in items]


def fresh(items: list[Item]) -> list[Item]:
    """Copies, each by itself: two items may be the same object."""
    return [copy.deepcopy(item) for item in items]


# --------------------------------------------------------------------------- evidence, law by law


def travels(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
    here = results(op, actor, fresh(items))
    if isinstance(op, (LiveOp, StatefulLiveOp)):  # it stays on the driver, but a plan that travels takes it along
        there = results(serialised_copy(op), actor, fresh(items))
    else:
        lone = cast("Op[Item, object, Any]", op)  # Any: of that actor, or of none
        with SimRuntime() as sim:
            run = from_items(fresh(items)).call(create_actor(actor or no_actor, name="actor"), lone).run(runtime=sim)
            there = [snapshot(item) for item in run]
    TRAVEL.check(here, there)


def no_actor(shard: Shard) -> object:
    """An actor for operators that need none."""
    return shard


def is_pure(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
    with bench(op, actor) as at_work:
        for item in items:
            before = snapshot(item)
            at_work.step(item)
            PURITY.check(before, snapshot(item))


def releases_items(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
    untouched = results(op, actor, fresh(items))
    with bench(op, actor) as at_work:
        scrambled = []
        for item in fresh(items):
            scrambled.append(at_work.step(item))
            scramble(item)
    RELEASE.check(untouched, scrambled)


def is_repeatable(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
    outcomes = []
    for seed in (1, 2):
        with global_seed(seed):
            outcomes.append(results(op, actor, fresh(items)))
    REPEATABILITY.check(*outcomes)


def is_resumable(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
    """Between any two items, the state is saved as in a checkpoint, and given to a fresh operator."""
    if isinstance(op, StatefulLiveOp):
        whole, resumed = (continued(op, fresh(items), saving=saving) for saving in (False, True))
    elif isinstance(op, LiveOp):  # a run of its own for every item: each has a fresh copy of the operator
        live = cast("Op[Item, object]", op)
        with LocalRuntime() as session:
            whole = [snapshot(result) for result in from_items(fresh(items)).for_each(live).run(runtime=session)]
        with LocalRuntime() as session:
            runs = [from_items([item]).for_each(live).run(runtime=session) for item in fresh(items)]
            resumed = [snapshot(result) for run in runs for result in run]
    else:
        whole, resumed = (stepped(op, actor, fresh(items), saving=saving) for saving in (False, True))
    RESUMPTION.check(whole, resumed)


def stepped(op: AnyOp, actor: Make | None, items: list[Item], *, saving: bool) -> list[object]:
    """The results of an operator that is called by hand; with ``saving``, a fresh one goes on from the state that was saved."""
    beside = [] if actor is None else [actor(Shard("actor", 0, 1, 0, 0))]
    at_work = copy.deepcopy(op)
    state: object = at_work.init() if isinstance(at_work, (Stateful, StatefulActorOp)) else None
    found = []
    for item in items:
        if saving:
            at_work, state = copy.deepcopy(op), saved_state(op, state)
        if isinstance(at_work, (Stateful, StatefulActorOp)):
            step: Callable[..., tuple[object, object]] = at_work.step
            state, result = step(*beside, state, item)
        else:
            assert isinstance(at_work, (Stateless, ActorOp))
            apply: Callable[..., object] = at_work.apply
            result = apply(*beside, item)
        found.append(snapshot(result))
    return found


def continued(op: AnyOp, items: list[Item], *, saving: bool) -> list[object]:
    """The results of a run; with ``saving``, another run goes on after each item from what was saved."""
    plan = from_items(items).for_each(cast("Op[Item, object]", op))
    run: Run[object] = plan.run(seed=0)
    found = []
    try:
        for _ in items:
            found.append(snapshot(next(run)))
            if saving:
                state = run.snapshot()
                run.close()
                run = plan.run(resume=state)
    finally:
        run.close()
    return found


def saved_state(op: AnyOp, state: object) -> object:
    """The state of an operator after a stay on disk."""
    from tflow.state.values import Encoded, StateEncoder, decode

    encoder = StateEncoder()
    tree = encoder.part(type(op).__name__, state)
    return decode(Encoded(json.loads(json.dumps(tree)), encoder.arrays))


def is_independent_of_chunks(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
    """The actor reads the items itself, so that several fit into one call."""

    def read(actor: object) -> Item:
        if not waiting:
            raise StopIteration
        return waiting.popleft()

    outcomes = []
    for per_call, in_flight in ((1, 1), (3, 1), (2, 2)):
        waiting = deque(fresh(items))
        stream = from_actors(create_actors(actor or no_actor, num=1, name="actor"), read)
        worked = stream.par_for_each(cast("Op[Item, object, Any]", op))  # Any: of that actor, or of none
        with SimRuntime() as sim:
            run = worked.gather_async(per_call=per_call, in_flight=in_flight).run(runtime=sim)
            outcomes.append([snapshot(item) for item in run])
    CHUNKING.check(outcomes[0], outcomes[1])
    CHUNKING.check(outcomes[0], outcomes[2])


def matches_its_types(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
    declared = declared_result(op)
    with bench(op, actor) as at_work:
        for item in fresh(items):
            result = at_work.result(item)
            TYPING.check(declared, result, fits(result, declared))


def propagates_errors(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
    poison = Poison()
    came_out = False
    with bench(op, actor) as at_work:
        for item in fresh(items):
            at_work.step(item)
        try:
            at_work.queue.append(poison)
            next(at_work.run)
        except OperatorError:
            came_out = True
        ERROR_PROPAGATION.check(poison.touched, came_out)


def equivalent_to(like: Callable[[list[Item]], list[object]]) -> Evidence:
    def is_equivalent(op: AnyOp, actor: Make | None, items: list[Item]) -> None:
        expected = [snapshot(result) for result in like(fresh(items))]
        EQUIVALENCE.check(results(op, actor, fresh(items)), expected)

    return is_equivalent


def declared_result(op: AnyOp) -> hints.Hint:
    """The element type that the operator's class declares for its results."""
    return type_arguments(op)[1]


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Set the global generators, and set them back."""
    before = random.getstate()
    random.seed(seed)
    numpy_before = numpy.random.get_state()
    numpy.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        numpy.random.set_state(numpy_before)


# --------------------------------------------------------------------------- from laws to tests

EVIDENCE: Mapping[str, Evidence] = {
    "travel": travels,
    "purity": is_pure,
    "release": releases_items,
    "repeatability": is_repeatable,
    "resumption": is_resumable,
    "chunking": is_independent_of_chunks,
    "typing": matches_its_types,
    "error_propagation": propagates_errors,
}


def applies(law: Law[...], op: AnyOp) -> bool:
    """Whether the law says anything about operators of this kind."""
    if law is RELEASE:
        return not op.batching
    if law is CHUNKING:
        return not isinstance(op, (LiveOp, StatefulLiveOp))
    if law is TYPING:
        return declared_result(op) is not hints.UNKNOWN
    return True


def check_laws(
    op: AnyOp,
    *,
    items: st.SearchStrategy[Item],
    actor: Make | None = None,
    like: Callable[[list[Item]], list[object]] | None = None,
    max_items: int = 8,
) -> type:
    """A class of tests, one per law that applies to the operator. Bind it to a name that pytest collects.

    ``items`` makes what the operator consumes; ``actor`` makes the actor that an ``ActorOp`` works beside; ``like`` is a plain
    function from a list of items to the list of results that are expected.

    >>> from hypothesis import strategies as st
    >>> from tflow import Stateless
    >>> from tflow.testing import check_laws
    >>> class Double(Stateless[int, int]):
    ...     def apply(self, item: int, /) -> int:
    ...         return 2 * item
    >>> TestDouble = check_laws(Double(), items=st.integers())
    >>> [name for name in dir(TestDouble) if name.startswith("test_")]  # doctest: +NORMALIZE_WHITESPACE
    ['test_chunking', 'test_error_propagation', 'test_purity', 'test_release', 'test_repeatability', 'test_resumption',
     'test_travel', 'test_typing']
    >>> TestDouble().test_purity()
    """
    check.operator("check_laws", op)
    name = type(op).__name__
    if isinstance(op, (ActorOp, StatefulActorOp)) and actor is None:
        raise PlanError(f"check_laws: {name} works beside an actor; say how to make one with actor=.")
    laws = [law for law in OPERATOR_LAWS if applies(law, op)]
    tests = {f"test_{law.name}": _test(law, EVIDENCE[law.name], op, actor, items, max_items) for law in laws}
    if like is not None:
        tests["test_equivalence"] = _test(EQUIVALENCE, equivalent_to(like), op, actor, items, max_items)
    return type(f"Test{name}", (), {"__doc__": f"The laws of {name}.", **tests})


def _test(
    law: Law[...], evidence: Evidence, op: AnyOp, actor: Make | None, items: st.SearchStrategy[Item], most: int
) -> Callable[[object], None]:
    @settings(deadline=None)  # a policy may take its time
    @given(items=st.lists(items, min_size=1, max_size=most))
    def test(self: object, items: list[Item]) -> None:
        evidence(op, actor, items)

    test.__doc__ = law.says
    test.__name__ = test.__qualname__ = f"test_{law.name}"
    return test
