"""Schedules by name, as one types them."""

from __future__ import annotations

import math

import pytest

from tflow import PlanError
from tflow.commands.choice import chosen
from tflow.schedules import Constant, Cosine, EnvSteps, Exponential, Linear, Schedule, Warmup, named_schedule
from tflow.settings.files import written

NAMES: dict[str, Schedule] = {
    "constant:1e-3": Constant(1e-3),
    "linear:1e-3:0": Linear(1e-3, 0),
    "linear:1e-3:0:steps=100_000": Linear(1e-3, 0, 100_000),
    "cosine:1e-3:1e-5:share=0.5": Cosine(1e-3, 1e-5, share=0.5),
    "exponential:1e-3:1e-5": Exponential(1e-3, 1e-5),
    "cosine:1e-3:0:warmup=5_000": Warmup(Cosine(1e-3, 0), 5_000),
}


@pytest.mark.parametrize("text", NAMES)
def test_on_the_command_line_in_python_and_in_files(text: str) -> None:
    assert named_schedule(text) == NAMES[text]
    assert getattr(chosen(("ppo", "--lr", text)).algorithm, "lr") == NAMES[text]  # noqa: B009  # its type does not say that it has one
    config = chosen(("ppo", "--lr", text)).algorithm
    (line,) = (line for line in written(config).splitlines() if line.startswith("lr = "))
    assert getattr(chosen(("ppo", "--lr", line.split('"')[1])).algorithm, "lr") == NAMES[text]  # noqa: B009  # as above


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("linear:1e-3", "It is linear:NUMBER:NUMBER, then steps=N"),
        ("linear:1e-3:0:0", "It is linear:NUMBER:NUMBER"),
        ("linear:1e-3:zero", "could not convert string to float: 'zero'"),
        ("linear:1e-3:0:speed=1", "'speed'"),
        ("constant:1:steps=3", "It is constant:NUMBER"),
        ("exponential:1e-3:0", "end must be"),
    ],
)
def test_what_is_none_is_said(text: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        chosen(("ppo", "--lr", text))
    assert said in str(error.value)


def test_a_cosine_is_half_a_wave_and_a_warm_up_ends_where_the_schedule_is() -> None:
    wave, grown = Cosine(2.0, 1.0), Warmup(Linear(1.0, 0.0), 10)
    for step in range(0, 101, 5):
        at = EnvSteps(step, stops_at=100)
        assert wave.at(at) == pytest.approx(1.5 + 0.5 * math.cos(math.pi * step / 100))
        assert grown.at(at) == pytest.approx((1 - step / 100) * min((step + 1) / 10, 1))


def test_an_env_whose_module_is_called_so_is_still_an_env() -> None:
    assert chosen(("ppo", "--env", "cosine:Wave-v0", "--preset", "none")).algorithm.env == "cosine:Wave-v0"
