"""The algorithms by their names on the command line."""

from __future__ import annotations

from collections.abc import Mapping

from tflow.algos.a2c import A2C
from tflow.algos.a3c import A3C
from tflow.algos.algorithm import Algorithm
from tflow.algos.apex import ApeX
from tflow.algos.dqn import DQN
from tflow.algos.impala import IMPALA
from tflow.algos.maml import MAML
from tflow.algos.ppo import PPO
from tflow.algos.ppo_dqn import PPODQN

ALGORITHMS: Mapping[str, type[Algorithm]] = {
    "a2c": A2C,
    "a3c": A3C,
    "apex": ApeX,
    "dqn": DQN,
    "impala": IMPALA,
    "maml": MAML,
    "ppo": PPO,
    "ppo_dqn": PPODQN,
}
