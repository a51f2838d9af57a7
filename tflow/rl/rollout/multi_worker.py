"""Rollout workers for multi-agent envs. Each policy acts for all of its agents in all envs at once.

An agent's transition runs from its action to its next turn, which may be many env steps later. So a row is opened when an agent
acts and completed at its next turn; rows that are open when a fragment ends continue in the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tflow import sentences
from tflow.errors import PlanError
from tflow.rl.data import arrays
from tflow.rl.data.arrays import Array, Obs
from tflow.rl.data.batch import Batch, MultiBatch, Sampled
from tflow.rl.data.episodes import Episodes
from tflow.rl.policy.exploration import Explorer
from tflow.rl.policy.threads import one_thread
from tflow.rl.policy.weights import seed_for
from tflow.rl.rollout.normalizer import Normalizer
from tflow.rl.rollout.recorder import Following, Recorder
from tflow.rl.rollout.worker import RolloutWorker
from tflow.types import Shard

if TYPE_CHECKING:
    from tflow.rl.data.moments import Moments
    from tflow.rl.envs.multi_env import MultiEnvs, MultiStep, Turn
    from tflow.rl.learning.agent import AnyAgent
    from tflow.rl.policy.network_spec import AnySpace
    from tflow.rl.policy.policy import Policy
    from tflow.rl.rollout.worker_spec import WorkerSpec

CARRIED = 0
"""The column of a fragment for rows opened in the one before."""


AGENTS = ("state", "opened", "last", "lengths", "returns", "finished", "moments")
"""What the agents of a policy remember, by the names of their attributes."""


class PolicyAgents:
    """All agents of one policy in all envs of a worker."""

    def __init__(self, name: str, policy: Policy, explorer: Explorer, slots: Array, fragment: int, agent: AnyAgent) -> None:
        self.name = name
        self.policy = policy
        self.explorer = explorer
        self.slots = slots
        self.row_of_slot = {int(slot): row for row, slot in enumerate(slots)}
        self.fragment = fragment
        count = len(slots)
        self.state = policy.initial_state(count)
        self.opened = np.full(count, -1)
        """The column of the open row; -1 if there is none."""
        self.last = np.full(count, -1)
        """The column of the last completed row of the current piece."""
        self.lengths = np.zeros(count, dtype=np.int32)
        self.returns = np.zeros(count)
        self.finished: list[tuple[float, int]] = []
        self.agent = agent
        self.normalizer = Normalizer(agent, policy, count, gaps=True)
        self.moments: dict[str, Moments] = {}
        """Running statistics of the latest fragment."""
        self.recorder = self.new_recorder()

    def saved(self) -> dict[str, Any]:  # Any: of all kinds
        """All that they remember."""
        return {
            **{name: getattr(self, name) for name in AGENTS},
            "returns_so_far": self.normalizer.returns,
            "recorder": dict(vars(self.recorder)),
            "explorer": self.explorer.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        """Restore a state."""
        for name in AGENTS:
            setattr(self, name, state[name])
        self.normalizer.returns = state["returns_so_far"]
        vars(self.recorder).update(state["recorder"])
        self.explorer.load(state["explorer"])

    def fresh(self) -> PolicyAgents:
        """The same agents at the start."""
        return PolicyAgents(self.name, self.policy, self.explorer, self.slots, self.fragment, self.agent)

    def new_recorder(self) -> Recorder:
        recorder = Recorder(len(self.slots), self.fragment + 1)
        recorder.valid[:] = False  # rows count when they are completed
        recorder.whole = False
        return recorder

    def act(self, turn: Turn, step: int, steps: int, rng: np.random.Generator, explore: bool) -> Array:
        """Act for each agent whose turn it is, and open a row for it. Returns the actions as the env takes them."""
        rows = np.array([self.row_of_slot[int(slot)] for slot in turn.slots], dtype=np.int64)
        acted = self.policy.rows(turn.obs, rng, state=self.state[rows], masks=turn.masks, explore=explore)
        every = np.zeros((len(self.slots), *acted.actions.shape[1:]), acted.actions.dtype)
        every[rows] = acted.actions
        masks = None
        if turn.masks is not None:
            masks = np.ones((len(self.slots), turn.masks.shape[1]), dtype=bool)
            masks[rows] = turn.masks
        tried = self.explorer.apply(every, steps=steps, rng=rng, masks=masks) if explore else every
        logp, actions = acted.logp, tried[rows]
        if tried is not every:
            logp = self.explorer.logp(tried, every, steps=steps, masks=masks)[rows]
        before = {
            **arrays.flat("obs", turn.obs),
            "actions": actions,
            "logp": logp,
            "t": self.lengths[rows],
        }
        if acted.values is not None:
            before["values"] = acted.values
        if turn.masks is not None:
            before["masks"] = turn.masks
        if self.policy.recurrent:
            before["state"] = self.state[rows]
        self.recorder.write_some(before, rows, np.full(len(rows), step))
        self.opened[rows] = step
        self.state[rows] = acted.state
        return self.policy.head.to_env(actions)

    def complete(self, taken: MultiStep) -> None:
        """Complete the rows of agents whose transition has ended."""
        for slot in taken.failed:
            if slot in self.row_of_slot:
                self.forget(self.row_of_slot[slot])
        rows = np.flatnonzero(taken.completed[self.slots])
        slots, columns = self.slots[rows], self.opened[rows]
        self.recorder.write_some(
            {
                "rewards": taken.rewards[slots],
                "terminated": taken.terminated[slots],
                "truncated": taken.truncated[slots],
            },
            rows,
            columns,
        )
        self.recorder.valid[rows, columns] = True
        self.returns[rows] += taken.rewards[slots]
        self.lengths[rows] += 1
        self.last[rows] = columns
        self.opened[rows] = -1
        over = (taken.terminated | taken.truncated)[self.slots]
        if self.name in taken.final_obs:
            self.end(over, taken.final_obs[self.name], taken.final_masks.get(self.name))

    def end(self, over: Array, final_obs: Obs, final_masks: Array | None) -> None:
        """End the episodes of these agents; agents that never acted have no rows."""
        ended = np.flatnonzero(over)
        acted = self.last[ended] >= 0
        rows = ended[acted]
        masks = None if final_masks is None else final_masks[acted]
        self.recorder.end(rows, self.last[rows], self.following(arrays.picked(final_obs, acted), rows, masks))
        self.finished += zip(self.returns[rows].tolist(), self.lengths[rows].tolist(), strict=True)
        self.explorer.ended(over)
        self.reset(ended)

    def reset(self, rows: Array) -> None:
        self.returns[rows] = 0
        self.lengths[rows] = 0
        self.state[rows] = 0
        self.last[rows] = -1

    def forget(self, row: int) -> None:
        """Discard the episode of an agent whose env failed, with its rows in this fragment."""
        length = int(self.lengths[row])
        mine = np.flatnonzero(self.recorder.valid[row])
        self.recorder.valid[row, mine[max(0, len(mine) - length) :]] = False
        self.opened[row] = -1
        self.reset(np.array([row]))

    def following(self, obs: Obs, rows: Array, masks: Array | None = None) -> Following:
        found = {**arrays.flat("obs", obs), "state": self.state[rows]}
        if "masks" in self.recorder.columns:
            allowed = np.ones((len(rows), self.recorder.columns["masks"].shape[-1]), dtype=bool)
            found["masks"] = allowed if masks is None else masks
        return found

    def finish(self, turn: Turn, *, summary: object, worker: int) -> Batch[Sampled]:
        """Finish the batch of this fragment; open rows are carried over to the next one."""
        waiting = np.flatnonzero(self.last >= 0)
        idle = waiting[self.opened[waiting] < 0]
        if len(idle):
            places = np.array([np.flatnonzero(turn.slots == self.slots[row])[0] for row in idle])
            masks = None if turn.masks is None else turn.masks[places]
            self.recorder.end(idle, self.last[idle], self.following(arrays.picked(turn.obs, places), idle, masks))
        busy = waiting[self.opened[waiting] >= 0]
        if len(busy):
            seen = {
                name: column[busy, self.opened[busy]]
                for name, column in self.recorder.columns.items()
                if name in ("obs", "masks") or name.startswith("obs/")
            }
            self.recorder.end(busy, self.last[busy], {**seen, "state": self.state[busy]})
        done, self.recorder = self.recorder, self.new_recorder()
        still = np.flatnonzero(self.opened >= 0)
        if len(still):
            kept = {name: column[still, self.opened[still]] for name, column in done.columns.items()}
            self.recorder.write_some(kept, still, np.full(len(still), CARRIED))
            self.opened[still] = CARRIED
        self.last[:] = -1
        rows = int(done.valid.sum())
        self.moments = self.normalizer.gather(done)
        return done.finish(env_steps=rows, policy=self.name, summary=summary, values=self.values, worker=worker)

    def values(self, finals: Following) -> Array:
        return self.policy.final_values(arrays.nested(finals, "obs"), finals["state"], finals.get("masks"))


class MultiWorker(RolloutWorker):
    """A worker for multi-agent envs, where each agent has one of several policies."""

    def __init__(self, spec: WorkerSpec, shard: Shard) -> None:
        super().__init__(spec, shard)
        self.envs: MultiEnvs = spec.env.make_multi(spec.num_envs, policy_of_checked(spec))
        self.turns: dict[str, Turn] | None = None
        self.agents_of: dict[str, PolicyAgents] = {}
        for name, group in self.envs.groups.items():
            policy = self.add_policy(name, group.observation_space, group.actions.own_space)
            self.explorers[name] = self.explorer(name, policy, len(group.slots))
            self.agents_of[name] = PolicyAgents(name, policy, self.explorers[name], group.slots, spec.fragment, spec.agents[name])
            self.perturb(name, policy.flat.get())
        self.lengths = np.zeros(spec.num_envs, dtype=np.int64)
        self.truncated = 0
        self.returns = np.zeros(spec.num_envs)

    def state(self) -> dict[str, Any]:  # Any: as in the base class
        envs = None if self.turns is None else self.envs.state()
        if envs is None and self.turns is not None:
            self.restart_episodes()
            self.envs.renew()
            self.say_not_saved()
        return {
            **super().state(),
            "turns": self.turns,
            "lengths": self.lengths,
            "returns": self.returns,
            "truncated": self.truncated,
            "agents": {name: group.saved() for name, group in self.agents_of.items()},
            "envs": envs,
        }

    def load(self, state: Mapping[str, Any]) -> None:  # Any: as above
        super().load(state)
        self.turns, self.lengths, self.returns = state["turns"], state["lengths"], state["returns"]
        self.truncated = state["truncated"]
        for name, group in self.agents_of.items():
            group.load(state["agents"][name])
        if state["envs"] is not None:
            self.envs.load(state["envs"])

    @property
    def all_envs(self) -> list[MultiEnvs]:
        return [self.envs]

    def latest_obs(self, policy: str) -> Obs | None:
        if self.turns is None or not len(self.turns[policy].slots):
            return None
        return self.turns[policy].obs

    def sample(self) -> MultiBatch[Sampled, str]:
        with one_thread():
            self.follow_curriculum()
            turns = self.start()
            finished: list[tuple[float, int]] = []
            discarded = 0
            for step in range(1, self.spec.fragment + 1):
                turns, over, gone = self.advance(turns, step, explore=self.spec.explore)
                finished += over
                discarded += gone
            env_steps = self.spec.num_envs * self.spec.fragment
            self.steps += env_steps
            index = self.shard.index
            batches = {name: each.finish(turns[name], summary=None, worker=index) for name, each in self.agents_of.items()}
        moments = {name: group.moments for name, group in self.agents_of.items() if group.moments}
        summary = replace(self.summary(finished, discarded), moments=moments)
        return MultiBatch(batches, env_steps=env_steps, summary=summary)

    def start(self) -> dict[str, Turn]:
        if self.turns is None:
            self.turns = self.envs.reset(seed_for(self.shard.seed, "training", self.steps))
        return self.turns

    def advance(
        self, turns: dict[str, Turn], step: int, *, explore: bool
    ) -> tuple[dict[str, Turn], list[tuple[float, int]], int]:
        """Step all envs. Returns the next turns, the episodes that ended, and how many were discarded."""
        actions = {
            name: self.agents_of[name].act(turn, step, self.global_steps, self.rng, explore)
            for name, turn in turns.items()
            if len(turn.slots)
        }
        taken = self.envs.step(actions)
        for group in self.agents_of.values():
            group.complete(taken)
        self.turns = taken.turns
        agents = len(self.envs.agents)
        self.returns += taken.rewards.reshape(-1, agents).sum(axis=1)
        self.lengths += 1
        broken = sorted({slot // agents for slot in taken.failed})
        over = np.flatnonzero(taken.over)
        finished = list(zip(self.returns[over].tolist(), self.lengths[over].tolist(), strict=True))
        self.truncated += int(np.asarray(taken.truncated.reshape(-1, agents).any(axis=1))[over].sum())
        fresh = [*over, *broken]
        self.returns[fresh] = 0
        self.lengths[fresh] = 0
        return taken.turns, finished, len(broken)

    def summary(self, finished: list[tuple[float, int]], discarded: int) -> Episodes:
        """Statistics of episodes: of the envs, with the summed return of all agents, and of each policy."""
        by_policy = {}
        for name, group in self.agents_of.items():
            by_policy[name] = _episodes(group.finished)
            group.finished = []
        truncated, self.truncated = self.truncated, 0
        return replace(_episodes(finished, discarded, by_policy), truncated=truncated)

    def play_episodes(self) -> Episodes:
        self.restart_episodes()
        turns = self.envs.reset(seed_for(self.shard.seed, "evaluation", self.steps))
        finished: list[tuple[float, int]] = []
        step = 0
        while len(finished) < self.spec.episodes:
            step = step % self.spec.fragment + 1
            turns, over, _ = self.advance(turns, step, explore=not self.deterministic)
            finished += over
            self.steps += self.spec.num_envs
            endless = self.endless(self.lengths)
            if endless:
                finished += zip(self.returns[endless].tolist(), self.lengths[endless].tolist(), strict=True)
                break
        found = self.summary(finished[: self.spec.episodes], 0)
        self.restart_episodes()
        return found

    def restart_episodes(self) -> None:
        """Start the next rollout with fresh episodes."""
        self.agents_of = {name: group.fresh() for name, group in self.agents_of.items()}
        self.turns = None
        self.returns[:] = 0
        self.lengths[:] = 0

    def close(self) -> None:
        self.envs.close()


def _episodes(finished: list[tuple[float, int]], discarded: int = 0, policies: dict[str, Episodes] | None = None) -> Episodes:
    returns, lengths = tuple(value for value, _ in finished), tuple(length for _, length in finished)
    return Episodes(len(finished), returns, lengths, discarded, policies or {})


def spaces_by_policy(spec: WorkerSpec) -> dict[str, tuple[AnySpace, AnySpace]]:
    """Observation and action space of each policy. Makes the env once, and closes it."""
    envs = spec.env.make_multi(1, policy_of_checked(spec))
    spaces: dict[str, tuple[AnySpace, AnySpace]] = {
        name: (group.observation_space, group.actions.own_space) for name, group in envs.groups.items()
    }
    envs.close()
    missing = sorted(spec.agents.keys() - spaces.keys())
    if missing:
        raise PlanError(f"No agent has the policy {' or '.join(missing)}: policy_of maps the agents to {sorted(spaces)}.")
    return spaces


def policy_of_checked(spec: WorkerSpec) -> Callable[[str], str]:
    """``policy_of`` that raises for a policy without a loss."""

    def policy_of(agent: str) -> str:
        assert spec.policy_of is not None
        policy = spec.policy_of(agent)
        if policy not in spec.agents:
            raise PlanError(sentences.mapped("policy_of", policy, sorted(spec.agents), agent))
        return policy

    return policy_of
