"""What the driver does per item, counted in bytecode instructions of tflow's own: the same on every machine and under any load.

A bound is what was counted on Python 3.11, and a quarter more for other versions. Who lowers a count lowers the bound.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tflow
from tflow import Iter, LocalRuntime, Shard, Union, create_actors, from_actors, from_range
from tflow.runtime import chain, wire
from tflow.runtime.base import Call, Mailbox
from tflow.runtime.host import Piggyback, Reply
from tflow.runtime.shards import LivePool, LiveShard
from tflow.types import CallOrigins

OURS = str(Path(tflow.__file__).parent)
ITEMS = 640
"""Ten times as many as go by between two that are measured."""
SLACK = 1.25


class Maker:
    def __init__(self, shard: Shard) -> None:
        self.made = 0

    def make(self) -> int:
        self.made += 1
        return self.made


def instructions(action: Callable[[], object]) -> int:
    """How many of tflow's instructions run meanwhile."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:  # Any: as sys.settrace has it
        nonlocal count
        if event == "call":
            if not frame.f_code.co_filename.startswith((OURS, "<tflow")):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def made(in_flight: int = 1, per_call: int = 1) -> Iter[int]:
    return from_actors(create_actors(Maker, num=2), Maker.make).gather_async(in_flight=in_flight, per_call=per_call)


def add_one(value: int) -> int:
    return value + 1


def union() -> Iter[int]:
    return Union(from_range(10**6).map(add_one), from_range(10**6).map(add_one))


PLANS: dict[str, tuple[Callable[[], Iter[object]], float]] = {
    "a chain of 3": (lambda: from_range(10**6).map(add_one).map(add_one).map(add_one), 67),
    "a union of 2": (union, 287),
    "one item per call": (made, 1805),
    "64 items per call": (lambda: made(per_call=64), 200),
}


@pytest.mark.parametrize("name", PLANS)
def test_an_item_costs_the_driver_no_more_instructions_than_it_did(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "SLOW_NS", 2**62)  # tracing makes operators slow, and slow ones are all measured
    make, bound = PLANS[name]
    with LocalRuntime() as session, make().run(runtime=session) as run:
        assert len(list(islice(run, ITEMS))) == ITEMS  # what happens once has happened
        found = instructions(lambda: list(islice(run, ITEMS))) / ITEMS
    assert 0 < found < bound * SLACK, f"{name}: {found:.0f} instructions per item"


def test_an_answer_of_many_items_is_packed_and_unpacked_at_once() -> None:
    shard, versions = Shard("made", 0, 1, 0, 0), {"default": 3}
    pool = LivePool(create_actors(Maker, num=1), "made", seed=0)
    call = Call(LiveShard(pool, 0, None), "pull", (), Mailbox(), _Nobody())
    call.piggyback, call.incarnation = Piggyback({}, versions), 0

    def journey(items: int) -> int:
        given = Reply(list(range(items)), CallOrigins("made", 0, 0, versions, range(items)), 0, False, None, 0, {})
        found: list[Reply] = []
        count = instructions(lambda: found.append(wire.unpack_reply(wire.pack_reply(given, shard, versions), call)))
        assert [list(reply.origins) for reply in found] == [list(given.origins)]
        return count

    assert journey(1) == journey(10_000)


class _Nobody:
    def arrived(self, call: Call) -> None:
        return
