"""What a run folder keeps of the plan at work, for reports: the drawing as data, and what each operator did.

``plan.json`` is written once: the drawing, where each operator runs, and the settings beside their defaults. ``stats.json`` is
written with ``run.json``: items, busy time, queues and staleness by operator, the ledger, and who died.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tflow.algos.algorithm import Algorithm
from tflow.algos.training_run import TrainingRun
from tflow.combinators import graph, nodes
from tflow.drawing.model import Graph
from tflow.settings.fields import described
from tflow.settings.run import RunSettings
from tflow.settings.values import shown

PLAN, STATS = "plan.json", "stats.json"
Facts = dict[str, Any]  # Any: JSON


def described_plan(run: TrainingRun, drawing: Graph) -> Facts:
    """The plan of a run and its settings."""
    order = graph.walk(run.run.plan.node)
    return {
        "title": drawing.title,
        "nodes": [dataclasses.asdict(node) for node in drawing.nodes],
        "edges": [dataclasses.asdict(edge) for edge in drawing.edges],
        "places": [place_of(node) for node in order],
        "settings": [] if run.algorithm is None else list(settings_of(run.algorithm)),
        "run": [] if run.algorithm is None else list(settings_of(RunSettings.of(run))),
    }


def place_of(node: nodes.Node) -> Facts:
    """Where an operator works: in the driver, or in so many actors of these pools."""
    if node.host is not None:
        return {"in": [node.host.name], "actors": 1}
    pools = dict.fromkeys(source.of for source in graph.par_sources(node)) if node.parallel else {}
    return {"in": [actors.name for actors in pools], "actors": sum(actors.num for actors in pools)}


def settings_of(config: object, prefix: str = "") -> Iterator[Facts]:
    """The fields of a configuration as text, those of configurations inside it by ``name.field``."""
    defaults = {each.name: default_of(each) for each in dataclasses.fields(config)}  # type: ignore[arg-type]  # they are dataclasses
    for name, value, meaning in described(config):
        if isinstance(value, Algorithm):
            yield from settings_of(value, f"{prefix}{name}.")
        else:
            none = defaults[name] is dataclasses.MISSING or (isinstance(defaults[name], str) and not defaults[name])
            default = None if none else in_words(defaults[name])
            yield {"name": f"{prefix}{name}", "value": in_words(value), "default": default, "meaning": meaning}


def default_of(field: dataclasses.Field[object]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def in_words(value: object) -> str:
    """A value as one types it."""
    return "none" if value is None else shown(value) or " ".join(repr(value).split())


class Meter:
    """Looks at the operators of a run now and then.

    Args:
        deaths: Those of the run before it was resumed.
    """

    def __init__(self, deaths: Iterable[Facts] = ()) -> None:
        self.looks = 0
        self.queued: dict[int, int] = {}
        """Items that each operator held back, summed over all looks."""
        self.most: dict[int, int] = {}
        self.earlier = list(deaths)

    def see(self, run: TrainingRun) -> None:
        """Note how long the queues are right now."""
        self.looks += 1
        for each in run.run.stats().operators:
            self.queued[each.position] = self.queued.get(each.position, 0) + each.queued
            self.most[each.position] = max(self.most.get(each.position, 0), each.queued)

    def deaths(self, run: TrainingRun) -> list[Facts]:
        """All deaths so far."""
        return [*self.earlier, *map(dataclasses.asdict, run.run.deaths)]

    def measured(self, run: TrainingRun) -> Facts:
        """All that was measured so far."""
        stats, ledger = run.run.stats(), run.run.ledger
        operators = [
            {
                **dataclasses.asdict(each),
                "staleness": {
                    policy: {"items": s.items, "mean": s.mean, "worst": s.worst} for policy, s in each.staleness.items()
                },
                "queued_mean": self.queued.get(each.position, 0) / max(self.looks, 1),
                "queued_most": self.most.get(each.position, 0),
            }
            for each in stats.operators
        ]
        return {
            "seconds": run.run.seconds,
            "starting_s": run.run.starting_s,
            "waited_s": stats.waited_s,
            "env_steps": stats.env_steps,
            "operators": operators,
            "ledger": {"calls": ledger.calls._asdict(), "items": items_of(ledger.items)},
            "deaths": self.deaths(run),
        }


def items_of(items: Any) -> Facts:  # Any: the ledger's, which is of the runtime
    """Where the items are, with those that were dropped by reason."""
    found: Mapping[str, object] = items._asdict()
    return {**found, "dropped": dict(items.dropped)}
