"""Operators of reinforcement learning beyond those of most plans."""

from tflow.rl.data.batching import aggregate as aggregate
from tflow.rl.learning.gradients import AverageGradients as AverageGradients
from tflow.rl.learning.meta import AdaptToTask as AdaptToTask
from tflow.rl.replay.replay_spec import ComputePriorities as ComputePriorities
from tflow.rl.replay.replay_spec import MixInReplay as MixInReplay
from tflow.rl.replay.replay_spec import SendPriorities as SendPriorities
