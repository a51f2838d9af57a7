"""The mypy plugin: ``plugins = ["tflow.mypy_plugin"]``. It says what plain typing cannot, and says the rest in better words.

Every rule has a file and a code of its own (``codes.py``). ``operators.py`` looks at each place where a stream meets an operator;
``bodies.py`` looks at whole functions when mypy has finished them, which ``finish.py`` makes possible.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mypy.nodes import Decorator, OverloadedFuncDef, SymbolNode, TypeInfo
from mypy.options import Options
from mypy.plugin import (
    FunctionContext,
    FunctionSigContext,
    MethodContext,
    MethodSigContext,
    Plugin,
    ReportConfigContext,
)
from mypy.types import CallableType, FunctionLike, Overloaded, TupleType, Type, get_proper_type

from tflow.mypy_plugin import bodies, literal, operators, policy, shapes, untyped
from tflow.mypy_plugin.asked import ASKED
from tflow.mypy_plugin.finish import FINISHED, Finish
from tflow.mypy_plugin.report import Ctx, guarded

LOWEST, HIGHEST = (1, 18), (2, 4)
"""The versions of mypy that this is tested with. Newer ones may move what ``finish.py`` relies on."""
PARTS = [
    *sorted(Path(__file__).parent.glob("*.py")),
    *(Path(__file__).parents[1] / each for each in ("sentences.py", "drawing/shown.py")),
]
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in PARTS)).hexdigest()[:16]

MARKS = bodies.MARKS
APPLIES = {f"{shapes.ITER}.for_each", f"{shapes.ITER}.call", f"{shapes.ITER}.hand_off", f"{shapes.PAR_ITER}.par_for_each"}
WIDENS = {f"tflow.combinators.columns.{name}.__call__" for name in ("WithColumns", "ParWithColumns")}
MAPS = {f"{shapes.ITER}.map", f"{shapes.PAR_ITER}.par_map"}
MOST_BRANCHES = 64
SPLIT = "tflow.combinators.splits.Splits.split"
SELECT = "tflow.rl.workers.Select"
NAMES_POLICIES = {
    "tflow.rl.workers.create_rollout_workers": "losses",
    "tflow.rl.replay.create_replay_actors": "policies",
}


def same_signature(hook: Callable[[Ctx], CallableType]) -> Callable[[Ctx], CallableType]:
    """A hook that looks at arguments before mypy does."""

    def asking(ctx: Ctx) -> CallableType:
        ASKED.within(ctx.context)  # type: ignore[attr-defined]  # every context has one
        return hook(ctx)

    return guarded(lambda ctx: ctx.default_signature)(asking)  # type: ignore[attr-defined]  # this kind of context has one


def same_type(hook: Callable[[Ctx], Type]) -> Callable[[Ctx], Type]:
    """A hook that comes after mypy has checked a call."""

    def answered(ctx: Ctx) -> Type:
        ASKED.done(ctx.context)  # type: ignore[attr-defined]  # every context has one
        return hook(ctx)

    return guarded(lambda ctx: ctx.default_return_type)(answered)  # type: ignore[attr-defined]  # this kind of context has one


def described(ctx: FunctionSigContext) -> CallableType:
    """A description with overloads: what it refuses is one sentence, and its streams are looked at."""
    refused = literal.refused(ctx)
    return refused if refused is not ctx.default_signature else operators.given_streams(ctx)


class TflowPlugin(Plugin):
    """Which hook is called for what."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.finish = Finish(bodies.look)

    # ------------------------------------------------------------------- better words

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        fullname = self.defined_as(fullname)
        if fullname in APPLIES:
            return same_signature(operators.applied)
        if fullname in WIDENS:
            return same_signature(operators.widened)
        if fullname in MAPS:
            return same_signature(operators.mapped)
        if fullname == f"{shapes.ITER}.every":
            return same_signature(literal.refused)
        return same_signature(operators.given_streams) if self.takes_streams(fullname) else None

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        if fullname == SELECT:
            return same_signature(policy.selected)
        if fullname.startswith(literal.TRIED) and self.has_overloads(fullname):
            return same_signature(described)
        return same_signature(operators.given_streams) if self.takes_streams(fullname) else None

    def defined_as(self, fullname: str) -> str:
        """The name of a method in the class that defines it; mypy names the class of the object."""
        owner, _, method = fullname.rpartition(".")
        if owner.startswith("builtins."):
            return fullname
        symbol = self.lookup_fully_qualified(owner)
        node = symbol.node if symbol is not None else None
        found = node.get_containing_type_info(method) if isinstance(node, TypeInfo) else None
        return f"{found.fullname}.{method}" if found is not None else fullname

    def function_named(self, fullname: str) -> SymbolNode | None:
        """A function or a method; for a class, what makes its objects."""
        symbol = self.lookup_fully_qualified(fullname) if not fullname.startswith("builtins.") else None
        node = symbol.node if symbol is not None else None
        if isinstance(node, TypeInfo):
            node = made.node if (made := node.get("__init__")) is not None else None
        return node.func if isinstance(node, Decorator) else node

    def has_overloads(self, fullname: str) -> bool:
        return isinstance(self.function_named(fullname), OverloadedFuncDef)

    def takes_streams(self, fullname: str) -> bool:
        """True for a function, a method or a class with a parameter that is a stream."""
        kind = get_proper_type(getattr(self.function_named(fullname), "type", None))
        items = kind.items if isinstance(kind, Overloaded) else [kind]
        return any(shapes.stream(each) is not None for item in items if isinstance(item, CallableType) for each in item.arg_types)

    # ------------------------------------------------------------------- better types, and looking at bodies later

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        if fullname == FINISHED:
            return same_type(self.arrived)
        if fullname in MARKS:
            return same_type(self.marked)
        if fullname in NAMES_POLICIES:
            return same_type(partial(self.named, NAMES_POLICIES[fullname]))
        return same_type(self.passed) if fullname.startswith("tflow.") or self.takes_streams(fullname) else None

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        fullname = self.defined_as(fullname)
        if fullname == SPLIT:
            return same_type(self.split)
        return same_type(self.passed) if fullname.startswith("tflow.combinators.") or self.takes_streams(fullname) else None

    def arrived(self, ctx: FunctionContext) -> Type:
        self.finish.arrived(ctx.api)
        return ctx.default_return_type

    def marked(self, ctx: FunctionContext) -> Type:
        """A plan or a sub-flow is looked at in any case, even if nothing inside calls a hook."""
        api, decorated = ctx.api, ctx.context
        if isinstance(decorated, Decorator) and api.scope.top_level_function() is None:
            if getattr(api, "recurse_into_functions", True) or decorated.func.def_or_infer_vars:
                self.finish.after(api, decorated.func)
            else:  # the first of two phases, which leaves bodies out: have this one checked, and come back
                decorated.func.def_or_infer_vars = True
                api.defer_node(decorated, api.scope.active_class())
        return untyped.marked(ctx)

    def passed(self, ctx: FunctionContext | MethodContext) -> Type:
        """Something about streams: the body around it is worth a look when it is finished."""
        self.finish.after(ctx.api)
        return ctx.default_return_type

    def named(self, argument: str, ctx: FunctionContext) -> Type:
        self.finish.after(ctx.api)
        return policy.named_by(argument, ctx)

    def split(self, ctx: MethodContext) -> Type:
        """As many branches as a literal says; plain typing knows that up to eight."""
        self.finish.after(ctx.api)
        given = get_proper_type(ctx.default_return_type)
        number = literal.literal_value(ctx.arg_types[0][0]) if ctx.arg_types and ctx.arg_types[0] else None
        if isinstance(given, TupleType) or not isinstance(number, int) or not 8 < number <= MOST_BRANCHES:
            return ctx.default_return_type
        base = shapes.as_base(given, "builtins.tuple")
        return TupleType([base.args[0]] * number, base) if base is not None else ctx.default_return_type

    # ------------------------------------------------------------------- caches

    def report_config_data(self, ctx: ReportConfigContext) -> object:
        """Kept for each module: what was found by another version of the plugin is not taken from the cache."""
        return {"tflow": DIGEST}


def plugin(version: str) -> type[TflowPlugin]:
    """mypy's entry point."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not LOWEST <= found <= HIGHEST:
        allowed = f"{LOWEST[0]}.{LOWEST[1]} to {HIGHEST[0]}.{HIGHEST[1]}"
        print(  # noqa: T201  # mypy has no other way to say it
            f"tflow.mypy_plugin works with mypy {allowed}; this is mypy {version}. Install one of these "
            "(pip install 'tflow[check]'), or take the plugin out of your configuration: plain typing still checks much of "
            "a plan.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return TflowPlugin
