"""Weights as one flat tensor.

All parameters of a module become views of one flat tensor, and their gradients of another. Then the weights travel as one array,
clipping is one norm, an optimiser step is one operation whatever the number of layers, and averaging the gradients of several
workers is one mean. The parameters of a part (actor, critics) stand together, so that a part is a slice. Buffers with
floating-point values (running means) follow the parameters in the same tensor, in the same order of parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tflow.errors import PlanError
from tflow.rl.data.arrays import Array
from tflow.rl.policy.weights import WHOLE


class PartWeights:
    """The weights and gradients of one part: slices of the flat memory."""

    def __init__(
        self, values: Tensor, gradient: Tensor, buffers: Tensor, named: Mapping[str, nn.Parameter], running: Sequence[Tensor] = ()
    ) -> None:
        self.parameter = nn.Parameter(values)
        """What an optimiser works on: the same memory as all parameters of the part."""
        self.parameter.grad = self.gradient = gradient
        self.buffers = buffers
        self.named = named
        """Its layers, for optimisers that treat them differently; views of the same memory."""
        self.layers = list(named.values())
        self.running = running
        """Its buffers, such as running means."""
        self.is_whole = False

    def gradients_of(self, loss: Tensor) -> Tensor:
        """The flat gradient of a scalar with respect to this part alone. The next call overwrites it."""
        self.gradient.zero_()
        inputs = None if self.is_whole else self.layers  # without a list, torch has less to do
        loss.backward(inputs=inputs)  # type: ignore[no-untyped-call]  # torch has no types for it
        return self.gradient

    def share(self, other: PartWeights) -> None:
        """Use the memory of another from now on."""
        for mine, others in zip((*self.layers, *self.running), (*other.layers, *other.running), strict=True):
            mine.data = others.data

    def follow(self, other: PartWeights, tau: float) -> None:
        """Move towards the weights of another: 1 copies them."""
        self.parameter.data.lerp_(other.parameter.data, tau)
        if len(self.buffers):
            self.buffers.copy_(other.buffers)


class FlatWeights:
    """The weights and gradients of a module, flat. Make it when the module is complete and on its device.

    Args:
        module: The module.
        parts: For each part the children of the module that belong to it; empty if all weights are one part.
        acting: The parts that a policy needs to act; empty if all are.
    """

    def __init__(self, module: nn.Module, parts: Mapping[str, Sequence[str]] | None = None, acting: Sequence[str] = ()) -> None:
        names = _by_part(module, parts or {WHOLE: ()}, acting)
        parameters, lasting = dict(module.named_parameters()), module.state_dict().keys()  # what is not saved is not sent either
        buffers = {name: part for name, part in module.named_buffers() if name in lasting and part.is_floating_point()}
        kinds = {(part.dtype, part.device) for part in (*parameters.values(), *buffers.values())}
        if len(kinds) > 1 or not parameters:
            raise PlanError(
                f"{type(module).__name__}: all weights must have one dtype and be on one device, and there must be some; got "
                f"{sorted(map(str, kinds)) or 'none'}."
            )
        ((dtype, device),) = kinds
        self.trainable = sum(part.numel() for part in parameters.values())
        everything = self.trainable + sum(part.numel() for part in buffers.values())
        self.values = torch.empty(everything, dtype=dtype, device=device)
        self.gradient = torch.zeros(self.trainable, dtype=dtype, device=device)
        self.shapes: dict[str, torch.Size] = {}
        self.parts: dict[str, PartWeights] = {}
        spans = {}
        at, after = 0, self.trainable
        with torch.no_grad():
            for part, members in names.items():
                mine = {name: parameters[name] for name in members if name in parameters}
                start, first = at, after
                for name, parameter in mine.items():
                    self.shapes[name], size = parameter.shape, parameter.numel()
                    _move(parameter, self.values[at : at + size])
                    parameter.grad = self.gradient[at : at + size].view_as(parameter)
                    at += size
                running = [buffers[name] for name in members if name in buffers]
                for buffer in running:
                    _move(buffer, self.values[after : after + buffer.numel()])
                    after += buffer.numel()
                spans[part] = at, after
                found = self.values[start:at], self.gradient[start:at], self.values[first:after]
                self.parts[part] = PartWeights(*found, mine, running)
        self._acting = spans[list(names)[len(acting) - 1]]  # all, if none is named
        named = {name: parameters[name] for name in self.shapes}  # in the order of the flat memory
        self.whole = PartWeights(self.values[: self.trainable], self.gradient, self.values[self.trainable :], named)
        """All weights as one part."""
        self.whole.is_whole = True
        self.parameter = self.whole.parameter

    @property
    def acting(self) -> int:
        """Number of weights that a policy needs to act."""
        return self._acting[0] + self._acting[1] - self.trainable

    def parameters_in(self, weights: Array) -> int:
        """How many of these weights, the first ones, are parameters; buffers follow."""
        return self.trainable if len(weights) == len(self.values) else self._acting[0]

    def get(self, *, acting: bool = False) -> Array:
        """A copy of the weights, or of those of the parts that act; read-only."""
        if acting and self.acting < len(self.values):
            last, end = self._acting
            kept = torch.cat((self.values[:last], self.values[self.trainable : end])).cpu().numpy()
        else:
            kept = np.array(self.values.detach().cpu().numpy(), copy=True)
        kept.flags.writeable = False
        return kept

    def set(self, weights: Array) -> None:
        """Replace the weights: all, or those of the parts that act."""
        given = tensor(weights)
        with torch.no_grad():
            if weights.shape == tuple(self.values.shape):
                self.values.copy_(given)
            elif weights.shape == (self.acting,):
                last, end = self._acting
                self.values[:last].copy_(given[:last])
                self.values[self.trainable : end].copy_(given[last:])
            else:
                raise ValueError(f"The policy has {len(self.values)} weights, got {weights.shape}.")

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """Flat weights from elsewhere as the parameters of the module, for ``torch.func.functional_call``."""
        parts = torch.split(weights, [shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def gradients_of(self, loss: Tensor) -> Tensor:
        """The flat gradient of a scalar with respect to all weights. The next call overwrites it."""
        return self.whole.gradients_of(loss)


def _move(part: Tensor, memory: Tensor) -> None:
    view = memory.view_as(part)
    view.copy_(part)
    part.data = view


def _by_part(module: nn.Module, parts: Mapping[str, Sequence[str]], acting: Sequence[str]) -> dict[str, list[str]]:
    """The names of parameters and buffers by part, those that act first. Each belongs to one part."""
    kind, names = type(module).__name__, [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    unknown = [part for part in acting if part not in parts]
    if unknown:
        raise PlanError(f"{kind}: the part {unknown[0]!r} is said to act, but the parts are {', '.join(parts)}.")
    outside = {name for name, _ in module.named_buffers()}
    order = [*acting, *(part for part in parts if part not in acting)]
    found: dict[str, list[str]] = {part: [] for part in order}
    for name in names:
        owners = [part for part in order if not parts[part] or any(f"{name}.".startswith(f"{each}.") for each in parts[part])]
        if not owners and name in outside:  # such as the scale of rewards: it goes where acting goes
            owners = order[:1]
        if len(owners) != 1:
            said = "no part" if not owners else f"the parts {' and '.join(owners)}"
            raise PlanError(f"{kind}: {name} belongs to {said}. Each weight belongs to one of {', '.join(order)}.")
        found[owners[0]].append(name)
    return found


class _Shared:
    """An array's memory under another flag."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def tensor(array: Array) -> Tensor:
    """A tensor over the memory of an array. Batches are read-only, which torch does not know: nothing may write to it."""
    if not array.flags.writeable and array.size:
        array = np.asarray(_Shared(array))
    return torch.from_numpy(array)
