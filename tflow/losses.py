"""Losses, to be minimised, and what a loss of your own is made of."""

from tflow.rl.learning.actor_q_losses import CrossQLoss as CrossQLoss
from tflow.rl.learning.actor_q_losses import SACLoss as SACLoss
from tflow.rl.learning.actor_q_losses import TD3Loss as TD3Loss
from tflow.rl.learning.actor_q_losses import TQCLoss as TQCLoss
from tflow.rl.learning.actor_q_losses import actor_q as actor_q
from tflow.rl.learning.intrinsic import RNDLoss as RNDLoss
from tflow.rl.learning.losses import A3CLoss as A3CLoss
from tflow.rl.learning.losses import APPOLoss as APPOLoss
from tflow.rl.learning.losses import DQNLoss as DQNLoss
from tflow.rl.learning.losses import IMPALALoss as IMPALALoss
from tflow.rl.learning.losses import Loss as Loss
from tflow.rl.learning.losses import LossValue as LossValue
from tflow.rl.learning.losses import PGLoss as PGLoss
from tflow.rl.learning.losses import PPOLoss as PPOLoss
from tflow.rl.learning.losses import PPOReads as PPOReads
from tflow.rl.learning.losses import PQNLoss as PQNLoss
from tflow.rl.learning.losses import PQNReads as PQNReads
from tflow.rl.learning.losses import Replayed as Replayed
from tflow.rl.learning.losses import actor_critic as actor_critic
from tflow.rl.learning.meta import MAMLLoss as MAMLLoss
from tflow.rl.learning.parts import HardUpdate as HardUpdate
from tflow.rl.learning.parts import Part as Part
from tflow.rl.learning.parts import SoftUpdate as SoftUpdate
from tflow.rl.learning.sequence_losses import R2D2Loss as R2D2Loss
from tflow.rl.learning.sequence_losses import RNNSACLoss as RNNSACLoss
