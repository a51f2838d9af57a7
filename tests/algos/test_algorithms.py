"""What every algorithm promises: a documented, frozen configuration whose plan runs everywhere, and whose fields count."""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflow
from tests.laws.world import RUNTIMES, dice, over_repeatable_runtimes, product, ray_session
from tflow import (
    Metrics,
    ParallelEvaluations,
    ParallelRollouts,
    Plan,
    PlanError,
    Policy,
    ReportMetrics,
    Select,
    Stop,
    TrainOneStep,
    Union,
    create_evaluation_workers,
    from_range,
    train,
)
from tflow.actors import Actor, ReplayActors
from tflow.algos import (
    A2C,
    A3C,
    APPO,
    DDPG,
    DDPPO,
    DQN,
    IMPALA,
    MAML,
    PG,
    PPO,
    PPODQN,
    PQN,
    R2D2,
    RND,
    RNNSAC,
    SAC,
    TD3,
    TQC,
    Algorithm,
    ApeX,
    ApeXDDPG,
    ApeXSAC,
    ApeXTD3,
    CrossQ,
    Rainbow,
    SimpleQ,
    SinglePolicy,
    create_multi_workers,
    impala_plan,
    ppo_plan,
)
from tflow.algos.fields import fields_of
from tflow.combinators import graph
from tflow.combinators.graph import actors_in
from tflow.data import Episodes
from tflow.errors import NoHealthyShards, ShardFailed
from tflow.exploration import EpsilonGreedy
from tflow.models import LSTM, MLP, GTrXL
from tflow.rl.envs.samples import MultiCartPole
from tflow.rl.policy.policy import QPolicy
from tflow.rl.policy.weights import WHOLE
from tflow.rl.schedules import Linear, Schedule, schedule_of
from tflow.runtime.base import Call
from tflow.runtime.local import LocalRuntime
from tflow.runtime.refs import carriers
from tflow.runtime.sim import Faults, SimRuntime

loose: Any = tflow  # Any: what checkers would reject, said at run time
TINY = MLP((8,))
FEW: dict[str, Any] = {"num_envs": 2, "model": TINY}  # Any: several kinds
REPLAYED: dict[str, Any] = {"learning_starts": 50, "batch": 8, "capacity": 200, "update_ratio": 0.5, **FEW}  # Any: as above
SEQUENCES: dict[str, Any] = {
    "fragment": 12, "length": 8, "burn_in": 4, **REPLAYED, "batch": 3, "num_envs": 2, "model": LSTM(4, TINY),
}  # fmt: skip  # Any: as above
PAIR: dict[str, Any] = {
    "ppo": PPO(epochs=2, minibatch=16, model=TINY),
    "dqn": DQN(learning_starts=50, batch=8, model=TINY),
}  # Any: as above
SMALL: dict[str, Algorithm] = {
    "A3C": A3C(fragment=8, **FEW),
    "A2C": A2C(fragment=8, **FEW),
    "PPO": PPO(fragment=16, epochs=2, minibatch=16, **FEW),
    "DDPPO": DDPPO(fragment=16, epochs=2, minibatch=16, num_workers=3, **FEW),
    "RND": RND(fragment=16, epochs=2, minibatch=16, width=8, features=4, **FEW),
    "DQN": DQN(learning_starts=50, batch=8, capacity=200, update_ratio=0.25, **FEW),
    "ApeX": ApeX(learning_starts=50, batch=8, capacity=200, update_ratio=0.25, **FEW),
    "SAC": SAC(fragment=2, **REPLAYED),
    "TQC": TQC(fragment=2, quantiles=5, **REPLAYED),
    "CrossQ": CrossQ(fragment=2, **REPLAYED),
    "TD3": TD3(fragment=2, **REPLAYED),
    "DDPG": DDPG(fragment=2, ou_noise=True, **REPLAYED),
    "ApeXDDPG": ApeXDDPG(**REPLAYED),
    "ApeXTD3": ApeXTD3(**REPLAYED),
    "ApeXSAC": ApeXSAC(**REPLAYED),
    "IMPALA": IMPALA(fragment=8, replay_proportion=0.5, **FEW),
    "APPO": APPO(fragment=8, **FEW),
    "PG": PG(fragment=8, **FEW),
    "PQN": PQN(fragment=8, epochs=2, minibatch=16, **FEW),
    "SimpleQ": SimpleQ(learning_starts=50, batch=8, capacity=200, update_ratio=0.25, **FEW),
    "Rainbow": Rainbow(learning_starts=50, batch=8, capacity=200, update_ratio=0.25, **FEW),
    "R2D2": R2D2(**SEQUENCES),
    "RNNSAC": RNNSAC(**SEQUENCES),
    "MAML": MAML(fragment=20, tasks=2, epochs=2, **FEW),
    "PPODQN": PPODQN(fragment=16, num_envs=2, ppo_batch=32, **PAIR),
}
KINDS = [type(each) for each in SMALL.values()]


