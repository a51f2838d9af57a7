"""Rule ``tflow-linear``: a stream is an edge of a plan, and an edge has one end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mypy.nodes import CallExpr

from tflow import sentences
from tflow.mypy_plugin import proposals, tree
from tflow.mypy_plugin.edges import StreamEdge, Use
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.recorder import Fixes
from tflow.mypy_plugin.report import Checker, report

CODE = "tflow-linear"


def reporter(api: Checker) -> Callable[[StreamEdge, Use, Use], None]:
    """What to do about a stream that is consumed twice."""

    def twice(edge: StreamEdge, first: Use, second: Use) -> None:
        if first.place == second.place:
            said = in_every_turn(str(edge.label)) if first.turn != second.turn else in_every_call(str(edge.label))
            report(api, CODE, said, second.where)
        elif edge.branch is not None:
            split, index = edge.branch
            fixes: Fixes = partial(proposals.one_more_branch, api, split, second.where)
            said = sentences.branch_twice(label_of_split(split), index)
            report(api, CODE, said, second.where, first_use(first), fixes=fixes)
        else:
            fixes = partial(proposals.split, api, first.where, second.where)
            said = sentences.consumed_twice(str(edge.label), str(first.by), str(second.by))
            report(api, CODE, said, second.where, first_use(first), fixes=fixes)

    return twice


def first_use(use: Use) -> str:
    """Where to look."""
    return f"It is first consumed in line {use.where.line}, by {use.by}."


def in_every_turn(stream: str) -> str:
    """A loop consumes a stream that was made outside."""
    return (
        f"The stream {stream} is consumed in every turn of a loop, but was made once, outside. Make it inside the loop, or go "
        f"through its branches: `for branch in stream.split(n)`."
    )


def in_every_call(stream: str) -> str:
    """A function that is called several times consumes a stream that was made outside."""
    return (
        f"The stream {stream} is consumed in every call of this function, which is called more than once, but was made once, "
        "outside. Make it inside the function, or pass a branch to each call: `a, b = stream.split()`."
    )


def label_of_split(call: CallExpr) -> str:
    """As plans show it."""
    return Labels(lambda _: None, tree.Scopes()).call(call)
