"""What a value holds that cannot be sent: a function all that it closes over, an object its attributes, a container its items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mypy.nodes import (
    GDEF,
    LDEF,
    AssignmentExpr,
    CallExpr,
    CastExpr,
    ConditionalExpr,
    Context,
    Decorator,
    DictExpr,
    DictionaryComprehension,
    Expression,
    FuncDef,
    FuncItem,
    GeneratorExpr,
    LambdaExpr,
    ListComprehension,
    ListExpr,
    MemberExpr,
    NameExpr,
    Node,
    OpExpr,
    RefExpr,
    SetComprehension,
    SetExpr,
    StarExpr,
    TupleExpr,
    TypeInfo,
    Var,
)
from mypy.types import Instance, NoneType, TupleType, Type, get_proper_type
from mypy.types_utils import remove_optional

from tflow.mypy_plugin import kinds, shapes, tree
from tflow.mypy_plugin.constructors import Constructors
from tflow.mypy_plugin.frames import Arguments, Frame, Reader, Value, arguments, is_name, is_wrapped, returned
from tflow.mypy_plugin.labels import source
from tflow.mypy_plugin.report import Checker
from tflow.sentences import COPIED, ITEM, part

DEPTH = 30
"""How far values are followed."""
PARTIAL = "functools.partial"


@dataclass(frozen=True)
class Stuck:
    """Something that cannot be sent: its name within the value (empty for the value itself), what it is, and where to say so."""

    name: str
    kind: str
    place: Context

    def within(self, owner: str) -> Stuck:
        """The same, seen from outside."""
        return replace(self, name=part(owner, self.name))

    def at(self, place: Context | None) -> Stuck:
        """The same, said elsewhere."""
        return self if place is None else replace(self, place=place)


def goes_along(info: TypeInfo, name: str) -> bool:
    """True for methods, not for functions in attributes, nor for those of the class."""
    symbol = info.get(name)
    found = symbol.node if symbol is not None else None
    function = found.func if isinstance(found, Decorator) else found
    return not isinstance(found, Var) and not (isinstance(function, FuncDef) and (function.is_static or function.is_class))


class Holding:
    """A search in one module, for what a call ``here`` hands on. ``copied``: on the driver operators are only copied, and
    functions are not."""

    def __init__(self, api: Checker, here: Frame, *, copied: bool = False) -> None:
        self.api, self.here = api, here
        self.copied = copied
        self.reader = Reader(api)
        self.constructors = Constructors(self.reader, Frame(tree.Scopes(api.tree)))
        self.busy: set[int] = set()

    def of(self, node: Node, frame: Frame) -> Iterator[Stuck]:
        """What a value holds. A part is said of where it is written, as long as that is inside the value's own expression."""
        if id(node) in self.busy or len(self.busy) > DEPTH:
            return
        self.busy.add(id(node))
        try:
            kind = self.kind(self.reader.type_of(node))
            if kind:
                yield Stuck("", kind, node)
            else:
                yield from self.parts(node, frame)
        finally:
            self.busy.discard(id(node))

    def kind(self, t: Type | None) -> str:
        found = kinds.kind_of(t)
        return "" if self.copied and found in COPIED else found

    def parts(self, node: Node, frame: Frame) -> Iterator[Stuck]:
        match node:
            case LambdaExpr() | FuncDef():
                yield from self.function(node, frame)
            case Decorator():
                yield from self.decorated(node, frame)
            case NameExpr():
                yield from self.name(node, frame)
            case CallExpr():
                yield from self.call(node, frame)
            case MemberExpr():
                yield from self.member(node, frame)
            case ConditionalExpr():
                yield from self.conditional(node, frame)
            case AssignmentExpr():
                yield from self.of(node.value, frame)
            case CastExpr() | StarExpr():
                yield from self.of(node.expr, frame)
            case OpExpr():
                yield from (each for side in (node.left, node.right) for each in self.of(side, frame))
            case _:
                yield from self.items(node, frame)

    # ------------------------------------------------------------------- containers

    def items(self, node: Node, frame: Frame) -> Iterator[Stuck]:
        found: list[Expression] = []
        match node:
            case ListExpr() | TupleExpr() | SetExpr():
                found = list(node.items)
            case DictExpr():
                found = [value for _, value in node.items]
            case ListComprehension() | SetComprehension():
                found = [node.generator.left_expr]
            case GeneratorExpr():
                found = [node.left_expr]
            case DictionaryComprehension():
                found = [node.value]
            case Expression():
                yield from self.typed(self.reader.type_of(node), frame, node)
        for item in found:
            yield from (each.within(ITEM) for each in self.of(item, frame))

    def conditional(self, node: ConditionalExpr, frame: Frame) -> Iterator[Stuck]:
        holds = self.reader.is_true(node.cond, frame)
        if holds is not None:
            yield from self.of(node.if_expr if holds else node.else_expr, frame)
            return
        either = [node.if_expr, node.else_expr]
        if frame is self.here:  # elsewhere, nobody knows whether it is ever anything but None
            either = [each for each in either if not is_name(each, "None")]
        found = [list(self.of(each, frame)) for each in either]
        if all(found):
            yield from (each for several in found[:1] for each in several)

    # ------------------------------------------------------------------- names

    def name(self, node: NameExpr, frame: Frame) -> Iterator[Stuck]:
        found = node.node
        if isinstance(found, FuncDef):
            if node.kind != GDEF:
                yield from (each.at(node) for each in self.function(found, frame))
        elif isinstance(found, Decorator):
            yield from (each.at(node) for each in self.decorated(found, frame, by_name=node.kind == GDEF))
        elif isinstance(found, TypeInfo):
            yield from (each.at(node) for each in self.class_itself(found, frame))
        elif isinstance(found, Var):
            yield from (each.at(node) for each in self.variable(found, frame, node))

    def variable(self, variable: Var, frame: Frame, node: Node) -> Iterator[Stuck]:
        """What a variable stands for: its argument, what it is set to, or anything of its type."""
        kind = self.kind(variable.type)
        value = frame.argument(variable) or frame.definition(variable)
        if kind and (value is None or not isinstance(value.node, NameExpr)):
            yield Stuck("", kind, node)
        elif value is not None:
            yield from self.of(value.node, value.frame)
        elif frame is self.here and isinstance(node, NameExpr) and node.kind == LDEF and (kind := self.optional(node)):
            yield Stuck("", kind, node)
        else:
            yield from self.typed(variable.type, frame, node)

    def optional(self, node: NameExpr) -> str:
        """What it is unless it is None: who hands that on means to use it."""
        return self.kind(remove_optional(self.reader.type_of(node) or NoneType()))

    def typed(self, t: Type | None, frame: Frame, node: Node) -> Iterator[Stuck]:
        """What anything of a type holds."""
        found = get_proper_type(t) if t is not None else None
        kind = kinds.kind_inside(found)
        if kind and not (self.copied and kind in COPIED):
            yield Stuck(ITEM, kind, node)
        elif isinstance(found, Instance):
            yield from (each.at(node) for each in self.object(found, None, frame))

    # ------------------------------------------------------------------- functions

    def function(self, fn: FuncItem, frame: Frame) -> Iterator[Stuck]:
        """The variables from outside that a function uses, and its defaults."""
        if self.copied or id(fn.body) in self.busy:
            return
        self.busy.add(id(fn.body))
        for argument in fn.arguments:
            if argument.initializer is not None:
                yield from (each.within(argument.variable.name) for each in self.of(argument.initializer, frame))
        for name in tree.used_from_outside(fn):
            yield from (each.within(name.name).at(name) for each in self.of(name, frame))
        self.busy.discard(id(fn.body))

    def decorated(self, node: Decorator, frame: Frame, *, by_name: bool = False) -> Iterator[Stuck]:
        """What decorators of this module make of a function. One that can still be imported is sent by name."""
        if is_wrapped(node):
            if not by_name:
                yield from self.function(node.func, frame)
            return
        value = Value(node.func, frame)
        for decorator in reversed(node.original_decorators):
            made = self.applied(decorator, value, frame)
            if made is None:
                return
            value = made
        target = value.node.node if isinstance(value.node, NameExpr) else value.node
        if not (by_name and isinstance(target, Decorator)):
            yield from self.of(value.node, value.frame)

    def applied(self, decorator: Expression, value: Value, frame: Frame) -> Value | None:
        """What a decorator makes of a function; None if that is not certain."""
        found = self.reader.resolved(decorator, frame)
        results = returned(*found, [(None, value)]) if found is not None else []
        return results[0] if len(results) == 1 else None

    def member(self, node: MemberExpr, frame: Frame) -> Iterator[Stuck]:
        """A method goes with its object."""
        t = self.reader.type_of(node)
        if not shapes.is_function(t):
            yield from self.typed(t, frame, node)
            return
        receiver = get_proper_type(self.reader.type_of(node.expr))
        if not isinstance(receiver, Instance) or (self.copied and self.kind(receiver)):
            return
        if goes_along(receiver.type, node.name):
            yield from (each.within(source(node.expr)).at(node) for each in self.of(node.expr, frame))

    # ------------------------------------------------------------------- objects

    def call(self, node: CallExpr, frame: Frame) -> Iterator[Stuck]:
        """What a class or a function of this module makes."""
        made = get_proper_type(shapes.made_by(self.api.lookup_type_or_none(node.callee)) or self.class_called(node))
        if isinstance(made, TupleType):
            made = made.partial_fallback
        if isinstance(made, Instance):
            yield from self.made(node, made, frame)
            return
        results = [list(self.of(each.node, each.frame)) for each in self.reader.results(node, frame)]
        if results:
            yield from (each.at(node) for each in results[0] if all(results))
        else:
            yield from self.typed(self.reader.type_of(node), frame, node)

    def class_called(self, node: CallExpr) -> Type | None:
        callee = node.callee
        found = callee.node if isinstance(callee, RefExpr) else None
        return kinds.made_of(found) if isinstance(found, TypeInfo) else None

    def made(self, node: CallExpr, made: Instance, frame: Frame) -> Iterator[Stuck]:
        name = made.type.fullname
        given = arguments(node, frame)
        if name == PARTIAL:
            for parameter, value in self.named(node, given):
                yield from (each.within(parameter) for each in self.of(value.node, value.frame))
        elif name in kinds.CONTAINERS:
            for value in (value for _, value in given or ()):
                inside = isinstance(value.node, GeneratorExpr)
                yield from self.items(value.node, value.frame) if inside else self.contained(value)
        else:
            yield from self.object(made, given, frame, node)

    def contained(self, value: Value) -> Iterator[Stuck]:
        """What a container takes from another."""
        yield from (each for each in self.of(value.node, value.frame) if each.name)

    def named(self, node: CallExpr, given: Arguments | None) -> Iterator[tuple[str, Value]]:
        """Arguments of a partial, by the parameters that they go to."""
        names = shapes.parameters(self.api.lookup_type_or_none(node.args[0])) if node.args else []
        for place, (name, value) in enumerate(given or ()):
            yield name or ("" if place == 0 else names[place - 1] if place <= len(names) else "an argument"), value

    def object(self, made: Instance, given: Arguments | None, frame: Frame, node: Node | None = None) -> Iterator[Stuck]:
        """What an object holds, with the arguments of its constructor if they are known."""
        info = made.type
        if kinds.says_itself(info) or (kinds.library(info) in kinds.KNOWN and given is None) or id(info) in self.busy:
            return
        self.busy.add(id(info))
        for name, value in self.constructors.held(info, given, frame).items():
            found = self.of(value.node, value.frame) if isinstance(value, Value) else self.held(value, frame, node or info)
            inside = value.frame is frame if isinstance(value, Value) else False
            yield from (each.within(name).at(None if inside else node) for each in found)
        yield from self.class_itself(info, frame)
        self.busy.discard(id(info))

    def held(self, t: Type | None, frame: Frame, node: Node) -> Iterator[Stuck]:
        """An attribute of which only the type is known. Containers may be empty."""
        kind = self.kind(t)
        found = get_proper_type(t) if t is not None else None
        if kind:
            yield Stuck("", kind, node)
        elif isinstance(found, Instance):
            yield from self.object(found, None, frame, node)

    def class_itself(self, info: TypeInfo, frame: Frame) -> Iterator[Stuck]:
        """A class inside a function is sent with what it has and what its methods use; others are sent by name."""
        if self.copied or "@" not in info.fullname or not self.reader.is_here(info):
            return
        for name, symbol in info.names.items():
            node = symbol.node
            if isinstance(node, Var) and node.is_initialized_in_class and not node.is_classvar and self.kind(node.type):
                if "dataclass" not in info.metadata:
                    yield Stuck(name, self.kind(node.type), info)
            elif isinstance(node, FuncDef) and not symbol.plugin_generated:
                yield from self.function(node, frame)
