"""What each guard of the on-policy defaults is good for: training with it and without it (``make bench-guards``; 40 minutes).

A guard is a default that keeps training from collapsing and needs no knowledge of the env. Each row leaves out one. Figures are
evaluations over 20 episodes at the end of the budget, and the worst one after the first that was near the best. Presets are off.
What was found is kept as one row per run in ``benchmarks/results/guards.csv``; runs that are there are not made again.
"""

from __future__ import annotations

from benchmarks.contest import RESULTS, Row, read, write
from tflow import Stop
from tflow.commands.choice import chosen

PATH = RESULTS / "guards.csv"
COLUMNS = ("contestant", "env", "without", "seed", "final", "worst")
SEEDS = range(2)
EVALUATIONS, EPISODES = 15, 20
STEPS = {"CartPole-v1": 500_000, "Acrobot-v1": 200_000, "MountainCar-v0": 200_000, "LunarLander-v3": 300_000}
PPO_GUARDS = {
    "nothing": "",
    "reward normalisation": "--no-normalize-rewards",
    "observation normalisation": "--no-normalize-obs",
    "advantage floor": "--advantage-floor 0",
    "KL stop": "--max-kl none",
    "entropy bonus": "--entropy-coef 0",
    "the smaller learning rate": "--lr 3e-3",
}
NORMALISERS = {name: PPO_GUARDS[name] for name in ("nothing", "reward normalisation", "observation normalisation")}
RUNS = (
    *(("ppo", env, guard) for env in STEPS for guard in PPO_GUARDS),
    *((algo, "CartPole-v1", guard) for algo in ("a2c", "a3c", "impala") for guard in NORMALISERS),
)


def trained(algo: str, env: str, without: str, seed: int) -> Row:
    """One run: its last evaluation, and the worst after the first within a tenth of the best."""
    steps = STEPS[env]
    algorithm = chosen([algo, "--env", env, "--preset", "none", *PPO_GUARDS[without].split()]).algorithm
    found: list[float] = []
    with algorithm.run(stop=Stop(env_steps=steps), eval_every=steps // EVALUATIONS, eval_episodes=EPISODES, seed=seed) as run:
        for metrics in run:
            if metrics.evaluations > len(found):
                found.append(metrics.evaluation.mean_return)
    best, least = max(found), min(found)
    first = next(place for place, value in enumerate(found) if value >= best - 0.1 * (best - least))
    return {
        "contestant": algo,
        "env": env,
        "without": without,
        "seed": str(seed),
        "final": f"{found[-1]:.0f}",
        "worst": f"{min(found[first:]):.0f}",
    }


def table() -> str:
    """Markdown: a row per guard, a column per algorithm and env; final (worst) by seed."""
    rows = read(PATH)
    columns = list(dict.fromkeys((row["contestant"], row["env"]) for row in rows))
    lines = ["| without |" + "".join(f" {algo}, {env} |" for algo, env in columns), "|---|" + "---|" * len(columns)]
    for guard in PPO_GUARDS:
        cells = []
        for column in columns:
            own = [row for row in rows if (row["contestant"], row["env"]) == column and row["without"] == guard]
            cells.append(", ".join(f"{row['final']} ({row['worst']})" for row in own) or "-")
        if any(cell != "-" for cell in cells):
            lines.append(f"| {guard} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    for seed in SEEDS:
        for algo, env, guard in RUNS:
            rows = read(PATH)
            if (algo, env, guard, str(seed)) in {(row["contestant"], row["env"], row["without"], row["seed"]) for row in rows}:
                continue
            rows.append(trained(algo, env, guard, seed))
            print("  ".join(rows[-1].values()), flush=True)
            write(PATH, rows, COLUMNS)


if __name__ == "__main__":
    main()
