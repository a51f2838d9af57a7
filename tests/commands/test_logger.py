"""``tflow train --logger``: loggers of one's own, and those whose package is not there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import Typed
from tflow.commands.choice import chosen

QUICK = ("ppo", "--num-envs", "2", "--fragment", "32", "--epochs", "1", "--model", "MLP((8,))", "--eval-every", "100")
OWN = """
import json
from pathlib import Path


class Kept:
    def __init__(self, facts):
        self.file = Path(facts.folder) / "own.jsonl"
        self.say({"begins": facts.name, "after": facts.after, "lr": facts.config["lr"], "seed": facts.config["run.seed"]})

    def say(self, what):
        with self.file.open("a") as file:
            file.write(json.dumps(what) + "\\n")

    def write(self, row):
        self.say({"env_steps": row["env_steps"]})

    def finish(self, summary):
        self.say({"status": summary["status"], "outcome": summary["outcome"]})
"""


def test_one_of_my_own_is_told_everything_and_goes_on_with_the_run(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept_by_me.py").write_text(OWN)
    own = "kept_by_me.py:Kept"
    assert typed("train", *QUICK, "--lr", "0.5", "--stop-steps", "128", "--logger", own, "--out", "run", "--plain")[0] == 0
    assert chosen((), {}, tmp_path / "run" / "config.toml").run.loggers == (own,)
    assert typed("train", "--resume", "run", "--stop-steps", "600", "--plain")[0] == 0
    told = [json.loads(line) for line in (tmp_path / "run" / "own.jsonl").read_text().splitlines()]
    assert told[0] == {"begins": "run", "after": None, "lr": 0.5, "seed": 0}
    again = told.index({"status": "finished", "outcome": "128 env steps"}) + 1
    assert told[again]["after"] >= 128
    assert told[-1] == {"status": "finished", "outcome": "600 env steps"}
    assert [each["env_steps"] for each in told if "env_steps" in each][-1] >= 600


def test_without_the_package_a_sentence_says_how_to_get_it(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)
    code, _, err = typed("train", *QUICK, "--stop-steps", "100", "--logger", "wandb")
    assert (code, err) == (2, "Weights & Biases logs need the package wandb: pip install 'tflow[wandb]'\n")
    code, _, err = typed("train", *QUICK, "--stop-steps", "100", "--logger", "weights")
    assert code == 2
    assert "There is no logger 'weights'." in err
