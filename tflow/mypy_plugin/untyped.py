"""Rule ``tflow-untyped``: mypy does not look into functions without annotations, so a marked one is never unchecked quietly.

An annotation that says nothing, or a stream that does not say what it yields, is no better.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy.nodes import CallExpr, Decorator, Expression, FuncDef, MemberExpr, NameExpr, Node, Var
from mypy.plugin import FunctionContext
from mypy.types import AnyType, CallableType, Instance, TupleType, Type, TypeOfAny, UnionType, get_proper_type

from tflow import sentences
from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.report import Checker, report
from tflow.mypy_plugin.templates import stand_in_stream

CODE = "tflow-untyped"
RESULT = "what it returns"


def marked(ctx: FunctionContext) -> Type:
    """``@plan`` or ``@flow``."""
    decorated = ctx.context
    if isinstance(decorated, Decorator):
        fn = decorated.func
        missing = unannotated(fn)
        if missing:
            what = sentences.listed(missing)
            report(ctx.api, CODE, f'"{fn.name}" is not checked: there is no annotation for {what}. Write it.', fn)
        vague(ctx.api, fn)
        for name, where in taken_for_streams(fn):
            report(ctx.api, CODE, f'"{fn.name}" is not checked: the annotation of {name} says nothing. Write what it is.', where)
    return ctx.default_return_type


def unannotated(fn: FuncDef) -> list[str]:
    """What of a function is not annotated."""
    names = [argument.variable.name for argument in fn.arguments]
    if not isinstance(fn.type, CallableType):
        own = names[1:] if fn.info and not fn.is_static else names
        return [*own, RESULT]
    types = dict(zip(names, fn.type.arg_types, strict=True))
    bare = [name for name, each in types.items() if _is_bare(each) and not (fn.info and name == names[0] and not fn.is_static)]
    return [*bare, *([RESULT] if _is_bare(fn.type.ret_type) else [])]


def _is_bare(t: Type) -> bool:
    found = get_proper_type(t)
    return isinstance(found, AnyType) and found.type_of_any == TypeOfAny.unannotated


def vague(api: Checker, fn: FuncDef) -> None:
    """Report streams of which the annotations do not say what they yield."""
    if not isinstance(fn.type, CallableType):
        return
    names = [*(argument.variable.name for argument in fn.arguments), RESULT]
    found = [(name, kind) for name, t in zip(names, [*fn.type.arg_types, fn.type.ret_type], strict=True) if (kind := _open(t))]
    if found:
        kind, what = found[0][1], sentences.listed(name for name, _ in found)
        report(api, CODE, f'"{fn.name}" is not checked: "{kind}" does not say what {what} yields. Write {kind}[...].', fn)


def _open(t: Type, depth: int = 0) -> str:
    """The name of a stream, in an annotation, without what it yields; empty if there is none."""
    found = get_proper_type(t)
    stream = shapes.stream(found) if isinstance(found, Instance) else None
    if stream is not None and isinstance(found, Instance):
        element = get_proper_type(stream.args[0])
        said = not isinstance(element, AnyType) or element.type_of_any != TypeOfAny.from_omitted_generics
        return "" if said else found.type.name
    inside = found.items if isinstance(found, (UnionType, TupleType)) else found.args if isinstance(found, Instance) else ()
    return next((name for each in inside if depth < shapes.DEEPEST and (name := _open(each, depth + 1))), "")


def taken_for_streams(fn: FuncDef) -> Iterator[tuple[str, Node]]:
    """What is used as a stream although its annotation says nothing, and where."""
    if not isinstance(fn.type, CallableType):
        return
    given = zip(fn.arguments, fn.type.arg_types, strict=True)
    loose = {argument.variable: argument.variable.name for argument, t in given if _is_any(t)}
    for node in tree.walk(fn.body) if loose else ():
        owner = _owner(node)
        if isinstance(owner, NameExpr) and isinstance(owner.node, Var) and owner.node in loose:
            yield loose.pop(owner.node), node
    if _is_any(fn.type.ret_type):
        yield RESULT, fn


def _is_any(t: Type) -> bool:
    found = get_proper_type(t)
    return isinstance(found, AnyType) and found.type_of_any == TypeOfAny.explicit


def _owner(node: Node) -> Expression | None:
    """What a method of streams is called on."""
    callee = node.callee if isinstance(node, CallExpr) else None
    kinds = (shapes.ITER, shapes.PAR_ITER)
    if isinstance(callee, MemberExpr) and any(callable(getattr(stand_in_stream(kind), callee.name, None)) for kind in kinds):
        return callee.expr
    return None
