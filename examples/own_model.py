"""An algorithm with a torch module of one's own, and its policy saved and loaded again.

A module is made from the observation space by every worker and every learner, so ``model=`` takes what makes it: the class,
or a function. ``features`` says how many numbers it makes of an observation; the heads for actions and values come behind
them. A file holds weights and no code, so loading asks for the module again.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import torch
from torch import Tensor, nn
from typing_extensions import override

from tflow import Policy, Stop
from tflow.algos import PPO

PROBES = torch.linspace(-0.2, 0.2, 40).reshape(10, 4).tolist()


class Waves(nn.Module):
    """Waves of the observation, with frequencies that are learned."""

    def __init__(self, observation_space: gymnasium.Space[Any], features: int = 32) -> None:  # Any: see forward
        super().__init__()
        assert isinstance(observation_space, gymnasium.spaces.Box)
        self.features = features
        self.frequencies = nn.Linear(observation_space.shape[0], features)

    @override
    def forward(self, obs: Tensor) -> Tensor:
        """From (rows, 4) to (rows, features)."""
        return torch.sin(self.frequencies(obs))


def main(updates: int = 60, file: Path | None = None) -> tuple[Policy, Policy]:
    """Train, save and load; both policies."""
    model = partial(Waves, features=48)
    config = PPO(model=model, num_workers=1, num_envs=8, fragment=64, epochs=4, minibatch=128)
    print(config.plan(), end="\n\n")
    training = config.run(stop=Stop(updates=updates))
    for metrics in training:
        print(metrics)
    trained = training.policy()
    with tempfile.TemporaryDirectory() as folder:
        path = file or Path(folder) / "waves.safetensors"
        trained.save(path)
        loaded = Policy.load(path, model=model)
    print(f"\n{loaded}")
    print("trained:", *(trained.act(obs) for obs in PROBES))
    print("loaded: ", *(loaded.act(obs) for obs in PROBES))
    return trained, loaded


if __name__ == "__main__":
    main()
