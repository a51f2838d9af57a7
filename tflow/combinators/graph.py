"""Questions about a whole plan: its nodes in order, and the shards of its parallel parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from tflow.combinators import nodes
from tflow.combinators.actors import Actors

ShardOf = tuple[Actors[object], int]
"""Which actor of which description."""
Size = Callable[[Actors[object]], int]
"""How many actors of a description there are."""


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


def rewritten(sink: nodes.Node, change: Callable[[nodes.Node], nodes.Node]) -> nodes.Node:
    """The same plan with every node replaced by ``change(node)``, which is given nodes with their new inputs, each once."""
    new: dict[nodes.Node, nodes.Node] = {}
    for node in walk(sink):
        inputs = {each.name: _replaced(getattr(node, each.name), new) for each in fields(node)}
        moved = {name: value for name, value in inputs.items() if value is not getattr(node, name)}
        new[node] = change(replace(node, **moved) if moved else node)
    return new[sink]


def _replaced(value: object, new: dict[nodes.Node, nodes.Node]) -> Any:  # Any: the field of a node, whatever it holds
    if isinstance(value, nodes.Node):
        return new[value]
    if isinstance(value, tuple) and any(isinstance(item, nodes.Node) and new[item] is not item for item in value):
        return tuple(new[item] for item in value)
    return value


def shards(node: nodes.Node) -> tuple[ShardOf, ...]:
    """The shards of a parallel node: which actor of which description each one is."""
    return tuple((source.of, index) for source, index in places(node, described))


def described(actors: Actors[object]) -> int:
    """How many actors there are when a run begins."""
    return actors.num


def places(node: nodes.Node, size: Size) -> list[tuple[nodes.ParSource, int]]:
    """Where each shard of a parallel node begins, and which of the actors there it is; there are ``size(actors)`` of them."""
    match node:
        case nodes.ParSource(of=of):
            return [(node, index) for index in range(size(of))]
        case nodes.ParUnionOf(streams=streams):
            return [place for stream in streams for place in places(stream, size)]
        case nodes.SelectShards(up=up, chosen=chosen):
            every = places(up, size)
            return [every[index] for index in chosen if index < len(every)]
        case _:
            return places(node.inputs[0], size)


def is_fed(node: nodes.Node) -> bool:
    """True if the shards of a parallel node are fed by the driver."""
    return any(isinstance(source, nodes.Scatter) for source in par_sources(node))


def par_sources(node: nodes.Node) -> list[nodes.ParSource]:
    """Where the shards of a parallel node begin; none for a node on the driver."""
    if isinstance(node, nodes.ParSource):
        return [node]
    return [source for up in node.inputs if node.parallel for source in par_sources(up)]


def made_asynchronous(node: nodes.Node) -> nodes.Node:
    """The first node that made a stream asynchronous: all before it is synchronous."""
    late = [up for up in node.inputs if not up.sync]
    return made_asynchronous(late[0]) if late else node
