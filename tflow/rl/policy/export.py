"""Policies for programs without tflow: the deterministic action of a policy as an ONNX file, a torch program or TorchScript.

What is exported takes observations as the env gives them, with a leading axis, and gives actions as the env takes them:
preprocessing, normalisation and the bounds of the actions are inside. A recurrent policy takes its state, too, and gives the next
one. ``export_policy`` runs what it has written on random observations and compares the actions with the policy's own.

ONNX and torch programs (``torch.export``) take any number of rows. TorchScript is deprecated by torch; it is there for programs
in C++ that load it, and is traced.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from tflow.combinators.labels import one_line
from tflow.errors import PlanError, TflowError
from tflow.extras import require
from tflow.rl.data.arrays import Array
from tflow.rl.policy.actor_q import ActorQ
from tflow.rl.policy.heads import Categorical, MultiCategorical
from tflow.rl.policy.policy import ActorCritic, Policy, QPolicy
from tflow.rl.policy.policy_network import NoisyLinear
from tflow.rl.policy.tensors import NetInputs

Format = Literal["onnx", "torch", "torchscript"]
SUFFIXES: Mapping[str, Format] = {".onnx": "onnx", ".pt2": "torch", ".pt": "torchscript", ".ts": "torchscript"}
ROWS, STEPS = 16, 4
"""Random observations that a comparison is made on: so many at once, so many times, as recurrent policies need."""
TOLERANCE = 1e-3
"""Largest difference between actions, as a share of their range where they have one: float32 rounds differently elsewhere."""
Runs = Callable[[Sequence[Array]], list[Array]]
"""Runs what was exported: the inputs in order, to the outputs in order."""


class Exported(NamedTuple):
    """What was written."""

    path: Path
    form: Format
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    difference: float
    """The largest difference between its actions and those of the policy, on random observations."""

    def __str__(self) -> str:
        compared = f"On {ROWS * STEPS} random observations its actions differ from the policy's by at most {self.difference:.2g}."
        return f"{self.path}: takes {', '.join(self.inputs)}; gives {', '.join(self.outputs)}. {compared}"


class ActingModule(nn.Module):
    """The deterministic action of a policy, as a module of tensors alone."""

    def __init__(self, policy: Policy, *, masks: bool) -> None:
        super().__init__()
        self.policy, self.masks = policy, masks
        self.net = policy.module  # so that its weights are those of this module
        self.names = tuple(leaf.name for leaf in policy.layout.leaves)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its inputs."""
        observed = tuple(f"obs/{name}" if name else "obs" for name in self.names)
        return (*observed, *(["state"] if self.policy.recurrent else []), *(["masks"] if self.masks else []))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return ("actions", "next_state") if self.policy.recurrent else ("actions",)

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        rest = list(given[len(self.names) :])
        obs = dict(zip(self.names, given, strict=False)) if not self.policy.layout.single else given[0]
        state = rest.pop(0) if self.policy.recurrent else None
        allowed = rest.pop(0) if self.masks else None
        best, after = self.best(obs, state, allowed)
        actions = self.policy.own_head.to_env_tensor(best)
        return (actions,) if after is None else (actions, after)

    def best(self, obs: Any, state: Tensor | None, masks: Tensor | None) -> tuple[Tensor, Tensor | None]:  # Any: tensors
        """The best actions, as batches hold them, and the next state."""
        policy, after = self.policy, None
        if isinstance(policy, QPolicy):
            outputs, after = policy.net(obs, state)
            values = policy.net.q_values(outputs)
            return (values if masks is None else values.masked_fill(~masks, -torch.inf)).argmax(1), after
        if isinstance(policy, ActorQ):
            inputs, after = policy.net.actor(NetInputs(obs, state))
        elif cast("ActorCritic", policy).net.separate_critic:
            inputs = cast("ActorCritic", policy).net.act(obs)
        else:
            inputs, _, after = cast("ActorCritic", policy).net(obs, state)
        return policy.head.mode(inputs if masks is None else policy.head.masked(inputs, masks)), after


def export_policy(policy: Policy, path: Path, form: Format, *, masks: bool = False) -> Exported:
    """Write a policy for programs without tflow, and compare what was written with it.

    Args:
        policy: The policy; it stays as it is.
        path: The file.
        form: ONNX, a torch program (``torch.export.load``), or TorchScript (``torch.jit.load``).
        masks: Take action masks, too: an input of bools.
    """
    check_exportable(policy, masks=masks)
    if form == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            require(package, extra="onnx", feature="ONNX files")
    own = policy.copy() if str(policy.device) == "cpu" else on_cpu(policy)
    for layer in own.module.modules():
        if isinstance(layer, NoisyLinear):
            layer.train(False)
    module = ActingModule(own, masks=masks)
    example = random_inputs(module, np.random.default_rng(0), initial_state(module, ROWS))
    path.parent.mkdir(parents=True, exist_ok=True)
    with quiet(), torch.inference_mode(False), torch.no_grad():
        try:
            run = WRITERS[form](module, tuple(torch.from_numpy(each) for each in example), path)
        except TflowError:
            raise
        except Exception as error:  # whatever torch cannot follow: mostly a module of the user's
            first = str(error).strip().split("\n")[0]
            raise PlanError(f"{type(policy).__name__} cannot be exported as {form}: {type(error).__name__}: {first}") from error
    return Exported(path, form, module.inputs, module.outputs, difference(module, run))


