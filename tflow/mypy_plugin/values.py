"""Expressions, during the traversal of a function body: which stream each of them is, and what it consumes on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypy import nodes
from mypy.argmap import map_actuals_to_formals
from mypy.nodes import CallExpr, Expression, FuncDef, FuncItem, IntExpr, LambdaExpr, MemberExpr, NameExpr, RefExpr, TypeInfo, Var
from mypy.types import AnyType, CallableType, Instance, Overloaded, Type, get_proper_type

from tflow.mypy_plugin import effects, shapes, tree
from tflow.mypy_plugin.containers import MOST_COPIES, Containers, call_of
from tflow.mypy_plugin.edges import Attribute, Members, Method, Sources, State, StreamEdge, Use, Value
from tflow.mypy_plugin.functional import HIGHER_ORDER
from tflow.mypy_plugin.labels import CallLabel, source
from tflow.mypy_plugin.names import attribute

RUNS = {"run", "validate"}
"""Methods that do not make a stream part of a plan: it can be used again."""
SAME_MEMBERS = {"builtins.list", "builtins.tuple", "builtins.reversed", "builtins.sorted", "builtins.iter", "collections.deque"}
MILD = ["looks", "keeps", "consumes"]
"""With overloads, the mildest counts."""


class Values(Containers):
    """``value`` is the stream, or the list of streams, that an expression is."""

    inside: bool
    """It is the body of a function, not of the module."""

    def value(self, expr: Expression | None, state: State) -> Value | None:
        """The stream that an expression is, or the list of streams and the like, if it is one. Whatever it consumes on the way is
        consumed."""
        rule = RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr, state)
        for child in tree.children(expr) if expr is not None else ():
            if isinstance(child, Expression):
                self.value(child, state)
        return None

    def inline(self, fn: FuncItem, call: CallExpr, state: State) -> Value | None:
        """What a call of a function of this body makes (``uses.py``)."""
        raise NotImplementedError

    def name(self, expr: NameExpr, state: State) -> Value | None:
        if isinstance(expr.node, FuncDef) and expr.node in self.local:  # it is passed on, and called by somebody else
            self.release_names_in(expr.node, state)
            return None
        if not isinstance(expr.node, Var):
            return None
        held = state.held.get(expr.node)
        if isinstance(held, LambdaExpr):
            self.release_names_in(held, state)
            return None
        edge = state.names.get(expr.node)
        if edge is None and held is None:
            return self.of_module(expr, expr.node, state)
        if edge is not None and (edge.several or self.type_of(expr) is None):  # without a type: mypy says it is never reached
            edge.mark(released=True)
            return None
        return held if held is not None else edge

    def of_module(self, expr: NameExpr, variable: Var, state: State) -> StreamEdge | None:
        """A variable of the module, inside a function: the same stream each time, if it is set once."""
        if not self.inside or expr.kind != nodes.GDEF or shapes.stream(variable.type) is None:
            return None
        if variable.fullname != f"{self.api.tree.fullname}.{variable.name}" or not effects.is_set_once(self.api.tree, variable):
            return None
        return self.outside((variable, effects.ITSELF), expr, state)

    def outside(self, key: Attribute, expr: Expression, state: State) -> StreamEdge:
        """A stream that is not made here: it need not be consumed here, and is the same each time."""
        if key not in state.attributes:
            state.attributes[key] = StreamEdge(f'"{source(expr)}"', expr, owed=False)
        return state.attributes[key]

    def stream(self, expr: Expression | None, state: State) -> StreamEdge | None:
        """The stream that an expression is; others are let go."""
        found = self.value(expr, state)
        if found is None or isinstance(found, StreamEdge):
            return found
        self.let_go(found)
        return None

    def conditional(self, expr: nodes.ConditionalExpr, state: State) -> StreamEdge | None:
        self.value(expr.cond, state)
        return self.either(expr.if_expr, expr.else_expr, state, expr.cond)

    def operation(self, expr: nodes.OpExpr, state: State) -> Value | None:
        if expr.op in ("and", "or"):
            return self.either(expr.left, expr.right, state)
        left, right = self.value(expr.left, state), self.value(expr.right, state)
        if expr.op == "+" and isinstance(left, Members) and isinstance(right, Members) and left.keys is right.keys is None:
            return Members(left.members + right.members)
        if expr.op == "*":
            listed, count = (left, expr.right) if isinstance(left, Members) else (right, expr.left)
            if isinstance(listed, Members) and isinstance(count, IntExpr):
                return Members(listed.members * min(count.value, MOST_COPIES))
        self.let_go(left)
        self.let_go(right)
        return None

    def either(self, left: Expression, right: Expression, state: State, condition: Expression | None = None) -> StreamEdge | None:
        """One of two, and it is not known which."""
        one, other = state.copy(), state.copy()
        possible = [
            (expr, path)
            for expr, path, truth in ((left, one, True), (right, other, False))
            if condition is None or path.facts.assume(condition, truth)
        ]
        values = [edge for expr, path in possible if (edge := self.stream(expr, path)) is not None]
        self.meet(state, [path for _, path in possible])
        if not values or (values[0] is values[-1] and len(values) == 2):
            return values[0] if values else None
        return StreamEdge(values[0].label, parts=tuple(values), plan=all(edge.plan for edge in values))

    def member(self, expr: MemberExpr, state: State) -> Value | None:
        """An attribute that is a stream, or a method that is not called here."""
        record = self.record(expr.expr, state)
        if record is None or expr.name not in record.fields:
            self.open_up(record, state)
            own = self.attribute(expr, state)
            if own is not None:
                return own
        found, t = self.value(expr.expr, state), self.type_of(expr)
        if isinstance(found, Members) and expr.name in found.fields:
            return found.members[found.fields.index(expr.name)]
        value = found if isinstance(found, StreamEdge) else None
        if value is None:
            return None  # what else a list can do changes no stream
        if shapes.is_function(t) and shapes.stream(shapes.returned_by(t)) is not None:
            return Method(value, expr.name)
        if shapes.is_function(t) or shapes.as_base(t, shapes.WITH_COLUMNS):
            value.mark(released=True)
        return None

    def attribute(self, expr: MemberExpr, state: State) -> StreamEdge | None:
        """``self.rewards``: the same stream each time, as long as nobody can have changed it."""
        key = attribute(expr)
        if key is None or shapes.stream(self.type_of(expr)) is None:
            return None
        owner = get_proper_type(self.type_of(expr.expr))
        info = key[0] if isinstance(key[0], TypeInfo) else owner.type if isinstance(owner, Instance) else None
        found = info.get(expr.name) if info is not None else None
        if found is None:
            return None
        getter = effects.decorated_with(effects.method_of(self.api, expr), {effects.PROPERTY})
        if getter is not None:
            return self.affected(self.effect(getter), expr, key[0], expr.name, state)
        cached = effects.decorated_with(found.node, {effects.CACHED_PROPERTY}) is not None
        if not cached and (not isinstance(found.node, Var) or found.node.is_property):
            return None
        if isinstance(info, TypeInfo) and isinstance(found.node, Var) and found.node.is_classvar:
            key = info, expr.name  # the same for all objects
        return self.outside(key, expr, state)

    def is_here(self, fn: FuncDef) -> bool:
        """True for what is defined in this file."""
        return bool((fn.info.module_name if fn.info else fn.fullname.rpartition(".")[0]) == self.api.tree.fullname)

    def effect(self, fn: FuncDef) -> effects.Effect:
        """What a function of this module does with streams from outside (``uses.py``)."""
        raise NotImplementedError

    def affected(
        self, effect: effects.Effect, expr: Expression, receiver: nodes.SymbolNode | None, called: str, state: State
    ) -> StreamEdge | None:
        """A function that does this is called, as a method of ``receiver``: the stream that it makes, if it makes one."""
        sources: Sources = frozenset()
        for owner, name in effect.consumes:
            key = (receiver, name) if receiver is not None and isinstance(owner, Var) and name else (owner, name)
            edge = self.outside(key, expr, state)
            edge.label = edge.label if name == effects.ITSELF else f'"{name}"'
            mine = edge.sources | {(edge, Use(called, expr, turn=self.turn))}
            self.together(sources, mine)
            sources |= mine
            self.consume(edge, called, expr, state)
        if effect.returns is not None:
            owner, name = effect.returns
            found = self.outside(
                (receiver, name) if receiver is not None and isinstance(owner, Var) and name else (owner, name), expr, state
            )
            found.label = found.label if name == effects.ITSELF else f'"{name}"'
            return found
        return StreamEdge(called, sources=sources) if sources else None

    def walrus(self, expr: nodes.AssignmentExpr, state: State) -> Value | None:
        self.set(expr.target, expr.value, self.value(expr.value, state), state)
        return self.name(expr.target, state)

    def inner(self, expr: nodes.CastExpr | nodes.AssertTypeExpr, state: State) -> Value | None:
        return self.value(expr.expr, state)

    def handed_out(self, expr: nodes.YieldExpr | nodes.AwaitExpr | nodes.YieldFromExpr, state: State) -> None:
        self.consume(self.value(expr.expr, state), "yield", expr, state)

    def lambda_(self, expr: nodes.LambdaExpr, state: State) -> None:
        self.release_names_in(expr, state)

    def each_of(self, expr: nodes.GeneratorExpr, listed: Members, state: State) -> Members:
        """What a comprehension makes of the members of a list, one by one."""
        found = []
        for member in listed.members:
            self.set(expr.indices[0], expr.indices[0], member, state)
            found.append(self.value(expr.left_expr, state))
        return Members(tuple(found))

    def comprehension(
        self, expr: nodes.GeneratorExpr | nodes.DictionaryComprehension, state: State, turns: int = 2
    ) -> Members | None:
        """Two turns, as for loops."""
        listed = [self.value(sequence, state) for sequence in expr.sequences]
        if (
            isinstance(expr, nodes.GeneratorExpr)
            and len(listed) == 1
            and isinstance(listed[0], Members)
            and not expr.condlists[0]
        ):
            return self.each_of(expr, listed[0], state)
        for each in listed:
            self.let_go(each)
        item = [expr.left_expr] if isinstance(expr, nodes.GeneratorExpr) else [expr.key, expr.value]
        made: list[StreamEdge] = []
        for _ in range(turns):
            for index in expr.indices:
                for name in tree.walk(index):
                    if isinstance(name, NameExpr) and isinstance(name.node, Var):
                        state.names.pop(name.node, None)
                        state.facts.forget(name.node)
                        self.may_change(name, state)  # another object in each turn
            with self.in_turn():
                for each in (*(condition for conditions in expr.condlists for condition in conditions), *item):
                    value = self.value(each, state)
                    if isinstance(expr, nodes.GeneratorExpr) and isinstance(value, StreamEdge) and is_fresh(value):
                        made.append(value)
                    else:
                        self.consume(value, "a comprehension", each, state)
        return Members(tuple(made)) if made else None

    def generated(self, expr: nodes.ListComprehension | nodes.SetComprehension, state: State) -> Members | None:
        return self.comprehension(expr.generator, state)

    # ------------------------------------------------------------------- calls

    def call(self, call: CallExpr, state: State) -> Value | None:
        """What a call makes of the streams that it is given."""
        if call.analyzed is not None:  # cast, assert_type and their like
            value = self.stream(getattr(call.analyzed, "expr", None), state)
            if isinstance(call.analyzed, nodes.CastExpr) or value is None:
                return value
            if value.where is None and not value.parts:
                self.run(value, state)  # assert_type and reveal_type only look: what has no name is gone
            return None
        known, found = self.known_call(call, state)
        if known:
            return found
        receiver, given = self.given(call, state)
        if receiver is not None and isinstance(call.callee, MemberExpr) and call.callee.name in RUNS:
            self.run(receiver, state)
            return None
        label = CallLabel(self.labels, call)
        sources: Sources = frozenset()
        if receiver is None and not stores(call.callee) and not shapes.mentions_stream(self.type_of(call)):
            for edge, _ in given:  # who returns no stream may have looked at it, run it or stored it
                self.run(edge, state)
                edge.mark(released=True)
            return None
        copies: dict[tuple[int, int], int] = {}
        for edge, where in given:
            place = where if isinstance(where, (NameExpr, MemberExpr, nodes.IndexExpr)) else call
            copy = copies[place.line, place.column] = copies.get((place.line, place.column), -1) + 1
            use = Use(label, place, copy if isinstance(where, nodes.StarExpr) else 0, self.turn)
            mine = edge.sources | {(edge, use)}
            self.together(sources, mine)
            sources |= mine
            self.consume(edge, label, use.where, state, use.copy)
        self.inputs[id(call)] = sources
        if self.is_split(call) and (branches := self.branches(call, state)) is not None:
            return branches
        kind = shapes.stream(self.type_of(call))
        return StreamEdge(label, plan=kind.type.fullname == shapes.PLAN, sources=sources) if kind is not None else None

    def branches(self, call: CallExpr, state: State) -> Members | None:
        """The branches of a split, if it is known how many there are."""
        number = state.facts.constant(call.args[0]) if call.args else 2
        if not isinstance(number, int) or not 0 < number <= MOST_COPIES:
            return None
        found = []
        for index in range(number):
            edge = StreamEdge(f"branch {index}", branch=(call, index), sources=self.inputs[id(call)])
            first = self.named.setdefault((call.line, call.column, index), edge)
            if first is not edge:  # in the second turn of a loop
                edge.parts = (first,)
            state.made[edge] = None
            self.edges.append(edge)
            found.append(edge)
        return Members(tuple(found))

    def known_call(self, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """Calls that make streams of streams as everybody knows: True, and what they make."""
        callee = call.callee
        rule = KNOWN.get(callee.fullname) if isinstance(callee, RefExpr) else None
        if rule is not None and call.args:
            done, found = rule(self, call, state)
            if done:
                return done, found
        if isinstance(callee, RefExpr) and isinstance(callee.node, TypeInfo) and (fields := shapes.fields_of(callee.node)):
            return self.recorded(fields, call, state)
        if isinstance(callee, NameExpr):
            done, found = self.own_call(callee, call, state)
            return (done, found) if done else self.other_call(callee, callee.node, None, call, state)
        if isinstance(callee, MemberExpr):
            self.open_up(self.record(callee.expr, state), state)
        if isinstance(callee, MemberExpr) and isinstance(callee.expr, NameExpr) and not self.is_module(callee.expr):
            done, found = self.other_call(callee, effects.method_of(self.api, callee), callee.expr.node, call, state)
            if done:
                return done, found
        if isinstance(callee, MemberExpr) and isinstance(callee.expr, NameExpr) and isinstance(callee.expr.node, Var):
            return self.list_method(callee.expr.node, callee.name, call, state)
        return False, None

    def next_(self, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """Generators and maps are asked for one item only."""
        through, listed = call.args[0], None
        if isinstance(through, nodes.GeneratorExpr):
            listed = self.comprehension(through, state, turns=1)
        elif (mapped := call_of(through, "builtins.map")) is not None:
            function = self.followed(mapped, state)
            if function is None:
                return False, None
            listed = self.mapped(function, mapped, state, most=1)
        elif call_of(through, "builtins.iter") is not None:
            found = self.value(through, state)
            listed = found if isinstance(found, Members) else None
        else:
            return False, None
        return True, listed.members[0] if listed is not None and listed.members else None

    def own_call(self, callee: NameExpr, call: CallExpr, state: State) -> tuple[bool, Value | None]:
        """A call of a function of this body, or of a method that got a name."""
        if isinstance(callee.node, FuncDef) and callee.node in self.local:
            return True, self.inline(callee.node, call, state)
        held = state.held.get(callee.node) if isinstance(callee.node, Var) else None
        if isinstance(held, LambdaExpr):
            return True, self.inline(held, call, state)
        if not isinstance(held, Method):
            return False, None
        for argument in call.args:
            self.let_go(self.value(argument, state))
        return True, self.method_called(held, call, state)

    def is_module(self, expr: NameExpr) -> bool:
        return isinstance(expr.node, nodes.MypyFile)

    def other_call(
        self,
        callee: NameExpr | MemberExpr,
        node: nodes.SymbolNode | None,
        receiver: nodes.SymbolNode | None,
        call: CallExpr,
        state: State,
    ) -> tuple[bool, Value | None]:
        """A call of another function of this module, or of a method, that is given no streams."""
        cached = effects.decorated_with(node, effects.CACHES) if not call.args and receiver is None else None
        if cached is not None and node is not None and shapes.stream(self.type_of(call)) is not None:
            return True, self.outside((node, effects.ITSELF), call, state)
        fn = effects.function_of(node)
        if fn is None or bool(fn.info) != (receiver is not None) or not self.is_here(fn):
            return False, None
        if any(shapes.mentions_stream(self.type_of(argument)) for argument in call.args):
            return False, None
        effect = self.effect(fn)
        if not effect.consumes and effect.returns is None:
            return False, None
        for argument in call.args:
            self.value(argument, state)
        return True, self.affected(effect, call, receiver, f"{callee.name}()", state)

    def given(self, call: CallExpr, state: State) -> tuple[StreamEdge | None, list[tuple[StreamEdge, Expression]]]:
        """The stream whose method is called, and all streams that the call consumes."""
        found: list[tuple[StreamEdge, Expression]] = []
        receiver = None
        if isinstance(call.callee, MemberExpr):
            receiver = self.stream(call.callee.expr, state)
            if receiver is not None:
                found.append((receiver, call.callee.expr))
            elif isinstance(call.callee.expr, NameExpr):
                self.may_change(call.callee.expr, state)
        else:
            self.let_go(self.value(call.callee, state))
        values = [self.argument(argument, state) for argument in call.args]
        if any(value is not None for value in values):
            for argument, value, how in zip(call.args, values, self.takes(call), strict=True):
                found += self.taken(call, argument, value, how, state)
        return receiver, found

    def argument(self, argument: Expression, state: State) -> Value | None:
        """What a call is given; a name may be changed by whom it is given to."""
        if isinstance(argument, NameExpr):
            self.may_change(argument, state)
        return self.value(argument.expr if isinstance(argument, nodes.StarExpr) else argument, state)

    def may_change(self, name: NameExpr, state: State) -> None:
        """The attributes of an object may be others from here on."""
        if state.attributes:
            state.attributes = {key: edge for key, edge in state.attributes.items() if key[0] is not name.node}

    def taken(
        self, call: CallExpr, argument: Expression, value: Value | None, how: str, state: State
    ) -> list[tuple[StreamEdge, Expression]]:
        """The streams of an argument that a call consumes."""
        place = call.args.index(argument)
        starred = isinstance(argument, nodes.StarExpr) or call.arg_kinds[place] == nodes.ARG_STAR
        if isinstance(value, StreamEdge):
            if how == "keeps":
                value.mark(released=True)
            return [(value, argument)] if how == "consumes" else []
        if isinstance(value, Members) and starred:
            spread = nodes.StarExpr(argument)
            spread.set_line(call)
            return [(edge, spread) for edge in value.streams()]
        if isinstance(value, Members) and not isinstance(argument, NameExpr):
            self.consume(value, "a list", argument, state)
        elif isinstance(value, (Members, Method)):
            self.let_go(value)
        return []

    def takes(self, call: CallExpr) -> list[str]:
        """For each argument: ``consumes``; ``looks``, if any object will do (``print``); ``keeps``, if nobody knows."""
        found = get_proper_type(self.type_of(call.callee))
        if isinstance(call.callee, RefExpr) and call.callee.fullname == "builtins.isinstance":
            return ["looks"] * len(call.args)
        if isinstance(found, (AnyType, type(None))):
            return ["keeps"] * len(call.args)
        how: list[str] = [""] * len(call.args)
        for item in found.items if isinstance(found, Overloaded) else [found]:
            if not isinstance(item, CallableType):
                continue
            declared = getattr(item.definition, "type", None)
            if isinstance(declared, CallableType) and declared.param_spec() is not None:
                return ["keeps"] * len(call.args)  # it passes its arguments on, such as ``pool.submit``
            formals = map_actuals_to_formals(
                call.arg_kinds, call.arg_names, item.arg_kinds, item.arg_names, lambda _: shapes.ANYTHING
            )
            for formal, actuals in zip(item.arg_types, formals, strict=True):
                for actual in actuals:
                    how[actual] = min(filter(None, (how[actual], _taken_as(formal))), key=MILD.index)
        return [each or "consumes" for each in how]


def is_fresh(edge: StreamEdge) -> bool:
    """True for a stream that has no name yet, and is no branch of a split."""
    return edge.where is None and not edge.parts and edge.branch is None


def keeps(callee: Expression) -> bool:
    """True for methods of containers that keep what they are given."""
    return isinstance(callee, MemberExpr) and callee.name in ("append", "appendleft", "add", "insert", "put", "setdefault")


def stores(callee: Expression) -> bool:
    """True for what keeps a stream for later, and for what is ours, whatever comes of it."""
    if keeps(callee):
        return True
    if not isinstance(callee, RefExpr):
        return False
    made = callee.node if isinstance(callee.node, TypeInfo) else None
    return callee.fullname.startswith("tflow.") or (made is not None and ("dataclass" in made.metadata or made.is_named_tuple))


def _taken_as(formal: Type) -> str:
    found = get_proper_type(formal)
    if isinstance(found, AnyType):
        return "keeps"
    return "looks" if isinstance(found, Instance) and found.type.fullname == "builtins.object" else "consumes"


KNOWN: dict[str, Callable[[Values, CallExpr, State], tuple[bool, Value | None]]] = {
    **dict.fromkeys(SAME_MEMBERS, Values.same),
    **dict.fromkeys(HIGHER_ORDER, Values.higher_order),
    "builtins.next": Values.next_,
    "builtins.dict": Values.dict_,
    "itertools.repeat": Values.repeated,
    "functools.partial": Values.partial,
}
"""What everybody knows: True, and what a call makes; False if it is looked at as any other."""
Rule = Callable[[Values, Any, State], Value | None]  # Any: the kind of expression that it stands beside
RULES: dict[type[Expression] | type[None], Rule] = {
    NameExpr: Values.name,
    CallExpr: Values.call,
    MemberExpr: Values.member,
    nodes.ConditionalExpr: Values.conditional,
    nodes.OpExpr: Values.operation,
    nodes.AssignmentExpr: Values.walrus,
    nodes.CastExpr: Values.inner,
    nodes.AssertTypeExpr: Values.inner,
    nodes.TupleExpr: Values.display,
    nodes.ListExpr: Values.display,
    nodes.SetExpr: Values.set_display,
    nodes.DictExpr: Values.dictionary,
    nodes.IndexExpr: Values.index,
    nodes.LambdaExpr: Values.lambda_,
    nodes.ListComprehension: Values.generated,
    nodes.SetComprehension: Values.generated,
    nodes.GeneratorExpr: Values.comprehension,
    nodes.DictionaryComprehension: Values.comprehension,
    nodes.YieldExpr: Values.handed_out,
    nodes.YieldFromExpr: Values.handed_out,
    nodes.AwaitExpr: Values.handed_out,
}
