"""Presets: settings of an algorithm that were chosen for an env, as data.

One file per algorithm, with a table per env; what they were measured to reach is in ``measured.toml``, which
``python -m benchmarks.curves`` writes. A package that registers an algorithm may have such files of its own, in its folder
``presets``. ``tflow train`` takes the preset of its env unless ``--preset none`` is said; a table
without fields says that the defaults are the best settings known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tflow.algos.algorithm import Algorithm
from tflow.algos.installed import algorithm_names, folder_of, installed, registered
from tflow.algos.names import ALGORITHMS
from tflow.errors import PlanError
from tflow.sentences import did_you_mean
from tflow.settings.fields import configured

HERE = Path(__file__).parent
MEASURED = HERE / "measured.toml"
"""By algorithm and env: the env steps of each run, and what the final policies were worth."""


class Measured(NamedTuple):
    """What the final policies of some runs were worth."""

    env_steps: int
    """The budget of each run."""
    final: tuple[float, ...]
    """Mean return of the final policy, by seed from 0."""

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return sum(self.final) / len(self.final)


@dataclass(frozen=True)
class Preset:
    """Settings of an algorithm for an env."""

    algo: str
    env: str
    fields: Mapping[str, object]
    """Fields that are not the defaults, as a file has them."""
    measured: Measured | None
    """What they have reached; None if that was not measured yet."""

    @property
    def command(self) -> str:
        """What trains as it was measured."""
        steps = "" if self.measured is None else f" --stop-steps {self.measured.env_steps}"
        return f"tflow train {self.algo} --env {self.env}{steps}"

    def algorithm(self) -> Algorithm:
        """The configuration."""
        kind = ALGORITHMS.get(self.algo) or installed(self.algo)
        return configured(kind, {"env": self.env, **self.fields})


def presets() -> tuple[Preset, ...]:
    """All presets, by algorithm and env, except those that cannot be read."""
    found: list[Preset] = []
    for algo in algorithm_names():
        with suppress(PlanError):
            found += presets_of(algo)
    return tuple(found)


@cache
def presets_of(algo: str) -> tuple[Preset, ...]:
    """The presets of one algorithm, of tflow or of a package."""
    if algo in ALGORITHMS:
        folder = HERE
    elif algo in registered() and (package := folder_of(algo)):
        folder = package / "presets"
    else:
        return ()
    measured = _table(folder / MEASURED.name).get(algo, {})
    found = []
    for env, fields in _table(folder / f"{algo}.toml").items():
        result = measured.get(env)
        reached = None if result is None else Measured(result["env_steps"], tuple(result["final"]))
        found.append(Preset(algo, env, fields, reached))
    return tuple(found)


def _table(path: Path) -> dict[str, Any]:  # Any: what a file says
    """What is in a file; nothing if there is none."""
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(f"The presets in {str(path)!r} cannot be read: {error}.") from None


def preset_for(algo: str, env: object) -> Preset | None:
    """The preset of an algorithm for an env, if there is one; a module before the id (``module:id``) does not matter."""
    name = env.rpartition(":")[2] if isinstance(env, str) else ""
    return next((each for each in presets_of(algo) if each.env == name), None)


def preset(algo: str, env: str) -> Algorithm:
    """The configuration of an algorithm with the preset for an env; change it by ``dataclasses.replace``.

    Args:
        algo: The algorithm, by the name that ``tflow algos`` lists.
        env: A gymnasium id.
    """
    found = preset_for(algo, env)
    if found is None:
        raise no_preset(algo, env)
    return found.algorithm()


def no_preset(algo: str, env: str) -> PlanError:
    """The error for a preset that does not exist."""
    known = [each.env for each in presets() if each.algo == algo]
    if not known:
        with_some = ", ".join(dict.fromkeys(each.algo for each in presets()))
        return PlanError(f"There are no presets for {algo!r}. There are some for {with_some}.")
    return PlanError(
        f"There is no preset of {algo} for {env!r}.{did_you_mean(env, known)} There are some for {', '.join(known)}."
    )
