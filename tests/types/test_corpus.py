"""The signature set is the product: without any plugin, four checkers reject exactly the marked lines.

Files without markers (``markers.py``) must be clean.
"""

from __future__ import annotations

import pytest

from tests.types import markers
from tests.types.checkers import CHECKERS, CORPUS

ROOT = CORPUS.parent.parent.parent


@pytest.mark.types
@pytest.mark.parametrize("checker", CHECKERS)
def test_rejects_exactly_the_marked_lines(checker: str) -> None:
    found = CHECKERS[checker](*markers.FILES)
    assert sorted(markers.plain() - found) == [], f"{checker} accepts these mistakes"
    assert sorted(found - markers.plain()) == [], f"{checker} rejects these good lines"


@pytest.mark.types
@pytest.mark.parametrize("checker", sorted(CHECKERS.keys() - {"mypy", "basedpyright"}))
def test_accepts_the_examples(checker: str) -> None:
    """The other two read them as part of the project (``make types``)."""
    examples = [str(path) for path in (ROOT / "examples").glob("*.py") if path.name != "__init__.py"]
    assert len(examples) >= 2
    assert CHECKERS[checker](*examples) == set()


def test_the_corpus_has_both_kinds() -> None:
    assert len(markers.plain()) >= 50
    assert {name for name, _ in markers.plain()} < set(markers.FILES)
