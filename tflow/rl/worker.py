"""A rollout worker: several envs, one policy, one fragment of experience per call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

import numpy as np

from tflow.rl import arrays
from tflow.rl.arrays import Array, Obs
from tflow.rl.batch import AnyBatch, MultiBatch, Rollout, Sampled
from tflow.rl.episodes import Episodes
from tflow.rl.exploration import Explorer
from tflow.rl.gradients import Gradients
from tflow.rl.policies import make_policy
from tflow.rl.recorder import Following, Recorder
from tflow.rl.threads import one_thread
from tflow.types import Shard

if TYPE_CHECKING:
    from tflow.rl.envs import Envs, Step
    from tflow.rl.learner import Learner
    from tflow.rl.models import AnySpace
    from tflow.rl.policy import Policy
    from tflow.rl.workers import WorkerSpec

Weights = tuple[str, Array]
"""A policy and all its weights."""


def seed_for(*parts: int | str) -> int:
    """A seed that is a function of numbers and names, the same everywhere."""
    words = [word for part in parts for word in ([part % 2**64] if isinstance(part, int) else part.encode())]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> 33)


class RolloutWorker(ABC):
    """What plans know of a worker."""

    def __init__(self, spec: WorkerSpec, shard: Shard) -> None:
        self.spec = spec
        self.shard = shard
        self.rng = np.random.default_rng(shard.seed)
        self.steps = 0
        """Env steps made here."""
        self.policies: dict[str, Policy] = {}
        self.explorers: dict[str, Explorer] = {}
        self._learners: dict[str, Learner] = {}

    @abstractmethod
    def sample(self) -> Rollout | MultiBatch[Sampled, str]:
        """A fragment of experience with the current weights."""

    @abstractmethod
    def evaluate(self) -> Episodes:
        """Whole episodes from their beginning, without exploring."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the envs."""

    @property
    def all_steps(self) -> int:
        """About how many env steps all workers have made: what schedules go by."""
        return self.steps * self.shard.count

    def add_policy(self, name: str, observation_space: AnySpace, action_space: AnySpace, slots: int) -> None:
        """Make a policy, the same on all workers, and what it explores with."""
        spec = self.spec
        seed = seed_for(self.shard.session_seed, name)
        made = make_policy(spec.losses[name].policy(), spec.model_of(name), observation_space, action_space, seed=seed)
        self.policies[name] = made
        index, count = self.shard.index, max(self.shard.count, self.shard.index + 1)
        if spec.exploration is None or not spec.explore:
            self.explorers[name] = Explorer()
        else:
            self.explorers[name] = spec.exploration.start(slots, made.head.form, shard_index=index, shard_count=count)
        self.perturb(name, made.flat.get())

    def set_weights(self, weights: Weights) -> None:
        """Act with these from now on."""
        name, values = weights
        self.policies[name].flat.set(values)
        self.perturb(name, values)

    def perturb(self, name: str, weights: Array) -> None:
        """If exploring means to act with other weights, take those."""
        policy, explorer = self.policies[name], self.explorers[name]
        noisy = explorer.weights(weights, rng=self.rng)
        if noisy is not weights:
            seen = self.latest_obs(name)
            plain = None if seen is None else policy.scores(seen)
            policy.flat.set(noisy)
            if seen is not None and plain is not None:
                explorer.adapt(plain, policy.scores(seen))

    def latest_obs(self, policy: str) -> Obs | None:
        """What the policy sees right now; None before the first step."""
        return None

    def gradients(self, batch: AnyBatch) -> Gradients:
        """The gradient of the loss on a batch, with the weights that are here."""
        from tflow.rl.learner import Learner

        name = batch.policy
        if name not in self._learners:
            self._learners[name] = Learner(self.policies[name], self.spec.losses[name], self.spec.optimizer)
        with one_thread():
            values, stats = self._learners[name].gradients(batch, steps=self.all_steps)
        return Gradients(values, rows=len(batch), env_steps=batch.env_steps, policy=name, stats=stats, summary=batch.summary)


