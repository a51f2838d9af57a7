"""What ``tflow eval`` is asked to evaluate: the policies of a run folder, or a policy file, with the env and the models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tflow import loading
from tflow.algos.evaluation import reporting
from tflow.commands.choice import chosen
from tflow.errors import PlanError, TflowError
from tflow.observe.facts import copies_in
from tflow.observe.folder import CONFIG, WRITTEN
from tflow.observe.status import STATUS
from tflow.rl.policy.files import BEST, LATEST, SUFFIX, file_of
from tflow.settings.fields import KINDS
from tflow.settings.files import read_file
from tflow.settings.values import UNWRITABLE, read

if TYPE_CHECKING:
    from tflow.rl.policy.network_spec import ModelLike
    from tflow.rl.policy.policy import Policy
    from tflow.rl.policy.policy_spec import PolicySpec
    from tflow.rl.rollout.worker_spec import EnvLike, WorkerSpec


class Asked(NamedTuple):
    """A command line, as it was typed."""

    path: Path
    best: bool = False
    env: str | None = None
    model: str | None = None

    @property
    def folder(self) -> Path:
        """The folder that may say more about the policy."""
        return self.path if self.path.is_dir() else self.path.parent


class Lone(NamedTuple):
    """One policy, and the env to evaluate it on."""

    file: Path
    env: EnvLike
    model: ModelLike | None
    """The model that was asked for; None takes the one that the file describes."""
    fallback: ModelLike | None = None
    """The model of the run, for a file that cannot describe it."""
    spec: PolicySpec | None = None
    """The policy of the run, for a file that cannot describe it."""

    def policy(self) -> Policy:
        """The policy of the file."""
        try:
            return load_from_run(self.file, self.spec, self.fallback, model=self.model)
        except TflowError:
            raise
        except Exception as error:  # whatever happens in a module of the user's
            raise PlanError(f"{str(self.file)!r}: its model raised {type(error).__name__}: {error}.") from error


def load_from_run(file: Path, spec: PolicySpec | None, fallback: ModelLike | None, *, model: ModelLike | None = None) -> Policy:
    """Load a policy; what its file cannot describe is that of its run.

    Args:
        file: The file.
        spec: The policy of the run.
        fallback: The model of the run.
        model: A model to take whatever the file says.
    """
    from tflow.rl.policy.policy import Policy
    from tflow.rl.policy.saving import read_saved

    saved = read_saved(file)
    if model is None and saved.own_model:
        model = fallback
    return Policy.load(file, spec=None if saved.own_spec is None else spec, model=model)


class Together(NamedTuple):
    """Policies that only workers can evaluate: several of them, or one that adapts to tasks."""

    spec: WorkerSpec
    files: dict[str, Path]


def found(asked: Asked) -> Lone | Together:
    """Find the files of the policies, the env and the models. Raises for what is not there, and for what nobody says."""
    path = asked.path
    if not path.exists():
        raise PlanError(f"There is no {str(path)!r}. Name a run folder, which tflow train makes, or a policy file.")
    if asked.best and not path.is_dir():
        raise PlanError(f"--best is for run folders; {str(path)!r} is a file. Leave it out.")
    if path.name in WRITTEN:
        raise PlanError(f"{str(path)!r} is not a policy. Name its folder, tflow eval {path.parent}, or a policy file in it.")
    spec = _spec_of(asked)
    if spec is None:
        return _lone(asked)
    name, *others = spec.losses
    if others and not path.is_dir():
        if asked.env is None:
            said = f"{str(path)!r} is one of {len(spec.losses)} policies that act together"
            raise PlanError(f"{said}: evaluate them all, tflow eval {asked.folder}, or say --env for an env of its own.")
        return _lone(asked)
    files = {each: _policy_file(asked, each) for each in spec.losses} if path.is_dir() else {name: path}
    if others or spec.losses[name].adapts:
        return Together(spec, files)
    agent = spec.agents[name]
    return Lone(files[name], spec.env, _model(asked.model), None if agent.model == "auto" else agent.model, agent.loss.policy())


def policy_asked(asked: Asked, name: str | None = None) -> Policy:
    """One policy: that of a file, or of a run; by its name, if there are several."""
    from tflow.rl.policy.policy import Policy

    if asked.path.is_file() and asked.env is None and asked.path.name not in WRITTEN and _spec_of(asked) is None:
        return Policy.load(asked.path, model=_model(asked.model))
    target = found(asked)
    if isinstance(target, Lone):
        if name not in (None, _name_of(target.file)):
            raise PlanError(f"There is no policy {name!r} in {str(asked.path)!r}: it has one. Leave out --policy.")
        return target.policy()
    if name not in target.files and (name is not None or len(target.files) > 1):
        raise PlanError(f"Which policy? {str(asked.path)!r} has {', '.join(target.files)}: say --policy NAME.")
    chosen_name = next(iter(target.files)) if name is None else name
    agent = target.spec.agents[chosen_name]
    return load_from_run(target.files[chosen_name], agent.loss.policy(), agent.model)


def _spec_of(asked: Asked) -> WorkerSpec | None:
    """The workers that the configuration in the folder describes; None if there is none, or it names no algorithm."""
    config = asked.folder / CONFIG
    if not config.is_file():
        return None
    fields, run = read_file(config)
    if not (run.get("algo") or fields.get("algo")) or UNWRITABLE in config.read_text(encoding="utf-8"):
        return None  # of another program, or of an algorithm that no file describes: what evaluation needs, run.json has too
    flags = [f"--{name}={value}" for name, value in (("env", asked.env), ("model", asked.model)) if value is not None]
    return reporting(chosen(flags, file=config).algorithm.plan()).workers.spec


def _policy_file(asked: Asked, name: str) -> Path:
    file = asked.path / file_of(BEST if asked.best else LATEST, name)
    if not file.is_file():
        why = "no evaluation was made before it ended (--eval-every)" if asked.best else "it ended before anything was learned"
        raise PlanError(f"{str(asked.path)!r} has no {file.name}: {why}.")
    return file


def _lone(asked: Asked) -> Lone:
    """A policy without a configuration: ``run.json`` may say the rest."""
    file = _only_file(asked) if asked.path.is_dir() else asked.path
    said = _status_of(asked.folder)
    loading.keep_copies(copies_in(asked.folder))
    env = asked.env or _text(said.get("env"))
    if env is None:
        raise PlanError(f"Which env? Nothing beside {str(file)!r} says it. Say --env ID, or --env FILE.py:NAME.")
    models = said.get("models")
    known = models.get(_name_of(file)) if isinstance(models, Mapping) else None
    fallback = None if asked.model else _text(known)
    return Lone(file, _env(env), _model(asked.model), None if fallback in (None, "auto") else _model(fallback))


def _only_file(asked: Asked) -> Path:
    """The policy of a folder that has no configuration."""
    folder, kind = asked.path, BEST if asked.best else LATEST
    files = sorted({*folder.glob(f"{kind}{SUFFIX}"), *folder.glob(f"{kind}-*{SUFFIX}")})
    if len(files) == 1:
        return files[0]
    if files:
        names = ", ".join(file.name for file in files)
        raise PlanError(f"{str(folder)!r} has several policies: {names}. Name one of these files, and an env for it with --env.")
    if (folder / STATUS).is_file():
        return _policy_file(asked, "default")
    runs = sorted({str(each.parent) for name in (CONFIG, STATUS) for each in folder.glob(f"*/{name}")})
    hint = f" There are runs in it: {', '.join(runs[:5])}." if runs else " tflow train makes one."
    raise PlanError(f"{str(folder)!r} is not a run folder: it has neither {CONFIG} nor {LATEST}{SUFFIX}.{hint}")


def _name_of(file: Path) -> str:
    """The name of the policy in a file of a run folder."""
    return file.name.removesuffix(SUFFIX).partition("-")[2] or "default"


def _status_of(folder: Path) -> dict[str, Any]:  # Any: JSON
    try:
        said = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # there is none, or it is of another program
        return {}
    return said if isinstance(said, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _env(text: str) -> EnvLike:
    return cast("EnvLike", _read("EnvLike", "env", text))


def _model(text: str | None) -> ModelLike | None:
    return None if text is None else cast("ModelLike", _read("ModelLike", "model", text))


def _read(kind: str, name: str, text: str) -> object:
    """What a text means, if it is of this kind."""
    value = read(text, own=True, of=KINDS[kind].described)
    if not KINDS[kind].fits(value):
        raise PlanError(f"tflow eval: {name} must be {KINDS[kind].phrase}; got {text!r}.")
    return value
