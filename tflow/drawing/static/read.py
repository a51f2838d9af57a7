"""``tflow graph FILE:NAME``: from a file and a name to a drawing, by types alone."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mypy import nodes as m

from tflow.drawing.model import Graph
from tflow.drawing.shown import shown
from tflow.drawing.static import statements
from tflow.drawing.static.build import ROUNDS, Checked, checked
from tflow.drawing.static.draft import Input
from tflow.drawing.static.reader import Reader, World
from tflow.drawing.static.source import Module, has_streams, signature, within
from tflow.drawing.static.values import Callee, Carried, streams_in
from tflow.errors import PlanError

MOST_NAMES = 16
MARKS = {"tflow.marks.plan": "plan", "tflow.marks.flow": "flow"}


@dataclass(frozen=True)
class Read:
    """A drawing, and what mypy has to say about the file."""

    graph: Graph
    errors: list[str]


@dataclass(frozen=True)
class Candidate:
    """Something in a module that can be drawn."""

    name: str
    function: m.FuncDef | None
    """None for a variable."""
    mark: str = ""
    makes_streams: bool = False


def of_source(path: Path, name: str | None = None, *, expand: bool = False, cache: Path | None = None) -> Read:
    """The graph of a function, a method or a variable in a file. Without a name, of the only plan or stream in it."""
    also: dict[str, str] = {}
    rounds = 0
    while True:
        found = checked(path, also, cache)
        graph = drawn(found, path, name, expand)
        rounds += 1
        if not found.program.wanted or rounds == ROUNDS:
            return Read(graph, found.errors)
        also |= {module: found.program.paths[module] for module in found.program.wanted}


def drawn(found: Checked, path: Path, name: str | None, expand: bool) -> Graph:
    """The graph of one thing in a module."""
    module = found.program.modules[found.main]
    world = World(found.program, expand=expand)
    known = {each.name: each for each in candidates(world, module)}
    wanted = chosen(known, module, name, path)
    draw = of_variable if wanted.function is None else of_function
    return draw(world, module, wanted, path)


def of_function(world: World, module: Module, wanted: Candidate, path: Path) -> Graph:
    """What a function builds out of its parameters."""
    function = wanted.function
    assert function is not None
    reader = Reader(world, module, function=function, callers=(function.fullname,))
    statements.take_parameters(reader, function)
    statements.block(reader, function.body.body)
    draft = world.draft
    if not draft.nodes:
        raise PlanError(f"{path}:{wanted.name} builds no stream and takes none.")
    given = [each for each in reader.returned if streams_in(each.value)]
    ends: list[int] = []
    for each in given:
        edges = draft.edges(each.value)
        if isinstance(each.value, Callee):  # a function that will consume the streams around it when it is called
            edges = draft.edges(draft.add(f"{each.value.name}(...)", edges, Carried(), kind="flow", line=each.line))
        if len(given) == 1:
            ends.extend(edge.node for edge in edges)
            continue
        marked = [Input(edge.node, edge.shown, each.mark) for edge in edges]
        ends.append(draft.add(each.how, marked, draft.common(edges), kind="end", line=each.line).node)
    result = signature(function.type)
    title = wanted.name if result is None else f"{wanted.name}: {shown(result.ret_type)}"
    return draft.finished(title, ends)


def of_variable(world: World, module: Module, wanted: Candidate, path: Path) -> Graph:
    """The stream that a variable of a module holds."""
    value = world.variables(module).get(wanted.name)
    if value is None or not streams_in(value):
        raise PlanError(f"{path}:{wanted.name} cannot be followed to a stream or a plan. Name a function that builds it.")
    draft = world.draft
    with draft.elsewhere():
        ends = [edge.node for edge in draft.edges(value)]
    kinds = ", ".join(dict.fromkeys(str(draft.nodes[end].carried) for end in ends))
    return draft.finished(f"{wanted.name}: {kinds}", ends)


# --------------------------------------------------------------------------- what there is


def candidates(world: World, module: Module) -> Iterator[Candidate]:
    """The functions, methods and variables of a module."""
    for statement in module.tree.defs:
        yield from _candidates(world, statement, "")
    for name, entry in module.tree.names.items():
        if isinstance(entry.node, m.Var) and entry.node.fullname.rpartition(".")[0] == module.name:
            yield Candidate(name, None, "", has_streams(entry.node.type))


def _candidates(world: World, statement: m.Statement, prefix: str) -> Iterator[Candidate]:
    match statement:
        case m.Decorator():
            marks = (each for each in statement.original_decorators if isinstance(each, m.RefExpr))
            mark = next((MARKS[each.fullname] for each in marks if each.fullname in MARKS), "")
            yield Candidate(prefix + statement.name, statement.func, mark, bool(mark) or _makes(world, statement.func))
        case m.FuncDef():
            yield Candidate(prefix + statement.name, statement, "", _makes(world, statement))
        case m.OverloadedFuncDef() if isinstance(statement.impl, m.FuncDef):
            yield Candidate(prefix + statement.name, statement.impl, "", _makes(world, statement.impl))
        case m.ClassDef():
            for inner in statement.defs.body:
                yield from _candidates(world, inner, f"{prefix}{statement.name}.")
        case m.IfStmt():
            for block in [*statement.body, *([statement.else_body] if statement.else_body else [])]:
                for inner in block.body:
                    yield from _candidates(world, inner, prefix)
        case _:
            pass


def _makes(world: World, function: m.FuncDef) -> bool:
    """True if a function returns streams, says its signature, or else what it returns."""
    result = signature(function.type)
    if result is not None and has_streams(result.ret_type):
        return True
    returns = (each.expr for each in within(function.body) if isinstance(each, m.ReturnStmt) and each.expr is not None)
    return any(world.program.has_streams(expr) for expr in returns)


def named(names: list[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES]) or 'none'}{more}"


def chosen(known: dict[str, Candidate], module: Module, name: str | None, path: Path) -> Candidate:
    """What is to be drawn, or a sentence that says what could be."""
    drawable = [each.name for each in known.values() if each.makes_streams]
    listed = f"Streams and plans in it: {named(drawable)}."
    if name is None:
        plans = [each for each in known.values() if each.mark == "plan"]
        only = [each for each in plans or known.values() if each.makes_streams]
        if len(only) == 1:
            return only[0]
        several = f"has {len(plans)} plans" if plans else "has no function marked @plan"
        names = named([each.name for each in plans] or drawable)
        raise PlanError(f"{path} {several}; say which to draw, {path}:NAME. Streams and plans in it: {names}.")
    if name not in known:
        entry = module.tree.names.get(name)
        if entry is not None and entry.node is not None and not isinstance(entry.node, m.TypeInfo):
            home = entry.node.fullname.rpartition(".")[0]
            raise PlanError(f"{path} only imports {name!r}, from {home}. Name the file in which it is written.")
        close = difflib.get_close_matches(name, drawable or list(known), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise PlanError(f"{path} has no {name!r}.{hint} {listed}")
    found = known[name]
    if found.function is None and not found.makes_streams:
        raise PlanError(f"{path}:{name} is not a stream, a plan, or a function. {listed}")
    return found
