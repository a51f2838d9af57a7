"""Evidence for the laws of operators over batches: what an operator makes of rows, pieces, ends and padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from tflow.rl.data.batch import Batch
from tflow.testing.bench import Candidate, Item, bench
from tflow.testing.values import close

TOLERANCE = 1e-3
AnyRows = Batch[Any]  # Any: whatever its columns


def batches(items: list[Item]) -> list[AnyRows]:
    """Those of the items that are batches with rows."""
    return [item for item in items if isinstance(item, Batch) and len(item)]


def applied(candidate: Candidate, item: Item) -> Any:  # Any: whatever the operator gives
    """The result for one item alone."""
    with bench(candidate) as at_work:
        return at_work.result(item)


def same_rows(item: AnyRows, result: object) -> bool:
    """True if the result is a batch of the rows of the item, in order."""
    if not isinstance(result, Batch) or len(result) != len(item):
        return False
    shared = [name for name in item.columns if name in result.columns and (name in ("t", "actions") or name.startswith("obs"))]
    return bool(shared) and all(np.array_equal(item.columns[name], result.columns[name]) for name in shared)


def is_selection(batch: AnyRows) -> bool:
    """True if every row is a piece of its own, as ``take`` makes them: then nothing is said of what follows a row."""
    return len(batch.ends) == len(batch)


def lost(item: AnyRows, result: object) -> list[str]:
    """What is lost of a batch of the same rows, or of the env steps where these are shown in several parts."""
    if not isinstance(result, (list, tuple)):
        return what_travels_along(item, result)
    parts = [part for part in result if isinstance(part, Batch)]
    if is_selection(item) or len(parts) != len(result) or all(map(is_selection, parts)):
        return []
    names = [name for name in item.columns if all(name in part.columns for part in parts)]
    joined: AnyRows = Batch({name: np.concatenate([part.columns[name] for part in parts]) for name in names})
    return ["env_steps"] if same_rows(item, joined) and sum(part.env_steps for part in parts) != item.env_steps else []


def what_travels_along(item: AnyRows, result: object) -> list[str]:
    """What a batch of the same rows has lost or changed of what is beside them."""
    if not same_rows(item, result) or is_selection(item):
        return []
    assert isinstance(result, Batch)
    if is_selection(result):
        return []
    wrong = [name for name in ("env_steps", "policy") if getattr(item, name) != getattr(result, name)]
    if not np.isin(item.ends, result.ends).all():  # windows of a piece may end in its middle
        return [*wrong, "ends"]
    if item.summary is not None and result.summary is None:
        wrong.append("summary")
    return wrong + [f"finals[{name!r}]" for name in item.finals if name not in result.finals]


# --------------------------------------------------------------------------- changed batches


def changed(item: AnyRows, **columns: Any) -> AnyRows:  # Any: arrays
    """The batch with other columns in the place of some."""
    return Batch({**item.columns, **columns}, ends=item.ends, finals=item.finals, env_steps=item.env_steps, policy=item.policy,
                 summary=item.summary)  # fmt: skip


def with_finals(item: AnyRows, **finals: Any) -> AnyRows:  # Any: arrays
    return Batch(item.columns, ends=item.ends, finals={**item.finals, **finals}, env_steps=item.env_steps, policy=item.policy,
                 summary=item.summary)  # fmt: skip


def reordered(item: AnyRows) -> AnyRows:
    """The same pieces, the last one first."""
    return Batch.concat(item.pieces()[::-1])


def ending(item: AnyRows, piece: int, how: str) -> AnyRows:
    """The batch with one piece that ends so: ``terminated``, ``truncated`` or ``cut``."""
    columns = {name: np.array(item.columns[name]) for name in ("terminated", "truncated")}
    for name, column in columns.items():
        column[item.ends[piece]] = name == how
    return changed(item, **columns)


def with_other_padding(item: AnyRows) -> AnyRows:
    """The batch with other numbers where ``mask`` says that there is nothing."""
    padding = ~np.asarray(item.columns["mask"], bool)
    new = {}
    for name, column in item.columns.items():
        if name != "mask" and column.dtype.kind == "f":
            new[name] = np.array(column)
            new[name][padding] += 7
    return changed(item, **new)


# --------------------------------------------------------------------------- what comes out


def numbers_in(value: object) -> object:
    """A number, or a mapping or data class of numbers, as data; None for all else."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return dict(value) if value and all(numbers_in(each) is not None for each in value.values()) else None
    return value if isinstance(value, (int, float, np.integer, np.floating)) else None


def differs_by_order(item: AnyRows, here: object, there: object) -> str:
    """What depends on the order of pieces: ``there`` came of them in reverse."""
    if same_rows(item, here) and isinstance(here, Batch) and isinstance(there, Batch) and len(here.ends) == len(item.ends):
        back = reordered(there) if len(there.ends) == len(item.ends) else there
        for name in here.columns:
            if name not in back.columns or not close(here.columns[name], back.columns[name], TOLERANCE):
                return f"the column {name!r} is {here.columns[name].tolist()}, and {back.columns[name].tolist()} beside the same"
        return ""
    mine, other = numbers_in(here), numbers_in(there)
    return f"it gives {mine!r}, and {other!r} for the same" if mine is not None and not close(mine, other, TOLERANCE) else ""


