"""Studies of Optuna: trials of a configuration, pruned by their evaluations, in a folder, from which they go on."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import cloudpickle

from tflow.algos.algorithm import Algorithm
from tflow.algos.training_run import Callback, TrainingRun
from tflow.errors import PlanError, TflowError
from tflow.extras import require
from tflow.observe.trackers import without_warnings
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.metrics import Metrics
from tflow.settings.files import written
from tflow.settings.run import RunSettings
from tflow.tuning.space import Between, Tried, goes

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

JOURNAL, BEST, TABLE = "study.journal", "best.toml", "trials.csv"
WHY = "why"
"""The attribute of a failed trial that says why."""
Optuna = Any  # Any: the module, a study or a trial: an extra that need not be there
"""Any: its types would have to be imported."""
Begun: TypeAlias = "Synchronized[int]"
"""How many trials of a search have begun, in all its processes."""


class StudySearch(NamedTuple):
    """A search: what is tried, how each trial is run, and where the study is."""

    algorithm: Algorithm
    settings: RunSettings
    space: Mapping[str, Tried]
    folder: Path
    trials: int
    prunes: bool = True


class TrialFailed(TflowError):
    """A trial that has no result."""


class Reports(Callback):
    """Tells a trial of every evaluation, and ends it if it is no better than most."""

    def __init__(self, trial: Optuna, pruned: type[Exception], prunes: bool) -> None:
        self.trial, self.pruned, self.prunes, self.seen = trial, pruned, prunes, 0

    def reported(self, run: TrainingRun, metrics: Metrics) -> None:
        if metrics.evaluations > self.seen:
            self.seen = metrics.evaluations
            value = metrics.evaluation.mean_return
            if not math.isfinite(value):
                raise TrialFailed(f"the evaluation after {metrics.env_steps:,} env steps is {value}.")
            self.trial.report(value, metrics.env_steps)
            if self.prunes and self.trial.should_prune():
                raise self.pruned


def optuna() -> Optuna:
    """The library, without its messages about each trial."""
    found: Any = require("optuna", extra="tune", feature="Searches of hyperparameters")  # Any: as above
    found.logging.set_verbosity(found.logging.ERROR)
    return found


def opened(search: StudySearch) -> Optuna:
    """The study of a folder; a new one if there is none."""
    library = optuna()
    search.folder.mkdir(parents=True, exist_ok=True)
    with without_warnings():
        backend = library.storages.journal.JournalFileBackend(str(search.folder / JOURNAL))
        study = library.create_study(
            study_name="tflow",
            storage=library.storages.JournalStorage(backend),
            direction="maximize",
            pruner=library.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=0),
            load_if_exists=True,
        )
    known, asked = study.user_attrs.get("search"), identity(search)
    if known is None:
        study.set_user_attr("search", asked)
        study.enqueue_trial(inside(search))
    elif known != asked:
        raise PlanError(
            f"{str(search.folder)!r} has a study of something else: {differences(known, asked)}. Choose another folder, or "
            "repeat that search."
        )
    return study


def identity(search: StudySearch) -> dict[str, str]:
    """What must be the same for trials to be compared."""
    given = {f"field {name}": repr(value) for name, value in vars(search.algorithm).items() if name not in search.space}
    return {
        "algorithm": type(search.algorithm).__name__,
        **given,
        **{f"search {name}": repr(each) for name, each in search.space.items()},
        "stop": repr(search.settings.stop(EnvSpec.of(search.algorithm.env))),
    }


def differences(known: Mapping[str, str], asked: Mapping[str, str]) -> str:
    """What differs between two searches."""
    names = [name for name in {**known, **asked} if known.get(name) != asked.get(name)]
    return "; ".join(f"{name} was {known.get(name, 'not there')}, is {asked.get(name, 'not there')}" for name in names[:3])


def inside(search: StudySearch) -> dict[str, object]:
    """The settings that one starts from, where they are in the space: the first trial."""
    found: dict[str, object] = {}
    for name, each in search.space.items():
        value = getattr(search.algorithm, name)
        if isinstance(each, Between):
            if isinstance(value, (int, float)) and each.low <= value <= each.high:
                found[name] = value
        elif value in each.values:
            found[name] = each.values.index(value)
    return found


def suggested(trial: Optuna, search: StudySearch) -> dict[str, Any]:  # Any: values of fields
    """The values of a trial."""
    found: dict[str, Any] = {}  # Any: as above
    for name, each in search.space.items():
        if not isinstance(each, Between):
            found[name] = each.values[trial.suggest_categorical(name, list(range(len(each.values))))]
        elif each.whole:
            found[name] = trial.suggest_int(name, int(each.low), most_allowed(search.algorithm, found, name, each), log=each.log)
        else:
            found[name] = trial.suggest_float(name, each.low, each.high, log=each.log)
    return found


def most_allowed(algorithm: Algorithm, found: Mapping[str, Any], name: str, each: Between) -> int:  # Any: values of fields
    """The end of a range, or the largest number in it that goes with the values so far: a minibatch is within its batch."""
    low, high = int(each.low), int(each.high)
    if goes(algorithm, {**found, name: high}) or not goes(algorithm, {**found, name: low}):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if goes(algorithm, {**found, name: middle}) else (low, middle)
    return low


def tried_once(search: StudySearch, trial: Optuna) -> float:
    """Train with the values of a trial. Returns its last evaluation."""
    settings = search.settings
    try:
        config = replace(search.algorithm, **suggested(trial, search))
        with settings.open() as session:
            run = config.run(
                stop=settings.stop(EnvSpec.of(config.env)),
                callbacks=[Reports(trial, optuna().TrialPruned, search.prunes)],
                eval_every=settings.evaluates_every,
                eval_episodes=settings.eval_episodes,
                runtime=session,
                seed=settings.seed,
            )
            with run:
                metrics = run.finish()
        value = metrics.evaluation.mean_return
        if not math.isfinite(value):
            raise TrialFailed("no evaluation was made before it ended: let it run longer, or evaluate more often.")
        return float(value)
    except optuna().TrialPruned:
        raise
    except Exception as error:
        trial.set_user_attr(WHY, str(error) if isinstance(error, TflowError) else f"{type(error).__name__}: {error}")
        raise


def work(search: StudySearch, begun: Begun) -> None:
    """Run trials until as many have begun as were asked for."""
    library, study = optuna(), opened(search)
    while (number := following(begun, search.trials)) is not None:
        study.sampler = library.samplers.TPESampler(seed=seed_of(search, number))
        with without_warnings():
            study.optimize(
                lambda trial: tried_once(search, trial),
                n_trials=1,
                catch=(Exception,),
                callbacks=[lambda *_: write(search, study)],
            )


def following(begun: Begun, trials: int) -> int | None:
    """The number of the next trial; None if there are enough."""
    with begun.get_lock():
        number = begun.value
        begun.value = min(number + 1, trials)
    return number if number < trials else None


def seed_of(search: StudySearch, number: int) -> int:
    """Of each trial another, whichever process it is in, and the same in a search that goes on."""
    return int.from_bytes(sha256(f"{search.settings.seed} {number}".encode()).digest()[:4], "big")


def work_packed(packed: bytes, begun: Begun) -> None:
    """Run trials in a process of its own."""
    work(cloudpickle.loads(packed), begun)


def run_search(search: StudySearch, jobs: int = 1) -> Optuna:
    """Run a search to its end, in so many processes at once. Returns the study."""
    study, context = opened(search), get_context("spawn")
    over = [each for each in study.get_trials(deepcopy=False) if each.state.is_finished()]
    begun = context.Value("q", min(len(over), search.trials))  # one that was cut off is tried again
    try:
        if jobs == 1:
            work(search, begun)
        else:
            packed = cloudpickle.dumps(search)  # it may hold functions of a user's file
            processes = [context.Process(target=work_packed, args=(packed, begun)) for _ in range(jobs)]
            for process in processes:
                process.start()
            try:
                for process in processes:
                    process.join()
                if any(process.exitcode for process in processes):
                    raise TflowError(
                        f"A process of the search has died. {search.folder} has what was tried; the same command goes on."
                    )
            finally:
                for process in processes:
                    process.terminate()
    finally:
        write(search, study)
    return study


def write(search: StudySearch, study: Optuna) -> None:
    """Write the table of trials, and the best settings so far as ``tflow train --config`` takes them."""
    rows = []
    for each in study.get_trials(deepcopy=False):
        values = {name: shown_value(search.space[name], value) for name, value in each.params.items() if name in search.space}
        seconds = None if each.duration is None else round(each.duration.total_seconds(), 1)
        rows.append(
            {"trial": each.number, "state": each.state.name.lower(), "value": each.value, **values, "seconds": seconds,
             "why": each.user_attrs.get(WHY, "")}
        )  # fmt: skip
    names = list(dict.fromkeys(name for row in rows for name in row))
    aside = search.folder / f".{TABLE}"
    with aside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    aside.replace(search.folder / TABLE)
    best = best_config(search, study)
    if best is not None:
        (search.folder / BEST).write_text(written(best, search.settings), encoding="utf-8")


def best_config(search: StudySearch, study: Optuna) -> Algorithm | None:
    """The best configuration so far; None if no trial was completed."""
    complete = [each for each in study.get_trials(deepcopy=False) if each.state.name == "COMPLETE"]
    if not complete:
        return None
    best = max(complete, key=lambda each: each.value)
    return replace(search.algorithm, **{name: shown_value(search.space[name], value) for name, value in best.params.items()})


def shown_value(tried: Tried, value: object) -> Any:  # Any: a field of whatever type
    """The value that a trial has for a field: of choices, Optuna knows the number."""
    return value if isinstance(tried, Between) else tried.values[int(json.loads(str(value)))]
