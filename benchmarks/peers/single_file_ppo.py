"""PPO on CartPole-v1 in one file, with the settings of CleanRL's ``ppo.py``: what one writes when nothing is to be composed."""

from __future__ import annotations

import argparse
import json
import time
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

ENVS, STEPS, TOTAL = 4, 128, 500_000
EPOCHS, PARTS = 4, 4
GAMMA, LAM, CLIP, RATE = 0.99, 0.95, 0.2, 2.5e-4


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


def network(outputs: int, gain: float) -> nn.Sequential:
    return nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, gain))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.make_vec("CartPole-v1", ENVS, vectorization_mode="sync", vector_kwargs=same_step)
    actor, critic = network(2, 0.01), network(1, 1.0)
    weights = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(weights, lr=RATE, eps=1e-5)

    obs = np.asarray(envs.reset(seed=given.seed)[0], np.float32)
    done = np.zeros(ENVS, np.float32)
    running = np.zeros(ENVS)
    latest: deque[float] = deque(maxlen=20)
    seen = torch.zeros(STEPS, ENVS, 4)
    actions = torch.zeros(STEPS, ENVS, dtype=torch.int64)
    logps, rewards = torch.zeros(STEPS, ENVS), torch.zeros(STEPS, ENVS)
    values, begins = torch.zeros(STEPS + 1, ENVS), torch.zeros(STEPS + 1, ENVS)
    steps, reached, began = 0, False, time.perf_counter()
    while steps < TOTAL and not reached and time.perf_counter() - began < given.seconds:
        optimizer.param_groups[0]["lr"] = RATE * (1 - steps / TOTAL)
        with torch.no_grad():
            for step in range(STEPS):
                seen[step], begins[step] = torch.from_numpy(obs), torch.from_numpy(done)
                logits = actor(seen[step]).log_softmax(-1)
                chosen = torch.multinomial(logits.exp(), 1)
                actions[step], logps[step] = chosen[:, 0], logits.gather(1, chosen)[:, 0]
                values[step] = critic(seen[step])[:, 0]
                new, reward, terminated, truncated, _ = envs.step(chosen[:, 0].numpy())
                obs, done = np.asarray(new, np.float32), (terminated | truncated).astype(np.float32)
                rewards[step] = torch.from_numpy(np.asarray(reward, np.float32))
                running += reward
                for env in np.flatnonzero(done):
                    latest.append(float(running[env]))
                    running[env] = 0
            values[STEPS], begins[STEPS] = critic(torch.from_numpy(obs))[:, 0], torch.from_numpy(done)
            advantages = torch.zeros(STEPS, ENVS)
            advantage = torch.zeros(ENVS)
            for step in reversed(range(STEPS)):
                goes_on = 1 - begins[step + 1]
                error = rewards[step] + GAMMA * goes_on * values[step + 1] - values[step]
                advantage = error + GAMMA * LAM * goes_on * advantage
                advantages[step] = advantage
        learn(actor, critic, optimizer, weights, seen, actions, logps, values[:STEPS], advantages)
        steps += STEPS * ENVS
        reached = len(latest) == 20 and sum(latest) / 20 >= 475
    print(json.dumps({"seconds": time.perf_counter() - began, "env_steps": steps, "reached": int(reached)}))


def learn(
    actor: nn.Module,
    critic: nn.Module,
    optimizer: torch.optim.Optimizer,
    weights: list[nn.Parameter],
    *columns: Tensor,
) -> None:
    """Several epochs of minibatches."""
    seen, actions, logps, old_values, advantages = (column.flatten(0, 1) for column in columns)
    returns = advantages + old_values
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(seen)).chunk(PARTS):
            logits = actor(seen[rows]).log_softmax(-1)
            ratio = (logits.gather(1, actions[rows, None])[:, 0] - logps[rows]).exp()
            gains = advantages[rows]
            gains = (gains - gains.mean()) / (gains.std() + 1e-8)
            policy_loss = -torch.minimum(gains * ratio, gains * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            value = critic(seen[rows])[:, 0]
            near = old_values[rows] + (value - old_values[rows]).clamp(-CLIP, CLIP)
            value_loss = 0.5 * torch.maximum((value - returns[rows]) ** 2, (near - returns[rows]) ** 2).mean()
            entropy = -(logits.exp() * logits).sum(-1).mean()
            optimizer.zero_grad()
            (policy_loss + 0.5 * value_loss - 0.01 * entropy).backward()
            nn.utils.clip_grad_norm_(weights, 0.5)
            optimizer.step()


if __name__ == "__main__":
    main()
