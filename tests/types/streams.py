"""What each type checker prints for the streams of eight algorithms, as a table in ``docs/checking.md``.

``python -m tests.types.streams`` writes the table again (``make pin``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import mypy.build
from mypy.modulefinder import BuildSource
from mypy.nodes import Var
from mypy.options import Options

from tests.types.checkers import run
from tflow.mypy_plugin.shown_types import shown

PAGE = Path(__file__).parents[2] / "docs" / "checking.md"
BEGIN, END = "<!-- streams -->\n", "<!-- end -->"
SOURCE = """
from typing_extensions import reveal_type

from tflow import (
    ApplyGradients, ComputeAdvantages, ComputeGradients, ConcatBatches, ConcatRounds, create_learner, create_replay_actors,
    create_rollout_workers, LearnOnBatch, ParallelReplay, ParallelRollouts, Select, TrainOneStep,
)
from tflow.losses import A3CLoss, APPOLoss, DQNLoss, IMPALALoss, Loss, PPOLoss
from tflow.operators import ComputePriorities
from tflow.rl.envs.samples import MultiCartPole

a3c = create_rollout_workers(env="CartPole-v1", loss=A3CLoss())
sampled = ParallelRollouts(a3c)
gradients = sampled.par_for_each(ComputeGradients()).gather_async()
applied = gradients.for_each(ApplyGradients(a3c))

rounds = ConcatRounds(ParallelRollouts(a3c).gather_rounds())

ppo = create_rollout_workers(env="CartPole-v1", loss=PPOLoss())
advantages = ConcatRounds(ParallelRollouts(ppo).gather_rounds()).with_columns(ComputeAdvantages())

dqn = create_rollout_workers(env="CartPole-v1", loss=DQNLoss())
replayed = ParallelReplay(create_replay_actors()).gather_sync()

priorities = ParallelRollouts(dqn).par_for_each(ComputePriorities()).gather_async()

impala = create_rollout_workers(env="CartPole-v1", loss=IMPALALoss())
batches = ConcatBatches(ParallelRollouts(impala).gather_async(), rows=512)
learned = batches.hand_off(create_learner(impala), LearnOnBatch())

appo = create_rollout_workers(env="CartPole-v1", loss=APPOLoss())
fragments = ParallelRollouts(appo).gather_async(max_staleness=8)

LOSSES: dict[str, PPOLoss | DQNLoss] = {"PPO": PPOLoss(), "DQN": DQNLoss()}
several = create_rollout_workers(env=MultiCartPole, losses=LOSSES, policy_of=lambda agent: "PPO")
together = ParallelRollouts(several).gather_sync()
"""
STREAMS = {
    "sampled": "rollouts inside workers (all)",
    "gradients": "A3C: gradients, gathered",
    "applied": "A3C: after `ApplyGradients`",
    "rounds": "A2C: rounds of rollouts",
    "advantages": "PPO: with advantages",
    "replayed": "DQN: replayed rows",
    "priorities": "Ape-X: with first priorities",
    "batches": "IMPALA: batches",
    "learned": "IMPALA: from the learner",
    "fragments": "APPO: rollouts",
    "together": "PPO and DQN: before `Select`",
}
MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")
MANY = re.compile(r"('\w+')(?:(?:, |\] \| Literal\[)'\w+'){2,}")
"""Three literals or more."""


def by_checkers(folder: Path, text: str) -> dict[str, list[str]]:
    """What those that are commands print, in the order of the text."""
    (folder / "streams.py").write_text(text)
    found = {
        "pyright": run("basedpyright", "--pythonpath", sys.executable, "streams.py", cwd=folder),
        "pyrefly": run(
            "pyrefly", "check", "--preset", "strict", "--search-path", ".", "--python-interpreter-path", sys.executable,
            "--output-format=min-text", "streams.py", cwd=folder,
        ),
        "ty": run("ty", "check", "--python", sys.executable, "--output-format=concise", "streams.py", cwd=folder),
    }  # fmt: skip
    revealed = {
        "pyright": r'Type of "\w+" is "(.*)"',
        "pyrefly": r"revealed type: (.*) \[reveal-type\]",
        "ty": r"Revealed type: `(.*)`",
    }
    return {name: re.findall(revealed[name], said) for name, said in found.items()}


def by_mypy(folder: Path) -> tuple[list[str], list[str]]:
    """What mypy prints, and what tflow does."""
    options = Options()
    options.cache_dir = str(folder / "cache")
    heavy = ("torch", "torch.*", "gymnasium", "gymnasium.*", "ray", "ray.*")
    options.per_module_options = {name: {"follow_imports": "skip"} for name in heavy}
    made = mypy.build.build([BuildSource(None, "streams", SOURCE)], options).files["streams"].names
    nodes = [made[name].node for name in STREAMS]
    types = [node.type for node in nodes if isinstance(node, Var) and node.type is not None]
    return [str(each) for each in types], [shown(each) for each in types]


def table() -> str:
    """A row per stream: what is printed, with the number of characters."""
    text = SOURCE + "".join(f"reveal_type({name})\n" for name in STREAMS)
    with TemporaryDirectory() as folder:
        printed = by_checkers(Path(folder), text)
        mypys, ours = by_mypy(Path(folder))
    columns = {"tflow": ours, "mypy": mypys, **printed}
    return "".join(f"{line}\n" for line in lines(columns))


def lines(columns: dict[str, list[str]]) -> Iterator[str]:
    yield f"| stream | {' | '.join(columns)} |"
    yield "|---|" + "---|" * len(columns)
    for place, what in enumerate(STREAMS.values()):
        yield f"| {what} | {' | '.join(cell(found[place]) for found in columns.values())} |"


def cell(text: str) -> str:
    """A type without modules, lists of literals cut short, and its length."""
    plain = MODULES.sub("", text).replace('"', "'")
    short = MANY.sub(r"\1, ...", plain).replace("|", "\\|")
    return f"`{short}` {len(plain)}"


def written() -> str:
    """The table as the page has it."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
