"""What expressions are, where that can be known: literals and what is computed from them, constants, members of enums, names that
are set once. Nothing of the user's is run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mypy import nodes
from mypy.nodes import CallExpr, Expression, MemberExpr, NameExpr, RefExpr, StrExpr, Var
from mypy.types import Instance, LiteralType, Type, get_proper_type

from tflow.mypy_plugin import bindings, constants, effects, shapes, tree
from tflow.mypy_plugin.bindings import Bindings
from tflow.mypy_plugin.labels import TypeOf
from tflow.mypy_plugin.report import Checker

CONSTANTS = {"builtins.True": True, "builtins.False": False, "builtins.None": None}
DEEPEST, LARGEST, MOST_CHOICES = 40, 10_000, 4
PLAIN = (bool, int, float, str, tuple, list, dict, set, frozenset, range, type(None))
COMPUTED: dict[str, Callable[[Any, Any], object]] = {  # Any: numbers, strings and lists, which are looked at first
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "|": operator.or_,
}
BUILTINS: dict[str, Callable[..., object]] = {
    f"builtins.{each.__name__}": each
    for each in (abs, bool, dict, float, frozenset, int, len, list, max, min, range, round, set, sorted, str, sum, tuple)
}
"""Functions without effects, for plain values."""


class Unknown(Exception):
    """The value of an expression cannot be known."""


class Undecided(Unknown):
    """It depends on a condition, or it is what a loop runs through. ``every``: whatever is true of it must be true of each."""

    def __init__(self, key: object, options: Sequence[object], *, every: bool) -> None:
        super().__init__()
        self.key, self.options, self.every = key, options, every


class Known:
    """Values within some scopes, the innermost first."""

    def __init__(self, api: Checker, scopes: tree.Scopes) -> None:
        self.api, self.scopes = api, scopes
        self.type_of: TypeOf = api.lookup_type_or_none
        self.decided: dict[object, object] = {}
        """What is assumed: by condition whether it is true, by variable of a loop the item."""
        self.about: Expression | None = None
        """What is looked at, and asks for values."""
        self.depth = 0
        self.scanned: list[Bindings] = []

    # ------------------------------------------------------------------- questions

    def possible(self, expr: Expression, about: Expression) -> list[object]:
        """The values of an expression if it can be known: several if a loop, or a condition, decides. ``about``: the call that
        has it as an argument."""
        self.about = about
        try:
            return [self.value(expr)]
        except Undecided as open_question:
            return self.each(open_question, lambda: self.possible(expr, about), unless_all=open_question.every)
        except Unknown:
            return []

    def each(self, question: Undecided, ask: Callable[[], list[object]], *, unless_all: bool) -> list[object]:
        """The answers under each assumption; none if one of them has none and all are needed."""
        if len(self.decided) >= MOST_CHOICES:
            return []
        found: list[list[object]] = []
        for option in question.options:
            self.decided[question.key] = option
            found.append(ask())
            del self.decided[question.key]
        return [] if unless_all and not all(found) else [answer for answers in found for answer in answers]

    # ------------------------------------------------------------------- values

    def value(self, expr: Expression) -> object:
        """What an expression is."""
        self.depth += 1
        try:
            if self.depth > DEEPEST:
                raise Unknown
            return self.computed(expr)
        finally:
            self.depth -= 1

    def computed(self, expr: Expression) -> object:
        match expr:
            case nodes.IntExpr() | nodes.FloatExpr() | StrExpr():
                return expr.value
            case nodes.UnaryExpr() if expr.op in ("-", "+"):
                number = self.value(expr.expr)
                if isinstance(number, (int, float)):
                    return -number if expr.op == "-" else number
                raise Unknown
            case nodes.OpExpr() if expr.op in COMPUTED:
                return calculated(COMPUTED[expr.op], self.value(expr.left), self.value(expr.right))
            case nodes.ConditionalExpr():
                return self.value(expr.if_expr if self.decision(expr, (True, False)) else expr.else_expr)
            case nodes.ListExpr() | nodes.TupleExpr() | nodes.SetExpr():
                return self.display(expr)
            case nodes.DictExpr():
                return self.mapping(expr)
            case nodes.IndexExpr() if not isinstance(expr.analyzed, nodes.TypeApplication):
                return self.item_of(self.value(expr.base), self.value(expr.index))
            case CallExpr():
                return self.called(expr)
            case NameExpr() | MemberExpr():
                return self.named(expr)
            case _:
                raise Unknown

    def display(self, expr: nodes.ListExpr | nodes.TupleExpr | nodes.SetExpr) -> object:
        found = self.items(expr.items)
        if isinstance(expr, nodes.SetExpr):
            return set(map(hashable, found))
        return found if isinstance(expr, nodes.ListExpr) else tuple(found)

    def items(self, shown: Sequence[Expression]) -> list[object]:
        found: list[object] = []
        for each in shown:
            if isinstance(each, nodes.StarExpr):
                several = self.value(each.expr)
                if not isinstance(several, (list, tuple, range)) or len(several) > LARGEST:
                    raise Unknown
                found += several
            else:
                found.append(self.value(each))
        return found

    def mapping(self, shown: nodes.DictExpr) -> dict[object, object]:
        found: dict[object, object] = {}
        for key, item in shown.items:
            if key is None:
                merged = self.value(item)
                if not isinstance(merged, Mapping):
                    raise Unknown
                found |= merged
            else:
                found[hashable(self.value(key))] = self.value(item)
        return found

    @staticmethod
    def item_of(whole: object, index: object) -> object:
        """``SETTINGS["size"]``."""
        if isinstance(whole, (Mapping, list, tuple)):
            with suppress(LookupError, TypeError):
                return whole[index]  # type: ignore[call-overload]  # what does not fit is no value
        raise Unknown

    def called(self, call: CallExpr) -> object:
        """What a call of something plain gives."""
        callee = call.callee
        if isinstance(callee, nodes.IndexExpr) and isinstance(callee.analyzed, nodes.TypeApplication):
            callee = callee.analyzed.expr  # list[int]()
        by = BUILTINS.get(callee.fullname) if isinstance(callee, RefExpr) else None
        if by is None or any(kind.is_star() for kind in call.arg_kinds):
            raise Unknown
        values = [(name, self.value(given)) for given, name in zip(call.args, call.arg_names, strict=True)]
        if not all(is_plain(given) for _, given in values):
            raise Unknown
        try:
            made = by(*(given for name, given in values if name is None), **{name: given for name, given in values if name})
        except Exception:  # it would not work at run time either, which mypy may say
            raise Unknown from None
        return limited(made)

    def decision(self, key: object, options: Sequence[object], *, every: bool = True) -> object:
        if key not in self.decided:
            raise Undecided(key, options, every=every)
        return self.decided[key]

    # ------------------------------------------------------------------- names

    def named(self, expr: NameExpr | MemberExpr) -> object:
        if expr.fullname in CONSTANTS:
            return CONSTANTS[expr.fullname]
        if isinstance(expr, NameExpr) and isinstance(expr.node, Var) and self.is_tested(expr.node):
            raise Unknown
        known = literal_value(self.type_of(expr))
        if known is not None:
            return known
        if isinstance(expr.node, Var) and expr.node.is_final and expr.node.final_value is not None:
            return expr.node.final_value
        if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
            return self.variable(expr, expr.node)
        if isinstance(expr, MemberExpr):
            made = self.field(expr)
            if made is not None:
                return made[0].value(made[1])
        if isinstance(expr, MemberExpr) and isinstance(expr.expr, NameExpr):
            return self.attribute(expr, expr.expr)
        raise Unknown

    def field(self, expr: MemberExpr) -> tuple[Known, Expression] | None:
        """What an attribute of a class, or of an object that is made where it can be seen, is set to, and who knows its value:
        ``Settings.size``, ``Settings().size``, ``settings.size`` after ``settings = Settings(size=3)``."""
        owner: Expression | None = expr.expr
        if isinstance(owner, NameExpr) and isinstance(owner.node, Var) and not owner.node.is_self:
            if self.may_differ(owner.node):
                return None
            owner = self.setting(owner, owner.node)
        made = owner.callee if isinstance(owner, CallExpr) else owner
        info = made.node if isinstance(made, RefExpr) else None
        if not isinstance(info, nodes.TypeInfo) or info.is_enum or attribute_settings(info, expr.name):
            return None
        if expr.name in effects.of_file(self.api.tree).set_on_classes:
            return None
        if isinstance(owner, CallExpr) and owner.args:
            fields = shapes.fields_of(info)
            if expr.name not in fields or any(kind.is_star() for kind in owner.arg_kinds):
                return None
            given = tree.argument(owner, expr.name, fields.index(expr.name))
            if given is not None:
                return self, given
        set_here = [node for node in info.defn.defs.body if isinstance(node, nodes.AssignmentStmt)]
        found = [node.rvalue for node in set_here if any(getattr(each, "name", "") == expr.name for each in node.lvalues)]
        default = found[0] if len(found) == 1 and not isinstance(found[0], nodes.TempNode) else None
        return (self.within(tree.Scopes(self.api.tree)), default) if default is not None else None

    def may_differ(self, variable: Var) -> bool:
        """True if the attributes of an object may have been set since it was made."""
        t = get_proper_type(variable.type)
        settings = t.type.metadata.get("dataclass", {}) if isinstance(t, Instance) else {}
        return not settings.get("frozen", False) and self.is_given_away(variable)

    def bound(self) -> list[Bindings]:
        """The names of each scope."""
        known = list(self.scopes)
        for each, scope in zip(known[len(self.scanned) :], self.scopes.scopes[len(self.scanned) :], strict=True):
            self.scanned.append(bindings.of(scope, each))
        return self.scanned

    def is_tested(self, variable: Var) -> bool:
        """True if what is done with a variable depends on what it is."""
        return any(variable in each.tested for each in self.bound())

    def variable(self, name: NameExpr, variable: Var) -> object:
        loop = next((each for each in self.bound() if self.is_loop(variable, each)), None)
        made = self.setting(name, variable) if loop is None else self.turn(loop, variable)
        if made is None:
            raise Unknown
        value = self.value(made)
        if isinstance(value, (list, dict, set)) and self.is_given_away(variable):
            raise Unknown
        return value

    def setting(self, name: NameExpr, variable: Var) -> Expression | None:
        """What a variable is set to where its name is used; None if that is not sure."""
        if variable.name in bindings.rebound(self.api.tree):
            return None
        found = (each.setting(variable, name, inside=number == 0) for number, each in enumerate(self.bound()))
        return next((made for made in found if made is not None), None)

    def source(self, variable: Var) -> Expression | None:
        """What the variable of a loop runs through, one of several that are zipped."""
        loop = next((each for each in self.bound() if self.is_loop(variable, each)), None)
        _, through, place = loop.loops[variable] if loop is not None else (None, None, -1)
        by = through.callee.fullname if isinstance(through, CallExpr) and isinstance(through.callee, RefExpr) else ""
        if by == "builtins.zip" and isinstance(through, CallExpr):
            return through.args[place] if 0 <= place < len(through.args) else None
        return through if place < 0 else None

    def is_given_away(self, variable: Var) -> bool:
        """True if a list or a mapping may have been changed since it was made."""
        return any(variable in scope.given_away for scope in self.bound())

    @staticmethod
    def is_loop(variable: Var, scope: Bindings) -> bool:
        """True for a variable that only one loop sets."""
        return variable in scope.loops and len(scope.known.set.get(variable, ())) <= 1

    def turn(self, scope: Bindings, variable: Var) -> Expression:
        """What the variable of a loop is in one turn."""
        loop, through, place = scope.loops[variable]
        shown = bindings.items_of(self.api, self.scopes, through, place)
        if not shown or self.about is None or not bindings.runs_each_turn(loop, self.about):
            raise Unknown
        found = self.decision(variable, shown, every=False)
        assert isinstance(found, Expression)
        return found

    def attribute(self, expr: MemberExpr, owner: NameExpr) -> object:
        """``self.workers``, if the class sets it once."""
        found = self.attribute_setting(expr, owner)
        if found is None:
            raise Unknown
        return self.within(found[0]).value(found[1])

    def attribute_setting(self, expr: MemberExpr, owner: NameExpr) -> tuple[tree.Scopes, Expression] | None:
        """Where the class sets an attribute, and to what, if that happens once."""
        t = get_proper_type(self.type_of(owner)) if isinstance(owner.node, Var) and owner.node.is_self else None
        settings = attribute_settings(t.type, expr.name) if isinstance(t, Instance) else []
        if len(settings) != 1 or not isinstance(t, Instance) or has_subclass(self.api.tree, t.type):
            return None
        method, made = settings[0]
        return tree.Scopes(method, self.api.tree), made

    def within(self, scopes: tree.Scopes) -> Known:
        """The same in other scopes."""
        other = type(self)(self.api, scopes)
        other.depth, other.type_of = self.depth, self.type_of
        return other


def attribute_settings(info: nodes.TypeInfo, name: str) -> list[tuple[nodes.FuncDef, Expression]]:
    """Where the methods of a class set an attribute of ``self``."""
    functions = [node for node in tree.walk(info.defn) if isinstance(node, nodes.FuncDef)]
    found: list[tuple[nodes.FuncDef, Expression]] = []
    for function in functions:
        for node in tree.own(function.body):
            targets = node.lvalues if isinstance(node, nodes.AssignmentStmt) else []
            for target in targets:
                if isinstance(target, MemberExpr) and target.name == name and isinstance(node, nodes.AssignmentStmt):
                    found.append((function, node.rvalue))
            if (
                isinstance(node, nodes.OperatorAssignmentStmt)
                and isinstance(node.lvalue, MemberExpr)
                and node.lvalue.name == name
            ):
                return []
    return found


def has_subclass(file: nodes.MypyFile, info: nodes.TypeInfo) -> bool:
    """True if a class of the file derives from a class: it may set attributes to something else."""
    return any(effects.subclasses(file, info))


def literal_value(t: Type | None) -> object:
    """The value of a constant, or of a member of an enum of strings or numbers, as far as its type tells."""
    found = get_proper_type(t) if t is not None else None
    if isinstance(found, Instance) and found.last_known_value is not None:
        found = found.last_known_value
    if not isinstance(found, LiteralType):
        return None
    if not found.is_enum_literal():
        return found.value
    value = constants.member(found.fallback.type, str(found.value))
    return value if isinstance(value, (int, str)) else None


def member_of(expr: MemberExpr) -> str | None:
    """The string that ``Side.LEFT`` is."""
    info = expr.expr.node if isinstance(expr.expr, RefExpr) else None
    return shapes.member_value(info, expr.name) if isinstance(info, nodes.TypeInfo) and info.is_enum else None


def is_plain(value: object) -> bool:
    """True for numbers, strings, and what is made of such."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(each) for key, each in value.items())
    return isinstance(value, PLAIN)


def calculated(by: Callable[[Any, Any], object], left: object, right: object) -> object:  # Any: as above
    """What an operation gives for plain values, if that takes no time."""
    if not is_plain(left) or not is_plain(right):
        raise Unknown
    if by is operator.pow and (not isinstance(right, (int, float)) or abs(right) > 64):
        raise Unknown
    both = (left, right)
    many = any(isinstance(each, int) and abs(each) > LARGEST for each in both)
    if by is operator.mul and many and not all(isinstance(each, (int, float)) for each in both):
        raise Unknown
    try:
        return limited(by(left, right))
    except Exception:  # it would not work at run time either
        raise Unknown from None


def limited(value: object) -> object:
    """A value that is not huge."""
    if isinstance(value, (str, tuple, list, dict, set, frozenset, range)) and len(value) > LARGEST:
        raise Unknown
    if isinstance(value, int) and value.bit_length() > 256:
        raise Unknown
    return value


def hashable(value: object) -> object:
    try:
        hash(value)
    except TypeError:
        raise Unknown from None
    return value
