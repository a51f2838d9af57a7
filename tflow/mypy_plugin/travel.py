"""Rule ``tflow-travel``: what runs inside actors is sent there, with all that it refers to, and some things cannot be sent.

Functions that can be imported are sent by name, so what is global beside them stays where it is. Lambdas and functions inside
functions are sent with all that they use.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy.nodes import CallExpr, Context, Expression, FuncDef, FuncItem, LambdaExpr, MemberExpr, NameExpr, RefExpr, Var
from mypy.types import Instance, Type, get_proper_type

from tflow import sentences
from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.labels import Labels, source
from tflow.mypy_plugin.report import Checker, report

CODE = "tflow-travel"
KINDS = {
    "tflow.runtime.executor.Run": "a run",
    "tflow.live.Live": "a handle of the driver",
    "tflow.live.Handles": "a handle of the driver",
    "_thread.lock": "a lock",
    "_thread.LockType": "a lock",
    "_thread.RLock": "a lock",
    "threading.Lock": "a lock",
    "threading._RLock": "a lock",
    "threading.Condition": "a lock",
    "threading.Semaphore": "a lock",
    "threading.Event": "a lock",
    "threading.Barrier": "a lock",
    "threading.Thread": "a thread",
    "socket.socket": "a socket",
    "typing.IO": "an open file",
    "_io._IOBase": "an open file",
    "io.IOBase": "an open file",
    "typing.Generator": "a generator",
    "collections.abc.Generator": "a generator",
    "typing.Iterator": "a live iterator",
}
"""By class: what cannot be sent."""
KNOWN = {"builtins", "typing", "tflow", "torch", "numpy", "threading", "_thread", "io", "_io", "logging"}
"""Libraries whose objects are not looked into."""
CAN = {"_io.BytesIO", "_io.StringIO", "io.BytesIO", "io.StringIO"}
PARALLEL = {"map", "filter", "tap", "flat_map", "scan", "for_each", "with_columns"}
BESIDE = {"call": 1, "hand_off": 1}
MADE_THERE = {
    "tflow.combinators.actors.create_actors": 0,
    "tflow.combinators.actors.create_actor": 0,
    "tflow.combinators.create.from_actors": 1,
    "tflow.combinators.create.par_from_iterables": 0,
}


def check(api: Checker, scopes: tree.Scopes, call: CallExpr) -> None:
    """Report what a call would send to actors and cannot."""
    sent = sent_by(api, call)
    if sent is None:
        return
    where = Labels(api.lookup_type_or_none, scopes).call(call)
    for name, t, place in parts_of(api, sent, scopes):
        kind = cannot_travel(t)
        if kind:
            report(api, CODE, sentences.travel(where, name, kind), place)


def sent_by(api: Checker, call: CallExpr) -> Expression | None:
    """The argument that goes to actors."""
    callee = call.callee
    place: int | None = None
    if isinstance(callee, RefExpr) and callee.fullname in MADE_THERE:
        place = MADE_THERE[callee.fullname]
    elif isinstance(callee, MemberExpr):
        receiver = api.lookup_type_or_none(callee.expr)
        if callee.name.startswith("par_") and callee.name[4:] in PARALLEL and shapes.as_base(receiver, shapes.PAR_ITER):
            place = 0
        elif callee.name in BESIDE and shapes.as_base(receiver, shapes.ITER):
            place = BESIDE[callee.name]
    if place is None:
        return None
    named = [arg for arg, name in zip(call.args, call.arg_names, strict=True) if name in ("op", "fn", "make", "pull")]
    return named[0] if named else call.args[place] if place < len(call.args) and call.arg_names[place] is None else None


Part = tuple[str, Type | None, Context]


def parts_of(api: Checker, sent: Expression, scopes: tree.Scopes) -> Iterator[Part]:
    """What is sent along, by name: what functions use, what operators are made of."""
    if isinstance(sent, LambdaExpr):
        yield from used_by(sent)
    elif isinstance(sent, NameExpr) and isinstance(sent.node, FuncDef) and sent.kind == 0:  # 0: a local function
        yield from ((name, t, sent) for name, t, _ in used_by(sent.node))
    elif isinstance(sent, NameExpr) and isinstance(sent.node, Var):
        made = scopes.definition(sent.node)
        if isinstance(made, (LambdaExpr, CallExpr)):
            yield from ((name, t, sent) for name, t, _ in parts_of(api, made, tree.Scopes()))
    elif isinstance(sent, CallExpr):
        yield from given_to(api, sent, scopes)
    elif isinstance(sent, MemberExpr):  # a method goes with its object
        if shapes.is_function(api.lookup_type_or_none(sent)):
            yield from ((name, t, sent) for name, t in fields_of(source(sent.expr), api.lookup_type_or_none(sent.expr)))
    else:
        for item in tree.children(sent):
            if isinstance(item, Expression):
                yield "an item", api.lookup_type_or_none(item), item


def given_to(api: Checker, call: CallExpr, scopes: tree.Scopes) -> Iterator[Part]:
    """What an operator is made of, or a function with some of its arguments. Other calls give something new."""
    made = shapes.made_by(api.lookup_type_or_none(call.callee))
    if not isinstance(made, Instance) or says_itself(made):
        return
    kept = made.type.fullname == "functools.partial" or "dataclass" in made.type.metadata
    for given, name in zip(call.args, parameter_names(api, call), strict=True):
        t = api.lookup_type_or_none(given)
        if kept or cannot_travel(t) not in ("a generator", "a live iterator"):  # which others may have read
            yield name, t, given
        if isinstance(given, LambdaExpr) or (isinstance(given, NameExpr) and isinstance(given.node, FuncDef)):
            yield from parts_of(api, given, scopes)


def says_itself(t: Instance) -> bool:
    """True for a class that says how its objects are sent."""
    methods = ("__reduce__", "__reduce_ex__", "__getstate__")
    return any(info.names.get(method) for info in t.type.mro[:-1] for method in methods)


def used_by(fn: FuncItem) -> Iterator[Part]:
    """The variables from outside that a function uses."""
    for name in tree.captured(fn):
        if isinstance(name.node, Var):
            yield name.name, name.node.type, name
            yield from ((field, t, name) for field, t in fields_of(name.name, name.node.type))


def fields_of(name: str, t: Type | None) -> Iterator[tuple[str, Type | None]]:
    """What goes with an object of a class that does not say itself how it is sent."""
    found = get_proper_type(t) if t is not None else None
    if not isinstance(found, Instance) or found.type.module_name.split(".")[0] in KNOWN:
        return
    if says_itself(found):
        return
    for info in found.type.mro[:-1]:
        of_class = "dataclass" not in info.metadata
        for field, symbol in info.names.items():
            var = symbol.node
            if isinstance(var, Var) and not var.is_classvar and not (of_class and var.is_initialized_in_class):
                yield f"{name}.{field}", var.type


def parameter_names(api: Checker, call: CallExpr) -> list[str]:
    """What the parameters are called that arguments go to."""
    names = shapes.parameters(api.lookup_type_or_none(call.callee))
    return [name or (names[place] if place < len(names) else "an argument") for place, name in enumerate(call.arg_names)]


def cannot_travel(t: Type | None) -> str:
    """What it is that cannot be sent; empty if it can."""
    found = get_proper_type(t) if t is not None else None
    if not isinstance(found, Instance):
        return ""
    names = [base.fullname for base in found.type.mro]
    if any(name in CAN for name in names):
        return ""
    kind = next((KINDS[name] for name in KINDS if name in names), "")
    if kind == "a live iterator" and found.type.module_name.split(".")[0] not in ("typing", "builtins", "collections", "_csv"):
        return ""  # an iterator of the user's own, which may well be sent
    return kind
