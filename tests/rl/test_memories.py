"""Networks with a memory: what they see of an episode, step by step and at once, and where gradients end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tflow import PlanError, Policy
from tflow.losses import PPOLoss
from tflow.models import GRU, LSTM, MLP, ActorCriticSpec, DictEncoder, GTrXL, QSpec
from tflow.rl.policy.gtrxl import Block, GatedTransformer, GRUGate
from tflow.rl.policy.network import GatedRecurrent, Memory, Recurrent, RecurrentEncoder
from tflow.rl.policy.network_spec import ModelLike, build_encoder
from tflow.rl.policy.policy_spec import PolicySpec, make_policy

VECTOR = spaces.Box(-1, 1, (4,), np.float32)
MEMORIES = st.sampled_from([
    lambda: Recurrent(3, 5),
    lambda: GatedRecurrent(3, 5),
    lambda: GatedTransformer(3, 6, layers=1, heads=2, window=2),
    lambda: GatedTransformer(3, 6, layers=2, heads=3, window=5),
])  # fmt: skip
MODELS: list[ModelLike] = [LSTM(6, MLP((4,))), GRU(6, MLP((4,))), GTrXL(6, MLP((4,)), 8, 2, 2, 3)]


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@given(
    make=MEMORIES,
    sequences=st.integers(1, 3),
    length=st.integers(1, 9),
    seed=st.integers(0, 2**32),
    often=st.sampled_from([0.0, 0.2, 1.0]),
    data=st.data(),
)
def test_a_sequence_at_once_is_its_steps_one_after_the_other(
    make: Callable[[], Memory], sequences: int, length: int, seed: int, often: float, data: st.DataObject
) -> None:
    torch.manual_seed(seed)
    memory = make()
    features, resets = torch.randn(sequences, length, 3), torch.rand(sequences, length) < often
    _, state = memory(torch.randn(sequences, 4, 3), None, None)
    shown, last = memory(features, state, resets)
    now = state
    for step in range(length):
        one, now = memory(features[:, step : step + 1], now, resets[:, step : step + 1])
        close(one[:, 0], shown[:, step])
    close(now, last)
    cut = data.draw(st.integers(0, length))
    _, between = memory(features[:, :cut], state, resets[:, :cut]) if cut else (None, state)
    if cut < length:
        close(memory(features[:, cut:], between, resets[:, cut:])[0], shown[:, cut:])


@given(make=MEMORIES, seed=st.integers(0, 2**32), start=st.integers(0, 5))
def test_an_episode_sees_nothing_of_the_one_before(make: Callable[[], Memory], seed: int, start: int) -> None:
    torch.manual_seed(seed)
    memory = make()
    resets = torch.zeros(1, 6, dtype=torch.bool)
    resets[:, start] = True
    features = torch.randn(1, 6, 3)
    before = features.clone()
    before[:, :start] = torch.randn(1, start, 3) * 9
    one, last = memory(features, torch.randn(1, memory.state_size), resets)
    other, after = memory(before, torch.rand(1, memory.state_size) * 7, resets)
    alone, fresh = memory(features[:, start:], None, None)
    for found, state in ((one, last), (other, after)):
        close(found[:, start:], alone)
        close(state, fresh)


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_transformer_sees_as_far_as_its_window_and_no_further(window: int, layers: int) -> None:
    torch.manual_seed(0)
    memory = GatedTransformer(3, 24, layers=layers, heads=2, window=window)
    features = torch.randn(1, 12, 3, requires_grad=True)
    shown, _ = memory(features)
    shown[0, -1].square().sum().backward()
    assert features.grad is not None
    reached = (features.grad[0].abs().sum(-1) > 0).tolist()
    assert reached == [11 - step <= layers * window for step in range(12)]


def test_attention_is_what_the_formulas_say() -> None:
    """One layer, one head, written out for the last of three steps."""
    torch.manual_seed(0)
    memory = GatedTransformer(3, 4, layers=1, heads=1, window=5)
    (block,) = memory.blocks
    assert isinstance(block, Block)
    nn.init.normal_(block.likes_content)
    nn.init.normal_(block.likes_distance)
    features = torch.randn(1, 3, 3)
    steps = memory.embedding(features)[0]
    normal = block.before_attention(steps)
    query, (keys, values) = block.queries(normal)[-1], block.content(normal).chunk(2, -1)
    by_content = [(query + block.likes_content[0, 0]) @ keys[step] for step in range(3)]
    by_distance = [(query + block.likes_distance[0, 0]) @ block.distances[0, 2 - step] for step in range(3)]
    scores = (torch.stack(by_content) + torch.stack(by_distance)) / 2
    attended = block.joined(scores.softmax(0) @ values).relu()

    def gated(gate: GRUGate, old: Tensor, new: Tensor) -> Tensor:
        wr, wz, wg = gate.new.weight.chunk(3)
        ur, uz = gate.old.weight.chunk(2)
        reset = torch.sigmoid(wr @ new + ur @ old)
        update = torch.sigmoid(wz @ new + uz @ old - 2.0)
        return (1 - update) * old + update * torch.tanh(wg @ new + gate.candidate.weight @ (reset * old))

    kept = gated(block.attended, steps[-1], attended)
    close(memory(features)[0][0, -1], gated(block.computed, kept, block.dense(block.before_dense(kept)).relu()))


def test_a_gru_is_the_cell_of_torch() -> None:
    memory, cell = GatedRecurrent(3, 5), nn.GRUCell(3, 5)
    cell.load_state_dict({name.removesuffix("_l0"): weight for name, weight in memory.gru.state_dict().items()})
    features, now = torch.randn(2, 4, 3), torch.randn(2, 5)
    shown, last = memory(features, now)
    for step in range(4):
        now = cell(features[:, step], now)
        close(shown[:, step], now)
    close(last, now)


# --------------------------------------------------------------------------- burn-in


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_burn_in_changes_no_value_and_gets_no_gradient(model: ModelLike) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(model, VECTOR)
    assert isinstance(encoder, RecurrentEncoder)
    obs, resets = torch.randn(2 * 6, 4, requires_grad=True), torch.zeros(2, 6, dtype=torch.bool)
    burn_in = resets.clone()
    burn_in[0, :4] = True
    plain, state = encoder(obs, None, resets)
    warmed, after = encoder(obs, None, resets, burn_in)
    close(plain, warmed)
    close(state, after)
    warmed.reshape(2, 6, -1)[:, 4:].sum().backward()
    assert obs.grad is not None
    reached = (obs.grad.abs().sum(-1) > 0).reshape(2, 6).tolist()
    near_enough = [True] * 6  # two layers of three steps see back to the first
    assert reached == [[False] * 4 + [True] * 2, near_enough]


# --------------------------------------------------------------------------- policies


@pytest.mark.parametrize("spec", [ActorCriticSpec(), ActorCriticSpec(shared=True), QSpec()])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_policy_remembers_from_act_to_act_also_when_it_was_saved(model: ModelLike, spec: PolicySpec, tmp_path: Path) -> None:
    made = make_policy(spec, model, VECTOR, spaces.Discrete(5), seed=3)
    with torch.no_grad():
        for part in made.module.parameters():
            part.normal_(0, 0.8, generator=torch.Generator().manual_seed(part.numel()))
    made.save(tmp_path / "policy.safetensors")
    loaded = Policy.load(tmp_path / "policy.safetensors")
    assert loaded.model == model
    seen = np.random.default_rng(0).uniform(-1, 1, (40, 4)).astype(np.float32)

    def played(policy: Policy) -> list[int]:
        return [int(policy.act(obs, first=number in (0, 20))) for number, obs in enumerate(seen)]

    assert played(made) == played(loaded)
    again = [int(made.act(obs, first=number == 0)) for number, obs in enumerate(seen[20:])]
    assert again == played(made)[20:], "an episode does not depend on the one before"
    forgetful = [int(made.act(obs, first=True)) for obs in seen]
    assert forgetful != played(made), "otherwise it would remember nothing"


def test_a_state_is_as_large_as_it_says() -> None:
    made = make_policy(PPOLoss().policy(), GTrXL(8, MLP((4,)), heads=2, layers=3, window=5), VECTOR, spaces.Discrete(2))
    assert made.state_size == 2 * (3 * 8 + 1) * 5, "of an actor and of a critic"
    assert made.sequence_length == 32


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GTrXL(10, heads=4), "GTrXL: size must be a multiple of heads, got size=10 and heads=4"),
        (lambda: GTrXL(window=0), "GTrXL: window must be at least 1, got 0"),
        (lambda: GRU(0), "GRU: size must be at least 1"),
        (lambda: DictEncoder({"a": GRU()}), "DictEncoder: a GRU cannot encode a single part"),
        (lambda: build_encoder(GTrXL(8, GRU(4)), VECTOR), "GTrXL: a GRU cannot stand inside another model"),
    ],
)
def test_wrong_descriptions_are_sentences(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        make()
