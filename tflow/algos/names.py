"""The algorithms by their names on the command line."""

from __future__ import annotations

from collections.abc import Mapping

from tflow.algos.a2c import A2C
from tflow.algos.a3c import A3C
from tflow.algos.algorithm import Algorithm
from tflow.algos.apex import ApeX
from tflow.algos.apex_ddpg import ApeXDDPG
from tflow.algos.apex_sac import ApeXSAC
from tflow.algos.apex_td3 import ApeXTD3
from tflow.algos.appo import APPO
from tflow.algos.crossq import CrossQ
from tflow.algos.ddpg import DDPG
from tflow.algos.ddppo import DDPPO
from tflow.algos.dqn import DQN
from tflow.algos.impala import IMPALA
from tflow.algos.maml import MAML
from tflow.algos.pg import PG
from tflow.algos.ppo import PPO
from tflow.algos.ppo_dqn import PPODQN
from tflow.algos.pqn import PQN
from tflow.algos.r2d2 import R2D2
from tflow.algos.rainbow import Rainbow
from tflow.algos.rnd import RND
from tflow.algos.rnnsac import RNNSAC
from tflow.algos.sac import SAC
from tflow.algos.simple_q import SimpleQ
from tflow.algos.td3 import TD3
from tflow.algos.tqc import TQC

ALGORITHMS: Mapping[str, type[Algorithm]] = {
    "a2c": A2C,
    "a3c": A3C,
    "apex": ApeX,
    "apex_ddpg": ApeXDDPG,
    "apex_sac": ApeXSAC,
    "apex_td3": ApeXTD3,
    "appo": APPO,
    "crossq": CrossQ,
    "ddpg": DDPG,
    "ddppo": DDPPO,
    "dqn": DQN,
    "impala": IMPALA,
    "maml": MAML,
    "pg": PG,
    "ppo": PPO,
    "ppo_dqn": PPODQN,
    "pqn": PQN,
    "r2d2": R2D2,
    "rainbow": Rainbow,
    "rnd": RND,
    "rnnsac": RNNSAC,
    "sac": SAC,
    "simple_q": SimpleQ,
    "td3": TD3,
    "tqc": TQC,
}
"""Those of tflow itself; packages register others (``tflow.algos.installed``)."""
