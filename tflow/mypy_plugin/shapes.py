"""Types of mypy as the rules ask about them: streams, operators, batches, names of columns and policies."""

from __future__ import annotations

from mypy import nodes
from mypy.maptype import map_instance_to_supertype
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    Overloaded,
    ProperType,
    TupleType,
    Type,
    TypeOfAny,
    TypeVarType,
    UninhabitedType,
    UnionType,
    flatten_nested_unions,
    get_proper_type,
)

from tflow.mypy_plugin.shown_types import shown

ITER = "tflow.combinators.stream.Iter"
PAR_ITER = "tflow.combinators.par.ParIter"
PLAN = "tflow.combinators.runnable.Plan"
OP = "tflow.types.Op"
ADD_COLUMNS = "tflow.combinators.columns.AddColumns"
WITH_COLUMNS = "tflow.combinators.columns.WithColumns"
ACTORS = "tflow.combinators.actors.Actors"
FED_ACTOR = "tflow.combinators.actors.FedActor"
ON_ACTOR = "tflow.types.OnActor"
ASYNC = "tflow.types.Async"
SYNC = "tflow.types.Sync"
BATCH = "tflow.types.Columnar"
MULTI_BATCH = "tflow.types.Keyed"
ANYTHING = AnyType(TypeOfAny.special_form)


def as_base(t: Type | None, base: str) -> Instance | None:
    """The type seen as an instance of ``base``, with the arguments that ``base`` has."""
    proper = get_proper_type(t) if t is not None else None
    if isinstance(proper, TypeVarType):
        return as_base(proper.upper_bound, base)
    if not isinstance(proper, Instance) or not proper.type.has_base(base):
        return None
    return map_instance_to_supertype(proper, next(info for info in proper.type.mro if info.fullname == base))


def stream(t: Type | None) -> Instance | None:
    """A driver stream, a parallel stream or a plan; also one that may be None."""
    proper = get_proper_type(t) if t is not None else None
    if isinstance(proper, UnionType):
        found = [stream(item) for item in proper.items if not isinstance(get_proper_type(item), NoneType)]
        return found[0] if found and all(found) else None
    if isinstance(proper, TypeVarType):
        return stream(proper.upper_bound)
    if not isinstance(proper, Instance):
        return None
    return next((as_base(proper, base) for base in (ITER, PAR_ITER, PLAN) if proper.type.has_base(base)), None)


DEEPEST = 8
"""How far into types is looked: an alias may contain itself."""


def streams(t: Type | None) -> list[Instance]:
    """A stream, or all that one of several may be; nothing if it may be something else than None."""
    proper = get_proper_type(t) if t is not None else None
    items = proper.items if isinstance(proper, UnionType) else [proper]
    found = [stream(each) for each in items if not isinstance(get_proper_type(each), NoneType)]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else []


def mentions_stream(t: Type | None, depth: int = 0) -> bool:
    """True for a stream and for what contains one: a tuple, a list, a union."""
    proper = get_proper_type(t) if t is not None else None
    if stream(proper) is not None:
        return True
    inside = proper.items if isinstance(proper, (UnionType, TupleType)) else proper.args if isinstance(proper, Instance) else ()
    return depth < DEEPEST and any(mentions_stream(each, depth + 1) for each in inside)


def without_never(t: Type) -> ProperType:
    """As ``t``, but what could not be inferred of its arguments may be anything."""
    proper = get_proper_type(t)
    if isinstance(proper, UninhabitedType):
        return ANYTHING
    if isinstance(proper, Instance) and proper.args:
        return proper.copy_modified(args=[without_never(arg) for arg in proper.args])
    return proper


def literals(t: Type | None) -> list[str] | None:
    """The strings of a Literal, or of a union of such."""
    proper = get_proper_type(t) if t is not None else None
    items = flatten_nested_unions(proper.items) if isinstance(proper, UnionType) else [proper]
    found: list[str] = []
    for item in items:
        each = get_proper_type(item) if item is not None else None
        if isinstance(each, Instance) and each.last_known_value is not None:
            each = each.last_known_value
        value = each.value if isinstance(each, LiteralType) else None
        if isinstance(each, LiteralType) and each.is_enum_literal():
            value = member_value(each.fallback.type, str(each.value))
        if not isinstance(value, str):
            return None
        found.append(value)
    return found


