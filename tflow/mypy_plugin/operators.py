"""Where streams meet operators and functions: each place is looked at by the rules about types, and if one of them has
something to say, mypy's own message is left out (it accepts the argument, and goes on with what the operator yields)."""

from __future__ import annotations

from mypy.erasetype import erase_typevars
from mypy.nodes import CallExpr, Expression, MemberExpr
from mypy.plugin import FunctionSigContext, MethodSigContext
from mypy.types import AnyType, CallableType, Instance, Type, get_proper_type

from tflow.mypy_plugin import columns, flow, literal, placement, shapes, sync
from tflow.mypy_plugin.asked import ASKED
from tflow.mypy_plugin.labels import source
from tflow.mypy_plugin.report import Checker, report
from tflow.mypy_plugin.site import Site, labels_in

PLACES = (placement.broken, sync.broken)
ELEMENTS = (columns.broken, flow.broken)


def broken(site: Site) -> bool:
    """True if a rule about elements or one about places has reported something."""
    wrong = any(rule(site) for rule in ELEMENTS)
    return any(rule(site) for rule in PLACES) or wrong


def applied(ctx: MethodSigContext) -> CallableType:
    """``stream.for_each(op)``, ``par_for_each``, ``call`` and ``hand_off``."""
    signature, call, api = ctx.default_signature, ctx.context, ctx.api
    place = signature.arg_names.index("op")
    given = ctx.args[place] if place < len(ctx.args) else []
    if len(given) != 1 or not isinstance(call, CallExpr) or not isinstance(call.callee, MemberExpr):
        return signature
    formal, method = shapes.as_base(signature.arg_types[place], shapes.OP), call.callee.name
    found = ASKED.type_of(api, given[0])
    if formal is None or isinstance(get_proper_type(found), AnyType):
        return signature
    op = shapes.as_base(shapes.without_never(found), shapes.OP)
    if op is None:
        sentence = flow.not_an_operator(method, found, source(given[0]))
        if not sentence:
            return signature
        report(api, flow.CODE, sentence, given[0])
        return accepting(signature, place)
    site = Site(
        api,
        labels_in(api),
        shapes.name_of(found),
        method,
        call.callee.expr,
        given[0],
        formal.args[0],
        offered_by(formal.args[2], ctx),
        op.args[0],
        op.args[2],
    )
    if not broken(site):
        return signature
    result = get_proper_type(signature.ret_type)
    yields = [op.args[1], *result.args[1:]] if isinstance(result, Instance) else []
    return accepting(signature, place, result.copy_modified(args=yields) if isinstance(result, Instance) else None)


def offered_by(formal: Type, ctx: MethodSigContext) -> Type:
    """What the place offers; inside an actor that is given, its class."""
    place, signature = shapes.as_base(formal, shapes.ON_ACTOR), ctx.default_signature
    if place is None or "actor" not in signature.arg_names or not ctx.args[signature.arg_names.index("actor")]:
        return formal
    actor = shapes.as_base(ASKED.type_of(ctx.api, ctx.args[signature.arg_names.index("actor")][0]), shapes.ACTORS)
    return place.copy_modified(args=[actor.args[0] if actor is not None else shapes.ANYTHING])


def accepting(signature: CallableType, place: int, result: Type | None = None) -> CallableType:
    """A signature that takes anything at that place."""
    types = [shapes.ANYTHING if index == place else each for index, each in enumerate(signature.arg_types)]
    if result is None:
        return signature.copy_modified(arg_types=types)
    return signature.copy_modified(arg_types=types, ret_type=result)


def widened(ctx: MethodSigContext) -> CallableType:
    """``stream.with_columns(op)``."""
    signature, call, api = ctx.default_signature, ctx.context, ctx.api
    if not ctx.args or len(ctx.args[0]) != 1 or not isinstance(call, CallExpr) or not isinstance(call.callee, MemberExpr):
        return signature
    given, formal = ctx.args[0][0], shapes.as_base(signature.arg_types[0], shapes.ADD_COLUMNS)
    found = ASKED.type_of(api, given)
    op = shapes.as_base(shapes.without_never(found), shapes.ADD_COLUMNS)
    if formal is None or op is None:
        return signature
    site = Site(
        api,
        labels_in(api),
        shapes.name_of(found),
        call.callee.name,
        call.callee.expr,
        given,
        shapes.ANYTHING,
        formal.args[2],
        shapes.ANYTHING,
        op.args[2],
    )
    stream = shapes.stream(api.lookup_type_or_none(site.before))
    element = stream.args[0] if stream is not None else shapes.ANYTHING
    reads = shapes.literals(op.args[0]) or literal.columns_read_by(api, given)
    wrong = columns.lacks(site, shapes.literals(formal.args[0]), reads, element)
    if not any(rule(site) for rule in PLACES) and not wrong:
        return signature
    return accepting(signature, 0)


def mapped(ctx: MethodSigContext) -> CallableType:
    """``stream.map(fn)`` and ``par_map``: operators are not functions."""
    signature = ctx.default_signature
    call = ctx.context
    if len(ctx.args) < 1 or len(ctx.args[0]) != 1 or not isinstance(call, CallExpr) or not isinstance(call.callee, MemberExpr):
        return signature
    given = ctx.args[0][0]
    if not isinstance(given, CallExpr):  # only a call can make an operator here, and others need their context
        return signature
    sentence = flow.not_a_function(call.callee.name, ASKED.type_of(ctx.api, given))
    if not sentence:
        return signature
    report(ctx.api, flow.CODE, sentence, given)
    return accepting(signature, 0)


def given_streams(ctx: FunctionSigContext | MethodSigContext) -> CallableType:
    """A function, a class or a method that takes streams: ``ReportMetrics(stream, workers)``, ``a.zip(b)``, a sub-flow."""
    signature = ctx.default_signature
    for place, formal in enumerate(signature.arg_types):
        wanted = shapes.as_base(formal, shapes.ITER) or shapes.as_base(formal, shapes.PAR_ITER)
        if wanted is None or place >= len(ctx.args):
            continue
        for given in ctx.args[place]:
            if wrong_stream(ctx.api, called(ctx.context), signature.arg_names[place], given, wanted):
                signature = accepting(signature.copy_modified(variables=[]), place, erase_typevars(signature.ret_type))
                signature = signature.copy_modified(arg_types=[erase_typevars(each) for each in signature.arg_types])
    return signature


def called(context: object) -> str:
    """The name of what is called."""
    callee = context.callee if isinstance(context, CallExpr) else None
    return callee.name if isinstance(callee, MemberExpr) else source(callee) if callee is not None else "?"


def wrong_stream(api: Checker, function: str, name: str | None, given: Expression, wanted: Instance) -> bool:
    """Report a stream that a function does not take."""
    found = ASKED.type_of(api, given)
    labels = labels_in(api)
    driver = wanted.type.fullname == shapes.ITER
    if placement.other_kind(api, labels, function, called_by_users(function, name), given, found, driver=driver):
        return True
    have = shapes.as_base(found, wanted.type.fullname)
    if have is None:
        return False
    bare = erase_typevars(wanted)
    assert isinstance(bare, Instance)
    have = shapes.without_never(have)
    assert isinstance(have, Instance)
    return broken(Site(api, labels, function, function, given, given, *have.args[:2], *bare.args[:2]))


def called_by_users(function: str, name: str | None) -> str:
    """How errors call a parameter; those of Union have no names."""
    return "every input" if function in ("Union", "ParUnion") or name is None else name
