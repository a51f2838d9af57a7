"""The signature set is the product: without any plugin, four checkers reject exactly the marked lines.

A marker is a comment ``# ERR`` on the line of the mistake. Files without markers must be clean.
"""

from __future__ import annotations

import pytest

from tests.types.checkers import CHECKERS, CORPUS, Rejected

ROOT = CORPUS.parent.parent.parent
FILES = sorted(path.name for path in CORPUS.glob("*.py"))


def marked() -> Rejected:
    return {
        (name, number)
        for name in FILES
        for number, line in enumerate((CORPUS / name).read_text().splitlines(), 1)
        if "# ERR" in line
    }


@pytest.mark.types
@pytest.mark.parametrize("checker", CHECKERS)
def test_rejects_exactly_the_marked_lines(checker: str) -> None:
    found = CHECKERS[checker](*FILES)
    assert sorted(marked() - found) == [], f"{checker} accepts these mistakes"
    assert sorted(found - marked()) == [], f"{checker} rejects these good lines"


@pytest.mark.types
@pytest.mark.parametrize("checker", CHECKERS)
def test_accepts_the_examples(checker: str) -> None:
    examples = [str(path) for path in (ROOT / "examples").glob("*.py") if path.name != "__init__.py"]
    assert len(examples) >= 2
    assert CHECKERS[checker](*examples) == set()


def test_the_corpus_has_both_kinds() -> None:
    assert len(marked()) >= 50
    assert {name for name, _ in marked()} < set(FILES)
