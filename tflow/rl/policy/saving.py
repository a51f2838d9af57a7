"""Policies as files: a safetensors file with the weights by name, and in its header what the policy is made of.

Loading executes nothing that the file says: kinds of policies, models and spaces are looked up in tables here.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from tflow.errors import CheckpointError, TflowError
from tflow.rl.policy.network_spec import LSTM, MLP, DictEncoder, ImpalaCNN, ModelLike, NatureCNN, Normalized, SmallCNN
from tflow.rl.policy.policy import Policy
from tflow.rl.policy.policy_spec import ActorCriticSpec, ActorQSpec, PolicySpec, QSpec, chosen_device, make_policy

if TYPE_CHECKING:
    from torch import Tensor

    from tflow.rl.policy.network_spec import AnySpace

FORMAT = 1
CLASS = "class"
Json = Any  # Any: what json.loads gives
MODELS: dict[str, type] = {kind.__name__: kind for kind in (MLP, NatureCNN, SmallCNN, ImpalaCNN, DictEncoder, LSTM, Normalized)}
SPECS: dict[str, type] = {kind.__name__: kind for kind in (ActorCriticSpec, ActorQSpec, QSpec)}


def save_policy(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Write a policy to a safetensors file, atomically."""
    target = Path(path)
    kind = kind_of(policy.spec)
    header = {
        "format": FORMAT,
        "policy": kind,
        "model": _described(policy.model, MODELS),
        "observation_space": space_to_json(policy.observation_space),
        "action_space": space_to_json(policy.action_space),
    }
    weights = {name: part.detach().cpu().contiguous().clone() for name, part in policy.module.state_dict().items()}
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        aside.write_bytes(save(weights, metadata={"tflow": json.dumps(header)}))
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def kind_of(spec: PolicySpec) -> Json:
    """Description of a policy for a file. Raises for a policy class of your own."""
    kind = _described(spec, SPECS)
    if kind is None:
        raise CheckpointError(f"A policy of your own kind, {type(spec).__name__}, cannot be saved: files hold no code.")
    return kind


def load_policy(path: str | os.PathLike[str], *, model: ModelLike | None = None, device: str = "cpu") -> Policy:
    """Read a policy: a file, or the latest one of a run folder. One whose model is your own module needs ``model=`` again: files
    hold no code."""
    source = Path(path)
    if source.is_dir():  # a run folder
        source = source / "policy.safetensors"
    try:
        with safe_open(source, framework="pt") as file:
            said = (file.metadata() or {}).get("tflow")
            if said is None:
                raise CheckpointError(f"{source} is not a policy saved by tflow: it has weights, but no description of it.")
            header = json.loads(said)
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
    except FileNotFoundError:
        raise CheckpointError(f"There is no file {source}.") from None
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(f"{source} is not a policy saved by tflow: {error}.") from error
    try:
        return _rebuilt(source, header, weights, model, device)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, TflowError):
            raise
        raise CheckpointError(f"{source} is damaged: its description of the policy cannot be read ({error!r}).") from error


def _rebuilt(source: Path, header: Json, weights: dict[str, Tensor], model: ModelLike | None, device: str) -> Policy:
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{source} has format {header.get('format')}; this version reads format {FORMAT}.")
    chosen = _made(header["model"], MODELS) if model is None else model
    if chosen is None:
        raise CheckpointError(
            f"{source}: the model was your own module; pass it again as model= (--model FILE.py:NAME of tflow eval)."
        )
    policy = make_policy(
        _made(header["policy"], SPECS),
        chosen,
        space_from_json(header["observation_space"]),
        space_from_json(header["action_space"]),
        device=chosen_device(device),
    )
    try:
        policy.module.load_state_dict(weights)  # copies into the flat memory
    except RuntimeError as error:
        raise CheckpointError(
            f"{source}: the weights do not fit the model: {' '.join(str(error).rstrip('.').split())}."
        ) from None
    return policy


