"""The drawing of a plan: its nodes as they were built, and the actors that they name.

Nothing here knows which nodes there are. It asks each for its label, its inputs, whether it is parallel and synchronous, and
which actors it names; so a node that somebody else adds is drawn like all others.
"""

from __future__ import annotations

from collections.abc import Iterator

from tflow.combinators import graph, hints, nodes
from tflow.combinators.actors import Actor, Actors, Resident
from tflow.combinators.runnable import Described
from tflow.combinators.signatures import actors_named_by, actors_within
from tflow.drawing.model import DrawnEdge, DrawnNode, Flow, Graph, Relation, Where
from tflow.drawing.stand_ins import Given, GivenShards
from tflow.types import AnyOp, LiveOp, StatefulLiveOp

REPLY = "reply"
"""In ``Op.sends``: to where an item came from."""
Related = tuple[Actors[object], Relation, str]


def of_plan(plan: Described, title: str = "") -> Graph:
    """What a stream or plan consists of, as a drawing."""
    order = graph.walk(plan.node)
    position = {node: index for index, node in enumerate(order)}
    carried = graph.elements(order)
    drawn = [
        DrawnNode(
            position[node],
            node.label,
            "learner" if node.host is not None else node.where,
            stream_type(node, hints.show(carried[node])),
            "input" if isinstance(node, (Given, GivenShards)) else "operator",
            node.parallel,
        )
        for node in order
    ]
    edges = [
        DrawnEdge(position[up], position[node], hints.show(carried[up]), flow_between(up, node))
        for node in order
        for up in node.inputs
    ]
    for label, where, stacked, related in actors_drawn(order):
        drawn.append(DrawnNode(len(drawn), label, where, "", "actors", stacked))
        edges += [DrawnEdge(source, drawn[-1].id, what, kind) for source, kind, what in related]
    return Graph(title or f"{type(plan).__name__} of {hints.show(carried[plan.node])}", tuple(drawn), tuple(edges))


def stream_type(node: nodes.Node, element: str) -> str:
    """The type of the stream that leaves a node, as a user would write it."""
    if node.parallel:
        return f"ParIter[{element}]" if node.sync else f"ParIter[{element}, Async]"
    return f"Iter[{element}, {'Sync' if node.sync else 'Async'}]"


def flow_between(up: nodes.Node, node: nodes.Node) -> Flow:
    """How items get from one node to the next."""
    if up.parallel and not node.parallel:
        return "async" if node.unpredictable else "barrier"
    return "sync" if up.sync else "async"


# --------------------------------------------------------------------------- actors


def actors_drawn(order: list[nodes.Node]) -> Iterator[tuple[str, Where, bool, tuple[tuple[int, Relation, str], ...]]]:
    """The actors, learners and other objects that get a box: label, place, whether there are several, and the nodes that have to
    do with them. Objects with which the same nodes have to do, in the same way, share a box."""
    gates = {each for node in order if node.parallel for each in own_actors(node) if isinstance(each, Resident)}
    found: dict[Actors[object], list[tuple[int, Relation, str]]] = {}
    for position, node in enumerate(order):
        for actors, kind, what in dict.fromkeys(related(node)):
            if actors not in gates:  # they only say when a stream may be asked, and belong to its box
                found.setdefault(actors, []).append((position, kind, what))
    shared: dict[tuple[object, ...], list[Actors[object]]] = {}
    for actors, relations in found.items():
        begins = all(order[position].parallel for position, _, _ in relations)
        if not begins:  # otherwise the box of the stream stands for its actors
            shared.setdefault((place_of(actors), actors.num, *relations), []).append(actors)
    for same in shared.values():
        where, first = place_of(same[0]), same[0]
        names = ", ".join(dict.fromkeys(actors.label for actors in same))
        label = f"{names}[{first.num}]" if first.num > 1 else names
        yield f"{label} (driver)" if where == "driver" else label, where, first.num > 1, tuple(found[first])


def place_of(actors: Actors[object]) -> Where:
    if isinstance(actors, Resident):
        return "driver"
    return "learner" if isinstance(actors, Actor) else "actor"


def own_actors(node: nodes.Node) -> list[Actors[object]]:
    """The actors in which a node works; for a parallel stream, its gate too."""
    if isinstance(node, GivenShards):
        return []  # whose they are is not known
    return [actors for actors in node.actors if actors not in node.sends_to]


def related(node: nodes.Node) -> Iterator[Related]:
    """The actors that a node has to do with, and how."""
    for actors in own_actors(node):
        yield actors, "use", ""
    if node.operator is not None:
        yield from related_to_operator(node, node.operator)


def related_to_operator(node: nodes.Node, op: AnyOp) -> Iterator[Related]:
    """What an operator sends to whom, if it says so; if not, it may send something to all actors that it names. Objects in the
    driver get no messages, they are used."""
    live = isinstance(op, (LiveOp, StatefulLiveOp))
    sends = op.sends or {}
    for field, what in sends.items():
        receivers = senders_of(node) if field == REPLY else actors_within(getattr(op, field, ()))
        for actors in receivers:
            yield actors, "message", what
    for actors in actors_named_by(op):
        if isinstance(actors, Resident):
            yield actors, "use", ""
        elif op.sends is None:
            yield actors, "message" if live else "use", ""


def senders_of(node: nodes.Node) -> Iterator[Actors[object]]:
    """The actors that the items of a node come from."""
    stack = list(reversed(node.inputs))
    while stack:
        up = stack.pop()
        if isinstance(up, nodes.ParSource):
            yield from (actors for actors in own_actors(up) if not isinstance(actors, Resident))
        else:
            stack.extend(reversed(up.inputs))
