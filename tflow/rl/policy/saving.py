"""Policies as files: a safetensors file with the weights by name, and in its header what the policy is made of.

Loading executes nothing that the file says: kinds of policies, models and spaces are looked up in tables here. Of what is the
user's own, a policy or a module, the header has the name; who loads it passes it again.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from tflow.errors import CheckpointError, TflowError
from tflow.rl.policy.files import LATEST, SUFFIX, file_of
from tflow.rl.policy.network_spec import (
    GRU,
    LSTM,
    MLP,
    DictEncoder,
    GTrXL,
    ImpalaCNN,
    ModelLike,
    NatureCNN,
    Normalized,
    SmallCNN,
    normalization_of,
    normalized,
)
from tflow.rl.policy.policy import Policy
from tflow.rl.policy.policy_spec import ActorCriticSpec, ActorQSpec, CuriousSpec, PolicySpec, QSpec, chosen_device, make_policy
from tflow.sentences import listed

if TYPE_CHECKING:
    from torch import Tensor

    from tflow.rl.policy.network_spec import AnySpace

FORMAT = 1
CLASS = "class"
OWN = "own"
ACTING = "acting"
Json = Any  # Any: what json.loads gives
MODELS: dict[str, type] = {
    kind.__name__: kind for kind in (MLP, NatureCNN, SmallCNN, ImpalaCNN, DictEncoder, LSTM, GRU, GTrXL, Normalized)
}
SPECS: dict[str, type] = {kind.__name__: kind for kind in (ActorCriticSpec, CuriousSpec, QSpec, ActorQSpec)}


class SavedPolicy(NamedTuple):
    """What a file of a policy holds."""

    source: str
    """What errors call it."""
    header: Json
    weights: dict[str, Tensor]

    @property
    def own_spec(self) -> Json:
        """The class and the plain fields of a policy of the user's own; None if it is one of ours."""
        kind = self.header["policy"]
        return kind if isinstance(kind, dict) and OWN in kind else None

    @property
    def own_model(self) -> bool:
        """True if the model is a module of the user's own."""
        return self.header["model"] is None


def header_of(policy: Policy) -> Json:
    """The description of a policy in its file."""
    return {
        "format": FORMAT,
        "policy": kind_of(policy.spec),
        "model": _described(policy.model, MODELS),
        "observation_space": space_to_json(policy.observation_space),
        "action_space": space_to_json(policy.action_space),
        **({"holds": ACTING} if policy.acting_only else {}),
        **({"normalized": [how.obs, how.rewards]} if (how := normalization_of(policy.model)) is not None else {}),
    }


def weights_of(policy: Policy) -> dict[str, Tensor]:
    """The weights of a policy by name, on the CPU; of those that are known, if it is known only how it acts."""
    found = {name: part.detach().cpu().contiguous().clone() for name, part in policy.module.state_dict().items()}
    return found if not policy.acting_only else {name: found[name] for name in acting_names(policy)}


def acting_names(policy: Policy) -> list[str]:
    """The names of the weights that a policy needs to act."""
    others = [child for part, children in policy.parts.items() if part not in policy.acting for child in children]
    names = list(policy.module.state_dict())
    return [name for name in names if not policy.acting or not any(f"{name}.".startswith(f"{child}.") for child in others)]


def save_policy(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Write a policy to a safetensors file, atomically."""
    target = Path(path)
    header, weights = header_of(policy), weights_of(policy)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        aside.write_bytes(save(weights, metadata={"tflow": json.dumps(header)}))
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def kind_of(spec: PolicySpec) -> Json:
    """Description of a policy for a file: of one of the user's own, its class and those of its fields that are plain values."""
    kind = _described(spec, SPECS)
    return kind if kind is not None else {OWN: type(spec).__name__, "fields": _plain_fields(spec)}


def _plain_fields(spec: PolicySpec) -> dict[str, Json]:
    found = {}
    for each in fields(spec):
        value = getattr(spec, each.name)
        if value is None or isinstance(value, (bool, int, float, str)):
            found[each.name] = value
    return found


def load_policy(
    path: str | os.PathLike[str],
    *,
    spec: PolicySpec | None = None,
    model: ModelLike | None = None,
    device: str = "cpu",
) -> Policy:
    """Read a policy: a file, or the latest one of a run folder. See ``Policy.load``."""
    saved = read_saved(path)
    known: dict[str, Any] = {"spec": spec, "model": model}  # Any: arguments
    try:
        if not saved.own_model and model is None:
            known["model"] = made(saved.header["model"], MODELS)
        how = saved.header.get("normalized")
        if how is not None and model is not None and normalization_of(model) is None:
            known["model"] = normalized(model, obs=how[0], rewards=how[1])
        if saved.own_spec is None and spec is None:
            known["spec"] = made(saved.header["policy"], SPECS)
        observation_space = space_from_json(saved.header["observation_space"])
        action_space = space_from_json(saved.header["action_space"])
    except TflowError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damaged(saved.source, error) from error
    if known["spec"] is None:
        raise CheckpointError(f"{saved.source}: {wanted_spec(saved.own_spec)}")
    if known["model"] is None:
        raise CheckpointError(
            f"{saved.source}: the model was your own module; pass it again as model= (--model FILE.py:NAME of tflow eval)."
        )
    if not isinstance(known["spec"], PolicySpec):
        raise CheckpointError(f"{saved.source}: spec must be a description of a policy, a PolicySpec; got {known['spec']!r}.")
    try:
        policy = make_policy(known["spec"], known["model"], observation_space, action_space, device=chosen_device(device))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, TflowError) or spec is not None or model is not None:  # it is the user's code that raised
            raise
        raise _damaged(saved.source, error) from error
    filled(policy, saved)
    return policy


