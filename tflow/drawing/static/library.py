"""What the functions and classes of tflow add to a drawing: the same nodes, with the same labels, as they add to a plan."""

from __future__ import annotations

from collections.abc import Callable

from mypy import nodes as m

from tflow.drawing.static import labels
from tflow.drawing.static.arguments import Call
from tflow.drawing.static.draft import Input
from tflow.drawing.static.values import UNKNOWN, Callee, Carried, Constant, Described, Stream, Value, streams_in

Made = Callable[[Call], Value]


def source(label: str) -> Made:
    """A stream that shows none of its arguments; those that are streams flow into it."""

    def draw(call: Call) -> Value:
        return call.draft.add(label, call.edges(), call.carried, line=call.line)

    return draw


def from_range(call: Call) -> Value:
    return call.draft.add(f"from_range({call.label(0, 'count', labels.number)})", [], call.carried, line=call.line)


def from_items(call: Call) -> Value:
    """Items are not shown, except a range by its end."""
    given = call.argument(0, "items")
    label = "from_items(...)"
    if given is not None and isinstance(given.expr, m.CallExpr) and given.expr.args:
        callee = given.expr.callee
        if isinstance(callee, m.RefExpr) and callee.fullname == "builtins.range":
            end = given.expr.args[0 if len(given.expr.args) == 1 else 1]
            label = f"from_range({labels.number(call.reader, end, call.reader.value(end))})"
    return call.draft.add(label, call.edges(), call.carried, line=call.line)


def from_iterable(call: Call) -> Value:
    label = f"from_iterable({call.label(0, 'make', labels.function)})"
    return call.draft.add(label, call.edges(), call.carried, line=call.line)


def from_actors(call: Call) -> Value:
    who, pull = call.label(0, "actors", labels.actor), call.label(1, "pull", labels.function)
    return call.draft.add(f"from_actors({who}, {pull})", call.edges(), call.carried, line=call.line)


def over(title: str, argument: str) -> Made:
    """A parallel stream that has a name of its own, over actors."""

    def draw(call: Call) -> Value:
        label = f"{title}({call.label(0, argument, labels.actor)})"
        return call.draft.add(label, call.edges(), call.carried, line=call.line)

    return draw


def behind(label: str) -> Made:
    """One node behind the stream that is the first argument."""

    def draw(call: Call) -> Value:
        return call.draft.add(label, stream_into(call), call.carried, line=call.line)

    return draw


def stream_into(call: Call) -> list[Input]:
    """The stream that is the first argument, as an input; one of several, if that is what it is."""
    given = call.argument(0, "stream")
    return [] if given is None else call.draft.edges(given.value)


def select(call: Call) -> Value:
    """Batches of one policy, then without those in which it did nothing."""
    policy = call.label(1, "policy", labels.number)
    chosen = call.draft.add("for_each(OfPolicy)", stream_into(call), call.carried, line=call.line)
    return call.draft.add(f"Select({policy})", call.draft.edges(chosen), call.carried, line=call.line)


def concat_batches(call: Call) -> Value:
    inputs = stream_into(call)
    before = call.draft.common(inputs)
    exact = call.constant("exact") is True
    grouped = before.but(element=f"list[{before.element}]", offers="Async" if exact else None)
    rows = call.label(1, "rows", labels.number)
    batches = call.draft.add(f"batch({rows})", inputs, grouped, line=call.line)
    return call.draft.add(f"ConcatBatches({rows})", call.draft.edges(batches), call.carried, line=call.line)


def aggregate(call: Call) -> Value:
    """Items are dealt to fresh actors, which group and concatenate them."""
    draft, inputs = call.draft, stream_into(call)
    element = draft.common(inputs).element
    steps = [
        ("gather_async()", Carried("Iter", element, "Async")),
        (f"repartition({call.label(1, 'aggregators', labels.number)})", Carried("ParIter", element, "Async")),
        (f"par_batch({call.label(2, 'batches', labels.number)})", Carried("ParIter", f"list[{element}]", "Async")),
        ("par_map(concat)", call.carried),
    ]
    made: Stream | None = None
    for label, carried in steps:
        made = draft.add(label, inputs if made is None else draft.edges(made), carried, line=call.line)
    return made or UNKNOWN


# --------------------------------------------------------------------------- actors


def actors(call: Call) -> Value:
    """Actors that are named, or called after what makes them."""
    given = call.argument(0, "make")
    make = None if given is None else labels.function(call.reader, given.expr, given.value)
    return labels.made_actors(call.named("name"), make, "actors") or UNKNOWN


def of_class(call: Call) -> Value:
    """Actors made by their class: the name is an argument."""
    name = call.value(2, "name")
    return Described(str(name.value)) if isinstance(name, Constant) else UNKNOWN


def usual_actors(name: str) -> Made:
    """Actors that have a name if nobody gives them another."""

    def read(call: Call) -> Value:
        return labels.made_actors(call.named("name"), None, name) or UNKNOWN

    return read


def evaluation_workers(call: Call) -> Value:
    workers = call.label(0, "workers", labels.actor)
    return Described(f"{workers}.evaluation")


def partial(call: Call) -> Value:
    """A function with some arguments filled in; streams among them come along."""
    return Callee("partial", captured=tuple(given.value for given in call.arguments if streams_in(given.value)))


LIBRARY: dict[str, Made] = {
    "tflow.combinators.create.from_items": from_items,
    "tflow.combinators.create.from_range": from_range,
    "tflow.combinators.create.from_iterable": from_iterable,
    "tflow.combinators.create.from_actors": from_actors,
    "tflow.combinators.create.par_from_items": source("par_from_items(...)"),
    "tflow.combinators.create.par_from_range": source("par_from_range(...)"),
    "tflow.combinators.create.par_from_iterables": source("par_from_iterables(...)"),
    "tflow.combinators.union.Union": source("Union()"),
    "tflow.combinators.union.ParUnion": source("ParUnion()"),
    "tflow.rl.rollout.worker_spec.ParallelRollouts": over("ParallelRollouts", "workers"),
    "tflow.rl.rollout.evaluation.ParallelEvaluations": over("ParallelEvaluations", "workers"),
    "tflow.rl.replay.replay_spec.ParallelReplay": over("ParallelReplay", "replay"),
    "tflow.rl.rollout.worker_spec.Select": select,
    "tflow.rl.replay.replay_spec.MixInReplay": behind("MixInReplay()"),
    "tflow.rl.data.batching.ConcatRounds": behind("ConcatRounds()"),
    "tflow.rl.data.batching.ConcatBatches": concat_batches,
    "tflow.rl.data.batching.aggregate": aggregate,
    "tflow.rl.metrics.ReportMetrics": behind("for_each(CollectMetrics)"),
    "tflow.combinators.actors.create_actors": actors,
    "tflow.combinators.actors.create_actor": actors,
    "tflow.combinators.actors.create_resident": actors,
    "tflow.rl.rollout.evaluation.create_evaluation_workers": evaluation_workers,
    **{name: usual_actors(usual) for name, usual in labels.USUAL.items()},
    "functools.partial": partial,
}
"""By the full names of functions and classes."""
