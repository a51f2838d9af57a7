"""Action masks: they reach replay and TD targets from every kind of env, and nothing depends on what they forbid."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rl.toy_envs import ACTIONS, InTurnEnv, Life, PlannedEnv, PlannedVectorEnv, TogetherEnv, allowed
from tflow import Batch, Shard
from tflow.envs import EnvSpec
from tflow.errors import EnvError, TflowError
from tflow.exploration import EpsilonGreedy
from tflow.losses import DQNLoss, PPOLoss, SACLoss
from tflow.models import ActorQSpec, QSpec
from tflow.operators import ComputePriorities
from tflow.rl.data.arrays import Array
from tflow.rl.envs.env import LoopEnvs
from tflow.rl.envs.multi_env import MultiEnvs
from tflow.rl.envs.samples import Doors
from tflow.rl.envs.vector_env import VectorEnvs
from tflow.rl.learning.agent import Agent
from tflow.rl.policy.actor_q import ActorQ
from tflow.rl.policy.network_spec import LSTM, MLP
from tflow.rl.policy.policy import ActorCritic, QPolicy
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.policy.tensors import Tensors
from tflow.rl.policy.threads import one_thread
from tflow.rl.replay import successors
from tflow.rl.replay.buffer import PrioritizedBuffer, ReservoirBuffer, UniformBuffer
from tflow.rl.replay.sequence_buffer import SequenceBuffer
from tflow.rl.rollout.worker import SingleWorker
from tflow.rl.rollout.worker_spec import WorkerSpec

Kind = Literal["scalar", "categorical", "quantile"]
KINDS: tuple[Kind, ...] = ("scalar", "categorical", "quantile")
PLANS = (((3, "terminated"), (4, "truncated")), ((2, "truncated"), (5, "both")))
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
CHOICES = 5
MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    with one_thread():
        yield


def worker_of(agent: Agent[Any, Any], *, masks: bool = True) -> SingleWorker:  # Any: what the loss reads
    env = EnvSpec(partial(PlannedEnv, PLANS, "box", masks))
    made = WorkerSpec(env, {"default": agent}, num_envs=2, fragment=13)(Shard("workers", 0, 1, 0, seed=7, session_seed=3))
    assert isinstance(made, SingleWorker)
    return made


def q_agent(kind: Kind = "scalar") -> Agent[Any, Any]:  # Any: what the loss reads
    spec = QSpec() if kind == "scalar" else QSpec(kind=kind, atoms=7)
    return Agent(DQNLoss(spec=spec), MLP((4,)), exploration=EpsilonGreedy(0.5))


def allowed_after(rows: Batch[str]) -> Array:
    """What the env allows after each row: its observation says in which episode and at which step that is."""
    after = rows.successors("obs")["obs"]
    return np.stack([allowed(int(obs[1]), int(obs[2])).astype(bool) for obs in after])


# --------------------------------------------------------------------------- from envs to batches


def test_the_last_states_of_truncated_episodes_have_masks() -> None:
    rows = worker_of(q_agent()).sample().untyped()
    ways = {(bool(rows["terminated"][end]), bool(rows["truncated"][end])) for end in rows.ends}
    assert ways >= {(True, False), (False, True), (False, False)}, "pieces end in all these ways"
    following, over = rows.successors("masks")["masks"], rows["terminated"]
    np.testing.assert_array_equal(following[~over], allowed_after(rows)[~over])
    assert following[over].all(), "nothing is forbidden where nothing is done"


def test_transitions_that_stand_alone_have_the_masks_of_what_follows() -> None:
    rows = worker_of(q_agent()).sample().untyped()
    np.testing.assert_array_equal(rows.with_next_obs().untyped()["next_masks"], rows.successors("masks")["masks"])
    assert "next_masks" not in worker_of(q_agent(), masks=False).sample().with_next_obs()


def test_envs_without_masks_have_none_anywhere() -> None:
    worker = worker_of(q_agent(), masks=False)
    rows = worker.sample().untyped()
    assert "masks" not in rows.columns
    assert "masks" not in rows.finals
    envs = worker.lanes[0].envs
    assert all(envs.step(np.zeros(2, np.int64)).final_masks is None for _ in range(9))


@pytest.mark.parametrize("kind", ["together", "in turn"])
def test_agents_that_are_truncated_have_masks(kind: str) -> None:
    lives = (Life(0, 3, truncated=True), Life(0, 3))

    def made() -> object:
        return TogetherEnv(lives, masks=True) if kind == "together" else InTurnEnv((0, 1), lives, mask_in_obs=True)

    envs = MultiEnvs(made, 1, name="planned", policy_of=lambda agent: "all")
    turns = envs.reset(0)
    for _ in range(9):
        masks = turns["all"].masks
        assert masks is not None
        step = envs.step({"all": masks.argmax(axis=1)})
        turns = step.turns
        if "all" in step.final_obs:
            final_obs = np.asarray(step.final_obs["all"])
            slots = np.flatnonzero(step.terminated | step.truncated)
            wanted = [
                np.ones(ACTIONS, bool) if step.terminated[slot] else allowed(int(obs[1]), int(obs[2])).astype(bool)
                for slot, obs in zip(slots, final_obs, strict=True)
            ]
            np.testing.assert_array_equal(step.final_masks["all"], wanted)
            assert not step.final_masks["all"].all()
            return
    raise AssertionError("no agent ever ended")


class Careless(PlannedEnv):
    """Allows nothing, or says nothing, where its episodes end."""

    def __init__(self, end: str, given: object) -> None:
        super().__init__((((2, end),),), masks=True)
        self.last = given

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # Any: gymnasium's
        obs, reward, over, cut, info = super().step(action)
        if over or cut:
            info = {} if self.last is None else {"action_mask": self.last}
        return obs, reward, over, cut, info


def careless(end: str, given: object, mode: AutoresetMode | None) -> LoopEnvs | VectorEnvs:
    make = partial(Careless, end, given)
    if mode is None:
        return LoopEnvs(make, 2, name="careless")
    return VectorEnvs(lambda _: SyncVectorEnv([make] * 2, autoreset_mode=mode), 2, name="careless")


@pytest.mark.parametrize("mode", [None, *MODES])
def test_a_state_with_a_value_in_which_nothing_is_allowed_is_a_sentence(mode: AutoresetMode | None) -> None:
    envs = careless("truncated", np.zeros(ACTIONS, np.int8), mode)
    envs.reset(0)
    envs.step(np.zeros(2, np.int64))
    with pytest.raises(EnvError, match=r"action_mask allows no action at all where an episode is truncated.*terminated=True"):
        envs.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("mode", [None, *MODES])
@pytest.mark.parametrize(
    ("end", "given"), [("truncated", None), ("terminated", np.zeros(ACTIONS, np.int8)), ("terminated", None)]
)
def test_where_a_mask_means_nothing_everything_is_allowed(end: str, given: object, mode: AutoresetMode | None) -> None:
    envs = careless(end, given, mode)
    envs.reset(0)
    assert envs.step(np.zeros(2, np.int64)).final_masks is None
    last = envs.step(np.zeros(2, np.int64)).final_masks
    assert last is not None
    assert last.tolist() == [[True] * ACTIONS] * 2


def test_zeros_of_a_vector_env_that_does_not_say_whether_it_gave_a_mask_may_mean_none() -> None:
    class Silent(PlannedVectorEnv):
        def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:  # Any: gymnasium's
            found = super().step(actions)
            self.given[self.done] = 0
            return found

    envs = VectorEnvs(lambda _: Silent(1, (((1, "truncated"),),), MODES[0], masks=True), 1, name="silent")
    envs.reset(0)
    last = envs.step(np.zeros(1, np.int64)).final_masks
    assert last is not None
    assert last.all()


def test_each_part_of_an_action_needs_a_choice() -> None:
    class Parts(gymnasium.Env[Array, Array]):
        observation_space, action_space = BOX, spaces.MultiDiscrete([2, 3])

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:  # Any: gymnasium's
            return np.zeros(3, np.float32), {"action_mask": [1, 0, 0, 0, 0]}

    with pytest.raises(EnvError, match="action_mask allows no action at all"):
        LoopEnvs(Parts, 1, name="parts").reset(0)


# --------------------------------------------------------------------------- through replay


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("made", [UniformBuffer, PrioritizedBuffer, ReservoirBuffer])
def test_replayed_rows_have_the_mask_of_their_next_observation(
    made: type[UniformBuffer], n_step: int, once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(successors, "ONCE_FROM", 0 if once else math.inf)
    buffer, other = (made(40, n_step=n_step, gamma=0.9, seed=5) for _ in range(2))
    worker = worker_of(q_agent())
    for _ in range(3):
        buffer.insert(worker.sample())
    other.load(buffer.state())
    for _ in range(2):
        rows, again = buffer.sample(64), other.sample(64)
        for name, column in rows.columns.items():
            np.testing.assert_array_equal(column, again[name])
        wanted = np.stack([allowed(int(obs[1]), int(obs[2])).astype(bool) for obs in rows["next_obs"]])
        counts = rows["discounts"] > 0
        np.testing.assert_array_equal(rows["next_masks"][counts], wanted[counts])
        assert counts.any()
        assert not counts.all()
        more = worker.sample()
        for each in (buffer, other):
            each.insert(more)


def test_replayed_sequences_have_masks_in_each_row_and_after_the_last() -> None:
    buffer = SequenceBuffer(40, length=4)
    buffer.insert(worker_of(q_agent()).sample())
    drawn = buffer.sample(20)
    kept = drawn["mask"]
    wanted = np.stack([allowed(int(obs[1]), int(obs[2])).astype(bool) for obs in drawn["obs"]])
    np.testing.assert_array_equal(drawn["masks"][kept], wanted[kept])
    last = [np.flatnonzero(kept[end - 3 : end + 1])[-1] + end - 3 for end in drawn.ends]
    for row, mask, obs in zip(last, drawn.finals["masks"], drawn.finals["obs"], strict=True):
        if not drawn["terminated"][row]:
            np.testing.assert_array_equal(mask, allowed(int(obs[1]), int(obs[2])).astype(bool))


# --------------------------------------------------------------------------- TD targets


def q_policies(kind: Kind, double: bool) -> tuple[DQNLoss, QPolicy, QPolicy]:
    spec = QSpec() if kind == "scalar" else QSpec(kind=kind, atoms=5, v_min=-2.0, v_max=2.0)
    loss = DQNLoss(double=double, spec=spec)
    policy, target = (make_policy(loss.policy(), MLP((8,)), BOX, spaces.Discrete(CHOICES), seed=seed) for seed in (0, 3))
    assert isinstance(policy, QPolicy)
    assert isinstance(target, QPolicy)
    return loss, policy, target


def transitions(masks: Array, seed: int = 0) -> Batch[str]:
    rng, rows = np.random.default_rng(seed), len(masks)
    obs = {name: rng.normal(size=(rows, 3)).astype(np.float32) for name in ("obs", "next_obs")}
    numbers = {"rewards": rng.normal(size=rows), "discounts": rng.choice([0.0, 0.81, 0.9], rows)}
    some = {name: column.astype(np.float32) for name, column in numbers.items()}
    return Batch({**obs, **some, "actions": rng.integers(CHOICES, size=rows), "masks": masks, "next_masks": masks})


def some_masks(rows: int, seed: int = 0) -> Array:
    masks = np.random.default_rng(seed).random((rows, CHOICES)) < 0.4
    masks[np.arange(rows), np.arange(rows) % CHOICES] = True
    return masks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("double", [True, False])
def test_td_targets_row_by_row(kind: Kind, double: bool) -> None:
    loss, policy, target = q_policies(kind, double)
    rows = transitions(some_masks(30))
    found = loss.td_targets(policy, target, Tensors.of(rows)).numpy()
    choosers = (policy if double else target).scores(rows["next_obs"])
    said = target.net(torch.from_numpy(np.array(rows["next_obs"])))[0].detach().numpy()
    differs = 0
    for row in range(30):
        choices = [action for action in range(CHOICES) if rows["next_masks"][row, action]]
        best = max(choices, key=lambda action, row=row: float(choosers[row, action]))  # type: ignore[misc]  # mypy knows no default
        differs += best != choosers[row].argmax()
        reward, discount = float(rows["rewards"][row]), float(rows["discounts"][row])
        if kind != "categorical":
            np.testing.assert_allclose(found[row], reward + discount * said[row, best], rtol=1e-5, atol=1e-6)
            continue
        wanted, chances = np.zeros(5), np.exp(said[row, best]) / np.exp(said[row, best]).sum()
        for atom, chance in zip(range(-2, 3), chances, strict=True):  # atoms are 1 apart, from -2 to 2
            place = max(-2.0, min(2.0, reward + discount * atom)) + 2
            low = min(int(place), 3)
            wanted[[low, low + 1]] += chance * (low + 1 - place), chance * (place - low)
        np.testing.assert_allclose(found[row], wanted, rtol=1e-4, atol=1e-6)
    assert differs > 5, "else masks would not matter"


def shifted(policy: QPolicy | ActorQ, layer: torch.nn.Linear, by: Array) -> None:
    """Add to the outputs of each action, through the bias of the last layer."""
    with torch.no_grad():
        width = layer.bias.numel() // CHOICES
        layer.bias.add_(torch.from_numpy(np.repeat(by, width)).to(layer.bias))


def last_layer(module: torch.nn.Module, outputs: int) -> torch.nn.Linear:
    return [each for each in module.modules() if isinstance(each, torch.nn.Linear) and each.out_features == outputs][-1]


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    double=st.booleans(),
    forbidden=st.sets(st.integers(0, CHOICES - 1), max_size=CHOICES - 1),
    shift=st.floats(-1e4, 1e4, width=32),
    seed=st.integers(0, 99),
)
def test_td_targets_do_not_depend_on_the_values_of_what_is_forbidden(
    kind: Kind, double: bool, forbidden: set[int], shift: float, seed: int
) -> None:
    loss, policy, target = q_policies(kind, double)
    masks = some_masks(12, seed)
    masks[:, list(forbidden)] = False
    masks[:, min(set(range(CHOICES)) - forbidden)] = True
    rows = Tensors.of(transitions(masks, seed))
    before = loss.td_targets(policy, target, rows).numpy()
    by = np.isin(np.arange(CHOICES), list(forbidden)) * np.float32(shift)
    for each in (policy, target):
        shifted(each, last_layer(each.net, CHOICES * (1 if kind == "scalar" else 5)), by)
    np.testing.assert_array_equal(loss.td_targets(policy, target, rows).numpy(), before)


@settings(max_examples=15, deadline=None)
@given(forbidden=st.sets(st.integers(0, CHOICES - 1), max_size=CHOICES - 1), shift=st.floats(-1e4, 1e4, width=32))
def test_soft_td_targets_are_expectations_over_what_is_allowed(forbidden: set[int], shift: float) -> None:
    loss = SACLoss(temperature=0.3, spec=ActorQSpec())
    policy, target = (make_policy(loss.policy(), MLP((8,)), BOX, spaces.Discrete(CHOICES), seed=seed) for seed in (0, 3))
    assert isinstance(policy, ActorQ)
    assert isinstance(target, ActorQ)
    mine = [action for action in range(CHOICES) if action not in forbidden]
    rows = transitions(np.tile(np.isin(np.arange(CHOICES), mine), (12, 1)))
    tensors = Tensors.of(rows)
    found = loss.td_targets(policy, target, tensors).numpy()
    obs = torch.from_numpy(np.array(rows["next_obs"]))
    with torch.no_grad():
        logits, values = policy.act_on(obs).numpy()[:, mine], target.q_values(obs).numpy().min(0)[:, mine]
    for row in range(12):
        chances = np.exp(logits[row]) / np.exp(logits[row]).sum()
        soft = float((chances * (values[row] - 0.3 * np.log(chances))).sum())
        wanted = float(rows["rewards"][row]) + float(rows["discounts"][row]) * soft
        assert found[row] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    actor = last_layer(policy.net.actor, CHOICES)
    shifted(policy, actor, np.isin(np.arange(CHOICES), list(forbidden)) * np.float32(shift))
    np.testing.assert_array_equal(loss.td_targets(policy, target, tensors).numpy(), found)


@pytest.mark.parametrize("n_step", [1, 3])
def test_workers_rate_rows_by_what_is_allowed_next(n_step: int) -> None:
    worker = worker_of(q_agent())
    weights = np.random.default_rng(1).normal(0, 0.5, len(worker.policy.flat.get())).astype(np.float32)
    worker.policy.flat.set(weights)
    rollout = worker.sample()
    rows, policy = rollout.untyped(), worker.policy
    found = ComputePriorities(n_step=n_step, gamma=0.9).apply(worker, rollout)
    following, may = rows.successors("obs")["obs"], allowed_after(rows)
    matters = 0
    for row in range(len(rows)):
        last, td_target, end = row, 0.0, int(rows.ends[np.searchsorted(rows.ends, row)])
        for last in range(row, min(row + n_step, end + 1)):
            td_target += 0.9 ** (last - row) * float(rows["rewards"][last])
        if not rows["terminated"][last]:
            scores = policy.scores(following[last][None])[0]
            matters += not may[last, scores.argmax()]
            td_target += 0.9 ** (last - row + 1) * float(scores[may[last]].max())
        value = float(policy.scores(rows["obs"][row][None])[0, int(rows["actions"][row])])
        assert float(found["priorities"][row]) == pytest.approx(abs(td_target - value) + 1e-6, rel=1e-3)
    assert matters, "else masks would not matter"


def test_values_of_final_observations_are_maxima_over_what_is_allowed() -> None:
    worker = worker_of(q_agent())
    rows = worker.sample().untyped()
    scores = worker.policy.scores(rows.finals["obs"])
    np.testing.assert_allclose(rows.finals["values"], np.where(rows.finals["masks"], scores, -np.inf).max(axis=1), rtol=1e-5)


@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_a_next_observation_in_which_nothing_is_allowed_is_a_sentence_if_it_counts(discount: float) -> None:
    rows = transitions(np.zeros((4, CHOICES), bool)).with_columns({"discounts": np.full(4, discount, np.float32)})
    sac: Any = SACLoss()  # Any: what it is given is not known to be of the right kind
    soft = [make_policy(sac.policy(), MLP((8,)), BOX, spaces.Discrete(CHOICES), seed=seed) for seed in (0, 3)]
    loss, policy, target = q_policies("scalar", True)
    tries: list[Any] = [partial(loss.td_targets, policy, target), partial(sac.td_targets, *soft)]  # Any: of two kinds
    for td_targets in tries:
        if discount:
            with pytest.raises(TflowError, match="next observation allows no action at all"):
                td_targets(Tensors.of(rows))
        else:
            np.testing.assert_array_equal(td_targets(Tensors.of(rows)).detach().numpy(), rows["rewards"])


# --------------------------------------------------------------------------- policy gradients


@pytest.mark.parametrize("model", [MLP((4,)), LSTM(4)])
def test_what_policy_gradients_evaluate_is_what_was_drawn(model: MLP | LSTM) -> None:
    """In training as in sampling: the same log-probabilities, and the entropy over what is allowed."""
    worker = worker_of(Agent(PPOLoss(), model))
    rows = worker.sample().untyped()
    policy = worker.policy
    assert isinstance(policy, ActorCritic)
    length = 6 if policy.recurrent else 0
    cut = rows.sequences(length) if length else rows
    kept = cut.untyped()["mask"] if length else np.ones(len(rows), bool)
    found = policy.evaluate(Tensors.of(cut.untyped(), length=length))
    np.testing.assert_allclose(found.logp.detach().numpy()[kept], rows["logp"], rtol=1e-4, atol=1e-5)
    most = np.log(rows["masks"].sum(axis=1))
    entropy = found.entropy.detach().numpy()[kept]
    assert (entropy <= most + 1e-5).all()
    np.testing.assert_allclose(entropy[most == 0], 0, atol=1e-6)
    assert torch.isfinite(found.entropy).all()


def test_doors() -> None:
    env = Doors(doors=3, length=2, horizon=4)
    obs, infos = env.reset(seed=1)
    rewards = []
    while infos["action_mask"][1]:
        obs, reward, *_, infos = env.step(1)
        rewards.append(float(reward))
    assert obs[0] == 0
    door = int(obs[1:].argmax())
    assert infos["action_mask"].tolist() == [1, 0, *np.eye(3, dtype=int)[door].tolist()]
    with pytest.raises(EnvError, match="action 1 is not possible here"):
        env.step(1)
    _, paid, terminated, truncated, _ = env.step(2 + door)
    assert (rewards, paid, terminated, truncated) == ([-0.2] * len(rewards), 2.0, True, False)
    env.reset()
    assert [env.step(0)[3] for _ in range(4)] == [False, False, False, True]
