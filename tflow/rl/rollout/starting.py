"""Warm starts: the initial weights of a run from saved policies. What does not fit is said before anything starts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tflow.combinators.labels import one_line
from tflow.errors import PlanError, TflowError
from tflow.rl.policy.files import LATEST, SUFFIX, file_of
from tflow.rl.policy.network_spec import Memory, automatic, is_compound, is_image
from tflow.rl.policy.policy import Policy
from tflow.rl.policy.saving import (
    ACTING,
    CLASS,
    MODELS,
    Json,
    SavedPolicy,
    filled,
    header_of,
    made,
    misfit,
    read_saved,
    space_from_json,
    weights_of,
)
from tflow.rl.rollout.worker_spec import AnyWorkers, CurrentPolicySpec, LearnerActor, PolicyResident, check_names

if TYPE_CHECKING:
    from tflow.combinators.actors import Actors
    from tflow.rl.data.arrays import Array
    from tflow.rl.learning.agent import AnyAgent
    from tflow.rl.policy.network_spec import AnySpace
    from tflow.rl.rollout.worker_spec import WorkerSpec

StartSource: TypeAlias = str | os.PathLike[str] | Policy
"""A policy file, a run folder, or a policy."""
StartFrom: TypeAlias = StartSource | Mapping[str, StartSource]
"""What a run may start from: one of these, or a mapping by policy."""
MAY_DIFFER = ("shared", "log_std", "temperature", "dropout", "sde_every")
"""Fields of policies that say how weights begin or how they are trained; where they change the network, its weights differ."""


def agents_of(actors: Actors[object]) -> Mapping[str, AnyAgent] | None:
    """The agents whose weights these actors hold; None if they hold none."""
    if isinstance(actors, AnyWorkers):
        return actors.spec.agents
    if isinstance(actors, LearnerActor):
        return actors.spec.workers.agents
    if isinstance(actors, PolicyResident) and isinstance(actors.make, CurrentPolicySpec):
        return actors.make.learner.workers.agents
    return None


def initial_weights(spec: WorkerSpec, start_from: StartFrom) -> dict[str, Array]:
    """The flat weights with which policies start. Those that are not in a mapping start fresh.

    Args:
        spec: The workers of the run.
        start_from: The saved policies.
    """
    try:
        return {name: _fitting(spec, name, source) for name, source in _by_policy(list(spec.agents), start_from).items()}
    except PlanError:
        raise
    except TflowError as error:
        raise PlanError(f"start_from: {error}") from error


def _by_policy(names: list[str], start_from: StartFrom) -> dict[str, Path | Policy]:
    """The file or the policy that each policy starts from."""
    if isinstance(start_from, Mapping):
        check_names("start_from", start_from, names)
        return {name: _source(name, each, alone=True) for name, each in start_from.items()}
    if isinstance(start_from, (str, os.PathLike)) and Path(start_from).is_dir():
        return {name: _source(name, start_from, alone=len(names) == 1) for name in names}
    if len(names) > 1:
        said = f"the policies are {', '.join(names)}"
        raise PlanError(f"start_from: {said}; give a mapping from these names to policies, or a run folder with all of them.")
    return {names[0]: _source(names[0], start_from, alone=True)}


def _source(name: str, given: object, *, alone: bool) -> Path | Policy:
    """The file, or the policy itself. A policy that stands ``alone`` in its folder need not have the same name."""
    if isinstance(given, Policy):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise PlanError(f"start_from: expected a policy file, a run folder or a Policy; got {given!r}.")
    path = Path(given)
    if not path.exists():
        raise PlanError(f"start_from: there is no {str(path)!r}. Name a policy file, or a run folder, which tflow train makes.")
    if not path.is_dir():
        return path
    tried = [path / file_of(LATEST, each) for each in ([name, "default"] if alone else [name])]
    found = [file for file in tried if file.is_file()]
    if not found:
        there = ", ".join(sorted(file.name for file in path.glob(f"*{SUFFIX}"))) or "no policy"
        raise PlanError(f"start_from: {str(path)!r} has no {tried[0].name}; in it: {there}. Name a policy file, or a run folder.")
    return found[0]


def _fitting(spec: WorkerSpec, name: str, source: Path | Policy) -> Array:
    """The weights of a saved policy, in the order of the one that is trained."""
    wanted = spec.network_of(name)
    saved = _saved(source)
    try:
        apart = difference(saved, wanted)
    except TflowError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise PlanError(f"start_from: {saved.source} is damaged: its description cannot be read ({error!r}).") from error
    if apart:
        of = "" if name == "default" else f" ({name})"
        raise PlanError(f"start_from: {saved.source} does not fit the policy of the run{of}: {apart}.")
    filled(wanted, saved)
    return wanted.flat.get()


def _saved(source: Path | Policy) -> SavedPolicy:
    if isinstance(source, Policy):
        return SavedPolicy("the given policy", _normal(header_of(source)), weights_of(source))
    return read_saved(source)


def _normal(header: Json) -> Json:
    """As a file has it: tuples become lists."""
    return json.loads(json.dumps(header))


# --------------------------------------------------------------------------- differences


def difference(saved: SavedPolicy, policy: Policy) -> str:
    """The first thing in which a saved policy differs from another, in words; empty if its weights fit."""
    header, mine = saved.header, _normal(header_of(policy))
    for what, own in (("observation_space", policy.observation_space), ("action_space", policy.action_space)):
        space = space_from_json(header[what])
        if space != own:
            return f"its {what.replace('_', ' ')} is {one_line(space)}, that of the run {one_line(own)}"
    apart = _of_specs(header["policy"], mine["policy"]) or _of_models(header, mine, policy.observation_space)
    if apart:
        return apart
    if header.get("holds") == ACTING:
        trained = ", ".join(part for part in policy.parts if part not in policy.acting)
        return f"it holds only the weights that it acts with, not those of {trained or 'the other parts'}"
    apart = misfit({name: tuple(part.shape) for name, part in saved.weights.items()}, policy.module.state_dict())
    if apart:
        return f"its network is another: {apart}"
    odd = [name for name, part in saved.weights.items() if part.is_floating_point() and not bool(part.isfinite().all())]
    return f"its weights {odd[0]} are not finite" if odd else ""


def _of_specs(given: Json, wanted: Json) -> str:
    """Where two policies of ours differ; of others, only their weights tell."""
    if not (isinstance(given, dict) and CLASS in given and CLASS in wanted):
        return ""
    if given[CLASS] != wanted[CLASS]:
        return f"it is of the kind {given[CLASS]}, that of the run {wanted[CLASS]}"
    for field in wanted:
        if field not in MAY_DIFFER and given.get(field) != wanted[field]:
            return f"it has {field}={given.get(field)!r}, that of the run {field}={wanted[field]!r}"
    return ""


def _of_models(given: Json, wanted: Json, space: AnySpace) -> str:
    """Where two models of ours differ; of others, only their weights tell."""
    one, other = (_model(each, space) for each in (given, wanted))
    return f"its model is {one!r}, that of the run {other!r}" if one is not None and other is not None and one != other else ""


def _model(header: Json, space: AnySpace) -> object:
    """The model of a header, without what does not change its network; None if it is not known."""
    from tflow.rl.policy.actor_q import USUAL

    model, kind = header["model"], header["policy"].get(CLASS)
    if model is None or kind is None:
        return None
    if model == "auto":
        plain = not (is_compound(space) or is_image(space))
        return automatic(space) if kind != "ActorQSpec" else USUAL if plain else None
    found = made(model, MODELS)
    return replace(found, length=type(found).length) if isinstance(found, Memory) else found
