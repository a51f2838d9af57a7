"""Metrics of a run: counted where items reach the driver, merged, reported with every item.

The unit of progress is the env step. Statistics of episodes travel beside the rollouts, so reporting never asks a worker or
waits for one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tflow import sentences
from tflow.combinators import check, graph, nodes
from tflow.combinators.actors import Actors
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.errors import PlanError
from tflow.live import Live, Progress
from tflow.rl.data.batch import Batch, MultiBatch, Sampled
from tflow.rl.data.episodes import NONE, Episodes
from tflow.rl.learning.training import TrainStats, UpdateWeights
from tflow.rl.rollout.evaluation import Evaluators, ParallelEvaluations
from tflow.rl.rollout.worker_spec import AnyWorkers
from tflow.types import Frozen, Sends, StatefulLiveOp

if TYPE_CHECKING:
    from tflow.runtime.ledger import Ledger
    from tflow.runtime.stats import Staleness

Reported: TypeAlias = TrainStats | Episodes | Batch[Sampled] | MultiBatch[Sampled, Any]  # Any: whatever the names of the policies
"""Items that ``ReportMetrics`` counts."""
REFRESH_S = 1.0
"""Seconds between refreshes of speeds, times and the ledger, so that reporting costs next to nothing."""


@dataclass(frozen=True)
class Training(Frozen):
    """Statistics of training."""

    rows: int = 0
    """Rows trained on; a replayed row counts each time."""
    updates: int = 0
    skipped: int = 0
    lag_total: int = 0
    steps: int = 0
    """Training steps; each has one lag."""
    worst_lag: int = 0
    latest: Mapping[str, float] = field(default_factory=dict)
    """Latest stats of the losses; with several policies, prefixed by the policy."""
    policies: Mapping[str, int] = field(default_factory=dict)
    """Updates of each policy."""

    def merged(self, later: Training) -> Training:
        """Both, one after the other.

        Law: associative; ``Training()`` is neutral.
        """
        return Training(
            self.rows + later.rows,
            self.updates + later.updates,
            self.skipped + later.skipped,
            self.lag_total + later.lag_total,
            self.steps + later.steps,
            max(self.worst_lag, later.worst_lag),
            {**self.latest, **later.latest},
            {name: self.policies.get(name, 0) + later.policies.get(name, 0) for name in {**self.policies, **later.policies}},
        )

    @staticmethod
    def of(stats: TrainStats) -> Training:
        """One step of training."""
        prefix = "" if stats.policy == "default" else f"{stats.policy}/"
        latest = {f"{prefix}{name}": value for name, value in stats.stats.items()}
        return Training(stats.rows, stats.updates, stats.skipped, stats.lag, 1, stats.lag, latest, {stats.policy: stats.updates})

    @property
    def mean_lag(self) -> float:
        """Mean policy lag: updates between sampling and training."""
        return self.lag_total / self.steps if self.steps else 0.0


@dataclass(frozen=True)
class Speed(Frozen):
    """Throughput and timings, refreshed about once a second."""

    seconds: float = 0.0
    """Seconds since the run started."""
    env_steps_per_s: float = 0.0
    """Over the last second; in the first, since the run started."""
    trained_per_s: float = 0.0
    operators: Mapping[str, float] = field(default_factory=dict)
    """Busy seconds of each operator, summed over shards."""
    staleness: Mapping[str, Staleness] = field(default_factory=dict)
    """Per policy: updates made while rollouts were on their way to the driver."""
    ledger: Ledger | None = None


@dataclass(frozen=True)
class Metrics(Frozen):
    """A snapshot of a run."""

    env_steps: int
    """Env steps sampled by the workers."""
    episodes: Episodes
    training: Training
    speed: Speed
    evaluation: Episodes = NONE
    """The latest evaluation, if the plan evaluates."""
    evaluations: int = 0
    """Number of evaluations."""

    @property
    def mean_return(self) -> float:
        """Mean return over the latest 100 episodes."""
        return self.episodes.mean_return

    @property
    def progress(self) -> int:
        """How far it is: env steps, or updates where nobody samples, as with a dataset."""
        return self.env_steps or self.training.updates

    @property
    def unit(self) -> str:
        """What ``progress`` counts."""
        return "env steps" if self.env_steps or not self.training.updates else "updates"

    def plain(self) -> Metrics:
        """The same as plain numbers: without the running statistics, which are arrays."""
        training = replace(self.training, latest={name: float(value) for name, value in self.training.latest.items()})
        return replace(self, training=training, episodes=self.episodes.plain(), evaluation=self.evaluation.plain())

    def __str__(self) -> str:
        found = self.flat()
        shown = ("env_steps", "episodes", "return", "updates", "lag", "env_steps_per_s")
        return ", ".join(f"{name} {found[name]:,.6g}" for name in shown)

    def flat(self) -> dict[str, float]:
        """All numbers by name, for loggers."""
        found: dict[str, float] = {
            "env_steps": self.env_steps,
            "episodes": self.episodes.count,
            "episodes_discarded": self.episodes.discarded,
            "return": self.episodes.mean_return,
            "return_min": min(self.episodes.returns, default=math.nan),
            "return_max": max(self.episodes.returns, default=math.nan),
            "length": self.episodes.mean_length,
            "truncated": self.episodes.truncated / max(self.episodes.count, 1),
            "trained": self.training.rows,
            "updates": self.training.updates,
            "updates_skipped": self.training.skipped,
            "lag": self.training.mean_lag,
            "worst_lag": self.training.worst_lag,
            "seconds": self.speed.seconds,
            "env_steps_per_s": self.speed.env_steps_per_s,
            "trained_per_s": self.speed.trained_per_s,
        }
        for policy, episodes in {**self.episodes.policies, **self.episodes.phases}.items():
            found |= {f"{policy}/return": episodes.mean_return, f"{policy}/length": episodes.mean_length}
        if len(self.training.policies) > 1:
            found |= {f"{policy}/updates": updates for policy, updates in self.training.policies.items()}
        if self.evaluation.count:
            found |= {
                "evaluation/return": self.evaluation.mean_return,
                "evaluation/length": self.evaluation.mean_length,
                "evaluation/weights_at": self.evaluation.weights_at,
            }
        for policy, staleness in self.speed.staleness.items():
            prefix = "" if policy == "default" else f"{policy}/"
            found |= {f"{prefix}staleness": staleness.mean, f"{prefix}worst_staleness": staleness.worst}
        found |= {f"learner/{name}": value for name, value in self.training.latest.items()}
        return found | {f"busy/{name}": seconds for name, seconds in self.speed.operators.items()}


@dataclass(frozen=True)
class MetricsState:
    """State of ``CollectMetrics``."""

    training: Training = field(default_factory=Training)
    evaluation: Episodes = NONE
    evaluations: int = 0
    speed: Speed = field(default_factory=Speed)
    refreshed_at: float | None = None
    env_steps: int = 0
    trained: int = 0

    def refreshed(self, progress: Progress, workers: Actors[object]) -> MetricsState:
        """The same, or refreshed if that is due."""
        now = progress.now()
        if self.refreshed_at is None or now - self.refreshed_at < REFRESH_S:
            if self.speed.ledger is not None:
                return self
            seconds, steps, rows = progress.seconds(), progress.env_steps(workers), self.training.rows
            # On average since it started: it may be over within a second.
            early = Speed(seconds, steps / seconds, rows / seconds) if seconds else Speed()
            return replace(self, refreshed_at=now if self.refreshed_at is None else self.refreshed_at, speed=early)
        steps, rows, past = progress.env_steps(workers), self.training.rows, now - self.refreshed_at
        busy: dict[str, float] = {}
        staleness: dict[str, Staleness] = {}
        for each in progress.stats().operators:
            if each.busy_s:
                busy[each.operator] = busy.get(each.operator, 0.0) + each.busy_s
            for policy, found in each.staleness.items():
                staleness[policy] = staleness[policy].merged(found) if policy in staleness else found
        per_s = (steps - self.env_steps) / past, (rows - self.trained) / past
        speed = Speed(progress.seconds(), *per_s, busy, staleness, progress.ledger())
        return replace(self, speed=speed, refreshed_at=now, env_steps=steps, trained=rows)


@dataclass(frozen=True)
class CollectMetrics(StatefulLiveOp[object, Metrics, MetricsState]):
    """Yields metrics with every item. Items in actors stay there."""

    opens: ClassVar[bool] = False
    sends: ClassVar[Sends] = {}  # it counts what they made, and tells them nothing
    workers: AnyWorkers

    def init(self) -> MetricsState:
        return MetricsState()

    def step(self, live: Live, state: MetricsState, item: object, /) -> tuple[MetricsState, Metrics]:
        progress = live.progress
        if isinstance(item, TrainStats):
            state = replace(state, training=state.training.merged(Training.of(item)))
        if isinstance(item, Episodes):
            state = replace(state, evaluation=item, evaluations=state.evaluations + 1)
        state = state.refreshed(progress, self.workers)
        episodes = progress.summary(self.workers)
        return state, Metrics(
            progress.env_steps(self.workers),
            episodes if isinstance(episodes, Episodes) else Episodes(),
            state.training,
            state.speed,
            state.evaluation,
            state.evaluations,
        )


class ReportMetrics(Plan[Metrics]):
    """The end of a plan: runs the stream and yields metrics with every item.

    Law: what was sampled and what was trained is counted once, in whatever order items arrive.
    """

    __slots__ = ("evaluators", "report", "workers")
    workers: AnyWorkers
    """Whose policies are trained."""
    evaluators: tuple[Evaluators, ...]
    """Who evaluates them."""
    report: CollectMetrics
    """The operator at the end."""

    def __init__(self, stream: Iter[Reported], workers: AnyWorkers) -> None:
        check.instance("ReportMetrics", "stream", stream, Iter, sentences.DRIVER_STREAM)
        check.instance("ReportMetrics", "workers", workers, AnyWorkers, "what create_rollout_workers returns")
        check_pool(stream.node, workers)
        object.__setattr__(self, "workers", workers)
        object.__setattr__(self, "report", CollectMetrics(workers))
        object.__setattr__(self, "evaluators", evaluators_before(stream.node))
        super().__init__(nodes.ForEach(stream.node, self.report))

    def beside(self, evaluators: Evaluators) -> ReportMetrics:
        """The same plan with evaluators beside it, which get the weights of the moment.

        Law: what the plan trains on stays the same.
        """

        def extended(node: nodes.Node) -> nodes.Node:
            if node.operator is not self.report:
                return node
            sent: Iter[Reported] = Iter(node.inputs[0])
            sent = sent.for_each(UpdateWeights(self.workers, evaluators))
            both = Union(sent, ParallelEvaluations(evaluators).gather_async())
            return node.with_inputs({node.inputs[0]: both.node})

        return self._over(graph.rewritten(self.node, extended), evaluators=(*self.evaluators, evaluators))


def check_pool(sink: nodes.Node, workers: AnyWorkers) -> None:
    """Raise if all rollouts of a plan are sampled by other workers than those that it reports on, and so trains."""
    pools = {source.of for source in graph.walk(sink) if isinstance(source, nodes.FromActors)}
    sampling = {pool for pool in pools if isinstance(pool, AnyWorkers) and not isinstance(pool, Evaluators)}
    if sampling and workers not in sampling and not workers.spec.stands_in:
        others = sorted(pool.name for pool in sampling)
        given = sentences.called_beside(workers.name, others) if workers.name in others else f"other workers, {workers.name},"
        raise PlanError(
            f"ReportMetrics: the rollouts of this plan are sampled by {' and '.join(others)}, but it reports on {given} "
            "which sample nothing. Name the same workers in all places."
        )


def evaluators_before(sink: nodes.Node) -> tuple[Evaluators, ...]:
    """The evaluation workers of a plan. Some operator must send them weights."""
    order = graph.walk(sink)
    found = dict.fromkeys(actors for node in order for actors in node.actors if isinstance(actors, Evaluators))
    told = {actors for node in order for actors in node.sends_to}
    for evaluators in found:
        if evaluators not in told:
            raise PlanError(
                f"ReportMetrics: nobody sends weights to {evaluators.name}, so the initial weights would be evaluated for ever. "
                "Put for_each(UpdateWeights(workers, evaluators)) after the training step."
            )
    return tuple(found)
