"""Plans for these tests, and edits as editors make them."""

from __future__ import annotations

from collections.abc import Iterable

from tflow.checking.lsp.views import Change

IMPORTS = """\
from tflow import (
    ApplyGradients,
    ComputeGradients,
    Iter,
    Metrics,
    ParallelRollouts,
    Plan,
    ReportMetrics,
    TrainOneStep,
    Union,
    create_rollout_workers,
    flow,
)
from tflow.losses import A3CLoss, PPOLoss


"""
A3C = (
    IMPORTS
    + """\
@flow
def a3c() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
    rollouts = ParallelRollouts(workers)
    gradients = (
        rollouts
        .par_for_each(ComputeGradients())
        .gather_async()
    )
    applied = gradients.for_each(ApplyGradients(workers))
    return ReportMetrics(applied, workers)
"""
)


def applied(text: str, changes: Iterable[Change]) -> str:
    """The text after all changes, which count from the text before."""
    lines = text.split("\n")
    starts = [0]
    for each in lines:
        starts.append(starts[-1] + len(each) + 1)
    for change in sorted(changes, key=lambda change: change.span.start, reverse=True):
        (line, column), (end_line, end_column) = change.span.start, change.span.end
        text = text[: starts[line] + column] + change.text + text[starts[end_line] + end_column :]
    return text
