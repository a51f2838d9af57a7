"""A trace of a run: who worked on what, when, in the trace event format that Perfetto and Chrome show.

The driver and each actor have a track. Calls and messages are slices on the track of their actor, with the operators that worked
inside them; arrows lead from where the driver sent them to where they ran, and on to where the driver saw the answer. The file is
the format's array: a line per event, so that it can be read when the process was killed.

An actor in a process of its own says when it worked by its own clock. On one machine all processes read the same one. That of
another machine is set by the calls themselves: none can run before it is sent, nor after its answer has arrived.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

from tflow.runtime.host import name_of
from tflow.runtime.observer import RunObserver, WorkSpan
from tflow.runtime.side_file import SideFile

if TYPE_CHECKING:
    from tflow.runtime.base import Call
    from tflow.runtime.driver import Driver
    from tflow.runtime.shards import LiveShard

log = logging.getLogger("tflow")
MOST_EVENTS = 400_000
"""About 50 MB. A trace ends there; the run goes on."""
DRIVER = (1, 1)
"""The track of the driver: process and thread, as the format calls them. Actors of a pool share a process."""
Track = tuple[int, int]


class ActorClock:
    """How far the clock of an actor is behind that of the driver, as far as its calls tell."""

    def __init__(self) -> None:
        self.least, self.most = float("-inf"), float("inf")

    def see(self, sent: int, began: int, ended: int, arrived: int) -> None:
        """A call was sent and its answer arrived, on the clock of the driver; it began and ended on that of the actor."""
        self.least, self.most = max(self.least, sent - began), min(self.most, arrived - ended)

    @property
    def behind(self) -> int:
        """What is to be added to its readings: nothing if that can be, else the middle of what can be."""
        return 0 if self.least <= 0 <= self.most else round((self.least + self.most) / 2)


class RunTrace(RunObserver):
    """Writes a trace while the run goes on.

    Args:
        path: The file.
        driver: Whose run it is.
    """

    def __init__(self, path: Path, driver: Driver) -> None:
        self.file, self.driver = SideFile(path, "The trace"), driver
        self.began = perf_counter_ns()
        self.labels = {position: node.label for node, position in driver.positions.items()}
        self.spans: list[WorkSpan] = []
        """What the driver did since the last events were written."""
        driver.spans = self.spans
        self.count = 0
        self.sent: dict[int, int] = {}
        """When calls were sent that are not answered, by number."""
        self.sending = 0
        self.tracks: dict[str, Track] = {}
        self.pools: dict[str, int] = {}
        self.clocks: dict[tuple[str, int], ActorClock] = {}
        """By actor and incarnation."""

    # ------------------------------------------------------------------- what is seen

    def issuing(self, call: Call) -> None:
        if call.number and self.is_open:
            call.traced = True
            self.sending = perf_counter_ns()

    def issued(self, call: Call) -> None:
        if not call.traced or not self.is_open:
            return
        what = call_name(call)
        self.sent[call.number] = self.sending
        carried = [name_of(method) for _, method in call.piggyback.state]
        arguments = {"call": call.number, "to": call.shard.place, **({"carries": ", ".join(carried)} if carried else {})}
        self.slice(DRIVER, f"send {what}", self.sending, perf_counter_ns(), "send", arguments)
        self.flow("s", DRIVER, call.number, self.sending, kind_of(call))

    def collected(self, calls: Sequence[Call], *, turn: int | None) -> None:
        if not self.is_open:
            return
        now = perf_counter_ns()
        waited = self.spans[-1].ended - 1 if self.spans and self.spans[-1].what == "wait" else None
        self.write_driver()
        for call in calls:
            sent = self.sent.pop(call.number, None)
            if sent is not None and not call.lost:
                self.answered(call, sent, now, waited)
        self.line({"ph": "C", "name": "calls in flight", "args": {"calls": len(self.sent)}}, DRIVER, now)
        if self.count > MOST_EVENTS:
            log.warning("The trace has %s events and ends here; the run goes on. It is in %s.", f"{self.count:,}", self.file.path)
            self.close()

    def answered(self, call: Call, sent: int, now: int, waited: int | None) -> None:
        """What an actor tells of a call, and perhaps of those before it."""
        track = self.track(call.shard)
        clock = self.clocks.setdefault((call.shard.place, call.incarnation), ActorClock())
        spans: Sequence[WorkSpan] = getattr(call.reply, "spans", ())
        for span in spans:
            if span.call:
                start = sent if span.call == call.number else self.sent.get(span.call, sent)
                clock.see(start, span.began, span.ended, now)
        behind = clock.behind
        for span in sorted(spans, key=lambda each: (each.began, -each.ended)):
            began, ended = span.began + behind, span.ended + behind
            name = self.labels.get(span.what, "?") if isinstance(span.what, int) else span.what
            arguments = {"call": span.call} if span.call else {}
            self.slice(track, name, began, ended, "call" if span.call else "operator", arguments)
            if span.call == call.number:
                self.flow("t" if waited is not None else "f", track, call.number, began, kind_of(call))
                if waited is not None:
                    self.flow("f", DRIVER, call.number, max(waited, ended), kind_of(call))

    def died(self, shard: LiveShard, by: Call, *, turn: int) -> None:
        self.mark(shard, f"{shard.place} died", {"why": shard.death_reason})

    def restarted(self, shards: Sequence[LiveShard], *, turn: int | None) -> None:
        for shard in shards:
            self.mark(shard, f"{shard.place} restarted" if shard.handle is not None else f"{shard.place} given up", {})

    def close(self) -> None:
        if self.is_open:
            self.write_driver()
            self.driver.spans = None
            if self.count:
                self.file.write("\n]\n")
            self.file.close()

    # ------------------------------------------------------------------- what is written

    @property
    def is_open(self) -> bool:
        return self.driver.spans is self.spans and not self.file.closed

    def write_driver(self) -> None:
        """What the driver did meanwhile."""
        for span in self.spans:
            name = self.labels[span.what] if isinstance(span.what, int) else span.what
            self.slice(DRIVER, name, span.began, span.ended, "operator" if isinstance(span.what, int) else "driver", {})
        self.spans.clear()

    def track(self, shard: LiveShard) -> Track:
        """The track of an actor, which is named when it is first needed."""
        pool = shard.pool.name
        if shard.place not in self.tracks:
            if pool not in self.pools:
                self.pools[pool] = DRIVER[0] + 1 + len(self.pools)
                self.name_process(self.pools[pool], pool)
            track = self.tracks[shard.place] = (self.pools[pool], shard.index + 1)
            self.line({"ph": "M", "name": "thread_name", "args": {"name": shard.place}}, track)
        return self.tracks[shard.place]

    def name_process(self, pid: int, name: str) -> None:
        self.line({"ph": "M", "name": "process_name", "args": {"name": name}}, (pid, 0))
        self.line({"ph": "M", "name": "process_sort_index", "args": {"sort_index": pid}}, (pid, 0))

    def mark(self, shard: LiveShard, what: str, arguments: Mapping[str, object]) -> None:
        """Something happened to an actor."""
        if self.is_open:
            self.line({"ph": "i", "name": what, "s": "g", "args": arguments}, self.track(shard), perf_counter_ns())

    def slice(self, track: Track, name: str, began: int, ended: int, kind: str, arguments: Mapping[str, object]) -> None:
        """Some work. Written without the encoder, which would take most of the time that tracing takes."""
        more = f',"args":{json.dumps(arguments)}' if arguments else ""
        self.put(
            f'{{"ph":"X","name":{quoted(name)},"cat":"{kind}","pid":{track[0]},"tid":{track[1]},"ts":{self.micros(began)},'
            f'"dur":{(ended - began) / 1000:.3f}{more}}}'
        )

    def flow(self, step: str, track: Track, number: int, at: int, kind: str) -> None:
        """One end of an arrow: its start, a place on the way, or its end."""
        bound = ',"bp":"e"' if step == "f" else ""
        self.put(
            f'{{"ph":"{step}","name":"{kind}","cat":"flow","id":{number},"pid":{track[0]},"tid":{track[1]},'
            f'"ts":{self.micros(at)}{bound}}}'
        )

    def line(self, event: Mapping[str, object], track: Track, at: int | None = None) -> None:
        """Any other event."""
        place = {"pid": track[0], "tid": track[1]}
        self.put(json.dumps({**event, **place, **({} if at is None else {"ts": float(self.micros(at))})}))

    def micros(self, at: int) -> str:
        return f"{max(at - self.began, 0) / 1000:.3f}"

    def put(self, event: str) -> None:
        self.count += 1
        if self.count > 1:
            self.file.write(f",\n{event}")
        else:
            self.file.write(f"[\n{event}")
            self.name_process(DRIVER[0], "driver")
            self.line({"ph": "M", "name": "thread_name", "args": {"name": "driver"}}, DRIVER)


def call_name(call: Call) -> str:
    """What a call is called: by its method if it is a message."""
    return name_of(call.args[0]) if call.method == "tell" and callable(call.args[0]) else call.method


def kind_of(call: Call) -> str:
    return "message" if call.method == "tell" else "call"


@lru_cache(maxsize=4096)
def quoted(name: str) -> str:
    return json.dumps(name)
