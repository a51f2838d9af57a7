"""Numbers that change with env steps: learning rates, epsilons, coefficients."""

from tflow.rl.schedules import Constant as Constant
from tflow.rl.schedules import Cosine as Cosine
from tflow.rl.schedules import EnvSteps as EnvSteps
from tflow.rl.schedules import Exponential as Exponential
from tflow.rl.schedules import Linear as Linear
from tflow.rl.schedules import Piecewise as Piecewise
from tflow.rl.schedules import Schedule as Schedule
from tflow.rl.schedules import Warmup as Warmup
from tflow.rl.schedules import named_schedule as named_schedule