def check_exportable(policy: Policy, *, masks: bool) -> None:
    """Raise for policies whose action is not a function of tensors that is known here."""
    known = next((kind for kind in (ActorCritic, QPolicy, ActorQ) if isinstance(policy, kind)), None)
    if known is None or type(policy).rows is not known.rows:
        raise PlanError(
            f"{type(policy).__name__} is a policy of your own, with its own way to act, which cannot be exported. Export its "
            "network, policy.module, with torch."
        )
    if masks and not isinstance(policy.head, (Categorical, MultiCategorical)):
        raise PlanError(
            f"Action masks need a Discrete or MultiDiscrete action space, got {one_line(policy.action_space)}. Leave out --masks."
        )


def on_cpu(policy: Policy) -> Policy:
    """A copy of a policy on the CPU, where it is compared."""
    twin = policy.spec.build(policy.model, policy.observation_space, policy.action_space, "cpu")
    twin.flat.set(policy.flat.get())
    return twin


# --------------------------------------------------------------------------- formats


def program(module: ActingModule, example: tuple[Tensor, ...]) -> torch.export.ExportedProgram:
    """The module as a torch program, for any number of rows."""
    rows = torch.export.Dim("rows", min=1, max=2**20)
    return torch.export.export(module, example, dynamic_shapes=(tuple({0: rows} for _ in example),), strict=False)


def write_onnx(module: ActingModule, example: tuple[Tensor, ...], path: Path) -> Runs:
    written = torch.onnx.export(
        program(module, example),
        (),
        input_names=list(module.inputs),
        output_names=list(module.outputs),
        dynamo=True,
        verbose=False,
    )
    assert written is not None
    written.save(str(path), external_data=False)
    runtime: Any = require("onnxruntime", extra="onnx", feature="ONNX files")  # Any: its types are not needed
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda given: list(session.run(None, dict(zip(module.inputs, given, strict=True))))


def write_program(module: ActingModule, example: tuple[Tensor, ...], path: Path) -> Runs:
    torch.export.save(program(module, example), str(path))
    loaded = torch.export.load(str(path)).module()
    return lambda given: [part.numpy() for part in loaded(*map(torch.from_numpy, given))]


def write_torchscript(module: ActingModule, example: tuple[Tensor, ...], path: Path) -> Runs:
    traced: Any = torch.jit.trace(module, example, check_trace=False)  # type: ignore[no-untyped-call]  # torch has no types for it. Any: as below
    traced.save(str(path))
    loaded: Any = torch.jit.load(str(path))  # type: ignore[no-untyped-call]  # as above. Any: whatever was traced
    return lambda given: [part.numpy() for part in loaded(*map(torch.from_numpy, given))]


WRITERS: Mapping[Format, Callable[[ActingModule, tuple[Tensor, ...], Path], Runs]] = {
    "onnx": write_onnx,
    "torch": write_program,
    "torchscript": write_torchscript,
}


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings of torch: that TorchScript is deprecated, of packages that are not needed, and of constants, which are
    what is meant."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --------------------------------------------------------------------------- comparison


def initial_state(module: ActingModule, rows: int) -> Array:
    return module.policy.initial_state(rows)


def random_inputs(module: ActingModule, rng: np.random.Generator, state: Array) -> list[Array]:
    """Random inputs, with this state if it is recurrent."""
    policy, rows = module.policy, len(state)
    found: list[Array] = []
    for leaf in policy.layout.leaves:
        leaf.space.seed(int(rng.integers(2**31)))
        found.append(np.stack([np.asarray(leaf.space.sample(), leaf.dtype) for _ in range(rows)]))
    if policy.recurrent:
        found.append(state)
    if module.masks:
        masks = rng.random((rows, policy.head.inputs)) < 0.5
        first = np.cumsum([0, *policy.head.form.choices])[:-1]
        masks[:, first] |= True  # something is allowed in each part
        found.append(masks)
    return found


@torch.inference_mode()
def difference(module: ActingModule, run: Runs) -> float:
    """The largest difference between what was written and the policy, on random observations, one after the other."""
    policy, rng, largest, scale = module.policy, np.random.default_rng(1), 0.0, 1.0
    state = own = initial_state(module, ROWS)
    for step in range(STEPS):
        rows = ROWS if step % 2 == 0 or policy.recurrent else 1
        given = random_inputs(module, rng, state[:rows])
        arrays = dict(zip(module.names, given, strict=False))
        obs = arrays[""] if policy.layout.single else arrays
        acted = policy.rows(obs, rng, state=own[:rows], masks=given[-1] if module.masks else None, explore=False)
        wanted, (found, *after) = policy.own_head.to_env(acted.actions), run(given)
        scale = 1.0 if policy.head.form.choices else range_of(wanted)
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise TflowError(
                f"The export gives actions {found.dtype} {found.shape}; the policy's are {wanted.dtype} {wanted.shape}."
            )
        largest = max(largest, float(np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max(initial=0.0)))
        if after:
            state, own = after[0], acted.state
    allowed = TOLERANCE * scale
    if largest > allowed:
        raise TflowError(
            f"The export differs from the policy by {largest:.3g} on random observations; at most {allowed:.3g} is rounding."
        )
    return largest


def range_of(actions: Array) -> float:
    """How far actions spread, at least 1."""
    return max(1.0, float(np.abs(actions.astype(np.float64)).max(initial=0.0)))
