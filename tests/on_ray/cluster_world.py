"""A cluster of several nodes on this machine, and actors that tell where they are."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import FrameType, ModuleType

import numpy as np
import numpy.typing as npt
import pytest
import ray
from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
from ray._private.node import Node
from ray.cluster_utils import Cluster

from tests.laws.world import Sample, Sampler
from tflow import ActorOp, Actors, Live, LiveOp, Shard
from tflow.actors import Actor
from tflow.runtime import cluster
from tflow.types import Ref, RefOp

QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 400, "health_check_failure_threshold": 3}
"""A node that is gone is noticed after about two seconds; one that is only slow still has Ray's ten seconds per check."""
PATIENCE_S = 60.0


def until(true: Callable[[], object], what: str) -> None:
    """Wait for something that is bound to happen."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, f"waited {PATIENCE_S:g} s in vain: {what}"
        time.sleep(0.05)


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Nothing in here takes longer."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt  # the only interruption that Ray heeds while it waits

    begun = time.monotonic()
    before, left = signal.signal(signal.SIGALRM, give_up), signal.alarm(seconds)
    try:
        yield
    except KeyboardInterrupt:
        if time.monotonic() - begun < seconds:
            raise
        pytest.fail(f"this took more than {seconds} s")
    finally:
        signal.alarm(max(1, left - int(time.monotonic() - begun)) if left else 0)
        signal.signal(signal.SIGALRM, before)


def is_running(pid: int) -> bool:
    """True if there is such a process; one that has ended and was not yet collected by its parent does not count."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return "State:\tZ" not in status.read()
    except FileNotFoundError:
        return False


class Town:
    """A head, where the driver is, and the nodes ``left`` and ``right``. A ``spare`` may be lost, and is replaced."""

    def __init__(self) -> None:
        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False, "_system_config": QUICK}
        )
        self.head = self.cluster.head_node
        self.left = self.add(left=2, pair=1)
        self.right = self.add(right=2)
        self.spare: Node | None = None

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self, **resources: float) -> Node:
        node: Node = self.cluster.add_node(num_cpus=2, resources=resources)
        return node

    def make_spare(self) -> Node:
        """There is a spare node from now on."""
        if self.spare is None:
            self.spare = self.add(spare=1, pair=1)
        return self.spare

    def replace_spare(self, lost: str) -> None:
        """Lose this one, if there still is one with that number, and get another."""
        if self.make_spare().node_id == lost:
            self.lose_spare()
            self.make_spare()

    def lose_spare(self) -> None:
        """Its power is cut: nothing on it can say goodbye."""
        lost, self.spare = self.make_spare(), None
        self.cluster.remove_node(lost, allow_graceful=False)


@contextmanager
def built() -> Iterator[Town]:
    """A town as long as it is needed. Its files are apart, so that nobody else on this machine joins it by accident."""
    ray.shutdown()
    cluster.secure()
    maybe_enable_token_auth_if_token_available()  # as `ray start` does
    folder = tempfile.mkdtemp(prefix="town")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        town = Town()
        try:
            yield town
        finally:
            ray.shutdown()
            town.cluster.shutdown()  # type: ignore[no-untyped-call]  # Ray's
            shutil.rmtree(folder, ignore_errors=True)


class Worker(Sampler):
    """A sampler that tells where it is. Its weights are too large to travel inside a call."""

    def set_arrays(self, weights: npt.NDArray[np.float64]) -> None:
        self.set_weights(int(weights.mean()))

    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def process(self) -> int:
        return os.getpid()


@dataclass(frozen=True)
class Teach(LiveOp[Sample, Sample]):
    """After the k-th item, all actors have weights k."""

    actors: Actors[Worker]

    def apply(self, live: Live, item: Sample, /) -> Sample:
        version = live[self.actors].advance()
        live[self.actors].update(Worker.set_arrays, np.full(20_000, float(version)))
        return item


@dataclass(frozen=True)
class Rollout:
    """Too large to travel inside an answer."""

    number: int
    summary: str
    """The node that made it."""
    frames: npt.NDArray[np.float64]


class Maker(Worker):
    """Makes four rollouts, in each of its lives."""

    def make(self) -> Rollout:
        if self.made == 4:
            raise StopIteration
        self.made += 1
        return Rollout(self.made, self.node(), np.full(100_000, float(self.made)))


class Replay(Worker):
    """Remembers what it was given, and whether that could be written to."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard)
        self.seen: list[tuple[int, float, bool]] = []

    def add(self, item: Rollout) -> None:
        self.seen.append((item.number, float(item.frames.mean()), item.frames.flags.writeable))

    def contents(self) -> list[tuple[int, float, bool]]:
        return self.seen


class Keep(ActorOp[Replay, Rollout, int]):
    """Into the replay, by ``call`` and ``hand_off``."""

    def apply(self, actor: Replay, item: Rollout, /) -> int:
        actor.add(item)
        return item.number


@dataclass(frozen=True)
class Meanwhile(RefOp[Rollout]):
    """Something happens on the driver while it has an unopened item in hand."""

    event: Callable[[Live, Ref[Rollout]], object]
    replay: Actor[Replay]

    def forward(self, live: Live, item: Ref[Rollout], /) -> None:
        self.event(live, item)


SOURCE = """
class Far:
    def __init__(self, shard):
        self.base = {base}
    def value(self):
        return self.base
def double(x):
    return 2 * x
"""


def far_module(folder: Path, kind: str) -> ModuleType:
    """A module that the driver has and the workers have not."""
    name = f"far_{kind}"
    if kind == "file":
        (folder / f"{name}.py").write_text(SOURCE.format(base=20))
    else:
        (folder / name).mkdir()
        (folder / name / "deep.py").write_text("BASE = 21")
        (folder / name / "__init__.py").write_text(f"from {name}.deep import BASE\n" + SOURCE.format(base="BASE"))
    sys.path.insert(0, str(folder))
    try:
        invalidate_caches()
        return import_module(name)
    finally:
        sys.path.remove(str(folder))
