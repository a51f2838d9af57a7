"""Weights as one flat tensor.

All parameters of a module become views of one flat tensor, and their gradients of another. Then the weights travel as one array,
clipping is one norm, an optimiser step is one operation whatever the number of layers, and averaging the gradients of several
workers is one mean. Buffers with floating-point values (running means) follow the parameters in the same tensor.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tflow.errors import PlanError
from tflow.rl.data.arrays import Array


class FlatWeights:
    """The weights and gradients of a module, flat. Make it when the module is complete and on its device."""

    def __init__(self, module: nn.Module) -> None:
        parameters = list(module.parameters())
        self.shapes = {name: part.shape for name, part in module.named_parameters()}
        lasting = module.state_dict().keys()  # what is not saved is not sent either
        buffers = [part for name, part in module.named_buffers() if name in lasting and part.is_floating_point()]
        kinds = {(part.dtype, part.device) for part in parameters + buffers}
        if len(kinds) > 1 or not parameters:
            raise PlanError(
                f"{type(module).__name__}: all weights must have one dtype and be on one device, and there must be some; got "
                f"{sorted(map(str, kinds)) or 'none'}."
            )
        ((dtype, device),) = kinds
        self.trainable = sum(part.numel() for part in parameters)
        everything = self.trainable + sum(part.numel() for part in buffers)
        self.values = torch.empty(everything, dtype=dtype, device=device)
        self.gradient = torch.zeros(self.trainable, dtype=dtype, device=device)
        at = 0
        with torch.no_grad():
            for part in parameters + buffers:
                view = self.values[at : at + part.numel()].view_as(part)
                view.copy_(part)
                part.data = view
                if isinstance(part, nn.Parameter):
                    part.grad = self.gradient[at : at + part.numel()].view_as(part)
                at += part.numel()
        self.parameter = nn.Parameter(self.values[: self.trainable])
        """What an optimiser works on: the same memory as all parameters of the module."""
        self.parameter.grad = self.gradient

    def get(self) -> Array:
        """A copy of the weights, read-only."""
        weights = np.array(self.values.detach().cpu().numpy(), copy=True)
        weights.flags.writeable = False
        return weights

    def set(self, weights: Array) -> None:
        """Replace the weights."""
        if weights.shape != tuple(self.values.shape):
            raise ValueError(f"The policy has {len(self.values)} weights, got {weights.shape}.")
        with torch.no_grad():
            self.values.copy_(tensor(weights))

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """Flat weights from elsewhere as the parameters of the module, for ``torch.func.functional_call``."""
        parts = torch.split(weights, [shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def gradients_of(self, loss: Tensor) -> Tensor:
        """The flat gradient of a scalar. It is the module's own memory: the next call overwrites it."""
        self.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
        return self.gradient


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
