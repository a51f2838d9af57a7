"""What messages propose, as edits: each is applied, and checked again. The finding is gone, and no other has come."""

from __future__ import annotations

import pytest

from tests.checking.lsp.conftest import Check
from tests.checking.lsp.support import A3C, IMPORTS, applied

HEAD = IMPORTS + "@flow\ndef plan() -> Plan[Metrics]:\n"
WORKERS = '    workers = create_rollout_workers(env="CartPole-v1", loss={})\n'
PPO = HEAD + WORKERS.format("PPOLoss()")
A = HEAD + WORKERS.format("A3CLoss()")
TRAINED = "    return ReportMetrics(trained, workers)\n"
MULTI = (
    IMPORTS
    + """\
from tflow import Select
from tflow.losses import DQNLoss


@flow
def plan() -> Iter[object]:
    workers = create_rollout_workers(
        env="CartPole-v1", losses={"ppo": PPOLoss(), "dqn": DQNLoss()}, policy_of=lambda agent: "ppo"
    )
    return Select(ParallelRollouts(workers).gather_sync(), policy="ppo")
"""
)
FLOW = IMPORTS + "@flow\ndef scores(rewards: Iter[float]) -> Iter[float]:\n"


CASES = {
    "columns": (
        PPO + "    trained = ParallelRollouts(workers).gather_sync().for_each(TrainOneStep(workers))\n" + TRAINED,
        "tflow-columns",
        "Insert with_columns(ComputeAdvantages())",
    ),
    "gather first": (
        A3C.replace(
            "par_for_each(ComputeGradients())\n        .gather_async()", "gather_async()\n        .for_each(ComputeGradients())"
        ),
        "tflow-placement",
        "Use par_for_each before gathering",
    ),
    "par on driver": (
        A3C.replace(
            "par_for_each(ComputeGradients())\n        .gather_async()",
            "gather_async()\n        .par_for_each(ComputeGradients())",
        ),
        "tflow-placement",
        "Use par_for_each before gathering",
    ),
    "driver inside": (
        A3C.replace(
            ".gather_async()\n    )\n    applied = gradients.for_each(ApplyGradients(workers))",
            ".par_for_each(ApplyGradients(workers))\n        .gather_async()\n    )\n    applied = gradients",
        ),
        "tflow-placement",
        "Use for_each after gathering",
    ),
    "for_each on parallel": (
        A3C.replace(".par_for_each(", ".for_each("),
        "tflow-placement",
        "Use par_for_each",
    ),
    "not gathered": (
        A + "    trained = ParallelRollouts(workers).for_each(TrainOneStep(workers))\n" + TRAINED,
        "tflow-placement",
        "Insert gather_sync()",
    ),
    "gathered twice": (
        A3C.replace(".gather_async()", ".gather_async()\n        .gather_sync()"),
        "tflow-placement",
        "Leave gather_sync out",
    ),
    "async": (
        PPO.replace("    Iter,\n", "    ComputeAdvantages,\n    Iter,\n")
        + "    rollouts = ParallelRollouts(workers).gather_async(in_flight=2).with_columns(ComputeAdvantages())\n"
        + "    trained = rollouts.for_each(TrainOneStep(workers))\n"
        + TRAINED,
        "tflow-sync",
        "Use gather_sync()",
    ),
    "forgotten": (
        A3C.replace("        .par_for_each(ComputeGradients())\n", ""),
        "tflow-flow",
        "Insert par_for_each(ComputeGradients())",
    ),
    "rounds": (
        A + "    trained = ParallelRollouts(workers).gather_rounds().for_each(TrainOneStep(workers))\n" + TRAINED,
        "tflow-flow",
        "Insert ConcatRounds(...)",
    ),
    "twice": (
        FLOW + "    doubled = rewards.map(abs)\n    clipped = rewards.filter(bool)\n    return Union(doubled, clipped)\n",
        "tflow-linear",
        "Split rewards for both",
    ),
    "branch twice": (
        FLOW + "    a, b = rewards.split()\n    return Union(a.map(abs), b.map(abs), b)\n",
        "tflow-linear",
        "Split into one more branch",
    ),
    "policy": (MULTI.replace('policy="ppo"', 'policy="pppo"'), "tflow-policy", 'Use "ppo"'),
    "mapped policy": (MULTI.replace('lambda agent: "ppo"', 'lambda agent: "PPO"'), "tflow-policy", 'Use "ppo"'),
    "no report": (
        A3C.replace("return ReportMetrics(applied, workers)", "return applied").replace("    ReportMetrics,\n", ""),
        "tflow-flow",
        "End with ReportMetrics",
    ),
    "a class": (A3C.replace("ComputeGradients()", "ComputeGradients"), "tflow-flow", "Use ComputeGradients()"),
    "a function": (FLOW + "    return rewards.for_each(abs)\n", "tflow-flow", "Use map"),
    "an operator": (A3C.replace("par_for_each(", "par_map("), "tflow-flow", "Use par_for_each"),
}


@pytest.mark.parametrize(("text", "code", "title"), CASES.values(), ids=CASES)
def test_an_action_repairs_what_it_is_offered_for(text: str, code: str, title: str, check: Check) -> None:
    view = check(text)
    (finding,) = [each for each in view.shown(everything=False) if each.code == code]
    offered = {repair.title: repair for repair in view.repairs_of(finding)}
    assert title in offered
    repaired = applied(text, offered[title].changes)
    assert check(repaired).findings == (), repaired


def test_nothing_is_offered_where_both_uses_need_not_happen(check: Check) -> None:
    text = FLOW + "    if scores:\n        rewards.map(abs).drain()\n    return rewards\n"
    view = check(text)
    assert [each.code for each in view.findings if each.code == "tflow-linear"] == ["tflow-linear"]
    assert view.repairs == ()


def test_what_is_right_needs_no_action(check: Check) -> None:
    view = check(A3C)
    assert (view.findings, view.repairs) == ((), ())
    assert check(MULTI).findings == ()
