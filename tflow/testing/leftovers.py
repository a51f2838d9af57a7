"""Evidence for the law of leftovers: does an operator hold items back, and is something seen of them when its input ends?

To hold back is more than to show nothing. An operator that counts shows nothing of most items, one that has a window shows
nothing until the window is full. One that holds items back gives them up when it shows what it made of them. Where that is in
doubt, the law is silent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import fields, is_dataclass, replace
from itertools import cycle, islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from tflow.laws import LEFTOVERS
from tflow.testing import rows
from tflow.testing.bench import Candidate, Item, bench, fresh
from tflow.testing.reach import amount
from tflow.testing.values import close, snapshot
from tflow.types import shows_at_end

PATIENCE = 130
"""So many items later something must have been seen of one that was held back: twice the group of 64."""
TRIED = 4
"""So many different items are looked at, each beside the next one."""


class Course(NamedTuple):
    """What an operator made of a list of items."""

    results: list[object]
    shown: list[object]
    """What was seen of each, results and messages; None for nothing."""
    left: list[object]
    state: object

    @property
    def silent(self) -> bool:
        return all(each is None for each in self.shown)


class Courses:
    """Gives lists of items to an operator, each list once."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.known: dict[tuple[int, ...], tuple[list[Item], Course]] = {}

    def __call__(self, given: list[Item]) -> Course:
        """Give it these items, and end its input."""
        key = tuple(map(id, given))
        if key not in self.known:
            with bench(self.candidate) as at_work:
                results: list[object] = []
                shown: list[object] = []
                for item in fresh(given):
                    results.append(result := at_work.result(item))
                    shown.append(None if is_nothing(result) and not at_work.messages else at_work.looked(result))
                state = snapshot(at_work.state)
                ended = Course(results, shown, at_work.end(), state)
            self.known[key] = given, ended  # the items, so that no other has the id of one
        return self.known[key][1]

    def sizes(self, given: list[Item]) -> list[int]:
        """How much is in the state before the first item, and after each."""
        with bench(self.candidate) as at_work:
            found = [amount([("", at_work.state)])]
            for item in fresh(given):
                at_work.result(item)
                found.append(amount([("", at_work.state)]))
            return found


def shows_what_is_left(candidate: Candidate, items: list[Item]) -> None:
    """Of an item that is held back something is seen when the input ends, if something would be seen were there more of it."""
    course = Courses(candidate)
    different = distinct(items)[:TRIED]
    for one, others in [*neighbours(different), *single_rows(course, different)]:
        enough = shown_after(course, [one] * PATIENCE)
        for other in others if enough > 1 else []:
            lost = unseen(course, [one] * (enough - 1), {place: [other] for place in places(enough)})
            if lost and (is_group(course, one, other, enough) or adds_what_comes(course, one, other, enough)):
                LEFTOVERS.check(lost)
            LEFTOVERS.check(loses_a_part(course, one, other, enough) or loses_what_it_passes_on(course, one, other, enough))
    for start in range(min(len(items), 6)):
        given = [*items[start:], *islice(cycle(items), PATIENCE)]
        enough = shown_after(course, given)
        if enough > 2 and remembers_more_and_more(course, given[:enough]):
            seen = {place: seen_in(course, given[:enough], place, different) for place in places(enough)}
            lost = unseen(course, given[: enough - 1], seen) if all(seen.values()) else ""
            if lost and have_places_of_their_own(course, given[: enough - 1], seen) and gives_up(course, given[:enough], seen):
                LEFTOVERS.check(lost)


def unseen(course: Courses, given: list[Item], others: Mapping[int, list[Item]]) -> str:
    """An item of which nothing is seen if it is the last; ``others`` would have been seen in its place had more come."""
    for place, different in others.items():
        one = course(given[: place + 1])
        if shows_at_end(course.candidate.op) and not one.left:  # on purpose
            continue
        for other in different:
            two = course([*given[:place], other])
            if (one.shown, one.left) == (two.shown, two.left):
                return f"nothing is seen of item {place} if it is the last; if others follow, it is seen"
    return ""


# --------------------------------------------------------------------------- does it hold back?


def is_group(course: Courses, one: Item, other: Item, enough: int) -> bool:
    """True if it holds back items of any content until there are enough, and is done with all of them then."""
    given, others = [one] * enough, {place: [other] for place in places(enough)}
    return (
        holds_back(course, given, others)
        and gives_up(course, given, {**others, enough - 1: [other]})
        and (course(given).state == course([]).state or has_less(course.sizes(given)))
    )


