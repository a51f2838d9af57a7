"""Making what a plan describes, where all that it is made of is known: describing starts nothing. What is the user's is not run:
functions are replaced by ones that are never called."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal

from mypy import nodes
from mypy.nodes import ArgKind, CallExpr, Expression, MemberExpr, NameExpr, RefExpr, TypeInfo, Var
from mypy.types import CallableType, Instance, Overloaded, TupleType, Type, get_proper_type

from tflow import domain
from tflow.mypy_plugin import policy, shapes, tree
from tflow.mypy_plugin.effects import PROPERTY, decorated_with, function_of, method_of
from tflow.mypy_plugin.known import Known, Undecided, Unknown
from tflow.mypy_plugin.labels import described, public
from tflow.mypy_plugin.report import Checker, said_of
from tflow.mypy_plugin.templates import actor_called, function_called, operator_called, stand_in_stream

TRIED = described()
MOST_SHARDS = 1_000
ABOUT_FUNCTIONS = ("for_each", "map", "filter", "tap", "flat_map", "scan", "with_columns", "zip")
STARTS = {"run", "validate", "__iter__"}
SHARED = "par_zip"
"""A method that two streams over the same actors share: it is tried if both are known."""
NOT_TRIED = {*STARTS, *ABOUT_FUNCTIONS, *(f"par_{name}" for name in ABOUT_FUNCTIONS)} - {SHARED}
"""Methods that start something, and those that other rules are about."""
EMPTY = inspect.Parameter.empty
REPLACED = re.compile(r"<function |Untouched object|Anything object")
NOTHING = object()
"""Stands for what could not be made."""
STARTED, COMPLETED, DESCRIBING = domain.started(), domain.completed(), domain.describing()
RUN = "tflow.runtime.executor.Run"
PARTIAL = "functools.partial"


class Untouched:
    """Stands for something of which nothing must be asked, such as a run."""

    def __getattr__(self, name: str) -> object:
        raise Unknown


@dataclass
class Arguments:
    """The arguments of a call, as far as they are known."""

    given: list[object] = field(default_factory=list)
    named: dict[str, object] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Those that are not known, by name."""
    literal: bool = False
    """Something is known."""
    exact: bool = True
    """Nothing was replaced, except for functions."""
    actors: bool = False
    """Actors were replaced, of which more is asked than that they are there."""
    functions: bool = False
    """Functions were replaced."""
    classes: bool = False
    """Some of these were classes."""
    starts: bool = False
    """They are only looked at, before something is started."""

    def add(self, name: str | None, value: object) -> None:
        if name is None:
            self.given.append(value)
        else:
            self.named[name] = value


