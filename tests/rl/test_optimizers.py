"""Adam for one flat parameter: the same numbers as torch's, and a state that can be put down and taken up."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tflow.rl.learning.optimizers import Adam, Steps

WEIGHTS = 7


def parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.linspace(-2, 2, WEIGHTS))


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.01]),
    st.tuples(st.floats(0.0, 0.99), st.floats(0.5, 0.9999)),
    st.lists(st.floats(1e-5, 0.1), min_size=1, max_size=20),
)
@settings(max_examples=60)
def test_it_steps_as_torch_does(seed: int, decay: float, betas: tuple[float, float], rates: list[float]) -> None:
    ours, theirs = parameter(), parameter()
    mine = Adam(betas=betas, weight_decay=decay).build([ours])
    kind = torch.optim.AdamW if decay else torch.optim.Adam
    other = kind([theirs], betas=betas, eps=1e-5, weight_decay=decay)
    gradients = torch.randn(len(rates), WEIGHTS, generator=torch.Generator().manual_seed(seed)) * 3
    for rate, gradient in zip(rates, gradients, strict=True):
        for optimizer, weights in ((mine, ours), (other, theirs)):
            optimizer.param_groups[0]["lr"] = rate
            weights.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours.data, theirs.data, rtol=1e-5, atol=1e-6)


def stepped(optimizer: Steps, weights: torch.nn.Parameter, steps: range) -> None:
    for step in steps:
        weights.grad = torch.linspace(-1, 1, WEIGHTS) * (step + 1)
        optimizer.step()


@pytest.mark.parametrize("before", [0, 1, 5])
def test_it_goes_on_where_it_was(before: int) -> None:
    whole, first = parameter(), parameter()
    stepped(Adam().build([whole]), whole, range(before + 3))
    early = Adam().build([first])
    stepped(early, first, range(before))
    second = torch.nn.Parameter(first.data.clone())
    later = Adam().build([second])
    later.load_state_dict(copy.deepcopy(early.state_dict()))
    stepped(later, second, range(before, before + 3))
    assert torch.equal(whole.data, second.data)
