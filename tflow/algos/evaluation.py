"""Evaluation beside training, added to a plan that is there already."""

from __future__ import annotations

from tflow.combinators import check
from tflow.combinators.runnable import Described, Plan
from tflow.errors import PlanError
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.evaluation import create_evaluation_workers


def reporting(plan: Described) -> ReportMetrics:
    """A plan that reports, and so knows its workers."""
    if not isinstance(plan, ReportMetrics):
        raise PlanError("train: the plan does not end in ReportMetrics(stream, workers), so there is nothing to look at.")
    return plan


def evaluated(plan: Plan[Metrics], *, every: int, episodes: int = 10) -> ReportMetrics:
    """The same plan, and beside it workers of their own that play whole episodes without exploring, once per ``every`` env
    steps, with the weights of the moment. Training goes on meanwhile.

    Law: what the plan trains on stays the same.
    """
    check.instance("evaluated", "plan", plan, Plan, "a plan, such as ReportMetrics(...) or PPO().plan()")
    reports = reporting(plan)
    if reports.evaluators:
        raise PlanError("evaluated: this plan evaluates already.")
    if any(loss.adapts for loss in reports.workers.spec.losses.values()):
        raise PlanError(
            "evaluated: a policy that adapts to tasks is evaluated all along: its metrics have the return before and after. "
            "Leave out eval_every."
        )
    return reports.beside(create_evaluation_workers(reports.workers, episodes=episodes, every=every))
