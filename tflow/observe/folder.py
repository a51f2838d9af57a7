"""Run folders: settings, metrics and policies of a run, up to date at every moment.

::

    config.toml         all settings; ``tflow train --config`` repeats the run
    plan.svg, plan.txt  the plan, drawn, and as ``print(plan)`` shows it, with its messages
    plan.json, stats.json  the same as data, and what was measured in it: what ``tflow report`` draws
    metrics.csv, metrics.jsonl, tensorboard/
    policy.safetensors  the latest policy; with several, one policy-NAME.safetensors each
    source/             the user's own files that the run is made of, as they were
    best.safetensors    the policy with the best evaluation, if there were evaluations; run.json tells that evaluation, by which
                        it was chosen, and another on other episodes, which tells what it is worth
    start.safetensors   the policy that it started from, if that was in no file
    checkpoints/        the state of everything, now and then and at the end: ``tflow train --resume`` goes on from there
    run.json            status and outcome; the env and the models, for plans that no configuration describes

What cannot be written, because a disk is full or the folder is gone, is kept in memory and tried again; training goes on.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflow.algos.algorithm import Algorithm
from tflow.algos.training_run import Callback, TrainingRun
from tflow.combinators import check
from tflow.drawing.built import of_plan
from tflow.drawing.svg import svg
from tflow.drawing.text import text
from tflow.errors import CheckpointError, PlanError, ShardFailed, TflowError
from tflow.loading import place_of
from tflow.observe.checkpoints import Checkpoints
from tflow.observe.facts import SOURCES, facts_of, own_files
from tflow.observe.loggers import HowFar, Logger, MakeLogger, RunFacts, finite, loggers_in, step_of
from tflow.observe.measured import PLAN, STATS, Meter, described_plan
from tflow.observe.monitor import TrainingMonitor
from tflow.observe.status import STATUS, read_status, this_process
from tflow.observe.trackers import begin_loggers, logger_named
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.metrics import Metrics
from tflow.rl.policy.files import BEST, LATEST, START, SUFFIX, file_of
from tflow.settings.fields import configured, described
from tflow.settings.files import read_file, written
from tflow.settings.period import Period
from tflow.settings.run import RunSettings
from tflow.settings.values import shown
from tflow.state.folders import CHECKPOINTS, read_manifest

if TYPE_CHECKING:
    from tflow.rl.policy.policy import Policy
    from tflow.rl.rollout.starting import StartSource
    from tflow.rl.rollout.worker_spec import WorkerSpec

log = logging.getLogger("tflow")
OTHER_EPISODES = 1_000_003
"""Seed of the episodes that the best policy is evaluated on at the end; no evaluation in a run begins with these."""
CONFIG = "config.toml"
WRITTEN = (CONFIG, STATUS, "plan.txt", "plan.svg", PLAN, STATS, "metrics.csv", "metrics.jsonl")
"""What must not be there before: nothing is written over."""


class RunFolder(Callback):
    """Saves a run in a folder: settings, plan, metrics, policies, checkpoints. Policies are saved every ``save_every_s`` seconds,
    at the best evaluation, and at the end, also after Ctrl-C or an error.

    Args:
        path: The folder. A run that is resumed from it goes on in it.
        save_every_s: Seconds between saves of the policies.
        log_every_s: Seconds between rows of metrics.
        checkpoint_every: Time or env steps between checkpoints, such as ``"5m"`` or ``"100_000"``; there is one at the end in any
            case. None writes none at all.
        keep: How many of the latest checkpoints are kept; so is the one with the best evaluation.
        loggers: Loggers beside the files: ``"wandb"``, ``"mlflow"``, the name of an entry point, ``"FILE.py:NAME"``, or a class
            or function of your own that takes ``RunFacts`` and makes a ``Logger``. One that raises does not end training.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        save_every_s: float = 60.0,
        log_every_s: float = 1.0,
        checkpoint_every: str | None = "5m",
        keep: int = 2,
        loggers: Sequence[str | MakeLogger] = (),
    ) -> None:
        self.path = Path(path)
        if isinstance(loggers, str):
            raise PlanError(f"RunFolder: loggers must be a list; put {loggers!r} into [ ].")
        for each in loggers:
            if isinstance(each, str):
                logger_named(each)
            elif not callable(each):
                raise PlanError(f"RunFolder: a logger is a name such as 'wandb', or what makes one from RunFacts; got {each!r}.")
        self.loggers = tuple(loggers)
        self.save_every_s = check.positive("RunFolder", "save_every_s", save_every_s)
        self.checkpoint_every, self.keep = checkpoint_every, keep
        period = None if checkpoint_every is None else Period.of("RunFolder: checkpoint_every", checkpoint_every)
        self.checkpoints = None if period is None else Checkpoints(self.path / CHECKPOINTS, period, keep)
        self.unwritten: dict[str, str] = {}
        """What could not be written so far, and why."""
        self.log_every_s = check.at_least_zero("RunFolder", "log_every_s", log_every_s)
        self.best = float("-inf")
        """The best evaluation so far."""
        self._best_seen = float("-inf")
        """That of the run itself; that of one that was killed after the checkpoint is none. When it is beaten, workers are asked
        for the policy, which changes the order of answers: a run that goes on must ask where the other one did."""
        self.best_confirmed: float | None = None
        """The evaluation of that policy on other episodes; known at the end."""
        self._best_policies: dict[str, Policy] = {}
        self.seconds = 0.0
        """Duration of the run, set at the end."""
        self.warnings: list[dict[str, object]] = []
        """Signs of trouble so far, and the env steps at which they were seen."""
        self._monitor = TrainingMonitor()
        self._meter = Meter()
        self._open = False
        self._loggers: list[Logger] = []
        self._evaluations = 0
        self._logged: Metrics | None = None
        self._waiting: list[tuple[Logger, deque[dict[str, float]]]] = []
        """Rows of metrics that each logger has not written yet."""
        self._told: HowFar | None = None
        """How far the checkpoint was that it goes on from; there is a row of it."""
        self._log_at = self._save_at = self._started_at = 0.0
        self._began = ""
        self._facts: dict[str, object] = {}

    def resumes(self, run: TrainingRun) -> bool:
        """True if the run was resumed from a checkpoint in this folder."""
        return run.resumed_from is not None and self.path.resolve() in run.resumed_from.resolve().parents

    def started(self, run: TrainingRun) -> None:
        if not self.resumes(run) and any((self.path / name).exists() for name in WRITTEN):
            raise PlanError(f"There is a run in {str(self.path)!r} already. Choose another folder, or remove that one.")
        there = self.path.exists()
        before = set(self.path.glob("*"))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._begin(run)
        except OSError as error:
            self._undo(before, error, keep=there)
            raise PlanError(f"Cannot make the run folder {str(self.path)!r}: {error.strerror}.") from None
        except Exception as error:  # of a logger, for one
            self._undo(before, error, keep=there)
            raise

    def _undo(self, before: set[Path], error: Exception, *, keep: bool) -> None:
        """A run that cannot begin leaves nothing behind: neither files nor loggers that wait for it."""
        for logger in self._loggers:
            with suppress(Exception):  # the first error is told
                logger.finish({"status": "failed", "outcome": str(error)})
        for path in set(self.path.glob("*")) - before:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if not keep:
            with suppress(OSError):  # somebody else has written something there
                self.path.rmdir()

    def _begin(self, run: TrainingRun) -> None:
        """Write settings and plan, before anything is sampled."""
        self._loggers = []
        self._facts = facts_of(run)
        self._describe(run)
        manifest = read_manifest(run.resumed_from) if run.resumed_from is not None and self.resumes(run) else {}
        before = manifest.get("folder", {})
        after = step_of(manifest) if manifest else None
        facts = RunFacts(self.path.resolve().name, self.path, settings_of(run), after)
        for logger in begin_loggers(self.loggers, facts):
            self._loggers.append(logger)
        self._told = HowFar.saved(manifest) if manifest else None
        self._loggers += loggers_in(self.path, self._told)
        self._evaluations = before.get("evaluations", 0)
        self._best_seen = -math.inf if before.get("best") is None else before["best"]
        self.best = max(self._best_seen, self._best_kept()) if manifest else -math.inf
        self._began = before.get("began") or datetime.now(UTC).isoformat(timespec="seconds")
        self._monitor, self.warnings = TrainingMonitor(), before.get("warnings", [])
        self._meter = Meter(before.get("deaths", ()))
        self._waiting = [(each, deque()) for each in self._loggers]
        self._log_at, self._logged, self.unwritten = 0.0, None, {}
        self.best_confirmed, self._best_policies = None, {}
        self._started_at = time.monotonic() - before.get("seconds", 0.0)
        self._save_at = 0.0  # the first comes soon
        self._check_savable(run)
        if self.checkpoints is not None:
            self.checkpoints.begin(step_of(manifest))
        self._status(run, "running")
        self._open = True

    def _check_savable(self, run: TrainingRun) -> None:
        """Leave out checkpoints, with a word, if it is known now that they cannot be written."""
        try:
            if self.checkpoints is not None:
                run.run.plan.validate(saving=True)
        except PlanError as error:
            log.warning("This run cannot be continued later, and no checkpoints are written: %s", error)
            self.checkpoints = None

    def _describe(self, run: TrainingRun) -> None:
        """Write settings and plan."""
        if run.algorithm is not None:
            settings = replace(RunSettings.of(run), start_from=self._start_from(run), **self._periods())
            _replace_text(self.path / CONFIG, written(run.algorithm, settings))
        plan = run.run.plan
        title = "" if run.algorithm is None else f"{type(run.algorithm).__name__} on {run.workers.spec.env.name}"
        drawing = of_plan(plan, title)
        (self.path / "plan.txt").write_text(f"{text(plan, drawing)}\n", encoding="utf-8")
        (self.path / "plan.svg").write_text(svg(drawing), encoding="utf-8")
        _replace_text(self.path / PLAN, json.dumps(described_plan(run, drawing)) + "\n")
        self._facts["sources"] = {what: self._copied(file) for what, file in own_files(run).items()}

    def _copied(self, file: Path) -> dict[str, str]:
        """Where a file of the user's is, and its copy in the folder: it may change, or go, while the run is kept."""
        copy = self.path / SOURCES / file.name
        copy.parent.mkdir(exist_ok=True)
        if file != copy.resolve():  # else it was the copy that was run
            shutil.copyfile(file, copy)
        return {"file": str(file), "copy": f"{SOURCES}/{file.name}"}

    def _periods(self) -> dict[str, Any]:  # Any: settings of several kinds
        """When checkpoints are written, as settings say it."""
        named = [each if isinstance(each, str) else place_of(each) for each in self.loggers]
        logger = ",".join(filter(None, named)) or None
        return {"save_every": self.checkpoint_every, "keep": self.keep, "logger": logger}

    def _start_from(self, run: TrainingRun) -> str | dict[str, str] | None:
        """What the run started from, as a file can say it. A policy that is in no file is saved here."""
        given, names = run.start_from, list(run.workers.spec.agents)
        if given is None and self.resumes(run) and (self.path / CONFIG).exists():
            kept = configured(RunSettings, read_file(self.path / CONFIG)[1], called=CONFIG).start_from
            return dict(kept) if isinstance(kept, Mapping) else kept
        if given is None:
            return None
        if isinstance(given, Mapping):
            return {name: self._place(name, each) for name, each in given.items()}
        return self._place(names[0], given)

    def _place(self, name: str, start: StartSource) -> str:
        if isinstance(start, (str, os.PathLike)):
            return str(Path(start).resolve())  # the run may be repeated from anywhere
        file = self.path / file_of(START, name)
        start.save(file)
        return str(file.resolve())

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        now = time.monotonic()
        for sentence in self._monitor.see(metrics):
            self.warnings.append({"env_steps": metrics.env_steps, "warning": sentence})
        if metrics.evaluations > self._evaluations:
            self._evaluations = metrics.evaluations
            if metrics.evaluation.mean_return > self._best_seen:
                self._save_best(run, metrics.evaluation.mean_return)
            self._log_at = now
        if now >= self._log_at:
            self._mend(run)
            self._meter.see(run)
            self._log(metrics)
            self._log_at = now + self.log_every_s
        if now >= self._save_at:
            self._mend(run)
            self._attempt("the policy", lambda: self._save(LATEST, run.policies()))
            self._attempt(STATUS, lambda: self._status(run, "running"))
            self._save_at = now + self.save_every_s
        if self.checkpoints is not None and self.checkpoints.due(metrics):
            self._checkpoint(run)

    def stopping(self, run: TrainingRun) -> None:
        if self._open and run.metrics is not None:
            self._log(run.metrics)  # a final evaluation, which a run that goes on has not made, has a row of its own
        if self._open and self.checkpoints is not None:
            self._checkpoint(run)

    def _best_kept(self) -> float:
        """The evaluation of the policy in its file, which may have come after the checkpoint."""
        found = read_status(self.path).get("best_chosen_by") if any(self.path.glob(f"{BEST}*{SUFFIX}")) else None
        return found if isinstance(found, (int, float)) else -math.inf

    def _checkpoint(self, run: TrainingRun) -> None:
        assert self.checkpoints is not None
        own = {
            "place": self._reached(run),
            "best": self._best_seen if math.isfinite(self._best_seen) else None,
            "evaluations": self._evaluations,
            "began": self._began,
            "warnings": self.warnings,
            "deaths": self._meter.deaths(run),
            "seconds": time.monotonic() - self._started_at,
        }
        self._attempt("the checkpoint", partial(self.checkpoints.write, run, {"folder": own}))

    def _reached(self, run: TrainingRun) -> HowFar:
        """How far it is; before the first report, as far as what it goes on from."""
        return HowFar.of(run.metrics.flat()) if run.metrics is not None else self._told or HowFar(0, 0, 0)

    def _mend(self, run: TrainingRun) -> None:
        """If the folder was removed in mid-run, make it again, and say what is lost."""
        described = (STATUS, PLAN) if run.algorithm is None else (STATUS, PLAN, CONFIG)
        if all((self.path / name).exists() for name in described):
            return
        if "the settings" not in self.unwritten:
            log.warning(
                "The run folder %s was removed, or a part of it, while the run goes on. Its settings are written again; metrics "
                "and checkpoints that were in it are lost.",
                self.path,
            )
        self._attempt("the settings", partial(self._again, run))

    def _again(self, run: TrainingRun) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._describe(run)
        self._status(run, "running")

    def _attempt(self, what: str, write: Callable[[], object], errors: type[Exception] = CheckpointError) -> None:
        """Write something. If that fails, say so once, and go on. Loggers may raise anything."""
        try:
            write()
        except (OSError, CheckpointError, ShardFailed, errors) as error:
            said = str(error) if isinstance(error, TflowError) else f"{type(error).__name__}: {error}"
            said = error.strerror if isinstance(error, OSError) and error.strerror else said
            if what not in self.unwritten:
                log.warning(
                    "Could not write %s in %s: %s Training goes on, and it is tried again.",
                    what,
                    self.path,
                    f"{said.rstrip('.')}.",
                )
            self.unwritten[what] = said
        else:
            self.unwritten.pop(what, None)

    def ended(self, run: TrainingRun, error: BaseException | None) -> None:
        if not self._open:
            return  # it never began
        self._open = False
        self.seconds = time.monotonic() - self._started_at
        self._mend(run)
        status = "finished" if error is None else "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        try:
            if run.run.is_loaded and (run.metrics is not None or status == "interrupted"):
                self._attempt("the policy", lambda: self._save(LATEST, run.policies()))
            if run.metrics is not None:
                self._log(run.metrics)
                if error is None and not run.run.is_over:
                    self._confirm_best(run)
        except BaseException as another:
            status = "interrupted" if isinstance(another, KeyboardInterrupt) else "failed"
            raise
        finally:
            summary = self._summary(run, status)
            for each in self._loggers:
                self._attempt(f"the end ({type(each).__name__})", partial(each.finish, summary), Exception)
            self._attempt(STATUS, lambda: self._status(run, status))
            for what, why in self.unwritten.items():
                log.warning("At the end, %s could not be written in %s: %s.", what, self.path, why.rstrip("."))

    def _log(self, metrics: Metrics) -> None:
        row = metrics.flat()
        if metrics is not self._logged and HowFar.of(row) != self._told:
            self._logged = metrics
            row |= {"seconds": round(time.monotonic() - self._started_at, 3)}
            for _, rows in self._waiting:
                rows.append(row)
        for logger, rows in self._waiting:
            self._attempt(f"the metrics ({type(logger).__name__})", partial(self._write_rows, logger, rows), Exception)

    @staticmethod
    def _write_rows(logger: Logger, rows: deque[dict[str, float]]) -> None:
        """Write all rows that wait; one that fails waits on, with those after it."""
        while rows:
            logger.write(rows[0])
            rows.popleft()

    def _save_best(self, run: TrainingRun, mean_return: float) -> None:
        try:
            policies = run.evaluated_policies()
        except ShardFailed:
            policies = {}
        if policies:  # else the evaluation worker has died since: keep the previous best
            self._best_seen = mean_return
        if policies and mean_return > self.best:
            self.best = mean_return
            self._attempt("the best policy", lambda: self._save(BEST, policies))
            self._attempt(STATUS, lambda: self._status(run, "running"))  # it says how good the policy in that file is
            self._best_policies = policies

    def _confirm_best(self, run: TrainingRun) -> None:
        """Evaluate the best policy on other episodes than those that it was chosen by, which favoured it."""
        from tflow.rl.policy.policy import Policy
        from tflow.rl.rollout.evaluate import evaluate
        from tflow.rl.rollout.evaluation import CUT_AFTER

        spec = run.workers.spec
        if not self._best_policies and math.isfinite(self.best):  # it was found before the run was resumed
            with suppress(CheckpointError):  # files of policies of one's own class hold no code
                self._best_policies = {name: Policy.load(self.path / file_of(BEST, name)) for name in run.workers.learners}
        if len(self._best_policies) == 1 and not any(loss.adapts for loss in spec.losses.values()):
            (policy,) = self._best_policies.values()
            found = evaluate(policy, spec.env, episodes=run.eval_episodes, seed=OTHER_EPISODES + run.seed, cut_after=CUT_AFTER)
            self.best_confirmed = found.mean_return

    @property
    def best_in_words(self) -> str:
        """What the best policy is worth; empty if there is none."""
        if not math.isfinite(self.best):
            return ""
        other = "" if self.best_confirmed is None else f"; on other episodes: {self.best_confirmed:.1f}"
        return f"The best policy was chosen by an evaluation of {self.best:.1f}{other}."

    def _save(self, kind: str, policies: Mapping[str, Policy]) -> None:
        for name, policy in policies.items():
            policy.save(self.path / file_of(kind, name))

    def _summary(self, run: TrainingRun, status: str) -> dict[str, object]:
        """What loggers are told at the end."""
        best = {"best_chosen_by": self.best if math.isfinite(self.best) else None, "best_evaluation": self.best_confirmed}
        last = {} if run.metrics is None else finite(run.metrics.flat())
        return {"status": status, "outcome": run.outcome, **last, **{name: value for name, value in best.items() if value}}

    def _status(self, run: TrainingRun, status: str) -> None:
        metrics = run.metrics
        found = {
            "status": status,
            "outcome": run.outcome,
            "began": self._began,
            **this_process(),
            "seed": run.seed,
            **places(run.workers.spec),
            "runtime": type(run.run.runtime).__name__,
            "fingerprint": run.run.plan.fingerprint,
            **self._facts,
            "seconds": round(self.seconds, 3) or None,
            "metrics": {} if metrics is None else finite(metrics.flat()),
            "warnings": self.warnings,
            "best_chosen_by": self.best if math.isfinite(self.best) else None,
            "best_evaluation": self.best_confirmed,
        }
        _replace_text(self.path / STATUS, json.dumps(found, indent=2) + "\n")
        _replace_text(self.path / STATS, json.dumps(self._meter.measured(run)) + "\n")


