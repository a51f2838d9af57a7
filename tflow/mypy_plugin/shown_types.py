"""Types as people like to read them: ``Iter[Rollout, Async]``, ``Rollout+advantages+returns``, ``int | str``.

For messages: names without modules, batches by the name of their columns, streams by what they are and not by
which class made them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mypy.types import (  # before maptype: the other way round, mypy's modules import each other in a circle
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    Overloaded,
    ParamSpecType,
    ProperType,
    TupleType,
    Type,
    TypeAliasType,
    TypedDictType,
    TypeType,
    TypeVarTupleType,
    TypeVarType,
    UninhabitedType,
    UnionType,
    UnpackType,
    get_proper_type,
)

from mypy.maptype import map_instance_to_supertype  # isort: skip

from tflow import sentences
from tflow.domain import named_batches

ITER = "tflow.combinators.stream.Iter"
PAR_ITER = "tflow.combinators.par.ParIter"
PLAN = "tflow.combinators.runnable.Plan"
STREAMS = (ITER, PAR_ITER, PLAN)
BATCH = "tflow.types.Columnar"
MULTI_BATCH = "tflow.types.Keyed"
SYNC = "tflow.types.Sync"

SINGLE: dict[type[ProperType], str] = {
    NoneType: "None",
    AnyType: "Any",  # Any: how it is written
    UninhabitedType: "Never",
}


def shown(given: Type | None) -> str:
    """A type as a user would write it, or shorter."""
    if given is None:
        return "?"
    if isinstance(given, TypeAliasType) and keeps_its_name(given):
        return str(given.alias.name) if given.alias is not None else "?"
    return _proper(get_proper_type(given))


def as_base(given: Instance, base: str) -> Instance | None:
    """A type seen as one of its bases."""
    return next((map_instance_to_supertype(given, each) for each in given.type.mro if each.fullname == base), None)


def stream_base(given: Type | None) -> Instance | None:
    """The ``Iter``, ``ParIter`` or ``Plan`` that a type is, whichever class made it; None for other types."""
    proper = get_proper_type(given)
    if isinstance(proper, Instance):
        for base in proper.type.mro:
            if base.fullname in STREAMS:
                return map_instance_to_supertype(proper, base)
    return None


def element(given: Type | None) -> Type | None:
    """What a stream yields; None for what is not a stream."""
    base = stream_base(given)
    return base.args[0] if base is not None and base.args else None


def literals(given: Type) -> list[str] | None:
    """The strings of a Literal or of a union of Literals; None for other types, and for ``Never``, which has none."""
    proper = get_proper_type(given)
    if isinstance(proper, LiteralType):
        return [proper.value] if isinstance(proper.value, str) else None
    if isinstance(proper, Instance) and proper.last_known_value is not None:
        return literals(proper.last_known_value)
    if isinstance(proper, UnionType):
        found = [literals(item) for item in proper.items]
        return list(dict.fromkeys(name for part in found for name in part or ())) if all(found) else None
    return None


def keeps_its_name(alias: TypeAliasType) -> bool:
    """True for names of unions and functions; a batch or a stream is shown by what is in it, whatever it is called."""
    if alias.is_recursive:
        return True
    return not alias.args and isinstance(get_proper_type(alias), (UnionType, CallableType, TypedDictType))


def _proper(given: ProperType) -> str:
    match given:
        case Instance():
            return _instance(given)
        case UnionType():
            return _union(given)
        case LiteralType():
            return f"Literal[{given.value_repr()}]"
        case TupleType():
            return _tuple(given)
        case CallableType():
            return _function(given)
        case Overloaded():
            return _function(given.items[0])
        case TypedDictType():
            return "dict" if given.is_anonymous() else given.fallback.type.name
        case TypeType():
            return f"type[{shown(given.item)}]"
        case UnpackType():
            return f"*{shown(given.type)}"
        case TypeVarType() | ParamSpecType() | TypeVarTupleType():
            return given.name
        case _:
            return next((name for kind, name in SINGLE.items() if isinstance(given, kind)), "?")


def _instance(given: Instance) -> str:
    base = stream_base(given)
    if base is not None:
        return _stream(base)
    columns, parts = as_base(given, BATCH), as_base(given, MULTI_BATCH)
    if columns is not None:
        return _batch(columns.args[0]) if columns.args else given.type.name
    if parts is not None:
        return _keyed(given.type.name, *parts.args)
    name = given.type.name
    if not given.args or given.type.fullname.startswith("numpy."):  # whose arguments nobody writes
        return name
    if given.type.fullname == "builtins.tuple":
        return f"tuple[{shown(given.args[0])}, ...]"
    return f"{name}[{', '.join(map(shown, given.args))}]"


def _stream(base: Instance) -> str:
    element, *capability = base.args[:2]  # whose actors they are is seldom in question
    if base.type.fullname == PAR_ITER and _is_sync(capability):
        capability = []  # it goes without saying: Sync is what users get when they write ParIter[T]
    return f"{base.type.name}[{', '.join(map(shown, (element, *capability)))}]"


def _is_sync(capability: Sequence[Type]) -> bool:
    proper = [get_proper_type(each) for each in capability]
    return bool(proper) and isinstance(proper[0], Instance) and proper[0].type.fullname == SYNC


def _batch(columns: Type) -> str:
    names = literals(columns)
    if names is not None:
        return sentences.batch(names)
    if isinstance(get_proper_type(columns), UninhabitedType):
        return "AnyBatch"
    if isinstance(get_proper_type(columns), AnyType):
        return "Batch"
    return f"Batch[{shown(columns)}]"


def _keyed(name: str, columns: Type, parts: Type) -> str:
    if isinstance(get_proper_type(parts), AnyType):
        return name
    batch, names = _batch(columns), literals(parts)
    who = ", ".join(names) if names is not None else shown(parts)
    usual = named_batches()[0].name  # goes without saying
    return f"{name}[{who}]" if batch == usual else f"{name}[{batch}: {who}]"


def _union(given: UnionType) -> str:
    names = literals(given)
    for known in named_batches():
        if names is not None and set(names) == set(known.columns):
            return known.columns_name
    parts: list[str] = []
    values: list[str] = []
    where = 0
    for item in given.items:
        proper = get_proper_type(item)
        if isinstance(proper, LiteralType):
            where = where if values else len(parts)
            values.append(proper.value_repr())
        else:
            parts.append(f"({shown(item)})" if isinstance(proper, (CallableType, Overloaded)) else shown(item))
    if sorted(values) == ["False", "True"]:
        parts.insert(where, "bool")
    elif values:
        parts.insert(where, f"Literal[{', '.join(values)}]")
    last = ["None"] if "None" in parts else []  # `X | None`, wherever it was written
    return " | ".join([*dict.fromkeys(part for part in parts if part != "None"), *last])


def _tuple(given: TupleType) -> str:
    fallback = given.partial_fallback.type
    if fallback.fullname != "builtins.tuple":  # a NamedTuple
        return fallback.name
    return f"tuple[{', '.join(map(shown, given.items)) or '()'}]"


def _function(given: CallableType) -> str:
    if given.is_type_obj():
        return f"type[{shown(given.ret_type)}]"
    if given.is_ellipsis_args:
        return f"(...) -> {shown(given.ret_type)}"
    return f"({', '.join(map(shown, given.arg_types))}) -> {shown(given.ret_type)}"
