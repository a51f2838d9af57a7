"""Runs that belong together: the same algorithm on the same env with the same settings, but for the seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tflow.observe.kept import KeptRun

if TYPE_CHECKING:
    from tflow.rl.data.bootstrap import Estimate

SAID_APART = frozenset({"env"})
"""Settings that have a place of their own."""
OF_ONE_RUN = frozenset(
    {"seed", "stop_steps", "stop_time", "stop_return", "save_every", "keep", "eval_every", "eval_episodes", "address"}
)
"""Settings of the run in which the runs of a group may differ."""
MOST_DIFFERENCES = 3
LONGEST_NAME = 40
"""What the name of a group tells."""
Different = dict[str, list[str | None]]


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ by their seeds only, if at all."""

    name: str
    env: str
    runs: tuple[KeptRun, ...]

    @cached_property
    def counted(self) -> tuple[KeptRun, ...]:
        """The runs that statistics are of: of several with one seed, which are no independent draws, the longest."""
        found: dict[object, KeptRun] = {}
        for run in self.runs:
            seed = run.path if run.seed is None else run.seed
            if seed not in found or reached(run) > reached(found[seed]):
                found[seed] = run
        return tuple(found.values())

    @property
    def count(self) -> str:
        """How many runs there are, how many seeds if these are fewer, and how many runs have not ended."""
        running = sum(each.state == "running" for each in self.runs)
        seeds = len(self.counted)
        of_seeds = "" if seeds == len(self.runs) else f" of {seeds} {'seed' if seeds == 1 else 'seeds'}"
        return f"{len(self.runs)}{of_seeds}{f', {running} running' if running else ''}"

    @property
    def scores(self) -> list[float]:
        """What each seed is worth, as far as it is known."""
        return [each.score for each in self.counted if each.score is not None]

    @property
    def estimate(self) -> Estimate | None:
        """Interquartile mean and 95 % interval of the scores."""
        from tflow.rl.data.bootstrap import estimate

        return estimate([self.scores]) if self.scores else None


def reached(run: KeptRun) -> float:
    """How far a run has come."""
    return run.last.get(run.progress, 0.0)


def all_settings(run: KeptRun) -> dict[str, str]:
    """All that the groups of runs may differ in."""
    of_run = {f"run.{each.name}": each.value for each in run.run_settings if each.name not in OF_ONE_RUN}
    return {each.name: each.value for each in run.settings if each.name not in SAID_APART} | of_run


def grouped(runs: Iterable[KeptRun]) -> list[Group]:
    """Runs by env, algorithm and settings; groups are named by what they differ in."""
    members: dict[tuple[object, ...], list[KeptRun]] = {}
    for run in runs:
        own = all_settings(run)
        what: tuple[object, ...] = tuple(sorted(own.items())) or (run.path,)  # of a plan of one's own, nothing is known
        members.setdefault((run.env, run.algorithm, what), []).append(run)
    groups = list(members.values())
    names = names_of(groups)
    return [Group(name, group[0].env, tuple(group)) for name, group in zip(names, groups, strict=True)]


def names_of(groups: Sequence[Sequence[KeptRun]]) -> list[str]:
    """A short name for each of several groups: the algorithm and which settings it changes that others of its kind do not. If
    that is too much to say, the folder that its runs share; or the first of these settings."""
    firsts = [group[0] for group in groups]
    found: list[str] = []
    for group, run in zip(groups, firsts, strict=True):
        alike = [all_settings(other) for other in firsts if other.algorithm == run.algorithm]
        differing = differences(alike)
        changed = [*run.settings, *(each._replace(name=f"run.{each.name}") for each in run.run_settings)]
        mine = [
            f"{each.name.removeprefix('run.')} {each.value}"
            for each in changed
            if each.name in differing and each.value != each.default
        ]
        families = {each.family for each in group}
        if run.algorithm == "plan":
            found.append(run.family)
        elif len(mine) <= MOST_DIFFERENCES and sum(map(len, mine)) <= LONGEST_NAME:
            found.append(", ".join([run.short_algorithm, *mine]))
        elif len(families) == 1:
            found.append(f"{run.short_algorithm}, {run.family}")
        else:
            found.append(f"{run.short_algorithm}, {mine[0][:LONGEST_NAME]}, ...")
    by_env = [(name, run.env) for name, run in zip(found, firsts, strict=True)]
    return [f"{name}, {run.name}" if by_env.count((name, run.env)) > 1 else name for name, run in zip(found, firsts, strict=True)]


def differences(settings: Sequence[dict[str, str]]) -> Different:
    """What is not the same everywhere: by name, the value in each; None where there is no such setting."""
    names = dict.fromkeys(name for each in settings for name in each)
    columns = {name: [each.get(name) for each in settings] for name in names}
    return {name: values for name, values in columns.items() if len(set(values)) > 1}


def envs_of(groups: Iterable[Group]) -> list[str]:
    return list(dict.fromkeys(group.env for group in groups))


def overall(groups: Sequence[Group]) -> dict[str, Estimate]:
    """Each group's scores over all envs, if the same groups ran on several: those of an env from 0, the lowest of all its runs,
    to 1, the highest, with a bootstrap that keeps the envs apart. Empty if there is nothing to unite."""
    from tflow.rl.data.bootstrap import estimate

    envs, names = envs_of(groups), dict.fromkeys(group.name for group in groups)
    scores = {(group.name, group.env): group.scores for group in groups}
    if len(envs) < 2 or not all(scores.get((name, env)) for name in names for env in envs):
        return {}
    ranges = {env: [each for (_, of), values in scores.items() if of == env for each in values] for env in envs}
    low = {env: min(values) for env, values in ranges.items()}
    wide = {env: max(values) - low[env] or 1.0 for env, values in ranges.items()}
    return {name: estimate([[(each - low[env]) / wide[env] for each in scores[name, env]] for env in envs]) for name in names}
