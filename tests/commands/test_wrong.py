"""Wrong command lines: each is answered by one readable sentence with a hint, exit code 2, and nothing left behind."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from gymnasium.spaces import Box, Discrete
from torch import nn

from tflow import cli
from tflow.algos import PPO
from tflow.rl.policy.policy_spec import make_policy

NAMES = (
    "a2c, a3c, apex, apex_ddpg, apex_sac, apex_td3, appo, crossq, ddpg, ddppo, dqn, impala, maml, pg, ppo, ppo_dqn, pqn, "
    "r2d2, rainbow, rnd, rnnsac, sac, simple_q, td3, tqc"
)
WRONG: dict[str, str] = {
    "trian ppo": "No such command 'trian'. Did you mean 'train', 'trace'? See tflow --help.",
    "train": f"Which algorithm? Say one of {NAMES}: tflow train ppo --env CartPole-v1.",
    "train pppo": f"There is no algorithm 'pppo'. Did you mean ppo or appo? There are {NAMES}.",
    "train ppo dqn": "'dqn' is one word too many. Settings are written --name value.",
    "train ppo --env CartPol-v1": "CartPol-v1: is not an env that gymnasium knows. Did you mean CartPole-v1 or CartPole-v0 or "
    "phys2d/CartPole-v1? Import the package that registers it, or write 'package:id'.",
    "train ppo --env phys2d/CartPole-v1": "phys2d/CartPole-v1, env 0: make raised ModuleNotFoundError: No module named 'jax'.",
    "train ppo --env nowhere.py:Env": "There is no file 'nowhere.py'.",
    "train ppo --env mine.py:Env": "mine.py has no 'Env'. In it: answer, crash, helper, maker.",
    "train ppo --wrapper gymnasium.wrappers.TimeLimit": "Expected FILE.py:NAME or module:NAME, got "
    "'gymnasium.wrappers.TimeLimit'. Did you mean gymnasium.wrappers:TimeLimit?",
    "train ppo --env nowhere:Env-v0": "nowhere:Env-v0: needs a module that is not there: No module named 'nowhere'.",
    "train mine.py:answer": "mine.py:answer is not an algorithm: derive a dataclass from one, such as class answer(PPO).",
    "train ppo --epoch 3": "PPO has no field 'epoch'. Did you mean epochs? tflow algos ppo lists them.",
    "train ppo --stop-retrun 3": "PPO has no field 'stop_retrun'. Did you mean stop_return or stop_time? tflow algos ",
    "train ppo --no-normalise": "PPO has no field 'no_normalise'. Did you mean normalize or normalize_obs? tflow algos ppo "
    "lists them.",
    "train ppo --lr fast": "PPO: lr must be a number or a schedule such as Linear(1e-3, 0, 100_000); got 'fast'.",
    "train ppo --lr cosin:1:2": "PPO: lr must be a number or a schedule such as Linear(1e-3, 0, 100_000); got 'cosin:1:2'. Did "
    "you mean cosine? There are constant:VALUE, linear:START:END, cosine:START:END, exponential:START:END, Piecewise(...), ",
    "train ppo --lr cosine": "PPO: lr must be a number or a schedule such as Linear(1e-3, 0, 100_000); got 'cosine'. There are "
    "constant:VALUE, linear:START:END, cosine:START:END, exponential:START:END, Piecewise(...), Warmup(...).",
    "train ppo --model ResNet": "PPO: model must be auto, a description such as MLP((64, 64)), or FILE.py:NAME of what makes a "
    "module; got 'ResNet'. There are LSTM(...), GRU(...), GTrXL(...), MLP(...), ImpalaCNN(...), DictEncoder(...), ",
    "train ppo --wrapper gymnasium.wrappers:TimeLimt": "gymnasium.wrappers has no 'TimeLimt'. Did you mean TimeLimit? In it: ",
    "train ppo --env-arg suton_barto_reward=true": "--env-arg: CartPole-v1 takes no 'suton_barto_reward'. Did you mean "
    "sutton_barto_reward?",
    "train ppo --env mine.py:maker --env-arg sze=7": "--env-arg: maker takes no 'sze'. Did you mean size?",
    "train ppo --env pettingzoo.fake:lost_v1": "pettingzoo.fake.lost_v1: It is an env for several agents. In Python, make "
    "workers with create_multi_workers(",
    "train ppo_dqn --env pettingzoo.fake:lost_v1": "pettingzoo.fake.lost_v1: needs a module that is not there: No module named ",
    "train ppo --wrapper pettingzoo.fake:lost_v1": "'pettingzoo.fake:lost_v1' cannot be imported: ModuleNotFoundError: No module "
    "named 'physics'.",
    "train ppo --lr": "PPO: lr needs a value: --lr VALUE.",
    "train ppo --lr=1 --lr=2": "--lr is given twice.",
    "train ppo --num-envs 0": "PPO: num_envs must be at least 1, got 0.",
    "train ppo --num-envs 2.5": "PPO: num_envs must be a whole number; got '2.5'.",
    "train ppo --gamma 1.5": "PPO: gamma must be from 0 to 1, got 1.5.",
    "train ppo --workers two": "PPO: num_workers must be a whole number; got 'two'.",
    "train ppo --model MPL((64,))": "'MPL((64,))': there is no MPL. Did you mean MLP?",
    "train ppo --model ResNet()": "'ResNet()': there is no ResNet. There are DictEncoder, GRU, GTrXL, ImpalaCNN, LSTM, MLP, ",
    "train ppo --lr Sine(1)": "'Sine(1)': there is no Sine. Did you mean Cosine or Linear?",
    "train ppo --runtime rays": "tflow train: runtime must be local or ray; got 'rays'.",
    "train ppo --address auto": "tflow train: an address is that of a Ray cluster. Say --runtime ray, too.",
    "train ppo --seed -1": "tflow train: seed must be at least 0, got -1.",
    "train ppo --seed 1 --seeds 0..2": "Give --seed for one run or --seeds for several, not both.",
    "train ppo --seeds 4..0": "--seeds must be a range such as 0..4, or whole numbers such as 1,5,7; got '4..0'.",
    "train ppo --stop-return high": "tflow train: stop_return must be a number or none; got 'high'.",
    "train ppo --stop-steps 0": "tflow train: stop_steps must be finite and above 0, got 0.",
    "train ppo --eval-every 0": "tflow train: eval_every must be at least 1, got 0.",
    "train ppo --device gpu": "PPO: device must be one of torch's, such as 'cpu' or 'cuda:0', or 'auto'; got 'gpu'.",
    "train ppo --device hpu": "PPO on CartPole-v1: device 'hpu' cannot be used here: ",
    "train ppo --config nowhere.toml": "There is no file 'nowhere.toml'.",
    "train --config empty.toml": "Which algorithm? 'empty.toml' has no algo in its table [run]. Say one of ",
    "train --config wrong.toml": "PPO has no field 'learning_rate'. It is called lr here. tflow algos ppo lists them.",
    "train dqn --env Pendulum-v1": "DQN on Pendulum-v1: Q-learning needs a Discrete action space, got "
    "Box(-2.0, 2.0, (1,), float32). Use a policy gradient algorithm such as PPO, or discretise the actions",
    "train dqn --model LSTM()": "DQN: it does not train recurrent networks; got LSTM(",
    "train dqn --n-step 50": "DQN: n_step must be at most 16, got 50. Make fragment= longer.",
    "train dqn --kind scaler": "DQN: kind must be scalar, categorical or quantile; got 'scaler'.",
    "train maml --env CartPole-v1": "CartPole-v1: has no tasks. To adapt to tasks, an env needs sample_task(rng), and reset()",
    "train maml --eval-every 100": "with_evaluation: MAML needs no evaluation: its metrics have the return before and",
    "train ppo_dqn --env CartPole-v1": "CartPole-v1: is an env for one agent; here, several agents learn. Name a PettingZoo env.",
    "train ppo_dqn --ppo.epoch 3": "PPO has no field 'epoch'. Did you mean epochs?",
    "train ppo --out done": "There is a run in 'done' already. Choose another folder, or remove that one.",
    "eval": "Missing argument 'run'. See tflow eval --help.",
    "eval nowhere": "There is no 'nowhere'. Name a run folder, which tflow train makes, or a policy file.",
    "eval nowhere.safetensors --env CartPole-v1": "There is no 'nowhere.safetensors'. Name a run folder, which ",
    "eval seeds": "'seeds' is not a run folder: it has neither config.toml nor policy.safetensors. tflow train makes one.",
    "eval taken": "'taken' is not a run folder: it has neither config.toml nor policy.safetensors. tflow train makes one.",
    "eval .": "'.' is not a run folder: it has neither config.toml nor policy.safetensors. There are runs in it: adapts, ",
    "eval begun": "'begun' has no policy.safetensors: it ended before anything was learned.",
    "eval two": "'two' has several policies: policy-a.safetensors, policy-b.safetensors. Name one of these files, and an env ",
    "eval both/policy-PPO.safetensors": "'both/policy-PPO.safetensors' is one of 2 policies that act together: evaluate them "
    "all, tflow eval both, or say --env for an env of its own.",
    "eval lone.safetensors": "Which env? Nothing beside 'lone.safetensors' says it. Say --env ID, or --env FILE.py:NAME.",
    "eval lone.safetensors --best --env CartPole-v1": "--best is for run folders; 'lone.safetensors' is a file. Leave it out.",
    "eval lone.safetensors --env CartPol-v1": "CartPol-v1: is not an env that gymnasium knows. Did you mean CartPole-v1 or ",
    "eval lone.safetensors --env nowhere.py:Env": "There is no file 'nowhere.py'.",
    "eval lone.safetensors --env mine.py": "'mine.py' is a file. Say what in it: mine.py:NAME.",
    "eval lone.safetensors --env mine.py:answer": "tflow eval: env must be a gymnasium id, EnvSpec(...), or FILE.py:NAME of what",
    "eval lone.safetensors --env mine.py:helper": "helper, env 0: ",
    "eval lone.safetensors --env Acrobot-v1": "Acrobot-v1 does not fit the policy: its observation space is Box(",
    "eval lone.safetensors --env CartPole-v1 --model mine.py:crash": "'lone.safetensors': its model raised RuntimeError: net ",
    "eval lone.safetensors --env CartPole-v1 --model MLP((8,))": "lone.safetensors: the weights do not fit the model: ",
    "eval lone.safetensors --env CartPole-v1 --model 3": "tflow eval: model must be auto, a description such as MLP((64, 64)), ",
    "eval lone.safetensors --env CartPole-v1 --model MPL()": "'MPL()': there is no MPL. Did you mean MLP?",
    "eval own.safetensors --env CartPole-v1": "own.safetensors: the model was your own module; pass it again as model= "
    "(--model FILE.py:NAME of tflow eval).",
    "eval mine.py --env CartPole-v1": "mine.py is not a policy saved by tflow: ",
    "eval done/config.toml": "'done/config.toml' is not a policy. Name its folder, tflow eval done, or a policy file in it.",
    "eval adapts --deterministic": "A policy that adapts to tasks learns from actions that are sampled. Leave out ",
    "eval done --explore": "No such option: --explore",
    "eval done": "'done' has no policy.safetensors: it ended before anything was learned.",
    "eval done --best": "'done' has no best.safetensors: no evaluation was made before it ended (--eval-every).",
    "eval done --episodes none": "Invalid value for '--episodes': ",
    "algos pp": "There is no algorithm 'pp'. Did you mean ppo or appo? There are ",
    "graph pp": "There is no algorithm 'pp'. Did you mean ppo or appo? There are ",
    "graph ppo -o plan.png": "tflow graph does not write .png: 'plan.png'. It writes .svg, which browsers open and ",
    "graph ppo -o plan.pdf": "tflow graph does not write .pdf: 'plan.pdf'. ",
    "graph ppo --lrr 3": "PPO has no field 'lrr'. Did you mean lr? tflow algos ppo lists them.",
    "graph mine.py:helper --lr 3": "mine.py:helper is not an algorithm: derive a dataclass from one, such as class helper(PPO).",
    "train ppo --total-timesteps 9": "PPO has no field 'total_timesteps'. It is called stop_steps here. tflow ",
    "train ppo --env broken.py:Env": "'broken.py' cannot be loaded: SyntaxError: ",
    "train ppo --env lost.py:Env": "'lost.py' cannot be loaded: ModuleNotFoundError: No module named 'nowhere'.",
    "train ppo --env queue.py:Env": "'queue.py' cannot be loaded: there is another module called queue. Rename the file.",
    "train ppo --env mine.py": "'mine.py' is a file. Say what in it: mine.py:NAME.",
    "train ppo --env mine.py:answer": "PPO: env must be a gymnasium id, EnvSpec(...), or FILE.py:NAME of what makes an env; got",
    "train ppo --env mine.py:helper": "helper, env 0: ",
    "train ppo --model mine.py:crash": "PPO on CartPole-v1: RuntimeError: net oops",
    "train :x": "Expected FILE.py:NAME or module:NAME, got ':x'.",
    "train ppo --out=": "--out is empty. Name a folder, or leave it out for a new one in runs/.",
    "train ppo --seeds 0..1 --out seeds": "There are runs in 'seeds' already. Choose another folder, or remove that one.",
    "train ppo --out taken": "There is a run in 'taken' already. Choose another folder, or remove that one.",
    "eval other": "Acrobot-v1 does not fit the policy: its observation space is Box(",
}


class Own(nn.Linear):
    """A user's own model."""

    features = 3

    def __init__(self, observation_space: object) -> None:
        super().__init__(4, 3)


