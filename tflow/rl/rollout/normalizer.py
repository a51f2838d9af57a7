"""Running statistics of rollouts, and rewards divided by the scale of returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tflow.rl.data.moments import Moments
from tflow.rl.learning.losses import replays
from tflow.rl.rollout.recorder import Recorder

if TYPE_CHECKING:
    from tflow.rl.learning.agent import AnyAgent
    from tflow.rl.policy.policy import Policy


class Normalizer:
    """Gathers the running statistics of a worker's rollouts, and divides the rewards in them by the scale of returns."""

    def __init__(self, agent: AnyAgent, policy: Policy, slots: int, *, gaps: bool = False) -> None:
        self.agent, self.policy, self.gaps = agent, policy, gaps
        """``gaps``: an agent may have steps without a turn; otherwise a row that does not count ends its episode."""
        self.returns = np.zeros(slots)
        """The discounted return so far of the episode in each slot."""

    def gather(self, recorder: Recorder) -> dict[str, Moments]:
        """The moments of a fragment; its rewards are divided, unless replay will keep them."""
        if not self.agent.normalizes or not recorder.valid.any():
            return {}
        found = {}
        if self.agent.normalize_obs:
            observed = {each.column for each in self.policy.statistics} & recorder.columns.keys()
            found = {name: Moments.of(recorder.columns[name][recorder.valid]) for name in sorted(observed)}
        if self.agent.normalize_rewards is not None:
            found["returns"] = self.gather_returns(recorder, self.agent.normalize_rewards)
            if not replays(self.agent.loss):
                recorder.columns["rewards"] *= np.float32(self.policy.reward_scale)
        return found

    def gather_returns(self, recorder: Recorder, gamma: float) -> Moments:
        """The moments of discounted returns, as they grow step by step."""
        rewards, over = recorder.columns["rewards"], recorder.columns["terminated"] | recorder.columns["truncated"]
        seen = np.zeros(rewards.shape)
        for step in range(recorder.steps):
            valid = recorder.valid[:, step]
            self.returns = np.where(valid, gamma * self.returns + rewards[:, step], self.returns if self.gaps else 0.0)
            seen[:, step] = self.returns
            self.returns[over[:, step]] = 0.0
        return Moments.of(seen[recorder.valid][:, None])
