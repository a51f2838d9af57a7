"""``check_laws``: one test per law that applies to an operator.

The operator is called by hand, as a run would call it, in a process whose settings, dice, clock and globals the kit watches; for
the laws of travel and chunking it also works inside an actor of the simulator, and in a second process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.control import current_build_context

from tflow.combinators import check, hints
from tflow.combinators.columns import AddColumns, Widen
from tflow.combinators.signatures import type_arguments
from tflow.errors import PlanError
from tflow.laws import (
    BATCH_LAWS,
    BOUNDED_MEMORY,
    CHUNKING,
    EQUIVALENCE,
    LEFTOVERS,
    MESSAGES,
    OPERATOR_LAWS,
    RELEASE,
    TYPING,
    UNOPENED,
    Law,
    LawBroken,
)
from tflow.testing import proofs
from tflow.testing.bench import BESIDE, LIVE, STATEFUL, Candidate, Item, Make, fresh
from tflow.testing.values import close, unquoted
from tflow.types import AnyOp, Columnar, Op, RefOp, Stateless

Evidence = Callable[[Candidate, list[Item]], None]
Fn = Callable[[Item], object]
PORTION = 3
"""A property of one operator takes one in so many of the examples that hypothesis would try: it has many properties."""


class Mapped(Stateless[Any, Any]):  # Any: whatever the function takes and returns
    """A plain function as an operator."""

    def __init__(self, fn: Fn) -> None:
        self.fn = fn

    def apply(self, item: Item, /) -> Item:
        return self.fn(item)


def declared_result(op: AnyOp) -> hints.Hint:
    """The element type that the operator's class, or the annotation of its function, declares for its results."""
    return hints.result_of(op.fn) if isinstance(op, Mapped) else unquoted(type_arguments(op)[1], type(op))


def consumes_batches(op: AnyOp) -> bool:
    consumed = type_arguments(op)[0]
    return isinstance(op, Widen) or hints.is_kind(getattr(consumed, "__origin__", consumed), Columnar)


def applies(law: Law[...], op: AnyOp) -> bool:
    """Whether the law says anything about operators of this kind."""
    if law in (RELEASE, BOUNDED_MEMORY):
        return not op.batching
    if law is LEFTOVERS:
        return isinstance(op, STATEFUL)
    if law is CHUNKING:
        return not isinstance(op, LIVE)
    if law is TYPING:
        return isinstance(op, Widen) or declared_result(op) not in (hints.UNKNOWN, Any)  # Any: said by the user
    if law is MESSAGES:
        return isinstance(op, LIVE)
    if law is UNOPENED:
        return isinstance(op, RefOp)
    if law in BATCH_LAWS:
        return consumes_batches(op)
    return True


def equivalent_to(like: Callable[[list[Item]], list[object]], tolerance: float) -> Evidence:
    def is_equivalent(candidate: Candidate, items: list[Item]) -> None:
        expected, shown = like(fresh(items)), proofs.shown(candidate, fresh(items))
        if not close(shown, expected, tolerance):
            EQUIVALENCE.check(shown, expected)
            raise LawBroken(f"equivalence: {EQUIVALENCE.says} But it shows {shown} instead of {expected}.")

    return is_equivalent


def as_operator(op: AnyOp | AddColumns[Any, Any, Any] | Fn) -> AnyOp:  # Any: whatever columns it reads and adds
    """What is to be checked, as an operator."""
    if isinstance(op, AddColumns):
        return cast("AnyOp", Widen(op))
    if callable(op) and not isinstance(op, (type, Op)):
        return cast("AnyOp", Mapped(op))
    return check.operator("check_laws", op)


