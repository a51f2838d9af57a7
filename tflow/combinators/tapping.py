"""Callbacks: a look at the items of an operator in a plan that is there already."""

from __future__ import annotations

from collections.abc import Callable

from tflow.combinators import check, graph, nodes
from tflow.combinators.signatures import signature_of
from tflow.errors import PlanError
from tflow.sentences import did_you_mean
from tflow.types import Op


def tapped(sink: nodes.Node, at: type | str, see: Callable[..., object]) -> nodes.Node:
    """The plan with a tap behind every operator that ``at`` means."""
    check.function("tapped", see)
    given: object = at
    if not isinstance(given, (str, type)):
        raise PlanError(f"tapped: say at which operator: its class, such as TrainOneStep, or its name; got {at!r}.")
    if not any(is_meant(node, at) for node in graph.walk(sink)):
        raise PlanError(_nobody(sink, at))
    return graph.rewritten(sink, lambda node: nodes.Tap(node, see) if is_meant(node, at) else node)


def is_meant(node: nodes.Node, at: type | str) -> bool:
    """True for operators of a class, or of that name: as the plan is printed, one that they were given, or that of what they
    apply or are."""
    if not node.is_edge:
        return False
    if isinstance(at, type) and issubclass(at, Op):
        return isinstance(node.operator, at)
    return (at if isinstance(at, str) else at.__name__) in (node.what, *_names(node))


def _names(node: nodes.Node) -> list[str]:
    op, own = node.operator, (node.shown_as or node.what).partition("(")[0]
    return [name for name in (node.name, own, signature_of(op).label if op is not None else None) if name]


def _nobody(sink: nodes.Node, at: type | str) -> str:
    wanted = at if isinstance(at, str) else at.__name__
    names = list(dict.fromkeys(_names(node)[-1] for node in graph.walk(sink)))
    guess = did_you_mean(wanted, names, most=1)
    return f"tapped: the plan has no operator {wanted}; it has {', '.join(names)}.{guess}"
