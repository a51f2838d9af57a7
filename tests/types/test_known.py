"""What the rules work out of expressions, and what they leave alone."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from mypy import nodes

from tflow.mypy_plugin import tree
from tflow.mypy_plugin.known import LARGEST, Unknown, calculated, is_plain, limited


def test_plain_values_are_computed() -> None:
    assert calculated(operator.sub, 4, 4) == 0
    assert calculated(operator.add, (1,), (2, 3)) == (1, 2, 3)
    assert calculated(operator.or_, {"a": 1}, {"b": 2}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("by", "left", "right"),
    [
        (operator.floordiv, 1, 0),  # raises at run time too
        (operator.pow, 10, 1_000_000),  # takes long
        (operator.mul, "a", 10**9),  # takes much memory
        (operator.add, 1, object()),  # something of the user's
        (operator.add, 1, "a"),
    ],
)
def test_what_raises_takes_long_or_is_not_plain_stays_unknown(
    by: Callable[[Any, Any], object], left: object, right: object
) -> None:
    with pytest.raises(Unknown):
        calculated(by, left, right)


def test_huge_values_stay_unknown() -> None:
    assert limited(range(LARGEST)) == range(LARGEST)
    with pytest.raises(Unknown):
        limited(range(LARGEST + 1))


def test_plain_is_what_has_no_code_of_the_user() -> None:
    assert is_plain({"a": [1, (2.0, None)], "b": {True}})
    assert not is_plain({"a": [object()]})


def test_the_names_of_a_module_are_looked_at_again_when_mypy_has_analysed_it_anew() -> None:
    target = nodes.NameExpr("size")
    file = nodes.MypyFile([nodes.AssignmentStmt([target], nodes.IntExpr(1))], [])
    file.names = nodes.SymbolTable()
    for _ in range(2):  # the daemon keeps the statements, and makes other variables
        target.node = nodes.Var("size")
        file.names["size"] = nodes.SymbolTableNode(nodes.GDEF, target.node)
        found = tree.definitions(file)
        assert list(found.set) == [target.node]
        assert tree.definitions(file) is found
