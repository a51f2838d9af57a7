"""Lines of code of the algorithms, beside those that the paper reports (arXiv 2011.12719, the table of its slides).

A *code line* is a physical line that holds code. Comments, docstrings and strings that document attributes are not code;
decorators, signatures, closing brackets and all lines of a string that is a value are. Per algorithm, four numbers:

- *plan*: the method ``plan()`` of the configuration and the sub-flows, functions whose names end in ``_plan``.
- *flow*: all that the file does: the plan, ``loss()``, ``replay()``, other functions, constants. It stands beside the
  paper's "RLlib Flow", which is more than plan functions too: they are 27 to 72 % of it in Ray 1.1.
- *with operators*: the flow and, once each, the functions and classes that it names, with their overloads.
- *file*: the whole file, so the fields of the configuration too, but no imports.

Names are looked up in the file's module, so through its imports, one level deep: what an operator uses in turn (bases, other
functions, what runs in workers and learners) is not followed. What is in ``tflow.algos`` is: sub-flows of other algorithms,
methods of their configurations; ``agreed`` names the loss of the configuration that it is given, ``off_policy_plan`` its replay,
too. Of a class that is named for a
method (``Batch.concat``), the method counts. Not counted: annotations; configurations, which are fields; methods of streams
(``gather_async``), as the paper does not count Ray's iterators; ``tflow.algos.algorithm``, which makes the workers and runs the
plan, as RLlib's ``Trainer`` did.

``python -m benchmarks.loc`` prints the table; with ``--check`` it fails if a plan has more than 15 lines or a flow is not
shorter than the paper's.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import io
import pkgutil
import sys
import tokenize
from collections.abc import Iterator, Sequence
from types import FunctionType, ModuleType
from typing import NamedTuple

import tflow.algos
from tflow.algos.algorithm import Algorithm, agreed
from tflow.algos.apex import apex_plan
from tflow.algos.off_policy import off_policy_plan

LIMIT = 15
"""Lines of a plan, its sub-flows included."""
HEAD = "| algorithm | RLlib | RLlib Flow | with operators | tflow: plan | flow | with operators | file |"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Thing = FunctionType | type
ASKS: dict[object, tuple[str, ...]] = {agreed: ("loss",), off_policy_plan: ("loss", "replay"), apex_plan: ("loss", "replay")}
"""By function: the methods that it calls of the configuration that it is given."""
PAPER = {
    "A3C": ("A3C", "87", 11, 52),
    "A2C": ("A2C", "154", 25, 50),
    "DQN": ("DQN", "239", 87, 139),
    "PPO": ("PPO", "386", 79, 225),
    "ApeX": ("Ape-X", "250", 126, 216),
    "IMPALA": ("IMPALA", "694", 89, 362),
    "MAML": ("MAML", "370*", 136, 136),
}
"""By the name of the configuration: what the paper calls it, RLlib, RLlib Flow, and with the operators that are shared."""


class Lines(NamedTuple):
    name: str
    plan: int
    flow: int
    with_operators: int
    file: int


def code_rows(source: str) -> set[int]:
    """The numbers of the lines that hold code."""
    documents = [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    lines, rows = source.split("\n"), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        at = (row, len(token.line[:column].encode()))  # ast counts bytes
        if token.type not in NO_CODE and not any(start <= at < end for start, end in documents):
            rows.update(each for each in range(row, token.end[0] + 1) if lines[each - 1].strip())
    return rows


def span(node: ast.stmt) -> set[int]:
    """All lines of a statement, those of its decorators included."""
    decorators = [each.lineno for each in node.decorator_list] if isinstance(node, Definition) else []
    return set(range(min([node.lineno, *decorators]), (node.end_lineno or node.lineno) + 1))


@functools.cache
def parsed(module: ModuleType) -> tuple[ast.Module, set[int]]:
    source = inspect.getsource(module)
    return ast.parse(source), code_rows(source)


def definitions(thing: Thing) -> list[Definition]:
    """Where a function or class is written; several, if it has overloads."""
    body: list[ast.stmt] = parsed(sys.modules[thing.__module__])[0].body
    found: list[Definition] = []
    for part in thing.__qualname__.split("."):
        found = [node for node in body if isinstance(node, Definition) and node.name == part]
        body = [node for each in found for node in each.body]
    assert found, f"{thing.__qualname__} is not written in {thing.__module__}"
    return found


def length(things: Sequence[Thing]) -> int:
    return sum(len(span(node) & parsed(sys.modules[thing.__module__])[1]) for thing in things for node in definitions(thing))


def field_names(config: type[Algorithm]) -> set[str]:
    return {each.name for each in dataclasses.fields(config)}


def config_in(node: ast.AST, of: FunctionType, owner: type[Algorithm] | None) -> type[Algorithm] | None:
    """The configuration that an expression is: ``self``, an argument such as ``config``, or ``self.ppo``."""
    if isinstance(node, ast.Attribute):
        value = getattr(config_in(node.value, of, owner), node.attr, None)
        return type(value) if isinstance(value, Algorithm) else None
    if not isinstance(node, ast.Name):
        return None
    given = of.__annotations__.get(node.id, "").removesuffix(" | None")
    found = owner if node.id == "self" else of.__globals__.get(given)
    return found if isinstance(found, type) and issubclass(found, Algorithm) else None


def named(node: ast.AST, of: FunctionType, owner: type[Algorithm] | None) -> Iterator[tuple[Thing, type[Algorithm] | None]]:
    """The functions and classes that code names, annotations aside; with the configuration, for methods of one."""
    found, config = None, None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        asked = ASKS.get(of.__globals__.get(node.func.id), ())
        given = [config_in(each, of, owner) for each in node.args]
        methods = [(getattr(each, name, None), each) for each in given for name in asked]
        yield from ((method, each) for method, each in methods if isinstance(method, FunctionType))
    if isinstance(node, ast.Name) and node.id not in of.__code__.co_varnames:
        found = of.__globals__.get(node.id)
    elif isinstance(node, ast.Attribute):
        config = config_in(node.value, of, owner)
        base = config or (of.__globals__.get(node.value.id) if isinstance(node.value, ast.Name) else None)
        found = getattr(base, node.attr, None) if config is None or node.attr not in field_names(config) else None
    found = inspect.unwrap(getattr(found, "__func__", found)) if callable(found) else None
    if isinstance(found, Thing):
        yield found, config
        return
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if field not in {"annotation", "returns"} and isinstance(child, ast.AST):
                yield from named(child, of, owner)


def config_of(module: ModuleType) -> type[Algorithm] | None:
    """The configuration that a file has."""
    found = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    return next((each for each in found if issubclass(each, Algorithm) and not inspect.isabstract(each)), None)


def operators(module: ModuleType, config: type[Algorithm]) -> list[Thing]:
    """All functions and classes elsewhere that a file names, or the sub-flows and methods of others that it uses."""
    own = [each for each in [*vars(module).values(), *vars(config).values()] if isinstance(each, FunctionType)]
    own = [each for each in own if each.__module__ == module.__name__ and not each.__name__.startswith("__")]
    todo = [(each, config if "." in each.__qualname__ else None) for each in own]
    seen: list[Thing] = []
    while todo:
        function, owner = todo.pop()
        statements = [statement for node in definitions(function) for statement in node.body]
        for thing, method_of in [pair for each in statements for pair in named(each, function, owner)]:
            is_config = isinstance(thing, type) and issubclass(thing, Algorithm)
            aside = is_config or thing.__module__ in (Algorithm.__module__, module.__name__)
            if thing.__module__.startswith("tflow.") and not aside and thing not in seen:
                seen.append(thing)
                if isinstance(thing, FunctionType) and thing.__module__.startswith("tflow.algos."):
                    todo.append((thing, method_of))
    return seen


def measure(module: ModuleType, config: type[Algorithm]) -> Lines:
    """The four numbers of a file that has an algorithm."""
    tree, rows = parsed(module)
    file = rows.difference(*(span(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)))
    (written,) = [node for node in definitions(config) if isinstance(node, ast.ClassDef)]
    methods = [node for node in written.body if isinstance(node, ast.FunctionDef)]
    flow = (file - span(written)) | (file & set[int]().union(*map(span, methods)))
    functions = [*methods, *(node for node in tree.body if isinstance(node, ast.FunctionDef))]
    plan = rows & set[int]().union(*(span(node) for node in functions if node.name.split("_")[-1] == "plan"))
    return Lines(config.__name__, len(plan), len(flow), len(flow) + length(operators(module, config)), len(file))


def algorithms() -> list[Lines]:
    """All algorithms of ``tflow.algos``: those of the paper in its order, then others."""
    modules = [importlib.import_module(f"tflow.algos.{each.name}") for each in pkgutil.iter_modules(tflow.algos.__path__)]
    found = [measure(module, config) for module in modules if (config := config_of(module)) is not None]
    order = [*PAPER, *sorted(each.name for each in found)]
    return sorted(found, key=lambda each: order.index(each.name))


def complaints(found: Sequence[Lines]) -> list[str]:
    """What ``--check`` fails for."""
    wrong = [f"{each.name}: its plan has {each.plan} lines, {LIMIT} are allowed" for each in found if each.plan > LIMIT]
    more = [each for each in found if each.name in PAPER and each.flow >= PAPER[each.name][2]]
    return wrong + [f"{each.name}: its flow has {each.flow} lines, the paper's {PAPER[each.name][2]}" for each in more]


def table(found: Sequence[Lines]) -> str:
    rows = [(*PAPER.get(each.name, (each.name, "", "", "")), *each[1:]) for each in found]
    return "\n".join([HEAD, "|---" + 7 * "|---:" + "|", *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def main(arguments: Sequence[str]) -> str | None:
    """Print the table; what is wrong, if that is asked for."""
    found = algorithms()
    print(table(found))
    return "\n".join(complaints(found)) or None if "--check" in arguments else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
