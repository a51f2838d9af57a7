"""Encoders for every space, memory, the networks of policies, noisy layers, and the sentences about what does not fit."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, Literal

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tflow.errors import PlanError, TflowError
from tflow.rl.policy.heads import head_for
from tflow.rl.policy.network import CombinedEncoder, Flat, Recurrent, RecurrentEncoder, Residual, Tanh
from tflow.rl.policy.network_spec import (
    LSTM,
    MLP,
    DictEncoder,
    Encoder,
    ImpalaCNN,
    Model,
    ModelLike,
    NatureCNN,
    SmallCNN,
    automatic,
    build_encoder,
    zero_observations,
)
from tflow.rl.policy.policy_network import ActorCriticNet, NoisyLinear, QNet

AnySpace = spaces.Space[Any]  # Any: what a space holds is known only at run time
VECTOR = spaces.Box(-1, 1, (4,), np.float32)
MIXED = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (3, 40, 48), np.uint8),
        "arm": spaces.Dict({"position": VECTOR, "grip": spaces.Discrete(3)}),
        "flags": spaces.MultiBinary(2),
    }
)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """The same weights in every run, and one thread: on small tensors, threads that wait for each other take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
    torch.set_num_threads(before)


def sampled(space: AnySpace, rows: int) -> Tensor | dict[str, Tensor]:
    """Random observations as batches hold them."""
    space.seed(1)
    zeros = zero_observations(space, rows)
    if isinstance(zeros, dict):
        return {name: part + torch.randint(0, 2, part.shape).to(part.dtype) for name, part in zeros.items()}
    return torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(rows)]))


# --------------------------------------------------------------------------- encoders


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (VECTOR, MLP()),
        (spaces.Box(-1, 1, (2, 3), np.float64), MLP()),
        (spaces.Discrete(5, start=3), MLP()),
        (spaces.MultiDiscrete(np.array([[2, 3], [4, 2]])), MLP()),
        (spaces.MultiBinary((2, 2)), MLP()),
        (spaces.Box(0, 255, (128,), np.uint8), MLP()),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), NatureCNN()),
        (spaces.Box(0, 255, (96, 72, 3), np.uint8), NatureCNN()),
        (spaces.Box(0, 255, (1, 36, 36), np.uint8), NatureCNN()),
        (spaces.Box(0, 255, (1, 36, 35), np.uint8), ImpalaCNN()),
        (spaces.Box(0, 255, (7, 7, 3), np.uint8), ImpalaCNN()),
        (spaces.Box(0, 1, (3, 40, 40), np.float32), MLP()),
        (MIXED, DictEncoder()),
        (spaces.Tuple((VECTOR, spaces.Discrete(2))), DictEncoder()),
    ],
    ids=str,
)
def test_auto_picks_a_model_for_every_space(space: AnySpace, expected: Model) -> None:
    assert automatic(space) == expected
    encoder = build_encoder("auto", space)
    assert not isinstance(encoder, RecurrentEncoder)
    for rows in (1, 5):
        features = encoder(sampled(space, rows))
        assert features.shape == (rows, encoder.features)
        assert features.dtype == torch.float32
        assert torch.isfinite(features).all()


@pytest.mark.parametrize("model", [NatureCNN(), SmallCNN(), ImpalaCNN((4, 8), 32), NatureCNN(features=7)], ids=str)
@pytest.mark.parametrize("shape", [(4, 84, 84), (1, 36, 40), (50, 36, 3), (40, 40)])
def test_images_of_any_layout(model: NatureCNN | SmallCNN | ImpalaCNN, shape: tuple[int, ...]) -> None:
    space = spaces.Box(0, 255, shape, np.uint8)
    encoder = model.build(space)
    assert encoder.features == model.features
    assert encoder(sampled(space, 2)).shape == (2, model.features)


def test_channels_last_are_the_same_images() -> None:
    torch.manual_seed(0)
    last = SmallCNN().build(spaces.Box(0, 255, (30, 25, 3), np.uint8))
    torch.manual_seed(0)
    first = SmallCNN().build(spaces.Box(0, 255, (3, 30, 25), np.uint8))
    images = torch.randint(0, 256, (2, 3, 30, 25), dtype=torch.uint8)
    torch.testing.assert_close(first(images), last(images.permute(0, 2, 3, 1)))


