"""A drawing as a table, like ``print(plan)``: one line per node."""

from __future__ import annotations

from tflow.drawing.model import Edge, Graph, Node


def text(graph: Graph) -> str:
    """Position, operator, placement, type, and where that is known the line; inputs only if they are not the line before."""
    groups = {group.id: group for group in graph.groups}
    rows = [("", "operator", "where", "yields", "line", "in")]
    for node in graph.nodes:
        line = "" if node.line is None else str(node.line)
        inside = groups[node.group].title if node.group is not None else ""
        yields = "" if node.kind == "end" else node.yields
        rows.append((str(node.id), node.label + arrows(node, graph.inputs[node.id]), node.where, yields, line, inside))
    rows = [tuple(cells) for cells in zip(*(column for column in zip(*rows, strict=True) if any(column[1:])), strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([graph.title, *lines])


def arrows(node: Node, edges: tuple[Edge, ...]) -> str:
    """Where the inputs of a node are, unless it goes without saying."""
    if [(edge.source, edge.mark) for edge in edges] in ([], [(node.id - 1, "")]):
        return ""
    return f" <- {', '.join(f'{edge.source} {edge.mark}'.rstrip() for edge in edges)}"
