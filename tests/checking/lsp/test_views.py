"""What an editor shows of a plan: types at the ends of lines, all about a stream under the pointer, also while it is typed."""

from __future__ import annotations

import pytest

from tests.checking.lsp.conftest import Check
from tests.checking.lsp.support import A3C, IMPORTS
from tflow.checking.lsp.hover import hover, law_called, page
from tflow.checking.lsp.session import Session
from tflow.checking.lsp.views import FileView, Moved


def place(text: str, part: str) -> tuple[int, int]:
    before = text[: text.index(part)]
    return before.count("\n"), len(before) - before.rfind("\n") - 1


def hints(view: FileView) -> dict[str, str]:
    return {view.lines[hint.line].strip(): hint.text for hint in view.hints()}


def test_every_line_of_a_plan_shows_its_type_and_place(check: Check) -> None:
    assert hints(check(A3C)) == {
        "rollouts = ParallelRollouts(workers)": "ParIter[Rollout] · actors: RolloutWorker",
        "rollouts": "ParIter[Rollout] · actors: RolloutWorker",
        ".par_for_each(ComputeGradients())": "ParIter[Gradients] · actors: RolloutWorker",
        ".gather_async()": "Iter[Gradients] · driver · async",
        "applied = gradients.for_each(ApplyGradients(workers))": "Iter[TrainStats] · driver · async",
        "return ReportMetrics(applied, workers)": "Plan[Metrics]",
    }


def test_hints_are_at_the_ends_of_lines_in_characters(check: Check) -> None:
    line = '    änderung = rewards.map(lambda x: "😀" if x else "ä")  # 日本'
    view = check(IMPORTS + f"@flow\ndef scores(rewards: Iter[float]) -> Iter[str]:\n{line}\n    return änderung\n")
    (hint,) = [hint for hint in view.hints() if "str" in hint.text]
    assert (view.lines[hint.line], hint.column, hint.text) == (line, len(line), "Iter[str] · driver · async")
    stream = view.stream_at((hint.line, line.index(".map")))
    assert stream is not None
    assert line[stream.span.start[1] : stream.span.end[1]] == '.map(lambda x: "😀" if x else "ä")'


def test_branches_of_a_split_are_counted(check: Check) -> None:
    body = "    a, b = rewards.split()\n    return Union(a, b)\n"
    view = check(IMPORTS + f"@flow\ndef scores(rewards: Iter[float]) -> Iter[float]:\n{body}")
    assert hints(view)["a, b = rewards.split()"] == "2 x Iter[float] · driver · async"


def test_hover_tells_type_laws_columns_and_the_way_to_it(check: Check) -> None:
    view = check(A3C)
    stream = view.stream_at(place(A3C, "gather_async()"))
    assert stream is not None
    text = hover(view, stream)
    assert text.startswith("**`Iter[Gradients]`** · driver · async")
    assert "`gather_async()`: " in text, "what its docstring calls its law"
    law = law_called("freshness")
    assert law is not None
    assert f"- [freshness]({page(law)}): {law.says}" in text
    assert text.endswith(
        "```text\n"
        "ParallelRollouts(workers)       ParIter[Rollout] · actors: RolloutWorker\n"
        "par_for_each(ComputeGradients)  ParIter[Gradients] · actors: RolloutWorker\n"
        "gather_async()                  Iter[Gradients] · driver · async\n"
        "```"
    )
    assert "Columns" not in text
    rollouts = view.stream_at(place(A3C, "rollouts = "))
    assert rollouts is not None
    assert "Columns: `obs`, `actions`, `rewards`" in hover(view, rollouts)


def test_the_way_follows_names_that_are_set_again(check: Check) -> None:
    body = "    rewards = rewards.map(abs)\n    rewards = rewards.filter(bool)\n    return rewards\n"
    text = IMPORTS + f"@flow\ndef scores(rewards: Iter[float]) -> Iter[float]:\n{body}"
    view = check(text)
    (line, _) = place(text, "return rewards")
    stream = view.stream_at((line, len("    return r")))
    assert stream is not None
    assert [each.label for each in view.way_to(stream)] == ["rewards", "map(abs)", "filter(bool)"]


