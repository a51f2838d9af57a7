"""DQN on CartPole-v1 against Stable-Baselines3: env steps per second at equal settings (``make bench-dqn``; 6 minutes).

One env; a network of 64 x 64 ReLU; one update of 64 rows every 4 env steps; uniform replay, no double Q-learning; the weights are
copied to the target network every 10,000 env steps. Each contestant runs with one thread of torch's, and with as many as its
library takes.
"""

from __future__ import annotations

from benchmarks.contest import OURS, PEERS, RESULTS, by_threads, hold, speeds_by_threads

SEEDS = range(2)
CARTPOLE = RESULTS / "dqn.csv"
PROGRAMS = {
    "tflow": (OURS, "-m", "benchmarks.peers.ours_dqn", "--seconds", "10"),
    "SB3": (str(PEERS["sb3"]), "-m", "benchmarks.peers.sb3_dqn", "--seconds", "10"),
}


def table() -> str:
    """Markdown: env steps per second."""
    return speeds_by_threads(CARTPOLE, PROGRAMS, base="SB3")


if __name__ == "__main__":
    hold(CARTPOLE, by_threads(PROGRAMS), SEEDS, one_thread=False)
    print(table())
