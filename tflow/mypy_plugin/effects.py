"""What functions of a module do with streams that are not their own: attributes of ``self``, variables of the module, what cached
functions make.

``self.logs()`` may consume ``self.rewards``, and a property may hand it out. So a call of such a function counts as consuming
what its body is sure to consume, whichever way it goes. Functions that cannot be followed (of other modules, overridden,
decorated, generators, those that set attributes) do nothing that is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mypy import nodes
from mypy.nodes import Decorator, Expression, FuncDef, MemberExpr, NameExpr, RefExpr, SymbolNode, TypeInfo, Var
from mypy.types import Instance, get_proper_type

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.bindings import rebound
from tflow.mypy_plugin.edges import Attribute, State
from tflow.mypy_plugin.report import Checker

PROPERTY, CACHED_PROPERTY = "builtins.property", "functools.cached_property"
CACHES = {"functools.cache", "functools.lru_cache"}
MARKS = {"tflow.marks.plan", "tflow.marks.flow"}
ITSELF = ""
"""In place of the name of an attribute: the variable, or the cached function, itself."""


@dataclass(frozen=True)
class Effect:
    """What a call does with streams from outside."""

    consumes: tuple[Attribute, ...] = ()
    returns: Attribute | None = None
    """The stream from outside that it returns as it is."""


UNKNOWN = Effect()


def function_of(node: SymbolNode | None) -> FuncDef | None:
    """A function that is what it seems to be: not decorated, except by our marks."""
    if isinstance(node, Decorator) and all(_name(each) in MARKS for each in node.original_decorators):
        return node.func
    return node if isinstance(node, FuncDef) else None


def decorated_with(node: SymbolNode | None, names: set[str]) -> FuncDef | None:
    """The function behind a single decorator of these names."""
    if isinstance(node, Decorator) and len(node.original_decorators) == 1 and _name(node.original_decorators[0]) in names:
        return node.func
    return None


def _name(decorator: Expression) -> str:
    called = decorator.callee if isinstance(decorator, nodes.CallExpr) else decorator
    return called.fullname if isinstance(called, RefExpr) else ""


def method_of(api: Checker, expr: MemberExpr) -> SymbolNode | None:
    """The method, or the property, that ``self.logs`` is, if no class of the file overrides it."""
    owner = get_proper_type(api.lookup_type_or_none(expr.expr))
    info = owner.type if isinstance(owner, Instance) else None
    found = info.get(expr.name) if info is not None else None
    if info is None or found is None or any(expr.name in other.names for other in subclasses(api.tree, info)):
        return None
    return found.node


class OfFile:
    """What is asked often of a file: its classes, and what its variables are set to."""

    def __init__(self, file: nodes.MypyFile) -> None:
        self.defs = file.defs
        known = tree.definitions(file)
        inside = known.everything
        self.classes = [node.info for node in inside if isinstance(node, nodes.ClassDef)]
        self.set = known.set
        self.set_on_classes = {target.name for node in inside for target in attributes_set(node) if on_class(target)}
        """Attributes that are set on classes themselves, wherever that happens."""


def attributes_set(node: nodes.Node) -> list[MemberExpr]:
    """The attributes that a statement sets."""
    if not isinstance(node, nodes.Statement):
        return []
    targets = node.lvalues if isinstance(node, nodes.AssignmentStmt) else tree.targets(node)
    return [target for target in targets if isinstance(target, MemberExpr)]


def on_class(target: MemberExpr) -> bool:
    """True for ``Settings.size``, ``cls.size`` and ``type(self).size``."""
    owner = target.expr
    if isinstance(owner, nodes.CallExpr):
        return isinstance(owner.callee, RefExpr) and owner.callee.fullname == "builtins.type"
    found = owner.node if isinstance(owner, RefExpr) else None
    return isinstance(found, TypeInfo) or (isinstance(found, Var) and found.is_cls)


LOOKED_AT: list[OfFile] = []
"""Only the file that was looked at last."""


def of_file(file: nodes.MypyFile) -> OfFile:
    if not LOOKED_AT or LOOKED_AT[0].defs is not file.defs:
        LOOKED_AT[:] = [OfFile(file)]
    return LOOKED_AT[0]


def subclasses(file: nodes.MypyFile, info: TypeInfo) -> Iterator[TypeInfo]:
    """The classes of a file that derive from a class."""
    return (each for each in of_file(file).classes if each is not info and info in each.mro)


def is_set_once(file: nodes.MypyFile, variable: Var) -> bool:
    """True for a variable of a module that nobody sets again."""
    return variable.name not in rebound(file) and len(of_file(file).set.get(variable, ())) == 1


def sets_attributes(fn: FuncDef) -> bool:
    """True if a function may change what attributes are, by itself or by what it gives ``self`` to."""
    own = fn.arguments[0].variable if fn.info and fn.arguments else None
    for node in tree.own(fn.body):
        targets = node.lvalues if isinstance(node, nodes.AssignmentStmt) else tree.targets(node)
        parts = [part for target in targets if target is not None for part in tree.walk(target)]
        if isinstance(node, nodes.DelStmt) or any(isinstance(part, (MemberExpr, nodes.IndexExpr)) for part in parts):
            return True
        if isinstance(node, nodes.CallExpr) and any(isinstance(each, NameExpr) and each.node is own for each in node.args):
            return True
    return False


def in_common(own: Var | None, outcomes: list[tuple[State, object]]) -> Effect:
    """What is done on every path."""
    if not outcomes:
        return Effect()
    keys = [key for key in outcomes[0][0].attributes if _is_outside(key, own)]
    consumed = [
        key
        for key in keys
        if all(key in path.attributes and path.attributes[key] in path.used for path, _ in outcomes)
        and not any(path.attributes[key].released for path, _ in outcomes)
    ]
    returned = [key for key in keys if key not in consumed and all(path.attributes.get(key) is value for path, value in outcomes)]
    return Effect(tuple(consumed), returned[0] if returned else None)


def _is_outside(key: Attribute, own: Var | None) -> bool:
    return key[0] is own or key[1] == ITSELF or isinstance(key[0], TypeInfo)
