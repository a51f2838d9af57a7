"""``tflow export``, ``tflow hub`` and ``tflow eval --video``: what leaves tflow, read by what reads it elsewhere."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from tests.commands.conftest import Typed
from tflow import PlanError, Policy, RunFolder, Stop
from tflow.algos import PPO, PPODQN
from tflow.commands.evaluate import evaluate_asked
from tflow.commands.targets import Asked
from tflow.errors import TflowError
from tflow.models import LSTM, MLP, ActorCriticSpec, ActorQSpec, QSpec
from tflow.observe.kept import runs_in
from tflow.rl.envs.env_spec import EnvSpec
from tflow.rl.policy import export
from tflow.rl.policy.export import Format, export_policy
from tflow.rl.policy.network_spec import Normalized
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.rollout.video import record_episode, write_video

VECTOR = spaces.Box(-1, 1, (5,), np.float32)
PICTURE = spaces.Box(0, 255, (40, 40, 3), np.uint8)
PARTS = spaces.Dict(arm=VECTOR, mode=spaces.Discrete(3), camera=PICTURE)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([3, 1], np.float32))
KINDS: dict[str, tuple[Any, Any, Any, Any]] = {  # Any: descriptions and spaces of all kinds
    "categorical": (ActorCriticSpec(), "auto", VECTOR, spaces.Discrete(4, start=2)),
    "multi": (ActorCriticSpec(), "auto", VECTOR, spaces.MultiDiscrete(np.array([[3, 2]]))),
    "binary": (ActorCriticSpec(), "auto", VECTOR, spaces.MultiBinary(3)),
    "gaussian": (ActorCriticSpec(), "auto", VECTOR, BOX),
    "rescaled": (ActorCriticSpec(rescale=True), "auto", VECTOR, BOX),
    "squashed": (ActorCriticSpec(squash=True), "auto", VECTOR, BOX),
    "whole": (ActorCriticSpec(), "auto", VECTOR, spaces.Box(0, 10, (2,), np.int64)),
    "dueling": (QSpec(dueling=True), "auto", spaces.Discrete(7), spaces.Discrete(4)),
    "noisy distribution": (QSpec(kind="categorical", noisy=True), "auto", PICTURE, spaces.Discrete(4)),
    "actor and critics": (ActorQSpec(), "auto", VECTOR, BOX),
    "deterministic actor": (ActorQSpec(deterministic=True), "auto", PARTS, BOX),
    "parts": (ActorCriticSpec(), "auto", PARTS, spaces.Discrete(4)),
    "recurrent": (ActorCriticSpec(), LSTM(), VECTOR, spaces.Discrete(4)),
    "recurrent Q": (QSpec(), LSTM(), VECTOR, spaces.Discrete(4)),
    "normalised": (ActorCriticSpec(), Normalized(), VECTOR, BOX),
}
MASKED = ("categorical", "multi", "dueling", "recurrent")


def policy_of(kind: str) -> Policy:
    spec, model, seen, taken = KINDS[kind]
    made = make_policy(spec, model, seen, taken, seed=3)
    rng = np.random.default_rng(0)
    made.flat.set(
        (made.flat.get() + 0.1 * rng.standard_normal(len(made.flat.get()))).astype(np.float32)
    )  # no ties, no zero biases
    for each in made.statistics:
        each.mean.copy_(torch.full_like(each.mean, 0.3))
        each.scale.copy_(torch.full_like(each.scale, 2.0))
    return made


def agrees(kind: str, form: Format, path: Path, *, masks: bool) -> None:
    policy = policy_of(kind)
    before = policy.flat.get().copy()
    found = export_policy(policy, path, form, masks=masks)
    assert found.difference < 1e-4
    assert ("masks" in found.inputs, "state" in found.inputs) == (masks, policy.recurrent)
    assert path.stat().st_size > 1_000
    assert np.array_equal(policy.flat.get(), before)


@pytest.mark.parametrize("kind", KINDS)
def test_torchscript_of_every_kind(kind: str, tmp_path: Path) -> None:
    agrees(kind, "torchscript", tmp_path / "policy.pt", masks=kind in MASKED)


@pytest.mark.parametrize(
    "kind", [kind if kind in ("multi", "recurrent") else pytest.param(kind, marks=pytest.mark.full) for kind in KINDS]
)
def test_onnx_of_every_kind(kind: str, tmp_path: Path) -> None:
    agrees(kind, "onnx", tmp_path / "policy.onnx", masks=kind in MASKED)


@pytest.mark.parametrize("kind", [kind if kind == "normalised" else pytest.param(kind, marks=pytest.mark.full) for kind in KINDS])
def test_a_torch_program_of_every_kind(kind: str, tmp_path: Path) -> None:
    agrees(kind, "torch", tmp_path / "policy.pt2", masks=kind in MASKED)


def test_a_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(module: export.ActingModule, example: Any, path: Path) -> Any:  # Any: as the writers have it
        run = export.write_torchscript(module, example, path)
        return lambda given: [run(given)[0] + np.float32(0.01)]

    monkeypatch.setattr(export, "WRITERS", {"torchscript": wrong})
    with pytest.raises(TflowError, match=r"differs from the policy by 0\.01"):
        export_policy(policy_of("squashed"), tmp_path / "policy.pt", "torchscript")


class Follows(nn.Module):
    """A module that no exporter can follow: what it computes depends on the values."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layer, self.features = nn.Linear(inputs, 4), 4

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(obs)
        return found if float(obs.sum()) > 0 else -found


