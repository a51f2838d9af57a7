"""Edits that do what a message proposes. They are worked out from the expressions that the message is about."""

from __future__ import annotations

import ast
import json
import linecache
from collections.abc import Iterator, Sequence
from functools import cache

from mypy import nodes
from mypy.nodes import CallExpr, Expression, ImportBase, MemberExpr, NameExpr, Node, StrExpr, TypeInfo, Var
from mypy.types import CallableType, get_proper_type

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.public import ROOT, homes, imported
from tflow.mypy_plugin.recorder import Edit, Place, Proposal
from tflow.mypy_plugin.report import Checker
from tflow.mypy_plugin.site import CallSite

# --------------------------------------------------------------------------- places


def start_of(node: nodes.Context) -> Place:
    return node.line, node.column


def end_of(node: nodes.Context) -> Place:
    return node.end_line or node.line, node.end_column or node.column


def insert(place: Place, text: str) -> Edit:
    return Edit(place, place, text)


def after(expr: Expression, text: str) -> Edit:
    return insert(end_of(expr), text)


def text_between(api: Checker, start: Place, end: Place) -> str:
    """What is written there."""
    lines = [line.encode() for line in linecache.getlines(api.path)[start[0] - 1 : end[0]]]
    if not lines:
        return ""
    lines[-1] = lines[-1][: end[1]]
    lines[0] = lines[0][start[1] :]
    return b"".join(lines).decode()


def name_in(member: MemberExpr) -> tuple[Place, Place]:
    """Where the name of a method is."""
    line, column = end_of(member)
    return (line, column - len(member.name.encode())), (line, column)


def renamed(member: MemberExpr, name: str) -> Edit:
    return Edit(*name_in(member), name)


def method_call(expr: Expression | None) -> tuple[CallExpr, MemberExpr] | None:
    """A call of a method, and the method."""
    return (expr, expr.callee) if isinstance(expr, CallExpr) and isinstance(expr.callee, MemberExpr) else None


def gather(expr: Expression | None) -> tuple[CallExpr, MemberExpr] | None:
    """A call that brings a stream to the driver."""
    found = method_call(expr)
    return found if found is not None and found[1].name.startswith("gather_") else None


def made(scopes: tree.Scopes, expr: Expression) -> Expression:
    """What a name was set to, if that is known."""
    found = scopes.definition(expr.node) if isinstance(expr, NameExpr) and isinstance(expr.node, Var) else None
    return made(scopes, found) if found is not None else expr


def parent(api: Checker, inner: Expression) -> tuple[CallExpr, MemberExpr] | None:
    """The method that is called on an expression."""
    for node in tree.walk(api.tree):
        found = method_call(node) if isinstance(node, CallExpr) else None
        if found is not None and found[1].expr is inner:
            return found
    return None


def swapped(api: Checker, first: CallExpr, second: CallExpr, name: str) -> tuple[Edit, ...]:
    """Two methods of a chain in the other order; the one that is no gather gets another name."""
    inner, outer = first.callee, second.callee
    assert isinstance(inner, MemberExpr)
    assert isinstance(outer, MemberExpr)
    before, middle, last = end_of(inner.expr), end_of(first), end_of(second)
    parts = [text_between(api, before, middle), text_between(api, middle, last)]
    which = 0 if outer.name.startswith("gather_") else 1
    old = (inner, outer)[which].name
    parts[which] = parts[which].replace(old, name, 1)
    return (Edit(before, last, parts[1] + parts[0]),)


# --------------------------------------------------------------------------- names and imports


@cache
def exports() -> dict[str, str]:
    """By public name: the module that users import it from."""
    stub = ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8"))
    root = {name for name, _ in imported(stub)}
    spaces = [
        alias.name for node in stub.body if isinstance(node, ast.ImportFrom) and node.module is None for alias in node.names
    ]
    found: dict[str, str] = {}
    for space in spaces:
        file = ROOT / f"{space}.py"
        names = imported(ast.parse((file if file.exists() else ROOT / space / "__init__.py").read_text(encoding="utf-8")))
        found |= {name: f"tflow.{space}" for name, _ in names}
    return found | dict.fromkeys(root, "tflow")


def importing(api: Checker, name: str) -> tuple[Edit, ...] | None:
    """What makes a name of tflow known in a file; None if it cannot be."""
    if name in api.tree.names:
        return ()
    module = exports().get(name)
    if module is None or name not in homes():
        return None
    heads = [node for node in api.tree.defs if isinstance(node, ImportBase) and not node.is_unreachable]
    ours = [node for node in heads if getattr(node, "id", "").startswith("tflow")]
    last = max((end_of(node)[0] for node in ours or heads), default=0)
    return (insert((last + 1, 0), f"from {module} import {name}\n"),)


