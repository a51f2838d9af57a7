"""SAC on one env in one file, in the manner of CleanRL: what one writes when nothing is to be composed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers.stopwatch import Act, Stopwatch, options

BATCH, GAMMA, TAU = 256, 0.99, 0.005
LEAST, MOST = -20.0, 2.0
"""Of the logarithm of the standard deviation."""


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs))


class Actor(nn.Module):
    """A normal distribution that is squashed into the bounds of the action space."""

    def __init__(self, obs_size: int, space: gym.spaces.Box) -> None:
        super().__init__()
        self.net = network(obs_size, 2 * space.shape[0])
        self.centre, self.reach = (torch.from_numpy(bound / 2) for bound in (space.high + space.low, space.high - space.low))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions, and their log-probabilities before they are scaled to the bounds."""
        mean, log_std = self.net(obs).chunk(2, -1)
        log_std = log_std.clamp(LEAST, MOST)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        logp = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
        squashing = 2 * (np.log(2) - raw - nn.functional.softplus(-2 * raw))
        return raw.tanh() * self.reach + self.centre, (logp - squashing).sum(-1)

    def best(self, obs: Tensor) -> Tensor:
        mean: Tensor = self.net(obs).chunk(2, -1)[0]
        return mean.tanh() * self.reach + self.centre


class Replay:
    """The latest transitions, as arrays."""

    def __init__(self, capacity: int, obs_size: int, action_size: int, seed: int) -> None:
        sizes = (obs_size, action_size, obs_size)
        self.columns = [np.zeros((capacity, size), np.float32) for size in sizes] + [np.zeros(capacity, np.float32) for _ in "rd"]
        self.capacity, self.added, self.rng = capacity, 0, np.random.default_rng(seed)

    def add(self, *row: Any) -> None:  # Any: arrays and numbers
        for column, value in zip(self.columns, row, strict=True):
            column[self.added % self.capacity] = value
        self.added += 1

    def sample(self) -> list[Tensor]:
        rows = self.rng.integers(min(self.added, self.capacity), size=BATCH)
        return [torch.from_numpy(column[rows]) for column in self.columns]


class Learner:
    """Twin critics, their targets, an actor, and a temperature that keeps its entropy."""

    def __init__(self, obs_size: int, space: gym.spaces.Box, lr: float) -> None:
        size = space.shape[0]
        self.actor = Actor(obs_size, space)
        self.critics = nn.ModuleList([network(obs_size + size, 1), network(obs_size + size, 1)])
        self.targets = deepcopy(self.critics).requires_grad_(False)
        self.log_alpha, self.wanted = torch.zeros((), requires_grad=True), -float(size)
        parts = self.actor.parameters(), self.critics.parameters(), [self.log_alpha]
        self.actor_step, self.critic_step, self.alpha_step = (torch.optim.Adam(part, lr=lr) for part in parts)

    def update(self, obs: Tensor, actions: Tensor, new_obs: Tensor, rewards: Tensor, ends: Tensor) -> None:
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            new_actions, new_logp = self.actor(new_obs)
            ahead = least(self.targets, new_obs, new_actions) - alpha * new_logp
            wanted = rewards + GAMMA * (1 - ends) * ahead
        both = torch.cat((obs, actions), -1)
        loss = sum((nn.functional.mse_loss(critic(both)[:, 0], wanted) for critic in self.critics), torch.zeros(()))
        minimise(self.critic_step, loss)

        chosen, logp = self.actor(obs)
        self.critics.requires_grad_(False)
        minimise(self.actor_step, (alpha * logp - least(self.critics, obs, chosen)).mean())
        self.critics.requires_grad_(True)
        minimise(self.alpha_step, -self.log_alpha * (logp.detach() + self.wanted).mean())
        with torch.no_grad():
            for target, weight in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                target.lerp_(weight, TAU)

    def policy(self) -> Act:
        def act(obs: Any) -> Any:  # Any: arrays
            with torch.no_grad():
                return self.actor.best(torch.as_tensor(obs, dtype=torch.float32)).numpy()

        return act


def least(critics: nn.ModuleList, obs: Tensor, actions: Tensor) -> Tensor:
    """The smaller of two estimates."""
    both = torch.cat((obs, actions), -1)
    one, other = (critic(both)[:, 0] for critic in critics)
    return torch.minimum(one, other)


def minimise(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
    optimizer.step()


def main() -> None:
    given = options("Pendulum-v1", lr=3e-4, learning_starts=100).parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    env: gym.Env[Any, Any] = gym.make(given.env)  # Any: arrays
    env.action_space.seed(given.seed)
    space = env.action_space
    assert isinstance(space, gym.spaces.Box)
    assert env.observation_space.shape
    obs_size = env.observation_space.shape[0]
    learner = Learner(obs_size, space, given.lr)
    replay = Replay(min(1_000_000, given.steps), obs_size, space.shape[0], given.seed)
    watch = Stopwatch(given, learner.policy)
    obs, _ = env.reset(seed=given.seed)
    steps = 0
    while not watch.over(steps):
        if steps < given.learning_starts:
            action = space.sample()
        else:
            with torch.no_grad():
                action = learner.actor(torch.as_tensor(obs, dtype=torch.float32))[0].numpy()
        new, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, new, reward, terminated)
        obs = env.reset()[0] if terminated or truncated else new
        steps += 1
        if steps > given.learning_starts:
            learner.update(*replay.sample())


if __name__ == "__main__":
    main()
