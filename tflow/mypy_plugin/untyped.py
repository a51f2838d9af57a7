"""Rule ``tflow-untyped``: mypy does not look into functions without annotations, so a marked one is never unchecked quietly."""

from __future__ import annotations

from mypy.nodes import Decorator, FuncDef
from mypy.plugin import FunctionContext
from mypy.types import AnyType, CallableType, Type, TypeOfAny, get_proper_type

from tflow import sentences
from tflow.mypy_plugin.report import report

CODE = "tflow-untyped"


def marked(ctx: FunctionContext) -> Type:
    """``@plan`` or ``@flow``."""
    decorated = ctx.context
    if isinstance(decorated, Decorator):
        missing = unannotated(decorated.func)
        if missing:
            name, what = decorated.func.name, sentences.listed(missing)
            report(ctx.api, CODE, f'"{name}" is not checked: there is no annotation for {what}. Write it.', decorated.func)
    return ctx.default_return_type


def unannotated(fn: FuncDef) -> list[str]:
    """What of a function is not annotated."""
    names = [argument.variable.name for argument in fn.arguments]
    if not isinstance(fn.type, CallableType):
        own = names[1:] if fn.info and not fn.is_static else names
        return [*own, "what it returns"]
    types = dict(zip(names, fn.type.arg_types, strict=True))
    bare = [name for name, each in types.items() if _is_bare(each) and not (fn.info and name == names[0] and not fn.is_static)]
    return [*bare, *(["what it returns"] if _is_bare(fn.type.ret_type) else [])]


def _is_bare(t: Type) -> bool:
    found = get_proper_type(t)
    return isinstance(found, AnyType) and found.type_of_any == TypeOfAny.unannotated