def follows(observed: spaces.Space[Any]) -> nn.Module:  # Any: whatever it holds
    return Follows((observed.shape or (1,))[0])


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    own = make_policy(ActorCriticSpec(), follows, VECTOR, spaces.Discrete(2))
    with pytest.raises(PlanError, match="ActorCritic cannot be exported as torch: "):
        export_policy(own, tmp_path / "policy.pt2", "torch")
    with pytest.raises(PlanError, match="Action masks need a Discrete or MultiDiscrete action space"):
        export_policy(policy_of("gaussian"), tmp_path / "policy.pt", "torchscript", masks=True)


# ------------------------------------------------------------------- from a run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    small = PPO(num_workers=1, num_envs=2, fragment=32, epochs=1, minibatch=32, model=MLP((8,)), normalize_obs=True)
    small.run(stop=Stop(env_steps=256), callbacks=[RunFolder(folder)], eval_every=64, eval_episodes=2).finish()
    return folder


def test_a_run_as_onnx(run: Path, typed: Typed, tmp_path: Path) -> None:
    code, out, err = typed("export", str(run), "-o", str(tmp_path / "policy.onnx"))
    assert (code, err) == (0, "")
    assert (
        "policy.onnx: takes obs; gives actions. On 64 random observations its actions differ from the policy's by at most" in out
    )
    runtime: Any = import_module("onnxruntime")  # Any: its types are not needed
    session = runtime.InferenceSession(str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"])
    seen = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    (actions,) = session.run(None, {"obs": seen})
    assert np.array_equal(actions, Policy.load(run).act(seen))


def test_wrong_exports_are_said(run: Path, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = typed("export", str(run), "-o", str(tmp_path / "policy"))
    assert (code, "Which format?" in err) == (2, True)
    code, _, err = typed("export", str(run), "-o", str(tmp_path / "policy.pt"), "--policy", "other")
    assert (code, "There is no policy 'other'" in err) == (2, True)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    code, _, err = typed("export", str(run), "-o", str(tmp_path / "policy.onnx"))
    assert (code, err) == (2, "ONNX files need the package onnxscript: pip install 'tflow[onnx]'\n")


def test_one_of_several_policies(typed: Typed, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    PPODQN(num_workers=1, num_envs=2, fragment=16).run(stop=Stop(env_steps=64), callbacks=[RunFolder(folder)]).finish()
    code, _, err = typed("export", str(folder), "-o", str(tmp_path / "one.pt"))
    assert (code, "say --policy NAME" in err) == (2, True)
    name = sorted(file.stem.partition("-")[2] for file in folder.glob("policy-*.safetensors"))[0]
    code, out, err = typed("export", str(folder), "-o", str(tmp_path / "one.pt"), "--policy", name)
    assert (code, err) == (0, "")
    assert "one.pt: takes obs; gives actions." in out


def test_a_model_card_has_what_the_hub_reads(run: Path, typed: Typed, tmp_path: Path) -> None:
    words = ("--name", "me/cart", "--episodes", "3", "--video", "gif", "--license", "apache-2.0", "-o", str(tmp_path / "hub"))
    code, _, err = typed("hub", str(run), *words)
    assert (code, err) == (0, "")
    folder = tmp_path / "hub"
    assert {file.name for file in folder.iterdir()} == {
        "README.md", "config.toml", "training.csv", "plan.svg", "policy.safetensors", "replay.gif", "results.json",
    }  # fmt: skip
    assert runs_in(tmp_path) == [], "a card is no run"
    _, head, text = (folder / "README.md").read_text().split("---\n", 2)
    found = import_module("yaml").safe_load(head)
    assert found["library_name"] == "tflow"
    assert found["license"] == "apache-2.0"
    assert found["tags"][:2] == ["CartPole-v1", "reinforcement-learning"]
    (model,) = found["model-index"]
    assert model["name"] == "me/cart"
    (result,) = model["results"]
    assert result["task"] == {"type": "reinforcement-learning", "name": "reinforcement-learning"}
    assert result["dataset"] == {"name": "CartPole-v1", "type": "CartPole-v1"}
    (metric,) = result["metrics"]
    again = evaluate_asked(Asked(run, True), episodes=3, seed=1_000_003)[""]
    assert metric["type"] == "mean_reward"
    assert metric["value"].startswith(f"{again.mean_return:.2f} +/- ")
    assert json.loads((folder / "results.json").read_text())["policy"]["returns"] == list(again.returns)
    assert "![an episode](replay.gif)" in text
    assert Policy.load(folder).act([0.0] * 4) in (0, 1)
    code, _, err = typed("hub", str(run), *words)
    assert (code, "There is a model card" in err) == (2, True)


def test_a_card_does_not_tell_where_it_was_made(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_card_algorithm.py").write_text(
        "from dataclasses import dataclass\nfrom tflow.algos import PPO\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n"
        '@dataclass(frozen=True, kw_only=True)\nclass Mine(PPO):\n    """Mine."""\n\nclass Env(CartPoleEnv):\n    """Mine."""\n'
    )
    quick = ("--num-envs", "2", "--fragment", "16", "--epochs", "1", "--model", "MLP((8,))", "--stop-steps", "100", "--plain")
    assert typed("train", "ppo", *quick, "--out", "first")[0] == 0
    own = ("my_card_algorithm.py:Mine", "--env", "my_card_algorithm.py:Env", "--env-arg", "render_mode=none")
    code, _, err = typed("train", *own, *quick, "--from", "first", "--out", "run")
    assert (code, err) == (0, "")
    code, out, err = typed("hub", "run", "--episodes", "1", "-o", "card")
    assert (code, err) == (0, "")
    assert "Upload it with: hf upload USER/NAME card" in out
    for file in Path("card").iterdir():
        assert str(tmp_path).encode() not in file.read_bytes(), file.name
    found = Path("card/config.toml").read_text()
    assert 'algo = "my_card_algorithm.py:Mine"' in found
    assert "EnvSpec('my_card_algorithm.py:Env'" in found
    assert 'start_from = "first"' in found


# ------------------------------------------------------------------- video


class Shown(gymnasium.Env[Any, Any]):
    """Shows how far its episode is, in a picture with an odd number of rows."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = spaces.Box(-1e6, 1e6, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # Any: as gymnasium has it
        self.at = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:  # Any: as above
        self.at += 1
        return np.zeros(4, np.float32), 1.0, self.at == 5, False, {}

    def render(self) -> Any:  # Any: as above
        return np.full((33, 48, 3), 40 * self.at, np.uint8)


class Blind(Shown):
    """It cannot be seen."""

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        super().__init__(None)


def test_a_gif_shows_the_episode(run: Path, tmp_path: Path) -> None:
    recording = record_episode(Policy.load(run), Shown)
    assert (recording.length, recording.episode_return, recording.fps) == (5, 5.0, 10)
    write_video(recording, tmp_path / "episode.gif")
    with import_module("PIL.Image").open(tmp_path / "episode.gif") as found:
        assert (found.n_frames, found.size, found.info["duration"]) == (6, (48, 32), 100)
        for frame in range(6):
            found.seek(frame)
            assert np.abs(np.asarray(found.convert("RGB"), np.int64) - 40 * frame).max() <= 8


def test_an_mp4_is_what_ffmpeg_is_given(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in place of ffmpeg writes down what it is given."""
    program = tmp_path / "ffmpeg"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nopen(sys.argv[-1], 'wb').write(sys.stdin.buffer.read())\n"
        f"open({str(tmp_path / 'words')!r}, 'w').write(' '.join(sys.argv[1:-1]))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    recording = record_episode(Policy.load(run), Shown)
    write_video(recording, tmp_path / "episode.mp4")
    assert (tmp_path / "episode.mp4").read_bytes() == b"".join(bytes([40 * frame]) * (32 * 48 * 3) for frame in range(6))
    assert "-f rawvideo -pix_fmt rgb24 -s 48x32 -r 10 -i -" in (tmp_path / "words").read_text()


def test_the_command_line_films(run: Path, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = typed("eval", str(run), "--episodes", "2", "--video", str(tmp_path / "cart.gif"))
    assert (code, err) == (0, "")
    assert f"{tmp_path / 'cart.gif'}: an episode of" in out
    code, _, err = typed("eval", str(run), "--episodes", "2", "--video", str(tmp_path / "cart.avi"))
    assert (code, "ends with .gif or .mp4" in err) == (2, True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    code, _, err = typed("eval", str(run), "--episodes", "2", "--video", str(tmp_path / "cart.mp4"))
    assert (code, err) == (2, "MP4 files need the package imageio_ffmpeg: pip install 'tflow[video]'\n")


def test_what_cannot_be_filmed_is_said(run: Path) -> None:
    policy = Policy.load(run)
    with pytest.raises(PlanError, match=r"Blind cannot be filmed: it does not take render_mode='rgb_array'\. It knows none\."):
        record_episode(policy, Blind)
    with pytest.raises(PlanError, match="runs as a vector env"):
        record_episode(policy, EnvSpec("CartPole-v1", vector_wrappers=(gymnasium.wrappers.vector.RecordEpisodeStatistics,)))