class Trials(Known):
    """Tries calls within some scopes, the innermost first."""

    def __init__(self, api: Checker, scopes: tree.Scopes) -> None:
        super().__init__(api, scopes)
        self.made: dict[int, object] = {}
        """By call: what it makes."""
        self.functions: dict[object, object] = {}
        """By function of the user: what stands for it."""
        self.wholes: dict[int, CallExpr] = {}
        self.vague: list[object] = []
        """What was made with functions that were replaced, so that it is not known how they are called."""

    def within(self, scopes: tree.Scopes) -> Trials:
        other = type(self)(self.api, scopes)
        other.depth, other.made, other.functions, other.vague = self.depth, self.made, self.functions, self.vague
        other.wholes, other.type_of = self.wholes, self.type_of
        return other

    # ------------------------------------------------------------------- calls

    def whole(self, call: CallExpr) -> CallExpr:
        """The call that a call of a ``partial`` makes; others as they are."""
        made = call.callee
        if isinstance(made, NameExpr) and isinstance(made.node, Var):
            made = self.setting(made, made.node) or made
        if (
            not isinstance(made, CallExpr)
            or not isinstance(made.callee, RefExpr)
            or made.callee.fullname != PARTIAL
            or not made.args
        ):
            return call
        if id(call) not in self.wholes:  # it is kept: what is made is known by it
            replaced = {name for name in call.arg_names if name}
            first = [each for each in zip(made.args, made.arg_kinds, made.arg_names, strict=True) if each[2] not in replaced][1:]
            every = [*first, *zip(call.args, call.arg_kinds, call.arg_names, strict=True)]
            args, kinds, names = [each[0] for each in every], [each[1] for each in every], [each[2] for each in every]
            self.wholes[id(call)] = CallExpr(made.args[0], args, kinds, names)
            self.wholes[id(call)].set_line(call)
        return self.wholes[id(call)]

    def call(self, call: CallExpr) -> object:
        """What the call makes; raises what it would raise."""
        call = self.whole(call)
        target = self.target(call)
        arguments = self.arguments(call, starts=hasattr(target, "starts_nothing"))
        if not arguments.literal and call.args and not is_ours(getattr(target, "__self__", None)):
            raise Unknown
        if arguments.actors and policy.called(self.api, call.callee) in policy.picks():
            raise Unknown  # which parts they have is not known
        if isinstance(call.callee, MemberExpr) and call.callee.name == SHARED and not arguments.exact:
            raise Unknown
        if arguments.classes and isinstance(call.callee, MemberExpr) and call.callee.name == "tapped":
            raise Unknown  # which operators are of that class is not known
        made = self.tried(target, arguments)
        if arguments.functions or self.is_vague(*arguments.given, *arguments.named.values(), getattr(target, "__self__", None)):
            self.vague.append(made)
        self.made[id(call)] = made
        return made

    def is_vague(self, *values: object) -> bool:
        return any(value is each for value in values for each in self.vague)

    def tried(self, target: Callable[..., object], arguments: Arguments) -> object:
        from tflow.errors import PlanError

        try:
            made = target(*arguments.given, **arguments.named)
        except PlanError as error:
            if not persists(str(error), target, arguments) or REPLACED.search(str(error)):
                raise Unknown from None  # it is about something that was left out, or replaced
            raise
        except Exception:
            raise Unknown from None  # mypy has its own words for it
        if arguments.left_out or not arguments.exact:
            raise Unknown
        return made

    def arguments(self, call: CallExpr, *, starts: bool) -> Arguments:
        found = Arguments(starts=starts)
        for expr, name, kind in zip(call.args, call.arg_names, call.arg_kinds, strict=True):
            if kind in (ArgKind.ARG_STAR, ArgKind.ARG_STAR2):
                self.several(expr, found, named=kind is ArgKind.ARG_STAR2)
                continue
            try:
                value = self.value(expr)
                found.literal = True
            except Undecided:
                raise
            except Unknown:
                value = self.replaced(expr, found, call)
            if value is EMPTY and name is None:
                raise Unknown
            if value is EMPTY and name is not None:
                found.left_out.append(name)
            else:
                found.add(name, value)
        return found

    def several(self, expr: Expression, found: Arguments, *, named: bool) -> None:
        """``*streams`` and ``**options``."""
        try:
            value = self.value(expr)
        except Undecided:
            raise
        except Unknown:
            value = None
        if named and isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            found.named.update(value)
            found.literal = True
            return
        t = get_proper_type(self.type_of(expr))
        if isinstance(value, (list, tuple)):
            items = list(value)
        elif not named and isinstance(t, TupleType):
            items = [self.stand_in(each) for each in t.items]
        else:
            items = [] if named else [self.stand_in(self.type_of(each)) for each in self.members(expr)]
        if named or not (items or isinstance(value, (list, tuple))) or any(each is EMPTY for each in items):
            raise Unknown
        found.given += items
        found.exact = found.exact and isinstance(value, (list, tuple))

    def members(self, expr: Expression) -> list[Expression]:
        """What a list is made of, where it is written or under a name that nothing changes; nothing if that is not sure."""
        if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
            variable, made = expr.node, self.setting(expr, expr.node)
            if made is None or self.is_tested(variable) or self.is_given_away(variable):
                return []
            expr = made
        if not isinstance(expr, nodes.ListExpr) or any(isinstance(each, nodes.StarExpr) for each in expr.items):
            return []
        return expr.items

    def replaced(self, expr: Expression, found: Arguments, call: CallExpr) -> object:
        """What stands for an argument that is not known; ``EMPTY`` if nothing does."""
        t = get_proper_type(self.type_of(expr))
        classes = policy.called(self.api, call.callee).startswith("tflow.combinators.") or not said_of(self.api, call)
        if isinstance(t, (CallableType, Overloaded)) and (classes or not t.is_type_obj()):
            found.functions = True
            found.classes = found.classes or t.is_type_obj()
            return self.function(expr, t)
        value = self.stand_in(t)
        if value is EMPTY and isinstance(expr, nodes.DictExpr) and found.starts:
            value = self.keys_of(expr)
        found.exact = False
        found.literal = found.literal or isinstance(value, LiveItems)
        found.actors = found.actors or shapes.as_base(t, shapes.ACTORS) is not None
        return value

    def keys_of(self, shown: nodes.DictExpr) -> object:
        """A mapping of which only the names are known."""
        try:
            return {self.value(key): Untouched() for key, _ in shown.items if key is not None}
        except Unknown:
            return EMPTY

    def function(self, expr: Expression, t: CallableType | Overloaded) -> object:
        """What stands for a function or a class: always the same for the same one, with parameters of the same names."""
        key: object = expr.node if isinstance(expr, RefExpr) and expr.node is not None else id(expr)
        if key not in self.functions:
            items = t.items if isinstance(t, Overloaded) else [t]
            names = {
                name for each in items for name in each.arg_names if name and name.isidentifier() and not name.startswith("_")
            }
            self.functions[key] = function_called("anything", sorted(names))
        return self.functions[key]

    def stand_in(self, t: Type | None) -> object:
        """Something of that type which is always accepted; ``EMPTY`` if there is nothing."""
        found = get_proper_type(t) if t is not None else None
        kind = shapes.stream(found)
        if kind is not None and kind.type.fullname != shapes.PLAN:
            return stand_in_stream(kind.type.fullname)
        if shapes.as_base(found, shapes.OP):
            return operator_called("Anything")
        if shapes.as_base(found, "tflow.combinators.actors.Actor"):
            return actor_called("anything")
        if isinstance(found, Instance) and found.type.fullname == RUN:
            return Untouched()
        if isinstance(found, Instance) and shapes.as_base(found, "typing.Iterator"):
            return live(found.type.name)
        return stand_in_of(found) if isinstance(found, Instance) and shapes.as_base(found, shapes.ACTORS) else EMPTY

    # ------------------------------------------------------------------- what is called

    def target(self, call: CallExpr) -> Callable[..., object]:
        """What is called, if describing with it starts nothing."""
        callee = call.callee
        found: object = None
        if isinstance(callee, RefExpr) and callee.fullname == "dataclasses.replace":
            if not call.args or not is_ours(self.value(call.args[0])):
                raise Unknown
            return completed(dataclasses.replace)
        if isinstance(callee, RefExpr) and isinstance(callee.node, TypeInfo) and not callee.fullname.startswith("tflow."):
            return derived(callee.node, self.within(tree.Scopes(self.api.tree)))
        if isinstance(callee, RefExpr) and callee.fullname in STARTED:
            found = checker(STARTED[callee.fullname])
        elif isinstance(callee, MemberExpr) and not callee.fullname.startswith(TRIED):
            found = self.method(callee, call)
        elif isinstance(callee, RefExpr) and callee.fullname.startswith(TRIED):
            found = public(callee.fullname)
        if not callable(found):
            raise Unknown
        return found if hasattr(found, "starts_nothing") else completed(found)

    def method(self, callee: MemberExpr, call: CallExpr) -> object:
        """A method of something that is known, or of a stream that stands for one."""
        try:
            owner = self.value(callee.expr)
        except Undecided:
            raise
        except Unknown:
            owner = NOTHING
        if owner is not NOTHING and not is_stream(owner):
            return self.method_of(owner, callee)
        if callee.name in STARTS or (callee.name == SHARED and owner is NOTHING):
            raise Unknown
        if callee.name == "tapped" and (owner is NOTHING or self.is_vague(owner)):
            raise Unknown
        return getattr(owner if owner is not NOTHING else self.receiver(callee, call), callee.name, None)

    def method_of(self, owner: object, callee: MemberExpr) -> object:
        """A method of a configuration, of actors or of a plan."""
        if not is_ours(owner):
            raise Unknown
        defined = next((each for each in type(owner).__mro__ if callee.name in vars(each)), object)
        started = STARTED.get(f"{defined.__module__}.{defined.__qualname__}.{callee.name}")
        if started is not None:
            return checker(started, owner)
        if callee.name == "tapped" and not self.is_vague(owner):
            return getattr(owner, "tapped", None)
        return getattr(owner, callee.name, None) if callee.name in DESCRIBING else None

    def receiver(self, callee: MemberExpr, call: CallExpr) -> object:
        """A stream on which a method can be tried."""
        kind = shapes.stream(self.type_of(callee.expr))
        if kind is None or kind.type.fullname == shapes.PLAN:
            raise Unknown
        if callee.name == "select_shards":  # there are as many as are asked for: which there are is not known here
            from tflow.combinators.create import par_from_items

            asked = [shard for shard in map(self.value, call.args) if isinstance(shard, int)]
            return par_from_items((), shards=min(max(asked, default=0) + 1, MOST_SHARDS))
        return stand_in_stream(kind.type.fullname)

    # ------------------------------------------------------------------- values

    def called(self, call: CallExpr) -> object:
        """A description that is itself made of what is known. A mistake in it is reported where it is made."""
        try:
            return super().called(call)
        except Undecided:
            raise
        except Unknown:
            return self.object_made_by(call)

    def object_made_by(self, call: CallExpr) -> object:
        from tflow.errors import PlanError

        if id(call) not in self.made:
            self.made[id(call)] = NOTHING
            try:
                made = self.made_anew(call, own_function(self.api, call.callee) if not call.args else None)
                return made if made is not NOTHING else self.call(call)
            except Undecided:
                del self.made[id(call)]
                raise
            except PlanError:
                raise Unknown from None
        if self.made[id(call)] is NOTHING:
            raise Unknown
        return self.made[id(call)]

    def named(self, expr: NameExpr | MemberExpr) -> object:
        """Also what a property makes."""
        getter = decorated_with(method_of(self.api, expr), {PROPERTY}) if isinstance(expr, MemberExpr) else None
        if getter is None:
            return super().named(expr)
        made = self.made[id(expr)] if id(expr) in self.made else self.made_anew(expr, getter)
        if made is NOTHING:
            raise Unknown
        return made

    def made_anew(self, expr: Expression, fn: nodes.FuncDef | None) -> object:
        """What a function of this file makes that only returns something; ``NOTHING`` if it does more. What its own calls make is
        another each time, what it takes from outside is the same."""
        body = [each for each in fn.body.body if not is_docstring(each)] if fn is not None else []
        if fn is None or len(body) != 1 or not isinstance(body[0], nodes.ReturnStmt) or body[0].expr is None:
            return NOTHING
        inner, own = self.within(tree.Scopes(fn, self.api.tree)), set(map(id, tree.walk(body[0])))
        inner.made = {key: made for key, made in self.made.items() if key not in own}
        value = inner.value(body[0].expr)
        self.made |= {key: made for key, made in inner.made.items() if key not in own} | {id(expr): value}
        return value

    def variable(self, name: NameExpr, variable: Var) -> object:
        branch = self.scopes.branch(variable)
        if branch is not None:
            several = self.value(branch[0])
            if isinstance(several, (tuple, list)) and branch[1] < len(several):
                return several[branch[1]]
            raise Unknown
        return super().variable(name, variable)