def check_laws(
    op: AnyOp | AddColumns[Any, Any, Any] | Fn,  # Any: whatever columns it reads and adds
    *,
    items: st.SearchStrategy[Item],
    actor: Make | None = None,
    like: Callable[[list[Item]], list[object]] | None = None,
    tolerance: float = 1e-6,
    max_items: int = 8,
    laws: Collection[Law[...]] = OPERATOR_LAWS,
) -> type:
    """A class of tests, one per law that applies to the operator. Bind it to a name that pytest collects.

    Args:
        op: An operator, an ``AddColumns``, or a plain function.
        items: Makes what the operator consumes.
        actor: Makes the actor that an ``ActorOp`` works beside.
        like: A plain function from a list of items to the list of results that are expected.
        tolerance: How far numbers may be from those of ``like``, relatively or absolutely.
        max_items: The longest list of items that is tried.
        laws: Those to check, as far as they apply; default all.

    >>> from hypothesis import strategies as st
    >>> from tflow import Stateless
    >>> from tflow.testing import check_laws
    >>> class Double(Stateless[int, int]):
    ...     def apply(self, item: int, /) -> int:
    ...         return 2 * item
    >>> TestDouble = check_laws(Double(), items=st.integers())
    >>> [name for name in dir(TestDouble) if name.startswith("test_")]  # doctest: +NORMALIZE_WHITESPACE
    ['test_bounded_memory', 'test_chunking', 'test_error_propagation', 'test_finiteness', 'test_no_traces', 'test_ownership',
     'test_purity', 'test_release', 'test_repeatability', 'test_resumption', 'test_travel', 'test_typing']
    >>> TestDouble().test_purity()
    """
    made = as_operator(op)
    name = getattr(op, "__name__", type(op).__name__)
    check.instance("check_laws", "items", items, st.SearchStrategy, "a strategy of hypothesis, such as st.integers()")
    check.integer("check_laws", "max_items", max_items, least=1)
    check.at_least_zero("check_laws", "tolerance", tolerance)
    for law in laws:
        check.instance("check_laws", "every law", law, Law, "a law of tflow.laws")
        if law not in OPERATOR_LAWS:
            names = ", ".join(each.name for each in OPERATOR_LAWS)
            raise PlanError(f"check_laws: the law {law.name!r} is not about operators; these are: {names}.")
    if isinstance(made, BESIDE) and actor is None:
        raise PlanError(f"check_laws: {name} works beside an actor; say how to make one with actor=.")
    candidate = Candidate.of(made, actor)
    chosen: dict[Law[...], Evidence] = {law: EVIDENCE[law.name] for law in OPERATOR_LAWS if law in laws and applies(law, made)}
    tests = {f"test_{law.name}": _test(law, chosen, candidate, items, max_items) for law in chosen}
    if like is not None:
        chosen[EQUIVALENCE] = equivalent_to(like, tolerance)
        tests["test_equivalence"] = _test(EQUIVALENCE, chosen, candidate, items, max_items)
    return type(f"Test{name}", (), {"__doc__": f"The laws of {name}.", **tests})


def _test(
    law: Law[...], evidence: Mapping[Law[...], Evidence], candidate: Candidate, items: st.SearchStrategy[Item], most: int
) -> Callable[[object], None]:
    examples, lists = max(1, settings().max_examples // PORTION), st.lists(items, min_size=1, max_size=most)
    phases = settings().phases
    if law in (BOUNDED_MEMORY, MESSAGES):  # what depends on the item shows only where there are many
        lists |= st.lists(items, min_size=proofs.MANY, max_size=proofs.MANY)
    if law is BOUNDED_MEMORY:  # a few, which take long, and would take minutes to make small
        examples, phases = max(2, examples // 10), [phase for phase in phases if phase is not Phase.shrink]

    unhealthy = [HealthCheck.data_too_large, HealthCheck.too_slow]

    @settings(deadline=None, max_examples=examples, phases=phases, suppress_health_check=unhealthy)
    @given(items=lists)
    def test(self: object, items: list[Item]) -> None:
        error = broken(evidence[law], candidate, items)
        if error is not None:
            error.__context__ = None  # from one place, whatever led here: hypothesis tells failures apart by where they come from
            if current_build_context().is_final and (first := cause(law, evidence, candidate, items)):
                error.add_note(first)
            raise error

    test.__doc__ = law.says
    test.__name__ = test.__qualname__ = f"test_{law.name}"
    return test


def broken(evidence: Evidence, candidate: Candidate, items: list[Item]) -> Exception | None:
    """What is wrong, if anything is; an operator that raises says so itself."""
    try:
        evidence(candidate, items)
    except LawBroken as error:
        return LawBroken(str(error))
    except Exception as error:
        error.add_note(f"{type(candidate.op).__name__} was given {items!r:.300}.")
        return error.with_traceback(None)
    finally:
        candidate.surroundings.restore()
    return None


def cause(law: Law[...], evidence: Mapping[Law[...], Evidence], candidate: Candidate, items: list[Item]) -> str:
    """The first of the laws before this one that the same items break, or under which the operator raises."""
    for earlier in evidence:
        if earlier is law:
            return ""
        error = broken(evidence[earlier], candidate, items)
        if error is not None:
            does = "break" if isinstance(error, LawBroken) else f"make the operator raise {type(error).__name__} under"
            name = earlier.name
            return f"The same items {does} the law {name!r}, which comes first: see to test_{name}, then look again."
    return ""


EVIDENCE: Mapping[str, Evidence] = proofs.EVIDENCE
