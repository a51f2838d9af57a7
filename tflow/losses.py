"""Losses, to be minimised, and what a loss of your own is made of."""

from tflow.rl.learning.losses import A3CLoss as A3CLoss
from tflow.rl.learning.losses import DQNLoss as DQNLoss
from tflow.rl.learning.losses import IMPALALoss as IMPALALoss
from tflow.rl.learning.losses import Loss as Loss
from tflow.rl.learning.losses import LossValue as LossValue
from tflow.rl.learning.losses import PPOLoss as PPOLoss
from tflow.rl.learning.losses import PPOReads as PPOReads
from tflow.rl.learning.losses import actor_critic as actor_critic
from tflow.rl.learning.meta import MAMLLoss as MAMLLoss
