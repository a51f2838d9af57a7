"""SAC, TQC, CrossQ, REDQ, TD3 and DDPG against references that are written from the papers, member by member, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from tflow import Batch, PlanError
from tflow.algos import DDPG, TQC, CrossQ
from tflow.losses import CrossQLoss, LossValue, SACLoss, TD3Loss, TQCLoss
from tflow.models import MLP, ActorQSpec
from tflow.optimizers import Adam
from tflow.rl.learning.agent import AnyLoss
from tflow.rl.learning.learner import Learner
from tflow.rl.policy.actor_q import ActorQ
from tflow.rl.policy.ensemble import BatchRenorm, EnsembleLinear
from tflow.rl.policy.network import AnySpace
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.policy.tensors import Tensors
from tflow.schedules import Linear

OBS, BOX = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-2, 2, (2,), np.float32)
DISCRETE = spaces.Discrete(4)
ROWS = 7
NET = MLP((8, 6), "relu")


def batch(action_space: AnySpace = BOX, seed: int = 0) -> Tensors:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return rng.standard_normal(shape).astype(np.float32)

    actions = rng.integers(4, size=ROWS) if isinstance(action_space, spaces.Discrete) else np.tanh(normal(ROWS, 2))
    discounts = 0.9 * (rng.random(ROWS) > 0.3).astype(np.float32)
    columns = {
        "obs": normal(ROWS, 3),
        "next_obs": normal(ROWS, 3),
        "actions": actions,
        "rewards": normal(ROWS),
        "discounts": discounts,
        "weights": rng.random(ROWS).astype(np.float32),
    }
    return Tensors.of(Batch(columns, ends=np.arange(ROWS)))


def made(loss: AnyLoss, action_space: AnySpace = BOX, seed: int = 0) -> ActorQ:
    found = make_policy(loss.policy(), NET, OBS, action_space, seed=seed)
    assert isinstance(found, ActorQ)
    for layer in found.net.parameters():  # the last layer of an actor begins near 0, where little could go wrong
        torch.nn.init.normal_(layer, std=0.4, generator=torch.Generator().manual_seed(seed + layer.numel()))
    return found


def evaluated(loss: AnyLoss, policy: ActorQ, target: ActorQ | None, rows: Tensors) -> dict[str, LossValue]:
    policy.generator.manual_seed(11)
    return {name: each() for name, each in loss.losses(policy, rows, target=target, steps=0).items()}


# ------------------------------------------------------------------- the reference: plain matrices, one member at a time


def critic(policy: ActorQ, member: int, inputs: Tensor) -> Tensor:
    layers = policy.net.critics.layers
    found = inputs.double()
    for layer in layers.hidden:
        assert isinstance(layer, EnsembleLinear)
        found = torch.relu(found @ layer.weight[member].double() + layer.bias[member].double())
    return found @ layers.out.weight[member].double() + layers.out.bias[member].double()


def actor(policy: ActorQ, obs: Tensor) -> Tensor:
    found = obs.double()
    linear = [each for each in policy.net.actor.modules() if isinstance(each, torch.nn.Linear)]
    for number, layer in enumerate(linear):
        found = found @ layer.weight.double().T + layer.bias.double()
        found = torch.relu(found) if number < len(linear) - 1 else found
    return found


def drawn(inputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions and their log-densities, by torch's own distributions."""
    mean, log_std = inputs.chunk(2, -1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
    before = mean + normal.stddev * noise
    actions = before.tanh()
    squashed = torch.distributions.TransformedDistribution(normal, [torch.distributions.TanhTransform()])
    logp: Tensor = squashed.log_prob(actions)  # type: ignore[no-untyped-call]  # torch has no types for it
    return actions, logp.sum(-1)


def noises(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(11)
    return [torch.randn((ROWS, 2), generator=generator).double() for _ in range(count)]


def near(found: Tensor | None, wanted: Tensor) -> None:
    assert found is not None
    np.testing.assert_allclose(found.detach().double().numpy(), wanted.detach().numpy(), rtol=2e-4, atol=2e-5)


# ------------------------------------------------------------------- SAC


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_sac(learned: bool, members: int) -> None:
    loss = SACLoss(temperature="auto" if learned else 0.3, spec=ActorQSpec(critics=members))
    policy, target, rows = made(loss), made(loss, seed=1), batch()
    found = evaluated(loss, policy, target, rows)
    alpha = policy.temperature.detach().double() if learned else torch.tensor([0.3], dtype=torch.float64)
    one, two = noises(2)
    next_actions, next_logp = drawn(actor(policy, rows["next_obs"]), one)
    following = torch.cat((rows["next_obs"].double(), next_actions), 1)
    value = torch.stack([critic(target, member, following)[:, 0] for member in range(members)]).amin(0) - alpha * next_logp
    targets = (rows["rewards"] + rows["discounts"] * value).detach()
    near(found["critics"].td_targets, targets)
    given = torch.cat((rows["obs"], rows["actions"]), 1)
    errors = torch.stack([critic(policy, member, given)[:, 0] - targets for member in range(members)])
    near(found["critics"].total, (rows["weights"] * 0.5 * errors.square().sum(0)).mean())
    near(found["critics"].td_errors, errors.abs().mean(0))
    actions, logp = drawn(actor(policy, rows["obs"]), two)
    own = torch.cat((rows["obs"].double(), actions), 1)
    judged = torch.stack([critic(policy, member, own)[:, 0] for member in range(members)]).amin(0)
    near(found["actor"].total, (alpha * logp - judged).mean())
    assert ("temperature" in found) == learned
    if learned:
        near(found["temperature"].total, -(alpha.log() * (logp - 2.0).detach().mean()).squeeze())


def test_the_temperature_grows_while_the_entropy_is_below_its_target() -> None:
    for wanted, sign in ((100.0, -1), (-100.0, 1)):
        loss = SACLoss(target_entropy=wanted)
        policy, rows = made(loss), batch()
        total = evaluated(loss, policy, made(loss, seed=1), rows)["temperature"].total
        (slope,) = torch.autograd.grad(total, policy.flat.parts["temperature"].layers)
        assert float(slope) * sign > 0


def test_discrete_sac_takes_exact_expectations() -> None:
    loss = SACLoss(temperature=0.2)
    policy, target, rows = made(loss, DISCRETE), made(loss, DISCRETE, seed=1), batch(DISCRETE)
    found = evaluated(loss, policy, target, rows)
    chances = actor(policy, rows["next_obs"]).softmax(-1)
    smallest = torch.stack([critic(target, member, rows["next_obs"]) for member in range(2)]).amin(0)
    soft = [chances[:, action] * (smallest[:, action] - 0.2 * chances[:, action].log()) for action in range(4)]
    targets = rows["rewards"] + rows["discounts"] * torch.stack(soft).sum(0)
    taken = [critic(policy, member, rows["obs"])[range(ROWS), rows["actions"]] for member in range(2)]
    squared = torch.stack([0.5 * (each - targets).square() for each in taken]).sum(0)
    near(found["critics"].total, (rows["weights"] * squared).mean())
    chances = actor(policy, rows["obs"]).softmax(-1)
    judged = torch.stack([critic(policy, member, rows["obs"]) for member in range(2)]).amin(0)
    near(found["actor"].total, (chances * (0.2 * chances.log() - judged)).sum(-1).mean())


def test_redq_takes_the_smallest_of_a_random_subset_and_the_actor_the_mean() -> None:
    loss = SACLoss(temperature=0.0, subset=2, mean_q=True, spec=ActorQSpec(critics=4))
    policy, target, rows = made(loss), made(loss, seed=1), batch()
    found = evaluated(loss, policy, target, rows)
    generator = torch.Generator().manual_seed(11)
    noise = torch.randn((ROWS, 2), generator=generator).double()
    picked = torch.randperm(4, generator=generator)[:2].tolist()
    actions, _ = drawn(actor(policy, rows["next_obs"]), noise)
    following = torch.cat((rows["next_obs"].double(), actions), 1)
    value = torch.stack([critic(target, member, following)[:, 0] for member in picked]).amin(0)
    near(found["critics"].td_targets, rows["rewards"] + rows["discounts"] * value)
    values = torch.randn(4, ROWS)
    assert torch.equal(loss.judged(values), values.mean(0))
    assert torch.equal(replace(loss, mean_q=False).judged(values), values.amin(0))


# ------------------------------------------------------------------- TQC, CrossQ


def test_tqc() -> None:
    loss = TQCLoss(temperature=0.1, drop=2, spec=ActorQSpec(quantiles=5, critics=3))
    policy, target, rows = made(loss), made(loss, seed=1), batch()
    found = evaluated(loss, policy, target, rows)
    one, two = noises(2)
    actions, logp = drawn(actor(policy, rows["next_obs"]), one)
    following = torch.cat((rows["next_obs"].double(), actions), 1)
    atoms = torch.cat([critic(target, member, following) for member in range(3)], 1).sort(1).values[:, : 3 * (5 - 2)]
    targets = rows["rewards"][:, None] + rows["discounts"][:, None] * (atoms - 0.1 * logp[:, None])
    near(found["critics"].td_targets, targets)
    given = torch.cat((rows["obs"], rows["actions"]), 1)
    each_row = torch.zeros(ROWS, dtype=torch.float64)
    for member in range(3):
        quantiles = critic(policy, member, given)
        for row in range(ROWS):
            for number in range(5):
                level = (number + 0.5) / 5
                for wanted in targets[row]:
                    error = float((wanted - quantiles[row, number]).detach())
                    huber = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
                    each_row[row] += abs(level - float(error < 0)) * huber
    near(found["critics"].total, (rows["weights"] * each_row / (3 * 5 * targets.shape[1])).mean())
    actions, logp = drawn(actor(policy, rows["obs"]), two)
    own = torch.cat((rows["obs"].double(), actions), 1)
    judged = torch.cat([critic(policy, member, own) for member in range(3)], 1).mean(1)
    near(found["actor"].total, (0.1 * logp - judged).mean())


def renormalised(inputs: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Batch normalisation by the statistics of the batch."""
    mean, var = inputs.mean(0), inputs.var(0, correction=0)
    return (inputs - mean) / (var + 1e-3).sqrt() * scale.double() + bias.double()


def test_crossq_normalises_both_observations_together_and_has_no_target() -> None:
    loss = CrossQLoss(temperature=0.1)
    assert not loss.has_target
    policy, rows = made(loss), batch()
    found = evaluated(loss, policy, None, rows)
    policy.generator.manual_seed(11)
    with torch.no_grad():
        actions, logp = policy.head.sample_logp(policy.act_on(rows["next_obs"]), policy.generator)
    given, following = torch.cat((rows["obs"], rows["actions"]), 1), torch.cat((rows["next_obs"], actions), 1)
    both, layers = torch.cat((given, following)).double(), policy.net.critics.layers
    assert layers.renorms is not None
    norms = [each for each in layers.renorms if isinstance(each, BatchRenorm)]
    both = renormalised(both, norms[0].scale[0], norms[0].bias[0])
    members = []
    for member in range(2):
        features = both
        for layer, norm in zip(layers.hidden, norms[1:], strict=True):
            assert isinstance(layer, EnsembleLinear)
            features = torch.relu(features @ layer.weight[member].double() + layer.bias[member].double())
            features = renormalised(features, norm.scale[member], norm.bias[member])
        members.append((features @ layers.out.weight[member].double() + layers.out.bias[member].double())[:, 0])
    value = torch.stack([each[ROWS:] for each in members]).amin(0) - 0.1 * logp
    targets = (rows["rewards"] + rows["discounts"] * value).detach()
    errors = torch.stack([each[:ROWS] - targets for each in members])
    near(found["critics"].total, (rows["weights"] * 0.5 * errors.square().sum(0)).mean())


def test_batch_renormalisation_corrects_towards_the_running_statistics_after_its_warm_up() -> None:
    norm, rows = BatchRenorm(1, 2, momentum=0.5, warm_up=1), 3 + 2 * torch.randn(1, 50, 2)
    first = norm(rows, train=True)
    assert torch.allclose(first.mean(1), torch.zeros(1, 2), atol=1e-5), "before the warm-up it is batch normalisation"
    mean, var = norm.mean.clone(), norm.var.clone()
    assert torch.allclose(mean, 0.5 * rows.mean(1, keepdim=True), atol=1e-5)
    second = norm(rows, train=True)
    running, std = (var + 1e-3).sqrt(), (rows.var(1, correction=0, keepdim=True) + 1e-3).sqrt()
    r, d = (std / running).clamp(1 / 3, 3), ((rows.mean(1, keepdim=True) - mean) / running).clamp(-5, 5)
    assert torch.allclose(second, (rows - rows.mean(1, keepdim=True)) / std * r + d, atol=1e-4)
    still = norm.mean.clone()
    acting = norm(rows, train=False)
    assert torch.equal(norm.mean, still), "acting learns nothing"
    assert torch.allclose(acting, (rows - norm.mean) / (norm.var + 1e-3).sqrt(), atol=1e-4)


# ------------------------------------------------------------------- TD3, DDPG


@pytest.mark.parametrize(("members", "smoothing"), [(2, 0.2), (1, 0.0), (3, 5.0)])
def test_td3_and_ddpg(members: int, smoothing: float) -> None:
    loss = TD3Loss(smoothing=smoothing, spec=ActorQSpec(deterministic=True, critics=members))
    policy, target, rows = made(loss), made(loss, seed=1), batch()
    found = evaluated(loss, policy, target, rows)
    actions = actor(target, rows["next_obs"]).tanh()
    if smoothing:
        actions = (actions + (noises(1)[0] * smoothing).clamp(-0.5, 0.5)).clamp(-1, 1)
    following = torch.cat((rows["next_obs"].double(), actions), 1)
    smallest = torch.stack([critic(target, member, following)[:, 0] for member in range(members)]).amin(0)
    targets = (rows["rewards"] + rows["discounts"] * smallest).detach()
    given = torch.cat((rows["obs"], rows["actions"]), 1)
    errors = torch.stack([critic(policy, member, given)[:, 0] - targets for member in range(members)])
    near(found["critics"].total, (rows["weights"] * 0.5 * errors.square().sum(0)).mean())
    own = torch.cat((rows["obs"].double(), actor(policy, rows["obs"]).tanh()), 1)
    near(found["actor"].total, -critic(policy, 0, own).mean())


# ------------------------------------------------------------------- options


def test_dropout_is_in_predictions_and_targets_and_keeps_the_mean() -> None:
    loss = SACLoss(spec=ActorQSpec(dropout=0.3))
    policy, rows = made(loss), batch()
    layers, given = policy.net.critics.layers, torch.cat((rows["obs"], rows["actions"]), 1)
    first = layers.hidden[0](given)
    layers.hidden, layers.activation = layers.hidden[:1], torch.nn.Identity()  # dropout keeps the mean of what is linear
    with torch.no_grad():
        means = [torch.stack([layers.features(given, train=train) for _ in range(4_000)]).mean(0) for train in (True, False)]
    for mean in means:
        np.testing.assert_allclose(mean, first.detach(), atol=0.15)
    assert not torch.equal(layers.features(given), layers.features(given))


def test_layer_normalisation_of_each_member_is_its_own() -> None:
    policy = made(SACLoss(spec=ActorQSpec(layer_norm=True, critics=3)))
    shapes = [tuple(part.shape) for name, part in policy.net.critics.named_parameters() if "norms" in name]
    assert shapes == [(3, 1, 8), (3, 1, 8), (3, 1, 6), (3, 1, 6)]


def test_discrete_sac_leaves_out_what_masks_forbid() -> None:
    loss = SACLoss()
    policy, target, rows = made(loss, DISCRETE), made(loss, DISCRETE, seed=1), batch(DISCRETE)
    masks = torch.tensor([[True, False, True, False]]).expand(ROWS, -1)
    with_masks = Tensors({**rows.columns, "masks": masks, "next_masks": masks}, {}, rows.ends)
    found = evaluated(loss, policy, target, with_masks)
    alpha, kept = float(policy.temperature.detach()), [0, 2]
    chances = actor(policy, rows["next_obs"])[:, kept].softmax(-1)
    smallest = torch.stack([critic(target, member, rows["next_obs"])[:, kept] for member in range(2)]).amin(0)
    value = (chances * (smallest - alpha * chances.log())).sum(-1)
    near(found["critics"].td_targets, rows["rewards"] + rows["discounts"] * value)
    chances = actor(policy, rows["obs"])[:, kept].softmax(-1)
    judged = torch.stack([critic(policy, member, rows["obs"])[:, kept] for member in range(2)]).amin(0)
    near(found["actor"].total, (chances * (alpha * chances.log() - judged)).sum(-1).mean())
    entropy = -(chances * chances.log()).sum(-1)
    near(found["temperature"].total, math.log(alpha) * (entropy - 0.5 * math.log(2)).mean())


@pytest.mark.parametrize("loss", [SACLoss(), TD3Loss(), SACLoss(spec=ActorQSpec(dropout=0.2, critics=4), subset=2), CrossQLoss()])
def test_a_learner_goes_on_from_its_state_bit_for_bit(loss: AnyLoss) -> None:
    one, other = (Learner(made(loss), loss, Adam(lr=1e-2), seed=seed) for seed in (1, 2))
    rng = np.random.default_rng(0)
    columns = {name: column.numpy() for name, column in batch().columns.items()}
    replayed: Batch[str] = Batch({**columns, "ids": rng.integers(9, size=ROWS)}, ends=np.arange(ROWS))
    one.train(replayed)
    other.load(one.state())
    for _ in range(3):
        assert one.train(replayed).stats == other.train(replayed).stats
    np.testing.assert_array_equal(one.policy.flat.get(), other.policy.flat.get())


def test_td_errors_change_no_running_statistics() -> None:
    loss = CrossQLoss()
    learner = Learner(made(loss), loss, Adam())
    before = learner.policy.flat.get()
    learner.td_errors(Batch({name: column.numpy() for name, column in batch().columns.items()}, ends=np.arange(ROWS)))
    np.testing.assert_array_equal(learner.policy.flat.get(), before)


def test_state_dependent_noise_has_the_standard_deviation_that_the_head_is_told() -> None:
    loss = SACLoss(spec=ActorQSpec(sde=True, sde_every=1))
    policy = make_policy(loss.policy(), NET, OBS, BOX, seed=0)
    rng = np.random.default_rng(0)
    obs = np.repeat(rng.standard_normal((1, 3)).astype(np.float32), 4_000, axis=0)
    acted = policy.rows(obs, rng, state=policy.initial_state(len(obs)))
    assert isinstance(policy, ActorQ)
    with torch.no_grad():
        mean, log_std = policy.act_on(torch.from_numpy(obs[:1])).chunk(2, -1)
    before = np.arctanh(acted.actions)
    np.testing.assert_allclose(before.mean(0), mean[0].numpy(), atol=0.02)
    np.testing.assert_allclose(before.std(0), log_std[0].exp().numpy(), rtol=0.1)


def test_state_dependent_noise_stays_the_same_for_some_steps() -> None:
    loss = SACLoss(spec=ActorQSpec(sde=True, sde_every=3))
    policy = make_policy(loss.policy(), NET, OBS, BOX, seed=0)
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((2, 3)).astype(np.float32)
    acted = [policy.rows(obs, rng, state=policy.initial_state(2)).actions.tolist() for _ in range(7)]
    assert acted[0] == acted[1] == acted[2]
    assert acted[3] == acted[4] == acted[5]
    assert acted[0] != acted[3] != acted[6]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SACLoss(subset=3), "SACLoss: subset must be at most 2, got 3. There are no more critics."),
        (lambda: SACLoss(spec=ActorQSpec(deterministic=True)), "SACLoss: its actor is stochastic"),
        (lambda: TD3Loss(spec=ActorQSpec()), "TD3Loss: its actor is deterministic"),
        (lambda: TQCLoss(drop=25), "TQCLoss: drop must be at most 24, got 25. Give it more quantiles."),
        (lambda: TQCLoss(spec=ActorQSpec(), drop=0), "TQCLoss: its Q-functions predict quantiles"),
        (lambda: ActorQSpec(dropout=1.0), "ActorQSpec: dropout is a probability below 1, got 1.0."),
        (lambda: ActorQSpec(sde=True, deterministic=True), "sde=True needs a stochastic actor"),
        (lambda: made(TD3Loss(), DISCRETE), "A deterministic actor needs a Box action space, got Discrete(4)"),
        (lambda: made(SACLoss(), spaces.MultiBinary(3)), "needs a Box or Discrete action space, got MultiBinary(3)"),
        (lambda: made(SACLoss(spec=ActorQSpec(sde=True)), DISCRETE), "sde) needs a Box action space, got Discrete(4)"),
        (lambda: made(SACLoss(), spaces.Box(-math.inf, 1, (2,))), "Squashed actions need finite bounds"),
        (lambda: made(TD3Loss(), spaces.Box(-math.inf, 1, (2,))), "Squashed actions need finite bounds"),
        (
            lambda: made(TQCLoss(), DISCRETE),
            "need a Box action space, got Discrete(4). SAC takes discrete actions.",
        ),
        (lambda: made(CrossQLoss(), DISCRETE), "TQC and CrossQ need a Box action space, got Discrete(4)."),
        (lambda: TQC(subset=1).plan(), "TQCLoss: it pools the quantiles of all Q-functions; leave out subset= and mean_q=."),
        (lambda: CrossQ(tau=0.1).plan(), "CrossQLoss: it has no target networks; leave out tau=."),
        (lambda: DDPG(ou_noise=True, noise=Linear(1, 0, steps=9)).plan(), "DDPG: Ornstein-Uhlenbeck noise has no schedule"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError) as caught:
        make()
    assert sentence in str(caught.value)