# --------------------------------------------------------------------------- descriptions as JSON


def _described(value: object, known: dict[str, type]) -> Json:
    """A description as JSON; None for what only code can make."""
    if value == "auto":
        return "auto"
    if type(value).__name__ not in known or type(value) is not known[type(value).__name__]:
        return None
    parts = {}
    for each in fields(value):  # type: ignore[arg-type]  # all kinds in the tables are dataclasses
        part = getattr(value, each.name)
        if isinstance(part, dict):
            part = {name: _described(member, known) for name, member in part.items()}
        elif not isinstance(part, (int, float, str, tuple, bool)):
            part = _described(part, known)
        if part is None or (isinstance(part, dict) and None in part.values()):
            return None
        parts[each.name] = part
    return {CLASS: type(value).__name__, **parts}


def _made(value: Json, known: dict[str, type]) -> Any:  # Any: one of the kinds in the table
    """A description from JSON."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    if CLASS not in value:
        return {name: _made(member, known) for name, member in value.items()}
    arguments = {name: _made(part, known) for name, part in value.items() if name != CLASS}
    if value[CLASS] not in known:
        raise CheckpointError(f"The file describes a {value[CLASS]}, which this version does not know.")
    try:
        return known[value[CLASS]](**arguments)
    except TypeError as error:
        raise CheckpointError(f"The file describes a {value[CLASS]} that this version cannot make: {error}.") from None


# --------------------------------------------------------------------------- spaces as JSON


def space_to_json(space: AnySpace) -> Json:
    """A space as JSON."""
    match space:
        case spaces.Box():
            return {
                "kind": "Box",
                "low": _bound(space.low),
                "high": _bound(space.high),
                "shape": list(space.shape),
                "dtype": str(space.dtype),
            }
        case spaces.Discrete():
            return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
        case spaces.MultiBinary():
            return {"kind": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.shape)}
        case spaces.Dict():
            return {"kind": "Dict", "spaces": {name: space_to_json(part) for name, part in space.spaces.items()}}
        case spaces.Tuple():
            return {"kind": "Tuple", "spaces": [space_to_json(part) for part in space.spaces]}
        case _:
            raise CheckpointError(f"A {type(space).__name__} space cannot be saved.")


def _bound(values: np.ndarray[Any, np.dtype[Any]]) -> Json:  # Any: bounds have the dtype of their space
    """One number if they are all the same, which those of images are."""
    return values.flat[0].item() if values.size and (values == values.flat[0]).all() else values.tolist()


def _unbound(values: Json, shape: list[int], dtype: str) -> np.ndarray[Any, np.dtype[Any]]:  # Any: as above
    return np.array(np.broadcast_to(np.asarray(values, dtype), shape))


def space_from_json(value: Json) -> AnySpace:
    """A space from JSON."""
    makers: dict[str, Callable[[], AnySpace]] = {
        "Box": lambda: spaces.Box(
            _unbound(value["low"], value["shape"], value["dtype"]),
            _unbound(value["high"], value["shape"], value["dtype"]),
            tuple(value["shape"]),
            np.dtype(value["dtype"]).type,
        ),
        "Discrete": lambda: spaces.Discrete(value["n"], start=value["start"]),
        "MultiDiscrete": lambda: spaces.MultiDiscrete(value["nvec"], start=value["start"]),
        "MultiBinary": lambda: spaces.MultiBinary(value["n"]),
        "Dict": lambda: spaces.Dict(  # in this order, which gymnasium would change
            OrderedDict((name, space_from_json(part)) for name, part in value["spaces"].items())
        ),
        "Tuple": lambda: spaces.Tuple([space_from_json(part) for part in value["spaces"]]),
    }
    if value.get("kind") not in makers:
        raise CheckpointError(f"The file describes a {value.get('kind')} space, which this version does not know.")
    return makers[value["kind"]]()