FRAGILE = {"DDPPO", "IMPALA", "APPO", "ApeX", "ApeXDDPG", "ApeXTD3", "ApeXSAC"}
"""Algorithms that learn in actors: what one has learned dies with it."""


def reported(algorithm: Algorithm, count: int, runtime: str = "local", seed: int = 0) -> list[Metrics]:
    """The first metrics of a run."""
    with RUNTIMES[runtime]() as session, algorithm.run(runtime=session, seed=seed) as run:
        return [next(run) for _ in range(count)]


# --------------------------------------------------------------------------- files and fields


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_documented_and_has_a_usual_value(kind: type[Algorithm]) -> None:
    assert [each.name for each in fields_of(kind) if not each.meaning.endswith(".")] == []
    assert len(fields_of(kind)) == len(fields(kind))
    assert kind() == kind()
    with pytest.raises(FrozenInstanceError):
        kind().num_envs = 1  # type: ignore[misc]  # that is the point


@pytest.mark.parametrize("kind", KINDS)
def test_fields_take_numbers_and_flags_only_where_they_say_so(kind: type[Algorithm]) -> None:
    wrong: dict[str, tuple[Any, ...]] = {  # Any: what checkers would reject
        "bool": ("yes", 1, None), "int": ("3", 3.5, True, None), "float": ("0.5", math.nan, True, None),
        "float | Schedule": ("fast", math.nan, None), "int | None": ("3", 3.5), "float | None": ("0.5", math.nan),
    }  # fmt: skip
    found = [(each.name, value) for each in fields(kind) for value in wrong.get(str(each.type), ())]
    assert len(found) > 10
    for name, value in found:
        with pytest.raises(PlanError, match=f"^{kind.__name__}: {name}"):
            kind(**{name: value})


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_one_algorithm_and_cites_its_paper(kind: type[Algorithm]) -> None:
    tree = ast.parse(Path(inspect.getfile(kind)).read_text())
    assert "arXiv" in (ast.get_docstring(tree) or "")
    assert [node.name for node in tree.body if isinstance(node, ast.ClassDef)] == [kind.__name__]
    flows = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.endswith("_plan")]
    borrows = kind in (ApeXDDPG, ApeXTD3, ApeXSAC, Rainbow, SimpleQ)  # the sub-flow of Ape-X or DQN
    wanted = [] if borrows else [f"{Path(inspect.getfile(kind)).stem}_plan"]
    assert flows == wanted
    assert set(flows) <= set(dir(tflow.algos))


