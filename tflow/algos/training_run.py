"""Training runs: what ``PPO(...).run(stop=...)`` returns."""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from tflow.algos.evaluation import reporting, with_evaluation
from tflow.combinators import check, graph
from tflow.combinators.runnable import Plan
from tflow.errors import PlanError, ShardFailed, TflowError
from tflow.rl.data.episodes import WINDOW, Episodes
from tflow.rl.elsewhere import Configured
from tflow.rl.history import MetricsHistory
from tflow.rl.metrics import Metrics
from tflow.rl.rollout.worker_spec import check_names
from tflow.state.folders import checkpoint_in, read_manifest
from tflow.state.values import Encoded, decode, encode

if TYPE_CHECKING:
    from tflow.algos.algorithm import Algorithm
    from tflow.rl.data.arrays import Array
    from tflow.rl.policy.policy import Policy
    from tflow.rl.rollout.starting import StartFrom
    from tflow.rl.rollout.worker import RolloutWorker
    from tflow.rl.rollout.worker_spec import AnyWorkers, CurrentPolicy
    from tflow.runtime.base import Runtime
    from tflow.runtime.executor import Run


COMPARE_EVERY = 50
"""Reports between two hashes of the weights, in a run that is recorded or repeated."""


@dataclass(frozen=True, kw_only=True)
class Stop(Configured):
    """When training stops: as soon as one of these is reached. None is no condition."""

    env_steps: int | None = None
    """Env steps of all workers."""
    mean_return: float | None = None
    """Mean return over the latest ``episodes`` episodes; with several policies, of each."""
    episodes: int = WINDOW
    """Window of that mean, at most 100; so many episodes must have ended."""
    updates: int | None = None
    """Gradient steps."""
    seconds: float | None = None
    """Seconds since training began; looked at between calls to workers, and between minibatches."""
    patience: int | None = None
    """Evaluations in a row without improvement; needs ``eval_every=``. Larger: noise ends fewer runs."""
    min_delta: float = 0.0
    """What an evaluation must gain over the best one so far to count as an improvement."""

    def __post_init__(self) -> None:
        check.at_least_zero("Stop", "min_delta", self.min_delta)
        for name in ("env_steps", "updates", "patience"):
            if getattr(self, name) is not None:
                check.integer("Stop", name, getattr(self, name), least=1)
        wanted: object = self.mean_return
        if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or wanted != wanted):
            raise PlanError(f"Stop: mean_return must be a number, got {wanted!r}.")
        check.integer("Stop", "episodes", self.episodes, least=1, most=WINDOW)
        if self.seconds is not None:
            check.positive("Stop", "seconds", self.seconds)

    def __call__(self, metrics: Metrics) -> bool:
        """True if training stops."""
        return bool(self.reached(metrics))

    def reached(self, metrics: Metrics) -> str:
        """The condition that is reached, in words; empty if none is."""
        if self.mean_return is not None and self._good(metrics, self.mean_return):
            return f"a mean return of {self.mean_return:g} over {self.episodes} episodes"
        for wanted, counted, what in self.counts(metrics):
            if counted >= wanted:
                return f"{wanted:,} {what}"
        return ""

    def counts(self, metrics: Metrics) -> list[tuple[float, float, str]]:
        """The conditions that count something: target, current value and unit."""
        found = (
            (self.env_steps, metrics.env_steps, "env steps"),
            (self.updates, metrics.training.updates, "updates"),
            (self.seconds, metrics.speed.seconds, "seconds"),
        )
        return [(wanted, counted, what) for wanted, counted, what in found if wanted is not None]

    def _good(self, metrics: Metrics, wanted: float) -> bool:
        counted = [each.returns[-self.episodes :] for each in metrics.episodes.policies.values() or (metrics.episodes,)]
        return all(len(returns) == self.episodes and sum(returns) / len(returns) >= wanted for returns in counted)


class Callback:
    """Observes training: derive from it, override what you need, and pass it to ``run(callbacks=[...])``.

    All methods are called in the driver. An error in a callback ends the run.
    """

    def started(self, run: TrainingRun) -> None:
        """Called before anything is sampled."""

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        """Called with every report."""

    def stopping(self, run: TrainingRun) -> None:
        """Called once before everything is closed, if it stops in good order: ``run.save(path)`` works here for the last time."""

    def ended(self, run: TrainingRun, error: BaseException | None) -> None:
        """Called once at the end, also after an error. ``run.outcome`` has the reason; ``run.policy()`` still works."""


