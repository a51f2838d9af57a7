"""PPO on CartPole-v1 against the limit of a CPU: one XLA program that does it all (``make bench-limit``; two minutes).

Both take 64 envs, fragments of 64, four epochs and minibatches of 512 (``FAST`` in ``benchmarks/peers/ours_ppo.py``), with one
thread. Ours steps gymnasium's own vector env; the program has the env compiled into it.
"""

from __future__ import annotations

from benchmarks.contest import OURS, PEERS, RESULTS, hold, speeds

LIMIT = RESULTS / "limit.csv"
SEEDS = range(3)
CONTESTANTS = {
    "one XLA program": (str(PEERS["jax"]), "-m", "benchmarks.peers.xla_ppo", "--seconds", "10"),
    "tflow, local": (OURS, "-m", "benchmarks.peers.ours_ppo", "--seconds", "10", "--endless"),
    "tflow, Ray, 2 workers": (OURS, "-m", "benchmarks.peers.ours_ppo", "--seconds", "10", "--endless", "--runtime", "ray"),
}


def table() -> str:
    """Markdown: env steps per second."""
    return speeds(LIMIT, CONTESTANTS, "env steps/s | of the limit", base="one XLA program")


if __name__ == "__main__":
    hold(LIMIT, CONTESTANTS, SEEDS)
    print(table())
