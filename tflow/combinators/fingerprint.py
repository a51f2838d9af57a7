"""A stable hash of a plan's structure: nodes, arguments, the code of functions and operators; actors by position, never by
identity. Module names do not count, so a plan is the same whether its file is run as a script or imported."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, MethodType

from tflow.combinators import graph, nodes
from tflow.combinators.actors import Actors
from tflow.types import Op


def fingerprint(sink: nodes.Node) -> str:
    """Twelve hex digits, the same in every process for plans built the same way."""
    order = graph.walk(sink)
    positions = {node: index for index, node in enumerate(order)}
    writer = _Writer(positions)
    for node in order:
        for part in writer.parts(node, top=True):
            writer.digest.update(part.encode())
            writer.digest.update(b"\0")
    return writer.digest.hexdigest()[:12]


class _Writer:
    """Turns values into strings that do not depend on addresses, dict order of sets, or the process."""

    def __init__(self, positions: Mapping[nodes.Node, int]) -> None:
        self.digest = hashlib.sha256()
        self.positions = positions
        self.seen: dict[int, tuple[int, object]] = {}

    def parts(self, value: object, *, top: bool = False) -> Iterator[str]:
        match value:
            case nodes.Node() if not top:
                yield f"node {self.positions[value]}"
            case None | bool() | int() | float() | complex() | str() | bytes() | range():
                yield f"{type(value).__name__} {value!r}"
            case tuple() | list():
                yield f"{type(value).__name__} {len(value)}"
                for item in value:
                    yield from self.parts(item)
            case set() | frozenset():
                yield f"{type(value).__name__} {len(value)}"
                yield from sorted("|".join(self.parts(item)) for item in value)
            case dict():
                yield f"dict {len(value)}"
                for key, item in value.items():
                    yield from self.parts(key)
                    yield from self.parts(item)
            case type():
                yield f"class {value.__qualname__}"
            case CodeType():
                yield f"code {value.co_name} {value.co_code.hex()} {value.co_names}"
                yield from self.parts(value.co_consts)
            case _:
                yield from self.once(value)

    def once(self, value: object) -> Iterator[str]:
        """Objects with identity: written at the first meeting, by number afterwards (so cycles end)."""
        if id(value) in self.seen:
            yield f"again {self.seen[id(value)][0]}"
            return
        self.seen[id(value)] = (len(self.seen), value)
        yield type(value).__qualname__
        if isinstance(value, Op):
            methods = [getattr(type(value), name, None) for name in ("apply", "init", "step")]
            yield from self.parts([method.__code__ for method in methods if isinstance(method, FunctionType)])
        match value:
            case FunctionType():
                yield f"function {value.__qualname__}"
                yield from self.parts(value.__code__)
                yield from self.parts(value.__defaults__)
                for cell in value.__closure__ or ():
                    yield from self.parts(cell.cell_contents)
            case MethodType():
                yield from self.parts(value.__func__)
                yield from self.parts(value.__self__)
            case Actors():
                yield f"{value.num} {value.name} {value.mailbox}"
                yield from self.parts(value.make)
            case _ if is_dataclass(value):
                for field in fields(value):
                    yield field.name
                    yield from self.parts(getattr(value, field.name))
            case _ if hasattr(value, "tobytes"):
                yield f"{getattr(value, 'dtype', '')} {getattr(value, 'shape', '')}"
                yield hashlib.sha256(getattr(value, "tobytes")()).hexdigest()  # noqa: B009  # any array
            case _ if hasattr(value, "__qualname__"):
                yield str(getattr(value, "__qualname__"))  # noqa: B009  # any builtin
            case _:
                yield from self.parts(dict(getattr(value, "__dict__", {})))
