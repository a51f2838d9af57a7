"""Optimisers, described. They work on all weights as one flat parameter, so a step is one operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tflow.combinators import check
from tflow.rl.schedules import Schedule, schedule_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Optimizer(ABC):
    """How weights follow gradients. ``lr`` may be a schedule over env steps."""

    lr: float | Schedule = 3e-4

    def __post_init__(self) -> None:
        where = type(self).__name__
        check.positive(where, "lr", schedule_of(self.lr, where=f"{where}: lr").at(0))

    @abstractmethod
    def build(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """The torch optimiser; its learning rate is set before each step."""


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (arXiv 1412.6980); with ``weight_decay``, decoupled (AdamW)."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-5
    weight_decay: float = 0.0

    def build(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        import torch

        kind = torch.optim.AdamW if self.weight_decay else torch.optim.Adam
        return kind(
            parameters,
            lr=schedule_of(self.lr).at(0),
            betas=self.betas,
            eps=self.eps,
            weight_decay=self.weight_decay,
            fused=True,
        )


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """RMSprop, as A3C and IMPALA use it."""

    decay: float = 0.99
    eps: float = 1e-5
    momentum: float = 0.0

    def build(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        import torch

        return torch.optim.RMSprop(
            parameters, lr=schedule_of(self.lr).at(0), alpha=self.decay, eps=self.eps, momentum=self.momentum
        )


@dataclass(frozen=True)
class SGD(Optimizer):
    """Plain gradient descent, with momentum if wanted."""

    momentum: float = 0.0

    def build(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        import torch

        return torch.optim.SGD(parameters, lr=schedule_of(self.lr).at(0), momentum=self.momentum)
