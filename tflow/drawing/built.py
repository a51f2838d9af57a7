"""The drawing of a plan that exists: its nodes as they were built, types as far as annotations tell at run time."""

from __future__ import annotations

import inspect
from pathlib import Path

from tflow.combinators import graph, hints, nodes
from tflow.combinators.runnable import Described
from tflow.drawing.model import Edge, Graph, Node
from tflow.errors import PlanError
from tflow.loading import load_file


def load(target: str) -> Described:
    """The stream or plan called NAME in FILE; a function is called."""
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise PlanError(f"Expected FILE:NAME, such as plans.py:a3c, got {target!r}.")
    if not Path(file).is_file():
        raise PlanError(f"There is no file {file!r}.")
    module = load_file(Path(file))
    found: object = getattr(module, name, None)
    if found is None:
        known = sorted(key for key, value in vars(module).items() if isinstance(value, Described))
        raise PlanError(f"{file} has no {name!r}. Streams and plans in it: {', '.join(known) or 'none'}.")
    if callable(found) and not isinstance(found, Described):
        needed = [p.name for p in inspect.signature(found).parameters.values() if p.default is p.empty]
        if needed:
            raise PlanError(f"{target} needs {', '.join(needed)}; name a stream, a plan, or a function without arguments.")
        found = found()
    if not isinstance(found, Described):
        raise PlanError(f"{target} is a {type(found).__name__}; expected a stream or a plan.")
    return found


def of_plan(plan: Described, title: str = "") -> Graph:
    """What a stream or plan consists of, as a drawing."""
    order = graph.walk(plan.node)
    position = {node: index for index, node in enumerate(order)}
    carried = graph.elements(order)
    shown = {node: stream_type(node, hints.show(carried[node])) for node in order}
    drawn = tuple(Node(position[node], node.label, node.where, shown[node]) for node in order)
    edges = tuple(Edge(position[up], position[node], shown[up]) for node in order for up in node.inputs)
    return Graph(title or f"{type(plan).__name__} of {hints.show(carried[plan.node])}", drawn, edges)


def stream_type(node: nodes.Node, element: str) -> str:
    """The type of the stream that leaves a node, as a user would write it."""
    if node.parallel:
        return f"ParIter[{element}]" if node.sync else f"ParIter[{element}, Async]"
    return f"Iter[{element}, {'Sync' if node.sync else 'Async'}]"
