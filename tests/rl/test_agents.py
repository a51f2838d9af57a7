"""Agents: contradictions are found when the plan is made, learners are only where training happens, and optimisers may treat
layers differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import tflow
from tests.laws.world import RUNTIMES, over_repeatable_runtimes, over_runtimes
from tests.rl.test_plans import ENV, SMALL
from tflow import (
    Batch,
    LearnOnBatch,
    ParallelReplay,
    ParallelRollouts,
    PlanError,
    SendWeights,
    Stop,
    StoreToBuffer,
    TrainOneStep,
    Union,
    UpdatePriorities,
    create_learner,
    create_replay_actors,
    create_rollout_workers,
    train,
)
from tflow.algos import A2C, A3C, DQN, IMPALA, PPO, Algorithm, ApeX, a2c_plan, dqn_plan, impala_plan, ppo_plan
from tflow.exploration import EpsilonGreedy
from tflow.losses import A3CLoss, DQNLoss, IMPALALoss, Loss, PPOLoss
from tflow.models import MLP, ActorCriticSpec, QSpec
from tflow.optimizers import SGD, Adam, RMSprop
from tflow.rl.data.arrays import Array
from tflow.rl.envs.samples import MultiCartPole
from tflow.rl.learning.agent import Agent, AnyAgent
from tflow.rl.learning.learner import Learner
from tflow.rl.learning.optimizers import Muon, Optimizer, Steps
from tflow.rl.learning.parts import Part
from tflow.rl.policy.exploration import ActionForm, Exploration, Explorer
from tflow.rl.policy.flat import FlatWeights, PartWeights
from tflow.rl.policy.policy_spec import PolicySpec, make_policy
from tflow.rl.policy.weights import WHOLE
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import AnyWorkers, CurrentPolicy
from tflow.types import Async

loose: Any = tflow  # Any: what checkers would reject, said at run time
TINY = MLP((8,))
FEW: dict[str, Any] = {"num_envs": 2, "model": TINY}  # Any: several kinds
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


# --------------------------------------------------------------------------- contradictions


class Nothing(Loss[Batch[str], Async]):
    """A loss that computes nothing."""

    def policy(self) -> PolicySpec:
        return QSpec()


@dataclass(frozen=True)
class Actor(A3CLoss):
    """A loss of a part."""

    def parts(self) -> Mapping[str, Part]:
        return {"actor": Part()}


def sync(workers: Any) -> Any:  # Any: rollouts of workers with whatever loss
    return ParallelRollouts(workers).gather_sync()


def made_with(loss: Loss[Any, Any], **options: Any) -> Any:  # Any: whatever they read
    return create_rollout_workers(env="CartPole-v1", loss=loss, **options)


def flow_on(flow: Callable[..., object], workers: AnyWorkers, *config: Algorithm) -> object:
    return flow(sync(workers), workers, *config)


def of(config: Any) -> AnyWorkers:  # Any: each has a loss of its own kind
    found: AnyWorkers = config.workers(config.loss())
    return found


def pair_of(agents: dict[str, AnyAgent]) -> AnyWorkers:
    return create_rollout_workers(env=MultiCartPole, agents=agents, policy_of=str)


AGENT: AnyAgent = Agent(A3CLoss())
CONTRADICTIONS: list[tuple[Callable[[], object], str]] = [
    (lambda: flow_on(dqn_plan, of(DQN()), DQN(kind="categorical")), r"dqn_plan: .*spec=QSpec\(kind='categorical'\).*'scalar'"),
    (lambda: flow_on(ppo_plan, of(PPO()), PPO(lr=1e-5)), r"optimizer=Adam\(lr=1e-05\) and optimizer=Adam\(lr=0.001\)"),
    (lambda: flow_on(ppo_plan, of(PPO()), PPO(clip=0.3)), r"loss=PPOLoss\(clip=0.3\) and loss=PPOLoss\(clip=0.2\)"),
    (lambda: flow_on(ppo_plan, of(PPO()), PPO(max_grad_norm=9.0)), "max_grad_norm=9.0 and max_grad_norm=0.5"),
    (lambda: flow_on(ppo_plan, of(PPO()), PPO(model=TINY)), r"model=MLP\(.*\) and model='auto'"),
    (lambda: flow_on(dqn_plan, of(DQN(epsilon=0.5)), DQN(epsilon=0.1)), r"EpsilonGreedy\(epsilon=0.1\) .*epsilon=0.5"),
    (lambda: flow_on(a2c_plan, made_with(PPOLoss())), "a2c_plan: workers train PPOLoss, but it needs A3CLoss"),
    (lambda: flow_on(a2c_plan, made_with(PPOLoss()), A2C()), "a2c_plan: the configuration and the agent of workers contradict"),
    (lambda: flow_on(impala_plan, made_with(PPOLoss())), "impala_plan: workers train PPOLoss, but it needs IMPALALoss"),
    (lambda: loose.algos.ppo_plan(None, 3), "ppo_plan: workers must be what create_rollout_workers returns"),
    (
        lambda: flow_on(ppo_plan, pair_of({"one": Agent(A3CLoss()), "two": PPO(lr=1e-5).agent()}), PPO()),
        "the agent of 'two' of workers contradict each other: optimizer=",
    ),
    (lambda: TrainOneStep(made_with(A3CLoss()), loss=DQNLoss()), r"DQNLoss trains QSpec\(.*Describe the agent once"),
    (lambda: TrainOneStep(made_with(A3CLoss()), loss=A3CLoss(spec=ActorCriticSpec(shared=True))), "trains ActorCriticSpec"),
    (lambda: TrainOneStep(made_with(A3CLoss()), loss=Actor()), "with the parts {'actor': Part"),
    (lambda: TrainOneStep(made_with(DQNLoss()), loss=DQNLoss(target_every=7)), "with the parts"),
    (lambda: loose.TrainOneStep(made_with(A3CLoss()), loss=3), "loss must be a loss such as PPOLoss"),
    (lambda: loose.create_rollout_workers(env=ENV, agent=AGENT, model=TINY), "model= and agents contradict each other"),
    (
        lambda: loose.create_rollout_workers(env=ENV, agents={"a": AGENT}, policy_of=str, max_grad_norm=1.0, optimizer=SGD()),
        "optimizer= and max_grad_norm= and agents contradict each other",
    ),
    (lambda: loose.create_rollout_workers(env=ENV, agent=AGENT, loss=A3CLoss()), "give one of loss= and agent="),
    (lambda: loose.create_rollout_workers(env=ENV, agent=A3CLoss()), "the agent of 'default' must be an Agent"),
    (lambda: loose.create_rollout_workers(env=ENV, agents={"a": AGENT}), "agents= and policy_of= belong together"),
    (lambda: loose.create_rollout_workers(env=ENV, agents={}, policy_of=str), "agents= is empty"),
    (lambda: create_rollout_workers(env=ENV, loss=A3CLoss(), max_grad_norm=0.0), "create_rollout_workers: max_grad_norm must be"),
    (lambda: Agent(A3CLoss(), optimizer={"critic": Adam()}), "Agent: each part in optimizer must be '.*', got 'critic'"),
    (lambda: Agent(Actor(), optimizer={WHOLE: Adam()}), "each part in optimizer must be 'actor', got"),
    (lambda: Agent(A3CLoss(), max_grad_norm={"critic": 1.0}), "each part in max_grad_norm must be '.*', got 'critic'"),
    (lambda: Agent(A3CLoss(), max_grad_norm={WHOLE: -1.0}), "max_grad_norm must be finite and above 0, got -1.0"),
    (lambda: Agent(Nothing()), "Agent: Nothing must define compute, or losses if it has several parts"),
    (lambda: create_rollout_workers(env=ENV, loss=Nothing()), "create_rollout_workers: Nothing must define compute"),
    (lambda: Agent(A3CLoss(), exploration=EpsilonGreedy(0.1)), "Agent: EpsilonGreedy is for off-policy learning"),
    (lambda: Adam(decays="biases"), "Adam: decays must be 'all' or 'matrices', got 'biases'"),  # type: ignore[arg-type]  # at run time
]


@pytest.mark.parametrize(("make", "message"), CONTRADICTIONS, ids=[message for _, message in CONTRADICTIONS])
def test_contradictions_are_found_when_the_plan_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make()


def test_a_part_that_the_policy_does_not_have_is_named() -> None:
    policy = make_policy(ActorCriticSpec(), TINY, BOX, spaces.Discrete(2))
    with pytest.raises(PlanError, match=r"Actor trains the part 'actor', but .* has the parts"):
        Learner(policy, Actor(), Adam())


def test_without_a_configuration_a_sub_flow_takes_the_agent_of_the_workers() -> None:
    """Which loss that is can be seen from what it reports."""
    config = A2C(entropy_coef=10.0, fragment=8, **FEW)
    workers = config.workers(config.loss())
    stats = a2c_plan(sync(workers), workers)
    found = train(tflow.ReportMetrics(stats, workers), stop=Stop(updates=1)).finish().training.latest
    rest = found["loss"] - found["policy_loss"] - 0.5 * found["value_loss"]
    assert rest == pytest.approx(-10.0 * found["entropy"], rel=1e-3)


class Odd:
    """An exploration strategy that says nothing of equality; each is made anew."""

    def __init__(self, chance: float) -> None:
        self.chance = chance

    def start(self, num_envs: int, form: ActionForm, *, shard_index: int = 0, shard_count: int = 1) -> Explorer:
        return Explorer()


@dataclass(frozen=True, kw_only=True)
class OddDQN(DQN):
    chance: float = 0.5

    def exploration(self) -> Exploration:
        return Odd(self.chance)


def test_what_has_no_equality_is_compared_by_what_it_holds() -> None:
    config = OddDQN(learning_starts=20, batch=8, **FEW)
    assert config.run(stop=Stop(updates=2)).finish().training.updates == 2
    with pytest.raises(PlanError, match=r"exploration=<.*Odd.* and exploration=<.*Odd"):
        flow_on(dqn_plan, of(config), OddDQN(chance=0.4, learning_starts=20, batch=8, **FEW))


# --------------------------------------------------------------------------- where learners are

ELSEWHERE: dict[str, Algorithm] = {
    "ApeX": ApeX(learning_starts=40, batch=8, capacity=200, update_ratio=0.5, **FEW),
    "IMPALA": IMPALA(fragment=8, **FEW),
}


class Counted:
    """Counts the learners that are made, and notes the weights that the driver is sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.learners = 0
        self.received: list[Array] = []
        make, receive = Learner.__init__, CurrentPolicy.receive

        def counted(learner: Learner, *given: Any, **options: Any) -> None:  # Any: passed on
            self.learners += 1
            make(learner, *given, **options)

        def noted(current: CurrentPolicy, weights: Array) -> None:
            self.received.append(weights)
            receive(current, weights)

        monkeypatch.setattr(Learner, "__init__", counted)
        monkeypatch.setattr(CurrentPolicy, "receive", noted)


