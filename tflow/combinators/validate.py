"""What can be known to be wrong before a plan starts. Each mistake is one sentence that names the operators."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from weakref import WeakSet

from tflow import sentences
from tflow.combinators import graph, hints, nodes, suggestions, travel
from tflow.combinators.actors import Actors
from tflow.combinators.labels import label_of_operator
from tflow.errors import PlanError
from tflow.types import ActorOp, AnyOp, Async, LiveOp, OnActor, StatefulActorOp, StatefulLiveOp, Sync

VALID: WeakSet[nodes.Node] = WeakSet()
"""Plans never change, so what was right once stays right."""


def validate(sink: nodes.Node) -> None:
    """Raise ``PlanError`` for the first mistake found."""
    if sink in VALID:
        return
    order = graph.walk(sink)
    carried = hints.elements(order)
    _edges_are_used_once(order)
    _branches_are_used(order)
    for node in order:
        if isinstance(node, nodes.Take) and carried[node.up] is typing.Never:
            raise PlanError(f"{node.label} would never end: everything before it is drained, so there is nothing to count.")
        if isinstance(node, nodes.Every) and node.unit == "steps" and not any(isinstance(n, nodes.Gathering) for n in order):
            raise PlanError(
                f"{node.label} would never open: env steps are counted where items of actors arrive, and there are no items of "
                "actors in this plan."
            )
        if isinstance(node, nodes.Gathering):
            _gates_can_count(node)
        travel.check(node)
        if isinstance(node, (nodes.ForEach, nodes.CallActor)):
            _operator_fits(node, node.inputs[0], carried[node.inputs[0]])
    VALID.add(sink)


def _gates_can_count(gather: nodes.Gathering) -> None:
    """A gate counts what is asked of actors, so an item that is gathered must be one that was asked for."""
    inside = [node for node in graph.walk(gather.up) if node.parallel]
    gated = [node for node in inside if isinstance(node, nodes.FromActors) and node.gate is not None]
    several = (nodes.Filter, nodes.FlatMap, nodes.Flatten, nodes.Batch, nodes.Shuffle, nodes.Zip)
    for node in inside:
        if gated and isinstance(node, several):
            plain = node.what.removeprefix("par_")
            raise PlanError(f"{node.label}: {gated[0].what} limits how often it is asked. Gather first, then use {plain}.")


def _edges_are_used_once(order: list[nodes.Node]) -> None:
    consumer: dict[nodes.Node, nodes.Node] = {}
    for node in order:
        for up in node.inputs:
            if isinstance(up, nodes.Split):
                continue
            if up in consumer and isinstance(up, nodes.Branch):
                raise PlanError(sentences.branch_twice(up.split.label, up.index))
            if up in consumer:
                raise PlanError(sentences.consumed_twice(up.label, consumer[up].label, node.label))
            consumer[up] = node


def _branches_are_used(order: list[nodes.Node]) -> None:
    used: dict[nodes.Split, dict[int, nodes.Node]] = {}
    for node in order:
        if isinstance(node, nodes.Branch):
            branches = used.setdefault(node.split, {})
            if node.index in branches:
                raise PlanError(sentences.branch_twice(node.split.label, node.index))
            branches[node.index] = node
    for split, branches in used.items():
        missing = [index for index in range(split.branches) if index not in branches]
        if missing:
            raise PlanError(sentences.branch_unused(split.label, missing))


def _operator_fits(node: nodes.ForEach | nodes.CallActor, up: nodes.Node, given: hints.Hint) -> None:
    signature = hints.operator_signature(node.op)
    name = label_of_operator(node.op)
    if len(signature) == 3:
        wanted, _, required = signature
        if isinstance(required, typing.TypeVar):  # the class says nothing of it, but its kind does
            required = OnActor if isinstance(node.op, (ActorOp, StatefulActorOp)) else required
            required = Async if isinstance(node.op, (LiveOp, StatefulLiveOp)) else required
            required = getattr(node.op, "requires", required)  # an operator that knows it only when it is made
        wanted = getattr(node.op, "consumes", wanted)
        if isinstance(node, nodes.CallActor) and getattr(node.op, "asks_its_actor", False):
            wanted = getattr(node.actor.make, "consumes", wanted)
            if getattr(node.actor.make, "requires", Async) is Sync and not (node.up.sync and node.sync):
                raise PlanError(sentences.sync(name, graph.made_asynchronous(node).label))
        missing = hints.missing_columns(wanted, given, node.op)
        if missing:
            adder = suggestions.adder(missing)
            raise PlanError(sentences.columns(name, missing, up.label, hints.show(given), adder))
        if not hints.accepts(wanted, given):
            bridge = suggestions.bridge(node, wanted, given)
            raise PlanError(sentences.flow(name, hints.show(wanted), up.label, hints.show(given), bridge))
        _capability_fits(node, name, required)
    if isinstance(node.op, (ActorOp, StatefulActorOp)):
        _actor_fits(node, name)


def _capability_fits(node: nodes.ForEach | nodes.CallActor, name: str, required: hints.Hint) -> None:
    offered: type = Sync if node.up.sync else Async
    if node.parallel or isinstance(node, nodes.CallActor):
        offered = OnActor
    if hints.accepts(required, offered):
        return
    method = node.what.partition("(")[0]
    if hints.accepts(required, OnActor):
        raise PlanError(sentences.beside_actor(name, method))
    if offered is Async and hints.accepts(required, Sync):
        raise PlanError(sentences.sync(name, graph.made_asynchronous(node.up).label))
    raise PlanError(sentences.on_driver(name, method))


def _actor_fits(node: nodes.ForEach | nodes.CallActor, name: str) -> None:
    known = actor_class_of(node.op)
    wanted = known.__name__ if known is not None else _named_actor_of(node.op)
    if not wanted:
        return
    for source in graph.par_sources(node):
        if isinstance(source, nodes.Scatter) or (isinstance(source, nodes.FromActors) and source.opens):
            raise PlanError(
                f'"{name}" works beside a {wanted}, but the shards of {source.what} hold no actor of yours. Start from '
                f"from_actors(create_actors({wanted}), ...)."
            )
    owners = [node.actor] if isinstance(node, nodes.CallActor) else [actors for actors, _ in graph.shards(node)]
    for actors in owners:
        have = actors.actor_class()
        if have is not None and not (issubclass(have, known) if known else wanted in [each.__name__ for each in have.__mro__]):
            raise PlanError(sentences.other_actor(name, wanted, node.what.partition("(")[0], have.__name__))


def _named_actor_of(op: AnyOp) -> str:
    """The name of the class of actor that an actor operator asks for, if that is all it says: the class is imported later."""
    for base in (ActorOp, StatefulActorOp):
        for wanted in hints.base_arguments(type(op), base)[:1] if isinstance(op, base) else ():
            if isinstance(wanted, typing.ForwardRef):
                return wanted.__forward_arg__
    return ""


def actor_class_of(op: AnyOp) -> type | None:
    """The class of actor that an actor operator asks for, if it says so."""
    for base in (ActorOp, StatefulActorOp):
        if isinstance(op, base):
            wanted = hints.base_arguments(type(op), base)[:1]
            if wanted and inspect.isclass(wanted[0]) and not getattr(wanted[0], "_is_protocol", wanted[0] is typing.Any):
                return wanted[0]
    return None


def actors_of(op: AnyOp) -> list[Actors[object]]:
    """The actors that an operator names in its fields, also inside tuples, lists, dicts and dataclasses."""
    return list(actors_within(_fields_of(op)))


def _fields_of(value: object) -> list[object]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name) for name in slots if hasattr(value, name))]


def actors_within(value: object) -> Iterator[Actors[object]]:
    """The actors in a value: itself, or inside tuples, lists, dicts and dataclasses."""
    if isinstance(value, Actors):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from actors_within(item)
    elif isinstance(value, dict):
        yield from actors_within(list(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from actors_within(_fields_of(value))


def actors_in(sink: nodes.Node) -> list[Actors[object]]:
    """All actors that a plan names: those of its parallel streams, those it calls, those in the fields of its operators."""
    found: list[Actors[object]] = []
    for node in graph.walk(sink):
        match node:
            case nodes.FromActors(of=of, gate=gate):
                found += [of] if gate is None else [of, gate]
            case nodes.ParSource(of=of):
                found.append(of)
            case nodes.CallActor(actor=actor, op=op):
                found += [actor, *actors_of(op)]
            case nodes.ForEach(op=op):
                found += actors_of(op)
    return found