def fields_of(info: nodes.TypeInfo) -> list[str]:
    """The parameters of a dataclass, or a named tuple, that only keeps what it is given."""
    if "dataclass" in info.metadata:
        symbol = info.get("__init__")
        own = symbol is not None and not symbol.plugin_generated
        made = symbol.node if symbol is not None and not own and info.get("__post_init__") is None else None
    else:
        symbol = info.names.get("__new__") if info.is_named_tuple else None
        made = symbol.node if symbol is not None else None
    signature = made.type if isinstance(made, nodes.FuncDef) else None
    names = signature.arg_names[1:] if isinstance(signature, CallableType) else []
    return [name for name in names if name is not None]


def returned_by(t: Type | None) -> Type | None:
    """What a function returns."""
    found = get_proper_type(t) if t is not None else None
    if isinstance(found, Overloaded):
        return returned_by(found.items[0])
    return found.ret_type if isinstance(found, CallableType) else None


def member_value(info: nodes.TypeInfo, name: str) -> str | None:
    """The string that a member of a ``StrEnum`` is."""
    if not info.has_base("builtins.str"):
        return None
    member = info.names.get(name)
    known = get_proper_type(member.node.type) if member is not None and isinstance(member.node, nodes.Var) else None
    last = known.last_known_value if isinstance(known, Instance) else None
    if last is not None and isinstance(last.value, str):
        return last.value
    for node in info.defn.defs.body:
        names = node.lvalues if isinstance(node, nodes.AssignmentStmt) else []
        if isinstance(node, nodes.AssignmentStmt) and any(isinstance(n, nodes.NameExpr) and n.name == name for n in names):
            made = node.rvalue
            if isinstance(made, nodes.StrExpr):
                return made.value
            by = made.callee.fullname if isinstance(made, nodes.CallExpr) and isinstance(made.callee, nodes.RefExpr) else ""
            return name.lower() if by == "enum.auto" and info.has_base("enum.StrEnum") else None
    return None


def columns(t: Type | None) -> list[str] | None:
    """The columns of a batch, if they are known."""
    found = as_base(t, BATCH)
    return literals(found.args[0]) if found else None


def name_of(t: Type | None) -> str:
    """The name of a class, without its module."""
    proper = get_proper_type(t) if t is not None else None
    return proper.type.name if isinstance(proper, Instance) else shown(proper) if proper is not None else "?"


def is_object(t: Type | None) -> bool:
    """True for what is not None, as far as a type tells."""
    proper = get_proper_type(t) if t is not None else None
    if isinstance(proper, UnionType):
        return all(is_object(item) for item in proper.items)
    if isinstance(proper, Instance):
        return proper.type.fullname != "builtins.object" and not proper.type.is_protocol
    return isinstance(proper, (TupleType, CallableType, Overloaded, LiteralType))


def is_true(t: Type | None) -> bool:
    """True for what counts as true in a condition, as far as a type tells: functions, tuples that are not empty."""
    return is_object(t) and t is not None and not get_proper_type(t).can_be_false


def swallows(t: Type | None) -> bool:
    """True for a context manager that may swallow what is raised inside, such as ``contextlib.suppress``."""
    proper = get_proper_type(t) if t is not None else None
    leave = proper.type.get_method("__exit__") if isinstance(proper, Instance) else None
    kind = get_proper_type(leave.type) if leave is not None else None
    result = get_proper_type(kind.ret_type) if isinstance(kind, CallableType) else None
    return isinstance(result, Instance) and result.type.fullname == "builtins.bool"


def made_by(t: Type | None) -> Type | None:
    """What a class makes when it is called; None for what is not a class."""
    proper = get_proper_type(t) if t is not None else None
    if isinstance(proper, Overloaded):
        proper = proper.items[0]
    if isinstance(proper, CallableType) and proper.is_type_obj():
        return get_proper_type(proper.ret_type)
    return None


def is_function(t: Type | None) -> bool:
    """True for functions, not for classes."""
    proper = get_proper_type(t) if t is not None else None
    return isinstance(proper, (CallableType, Overloaded)) and not proper.is_type_obj()


def parameters(t: Type | None) -> list[str]:
    """The names of the parameters of a function or a class."""
    proper = get_proper_type(t) if t is not None else None
    if isinstance(proper, Overloaded):
        proper = proper.items[0]
    return [name or "an argument" for name in proper.arg_names] if isinstance(proper, CallableType) else []
