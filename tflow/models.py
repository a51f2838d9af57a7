"""Networks and kinds of policies, described."""

from tflow.rl.policy.network_spec import GRU as GRU
from tflow.rl.policy.network_spec import LSTM as LSTM
from tflow.rl.policy.network_spec import MLP as MLP
from tflow.rl.policy.network_spec import DictEncoder as DictEncoder
from tflow.rl.policy.network_spec import GTrXL as GTrXL
from tflow.rl.policy.network_spec import ImpalaCNN as ImpalaCNN
from tflow.rl.policy.network_spec import NatureCNN as NatureCNN
from tflow.rl.policy.network_spec import Normalized as Normalized
from tflow.rl.policy.network_spec import SmallCNN as SmallCNN
from tflow.rl.policy.policy_spec import ActorCriticSpec as ActorCriticSpec
from tflow.rl.policy.policy_spec import ActorQSpec as ActorQSpec
from tflow.rl.policy.policy_spec import PolicySpec as PolicySpec
from tflow.rl.policy.policy_spec import QSpec as QSpec
