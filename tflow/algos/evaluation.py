"""Adds evaluation to an existing plan."""

from __future__ import annotations

from tflow.combinators import check
from tflow.combinators.runnable import Described, Plan
from tflow.errors import PlanError
from tflow.rl.metrics import Metrics, ReportMetrics
from tflow.rl.rollout.evaluation import create_evaluation_workers


def reporting(plan: Described) -> ReportMetrics:
    """The plan as one that ends in ``ReportMetrics`` and so knows its workers."""
    if not isinstance(plan, ReportMetrics):
        raise PlanError("train: the plan does not end in ReportMetrics(stream, workers), so there are no metrics.")
    return plan


def with_evaluation(plan: Plan[Metrics], *, every: int, episodes: int = 10) -> ReportMetrics:
    """The same plan with evaluation alongside training: workers of their own play whole episodes without exploration, with the
    current weights.

    Args:
        plan: A plan that ends in ``ReportMetrics``.
        every: Env steps between evaluations, or updates where nobody samples.
        episodes: Episodes per evaluation.

    Law: what the plan trains on stays the same.
    """
    check.instance("with_evaluation", "plan", plan, Plan, "a plan, such as ReportMetrics(...) or PPO().plan()")
    reports = reporting(plan)
    if reports.evaluators:
        raise PlanError("with_evaluation: this plan evaluates already.")
    if any(loss.adapts for loss in reports.workers.spec.losses.values()):
        raise PlanError(
            "with_evaluation: MAML needs no evaluation: its metrics have the return before and after adaptation. "
            "Leave out eval_every."
        )
    return reports.beside(create_evaluation_workers(reports.workers, episodes=episodes, every=every))
