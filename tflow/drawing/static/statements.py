"""What each kind of statement does: assign, branch, repeat, return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mypy import nodes as m
from mypy import patterns

from tflow.drawing.model import shorter
from tflow.drawing.static.source import has_streams, is_object
from tflow.drawing.static.values import (
    UNKNOWN,
    Callee,
    Carried,
    Choice,
    Item,
    Opaque,
    Several,
    Split,
    Stream,
    Value,
    both,
    joined,
    streams_in,
)

if TYPE_CHECKING:
    from tflow.drawing.static.arguments import Call
    from tflow.drawing.static.reader import Reader, Scope

Run = Callable[["Reader", Any], None]  # Any: the kind of statement that it is listed for


def block(reader: Reader, body: Sequence[m.Statement]) -> None:
    """Statements in order, up to one behind which nothing happens."""
    for statement in body:
        if not reader.alive:
            return
        KINDS.get(type(statement), nothing)(reader, statement)


def nothing(reader: Reader, statement: m.Statement) -> None:
    """Imports, declarations and other statements that build nothing."""


def suite(reader: Reader, statement: m.Block) -> None:
    if not statement.is_unreachable:
        block(reader, statement.body)


def expression(reader: Reader, statement: m.ExpressionStmt) -> None:
    reader.value(statement.expr)


def assignment(reader: Reader, statement: m.AssignmentStmt) -> None:
    if isinstance(statement.rvalue, m.TempNode):  # a declaration without a value
        return
    value = reader.value(statement.rvalue)
    for target in statement.lvalues:
        reader.bind(target, value)


def changed_in_place(reader: Reader, statement: m.OperatorAssignmentStmt) -> None:
    """``streams += [stream]``."""
    before, added = reader.value(statement.lvalue), reader.value(statement.rvalue)
    if isinstance(before, Several):
        items = added.items if isinstance(added, Several) else (Item(added, "*"),) if streams_in(added) else ()
        reader.bind(statement.lvalue, replace(before, items=(*before.items, *items)))
    else:
        reader.bind(statement.lvalue, UNKNOWN)


def unpack(reader: Reader, targets: Sequence[m.Expression], value: Value, whole: m.Expression) -> None:
    """``a, *rest, b = value``."""
    star = next((place for place, target in enumerate(targets) if isinstance(target, m.StarExpr)), None)
    if isinstance(value, Split) and value.branches is None and star is None:
        value = replace(value, branches=len(targets))
    if isinstance(value, Split) and value.branches is not None:
        value = Several(tuple(Item(reader.draft.branch(value, place)) for place in range(value.branches)))
    if isinstance(value, Choice):
        value = Several(tuple(Item(reader.member(value, place, whole, None)) for place in range(len(targets))))
    known = isinstance(value, Several) and not any("*" in item.mark for item in value.items)
    if isinstance(value, Several) and known and (len(value.items) == len(targets) or star is not None):
        items, behind = list(value.items), 0 if star is None else len(targets) - star - 1
        if star is not None:
            middle = Several(tuple(items[star : len(items) - behind]))
            items = [*items[:star], Item(middle), *items[len(items) - behind :]]
        for target, item in zip(targets, items, strict=False):
            reader.bind(target, item.value)
        return
    each = reader.each(value, whole) if streams_in(value) and not isinstance(value, Opaque) else value
    for target in targets:
        reader.bind(target, each if streams_in(value) else UNKNOWN)


# --------------------------------------------------------------------------- paths


def branches(reader: Reader, arms: Sequence[tuple[str, Sequence[m.Statement]]], label: str, line: int) -> None:
    """Read each arm with the variables of before; behind them, a variable is one of what it is behind each."""
    before, ends = reader.scope, []
    for mark, body in arms:
        reader.scope, reader.alive = dict(before), True
        with reader.under(mark):
            block(reader, body)
        if reader.alive:
            ends.append((mark, reader.scope))
    reader.alive = bool(ends)
    if not ends:
        reader.scope = before
    elif len(ends) == 1:
        reader.scope = ends[0][1]
        if ends[0][0]:
            reader.conditions.append(ends[0][0])  # what is returned from here on is returned only on this path
    else:
        reader.scope = meeting(ends, label, line)


def meeting(ends: Sequence[tuple[str, Scope]], label: str, line: int) -> Scope:
    """The variables where paths meet."""
    names = dict.fromkeys(name for _, scope in ends for name in scope)
    found: Scope = {}
    for name in names:
        known = [(mark, scope[name]) for mark, scope in ends if name in scope]
        found[name] = joined(known, label, line)
    return found


def is_main_guard(expr: m.Expression) -> bool:
    """``__name__ == "__main__"``, which is no condition that anybody wants to see."""
    return isinstance(expr, m.ComparisonExpr) and any(isinstance(e, m.NameExpr) and e.name == "__name__" for e in expr.operands)


def condition(reader: Reader, statement: m.IfStmt) -> None:
    arms: list[tuple[str, Sequence[m.Statement]]] = []
    for test, body in zip(statement.expr, statement.body, strict=True):
        reader.value(test)
        if not body.is_unreachable:
            arms.append(("" if is_main_guard(test) else f"if {shorter(reader.text(test), 32)}", body.body))
    otherwise = statement.else_body
    if otherwise is None or not otherwise.is_unreachable:
        mark = "" if any(is_main_guard(test) for test in statement.expr) else "else"
        arms.append((mark, otherwise.body if otherwise is not None else ()))
    if len(arms) == 1:  # the others are for other platforms or Python versions
        block(reader, arms[0][1])
    else:
        branches(reader, arms, "if", statement.line)


def matching(reader: Reader, statement: m.MatchStmt) -> None:
    subject = reader.value(statement.subject)
    arms: list[tuple[str, Sequence[m.Statement]]] = []
    for pattern, guard, body in zip(statement.patterns, statement.guards, statement.bodies, strict=True):
        if guard is not None:
            reader.value(guard)
        if isinstance(pattern, patterns.AsPattern) and pattern.pattern is None and pattern.name is not None:
            reader.bind(pattern.name, subject)
        if not body.is_unreachable:
            arms.append((f"case {shorter(reader.text(pattern), 32)}", body.body))
    last = statement.patterns[-1]
    if not (isinstance(last, patterns.AsPattern) and last.pattern is None and statement.guards[-1] is None):
        arms.append(("else", ()))
    branches(reader, arms, "match", statement.line)


def attempt(reader: Reader, statement: m.TryStmt) -> None:
    """A handler begins with the variables from before the try."""
    before = dict(reader.scope)
    ends: list[tuple[str, Scope]] = []
    block(reader, [*statement.body.body, *(statement.else_body.body if statement.else_body else ())])
    if reader.alive:
        ends.append(("", reader.scope))
    for kind, handler in zip(statement.types, statement.handlers, strict=True):
        mark = "except" if kind is None else f"except {reader.text(kind)}"
        reader.scope, reader.alive = dict(before), True
        with reader.under(mark):
            block(reader, handler.body)
        if reader.alive:
            ends.append((mark, reader.scope))
    reader.alive = bool(ends)
    reader.scope = meeting(ends, "try", statement.line) if ends else before
    if statement.finally_body is not None:
        alive, reader.alive = reader.alive, True
        block(reader, statement.finally_body.body)
        reader.alive = reader.alive and alive


def context(reader: Reader, statement: m.WithStmt) -> None:
    for expr, target in zip(statement.expr, statement.target, strict=True):
        value = reader.value(expr)
        if target is not None:
            reader.bind(target, value if isinstance(value, (Several, Opaque, Stream)) else UNKNOWN)
    block(reader, statement.body.body)


# --------------------------------------------------------------------------- loops


def for_loop(reader: Reader, statement: m.ForStmt) -> None:
    """The body is drawn once, for each."""
    value = reader.value(statement.expr)
    title = f"for each {reader.text(statement.index)} in {shorter(reader.text(statement.expr), 28)}"
    each = reader.each(value, statement.expr)
    repeated(reader, title, lambda: reader.bind(statement.index, each), statement.body, statement.else_body, statement.line)


def while_loop(reader: Reader, statement: m.WhileStmt) -> None:
    reader.value(statement.expr)
    title = f"while {shorter(reader.text(statement.expr), 36)}"
    repeated(reader, title, lambda: None, statement.body, statement.else_body, statement.line)


def repeated(reader: Reader, title: str, begin: Callable[[], None], body: m.Block, otherwise: m.Block | None, line: int) -> None:
    before = dict(reader.scope)
    reader.leaving.append([])
    with reader.draft.inside(title), reader.under(title):
        begin()
        block(reader, body.body)
    left = reader.leaving.pop()
    through = [*([("", reader.scope)] if reader.alive else []), *((mark, scope) for mark, scope, early in left if not early)]
    broken = [(mark, scope) for mark, scope, early in left if early]
    if otherwise is not None and through:  # only a loop that was not broken off gets there
        reader.scope, reader.alive = meeting(through, "if", line), True
        block(reader, otherwise.body)
        through = [("else", reader.scope)] if reader.alive else []
    ends = [*through, *broken]
    reader.alive = True
    reader.scope = meeting(ends, "if", line) if ends else before
    for name, value in reader.scope.items():
        was = before.get(name)
        if isinstance(value, Several) and isinstance(was, Several) and len(value.items) > len(was.items):
            count = len(was.items)
            added = (replace(item, mark=both("*", item.mark.replace("*", ""))) for item in value.items[count:])
            reader.scope[name] = replace(value, items=(*value.items[:count], *added))


def leave(reader: Reader, statement: m.BreakStmt | m.ContinueStmt) -> None:
    if reader.leaving:
        mark = reader.conditions[-1] if reader.conditions else ""
        reader.leaving[-1].append((mark, reader.scope, isinstance(statement, m.BreakStmt)))
    reader.alive = False


# --------------------------------------------------------------------------- functions


def returning(reader: Reader, statement: m.ReturnStmt) -> None:
    value = reader.value(statement.expr) if statement.expr is not None else UNKNOWN
    reader.give_back(value, statement.line)
    reader.alive = False


def raising(reader: Reader, statement: m.RaiseStmt) -> None:
    if statement.expr is not None:
        reader.value(statement.expr)
    reader.alive = False


def asserting(reader: Reader, statement: m.AssertStmt) -> None:
    reader.value(statement.expr)


def definition(reader: Reader, statement: m.FuncDef) -> None:
    """A function inside a function: it may use what is around it."""
    uses = reader.captured(statement)
    reader.scope[statement.name] = Callee(statement.name, statement, reader.scope, uses, reader.module.name)


def decorated(reader: Reader, statement: m.Decorator) -> None:
    definition(reader, statement.func)


def overloaded(reader: Reader, statement: m.OverloadedFuncDef) -> None:
    if isinstance(statement.impl, m.FuncDef):
        definition(reader, statement.impl)


def is_stub(function: m.FuncItem) -> bool:
    """True for a body that does nothing, as in protocols."""
    return all(
        isinstance(each, m.PassStmt)
        or (isinstance(each, m.ExpressionStmt) and isinstance(each.expr, (m.StrExpr, m.EllipsisExpr)))
        for each in function.body.body
    )


def take_parameters(reader: Reader, function: m.FuncDef) -> None:
    """The parameters of a function that is drawn by itself: streams come in from outside."""
    for argument in function.arguments:
        variable = argument.variable
        kind = variable.type
        carried = Carried.by(kind)
        if carried.kind:
            made = reader.draft.add(f"{variable.name}: {carried}", [], carried, kind="input", line=argument.line)
            starred = argument.kind.is_star()
            reader.scope[variable.name] = Opaque(made.node) if starred else made
        elif has_streams(kind) and not is_object(kind):
            made = reader.draft.add(f"{variable.name}: {carried}", [], carried, kind="input", line=argument.line)
            reader.scope[variable.name] = Opaque(made.node)
        else:
            reader.scope[variable.name] = UNKNOWN


def give_arguments(reader: Reader, function: m.FuncItem, call: Call, owner: Value) -> None:
    """The parameters of a function that is looked into where it is called; the first of a method is the ``owner``."""
    given = list(call.positional())
    named = {each.name: each.value for each in call.arguments if each.name is not None}
    parameters = list(function.arguments)
    if (
        isinstance(function, m.FuncDef)
        and function.info
        and not function.is_static
        and parameters
        and isinstance(call.expr.callee, m.MemberExpr)
    ):
        itself = parameters.pop(0).variable.name
        reader.scope[itself] = owner
        known = f"{call.reader.text(call.expr.callee.expr)}."  # attributes that the caller has set are known in the method too
        reader.scope |= {
            f"{itself}.{name.removeprefix(known)}": value for name, value in call.reader.scope.items() if name.startswith(known)
        }
    for parameter in parameters:
        name, kind = parameter.variable.name, parameter.kind
        if kind is m.ARG_STAR:
            reader.scope[name] = Several(tuple(given))
            given = []
        elif kind is m.ARG_STAR2:
            reader.scope[name] = Several(tuple(Item(value, "", key) for key, value in named.items()), keyed=True)
        elif name in named:
            reader.scope[name] = named.pop(name)
        elif given and kind.is_positional():
            item = given[0] if "*" in given[0].mark else given.pop(0)
            reader.scope[name] = item.value
        elif parameter.initializer is not None:
            reader.scope[name] = reader.value(parameter.initializer)
        else:
            reader.scope[name] = UNKNOWN


KINDS: dict[type[m.Statement], Run] = {
    m.Block: suite,
    m.ExpressionStmt: expression,
    m.AssignmentStmt: assignment,
    m.OperatorAssignmentStmt: changed_in_place,
    m.IfStmt: condition,
    m.MatchStmt: matching,
    m.TryStmt: attempt,
    m.WithStmt: context,
    m.ForStmt: for_loop,
    m.WhileStmt: while_loop,
    m.BreakStmt: leave,
    m.ContinueStmt: leave,
    m.ReturnStmt: returning,
    m.RaiseStmt: raising,
    m.AssertStmt: asserting,
    m.FuncDef: definition,
    m.Decorator: decorated,
    m.OverloadedFuncDef: overloaded,
}
