"""Actors as plans describe them: their classes, where they are placed, and objects that live in the driver."""

from tflow.combinators.actors import Actor as Actor
from tflow.combinators.actors import Place as Place
from tflow.combinators.actors import Resident as Resident
from tflow.combinators.actors import create_resident as create_resident
from tflow.rl.replay.replay_spec import MultiReplayActors as MultiReplayActors
from tflow.rl.replay.replay_spec import ReplayActors as ReplayActors
from tflow.rl.rollout.evaluation import Evaluators as Evaluators
from tflow.rl.rollout.worker import RolloutWorker as RolloutWorker
from tflow.rl.rollout.worker_spec import AnyWorkers as AnyWorkers
from tflow.rl.rollout.worker_spec import LearnerActors as LearnerActors
from tflow.rl.rollout.worker_spec import MultiWorkers as MultiWorkers
from tflow.rl.rollout.worker_spec import create_learners as create_learners