def test_algorithms_are_nothing_but_plans() -> None:
    for kind in KINDS:
        for node in ast.walk(ast.parse(Path(inspect.getfile(kind)).read_text())):
            assert not isinstance(node, (ast.For, ast.While, ast.Try, ast.With)), f"{kind.__name__}, line {node.lineno}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PPO(num_envs=0), "PPO: num_envs must be at least 1, got 0"),
        (lambda: A2C(gamma=2), "A2C: gamma must be from 0 to 1, got 2"),
        (lambda: ApeX(max_grad_norm=-1), "ApeX: max_grad_norm must be finite and above 0, got -1"),
        (lambda: PPO(clip=0).plan(), "PPOLoss: clip must be finite and above 0, got 0"),
        (lambda: PPO(max_kl=-1).plan(), "PPOLoss: max_kl must be finite and above 0, got -1"),
        (lambda: PPO(kl_coef=-1).plan(), "PPOLoss: kl_coef must be finite and at least 0, got -1"),
        (lambda: PPO(lr=0).plan(), "Adam: lr must be finite and above 0, got 0"),
        (lambda: PPO(entropy_coef=-0.01).plan(), "PPOLoss: entropy_coef must be finite and at least 0, got -0.01"),
        (lambda: A2C(value_coef=math.inf).plan(), "A3CLoss: value_coef must be finite and at least 0, got inf"),
        (lambda: APPO(value_coef=-1).plan(), "APPOLoss: value_coef must be finite and at least 0, got -1"),
        (lambda: CrossQ(beta1=1.0).plan(), "Adam: each of betas must be from 0 to below 1, got 1.0"),
        (lambda: SAC(target_entropy=math.nan).plan(), "SACLoss: target_entropy must be a number, or 'auto'; got nan"),
        (lambda: PQN(num_envs=2, fragment=8, minibatch=100), "PQN: minibatch is 100, but a batch has 2 x 2 x 8 = 32 rows"),
        (lambda: DDPPO(num_envs=2, fragment=8, minibatch=100), "DDPPO: minibatch is 100, but a batch has 2 x 2 x 8 = 32 rows"),
        (lambda: PPODQN(ppo=PPO(minibatch=600)), "PPODQN: the minibatch of ppo is 600, but ppo_batch is 512. Make"),
        (lambda: DQN(kind="normal").plan(), "QSpec: kind must be 'scalar' or 'categorical' or 'quantile'"),  # type: ignore[arg-type]  # said at run time
        (lambda: DQN(epsilon=2).plan(), "EpsilonGreedy: epsilon is a probability, at most 1, got 2"),
        (lambda: DQN(target_every=0).plan(), "DQNLoss: target_every must be at least 1, got 0"),
        (lambda: IMPALA(clip_rho=0).plan(), "IMPALALoss: clip_rho must be finite and above 0, got 0"),
        (lambda: IMPALA(mailbox=0).plan(), "hand_off: mailbox must be at least 1, got 0"),
        (lambda: ApeX(weights_every=0).plan(), "LearnOnBatch: weights_every must be at least 1, got 0"),
        (lambda: MAML(inner_steps=0).plan(), "MAMLLoss: inner_steps must be at least 1, got 0"),
        (lambda: Stop(env_steps=0), "Stop: env_steps must be at least 1, got 0"),
        (lambda: Stop(episodes=1000), "Stop: episodes must be at most 100, got 1000"),
        (lambda: Stop(seconds=0), "Stop: seconds must be finite and above 0"),
        (lambda: loose.Stop(mean_return="high"), "Stop: mean_return must be a number, got 'high'"),
        (lambda: DQN(model=LSTM(8)), "DQN: it does not train recurrent networks; got LSTM"),
        (lambda: MAML(model=GTrXL()), "MAML: it does not train recurrent networks"),
        (lambda: R2D2(length=200), "R2D2: length must be at most 100, got 200. Make fragment= longer."),
        (lambda: RNNSAC(burn_in=40), "RNNSAC: burn_in must be at most 39, got 40. Make length= longer."),
        (lambda: R2D2(eta=2), "R2D2: eta must be from 0 to 1, got 2"),
        (lambda: R2D2(rescale=0).plan(), "R2D2Loss: rescale must be finite and above 0, got 0"),
        (lambda: PPO(device="gpu"), "PPO: device must be one of torch's"),
        (
            lambda: loose.algos.create_multi_workers({"a": 3}, env=MultiCartPole, policy_of=str),
            "each algorithm must be a config",
        ),
        (lambda: loose.algos.create_multi_workers(3, env=MultiCartPole, policy_of=str), "algorithms must be one configuration"),
        (lambda: TrainOneStep(MAML().workers(MAML().loss()), minibatch=8), "MAMLLoss needs whole batches"),
        (lambda: unevaluated(), "nobody sends weights to workers.evaluation, so the initial weights would be evaluated for ever"),
        (lambda: loose.train(3), "train: plan must be a plan, such as"),
        (lambda: loose.train(PPO().plan(), stop=3), r"train: stop must be a Stop such as Stop\(env_steps=100_000\)"),
        (lambda: loose.train(loose.Plan(from_range(3).node)), "the plan does not end in ReportMetrics"),
    ],
)
def test_sentences(make: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make()


def unevaluated() -> Plan[Metrics]:
    workers = A2C().workers(A2C().loss())
    evaluations = ParallelEvaluations(create_evaluation_workers(workers, every=10)).gather_sync()
    return ReportMetrics(Union(evaluations, ParallelRollouts(workers).gather_sync()), workers)


# --------------------------------------------------------------------------- they run


@product(SMALL, on_ray=("PPO",))
def test_they_run_and_learn_something_on_every_runtime(name: str, runtime: str) -> None:
    with RUNTIMES[runtime]() as session, SMALL[name].run(runtime=session) as run:
        before = {policy: run.policy(policy, untrained=True).flat.get() for policy in run.workers.learners}
        next(run)
        found = [next(run) for _ in range(60 if name in ("DQN", "SimpleQ", "Rainbow", "ApeX", "PPODQN") else 4)]
        after = {policy: run.policy(policy).flat.get() for policy in before}
    last = found[-1]
    assert last.training.updates > 0
    assert last.training.skipped == 0
    assert [each.env_steps for each in found] == sorted(each.env_steps for each in found)
    for policy, weights in after.items():
        assert np.isfinite(weights).all()
        assert (weights != before[policy]).any(), "nothing was learned"


@product(SMALL, RUNTIMES.keys() - {"ray"})
def test_same_seed_same_run(name: str, runtime: str) -> None:
    def numbers(seed: int) -> list[tuple[int, float, Mapping[str, float]]]:
        found = reported(SMALL[name], 12, runtime, seed)
        return [(each.env_steps, each.training.rows, each.training.latest) for each in found]

    assert numbers(3) == numbers(3)
    assert numbers(3) != numbers(4)


def test_which_plans_are_deterministic() -> None:
    found = {name for name, algorithm in SMALL.items() if algorithm.plan().deterministic}
    assert found == {
        "A2C",
        "PG",
        "PPO",
        "RND",
        "PQN",
        "DQN",
        "SimpleQ",
        "Rainbow",
        "MAML",
        "PPODQN",
        "SAC",
        "TQC",
        "CrossQ",
        "TD3",
        "DDPG",
        "R2D2",
        "RNNSAC",
    }


DETERMINISTIC = sorted(name for name, algorithm in SMALL.items() if algorithm.plan().deterministic)


def learned_on(name: str, runtime: str) -> list[object]:
    """What a run has shown and learned: env steps, updates, losses, returns, and every weight to the last bit."""
    count = 60 if name in ("DQN", "SimpleQ", "Rainbow", "PPODQN", "R2D2", "RNNSAC") else 8
    with RUNTIMES[runtime]() as session, SMALL[name].run(runtime=session, seed=3) as run:
        found = [next(run) for _ in range(count)]
        weights = {policy: run.policy(policy).flat.get().tobytes() for policy in run.workers.learners}
    assert found[-1].training.updates > 0
    told = [(each.env_steps, each.training.updates, dict(each.training.latest), each.mean_return) for each in found]
    return [repr(told), weights]


ALWAYS = {"A2C", "PPO", "DQN", "SAC"}
"""One of each kind of plan; the others are compared in ``make test-full``."""


@pytest.mark.parametrize("runtime", ["sim, any order"])
@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.full) for name in DETERMINISTIC]
)
def test_a_deterministic_plan_learns_the_same_on_every_runtime_bit_for_bit(name: str, runtime: str) -> None:
    assert learned_on(name, runtime) == learned_on(name, "local")


