"""Evidence for the law of leftovers: does an operator hold items back, and is something seen of them when its input ends?

To hold back is more than to show nothing. An operator that counts shows nothing of most items either; one that holds items back
has a place in its state for each of them, shows something of them once enough have come, and is done with them soon after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from itertools import cycle, islice, pairwise
from typing import NamedTuple

import numpy as np

from tflow.laws import LEFTOVERS
from tflow.testing import rows
from tflow.testing.bench import Candidate, Item, bench, fresh
from tflow.testing.reach import amount
from tflow.testing.values import snapshot
from tflow.types import shows_at_end

PATIENCE = 130
"""So many items later something must have been seen of one that was held back: twice the group of 64."""
TRIED = 4
"""So many different items are looked at, each beside as many others."""


class Course(NamedTuple):
    """What an operator made of a list of items."""

    shown: list[object]
    """What was seen of each, results and messages; None for nothing."""
    left: list[object]
    sizes: list[int]
    """How much was in the state after each."""
    state: object

    @property
    def silent(self) -> bool:
        return all(each is None for each in self.shown)


def shows_what_is_left(candidate: Candidate, items: list[Item]) -> None:
    """Of an item that is held back something is seen when the input ends, if something would be seen were there more of it."""
    different = distinct(items)[:TRIED]
    for one in different:
        enough = shown_after(candidate, [one] * PATIENCE)
        for other in [each for each in (*different, changed(one)) if each is not None and each is not one]:
            if enough > 1 and is_window(candidate, one, other, enough):
                something_is_left(candidate, [one] * (enough - 1), {place: [other] for place in range(enough - 1)})
    for short in first_rows(different):
        if (other := changed(short)) is not None and bears(candidate, [short, other]):
            enough = shown_after(candidate, [short] * PATIENCE)
            if enough > 1 and is_window(candidate, short, other, enough):
                something_is_left(candidate, [short] * (enough - 1), {place: [other] for place in range(enough - 1)})
    for start in range(min(len(items), 6)):
        given = [*items[start:], *islice(cycle(items), PATIENCE)]
        enough = shown_after(candidate, given)
        if enough > 2 and remembers_more_and_more(candidate, given[:enough]):
            others = {place: seen_in(candidate, given[:enough], place, different) for place in places(enough)}
            if all(others.values()) and have_places_of_their_own(candidate, given[: enough - 1], others):
                something_is_left(candidate, given[: enough - 1], others)


def something_is_left(candidate: Candidate, given: list[Item], others: Mapping[int, list[Item]]) -> None:
    """Something is seen of each item if it is the last; ``others`` would have been seen in its place had more come."""
    for place, different in others.items():
        for other in different:
            one, two = (course(candidate, [*given[:place], last]) for last in (given[place], other))
            on_purpose = shows_at_end(candidate.op) and not one.left
            if (one.shown, one.left) == (two.shown, two.left) and not on_purpose:
                LEFTOVERS.check(f"nothing is seen of item {place} if it is the last; if others follow, it is seen")


# --------------------------------------------------------------------------- does it hold back?


def is_window(candidate: Candidate, one: Item, other: Item, enough: int) -> bool:
    """True if it holds back items of any content until there are enough.

    One of the items is another than the rest, in each of several places: then something else is seen once there are enough, in
    the state no two of these meet, and when as many again have come nothing is left of the first. Of two, one is the item before:
    to remember that is to hold it back only if it is given up when it is shown.
    """
    before, later = course(candidate, [one] * (enough - 1)), course(candidate, [one] * (2 * enough))
    first = course(candidate, [other] + [one] * (2 * enough - 1))
    seen = first.shown[: enough - 1] == before.shown and first.shown[enough - 1] not in (None, later.shown[enough - 1])
    if not (before.silent and seen) or first.state != later.state or later.sizes[-1] > later.sizes[enough - 1]:
        return False
    if enough == 2:
        after = [course(candidate, [a, b]).state for a in (one, other) for b in (one, other)]
        return before.sizes[-1] > course(candidate, []).sizes[0] and all(state == after[0] for state in after)
    return have_places_of_their_own(candidate, [one] * (enough - 1), {place: [other] for place in places(enough)})


def have_places_of_their_own(candidate: Candidate, held: list[Item], others: Mapping[int, list[Item]]) -> bool:
    """True if other items in these places are in the state, no two in the same part of it, and nothing is seen of them."""
    before = course(candidate, held)
    touched: list[set[object]] = []
    for place, different in others.items():
        changed_there = course(candidate, [*held[:place], different[0], *held[place + 1 :]])
        touched.append(differences(before.state, changed_there.state))
        if not changed_there.silent or not touched[-1]:
            return False
    return sum(map(len, touched)) == len(set().union(*touched))


def remembers_more_and_more(candidate: Candidate, given: list[Item]) -> bool:
    """True if it remembers more with each item until the last makes it show something."""
    sizes = [course(candidate, []).sizes[0], *course(candidate, given).sizes]
    return all(now > before for before, now in pairwise(sizes[:-1])) and sizes[-1] <= sizes[-2]


def seen_in(candidate: Candidate, given: list[Item], place: int, different: list[Item]) -> list[Item]:
    """The items that change what is shown after the last of those given, and nothing before, if they stand in this place."""
    shown, found = course(candidate, given).shown, []
    for other in different:
        changed_there = course(candidate, [*given[:place], other, *given[place + 1 :]]).shown
        if changed_there[:-1] == shown[:-1] and changed_there[-1] not in (None, shown[-1]):
            found.append(other)
    return found


def places(enough: int) -> list[int]:
    """Some of those that are held back, the first and the last among them."""
    return sorted({0, (enough - 2) // 2, enough - 2})


def shown_after(candidate: Candidate, given: list[Item]) -> int:
    """After how many items something is seen; 0 for never."""
    with bench(candidate) as at_work:
        for number, item in enumerate(given, 1):
            if not is_nothing(at_work.result(fresh([item])[0])) or at_work.messages:
                return number
    return 0


def course(candidate: Candidate, given: list[Item]) -> Course:
    with bench(candidate) as at_work:
        shown: list[object] = []
        sizes: list[int] = []
        for item in fresh(given):
            result = at_work.result(item)
            shown.append(None if is_nothing(result) and not at_work.messages else at_work.looked(result))
            sizes.append(amount([("", at_work.state)]))
        state = snapshot(at_work.state)
        return Course(shown, at_work.end(), sizes or [amount([("", at_work.state)])], state)


def is_nothing(result: object) -> bool:
    return result is None or (isinstance(result, Sized) and len(result) == 0)


def differences(one: object, other: object, path: tuple[object, ...] = ()) -> set[object]:
    """Where two snapshots differ."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return {found for place, pair in pairs for found in differences(*pair, (*path, place))}
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = {*one, *other}
        return {found for key in keys for found in differences(one.get(key), other.get(key), (*path, key))}
    return set() if one == other else {path}


# --------------------------------------------------------------------------- other items


def distinct(items: list[Item]) -> list[Item]:
    """The first of each kind of equal ones."""
    found: list[Item] = []
    looks: list[object] = []
    for item in items:
        if (look := snapshot(item)) not in looks:
            looks.append(look)
            found.append(item)
    return found


def changed(item: Item) -> Item | None:
    """A batch with other rewards; of other items there is nothing known that could be changed."""
    return rows.changed(item, rewards=np.asarray(item["rewards"]) + 1) if rows.batches([item]) and "rewards" in item else None


def first_rows(items: list[Item]) -> Iterator[Item]:
    """One row each: longer batches may fill a window alone."""
    yield from (batch.slice(0, 1) for batch in rows.batches(items)[:1])


def bears(candidate: Candidate, items: list[Item]) -> bool:
    """True if it can work with what nobody said that it must."""
    try:
        course(candidate, items)
    except Exception:  # it says so
        return False
    return True
