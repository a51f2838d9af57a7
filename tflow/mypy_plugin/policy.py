"""Rule ``tflow-policy``: the policies are those that the workers were made with.

The names are part of the types of workers and batches. Where they are not annotated, they are read from the keys of ``losses=``.
"""

from __future__ import annotations

from mypy.nodes import CallExpr, DictExpr, Expression, ListExpr, NameExpr, SetExpr, StrExpr, TupleExpr, Var
from mypy.plugin import FunctionContext, FunctionSigContext
from mypy.types import CallableType, Instance, LiteralType, Type, UnionType, get_proper_type

from tflow import sentences
from tflow.mypy_plugin import shapes, tree
from tflow.mypy_plugin.report import Checker, report

CODE = "tflow-policy"
SELECT = "tflow.rl.workers.Select"


def check(api: Checker, call: CallExpr) -> None:
    """``Select(stream, policy=...)``."""
    given = dict(zip((name or "stream" for name in call.arg_names), call.args, strict=True))
    if "stream" not in given or "policy" not in given:
        return
    found = shapes.as_base(api.lookup_type_or_none(given["stream"]), shapes.ITER)
    batch = shapes.as_base(found.args[0], shapes.MULTI_BATCH) if found is not None else None
    known = shapes.literals(batch.args[1]) if batch is not None else None
    wanted = shapes.literals(api.lookup_type_or_none(given["policy"]))
    wrong = [name for name in wanted or () if known is not None and name not in known]
    if wrong:
        report(api, CODE, sentences.policy(wrong[0], known or ()), given["policy"], instead_of=call)


def any_name(ctx: FunctionSigContext) -> CallableType:
    """``Select`` with a policy that is only known at run time, which may be one of those that were read from keys."""
    signature = ctx.default_signature
    given = ctx.args[signature.arg_names.index("policy")]
    if len(given) != 1 or shapes.literals(ctx.api.get_expression_type(given[0])):
        return signature
    place = signature.arg_names.index("policy")
    types = [shapes.ANYTHING if index == place else each for index, each in enumerate(signature.arg_types)]
    return signature.copy_modified(arg_types=types)


def named_by(argument: str, ctx: FunctionContext) -> Type:
    """Workers or replay actors whose policies are named by the keys or items of an argument."""
    made = get_proper_type(ctx.default_return_type)
    if argument not in ctx.callee_arg_names or not isinstance(made, Instance) or len(made.args) != 1:
        return ctx.default_return_type
    given = ctx.args[ctx.callee_arg_names.index(argument)]
    text = get_proper_type(made.args[0])
    if len(given) != 1 or not isinstance(text, Instance) or text.type.fullname != "builtins.str":
        return ctx.default_return_type
    names = names_in(given[0], ctx.api)
    if not names:
        return ctx.default_return_type
    return made.copy_modified(args=[UnionType.make_union([LiteralType(name, text) for name in names])])


def names_in(expr: Expression, api: Checker) -> list[str]:
    """The strings that a display has as keys or items; a variable is followed to where it is set."""
    if isinstance(expr, NameExpr) and isinstance(expr.node, Var):
        made = tree.Scopes(api.scope.current_function(), api.tree).definition(expr.node)
        return names_in(made, api) if made is not None and not isinstance(made, NameExpr) else []
    if isinstance(expr, DictExpr):
        shown: list[Expression | None] = [key for key, _ in expr.items]
    elif isinstance(expr, (ListExpr, TupleExpr, SetExpr)):
        shown = list(expr.items)
    else:
        return []
    names = [key.value for key in shown if isinstance(key, StrExpr)]
    return names if len(names) == len(shown) else []
