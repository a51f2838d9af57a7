"""Experience of several policies, from replay, and statistics of episodes."""

from tflow.rl.data.arrays import Array as Array
from tflow.rl.data.batch import MultiBatch as MultiBatch
from tflow.rl.data.episodes import Episodes as Episodes
from tflow.rl.learning.losses import Replayed as Replayed
from tflow.rl.learning.losses import ReplayedSequences as ReplayedSequences
from tflow.rl.learning.losses import SequenceColumns as SequenceColumns
