"""Optimisers, described."""

from tflow.rl.learning.optimizers import SGD as SGD
from tflow.rl.learning.optimizers import Adam as Adam
from tflow.rl.learning.optimizers import Muon as Muon
from tflow.rl.learning.optimizers import Optimizer as Optimizer
from tflow.rl.learning.optimizers import RMSprop as RMSprop
