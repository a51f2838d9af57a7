"""Evaluation beside training, added to a plan that is there already."""

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
    """The end of a plan that reports."""
    found = [node.op for node in graph.walk(plan.node) if isinstance(node, nodes.ForEach) and isinstance(node.op, CollectMetrics)]
    if not found:
        raise PlanError("train: the plan does not end in ReportMetrics(stream, workers), so there is nothing to look at.")
    return found[-1]


def evaluators_in(plan: Described) -> list[Evaluators]:
    """Who evaluates in a plan."""
    return [node.of for node in graph.walk(plan.node) if isinstance(node, nodes.FromActors) and isinstance(node.of, Evaluators)]


def evaluated(plan: Plan[Metrics], *, every: int, episodes: int = 10) -> Plan[Metrics]:
    """The same plan, and beside it workers of their own that play whole episodes without exploring, once per ``every`` env
    steps, with the weights of the moment. Training goes on meanwhile.

    Law: what the plan trains on stays the same.
    """
    check.instance("evaluated", "plan", plan, Plan, "a plan, such as ReportMetrics(...) or PPO().plan()")
    workers = report_of(plan).workers
    if evaluators_in(plan):
        raise PlanError("evaluated: this plan evaluates already.")
    if any(loss.adapts for loss in workers.spec.losses.values()):
        raise PlanError(
            "evaluated: a policy that adapts to tasks is evaluated all along: its metrics have the return before and after. "
            "Leave out eval_every."
        )
    evaluators = create_evaluation_workers(workers, episodes=episodes, every=every)
    (below,) = plan.node.inputs
    trained: Iter[Reported] = Iter(below)
    sent = trained.for_each(UpdateWeights(workers, evaluators))
    return ReportMetrics(Union(sent, ParallelEvaluations(evaluators).gather_async()), workers)
