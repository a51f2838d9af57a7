"""``[tool.tflow.check]``: read from the nearest pyproject.toml, and refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking.support import write
from tflow.checking.config import CheckSettings, settings
from tflow.errors import PlanError


def test_all_keys_and_both_ways_to_name_a_rule(tmp_path: Path) -> None:
    table = 'disable = ["linear", "tflow-unused"]\nskip = ["jax", "my_lib.sub"]\npaths = ["plans", "train.py"]'
    write(tmp_path, {"pyproject.toml": f"[tool.tflow.check]\n{table}\n", "sub/deep/a.py": ""})
    both = frozenset(["tflow-linear", "tflow-unused"])
    assert settings(tmp_path) == CheckSettings(both, ("jax", "my_lib.sub"), ("plans", "train.py"))
    assert settings(tmp_path / "sub" / "deep").paths == ("../../plans", "../../train.py"), "from where one is"


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": '[tool.tflow.check]\ndisable = ["linear"]\n', "sub/pyproject.toml": "[project]\n"})
    assert settings(tmp_path / "sub") == CheckSettings()
    assert settings(tmp_path).disable


KNOWN = "columns, flow, linear, literal, placement, policy, sync, travel, unchecked, untyped and unused"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[tool.tflow.check]\ndisabel = ["linear"]',
            "[tool.tflow.check] in pyproject.toml has no key 'disabel'; there are disable, paths and skip. "
            "Did you mean 'disable'?",
        ),
        (
            '[tool.tflow.check]\ndisable = "linear"',
            "disable in [tool.tflow.check] of pyproject.toml must be a list of strings, got 'linear'.",
        ),
        (
            "[tool.tflow.check]\nskip = [1]",
            "skip in [tool.tflow.check] of pyproject.toml must be a list of strings, got [1].",
        ),
        ('[tool.tflow.check]\ndisable = ["linar"]', f"There is no rule 'linar'; there are {KNOWN}. Did you mean 'linear'?"),
        (
            '[tool.tflow.check]\ndisable = ["tflow-Sync"]',
            f"There is no rule 'tflow-Sync'; there are {KNOWN}. Did you mean 'sync'?",
        ),
        ('[tool.tflow.check]\ndisable = ["xyz"]', f"There is no rule 'xyz'; there are {KNOWN}."),
        (
            '[tool.tflow.check]\nskip = ["jax.*"]',
            "skip in [tool.tflow.check] of pyproject.toml: expected the name of a library as it is imported, such as jax, "
            "got 'jax.*'.",
        ),
        (
            '[tool.tflow.check]\nskip = ["tflow.rl"]',
            "skip in [tool.tflow.check] of pyproject.toml: without the types of tflow there is nothing to check; "
            "leave 'tflow.rl' out.",
        ),
        ("[tool.tflow]\ncheck = 3", "tool.tflow.check in pyproject.toml must be a table, got 3."),
    ],
)
def test_mistakes_are_sentences(tmp_path: Path, text: str, sentence: str) -> None:
    write(tmp_path, {"pyproject.toml": text})
    with pytest.raises(PlanError) as raised:
        settings(tmp_path)
    assert str(raised.value) == sentence


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": "[tool"})
    with pytest.raises(PlanError, match=r"^pyproject\.toml is not TOML: "):
        settings(tmp_path)