def own_function(api: Checker, callee: Expression) -> nodes.FuncDef | None:
    """The function, or the method, of this file that is called."""
    node = method_of(api, callee) if isinstance(callee, MemberExpr) else callee.node if isinstance(callee, NameExpr) else None
    found = function_of(node)
    here = found.info.module_name if found is not None and found.info else found.fullname.rpartition(".")[0] if found else ""
    return found if here == api.tree.fullname else None


def is_docstring(node: nodes.Statement) -> bool:
    return isinstance(node, nodes.ExpressionStmt) and isinstance(node.expr, nodes.StrExpr)


class LiveItems(Iterator[object]):
    """Stands for an iterator, which nobody may read."""

    def __next__(self) -> object:
        raise Unknown


def live(kind: str) -> LiveItems:
    """An iterator of a class of that name."""
    made: LiveItems = type("generator" if kind == "Generator" else kind.lower(), (LiveItems,), {})()
    return made


def is_ours(value: object) -> bool:
    """True for a description of tflow's own."""
    return f"{type(value).__module__}.".startswith(TRIED)


def is_stream(value: object) -> bool:
    """True for what has the methods of streams."""
    from tflow.combinators.par import ParIter
    from tflow.combinators.stream import Iter

    return isinstance(value, (Iter, ParIter))


