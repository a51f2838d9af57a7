"""``@plan`` and ``@flow``: say that a function builds a plan, or a part of one. They change nothing at run time.

Type checkers see the function with its own signature. The mypy plugin and ``tflow check`` know from the mark that every stream
in the function belongs to one plan: each must be consumed, and only once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tflow.combinators.runnable import Plan

MakesPlan = TypeVar("MakesPlan", bound="Callable[..., Plan[object]]")
MakesFlow = TypeVar("MakesFlow", bound=Callable[..., object])
MARK = "__tflow_mark__"


def plan(fn: MakesPlan) -> MakesPlan:
    """Mark a function that builds a whole plan.

    >>> from tflow import Metrics, Plan, plan
    >>> @plan
    ... def train() -> Plan[Metrics]: ...
    """
    setattr(fn, MARK, "plan")
    return fn


def flow(fn: MakesFlow) -> MakesFlow:
    """Mark a function that builds a part of a plan out of streams that it is given, or makes.

    >>> from tflow import Iter, flow
    >>> @flow
    ... def doubled(numbers: Iter[int]) -> Iter[int]:
    ...     return numbers.map(lambda x: 2 * x)
    """
    setattr(fn, MARK, "flow")
    return fn
