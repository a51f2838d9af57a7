"""PPO's loop on Spark and on Ray, as in the paper: iterations per second, and where a second goes (``make bench-spark``).

Every contestant samples and learns by the same functions (``benchmarks/peers/ppo_halves.py``: 8 CartPoles of 32 steps per
worker, 4 epochs of 4 minibatches), so that what differs is what carries data and weights. Spark keeps its Python workers alive,
and each keeps its envs and policy between jobs, which favours it: a worker of Spark is meant to have no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from benchmarks.contest import OURS, PEERS, RESULTS, ROOT, Row, fill, hold, ratios, read, spread

SPARK = RESULTS / "spark.csv"
PICTURE = ROOT / "docs" / "spark.svg"
COLUMNS = ("contestant", "seed", "seconds", "iterations", "sampling", "learning", "cpu", "besides")
SEEDS, WORKERS = range(3), (1, 2, 4)
HOW = {
    "tflow on Ray": (OURS, "-m", "benchmarks.peers.ours_halves", "--how", "plan"),
    "by hand on Ray": (OURS, "-m", "benchmarks.peers.ours_halves", "--how", "hand"),
    "Spark, a job per iteration": (str(PEERS["spark"]), "-m", "benchmarks.peers.spark_ppo", "--how", "jobs"),
    "Spark, structured streaming": (str(PEERS["spark"]), "-m", "benchmarks.peers.spark_ppo", "--how", "streaming"),
}
BASE = "tflow on Ray"
COLOURS = dict(zip(HOW, ("#1f77b4", "#888888", "#ff7f0e", "#d62728"), strict=True))


def called(how: str, workers: int) -> str:
    return f"{how}, {workers} worker{'s' if workers > 1 else ''}"


CONTESTANTS = {
    called(how, num): (*command, "--workers", str(num), "--seconds", "6") for num in WORKERS for how, command in HOW.items()
}


def shown(found: Mapping[str, float]) -> Row:
    return {"iterations": f"{found['iterations']:.0f}"} | {
        name: f"{found[name]:.3f}" for name in ("seconds", "sampling", "learning", "cpu")
    }


def speed(row: Row) -> float:
    """Iterations per second."""
    return float(row["iterations"]) / float(row["seconds"])


def parts(row: Row) -> tuple[float, float, float]:
    """Milliseconds of an iteration: sampling, learning, all else."""
    total, *known = (1000 * float(row[name]) / float(row["iterations"]) for name in ("seconds", "sampling", "learning"))
    return known[0], known[1], total - sum(known)


def work(row: Row) -> float:
    """CPU milliseconds of an iteration, of all processes: the driver's, the workers' and those of Spark or Ray."""
    return 1000 * float(row["cpu"]) / float(row["iterations"])


def table() -> str:
    """Markdown: iterations per second and CPU time per iteration, each also against tflow's, and where the time goes."""
    rows = read(SPARK)
    lines = ["| contestant | iterations/s | tflow makes more by | CPU ms per iteration | tflow takes less by | ms of all else |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for num in WORKERS:
        for how in HOW:
            own = [row for row in rows if row["contestant"] == called(how, num)]
            more, less = [], []
            if how != BASE:
                more = [1 / ratio for ratio in ratios(own, called(BASE, num), rows, speed)]
                less = ratios(own, called(BASE, num), rows, work)
            columns = [spread([speed(row) for row in own], ".1f"), spread(more, ".1f"), spread([work(row) for row in own], ".0f")]
            columns += [spread(less, ".1f"), spread([parts(row)[2] for row in own], ".0f")]
            lines.append(f"| {called(how, num)} | {' | '.join(columns)} |")
    return "\n".join(lines)


def draw(picture: Path) -> None:
    """A bar per contestant and number of workers: CPU milliseconds of an iteration, of all processes."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "tflow", "svg.fonttype": "none", "font.size": 8})
    from matplotlib.figure import Figure

    rows = read(SPARK)
    figure = Figure(figsize=(6, 3), layout="constrained")
    panel = figure.add_subplot()
    for place, (how, colour) in enumerate(COLOURS.items()):
        for number, num in enumerate(WORKERS):
            own = [work(row) for row in rows if row["contestant"] == called(how, num)]
            if own:
                middle = median(own)
                panel.bar(number + 0.2 * place, middle, width=0.18, color=colour, label=how if number == 0 else None)
                panel.vlines(number + 0.2 * place, min(own), max(own), color="black", linewidth=0.8)
                panel.text(number + 0.2 * place, middle, f" {middle:.0f}", ha="center", va="bottom", fontsize=6)
    panel.set_xticks(
        [number + 0.3 for number in range(len(WORKERS))], [f"{num} worker{'s' if num > 1 else ''}" for num in WORKERS]
    )
    panel.set_ylabel("CPU ms per iteration")
    panel.legend(frameon=False, fontsize=6)
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    hold(SPARK, CONTESTANTS, SEEDS, shown=shown, columns=COLUMNS)
    fill(ROOT / "docs" / "performance.md", "spark", table())
    draw(PICTURE)
    print(table())