def test_bytes_are_scaled_and_floats_are_not() -> None:
    for model in (SmallCNN(), MLP()):
        made = []
        for kind in (np.uint8, np.float32):
            torch.manual_seed(0)
            made.append(model.build(spaces.Box(0, 255, (3, 30, 30), kind)))
        images = torch.randint(0, 256, (2, 3, 30, 30), dtype=torch.uint8)
        torch.testing.assert_close(made[0](images), made[1](images.float() / 255))


def test_flat_observations() -> None:
    assert Flat(spaces.Discrete(4, start=2))(torch.tensor([2, 5, 3])).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    several = Flat(spaces.MultiDiscrete([2, 3], start=[0, 10]))
    assert several(torch.tensor([[1, 10], [0, 12]])).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]
    assert Flat(spaces.MultiBinary(2))(torch.tensor([[1, 0]], dtype=torch.int8)).tolist() == [[1, 0]]
    matrix = Flat(spaces.Box(-9, 9, (2, 2), np.float64))
    assert matrix(torch.tensor([[[1.0, 2], [3, 4]]], dtype=torch.float64)).tolist() == [[1, 2, 3, 4]]
    assert Flat(spaces.Box(0, 255, (2,), np.uint8))(torch.tensor([[0, 255]], dtype=torch.uint8)).tolist() == [[0, 1]]
    assert Flat(spaces.Box(-1, 1, ()))(torch.tensor([0.5, -0.5])).tolist() == [[0.5], [-0.5]]
    assert list(Flat(spaces.Discrete(4)).state_dict()) == [], "constants are no weights"


def test_one_hot_observations_do_not_touch_their_input_and_get_no_gradient() -> None:
    network = MLP((8,)).build(spaces.Discrete(4))
    assert isinstance(network, nn.Module)
    torch.autograd.backward(network(torch.tensor([0, 3])).sum())
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_mlps(activation: Literal["tanh", "relu"], layer_norm: bool) -> None:
    encoder = MLP((16, 8), activation, layer_norm).build(VECTOR)
    assert isinstance(encoder, nn.Module)
    assert encoder(torch.randn(3, 4)).shape == (3, 8)
    assert sum(isinstance(module, nn.LayerNorm) for module in encoder.modules()) == 2 * layer_norm
    weights = [parameter for parameter in encoder.parameters() if parameter.dim() == 2]
    assert [tuple(weight.shape) for weight in weights] == [(16, 4), (8, 16)]


@pytest.mark.parametrize("shape", [(3,), (5, 3), (0, 3)])
def test_tanh_by_numpy_is_that_of_torch_with_all_derivatives(shape: tuple[int, ...]) -> None:
    found = []
    for function in (Tanh(), torch.tanh):
        features = torch.linspace(-9, 9, math.prod(shape)).reshape(shape).requires_grad_()
        shown = function(features)
        (first,) = torch.autograd.grad(shown.sum(), features, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), features)
        found.append((shown, first, second))
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, atol=1e-6, rtol=0)


def test_tanh_is_left_to_torch_under_transforms_and_in_exported_programs() -> None:
    layer, features = Tanh(), torch.randn(4, 3)
    torch.testing.assert_close(torch.vmap(layer)(features), torch.tanh(features))
    torch.testing.assert_close(layer(features.double()), torch.tanh(features.double()))
    exported = torch.export.export(layer, (features,))
    assert [node.target for node in exported.graph.nodes if node.op == "call_function"] == [torch.ops.aten.tanh.default]


def test_an_mlp_without_layers_is_the_observation() -> None:
    encoder = MLP(()).build(VECTOR)
    obs = torch.randn(3, 4)
    assert encoder.features == 4
    assert (encoder(obs) == obs).all()


def test_parts_of_a_dictionary_meet_in_joint_layers() -> None:
    encoder = MLP((16,)).build(MIXED)
    assert isinstance(encoder, CombinedEncoder)
    assert set(encoder.names) == {"camera", "arm/position", "arm/grip", "flags"}
    obs = sampled(MIXED, 3)
    assert isinstance(obs, dict)
    # What the position does to the features depends on the flags: no sum of encoders of each part could do that.
    changed = [
        encoder({**obs, "arm/position": obs["arm/position"] + position, "flags": obs["flags"] + flags})
        for position in (0, 1)
        for flags in (0, 1)
    ]
    interaction = changed[0] - changed[1] - changed[2] + changed[3]
    assert interaction.abs().max() > 1e-3


