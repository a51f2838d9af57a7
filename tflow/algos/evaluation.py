"""Adds evaluation to an existing plan."""

from __future__ import annotations

from tflow.combinators import check, graph, nodes
from tflow.combinators.runnable import Described, Plan
from tflow.combinators.stream import Iter
from tflow.combinators.union import Union
from tflow.errors import PlanError
from tflow.rl.learning.training import UpdateWeights
from tflow.rl.metrics import CollectMetrics, Metrics, Reported, ReportMetrics
from tflow.rl.rollout.evaluation import Evaluators, ParallelEvaluations, create_evaluation_workers


def report_of(plan: Described) -> CollectMetrics:
    """The ``CollectMetrics`` at the end of a plan."""
    found = [node.op for node in graph.walk(plan.node) if isinstance(node, nodes.ForEach) and isinstance(node.op, CollectMetrics)]
    if not found:
        raise PlanError("train: the plan does not end in ReportMetrics(stream, workers), so there are no metrics.")
    return found[-1]


def evaluators_in(plan: Described) -> list[Evaluators]:
    """The evaluation workers of a plan."""
    return [node.of for node in graph.walk(plan.node) if isinstance(node, nodes.FromActors) and isinstance(node.of, Evaluators)]


def with_evaluation(plan: Plan[Metrics], *, every: int, episodes: int = 10) -> Plan[Metrics]:
    """The same plan with evaluation alongside training: workers of their own play whole episodes without exploration, with the
    current weights.

    Args:
        plan: A plan that ends in ``ReportMetrics``.
        every: Env steps between evaluations.
        episodes: Episodes per evaluation.

    Law: what the plan trains on stays the same.
    """
    check.instance("with_evaluation", "plan", plan, Plan, "a plan, such as ReportMetrics(...) or PPO().plan()")
    workers = report_of(plan).workers
    if evaluators_in(plan):
        raise PlanError("with_evaluation: this plan evaluates already.")
    if any(loss.adapts for loss in workers.spec.losses.values()):
        raise PlanError(
            "with_evaluation: MAML needs no evaluation: its metrics have the return before and after adaptation. "
            "Leave out eval_every."
        )
    evaluators = create_evaluation_workers(workers, episodes=episodes, every=every)
    (below,) = plan.node.inputs
    trained: Iter[Reported] = Iter(below)
    sent = trained.for_each(UpdateWeights(workers, evaluators))
    return ReportMetrics(Union(sent, ParallelEvaluations(evaluators).gather_async()), workers)
