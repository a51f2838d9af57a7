"""A call on its way to another process: one short message, and beside it the values that the store of the cluster may carry.

Functions are packed once and recognised by their bytes at the other end, methods go by their name, a shard program goes as a flat
list of nodes. What travels with every call is plain tuples of numbers: packing a class costs more than everything in it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import cloudpickle

from tflow.combinators.methods import portable
from tflow.errors import PlanError, TflowError
from tflow.runtime.base import Call
from tflow.runtime.border import SIMPLE, Parcel
from tflow.runtime.host import Piggyback, Reply, Request
from tflow.runtime.observer import WorkSpan
from tflow.runtime.program import packed as packed_program
from tflow.runtime.refs import Remote, has_remote
from tflow.runtime.stats import Reading
from tflow.types import SILENT, CallOrigins, Provenance, Shard, Source


class Stored(NamedTuple):
    """A value that was put into the store once, to be sent often."""

    ref: object


class Slot(NamedTuple):
    """Stands in a message for a value beside it, or for one item of a list beside it."""

    position: int
    item: int | None


class SlotList(NamedTuple):
    """Stands for a list with slots in it."""

    members: list[object]


def pack(call: Call) -> tuple[bytes, list[object]]:
    """The message of a call, and what goes beside it."""
    beside: list[object] = []
    state = [
        (policy, packed(method), number, to_slot(value, beside))
        for (policy, method), (number, value) in call.piggyback.state.items()
    ]
    args: tuple[object, ...]
    if isinstance(request := call.args[0] if call.args else None, Request):
        key, program, resume, fuse, most, by_ref, feed, last = request
        flat = program and packed_program(program)
        args = key, flat, resume, fuse, most, by_ref, [(to_slot(value, beside), origin) for value, origin in feed], last
    else:
        args = tuple(packed(value) if index == 0 else to_slot(value, beside) for index, value in enumerate(call.args))
    return pickle.dumps((call.method, state, call.piggyback.versions, call.piggyback.traced, args), protocol=5), beside


def unpack(message: bytes, beside: Sequence[object]) -> tuple[str, Piggyback, tuple[object, ...]]:
    """The method, the state and the arguments of a call."""
    method, state, versions, traced, args = pickle.loads(message)  # noqa: S301  # packed by our own driver
    updates = {(policy, unpacked(name)): (number, from_slot(value, beside)) for policy, name, number, value in state}
    piggyback = Piggyback(updates, versions, traced)
    if method == "pull":
        key, flat, resume, fuse, most, by_ref, feed, last = args
        fed = tuple((from_slot(value, beside), origin) for value, origin in feed)
        return method, piggyback, (Request(key, flat and flat.open()[-1], resume, fuse, most, by_ref, fed, last),)
    fns = [unpacked(name) for name in args[:1]]
    return method, piggyback, (*fns, *(from_slot(value, beside) for value in args[1:]))


Fields = tuple[
    list[object],
    Sequence[object],
    int,
    bool,
    TflowError | None,
    int,
    Sequence[Sequence[int]],
    Sequence[tuple[int | str, int, int, int]],
    int,
]
Answer = Fields | list[Any]  # Any: the same fields
"""A reply as it is sent. As a list, which Ray sends without pickling, if it has only numbers and the like; then two numbers say
where the items come from."""


def pack_reply(reply: Reply, shard: Shard, versions: Mapping[str, int]) -> Answer:
    """Most items are made by the call that brings them: then the number of the item says where it comes from."""
    readings = [(position, *reading) for position, reading in reply.readings.items()]
    origins: Sequence[object] = (
        reply.origins.numbers if isinstance(reply.origins, CallOrigins) else _shortened(reply.origins, shard, versions)
    )
    plain = reply.error is None and not reply.spans
    if isinstance(origins, range) and plain and SILENT.issuperset(map(type, reply.items)):
        ends = [origins.start, origins.stop]
        return [reply.items, ends, reply.unused, reply.ended, None, reply.env_steps, [*map(list, readings)], [], reply.polls]
    spans = [(what, began, ended, number) for what, began, ended, number in reply.spans]
    return reply.items, origins, reply.unused, reply.ended, reply.error, reply.env_steps, readings, spans, reply.polls


def _shortened(given: Sequence[Provenance], shard: Shard, versions: Mapping[str, int]) -> list[object]:
    origins: list[object] = []
    for origin in given:
        source = next(iter(origin.sources), None)
        own = origin.versions is versions and len(origin.sources) == 1 and source is not None
        at_home = own and source is not None and source[:3] == (shard.actors, shard.index, shard.incarnation)
        origins.append(source.sequence if at_home and source is not None else origin)
    return origins


def unpack_reply(answer: Answer, call: Call) -> Reply:
    """The reply to this call."""
    items, origins, unused, ended, error, env_steps, readings, spans, polls = answer
    pool, index, versions = call.shard.pool.name, call.shard.index, call.piggyback.versions
    counts = {position: Reading(*reading) for position, *reading in readings}
    restored: Sequence[Provenance]
    if type(answer) is list:
        restored = CallOrigins(pool, index, call.incarnation, versions, range(*cast("Sequence[int]", origins)))
    elif isinstance(origins, range) or all(type(origin) is int for origin in origins):
        restored = CallOrigins(pool, index, call.incarnation, versions, cast("Sequence[int]", origins))
    else:
        restored = [
            Provenance(frozenset((Source(pool, index, call.incarnation, origin),)), versions)
            if isinstance(origin, int)
            else origin
            for origin in cast("list[int | Provenance]", origins)
        ]
    noted = tuple(WorkSpan(what, began, ended, number) for what, began, ended, number in spans)
    return Reply(items, restored, unused, ended, error, env_steps, counts, noted, polls)


def to_slot(value: object, beside: list[object]) -> object:
    """What the message says where the value is."""
    kind = type(value)
    if kind in SIMPLE or kind is Parcel:
        return value
    if kind is list and has_remote(value):
        return SlotList([to_slot(member, beside) for member in cast("list[object]", value)])
    if isinstance(value, Remote):
        beside.append(getattr(value.box, "ref"))  # noqa: B009  # only the cluster's own boxes travel
        return Slot(len(beside) - 1, value.index)
    beside.append(value.ref if isinstance(value, Stored) else value)
    return Slot(len(beside) - 1, None)


def from_slot(value: object, beside: Sequence[object]) -> object:
    """The value that a slot of the message stands for."""
    if isinstance(value, Slot):
        found = beside[value.position]
        return found if value.item is None else cast("list[object]", found)[value.item]
    if isinstance(value, SlotList):
        return [from_slot(member, beside) for member in value.members]
    return value.open() if isinstance(value, Parcel) else value


@lru_cache(maxsize=1024)
def packed(method: Callable[..., object]) -> bytes:
    """A function, or the name of a method, as bytes; the same bytes each time."""
    try:
        return cast("bytes", cloudpickle.dumps(portable(method)))
    except Exception as error:
        raise PlanError(f"{method!r} cannot travel to an actor: {type(error).__name__}: {error}.") from error


@lru_cache(maxsize=1024)
def unpacked(name: bytes) -> Callable[..., object]:
    """The same function for the same bytes."""
    return cast("Callable[..., object]", pickle.loads(name))  # noqa: S301  # packed by our own driver
