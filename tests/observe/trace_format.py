"""The trace event format, as far as our traces use it, checked to the letter: what is wrong with a file is an assertion error.

After "Trace Event Format" (Chromium's document) and what Perfetto's importer wants of flows.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

Event = dict[str, Any]  # Any: JSON
Track = tuple[int, int]
REQUIRED = {
    "X": {"name", "cat", "ts", "dur"},
    "M": {"name", "args"},
    "C": {"name", "ts", "args"},
    "i": {"name", "ts", "s"},
    "s": {"name", "cat", "id", "ts"},
    "t": {"name", "cat", "id", "ts"},
    "f": {"name", "cat", "id", "ts"},
}
METADATA = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index"}
ROUNDING = 0.0015
"""Times are written in microseconds with three digits."""


def check_trace(text: str) -> list[Event]:
    """The events of a trace that is right."""
    found = json.loads(text, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))
    assert isinstance(found, list)
    for event in found:
        check_event(event)
    check_names(found)
    slices = check_nesting(found)
    check_flows(found, slices)
    return found


def check_event(event: Event) -> None:
    kind = event["ph"]
    assert REQUIRED[kind] <= event.keys(), event
    assert isinstance(event["name"], str)
    assert event["name"]
    for place in ("pid", "tid"):
        assert isinstance(event[place], int)
        assert event[place] >= 0
    for time in ("ts", "dur"):
        if time in REQUIRED[kind]:
            assert type(event[time]) in (int, float), event
            assert event[time] >= 0, event
    if kind == "M":
        assert METADATA[event["name"]] in event["args"], event
    if kind == "C":
        assert event["args"]
        assert all(type(value) in (int, float) for value in event["args"].values())
    if kind == "i":
        assert event["s"] in ("g", "p", "t")
    if kind == "f":
        assert event["bp"] == "e", "else it would be bound to the next slice"


def check_names(events: list[Event]) -> None:
    """Every process and every thread that does something has a name, and one only."""
    processes = [event["pid"] for event in events if event["name"] == "process_name"]
    threads = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    assert len(processes) == len(set(processes))
    assert len(threads) == len(set(threads))
    used = {(event["pid"], event["tid"]) for event in events if event["ph"] != "M"}
    assert used <= set(threads)
    assert {pid for pid, _ in threads} == set(processes)


def check_nesting(events: list[Event]) -> dict[Track, list[tuple[float, float]]]:
    """Slices of a track lie inside each other or apart. Returns from when to when they are."""
    found: dict[Track, list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "X":
            found.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for slices in found.values():
        open_: list[float] = []
        for began, ended in sorted(slices, key=lambda each: (each[0], -each[1])):
            while open_ and open_[-1] <= began + ROUNDING:
                open_.pop()
            assert not open_ or ended <= open_[-1] + ROUNDING, f"a slice from {began} to {ended} goes beyond the one around it"
            open_.append(ended)
    return found


def check_flows(events: list[Event], slices: dict[Track, list[tuple[float, float]]]) -> None:
    """An arrow begins once, goes forward in time, ends at most once, and is bound to a slice at each place."""
    steps = sorted((event for event in events if event["ph"] in "stf"), key=lambda event: (event["id"], event["ts"]))
    for number, flow in groupby(steps, key=lambda event: event["id"]):
        ordered = sorted(flow, key=lambda event: (event["ts"], "stf".index(event["ph"])))
        kinds = "".join(event["ph"] for event in ordered)
        assert kinds in ("s", "st", "sf", "stf"), f"flow {number}: {kinds}"
        assert len({(event["name"], event["cat"]) for event in ordered}) == 1
        for event in ordered:
            around = slices.get((event["pid"], event["tid"]), [])
            assert any(began - ROUNDING <= event["ts"] <= ended + ROUNDING for began, ended in around), event
