"""The same mistake, the same sentence: what the plugin says of ``corpus/pairs.py``, plan validation says when it is run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from tests.types.checkers import CORPUS
from tests.types.plugin_runs import pinned
from tflow import PlanError
from tflow.combinators.runnable import Runnable

SOURCE = CORPUS / "pairs.py"


def sentences() -> dict[str, str]:
    """What the plugin says in each function (a test compares the pinned messages with those of mypy)."""
    found: dict[str, str] = {}
    for file, function, _, sentence in pinned():
        if file == SOURCE.name:
            assert function not in found, f"{function} makes more than one mistake"
            found[function] = sentence
    return found


@pytest.fixture(scope="module")
def pairs() -> Iterator[ModuleType]:
    sys.path.insert(0, str(CORPUS))
    spec = importlib.util.spec_from_file_location("pairs", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["pairs"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(CORPUS))
    for name in ("pairs", "world"):
        del sys.modules[name]


@pytest.mark.parametrize(("name", "sentence"), sentences().items(), ids=list(sentences()))
def test_said_in_the_editor_and_at_run_time(name: str, sentence: str, pairs: ModuleType) -> None:
    make: Callable[[], object] = getattr(pairs, name)
    with pytest.raises((PlanError, AttributeError)) as raised:
        made = make()
        assert isinstance(made, Runnable)
        made.validate()
    assert str(raised.value) == sentence


def test_there_is_a_pair_for_every_rule_that_can_be_broken_at_run_time() -> None:
    codes = {code for file, _, code, _ in pinned() if file == SOURCE.name}
    assert codes == {
        f"tflow-{rule}" for rule in ("flow", "placement", "sync", "columns", "policy", "linear", "unused", "literal", "travel")
    }
    assert len(sentences()) >= 40
