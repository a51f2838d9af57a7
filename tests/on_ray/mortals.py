"""Actors that fail on command: a test leaves an order in a folder, and the shard that it is for obeys it once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from tflow import ActorOp, Actors, Live, LiveOp, ParIter, Run, Shard, create_actors, from_actors

T = TypeVar("T")
Deed = Literal["exit", "hang", "stop", "raise", "refuse", "abort", "drag", "count"]
PATIENCE_S = 60.0
"""Longer than anything here takes on a busy machine; whoever waits so long has found a bug."""


class Told(NamedTuple):
    """One item, and everything about the process that made it."""

    shard: int
    life: int
    sequence: int
    weights: int
    pid: int


# --------------------------------------------------------------------------- orders


def order(folder: Path, deed: Deed, shard: int, number: float = 0) -> None:
    """What a shard shall do. ``number``: before which item; with ``refuse``, how often; with ``drag``, for how many seconds."""
    folder.joinpath(f"draft-{deed}-{shard}").write_text(str(number))
    folder.joinpath(f"draft-{deed}-{shard}").rename(folder / f"{deed}-{shard}")  # nobody reads half an order


def ordered(folder: Path, deed: Deed, shard: int) -> float | None:
    """The number of an order, if there is one."""
    try:
        return float(folder.joinpath(f"{deed}-{shard}").read_text())
    except FileNotFoundError:
        return None


def is_due(folder: Path, deed: Deed, shard: int, made: int) -> bool:
    """True once, when the time has come."""
    at = ordered(folder, deed, shard)
    if at is None or made < at:
        return False
    folder.joinpath(f"{deed}-{shard}").unlink()
    return True


def tell(folder: Path, what: str, shard: int) -> None:
    """Leave the process id where the test can find it."""
    folder.joinpath(f"draft-{what}-{shard}").write_text(str(os.getpid()))
    folder.joinpath(f"draft-{what}-{shard}").rename(folder / f"{what}-{shard}")


def told(folder: Path, what: str, shard: int) -> int | None:
    """The process that told so, if one did."""
    path = folder / f"{what}-{shard}"
    return int(path.read_text()) if path.exists() else None


# --------------------------------------------------------------------------- actors


class Mortal:
    """Makes numbered items until it is ordered otherwise."""

    def __init__(self, shard: Shard, folder: Path, limit: int | None = None) -> None:
        self.shard = shard
        self.folder = folder
        self.limit = limit
        self.made = 0
        self.weights = 0
        index = shard.index
        tell(folder, "born", index)
        times = ordered(folder, "refuse", index)
        if times:
            order(folder, "refuse", index, times - 1)
            raise ValueError(f"no env today, {times:g}")
        if ordered(folder, "abort", index) is not None:
            os._exit(1)
        seconds = ordered(folder, "drag", index)
        if seconds is not None and shard.incarnation > 0:
            time.sleep(seconds)

    def sample(self) -> Told:
        if self.made == self.limit:
            raise StopIteration
        self.obey()
        self.made += 1
        return Told(self.shard.index, self.shard.incarnation, self.made - 1, self.weights, os.getpid())

    def obey(self) -> None:
        folder, index = self.folder, self.shard.index
        if is_due(folder, "exit", index, self.made):
            os._exit(1)
        if is_due(folder, "hang", index, self.made):
            tell(folder, "stuck", index)
            time.sleep(3600)
        if is_due(folder, "stop", index, self.made):
            tell(folder, "stuck", index)
            os.kill(os.getpid(), signal.SIGSTOP)
        if is_due(folder, "raise", index, self.made):
            raise ValueError("ordered to raise")

    def set_weights(self, weights: int) -> None:
        self.weights = weights


@dataclass(frozen=True)
class Mortals:
    """Makes them."""

    folder: Path
    limit: int | None = None

    def __call__(self, shard: Shard) -> Mortal:
        return Mortal(shard, self.folder, self.limit)


def mortals(folder: Path, num: int = 2, limit: int | None = None) -> Actors[Mortal]:
    return create_actors(Mortals(folder, limit), num=num, name="env")


def sampling(actors: Actors[Mortal]) -> ParIter[Told]:
    return from_actors(actors, Mortal.sample)


@dataclass(frozen=True)
class Learn(LiveOp[Told, Told]):
    """After the k-th item all actors have weights k."""

    actors: Actors[Mortal]

    def apply(self, live: Live, item: Told, /) -> Told:
        version = live[self.actors].advance()
        live[self.actors].update(Mortal.set_weights, version)
        return item


class Learner:
    """Only a process."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard


@dataclass(frozen=True)
class Keep(ActorOp[Learner, Told, Told]):
    """Takes items that the driver did not open."""

    def apply(self, actor: Learner, item: Told, /) -> Told:
        return item


class Diary:
    """A learner that writes down, outside its process, what it did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, item: int) -> None:
        with self.folder.joinpath("diary").open("a") as file:
            file.write(f"{item}\n")


@dataclass(frozen=True)
class Diaries:
    """Makes it."""

    folder: Path

    def __call__(self, shard: Shard) -> Diary:
        return Diary(self.folder)


@dataclass(frozen=True)
class WriteThenDie(ActorOp[Diary, int, int]):
    """The item ``fatal`` is done, and nobody hears of it."""

    fatal: int

    def apply(self, actor: Diary, item: int, /) -> int:
        actor.write(item)
        if item == self.fatal:
            os._exit(1)
        return item


def diary(folder: Path) -> list[int]:
    """What all lives of the learner did."""
    return [int(line) for line in folder.joinpath("diary").read_text().split()]


# --------------------------------------------------------------------------- bounded waiting


@contextmanager
def at_most(seconds: float = 2 * PATIENCE_S) -> Iterator[None]:
    """Whatever happens inside, it ends: the alarm raises in the middle of a wait."""

    def ring(number: int, frame: object) -> None:
        raise TimeoutError(f"still not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def wait_until(true: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    """Look again and again, but not for ever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.02)


def pull(run: Run[T], until: Callable[[T], object]) -> list[T]:
    """Items up to the one that is waited for; the books balance after each."""
    found: list[T] = []
    end = time.monotonic() + PATIENCE_S
    for item in run:
        found.append(item)
        assert run.ledger.balanced, run.ledger
        if until(item):
            return found
        assert time.monotonic() < end, f"waited in vain; the last of {len(found)} items is {item}"
    raise AssertionError(f"the stream ended after {len(found)} items")


def per_life(items: list[Told]) -> dict[tuple[int, int], list[int]]:
    """The sequence numbers of each shard and life, in the order of arrival."""
    found: dict[tuple[int, int], list[int]] = {}
    for item in items:
        found.setdefault((item.shard, item.life), []).append(item.sequence)
    return found


def in_order(items: list[Told]) -> bool:
    """True if every life gave 0, 1, 2 and so on, and no life of a shard spoke after a later one."""
    lives: dict[int, list[int]] = {}
    for item in items:
        lives.setdefault(item.shard, []).append(item.life)
    whole = all(sequence == list(range(len(sequence))) for sequence in per_life(items).values())
    return whole and all(each == sorted(each) for each in lives.values())


def is_gone(pid: int) -> bool:
    """True if the process has ended, whether or not its parent has noticed."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return "State:\tZ" in status