def test_models_can_be_named_for_parts() -> None:
    encoder = DictEncoder({"camera": SmallCNN(20), "arm/position": MLP((5,))}, joint=MLP((9,), "relu")).build(MIXED)
    assert isinstance(encoder, CombinedEncoder)
    widths = {name: part.features for name, part in zip(encoder.names, encoder.encoders, strict=True)}
    assert widths == {"camera": 20, "arm/position": 5, "arm/grip": 3, "flags": 2}
    assert encoder(sampled(MIXED, 2)).shape == (2, 9)
    images = NatureCNN(33).build(MIXED)
    assert isinstance(images, CombinedEncoder)
    assert {name: part.features for name, part in zip(images.names, images.encoders, strict=True)}["camera"] == 33
    assert images.features == 33
    awkward = spaces.Dict({"keys": VECTOR, "a.b": VECTOR, "type": VECTOR})  # names that torch would not allow
    assert build_encoder("auto", awkward).features == 64


def test_descriptions_are_values() -> None:
    assert LSTM(8, MLP((4,))) == LSTM(8, MLP((4,))) != LSTM(8, MLP((5,)))
    assert pickle.loads(pickle.dumps(DictEncoder({"camera": NatureCNN()}))) == DictEncoder({"camera": NatureCNN()})
    with pytest.raises(FrozenInstanceError):
        MLP().hidden = (3,)  # type: ignore[misc]  # the mistake


def test_same_seed_same_weights() -> None:
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        encoder = build_encoder(LSTM(8, "auto"), MIXED)
        assert isinstance(encoder, nn.Module)
        made.append(nn.utils.parameters_to_vector(encoder.parameters()))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


# --------------------------------------------------------------------------- the first weights


def gain_of(weight: Tensor) -> float:
    """The common singular value of an orthogonal matrix."""
    values = torch.linalg.svdvals(weight.detach().flatten(1))
    assert float(values.max() - values.min()) < 1e-4 * float(values.max()), "not orthogonal"
    return float(values[0])


