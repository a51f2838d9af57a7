"""What can be known to be wrong before a plan starts. Each mistake is one sentence that names the operators."""

from __future__ import annotations

from weakref import WeakSet

from tflow import sentences
from tflow.combinators import graph, hints, nodes, suggestions, travel
from tflow.combinators.signatures import signature_of
from tflow.errors import PlanError
from tflow.types import AnyOp, Async, OnActor, Signature, Sync

VALID: WeakSet[nodes.Node] = WeakSet()
"""Plans never change, so what was right once stays right."""


def validate(sink: nodes.Node) -> None:
    """Raise ``PlanError`` for the first mistake found."""
    if sink in VALID:
        return
    order = graph.walk(sink)
    carried = graph.elements(order)
    _edges_are_used_once(order)
    _branches_are_used(order)
    for node in order:
        _inputs_are_in_one_place(node)
        node.check(tuple(carried[up] for up in node.inputs), order)
        if node.gathers:
            graph.check_gates(node)
        travel.check(node)
        if node.operator is not None and node.inputs:
            _operator_fits(node, node.operator, node.inputs[0], carried[node.inputs[0]])
    travel.pack(order)
    VALID.add(sink)


def _inputs_are_in_one_place(node: nodes.Node) -> None:
    """Only a gather brings a parallel stream to the driver, and what reads several inside actors finds all of them there."""
    inside = [up for up in node.inputs if up.parallel]
    if inside and not node.parallel and not node.gathers:
        raise PlanError(
            f"{node.label} runs on the driver, but {inside[0].label} before it is a parallel stream. Gather it first."
        )
    if node.parallel and not node.arranges and len(inside) > 1:
        first, *others = [graph.shards(up) for up in inside]
        if any(other != first for other in others):
            raise PlanError(f"{node.label}: its inputs run on different actors. Gather them first.")


def _edges_are_used_once(order: list[nodes.Node]) -> None:
    consumer: dict[nodes.Node, nodes.Node] = {}
    for node in order:
        for up in node.inputs:
            if not up.is_edge:
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


def _operator_fits(node: nodes.Node, op: AnyOp, up: nodes.Node, given: hints.Hint) -> None:
    signature = signature_of(op, given, node.host)
    name = signature.label
    have, reads = hints.columns_of(given), signature.reads or hints.columns_of(signature.consumes) or ()
    missing = [] if have is None else [column for column in reads if column not in have]
    if missing:
        adder = suggestions.adder(missing)
        raise PlanError(sentences.columns(name, missing, up.label, hints.show(given), adder))
    if not hints.accepts(signature.consumes, given):
        bridge = suggestions.bridge(node, op, signature.consumes, given)
        raise PlanError(sentences.flow(name, hints.show(signature.consumes), up.label, hints.show(given), bridge))
    _capability_fits(node, signature)
    if signature.actor is not None:
        _actor_fits(node, name, signature.actor)


def _capability_fits(node: nodes.Node, signature: Signature) -> None:
    """What an operator requires is offered: by the actor it runs beside, or by the stream."""
    up, name, required = node.inputs[0], signature.label, signature.requires
    if node.where == "actor":
        if not hints.accepts(required, OnActor):
            raise PlanError(sentences.on_driver(name, node.what.partition("(")[0]))
        if signature.needs_sync and not (up.sync and node.sync):
            raise _not_fresh(name, node)
        return
    if hints.accepts(required, Sync if up.sync else Async):
        if signature.needs_sync and not up.sync:
            raise _not_fresh(name, up)
        return
    method = node.what.partition("(")[0]
    if hints.accepts(required, OnActor):
        raise PlanError(sentences.beside_actor(name, method))
    if hints.accepts(required, Sync):
        raise _not_fresh(name, up)
    raise PlanError(sentences.on_driver(name, method))


def _not_fresh(name: str, stream: nodes.Node) -> PlanError:
    culprit = graph.made_asynchronous(stream)
    said = sentences.sync if culprit.inputs else sentences.stored
    return PlanError(said(name, culprit.label))


def _actor_fits(node: nodes.Node, name: str, actor: type | str) -> None:
    wanted = actor if isinstance(actor, str) else actor.__name__
    for source in () if node.host is not None else graph.par_sources(node):
        if not source.holds_actors:
            raise PlanError(sentences.no_actor(name, wanted))
    owners = [node.host] if node.host is not None else [actors for actors, _ in graph.shards(node)] if node.parallel else []
    for actors in owners:
        have = actors.actor_class()
        if have is None:
            continue
        kinds: list[object] = [each.__name__ if isinstance(actor, str) else each for each in have.__mro__]
        if actor not in kinds:
            raise PlanError(sentences.other_actor(name, wanted, node.what.partition("(")[0], have.__name__))
