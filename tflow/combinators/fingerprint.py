"""A stable hash of a plan's structure: nodes, arguments, the code of functions and operators; actors by position, never by
identity. Module names do not count, so a plan is the same whether its file is run as a script or imported."""

from __future__ import annotations

import copyreg
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import fields
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType

from tflow.combinators import graph, nodes
from tflow.combinators.actors import Actors
from tflow.types import Op


def fingerprint(sink: nodes.Node) -> str:
    """Twelve hex digits, the same in every process for plans built the same way."""
    order = graph.walk(sink)
    writer = _Writer({node: index for index, node in enumerate(order)})
    digest = hashlib.sha256()
    for node in order:
        for part in writer.fields(node):
            digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:12]


class _Writer:
    """Turns values into strings that do not depend on addresses, on the order of sets, or on the process."""

    def __init__(self, positions: dict[nodes.Node, int]) -> None:
        self.positions = positions
        self.met: dict[int, tuple[int, object]] = {}

    def fields(self, node: nodes.Node) -> Iterator[str]:
        """A node itself; where it is an input of another, its position stands for it."""
        yield type(node).__name__
        for field in fields(node):
            yield from self.parts(getattr(node, field.name))

    def parts(self, value: object) -> Iterator[str]:
        match value:
            case nodes.Node():
                if value not in self.positions:
                    yield from self.other_plan(value)
                yield f"node {self.positions[value]}"
            case None | bool() | int() | float() | complex() | str() | bytes() | range():
                yield f"{type(value).__name__} {value!r}"
            case type():
                yield f"class {value.__qualname__}"
            case tuple():
                yield from self.several(type(value).__name__, value)
            case frozenset():
                yield from self.several("frozenset", sorted("|".join(self.parts(item)) for item in value))
            case CodeType():
                yield f"code {value.co_name} {value.co_code.hex()} {value.co_names}"
                yield from self.parts(value.co_consts)
            case _:
                yield from self.once(value)

    def other_plan(self, sink: nodes.Node) -> Iterator[str]:
        """A plan that a function refers to. Its nodes get places before they are written: two plans may refer to each other."""
        new = [node for node in graph.walk(sink) if node not in self.positions]
        self.positions.update((node, len(self.positions) + index) for index, node in enumerate(new))
        for node in new:
            yield from self.fields(node)

    def several(self, kind: str, values: Iterable[object]) -> Iterator[str]:
        items = list(values)
        yield f"{kind} {len(items)}"
        for item in items:
            yield from self.parts(item)

    def once(self, value: object) -> Iterator[str]:
        """Objects with identity: written at the first meeting, by number afterwards, so that cycles end."""
        if id(value) in self.met:
            yield f"again {self.met[id(value)][0]}"
            return
        self.met[id(value)] = (len(self.met), value)
        match value:
            case list():
                yield from self.several("list", value)
            case set():
                yield from self.several("set", sorted("|".join(self.parts(item)) for item in value))
            case dict():
                yield from self.several("dict", [pair for item in value.items() for pair in item])
            case FunctionType():
                yield from self.function(value)
            case MethodType():
                yield from self.several("method", (value.__func__, value.__self__))
            case BuiltinFunctionType():
                owner = value.__self__
                yield from self.several("builtin", (value.__name__, None if type(owner).__name__ == "module" else owner))
            case Actors():
                yield from self.several("actors", (value.num, value.name, value.mailbox, value.make))
            case _:
                yield from self.instance(value)

    def function(self, function: FunctionType) -> Iterator[str]:
        yield f"function {function.__qualname__}"
        yield from self.parts(function.__code__)
        yield from self.several("defaults", (function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                yield from self.parts(cell.cell_contents)
            except ValueError:  # not assigned yet
                yield "empty"

    def instance(self, value: object) -> Iterator[str]:
        """Any other object: its class, the code of what it does, and what it would be copied from."""
        yield f"instance {type(value).__qualname__}"
        if isinstance(value, Op) or callable(value):
            yield from self.several("code", own_code(type(value)))
        if hasattr(value, "tobytes"):
            yield f"{getattr(value, 'dtype', '')} {getattr(value, 'shape', '')}"
            yield hashlib.sha256(getattr(value, "tobytes")()).hexdigest()  # noqa: B009  # any array
            return
        try:
            reducer = copyreg.dispatch_table.get(type(value))
            reduced = reducer(value) if reducer else value.__reduce_ex__(2)
        except Exception:  # a lock, a module, an open file: nothing of it can be written down
            return
        if isinstance(reduced, tuple):
            yield from self.several("reduced", [list(part) if isinstance(part, Iterator) else part for part in reduced[1:]])


def own_code(kind: type) -> list[CodeType]:
    """The code of all methods of a class, helpers included, but not of what it inherits from tflow or from Python."""
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in ("tflow", "builtins", "abc", "typing")]
    return [member.__code__ for base in ours for _, member in sorted(vars(base).items()) if isinstance(member, FunctionType)]