def computed_columns(item: AnyRows, result: object) -> Iterator[str]:
    """The columns of numbers that an operator has computed for the same rows; flags are not numbers."""
    if same_rows(item, result) and isinstance(result, Batch):
        for name, column in result.columns.items():
            computed = name not in item.columns or not np.array_equal(column, item.columns[name])
            if computed and column.ndim == 1 and column.dtype.kind == "f" and not np.isin(column, (0, 1)).all():
                yield name


def wrong_end(candidate: Candidate, item: AnyRows) -> str:
    """What is wrong with how an operator treats the ends of pieces, if it marks them, or computes something like returns."""
    if not {"rewards", "terminated", "truncated"} <= item.columns.keys():
        return ""
    piece = int(np.argmax(np.diff(np.concatenate([[-1], item.ends]))))  # the longest
    over = {how: marked_as_over(candidate, ending(item, piece, how), int(item.ends[piece])) for how in ("truncated", "cut")}
    if over["truncated"] and not over["cut"]:
        return "it marks the last row of a truncated episode as 'terminated': what follows it counts for nothing"
    return wrong_value(candidate, item, piece) if "values" in item.finals else ""


def marked_as_over(candidate: Candidate, item: AnyRows, row: int) -> bool:
    result = applied(candidate, item)
    return same_rows(item, result) and "terminated" in result.columns and bool(result.columns["terminated"][row])


def wrong_value(candidate: Candidate, item: AnyRows, piece: int) -> str:
    """What is wrong with what an operator computes for the last row of a piece."""
    first, last = int(item.starts[piece]), int(item.ends[piece])
    more = {"values": np.array(item.finals["values"], np.float32)}
    more["values"][piece] += 5
    rewards = [np.array(item.columns["rewards"], np.float32) for _ in range(2)]
    rewards[0][last] += 3
    rewards[1][last] += 6
    plain = {how: ending(item, piece, how) for how in ("terminated", "truncated", "cut")}
    shown = {how: applied(candidate, batch) for how, batch in plain.items()}
    worth = {how: applied(candidate, with_finals(batch, **more)) for how, batch in plain.items()}
    later, latest = (applied(candidate, changed(plain["cut"], rewards=each)) for each in rewards)
    for name in computed_columns(plain["cut"], shown["cut"]):
        if any(name not in getattr(each, "columns", ()) for each in (*shown.values(), *worth.values(), later, latest)):
            continue
        at = {how: float(result[name][last]) for how, result in shown.items()}
        bootstraps = {how: not close(at[how], float(worth[how][name][last]), 1e-5) for how in plain}
        if bootstraps["terminated"] and not close(at["terminated"], float(item.finals["values"][piece]), 1e-5):
            return f"{name!r} of the last row of a terminated episode depends on the value of what follows, and nothing does"
        if bootstraps["cut"] and not bootstraps["truncated"]:
            return f"{name!r} takes a truncated episode for a terminated one: what follows it counts for nothing"
        at_first = [float(result[name][first]) for result in (shown["cut"], later, latest)]
        adds = close(2 * (at_first[1] - at_first[0]), at_first[2] - at_first[0], 1e-4)  # a rank, say, may rise as well
        looks_ahead = last > first and not close(at_first[0], at_first[1], 1e-5) and adds
        others = [row for row in range(len(item)) if not first <= row <= last]
        alone = all(close(float(shown["cut"][name][row]), float(later[name][row]), 1e-5) for row in others)
        if looks_ahead and alone and others and not bootstraps["cut"]:
            return f"{name!r} adds up later rewards and stops where the fragment is cut: what follows counts for nothing there"
    return ""


def differs_by_padding(item: AnyRows, here: object, there: object) -> str:
    """What depends on the numbers in the padding."""
    if isinstance(here, Batch) and isinstance(there, Batch) and len(here) == len(there) == len(item):
        mask = np.asarray(item.columns["mask"], bool)
        for name, column in here.columns.items():
            if name in there.columns and not close(column[mask], there.columns[name][mask], TOLERANCE):
                return f"the column {name!r} of rows that are there changes with the padding"
        return ""
    mine, other = numbers_in(here), numbers_in(there)
    return (
        f"it gives {mine!r}, and {other!r} with other padding" if mine is not None and not close(mine, other, TOLERANCE) else ""
    )


def not_finite(value: Any, depth: int = 3) -> str:  # Any: of any kind
    """Where a value has a number that is not finite; empty if all are."""
    parts: Mapping[Any, Any] = {}  # Any: whatever the value is made of
    if isinstance(value, Batch):
        parts = value.columns
    elif isinstance(value, Mapping):
        parts = value
    elif isinstance(value, (list, tuple)):
        parts = dict(enumerate(value))
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {name: getattr(value, name) for name in value.__dataclass_fields__}
    elif isinstance(value, (float, np.ndarray, np.floating)) and np.asarray(value).dtype.kind == "f":
        return "" if np.isfinite(value).all() else repr(value)
    return next((f"{name}: {found}" for name, part in parts.items() if depth and (found := not_finite(part, depth - 1))), "")


def is_empty(value: Any) -> bool:  # Any: of any kind
    """True if a value has an array without elements."""
    if isinstance(value, (Mapping, list, tuple)):
        return not value or any(map(is_empty, value.values() if isinstance(value, Mapping) else value))
    return (isinstance(value, np.ndarray) and not value.size) or (isinstance(value, Batch) and not len(value))