def test_weights_start_orthogonal_with_the_usual_scales() -> None:
    net = ActorCriticNet(
        NatureCNN().build(spaces.Box(0, 255, (4, 84, 84), np.uint8)), 6, value_encoder=MLP().build(spaces.Discrete(3))
    )
    layers = [module for module in net.modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
    hidden = [layer for layer in layers if layer not in (net.action, net.value)]
    assert len(hidden) == 3 + 1 + 2
    assert [gain_of(layer.weight) for layer in hidden] == pytest.approx([math.sqrt(2)] * 6, rel=1e-3)
    assert isinstance(net.action, nn.Linear)
    assert isinstance(net.value, nn.Linear)
    assert gain_of(net.action.weight) == pytest.approx(0.01, rel=1e-3)
    assert gain_of(net.value.weight) == pytest.approx(1, rel=1e-3)
    assert all((layer.bias == 0).all() for layer in layers if layer.bias is not None)


def test_features_of_deep_networks_do_not_blow_up() -> None:
    encoder = ImpalaCNN().build(spaces.Box(0, 255, (4, 84, 84), np.uint8))
    assert isinstance(encoder, nn.Module)
    assert sum(isinstance(module, Residual) for module in encoder.modules()) == 6
    with torch.no_grad():
        features = encoder(torch.randint(0, 256, (4, 4, 84, 84), dtype=torch.uint8))
    assert 0.1 < float(features.std()) < 3


# --------------------------------------------------------------------------- memory


@given(
    sequences=st.integers(1, 4),
    length=st.integers(1, 7),
    seed=st.integers(0, 2**32),
    often=st.sampled_from([0.0, 0.2, 1.0]),
    known=st.booleans(),
)
def test_sequences_with_resets_equal_single_steps_with_zeroed_states(
    sequences: int, length: int, seed: int, often: float, known: bool
) -> None:
    torch.manual_seed(seed)
    memory = Recurrent(3, 5)
    features, resets = torch.randn(sequences, length, 3), torch.rand(sequences, length) < often
    state = torch.randn(sequences, 10) if known else None
    shown, last = memory(features, state, resets)
    cell = nn.LSTMCell(3, 5)
    cell.load_state_dict({name.removesuffix("_l0"): weight for name, weight in memory.lstm.state_dict().items()})
    now = torch.zeros(sequences, 10) if state is None else state
    for step in range(length):
        now = torch.where(resets[:, step, None], 0, now)
        hidden, kept = cell(features[:, step], (now[:, :5], now[:, 5:]))
        now = torch.cat((hidden, kept), 1)
        torch.testing.assert_close(shown[:, step], hidden, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(last, now, rtol=1e-5, atol=1e-6)


def test_gradients_stop_at_the_beginning_of_an_episode() -> None:
    memory, features = Recurrent(3, 5), torch.randn(2, 6, 3, requires_grad=True)
    resets = torch.zeros(2, 6, dtype=torch.bool)
    resets[0, 3] = True
    shown, _ = memory(features, None, resets)
    shown[:, -1].sum().backward()
    assert features.grad is not None
    reached = features.grad.abs().sum(-1) > 0
    assert reached.tolist() == [[False] * 3 + [True] * 3, [True] * 6]


def test_without_resets_a_sequence_runs_at_once() -> None:
    memory, calls = Recurrent(3, 5), []
    memory.lstm.register_forward_hook(lambda *_: calls.append(1))
    none, first, inner = (torch.zeros(4, 9, dtype=torch.bool) for _ in range(3))
    first[2, 0] = inner[1, 4] = True
    for resets, expected in ((None, 1), (none, 1), (first, 1), (inner, 2)):
        calls.clear()
        memory(torch.randn(4, 9, 3), None, resets)
        assert len(calls) == expected


@pytest.mark.parametrize("shared", [True, False])
def test_recurrent_networks_see_sequences_as_they_see_steps(shared: bool) -> None:
    model, head = LSTM(6, MLP((8,))), head_for(spaces.Discrete(3))
    net = ActorCriticNet(
        build_encoder(model, VECTOR), head.inputs, value_encoder=None if shared else build_encoder(LSTM(4), VECTOR)
    )
    assert net.state_size == (12 if shared else 12 + 8)
    obs, resets = torch.randn(2, 5, 4), torch.rand(2, 5) < 0.3
    state = torch.randn(2, net.state_size)
    inputs, values, last = net(obs.flatten(0, 1), state, resets)
    assert (inputs.shape, values.shape) == ((10, 3), (10,))
    for step in range(5):
        one, value, state = net(obs[:, step], state, resets[:, step])
        torch.testing.assert_close(inputs.unflatten(0, (2, 5))[:, step], one, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(values.unflatten(0, (2, 5))[:, step], value, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(last, state, rtol=1e-5, atol=1e-6)
    fresh, _, after = net(obs[:, 0])
    again, _, _ = net(obs[:, 0], torch.randn(2, net.state_size), torch.ones(2, dtype=torch.bool))
    torch.testing.assert_close(fresh, again)
    assert after.shape == (2, net.state_size)


# --------------------------------------------------------------------------- networks of policies


def test_an_actor_critic_without_memory() -> None:
    box = spaces.Box(-1, 1, (2,))
    head = head_for(box, log_std_init=-0.7)
    encoder = build_encoder("auto", VECTOR)
    net = ActorCriticNet(encoder, head.inputs, free_outputs=head.free, free_init=head.free_init)
    inputs, values, state = net(torch.randn(5, 4))
    assert (inputs.shape, values.shape, state) == ((5, 4), (5,), None)
    assert torch.equal(inputs[:, 2:], torch.full((5, 2), -0.7))
    assert net.state_size == 0
    torch.autograd.backward(head.logp(inputs, torch.zeros(5, 2)).sum())
    assert net.free is not None
    assert net.free.grad is not None
    assert (net.free.grad != 0).all()
    assert ActorCriticNet(encoder, 4).free is None


def test_a_shared_encoder_is_one_and_separate_ones_are_two() -> None:
    def weights(**given: Any) -> int:  # Any: keywords of the network
        net = ActorCriticNet(build_encoder(MLP((8,)), VECTOR), 2, **given)
        return sum(parameter.numel() for parameter in net.parameters())

    shared, separate = weights(), weights(value_encoder=build_encoder(MLP((8,)), VECTOR))
    assert separate - shared == 4 * 8 + 8
    net = ActorCriticNet(build_encoder(MLP((8,)), VECTOR), 2, value_encoder=build_encoder(MLP((8,)), VECTOR))
    _, values, _ = net(torch.randn(3, 4))
    values.sum().backward()
    assert isinstance(net.encoder, nn.Module)
    assert all(parameter.grad is None for parameter in net.encoder.parameters()), "values do not train the actor's encoder"


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(("kind", "atoms"), [("scalar", 1), ("categorical", 51), ("quantile", 20)])
def test_q_networks(kind: Literal["scalar", "categorical", "quantile"], atoms: int, dueling: bool, noisy: bool) -> None:
    net = QNet(
        build_encoder("auto", VECTOR), 3, kind=kind, atoms=atoms, dueling=dueling, noisy=noisy, v_min=-5, v_max=5, hidden=(8,)
    )
    outputs, state = net(torch.randn(6, 4))
    assert state is None
    assert outputs.shape == ((6, 3) if kind == "scalar" else (6, 3, atoms))
    values = net.q_values(outputs)
    assert values.shape == (6, 3)
    if kind == "categorical":
        assert (values.abs() <= 5).all()
        torch.testing.assert_close(values, (outputs.softmax(-1) * torch.linspace(-5, 5, 51)).sum(-1))
    if kind == "quantile":
        torch.testing.assert_close(values, outputs.mean(-1))
        torch.testing.assert_close(net.support, (torch.arange(20) + 0.5) / 20)
    if dueling:
        features = build_features(net)
        assert net.value is not None
        torch.testing.assert_close(
            net(torch.ones(1, 4))[0].reshape(1, 3, -1).mean(1),
            net.value(features),
            msg="the mean over actions is the value of the state",
        )
    assert "support" not in net.state_dict()


def build_features(net: QNet) -> Tensor:
    assert not isinstance(net.encoder, RecurrentEncoder)
    return net.encoder(torch.ones(1, 4))


def test_a_scalar_q_network_has_one_atom_whatever_is_said() -> None:
    assert QNet(build_encoder("auto", VECTOR), 3, atoms=51)(torch.randn(2, 4))[0].shape == (2, 3)


def test_a_recurrent_q_network() -> None:
    net = QNet(build_encoder(LSTM(6), VECTOR), 3)
    outputs, state = net(torch.randn(8, 4), torch.zeros(2, 12), torch.zeros(2, 4, dtype=torch.bool))
    assert (outputs.shape, state.shape, net.state_size) == ((8, 3), (2, 12), 12)


# --------------------------------------------------------------------------- noisy layers


def test_noisy_layers_start_as_published() -> None:
    layer = NoisyLinear(16, 400)
    assert (layer.weight_sigma == 0.5 / 4).all()
    assert (layer.bias_sigma == 0.5 / 4).all()
    assert float(layer.weight.detach().abs().max()) == pytest.approx(1 / 4, rel=0.01)
    assert sorted(layer.state_dict()) == ["bias", "bias_sigma", "weight", "weight_sigma"]


def test_noisy_layers_have_factorised_noise_that_lasts_until_it_is_drawn_anew() -> None:
    layer, features = NoisyLinear(5, 3), torch.randn(4, 5)
    assert (layer.noise_in != 0).all(), "there is noise from the start"
    noisy = layer(features)
    assert torch.equal(layer(features), noisy)
    weight = layer.weight + layer.weight_sigma * torch.outer(layer.noise_out, layer.noise_in)
    torch.testing.assert_close(noisy, features @ weight.T + layer.bias + layer.bias_sigma * layer.noise_out)
    layer.reset_noise()
    assert not torch.equal(layer(features), noisy)
    layer.eval()
    torch.testing.assert_close(layer(features), nn.functional.linear(features, layer.weight, layer.bias))


def test_noise_is_a_signed_root_and_a_function_of_the_generator() -> None:
    layer = NoisyLinear(200_000, 1)
    layer.reset_noise(torch.Generator().manual_seed(3))
    first = layer.noise_in
    drawn = torch.randn(200_000, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(first.square() * first.sign(), drawn)
    layer.reset_noise(torch.Generator().manual_seed(3))
    assert torch.equal(layer.noise_in, first)


def test_a_noisy_network_draws_noise_for_all_its_layers_from_the_generator() -> None:
    net, obs = QNet(build_encoder(MLP((8,)), VECTOR), 2, noisy=True, dueling=True, hidden=(6,)), torch.randn(3, 4)
    before = [module.noise_in for module in net.modules() if isinstance(module, NoisyLinear)]
    assert len(before) == 4
    made = []
    for seed in (5, 5, 6):
        net.reset_noise(torch.Generator().manual_seed(seed))
        made.append(net(obs)[0])
    after = [module.noise_in for module in net.modules() if isinstance(module, NoisyLinear)]
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_new_noise_does_not_disturb_gradients_still_to_come() -> None:
    net = QNet(build_encoder(MLP((8,)), VECTOR), 2, noisy=True)
    outputs, _ = net(torch.randn(3, 4))
    with torch.inference_mode():  # as while acting
        net.reset_noise()
    outputs.sum().backward()
    net(torch.randn(3, 4))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


# --------------------------------------------------------------------------- your own modules


class Own(nn.Module):
    """A user's encoder; the arguments make it wrong in one way each."""

    def __init__(self, space: AnySpace, features: object = 6, shape: Callable[[Tensor], object] = lambda made: made) -> None:
        super().__init__()
        self.layer = nn.Linear(math.prod(space.shape or ()), 6)
        self.norm = nn.BatchNorm1d(6)
        self.shape = shape
        if features is not None:
            self.features = features

    def forward(self, obs: Tensor) -> object:
        return self.shape(self.norm(self.layer(obs.flatten(1))))


def test_your_own_module_plugs_in() -> None:
    encoder = build_encoder(Own, VECTOR)
    assert isinstance(encoder, Own)
    assert encoder.training
    assert (encoder.norm.running_mean == 0).all(), "trying it out has taught it nothing"
    assert build_encoder(lambda space: Own(space), VECTOR).features == 6
    assert build_encoder(LSTM(5, Own), VECTOR).features == 5
    assert build_encoder(OwnModel(), VECTOR).features == 6
    assert build_encoder(OwnModel(LSTM(3).build), VECTOR).features == 3
    assert build_encoder(DictEncoder({"arm/position": Own}), MIXED).features == 64
    net = ActorCriticNet(encoder, 2)
    assert sum(parameter.numel() for parameter in net.parameters()) == 30 + 12 + 14 + 7
    assert build_encoder(lambda space: Own(spaces.Box(-1, 1, (1,))), spaces.Box(-1, 1, (1,), np.float32)).features == 6


def test_modules_are_tried_out_with_observations_that_exist() -> None:
    first = zero_observations(
        spaces.Dict({"a": spaces.Discrete(4, start=3), "b": spaces.MultiDiscrete([2, 3], start=[-5, 7])}), 2
    )
    assert isinstance(first, dict)
    assert {name: part.tolist() for name, part in first.items()} == {"a": [3, 3], "b": [[-5, 7], [-5, 7]]}
    image = zero_observations(spaces.Box(0, 255, (2, 2, 3), np.uint8), 1)
    assert isinstance(image, Tensor)
    assert (image.dtype, image.shape) == (torch.uint8, (1, 2, 2, 3))


def own(**wrong: Any) -> ModelLike:  # Any: what makes it wrong
    return lambda space: Own(space, **wrong)


@dataclass(frozen=True)
class OwnModel:
    """A user's description."""

    make: Any = Own  # Any: a module class, or a function that makes a wrong one

    def build(self, observation_space: AnySpace, /) -> Encoder:
        made: Encoder = self.make(observation_space)
        return made


CAMERA = spaces.Box(0, 255, (3, 35, 90), np.uint8)
NO_CAMERA = spaces.Dict({"a": VECTOR})


@pytest.mark.parametrize(
    ("model", "space", "sentence"),
    [
        (own(features=None), VECTOR, r"Own must have an attribute features.*it has none\. Set self.features"),
        (own(features=6.0), VECTOR, r"must have an attribute features.*it has 6\.0"),
        (own(features=True), VECTOR, r"must have an attribute features.*it has True"),
        (own(features=7), VECTOR, r"Own must turn one observation into.* shape \(1, 7\).*made a tensor of shape \(1, 6\)"),
        (own(shape=torch.squeeze), VECTOR, r"one observation.*made a tensor of shape \(6,\)"),
        (own(shape=lambda made: made[:1]), VECTOR, r"2 observations.*\(2, 6\).*made a tensor of shape \(1, 6\)"),
        (own(shape=lambda made: (made, None)), VECTOR, r"it made a tuple"),
        (Own, spaces.Box(-1, 1, (3,), np.float64), r"Own fails on one observation of zeros from Box.*RuntimeError"),
        (lambda space: 3, VECTOR, r"expected a torch module for Box.*, got 3"),
        (OwnModel(own(features=7)), VECTOR, r"Own must turn one observation into"),
        (MLP, VECTOR, r"got the class MLP; pass a value of it, MLP\(\.\.\.\)"),
        ("cnn", VECTOR, """expected "auto", a model such as MLP.*got 'cnn'"""),
        (nn.Linear(4, 4), VECTOR, r"got the module Linear itself\. Pass a function"),
        (NatureCNN(), VECTOR, r"NatureCNN: needs images, a Box with 2 or 3 axes, got Box.*Use MLP"),
        (NatureCNN(), CAMERA, r"NatureCNN: needs images of at least 36 by 36, got 35 by 90\. Use ImpalaCNN"),
        (SmallCNN(), spaces.Box(0, 255, (19, 30, 3), np.uint8), "SmallCNN: needs images of at least 20 by 20, got 19 by 30"),
        (ImpalaCNN(), spaces.Discrete(3), "ImpalaCNN: needs images"),
        (SmallCNN(), NO_CAMERA, "SmallCNN: no part of the observation space is an image"),
        (ImpalaCNN(), NO_CAMERA, "ImpalaCNN: no part of the observation space is an image"),
        (DictEncoder(), VECTOR, "DictEncoder: needs a Dict or Tuple observation space"),
        (
            DictEncoder({"eye": MLP()}),
            MIXED,
            "DictEncoder: there is no part 'eye'.* it has arm/grip, arm/position, camera, flags",
        ),
        (LSTM(4, LSTM(4)), VECTOR, "LSTM: an LSTM cannot stand inside another model"),
        (MLP(), spaces.Text(5), "no model fits the observation space Text"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(model: ModelLike, space: AnySpace, sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        build_encoder(model, space)


def test_parts_that_cannot_be_encoded_are_named() -> None:
    with pytest.raises(TflowError, match="obs/words"):
        build_encoder("auto", spaces.Dict({"words": spaces.Text(5)}))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: MLP([64, 64]), r"MLP: hidden must be a tuple of whole numbers such as \(64, 64\), got \[64, 64\]"),  # type: ignore[arg-type]  # the mistake
        (lambda: MLP((64, 0)), "MLP: each of hidden must be at least 1, got 0"),
        (lambda: MLP(activation="sine"), "MLP: activation must be 'tanh' or 'relu' or .* got 'sine'"),  # type: ignore[arg-type]  # the mistake
        (lambda: MLP(layer_norm=1), "MLP: layer_norm must be True or False, got 1"),  # type: ignore[arg-type]  # the mistake
        (lambda: NatureCNN(0), "NatureCNN: features must be at least 1"),
        (lambda: ImpalaCNN(channels=(0,)), "ImpalaCNN: each of channels must be at least 1"),
        (lambda: LSTM(0), "LSTM: size must be at least 1"),
        (lambda: DictEncoder({"a": LSTM()}), "DictEncoder: an LSTM cannot encode a single part"),
        (lambda: QNet(MLP().build(VECTOR), 2, kind="other"), "QNet: kind must be 'scalar' or 'categorical' or 'quantile'"),  # type: ignore[arg-type]  # the mistake
        (lambda: QNet(MLP().build(VECTOR), 2, kind="categorical"), "QNet: atoms must be at least 2, got 1"),
        (lambda: QNet(MLP().build(VECTOR), 2, kind="categorical", atoms=51, v_min=1, v_max=1), "v_min must be below v_max"),
    ],
)
def test_wrong_descriptions_get_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        make()
