"""Train from Python as ``tflow train`` does, then play with what was learned.

``ShowProgress`` is the live view (lines, if this is no terminal), ``RunFolder`` keeps settings, metrics, the drawn plan and the
policies. Both are callbacks; the run itself is an iterator over typed metrics. Run it with ``python examples/train_and_act.py``.
"""

from __future__ import annotations

import gymnasium

from tflow import Policy, RunFolder, ShowProgress, Stop, evaluate
from tflow.algos import PPO


def play(policy: Policy, seed: int) -> float:
    """One episode in a plain gymnasium env; its return."""
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(policy.act(obs))  # observations as the env gives them
        total, over = total + float(reward), terminated or truncated
    env.close()
    return total


def main(folder: str = "runs/train_and_act", env_steps: int = 80_000) -> list[float]:
    """Train, load the best policy from the run folder, and play."""
    callbacks = (ShowProgress(), RunFolder(folder))
    run = PPO(env="CartPole-v1").run(
        stop=Stop(mean_return=475, env_steps=env_steps), callbacks=callbacks, eval_every=5_000, eval_episodes=5
    )
    for metrics in run:  # typed: metrics.mean_return, metrics.training.updates, metrics.evaluation, ...
        if metrics.episodes.discarded:
            print(f"{metrics.episodes.discarded} episodes were discarded")
    print(f"over: {run.outcome}")

    best = Policy.load(f"{folder}/best.safetensors")
    returns = [play(best, seed) for seed in range(3)]
    print(f"the best policy plays {returns}")
    print(f"over 20 episodes, sampled: {evaluate(best, 'CartPole-v1', episodes=20, deterministic=False)}")
    return returns


if __name__ == "__main__":
    main()