def names_set_in(fn: nodes.FuncDef) -> list[NameExpr]:
    """The names that get a value in a function, each where that happens."""
    found = [target for node in tree.own(fn.body) if isinstance(node, nodes.AssignmentStmt) for target in node.lvalues]
    return [target for target in found if isinstance(target, NameExpr)]


def needs_nothing(info: TypeInfo) -> bool:
    """True if a class can be called without arguments."""
    found = info.get_method("__init__")
    t = get_proper_type(found.type) if found is not None and found.type is not None else None
    return not isinstance(t, CallableType) or not any(kind.is_required() for kind in t.arg_kinds[1:])


def class_called(api: Checker, name: str, modules: Sequence[str]) -> TypeInfo | None:
    """A class of this file, or of the modules whose operators are proposed."""
    for module in (api.tree.fullname, *modules):
        found = api.modules.get(module)
        node = found.names[name].node if found is not None and name in found.names else None
        if isinstance(node, TypeInfo):
            return node
    return None


# --------------------------------------------------------------------------- proposals


def proposal(title: str, *edits: tuple[Edit, ...] | None) -> Iterator[Proposal]:
    """One, unless an edit is not possible."""
    if all(each is not None for each in edits):
        yield Proposal(title, tuple(edit for several in edits if several is not None for edit in several))


def inserted(site: CallSite, method: str, operator: str, modules: Sequence[str]) -> Iterator[Proposal]:
    """``.for_each(Operator())`` before the operator that needs it; inside the actors, before the stream is gathered."""
    info = class_called(site.api, operator, modules)
    if info is None or not needs_nothing(info):
        return
    place = site.before
    if method.startswith("par_") and site.actor is None:
        found = gather(made(site.labels.scopes, site.before))
        if found is None:
            return
        place = found[1].expr
    call = f"{method}({operator}())"
    yield from proposal(f"Insert {call}", (after(place, f".{call}"),), importing(site.api, operator))


def wrapped(site: CallSite, call: str) -> Iterator[Proposal]:
    """``ConcatRounds(stream)`` around the stream."""
    name = call.partition("(")[0]
    edits = (insert(start_of(site.before), f"{name}("), after(site.before, ")"))
    yield from proposal(f"Insert {name}(...)", edits, importing(site.api, name))


def bridged(site: CallSite, bridge: str, modules: Sequence[str]) -> Iterator[Proposal]:
    """What a message says that was forgotten."""
    name, _, rest = bridge.partition("(")
    found = gather(made(site.labels.scopes, site.before))
    if rest == "stream)":
        yield from wrapped(site, bridge)
    elif name.endswith("flatten"):
        yield from proposal(f"Insert {bridge}", (after(site.before, f".{bridge}"),))
    elif name.startswith("gather_") and found is not None:
        yield from proposal(f"Use {bridge}", (Edit(name_in(found[1])[0], end_of(found[0]), bridge),))
    elif name.endswith("for_each"):
        yield from inserted(site, name, rest.partition("(")[0], modules)


def gathered_in_step(culprit: Expression) -> Iterator[Proposal]:
    """``gather_sync()`` instead of ``gather_async()``."""
    found = gather(culprit)
    if found is not None:
        yield from proposal("Use gather_sync()", (Edit(name_in(found[1])[0], end_of(found[0]), "gather_sync()"),))


def inside_actors(site: CallSite) -> Iterator[Proposal]:
    """Apply an operator before the stream is gathered."""
    first, second = gather(site.before), parent(site.api, site.before)
    if first is not None and second is not None and site.method == "for_each":
        yield from proposal("Use par_for_each before gathering", swapped(site.api, first[0], second[0], "par_for_each"))


def on_driver(site: CallSite) -> Iterator[Proposal]:
    """Apply an operator after the stream is gathered, or without sending it to an actor."""
    first = parent(site.api, site.before)
    if first is None:
        return
    second = parent(site.api, first[0])
    if not site.method.startswith("par_"):
        call = f"for_each({text_between(site.api, start_of(site.where), end_of(site.where))})"
        yield from proposal("Use for_each", (Edit(name_in(first[1])[0], end_of(first[0]), call),))
    elif second is not None and gather(second[0]) is not None:
        yield from proposal("Use for_each after gathering", swapped(site.api, first[0], second[0], "for_each"))


