"""tflow: typed dataflow plans for distributed reinforcement learning.

Everything that a plan needs imports from here. Names are loaded on first use, so ``import tflow`` is quick and loads none of
torch, ray and gymnasium.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from tflow.algos.training_run import Stop as Stop
    from tflow.algos.training_run import TrainingRun as TrainingRun
    from tflow.algos.training_run import train as train
    from tflow.combinators.actors import Actor as Actor
    from tflow.combinators.actors import Actors as Actors
    from tflow.combinators.actors import Place as Place
    from tflow.combinators.actors import Resident as Resident
    from tflow.combinators.actors import create_actor as create_actor
    from tflow.combinators.actors import create_actors as create_actors
    from tflow.combinators.actors import create_resident as create_resident
    from tflow.combinators.columns import AddColumns as AddColumns
    from tflow.combinators.create import from_actors as from_actors
    from tflow.combinators.create import from_items as from_items
    from tflow.combinators.create import from_iterable as from_iterable
    from tflow.combinators.create import from_range as from_range
    from tflow.combinators.create import par_from_items as par_from_items
    from tflow.combinators.create import par_from_iterables as par_from_iterables
    from tflow.combinators.create import par_from_range as par_from_range
    from tflow.combinators.par import ParIter as ParIter
    from tflow.combinators.runnable import Plan as Plan
    from tflow.combinators.stream import Iter as Iter
    from tflow.combinators.union import ParUnion as ParUnion
    from tflow.combinators.union import Union as Union
    from tflow.errors import CheckpointError as CheckpointError
    from tflow.errors import Deadlock as Deadlock
    from tflow.errors import EnvError as EnvError
    from tflow.errors import NoHealthyShards as NoHealthyShards
    from tflow.errors import OperatorError as OperatorError
    from tflow.errors import PlanError as PlanError
    from tflow.errors import RunClosed as RunClosed
    from tflow.errors import ShardFailed as ShardFailed
    from tflow.errors import TflowError as TflowError
    from tflow.live import Handles as Handles
    from tflow.live import Live as Live
    from tflow.marks import flow as flow
    from tflow.marks import plan as plan
    from tflow.observe.folder import RunFolder as RunFolder
    from tflow.observe.progress import ShowProgress as ShowProgress
    from tflow.rl.data.advantages import ComputeAdvantages as ComputeAdvantages
    from tflow.rl.data.batch import Batch as Batch
    from tflow.rl.data.batch import MultiBatch as MultiBatch
    from tflow.rl.data.batch import Rollout as Rollout
    from tflow.rl.data.batching import ConcatBatches as ConcatBatches
    from tflow.rl.data.batching import ConcatRounds as ConcatRounds
    from tflow.rl.data.batching import StandardizeFields as StandardizeFields
    from tflow.rl.data.batching import aggregate as aggregate
    from tflow.rl.data.episodes import Episodes as Episodes
    from tflow.rl.envs.env_spec import EnvSpec as EnvSpec
    from tflow.rl.learning.gradients import AverageGradients as AverageGradients
    from tflow.rl.learning.gradients import ComputeGradients as ComputeGradients
    from tflow.rl.learning.gradients import Gradients as Gradients
    from tflow.rl.learning.losses import A3CLoss as A3CLoss
    from tflow.rl.learning.losses import DQNLoss as DQNLoss
    from tflow.rl.learning.losses import IMPALALoss as IMPALALoss
    from tflow.rl.learning.losses import Loss as Loss
    from tflow.rl.learning.losses import LossValue as LossValue
    from tflow.rl.learning.losses import PPOLoss as PPOLoss
    from tflow.rl.learning.losses import Replayed as Replayed
    from tflow.rl.learning.meta import AdaptToTask as AdaptToTask
    from tflow.rl.learning.meta import MAMLLoss as MAMLLoss
    from tflow.rl.learning.optimizers import SGD as SGD
    from tflow.rl.learning.optimizers import Adam as Adam
    from tflow.rl.learning.optimizers import RMSprop as RMSprop
    from tflow.rl.learning.training import ApplyGradients as ApplyGradients
    from tflow.rl.learning.training import LearnOnBatch as LearnOnBatch
    from tflow.rl.learning.training import SendWeights as SendWeights
    from tflow.rl.learning.training import TrainOneStep as TrainOneStep
    from tflow.rl.learning.training import TrainStats as TrainStats
    from tflow.rl.learning.training import UpdateTargetNetwork as UpdateTargetNetwork
    from tflow.rl.learning.training import UpdateWeights as UpdateWeights
    from tflow.rl.metrics import Metrics as Metrics
    from tflow.rl.metrics import ReportMetrics as ReportMetrics
    from tflow.rl.policy.exploration import ApexEpsilons as ApexEpsilons
    from tflow.rl.policy.exploration import EpsilonGreedy as EpsilonGreedy
    from tflow.rl.policy.exploration import GaussianNoise as GaussianNoise
    from tflow.rl.policy.exploration import OUNoise as OUNoise
    from tflow.rl.policy.exploration import ParameterNoise as ParameterNoise
    from tflow.rl.policy.network_spec import LSTM as LSTM
    from tflow.rl.policy.network_spec import MLP as MLP
    from tflow.rl.policy.network_spec import DictEncoder as DictEncoder
    from tflow.rl.policy.network_spec import ImpalaCNN as ImpalaCNN
    from tflow.rl.policy.network_spec import NatureCNN as NatureCNN
    from tflow.rl.policy.network_spec import SmallCNN as SmallCNN
    from tflow.rl.policy.policy import Policy as Policy
    from tflow.rl.policy.policy_spec import ActorCriticSpec as ActorCriticSpec
    from tflow.rl.policy.policy_spec import PolicySpec as PolicySpec
    from tflow.rl.policy.policy_spec import QSpec as QSpec
    from tflow.rl.policy.tensors import Tensors as Tensors
    from tflow.rl.replay.replay_spec import ComputePriorities as ComputePriorities
    from tflow.rl.replay.replay_spec import MixInReplay as MixInReplay
    from tflow.rl.replay.replay_spec import MultiReplayActors as MultiReplayActors
    from tflow.rl.replay.replay_spec import ParallelReplay as ParallelReplay
    from tflow.rl.replay.replay_spec import ReplayActors as ReplayActors
    from tflow.rl.replay.replay_spec import SendPriorities as SendPriorities
    from tflow.rl.replay.replay_spec import StoreToBuffer as StoreToBuffer
    from tflow.rl.replay.replay_spec import UpdatePriorities as UpdatePriorities
    from tflow.rl.replay.replay_spec import create_replay_actors as create_replay_actors
    from tflow.rl.rollout.evaluation import Evaluators as Evaluators
    from tflow.rl.rollout.evaluation import ParallelEvaluations as ParallelEvaluations
    from tflow.rl.rollout.evaluation import create_evaluation_workers as create_evaluation_workers
    from tflow.rl.rollout.worker import RolloutWorker as RolloutWorker
    from tflow.rl.rollout.worker_spec import AnyWorkers as AnyWorkers
    from tflow.rl.rollout.worker_spec import MultiWorkers as MultiWorkers
    from tflow.rl.rollout.worker_spec import ParallelRollouts as ParallelRollouts
    from tflow.rl.rollout.worker_spec import Select as Select
    from tflow.rl.rollout.worker_spec import Workers as Workers
    from tflow.rl.rollout.worker_spec import create_learner as create_learner
    from tflow.rl.rollout.worker_spec import create_rollout_workers as create_rollout_workers
    from tflow.rl.schedules import Constant as Constant
    from tflow.rl.schedules import Exponential as Exponential
    from tflow.rl.schedules import Linear as Linear
    from tflow.rl.schedules import Piecewise as Piecewise
    from tflow.rl.schedules import Schedule as Schedule
    from tflow.runtime.executor import Run as Run
    from tflow.runtime.ledger import Ledger as Ledger
    from tflow.runtime.local import LocalRuntime as LocalRuntime
    from tflow.runtime.ray import RayRuntime as RayRuntime
    from tflow.runtime.stats import RunStats as RunStats
    from tflow.types import ActorOp as ActorOp
    from tflow.types import Async as Async
    from tflow.types import Frozen as Frozen
    from tflow.types import LiveOp as LiveOp
    from tflow.types import OnActor as OnActor
    from tflow.types import Op as Op
    from tflow.types import Provenance as Provenance
    from tflow.types import Ref as Ref
    from tflow.types import RefOp as RefOp
    from tflow.types import Shard as Shard
    from tflow.types import Source as Source
    from tflow.types import Stateful as Stateful
    from tflow.types import StatefulActorOp as StatefulActorOp
    from tflow.types import StatefulLiveOp as StatefulLiveOp
    from tflow.types import Stateless as Stateless
    from tflow.types import Sync as Sync
    from tflow.types import TimeBudget as TimeBudget

__version__ = "0.1.0"

__all__ = [
    "A2C", "A3C", "DQN", "IMPALA", "LSTM", "MAML", "MLP", "PPO", "PPODQN", "SGD", "A3CLoss", "Actor", "ActorCriticSpec",
    "ActorOp", "Actors", "Adam", "AdaptToTask", "AddColumns", "Algorithm", "AnyWorkers", "ApeX", "ApexEpsilons",
    "ApplyGradients", "Async", "AverageGradients", "Batch", "Callback", "CheckpointError", "ComputeAdvantages",
    "ComputeGradients", "ComputePriorities", "ConcatBatches", "ConcatRounds", "Constant", "DQNLoss", "Deadlock", "DictEncoder",
    "EnvError", "EnvSpec", "Episodes", "EpsilonGreedy", "Evaluators", "Exponential", "Frozen", "GaussianNoise", "Gradients",
    "Handles", "IMPALALoss", "ImpalaCNN", "Iter", "LearnOnBatch", "Ledger", "Linear", "Live", "LiveOp", "LocalRuntime", "Loss",
    "LossValue", "MAMLLoss", "Metrics", "MixInReplay", "MultiBatch", "MultiReplayActors", "MultiWorkers",
    "NatureCNN", "NoHealthyShards", "OUNoise", "OnActor", "Op", "OperatorError", "PPOLoss", "ParIter", "ParUnion",
    "ParallelEvaluations", "ParallelReplay", "ParallelRollouts", "ParameterNoise", "Piecewise", "Place", "Plan", "PlanError",
    "Policy", "PolicySpec", "Provenance", "QSpec", "RMSprop", "RayRuntime", "Ref", "RefOp", "ReplayActors", "Replayed",
    "ReportMetrics", "Resident", "Rollout", "RolloutWorker", "Run", "RunClosed", "RunFolder", "RunStats", "Schedule",
    "Select", "SendPriorities", "SendWeights", "Shard", "ShardFailed", "ShowProgress", "SinglePolicy", "SmallCNN", "Source",
    "StandardizeFields", "Stateful", "StatefulActorOp", "StatefulLiveOp", "Stateless", "Stop", "StoreToBuffer", "Sync",
    "Tensors", "TflowError", "TimeBudget", "TrainOneStep", "TrainStats", "TrainingRun", "Union", "UpdatePriorities",
    "UpdateTargetNetwork", "UpdateWeights", "Workers", "a2c_plan", "a3c_plan", "aggregate", "apex_plan", "create_actor",
    "create_actors", "create_evaluation_workers", "create_learner", "create_multi_workers", "create_replay_actors",
    "create_resident", "create_rollout_workers", "dqn_plan", "flow", "from_actors", "from_items", "from_iterable",
    "from_range", "impala_plan", "maml_plan", "par_from_items", "par_from_iterables", "par_from_range", "plan",
    "ppo_dqn_plan", "ppo_plan", "train",
]  # fmt: skip

# Where each public name lives; a test keeps this table, the list above and the imports the same.
_HOMES = {
    "tflow.algos.a2c": ("A2C", "a2c_plan"),
    "tflow.algos.a3c": ("A3C", "a3c_plan"),
    "tflow.algos.algorithm": ("Algorithm", "SinglePolicy", "create_multi_workers"),
    "tflow.algos.apex": ("ApeX", "apex_plan"),
    "tflow.algos.dqn": ("DQN", "dqn_plan"),
    "tflow.algos.impala": ("IMPALA", "impala_plan"),
    "tflow.algos.maml": ("MAML", "maml_plan"),
    "tflow.algos.ppo": ("PPO", "ppo_plan"),
    "tflow.algos.ppo_dqn": ("PPODQN", "ppo_dqn_plan"),
    "tflow.algos.training_run": ("Callback", "Stop", "TrainingRun", "train"),
    "tflow.combinators.actors": ("Actor", "Actors", "Place", "Resident", "create_actor", "create_actors", "create_resident"),
    "tflow.combinators.columns": ("AddColumns",),
    "tflow.combinators.create": (
        "from_actors", "from_items", "from_iterable", "from_range", "par_from_items", "par_from_iterables", "par_from_range",
    ),
    "tflow.combinators.par": ("ParIter",),
    "tflow.combinators.runnable": ("Plan",),
    "tflow.combinators.stream": ("Iter",),
    "tflow.combinators.union": ("ParUnion", "Union"),
    "tflow.errors": (
        "CheckpointError", "Deadlock", "EnvError", "NoHealthyShards", "OperatorError", "PlanError", "RunClosed",
        "ShardFailed", "TflowError",
    ),
    "tflow.live": ("Handles", "Live"),
    "tflow.marks": ("flow", "plan"),
    "tflow.observe.folder": ("RunFolder",),
    "tflow.observe.progress": ("ShowProgress",),
    "tflow.rl.data.advantages": ("ComputeAdvantages",),
    "tflow.rl.data.batch": ("Batch", "MultiBatch", "Rollout"),
    "tflow.rl.data.batching": ("ConcatBatches", "ConcatRounds", "StandardizeFields", "aggregate"),
    "tflow.rl.envs.env_spec": ("EnvSpec",),
    "tflow.rl.data.episodes": ("Episodes",),
    "tflow.rl.rollout.evaluation": ("Evaluators", "ParallelEvaluations", "create_evaluation_workers"),
    "tflow.rl.policy.exploration": ("ApexEpsilons", "EpsilonGreedy", "GaussianNoise", "OUNoise", "ParameterNoise"),
    "tflow.rl.learning.gradients": ("AverageGradients", "ComputeGradients", "Gradients"),
    "tflow.rl.learning.losses": ("A3CLoss", "DQNLoss", "IMPALALoss", "Loss", "LossValue", "PPOLoss", "Replayed"),
    "tflow.rl.learning.meta": ("AdaptToTask", "MAMLLoss"),
    "tflow.rl.metrics": ("Metrics", "ReportMetrics"),
    "tflow.rl.policy.network_spec": ("DictEncoder", "ImpalaCNN", "LSTM", "MLP", "NatureCNN", "SmallCNN"),
    "tflow.rl.learning.optimizers": ("Adam", "RMSprop", "SGD"),
    "tflow.rl.policy.policy_spec": ("ActorCriticSpec", "PolicySpec", "QSpec"),
    "tflow.rl.policy.policy": ("Policy",),
    "tflow.rl.replay.replay_spec": (
        "ComputePriorities", "MixInReplay", "MultiReplayActors", "ParallelReplay", "ReplayActors", "SendPriorities",
        "StoreToBuffer", "UpdatePriorities", "create_replay_actors",
    ),
    "tflow.rl.schedules": ("Constant", "Exponential", "Linear", "Piecewise", "Schedule"),
    "tflow.rl.policy.tensors": ("Tensors",),
    "tflow.rl.learning.training": (
        "ApplyGradients", "LearnOnBatch", "SendWeights", "TrainOneStep", "TrainStats", "UpdateTargetNetwork",
        "UpdateWeights",
    ),
    "tflow.rl.rollout.worker": ("RolloutWorker",),
    "tflow.rl.rollout.worker_spec": (
        "AnyWorkers", "MultiWorkers", "ParallelRollouts", "Select", "Workers", "create_learner", "create_rollout_workers",
    ),
    "tflow.runtime.executor": ("Run",),
    "tflow.runtime.ledger": ("Ledger",),
    "tflow.runtime.local": ("LocalRuntime",),
    "tflow.runtime.ray": ("RayRuntime",),
    "tflow.runtime.stats": ("RunStats",),
    "tflow.types": (
        "ActorOp", "Async", "Frozen", "LiveOp", "OnActor", "Op", "Provenance", "Ref", "RefOp", "Shard", "Source", "Stateful",
        "StatefulActorOp", "StatefulLiveOp", "Stateless", "Sync", "TimeBudget",
    ),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def home_of(name: str) -> str | None:
    """The module that a public name is defined in."""
    return _HOME_OF.get(name)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tflow' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