CLASS = """

class Mine:
    def plan(self, trained: Iter[TrainStats], workers: AnyWorkers) -> Plan[Metrics]:
        return ReportMetrics(trained, workers)


def no(rewards: Iter[float]) -> None:
    rewards.map(abs)
"""


def test_functions_that_make_plans_are_known(check: Check) -> None:
    view = check(A3C + CLASS)
    found = {each.name: view.lines[each.line].strip() for each in view.functions}
    assert found == {"a3c": "def a3c() -> Plan[Metrics]:", "Mine.plan": CLASS.splitlines()[3].strip()}


# ------------------------------------------------------------------- while it is typed


def test_behind_a_syntax_error_the_rest_stays(check: Check) -> None:
    wrong = A3C.replace("gather_async()", "gather_async(in_flight=-1)")
    before = check(wrong)
    typed = wrong.replace("    applied =", "    applied = gradients.(\n    applied =")
    after = check(typed)
    assert after.broken is not None
    assert after.broken.code == "syntax"
    assert hints(after) == hints(before)
    (one,), (other,) = before.findings, after.findings
    assert (one.message, one.line, one.code) == (other.message, other.line, "tflow-literal")
    (at,) = [hint.line for hint in after.hints() if hint.text == "Plan[Metrics]"]
    assert after.lines[at] == "    return ReportMetrics(applied, workers)", "one line further down"
    assert check(wrong).broken is None


@pytest.mark.parametrize("step", [1, 37])
def test_half_typed_code_never_fails(step: int, check: Check) -> None:
    """A plan that is typed from the beginning: its last 37 letters one by one, and all of it in larger steps."""
    texts = (
        [A3C[:end] for end in range(len(A3C) - 37, len(A3C))] if step == 1 else [A3C[:end] for end in range(0, len(A3C), step)]
    )
    for text in texts:
        view = check(text)
        assert view.text == text
        assert all(finding.code != "tflow-unchecked" for finding in view.findings), text
    assert check(A3C).findings == ()


def test_what_is_deleted_is_forgotten(check: Check) -> None:
    assert check(A3C).streams
    view = check(IMPORTS)
    assert (view.streams, view.functions) == ((), ())


HELPED = (
    IMPORTS.replace("\n\n\n", "\nfrom helper import made\n\n\n")
    + """\
@flow
def plan() -> Plan[Metrics]:
    workers = create_rollout_workers(env="CartPole-v1", loss=made())
    return ReportMetrics(ParallelRollouts(workers).gather_sync().for_each(TrainOneStep(workers)), workers)
"""
)


def test_other_files_are_read_again_when_they_change(session: Session) -> None:
    helper = session.folder / "helper.py"
    try:
        for loss, codes in (("A3CLoss", []), ("PPOLoss", ["tflow-columns"]), ("A3CLoss", [])):
            helper.write_text(f"from tflow.losses import {loss}\ndef made() -> {loss}:\n    return {loss}()\n")
            assert [each.code for each in session.check({"plan.py": HELPED})["plan.py"].findings] == codes
    finally:
        helper.unlink()
        session.check({"plan.py": ""})


# ------------------------------------------------------------------- lines that move


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a b c", "a b c", [0, 1, 2]),
        ("a b c", "a x b c", [0, 2, 3]),
        ("a b c", "a c", [0, None, 1]),
        ("a b c", "a x c", [0, None, 2]),
        ("a a a", "a a a a", [0, 1, 2]),
        ("a b", "", [None, None]),
    ],
)
def test_lines_move_with_what_is_typed_above_them(old: str, new: str, expected: list[int | None]) -> None:
    move = Moved(old.split(), new.split())
    assert [next(iter(move.line(number)), None) for number in range(len(old.split()))] == expected
