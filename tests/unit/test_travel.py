"""What a plan sends is packed when it is validated, and what each run copies is copied: nothing of that fails later."""

from __future__ import annotations

import csv
import io
import logging
import queue
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from tflow import (
    Actors,
    Iter,
    Live,
    LiveOp,
    PlanError,
    Shard,
    Stateless,
    create_actor,
    create_actors,
    from_actors,
    from_items,
    par_from_items,
    par_from_range,
)
from tflow.combinators import travel


class Worker:
    def __init__(self, resource: object, shard: Shard) -> None:
        self.resource = resource

    def sample(self) -> int:
        return 1


@dataclass(frozen=True)
class Holds(Stateless[int, int]):
    held: object

    def apply(self, item: int, /) -> int:
        return item


@dataclass(frozen=True)
class Sends(LiveOp[int, int]):
    to: Actors[Worker]
    held: object

    def apply(self, live: Live, item: int, /) -> int:
        return item


class Careful:
    """Leaves its lock behind, wherever it goes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        return {}


class Stubborn:
    """Says itself that it cannot be sent, or copied."""

    def __reduce__(self) -> str:
        raise RuntimeError("not me")


KINDS: list[tuple[Callable[[], Any], str]] = [  # Any: of each kind
    (threading.Lock, "a lock"),
    (threading.Event, "a lock"),
    (threading.local, "thread-local data"),
    (queue.Queue, "a queue"),
    (queue.SimpleQueue, "a queue"),
    (ThreadPoolExecutor, "an executor"),
    (partial(sqlite3.connect, ":memory:"), "a connection to a database"),
    (lambda: csv.writer(io.StringIO()), "a writer of rows"),
    (lambda: csv.DictWriter(io.StringIO(), ["n"]), "a writer of rows"),
    (lambda: csv.reader(["a"]), "a reader of rows"),
    (logging.StreamHandler, "a handler of a log"),
    (tempfile.TemporaryFile, "an open file"),
    (Stubborn, "of the class Stubborn"),
]


@pytest.mark.parametrize(("make", "kind"), KINDS, ids=[f"{number} {kind}" for number, (_, kind) in enumerate(KINDS)])
def test_it_is_refused_wherever_it_would_be_sent(make: Callable[[], Any], kind: str) -> None:
    held = make()
    shards = par_from_range(3)

    def default(number: int, it: object = held) -> int:
        return number

    class Local(Stateless[int, int]):
        def apply(self, item: int, /) -> int:
            return item if held else 0

    helper = create_actor(partial(Worker, held))
    ways: dict[str, tuple[Iter[Any], str]] = {  # Any: only validated
        "closure": (shards.par_map(lambda number: (held, number)).gather_sync(), "held is"),
        "default": (shards.par_map(default).gather_sync(), "it is"),
        "method": (shards.par_map(Holds(held).apply).gather_sync(), "self.held is"),
        "operator": (shards.par_for_each(Holds(held)).gather_sync(), "held is"),
        "container": (shards.par_for_each(Holds({"a": [held]})).gather_sync(), "an item of an item of held is"),
        "deep": (shards.par_for_each(Holds(Holds(Holds(Holds(Holds(held)))))).gather_sync(), "held.held.held.held.held is"),
        "local class": (shards.par_for_each(Local()).gather_sync(), "Local.apply.held is"),
        "scan": (shards.par_scan(lambda state, number: state, [held]).gather_sync(), "an item is"),
        "items": (par_from_items([held, held]).gather_sync(), "is"),
        "actors": (from_actors(create_actors(partial(Worker, held)), Worker.sample).gather_sync(), "an argument is"),
        "host": (from_items([1]).call(helper, Holds(1)), "an argument is"),
        "receiver": (from_items([1]).for_each(Sends(helper, 1)), "an argument is"),
    }
    for way, (plan, name) in ways.items():
        with pytest.raises(PlanError) as raised:
            plan.validate()
        assert f"{name} {kind}, which cannot travel to an actor." in str(raised.value), way
    getattr(held, "close", lambda: None)()


def test_a_method_of_it_is_refused() -> None:
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    with pytest.raises(PlanError, match=r"par_tap\(put\): self is a queue, which cannot travel to an actor\. Each actor"):
        par_from_range(3).par_tap(seen.put).gather_sync().validate()


@pytest.mark.parametrize("held", [threading.Lock(), sqlite3.connect(":memory:"), Stubborn()], ids=["lock", "sqlite", "own"])
def test_an_operator_of_the_driver_is_refused_if_runs_cannot_copy_it(held: object) -> None:
    for plan in (from_items([1]).for_each(Holds(held)), par_from_items([1]).gather_sync().for_each(Holds([held]))):
        with pytest.raises(PlanError, match=r"^Holds cannot be copied for a run.*Keep locks") as early:
            plan.validate()
        with pytest.raises(PlanError) as late:
            travel.own_copy(plan.node.operator or Holds(held))
        assert str(early.value) == str(late.value)


def test_what_can_be_sent_is_not_refused() -> None:
    lock, careful, rows = threading.Lock(), Careful(), np.arange(10.0)
    logger, buffer = logging.getLogger("mine"), io.StringIO()

    def guarded(number: int) -> int:
        with lock:
            return number

    sent = par_from_range(3).par_for_each(Holds([careful, {"rows": rows}, logger, buffer])).par_map(lambda n: (careful, n)[1])
    helper = create_actor(partial(Worker, careful))
    driver = sent.gather_sync().for_each(Holds(guarded)).for_each(Sends(helper, careful)).map(guarded)
    assert sorted(driver.run()) == [0, 1, 2]


@dataclass
class Counted:
    """Notes how often it is packed."""

    packed: list[int] = field(default_factory=list)

    def __call__(self, number: int) -> int:
        return number

    def __reduce__(self) -> tuple[type[Counted], tuple[()]]:
        self.packed.append(1)
        return Counted, ()


def test_each_thing_is_packed_once() -> None:
    step, shards = Counted(), par_from_range(3)
    for _ in range(100):
        shards = shards.par_map(step)
    plan = shards.gather_sync()
    plan.validate()
    plan.validate()
    assert step.packed == [1]


def test_arrays_are_not_copied_for_it() -> None:
    class Large(np.ndarray[Any, Any]):  # Any: whatever its shape
        def tobytes(self, order: object = None) -> bytes:
            raise AssertionError("copied")

    rows = np.zeros(1_000_000).view(Large)
    par_from_range(3).par_map(lambda number: number + len(rows)).gather_sync().validate()


def test_torch_is_not_imported_for_it() -> None:
    code = "import sys; from tflow.algos import PPO; PPO().plan().validate(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
