"""The drawing of a plan that exists: its nodes as they were built, types as far as annotations tell at run time."""

from __future__ import annotations

from tflow.combinators import graph, hints, nodes
from tflow.combinators.describe import placement
from tflow.combinators.runnable import Described
from tflow.drawing.model import Edge, Graph, Node, Where

PLACES: dict[str, Where] = {"actor": "actor", "driver": "driver", "learner": "learner"}


def of_plan(plan: Described, title: str = "") -> Graph:
    """What a stream or plan consists of, as a drawing."""
    order = graph.walk(plan.node)
    position = {node: index for index, node in enumerate(order)}
    carried = hints.elements(order)
    shown = {node: stream_type(node, hints.show(carried[node])) for node in order}
    drawn = tuple(Node(position[node], node.label, PLACES[placement(node)], shown[node]) for node in order)
    edges = tuple(Edge(position[up], position[node], shown[up]) for node in order for up in node.inputs)
    return Graph(title or f"{type(plan).__name__} of {hints.show(carried[plan.node])}", drawn, edges)


def stream_type(node: nodes.Node, element: str) -> str:
    """The type of the stream that leaves a node, as a user would write it."""
    if node.parallel:
        return f"ParIter[{element}]" if node.sync else f"ParIter[{element}, Async]"
    return f"Iter[{element}, {'Sync' if node.sync else 'Async'}]"