def adds_what_comes(course: Courses, one: Item, other: Item, enough: int) -> bool:
    """True if each number is shown once it is added to those that follow, and is given up then.

    A window looks much like it. It is one if what was shown stays there, or if it shows a mean, an extreme, or itself.
    """
    given, others = [one] * enough, {place: [other] for place in places(enough)}
    return has_gain(course, one, other, enough) and holds_back(course, given, others) and gives_up(course, given, {0: [other]})


def holds_back(course: Courses, given: list[Item], others: Mapping[int, list[Item]]) -> bool:
    """True if others in these places are seen with the last of those given, and have places of their own until then."""
    seen = all(seen_in(course, given, place, different) for place, different in others.items())
    return seen and have_places_of_their_own(course, given[:-1], others)


def gives_up(course: Courses, given: list[Item], others: Mapping[int, list[Item]]) -> bool:
    """True if nothing of these places is in the state after the last of those given."""
    after = course(given).state
    changed = [[*given[:place], other, *given[place + 1 :]] for place, different in others.items() for other in different]
    return all(course(each).state == after for each in changed)


def has_less(sizes: list[int]) -> bool:
    """True if there is less in the state after the last item than before it."""
    return sizes[-1] < sizes[-2]


def has_gain(course: Courses, one: Item, other: Item, enough: int) -> bool:
    """True if a multiple of the numbers comes out that go in, and not these numbers again."""
    gains: list[float] = []
    for item in (one, other):
        given, made = numbers(item), numbers(course([item] * enough).results[-1])
        if given is None or made is None or given.shape != made.shape:
            return False
        gains += list(made[given != 0] / given[given != 0])
    again = gains and (close(abs(gains[0]), 1.0, 1e-3) or abs(gains[0]) < 1e-6)
    return bool(gains) and not again and close(gains, gains[:1] * len(gains), 1e-6)


def numbers(value: Any) -> np.ndarray | None:  # Any: an item or a result, of any kind
    """A number, or those of an array, also if it stands alone in a list; None for other values."""
    while isinstance(value, (list, tuple)) and len(value) == 1:
        (value,) = value
    listed = getattr(value, "tolist", None) if hasattr(value, "dtype") else None
    if listed is None and not isinstance(value, (int, float)):
        return None
    array = np.asarray(value if listed is None else listed()).ravel()
    return array if array.dtype.kind in "if" and np.isfinite(array).all() else None


def loses_a_part(course: Courses, one: Item, other: Item, enough: int) -> str:
    """A part of the last item of which nothing is seen, while all of the first is seen, and of each that others follow.

    Steps that are made into transitions (observation, reward, next observation) are shown one item later.
    """
    parts, given = list(with_other_parts(one, other)), [one] * (2 * enough)
    if len(parts) < 2 or not all(bears(course, [one, part, one]) for part in parts):
        return ""
    end, later = course(given), course(given + given)
    if (shows_at_end(course.candidate.op) and not end.left) or snapshot(end.results[-1]) in (snapshot(one), [snapshot(one)]):
        return ""  # on purpose, or the item before as it is
    for part in parts:
        last = course([*given[:-1], part])
        lost = (last.shown, last.left) == (end.shown, end.left)
        if lost and course([*given[:-1], part, *given]).shown != later.shown:
            firsts = [course([each, *given[1:], *given]).shown for each in parts]
            return "" if later.shown in firsts else "nothing is seen of a part of the last item; if others follow, it is seen"
    return ""


def loses_what_it_passes_on(course: Courses, one: Item, other: Item, enough: int) -> str:
    """What is left at the end by one that shows its items as they are, in another order or in lists, and holds the others."""
    given = list(islice(cycle([one, other, other]), enough + 2 * TRIED))
    looks = [snapshot(item) for item in given]
    ended = course(given)
    held: list[object] = []
    in_order = True
    for number, (look, result) in enumerate(zip(looks, ended.results, strict=True), 1):
        held.append(look)
        for passed in passed_on(result, looks):
            if passed not in held:
                return ""
            in_order = in_order and passed == held[0]
            held.remove(passed)
        if held and number in (enough, len(given)) and not holds(course(given[:number]).state, held):
            return ""
    if shows_at_end(course.candidate.op) or not held or (in_order and None in ended.results):
        return ""  # None, then one after the other: it may be the item before that is meant
    for first, second in ((one, other), (other, one)):
        results = course([first] + [second] * PATIENCE).results
        if any(passed_on(result, [snapshot(first)]) for result in results):
            return f"it passes its items on, and {len(held)} of {len(given)} are never seen"
    return ""


