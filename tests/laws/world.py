"""What the laws are tested on: runtimes, strategies, and actors that tell what they saw."""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import NamedTuple, TypeVar

import pytest
import ray
from hypothesis import strategies as st

from tflow import Actors, Iter, Live, LiveOp, LocalRuntime, ParIter, RayRuntime, Shard, create_actors, from_actors
from tflow.combinators.splits import Splits
from tflow.laws import Law, laws_of
from tflow.mypy_plugin.public import homes
from tflow.runtime import cluster
from tflow.runtime.base import Runtime
from tflow.runtime.sim import SimRuntime

T = TypeVar("T")
Test = TypeVar("Test", bound=Callable[..., object])


def dice(seed: int) -> Iterator[int]:
    """An endless tape: actors answer in any order, each its own calls first come, first served."""
    numbers = random.Random(seed)
    while True:
        yield numbers.randrange(64)


def ray_session() -> Runtime:
    """A session on the one Ray that all tests of a process share: starting Ray costs seconds."""
    if not ray.is_initialized():
        cluster.secure()
        # Local: tests that run side by side have a Ray each, and none joins one that somebody has started on this machine.
        ray.init(address="local", include_dashboard=False, num_cpus=4, log_to_driver=False, logging_level=logging.ERROR)
    return RayRuntime()


RUNTIMES: dict[str, Callable[[], Runtime]] = {
    "local": LocalRuntime,
    "sim": SimRuntime,
    "sim, any order": lambda: SimRuntime(dice(1)),
    "sim, shuffled": lambda: SimRuntime(dice(2)),
    "ray": ray_session,
}
"""Every law runs over all of these; a new runtime joins by a line here."""

PROVEN: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
"""Which test proves which law of which operator."""


@cache
def operators() -> dict[str, object]:
    """Everything that makes or transforms a stream, by its qualified name."""
    found: dict[str, object] = {}
    for cls in (Iter, ParIter, Splits):
        found |= {f"{cls.__name__}.{name}": member for name, member in vars(cls).items() if not name.startswith("_")}
    made = {"Union", "ParUnion", "create_actors", "create_actor", "create_resident"}
    for name, module in homes().items():
        if module == "tflow.combinators.create" or name in made:
            found[name] = getattr(import_module(module), name)
    return {name: member for name, member in found.items() if callable(member)}


def proves(law: Law[...], *proven: str) -> Callable[[Test], Test]:
    """Quote the law that a test proves, and the operators that it proves it of."""

    def quote(test: Test) -> Test:
        for operator in proven:
            assert law in laws_of(operators()[operator]), (
                f"{operator} does not promise {law}: say so where it is defined, with @obeys"
            )
            PROVEN[operator, law.name].add(getattr(test, "__name__", str(test)))
        marked: Test = pytest.mark.law(law)(test)
        return marked

    return quote


def marks(runtime: str, *, rare: Collection[str]) -> list[pytest.MarkDecorator]:
    """What a test on this runtime is marked with; on a rare one it runs in ``make test-full`` only."""
    on_ray = [pytest.mark.ray] if runtime == "ray" else []
    return [*on_ray, *([pytest.mark.full] if runtime in rare else [])]


def over(runtimes: Iterable[str], *, rare: Collection[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("runtime", [pytest.param(name, marks=marks(name, rare=rare)) for name in sorted(runtimes)])


over_repeatable_runtimes = over(RUNTIMES.keys() - {"ray"}, rare={"sim, shuffled"})
"""Those that make the same choices again: on Ray, actors answer when they answer."""
over_runtimes = over(RUNTIMES, rare={"sim, shuffled", "ray"})
"""All. On Ray a law costs seconds, so most are proved there by ``make test-full`` only."""
over_runtimes_and_ray = over(RUNTIMES, rare={"sim, shuffled"})
"""All, and always on Ray: for laws where it makes a difference that actors are processes."""


def product(names: Iterable[str], runtimes: Iterable[str] = RUNTIMES, *, on_ray: Collection[str] = ()) -> pytest.MarkDecorator:
    """Plans on runtimes: always on two of them, where ``on_ray`` says so on Ray as well, on all others in ``make test-full``."""
    two = {"local", "sim, any order"}
    return pytest.mark.parametrize(
        ("name", "runtime"),
        [
            pytest.param(name, runtime, marks=marks(runtime, rare=RUNTIMES.keys() - two - ({"ray"} if name in on_ray else set())))
            for runtime in sorted(runtimes)
            for name in names
        ],
    )


items = st.lists(st.integers(-50, 50), max_size=30)
sizes = st.integers(1, 7)
shard_counts = st.integers(1, 4)


def results(stream: Iter[T], runtime: str, *, seed: int = 0, fuse: bool = True) -> list[T]:
    """Everything the stream yields, in a session of its own; the ledger must balance after every item."""
    with RUNTIMES[runtime]() as session, stream.run(runtime=session, seed=seed, fuse=fuse) as run:
        found = []
        for item in run:
            found.append(item)
            assert run.ledger.balanced, run.ledger
    assert run.ledger.balanced, run.ledger
    assert run.ledger.calls.in_flight == 0
    return found


class Sample(NamedTuple):
    """One item of a shard: which, how many before it, and the weights that its actor had."""

    shard: int
    sequence: int
    weights: int


class Sampler:
    """An actor that makes numbered samples for ever, or up to a limit."""

    def __init__(self, shard: Shard, limit: int | None = None) -> None:
        self.shard = shard.index
        self.made = 0
        self.weights = 0
        self.limit = limit

    def sample(self) -> Sample:
        if self.made == self.limit:
            raise StopIteration
        self.made += 1
        return Sample(self.shard, self.made - 1, self.weights)

    def set_weights(self, weights: int) -> None:
        self.weights = weights

    def samples_made(self) -> int:
        return self.made


def samplers(num: int, limits: list[int] | None = None) -> Actors[Sampler]:
    def make(shard: Shard) -> Sampler:
        return Sampler(shard, None if limits is None else limits[shard.index])

    return create_actors(make, num=num)


def sampling(actors: Actors[Sampler]) -> ParIter[Sample]:
    return from_actors(actors, Sampler.sample)


@dataclass(frozen=True)
class Learn(LiveOp[Sample, Sample]):
    """After the k-th item, all actors (or only those it came from) have weights k. Shows the item."""

    actors: Actors[Sampler]
    sender_only: bool = False

    def apply(self, live: Live, item: Sample, /) -> Sample:
        version = live[self.actors].advance()
        shards = live.shards(self.actors) if self.sender_only else None
        live[self.actors].update(Sampler.set_weights, version, shards=shards)
        return item


def per_shard(samples: list[Sample]) -> dict[int, list[int]]:
    """The sequence numbers of each shard, in the order of arrival."""
    found: dict[int, list[int]] = {}
    for sample in samples:
        found.setdefault(sample.shard, []).append(sample.sequence)
    return found
