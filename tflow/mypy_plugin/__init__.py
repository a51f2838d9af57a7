"""The mypy plugin: ``plugins = ["tflow.mypy_plugin"]``. It says what plain typing cannot, and says the rest in better words.

Every rule has a file and a code of its own (``codes.py``). ``bodies.py`` looks at whole functions when mypy has finished them,
which ``finish.py`` makes possible; there, ``calls.py`` looks at each place where a stream meets an operator, and ``uses.py``
follows the streams. mypy's types are changed in two places only: splits into more than eight, and batches with columns that are
written down.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from mypy.nodes import Decorator, FuncDef, TypeInfo
from mypy.options import Options
from mypy.plugin import ClassDefContext, FunctionContext, MethodContext, Plugin, ReportConfigContext
from mypy.types import Instance, TupleType, Type, get_proper_type

from tflow import domain
from tflow.mypy_plugin import bodies, columns, constructors, literal, shapes, untyped
from tflow.mypy_plugin.calls import signatures_with_streams
from tflow.mypy_plugin.finish import FINISHED, Finish
from tflow.mypy_plugin.report import Checker, guarded
from tflow.mypy_plugin.trials import COMPLETED


def folder_of(package: str) -> Path:
    """Where a package is."""
    return Path(str(import_module(package).__file__)).parent


LOWEST, HIGHEST = (1, 18), (2, 4)
"""The versions of mypy that this is tested with. Newer ones may move what ``finish.py`` relies on."""
FOLDER = Path(__file__).parent
RULES = [FOLDER, FOLDER.parent / "combinators", *(folder_of(each.package) for each in domain.domains())]
RULES += [FOLDER.parents[1].joinpath(*package.split(".")) for each in domain.domains() for package in each.also]
"""Folders whose code decides what is found: the rules themselves, and the descriptions that they try."""
PARTS = [*sorted(FOLDER.parent.glob("*.py")), *(path for folder in RULES for path in sorted(folder.rglob("*.py")))]
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in PARTS)).hexdigest()[:16]
MAX_BRANCHES = 64


class TflowPlugin(Plugin):
    """Which hook is called for what."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        safe = guarded(lambda ctx: ctx.default_return_type)
        self.finish = Finish(bodies.look)
        self.seen, self.branches, self.wider = safe(self.passed), safe(self.split), safe(self.widened)
        self.remembered = guarded(lambda ctx: None)(lambda ctx: constructors.remember(ctx.cls))
        self.hooks = {FINISHED: safe(self.arrived), **dict.fromkeys(bodies.MARKS, safe(self.marked))}

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return self.hooks.get(fullname) or (self.seen if self.is_about_streams(fullname) else None)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        if fullname.startswith("tflow.") and fullname.endswith(".split"):
            return self.branches
        if fullname.startswith("tflow.") and fullname.endswith(".with_columns"):
            return self.wider
        return self.seen if self.is_about_streams(fullname) else None

    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Every class passes here once its bases are known."""
        return self.remembered

    def is_about_streams(self, fullname: str) -> bool:
        """True for what is ours or derives from it, for functions, methods and classes with a parameter that is a stream, and for
        those that return a stream or a configuration: what they do may depend on what they are given."""
        if fullname.startswith(("tflow.", "builtins.")):
            return fullname.startswith("tflow.")
        symbol = self.lookup_fully_qualified(fullname)
        if symbol is None:
            return False
        node = symbol.node
        if signatures_with_streams(node) is not None:
            return True
        made = get_proper_type(shapes.returned_by(node.type)) if isinstance(node, FuncDef) else None
        info = made.type if isinstance(made, Instance) else node
        ours = isinstance(info, TypeInfo) and any(base.fullname in COMPLETED for base in info.mro)
        return ours or shapes.mentions_stream(made)

    # ------------------------------------------------------------------- hooks

    def arrived(self, ctx: FunctionContext) -> Type:
        """A body is finished."""
        self.finish.arrived(ctx.api)
        return ctx.default_return_type

    def passed(self, ctx: FunctionContext | MethodContext) -> Type:
        """Something about streams: the body around it is worth a look when it is finished."""
        self.finish.after(ctx.api)
        return ctx.default_return_type

    def marked(self, ctx: FunctionContext) -> Type:
        """A plan or a sub-flow is looked at in any case, even if nothing inside calls a hook."""
        api: Checker = ctx.api
        decorated = ctx.context
        if isinstance(decorated, Decorator) and api.scope.top_level_function() is None:
            if getattr(api, "recurse_into_functions", True) or decorated.func.def_or_infer_vars:
                self.finish.after(api, decorated.func)
            else:  # the first of two phases, which leaves bodies out: have this one checked, and come back
                decorated.func.def_or_infer_vars = True
                api.defer_node(decorated, api.scope.active_class())
        return untyped.marked(ctx)

    def split(self, ctx: MethodContext) -> Type:
        """As many branches as a literal says; plain typing knows that up to eight."""
        self.finish.after(ctx.api)
        given = get_proper_type(ctx.default_return_type)
        number = literal.literal_value(ctx.arg_types[0][0]) if ctx.arg_types and ctx.arg_types[0] else None
        if isinstance(given, TupleType) or not isinstance(number, int) or not 8 < number <= MAX_BRANCHES:
            return ctx.default_return_type
        base = shapes.as_base(given, "builtins.tuple")
        return TupleType([base.args[0]] * number, base) if base is not None else ctx.default_return_type

    def widened(self, ctx: MethodContext) -> Type:
        """A batch with the columns of a display whose keys are literals; plain typing takes these for any strings."""
        self.finish.after(ctx.api)
        return columns.widened(ctx) or ctx.default_return_type

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
            f"tflow.mypy_plugin is tested with mypy {allowed}; this is mypy {version}, so some of its rules may say nothing, or "
            "tflow-unchecked. Install one of these for all of them: pip install 'tflow[check]'.",
            file=sys.stderr,
        )
    return TflowPlugin
