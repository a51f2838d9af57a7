"""Streams that several functions can reach, and right plans that look like mistakes from afar."""

from __future__ import annotations

from functools import cache, cached_property

from tflow import flow, from_range, Iter, ParallelRollouts, Stop, Union
from tflow.actors import AnyWorkers
from tflow.algos import PPO, TrainingRun

NUMBERS = from_range(9)


def one_way_or_the_other(short: bool) -> Iter[int]:
    return NUMBERS.take(2) if short else NUMBERS


class Either:
    def __init__(self, numbers: Iter[int]) -> None:
        self.numbers = numbers

    @property
    def fresh(self) -> Iter[int]:
        """Another one each time."""
        return from_range(3)

    def short(self) -> Iter[int]:
        return self.numbers.take(2)

    def plan(self, short: bool) -> Iter[int]:
        if short:
            return self.short()
        return Union(self.numbers, self.fresh, self.fresh)

    def replaced(self) -> Iter[int]:
        left = self.short()
        self.numbers = from_range(2)
        return Union(left, self.numbers)


@flow
def collected(stream: Iter[int]) -> Iter[int]:
    flows: list[Iter[int]] = []
    by_name: dict[str, Iter[int]] = {}
    for branch in stream.split(3):
        flows.append(branch.map(abs))
    by_name.setdefault("more", from_range(2))
    return Union(*flows, *by_name.values())


def any_workers(workers: AnyWorkers) -> Iter[int]:
    return ParallelRollouts(workers).gather_sync().map(len)


def finished(stop: Stop) -> TrainingRun:
    run = PPO(num_envs=2).run(stop=stop)
    run.finish()
    return run


def several() -> None:
    finished(Stop(env_steps=100))  # what a function of one's own does besides is not known
    PPO(num_envs=2).run(stop=Stop(env_steps=100)).finish()


class Part:
    def __init__(self, numbers: Iter[int]) -> None:
        self.numbers = numbers

    @cached_property
    def kept(self) -> Iter[int]:
        return from_range(3)

    @property
    def tapped(self) -> Iter[int]:
        return self.numbers.tap(print)

    def logged(self) -> Iter[int]:
        return self.numbers.tap(print)

    @cache  # noqa: B019
    def source(self) -> Iter[int]:
        return from_range(3)

    def made_anew(self) -> Iter[int]:
        left = self.kept.take(1)
        del self.kept
        return Union(left, self.kept)


def one_of_each(parts: list[Part], one: Part, other: Part) -> Iter[int]:
    return Union(*[part.logged() for part in parts], *(part.tapped for part in parts), one.source(), other.source())


def by_pattern(parts: list[Part | int]) -> Iter[int]:
    found: list[Iter[int]] = []
    for each in parts:
        match each:
            case Part() as part:
                found.append(part.logged())
            case _:
                continue
    return Union(*found)
