"""Descriptions of optimisers. They work on the weights of a part as one flat parameter, so a step is one operation; those that
treat layers differently ask for the layers instead."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tflow.combinators import check
from tflow.rl.elsewhere import Configured
from tflow.rl.schedules import Schedule, schedule_of

if TYPE_CHECKING:
    import torch

    from tflow.rl.policy.flat import PartWeights


class Steps(Protocol):
    """What a learner needs of an optimiser; all of torch's have it."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...  # Any: options of all kinds

    def step(self) -> object: ...

    def state_dict(self) -> dict[str, Any]: ...  # Any: as above

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None: ...  # Any: as above


@dataclass(frozen=True)
class Optimizer(Configured, ABC):
    """Description of an optimiser. Derive from it to use another one of torch's."""

    lr: float | Schedule = 3e-4
    """Learning rate, or a schedule over env steps; usually 1e-5 to 1e-2. Larger: faster, but less stable."""

    def __post_init__(self) -> None:
        where = type(self).__name__
        check.positive(where, "lr", schedule_of(self.lr, where=f"{where}: lr").at(0))

    @abstractmethod
    def build(self, parameters: list[torch.nn.Parameter]) -> Steps:
        """Make the optimiser, such as one of torch's; its learning rate is set before each step, times the ``lr_scale`` of each
        group of parameters that has one."""

    def build_for(self, part: PartWeights) -> Steps:
        """Make the optimiser of a part: over one flat parameter. Override it to get the layers by name, ``part.named``."""
        return self.build([part.parameter])


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (arXiv 1412.6980), or AdamW with ``weight_decay``."""

    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the first and second moment. Larger: smoother, slower to react."""
    eps: float = 1e-5
    """Added to the denominator; usually 1e-8 to 1e-3. Larger: smaller steps where gradients are small."""
    weight_decay: float = 0.0
    """Decoupled weight decay (AdamW); usually 0 to 0.1. Larger: smaller weights."""
    decays: Literal["all", "matrices"] = "all"
    """Which weights decay: all, or matrices and kernels only, without biases and the scales of normalisation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("Adam", "decays", self.decays, ("all", "matrices"))
        for name, value in (("eps", self.eps), ("weight_decay", self.weight_decay)):
            check.at_least_zero("Adam", name, value)
        for value in self.betas:
            check.decay("Adam", "each of betas", value)

    def build(self, parameters: list[torch.nn.Parameter]) -> Steps:
        (parameter,) = parameters
        return FlatAdam(parameter, self)

    def build_for(self, part: PartWeights) -> Steps:
        import torch

        made = self.build([part.parameter])
        if isinstance(made, FlatAdam) and self.weight_decay and self.decays == "matrices":
            shares = [torch.full((each.numel(),), float(is_matrix(name, each))) for name, each in part.named.items()]
            made.decaying = torch.cat(shares).to(part.parameter.device)
        return made


class FlatAdam:
    """Adam for one flat parameter, with the same results as torch's. torch's overhead per step is larger than the step itself
    when networks are small, and making its optimiser imports a compiler, which takes seconds."""

    def __init__(self, parameter: torch.nn.Parameter, options: Adam) -> None:
        import torch

        self.parameter, self.options = parameter, options
        self.param_groups: list[dict[str, Any]] = [{"lr": schedule_of(options.lr).at(0)}]  # Any: as torch has it
        self.steps = 0
        self.mean, self.square = torch.zeros_like(parameter.data), torch.zeros_like(parameter.data)
        self.count = torch.zeros(())
        private = getattr(torch, "_fused_adam_", None)
        self.fused: Any = private if parameter.device.type == "cpu" else None  # Any: torch has no type for it
        """What torch's own Adam calls: all operations in one pass. It is private, so it may be gone one day."""
        self.decaying: torch.Tensor | None = None
        """1 where weights decay, 0 elsewhere; None if all do."""

    def step(self) -> None:
        """Take one step with the gradient of the parameter."""
        (first, second), lr, gradient = self.options.betas, self.param_groups[0]["lr"], self.parameter.grad
        assert gradient is not None
        weights = self.parameter.data
        self.steps += 1
        if self.options.weight_decay and self.decaying is None:
            weights.mul_(1 - lr * self.options.weight_decay)
        elif self.decaying is not None:
            weights.addcmul_(weights, self.decaying, value=-lr * self.options.weight_decay)
        if self.fused is not None:
            self.count.fill_(self.steps)
            rates = {"lr": lr, "beta1": first, "beta2": second, "weight_decay": 0.0, "eps": self.options.eps}
            others = {"amsgrad": False, "maximize": False, "grad_scale": None, "found_inf": None}
            self.fused([weights], [gradient], [self.mean], [self.square], [], [self.count], **rates, **others)
            return
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        size = self.square.sqrt().div_(math.sqrt(1 - second**self.steps)).add_(self.options.eps)
        weights.addcdiv_(self.mean, size, value=-lr / (1 - first**self.steps))

    def state_dict(self) -> dict[str, Any]:  # Any: as torch has it
        """Step count and moments."""
        return {"steps": self.steps, "mean": self.mean, "square": self.square}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:  # Any: as above
        """Restore step count and moments."""
        self.steps = int(state_dict["steps"])
        self.mean.copy_(state_dict["mean"])
        self.square.copy_(state_dict["square"])


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """RMSprop, the optimiser of A3C and IMPALA."""

    decay: float = 0.99
    """Decay rate of the mean squared gradient (torch's alpha); usually 0.9 to 0.99."""
    eps: float = 1e-5
    """Added to the denominator; usually 1e-8 to 0.1. Larger: smaller steps where gradients are small."""
    momentum: float = 0.0
    """Momentum; usually 0 to 0.9."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.at_least_zero("RMSprop", "eps", self.eps)
        for name, value in (("decay", self.decay), ("momentum", self.momentum)):
            check.decay("RMSprop", name, value)

    def build(self, parameters: list[torch.nn.Parameter]) -> Steps:
        import torch

        return torch.optim.RMSprop(
            parameters, lr=schedule_of(self.lr).at(0), alpha=self.decay, eps=self.eps, momentum=self.momentum
        )


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, with optional momentum."""

    momentum: float = 0.0
    """Momentum; usually 0 to 0.9. Larger: smoother, faster along consistent gradients."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.decay("SGD", "momentum", self.momentum)

    def build(self, parameters: list[torch.nn.Parameter]) -> Steps:
        import torch

        return torch.optim.SGD(parameters, lr=schedule_of(self.lr).at(0), momentum=self.momentum)


@dataclass(frozen=True)
class Muon(Optimizer):
    """Muon (Jordan et al. 2024): momentum orthogonalised by Newton-Schulz iterations for matrices, Adam for all other weights."""

    lr: float | Schedule = 2e-3
    """Learning rate of the matrices, or a schedule over env steps; usually 2e-4 to 2e-2. Larger: faster, but less stable."""
    momentum: float = 0.95
    """Momentum; usually 0.9 to 0.95."""
    weight_decay: float = 0.0
    """Decoupled weight decay of the matrices; usually 0 to 0.1. Larger: smaller weights."""
    adam_share: float = 0.15
    """Learning rate of all other weights, as a share of ``lr``; usually 0.05 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.decay("Muon", "momentum", self.momentum)
        check.at_least_zero("Muon", "weight_decay", self.weight_decay)
        check.positive("Muon", "adam_share", self.adam_share)

    def build(self, parameters: list[torch.nn.Parameter]) -> Steps:
        raise NotImplementedError("Muon needs the layers: build_for(part).")

    def build_for(self, part: PartWeights) -> Steps:
        import torch

        lr = schedule_of(self.lr).at(0)
        matrices = [each for name, each in part.named.items() if each.dim() == 2 and is_matrix(name, each)]
        others = [each for name, each in part.named.items() if each.dim() != 2 or not is_matrix(name, each)]
        made: list[torch.optim.Optimizer] = []
        if matrices:
            muon = torch.optim.Muon
            made.append(muon(matrices, lr, self.weight_decay, self.momentum, adjust_lr_fn="match_rms_adamw"))
        if others:
            made.append(torch.optim.Adam([{"params": others, "lr_scale": self.adam_share}], lr=lr, eps=1e-5))
        return Several(made)


def is_matrix(name: str, parameter: torch.nn.Parameter) -> bool:
    """True for the weights of dense, convolutional and ensemble layers; biases may have several axes in an ensemble."""
    return parameter.dim() > 1 and not name.endswith("bias")


class Several:
    """Optimisers of different layers that step together."""

    def __init__(self, members: list[torch.optim.Optimizer]) -> None:
        self.members = members
        groups = [group for each in members for group in each.param_groups]
        self.param_groups: list[dict[str, Any]] = groups  # Any: as torch has it

    def step(self) -> None:
        """Step all of them."""
        for optimizer in self.members:
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:  # Any: as torch has it
        """The state of each, by number."""
        return {str(number): optimizer.state_dict() for number, optimizer in enumerate(self.members)}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:  # Any: as above
        """Restore the state of each."""
        for number, optimizer in enumerate(self.members):
            optimizer.load_state_dict(state_dict[str(number)])
        self.param_groups = [group for each in self.members for group in each.param_groups]
