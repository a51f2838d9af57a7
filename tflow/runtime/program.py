"""The part of a plan that runs in one shard, cut out as a plan of its own that can travel to the actor."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflow.combinators import graph, nodes
from tflow.combinators.methods import portable


@dataclass(frozen=True, eq=False)
class Pulled(nodes.Node):
    """What ``FromActors`` is inside an actor."""

    pull: nodes.Function
    opens: bool


@dataclass(frozen=True, eq=False)
class Fed(nodes.Node):
    """Items that the driver sends along with the call."""


def localised(node: nodes.Node, shard: int, positions: dict[nodes.Node, int], size: graph.Size = graph.described) -> nodes.Node:
    """The part of a parallel plan that runs in one shard, as a plan of its own that can travel to the actor."""
    match node:
        case nodes.FromActors(pull=pull, opens=opens):
            return marked(Pulled(portable(pull), opens), node, positions)
        case nodes.Scatter():
            return marked(Fed(), node, positions)
        case nodes.SelectShards(up=up, chosen=chosen):
            present = [index for index in chosen if index < len(graph.places(up, size))]
            return localised(up, present[shard], positions, size)
        case nodes.ParUnionOf(streams=streams):
            for stream in streams:
                count = len(graph.places(stream, size))
                if shard < count:
                    return localised(stream, shard, positions, size)
                shard -= count
            raise IndexError(shard)
        case nodes.Zip(left=left, right=right):
            sides = localised(left, shard, positions, size), localised(right, shard, positions, size)
            return marked(replace(node, left=sides[0], right=sides[1]), node, positions)
        case nodes.Unary(up=up):
            return marked(replace(node, up=localised(up, shard, positions, size)), node, positions)
        case _:
            raise TypeError(node)


def marked(copy: nodes.Node, original: nodes.Node, positions: dict[nodes.Node, int]) -> nodes.Node:
    """A copy for an actor, which knows what its original is called and where in the plan it stands."""
    return replace(copy, position=positions[original], shown_as=original.label)
