"""Configurations as text and back: what is written can be read, what cannot be is refused with a sentence."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflow import PlanError, loading
from tflow.algos import DQN, PPO, PPODQN, Algorithm, ApeX
from tflow.algos.names import ALGORITHMS
from tflow.commands.algos import flags_of
from tflow.envs import EnvSpec
from tflow.models import LSTM, MLP, NatureCNN
from tflow.rl.envs.samples import MultiCartPole
from tflow.schedules import Linear, Piecewise
from tflow.settings.fields import ALONE, affirmed, configured
from tflow.settings.files import read_file, written
from tflow.settings.flags import from_flags, merged
from tflow.settings.run import RunSettings
from tflow.settings.values import read, shown

shares = st.floats(0, 1)
rates = st.one_of(
    st.floats(1e-6, 1),
    st.builds(Linear, shares, shares, steps=st.integers(1, 10**6)),
    st.just(Piecewise(((0, 1.0), (10, 0.5)))),
)
models = st.one_of(
    st.just("auto"),
    st.builds(MLP, st.lists(st.integers(1, 64), min_size=1, max_size=3).map(tuple)),
    st.just(NatureCNN()),
    st.builds(LSTM, st.integers(1, 64), st.just(MLP((8,)))),
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)  # TOML has no bare carriage returns
envs = st.one_of(
    st.just("CartPole-v1"),
    st.builds(EnvSpec, st.just("CartPole-v1"), kwargs=st.dictionaries(texts, st.integers() | texts, max_size=2)),
)
ppos = st.builds(
    PPO,
    env=envs,
    lr=rates,
    model=models,
    gamma=shares,
    normalize=st.booleans(),
    max_kl=st.none() | shares,
    epochs=st.integers(1, 99),
)


@given(ppos)
def test_a_configuration_survives_its_file(tmp_path_factory: pytest.TempPathFactory, config: PPO) -> None:
    path = tmp_path_factory.mktemp("run") / "config.toml"
    path.write_text(written(config, RunSettings(algo="ppo", stop_return=3.5)), encoding="utf-8")
    fields, run = read_file(path)
    assert configured(PPO, fields) == config
    assert configured(RunSettings, run) == RunSettings(algo="ppo", stop_return=3.5)


@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=ALGORITHMS)
def test_every_algorithm_as_it_usually_is_survives_its_file(kind: type[Algorithm], tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(written(kind()))
    assert configured(kind, read_file(path)[0]) == kind()
    for field in dataclasses.fields(kind):
        assert f"\n{field.name} = " in path.read_text() or f"\n[{field.name}]" in path.read_text()


@given(ppos)
def test_flags_say_what_files_say(config: PPO) -> None:
    words = [
        f"--{name.replace('_', '-')}={shown(getattr(config, name))}" for name in ("env", "lr", "model", "normalize", "max_kl")
    ]
    others, found = from_flags(words)
    assert others == []
    assert configured(PPO, found) == dataclasses.replace(PPO(), **{name: getattr(config, name) for name in found})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("None", None),
        ("none", None),
        ("TRUE", True),
        ("CartPole-v1", "CartPole-v1"),
        ("MLP((32,), activation='relu')", MLP((32,), activation="relu")),
        ("LSTM(8, MLP((4,)))", LSTM(8, MLP((4,)))),
        ("EnvSpec('X-v0', kwargs={'a': [1, (2,)]})", EnvSpec("X-v0", kwargs={"a": [1, (2,)]})),
        ("PPO(lr=Linear(1, 0, 10))", PPO(lr=Linear(1, 0, 10))),
        ("tflow.rl.envs.samples:MultiCartPole", MultiCartPole),
        ("ale_py:ALE/Pong-v5", "ale_py:ALE/Pong-v5"),
        ("nowhere:Env", "nowhere:Env"),
        ("a b c (", "a b c ("),
        ("__import__", "__import__"),
    ],
)
def test_values_are_written_as_in_python(text: str, value: object) -> None:
    assert read(text, own=True) == value


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "open('x')", "(lambda: 1)()", "[].append(1)"])
def test_nothing_is_evaluated(text: str) -> None:
    with pytest.raises(PlanError, match="there is no"):
        read(text)


def test_nothing_is_imported_where_nothing_of_ones_own_can_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find", lambda target: pytest.fail(f"{target} was looked for"))
    assert read("os:system") == "os:system"
    assert configured(RunSettings, {"address": "os:system", "runtime": "ray"}).address == "os:system"


def test_a_file_that_could_not_say_everything_is_refused_unless_that_is_given_anew(tmp_path: Path) -> None:
    assert shown(lambda: None) is None
    assert shown(MultiCartPole) == "tflow.rl.envs.multi_cart_pole:MultiCartPole"
    path = tmp_path / "config.toml"
    for unsaid in (lambda: None, EnvSpec("X-v0", kwargs={"map": np.eye(3)})):
        path.write_text(written(PPO(env=unsaid)))  # type: ignore[arg-type]  # nobody makes an env of it
        fields, _ = read_file(path)
        with pytest.raises(PlanError, match=r"PPO: env was .*, which cannot be written to a file. Give it again."):
            configured(PPO, fields)
        assert configured(PPO, merged(fields, {"env": "CartPole-v1"})) == PPO()


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(written(PPO(lr=np.float64(0.5), epochs=cast("int", np.int64(3)))))
    assert configured(PPO, read_file(path)[0]) == PPO(lr=0.5, epochs=3)


def test_whole_numbers_may_be_written_in_short() -> None:
    assert configured(DQN, {"capacity": "1e6"}).capacity == 1_000_000
    assert type(configured(DQN, {"capacity": 1e6}).capacity) is int


def test_flags_without_values_are_yes_or_no() -> None:
    found = configured(DQN, affirmed(DQN, {"dueling": ALONE, "no_double": ALONE}))
    assert (found.dueling, found.double) == (True, False)


def test_flags_lead_into_configurations_inside() -> None:
    _, found = from_flags(["--ppo.lr", "0.5", "--ppo.model=MLP((8,))", "--dqn.no-double"])
    config = configured(PPODQN, affirmed(PPODQN, found))
    assert config.ppo == dataclasses.replace(PPODQN().ppo, lr=0.5, model=MLP((8,)))
    assert config.dqn == DQN(double=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Two(PPODQN):
    """Defaults of its own for what is inside."""

    ppo: PPO = dataclasses.field(default=PPO(epochs=3))
    needed: int


def test_configurations_inside_keep_their_own_defaults_and_what_is_needed_is_asked_for() -> None:
    assert configured(Two, {"ppo": {"lr": 0.5}, "needed": 1}).ppo == PPO(epochs=3, lr=0.5)
    rows = {flag: usual for flag, usual, _ in flags_of(Two)}
    assert (rows["--ppo.epochs"], rows["--needed"]) == ("3", "")
    with pytest.raises(PlanError, match="Two needs a value for needed: --needed VALUE"):
        configured(Two, {})


def test_what_is_typed_counts_more_than_what_is_in_a_file() -> None:
    assert merged({"lr": 1, "ppo": {"a": 1, "b": 2}}, {"lr": 2, "ppo": {"b": 3}}) == {"lr": 2, "ppo": {"a": 1, "b": 3}}


@pytest.mark.parametrize(
    ("kind", "given_fields", "sentence"),
    [
        (PPO, {"epoch": 3}, "PPO has no field 'epoch'. Did you mean epochs?"),
        (PPO, {"quantum": 3}, "PPO has no field 'quantum'."),
        (PPO, {"epochs": True}, "PPO: epochs must be a whole number; got True."),
        (PPO, {"normalize": 1}, "PPO: normalize must be true or false; got 1."),
        (PPO, {"lr": [1]}, "PPO: lr must be a number or a schedule such as Linear(1e-3, 0, 100_000); got [1]."),
        (PPO, {"lr": "nan"}, "PPO: lr must be a number or a schedule such as Linear(1e-3, 0, 100_000); got 'nan'."),
        (PPO, {"lr": "Linear"}, "PPO: lr must be a number or a schedule such as Linear(1e-3, 0, 100_000); got 'Linear'."),
        (PPO, {"model": "MLP"}, "PPO: model must be auto, a description such as MLP((64, 64)), or FILE.py:NAME"),
        (PPO, {"lr": ALONE}, "PPO: lr needs a value: --lr VALUE."),
        (DQN, {"kind": "scaler"}, "DQN: kind must be scalar, categorical or quantile; got 'scaler'."),
        (ApeX, {"no_double": ALONE}, "ApeX has no field 'no_double'. Did you mean double?"),
        (DQN, {"kind": "5"}, "DQN: kind must be scalar, categorical or quantile; got '5'."),
        (PPO, {"learning_rate": 3}, "PPO has no field 'learning_rate'. It is called lr here."),
        (PPO, {"env": ""}, "PPO: env needs a value: --env VALUE."),
        (PPO, {"env": "mine.py"}, "'mine.py' is a file. Say what in it: mine.py:NAME."),
        (PPO, {"lr": "os:system"}, "PPO: lr must be a number or a schedule"),
        (PPODQN, {"ppo": 3}, "PPODQN: ppo must be PPO(...); got 3."),
        (PPODQN, {"policy_of": "even"}, "PPODQN: policy_of must be FILE.py:NAME of a function; got 'even'."),
        (RunSettings, {"runtime": "cloud"}, "RunSettings: runtime must be local or ray; got 'cloud'."),
    ],
)
def test_sentences(kind: type, given_fields: dict[str, Any], sentence: str) -> None:  # Any: several kinds
    with pytest.raises(PlanError) as caught:
        configured(kind, given_fields)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("MPL((64,))", "'MPL((64,))': there is no MPL. Did you mean MLP"),
        ("Quantum(3)", "'Quantum(3)': there is no Quantum. There are A2C, "),
        ("MLP(size=3)", "'MLP(size=3)': MLP has no field 'size'. It has hidden, activation and layer_norm."),
        ("MLP((x,))", "'MLP((x,))': x is neither a number nor a text. Texts stand in quotes."),
        ("MLP(**{'hidden': (8,)})", "\"MLP(**{'hidden': (8,)})\": write each argument by itself, without * and **."),
        ("EnvSpec('X', kwargs={**{'a': 1}})", "\"EnvSpec('X', kwargs={**{'a': 1}})\": write each argument by itself"),
        ("Linear(1, 0, 0)", "Linear: steps must be at least 1, got 0."),
        ("nowhere.py:Env", "There is no file 'nowhere.py'."),
    ],
)
def test_sentences_about_values(text: str, sentence: str) -> None:
    with pytest.raises(PlanError) as caught:
        read(text, own=True)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("lr = ", "is no TOML file: "),
        ("run = 3", "run must be a table, [run], with lines such as seed = 0."),
        ("\udcff", "is no TOML file: "),
    ],
)
def test_sentences_about_files(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(content, errors="surrogateescape")
    with pytest.raises(PlanError) as caught:
        read_file(path)
    assert sentence in str(caught.value)


def test_a_run_stops_where_its_env_is_solved_unless_something_else_is_said() -> None:
    stop = RunSettings().stop(EnvSpec("CartPole-v1"))
    assert stop is not None
    assert stop.mean_return == 475
    assert RunSettings().stop(EnvSpec("Pendulum-v1")) is None
    said = RunSettings(stop_steps=5).stop(EnvSpec("CartPole-v1"))
    assert said is not None
    assert (said.mean_return, said.env_steps) == (None, 5)
