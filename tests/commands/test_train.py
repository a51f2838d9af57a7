"""``tflow train``, ``eval``, ``algos`` and ``graph`` as a user has them: real processes, real files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from rich.console import Console

from tflow import Policy, cli
from tflow.algos import DQN, PPO
from tflow.algos.names import ALGORITHMS
from tflow.commands.choice import chosen
from tflow.commands.evaluate import evaluate_asked
from tflow.commands.runs import spread
from tflow.commands.targets import Asked
from tflow.settings.files import written
from tflow.settings.run import RunSettings

SCRIPT = Path(sys.executable).parent / "tflow"
QUICK = ("--num-envs", "2", "--fragment", "32", "--epochs", "1", "--model", "MLP((8,))")
OWN = '''
from dataclasses import dataclass

import gymnasium
import numpy as np

from tflow.algos import PPO


class Corridor(gymnasium.Env):
    """Walk to the right."""

    def __init__(self, length: int = 4) -> None:
        self.length = length
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.left = 0, 20
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at, self.left = self.at + (1 if action else -1), self.left - 1
        seen = np.array([min(max(self.at, 0) / self.length, 1)], np.float32)
        return seen, float(self.at == self.length), self.at == self.length, self.left == 0, {}


@dataclass(frozen=True, kw_only=True)
class Mine(PPO):
    """PPO of my own."""

    patience: int = 3
    """How long I wait."""
'''


def tflow(*words: str, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120", "PATH": f"{SCRIPT.parent}:{os.environ['PATH']}"}
    return subprocess.run([str(SCRIPT), *words], capture_output=True, text=True, cwd=cwd, timeout=timeout, env=environment)


def tflow_here(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has imported torch already: where it makes no difference, as for what is said of a run."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setenv("COLUMNS", "120")
        patch.setattr(sys, "argv", ["tflow", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(cwd)):
            del sys.modules[name]  # a file of the user is loaded once per process
    code = left.value.code or 0
    assert isinstance(code, int)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def test_from_nothing_to_a_policy(tmp_path: Path) -> None:
    done = tflow("train", "ppo", "--env", "CartPole-v1", "--stop-steps", "300", "--eval-every", "100", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "PPO on CartPole-v1, local, seed 0"
    (*_, last) = (line for line in lines if line.endswith("steps/s"))
    assert re.match(r" +0:\d\d  env steps \d+  return [\d.]+  evaluation [\d.]+  updates \d+  [\d,]+ steps/s$", last)
    folder = tmp_path / "runs" / "ppo-CartPole-v1-1"
    assert f"Run folder: {folder.relative_to(tmp_path)}" in lines
    assert any(line.endswith(f"tflow report {folder.relative_to(tmp_path)}") for line in lines)
    assert "  tflow eval runs/ppo-CartPole-v1-1" in lines
    for line in lines:  # what it says is there
        if line.startswith(("  policy", "  best", "  metrics", "  plan")):
            assert (tmp_path / line.split()[1]).is_file()
    assert Policy.load(folder / "policy.safetensors").act([0.0, 0.1, 0.0, -0.1]) in (0, 1)

    evaluated = tflow_here("eval", str(folder), "--episodes", "5", cwd=tmp_path)
    assert evaluated.returncode == 0, evaluated.stderr
    assert evaluated.stdout.split()[:8] == ["episodes", "mean", "return", "std", "min", "max", "mean", "length"]
    assert evaluated.stdout.split()[8] == "5"
    best = tflow_here("eval", str(folder), "--episodes", "5", "--best", cwd=tmp_path)
    assert best.returncode == 0, best.stderr


def test_the_plan_that_is_shown_is_the_one_that_is_run(tmp_path: Path) -> None:
    words = ("dqn", "--learning-starts", "50", "--eval-every", "100", "--num-envs", "2")
    drawn = tflow_here("graph", *words, cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    assert tflow_here("train", *words, "--stop-steps", "100", "--out", "run", cwd=tmp_path).returncode == 0
    assert (tmp_path / "run" / "plan.txt").read_text() == drawn.stdout
    assert drawn.stdout.startswith(f"{chosen(words).plan()}\nmessages\n")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["fingerprint"] in drawn.stdout
    assert tflow_here("graph", "run", cwd=tmp_path).stdout == drawn.stdout
    assert tflow_here("graph", "run", "-o", "plan.svg", cwd=tmp_path).returncode == 0
    assert (tmp_path / "plan.svg").read_text().replace(">DQN<", ">DQN on CartPole-v1<") == (
        tmp_path / "run" / "plan.svg"
    ).read_text()


def test_a_run_is_repeated_from_its_file_bit_for_bit(tmp_path: Path) -> None:
    assert tflow("train", "ppo", *QUICK, "--seed", "5", "--stop-steps", "300", "--out", "one", cwd=tmp_path).returncode == 0
    assert tflow_here("train", "--config", "one/config.toml", "--out", "two", cwd=tmp_path).returncode == 0
    one, two = ((tmp_path / name / "policy.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    config = (tmp_path / "two" / "config.toml").read_text()
    assert config == (tmp_path / "one" / "config.toml").read_text()
    assert "\nseed = 5  #" in config


def test_things_of_ones_own_by_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    words = ("mine.py:Mine", "--env", "mine.py:Corridor", "--patience", "7", "--stop-steps", "200", "--out", "run", *QUICK)
    done = tflow("train", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Mine on Corridor, local, seed 0")
    (tmp_path / "elsewhere").mkdir()
    again = tflow("eval", str(tmp_path / "run"), "--episodes", "3", cwd=tmp_path / "elsewhere")
    assert again.returncode == 0, again.stderr
    listed = tflow_here("algos", "mine.py:Mine", cwd=tmp_path)
    assert re.search(r"--patience +3 +How long I wait.", listed.stdout)


@pytest.mark.ray
def test_things_of_ones_own_travel_to_processes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "elsewhere").mkdir()
    mine = ("../mine.py:Mine", "--env", "../mine.py:Corridor")
    words = (*mine, "--stop-steps", "200", "--runtime", "ray", "--workers", "1", *QUICK)
    done = tflow("train", *words, "--eval-every", "50", cwd=tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Mine on Corridor, ray, seed 0")
    assert (tmp_path / "elsewhere" / "runs" / "mine-Corridor-1" / "best.safetensors").is_file()


def test_several_seeds_are_compared(tmp_path: Path) -> None:
    done = tflow("train", "ppo", *QUICK, "--seeds", "0..2", "--stop-steps", "200", "--out", "all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("tflow report all\n")
    table = [line.split() for line in done.stdout.splitlines() if line.split()[:1] in (["0"], ["1"], ["2"], ["mean"], ["std"])]
    assert [row[0] for row in table] == ["0", "1", "2", "mean", "std"]
    with (tmp_path / "all" / "seeds.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    returns = [float(row["return"]) for row in rows]
    assert len(set(returns)) > 1, "seeds are different"
    assert float(table[3][1]) == pytest.approx(sum(returns) / 3, abs=0.06)
    assert sorted(path.name for path in (tmp_path / "all").glob("*/policy.safetensors")) == ["policy.safetensors"] * 3
    again = tflow_here("train", "ppo", *QUICK, "--seeds", "3..4", "--out", "all", cwd=tmp_path)
    assert again.returncode == 2, "nothing is written over"
    hint = tflow_here("eval", "all", cwd=tmp_path)
    assert hint.returncode == 2
    assert "There are runs in it: all/seed-0, all/seed-1, all/seed-2." in hint.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.full)])
def test_an_interrupted_run_keeps_its_work_and_says_where(tmp_path: Path, number: signal.Signals) -> None:
    command = [str(SCRIPT), "train", "ppo", *QUICK, "--out", "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as started:
        try:
            assert started.stdout is not None
            next(line for line in started.stdout if "env steps" in line)
            started.send_signal(number)
            out, err = started.communicate(timeout=60)
        finally:
            started.kill()
    assert started.returncode == 128 + number
    assert err == f"{number.name}: the run is saved, then it ends. Once more ends it at once.\n"
    assert "\nInterrupted: mean return " in out
    assert "train --resume run\n" in out
    assert "Run folder: run\n" in out
    assert Policy.load(tmp_path / "run" / "policy.safetensors").act([0.0] * 4) in (0, 1)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "interrupted"


def test_an_error_of_ones_own_env_is_a_sentence_and_a_traceback_if_asked(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN.replace("seen = np", "if self.left < 3: raise ValueError('lost')\n        seen = np"))
    words = ("train", "ppo", "--env", "mine.py:Corridor", *QUICK)
    done = tflow(*words, cwd=tmp_path)
    assert done.returncode == 1
    sentence = r"Training failed after 0 env steps: Corridor, env \d: step raised ValueError: lost\. .*\n"
    frames = r'In your code:\n  File ".*mine\.py", line \d+, in step\n(?: {4}.*\n)+'
    assert re.fullmatch(frames + sentence, done.stderr)
    assert json.loads((tmp_path / "runs" / "ppo-Corridor-1" / "run.json").read_text())["status"] == "failed"
    shown = tflow(*words, "--debug", cwd=tmp_path)
    assert shown.returncode == 1
    assert 'mine.py", line' in shown.stderr


@pytest.mark.ray
def test_an_error_of_ones_own_env_in_another_process_shows_its_frames(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN.replace("seen = np", "if self.left < 3: raise ValueError('lost')\n        seen = np"))
    done = tflow("train", "ppo", "--env", "mine.py:Corridor", *QUICK, "--runtime", "ray", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 1
    frames = r'Raised in workers\[0\], process .*:\nTraceback .*\n  File ".*mine\.py", line \d+, in step\n(?: {4}.*\n)+'
    assert re.search(frames + r"ValueError: lost\nTraining failed after 0 env steps: Corridor, env \d: ", done.stderr)


def test_nobody_reading_does_not_end_training(tmp_path: Path) -> None:
    command = f"'{SCRIPT}' train ppo {shlex.join(QUICK)} --stop-steps 4000 --out run | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.stdout == "PPO on CartPole-v1, local, seed 0\n"
    assert done.stderr == ""
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


def test_flags_count_more_than_the_file_whatever_they_say(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(written(DQN(double=True, lr=0.5), RunSettings(algo="dqn")))
    choice = chosen(["--no-double", "--workers", "3"], file=path)
    assert choice.algorithm == DQN(double=False, lr=0.5, num_workers=3)
    assert chosen(["--no-double", "dqn"]).algorithm == DQN(double=False)


def test_help_of_an_algorithm_has_its_fields(tmp_path: Path) -> None:
    plain = tflow_here("train", "--help", cwd=tmp_path)
    assert "--stop-return" in plain.stdout
    assert "--entropy-coef" not in plain.stdout
    assert "--entropy-coef" in tflow_here("train", "ppo", "--help", cwd=tmp_path).stdout


def test_the_list_of_algorithms(tmp_path: Path) -> None:
    done = tflow_here("algos", cwd=tmp_path)
    assert re.search(r"^ppo +tflow.algos.PPO +Proximal policy optimisation +arXiv 1707.06347 *$", done.stdout, re.MULTILINE)
    assert len(re.findall(r"^\w+ +tflow\.\w+", done.stdout, re.MULTILINE)) == len(ALGORITHMS)
    assert re.search(r"--ppo\.epochs +10 +Passes over each batch;", tflow_here("algos", "ppo_dqn", cwd=tmp_path).stdout)


def test_policies_that_adapt_and_several_policies_are_evaluated(tmp_path: Path) -> None:
    maml = (
        "maml",
        "--num-envs",
        "3",
        "--tasks",
        "1",
        "--fragment",
        "100",
        "--workers",
        "1",
        "--stop-steps",
        "500",
        "--out",
        "maml",
    )
    done = tflow_here("train", *maml, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"mean return -?[\d.]+ \(before\) and -?[\d.]+ \(after\) after", done.stdout)
    assert {phase: each.count for phase, each in evaluate_asked(Asked(tmp_path / "maml"), episodes=4).items()} == {
        "before": 4,
        "after": 4,
    }
    both = ("ppo_dqn", "--num-envs", "2", "--ppo-batch", "64", "--workers", "1", "--stop-steps", "200", "--out", "both")
    done = tflow_here("train", *both, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    together, sampled = (evaluate_asked(Asked(tmp_path / "both"), episodes=3, deterministic=best) for best in (None, False))
    assert list(together) == ["PPO", "DQN"]
    assert sampled != together


def test_what_is_typed_is_what_is_configured() -> None:
    choice = chosen(["--lr", "0.5", "dqn", "--no-double", "--epsilon", "Linear(1, 0, 10)"], {"seed": "3", "stop_return": "1e2"})
    assert isinstance(choice.algorithm, DQN)
    assert (choice.algorithm.lr, choice.algorithm.double) == (0.5, False)
    assert (choice.run.seed, choice.run.stop_return) == (3, 100.0)


def test_evaluations_do_not_explore_and_follow_their_seed(tmp_path: Path) -> None:
    from tflow import RunFolder, Stop

    PPO(num_envs=2, fragment=16).run(stop=Stop(updates=1), callbacks=[RunFolder(tmp_path / "x")]).finish()
    first, again, other = (evaluate_asked(Asked(tmp_path / "x"), episodes=4, seed=seed)[""] for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert first.count == 4


def test_seeds_of_which_not_all_is_known_are_compared_as_far_as_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"seed": 0.0, "return": 2.0, "evaluation": math.nan},
        {"seed": 1.0, "return": 4.0, "evaluation": 7.0},
        {"seed": 2.0, "return": math.nan},
    ]
    Console(width=80).print(spread(rows))
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown[1:4] == [["0", "2.0", "-"], ["1", "4.0", "7.0"], ["2", "-", "-"]]
    assert shown[-2:] == [["mean", "3.0", "-"], ["std", "1.4", "-"]]
