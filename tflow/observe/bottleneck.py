"""Where the time of a run goes, and what it waits for, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tflow.drawing.chart import short as number
from tflow.drawing.model import DrawnEdge, Graph
from tflow.observe.kept import KeptRun
from tflow.observe.view import short

BUSY = 0.5
"""From here on, something that works beside other things holds them up."""
LEAST = 0.005
"""What takes less of the time is not worth a line."""


@dataclass(frozen=True)
class Work:
    """What an operator did."""

    position: int
    label: str
    place: str
    """Where: the driver, the actors of a pool, or one actor."""
    actors: int
    """How many work side by side there."""
    busy_s: float
    share: float
    """Of the time that the place had."""


@dataclass(frozen=True)
class Times:
    """The time of a run."""

    seconds: float
    """Since its actors were made."""
    side_by_side: bool
    """Actors have processes of their own."""
    works: tuple[Work, ...]
    waited: float
    """The share of the time in which the driver waited."""

    def by_place(self) -> dict[str, list[Work]]:
        """What was done where, the busiest first."""
        places: dict[str, list[Work]] = {}
        for work in sorted(self.works, key=lambda each: -each.busy_s):
            places.setdefault(work.place, []).append(work)
        return dict(sorted(places.items(), key=lambda each: -sum(work.share for work in each[1])))


def times_of(run: KeptRun) -> Times | None:
    """Where the time of a run went; None if it was not measured."""
    stats = run.stats
    seconds, operators = (stats.get("seconds") or 0.0) - stats.get("starting_s", 0.0), stats.get("operators", [])
    if seconds <= 0 or not operators:
        return None
    beside = run.status.get("runtime") == "RayRuntime"
    works = tuple(_work(each, run, seconds, beside=beside) for each in operators if each["busy_s"] > 0)
    return Times(seconds, beside, works, min(1.0, run.stats.get("waited_s", 0.0) / seconds))


def _work(found: Mapping[str, Any], run: KeptRun, seconds: float, *, beside: bool) -> Work:  # Any: JSON
    position = found["position"]
    places = run.plan.get("places", [])
    place: Mapping[str, Any] = places[position] if position < len(places) else {"in": [], "actors": 0}  # Any: JSON
    count = max(int(place["actors"]), 1)
    share = found["busy_s"] / (seconds * (count if beside else 1))
    return Work(position, str(found["operator"]), ", ".join(place["in"]) or "driver", count, found["busy_s"], min(share, 1.0))


def verdict(times: Times) -> str:
    """What a run waits for, in a sentence."""
    if not times.works:
        return "Nothing took long enough to be measured."
    places = {place: sum(each.share for each in works) for place, works in times.by_place().items()}
    first = next(iter(times.by_place().values()))[0]
    if not times.side_by_side:
        most = max(times.works, key=lambda each: each.busy_s)
        return f"{short(most.label)} takes {most.share:.0%} of the time, more than anything else. {advice(most, beside=False)}"
    place, share = next(iter(places.items()))
    others = [f"{other} {each:.0%}" for other, each in places.items() if other != place]
    beside = f" ({', '.join(others)})" if others else ""
    if share < BUSY:
        return (
            f"Nothing is busy all the time: the most is {named(first)} with {share:.0%}{beside}. Calls wait for each other; more "
            "calls in flight, or more work per call, would help."
        )
    busy = f"busy {share:.0%} of the time{beside}, most of it in {short(first.label)}"
    return f"The bottleneck is {named(first)}, {busy}. {advice(first)}"


def named(work: Work) -> str:
    if work.place == "driver":
        return "the driver"
    return f"{work.place}, {work.actors} actors" if work.actors > 1 else work.place


def advice(work: Work, *, beside: bool = True) -> str:
    """What would make it faster."""
    label = work.label
    if "Evaluation" in label:
        return "Evaluate less often (--eval-every), or on fewer episodes (--eval-episodes)."
    if "Rollouts" in label:
        return (
            "More workers (--workers) or more envs per worker (--num-envs) would help."
            if beside
            else "Everything is in one process here; with --runtime ray workers sample side by side."
        )
    if "Train" in label or "Learn" in label or "Gradients" in label:
        return "Larger minibatches, fewer epochs or a smaller network would help; more workers would not."
    return ""


def annotated(run: KeptRun) -> Graph | None:
    """The plan as it was drawn, with what was measured in it; None if it was not."""
    graph, times = run.graph, times_of(run)
    if graph is None or times is None:
        return graph
    measured = {each["position"]: each for each in run.stats["operators"]}
    shares = {each.position: each.share for each in times.works}
    nodes = tuple(
        replace(
            node,
            label="\n".join([node.label, *notes(measured.get(node.id), shares.get(node.id, 0.0))]),
            share=shown(shares, node.id),
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, edges=tuple(_rated(edge, measured, times.seconds) for edge in graph.edges))


def shown(shares: Mapping[int, float], position: int) -> float:
    """The share of an operator, if it is worth a bar."""
    share = shares.get(position, 0.0)
    return share if share >= LEAST else 0.0


def notes(found: Mapping[str, Any] | None, share: float) -> list[str]:  # Any: JSON
    """What is said of an operator in its box."""
    if found is None:
        return []
    lines = [f"{share:.0%} busy"] if share >= LEAST else []
    if found.get("queued_most"):
        lines.append(f"holds {number(round(found['queued_mean'], 1))}, most {found['queued_most']}")
    for policy, stale in found.get("staleness", {}).items():
        name = "" if policy == "default" else f" {policy}"
        lines.append(f"stale{name} {number(round(stale['mean'], 1))}, most {stale['worst']}")
    return lines


def _rated(edge: DrawnEdge, measured: Mapping[int, Mapping[str, Any]], seconds: float) -> DrawnEdge:  # Any: JSON
    found = measured.get(edge.source)
    if not edge.is_flow or found is None:
        return edge
    return replace(edge, shown=f"{edge.shown}\n{number(found['shown'] / seconds, 3)}/s")
