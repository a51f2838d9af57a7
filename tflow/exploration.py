"""Exploration strategies of rollout workers."""

from tflow.rl.policy.exploration import ApexEpsilons as ApexEpsilons
from tflow.rl.policy.exploration import ApexNoise as ApexNoise
from tflow.rl.policy.exploration import EpsilonGreedy as EpsilonGreedy
from tflow.rl.policy.exploration import GaussianNoise as GaussianNoise
from tflow.rl.policy.exploration import OUNoise as OUNoise
from tflow.rl.policy.exploration import ParameterNoise as ParameterNoise
from tflow.rl.policy.exploration import RandomFirst as RandomFirst