@over_runtimes
@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_a_driver_that_does_not_train_has_no_learner(name: str, runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    with RUNTIMES[runtime]() as session, train(ELSEWHERE[name].plan(), runtime=session) as run:
        (before,) = run.run.ask(run.workers.learner, CurrentPolicy.get_weights)
        for _ in range(12):
            next(run)
        assert len(counted.received) > 1
        policy = run.policy()
        np.testing.assert_array_equal(policy.flat.get(), counted.received[-1])
        assert (policy.flat.get() != before).any(), "otherwise nothing was learned"
        (weights,) = run.run.ask(run.workers.learner, CurrentPolicy.get_weights)
        np.testing.assert_array_equal(weights, counted.received[-1])
        for held in run.run.ask(run.workers, weights_of):
            np.testing.assert_array_equal(held, counted.received[-1])
        assert run.run.ask(run.workers.learner, trained_here) == [False]
    assert counted.learners == (0 if runtime == "ray" else 1), "one in the actor, none in the driver and in workers"


def trained_here(current: CurrentPolicy) -> bool:
    return current.trained_here


def weights_of(worker: RolloutWorker) -> Array:
    return worker.policies["default"].flat.get()


@over_repeatable_runtimes
def test_workers_compute_gradients_without_a_learner(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    with RUNTIMES[runtime]() as session, train(A3C(fragment=8, **FEW).plan(), runtime=session) as run:
        for _ in range(4):
            next(run)
        assert run.run.ask(run.workers.learner, trained_here) == [True]
    assert (counted.learners, counted.received) == (1, []), "that of the driver"


@over_repeatable_runtimes
def test_a_learner_in_the_driver_has_the_weights_of_the_one_that_trains_elsewhere(runtime: str) -> None:
    """``UpdatePriorities`` computes TD errors in the driver, with a learner that nobody trains there."""
    workers = create_rollout_workers(env=ENV, loss=DQNLoss(), exploration=EpsilonGreedy(1.0), **SMALL)
    replay = create_replay_actors(capacity=200, batch=8, min_size=20)
    learner = create_learner(workers)
    store = ParallelRollouts(workers).gather_sync().for_each(StoreToBuffer(replay))
    rated = ParallelReplay(replay).gather_sync().for_each(UpdatePriorities(workers))
    trained = rated.call(learner, LearnOnBatch()).for_each(SendWeights(workers, learner))
    with RUNTIMES[runtime]() as session, Union(store.drain(), trained).run(runtime=session) as run:
        for _ in range(4):
            next(run)
            (there,) = run.ask(learner, sent_by)
            np.testing.assert_array_equal(run.ask(workers.learner, CurrentPolicy.get_weights)[0], there)
            np.testing.assert_array_equal(run.ask(workers.learner, held_here)[0], there)
            np.testing.assert_array_equal(workers.policy(run).flat.get(), there)


def sent_by(learner: Learner) -> Array:
    return learner.weights


def held_here(current: CurrentPolicy) -> Array:
    return current.learner.policy.flat.get()


def test_a_learner_that_is_made_late_begins_with_the_weights_that_were_received() -> None:
    with train(ELSEWHERE["IMPALA"].plan()) as run:
        for _ in range(5):
            next(run)
        (weights,) = run.run.ask(run.workers.learner, CurrentPolicy.get_weights)
        np.testing.assert_array_equal(run.run.ask(run.workers.learner, held_here)[0], weights)
        np.testing.assert_array_equal(run.policy().flat.get(), weights)


def test_a_message_is_one_object_until_the_weights_change() -> None:
    workers = create_rollout_workers(env=ENV, loss=IMPALALoss(), **SMALL)
    current = workers.learner.make(tflow.Shard("x", 0, 1, 0, 0))
    first = current.message(3)
    assert current.message(4) is first
    current.receive(first.values + 1)
    second = current.message(5)
    np.testing.assert_array_equal(second.values, first.values + 1)
    assert second.env_steps == 5
    assert current.learner.apply(np.ones(current.learner.policy.flat.trainable, np.float32))
    assert (current.message(6).values != second.values).any()


# --------------------------------------------------------------------------- optimisers by layer


@dataclass(frozen=True)
class SlowBiases(Optimizer):
    """Adam of torch's, with groups of parameters of one's own."""

    scale: float = 0.1

    def build(self, parameters: list[torch.nn.Parameter]) -> Steps:
        raise NotImplementedError

    def build_for(self, part: PartWeights) -> Steps:
        biases = [each for name, each in part.named.items() if name.endswith("bias")]
        others = [each for name, each in part.named.items() if not name.endswith("bias")]
        groups: list[dict[str, Any]] = [{"params": others}, {"params": biases, "lr_scale": self.scale}]  # Any: as torch has it
        return torch.optim.Adam(groups, lr=1.0)


BY_LAYER: dict[str, Optimizer] = {
    "Muon": Muon(lr=0.02),
    "Muon that decays": Muon(lr=0.02, weight_decay=0.1),
    "Adam": Adam(lr=0.01),
    "Adam that decays": Adam(lr=0.01, weight_decay=0.1),
    "matrices decay": Adam(lr=0.01, weight_decay=0.1, decays="matrices"),
    "groups": SlowBiases(lr=0.01),
    "RMSprop": RMSprop(lr=0.01, momentum=0.5),
    "SGD": SGD(lr=0.05, momentum=0.5),
}


def made(optimizer: Optimizer, loss: Loss[Any, Any] | None = None, seed: int = 1) -> Learner:  # Any: whatever it reads
    chosen = loss or A3CLoss(entropy_coef=0.0)
    return Learner(make_policy(chosen.policy(), TINY, BOX, spaces.Discrete(2), seed=seed), chosen, optimizer, seed=seed)


def rollout(rows: int = 64, seed: int = 0) -> Batch[Any]:  # Any: all columns that a loss may want
    """Steps in which the action 1 pays if the first number is positive, else 0; each is an episode of its own."""
    rng = np.random.default_rng(seed)
    obs = rng.uniform(-1, 1, (rows, 3)).astype(np.float32)
    actions = rng.integers(2, size=rows)
    columns: dict[str, Array] = {
        "obs": obs,
        "actions": actions,
        "rewards": np.where((obs[:, 0] > 0) == (actions == 1), 1.0, -1.0).astype(np.float32),
        "terminated": np.ones(rows, bool),
        "truncated": np.zeros(rows, bool),
        "values": np.zeros(rows, np.float32),
        "logp": np.full(rows, np.log(0.5), np.float32),
        "next_obs": obs,
        "discounts": np.zeros(rows, np.float32),
        "weights": np.ones(rows, np.float32),
        "ids": np.arange(rows),
    }
    return Batch(columns, ends=np.arange(rows), finals={"obs": obs, "values": np.zeros(rows, np.float32)})


@pytest.mark.parametrize("loss", [A3CLoss(entropy_coef=0.0), DQNLoss(target_every=5)], ids=["A3CLoss", "DQNLoss"])
@pytest.mark.parametrize("name", BY_LAYER)
def test_optimisers_train_a_small_policy(name: str, loss: Loss[Any, Any]) -> None:  # Any: whatever it reads
    learner = made(BY_LAYER[name], loss)
    losses = [learner.train(rollout(256, seed=seed)).stats["loss"] for seed in range(150)]
    assert losses[-1] < losses[0] - 0.2
    obs = rollout(256, seed=99)["obs"]
    right = np.array([int(learner.policy.act(each)) for each in obs]) == (obs[:, 0] > 0)
    assert right.mean() > 0.9


def layers(learner: Learner) -> dict[str, Array]:
    return {name: each.detach().numpy().copy() for name, each in learner.policy.module.named_parameters()}


def test_layers_are_the_flat_memory() -> None:
    """What an optimiser does to a layer is done to the weights that are sent, and to the parameters of the module."""
    learner = made(SGD())
    named = learner.parts[WHOLE].weights.named
    assert list(named) == [name for name, _ in learner.policy.module.named_parameters()]
    before = learner.policy.flat.get()
    with torch.no_grad():
        next(iter(named.values())).add_(1)
    assert (learner.policy.flat.get() != before).sum() == next(iter(named.values())).numel()


def test_only_matrices_decay_if_only_they_shall() -> None:
    """Beside Adam that does not decay, and beside one that decays all: biases are those of the first bit for bit, matrices those
    of the second."""
    plain, whole, some = (made(BY_LAYER[name]) for name in ("Adam", "Adam that decays", "matrices decay"))
    rng = np.random.default_rng(3)
    for _ in range(5):
        gradient = rng.normal(size=plain.policy.flat.trainable).astype(np.float32)
        for learner in (plain, whole, some):
            assert learner.apply(gradient)
    none, every, found = (layers(learner) for learner in (plain, whole, some))
    biases = [name for name in found if name.endswith("bias")]
    assert 0 < len(biases) < len(found)
    for name, weights in found.items():
        if name in biases:
            np.testing.assert_array_equal(weights, none[name], err_msg=name)
            assert (weights != every[name]).any(), name
        else:
            np.testing.assert_allclose(weights, every[name], rtol=1e-5, atol=1e-7, err_msg=name)
            assert (weights != none[name]).any(), name


class Backwards(torch.nn.Module):
    """What acts comes last in the module, and so first in the flat memory."""

    def __init__(self) -> None:
        super().__init__()
        self.critic, self.actor = torch.nn.Linear(3, 5), torch.nn.Linear(3, 2)


def test_layers_of_all_parts_are_in_the_order_of_the_flat_memory() -> None:
    module = Backwards()
    flat = FlatWeights(module, {"critic": ["critic"], "actor": ["actor"]}, acting=["actor"])
    assert list(flat.whole.named) == ["actor.weight", "actor.bias", "critic.weight", "critic.bias"]
    before = {name: each.detach().clone() for name, each in flat.whole.named.items()}
    optimizer = Adam(lr=0.1, weight_decay=0.5, decays="matrices").build_for(flat.whole)
    flat.gradient.zero_()
    optimizer.step()
    for name, each in module.named_parameters():
        wanted = before[name] * (0.95 if name.endswith("weight") else 1.0)
        torch.testing.assert_close(each.detach(), wanted, msg=name)


def test_a_group_has_the_learning_rate_times_its_scale() -> None:
    """The first step of Adam is as long as the learning rate, whatever the gradient."""
    learner = made(SlowBiases(lr=tflow.schedules.Linear(0.02, 0.0, steps=100), scale=0.25))
    before = layers(learner)
    learner.apply(np.ones(learner.policy.flat.trainable, np.float32), steps=50)
    for name, weights in layers(learner).items():
        rate = 0.01 * (0.25 if name.endswith("bias") else 1.0)
        np.testing.assert_allclose(before[name] - weights, rate, rtol=1e-3, err_msg=name)


def test_muon_takes_steps_of_full_rank() -> None:
    """All directions of a matrix move about alike, however lopsided the gradient; biases move as with Adam."""
    learner = made(Muon(lr=0.01, adam_share=0.5))
    before = layers(learner)
    learner.apply(np.random.default_rng(0).normal(size=learner.policy.flat.trainable).astype(np.float32) ** 3)
    for name, weights in layers(learner).items():
        moved = before[name] - weights
        if moved.ndim == 2:
            sizes = np.linalg.svd(moved, compute_uv=False)
            assert sizes.max() < 3 * sizes.min(), name
        else:
            np.testing.assert_allclose(np.abs(moved), 0.005, rtol=0.05, err_msg=name)


@pytest.mark.parametrize("loss", [A3CLoss(), DQNLoss(target_every=3)], ids=["A3CLoss", "DQNLoss"])
@pytest.mark.parametrize("minibatch", [None, 16])
@pytest.mark.parametrize("name", BY_LAYER)
def test_a_learner_continues_bit_for_bit(name: str, minibatch: int | None, loss: Loss[Any, Any]) -> None:  # Any: as above
    def learned(learner: Learner, seeds: range) -> list[float]:
        return [learner.train(rollout(seed=seed), minibatch=minibatch, epochs=2).stats["loss"] for seed in seeds]

    through = made(BY_LAYER[name], loss)
    learned(through, range(4))
    state = through.state()
    wanted = learned(through, range(4, 8))
    later = made(BY_LAYER[name], loss, seed=2)
    learned(later, range(2))  # of another life
    later.load(state)
    assert learned(later, range(4, 8)) == wanted
    np.testing.assert_array_equal(later.policy.flat.get(), through.policy.flat.get())
    assert (later.updates, later.trained, later.target_updated_at) == (
        through.updates,
        through.trained,
        through.target_updated_at,
    )
    if through.target is not None and later.target is not None:
        np.testing.assert_array_equal(later.target.flat.get(), through.target.flat.get())
    again = made(BY_LAYER[name], loss, seed=3)
    again.load(state)
    assert learned(again, range(4, 8)) == wanted, "a state can be loaded more than once: training leaves it alone"
