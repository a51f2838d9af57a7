"""Small changes to a module, one at a time: what mutation testing tries."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
NAMED = {"min": "max", "max": "min", "any": "all", "all": "any"}
TEXT = (ast.JoinedStr, ast.Constant)


@dataclass(frozen=True)
class Mutant:
    """One change of one place of a module."""

    line: int
    last_line: int
    what: str
    place: int
    """The number of the node in the order of ``ast.walk``."""
    variant: int
    in_function: bool
    """True if it is in the body of a function: that can be exchanged where the module is loaded already."""


def mutants_of(source: str) -> list[Mutant]:
    """All changes to a module that are tried, from the top down."""
    tree = ast.parse(source)
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    found = [
        Mutant(line, getattr(node, "end_lineno", line), f"{_text(node)} -> {_text(new)}", numbers[id(node)], variant, in_function)
        for node, line, in_function in _places(tree, 0, False)
        for variant, new in enumerate(_variants(node))
    ]
    return sorted(found, key=lambda mutant: (mutant.line, mutant.place, mutant.variant))


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The module with that change; all line numbers stay."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    old = nodes[mutant.place]
    new = ast.copy_location(_variants(old)[mutant.variant], old)
    for parent in nodes:
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(member is old for member in value):
                value[[member is old for member in value].index(True)] = new
    return ast.fix_missing_locations(tree)


def _places(node: ast.AST, line: int, in_function: bool) -> Iterator[tuple[ast.AST, int, bool]]:
    """All that may be changed, with its line: no annotations, assertions, decorators, overloads, texts."""
    line = getattr(node, "lineno", line)
    if isinstance(node, (ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node, line, in_function
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if any("overload" in ast.unparse(decorator) for decorator in node.decorator_list):
            return
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            yield from _places(default, line, in_function)
        for statement in node.body:
            yield from _places(statement, line, True)
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords" if isinstance(node, ast.ClassDef) else ""):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _places(child, line, in_function)


def _variants(node: ast.AST) -> list[ast.AST]:  # noqa: C901  # one table, as cases
    """What may stand there instead."""
    match node:
        case ast.Compare(ops=[op, *_]):
            return [_with(node, ops=[COMPARED[type(op)](), *node.ops[1:]])]
        case ast.BoolOp(op=op):
            return [_with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [operand]
        case ast.BinOp(op=op, left=left, right=right) if type(op) in COMPUTED:
            text = isinstance(left, ast.JoinedStr) or any(isinstance(getattr(side, "value", None), str) for side in (left, right))
            return [] if text else [_with(node, op=COMPUTED[type(op)]())]
        case ast.Constant(value=bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(value=int(value)) | ast.Constant(value=float(value)):
            return [ast.Constant(value + 1)]
        case ast.Name(id=name, ctx=ast.Load()) if name in NAMED:
            return [_with(node, id=NAMED[name])]
        case ast.Break():
            return [ast.Continue()]
        case ast.Continue():
            return [ast.Break()]
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if isinstance(
            test, (ast.Name, ast.Attribute, ast.Call)
        ):
            return [_with(node, test=ast.UnaryOp(ast.Not(), test))]
        case ast.Expr(value=ast.Call() | ast.Await()):
            return [ast.Pass()]
        case ast.AugAssign(op=op) if type(op) in COMPUTED:
            return [ast.Pass(), _with(node, op=COMPUTED[type(op)]())]
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Delete():
            return [ast.Pass()]
        case _:
            return []


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _text(node: ast.AST) -> str:
    """How it is shown: what an ``if`` asks, not what follows."""
    shown = getattr(node, "test", node) if isinstance(node, (ast.If, ast.While)) else node
    text = " ".join(ast.unparse(shown).split())
    return text if len(text) <= 90 else f"{text[:87]}..."
