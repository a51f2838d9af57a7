"""IMPALA on Pong against RLlib's: emulator frames per second that are trained on (``make bench-pong``; 6 minutes).

Two processes sample, one learns, on both sides; the network is the Nature CNN, which actions and values share; 84 x 84 grey, 4
frames stacked, each action repeated 4 times, so that an env step is 4 frames. Updates are on 500 rows.
"""

from __future__ import annotations

from benchmarks.contest import OURS, PEERS, RESULTS, hold, speeds

SEEDS = range(3)
PONG = RESULTS / "impala_pong.csv"
LONG = ("--seconds", "35")
CONTESTANTS = {
    "tflow, Ray, 2 workers x 10 envs": (OURS, "-m", "benchmarks.peers.ours_pong", *LONG),
    "RLlib, 2 runners x 5 envs": (str(PEERS["rllib"]), "benchmarks/peers/rllib_pong.py", *LONG),
}


FRAMES = 4
"""Per env step."""


def table() -> str:
    """Markdown: frames per second."""
    return speeds(PONG, CONTESTANTS, "frames/s trained on | against RLlib's", base="RLlib, 2 runners x 5 envs", times=FRAMES)


if __name__ == "__main__":
    hold(PONG, CONTESTANTS, SEEDS)
    print(table())
