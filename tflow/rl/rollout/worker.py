"""Rollout workers: several envs, one policy, one fragment of experience per call."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tflow.errors import EnvError, TflowError
from tflow.rl.data import arrays
from tflow.rl.data.arrays import Array, Obs
from tflow.rl.data.batch import AnyBatch, MultiBatch, Rollout, Sampled
from tflow.rl.data.episodes import NONE, Episodes
from tflow.rl.learning.gradients import Gradients
from tflow.rl.policy.exploration import Explorer
from tflow.rl.policy.policy_spec import make_policy
from tflow.rl.policy.threads import one_thread
from tflow.rl.policy.weights import Weights, given_weights, seed_for
from tflow.rl.rollout.in_place import InPlace, StepTaken
from tflow.rl.rollout.normalizer import Normalizer
from tflow.rl.rollout.recorder import Following, Recorder
from tflow.rl.schedules import EnvSteps
from tflow.types import Shard

if TYPE_CHECKING:
    from tflow.rl.envs.env import Adjustable, Envs
    from tflow.rl.learning.agent import AnyLoss
    from tflow.rl.learning.replica import Replica
    from tflow.rl.policy.network_spec import AnySpace
    from tflow.rl.policy.policy import Policy
    from tflow.rl.rollout.worker_spec import WorkerSpec


log = logging.getLogger("tflow")
PARTS_MISSING = (
    "the workers are sent only the weights that act, but this needs those of all parts. Say so in the agent: "
    'Agent(loss, sends="all").'
)
REMEMBERED = (
    "rng", "steps", "synced_steps", "stops_at", "weights", "weights_at", "evaluated_weights", "evaluation", "deterministic",
)  # fmt: skip
"""What every worker remembers, by the names of its attributes."""
LONGEST = 200_000
"""An episode of more steps than this is taken to be endless, and cannot be evaluated."""


class RolloutWorker(ABC):
    """Base class of rollout workers: what plans know of one."""

    def __init__(self, spec: WorkerSpec, shard: Shard) -> None:
        self.spec = spec
        self.shard = shard
        self.rng = np.random.default_rng(shard.seed)
        self.steps = 0
        """Env steps of this worker."""
        self.synced_steps = (0, 0)
        """Env steps of all workers when weights last arrived, and those of this worker then."""
        self.stops_at = shard.stops_at
        """Env steps of all workers after which the run stops, for schedules; None if that is not known."""
        self.weights: dict[str, Array] = {}
        """The latest weights by policy; parameter noise may act with others."""
        self.weights_at = 0
        """Env steps of all workers when these were sent."""
        self.evaluated_weights: dict[str, Array] = {}
        """The weights of the latest evaluation."""
        self.evaluation = NONE
        """The latest evaluation."""
        self.deterministic = True
        """Evaluate with the most likely actions; False samples them."""
        self.said_not_saved = False
        self.policies: dict[str, Policy] = {}
        self.explorers: dict[str, Explorer] = {}
        self.trained = InPlace()

    @property
    @abstractmethod
    def all_envs(self) -> Sequence[Adjustable]:
        """Its envs."""

    def follow_curriculum(self) -> None:
        """Set the attributes of the envs that change with training to what they are now. The weights that a worker is sent after
        a restart say how far training is."""
        if self.spec.env.curriculum and self.spec.explore:
            steps = self.global_steps
            found = {name: float(schedule.at(steps)) for name, schedule in self.spec.env.curriculum.items()}
            for envs in self.all_envs:
                if found != envs.settings:
                    envs.set(found)

    @abstractmethod
    def sample(self) -> Rollout | MultiBatch[Sampled, str]:
        """Sample a fragment with the current weights."""

    def evaluate(self) -> Episodes:
        """Evaluate the latest weights on whole episodes, without exploration."""
        with one_thread(), self.unperturbed():
            weights, at = dict(self.weights), self.weights_at
            self.evaluation = replace(self.play_episodes(), weights_at=at)
            self.evaluated_weights = weights
        return self.evaluation

    @abstractmethod
    def play_episodes(self) -> Episodes:
        """Play ``spec.episodes`` episodes from their start, without exploration. The next rollout starts with fresh episodes."""

    def state(self) -> dict[str, Any]:  # Any: of all kinds
        """All that the worker remembers. Envs that cannot be saved start new episodes, here and where the state is loaded."""
        return {
            **{name: getattr(self, name) for name in REMEMBERED},
            "policies": {name: policy.snapshot() for name, policy in self.policies.items()},
            "trained": self.trained.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Restore a state."""
        for name in REMEMBERED:
            setattr(self, name, state[name])
        for name, policy in self.policies.items():
            policy.restore(state["policies"][name])
        for name in state["trained"]["replicas"]:
            self.replica(name)
        self.trained.load(state["trained"])

    def replica(self, name: str) -> Replica:
        """What trains a policy in place, where several workers train it together; made when it is first needed."""
        found = self.trained.replicas.get(name)
        if found is None:
            from tflow.rl.learning.replica import Replica

            agent, seed = self.spec.agents[name], seed_for(self.shard.seed, name)
            found = self.trained.replicas[name] = Replica(
                self.policies[name],
                agent.loss,
                agent.optimizer,
                max_grad_norm=agent.max_grad_norm,
                sends=agent.sends,
                seed=seed,
                threads=self.spec.learner_threads or 1,
            )
        return found

    def set_progress(self, progress: tuple[int, int | None]) -> None:
        """Note the env steps of all workers so far, and those after which the run stops. The weights are here already."""
        env_steps, self.stops_at = progress
        self.weights_at = env_steps
        if env_steps > self.global_steps:
            self.synced_steps = env_steps, self.steps

    def say_not_saved(self) -> None:
        """Say once that the envs have no state that can be saved."""
        if not self.said_not_saved and self.shard.index == 0:
            log.warning("%s has no state that can be saved: its episodes end at every checkpoint.", self.spec.env.name)
        self.said_not_saved = True

    @abstractmethod
    def close(self) -> None:
        """Close the envs."""

    @property
    def global_steps(self) -> int:
        """Env steps of all workers, estimated, for schedules."""
        everybody, here = self.synced_steps
        steps = everybody + (self.steps - here) * self.shard.count
        return steps if self.stops_at is None else EnvSteps(steps, self.stops_at)

    def add_policy(self, name: str, observation_space: AnySpace, action_space: AnySpace) -> Policy:
        """Make a policy, with the same initial weights on all workers."""
        agent, seed = self.spec.agents[name], seed_for(self.shard.session_seed, name)
        made = make_policy(agent.loss.policy(), agent.network, observation_space, action_space, seed=seed)
        start = given_weights(self.shard, name)
        if start is not None:
            made.flat.set(start)
        self.policies[name] = made
        return made

    def explorer(self, name: str, policy: Policy, rows: int, lane: int = 0, lanes: int = 1) -> Explorer:
        """Make the explorer of a lane."""
        exploration = self.spec.agents[name].exploration
        if exploration is None or not self.spec.explore:
            return Explorer()
        index, count = self.shard.index, max(self.shard.count, self.shard.index + 1)
        return exploration.start(rows, policy.head.form, shard_index=index * lanes + lane, shard_count=count * lanes)

    def set_weights(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self.policies[weights.policy].flat.set(weights.values)
        self.perturb(weights.policy, weights.values)
        self.weights_at, self.stops_at = weights.env_steps, weights.stops_at
        if weights.env_steps > self.global_steps:  # other workers are ahead, or this one was restarted
            self.synced_steps = weights.env_steps, self.steps

    def perturb(self, name: str, weights: Array) -> None:
        """Note the weights of a policy, and perturb those it acts with if it explores by parameter noise."""
        policy, explorer = self.policies[name], self.explorers[name]
        self.weights[name] = weights
        parameters = weights[: policy.flat.parameters_in(weights)]  # no noise on running statistics
        noisy = explorer.weights(parameters, rng=self.rng)
        if noisy is not parameters:
            seen = self.latest_obs(name)
            unperturbed = None if seen is None else policy.scores(seen)
            policy.flat.set(np.concatenate((noisy, weights[len(parameters) :])))
            if seen is not None and unperturbed is not None:
                explorer.adapt(unperturbed, policy.scores(seen))

    def endless(self, lengths: Array) -> list[int]:
        """The envs whose episodes are so long that they are cut, if the description says so; else this raises for one that seems
        to be endless."""
        limit = self.spec.cut_after or LONGEST
        if lengths.max() < limit:
            return []
        if self.spec.cut_after is None:
            problem = (
                f"has an episode that is not over after {LONGEST:,} steps, so it cannot be evaluated. Give it a limit, such as "
                "gymnasium.wrappers.TimeLimit(env, 10_000), or leave out evaluation."
            )
            raise EnvError(problem, self.spec.env.name, int(lengths.argmax()))
        return [int(env) for env in np.flatnonzero(lengths >= limit)]

    @contextmanager
    def unperturbed(self) -> Iterator[None]:
        """Act without parameter noise for a while."""
        acting = {name: policy.flat.get() for name, policy in self.policies.items()}
        for name, policy in self.policies.items():
            policy.flat.set(self.weights[name])
        try:
            yield
        finally:
            for name, policy in self.policies.items():
                policy.flat.set(acting[name])

    def latest_obs(self, policy: str) -> Obs | None:
        """The current observations of a policy; None before the first step."""
        return None

    def check_parts(self, where: str, policy: str) -> None:
        """Raise if losses cannot be computed here, because workers are sent the parts that act alone."""
        if self.spec.agents[policy].sends == "acting" and self.policies[policy].acting:
            raise TflowError(f"{where}: {PARTS_MISSING}")

    def td_errors(self, batch: AnyBatch) -> Array:
        """Absolute TD errors of transitions. The policy bootstraps from itself: workers have no target network."""
        from tflow.rl.learning.learner import td_errors_of, with_scaled_rewards

        self.check_parts("ComputePriorities", batch.policy)
        policy, loss = self.policies[batch.policy], self.spec.agents[batch.policy].loss
        with one_thread():
            return td_errors_of(policy, loss, with_scaled_rewards(policy, loss, batch.untyped()), target=policy).errors

    def gradients(self, batch: AnyBatch, *, loss: AnyLoss | None = None) -> Gradients:
        """The gradient of the loss on a batch, with the weights of this worker."""
        name = batch.policy
        if not len(batch):  # all episodes were discarded
            nothing = np.zeros(self.policies[name].flat.trainable, np.float32)
            return Gradients(nothing, rows=0, policy=name, summary=batch.summary)
        from tflow.rl.learning.learner import gradients_of

        self.check_parts("ComputeGradients", name)
        chosen, policy = loss or self.spec.agents[name].loss, self.policies[name]
        with one_thread():
            target = policy if chosen.has_target else None  # workers have no target network
            values, stats = gradients_of(policy, chosen, batch, target=target, steps=self.global_steps)
        return Gradients(values, rows=len(batch), env_steps=batch.env_steps, policy=name, stats=stats, summary=batch.summary)


LANE = ("obs", "masks", "state_of_policy", "lengths", "returns", "began", "finished", "discarded", "truncated")
"""What a lane remembers, by the names of its attributes."""


class Lane:
    """Envs of a worker that step together. With two lanes (double-buffered sampling), one acts while the other's envs step."""

    def __init__(self, worker: SingleWorker, envs: Envs, rows: slice, explorer: Explorer) -> None:
        self.worker = worker
        self.policy = worker.policy
        self.envs = envs
        self.rows = rows
        """Their rows of the fragment."""
        self.explorer = explorer
        self.obs: Obs = np.empty(0)
        self.masks: Array | None = None
        self.state_of_policy = self.policy.initial_state(envs.num)
        self.lengths = np.zeros(envs.num, dtype=np.int32)
        self.returns = np.zeros(envs.num)
        self.began = np.zeros(envs.num, dtype=np.int64)
        """The step of this fragment at which the current episode of each env started."""
        self.finished: list[tuple[float, int]] = []
        self.discarded = self.truncated = 0

    def state(self) -> dict[str, Any]:  # Any: of all kinds
        """All that it remembers, but for its envs."""
        return {**{name: getattr(self, name) for name in LANE}, "explorer": self.explorer.state()}

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Restore a state."""
        for name in LANE:
            setattr(self, name, state[name])
        self.explorer.load(state["explorer"])

    def reset(self, seed: int, task: object) -> None:
        """Start new episodes."""
        self.obs, self.masks = self.envs.reset(seed + self.rows.start, task=task)
        self.state_of_policy = self.policy.initial_state(self.envs.num)
        self.lengths[:] = 0
        self.returns[:] = 0
        self.began[:] = 0
        self.finished = []
        self.explorer.ended(np.ones(self.envs.num, dtype=bool))

    def act(self, recorder: Recorder, step: int, *, explore: bool) -> None:
        """Choose and record actions, and start the env step."""
        worker, policy, obs, masks = self.worker, self.policy, self.obs, self.masks
        acted = policy.rows(obs, worker.rng, masks=masks, state=self.state_of_policy, explore=explore)
        actions, logp = acted.actions, acted.logp
        tried = self.explorer.apply(actions, steps=worker.global_steps, rng=worker.rng, masks=masks) if explore else actions
        if tried is not actions:
            logp = self.explorer.logp(tried, actions, steps=worker.global_steps, masks=masks)
            actions = tried
        before = {
            **arrays.flat("obs", obs),
            "actions": actions,
            "logp": logp,
            "t": self.lengths,
        }
        if acted.values is not None:
            before["values"] = acted.values
        if masks is not None:
            before["masks"] = masks
        if policy.recurrent:
            before["state"] = self.state_of_policy
        recorder.write(before, step, self.rows)
        self.state_of_policy = acted.state
        self.envs.begin(policy.head.to_env(actions))

    def take(self, recorder: Recorder, step: int) -> None:
        """Finish the env step: record its results, the ends of pieces, and the statistics of episodes."""
        taken = self.envs.finish()
        after = {"rewards": taken.rewards, "terminated": taken.terminated, "truncated": taken.truncated}
        recorder.write(after, step, self.rows)
        self.obs, self.masks = taken.obs, taken.masks
        self.returns += taken.rewards
        self.lengths += 1
        for env in taken.failed:  # the rows of its episode are discarded too
            recorder.leave_out(np.array([self.rows.start + env]), slice(int(self.began[env]), step + 1))
            self.discarded += 1
        if taken.valid is not None:
            idle = np.flatnonzero(~taken.valid)
            recorder.leave_out(self.rows.start + idle, step)
            self.over(idle, step)
        over = taken.terminated | taken.truncated
        ended = np.flatnonzero(over)
        if len(ended):
            assert taken.final_obs is not None
            recorder.end(self.rows.start + ended, step, self.following(taken.final_obs, ended, taken.final_masks))
            self.finished += zip(self.returns[ended].tolist(), self.lengths[ended].tolist(), strict=True)
            self.truncated += int((~taken.terminated[ended]).sum())
            self.over(ended, step)
        if len(ended) or taken.failed:
            over[list(taken.failed)] = True
            self.explorer.ended(over)
            self.state_of_policy = np.where(over[:, None], np.float32(0), self.state_of_policy)

    def over(self, envs: Array, step: int) -> None:
        """Start the statistics of a new episode with the next step."""
        self.returns[envs] = 0
        self.lengths[envs] = 0
        self.began[envs] = step + 1

    def cut(self, recorder: Recorder, last: int) -> None:
        """End the fragment with its step ``last``: running episodes continue in the next one."""
        open_rows = recorder.valid[self.rows, last] & ~recorder.closed[self.rows, last]
        envs = np.flatnonzero(open_rows)
        masks = None if self.masks is None else self.masks[envs]
        recorder.end(self.rows.start + envs, last, self.following(arrays.picked(self.obs, envs), envs, masks))
        self.began[:] = 0

    def following(self, obs: Obs, rows: Array, masks: Array | None = None) -> Following:
        """What follows a piece: the final observation (a copy already), the recurrent state, and the action mask if there are
        masks: all actions where none is known."""
        found = {**arrays.flat("obs", obs), "state": self.state_of_policy[rows]}
        if self.masks is not None:
            found["masks"] = np.ones((len(rows), self.masks.shape[1]), dtype=bool) if masks is None else masks
        return found


class SingleWorker(RolloutWorker):
    """A worker for single-agent envs and one policy."""

    def __init__(self, spec: WorkerSpec, shard: Shard) -> None:
        super().__init__(spec, shard)
        (self.name,) = spec.agents
        lanes = 2 if spec.env.computes_beside() and spec.num_envs % 2 == 0 else 1
        size = spec.num_envs // lanes
        envs = [spec.env.make(size) for _ in range(lanes)]
        self.policy = self.add_policy(self.name, envs[0].observation_space, envs[0].own_action_space)
        self.lanes = [
            Lane(self, each, slice(lane * size, (lane + 1) * size), self.explorer(self.name, self.policy, size, lane, lanes))
            for lane, each in enumerate(envs)
        ]
        self.explorers[self.name] = self.lanes[0].explorer
        self.normalizer = Normalizer(spec.agents[self.name], self.policy, spec.num_envs)
        self.started = False
        self.open: Recorder | None = None
        """The rollout that is being sampled step by step."""
        self.open_steps = self.open_rows = 0
        """Steps that it has, and rows that were reported."""
        self.task: object = None
        self.perturb(self.name, self.policy.flat.get())
        if spec.agents[self.name].loss.adapts:
            self.next_task()

    def state(self) -> dict[str, Any]:  # Any: as in the base class
        envs = [lane.envs.state() for lane in self.lanes] if self.started else []
        if None in envs:  # they start anew, here and where the state is loaded
            self.restart_episodes()
            for lane in self.lanes:
                if self.open is not None and self.open_steps:
                    lane.cut(self.open, self.open_steps - 1)
                lane.envs.renew()
            self.say_not_saved()
        return {
            **super().state(),
            "started": self.started,
            "task": self.task,
            "returns": self.normalizer.returns,
            "lanes": [lane.state() for lane in self.lanes],
            "envs": envs if self.started else [],
            "open": None if self.open is None else vars(self.open),
            "open_steps": self.open_steps,
            "open_rows": self.open_rows,
        }

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        super().load(state)
        self.started, self.task, self.normalizer.returns = state["started"], state["task"], state["returns"]
        for lane, saved in zip(self.lanes, state["lanes"], strict=True):
            lane.load(saved)
        for lane, saved in zip(self.lanes, state["envs"], strict=False):
            lane.envs.load(saved)
        self.open, self.open_steps, self.open_rows = None, state["open_steps"], state["open_rows"]
        if state["open"] is not None:
            self.open = Recorder(0, 0)
            vars(self.open).update(state["open"])

    @property
    def all_envs(self) -> list[Envs]:
        return [lane.envs for lane in self.lanes]

    def latest_obs(self, policy: str) -> Obs | None:
        return self.lanes[0].obs if self.started else None

    def sample(self) -> Rollout:
        with one_thread():
            self.follow_curriculum()
            if not self.started:
                self.begin(seed_for(self.shard.seed, "training", self.steps))
            recorder = Recorder(self.spec.num_envs, self.spec.fragment)
            for step in range(self.spec.fragment + 1):
                for lane in self.lanes:  # while one acts, the envs of the other step
                    if step > 0:
                        lane.take(recorder, step - 1)
                    if step < self.spec.fragment:
                        lane.act(recorder, step, explore=self.spec.explore)
            rows = int(recorder.valid.sum())
            self.steps += rows
            return self.finished(recorder, rows)

    def take_step(self) -> StepTaken:
        """Take one step in each env, for a rollout that ``finish_rollout`` ends, whenever that is."""
        with one_thread():
            if self.open is None:
                self.follow_curriculum()
                self.open, self.open_steps, self.open_rows = Recorder(self.spec.num_envs, self.spec.fragment), 0, 0
            if not self.started:
                self.begin(seed_for(self.shard.seed, "training", self.steps))
            for lane in self.lanes:
                lane.act(self.open, self.open_steps, explore=self.spec.explore)
            for lane in self.lanes:
                lane.take(self.open, self.open_steps)
        self.open_steps += 1
        rows = max(int(self.open.valid[:, : self.open_steps].sum()), self.open_rows)  # an episode may be discarded later
        new, self.open_rows = rows - self.open_rows, rows
        self.steps += new
        return StepTaken(new, self.summary())

    def finish_rollout(self) -> Rollout:
        """The rollout that was sampled step by step, as far as it is. Its rows and episodes were reported before."""
        recorder, self.open = self.open, None
        if recorder is None:
            raise TflowError(f"{self.shard.actors}[{self.shard.index}] has no open rollout: it has taken no step.")
        self.trained.was_cut = self.open_steps < recorder.steps
        recorder.cut(self.open_steps)
        with one_thread():
            return self.finished(recorder, 0)

    def finished(self, recorder: Recorder, rows: int) -> Rollout:
        """The batch of a rollout. Running episodes continue in the next one."""
        for lane in self.lanes:
            lane.cut(recorder, recorder.steps - 1)
        moments = self.normalizer.gather(recorder)
        summary = replace(self.summary(), moments={self.name: moments}) if moments else self.summary()
        index = self.shard.index
        found = recorder.finish(env_steps=rows, policy=self.name, summary=summary, values=self.values, worker=index)
        return cast("Rollout", found)

    def begin(self, seed: int) -> None:
        self.normalizer.returns[:] = 0
        for lane in self.lanes:
            lane.reset(seed, self.task)
        self.started = True

    def next_task(self) -> None:
        """Draw another task and restart all episodes."""
        self.task = self.lanes[0].envs.sample_task(self.rng)
        self.restart_episodes()

    def restart_episodes(self) -> None:
        """Start the next rollout with fresh episodes."""
        self.started = False

    def summary(self) -> Episodes:
        """Statistics of the episodes that ended since the last call."""
        found = [episode for lane in self.lanes for episode in lane.finished]
        discarded, truncated = sum(lane.discarded for lane in self.lanes), sum(lane.truncated for lane in self.lanes)
        for lane in self.lanes:
            lane.finished, lane.discarded, lane.truncated = [], 0, 0
        returns, lengths = tuple(each for each, _ in found), tuple(length for _, length in found)
        return Episodes(len(found), returns, lengths, discarded, truncated=truncated)

    def values(self, finals: Following) -> Array:
        return self.policy.final_values(arrays.nested(finals, "obs"), finals["state"], finals.get("masks"))

    def play_episodes(self) -> Episodes:
        """Each env contributes its first episodes, so that short ones are not over-represented."""
        wanted = -(-self.spec.episodes // self.spec.num_envs)
        self.begin(seed_for(self.shard.seed, "evaluation", self.steps))
        found = [episode for lane in self.lanes for episode in self.first_episodes(lane, wanted)]
        self.started = False
        first = [episode for _, episode in sorted(found, key=lambda pair: pair[0])][: self.spec.episodes]
        return Episodes(len(first), tuple(each for each, _ in first), tuple(length for _, length in first))

    def first_episodes(self, lane: Lane, wanted: int) -> list[tuple[int, tuple[float, int]]]:
        """The first episodes of each env of a lane, as (number, (return, length)). An env whose episode was cut plays no more."""
        found: list[list[tuple[float, int]]] = [[] for _ in range(lane.envs.num)]
        cut = set[int]()
        while any(len(each) < wanted for env, each in enumerate(found) if env not in cut):
            recorder = Recorder(self.spec.num_envs, 1)
            lane.act(recorder, 0, explore=not self.deterministic)
            before = lane.returns.copy(), lane.lengths.copy()
            lane.take(recorder, 0)
            for env in np.flatnonzero(recorder.closed[lane.rows, 0]):
                row = lane.rows.start + env
                found[env].append((float(before[0][env] + recorder.columns["rewards"][row, 0]), int(before[1][env]) + 1))
            self.steps += int(recorder.valid[lane.rows].sum())
            for endless in self.endless(lane.lengths):
                if endless not in cut:
                    cut.add(endless)
                    found[endless].append((float(lane.returns[endless]), int(lane.lengths[endless])))
        lane.finished, lane.truncated = [], 0
        return [(nth, episode) for each in found for nth, episode in enumerate(each[:wanted])]

    def close(self) -> None:
        for lane in self.lanes:
            lane.envs.close()
