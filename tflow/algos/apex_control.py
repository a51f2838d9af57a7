"""Ape-X for continuous control: DDPG, as in the paper's second part (arXiv 1803.00933), TD3 and SAC on the sub-flow of Ape-X.

What differs from the paper: TD3 and SAC, which are younger, are there too; each env has a noise of its own, as in Ape-X DQN.
"""

from __future__ import annotations

from dataclasses import dataclass

from tflow.algos.apex import Distributed
from tflow.algos.ddpg import DDPG
from tflow.algos.sac import SAC
from tflow.algos.td3 import TD3
from tflow.rl.policy.exploration import ApexNoise, Exploration, RandomFirst
from tflow.rl.schedules import Schedule


@dataclass(frozen=True, kw_only=True)
class DistributedNoise(Distributed):
    """Ape-X with a deterministic actor: each env has a noise of its own."""

    update_ratio: float | Schedule = 0.5
    """Updates per env step once learning has started, or a schedule; usually 0.1 to 1. Larger: fewer env steps, more compute,
    more overfitting."""
    base_noise: float = 0.4
    """Largest noise, in place of ``noise``; usually 0.3 to 0.5. Env i of N has ``base_noise ** (1 + spread * i / (N - 1))``."""
    spread: float = 3.0
    """Exponent of these; usually 1 to 7. Larger: more envs act almost without noise."""

    def exploration(self) -> Exploration:
        return RandomFirst(self.learning_starts, ApexNoise(self.base_noise, self.spread))


@dataclass(frozen=True, kw_only=True)
class ApeXDDPG(DistributedNoise, DDPG):
    """Ape-X with DDPG."""


@dataclass(frozen=True, kw_only=True)
class ApeXTD3(DistributedNoise, TD3):
    """Ape-X with TD3."""


@dataclass(frozen=True, kw_only=True)
class ApeXSAC(Distributed, SAC):
    """Ape-X with SAC."""

    update_ratio: float | Schedule = 0.5
    """Updates per env step once learning has started, or a schedule; usually 0.1 to 1. Larger: fewer env steps, more compute,
    more overfitting."""