def stand_in_of(t: Instance) -> object:
    """Actors of a class that can stand for any, as in drawings; with the names of their parts, if the type has them."""
    names = [shapes.literals(each) for each in t.args]
    if any(shapes.as_base(each, "builtins.str") and not known for each, known in zip(t.args, names, strict=True)):
        return EMPTY
    kind = public(t.type.fullname)
    make = getattr(kind, "stand_in", None)
    if not callable(make) or not isinstance(kind, type):
        return EMPTY
    hint: object = kind
    if names and names[0]:
        hint = kind[Literal[tuple(names[0])]]  # type: ignore[index]  # a generic class, known only now
    return make(hint, "anything")


def checker(fullname: str, *owner: object) -> Callable[..., object]:
    """What looks at the arguments of something that would be started, such as a method of ``owner``."""
    module, _, name = fullname.rpartition(".")
    by: Callable[..., object] = getattr(import_module(module), name)

    def check(*given: object, **named: object) -> object:
        return by(*owner, *given, **named)

    check.starts_nothing = True  # type: ignore[attr-defined]  # how it is told from what makes something
    return check


def completed(target: Callable[..., object]) -> Callable[..., object]:
    """As ``target``; what it makes is also asked for what it describes, which refuses some of its arguments."""

    def whole(*given: object, **named: object) -> object:
        made = target(*given, **named)
        for kind in type(made).__mro__:
            method = COMPLETED.get(f"{kind.__module__}.{kind.__qualname__}")
            if method is not None and is_ours(made):
                getattr(made, method)()
        return made

    whole.__wrapped__ = target  # type: ignore[attr-defined]  # inspect reads it, where somebody asks for the signature
    if hasattr(target, "__self__"):
        whole.__self__ = target.__self__  # type: ignore[attr-defined]  # as a method has it
    return whole


