"""Algorithms: each file has a configuration, its plan, and the sub-flow that other plans are built from."""

from tflow.algos.a2c import A2C as A2C
from tflow.algos.a2c import a2c_plan as a2c_plan
from tflow.algos.a3c import A3C as A3C
from tflow.algos.a3c import a3c_plan as a3c_plan
from tflow.algos.algorithm import Algorithm as Algorithm
from tflow.algos.algorithm import SinglePolicy as SinglePolicy
from tflow.algos.algorithm import create_multi_workers as create_multi_workers
from tflow.algos.apex import ApeX as ApeX
from tflow.algos.apex import apex_plan as apex_plan
from tflow.algos.dqn import DQN as DQN
from tflow.algos.dqn import dqn_plan as dqn_plan
from tflow.algos.impala import IMPALA as IMPALA
from tflow.algos.impala import impala_plan as impala_plan
from tflow.algos.maml import MAML as MAML
from tflow.algos.maml import maml_plan as maml_plan
from tflow.algos.ppo import PPO as PPO
from tflow.algos.ppo import ppo_plan as ppo_plan
from tflow.algos.ppo_dqn import PPODQN as PPODQN
from tflow.algos.ppo_dqn import ppo_dqn_plan as ppo_dqn_plan
from tflow.algos.training_run import Callback as Callback
from tflow.algos.training_run import TrainingRun as TrainingRun
