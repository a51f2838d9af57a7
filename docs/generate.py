"""Writes the tables of ``docs/operators.md``, ``docs/checking.md`` and ``docs/algorithms.md``, the pages of ``docs/laws/``, and
what editors show of configurations, from the code: ``python docs/generate.py``. A test compares them."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import tflow
from benchmarks import loc
from tests.laws import test_collectives, test_combinators, test_gather, test_merge_and_split, test_runs, test_transforms
from tests.laws.test_verified import VERIFIED
from tests.laws.world import PROVEN, operators
from tests.quality.test_flow_bugs import BUGS
from tests.quality.test_operator_bugs import PLANTED
from tests.types import markers
from tflow import AddColumns, Iter, ParIter, Plan
from tflow.algos import (
    A2C,
    A3C,
    APPO,
    DDPG,
    DDPPO,
    DQN,
    IMPALA,
    MAML,
    PG,
    PPO,
    PPODQN,
    PQN,
    R2D2,
    RND,
    RNNSAC,
    SAC,
    TD3,
    TQC,
    Algorithm,
    ApeX,
    ApeXDDPG,
    ApeXSAC,
    ApeXTD3,
    CrossQ,
    OffPolicySequences,
    Rainbow,
    SimpleQ,
    SinglePolicy,
)
from tflow.algos.fields import fields_of
from tflow.algos.names import ALGORITHMS as NAMED
from tflow.algos.off_policy import Replaying
from tflow.combinators.labels import only_given
from tflow.combinators.splits import Splits
from tflow.drawing.built import of_plan
from tflow.drawing.svg import svg
from tflow.laws import LAWS, OPERATOR_LAWS, Law, laws_of
from tflow.mypy_plugin.codes import TITLES
from tflow.mypy_plugin.public import homes, names_in, namespaces, root_names
from tflow.testing.evidence import EVIDENCE
from tflow.types import ActorOp, LiveOp, Stateful, Stateless

PROOFS = (test_collectives, test_combinators, test_gather, test_merge_and_split, test_runs, test_transforms)
"""Importing them fills the table of what is proven."""

PAGE = Path(__file__).parent / "operators.md"
ALGORITHMS_PAGE = Path(__file__).parent / "algorithms.md"
TITLE_OF: dict[type, str] = {
    Algorithm: "Of all algorithms",
    SinglePolicy: "Of all algorithms for one policy",
    Replaying: "Of all off-policy algorithms",
    OffPolicySequences: "Of all that replay sequences",
}
ON_POLICY: tuple[type, ...] = (A3C, A2C, PG, PPO, DDPPO, RND, IMPALA, APPO, PQN, MAML, PPODQN)
OFF_POLICY: tuple[type, ...] = (DQN, SimpleQ, Rainbow, ApeX, SAC, TQC, CrossQ, TD3, DDPG, ApeXDDPG, ApeXTD3, ApeXSAC)
OF_SEQUENCES: tuple[type, ...] = (R2D2, RNNSAC)
ALGORITHMS: tuple[type, ...] = (Algorithm, SinglePolicy, *ON_POLICY, Replaying, *OFF_POLICY, OffPolicySequences, *OF_SEQUENCES)
CONFIGURATIONS = ON_POLICY + OFF_POLICY + OF_SEQUENCES
CHECKING = Path(__file__).parent / "checking.md"
NAMES = Path(__file__).parent / "names.md"

# What each operator is called in the paper (P) or in the original iterator library (O); an empty entry is new here.
CREATION = {
    "from_items": "",
    "from_range": "",
    "from_iterable": "",
    "par_from_items": "O `from_items`",
    "par_from_range": "O `from_range`",
    "par_from_iterables": "O `from_iterators`",
    "par_scatter": "",
    "from_actors": "O `from_actors`",
    "create_actors": "P `create_rollout_workers`, in general",
    "create_actor": "O learner thread",
    "create_resident": "O local worker",
}
DRIVER = {
    "map": "O `LocalIterator.for_each` of a function",
    "for_each": "P `for_each`",
    "tap": "",
    "filter": "O `filter`",
    "flat_map": "O `combine`",
    "flatten": "O `flatten`",
    "batch": "O `batch`",
    "take": "O `take`",
    "scan": "O `transform` with state",
    "zip": "",
    "shuffle": "O `shuffle`",
    "drain": "O `Concurrently(output_indexes=)`",
    "every": "O `OncePerTimestepsElapsed`, `OncePerTimeInterval`",
    "call": "",
    "hand_off": "O `Enqueue` and `Dequeue`",
    "named": "",
}
PARALLEL = {
    "par_map": "O `ParallelIterator.for_each` of a function",
    "par_for_each": "P `par_for_each`",
    "par_tap": "",
    "par_filter": "O `filter`",
    "par_flat_map": "O `combine`",
    "par_flatten": "O `flatten`",
    "par_batch": "O `batch`",
    "par_take": "",
    "par_scan": "O `transform` with state",
    "par_shuffle": "O `local_shuffle`",
    "par_zip": "",
    "select_shards": "O `select_shards`, `get_shard`",
    "repartition": "O `repartition`",
    "par_all_gather": "",
    "par_all_reduce": "",
    "par_batch_together": "",
    "gather_sync": "P `gather_sync`",
    "gather_rounds": "O `batch_across_shards`",
    "gather_async": "P `gather_async`",
}
JOINTS = {
    "split": "P `split`, O `duplicate`",
    "Union": "P `Union`, O `union`, `Concurrently`",
    "ParUnion": "O `ParallelIterator.union`",
}
SHORT = {"split": "(n=2, *, max_lag=None)", "Union": "(*streams, weights=None, mode=None)", "ParUnion": "(*streams)"}


def signature(name: str, member: Callable[..., object]) -> str:
    if name in SHORT:
        return f"{name}{SHORT[name]}"
    shown = inspect.signature(member)
    parameters = [p for p in shown.parameters.values() if p.name != "self"]
    text = f"{name}{shown.replace(parameters=parameters)}"
    return text.replace("'", "").replace("nodes.", "").replace("Ci]", "C]")


def law(member: object) -> str:
    """The paragraph that starts with ``Law:``, on one line."""
    text = inspect.getdoc(member) or ""
    found = re.search(r"^Law: (.+?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"{member} states no law"
    return " ".join(found.group(1).split()).replace("``", "`")


def table(names: dict[str, str], home: object) -> str:
    rows = ["| operator | law | in the paper (P), in the original (O) |", "|---|---|---|"]
    for name, origin in names.items():
        member = getattr(home, name)
        shown = signature(name, member).replace("|", "\\|")
        rows.append(f"| `{shown}` | {law(member)} | {origin} |")
    return "\n".join(rows)


class _Creation:
    locals().update({name: getattr(import_module(homes()[name]), name) for name in CREATION})


class _Joints:
    split = Splits.split
    Union = tflow.Union
    ParUnion = tflow.ParUnion


OPERATORS = (Iter, ParIter, Stateless, Stateful, LiveOp, ActorOp, AddColumns)


def learning_operators() -> dict[str, Callable[..., object]]:
    """The public operators of reinforcement learning, and what makes actors for them."""
    found: dict[str, Callable[..., object]] = {}
    for name, module in (root_names() | names_in("operators") | names_in("actors")).items():
        thing = getattr(import_module(module), name)
        is_operator = isinstance(thing, type) and issubclass(thing, OPERATORS) and not issubclass(thing, Plan)
        if module.startswith("tflow.rl.") and (is_operator or (inspect.isfunction(thing) and name != "evaluate")):
            found[name] = thing
    return dict(sorted(found.items(), key=lambda each: (each[0][0].islower(), each[0])))


def learning_table() -> str:
    rows = ["| operator | takes | what it does |", "|---|---|---|"]
    for name, thing in learning_operators().items():
        parameters = inspect.signature(thing).parameters
        taken = ", ".join(f"`{each}`" for each in parameters if each not in ("self", "args", "kwargs"))
        law = re.search(r"^Law: (.+?)(?:\n\n|\Z)", inspect.getdoc(thing) or "", re.DOTALL | re.MULTILINE)
        promise = f" Law: {' '.join(law.group(1).split())}" if law else ""
        rows.append(f"| `{name}` | {taken} | {first_sentence(thing)}{promise.replace('``', '`')} |".replace("|  |", "| |"))
    return "\n".join(rows)


def first_sentence(thing: object) -> str:
    """What a docstring says first, for a table."""
    text = inspect.getdoc(getattr(thing, "__origin__", thing)) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")
    found = re.match(r".{30,}?[a-z0-9`)][.](?=\s|$)", paragraph)
    return found.group() if found else paragraph


def names_table() -> str:
    """Every public name, by the module from which users import it."""
    lines: list[str] = []
    for namespace in ("tflow", *namespaces()):
        place, names = ("tflow", root_names()) if namespace == "tflow" else (f"tflow.{namespace}", names_in(namespace))
        lines += [f"## {place}", "", "| name | |", "|---|---|"]
        for name, module in sorted(names.items(), key=lambda each: each[0].lower()):
            thing = getattr(import_module(module), name)
            own = inspect.isclass(thing) or inspect.isfunction(thing)
            lines.append(f"| `{name}` | {first_sentence(thing) if own else 'a type: ' + alias_of(thing)} |")
        lines.append("")
    return "\n".join(lines[:-1])


def alias_of(thing: object) -> str:
    """A type alias as one reads it."""
    return "`" + re.sub(r"\b[a-z_]+\.(?=\w)", "", str(thing)).replace("|", "\\|") + "`"


README = Path(__file__).parent.parent / "README.md"


def readme(text: str) -> str:
    """The README with the algorithms that there are."""
    said = (
        f"{len(NAMED)} algorithms come with it, each a short file, a configuration and a part from which you build your own: "
        f"{', '.join(f'`{kind.__name__}`' for kind in NAMED.values())}. [Which to choose](docs/algorithms.md)."
    )
    return filled(text, "algorithms", textwrap.wrap(said, 130, break_long_words=False, break_on_hyphens=False))


PICTURES = Path(__file__).parent / "pictures"


def pictures() -> dict[str, str]:
    """Plans as ``tflow graph`` draws them, by file name."""
    plans = {"a3c": A3C(), "ppo": PPO(), "apex": ApeX(), "ppo_dqn": PPODQN()}
    return {f"{name}.svg": svg(of_plan(config.plan(), type(config).__name__)) + "\n" for name, config in plans.items()}


TABLES: dict[str, Callable[[], str]] = {
    "learning": learning_table,
    "creation": lambda: table(CREATION, _Creation),
    "driver": lambda: table(DRIVER, Iter),
    "parallel": lambda: table(PARALLEL, ParIter),
    "joints": lambda: table(JOINTS, _Joints),
}


def page(text: str) -> str:
    """The page with every table between its markers made again."""
    for name, make in TABLES.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition("<!-- end -->")
        text = f"{before}<!-- {name} -->\n{make()}\n<!-- end -->{after}"
    return text


# --------------------------------------------------------------------------- a page per law

LAW_PAGES = Path(__file__).parent / "laws"
KIT = {**dict.fromkeys(EVIDENCE, "check_combinator"), **dict.fromkeys((law.name for law in OPERATOR_LAWS), "check_laws")}


def law_pages() -> dict[str, str]:
    """The text of every page, by file name."""
    pages = {f"{name}.md": law_page(law) for name, law in LAWS.items()}
    rows = [f"| [{name}]({name}.md) | {law.says} |" for name, law in LAWS.items()]
    head = "# The laws\n\nWritten by `python docs/generate.py` from `tflow/laws.py`.\n\n| law | says |\n|---|---|\n"
    return {"README.md": head + "\n".join(rows) + "\n\n" + mistakes_table(), **pages}


def mistakes_table() -> str:
    """Every operator with a mistake that the tests plant, and the law that finds it."""
    head = (
        "## Mistakes in operators, and the law that finds each\n\nFrom `tests/quality/test_operator_bugs.py`. Found within "
        "30 lists of items, each.\n\n| mistake | what it does | law |\n|---|---|---|\n"
    )
    rows = []
    for planted, (make, _, _) in PLANTED.items():
        name = planted.split(",")[0]
        said = (vars(make).get("__doc__") or "").partition("\n")[0]
        rows.append(f"| `{getattr(make, '__name__', '')}` | {said} | [{planted}]({name}.md) |")
    return head + "\n".join(rows) + "\n"


def law_page(law: Law[...]) -> str:
    obeying = sorted(name for name, member in operators().items() if law in laws_of(member))
    subject = "every operator of its kind" if law in OPERATOR_LAWS else ", ".join(f"`{name}`" for name in obeying)
    proofs = sorted({proof for name in obeying for proof in PROVEN.get((name, law.name), ())})
    check = CHECKS[KIT[law.name]].format(name=law.name, constant=law.name.upper()) if law.name in KIT else ""
    parts = [
        f"# {law.name.replace('_', ' ').capitalize()}\n\n{law.says}\n\n**Without it:** {law.why}\n",
        f"**Who promises it:** {subject}.\n",
        f"## The law\n\n```python\n{source(law.wrong)}```\n\nIt looks at evidence and says what is wrong; empty if nothing is.\n",
        f"## Check yours\n\n{check}\n" if check else "",
        f"## A mistake that breaks it\n\n{mistakes(law)}",
        f"## Where it is proven\n\n{', '.join(f'`{proof}`' for proof in proofs)} in `tests/laws/`.\n" if proofs else "",
        verified(law),
    ]
    return "\n".join(part for part in parts if part)


def verified(law: Law[...]) -> str:
    """For which plans a law holds under all schedules."""
    bounds = [f"- {case.bound}\n" for case in VERIFIED.values() if case.law is law]
    told = "Not only sampled: [`verify`](../verify.md) has tried everything, in "
    return f"## To which bound it is verified\n\n{told}`tests/laws/test_verified.py`.\n\n{''.join(bounds)}" if bounds else ""


CHECKS = {
    "check_laws": (
        "`TestMine = check_laws(MyOperator(), items=...)` makes `TestMine.test_{name}`, if it applies; see "
        "[Test your operator](../testing.md)."
    ),
    "check_combinator": (
        "`TestMine = check_combinator(my_combinator, laws=[{constant}], ...)` makes `TestMine.test_{name}`; see "
        "[Test your operator](../testing.md#combinators)."
    ),
}


def mistakes(law: Law[...]) -> str:
    """The first planted bug that the kit finds with this law, with its source, and the names of the others."""
    operators = [make for name, (make, _, _) in PLANTED.items() if name.split(",")[0] == law.name]
    flows = [bug for bug in BUGS.values() if bug.law is law]
    shown: object = operators[0] if operators else flows[0].plant
    others = [f"`{getattr(each, '__name__', '')}`" for each in [*operators, *(bug.plant for bug in flows)] if each is not shown]
    where = "test_operator_bugs.py" if operators else "test_flow_bugs.py"
    more = f"\nOthers: {', '.join(others)}.\n" if others else ""
    return f"From `tests/quality/{where}`; the kit finds it.\n\n```python\n{source(shown)}```\n{more}"


def source(thing: object) -> str:
    """The code of a function or class without its decorators."""
    text = inspect.getsource(thing)  # type: ignore[arg-type]  # a function or a class
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(("def ", "class ")))
    return "\n".join(lines[start:]) + "\n"


def rules_page(text: str) -> str:
    """The page about checking, with the table of what each checker finds in the corpus of mistakes.

    The comments in the corpus say who finds what, and tests run every checker over it.
    """
    found: dict[str, list[bool]] = {code: [] for code in TITLES}
    plain, marked = markers.plain(), markers.plugin()
    several = Counter((file, line) for file, line, _ in marked)
    for file, line, code in marked:
        if several[file, line] == 1:  # where there are two mistakes, it is not clear which one a checker means
            found[code].append((file, line) in plain)
    rows = [
        "| rule | what is wrong | mypy | pyright | pyrefly (strict) | ty | plugin, `tflow check` |",
        "|---|---|---|---|---|---|---|",
    ]
    for code, by_types in found.items():
        if by_types:
            cell = f"{sum(by_types)} of {len(by_types)}" if any(by_types) else "none"
            rows.append(f"| `{code}` | {TITLES[code]} | {' | '.join([cell] * 4)} | {len(by_types)} of {len(by_types)} |")
    return filled(text, "table", rows)


def algorithms_page(text: str) -> str:
    """The page about algorithms, with the lines of code and the fields of each."""
    fields = [line for kind in ALGORITHMS for line in fields_table(kind)]
    return filled(filled(text, "lines", [loc.table(loc.algorithms())]), "fields", fields)


def filled(text: str, name: str, lines: list[str]) -> str:
    """A page with new lines between two comments."""
    start, end = f"<!-- {name} -->", "<!-- end -->"
    before, _, rest = text.partition(start)
    return before + "\n".join([start, *lines, end]) + rest.partition(end)[2]


def fields_table(kind: type) -> list[str]:
    """The fields of a configuration that are not as those of all algorithms."""
    bases = [
        base for base in (Algorithm, SinglePolicy, Replaying, OffPolicySequences) if issubclass(kind, base) and kind is not base
    ]
    base = bases[-1] if bases else Algorithm
    common = {} if kind is Algorithm else {each.name: each.default for each in fields_of(base)}
    own = [each for each in fields_of(kind) if each.name not in common or each.default != common[each.name]]
    title = TITLE_OF.get(kind, f"`{kind.__name__}`")
    rows = [f"| `{each.name}` | `{usual(each.default)}` | {each.meaning.replace('``', '`')} |" for each in own]
    return ["", f"{title}:", "", "| field | default | |", "|---|---|---|", *rows]


def documented(text: str, kind: type) -> str:
    """The source of a configuration with the meaning of every field, inherited ones too, in the docstring of its class: that is
    what editors show for ``PPO(``."""
    (found,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
    shown = found.body[0]
    said = (ast.get_docstring(found) or "").partition("\n\nArgs:")[0]
    lines = [f'    """{said}', "", "    Args:"]
    for each in fields_of(kind):
        lines += textwrap.wrap(f"{each.name}: {each.meaning}", 128, initial_indent=" " * 8, subsequent_indent=" " * 12)
    before, after = text.splitlines()[: shown.lineno - 1], text.splitlines()[shown.end_lineno :]
    return "\n".join([*before, *lines, '    """', *after]) + "\n"


def usual(default: object) -> str:
    """A default as users write it."""
    if isinstance(default, Algorithm):
        return only_given(default)
    return str(getattr(default, "__name__", repr(default)))


if __name__ == "__main__":
    for kind in CONFIGURATIONS:
        file = Path(inspect.getfile(kind))
        file.write_text(documented(file.read_text(), kind))
    ALGORITHMS_PAGE.write_text(algorithms_page(ALGORITHMS_PAGE.read_text()))
    PAGE.write_text(page(PAGE.read_text()))
    LAW_PAGES.mkdir(exist_ok=True)
    for name, text in law_pages().items():
        (LAW_PAGES / name).write_text(text)
    for name, text in pictures().items():
        (PICTURES / name).write_text(text)
    README.write_text(readme(README.read_text()))
    NAMES.write_text(filled(NAMES.read_text(), "names", [names_table()]))
    CHECKING.write_text(rules_page(CHECKING.read_text()))
