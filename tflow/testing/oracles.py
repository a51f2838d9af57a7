"""Checks for plans that learn: what goes wrong between a learner, its workers and its replay, told from the history of a run.

Each makes a check for ``verify`` and ``explore``. They look at the messages that actors were sent and at the items shown,
and are told by functions of yours what a message or an item means.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from tflow.runtime.sim import Moment
from tflow.testing.history import History

AnyCheck = Callable[[History[Any]], None]  # Any: items of any kind
Method = Callable[..., object]
Number = Callable[[Any], int]  # Any: messages and items of any kind
Names = Callable[[Any], Iterable[Hashable]]  # Any: as above
RAN = ("answers", "dies_after", "slow")
"""Outcomes of a call that ran, whether or not anybody heard of it."""


def messages(history: History[Any], *methods: Method) -> Iterator[tuple[int, Moment, str, Any]]:  # Any: what was sent
    """The messages that actors handled by these methods: when, at whom, by which, and what they were given."""
    names, late = {called(method) for method in methods}, set[str]()
    for number, moment in enumerate(history.trace):
        if moment.what in RAN and moment.who not in late:
            yield from ((number, moment, name, value) for name, value in moment.told if name in names)
        if moment.what == "slow":
            late.add(moment.who)  # its answer comes later, and tells the same again
        elif moment.what == "answers":
            late.discard(moment.who)


def called(method: Method) -> str:
    return str(getattr(method, "__qualname__", method))


def trained_before_sent(method: Method, *, version: Number = int, trained: Number) -> AnyCheck:
    """No actor gets weights that have not been trained yet.

    Args:
        method: How actors get weights, such as ``Worker.set_weights``.
        version: The number of the update that made the weights of a message.
        trained: The number of the last update that was made when an item was shown.
    """

    def check(history: History[Any]) -> None:  # Any: as above
        shown = sorted(zip(history.shown_after, history.items, strict=True), key=lambda pair: pair[0])
        for number, moment, _, value in messages(history, method):
            known = max((trained(item) for after, item in shown if after <= number), default=0)
            assert version(value) <= known, (
                f"{moment.who} got the weights of update {version(value)} when {known} updates had been made"
            )

    return check


def never_overtaken(method: Method, *, version: Number = int) -> AnyCheck:
    """An actor never goes back to older weights, also when it is restarted, however they are sent: as state or as events."""

    def check(history: History[Any]) -> None:  # Any: items of any kind
        newest: dict[str, int] = {}
        for _, moment, _, value in messages(history, method):
            assert version(value) >= newest.get(moment.place, 0), (
                f"{moment.who} got the weights of update {version(value)}, after those of update {newest[moment.place]}"
            )
            newest[moment.place] = version(value)

    return check


def priorities_of_present_rows(insert: Method, update: Method, *, capacity: int, inserted: Names, updated: Names) -> AnyCheck:
    """Priorities are for rows that are still in the buffer, which holds the latest ``capacity`` of each replay actor."""

    def check(history: History[Any]) -> None:  # Any: items of any kind
        rows: dict[str, deque[Hashable]] = {}
        for _, moment, name, value in messages(history, insert, update):
            held = rows.setdefault(moment.who, deque(maxlen=capacity))
            if name == called(insert):
                held.extend(inserted(value))
            else:
                gone = [row for row in updated(value) if row not in held]
                assert not gone, f"{moment.who} got priorities of rows that it does not hold (any more): {gone}"

    return check


def counted_once(update: Callable[[Any], Hashable | None]) -> AnyCheck:  # Any: items of any kind
    """No update is counted twice: ``update`` names the update that an item reports; None if it reports none."""

    def check(history: History[Any]) -> None:  # Any: as above
        counts = Counter(name for item in history.items if (name := update(item)) is not None)
        twice = [name for name, count in counts.items() if count > 1]
        assert not twice, f"these updates are counted more than once: {twice}"

    return check


def effects_once(method: Method, *, effect: Callable[[Any], Hashable]) -> AnyCheck:  # Any: messages of any kind
    """An effect happens once, also if an actor dies after it and is restarted: ``effect`` names that of a message."""

    def check(history: History[Any]) -> None:  # Any: items of any kind
        done: dict[Hashable, str] = {}
        for _, moment, _, value in messages(history, method):
            name = effect(value)
            assert name not in done, f"{called(method)} {name} happens in {moment.who}, and had happened in {done[name]}"
            done[name] = moment.who

    return check
