"""What an object holds once it is made: the attributes that its class sets in ``__init__`` and ``__post_init__``, the fields of
dataclasses, and what calls of the base class and of helpers add.

Bodies are known only for the module that is being checked: mypy may have others from its cache. What can be said of those
without types is therefore kept with the class, where the cache keeps it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mypy.nodes import (
    AssignmentStmt,
    CallExpr,
    ClassDef,
    Decorator,
    DelStmt,
    Expression,
    ExpressionStmt,
    FuncDef,
    MemberExpr,
    NameExpr,
    Node,
    RefExpr,
    ReturnStmt,
    Statement,
    StrExpr,
    SuperExpr,
    TempNode,
    TupleExpr,
    TypeInfo,
    Var,
)
from mypy.types import Type

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.frames import Arguments, Frame, Reader, Value, arguments, entered, statements

NOTES = "tflow"
"""Under which name a class keeps what is known of its constructor."""
MAKERS = ("__init__", "__post_init__")
Held = dict[str, Value | Type | None]
"""By attribute: what it is set to, or of which type it is."""


def remember(defn: ClassDef) -> None:
    """Keep with a class what its constructor sets in any case, and which parameters it keeps."""
    made: list[str] = []
    keeps: list[str] = []
    for fn in defn.defs.body:
        if isinstance(fn, FuncDef) and fn.name in MAKERS and fn.arguments:
            parameters = {each.variable.name for each in fn.arguments[1:]}
            for name, value in assigned_to(fn.arguments[0].variable.name, fn.body.body):
                if isinstance(value, NameExpr) and value.name in parameters:
                    keeps.append(value.name)
                elif isinstance(value, CallExpr):
                    made.append(name)
    if made or keeps:
        defn.info.metadata[NOTES] = {"made": made, "keeps": keeps}


def assigned_to(owner: str, body: Sequence[Statement]) -> Iterator[tuple[str, Expression]]:
    """The attributes of an object that statements set."""
    for statement in body:
        if isinstance(statement, AssignmentStmt):
            for target, value in pairs(statement):
                if isinstance(target, MemberExpr) and isinstance(target.expr, NameExpr) and target.expr.name == owner:
                    yield target.name, value
        elif isinstance(statement, ExpressionStmt) and isinstance(statement.expr, CallExpr):
            yield from set_by_call(owner, statement.expr)


def pairs(statement: AssignmentStmt) -> Iterator[tuple[Expression, Expression]]:
    """What is assigned to what, also in ``a, b = 1, 2``."""
    for target in statement.lvalues:
        if isinstance(target, TupleExpr) and isinstance(statement.rvalue, TupleExpr):
            yield from zip(target.items, statement.rvalue.items, strict=False)
        else:
            yield target, statement.rvalue


def set_by_call(owner: str, call: CallExpr) -> Iterator[tuple[str, Expression]]:
    """``object.__setattr__(self, "lock", ...)``, as frozen dataclasses need it, and ``setattr``."""
    name = call.callee.name if isinstance(call.callee, (NameExpr, MemberExpr)) else ""
    if name in ("__setattr__", "setattr") and len(call.args) >= 2:
        *first, attribute, value = call.args
        ours = not first or (isinstance(first[0], NameExpr) and first[0].name == owner)
        if ours and isinstance(attribute, StrExpr):
            yield attribute.value, value


class Constructors:
    """What objects hold, by class and by the arguments of their constructor."""

    def __init__(self, reader: Reader, module: Frame) -> None:
        self.reader = reader
        self.module = module

    def held(self, info: TypeInfo, given: Arguments | None, frame: Frame) -> Held:
        """The attributes of an object; ``given`` is None if the arguments are not known."""
        found: Held = {}
        fields = dataclass_fields(info)
        if fields is not None:
            self.fields(info, fields, given, found)
            self.ran(info, "__post_init__", [], frame, found)
        elif info.is_named_tuple:  # it holds what it is given
            names = iter(info.metadata["namedtuple"]["fields"])
            found.update({name or str(next(names, "an item")): value for name, value in given or ()})
        else:
            self.ran(info, "__init__", given, frame, found)
        return found

    # ------------------------------------------------------------------- dataclasses

    def fields(self, info: TypeInfo, fields: list[dict[str, object]], given: Arguments | None, found: Held) -> None:
        """Fields have what was given, or their default."""
        in_place = [str(each["name"]) for each in fields if each["is_in_init"] and not each.get("kw_only")]
        places = iter(in_place)
        known = {name if name is not None else next(places, ""): value for name, value in given or ()}
        for each in fields:
            name = str(each["name"])
            if each.get("is_init_var"):
                continue
            if name in known:
                found[name] = known[name]
            elif each["is_in_init"] or each["has_default"]:
                found[name] = self.default(info, name, certain=given is not None)

    def default(self, info: TypeInfo, name: str, *, certain: bool) -> Value | Type | None:
        """What a field has that was not given: where its default is known, that; else something of its type."""
        owner = next((base for base in info.mro if name in base.names), None)
        symbol = owner.names[name].node if owner is not None else None
        declared = symbol.type if isinstance(symbol, Var) else None
        if owner is None or not certain or not self.reader.is_here(owner):
            return declared
        for statement in owner.defn.defs.body:
            targets = statement.lvalues if isinstance(statement, AssignmentStmt) else []
            if any(isinstance(target, NameExpr) and target.name == name for target in targets):
                assert isinstance(statement, AssignmentStmt)
                return self.made_by_default(statement.rvalue) or declared
        return declared

    def made_by_default(self, value: Expression) -> Value | None:
        if isinstance(value, TempNode):
            return None
        if isinstance(value, CallExpr) and isinstance(value.callee, RefExpr) and value.callee.fullname == "dataclasses.field":
            named = dict(zip(value.arg_names, value.args, strict=True))
            if "default" in named:
                return Value(named["default"], self.module)
            factory = named.get("default_factory")
            return Value(called(factory), self.module) if factory is not None else None
        return Value(value, self.module)

    # ------------------------------------------------------------------- constructors

    def ran(self, info: TypeInfo, name: str, given: Arguments | None, frame: Frame, found: Held, depth: int = 5) -> None:
        """Add what a method sets."""
        fn = method_of(info, name)
        if fn is None or depth == 0:
            return
        if not self.reader.is_here(fn):
            self.noted(fn.info, given, found)
            return
        if not fn.arguments:
            return
        inside = entered(fn, given, self.module, bound_to=True)
        owner = fn.arguments[0].variable.name
        for statement in statements(self.reader, fn.body, inside):
            if isinstance(statement, ReturnStmt) or not self.step(info, fn, owner, statement, inside, found, depth):
                return

    def step(self, info: TypeInfo, fn: FuncDef, owner: str, statement: Statement, frame: Frame, found: Held, depth: int) -> bool:
        """One statement; False if what follows it may not be done."""
        if isinstance(statement, (AssignmentStmt, ExpressionStmt)):
            for name, value in assigned_to(owner, [statement]):
                found[name] = Value(value, frame)
            if isinstance(statement, ExpressionStmt) and isinstance(statement.expr, CallExpr):
                self.helped(info, fn, owner, statement.expr, frame, found, depth)
            return True
        inside = tree.own(statement)
        for each in inside:
            for name, _ in assigned_to(owner, [each] if isinstance(each, Statement) else []):
                found.pop(name, None)  # perhaps another by now
            if isinstance(each, DelStmt) and isinstance(each.expr, MemberExpr):
                found.pop(each.expr.name, None)
        return not any(isinstance(each, ReturnStmt) for each in inside)

    def helped(self, info: TypeInfo, fn: FuncDef, owner: str, call: CallExpr, frame: Frame, found: Held, depth: int) -> None:
        """``super().__init__(...)``, ``Base.__init__(self, ...)`` and ``self.open()`` set attributes, too."""
        callee, given = call.callee, arguments(call, frame)
        if isinstance(callee, SuperExpr):
            after = info.mro[info.mro.index(fn.info) + 1 :] if fn.info in info.mro else []
            base = next((each for each in after if callee.name in each.names), None)
            if base is not None:
                self.ran(base, callee.name, given, frame, found, depth - 1)
        elif isinstance(callee, MemberExpr) and isinstance(callee.expr, NameExpr):
            if callee.expr.name == owner:
                self.ran(info, callee.name, given, frame, found, depth - 1)
            elif isinstance(callee.expr.node, TypeInfo) and callee.name == "__init__":
                self.ran(callee.expr.node, "__init__", given[1:] if given else None, frame, found, depth - 1)

    def noted(self, info: TypeInfo, given: Arguments | None, found: Held) -> None:
        """What is known of a constructor of another module."""
        notes = info.metadata.get(NOTES, {})
        for name in notes.get("made", ()):
            symbol = info.get(name)
            found[name] = symbol.node.type if symbol is not None and isinstance(symbol.node, Var) else None
        fn = info.get_method("__init__")
        names = [name for name in getattr(fn, "arg_names", ())[1:] if name]
        places = iter(names)
        for name, value in given or ():
            parameter = name if name is not None else next(places, "")
            if parameter in notes.get("keeps", ()):
                found[parameter] = value


def called(factory: Expression) -> Node:
    """A call of what makes a default."""
    call = CallExpr(factory, [], [], [])
    call.set_line(factory)
    return call


def method_of(info: TypeInfo, name: str) -> FuncDef | None:
    found = info.get(name)
    node = found.node.func if found is not None and isinstance(found.node, Decorator) else found.node if found else None
    return node if isinstance(node, FuncDef) and node.info.fullname != "builtins.object" else None


def dataclass_fields(info: TypeInfo) -> list[dict[str, object]] | None:
    """The fields of a dataclass, those of its bases included; None for a class with a constructor of its own."""
    for base in info.mro:
        symbol = base.names.get("__init__")
        if symbol is not None:
            notes = base.metadata.get("dataclass") or {}
            return list(notes.get("attributes") or []) if symbol.plugin_generated else None
    return None
