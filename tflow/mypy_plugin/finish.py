"""Looking at a function when mypy has finished it.

Plugins are called for single expressions, while a body is being checked. Rules about whole bodies need all types of a body. mypy
checks in passes: what it *defers* is looked at again in the next one. So when a hook is called inside a function, a tiny
function of our own is deferred, whose body is one call; the hook of that call then runs after the function is done. This is
the same in every mode of mypy (one or two phases, parallel, daemon), works for functions without a mark and for modules, and
costs nothing but that call: nothing is checked twice.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import GDEF, Block, CallExpr, Decorator, ExpressionStmt, FuncDef, MemberExpr, MypyFile, NameExpr, Var
from mypy.types import AnyType, CallableType, Instance, NoneType, get_proper_type

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.codes import TITLES
from tflow.mypy_plugin.report import Checker

FINISHED = "tflow.<finished>"
LOOKED_AT = set(TITLES) - {"tflow-untyped"}
"""The rules about bodies."""
Unit = FuncDef | MypyFile
Deferred = list[tuple[object, object]]


class Finish:
    """What is waiting to be looked at."""

    def __init__(self, look: Callable[[Checker, Unit], None]) -> None:
        self.look = look
        self.waiting: dict[int, tuple[FuncDef, Unit, Deferred]] = {}
        """By our own function: itself, what it is about, and mypy's list that it is in."""
        self.queued: dict[int, Deferred] = {}
        """By what it is about: mypy's list that our function is in."""
        self.again: set[int] = set()
        """Functions that mypy was asked to check once more."""
        self.looking: FuncDef | None = None

    def after(self, api: Checker, unit: Unit | None = None) -> None:
        """Look at a function when it is done: the one that is being checked, or outside of functions, the module."""
        if api.tree.fullname.startswith("tflow."):
            return  # our own modules are checked along with the user's, and have tests of their own
        unit = unit or api.scope.top_level_function() or api.tree
        if not isinstance(unit, (FuncDef, MypyFile)) or unit is self.looking or id(unit) in self.waiting:
            return  # a lambda belongs to the module, and our own function is not to be looked at
        if self.queued.get(id(unit)) is not api.deferred_nodes:
            self.defer(api, unit, api.deferred_nodes)

    def defer(self, api: Checker, unit: Unit, behind: Deferred) -> None:
        mark = marker(api, unit)
        api.defer_node(mark, None)
        if behind is not api.deferred_nodes:
            behind.append(api.deferred_nodes.pop())
        self.waiting[id(mark)] = (mark, unit, behind)
        self.queued[id(unit)] = behind

    def arrived(self, api: Checker) -> None:
        """mypy checks one of our own functions."""
        mark, unit, batch = self.waiting.pop(id(api.scope.current_function()))
        self.queued.pop(id(unit), None)
        order = [node for node, _ in batch]
        later = order[order.index(mark) + 1 :]
        if any(node is unit or getattr(node, "func", None) is unit for node in later):
            self.defer(api, unit, batch)  # mypy comes back to the function itself in this pass: wait behind it
        elif isinstance(unit, FuncDef) and id(unit) not in self.again and checked_too_early(api, unit):
            self.again.add(id(unit))
            api.defer_node(unit, unit.info or None)
            self.defer(api, unit, api.deferred_nodes)
        else:
            self.again.discard(id(unit))
            self.looking = mark
            forget(api, unit)
            self.look(api, unit)


def forget(api: Checker, unit: Unit) -> None:
    """Take back what was said when the unit was looked at before: mypy has checked it again since."""
    said = api.errors.error_info_map.get(api.errors.file)
    if said:
        said[:] = [each for each in said if each.target != unit.fullname or each.code is None or each.code.code not in LOOKED_AT]


def checked_too_early(api: Checker, unit: FuncDef) -> bool:
    """True if a decorated method that is used has a type by now and had none when the function was checked. The daemon does not
    come back to such functions by itself."""
    if not api.options.fine_grained_incremental:
        return False
    for node in tree.own(unit.body):
        if isinstance(node, MemberExpr) and isinstance(get_proper_type(api.lookup_type_or_none(node)), AnyType):
            owner = get_proper_type(api.lookup_type_or_none(node.expr))
            found = owner.type.get(node.name) if isinstance(owner, Instance) else None
            if found is not None and isinstance(found.node, Decorator) and isinstance(found.node.var.type, CallableType):
                return True
    return False


def marker(api: Checker, unit: Unit) -> FuncDef:
    """A function that only calls ``FINISHED``. It has the name of what it is about, so that the daemon knows whose errors these
    are."""
    signature = CallableType([], [], [], NoneType(), api.named_generic_type("builtins.function", []))
    called = Var("finished", signature)
    called._fullname = FINISHED
    called.is_ready = True
    name = NameExpr("finished")
    name.node, name.kind, name.fullname = called, GDEF, FINISHED
    call = CallExpr(name, [], [], [])
    statement = ExpressionStmt(call)
    body = Block([statement])
    made = FuncDef("<finished>", [], body, signature)
    made._fullname = unit.fullname
    if hasattr(made, "def_or_infer_vars"):
        made.def_or_infer_vars = True  # in the first of two phases, mypy enters only functions that say this
    for node in (name, call, statement, body, made):
        node.set_line(max(unit.line, 1), 0)
    return made
