"""How the methods of streams are shown: each is called once, on a stream that stands in, with arguments that are called by their
parameters. So a label in an editor is that of the plan by construction, also for combinators of the future."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from tflow.mypy_plugin import shapes

Kind = Literal["function", "operator", "actors", "plain"]


class Template(NamedTuple):
    """A label with gaps, such as ``map({fn})``, and what goes into each."""

    text: str
    gaps: dict[str, Kind]


class Number(int):
    """A number that is called by its parameter."""

    called: str

    def __str__(self) -> str:
        return self.called

    def __format__(self, spec: str) -> str:
        return self.called


def number(called: str) -> Number:
    """One, by another name; of several that are listed, the first index."""
    made = Number(not called.startswith("*"))
    made.called = called.lstrip("*")
    return made


@cache
def template(kind: str, method: str, given: tuple[str, ...]) -> Template | None:
    """How a method of ``Iter`` or ``ParIter`` is shown when these of its parameters are given; None if it is not known."""
    stream = stand_in_stream(kind)
    called = getattr(stream, method, None)
    if not callable(called):
        return None
    parameters = inspect.signature(called).parameters
    arguments: list[object] = []
    named: dict[str, object] = {}
    gaps: dict[str, Kind] = {}
    for name in given:
        if name not in parameters:
            return None
        listed = parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        gaps[name], value = stand_in(f"{'*' * listed}{{{name}}}", str(parameters[name].annotation))
        if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            arguments.append(value)
    try:
        made: Any = called(*arguments, **named)  # Any: a stream, or the branches of a split
    except Exception:  # it is a mistake to call it like that, which others report
        return None
    node = made[0].node.inputs[0] if isinstance(made, tuple) else getattr(made, "node", None)  # a split, or a stream
    if node is None:
        return None
    return Template(node.what, gaps) if node.inputs else None  # named() is the operator before it


def stand_in(called: str, annotation: str) -> tuple[Kind, object]:
    """Something that a parameter accepts, by what it is annotated with."""
    if annotation.startswith("AddColumns"):
        return "operator", columns_called(called)
    if annotation.startswith("Op["):
        return "operator", operator_called(called)
    if annotation.startswith("Callable"):
        return "function", function_called(called)
    if annotation.startswith(("Actor", "Resident")):
        return "actors", actor_called(called)
    if annotation.startswith(("Iter", "ParIter")):
        return "plain", stand_in_stream(shapes.ITER if annotation.startswith("Iter") else shapes.PAR_ITER)
    return "plain", called if annotation == "str" else number(called)


@cache
def parameters_of(kind: str, method: str) -> tuple[list[str], str | None]:
    """The names of the parameters of a method that can be given by place, and the one that takes all others."""
    found = getattr(stand_in_stream(kind), method, None)
    if not callable(found):
        return [], None
    known = inspect.signature(found).parameters.values()
    rest = [each.name for each in known if each.kind is inspect.Parameter.VAR_POSITIONAL]
    by_place = [each.name for each in known if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return by_place, rest[0] if rest else None


@cache
def stand_in_stream(kind: str) -> object:
    """A stream that accepts everything."""
    from tflow.combinators.create import from_items, par_from_items

    return par_from_items((), shards=1) if kind == shapes.PAR_ITER else from_items(())


def function_called(name: str, parameters: Sequence[str] = ()) -> Callable[..., None]:
    """A function of that name, which accepts everything, and has parameters of these names."""

    def accepts(*_: object) -> None:
        pass

    accepts.__qualname__ = name
    if parameters:
        rest = inspect.Parameter("_", inspect.Parameter.VAR_POSITIONAL)
        named = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None) for each in parameters]
        accepts.__signature__ = inspect.Signature([rest, *named])  # type: ignore[attr-defined]  # inspect reads it
    return accepts


def operator_called(name: str) -> object:
    """An operator of that name."""
    from tflow.types import Stateless

    class Anything(Stateless[object, object]):
        def apply(self, item: object, /) -> object:
            return item

    Anything.__name__ = name
    return Anything()


def columns_called(name: str) -> object:
    """An operator of that name that adds columns."""
    from tflow.combinators.columns import AddColumns

    kind = type(name, (AddColumns,), {"compute": lambda self, batch: {}})
    return kind()


def actor_called(name: str) -> object:
    """An actor of that name."""
    from tflow.combinators.actors import create_actor

    return create_actor(function_called(name), name=name)