class Improvement:
    """What evaluations have reached so far, and how many there were since the best one."""

    def __init__(self, min_delta: float = 0.0) -> None:
        self.min_delta = min_delta
        self.best: float | None = None
        self.since = self.seen = 0

    def see(self, metrics: Metrics) -> None:
        """Look at an evaluation that was not there before."""
        if metrics.evaluations <= self.seen or not math.isfinite(metrics.evaluation.mean_return):
            return
        self.seen, found = metrics.evaluations, metrics.evaluation.mean_return
        if self.best is None or found > self.best + self.min_delta:
            self.best, self.since = found, 0
        else:
            self.since += 1

    def state(self) -> dict[str, object]:
        """For the manifest of a checkpoint."""
        return {"best": self.best, "since": self.since, "seen": self.seen}


class TrainingRun:
    """A training run. Iterate over it for ``Metrics``; ``policy()`` is the current policy, also afterwards.

    When a stop condition is reached, an evaluation that is running or due is awaited and reported, unless the time is over. It is
    a context manager: leaving it, or the end, closes all workers. The learned policy stays available.
    """

    def __init__(
        self,
        run: Run[Metrics],
        *,
        stop: Stop | Callable[[Metrics], bool] | None = None,
        callbacks: Sequence[Callback] = (),
        algorithm: Algorithm | None = None,
        seed: int = 0,
        eval_every: int | None = None,
        eval_episodes: int = 20,
        start_from: StartFrom | None = None,
        resumed_from: Path | None = None,
    ) -> None:
        self._started = self._stopped = self._forgotten = False
        self.run = run
        """The run itself: its ``stats()`` and ``ledger``, and ``ask`` for what actors know."""
        self.workers: AnyWorkers = reporting(run.plan).workers
        """The rollout workers, as the plan describes them."""
        self.algorithm = algorithm
        """The configuration that the plan was made from; None for a plan of your own."""
        self.stop = stop
        self.seed = seed
        self.eval_every = eval_every
        self.eval_episodes = eval_episodes
        self.start_from = start_from
        """The saved policies whose weights it started with; None if they were fresh."""
        self.resumed_from = resumed_from
        """The checkpoint that it was resumed from; None if it was not."""
        saved = {} if resumed_from is None else read_manifest(resumed_from)
        self.metrics: Metrics | None = metrics_of(saved)
        """The latest metrics; before the first report of a run that was resumed, those that it was saved with."""
        self.history = MetricsHistory()
        """Its metrics so far, about a row per second: ``run.history.frame()`` is a data frame."""
        self.outcome = ""
        """Why it ended, in words; empty while it runs."""
        self._improvement = Improvement(stop.min_delta if isinstance(stop, Stop) else 0.0)
        vars(self._improvement).update(saved.get("improvement", {}))
        self._reports = 0
        self._callbacks = tuple(callbacks)
        self._begun: list[Callback] = []
        self._forgotten = True
        """Whether nobody has asked anything of it yet."""

    @property
    def title(self) -> str:
        """What is being trained, in one line."""
        what = "A plan" if self.algorithm is None else type(self.algorithm).__name__
        where = type(self.run.runtime).__name__.removesuffix("Runtime").lower()
        return f"{what} on {self.workers.spec.env.name}, {where}, seed {self.seed}"

    def __repr__(self) -> str:
        found, ended = self.metrics, f"; ended by {self.outcome}" if self.outcome else ""
        if found is None:
            return f"<TrainingRun: {self.title}; not begun{ended}>"
        known = f", mean return {found.mean_return:.1f}" if math.isfinite(found.mean_return) else ""
        return f"<TrainingRun: {self.title}; {found.progress:,} {found.unit}{known}{ended}>"

    def __iter__(self) -> Iterator[Metrics]:
        return self

    def __next__(self) -> Metrics:
        if self.outcome:
            raise StopIteration
        try:
            self._start()
            found, reached = None, self._reached_before()
            if not reached:
                found = next(self.run, None)
                reached = self._ending() if found is None else self._seen(found)
        except BaseException as error:  # callbacks and stop functions are user code, too
            self._end(_failure(error), error)
            if isinstance(error, StopIteration):  # a loop over this run would take it for the end
                raise RuntimeError("A callback or stop= raised StopIteration.") from error
            raise
        if reached:
            self._end(reached, None)
        if self.metrics is None or found is None:
            raise StopIteration
        return self.metrics

    def finish(self) -> Metrics:
        """Train to the end and return the last metrics."""
        for _ in self:
            pass
        if self.metrics is None:
            raise TflowError("The plan ended before it reported anything.")
        return self.metrics

    def policy(self, name: str | None = None, *, untrained: bool = False) -> Policy:
        """A copy of the current policy; ``name`` says which, if there are several. If the learner is in an actor: with the
        weights that it sent last. Before the run has begun there is none, unless it starts from saved weights, or random ones are
        asked for with ``untrained``."""
        self._forgotten = False
        if not (self._started or untrained or self.start_from is not None or self.resumed_from is not None):
            raise TflowError(
                "Nothing has been learned: this run has not begun. Iterate over it, or call run.finish(), before run.policy(); "
                "run.policy(untrained=True) gives the initial weights."
            )
        return self.workers.policy(self.run, name)

    def policies(self) -> dict[str, Policy]:
        """Copies of all current policies by name; a single one is called ``default``."""
        return {name: self.policy(name) for name in self.workers.learners}

    def evaluated_policies(self) -> dict[str, Policy]:
        """As ``policies``, with the weights of the latest evaluation, which may be older. Empty if there was none, or if the
        evaluation worker has died since."""
        for evaluators in reporting(self.run.plan).evaluators:
            for weights in self.run.ask(evaluators, _evaluated_weights):
                if weights:
                    found = self.policies()
                    for name, policy in found.items():
                        policy.flat.set(weights[name])
                        policy.acting_only = len(weights[name]) < len(policy.flat.values)
                    return found
        return {}

    def save(self, path: str | os.PathLike[str], facts: Mapping[str, object] | None = None) -> None:
        """Write a checkpoint, a new folder, with the state of everything: ``run(resume=path)`` goes on from there.

        Args:
            path: The folder.
            facts: What else to write into its manifest.
        """
        self._forgotten = False
        known = {"seed": self.seed, "improvement": self._improvement.state()}
        if self.metrics is not None:
            known |= {"env_steps": self.metrics.env_steps, "updates": self.metrics.training.updates}
            known |= {"metrics": encode(self.metrics.plain()).tree}
        self.run.save(path, {**known, **(facts or {})})

    def interrupt(self, error: BaseException) -> None:
        """End the run soon, between two polls, with an error such as ``KeyboardInterrupt()``, and let callbacks save it before.
        Signal handlers may call it."""

        def stop() -> None:
            self._stopping()
            raise error

        self.run.at_next_poll(stop)

    def close(self) -> None:
        """End the run and close all workers. The learned policy stays available."""
        self._end("closed", None)

    def _start(self) -> None:
        if not self._started:
            self._started = True
            if isinstance(self.stop, Stop):
                self.run.limit(self.stop.seconds)
                self.run.will_stop(self.stop.env_steps)
            for each in self._callbacks:
                self._begun.append(each)
                each.started(self)

    def _seen(self, metrics: Metrics) -> str:
        """Pass a report to the callbacks. Returns the stop condition that is reached, if any."""
        self.metrics = metrics
        self._improvement.see(metrics)
        self.history.see(metrics)
        self._reports += 1
        if self.run.is_compared and self._reports % COMPARE_EVERY == 1:
            self.run.compare(self._reports, self._digest())
        reached = self._reached(metrics)
        if reached:
            self._stopping()  # before the final evaluation, which a run that goes on would not have made
        self._tell(metrics, final=bool(reached))
        return reached

    def _reached_before(self) -> str:
        """The stop condition that was reached when the run was saved which this one goes on from: that one was killed before it
        had ended. Empty if there is none."""
        if self._reports or self.metrics is None or self.resumed_from is None:
            return ""
        reached = self._reached(self.metrics)
        if reached:
            self._stopped = True  # there is nothing new to save
            self.run.load()
            self._tell(self.metrics, final=True)
        return reached

    def _tell(self, metrics: Metrics, *, final: bool) -> None:
        """Pass metrics to the callbacks, the final ones with the final evaluation."""
        if final and not self.run.is_over:
            self.metrics = metrics = self._with_final_evaluation(metrics)
            self.history.see(metrics)
        for each in self._callbacks:
            each.reported(self, metrics)

    def _digest(self) -> str:
        """A hash of all weights that the driver has."""
        found = hashlib.sha256()
        for resident in self.workers.learners.values():
            for weights in self.run.ask(resident, _weights):
                found.update(weights.data)
        return found.hexdigest()[:16]

    def _ending(self) -> str:
        """Why there are no more reports."""
        in_time = self.metrics is None or not self.run.is_over
        return "the plan ended" if in_time else f"{self.stop.seconds:,} seconds"  # type: ignore[union-attr]  # it has set the limit

    def _reached(self, metrics: Metrics) -> str:
        if isinstance(self.stop, Stop):
            waited = self.stop.patience is not None and self._improvement.since >= self.stop.patience
            no_better = f"{self._improvement.since} evaluations without improvement" if waited else ""
            return self.stop.reached(metrics) or no_better
        return "what stop= asked for" if self.stop is not None and self.stop(metrics) else ""

    def _with_final_evaluation(self, metrics: Metrics) -> Metrics:
        """The metrics with an evaluation that is running or due, which is awaited."""
        try:
            found = [
                each
                for evaluators in reporting(self.run.plan).evaluators
                for each in self.run.ask(evaluators, partial(_latest_evaluation, every=evaluators.every))
            ]
        except ShardFailed:  # the evaluation worker has died
            return metrics
        latest = max(found, key=lambda each: each.weights_at, default=metrics.evaluation)
        if latest.weights_at <= metrics.evaluation.weights_at:
            return metrics
        return replace(metrics, evaluation=latest, evaluations=metrics.evaluations + 1)

    def _stopping(self) -> None:
        if not self._stopped and not self.run.closed:
            self._stopped = True
            for each in self._begun:
                each.stopping(self)

    def _end(self, outcome: str, error: BaseException | None) -> None:
        """End everything. Every callback that was started is called, even if another one raises."""
        if self.outcome:
            return
        self.outcome = outcome
        steps: list[Callable[[], None]] = [self.run.close, *(partial(each.ended, self, error) for each in self._begun)]
        if error is None and self.metrics is not None:
            steps.insert(0, self._stopping)
        first = error
        for step in steps:
            try:
                step()
            except BaseException as another:
                if first is None:
                    first = another
                elif not isinstance(another, KeyboardInterrupt):  # it was to end at once
                    first.add_note(f"While ending: {type(another).__name__}: {another}")
        if error is None and first is not None:
            raise first

    def __del__(self) -> None:
        if self._started:
            self.close()
        elif self._forgotten and not self.run.closed and not self.outcome:
            logging.getLogger("tflow").warning(
                "A training run was made, and thrown away before it had begun: nothing was trained. Call .finish() on it, or "
                "iterate over it."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end("closed" if error is None else _failure(error), error)


def metrics_of(manifest: Mapping[str, object]) -> Metrics | None:
    """The metrics that a run was saved with; None if there was no report yet."""
    return decode(Encoded(manifest["metrics"], [])) if "metrics" in manifest else None


def _weights(current: CurrentPolicy) -> Array:
    return current.weights


def _evaluated_weights(worker: RolloutWorker) -> dict[str, Array]:
    return worker.evaluated_weights


def _latest_evaluation(worker: RolloutWorker, *, every: int | None) -> Episodes:
    """The latest evaluation, or a new one if that is due."""
    if every is not None and worker.weights_at // every > worker.evaluation.weights_at // every:
        return worker.evaluate()
    return worker.evaluation


def _failure(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"


def start_with(run: Run[Metrics], start_from: StartFrom) -> None:
    """Let all workers and learners of a run that has not begun start with the weights of saved policies."""
    from tflow.rl.rollout.starting import agents_of, initial_weights

    spec = reporting(run.plan).workers.spec
    weights = initial_weights(spec, start_from)
    for actors in dict.fromkeys(graph.actors_in(run.plan.node)):
        if agents_of(actors) is spec.agents:
            run.give(actors, weights)


def check_run(
    trained: Plan[Metrics] | Algorithm,
    *,
    stop: object = None,
    callbacks: object = (),
    eval_every: int | None = None,
    eval_episodes: int = 20,
    start_from: object = None,
    resume: object = None,
    **_: object,
) -> Plan[Metrics]:
    """The plan that would be run, with its evaluation. Raises for what is wrong, and starts nothing: checkers ask, too."""
    made = getattr(trained, "plan", None)
    plan = cast("Plan[Metrics]", trained if made is None else made())  # whatever it is: the next line looks
    check.instance("train", "plan", plan, Plan, "a plan, such as ReportMetrics(...) or PPO().plan()")
    if stop is not None and not callable(stop):
        raise PlanError(f"train: stop must be a Stop such as Stop(env_steps=100_000), or a function of metrics; got {stop!r}.")
    if isinstance(callbacks, Callback):
        raise PlanError("train: callbacks must be a list of callbacks; put this one into [ ].")
    for each in callbacks if isinstance(callbacks, Iterable) else ():
        check.instance(
            "train", "each of callbacks", each, Callback, "a Callback such as ShowProgress() or RunFolder('runs/mine')"
        )
    if isinstance(stop, Stop) and stop.patience is not None and eval_every is None and not reporting(plan).evaluators:
        raise PlanError(f"train: patience={stop.patience} counts evaluations, but there are none. Say eval_every=, too.")
    whole = plan if eval_every is None else with_evaluation(plan, every=eval_every, episodes=eval_episodes)
    if resume is not None and start_from is not None:
        raise PlanError("train: resume= goes on with the weights of the checkpoint; leave out start_from=.")
    if isinstance(start_from, Mapping):
        check_names("start_from", start_from, list(reporting(whole).workers.spec.agents))
    return whole


def train(
    plan: Plan[Metrics],
    *,
    stop: Stop | Callable[[Metrics], bool] | None = None,
    callbacks: Sequence[Callback] = (),
    eval_every: int | None = None,
    eval_episodes: int = 20,
    runtime: Runtime | None = None,
    seed: int = 0,
    start_from: StartFrom | None = None,
    resume: str | os.PathLike[str] | None = None,
    record: str | os.PathLike[str] | None = None,
    trace: str | os.PathLike[str] | None = None,
    algorithm: Algorithm | None = None,
) -> TrainingRun:
    """Train a plan that ends in ``ReportMetrics``.

    Args:
        plan: The plan.
        stop: When to stop: a ``Stop``, or a function of metrics. None trains until the run is closed.
        callbacks: Called at the start, with every report and at the end.
        eval_every: Env steps between evaluations, which run alongside training; updates where nobody samples. None does not
            evaluate.
        eval_episodes: Episodes per evaluation.
        runtime: Where actors run; None runs everything in this process.
        seed: Random seed of the run.
        start_from: Start with the weights of a saved policy: a policy file, a run folder (its latest policy) or a ``Policy``; for
            several policies a run folder with several, or a mapping by policy. Optimisers and counters start fresh.
        resume: Go on from a checkpoint of the same plan, exactly: the folder that ``run.save(path)`` wrote, or a run folder,
            whose latest checkpoint that is whole is taken. The seed is that of the run that was saved.
        record: A file into which the run writes the order of answers, and all else that a cluster decides: with it,
            ``runtime=ReplayRuntime(file)`` repeats the run in one process, bit for bit.
        trace: A file for a trace of driver, actors, calls and messages, in the trace event format of Chrome and Perfetto.
        algorithm: The configuration of the plan, which a ``RunFolder`` writes down.
    """
    whole = check_run(
        plan,
        stop=stop,
        callbacks=callbacks,
        eval_every=eval_every,
        eval_episodes=eval_episodes,
        start_from=start_from,
        resume=resume,
    )
    saved = None if resume is None else checkpoint_in(Path(resume), refused=logging.getLogger("tflow").warning)
    run = whole.run(runtime=runtime, seed=seed, resume=saved, record=record, trace=trace)
    run.identify()
    if start_from is not None:
        start_with(run, start_from)
    return TrainingRun(
        run,
        stop=stop,
        callbacks=callbacks,
        algorithm=algorithm,
        seed=seed if saved is None else run.seed,
        eval_every=eval_every,
        eval_episodes=eval_episodes,
        start_from=start_from,
        resumed_from=saved,
    )
