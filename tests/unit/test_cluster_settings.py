"""What is said about a cluster before one is started: each mistake is one sentence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tflow import PlanError
from tflow.actors import Place
from tflow.runtime.cluster import ClusterSettings, path_of


def settings(**given: Any) -> ClusterSettings:  # Any: wrong values, on purpose
    usual = {
        "address": None,
        "num_cpus": None,
        "num_gpus": None,
        "store_mb": None,
        "modules": (),
        "dashboard": False,
        "logs": True,
    }
    return ClusterSettings(**(usual | given))


WRONG: Sequence[tuple[dict[str, Any], str]] = [  # Any: as above
    ({"num_cpus": -1}, "RayRuntime: num_cpus must be at least 0, got -1."),
    ({"num_gpus": 0.5}, "RayRuntime: num_gpus must be a whole number, got 0.5."),
    ({"store_mb": 10}, "RayRuntime: store_mb must be at least 76, which is what Ray needs, got 10."),
    ({"modules": "os"}, "RayRuntime: modules must be a list, got 'os'. Write modules=['os']."),
    ({"dashboard": "yes"}, "RayRuntime: dashboard must be True or False, got 'yes'."),
    ({"address": 6379}, "RayRuntime: address must be a string, got 6379."),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG, ids=lambda value: str(value)[:30])
def test_a_wrong_setting_is_a_sentence(given: dict[str, Any], sentence: str) -> None:  # Any: as above
    with pytest.raises(PlanError) as found:
        settings(**given).check(running=False)
    assert str(found.value) == sentence


def test_modules_are_found_before_anything_starts(tmp_path: Path) -> None:
    folder = tmp_path / "envs"
    folder.mkdir()
    assert settings(modules=[folder]).arguments()["runtime_env"] == {"py_modules": [str(folder)]}
    assert path_of("pickle") == os.__file__.replace("os.py", "pickle.py")
    assert path_of("json") == str(Path(os.__file__).parent / "json")
    for missing in ("no_such_module", tmp_path / "nothing"):
        with pytest.raises(PlanError, match=r"^RayRuntime: modules: there is no .*[a-z']\.$"):
            settings(modules=[missing]).arguments()


def test_what_an_actor_needs_is_not_negative() -> None:
    with pytest.raises(PlanError, match=r"^Place: gpus must be finite and at least 0, got -1\.$"):
        Place(gpus=-1)
    assert Place(cpus=0).needs == {}
