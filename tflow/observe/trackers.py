"""Loggers of services, by name: Weights & Biases, MLflow, and those that others have registered as entry points.

``RunFolder(loggers=["wandb"])`` and ``tflow train --logger wandb,mlflow`` take them beside the files. A package offers its own by
an entry point of the group ``tflow.loggers``, whose value is called with the facts of the run::

    [project.entry-points."tflow.loggers"]
    mine = "my_package:MyLogger"
"""

from __future__ import annotations

import logging
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast
from uuid import uuid4

from tflow import loading
from tflow.errors import MissingExtra, PlanError
from tflow.extras import require
from tflow.observe.loggers import Logger, MakeLogger, RunFacts
from tflow.sentences import did_you_mean

GROUP = "tflow.loggers"
"""The group of entry points."""
PROJECT = "tflow"
"""What runs belong to, unless the environment says otherwise: WANDB_PROJECT, MLFLOW_EXPERIMENT_NAME."""
MLFLOW_STORE = "sqlite:///mlflow.db"
"""Where ``mlflow ui`` looks by default."""
MOST_METRICS = 1000
"""MLflow takes no more in one call."""


class WandbLog:
    """A run of Weights & Biases. Without network: ``WANDB_MODE=offline``, and ``wandb sync`` later."""

    def __init__(self, facts: RunFacts) -> None:
        wandb: Any = require("wandb", extra="wandb", feature="Weights & Biases logs")  # Any: its types are not needed
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=facts.name,
            id=facts.kept_id("wandb", lambda: uuid4().hex[:8]),
            resume="allow",
            dir=str(facts.folder),
            config=dict(facts.config),
            settings=wandb.Settings(console="off"),  # the live view has the terminal
        )
        self.run.define_metric("env_steps")
        self.run.define_metric("*", step_metric="env_steps")

    def write(self, row: Mapping[str, float]) -> None:
        self.run.log(dict(known(row)))

    def finish(self, summary: Mapping[str, object]) -> None:
        self.run.summary.update(dict(summary))
        self.run.finish(exit_code=0 if summary["status"] == "finished" else 1)


class MlflowLog:
    """A run of MLflow: in the file ``mlflow.db`` here, or where ``MLFLOW_TRACKING_URI`` says."""

    def __init__(self, facts: RunFacts) -> None:
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)  # it tells of each table
        with without_warnings():  # of what it is built on
            tracking: Any = require("mlflow.tracking", extra="mlflow", feature="MLflow logs")  # Any: its types are not needed
            self.entities: Any = require("mlflow.entities", extra="mlflow", feature="MLflow logs")  # Any: as above
            self.client = tracking.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", MLFLOW_STORE))
            self.run = facts.kept_id("mlflow", lambda: self._begun(facts))
            self.client.update_run(self.run, status="RUNNING")

    def _begun(self, facts: RunFacts) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        known = self.client.get_experiment_by_name(name)
        experiment = self.client.create_experiment(name) if known is None else known.experiment_id
        run: str = self.client.create_run(experiment, run_name=facts.name).info.run_id
        params = [self.entities.Param(_allowed(name), str(value)) for name, value in facts.config.items()]
        self.client.log_batch(run, params=params)
        return run

    def write(self, row: Mapping[str, float]) -> None:
        now, step = int(time.time() * 1000), int(row["env_steps"])
        found = [self.entities.Metric(_allowed(name), value, now, step) for name, value in known(row)]
        with without_warnings():
            for first in range(0, len(found), MOST_METRICS):
                self.client.log_batch(self.run, metrics=found[first : first + MOST_METRICS])

    def finish(self, summary: Mapping[str, object]) -> None:
        ended = {"finished": "FINISHED", "interrupted": "KILLED"}.get(str(summary["status"]), "FAILED")
        with without_warnings():
            for name in ("status", "outcome"):
                self.client.set_tag(self.run, name, summary[name])
            self.client.set_terminated(self.run, ended)


BUILT_IN: Mapping[str, MakeLogger] = {"wandb": WandbLog, "mlflow": MlflowLog}


def registered() -> dict[str, EntryPoint]:
    """The loggers of other packages."""
    return {each.name: each for each in entry_points(group=GROUP)}


def logger_named(name: str) -> MakeLogger:
    """What makes a logger: one of ours, an entry point, or ``FILE.py:NAME``."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    found = registered()
    if name in found:
        return made_by(name, found[name].load)
    if ":" in name:
        return made_by(name, lambda: loading.find(name))
    known = [*BUILT_IN, *found]
    raise PlanError(
        f"There is no logger {name!r}.{did_you_mean(name, known)} There are {', '.join(known)}, FILE.py:NAME of your own, and "
        f"what packages register as {GROUP}; the run folder has CSV, JSON lines and TensorBoard in any case."
    )


def made_by(name: str, load: Callable[[], object]) -> MakeLogger:
    """What a name stands for, if it can make loggers."""
    try:
        found = load()
    except PlanError:
        raise
    except Exception as error:  # whatever happens in somebody's package
        raise PlanError(f"The logger {name!r} cannot be loaded: {type(error).__name__}: {error}.") from error
    if not callable(found):
        raise PlanError(f"The logger {name!r} must be a class or function that takes the facts of a run; it is {found!r}.")
    return cast("MakeLogger", found)


def begin_loggers(asked: Iterable[str | MakeLogger], facts: RunFacts) -> Iterator[Logger]:
    """Make the loggers that were asked for. One that cannot begin is a mistake that is told before anything is trained."""
    for each in asked:
        make = logger_named(each) if isinstance(each, str) else each
        name = each if isinstance(each, str) else getattr(each, "__name__", repr(each))
        try:
            made = make(facts)
        except (PlanError, MissingExtra):
            raise
        except Exception as error:  # whatever happens in somebody's package
            raise PlanError(f"The logger {name!r} cannot begin: {type(error).__name__}: {error}") from error
        if not (callable(getattr(made, "write", None)) and callable(getattr(made, "finish", None))):
            raise PlanError(f"The logger {name!r} needs the methods write(row) and finish(summary); got {made!r}.")
        yield made


@contextmanager
def without_warnings() -> Iterator[None]:
    """Keep warnings of other libraries from users, who cannot do anything about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def known(row: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """The numbers that are known: services draw gaps as they like."""
    return ((name, value) for name, value in row.items() if math.isfinite(value))


def _allowed(name: str) -> str:
    """A name in the characters that MLflow allows."""
    return re.sub(r"[^\w\-./ ]", "_", name)
