"""``print(plan)``: one line per node."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from tflow.combinators import graph, hints, nodes
from tflow.combinators.actors import Actor
from tflow.combinators.fingerprint import fingerprint


def placement(node: nodes.Node) -> Literal["actor", "driver", "learner"]:
    """Where a node runs: ``driver``, ``actor``, or ``learner`` for one that works in an actor it hands items to."""
    if node.parallel:
        return "actor"
    return "learner" if any(isinstance(getattr(node, each.name), Actor) for each in fields(node)) else "driver"


def describe(sink: nodes.Node, kind: str) -> str:
    """A table: position, operator, placement, element type, bounds; then whether the plan is deterministic."""
    order = graph.walk(sink)
    position = {node: index for index, node in enumerate(order)}
    carried = hints.elements(order)
    rows = [("", "operator", "where", "yields", "bounds")]
    for index, node in enumerate(order):
        before = [position[up] for up in node.inputs]
        inputs = "" if before in ([], [index - 1]) else f" <- {', '.join(map(str, before))}"
        rows.append((str(index), node.label + inputs, placement(node), hints.show(carried[node]), node.bounds))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"{kind} of {hints.show(carried[sink])}, fingerprint {fingerprint(sink)}", *lines, determinism(order)])


def determinism(order: list[nodes.Node]) -> str:
    """One sentence: deterministic, or what makes it not so."""
    reasons = [f"{index} {node.what} {node.unpredictable}" for index, node in enumerate(order) if node.unpredictable]
    return "deterministic" if not reasons else f"not deterministic: {'; '.join(reasons)}"
