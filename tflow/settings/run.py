"""Settings of a run apart from its algorithm: the options of ``tflow train``, and ``[run]`` in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tflow.algos.installed import name_of
from tflow.algos.training_run import Stop, TrainingRun
from tflow.combinators import check
from tflow.errors import PlanError
from tflow.loading import place_of
from tflow.settings.period import Period

if TYPE_CHECKING:
    from tflow.rl.envs.env_spec import EnvSpec
    from tflow.runtime.base import Runtime


HUNG_AFTER = 20.0
"""A worker that takes so many times as long as its longest call is ended and restarted, but not within 15 minutes."""
EVAL_EVERY, LEAST_EVAL_EVERY, EVALUATIONS = 25_000, 5_000, 20
"""What ``eval_every = "auto"`` means."""
StartText: TypeAlias = str | Mapping[str, str]
"""What a run starts from, as files say it."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of a run: runtime, seed, stop conditions, evaluation."""

    algo: str = ""
    """The algorithm: a name that tflow algos lists, or FILE.py:NAME of your own."""
    preset: str = "auto"
    """Settings that were chosen for an env (tflow presets lists them): auto takes those of the env, if there are some; none the
    defaults; an id those of another env. What is said otherwise has precedence."""
    runtime: Literal["local", "ray"] = "local"
    """local: everything in this process; ray: each worker a process of its own."""
    address: str | None = None
    """Address of a Ray cluster to join; without it, ray starts one on this machine."""
    seed: int = 0
    """Random seed of the whole run."""
    stop_return: float | None = None
    """Stop at this mean return over the latest 100 episodes."""
    stop_steps: int | None = None
    """Stop after this many env steps."""
    stop_time: float | None = None
    """Stop after this many seconds."""
    patience: int | None = None
    """Stop after so many evaluations in a row without improvement."""
    min_delta: float = 0.0
    """What an evaluation must gain over the best one to count as an improvement."""
    eval_every: int | Literal["auto"] | None = "auto"
    """Env steps between evaluations, which run alongside training; auto: a twentieth of stop_steps, at least 5,000, or 25,000."""
    eval_episodes: int = 20
    """Episodes per evaluation. More: less noise."""
    save_every: str | None = "5m"
    """Time or env steps between checkpoints, such as 30s, 5m, 2h or 100_000; none writes none."""
    keep: int = 2
    """How many of the latest checkpoints are kept, beside the one with the best evaluation."""
    logger: str | None = None
    """Loggers beside the files of the run folder: wandb, mlflow, what a package registers, FILE.py:NAME; with commas between."""
    start_from: StartText | None = None
    """Start with the weights of this policy file or run folder; for several policies, {'NAME': 'FILE', ...}."""

    def __post_init__(self) -> None:
        check.integer("tflow train", "seed", self.seed, least=0)
        check.one_of("tflow train", "runtime", self.runtime, ("local", "ray"))
        check.integer("tflow train", "keep", self.keep, least=1)
        if self.save_every is not None:
            Period.of("tflow train: save_every", self.save_every)
        if self.address is not None and self.runtime != "ray":
            raise PlanError("tflow train: an address is that of a Ray cluster. Say --runtime ray, too.")
        if self.eval_every is not None and self.eval_every != "auto":
            check.integer("tflow train", "eval_every", self.eval_every, least=1)
        check.at_least_zero("tflow train", "min_delta", self.min_delta)
        if self.patience is not None:
            check.integer("tflow train", "patience", self.patience, least=1)
            if self.eval_every is None:
                raise PlanError("tflow train: patience counts evaluations; leave out --eval-every none.")
        for name in ("stop_steps", "stop_time"):
            if getattr(self, name) is not None:
                check.positive("tflow train", name, getattr(self, name))

    @property
    def loggers(self) -> tuple[str, ...]:
        """The loggers by name."""
        return tuple(each.strip() for each in (self.logger or "").split(",") if each.strip())

    @property
    def evaluates_every(self) -> int | None:
        """Env steps between evaluations; None if there are none."""
        if self.eval_every != "auto":
            return self.eval_every
        return EVAL_EVERY if self.stop_steps is None else max(LEAST_EVAL_EVERY, int(self.stop_steps) // EVALUATIONS)

    @staticmethod
    def of(run: TrainingRun) -> RunSettings:
        """The settings of a run, as far as they can be written."""
        stop, kind = run.stop if isinstance(run.stop, Stop) else Stop(), type(run.algorithm)
        return RunSettings(
            algo=name_of(kind) or place_of(kind) or "",
            runtime="ray" if type(run.run.runtime).__name__ == "RayRuntime" else "local",
            seed=run.seed,
            stop_return=stop.mean_return,
            stop_steps=stop.env_steps,
            stop_time=stop.seconds,
            patience=stop.patience,
            min_delta=stop.min_delta,
            eval_every=run.eval_every,
            eval_episodes=run.eval_episodes,
        )

    def stop(self, env: EnvSpec) -> Stop | None:
        """The stop conditions. By default, gymnasium's reward threshold of the env."""
        wanted = self.stop_return
        if wanted is None and self.stop_steps is None and self.stop_time is None:
            wanted = env.solved_at()
        if wanted is None and self.stop_steps is None and self.stop_time is None and self.patience is None:
            return None
        return Stop(
            mean_return=wanted,
            env_steps=self.stop_steps,
            seconds=self.stop_time,
            patience=self.patience,
            min_delta=self.min_delta,
        )

    def open(self) -> Runtime:
        """A session to run in."""
        if self.runtime == "ray":
            from tflow.runtime.ray import RayRuntime

            session = RayRuntime(self.address)
            session.hung_after = HUNG_AFTER
            return session
        from tflow.runtime.local import LocalRuntime

        return LocalRuntime()
