"""Warm starts: every worker and every learner begins with exactly the weights of a saved policy, or says why it cannot."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.laws.world import RUNTIMES, ray_session
from tflow import LocalRuntime, PlanError, Policy, RunFolder, Stop, train
from tflow.algos import DQN, IMPALA, PPO, PPODQN, SinglePolicy, TrainingRun
from tflow.algos.evaluation import reporting
from tflow.algos.sac import SAC
from tflow.combinators import graph
from tflow.commands.choice import chosen
from tflow.models import LSTM, MLP, ActorCriticSpec
from tflow.rl.data.arrays import Array
from tflow.rl.learning.learner import Learner
from tflow.rl.policy.policy_spec import ActorQSpec, QSpec, make_policy
from tflow.rl.rollout.starting import StartFrom
from tflow.rl.rollout.worker import RolloutWorker
from tflow.rl.rollout.worker_spec import AnyWorkers, CurrentPolicy, LearnerActor, PolicyResident

SMALL = MLP((8,))
PLAIN: dict[str, Any] = {"normalize_obs": False, "normalize_rewards": False}  # Any: arguments
ALGORITHMS: dict[str, SinglePolicy] = {
    "ppo": PPO(num_envs=2, fragment=16, epochs=1, minibatch=32, model=SMALL, **PLAIN),
    "dqn": DQN(num_envs=2, learning_starts=32, model=SMALL),
    "sac": SAC(num_envs=2, learning_starts=32, model=SMALL),
    "impala": IMPALA(num_envs=2, fragment=16, model=SMALL, **PLAIN),
}
BOX = spaces.Box(-1, 1, (4,), np.float32)


def of_worker(worker: RolloutWorker) -> list[Array]:
    return [policy.flat.get() for policy in worker.policies.values()]


def of_learner(learner: Learner) -> list[Array]:
    return [learner.policy.flat.get(), *([] if learner.target is None else [learner.target.flat.get()])]


def of_current(current: CurrentPolicy) -> list[Array]:
    return [current.policy().flat.get(), *of_learner(current.learner)]


def counts(current: CurrentPolicy) -> tuple[int, int, str]:
    return current.learner.updates, current.learner.trained, str(current.learner.state()["parts"])


def weights_everywhere(run: TrainingRun) -> dict[str, list[Array]]:
    """The weights in all actors of a run that has not begun."""
    found: dict[str, list[Array]] = {}
    for actors in dict.fromkeys(graph.actors_in(run.run.plan.node)):
        asked: list[list[Array]] = []
        if isinstance(actors, AnyWorkers):
            asked = run.run.ask(actors, of_worker)
        elif isinstance(actors, PolicyResident):
            asked = run.run.ask(actors, of_current)
        elif isinstance(actors, LearnerActor):
            asked = run.run.ask(actors, of_learner)
        if asked:
            found[actors.name] = [each for answer in asked for each in answer]
    return found


def trained(algorithm: SinglePolicy, folder: Path) -> Policy:
    run = algorithm.run(stop=Stop(updates=3), seed=1, callbacks=[RunFolder(folder)])
    run.finish()
    return run.policy()


def made(name: str, **options: Any) -> Policy:  # Any: arguments
    """An untrained policy that fits an algorithm on its env, unless options say otherwise."""
    env = gymnasium.make(str(ALGORITHMS[name].env))
    given: dict[str, Any] = {  # Any: arguments
        "spec": ALGORITHMS[name].loss().policy(),
        "seen": env.observation_space,
        "acts": env.action_space,
        "model": SMALL,
    }
    given |= options
    return make_policy(given["spec"], given["model"], given["seen"], given["acts"], seed=7)


# --------------------------------------------------------------------------- the same weights everywhere


@pytest.mark.parametrize("runtime", ["local", "sim"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_all_actors_begin_with_the_weights_of_a_run(name: str, runtime: str, tmp_path: Path) -> None:
    wanted = trained(ALGORITHMS[name], tmp_path / "run").flat.get()
    with RUNTIMES[runtime]() as session:
        run = ALGORITHMS[name].run(start_from=tmp_path / "run", seed=2, eval_every=10_000, runtime=session)
        found = weights_everywhere(run)
        assert {"workers", "workers.default", "workers.evaluation"} <= found.keys()
        assert name != "impala" or "learner" in found
        assert all(np.array_equal(each, wanted) for each in chain(*found.values()))
        begun = run.run.ask(run.workers.learner, counts)
        run.close()
    fresh = ALGORITHMS[name].run(seed=2)
    assert begun == fresh.run.ask(fresh.workers.learner, counts)
    assert begun[0][:2] == (0, 0)
    assert not any(np.array_equal(each, wanted) for each in weights_everywhere(fresh)["workers"])


@pytest.mark.ray
@pytest.mark.parametrize("name", ["ppo", "impala"])
def test_all_actors_on_ray_begin_with_them(name: str) -> None:
    policy = made(name)
    with ray_session() as session:
        run = ALGORITHMS[name].run(start_from=policy, eval_every=10_000, runtime=session)
        assert all(np.array_equal(each, policy.flat.get()) for each in chain(*weights_everywhere(run).values()))
        run.close()


def test_actors_that_are_restarted_or_added_begin_with_them_too() -> None:
    policy = made("ppo")
    with LocalRuntime() as session:
        run = ALGORITHMS["ppo"].run(start_from=policy, runtime=session)
        run.run.ask(run.workers, of_worker)
        run.run.resize(run.workers, 4)
        assert len(weights_everywhere(run)["workers"]) == 4
        assert all(np.array_equal(each, policy.flat.get()) for each in weights_everywhere(run)["workers"])


def test_training_goes_on_from_there_and_differs_from_a_fresh_start() -> None:
    algorithm, policy = ALGORITHMS["ppo"], made("ppo")
    before = policy.flat.get()
    warm, again, fresh = (algorithm.run(stop=Stop(updates=2), start_from=start) for start in (policy, policy, None))
    assert warm.finish().training.updates == again.finish().training.updates == fresh.finish().training.updates
    np.testing.assert_array_equal(warm.policy().flat.get(), again.policy().flat.get())
    assert np.abs(warm.policy().flat.get() - before).max() < 0.01 < np.abs(fresh.policy().flat.get() - before).max()
    np.testing.assert_array_equal(policy.flat.get(), before)


def test_the_plan_stays_the_same_and_other_runs_of_the_session_are_fresh() -> None:
    policy, algorithm = made("ppo"), ALGORITHMS["ppo"]
    plan = algorithm.plan()
    with LocalRuntime() as session:
        run = train(plan, start_from=policy, runtime=session)
        assert run.run.plan.fingerprint == algorithm.plan().fingerprint
        assert np.array_equal(weights_everywhere(run)["workers"][0], policy.flat.get())
        other = train(algorithm.plan(), runtime=session)
        assert not np.array_equal(weights_everywhere(other)["workers"][0], policy.flat.get())
        with pytest.raises(PlanError, match="workers live in this session since an earlier run of the plan"):
            train(plan, start_from=policy, runtime=session)


def test_options_that_do_not_change_the_network_may_differ(tmp_path: Path) -> None:
    made("ppo", spec=ActorCriticSpec(log_std=-1.0), model=LSTM(4, SMALL, length=8)).save(tmp_path / "p")
    run = PPO(model=LSTM(4, SMALL, length=16), num_workers=1, **PLAIN).run(start_from=tmp_path / "p")
    assert np.array_equal(weights_everywhere(run)["workers"][0], Policy.load(tmp_path / "p").flat.get())
    automatic = made("ppo", model="auto")
    assert weights_everywhere(PPO(model=MLP(), num_workers=1, **PLAIN).run(start_from=automatic))["workers"]


# --------------------------------------------------------------------------- several policies


def both() -> PPODQN:
    return PPODQN(num_workers=1, num_envs=2, fragment=16)


def test_several_policies_by_folder_by_mapping_and_in_part(tmp_path: Path) -> None:
    first = both().run(stop=Stop(updates=2), callbacks=[RunFolder(tmp_path / "run")], seed=1)
    first.finish()
    wanted = {name: policy.flat.get() for name, policy in first.policies().items()}
    one, other = wanted
    starts: list[StartFrom] = [
        tmp_path / "run",
        str(tmp_path / "run"),
        {one: tmp_path / "run", other: first.policy(other)},
    ]
    for start in starts:
        run = both().run(start_from=start, seed=2)
        for found in (run.policies(), dict(zip(wanted, run.run.ask(run.workers, policies_of)[0], strict=True))):
            for name, each in found.items():
                np.testing.assert_array_equal(each.flat.get(), wanted[name])
    part = both().run(start_from={one: tmp_path / "run"}, seed=2)
    np.testing.assert_array_equal(part.policy(one).flat.get(), wanted[one])
    assert not np.array_equal(part.policy(other).flat.get(), wanted[other])


def policies_of(worker: RolloutWorker) -> list[Policy]:
    return list(worker.policies.values())


# --------------------------------------------------------------------------- what does not fit


def network_misfit() -> Policy:
    return made("ppo", model=MLP((9,)))


def not_finite() -> Policy:
    policy = made("ppo")
    policy.flat.set(np.full_like(policy.flat.get(), np.nan))
    return policy


def acts_only() -> Policy:
    policy = made("sac")
    policy.acting_only = True
    return policy


class Own:
    """Makes a module without a description."""

    def __call__(self, space: Any) -> Any:  # Any: a space, a module
        return MLP((9,)).build(space)


WRONG: dict[str, tuple[str, Callable[[], Policy], str]] = {
    "observation space": (
        "ppo",
        lambda: made("ppo", seen=BOX),
        r"its observation space is Box\(-1.0, 1.0, .* that of the run Box",
    ),
    "action space": (
        "ppo",
        lambda: made("ppo", acts=spaces.Discrete(3)),
        r"its action space is Discrete\(3\), that of the run Disc",
    ),
    "kind": ("ppo", lambda: made("ppo", spec=QSpec()), "it is of the kind QSpec, that of the run ActorCriticSpec"),
    "option": ("dqn", lambda: made("dqn", spec=QSpec(dueling=True)), "it has dueling=True, that of the run dueling=False"),
    "model": ("ppo", network_misfit, r"its model is MLP\(hidden=\(9,\), .* that of the run MLP\(hidden=\(8,\)"),
    "activation": ("ppo", lambda: made("ppo", model=MLP((8,), "relu")), "its model is MLP.*activation='relu'"),
    "weights": (
        "ppo",
        lambda: made("ppo", model=Own()),
        r"its network is another: encoder.* has the shape \(9, 4\), and \(8, 4\)",
    ),
    "temperature": (
        "sac",
        lambda: made("sac", spec=ActorQSpec()),
        "the network has log_temperature, which is not among the saved weights",
    ),
    "acting": ("sac", acts_only, "it holds only the weights that it acts with, not those of critics, temperature"),
    "not finite": ("ppo", not_finite, "its weights .* are not finite"),
}


@pytest.mark.parametrize("as_file", [True, False])
@pytest.mark.parametrize("case", WRONG)
def test_the_first_thing_that_differs_is_named_at_once(case: str, as_file: bool, tmp_path: Path) -> None:
    name, make, message = WRONG[case]
    policy = make()
    policy.save(tmp_path / "p.safetensors")
    with pytest.raises(PlanError, match=message) as caught:
        ALGORITHMS[name].run(start_from=tmp_path / "p.safetensors" if as_file else policy)
    said = str(tmp_path / "p.safetensors") if as_file else "the given policy"
    assert str(caught.value).startswith(f"start_from: {said} does not fit the policy of the run: ")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("nowhere", "start_from: there is no 'nowhere'. Name a policy file, or a run folder"),
        ("empty", "'empty' has no policy.safetensors; in it: no policy"),
        ("junk", "junk is not a policy saved by tflow"),
        (3, "expected a policy file, a run folder or a Policy; got 3"),
        ({}, "the mapping is empty; the policies are default"),
        ({"other": "junk"}, "there is no policy 'other'; the policies are default"),
        ({"default": None}, "expected a policy file, a run folder or a Policy; got None"),
    ],
)
def test_what_is_no_policy(start: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # Any: junk
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("junk").write_text("junk")
    with pytest.raises(PlanError, match=message):
        ALGORITHMS["ppo"].run(start_from=start)


def test_one_file_for_several_policies_and_a_folder_that_lacks_one(tmp_path: Path) -> None:
    policy = made("ppo")
    with pytest.raises(PlanError, match=r"give a mapping from these names to policies, or a run folder with all of them"):
        both().run(start_from=policy)
    policy.save(tmp_path / "policy.safetensors")
    with pytest.raises(PlanError, match=r"has no policy-\w+.safetensors; in it: policy.safetensors"):
        both().run(start_from=tmp_path)


# --------------------------------------------------------------------------- run folders


def config_of(folder: Path) -> dict[str, Any]:  # Any: TOML
    return tomllib.loads((folder / "config.toml").read_text())


def test_the_folder_says_what_it_started_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    algorithm = ALGORITHMS["ppo"]
    trained(algorithm, Path("first"))
    second = algorithm.run(stop=Stop(updates=1), start_from="first", callbacks=[RunFolder("second")])
    second.finish()
    assert config_of(Path("second"))["run"]["start_from"] == str(tmp_path / "first")
    third = algorithm.run(stop=Stop(updates=1), start_from=second.policy(), callbacks=[RunFolder("third")])
    third.finish()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    for folder, run in (("second", second), ("third", third)):
        choice = chosen([], file=tmp_path / folder / "config.toml")
        again = choice.algorithm.run(stop=Stop(updates=1), start_from=choice.run.start_from, seed=choice.run.seed)
        again.finish()
        np.testing.assert_array_equal(again.policy().flat.get(), run.policy().flat.get())


def test_the_folder_of_several_policies_says_it_by_name(tmp_path: Path) -> None:
    run = both().run(stop=Stop(updates=1), callbacks=[RunFolder(tmp_path / "first")])
    run.finish()
    one, other = run.policies()
    start: StartFrom = {one: tmp_path / "first", other: run.policy(other)}
    both().run(stop=Stop(updates=1), start_from=start, callbacks=[RunFolder(tmp_path / "second")]).finish()
    wanted = {one: str(tmp_path / "first"), other: str(tmp_path / "second" / f"start-{other}.safetensors")}
    found = chosen([], file=tmp_path / "second" / "config.toml").run.start_from
    assert found == wanted
    assert found is not None
    again = both().run(start_from=found)
    np.testing.assert_array_equal(again.policy(other).flat.get(), run.policy(other).flat.get())


def test_a_plan_of_ones_own_starts_from_a_policy() -> None:
    policy = made("ppo")
    run = train(ALGORITHMS["ppo"].plan(), start_from={"default": policy})
    assert reporting(run.run.plan).workers is run.workers
    np.testing.assert_array_equal(run.policy().flat.get(), policy.flat.get())