def wanted_spec(own: Json) -> str:
    """The sentence for a file that needs ``spec=``."""
    name, given = own[OWN], own.get("fields") or {}
    said = ", ".join(f"{field}={value!r}" for field, value in given.items())
    what = f"of the kind {name}, with a part of your own" if name in SPECS else f"a policy of your own class, {name}"
    return (
        f"it is {what}, and files hold no code; pass its description again, such as spec={name}({said}). In a run folder with a "
        "config.toml, tflow eval finds it by itself."
    )


def filled(policy: Policy, saved: SavedPolicy) -> None:
    """Give a policy the weights of a file. Raises if they are others than it has."""
    holds = saved.header.get("holds")
    expected = dict(policy.module.state_dict())
    if holds == ACTING:
        expected = {name: expected[name] for name in acting_names(policy)}
    problem = misfit({name: tuple(part.shape) for name, part in saved.weights.items()}, expected)
    if problem:
        raise CheckpointError(f"{saved.source}: the weights do not fit the model: {problem}.")
    policy.module.load_state_dict(saved.weights, strict=holds != ACTING)  # copies into the flat memory
    policy.acting_only = holds == ACTING


def misfit(given: Mapping[str, tuple[int, ...]], wanted: Mapping[str, Tensor]) -> str:
    """The first difference between the shapes of weights and those of a network, in words; empty if there is none."""
    for name, part in wanted.items():
        if name not in given:
            return f"the network has {name}, which is not among the saved weights"
        if given[name] != tuple(part.shape):
            return f"{name} has the shape {given[name]}, and {tuple(part.shape)} in the network"
    unknown = [name for name in given if name not in wanted]
    return f"{unknown[0]} is not in the network" if unknown else ""


def read_saved(path: str | os.PathLike[str]) -> SavedPolicy:
    """Read the file of a policy, or of the latest one of a run folder, without making the policy."""
    source = Path(path)
    if source.is_dir():  # a run folder
        source = latest_in(source)
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
    if not isinstance(header, dict):
        raise _damaged(str(source), TypeError(f"it is a {type(header).__name__}"))
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{source} has format {header.get('format')}; this version reads format {FORMAT}.")
    missing = [name for name in ("policy", "model") if name not in header]
    if missing:
        raise _damaged(str(source), KeyError(missing[0]))
    return SavedPolicy(str(source), header, weights)


def latest_in(folder: Path) -> Path:
    """The only policy of a run folder. Raises if there are several, or none."""
    latest = folder / file_of(LATEST, "default")
    several = sorted(str(each) for each in folder.glob(f"{LATEST}-*{SUFFIX}"))
    if latest.exists():
        return latest
    if several:
        raise CheckpointError(f"{folder} has several policies. Name the file of one: {', '.join(several)}.")
    others = sorted(str(each.relative_to(folder)) for place in ("", "*/") for each in folder.glob(f"{place}*{SUFFIX}"))
    raise CheckpointError(f"There is no file {latest}.{f' There are {listed(others)}.' if others else ''}")


def _damaged(source: str, error: Exception) -> CheckpointError:
    return CheckpointError(f"{source} is damaged: its description of the policy cannot be read ({error!r}).")


# --------------------------------------------------------------------------- descriptions as JSON


class _Own(Exception):
    """Something that only code can make."""


def _described(value: object, known: dict[str, type]) -> Json:
    """A description as JSON; None for what only code can make."""
    try:
        return _as_json(value, known)
    except _Own:
        return None


def _as_json(value: object, known: dict[str, type]) -> Json:
    if value == "auto":
        return "auto"
    if type(value).__name__ not in known or type(value) is not known[type(value).__name__]:
        raise _Own
    parts = {}
    for each in fields(value):  # type: ignore[arg-type]  # all kinds in the tables are dataclasses
        part = getattr(value, each.name)
        if isinstance(part, dict):
            part = {name: _as_json(member, MODELS) for name, member in part.items()}
        elif part is not None and not isinstance(part, (int, float, str, tuple, bool)):
            part = _as_json(part, MODELS)  # what stands in policies and models are models
        parts[each.name] = part
    return {CLASS: type(value).__name__, **parts}


def made(value: Json, known: dict[str, type]) -> Any:  # Any: one of the kinds in the table
    """A description from JSON."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    if CLASS not in value:
        return {name: made(member, MODELS) for name, member in value.items()}
    arguments = {name: made(part, MODELS) for name, part in value.items() if name != CLASS}
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
