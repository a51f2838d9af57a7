"""PPO on CartPole in one XLA program: env, policy and updates compiled together, with the settings of ``ours_ppo``.

What a CPU can do at most with these settings, since nothing of Python runs between env steps or minibatches. The env is
gymnasium's, written in JAX.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from importlib import import_module
from typing import Any

ENVS, STEPS, EPOCHS, MINIBATCH = 64, 64, 4, 512
GAMMA, LAM, CLIP, LR, MAX_NORM = 0.99, 0.95, 0.2, 3e-3, 0.5
State = Any  # Any: whatever JAX carries
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")  # read by the import
jax: Any = import_module("jax")  # Any: it lives in an environment of its own
optax: Any = import_module("optax")  # Any: as above
jnp: Any = jax.numpy


def step(state: State, action: Any) -> tuple[State, Any, Any]:  # Any: arrays of JAX, here and below
    """One step of all envs: what follows, which are terminated, which truncated."""
    x, speed, angle, turn, age = state
    force = jnp.where(action == 1, 10.0, -10.0)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    pull = (force + 0.05 * turn**2 * sin) / 1.1
    tilt = (9.8 * sin - cos * pull) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    push = pull - 0.05 * tilt * cos / 1.1
    after = x + 0.02 * speed, speed + 0.02 * push, angle + 0.02 * turn, turn + 0.02 * tilt, age + 1
    return after, (jnp.abs(after[0]) > 2.4) | (jnp.abs(after[2]) > 0.2095), after[4] >= 500


def observed(state: State) -> Any:
    return jnp.stack(state[:4], -1)


def reset(key: Any) -> State:
    drawn = jax.random.uniform(key, (4, ENVS), minval=-0.05, maxval=0.05)
    return (*drawn, jnp.zeros(ENVS))


def network(key: Any, outputs: int, scale: float) -> list[Any]:
    """Weights and biases of an MLP of 64 x 64."""
    orthogonal, keys = jax.nn.initializers.orthogonal, jax.random.split(key, 3)
    shapes = ((4, 64, 2**0.5), (64, 64, 2**0.5), (64, outputs, scale))
    return [
        (orthogonal(gain)(each, (rows, size)), jnp.zeros(size)) for each, (rows, size, gain) in zip(keys, shapes, strict=True)
    ]


def computed(layers: list[Any], features: Any) -> Any:
    for weights, bias in layers[:-1]:
        features = jnp.tanh(features @ weights + bias)
    return features @ layers[-1][0] + layers[-1][1]


def log_probability(logits: Any, actions: Any) -> Any:
    return jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], 1)[:, 0]


def loss(nets: Any, rows: Any) -> Any:
    obs, actions, before, advantages, returns = rows
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = jnp.exp(log_probability(computed(nets[0], obs), actions) - before)
    surrogate = jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantages)
    values = computed(nets[1], obs)[:, 0]
    return -surrogate.mean() + 0.5 * ((values - returns) ** 2).mean() / jnp.maximum(1.0, returns.var())


OPTIMIZER = optax.chain(optax.clip_by_global_norm(MAX_NORM), optax.adam(LR, eps=1e-5))


def sampled(nets: Any, state: State, totals: Any, key: Any) -> tuple[Any, Any]:
    """A rollout of all envs."""

    def one(carry: Any, _: None) -> tuple[Any, Any]:
        state, totals, key = carry
        key, for_action, for_reset = jax.random.split(key, 3)
        obs = observed(state)
        logits = computed(nets[0], obs)
        actions = jax.random.categorical(for_action, logits)
        after, terminated, truncated = step(state, actions)
        over, totals = terminated | truncated, totals + 1
        fresh = tuple(jnp.where(over, new, old) for new, old in zip(reset(for_reset), after, strict=True))
        row = obs, actions, log_probability(logits, actions), observed(after), terminated, over, jnp.where(over, totals, 0.0)
        return (fresh, jnp.where(over, 0.0, totals), key), row

    carry, rows = jax.lax.scan(one, (state, totals, key), None, STEPS)
    return carry, rows


def advantages_of(nets: Any, obs: Any, final: Any, terminated: Any, over: Any) -> tuple[Any, Any]:
    """GAE."""
    values, following = computed(nets[1], obs)[..., 0], computed(nets[1], final)[..., 0]
    errors = 1.0 + GAMMA * following * (1 - terminated) - values

    def back(carry: Any, row: Any) -> tuple[Any, Any]:
        error, ended = row
        carry = error + GAMMA * LAM * (1 - ended) * carry
        return carry, carry

    _, advantages = jax.lax.scan(back, jnp.zeros(ENVS), (errors, over.astype(jnp.float32)), reverse=True)
    return advantages, advantages + values


def update(carry: Any) -> tuple[Any, Any]:
    """Sample, then some epochs of minibatches."""
    nets, moments, state, totals, key = carry
    (state, totals, key), (obs, actions, before, final, terminated, over, finished) = sampled(nets, state, totals, key)
    rows = obs, actions, before, *advantages_of(nets, obs, final, terminated, over)
    flat = jax.tree.map(lambda each: each.reshape((-1, *each.shape[2:])), rows)

    def minibatch(carry: Any, rows: Any) -> tuple[Any, None]:
        nets, moments = carry
        changes, moments = OPTIMIZER.update(jax.grad(loss)(nets, rows), moments, nets)
        return (optax.apply_updates(nets, changes), moments), None

    def epoch(carry: Any, _: None) -> tuple[Any, None]:
        nets, moments, key = carry
        key, for_order = jax.random.split(key)
        order = jax.random.permutation(for_order, ENVS * STEPS)
        cut = jax.tree.map(lambda each: each[order].reshape((-1, MINIBATCH, *each.shape[1:])), flat)
        (nets, moments), _ = jax.lax.scan(minibatch, (nets, moments), cut)
        return (nets, moments, key), None

    (nets, moments, key), _ = jax.lax.scan(epoch, (nets, moments, key), None, EPOCHS)
    return (nets, moments, state, totals, key), (finished, over)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    key = jax.random.PRNGKey(given.seed)
    nets = network(key, 2, 0.01), network(jax.random.fold_in(key, 1), 1, 1.0)
    carry = nets, OPTIMIZER.init(nets), reset(key), jnp.zeros(ENVS), key
    run = jax.jit(update)
    jax.block_until_ready(run(carry))  # compiled
    began, env_steps, returns = time.perf_counter(), 0, [0.0]
    while time.perf_counter() - began < given.seconds:
        carry, (finished, over) = run(carry)
        returns = [*returns, *finished[over].tolist()][-20:]
        env_steps += ENVS * STEPS
    reached = int(sum(returns) / len(returns) >= 475)
    print(json.dumps({"seconds": time.perf_counter() - began, "env_steps": env_steps, "reached": reached}), flush=True)


if __name__ == "__main__":
    main()
