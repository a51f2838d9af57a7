"""The adapters for one agent give the transitions that stepping single envs by hand gives, and refuse what no policy can use."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import ClipReward, FrameStackObservation, NormalizeReward, TransformObservation
from gymnasium.wrappers.vector import NormalizeObservation
from hypothesis import given
from hypothesis import strategies as st

from tests.rl.toy_envs import (
    SPACES,
    Plan,
    PlannedEnv,
    PlannedVectorEnv,
    array,
    by_hand,
    collected,
    flat_names,
    row_of,
)
from tflow.errors import EnvError, PlanError
from tflow.rl.data.arrays import Array
from tflow.rl.envs.env import MAX_RESTARTS, Envs, LoopEnvs
from tflow.rl.envs.env_spec import EnvSpec, Vectorizer
from tflow.rl.envs.spaces import ActionLayout, Mismatch, ObsLayout
from tflow.rl.envs.vector_env import VectorEnvs

NEXT, SAME, OFF = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
PLANS: tuple[Plan, ...] = (((2, "terminated"), (1, "truncated")), ((3, "both"),), ((1, "terminated"), (4, "truncated")))
Adapter = Callable[[tuple[Plan, ...], int, str, bool], Envs]


def loop(plans: tuple[Plan, ...], num: int, kind: str = "box", masks: bool = False) -> Envs:
    return LoopEnvs(lambda: PlannedEnv(plans, kind, masks), num, name="planned")


def vector(maker: Callable[[int | None], VectorEnv[Any, Any, Any]], num: int) -> VectorEnvs:  # Any: a generic class
    return VectorEnvs(maker, num, name="planned")


def sync(mode: AutoresetMode, copy: bool = True) -> Adapter:
    return lambda plans, num, kind, masks: vector(
        lambda _: SyncVectorEnv([lambda: PlannedEnv(plans, kind, masks)] * num, copy=copy, autoreset_mode=mode), num
    )


def arrays(mode: AutoresetMode) -> Adapter:
    return lambda plans, num, _, masks: vector(lambda _: PlannedVectorEnv(num, plans, mode, masks), num)


ADAPTERS: dict[str, Adapter] = {
    "loop": loop,
    "sync, next step": sync(NEXT),
    "sync, next step, one array": sync(NEXT, copy=False),
    "sync, same step": sync(SAME),
    "sync, same step, one array": sync(SAME, copy=False),
    "sync, no autoreset": sync(OFF, copy=False),
    "arrays, next step": arrays(NEXT),
    "arrays, same step": arrays(SAME),
    "arrays, no autoreset": arrays(OFF),
}
plans = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["terminated", "truncated", "both"])), min_size=1, max_size=3).map(
        tuple
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@pytest.mark.parametrize("name", ADAPTERS)
@given(plans=plans, kind=st.sampled_from(sorted(SPACES)), masks=st.booleans(), num=st.integers(1, 3), data=st.data())
def test_every_adapter_gives_what_stepping_by_hand_gives(
    name: str, plans: tuple[Plan, ...], kind: str, masks: bool, num: int, data: st.DataObject
) -> None:
    kind = "box" if name.startswith("arrays") else kind
    count = data.draw(st.integers(1, 9))
    actions = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=count, max_size=count), min_size=num, max_size=num))
    envs = ADAPTERS[name](plans, num, kind, masks)
    expected = [by_hand(PlannedEnv(plans, kind, masks), 7 + index, actions[index]) for index in range(num)]
    assert collected(envs, 7, actions) == expected
    assert collected(envs, 7, actions) == expected  # a second reset starts anew
    envs.close()


@pytest.mark.parametrize("wrapped", [False, True])
def test_processes_give_what_stepping_by_hand_gives(wrapped: bool) -> None:
    same = [partial(TransformVector)] if wrapped else []
    spec = EnvSpec(
        PlannedEnv, kwargs={"plans": PLANS, "kind": "dict", "masks": True}, vectorizer="processes", vector_wrappers=same
    )
    envs = spec.make(2)
    actions = [[0, 1, 2, 0, 1, 2, 0], [2, 2, 1, 0, 0, 1, 1]]
    try:
        assert collected(envs, 1, actions) == [by_hand(PlannedEnv(PLANS, "dict", True), 1 + at, actions[at]) for at in range(2)]
    finally:
        envs.close()


@pytest.mark.parametrize("vectorizer", ["loop", "processes"])
def test_envs_may_write_over_their_observations(vectorizer: Vectorizer) -> None:
    """Some give the same array each time, also when they are reset."""
    envs = EnvSpec(PlannedEnv, kwargs={"plans": PLANS, "one_array": True}, vectorizer=vectorizer).make(2)
    actions = [[0, 1, 2, 0, 1, 2, 0], [2, 2, 1, 0, 0, 1, 1]]
    try:
        assert collected(envs, 1, actions) == [by_hand(PlannedEnv(PLANS), 1 + at, actions[at]) for at in range(2)]
    finally:
        envs.close()


class TransformVector(gymnasium.vector.VectorWrapper[Any, Any, Any, Any, Any]):  # Any: a generic class
    """A wrapper of vector envs that changes nothing."""


def test_dict_and_tuple_observations_are_flat_dictionaries() -> None:
    obs, _ = loop(PLANS, 3, "dict").reset(5)
    assert isinstance(obs, dict)
    assert obs.keys() == flat_names("dict")
    assert {name: (part.shape, str(part.dtype)) for name, part in obs.items()} == {
        "who": ((3,), "int64"),
        "when/episode": ((3, 1), "float64"),
        "when/step": ((3, 2), "uint8"),
        "pair/0": ((3, 2), "int64"),
        "pair/1": ((3, 2), "int8"),
    }
    assert obs["who"].tolist() == [5, 6, 7]


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_a_step_gave_outlives_the_policy(name: str) -> None:
    """The last observations of episodes are copies; those of a loop stay for one call more."""
    envs = ADAPTERS[name](PLANS, 3, "box", True)
    first, masks = envs.reset(0)
    obs = array(first)
    kept = []
    for _ in range(6):
        before, allowed = obs.copy(), array(masks).copy()
        step = envs.step(np.zeros(3, np.int64))
        if name == "loop":
            assert np.array_equal(obs, before), "a loop has two sets of arrays"
            assert np.array_equal(array(masks), allowed)
        if step.final_obs is not None:
            kept.append((array(step.final_obs), array(step.final_obs).copy()))
        obs, masks = array(step.obs), step.masks
    assert kept
    assert all(np.array_equal(final, copy) for final, copy in kept)


def test_choices_count_from_zero_whatever_the_env_counts_from() -> None:
    taken: list[list[int]] = []

    class Shifted(PlannedEnv):
        def __init__(self) -> None:
            super().__init__(PLANS)
            self.action_space = spaces.MultiDiscrete([2, 3], start=[5, -1])

        def step(self, action: Any) -> Any:  # Any: gymnasium's
            taken.append(action.tolist())
            return super().step(0)

    envs = LoopEnvs(Shifted, 1, name="shifted")
    envs.reset(0)
    envs.step(np.asarray([[1, 2]]))
    assert taken == [[6, 1]]
    assert envs.action_space == spaces.MultiDiscrete([2, 3])
    layout = ActionLayout(spaces.Discrete(3, start=-1))
    assert layout.space == spaces.Discrete(3)
    assert layout.given(np.asarray([0, 2]), 2).tolist() == [-1, 1]


def test_vector_envs_get_actions_as_their_space_has_them() -> None:
    taken: list[int] = []

    class FromFive(PlannedEnv):
        def __init__(self) -> None:
            super().__init__(PLANS)
            self.action_space = spaces.Discrete(3, start=5)

        def step(self, action: Any) -> Any:  # Any: gymnasium's
            taken.append(int(action))
            return super().step(0)

    shifted = vector(lambda _: SyncVectorEnv([FromFive] * 2), 2)
    shifted.reset(0)
    shifted.step(np.asarray([0, 2]))
    shifted.step(np.asarray([1, 0], np.int8))
    assert taken == [5, 7, 6, 5]
    plain_envs = arrays(NEXT)(PLANS, 2, "box", False)
    plain_envs.reset(0)
    with pytest.raises(
        EnvError, match=r"planned: actions have shape \(3,\); 2 envs with the action space Discrete\(3\) take \(2,\)"
    ):
        plain_envs.step(np.zeros(3, np.int64))
    with pytest.raises(EnvError, match=r"planned: actions have type float64; .* takes whole numbers"):
        plain_envs.step(np.zeros(2))


def test_an_env_that_clips_its_actions_in_place_does_not_change_the_policy_s() -> None:
    class Clips(PlannedEnv):
        def __init__(self) -> None:
            super().__init__(PLANS)
            self.action_space = spaces.Box(-1, 1, (2,), np.float32)

        def step(self, action: Any) -> Any:  # Any: gymnasium's
            np.clip(action, -1, 1, out=action)
            return super().step(0)

    envs = LoopEnvs(Clips, 2, name="clips")
    envs.reset(0)
    actions = np.full((2, 2), 3, np.float32)
    envs.step(actions)
    assert (actions == 3).all()
    with pytest.raises(EnvError, match=r"clips, env 1: actions are not finite: \[nan  3\.\]. The policy gave them"):
        envs.step(np.asarray([[3, 3], [np.nan, 3]], np.float32))
    with pytest.raises(EnvError, match=r"actions have shape \(2,\); 2 envs with the action space Box.* take \(2, 2\)"):
        envs.step(np.zeros(2, np.float32))
    with pytest.raises(EnvError, match=r"actions have type float64; the action space Discrete\(3\) takes whole numbers"):
        loop(PLANS, 1).step(np.zeros(1))


# --------------------------------------------------------------------------- what is refused


class Faulty(PlannedEnv):
    """Goes wrong in copy 1 (by its seed), in its second step or at its reset."""

    def __init__(self, fault: str, kind: str = "box") -> None:
        super().__init__((((5, "terminated"),),), kind, masks="mask" in fault and fault != "late mask")
        self.fault, self.steps = fault, 0

    def reset(self, **options: Any) -> Any:  # Any: gymnasium's
        obs, info = super().reset(**options)
        if self.number != 1:
            return obs, info
        if self.fault == "reset raises":
            raise RuntimeError("no start")
        if self.fault == "reset gives nan":
            obs = obs * np.nan
        if self.fault == "space at reset":
            self.observation_space = spaces.Box(0, 1, (4,))
        return obs if self.fault == "reset gives obs only" else (obs, info)

    def step(self, action: Any) -> Any:  # Any: gymnasium's
        obs, reward, over, cut, info = super().step(action)
        self.steps += 1
        if self.number == 1 and self.steps == 2:
            with np.errstate(all="ignore"):
                return self.spoilt(obs, reward, over, cut, info)
        return obs, reward, over, cut, info

    def spoilt(self, obs: Any, reward: Any, over: bool, cut: bool, info: dict[str, Any]) -> Any:  # Any: gymnasium's
        if self.fault == "raises":
            raise RuntimeError("broken")
        if self.fault == "old api":
            return obs, reward, over, info
        if self.kind == "dict":
            if self.fault == "part missing":
                del obs["when"]["step"]
            elif self.fault == "part renamed":
                obs["when"]["pace"] = obs["when"].pop("step")
            elif self.fault == "part too much":
                obs["more"] = 1
            elif self.fault == "part is no dict":
                obs["when"] = 3
            elif self.fault == "not in its discrete space":
                obs["who"] = 1000
            elif self.fault == "no such byte":
                obs["when"]["step"] = np.asarray([300, 0])
            return obs, reward, over, cut, info
        spoilt_obs = {
            "nan": obs * np.nan, "inf": obs / 0, "shape": obs[:1], "int": obs.astype(int), "text": "here", "ragged": [[1], [1, 2]]
        }  # fmt: skip
        rewards = {"reward nan": np.nan, "reward none": None, "reward list": [1.0], "reward text": "a lot"}
        masks = {"mask gone": {}, "mask empty": {"action_mask": np.zeros(3)}, "mask shape": {"action_mask": np.ones(2)}}
        late = {"late mask": {"action_mask": np.ones(3)}}
        over = over or self.fault == "last nan"
        obs = obs * np.nan if self.fault == "last nan" else spoilt_obs.get(self.fault, obs)
        return obs, rewards.get(self.fault, reward), over, cut, (masks | late).get(self.fault, info)


FAULTS = [  # fault, kind, field, sentence
    ("nan", "box", "obs", r"obs is not finite: \[nan nan nan nan\]. Its space is Box"),
    ("inf", "box", "obs", "obs is not finite"),
    ("last nan", "box", "obs", "obs is not finite"),
    ("shape", "box", "obs", r"obs has shape \(1,\); its space .* says \(4,\)"),
    ("int", "box", "obs", "obs has type int64; its space .* says float32. Convert it in the env, or change the space."),
    ("text", "box", "obs", r"obs has shape \(\); its space"),
    ("ragged", "box", "obs", "obs is a list, not the array of float32"),
    ("part missing", "dict", "obs/when", "obs/when must have the parts episode, step, as its space says; the env gave episode."),
    ("part renamed", "dict", "obs/when", "obs/when must have the parts episode, step, .*; the env gave episode, pace."),
    ("part too much", "dict", "obs", "obs must have the parts pair, when, who, .*; the env gave who, when, pair, more."),
    ("part is no dict", "dict", "obs/when", "the env gave int."),
    (
        "not in its discrete space",
        "dict",
        "obs/who",
        r"obs/who is not in its discrete space: 1000. Its space is Discrete\(1000\).",
    ),
    ("no such byte", "dict", "obs/when/step", "obs/when/step has type int64; its space .* says uint8"),
    ("reward nan", "box", "reward", "reward is not a finite number: nan"),
    ("reward none", "box", "reward", "reward is not a finite number"),
    ("reward list", "box", "reward", r"reward is not a finite number: \[1.0\]. Return a float."),
    ("reward text", "box", "reward", "reward is not a finite number: 'a lot'. Return a float."),
    ("raises", "box", None, "step raised RuntimeError: broken. Fix the env, or continue with .*on_error='restart'"),
    ("old api", "box", None, r"step must return \(obs, reward, terminated, truncated, info\): not enough values"),
    ("mask gone", "box", "action_mask", "action_mask is missing from the infos, though the env gave one before"),
    ("mask empty", "box", "action_mask", "action_mask allows no action at all"),
    ("mask shape", "box", "action_mask", r"action_mask has shape \(2,\); the action space Discrete\(3\) takes \(3,\)"),
    ("late mask", "box", "action_mask", "action_mask is in the infos, but the first reset gave none"),
]
RESET_FAULTS = [
    ("reset raises", "box", None, "reset raised RuntimeError: no start"),
    ("reset gives nan", "box", "obs", "obs is not finite"),
    ("reset gives obs only", "box", None, r"reset must return \(obs, info\)"),
    (
        "space at reset",
        "box",
        "observation space",
        r"its observation space is Box\(0.0, 1.0, \(4,\), float32\), but env 0 began with",
    ),
]


@pytest.mark.parametrize(("fault", "kind", "field", "sentence"), FAULTS + RESET_FAULTS)
def test_a_loop_says_which_env_gave_what(fault: str, kind: str, field: str | None, sentence: str) -> None:
    envs = LoopEnvs(lambda: Faulty(fault, kind), 3, name="faulty")
    with pytest.raises(EnvError, match=f"^faulty, env 1: .*{sentence}") as raised:
        envs.reset(0)
        for _ in range(2):
            envs.step(np.zeros(3, np.int64))
    assert (raised.value.env, raised.value.index, raised.value.field) == ("faulty", 1, field)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (str(copy), copy.index, repr(copy.__cause__)) == (str(raised.value), 1, repr(raised.value.__cause__))


@pytest.mark.parametrize(("fault", "kind"), [(fault, kind) for fault, kind, _, _ in FAULTS])
def test_a_loop_that_restarts_makes_only_that_copy_anew(fault: str, kind: str) -> None:
    envs = LoopEnvs(lambda: Faulty(fault, kind), 3, name="faulty", on_error="restart")
    envs.reset(0)
    actions = np.zeros(3, np.int64)
    assert envs.step(actions).failed == ()
    step = envs.step(actions)
    assert (step.failed, step.rewards[1], step.final_obs) == ((1,), 0, None)
    assert not step.terminated.any()
    assert step.valid is not None
    assert step.valid.tolist() == [True, False, True]
    others = [by_hand(PlannedEnv((((5, "terminated"),),), kind), seed, [0, 0])[-1].next_obs for seed in (0, 2)]
    assert [row_of(step.obs, row) for row in (0, 2)] == others
    assert step.masks is None or step.masks[1].any()
    after = envs.step(actions)
    assert (after.failed, after.valid, envs.faults.restarts) == ((), None, 1)
    again = LoopEnvs(lambda: Faulty(fault, kind), 3, name="faulty", on_error="restart")
    again.reset(0)
    again.step(actions)
    same = again.step(actions)
    assert row_of(same.obs, 1) == row_of(step.obs, 1), "the seed of a new copy depends on the seed of the run alone"
    assert row_of(step.obs, 1)["who" if kind == "dict" else ""][0] not in (0, 1), "it is a new seed"


def test_an_episode_that_ended_is_kept_if_only_the_next_one_cannot_start() -> None:
    class NoSecondStart(PlannedEnv):
        def reset(self, **options: Any) -> Any:  # Any: gymnasium's
            obs, info = super().reset(**options)
            return (obs * np.nan if self.number == 1 and self.episode == 1 else obs), info

    envs = LoopEnvs(lambda: NoSecondStart((((1, "truncated"),),)), 2, name="one", on_error="restart")
    envs.reset(0)
    step = envs.step(np.zeros(2, np.int64))
    assert (step.failed, step.valid, step.truncated.tolist()) == ((), None, [True, True])
    assert array(step.final_obs).tolist() == [[0, 0, 1, 0], [1, 0, 1, 0]]
    assert envs.faults.restarts == 1


@pytest.mark.parametrize("fault", ["reset raises", "raises always", "make raises"])
def test_restarts_come_to_an_end(fault: str) -> None:
    made = []

    class Hopeless(PlannedEnv):
        def __init__(self) -> None:
            made.append(1)
            if fault == "make raises" and len(made) > 1:
                raise RuntimeError("hopeless")
            super().__init__(PLANS)

        def reset(self, **options: Any) -> Any:  # Any: gymnasium's
            if fault == "reset raises":
                raise RuntimeError("hopeless")
            return super().reset(**options)

        def step(self, action: Any) -> Any:  # Any: gymnasium's
            raise RuntimeError("hopeless")

    envs = LoopEnvs(Hopeless, 1, name="h", on_error="restart")
    with pytest.raises(EnvError, match=r"h, env 0: was restarted 10 times without finishing a step. The last error: .*hopeless"):
        envs.reset(0)
        for _ in range(20):
            assert envs.step(np.zeros(1, np.int64)).failed == (0,)
    assert len(made) == 1 + MAX_RESTARTS


def test_restarts_do_not_come_to_an_end_while_steps_are_finished() -> None:
    class Fragile(PlannedEnv):
        def step(self, action: Any) -> Any:  # Any: gymnasium's
            if self.at == 1:
                raise RuntimeError("again.")
            return super().step(action)

    envs = LoopEnvs(lambda: Fragile((((5, "terminated"),),)), 1, name="fragile", on_error="restart")
    envs.reset(0)
    assert [envs.step(np.zeros(1, np.int64)).failed for _ in range(30)] == [(), (0,)] * 15
    alone = LoopEnvs(lambda: Fragile((((5, "terminated"),),)), 1, name="fragile")
    alone.reset(0)
    alone.step(np.zeros(1, np.int64))
    with pytest.raises(EnvError, match=r"step raised RuntimeError: again\. Fix"):
        alone.step(np.zeros(1, np.int64))


def spoil(part: str, value: Any) -> Callable[[int | None], VectorEnv[Any, Any, Any]]:  # Any: whatever is wrong
    class Spoilt(PlannedVectorEnv):
        def step(self, actions: Array) -> Any:  # Any: gymnasium's
            result = dict(zip(["obs", "rewards", "over", "cut", "infos"], super().step(actions), strict=True))
            result[part] = value(result[part])
            return tuple(result.values())

    return lambda _: Spoilt(3, (((9, "truncated"),), ((1, "truncated"),)), SAME)  # only env 1 ends in the first step


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("obs", lambda obs: obs * [[1], [1], [np.nan]], "planned, env 2: obs is not finite"),
        ("obs", lambda obs: obs[:2], r"planned: obs has shape \(2, 4\); its space .* says \(3, 4\)"),
        ("obs", lambda obs: obs.astype(int), "planned: obs has type int64"),
        ("rewards", lambda _: np.asarray([0, np.inf, 0]), "planned, env 1: reward is not a finite number: inf"),
        ("rewards", lambda rewards: rewards[:, None], r"planned: reward .* \(3, 1\), \(3,\) and \(3,\); all need \(3,\)"),
        ("infos", lambda _: {}, "planned: final_obs is not in the infos, though episodes ended"),
        (
            "infos",
            lambda infos: {"final_obs": infos["final_obs"] * [[1], [np.nan], [1]]},
            "planned, env 1: obs of an episode's end",
        ),
        (
            "infos",
            lambda infos: infos | {"action_mask": np.ones((3, 3))},
            "planned: action_mask is in the infos, but the first reset",
        ),
    ],
)
def test_a_vector_env_is_checked_all_at_once(part: str, value: Any, sentence: str) -> None:  # Any: a function
    envs = vector(spoil(part, value), 3)
    envs.reset(0)
    with pytest.raises(EnvError, match=f"^{sentence}"):
        envs.step(np.zeros(3, np.int64))


def test_a_vector_env_has_to_say_how_it_resets() -> None:
    class Silent(PlannedVectorEnv):
        def __init__(self) -> None:
            super().__init__(1, PLANS, NEXT)
            del self.metadata

    VectorEnv.metadata["autoreset_mode"] = SAME  # ale-py does this to everybody
    try:
        with pytest.raises(EnvError, match=r"planned: has the autoreset mode None. Give its class metadata"):
            vector(lambda _: Silent(), 1)
    finally:
        del VectorEnv.metadata["autoreset_mode"]


@pytest.mark.filterwarnings("ignore:.*(Received the following error|Raising the last exception|Traceback)")
def test_a_process_that_fails_is_named_and_the_others_end() -> None:
    envs = EnvSpec(Faulty, kwargs={"fault": "raises"}, vectorizer="processes").make(3)
    assert isinstance(envs, VectorEnvs)
    envs.reset(0)
    envs.step(np.zeros(3, np.int64))
    with pytest.raises(EnvError, match="Faulty, env 1: step raised RuntimeError: broken"):
        envs.step(np.zeros(3, np.int64))
    envs.close()
    workers = envs._env.unwrapped
    assert isinstance(workers, AsyncVectorEnv)
    assert not any(process.is_alive() for process in workers.processes)


def test_a_process_that_dies_is_an_error_and_the_others_end() -> None:
    class Dies(PlannedEnv):
        def step(self, action: Any) -> Any:  # Any: gymnasium's
            if self.number == 1:
                os._exit(3)
            return super().step(action)

    envs = EnvSpec(Dies, kwargs={"plans": PLANS}, vectorizer="processes").make(2)
    assert isinstance(envs, VectorEnvs)
    envs.reset(0)
    with pytest.raises(EnvError, match="Dies: step raised ChildProcessError: a process has died"):
        envs.step(np.zeros(2, np.int64))
    envs.close()
    workers = envs._env.unwrapped
    assert isinstance(workers, AsyncVectorEnv)
    assert not any(process.is_alive() for process in workers.processes)


def test_copies_need_the_same_spaces() -> None:
    made: list[int] = []
    closed: list[int] = []

    class Grows(PlannedEnv):
        def __init__(self) -> None:
            super().__init__(PLANS)
            made.append(1)
            self.observation_space = spaces.Box(0, 1, (1 + len(made) // 2,))

        def close(self) -> None:
            closed.append(1)

    with pytest.raises(EnvError, match=r"grows, env 1: its observation space is Box.*, but env 0 began with Box"):
        LoopEnvs(Grows, 3, name="grows")
    assert len(closed) == 3


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        (
            spaces.Text(3),
            r"obs has the space Text.*Supported are Box, Discrete, MultiDiscrete and MultiBinary, and Dict and Tuple",
        ),
        (spaces.Dict({"a": spaces.Graph(spaces.Discrete(2), None)}), "obs/a has the space Graph"),
        (spaces.Dict({}), "obs has an empty space"),
        (spaces.Dict({"a": spaces.Box(-1, 1, (3, 0))}), "obs/a has the empty space Box"),
        (
            spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)}), "a/b": spaces.Discrete(2)}),
            "obs/a/b is the name of two parts",
        ),
    ],
)
def test_spaces_that_do_not_fit_arrays_are_refused(space: Any, sentence: str) -> None:  # Any: spaces are generic
    with pytest.raises(Mismatch, match=sentence):
        ObsLayout(space)
    with pytest.raises(Mismatch, match=r"actions have the space .* Supported are Discrete, MultiDiscrete, Box and MultiBinary"):
        ActionLayout(space)


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (0,)), spaces.MultiDiscrete([])])
def test_actions_that_are_none_are_refused(space: Any) -> None:  # Any: as above
    with pytest.raises(Mismatch, match=r"actions have the empty space .*, with nothing to choose"):
        ActionLayout(space)


@given(value=st.floats(width=64, allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) < 1e38))
def test_float64_observations_of_a_float32_space_are_rounded(value: float) -> None:
    row = array(ObsLayout(SPACES["box"]).row(np.full(4, value)))
    assert row.dtype == np.float32
    assert (row == np.float32(value)).all()


# --------------------------------------------------------------------------- specs


def factory(num_envs: int, mode: AutoresetMode = NEXT) -> PlannedVectorEnv:
    return PlannedVectorEnv(num_envs, PLANS, mode)


def test_auto_takes_what_comes_with_the_env() -> None:
    def kind(spec: EnvSpec) -> str:
        envs = spec.make(2)
        envs.reset(0)
        envs.step(np.zeros((2, *(envs.action_space.shape or ())), envs.action_space.dtype))
        envs.close()
        inner = envs._env.unwrapped if isinstance(envs, VectorEnvs) else envs
        return type(inner).__name__

    assert kind(EnvSpec("CartPole-v1")) == "CartPoleVectorEnv"
    assert kind(EnvSpec("CartPole-v1", on_error="restart")) == "LoopEnvs"
    assert kind(EnvSpec("CartPole-v1", wrappers=[partial(FrameStackObservation, stack_size=3), NormalizeReward])) == "LoopEnvs"
    assert kind(EnvSpec("CartPole-v1", vector_wrappers=[NormalizeObservation])) == "CartPoleVectorEnv"
    assert kind(EnvSpec("CartPole-v1", vectorizer="loop", vector_wrappers=[NormalizeObservation])) == "SyncVectorEnv"
    assert kind(EnvSpec("Pendulum-v1", wrappers=(partial(ClipReward, min_reward=-1),))) == "LoopEnvs"
    assert kind(EnvSpec(PlannedEnv, kwargs={"plans": PLANS})) == "LoopEnvs"
    assert kind(EnvSpec(factory, kwargs={"mode": OFF})) == "PlannedVectorEnv"
    assert kind(EnvSpec.of(lambda: PlannedEnv(PLANS))) == "LoopEnvs"
    spec = EnvSpec("CartPole-v1")
    assert EnvSpec.of(spec) is spec
    assert EnvSpec.of("CartPole-v1") == spec


@pytest.mark.parametrize(
    "spec",
    [
        EnvSpec("CartPole-v1", max_episode_steps=3),
        EnvSpec("CartPole-v1", max_episode_steps=3, vectorizer="loop"),
        EnvSpec(lambda: gymnasium.make("CartPole-v1").unwrapped, max_episode_steps=3),
    ],
)
def test_episodes_can_be_cut_short(spec: EnvSpec) -> None:
    envs = cloudpickle.loads(cloudpickle.dumps(spec)).make(2)
    envs.reset(0)
    steps = [envs.step(np.asarray([0, 1])) for _ in range(3)]
    assert [step.truncated.tolist() for step in steps] == [[False, False]] * 2 + [[True, True]]
    assert [step.final_obs is None for step in steps] == [True, True, False]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: EnvSpec("CartPole-v1", vectorizer="fast"), "vectorizer must be 'auto' or 'native' or 'loop'.*, got 'fast'"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: EnvSpec("CartPole-v1", on_error="ignore"), "on_error must be 'raise' or 'restart', got 'ignore'"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: EnvSpec("CartPole-v1", max_episode_steps=0), "max_episode_steps must be at least 1"),
        (lambda: EnvSpec("CartPole-v1", kwargs=[1]), "kwargs must be a mapping"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: EnvSpec("CartPole-v1", wrappers=NormalizeReward), "wrappers must be a list of wrappers"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: EnvSpec("x", wrappers=[(ClipReward, {})]), r"classes or functions.*Write partial\(Wrapper"),  # type: ignore[list-item]  # wrong on purpose
        (lambda: EnvSpec(3), "env must be a gymnasium id or something that makes an env, got 3"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: EnvSpec(PlannedEnv(PLANS)), "Pass a function that makes it: every worker needs its own"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: EnvSpec("CartPole-v1", vectorizer="native", wrappers=[NormalizeReward]), "wrappers go around single envs"),
        (lambda: EnvSpec(factory, wrappers=[NormalizeReward]), "wrappers go around single envs"),
        (lambda: EnvSpec(PlannedEnv, vectorizer="envpool"), "needs the id that EnvPool has"),
        (lambda: EnvSpec(factory, vectorizer="loop"), "factory makes vector envs; leave out vectorizer='loop'"),
        (lambda: EnvSpec(PlannedEnv, vectorizer="native"), "PlannedEnv must take num_envs to be native"),
        (lambda: EnvSpec("x", vectorizer="processes", on_error="restart"), "needs single envs in a loop"),
        (lambda: EnvSpec("x", vector_wrappers=[NormalizeObservation], on_error="restart"), "vector_wrappers do not allow that"),
        (lambda: EnvSpec("ALE/Pong-v5", on_error="restart"), "Atari games run as one vector env"),
        (lambda: EnvSpec(factory, max_episode_steps=3), "factory makes vector envs and takes no max_episode_steps"),
        (lambda: EnvSpec("CartPole-v1").make(0), "num must be at least 1"),
    ],
)
def test_a_wrong_spec_is_refused_before_anything_is_made(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PlanError, match=f"^EnvSpec.*{sentence}"):
        make()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (EnvSpec("cartpole-v1"), "cartpole-v1: is not an env that gymnasium knows. Did you mean CartPole-v1"),
        (EnvSpec("CartPole-v9", vectorizer="loop"), "Did you mean CartPole-v1"),
        (
            EnvSpec("xyzzy"),
            "xyzzy: is not an env that gymnasium knows. Import the package that registers it, or write 'package:id'",
        ),
        (EnvSpec("no_such_package:X-v0"), "needs a module that is not there: No module named 'no_such_package'"),
        (EnvSpec("Pendulum-v1", vectorizer="native"), "has no vector env of its own. Use vectorizer='loop' or 'processes'"),
        (EnvSpec("CartPole-v1", kwargs={"speed": 3}), "CartPole-v1: make raised TypeError: .*'speed'"),
        (EnvSpec(lambda num_envs: factory(num_envs + 1)), "is made as a vector env of 3, but takes num_envs=2"),
        (EnvSpec(lambda num_envs: PlannedEnv(PLANS)), "is made as a PlannedEnv, but takes num_envs=2"),
        (EnvSpec(lambda: factory(2)), "env 0: is made as a PlannedVectorEnv, not a gymnasium.Env"),
        (EnvSpec(PlannedEnv, kwargs={"plans": PLANS}, wrappers=[lambda _: 1 / 0]), "env 0: make raised ZeroDivisionError"),
    ],
)
def test_an_env_that_cannot_be_made_is_a_sentence(spec: EnvSpec, sentence: str) -> None:
    with pytest.raises(EnvError, match=sentence):
        spec.make(2)


def test_a_spec_loads_nothing_heavy() -> None:
    code = "import sys; from tflow.rl.envs.env_spec import EnvSpec; EnvSpec('x'); "
    "assert not {'gymnasium', 'torch'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


# --------------------------------------------------------------------------- real envs


@pytest.mark.parametrize("vectorizer", ["native", "loop"])
def test_cartpole_obeys_its_physics_in_every_adapter(vectorizer: Vectorizer) -> None:
    envs = EnvSpec("CartPole-v1", vectorizer=vectorizer).make(4)
    single: Any = gymnasium.make("CartPole-v1").unwrapped  # Any: its state is set from outside
    actions = np.random.default_rng(0).integers(0, 2, (120, 4))
    obs = array(envs.reset(3)[0])
    ends = 0
    for chosen in actions:
        before = obs.copy()
        step = envs.step(chosen)
        obs, rewards, terminated, valid = array(step.obs), step.rewards, step.terminated, step.valid
        assert not step.truncated.any()
        after = obs.copy()
        if step.final_obs is not None:
            after[terminated] = array(step.final_obs)
        ends += int(terminated.sum())
        for row in range(4):
            if valid is not None and not valid[row]:
                assert np.abs(obs[row]).max() <= 0.05, "it was reset"
                continue
            single.reset()
            single.state = before[row].astype(np.float64)
            expected, reward, over, _, _ = single.step(chosen[row])
            np.testing.assert_allclose(after[row], expected, rtol=1e-5, atol=1e-6)
            assert (rewards[row], terminated[row]) == (reward, over)
        if vectorizer == "loop":
            assert (np.abs(obs[terminated]) <= 0.05).all(), "what the policy sees next is the new episode"
    assert ends > 10


def test_pong_gives_last_observations_and_starts_again() -> None:
    pytest.importorskip("ale_py", reason="needs tflow[atari]")
    options: dict[str, object] = {"num_threads": 1, "noop_max": 4, "repeat_action_probability": 0.0}
    same = EnvSpec("ALE/Pong-v5", kwargs=options, max_episode_steps=5).make(2)
    after = EnvSpec("ALE/Pong-v5", kwargs=options, max_episode_steps=5, vector_wrappers=[TransformVector]).make(2)
    assert isinstance(same, VectorEnvs)
    assert isinstance(after, VectorEnvs)
    assert (same._mode, after._mode) == (SAME, NEXT)
    assert same.observation_space == spaces.Box(0, 255, (4, 84, 84), np.uint8)
    actions = [[2, 3, 0, 1, 2, 2, 3, 0, 0, 5, 4, 3]] * 2
    found = collected(same, 3, actions)
    assert found == collected(after, 3, actions)
    assert [row.truncated for row in found[0]] == [at % 5 == 4 for at in range(12)]
    assert found[0][4].next_obs != found[0][5].obs


def test_vector_wrappers_are_around_the_vector_env() -> None:
    class Doubled(gymnasium.vector.VectorRewardWrapper[Any, Any, Any]):  # Any: a generic class
        def rewards(self, rewards: Array) -> Array:
            return rewards * 2

    def rewards(spec: EnvSpec) -> list[float]:
        envs = spec.make(2)
        envs.reset(0)
        values: list[float] = envs.step(np.zeros(2, np.int64)).rewards.tolist()
        return values

    once = rewards(EnvSpec(factory))
    assert rewards(EnvSpec(factory, vector_wrappers=[Doubled, Doubled])) == [4 * reward for reward in once] != once
    assert rewards(EnvSpec(PlannedEnv, kwargs={"plans": PLANS}, vector_wrappers=[Doubled])) == [2 * reward for reward in once]


def test_envs_by_id_are_checked_by_us_and_not_by_gymnasium_s_warnings() -> None:
    class Double(PlannedEnv):
        def reset(self, **options: Any) -> Any:  # Any: gymnasium's
            obs, info = super().reset(**options)
            return obs.astype(np.float64), info

    gymnasium.register("tests/Double-v0", lambda **_: Double(PLANS))
    try:
        assert array(EnvSpec("tests/Double-v0").make(1).reset(2)[0]).tolist() == [[2, 0, 0, -1]]
    finally:
        del gymnasium.registry["tests/Double-v0"]


def test_observation_wrappers_may_change_the_space() -> None:
    halved = partial(TransformObservation, func=lambda obs: obs[:2], observation_space=spaces.Box(-1e6, 1e6, (2,), np.float32))
    envs = EnvSpec(PlannedEnv, kwargs={"plans": PLANS}, wrappers=[halved]).make(2)
    assert array(envs.reset(4)[0]).tolist() == [[4, 0], [5, 0]]