@pytest.mark.ray
@pytest.mark.parametrize("name", ["A2C", "DQN", "PPO"])
def test_on_ray_it_learns_the_same_bit_for_bit(name: str) -> None:
    assert learned_on(name, "ray") == learned_on(name, "local")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SMALL)
def test_where_actors_die_it_goes_on_or_says_which(name: str, seed: int) -> None:
    found, finite, ended = list[Metrics](), False, ""
    with SimRuntime(dice(seed), Faults(dies_before=1, dies_after=1, calm=6)) as session:
        try:
            with SMALL[name].run(runtime=session) as run:
                found += [next(run) for _ in range(12)]
                finite = all(np.isfinite(run.policy(policy).flat.get()).all() for policy in run.workers.learners)
        except (ShardFailed, NoHealthyShards) as error:
            ended = str(error)
        assert sum(session.left.values()) < 2, "else nobody has died"
    if ended:
        assert name in FRAGILE, "only workers and replay actors have died, and these are replaced"
        assert re.search(r"[Ss]hard \w+(#\d+)?\[\d\]", ended)
    else:
        assert [each.env_steps for each in found] == sorted(each.env_steps for each in found)
        assert found[-1].training.skipped == 0
        assert finite


# --------------------------------------------------------------------------- running, stopping, acting