def of_parallel(member: MemberExpr, *, inside: bool) -> Iterator[Proposal]:
    """A method of driver streams, on a parallel one."""
    if inside:
        yield from proposal(f"Use par_{member.name}", (renamed(member, f"par_{member.name}"),))
    yield from proposal("Insert gather_sync()", (after(member.expr, ".gather_sync()"),))


def of_driver(api: Checker, member: MemberExpr, *, known: bool) -> Iterator[Proposal]:
    """A method of parallel streams, on one of the driver. ``known``: there is one that does the same on the driver."""
    first, second = gather(member.expr), parent(api, member.expr)
    if first is not None and second is not None and member.name.startswith("par_"):
        yield from proposal(f"Use {member.name} before gathering", swapped(api, first[0], second[0], member.name))
    if known:
        name = member.name.removeprefix("par_")
        yield from proposal(f"Use {name}", (renamed(member, name),))
    if second is not None and gather(second[0]) is not None:
        yield from proposal(f"Leave {member.name} out", (Edit(end_of(member.expr), end_of(second[0]), ""),))


def other_method(member: MemberExpr, name: str) -> Iterator[Proposal]:
    """The same argument for another method."""
    yield from proposal(f"Use {name}", (renamed(member, name),))


def instead(api: Checker, where: Node | None, wrong: str, right: str) -> Iterator[Proposal]:
    """Another name, wherever the wrong one is written inside."""
    strings = (
        [node for node in tree.walk(where) if isinstance(node, StrExpr) and node.value == wrong] if where is not None else []
    )
    edits = tuple(Edit(start_of(node), end_of(node), json.dumps(right, ensure_ascii=False)) for node in strings)
    if edits and right:
        yield from proposal(f'Use "{right}"', edits)


# --------------------------------------------------------------------------- streams that are consumed twice


def block_of(api: Checker, inner: nodes.Context) -> tuple[nodes.Block | nodes.MypyFile, Node] | None:
    """The innermost block that an expression is in, and its statement there."""
    found = None
    waiting: list[Node] = [api.tree]
    while waiting:
        node = waiting.pop()
        inside = node.defs if isinstance(node, nodes.MypyFile) else node.body if isinstance(node, nodes.Block) else []
        for statement in inside:
            if start_of(statement) <= start_of(inner) and end_of(inner) <= end_of(statement):
                found = node, statement
        waiting += tree.children(node)
    return found  # type: ignore[return-value]  # a block, or a file


def split(api: Checker, first: nodes.Context, second: nodes.Context) -> Iterator[Proposal]:
    """``a, b = stream.split()`` before the first of two that consume a stream, if both always happen."""
    here, there = block_of(api, first), block_of(api, second)
    if not isinstance(first, NameExpr) or not isinstance(second, NameExpr) or here is None or there is None:
        return
    if here[0] is not there[0] or first.name != second.name:
        return
    names = new_names(api, first.name, 2)
    line = here[1].line
    if isinstance(here[1], nodes.Decorator):
        return
    indent = " " * here[1].column
    yield from proposal(
        f"Split {first.name} for both",
        (
            insert((line, 0), f"{indent}{', '.join(names)} = {first.name}.split()\n"),
            Edit(start_of(first), end_of(first), names[0]),
            Edit(start_of(second), end_of(second), names[1]),
        ),
    )


def new_names(api: Checker, name: str, number: int) -> list[str]:
    """Names that nobody uses."""
    used = {node.name for node in tree.walk(api.tree) if isinstance(node, NameExpr)}
    numbered = (f"{name}_{count}" for count in range(1, 1_000))
    free = (each for each in numbered if each not in used)
    return [next(free) for _ in range(number)]


def one_more_branch(api: Checker, call: CallExpr, second: nodes.Context) -> Iterator[Proposal]:
    """``a, b, c = stream.split(3)`` instead of ``a, b = stream.split()``, for a branch that is consumed twice."""
    targets = [
        target
        for node in tree.walk(api.tree)
        if isinstance(node, nodes.AssignmentStmt) and node.rvalue is call
        for target in node.lvalues
    ]
    member = call.callee
    if len(targets) != 1 or not isinstance(targets[0], nodes.TupleExpr) or not isinstance(member, MemberExpr):
        return
    if not isinstance(second, NameExpr) or (call.args and not isinstance(call.args[0], nodes.IntExpr)):
        return
    (name,) = new_names(api, second.name, 1)
    number = len(targets[0].items) + 1
    edits = (
        after(targets[0].items[-1], f", {name}"),
        Edit(end_of(member), end_of(call), f"({number})"),
        Edit(start_of(second), end_of(second), name),
    )
    yield from proposal("Split into one more branch", edits)