def derived(info: TypeInfo, known: Known) -> Callable[..., object]:
    """A class of the user that derives from a configuration of ours, as far as only ours looks at its fields: one of the same
    name, without what the user has added, and with the defaults that it changes, as far as they are known."""
    ours = next((each for each in info.mro if each.fullname.startswith(TRIED)), None)
    base = public(ours.fullname) if ours is not None else None
    if ours is None or not isinstance(base, type) or not dataclasses.is_dataclass(base):
        raise Unknown
    own = {name for each in info.mro[: info.mro.index(ours)] for name in written_in(each)}
    if own & {"__init__", "__post_init__", "__new__", "__getattribute__"}:
        raise Unknown
    fields = {each.name for each in dataclasses.fields(base)}
    defaults = {name: value for name, value in defaults_of(info, known).items() if name in fields}
    own -= defaults.keys()
    kind = type(info.name, (base,), {"__module__": "the user's"})

    def make(*given: object, **named: object) -> object:
        if given:
            raise Unknown
        return kind(**{name: value for name, value in {**defaults, **named}.items() if name in fields - own})

    make.__signature__ = inspect.signature(base)  # type: ignore[attr-defined]  # inspect reads it
    make.unknown = sorted(own & fields)  # type: ignore[attr-defined]  # fields with other defaults
    return make


def defaults_of(info: TypeInfo, known: Known) -> dict[str, object]:
    """The values that the body of a class gives its fields, as far as they are known."""
    found: dict[str, object] = {}
    for node in info.defn.defs.body:
        if isinstance(node, nodes.AssignmentStmt) and isinstance(node.lvalues[0], NameExpr):
            with suppress(Unknown):
                found[node.lvalues[0].name] = known.value(node.rvalue)
    return found


def written_in(info: TypeInfo) -> set[str]:
    """The names that the body of a class defines. It is not there if the class comes from a cache."""
    found: set[str] = set()
    if not info.defn.defs.body:
        raise Unknown
    for node in info.defn.defs.body:
        if isinstance(node, nodes.AssignmentStmt):
            found |= {each.name for each in node.lvalues if isinstance(each, NameExpr)}
        elif isinstance(node, (nodes.FuncDef, nodes.Decorator, nodes.OverloadedFuncDef)):
            found.add(node.name)
    return {name for name in found if name not in info.names or not info.names[name].plugin_generated}


def persists(sentence: str, target: Callable[..., object], arguments: Arguments) -> bool:
    """True if an error does not depend on what was left out, as far as other values for it can tell."""
    from tflow.errors import PlanError

    left_out = [*arguments.left_out, *getattr(target, "unknown", ())]
    if not left_out:
        return True
    usual = {name: parameter.default for name, parameter in inspect.signature(target).parameters.items()}
    numbers = {name: usual[name] for name in left_out if isinstance(usual.get(name), (int, float))}
    for factor in (1_000_000, 0.001) if numbers else ():
        others = {name: type(value)(max(value, 1) * factor) or 1 for name, value in numbers.items()}
        try:
            target(*arguments.given, **{**others, **arguments.named})
        except PlanError as error:
            if str(error) == sentence:
                continue
        except Exception:  # whatever it is, it is another error
            return False
        return False
    return not any(re.search(rf"\b{name}\b", sentence) for name in left_out)
