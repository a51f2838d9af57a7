"""Which stream is consumed where: a function body is traversed as it would run, along all of its paths.

Every stream that gets a name is an *edge*. Names are only names: ``x = r`` gives the edge a second one. Paths stay apart as long
as streams differ on them, with what is known on each (``facts.py``): one on which a condition is true and false does not happen.
Where too many meet and a name means different edges, it means a new one, made of these. Loops are traversed twice, so that what
is consumed in every turn shows up as consumed twice. What cannot be followed (streams in objects that others may change, in
functions that are passed on, in values without a type) is ignored: no rule complains about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mypy import nodes
from mypy.nodes import CallExpr, Context, Expression, FuncDef, FuncItem, NameExpr, Statement, Var
from mypy.patterns import AsPattern, ClassPattern, OrPattern, Pattern, SingletonPattern, ValuePattern
from mypy.types import UninhabitedType, get_proper_type

from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.edges import Members, State, StreamEdge, Use, Value
from tflow.mypy_plugin.effects import UNKNOWN, Effect, in_common, sets_attributes
from tflow.mypy_plugin.facts import Facts
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.names import attribute
from tflow.mypy_plugin.report import Checker
from tflow.mypy_plugin.values import Values, keeps

MOST_PATHS = 64
"""Beyond that, paths are looked at together, as if each could go on as any other."""
MOST_TURNS = 4
"""Of a loop over the members of a display, such as ``for size in (1, 2):``; others are traversed twice."""
MOST_CALLS = 3
"""Of functions of the same body, inside each other."""
Paths = list[State]
"""The states of all paths that come out at the end of something."""


class Uses(Values):
    """Goes through one body, path by path."""

    def __init__(self, api: Checker, labels: Labels, *, strict: bool, twice: Callable[[StreamEdge, Use, Use], None]) -> None:
        super().__init__(api, labels, strict=strict, twice=twice)
        self.local, self.inside = set(), False
        self.effects: dict[FuncDef, Effect] = {}
        self.frames: list[list[tuple[State, Value | None]]] = []
        """What functions of this body that are being called return."""
        self.discarded: list[tuple[Expression, str]] = []
        self.jumps: list[tuple[Paths, Paths]] = []
        """Where ``continue`` and ``break`` leave the loops that are being traversed."""

    def module(self, file: nodes.MypyFile) -> None:
        """What stands at the top of a file."""
        self.statements(file.defs, [self.start()])

    def function(self, fn: FuncItem) -> None:
        """A function, with the streams that it is given."""
        self.inside = True
        state = self.start()
        own = 1 if isinstance(fn, FuncDef) and fn.info and not fn.is_static else 0
        for argument in fn.arguments[own:]:
            variable = argument.variable
            if not argument.kind.is_star() and shapes.stream(variable.type) is not None:
                self.bind(variable, StreamEdge(f'"{variable.name}"', argument, variable.name, parameter=True), state)
        for end in self.block(fn.body, [state]):
            self.ended(end, fn.body.body[-1] if fn.body.body else fn)

    def effect(self, fn: FuncDef) -> Effect:
        """What a function of this module does with streams from outside."""
        if fn not in self.effects:
            self.effects[fn] = UNKNOWN  # as long as it is being looked at: it may call itself
            plain = not (fn.is_generator or fn.is_coroutine or fn.is_overload or fn.is_static or fn.is_class)
            if self.is_here(fn) and plain and fn.body.body and not sets_attributes(fn):
                inner = Uses(self.api, self.labels, strict=False, twice=lambda edge, first, second: None)
                inner.effects, inner.inside, inner.frames = self.effects, True, [[]]
                ends = inner.block(fn.body, [self.start()])
                own = fn.arguments[0].variable if fn.info and fn.arguments else None
                self.effects[fn] = in_common(own, [*((end, None) for end in ends), *inner.frames[0]])
        return self.effects[fn]

    def block(self, body: nodes.Block | None, paths: Paths) -> Paths:
        """The paths that come out at the end."""
        if body is None:
            return paths
        return [] if body.is_unreachable else self.statements(body.body, paths)

    def statements(self, body: Iterable[Statement], paths: Paths) -> Paths:
        """The paths that come out at the end."""
        for node in body:
            if not paths:
                break
            paths = self.fewer([end for path in paths for end in self.statement(node, path)])
        return paths

    def statement(self, node: Statement, state: State) -> Paths:
        """The paths on which control goes on behind it."""
        rule = RULES.get(type(node))
        if rule is not None:
            found = rule(self, node, state)
            return [state] if found is None else found
        for child in tree.children(node):
            if isinstance(child, Expression):
                self.value(child, state)
        return [state]

    def fewer(self, paths: Paths) -> Paths:
        """Paths on which streams are the same are one; where there are too many, they are looked at together."""
        found: Paths = []
        for path in paths:
            twin = next((each for each in found if each.like(path)), None)
            if twin is None:
                found.append(path)
            else:
                twin.facts = twin.facts.common(path.facts)
                twin.made |= path.made
        if len(found) > MOST_PATHS:
            together = State()
            self.meet(together, list(found))
            together.certain = False
            return [together]
        return found

    def ended(self, state: State, where: Context) -> None:
        """A path comes out of the function: all branches of splits were to be consumed by then."""
        consumed = {part for edge in state.used for part in edge.all_parts()}
        for edge in state.made if state.certain else ():
            if edge not in consumed and edge.dropped is None:
                edge.dropped = where

    # ------------------------------------------------------------------- one after the other

    def assignment(self, node: nodes.AssignmentStmt, state: State) -> Paths:
        paths = []
        for made, path in self.alternatives(node.rvalue, state):
            self.assigned(node, made, path)
            paths.append(path)
        return paths

    def alternatives(self, expr: Expression, state: State) -> list[tuple[Expression, State]]:
        """What an expression is on different paths: ``a if condition else b``."""
        if not isinstance(expr, nodes.ConditionalExpr):
            return [(expr, state)]
        self.value(expr.cond, state)
        there = state.copy()
        found = self.alternatives(expr.if_expr, there) if there.facts.assume(expr.cond, True) else []
        return found + (self.alternatives(expr.else_expr, state) if state.facts.assume(expr.cond, False) else [])

    def assigned(self, node: nodes.AssignmentStmt, made: Expression, state: State) -> None:
        if isinstance(made, nodes.TempNode):
            return  # only a declaration
        if isinstance(made, nodes.LambdaExpr) and isinstance(node.lvalues[0], NameExpr) and len(node.lvalues) == 1:
            self.set(node.lvalues[0], made, None, state)  # followed when it is called
            return
        if isinstance(made, nodes.TupleExpr) and all(_unpacks(target, made) for target in node.lvalues):
            values = [self.value(item, state) for item in made.items]  # all of them first: `a, b = b, a`
            for target in node.lvalues:
                assert isinstance(target, (nodes.TupleExpr, nodes.ListExpr))
                for each in zip(target.items, made.items, values, strict=True):
                    self.set(*each, state)
            return
        value = self.value(made, state)
        for target in node.lvalues:
            self.set(target, made, value, state)

    def changed(self, node: nodes.OperatorAssignmentStmt, state: State) -> None:
        """``n += 1``."""
        self.let_go(self.value(node.rvalue, state))
        if isinstance(node.lvalue, NameExpr):
            whole = nodes.OpExpr(node.op, node.lvalue, node.rvalue)
            state.facts.assign(node.lvalue, whole)

    def expression(self, node: nodes.ExpressionStmt, state: State) -> Paths:
        found = self.value(node.expr, state)
        value = found if isinstance(found, StreamEdge) else None
        if value is not None and value.where is None and all(part.where is None for part in value.parts):
            if not (isinstance(node.expr, CallExpr) and keeps(node.expr.callee)):
                self.discarded.append((node.expr, str(value.label)))
        elif isinstance(node.expr, nodes.ListComprehension) and shapes.stream(self.type_of(node.expr.generator.left_expr)):
            self.discarded.append((node.expr, self.labels.of(node.expr.generator.left_expr)))
        elif isinstance(node.expr, CallExpr) and self.is_split(node.expr):
            self.discarded.append((node.expr, self.labels.call(node.expr)))
        ends = isinstance(get_proper_type(self.type_of(node.expr)), UninhabitedType)  # such as sys.exit()
        return [] if ends else [state]

    def asserted(self, node: nodes.AssertStmt, state: State) -> Paths:
        self.value(node.expr, state)
        return [state] if state.facts.assume(node.expr, True) else []

    def returned(self, node: nodes.ReturnStmt, state: State) -> Paths:
        for expr, path in [(None, state)] if node.expr is None else self.alternatives(node.expr, state):
            value = self.value(expr, path)
            if self.frames:
                self.frames[-1].append((path, value))
            else:
                self.consume(value, "return", expr, path)
                self.ended(path, node)
        return []

    def raised(self, node: nodes.RaiseStmt, state: State) -> Paths:
        return []

    def jump(self, node: nodes.BreakStmt | nodes.ContinueStmt, state: State) -> Paths:
        if self.jumps:
            self.jumps[-1][isinstance(node, nodes.BreakStmt)].append(state)
        return []

    def with_(self, node: nodes.WithStmt, state: State) -> Paths:
        for given, target in zip(node.expr, node.target, strict=True):
            value = self.value(given, state)
            if target is not None:
                self.set(target, given, value, state)
        expected = any(tree.expects(given) for given in node.expr)
        if not expected and not any(shapes.swallows(self.type_of(given)) for given in node.expr):
            return self.block(node.body, [state])
        before = unsure(state.copy())  # the body may end anywhere
        twice, self.twice = self.twice, (lambda edge, first, second: None) if expected else self.twice
        paths = self.block(node.body, [state])
        self.twice = twice
        return [before, *paths]

    def delete(self, node: nodes.DelStmt, state: State) -> None:
        if isinstance(node.expr, nodes.MemberExpr) and (key := attribute(node.expr)) is not None:
            state.attributes.pop(key, None)  # a cached property is made anew
        self.release_names_in(node.expr, state)
        for name in tree.walk(node.expr):
            if isinstance(name, NameExpr) and isinstance(name.node, Var):
                state.names.pop(name.node, None)

    def definition(self, node: Statement, state: State) -> None:
        if isinstance(node, FuncDef) and not node.is_generator and not node.is_coroutine and not node.is_overload:
            self.local.add(node)
            for argument in node.arguments:
                if argument.initializer is not None:
                    self.release_names_in(argument.initializer, state)
        else:
            self.release_names_in(node, state)

    def inline(self, fn: FuncItem, call: CallExpr, state: State) -> Value | None:
        """A call of a function of this body: its body is traversed here, with what it is given."""
        given = [self.value(argument, state) for argument in call.args]
        if not all(kind in (nodes.ARG_POS, nodes.ARG_NAMED) for kind in call.arg_kinds):
            self.called_unknown(fn, given, state)
            return None
        return self.entered(fn, list(zip(call.arg_names, given, strict=True)), state)

    def called_unknown(self, fn: FuncItem, given: Sequence[Value | None], state: State) -> None:
        """Nobody knows what a call of a function of this body does."""
        for value in given:
            self.let_go(value)
        self.release_names_in(fn, state)

    def entered(self, fn: FuncItem, given: Sequence[tuple[str | None, Value | None]], state: State) -> Value | None:
        """The body of a function is traversed, with arguments, each with its name if it was written."""
        if len(self.frames) > MOST_CALLS or any(argument.kind.is_star() for argument in fn.arguments):
            self.called_unknown(fn, [value for _, value in given], state)
            return None
        for argument in fn.arguments:
            state.names.pop(argument.variable, None)
            state.facts.forget(argument.variable)
        by_name = {argument.variable.name: argument.variable for argument in fn.arguments}
        for place, (name, value) in enumerate(given):
            variable = by_name.get(name) if name is not None else fn.arguments[place].variable if place < len(by_name) else None
            if isinstance(value, StreamEdge) and variable is not None:
                state.names[variable] = value
            elif value is not None:
                self.let_go(value)
        self.frames.append([])
        jumps, self.jumps = self.jumps, []
        ends = self.block(fn.body, [state.copy()])
        self.jumps = jumps
        returns = self.frames.pop()
        self.meet(state, [*ends, *(path for path, _ in returns)])
        return self.one_of([value for _, value in returns])

    def one_of(self, values: list[Value | None]) -> Value | None:
        """What is returned on different paths."""
        known = list(dict.fromkeys(value for value in values if value is not None))
        if len(known) <= 1:
            return known[0] if known else None
        edges = [value for value in known if isinstance(value, StreamEdge)]
        if len(edges) < len(known):
            for value in known:
                self.let_go(value)
            return None
        return StreamEdge(edges[0].label, parts=tuple(edges), plan=all(edge.plan for edge in edges))

    # ------------------------------------------------------------------- one or the other

    def if_(self, node: nodes.IfStmt, state: State) -> Paths:
        ends: Paths = []
        for condition, body in zip(node.expr, node.body, strict=True):
            self.value(condition, state)
            there = state.copy()
            if there.facts.assume(condition, True):
                ends += self.block(body, [there])
            if not state.facts.assume(condition, False):
                return ends
        return ends + self.block(node.else_body, [state])

    def match(self, node: nodes.MatchStmt, state: State) -> Paths:
        subject = self.stream(node.subject, state)
        ends: Paths = []
        for pattern, guard, body in zip(node.patterns, node.guards, node.bodies, strict=True):
            there = state.copy()
            for name in tree.walk(pattern):
                if isinstance(name, NameExpr) and isinstance(name.node, Var):
                    there.facts.forget(name.node)
                    self.may_change(name, there)
                    if subject is not None:
                        there.names[name.node] = subject
            possible = matches(there.facts, node.subject, pattern, True)
            if guard is None and not matches(state.facts, node.subject, pattern, False):
                return ends + (self.block(body, [there]) if possible else [])
            if not possible:
                continue
            if guard is not None:
                self.value(guard, there)
            ends += self.block(body, [there])
            if isinstance(pattern, AsPattern) and pattern.pattern is None and guard is None:
                return ends  # it takes everything
        return [*ends, unsure(state)]

    def try_(self, node: nodes.TryStmt, state: State) -> Paths:
        """A handler begins as if nothing of the body had been done: it may have failed at once."""
        before = state.copy()
        body = self.block(node.else_body, self.block(node.body, [state]))
        ends = body + [end for handler in node.handlers for end in self.block(handler, [before.copy()])]
        if not ends and node.finally_body is not None:
            self.block(node.finally_body, [state])  # also after a return
            return []
        return self.block(node.finally_body, ends)

    def loop(self, node: nodes.ForStmt | nodes.WhileStmt, state: State) -> Paths:
        value = self.value(node.expr, state) if isinstance(node, nodes.ForStmt) else None
        if isinstance(value, StreamEdge):
            self.run(value, state)  # to go through a plan is to run it
        members = self.members_of(node, value)
        turns = min(len(members), MOST_TURNS) if members else 2
        paths, normal, left = [state], list[State](), list[State]()
        for turn in range(turns + 1):
            entering: Paths = []
            for path in paths:
                inside, outside = self.next_turn(node, path, members, turn)
                entering += [] if inside is None else [inside]
                normal += [] if outside is None else [outside]
            if turn == turns:
                break
            self.jumps.append(([], []))
            with self.in_turn():
                through = self.block(node.body, entering)
            again, out = self.jumps.pop()
            left += out
            paths = self.fewer([*again, *through])
        return self.fewer([*left, *self.block(node.else_body, self.fewer(normal))])

    def next_turn(
        self, node: nodes.ForStmt | nodes.WhileStmt, path: State, members: Sequence[Expression | Value | None], turn: int
    ) -> tuple[State | None, State | None]:
        """The path that goes into another turn, and the one that leaves the loop; None for those that there are not."""
        inside, outside = path.copy(), path
        if isinstance(node, nodes.WhileStmt):
            self.value(node.expr, inside)
            enters, leaves = inside.facts.assume(node.expr, True), outside.facts.assume(node.expr, False)
            return inside if enters else None, outside if leaves else None
        made = members[turn] if turn < len(members) else None
        self.set(node.index, node.index, None if isinstance(made, Expression) else made, inside)
        if isinstance(made, Expression) and isinstance(node.index, NameExpr):
            inside.facts.assign(node.index, made)
        if members:  # as many turns as there are members
            last = turn == len(members) or turn == MOST_TURNS
            return (None, outside) if last else (inside, None)
        return inside, outside if turn else unsure(outside)  # whether there is a first turn depends on what it goes through

    def members_of(self, node: nodes.ForStmt | nodes.WhileStmt, value: Value | None) -> Sequence[Expression | Value | None]:
        """What a loop goes through, if that is known: streams, or the members of a display without stars."""
        if isinstance(value, Members):
            if value.keys is None and len(value.members) <= MOST_TURNS:
                return value.members
            self.let_go(value)
        shown = node.expr if isinstance(node, nodes.ForStmt) else None
        items = shown.items if isinstance(shown, (nodes.TupleExpr, nodes.ListExpr)) else []
        return [] if any(isinstance(item, nodes.StarExpr) for item in items) else items


def unsure(state: State) -> State:
    """A path of which nobody knows whether it is taken."""
    state.certain = False
    return state


def matches(facts: Facts, subject: Expression, pattern: Pattern, truth: bool) -> bool:
    """Go on where a pattern matches, or does not. False if that cannot be."""
    if isinstance(pattern, AsPattern) and pattern.pattern is not None:
        return matches(facts, subject, pattern.pattern, truth)
    if isinstance(pattern, ClassPattern) and not pattern.positionals and not pattern.keyword_values:
        return facts.instance(subject, pattern.class_ref, truth)
    values = [value_of(each) for each in (pattern.patterns if isinstance(pattern, OrPattern) else [pattern])]
    known = [each for each in values if each is not None]
    return len(known) < len(values) or facts.one_of(subject, known, truth)


def value_of(pattern: Pattern) -> Expression | None:
    """The value that a pattern stands for."""
    if isinstance(pattern, SingletonPattern):
        name = NameExpr(str(pattern.value))
        name.fullname = f"builtins.{pattern.value}"
        return name
    return pattern.expr if isinstance(pattern, ValuePattern) else None


def _unpacks(target: Expression, made: nodes.TupleExpr) -> bool:
    """True if a target takes the items one by one."""
    if not isinstance(target, (nodes.TupleExpr, nodes.ListExpr)) or len(target.items) != len(made.items):
        return False
    return not any(isinstance(item, nodes.StarExpr) for item in (*target.items, *made.items))


def block(uses: Uses, node: nodes.Block, state: State) -> Paths:
    return uses.block(node, [state])


Rule = Callable[[Uses, Any, State], Paths | None]  # Any: the kind of statement that it stands beside
RULES: dict[type[Statement], Rule] = {
    nodes.AssignmentStmt: Uses.assignment,
    nodes.ExpressionStmt: Uses.expression,
    nodes.ReturnStmt: Uses.returned,
    nodes.RaiseStmt: Uses.raised,
    nodes.BreakStmt: Uses.jump,
    nodes.ContinueStmt: Uses.jump,
    nodes.Block: block,
    nodes.AssertStmt: Uses.asserted,
    nodes.OperatorAssignmentStmt: Uses.changed,
    nodes.IfStmt: Uses.if_,
    nodes.ForStmt: Uses.loop,
    nodes.WhileStmt: Uses.loop,
    nodes.MatchStmt: Uses.match,
    nodes.WithStmt: Uses.with_,
    nodes.TryStmt: Uses.try_,
    nodes.DelStmt: Uses.delete,
    FuncDef: Uses.definition,
    nodes.Decorator: Uses.definition,
    nodes.OverloadedFuncDef: Uses.definition,
    nodes.ClassDef: Uses.definition,
}