def settings_of(run: TrainingRun) -> dict[str, object]:
    """The settings of a run as loggers keep them: texts, numbers and bools by name, those of inner configurations with dots."""
    settings = {f"run.{name}": value for name, value, _ in described(RunSettings.of(run))}
    if run.algorithm is not None:
        settings |= flat_settings(run.algorithm)
    plain = (bool, int, float, str)
    return {name: value if isinstance(value, plain) else shown(value) or repr(value) for name, value in settings.items()}


def flat_settings(config: object, prefix: str = "") -> dict[str, object]:
    """The fields of a configuration, and of those inside."""
    found: dict[str, object] = {}
    for name, value, _ in described(config):
        found |= flat_settings(value, f"{prefix}{name}.") if isinstance(value, Algorithm) else {f"{prefix}{name}": value}
    return found


def _replace_text(path: Path, text: str) -> None:
    """Write a file as a whole: a process that is killed meanwhile leaves the one before."""
    aside = path.with_name(f".{path.name}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def places(spec: WorkerSpec) -> dict[str, object]:
    """The env and the model of each policy as ``tflow eval`` reads them; None for what cannot be written."""
    plain = spec.env == EnvSpec(spec.env.env)
    return {
        "env": shown(spec.env.env if plain else spec.env),
        "models": {name: shown(spec.agents[name].model) for name in spec.losses},
    }


def fresh_folder(parent: Path, name: str) -> Path:
    """A new folder: ``name-1``, or the next number that is free."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            with suppress(FileExistsError):
                (parent / f"{name}-{number}").mkdir()
                return parent / f"{name}-{number}"
    except OSError as error:
        raise PlanError(f"Cannot make a run folder in {str(parent)!r}: {error.strerror}.") from None
    raise AssertionError("numbers do not end")
