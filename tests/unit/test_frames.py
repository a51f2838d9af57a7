"""What is shown of an error in code of the user: its own frames, and the sentence; everything on demand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gymnasium
import numpy as np
from tflow import from_range, Stop
from tflow.algos import PPO

class Bad(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32), gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), self.reward(), False, False, {}

    def reward(self):
        if self.steps == 50:
            raise RuntimeError("it broke")
        return 1

def halve(number):
    return 1 / (2 - number)

def main():
    if {env}:
        PPO(env=Bad, num_workers=1, num_envs=1, fragment=64, minibatch=32).run(stop=Stop(env_steps=64)).finish()
    else:
        list(from_range(5).map(halve).run())

if __name__ == "__main__":
    main()
"""


def traceback_of(folder: Path, **settings: str) -> list[str]:
    (folder / "shown_frames.py").write_text(PROGRAM.replace("{env}", settings.pop("env")))
    done = subprocess.run([sys.executable, "shown_frames.py"], cwd=folder, capture_output=True, text=True, env=settings or None)
    assert done.returncode == 1
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("env", "own", "said"),
    [("True", ["step", "reward"], "tflow.errors.EnvError: Bad, env 0: "), ("False", ["halve"], "tflow.errors.OperatorError: ")],
)
def test_the_users_frames_stand_alone_and_first(tmp_path: Path, env: str, own: list[str], said: str) -> None:
    lines = traceback_of(tmp_path, env=env)
    first = lines[: lines.index("")]
    assert [line.rpartition(" in ")[2] for line in first if line.startswith("  File")] == own
    assert any(line.startswith(said) for line in lines)
    assert len(lines) < 30
    whole = traceback_of(tmp_path, env=env, TFLOW_TRACEBACK="full")
    assert len(whole) > len(lines)


def test_the_command_line_shows_them_above_the_sentence(tmp_path: Path) -> None:
    (tmp_path / "shown_frames.py").write_text(PROGRAM.replace("{env}", "True"))
    script = str(Path(sys.executable).parent / "tflow")
    words = ("train", "ppo", "--env", "shown_frames.py:Bad", "--stop-steps", "64", "--out", "run")
    done = subprocess.run([script, *words], cwd=tmp_path, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert lines[0] == "In your code:"
    assert [line.rpartition(" in ")[2] for line in lines if line.startswith("  File")] == ["step", "reward"]
    assert lines[-1].startswith("Training failed after 0 env steps: Bad, env ")
    assert done.returncode == 1
    again = subprocess.run([script, *words[:-1], "again", "--traceback"], cwd=tmp_path, capture_output=True, text=True)
    assert "in __next__" in again.stderr
