"""What is known on a path through a function: which conditions were true, which names have which constant.

A path on which a condition is both true and false does not happen. What cannot be known rules nothing out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mypy.nodes import (
    CallExpr,
    ComparisonExpr,
    Expression,
    FloatExpr,
    IndexExpr,
    IntExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    RefExpr,
    SetExpr,
    StrExpr,
    TupleExpr,
    TypeInfo,
    UnaryExpr,
    Var,
)

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.constants import MISSING, Outside, literal, truth_of

ORDER: dict[str, Callable[[Any, Any], Any]] = {  # Any: constants of any kind
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "is": operator.eq, "is not": operator.ne,
}  # fmt: skip
CONTRARY = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==", "is": "is not", "is not": "is"}
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True)
class Fact:
    """What is known of the value of an expression."""

    names: frozenset[Var]
    """The names in it: when one gets another value, nothing is known any more."""
    value: object = MISSING
    others: tuple[object, ...] = ()
    """Constants that it is not."""
    among: tuple[object, ...] | None = None
    """Constants of which it is one."""
    truth: bool | None = None
    bounds: tuple[tuple[str, float], ...] = ()
    """Comparisons with numbers that are true: ``(">", 3)``."""
    kinds: tuple[TypeInfo, ...] = ()
    """Classes that it is an instance of."""
    not_kinds: tuple[TypeInfo, ...] = ()

    def common(self, other: Fact) -> Fact:
        """What is known on both of two paths."""
        return Fact(
            self.names,
            value=self.value if same(self.value, other.value) else MISSING,
            others=tuple(each for each in self.others if each in other.others),
            among=None if self.among is None or other.among is None else self.among + other.among,
            truth=self.truth if self.truth == other.truth else None,
            bounds=tuple(each for each in self.bounds if each in other.bounds),
            kinds=tuple(each for each in self.kinds if each in other.kinds),
            not_kinds=tuple(each for each in self.not_kinds if each in other.not_kinds),
        )


class Facts:
    """What is known on one path."""

    def __init__(self, known: dict[str, Fact] | None = None, outside: Outside | None = None) -> None:
        self.known = known or {}
        self.outside = outside or Outside()

    def copy(self) -> Facts:
        return Facts(dict(self.known), self.outside)

    def common(self, other: Facts) -> Facts:
        """What is known on both of two paths."""
        shared = {key: fact.common(other.known[key]) for key, fact in self.known.items() if key in other.known}
        return Facts(shared, self.outside)

    def forget(self, variable: Var) -> None:
        """A name gets another value."""
        self.known = {key: fact for key, fact in self.known.items() if variable not in fact.names}

    def assign(self, target: NameExpr, made: Expression | None, *, is_object: bool = False, is_true: bool = False) -> None:
        """A name gets a value. ``is_object``: it is not None."""
        if not isinstance(target.node, Var):
            return
        value = MISSING if made is None else self.constant(made)
        self.forget(target.node)
        key = key_of(target)
        if key and value is not MISSING:
            self.known[key] = Fact(frozenset({target.node}), value=value)
        elif key and is_object:
            self.known[key] = Fact(frozenset({target.node}), others=(None,), truth=is_true or None)

    def constant(self, expr: Expression) -> object:
        """The constant that an expression is; ``MISSING`` if it is none, or nobody knows."""
        written = literal(expr)
        if written is not MISSING:
            return written
        if isinstance(expr, UnaryExpr) and expr.op == "-":
            value = self.constant(expr.expr)
            return -value if isinstance(value, (int, float)) else MISSING
        if isinstance(expr, OpExpr) and expr.op in ("+", "-"):
            left, right = self.constant(expr.left), self.constant(expr.right)
            if isinstance(left, (int, float)) and isinstance(right, (int, float)):
                return left + right if expr.op == "+" else left - right
            return MISSING
        key = key_of(expr)
        return self.known[key].value if key in self.known else MISSING

    # ------------------------------------------------------------------- conditions

    def assume(self, condition: Expression, truth: bool) -> bool:
        """Go on where a condition is true, or false. False if that cannot be."""
        match condition:
            case UnaryExpr() if condition.op == "not":
                return self.assume(condition.expr, not truth)
            case OpExpr() if condition.op in ("and", "or"):
                return self.both(condition, truth)
            case ComparisonExpr() if len(condition.operators) == 1:
                return self.compared(condition.operands[0], condition.operators[0], condition.operands[1], truth)
            case CallExpr() if is_instance_check(condition):
                return self.instance(condition.args[0], condition.args[1], truth)
        value = self.constant(condition)
        if value is not MISSING:
            return truth_of(value) in (truth, None)
        key = key_of(condition)
        if key is None:
            return True
        known = self.known.get(key, Fact(names_in(condition)))
        if known.truth is not None:
            return known.truth == truth
        self.known[key] = replace(known, truth=truth)
        return True

    def both(self, condition: OpExpr, truth: bool) -> bool:
        """``and`` and ``or``: where both parts are decided, or one is and the other follows."""
        decides = condition.op == "or"  # the truth of one part that decides the whole
        if truth != decides:
            return self.assume(condition.left, truth) and self.assume(condition.right, truth)
        for first, second in ((condition.left, condition.right), (condition.right, condition.left)):
            if not self.copy().assume(first, decides):  # it is known not to be this one, so it is the other
                return self.assume(second, decides)
        key = key_of(condition)
        if key is not None:
            known = self.known.get(key, Fact(names_in(condition)))
            if known.truth is not None:
                return known.truth == truth
            self.known[key] = replace(known, truth=truth)
        return True

    def compared(self, left: Expression, how: str, right: Expression, truth: bool) -> bool:
        if how in ("in", "not in"):
            return self.member(left, right, truth == (how == "in"))
        if how not in CONTRARY:
            return True
        if not truth:
            how = CONTRARY[how]
        one, other = self.sides(left, right)
        if one is not MISSING and other is MISSING:
            left, right, how, one, other = right, left, MIRRORED.get(how, how), other, one
        if one is not MISSING and other is not MISSING:
            return holds(one, how, other)
        key = key_of(left)
        if key is None:
            return True
        if other is not MISSING and how in ("==", "is"):
            return self.equals(key, left, other)
        if other is not MISSING and how in ("!=", "is not"):
            return self.differs(key, left, other)
        if isinstance(other, (int, float)):
            return self.bounded(key, left, how, other)
        return self.ordered(left, how, right)

    def sides(self, left: Expression, right: Expression) -> tuple[object, object]:
        """The constants on both sides of a comparison. What the whole module sees as a constant is one beside something that
        changes; beside a literal it is what the user may set to another value, and both are looked at."""
        one, other = self.constant(left), self.constant(right)
        if one is MISSING:
            one = self.outside.narrowed(left)
        if other is MISSING and literal(left) is MISSING:
            other = self.outside.named(right)
        if one is MISSING and other is MISSING:
            one = self.outside.named(left)
        return one, other

    def bounded(self, key: str, subject: Expression, how: str, number: float) -> bool:
        """``n > 3`` rules out ``n < 2``."""
        known = self.known.get(key, Fact(names_in(subject)))
        bounds = (*known.bounds, (how, number))
        least = max((each for each in bounds if each[0] in (">", ">=")), key=lambda each: (each[1], each[0] == ">"), default=None)
        most = min((each for each in bounds if each[0] in ("<", "<=")), key=lambda each: (each[1], each[0] == "<="), default=None)
        if least is not None and most is not None:
            strict = least[0] == ">" or most[0] == "<"
            if least[1] > most[1] or (least[1] == most[1] and strict):
                return False
        self.known[key] = replace(known, bounds=bounds)
        return True

    def ordered(self, left: Expression, how: str, right: Expression) -> bool:
        """A comparison of which only the whole can be remembered: ``a < b`` rules out ``a >= b``."""
        if how in (">", "<="):
            left, right, how = right, left, MIRRORED[how]
        truth = how in ("<", "==", "is")
        one, other = key_of(left), key_of(right)
        if one is None or other is None:
            return True
        if how in ("==", "!=", "is", "is not"):
            one, other = min(one, other), max(one, other)
        key = f"{one} {'<' if how in ('<', '>=') else '=='} {other}"
        known = self.known.get(key, Fact(names_in(left) | names_in(right)))
        if known.truth is not None:
            return known.truth == truth
        self.known[key] = replace(known, truth=truth)
        return True

    def equals(self, key: str, subject: Expression, value: object) -> bool:
        known = self.known.get(key, Fact(names_in(subject)))
        ruled_out = has(known.others, value) or (known.among is not None and not has(known.among, value))
        ruled_out = ruled_out or (known.truth is not None and truth_of(value) not in (known.truth, None))
        ruled_out = ruled_out or not all(holds(value, how, number) for how, number in known.bounds)
        if ruled_out or (known.value is not MISSING and not same(known.value, value)):
            return False
        self.known[key] = replace(known, value=value)
        return True

    def differs(self, key: str, subject: Expression, value: object) -> bool:
        known = self.known.get(key, Fact(names_in(subject)))
        if known.value is not MISSING:
            return not same(known.value, value)
        others = (*known.others, value)
        self.known[key] = replace(known, others=others)
        return known.among is None or any(not has(others, each) for each in known.among)

    def member(self, subject: Expression, of: Expression, truth: bool) -> bool:
        """``mode in ("a", "b")``."""
        return self.one_of(subject, of.items if isinstance(of, (TupleExpr, ListExpr, SetExpr)) else [], truth)

    def one_of(self, subject: Expression, items: Sequence[Expression], truth: bool) -> bool:
        """True if something may be one of these values, or none of them."""
        key = key_of(subject)
        values = [self.sides(subject, item)[1] for item in items]
        if key is None or not values or any(value is MISSING for value in values):
            return True
        if not truth:
            return all(self.differs(key, subject, value) for value in values)
        known = self.known.get(key, Fact(names_in(subject)))
        if known.value is not MISSING:
            return has(values, known.value)
        left = [value for value in values if not has(known.others, value) and (known.among is None or has(known.among, value))]
        self.known[key] = replace(known, among=tuple(left))
        return self.equals(key, subject, left[0]) if len(left) == 1 else bool(left)

    def instance(self, subject: Expression, of: Expression, truth: bool) -> bool:
        """``isinstance(x, A)`` rules out ``isinstance(x, B)``, unless one of the classes is derived from the other."""
        key, kinds = key_of(subject), classes_in(of)
        if key is None or not kinds:
            return True
        known = self.known.get(key, Fact(names_in(subject)))
        if not truth:
            if any(kind in found.mro for found in known.kinds for kind in kinds):
                return False
            self.known[key] = replace(known, not_kinds=(*known.not_kinds, *kinds))
            return True
        possible = [kind for kind in kinds if not any(each in kind.mro for each in known.not_kinds)]
        if known.kinds:
            possible = [kind for kind in possible if any(kind in one.mro or one in kind.mro for one in known.kinds)]
        if len(possible) == 1:
            self.known[key] = replace(known, kinds=(*known.kinds, possible[0]))
        return bool(possible)


def holds(one: object, how: str, other: object) -> bool:
    try:
        return bool(ORDER[how](one, other))
    except TypeError:
        return True


def same(one: object, other: object) -> bool:
    """``1`` is not ``True`` here."""
    return type(one) is type(other) and one == other


def has(values: Sequence[object], value: object) -> bool:
    return any(same(value, each) for each in values)


def is_instance_check(call: CallExpr) -> bool:
    return isinstance(call.callee, RefExpr) and call.callee.fullname == "builtins.isinstance" and len(call.args) == 2


def classes_in(expr: Expression) -> list[TypeInfo]:
    """The classes of an ``isinstance``; none if one of them is not known."""
    found: list[TypeInfo] = []
    for each in expr.items if isinstance(expr, TupleExpr) else [expr]:
        if not isinstance(each, RefExpr) or not isinstance(each.node, TypeInfo):
            return []
        found.append(each.node)
    return found


def names_in(expr: Expression) -> frozenset[Var]:
    return frozenset(name.node for name in _names(expr) if isinstance(name.node, Var))


def _names(expr: Expression) -> Iterator[NameExpr]:
    for node in tree.walk(expr):
        if isinstance(node, NameExpr):
            yield node


def key_of(expr: Expression) -> str | None:
    """The same text for the same expression; None for what may be something else each time, or is too long to tell."""
    match expr:
        case NameExpr():
            return f"{expr.name}@{id(expr.node)}" if expr.node is not None else None
        case IntExpr() | StrExpr() | FloatExpr():
            return repr(expr.value)
        case MemberExpr():
            inner = key_of(expr.expr)
            return None if inner is None else f"{inner}.{expr.name}"
        case UnaryExpr():
            inner = key_of(expr.expr)
            return None if inner is None else f"{expr.op} {inner}"
        case IndexExpr():
            return _together("[]", [expr.base, expr.index])
        case OpExpr():
            return _together(expr.op, [expr.left, expr.right])
        case ComparisonExpr():
            return _together(" ".join(expr.operators), expr.operands)
        case CallExpr():
            return _together("()", [expr.callee, *expr.args])
    return None


def _together(how: str, parts: list[Expression]) -> str | None:
    keys = [key_of(part) for part in parts]
    return None if None in keys else f"({how} {' '.join(filter(None, keys))})"
