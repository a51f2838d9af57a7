"""Questions about a whole plan: its nodes in order, what its edges carry, and the shards of its parallel parts.

Plans may be thousands of operators long, so nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tflow import sentences
from tflow.combinators import hints, nodes
from tflow.combinators.actors import Actors
from tflow.errors import PlanError

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


def elements(order: Iterable[nodes.Node]) -> dict[nodes.Node, hints.Hint]:
    """The element type of every edge of a plan, given ``walk`` of it."""
    found: dict[nodes.Node, hints.Hint] = {}
    for node in order:
        found[node] = node.element(tuple(found[up] for up in node.inputs))
    return found


def rewritten(sink: nodes.Node, change: Callable[[nodes.Node], nodes.Node]) -> nodes.Node:
    """The same plan with every node replaced by ``change(node)``, which is given nodes with their new inputs, each once."""
    new: dict[nodes.Node, nodes.Node] = {}
    for node in walk(sink):
        made = new[node] = change(node.with_inputs(new))
        _ = made.parallel, made.sync, made.deterministic  # asked while those of the inputs are known
    return new[sink]


def actors_in(sink: nodes.Node) -> list[Actors[object]]:
    """All actors that a plan names: those of its parallel streams, those it calls, those in the fields of its operators."""
    return [actors for node in walk(sink) for actors in node.actors]


# --------------------------------------------------------------------------- shards


def shards(node: nodes.Node) -> tuple[ShardOf, ...]:
    """The shards of a parallel node: which actor of which description each one is."""
    return tuple((source.of, index) for source, index in places(node, described))


def described(actors: Actors[object]) -> int:
    """How many actors there are when a run begins."""
    return actors.num


def places(node: nodes.Node, size: nodes.Size) -> list[nodes.Place]:
    """Where each shard of a parallel node begins, and which of the actors there it is; there are ``size(actors)`` of them."""
    return all_places(node, size)[node]


def all_places(sink: nodes.Node, size: nodes.Size) -> dict[nodes.Node, list[nodes.Place]]:
    """The same for every parallel node up to ``sink``, and for gathers the shards that they gather from."""
    found: dict[nodes.Node, list[nodes.Place]] = {}
    for node in walk(sink):
        known = [found[up] for up in node.inputs if up in found]
        if node.parallel:
            found[node] = node.places(known, size)
        elif isinstance(node, nodes.Gathering):
            found[node] = known[0]
    return found


def is_fed(node: nodes.Node) -> bool:
    """True if the shards of a parallel node are fed by the driver."""
    return any(source.inputs for source in par_sources(node))


def par_sources(node: nodes.Node) -> list[nodes.ParSource]:
    """Where the shards of a parallel node begin; none for a node on the driver."""
    return [each for each in in_actors(node) if isinstance(each, nodes.ParSource)]


def in_actors(node: nodes.Node) -> list[nodes.Node]:
    """A parallel node and all before it that run in the same actors; none for a node on the driver."""
    found: dict[nodes.Node, None] = {}
    stack = [node]
    while stack:
        each = stack.pop()
        if each.parallel:
            found[each] = None
        if each.parallel and not isinstance(each, nodes.ParSource):
            stack.extend(reversed(each.inputs))
    return list(found)


def check_gates(gather: nodes.Node) -> nodes.Node:
    """The same node. A gate counts what is asked of actors, so an item that is gathered must be one that was asked for."""
    inside = in_actors(gather.inputs[0])
    gated = [node for node in inside if node.gate is not None]
    for node in inside if gated else ():
        if not node.one_to_one or node.shows_more:
            raise PlanError(sentences.gated(node.what.partition("(")[0], gated[0].label))
    return gather


def made_asynchronous(node: nodes.Node) -> nodes.Node:
    """The first node that made a stream asynchronous: all before it is synchronous."""
    while late := [up for up in node.inputs if not up.sync]:
        node = late[0]
    return node