class SingleWorker(RolloutWorker):
    """All envs have one agent, and all agents one policy."""

    def __init__(self, spec: WorkerSpec, shard: Shard) -> None:
        super().__init__(spec, shard)
        (self.name,) = spec.losses
        self.envs: Envs = spec.env.make(spec.num_envs)
        self.obs: Obs | None = None
        self.masks: Array | None = None
        self.add_policy(self.name, self.envs.observation_space, self.envs.action_space, spec.num_envs)
        self.policy = self.policies[self.name]
        self.state = self.policy.initial_state(spec.num_envs)
        self.lengths = np.zeros(spec.num_envs, dtype=np.int32)
        self.returns = np.zeros(spec.num_envs)
        self.began = np.zeros(spec.num_envs, dtype=np.int64)
        """The step of this fragment with which the episode of each env begins."""

    def latest_obs(self, policy: str) -> Obs | None:
        return self.obs

    def sample(self) -> Rollout:
        with one_thread():
            recorder = Recorder(self.spec.num_envs, self.spec.fragment)
            finished: list[tuple[float, int]] = []
            lost = 0
            self.began[:] = 0
            obs = self.start()
            for step in range(self.spec.fragment):
                obs, gone = self.advance(obs, recorder, step, finished)
                lost += gone
            last = self.spec.fragment - 1
            cut = np.flatnonzero(recorder.valid[:, last] & ~recorder.closed[:, last])
            recorder.end(cut, last, self.following(arrays.picked(obs, cut), cut))
            rows = int(recorder.valid.sum())
            self.steps += rows
            summary = Episodes(len(finished), tuple(each for each, _ in finished), tuple(length for _, length in finished), lost)
            batch = recorder.finish(env_steps=rows, policy=self.name, summary=summary, values=self.values)
        return cast("Rollout", batch)

    def start(self) -> Obs:
        """The observations to act on, copied if the env may overwrite them."""
        if self.obs is None:
            self.obs, self.masks = self.envs.reset(seed_for(self.shard.seed))
        return self.obs

    def advance(self, obs: Obs, recorder: Recorder, step: int, finished: list[tuple[float, int]]) -> tuple[Obs, int]:
        """One step of all envs: the next observations, and how many envs were lost."""
        policy = self.policy
        explorer = self.explorers[self.name]
        acted = policy.rows(obs, self.rng, masks=self.masks, state=self.state, explore=self.spec.explore)
        actions, logp = acted.actions, acted.logp
        tried = explorer.apply(actions, steps=self.all_steps, rng=self.rng, masks=self.masks)
        if tried is not actions:
            logp = explorer.logp(tried, actions, steps=self.all_steps, masks=self.masks)
            actions = tried
        before = {
            **arrays.flat("obs", obs),
            "actions": actions,
            "logp": logp,
            "values": acted.values,
            "t": self.lengths,
        }
        if self.masks is not None:
            before["masks"] = self.masks
        if self.policy.recurrent:
            before["state"] = self.state
        recorder.write(before, step)
        self.state = acted.state
        taken = self.envs.step(policy.head.to_env(actions))
        recorder.write({"rewards": taken.rewards, "terminated": taken.terminated, "truncated": taken.truncated}, step)
        self.account(taken, recorder, step, finished)
        self.obs, self.masks = taken.obs, taken.masks
        return taken.obs, len(taken.lost)

    def account(self, taken: Step, recorder: Recorder, step: int, finished: list[tuple[float, int]]) -> None:
        """Keep count of episodes, and tell the recorder which rows are none and where pieces end."""
        self.returns += taken.rewards
        self.lengths += 1
        for env in taken.lost:  # all of its episode that is in this fragment goes with it
            recorder.leave_out(np.array([env]), slice(int(self.began[env]), step + 1))
            self.returns[env] = self.lengths[env] = 0
            self.began[env] = step + 1
        if taken.valid is not None:
            idle = np.flatnonzero(~taken.valid)
            recorder.leave_out(idle, step)
            self.returns[idle] = 0
            self.lengths[idle] = 0
            self.began[idle] = step + 1
        over = taken.terminated | taken.truncated
        ended = np.flatnonzero(over)
        if len(ended):
            assert taken.final_obs is not None
            recorder.end(ended, step, self.following(taken.final_obs, ended))
            finished += zip(self.returns[ended].tolist(), self.lengths[ended].tolist(), strict=True)
            self.returns[ended] = 0
            self.lengths[ended] = 0
            self.began[ended] = step + 1
        if len(ended) or taken.lost:
            over[list(taken.lost)] = True
            self.explorers[self.name].ended(over)
            self.state = np.where(over[:, None], np.float32(0), self.state)

    def following(self, obs: Obs, rows: Array) -> Following:
        """What follows a piece: the final observation, and the state to judge it with. Copies: envs reuse memory."""
        copied = {name: np.array(part, copy=True) for name, part in arrays.flat("obs", obs).items()}
        return {**copied, "state": self.state[rows]}

    def values(self, finals: Following) -> Array:
        return self.policy.values(arrays.nested(finals, "obs"), finals["state"])

    def evaluate(self) -> Episodes:
        """``spec.episodes`` whole episodes: each env gives its first ones, so that short episodes are not counted more often."""
        with one_thread():
            self.obs = None
            obs, self.masks = self.envs.reset(seed_for(self.shard.seed, self.steps))
            self.state = self.policy.initial_state(self.spec.num_envs)
            self.returns[:] = 0
            self.lengths[:] = 0
            wanted = -(-self.spec.episodes // self.spec.num_envs)
            found: list[list[tuple[float, int]]] = [[] for _ in range(self.spec.num_envs)]
            while min(map(len, found)) < wanted:
                acted = self.policy.rows(obs, self.rng, masks=self.masks, state=self.state, explore=False)
                taken = self.envs.step(self.policy.head.to_env(acted.actions))
                valid = np.ones(len(taken.rewards), bool) if taken.valid is None else taken.valid
                self.returns += taken.rewards
                self.lengths += valid
                over = taken.terminated | taken.truncated
                for env in np.flatnonzero(over):
                    found[env].append((float(self.returns[env]), int(self.lengths[env])))
                fresh = over | ~valid
                self.returns[fresh] = 0
                self.lengths[fresh] = 0
                self.state = np.where(fresh[:, None], np.float32(0), acted.state)
                obs, self.masks = taken.obs, taken.masks
                self.steps += int(valid.sum())
            first = [episode for nth in range(wanted) for episode in (each[nth] for each in found)][: self.spec.episodes]
        return Episodes(len(first), tuple(each for each, _ in first), tuple(length for _, length in first))

    def close(self) -> None:
        self.envs.close()
