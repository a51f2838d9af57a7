"""``check_combinator``: one test per law that a combinator claims to obey.

A combinator is a function from streams to streams. The kit gives it streams of numbered items, runs what it makes under many
schedules, and looks at what arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tflow.combinators import check
from tflow.errors import PlanError
from tflow.laws import COMPLETENESS, FAIRNESS, FRESHNESS, NO_STARVATION, SURVIVAL, Law
from tflow.testing.evidence import EVIDENCE
from tflow.testing.sources import Subject


def check_combinator(
    build: Callable[..., Any],  # Any: from driver streams or a parallel one, to one stream or several
    *,
    laws: Collection[Law[...]],
    inputs: int = 1,
    parallel: bool = False,
    weights: Sequence[float] | None = None,
    bound: int = 0,
    in_flight: int = 1,
) -> type:
    """A class of tests, one per law that a combinator claims. Bind it to a name that pytest collects.

    ``build`` takes ``inputs`` driver streams of ``Item``, or one parallel stream if ``parallel``, and returns a stream, or
    several if it splits. ``weights`` are the shares for fairness; ``bound`` is how many items, or calls per shard, may be under
    way; ``in_flight`` is the number of calls per shard for laziness and freshness.

    >>> from tflow import Union
    >>> from tflow.laws import CONSERVATION, ORDER
    >>> from tflow.testing import check_combinator
    >>> TestMerge = check_combinator(lambda a, b: Union(a, b), inputs=2, laws=[CONSERVATION, ORDER])
    >>> TestMerge().test_conservation()
    """
    check.integer("check_combinator", "inputs", inputs, least=1)
    if not laws:
        raise PlanError("check_combinator: say which laws the combinator obeys.")
    for law in laws:
        check.instance("check_combinator", "every law", law, Law, "a law of tflow.laws")
        if law.name not in EVIDENCE:
            raise PlanError(f"check_combinator: the law {law.name!r} is not about combinators; these are: {', '.join(EVIDENCE)}.")
        if parallel and law in (FAIRNESS, NO_STARVATION, COMPLETENESS):
            raise PlanError(f"check_combinator: the law {law.name!r} is about driver streams; leave parallel= out.")
        if not parallel and law in (FRESHNESS, SURVIVAL):
            raise PlanError(f"check_combinator: the law {law.name!r} is about actors; say parallel=True.")
    if weights is not None and len(weights) != inputs:
        raise PlanError(f"check_combinator: there are {inputs} inputs and {len(weights)} weights.")
    subject = Subject(build, inputs, parallel, weights, bound, in_flight)
    tests = {}
    for law in laws:
        test = EVIDENCE[law.name](subject)
        test.__doc__, test.__name__ = law.says, f"test_{law.name}"
        tests[test.__name__] = test
    return type("TestCombinator", (), {"__doc__": "The laws of a combinator.", **tests})
