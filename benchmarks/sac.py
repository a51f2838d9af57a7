"""SAC against Stable-Baselines3 and one file: env steps per second at equal settings (``make bench-sac``; 12 minutes).

One env; networks of 256 x 256 ReLU for actor and twin critics; one update of 256 rows per env step. Each contestant runs with one
thread of torch's, and with as many as its library takes. The clock runs from 400 env steps after the first update.
"""

from __future__ import annotations

from benchmarks.contest import OURS, PEERS, RESULTS, by_threads, hold, speeds_by_threads

SEEDS = range(2)
ENVS = {"Pendulum-v1": RESULTS / "sac_pendulum.csv", "HalfCheetah-v5": RESULTS / "sac_half_cheetah.csv"}
PROGRAMS = {
    "tflow": (OURS, "-m", "benchmarks.peers.ours_control"),
    "SB3": (str(PEERS["sb3"]), "-m", "benchmarks.peers.sb3_control"),
    "one file": (OURS, "-m", "benchmarks.peers.single_file_sac"),
}


def table(env: str) -> str:
    """Markdown: env steps per second."""
    return speeds_by_threads(ENVS[env], PROGRAMS, base="SB3")


if __name__ == "__main__":
    for env, path in ENVS.items():
        contestants = {name: (*command, "--env", env, "--seconds", "8") for name, command in PROGRAMS.items()}
        hold(path, by_threads(contestants), SEEDS, one_thread=False)
        print(env, table(env), sep="\n\n")
