"""Questions about a whole plan: its nodes in order, and the shards of its parallel parts."""

from __future__ import annotations

from tflow.combinators import nodes
from tflow.combinators.actors import Actors

ShardOf = tuple[Actors[object], int]
"""Which actor of which description."""


def walk(sink: nodes.Node) -> list[nodes.Node]:
    """Every node of the plan once, inputs before consumers. A node's index here is its position."""
    order: dict[nodes.Node, None] = {}
    stack: list[tuple[nodes.Node, bool]] = [(sink, False)]
    while stack:
        node, ready = stack.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
            continue
        stack.append((node, True))
        stack.extend((up, False) for up in reversed(node.inputs))
    return list(order)


def shards(node: nodes.Node) -> tuple[ShardOf, ...]:
    """The shards of a parallel node: which actor of which description each one is."""
    match node:
        case nodes.ParSource(of=of):
            return tuple((of, index) for index in range(of.num))
        case nodes.ParUnionOf(streams=streams):
            return tuple(shard for stream in streams for shard in shards(stream))
        case nodes.SelectShards(up=up, chosen=chosen):
            every = shards(up)
            return tuple(every[index] for index in chosen)
        case _:
            return shards(node.inputs[0])


def is_fed(node: nodes.Node) -> bool:
    """True if the shards of a parallel node are fed by the driver."""
    return any(isinstance(source, nodes.Scatter) for source in par_sources(node))


def par_sources(node: nodes.Node) -> list[nodes.ParSource]:
    """Where the shards of a parallel node begin; none for a node on the driver."""
    if isinstance(node, nodes.ParSource):
        return [node]
    return [source for up in node.inputs if node.parallel for source in par_sources(up)]