def test_a_run_stops_and_what_was_learned_stays() -> None:
    run = PPO(fragment=16, minibatch=16, **FEW).run(stop=Stop(env_steps=200))
    steps = [metrics.env_steps for metrics in run]
    assert steps[-2] < 200 <= steps[-1]
    assert run.metrics is not None
    assert run.metrics.env_steps == steps[-1]
    assert list(run) == [], "it is over"
    policy = run.policy()
    assert isinstance(policy, Policy)
    assert int(policy.act(np.zeros(4, np.float32))) in (0, 1)


class Clock(LocalRuntime):
    """Time passes by a second per call to an actor, and by a hundredth whenever somebody looks."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.calls = 0.0, 0

    def now(self) -> float:
        self.time += 0.01
        return self.time

    def execute(self, call: Call) -> None:
        self.time, self.calls = self.time + 1, self.calls + 1
        super().execute(call)


def test_time_is_over_between_two_calls_even_if_reports_are_rare() -> None:
    clock = Clock()
    run = PPO(num_workers=20, num_envs=1, fragment=8, epochs=1, minibatch=32, model=TINY).run(
        stop=Stop(seconds=30), runtime=clock
    )
    last = run.finish()
    assert run.outcome == "30 seconds"
    assert last.training.steps == 1, "the second round was not finished"
    assert 20 < clock.calls <= 30


def test_time_is_over_between_two_minibatches_and_something_is_always_reported() -> None:
    clock = Clock()
    algorithm = PPO(num_workers=1, num_envs=2, fragment=32, epochs=100, minibatch=8, model=TINY, max_kl=None)
    run = algorithm.run(stop=Stop(seconds=2), runtime=clock)
    last = run.finish()
    assert run.outcome == "2 seconds"
    assert 10 < last.training.updates < 300, "of 800 in the first batch"
    run = algorithm.run(stop=Stop(seconds=0.001), runtime=Clock())
    assert run.finish().training.updates == 1, "the first report came too late, and is shown"


def test_seconds_count_from_the_start() -> None:
    clock = Clock()
    last = PPO(num_workers=5, num_envs=1, fragment=8, model=TINY).run(stop=Stop(updates=10), runtime=clock).finish()
    assert 5 <= last.speed.seconds <= clock.time


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"minibatch": 1_000, "num_workers": 1, "num_envs": 2, "fragment": 8},
            "minibatch is 1,000, but a batch has 1 x 2 x 8 = 16",
        ),
        (
            {"num_workers": 1, "num_envs": 1, "fragment": 1},
            "advantages are standardised over a batch, but a batch has 1 x 1 x 1 = 1",
        ),
        ({"epochs": 0}, "epochs must be at least 1"),
    ],
)
def test_batches_that_cannot_be(fields: dict[str, int], message: str) -> None:
    with pytest.raises(PlanError, match=f"PPO: {message}"):
        PPO(**fields)  # type: ignore[arg-type]  # whichever they are
    PPO(num_workers=1, num_envs=1, fragment=1, normalize=False)
    PPO(num_workers=1, num_envs=1, fragment=8)


def test_finish_and_stop_by_a_function() -> None:
    last = A2C(fragment=8, **FEW).run(stop=lambda metrics: metrics.training.updates >= 5).finish()
    assert last.training.updates == 5
    assert A2C(fragment=8, **FEW).run(stop=Stop(updates=3)).finish().training.updates == 3


def test_any_plan_is_trained_alike() -> None:
    algorithm = SMALL["A2C"]
    one, other = algorithm.run(stop=Stop(updates=4)), train(algorithm.plan(), stop=Stop(updates=4))
    assert one.finish().training.latest == other.finish().training.latest
    np.testing.assert_array_equal(one.policy().flat.get(), other.policy().flat.get())


def test_leaving_a_run_lets_go_of_it_and_keeps_the_policy() -> None:
    with SMALL["DQN"].run() as run:
        next(run)
    assert isinstance(run.policy(), QPolicy)
    assert list(run) == []


ENDED = [((9.0,) * 10, True), ((0.0, *[9.0] * 10), True), ((9.0,) * 9, False), ((8.9,) * 10, False)]


@pytest.mark.parametrize(("returns", "over"), ENDED)
def test_a_mean_return_counts_when_enough_episodes_have_ended(returns: tuple[float, ...], over: bool) -> None:
    start, stop = reported(SMALL["A2C"], 1)[0], Stop(mean_return=9.0, episodes=10)
    episodes = Episodes(len(returns), returns, (1,) * len(returns))
    assert stop(replace(start, episodes=episodes)) is over
    two = {"PPO": episodes, "DQN": Episodes(10, (100.0,) * 10, (1,) * 10)}
    assert stop(replace(start, episodes=Episodes(policies=two))) is over, "of several policies, each must be good"
    adapting = replace(episodes, phases={"before": Episodes(10, (0.0,) * 10, (1,) * 10), "after": episodes})
    assert stop(replace(start, episodes=adapting)) is over, "what counts is what comes after adapting"


def test_several_policies_are_asked_for_by_name() -> None:
    with SMALL["PPODQN"].run() as run:
        next(run)
        assert isinstance(run.policy("DQN"), QPolicy)
        assert not isinstance(run.policy("PPO"), QPolicy)
        with pytest.raises(PlanError, match="has several learners: PPO, DQN"):
            run.policy()


# --------------------------------------------------------------------------- options


def test_a_plan_of_ones_own_loss_and_optimiser() -> None:
    class Mine(PPO):
        def optimizer(self) -> tflow.optimizers.SGD:
            return tflow.optimizers.SGD(lr=self.lr)

    with Mine(fragment=8, **FEW).run() as run:
        next(run)
        assert run.workers.spec.agents["default"].optimizer == tflow.optimizers.SGD(lr=PPO().lr)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"dueling": True}, "dueling=True"),
        ({"noisy": True, "epsilon": 0.0}, "noisy=True"),
        ({"kind": "categorical", "atoms": 11, "v_min": 0.0, "v_max": 50.0}, "kind='categorical', atoms=11"),
        ({"kind": "quantile", "atoms": 7}, "kind='quantile', atoms=7"),
        ({"double": False, "n_step": 1, "prioritized": False}, "double=False"),
    ],
)
def test_options_of_dqn(options: dict[str, Any], found: str) -> None:  # Any: several kinds
    algorithm = DQN(learning_starts=50, batch=8, update_ratio=0.25, **FEW, **options)
    assert found in repr(algorithm.loss())
    assert reported(algorithm, 5)[-1].training.updates == 5


@pytest.mark.parametrize("ratio", [0.25, 3, Linear(0.0, 1.0, steps=300)])
def test_updates_keep_pace_with_env_steps(ratio: float | Schedule) -> None:
    found = reported(DQN(learning_starts=70, batch=4, update_ratio=ratio, fragment=8, n_step=2, **FEW), 200)
    at = schedule_of(ratio).at
    for item, following in pairwise(found):
        most = math.floor(sum(at(row) for row in range(70, item.env_steps)) + 1e-6)
        assert item.training.updates <= most, "training is held back"
        if following.env_steps > item.env_steps:
            assert item.training.updates == most, "and has the right of way"
    assert found[0].env_steps <= 70 + 16 + 4 / at(70), "nothing is owed when it starts"


def test_workers_of_apex_explore_differently_and_rate_their_rows() -> None:
    algorithm = SMALL["ApeX"]
    assert isinstance(algorithm, ApeX)
    seen: list[object] = []
    plan = algorithm.plan().tapped("StoreToBuffer", lambda batch: seen.append(batch))
    with plan.run() as run:
        for _ in range(5):
            next(run)
        replay = next(each for each in actors_in(plan.node) if isinstance(each, ReplayActors))
        kept = run.ask(replay, lambda actor: actor.buffer.state()["priorities"])
    assert algorithm.exploration().start(2, form(), shard_index=0, shard_count=2) is not None
    first = seen[0]
    assert isinstance(first, tflow.Batch)
    assert len(set(first.untyped()["priorities"].tolist())) > len(first) // 2, "each row has a priority of its own"
    assert all(len(np.unique(np.asarray(priorities))) > 4 for priorities in kept), "and is stored with it"


def form() -> Any:  # Any: only explorers know it
    from tflow.rl.policy.exploration import ActionForm

    return ActionForm(choices=(2,))


def test_earlier_rollouts_are_mixed_in() -> None:
    new, mixed = (reported(IMPALA(fragment=8, replay_proportion=share, **FEW), 20)[-1] for share in (0.0, 1.0))
    assert new.training.rows <= new.env_steps
    assert mixed.training.rows >= 1.8 * mixed.env_steps - 4 * 16


def test_each_policy_has_what_its_algorithm_describes() -> None:
    algorithms: dict[str, SinglePolicy] = {
        "a": PPO(lr=1e-5, model=TINY),
        "b": DQN(lr=0.5, epsilon=0.3, model=MLP((4,)), max_grad_norm=7.0),
    }
    spec = create_multi_workers(algorithms, env=MultiCartPole, policy_of=first_or_second).spec
    assert [spec.agents[name].optimizer_of(WHOLE).lr for name in "ab"] == [1e-5, 0.5]
    assert [spec.agents[name].max_grad_norm for name in "ab"] == [PPO().max_grad_norm, 7.0]
    assert [spec.agents[name].model for name in "ab"] == [TINY, MLP((4,))]
    assert [spec.agents[name].exploration for name in "ab"] == [None, EpsilonGreedy(0.3)]
    assert [type(spec.losses[name]).__name__ for name in "ab"] == ["PPOLoss", "DQNLoss"]


def first_or_second(agent: str) -> str:
    return "a" if agent == "agent_0" else "b"


def test_flows_with_a_learner_elsewhere_train_one_of_several_policies() -> None:
    algorithms: dict[str, SinglePolicy] = {"a": PPO(model=TINY), "b": IMPALA(model=TINY)}
    workers = create_multi_workers(algorithms, env=MultiCartPole, policy_of=first_or_second, num_envs=2, fragment=8)
    one, two = ParallelRollouts(workers).split()
    trained = Union(ppo_plan(Select(one, policy="a"), workers), impala_plan(Select(two, policy="b"), workers, policy="b"))
    last = train(ReportMetrics(trained, workers), stop=Stop(updates=40)).finish()
    assert last.training.policies["b"] > 0
    assert last.flat()["b/updates"] == last.training.policies["b"]


@dataclass(frozen=True)
class Spied:
    """A learning rate that tells when it was asked for."""

    asked: list[int]

    def at(self, steps: int, /) -> float:
        self.asked.append(steps)
        return 1e-3


@pytest.mark.parametrize("kind", [IMPALA, ApeX])
def test_schedules_go_by_env_steps_wherever_the_learner_is(kind: type[IMPALA] | type[ApeX]) -> None:
    options: dict[str, Any] = {"replay_proportion": 2.0} if kind is IMPALA else {"learning_starts": 50, "batch": 32}  # Any: kinds
    asked: list[int] = []
    last = kind(lr=Spied(asked), num_envs=2, model=TINY, fragment=8, **options).run(stop=Stop(updates=60)).finish()
    assert last.training.rows > 1.5 * last.env_steps, "otherwise rows would do as well"
    assert 0.5 * last.env_steps < max(asked) <= last.env_steps


# --------------------------------------------------------------------------- asynchrony


@over_repeatable_runtimes
def test_a_learner_beside_the_driver_gets_all_updates_that_it_is_due(runtime: str) -> None:
    """Else how much is learned per env step would depend on how fast the workers are."""
    config = ApeX(num_envs=2, fragment=8, num_workers=2, model=TINY, batch=8, learning_starts=64, update_ratio=0.5)
    with RUNTIMES[runtime]() as session:
        last = config.run(stop=Stop(env_steps=2_000), runtime=session).finish()
    under_way = config.num_workers * config.num_envs * config.fragment + config.num_replay / 0.5  # sampled, but not stored yet
    assert 0.5 * (last.env_steps - 64 - under_way) <= last.training.updates <= 0.5 * (last.env_steps - 64)


@pytest.mark.ray
@pytest.mark.parametrize("name", [pytest.param("ApeX", marks=pytest.mark.full), "IMPALA"])
def test_the_learner_is_a_process_of_its_own(name: str) -> None:
    plan = SMALL[name].plan()
    learner = next(each for each in actors_in(plan.node) if isinstance(each, Actor) and each.name == "learner")
    with ray_session() as session, plan.run(runtime=session) as run:
        next(run)
        (where,) = run.ask(learner, process)
        workers = next(each for each in actors_in(plan.node) if each.name == "workers")
        others = run.ask(workers, process)
    assert len({where, *others, os.getpid()}) == 4


def process(actor: object) -> int:
    return os.getpid()


@pytest.mark.parametrize("mailbox", [1, 3])
def test_sampling_goes_on_beside_learning_as_far_as_the_mailbox_allows(mailbox: int) -> None:
    """The simulator serves the newest call first: what was sampled meanwhile is what the mailbox holds, and lag shows it."""
    algorithm = IMPALA(fragment=4, mailbox=mailbox, num_envs=2, num_workers=2, model=TINY)
    with SimRuntime(last_first()) as session, algorithm.run(runtime=session) as run:
        found = [next(run) for _ in range(20)]
    assert 0 < found[-1].training.worst_lag <= mailbox + 2


def last_first() -> Any:  # Any: an endless tape
    while True:
        yield 63


@over_repeatable_runtimes
def test_staleness_is_bounded_where_that_is_declared(runtime: str) -> None:
    def dropped(limit: int | None) -> tuple[int, int]:
        algorithm = IMPALA(fragment=4, num_envs=2, num_workers=4, model=TINY, max_staleness=limit)
        with RUNTIMES[runtime]() as session, algorithm.run(runtime=session) as run:
            for _ in range(30):
                next(run)
            gather = next(each for each in run.run.stats().operators if each.operator == "gather_async()")
            return run.run.ledger.items.dropped.get("stale", 0), gather.staleness["default"].worst

    free, bounded = dropped(None), dropped(1)
    assert free[0] == 0
    assert free[1] > 1, "otherwise the bound would bound nothing"
    assert bounded[0] > 0
    assert bounded[1] <= 1


def test_what_a_report_says_of_lag() -> None:
    found = reported(SMALL["IMPALA"], 10)[-1]
    assert found.flat()["lag"] > 0
    assert found.flat()["worst_lag"] == found.training.worst_lag > 0


@pytest.mark.parametrize(("name", "through"), [("IMPALA", ["gather_async()", "MixInReplay()"]), ("ApeX", ["gather_async()"] * 2)])
def test_rollouts_go_from_actor_to_actor(name: str, through: list[str]) -> None:
    order = graph.walk(SMALL[name].plan().node)
    unopened = carriers(order)
    assert [node.label for node in order if node in unopened and node.label in through] == through
