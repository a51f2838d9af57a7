"""PPO on CartPole-v1, against Stable-Baselines3, RLlib and a program in one file (``make bench-ppo``; 20 minutes).

``reach``: seconds until the last 20 episodes have a mean return of 475, each with its own settings: ours were chosen for it, SB3
has its defaults and those that RL-Zoo found for CartPole, RLlib those of its CartPole example. The clock runs from when envs and
networks are there. ``equal``: env steps per second with as much learning per env step as SB3's defaults have: the same network,
epochs and minibatches.
"""

from __future__ import annotations

from benchmarks.contest import OURS, PEERS, RESULTS, hold, ratios, read, speed, speeds, spread

SEEDS = range(5, 10)  # others than those that our settings were chosen with
REACH, EQUAL = RESULTS / "ppo_reach.csv", RESULTS / "ppo_equal.csv"
MOST, THROUGHPUT = ("--seconds", "90"), ("--seconds", "15")
OUR_PPO = (OURS, "-m", "benchmarks.peers.ours_ppo")
THEIR_PPO = (str(PEERS["sb3"]), "benchmarks/peers/sb3_ppo.py")

CONTESTANTS = {
    "tflow, local": (*OUR_PPO, *MOST),
    "tflow, Ray, 2 workers": (*OUR_PPO, "--runtime", "ray", *MOST),
    "SB3, RL-Zoo's settings": (*THEIR_PPO, "--zoo", *MOST),
    "SB3, defaults": (*THEIR_PPO, *MOST),
    "one file, CleanRL's settings": (OURS, "benchmarks/peers/single_file_ppo.py", *MOST),
    "RLlib, 2 runners x 8 envs": (str(PEERS["rllib"]), "benchmarks/peers/rllib_ppo.py", *MOST),
}
EQUALS = {
    "tflow, local": (*OUR_PPO, "--like", "sb3", *THROUGHPUT),
    "tflow, Ray, 2 workers": (*OUR_PPO, "--like", "sb3", "--runtime", "ray", *THROUGHPUT),
    "SB3, defaults": (*THEIR_PPO, "--target", "inf", *THROUGHPUT),
}


def reach_table() -> str:
    """Markdown: seconds to the target, and how much faster than tuned SB3; env steps per second, and against RLlib."""
    rows = read(REACH)
    lines = [
        "| contestant | seeds that reached 475 | seconds | of tuned SB3's | env steps | env steps/s | against RLlib's |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in CONTESTANTS:
        own = [row for row in rows if row["contestant"] == name]
        good = [row for row in own if row["reached"] == "1"]
        shares = ratios(good, "SB3, RL-Zoo's settings", rows, lambda row: float(row["seconds"]))
        times = ratios(own, "RLlib, 2 runners x 8 envs", rows, speed)
        lines.append(
            f"| {name} | {len(good)} of {len(own)} | {spread([float(row['seconds']) for row in good], '.1f')} | "
            f"{spread(shares, '.2f')} | {spread([float(row['env_steps']) for row in good], ',.0f')} | "
            f"{spread([speed(row) for row in own], ',.0f')} | {spread(times, '.1f')} |"
        )
    return "\n".join(lines)


def equal_table() -> str:
    """Markdown: env steps per second at equal learning."""
    return speeds(EQUAL, EQUALS, "env steps/s | against SB3's", base="SB3, defaults")


if __name__ == "__main__":
    hold(REACH, CONTESTANTS, SEEDS)
    hold(EQUAL, EQUALS, SEEDS)
    print(reach_table(), equal_table(), sep="\n\n")
