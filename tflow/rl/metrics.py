"""What is known about a run, as values: counted where items reach the driver, merged, reported with every item.

The unit of progress is the env step. Statistics of episodes travel beside the rollouts, so reporting never asks a worker or
waits for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tflow import sentences
from tflow.combinators import check, graph, nodes
from tflow.combinators.actors import Actors
from tflow.combinators.runnable import Plan
from tflow.combinators.stream import Iter
from tflow.errors import PlanError
from tflow.live import Live, Progress
from tflow.rl.data.batch import Batch, MultiBatch, Sampled
from tflow.rl.data.episodes import NONE, Episodes
from tflow.rl.learning.training import TrainStats
from tflow.rl.rollout.evaluation import Evaluators
from tflow.rl.rollout.worker_spec import AnyWorkers
from tflow.types import Frozen, Sends, StatefulLiveOp

if TYPE_CHECKING:
    from tflow.runtime.ledger import Ledger
    from tflow.runtime.stats import Staleness

Reported: TypeAlias = TrainStats | Episodes | Batch[Sampled] | MultiBatch[Sampled, Any]  # Any: whatever the names of the policies
"""What a report counts."""
REFRESH_S = 1.0
"""How often speeds, times and the ledger are looked at: reporting itself is to cost nothing."""


@dataclass(frozen=True)
class Training(Frozen):
    """What learners have done."""

    rows: int = 0
    """Rows learned from; a row that is replayed counts each time."""
    updates: int = 0
    skipped: int = 0
    lag_total: int = 0
    steps: int = 0
    """Steps of training; each has one lag."""
    worst_lag: int = 0
    latest: Mapping[str, float] = field(default_factory=dict)
    """What losses reported last; with several policies, behind the name of the policy."""
    policies: Mapping[str, int] = field(default_factory=dict)
    """The updates of each policy."""

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
        """How many updates lay between sampling and learning, on average."""
        return self.lag_total / self.steps if self.steps else 0.0


@dataclass(frozen=True)
class Speed(Frozen):
    """What is looked at now and then."""

    seconds: float = 0.0
    """Since the run began."""
    env_steps_per_s: float = 0.0
    """Of late."""
    trained_per_s: float = 0.0
    operators: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each operator was busy, all shards together."""
    staleness: Mapping[str, Staleness] = field(default_factory=dict)
    """Per policy: how many updates were made while rollouts were on their way to the driver."""
    ledger: Ledger | None = None


@dataclass(frozen=True)
class Metrics(Frozen):
    """A run at one moment."""

    env_steps: int
    """Sampled by the workers."""
    episodes: Episodes
    training: Training
    speed: Speed
    evaluation: Episodes = NONE
    """The latest evaluation, if the plan makes any."""
    evaluations: int = 0
    """How many there were."""

    @property
    def mean_return(self) -> float:
        """Over the latest episodes."""
        return self.episodes.mean_return

    def __str__(self) -> str:
        found = self.flat()
        shown = ("env_steps", "episodes", "return", "updates", "lag", "env_steps_per_s")
        return ", ".join(f"{name} {found[name]:,.6g}" for name in shown)

    def flat(self) -> dict[str, float]:
        """All numbers by name, for loggers."""
        found: dict[str, float] = {
            "env_steps": self.env_steps,
            "episodes": self.episodes.count,
            "episodes_lost": self.episodes.lost,
            "return": self.episodes.mean_return,
            "length": self.episodes.mean_length,
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
class Watch:
    """What the reporter remembers."""

    training: Training = field(default_factory=Training)
    evaluation: Episodes = NONE
    evaluations: int = 0
    speed: Speed = field(default_factory=Speed)
    began: float = -1.0
    looked: float = 0.0
    env_steps: int = 0
    trained: int = 0

    def looking(self, progress: Progress, workers: Actors[object]) -> Watch:
        """As before, or refreshed if it is time."""
        now = progress.now()
        if self.began < 0:
            return replace(self, began=now, looked=now)
        if now - self.looked < REFRESH_S:
            return self
        steps, rows, past = progress.env_steps(workers), self.training.rows, now - self.looked
        busy: dict[str, float] = {}
        staleness: dict[str, Staleness] = {}
        for each in progress.stats().operators:
            if each.busy_s:
                busy[each.operator] = busy.get(each.operator, 0.0) + each.busy_s
            for policy, found in each.staleness.items():
                staleness[policy] = staleness[policy].merged(found) if policy in staleness else found
        per_s = (steps - self.env_steps) / past, (rows - self.trained) / past
        speed = Speed(now - self.began, *per_s, busy, staleness, progress.ledger())
        return replace(self, speed=speed, looked=now, env_steps=steps, trained=rows)


@dataclass(frozen=True)
class Report(StatefulLiveOp[object, Metrics, Watch]):
    """Says how far the run is, with every item. Items that are elsewhere stay there."""

    opens: ClassVar[bool] = False
    sends: ClassVar[Sends] = {}  # it counts what they made, and tells them nothing
    workers: AnyWorkers

    def init(self) -> Watch:
        return Watch()

    def step(self, live: Live, state: Watch, item: object, /) -> tuple[Watch, Metrics]:
        progress = live.progress
        if isinstance(item, TrainStats):
            state = replace(state, training=state.training.merged(Training.of(item)))
        if isinstance(item, Episodes):
            state = replace(state, evaluation=item, evaluations=state.evaluations + 1)
        state = state.looking(progress, self.workers)
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
    """The end of a plan: runs the stream and yields metrics, one value per item.

    Law: what was sampled and what was trained is counted once, in whatever order items arrive.
    """

    __slots__ = ()

    def __init__(self, stream: Iter[Reported], workers: AnyWorkers) -> None:
        check.instance("ReportMetrics", "stream", stream, Iter, sentences.DRIVER_STREAM)
        check.instance("ReportMetrics", "workers", workers, AnyWorkers, "what create_rollout_workers returns")
        check_evaluators(stream.node)
        super().__init__(nodes.ForEach(stream.node, Report(workers)))


def check_evaluators(sink: nodes.Node) -> None:
    """Somebody must send weights to those who evaluate."""
    order = graph.walk(sink)
    told = {other for each in order if isinstance(each, nodes.ForEach) for other in getattr(each.op, "others", ())}
    for node in order:
        if isinstance(node, nodes.FromActors) and isinstance(node.of, Evaluators) and node.of not in told:
            raise PlanError(
                f"ReportMetrics: nobody sends weights to {node.of.name}, so the first policy would be evaluated for ever. Put "
                "for_each(UpdateWeights(workers, evaluators)) behind what trains."
            )
