"""MinAtar's games as gymnasium envs, for ``--env benchmarks.pixels:MinAtar/Breakout-v1``. Importing this module registers them.

Episodes end after 2,500 steps at the latest: a policy that does not explore may keep the ball in play for ever.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from torch import Tensor, nn

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
MOST_STEPS = 2_500

for game in GAMES:
    name = f"MinAtar/{game.title().replace('_', '')}-v1"
    gymnasium.registry.pop(name, None)  # this file may be loaded as a module and as a file: gymnasium would warn of each game
    gymnasium.register(
        id=name,
        entry_point="minatar.gym:BaseEnv",
        max_episode_steps=MOST_STEPS,
        kwargs={"game": game, "use_minimal_action_set": True},
    )


class Network(nn.Module):
    """The network of the MinAtar paper (arXiv 1903.03176): one convolution and one dense layer. For ``--model
    benchmarks/pixels.py:Network``."""

    features = 128

    def __init__(self, space: gymnasium.Space[Any]) -> None:  # Any: gymnasium's
        super().__init__()
        assert space.shape is not None
        height, width, channels = space.shape
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 16, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * (height - 2) * (width - 2), self.features),
            nn.ReLU(),
        )

    def forward(self, obs: Tensor) -> Tensor:
        features: Tensor = self.layers(obs.permute(0, 3, 1, 2).float())
        return features
