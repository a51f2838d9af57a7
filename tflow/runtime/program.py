"""The part of a plan that runs in one shard, cut out as a plan of its own that can travel to the actor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tflow.combinators import graph, nodes
from tflow.runtime.border import Parcel


def counted(places: Mapping[nodes.Node, list[nodes.Place]]) -> dict[nodes.Node, int]:
    """How many shards each node has."""
    return {node: len(found) for node, found in places.items()}


def localised(sink: nodes.Node, shard: int, positions: dict[nodes.Node, int], counts: Mapping[nodes.Node, int]) -> nodes.Node:
    """The part of a parallel plan that runs in one shard, given how many shards each of its nodes has."""
    order = [node for node in graph.walk(sink) if node.parallel]
    asked = {sink: shard}
    """Which shard of each node takes part."""
    reads: dict[nodes.Node, list[nodes.Node]] = {}
    for node in reversed(order):
        if node in asked:
            read = node.reads(asked[node], [counts[up] for up in node.inputs if up in counts])
            asked.update(read)
            reads[node] = [up for up, _ in read]
    made: dict[nodes.Node, nodes.Node] = {}
    for node in order:
        if node in asked:
            inside = made[reads[node][0]] if node.arranges else node.inside() or node.with_inputs(made)
            made[node] = inside if node.arranges else marked(inside, node, positions)
    return made[sink]


def marked(copy: nodes.Node, original: nodes.Node, positions: dict[nodes.Node, int]) -> nodes.Node:
    """A copy for an actor, which knows what its original is called and where in the plan it stands."""
    return replace(copy, position=positions[original], shown_as=original.label)


def packed(program: nodes.Node, *, in_process: bool = False) -> Parcel[tuple[nodes.Node, ...]]:
    """A program for a journey; its sink is the last node. Inputs come first, so that packing a long chain does not recurse."""
    return Parcel(tuple(graph.walk(program)), in_process=in_process)