def passed_on(result: object, looks: list[object]) -> list[object]:
    """Which of these items are in a result: the result itself, or its members."""
    look = snapshot(result)
    members = [look] if look in looks else look if isinstance(look, (list, tuple)) else []
    return [member for member in members if member in looks]


def holds(state: object, held: list[object]) -> bool:
    """True if a part of the state has these members and no others, in any order."""
    if isinstance(state, Mapping):
        return any(holds(member, held) for member in state.values())
    if not isinstance(state, (list, tuple)):
        return False
    rest = list(held)
    for member in state:
        if member in rest:
            rest.remove(member)
    return (not rest and len(state) == len(held)) or any(holds(member, held) for member in state)


def have_places_of_their_own(course: Courses, held: list[Item], others: Mapping[int, list[Item]]) -> bool:
    """True if other items in these places are in the state, no two in the same part of it, and nothing is seen of them."""
    before = course(held)
    touched: list[set[object]] = []
    for place, different in others.items():
        changed_there = course([*held[:place], different[0], *held[place + 1 :]])
        touched.append(differences(before.state, changed_there.state))
        if not changed_there.silent or not touched[-1]:
            return False
    return sum(map(len, touched)) == len(set().union(*touched))


def remembers_more_and_more(course: Courses, given: list[Item]) -> bool:
    """True if it remembers more with each item until the last makes it show something."""
    sizes = course.sizes(given)
    return all(now > before for before, now in pairwise(sizes[:-1])) and has_less(sizes)


def seen_in(course: Courses, given: list[Item], place: int, different: list[Item]) -> list[Item]:
    """The items that change what is shown after the last of those given, and nothing before, if they stand in this place."""
    shown, found = course(given).shown, []
    for other in different:
        changed_there = course([*given[:place], other, *given[place + 1 :]]).shown
        if changed_there[:-1] == shown[:-1] and changed_there[-1] not in (None, shown[-1]):
            found.append(other)
    return found


def places(enough: int) -> list[int]:
    """Some of those that are held back, the first and the last among them."""
    return sorted({0, (enough - 2) // 2, enough - 2})


def shown_after(course: Courses, given: list[Item]) -> int:
    """After how many items something is seen; 0 for never."""
    with bench(course.candidate) as at_work:
        for number, item in enumerate(given, 1):
            if not is_nothing(at_work.result(fresh([item])[0])) or at_work.messages:
                return number
    return 0


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


def neighbours(different: list[Item]) -> Iterator[tuple[Item, list[Item]]]:
    """Each item, with the next one."""
    for one, following in zip(different, [*different[1:], *different[:1]], strict=True):
        yield one, [each for each in (following, *with_other_rewards(one)) if each is not one]


def single_rows(course: Courses, items: list[Item]) -> Iterator[tuple[Item, list[Item]]]:
    """One row of the first batch: longer batches may fill a window alone."""
    for batch in rows.batches(items)[:1]:
        one = batch.slice(0, 1)
        others = list(with_other_rewards(one))
        if bears(course, [one, *others]):
            yield one, others


def with_other_rewards(item: Item) -> Iterator[Item]:
    """A batch with other rewards; of other items there is nothing known that could be changed."""
    if rows.batches([item]) and "rewards" in item.columns:
        yield rows.changed(item, rewards=np.asarray(item["rewards"]) + 1)


def with_other_parts(one: Item, other: Item) -> Iterator[Item]:
    """The item with one of its parts from the other one; of a batch, one of its columns with other numbers."""
    if rows.batches([one]):
        yield from (rows.changed(one, **{name: np.asarray(one[name]) + 1}) for name in ("obs", "rewards") if name in one.columns)
        return
    mine, its = (parts_of(each) if type(one) is type(other) else {} for each in (one, other))
    yield from (with_part(one, name, its[name]) for name in mine if name in its and snapshot(mine[name]) != snapshot(its[name]))


def parts_of(item: Any) -> dict[Any, object]:  # Any: an item of any kind; keys of all kinds
    if isinstance(item, dict):
        return item
    if isinstance(item, tuple):
        return dict(enumerate(item))
    return {field.name: getattr(item, field.name) for field in fields(item) if field.init} if is_dataclass(item) else {}


def with_part(item: Any, name: Any, part: object) -> Item:  # Any: as above
    if isinstance(item, dict):
        return {**item, name: part}
    if isinstance(item, tuple):
        members = [*item[:name], part, *item[name + 1 :]]
        return type(item)(*members) if hasattr(item, "_fields") else tuple(members)
    return replace(item, **{name: part})


def bears(course: Courses, items: list[Item]) -> bool:
    """True if it can work with what nobody said that it must."""
    try:
        course(items)
    except Exception:  # it says so
        return False
    return True
