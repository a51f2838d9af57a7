"""The traces in a run folder: ``trace.json``, and ``trace-2.json`` and so on if the run was resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tflow.algos.training_run import Callback, Stop, TrainingRun
from tflow.errors import PlanError
from tflow.rl.metrics import Metrics

STEM = "trace"
Event = dict[str, Any]  # Any: JSON
NAMED = 4
"""How much of what a track did is told."""


class EndsAfter(Callback):
    """Ends a run so many seconds after its first report: starting may take longer than what is to be traced."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        if run.stop is None:
            ends_at = metrics.speed.seconds + self.seconds
            run.stop = Stop(seconds=ends_at)
            run.run.limit(ends_at)


def traces_in(folder: Path) -> list[Path]:
    """The traces of a run, in order."""
    found, number = [], 1
    while (path := _numbered(folder, number)).exists():
        found.append(path)
        number += 1
    return found


def next_trace(folder: Path) -> Path:
    """The file for the next one."""
    return _numbered(folder, len(traces_in(folder)) + 1)


def _numbered(folder: Path, number: int) -> Path:
    return folder / (f"{STEM}.json" if number == 1 else f"{STEM}-{number}.json")


def read_trace(path: Path) -> tuple[list[Event], bool]:
    """The events of a trace, and whether it was whole. One whose process was killed has no end, and perhaps half an event."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(f"Cannot read {str(path)!r}: {error.strerror}.") from None
    try:
        found = json.loads(text)
    except ValueError:
        return list(_whole_lines(text)), False
    return _events(path, found), True


def _whole_lines(text: str) -> Iterator[Event]:
    """The events of a trace without an end: one in each line, up to the first that is none."""
    for line in text.splitlines()[1:]:
        try:
            event = json.loads(line.removesuffix(","))
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        yield event


def _events(path: Path, found: object) -> list[Event]:
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list) or not all(isinstance(each, dict) for each in events):
        raise PlanError(f"{path} is no trace: it is no list of events.")
    return events


def mend(path: Path, events: Sequence[Event]) -> None:
    """Write a trace as a whole."""
    aside = path.with_name(f".{path.name}")
    aside.write_text("[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n", encoding="utf-8")
    aside.replace(path)


def told(events: Sequence[Event]) -> Iterator[str]:
    """What each track did most, in a line."""
    slices = [each for each in events if each.get("ph") == "X"]
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in events if each.get("name") == "thread_name"}
    if not slices:
        yield "Nothing was traced."
        return
    first, last = min(each["ts"] for each in slices), max(each["ts"] + each["dur"] for each in slices)
    yield f"{len(events):,} events in {(last - first) / 1e6:.1f} s."
    for track in sorted(names):
        own = [each for each in slices if (each["pid"], each["tid"]) == track]
        spent: dict[str, float] = {}
        for each in own:
            if each.get("cat") != "call":  # what runs in a call is told by itself
                name = "sending" if each.get("cat") == "send" else "waiting" if each["name"] == "wait" else each["name"]
                spent[name] = spent.get(name, 0.0) + each["dur"]
        most = sorted(spent.items(), key=lambda item: -item[1])[:NAMED]
        whole = max(last - first, 1e-9)
        yield f"  {names[track]}: " + (", ".join(f"{name} {took / whole:.0%}" for name, took in most) or "nothing")