class Lazy(ModuleType):
    """A module that imports its own ones when they are asked for, as PettingZoo does, and cannot."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModuleNotFoundError("No module named 'physics'")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(
        "answer = 42\ndef helper(): pass\ndef crash(space): raise RuntimeError('net oops')\ndef maker(size): pass\n"
    )
    monkeypatch.setitem(sys.modules, "pettingzoo.fake", Lazy("pettingzoo.fake"))
    (tmp_path / "broken.py").write_text("def Env(:\n")
    (tmp_path / "lost.py").write_text("import nowhere\n")
    (tmp_path / "queue.py").write_text("Env = 1\n")
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "seeds.csv").write_text("")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.toml").write_text("# mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.toml").write_text("env = 'Acrobot-v1'\nalgo = 'ppo'\n")
    make_policy(PPO().loss().policy(), "auto", Box(-1, 1, (4,)), Discrete(2)).save(tmp_path / "other" / "policy.safetensors")
    lone = make_policy(PPO().loss().policy(), "auto", Box(-1, 1, (4,)), Discrete(2))
    for name in ("lone", "two/policy-a", "two/policy-b", "both/policy-PPO", "both/policy-DQN", "adapts/policy"):
        lone.save(tmp_path / f"{name}.safetensors")
    make_policy(PPO().loss().policy(), Own, Box(-1, 1, (4,)), Discrete(2)).save(tmp_path / "own.safetensors")
    (tmp_path / "both" / "config.toml").write_text("[run]\nalgo = 'ppo_dqn'\n")
    (tmp_path / "adapts" / "config.toml").write_text("[run]\nalgo = 'maml'\n")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "run.json").write_text('{"env": "CartPole-v1"}')
    (tmp_path / "empty.toml").write_text("lr = 1e-3\n")
    (tmp_path / "wrong.toml").write_text("learning_rate = 1e-3\n[run]\nalgo = 'ppo'\n")
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "run.json").write_text("{}")
    (tmp_path / "done" / "config.toml").write_text("[run]\nalgo = 'ppo'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize("line", WRONG)
def test_the_answer(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    before = files_in(folder)
    monkeypatch.setattr(sys, "argv", ["tflow", *line.split()])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(SystemExit) as left:
        cli.main()
    out, err = capsys.readouterr()
    assert err.startswith(WRONG[line])
    assert err.count("\n") == 1, "one sentence, or two"
    assert left.value.code == 2
    assert out in ("", "PPO on CartPole-v1, local, seed 0\n"), "nothing has begun"
    assert files_in(folder) == before
