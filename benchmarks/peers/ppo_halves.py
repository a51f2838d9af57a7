"""PPO on CartPole-v1 in two halves, one that samples and one that learns, for whoever distributes them: the same work everywhere.

It needs torch and gymnasium alone, which all environments have.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from benchmarks.peers.single_file_ppo import GAMMA, LAM, RATE, learn, network

ENVS, STEPS = 8, 32
"""Of each worker."""
WARM_UP = 5
"""Iterations that are not measured."""
Rollout = dict[str, Any]  # Any: arrays by name, and how long they took
Weights = Any  # Any: a flat array
SAMPLERS: list[Sampler] = []
"""The one of this process, for systems whose workers have no state of their own."""


class Sampler:
    """Envs and a policy."""

    def __init__(self, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
        self.envs = gym.make_vec("CartPole-v1", ENVS, vectorization_mode="sync", vector_kwargs=same_step)
        self.actor, self.critic = network(2, 0.01), network(1, 1.0)
        self.obs = np.asarray(self.envs.reset(seed=seed)[0], np.float32)

    def set_weights(self, weights: Weights) -> None:
        nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), [*self.actor.parameters(), *self.critic.parameters()])

    def sample(self) -> Rollout:
        """A fragment of every env, with advantages."""
        began = time.perf_counter()
        rows: list[tuple[Any, ...]] = []  # Any: arrays
        with torch.no_grad():
            for _ in range(STEPS):
                seen = torch.from_numpy(self.obs)
                logits = self.actor(seen).log_softmax(-1)
                chosen = torch.multinomial(logits.exp(), 1)
                new, reward, terminated, truncated, _ = self.envs.step(chosen[:, 0].numpy())
                logps, values = logits.gather(1, chosen)[:, 0].numpy(), self.critic(seen)[:, 0].numpy()
                rows.append((self.obs, chosen[:, 0].numpy(), logps, values, reward, terminated | truncated))
                self.obs = np.asarray(new, np.float32)
            last = self.critic(torch.from_numpy(self.obs))[:, 0].numpy()
        obs, actions, logps, values, rewards, ends = (np.stack(column) for column in zip(*rows, strict=True))
        advantages, advantage = np.zeros((STEPS, ENVS), np.float32), np.zeros(ENVS, np.float32)
        for step in reversed(range(STEPS)):
            goes_on = 1.0 - ends[step]
            following = last if step == STEPS - 1 else values[step + 1]
            advantage = rewards[step] + GAMMA * goes_on * following - values[step] + GAMMA * LAM * goes_on * advantage
            advantages[step] = advantage
        columns = {"obs": obs, "actions": actions, "logps": logps, "values": values, "advantages": advantages}
        return {**columns, "seconds": time.perf_counter() - began}


class Learner:
    """The policy and its optimiser; it keeps the time."""

    def __init__(self, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.actor, self.critic = network(2, 0.01), network(1, 1.0)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=RATE, eps=1e-5)
        self.iterations, self.began, self.seconds = 0, 0.0, 0.0
        self.sampling = self.learning = self.cpu = self.cpu_before = 0.0

    def weights(self) -> Weights:
        return nn.utils.parameters_to_vector(self.parameters).detach().numpy()

    def learn(self, rollouts: Sequence[Rollout]) -> Weights:
        """Learn from one rollout of every worker; the new weights."""
        began = time.perf_counter()
        names = ("obs", "actions", "logps", "values", "advantages")
        columns = (torch.from_numpy(np.concatenate([each[name] for each in rollouts], axis=1)) for name in names)
        learn(self.actor, self.critic, self.optimizer, self.parameters, *columns)
        ended = time.perf_counter()
        self.iterations += 1
        if self.iterations == WARM_UP:
            self.cpu_before, self.began = cpu_of_all(), time.perf_counter()
        elif self.iterations > WARM_UP:
            self.seconds = ended - self.began
            self.sampling += max(each["seconds"] for each in rollouts)
            self.learning += ended - began
        return self.weights()

    def over(self, limit: float) -> bool:
        """True if it has learned for so long."""
        if self.seconds <= limit:
            return False
        self.cpu = self.cpu or cpu_of_all() - self.cpu_before
        return True

    def report(self) -> str:
        """What came of it."""
        measured = {"seconds": self.seconds, "iterations": self.iterations - WARM_UP, "cpu": self.cpu}
        return json.dumps({**measured, "sampling": self.sampling, "learning": self.learning})


def cpu_of_all() -> float:
    """CPU seconds of this process and of all below it that live."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[int(path.parent.name)], ticks[int(path.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    found, border = {os.getpid()}, {os.getpid()}
    while border:
        border = {child for child, parent in parents.items() if parent in border}
        found |= border
    return sum(ticks[each] for each in found) / os.sysconf("SC_CLK_TCK")


def sampled(shard: int, weights: Callable[[], Weights]) -> Rollout:
    """What the sampler of this process, made when it is first needed, samples with these weights."""
    if not SAMPLERS:
        SAMPLERS.append(Sampler(shard))
    SAMPLERS[0].set_weights(weights())
    return SAMPLERS[0].sample()
