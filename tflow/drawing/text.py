"""A drawing as text: what ``print(plan)`` shows, and the messages that operators send."""

from __future__ import annotations

from tflow.combinators.runnable import Described
from tflow.drawing.model import Graph


def text(plan: Described, graph: Graph) -> str:
    """One line per node, then one line per message: who sends what to whom."""
    sent = [edge for edge in graph.relations if edge.kind == "message"]
    wide = max((len(str(edge.source)) for edge in sent), default=0)
    lines = [
        f"{edge.source:<{wide}}  {graph.nodes[edge.source].label} -> {graph.nodes[edge.target].label}"
        + (f": {edge.shown}" if edge.shown else "")
        for edge in sorted(sent, key=lambda edge: edge.source)
    ]
    return "\n".join([str(plan), *(["messages"] if lines else []), *lines])
