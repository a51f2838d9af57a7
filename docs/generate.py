"""Writes the tables of ``docs/operators.md`` from signatures and docstrings: ``python docs/generate.py``. A test runs it too."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import tflow
from tflow import Iter, ParIter
from tflow.combinators.splits import Splits

PAGE = Path(__file__).parent / "operators.md"

# What each operator is called in the paper (P) or in the original iterator library (O); an empty entry is new here.
CREATION = {
    "from_items": "",
    "from_range": "",
    "from_iterable": "",
    "par_from_items": "O `from_items`",
    "par_from_range": "O `from_range`",
    "par_from_iterables": "O `from_iterators`",
    "from_actors": "O `from_actors`",
    "create_actors": "P `create_rollout_workers`, in general",
    "create_actor": "O learner thread",
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


class _Joints:
    split = Splits.split
    Union = tflow.Union
    ParUnion = tflow.ParUnion


TABLES: dict[str, Callable[[], str]] = {
    "creation": lambda: table(CREATION, tflow),
    "driver": lambda: table(DRIVER, Iter),
    "parallel": lambda: table(PARALLEL, ParIter),
    "joints": lambda: table(JOINTS, _Joints),
}


def page(text: str) -> str:
    """The page with every table between its markers made anew."""
    for name, make in TABLES.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition("<!-- end -->")
        text = f"{before}<!-- {name} -->\n{make()}\n<!-- end -->{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
