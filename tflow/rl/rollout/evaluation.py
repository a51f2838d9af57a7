"""Evaluation on whole episodes without exploration, by workers of their own, alongside training or between its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

from tflow.combinators import check, nodes
from tflow.combinators.actors import ANYWHERE, Place, Resident
from tflow.combinators.par import ParIter
from tflow.rl.data.episodes import Episodes
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import AnyWorkers
from tflow.types import Shard, Sync


class Due:
    """When an evaluation is due: once per evaluator and ``every`` env steps of training, as ``UpdateWeights`` reports them, or
    updates where nobody samples."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.steps = 0
        self.done: dict[int, int] = {}

    def closed(self, shard: int, incarnation: int, items: int, /) -> str:
        """Why no evaluation is due now; empty if one is."""
        if self.steps // self.every > self.done.get(shard, 0):
            return ""
        reported = f"and UpdateWeights(workers, evaluators) has reported {self.steps}"
        return f"evaluation is due every {self.every} env steps, {reported}"

    def passed(self, shard: int, incarnation: int, items: int, /) -> None:
        """Note that an evaluation has started."""
        self.done[shard] = self.steps // self.every


@dataclass(frozen=True)
class MakeDue:
    """Makes a ``Due``."""

    every: int

    def __call__(self, shard: Shard) -> Due:
        return Due(self.every)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluators(AnyWorkers):
    """Evaluation workers."""

    every: int | None = field(kw_only=True)
    """Env steps of training between evaluations; None evaluates all the time."""
    due: Resident[Due] | None = field(kw_only=True)

    @classmethod
    def stand_in(cls, hint: object, name: str) -> AnyWorkers:
        """For drawings of functions that need some."""
        return create_evaluation_workers(AnyWorkers.stand_in(AnyWorkers, name))


CUT_AFTER = 27_000
"""Steps of an episode, as is usual for Atari games; a policy that does not explore may play for ever."""


def create_evaluation_workers(
    workers: AnyWorkers,
    *,
    episodes: int = 10,
    every: int | None = None,
    num_workers: int = 1,
    num_envs: int | None = None,
    place: Place = ANYWHERE,
) -> Evaluators:
    """Describe evaluation workers, which play whole episodes without exploration, cut after 27,000 steps.
    ``UpdateWeights(workers, evaluators)`` sends them the weights.

    Args:
        workers: The rollout workers whose policies are evaluated.
        episodes: Episodes per evaluation. More: less noise.
        every: Env steps of training between evaluations, or updates where nobody samples; None evaluates all the time.
        num_workers: Evaluation workers.
        num_envs: Envs per evaluation worker; None takes as many as a rollout worker has, at most ``episodes``.
        place: Where the workers run.

    Law: describing creates nothing.
    """
    where = "create_evaluation_workers"
    check.instance(where, "workers", workers, AnyWorkers, "what create_rollout_workers returns")
    check.integer(where, "episodes", episodes, least=1)
    check.integer(where, "num_workers", num_workers, least=1, most=check.MAX_ACTORS)
    for name, count in (("num_envs", num_envs), ("every", every)):
        if count is not None:
            check.integer(where, name, count, least=1)
    envs = min(workers.spec.num_envs, episodes) if num_envs is None else num_envs
    spec = replace(workers.spec, num_envs=envs, explore=False, episodes=episodes, cut_after=CUT_AFTER)
    name = f"{workers.name}.evaluation"
    due = None if every is None else Resident(MakeDue(every), 1, f"{name}.due")
    return Evaluators(spec, num_workers, name, place=place, spec=spec, every=every, due=due)


class ParallelEvaluations(ParIter[Episodes, Sync, RolloutWorker]):
    """A parallel stream of evaluations: each item has the statistics of ``episodes`` episodes without exploration.

    Law: as ``ParallelRollouts``; an evaluation starts with fresh episodes.
    """

    __slots__ = ()
    shape: ClassVar[str] = "ParallelEvaluations({workers})"

    def __init__(self, workers: Evaluators) -> None:
        check.instance("ParallelEvaluations", "workers", workers, Evaluators, "what create_evaluation_workers returns")
        pull = cast("Callable[[object], object]", RolloutWorker.evaluate)
        super().__init__(nodes.FromActors(workers, pull, limiter=workers.due, shown_as=self.shown(workers=workers.name)))
