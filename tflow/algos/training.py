"""Running a plan until it is good enough: what ``PPO(...).run(stop=...)`` gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tflow.combinators import check, graph, nodes
from tflow.combinators.runnable import Plan
from tflow.errors import PlanError, TflowError
from tflow.rl.episodes import WINDOW
from tflow.rl.metrics import Metrics, Report
from tflow.rl.workers import AnyWorkers

if TYPE_CHECKING:
    from tflow.rl.policy import Policy
    from tflow.runtime.base import Runtime
    from tflow.runtime.executor import Run


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When training is over: as soon as a report shows that one of these is reached. What is None never is."""

    env_steps: int | None = None
    """Env steps of all workers."""
    mean_return: float | None = None
    """The mean return of the latest ``episodes`` episodes; with several policies, that of each."""
    episodes: int = WINDOW
    """How many episodes must have ended, and count, for ``mean_return``."""
    updates: int | None = None
    """Updates of the weights."""
    seconds: float | None = None
    """Seconds since the first report, looked at about once a second."""

    def __post_init__(self) -> None:
        for name in ("env_steps", "updates"):
            if getattr(self, name) is not None:
                check.whole("Stop", name, getattr(self, name), least=1)
        wanted: object = self.mean_return
        if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, (int, float))):
            raise PlanError(f"Stop: mean_return must be a number, got {wanted!r}.")
        check.whole("Stop", "episodes", self.episodes, least=1, most=WINDOW)
        if self.seconds is not None:
            check.positive("Stop", "seconds", self.seconds)

    def __call__(self, metrics: Metrics) -> bool:
        """True if it is over."""
        return (
            (self.env_steps is not None and metrics.env_steps >= self.env_steps)
            or (self.updates is not None and metrics.training.updates >= self.updates)
            or (self.seconds is not None and metrics.speed.seconds >= self.seconds)
            or (self.mean_return is not None and self._good(metrics, self.mean_return))
        )

    def _good(self, metrics: Metrics, wanted: float) -> bool:
        counted = [each.returns[-self.episodes :] for each in metrics.episodes.policies.values() or (metrics.episodes,)]
        return all(len(returns) == self.episodes and sum(returns) / len(returns) >= wanted for returns in counted)


class TrainingRun:
    """A plan being trained. Iterate over it for ``Metrics``; ``policy()`` is what has been learned so far, also afterwards.

    It is a context manager: leaving it, or the end, lets go of all workers. What was learned stays.
    """

    def __init__(self, run: Run[Metrics], workers: AnyWorkers, stop: Callable[[Metrics], bool] | None) -> None:
        self.run = run
        """The run itself: its ``stats()`` and ``ledger``, and ``ask`` for what actors know."""
        self.workers = workers
        """The rollout workers, as the plan describes them."""
        self.metrics: Metrics | None = None
        """The latest."""
        self._stop = stop
        self._over = False

    def __iter__(self) -> Iterator[Metrics]:
        return self

    def __next__(self) -> Metrics:
        if self._over:
            raise StopIteration
        try:
            self.metrics = next(self.run)
            if self._stop is not None and self._stop(self.metrics):
                self.close()
        except StopIteration:
            self._over = True
            raise
        except BaseException:  # a stop function of the user's, too
            self.close()
            raise
        return self.metrics

    def finish(self) -> Metrics:
        """Train until it is over; the last metrics."""
        for _ in self:
            pass
        if self.metrics is None:
            raise TflowError("The plan ended before it reported anything.")
        return self.metrics

    def policy(self, name: str | None = None) -> Policy:
        """What has been learned so far, as a copy; ``name`` says which policy, if there are several. Of a learner elsewhere: the
        weights that it sent last."""
        return self.workers.policy(self.run, name)

    def close(self) -> None:
        """Let go of everything but what was learned."""
        self._over = True
        self.run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def train(
    plan: Plan[Metrics],
    *,
    stop: Stop | Callable[[Metrics], bool] | None = None,
    runtime: Runtime | None = None,
    seed: int = 0,
) -> TrainingRun:
    """Run any plan that ends in ``ReportMetrics`` as algorithms run theirs."""
    check.instance("train", "plan", plan, Plan, "a plan, such as ReportMetrics(...) or PPO().plan()")
    if stop is not None and not callable(stop):
        raise PlanError(f"train: stop must be a Stop such as Stop(env_steps=100_000), or a function of metrics; got {stop!r}.")
    found = [node.op for node in graph.walk(plan.node) if isinstance(node, nodes.ForEach) and isinstance(node.op, Report)]
    if not found:
        raise PlanError("train: the plan does not end in ReportMetrics(stream, workers), so there is nothing to look at.")
    return TrainingRun(plan.run(runtime=runtime, seed=seed), found[0].workers, stop)
