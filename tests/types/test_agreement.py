"""What validation refuses the checker refuses, and what the checker accepts validation accepts: over random plans.

``agreement/`` writes them as source, right ones and such with one mistake; one run of mypy checks all of them, and each is built
and validated. ``python -m tests.types.agreement.search 2000 7`` looks longer, and makes what it finds small.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.types.agreement import mistakes, training
from tests.types.agreement.judge import Verdict, verdicts
from tests.types.agreement.plans import drafts
from tests.types.agreement.search import smallest
from tflow.mypy_plugin.codes import TITLES

PLANS = 400
NOT_REFUSED = {"tflow-untyped", "tflow-unchecked"}
"""Rules about what cannot be checked, of which validation knows nothing."""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    return verdicts(drafts(PLANS), tmp_path_factory.mktemp("plans"))


@pytest.mark.types
def test_the_checker_and_validation_agree(judged: list[Verdict], tmp_path: Path) -> None:
    wrong = [verdict for verdict in judged if not verdict.agreed]
    assert not wrong, "\n\n".join(map(str, smallest(wrong[:5], tmp_path, rounds=3)))


@pytest.mark.types
def test_every_rule_is_needed(judged: list[Verdict]) -> None:
    """Without any one rule, some plan that validation refuses would be accepted."""
    alone = Counter(codes.pop() for verdict in judged if len(codes := {each.code for each in verdict.static}) == 1)
    assert set(TITLES) - NOT_REFUSED <= set(alone), alone


@pytest.mark.types
def test_the_writers_know_what_they_write(judged: list[Verdict]) -> None:
    """As many plans with a mistake as without, of many kinds, and all of these and no others are refused when they are built."""
    assert [str(verdict) for verdict in judged if bool(verdict.draft.mistake) != bool(verdict.built)] == []
    made = Counter(verdict.draft.mistake for verdict in judged)
    assert made[""] == PLANS // 2
    assert made.keys() >= mistakes.MISTAKES.keys() | set(training.EVERYWHERE) | {
        one for each in training.SHAPES.values() for one in each
    }
