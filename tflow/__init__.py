"""tflow: typed dataflow plans for distributed reinforcement learning.

Everything that a plan needs imports from here. Names are loaded on first use, so ``import tflow`` is quick and loads none of
torch, ray and gymnasium.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tflow.combinators.actors import Actor as Actor
    from tflow.combinators.actors import Actors as Actors
    from tflow.combinators.actors import Place as Place
    from tflow.combinators.actors import create_actor as create_actor
    from tflow.combinators.actors import create_actors as create_actors
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
    from tflow.errors import NoHealthyShards as NoHealthyShards
    from tflow.errors import OperatorError as OperatorError
    from tflow.errors import PlanError as PlanError
    from tflow.errors import RunClosed as RunClosed
    from tflow.errors import ShardFailed as ShardFailed
    from tflow.errors import TflowError as TflowError
    from tflow.runtime.executor import Run as Run
    from tflow.runtime.ledger import Ledger as Ledger
    from tflow.runtime.local import LocalRuntime as LocalRuntime
    from tflow.runtime.ray import RayRuntime as RayRuntime
    from tflow.runtime.stats import RunStats as RunStats
    from tflow.types import ActorOp as ActorOp
    from tflow.types import Async as Async
    from tflow.types import Frozen as Frozen
    from tflow.types import Handles as Handles
    from tflow.types import Live as Live
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
    "Actor",
    "ActorOp",
    "Actors",
    "Async",
    "CheckpointError",
    "Deadlock",
    "Frozen",
    "Handles",
    "Iter",
    "Ledger",
    "Live",
    "LiveOp",
    "LocalRuntime",
    "NoHealthyShards",
    "OnActor",
    "Op",
    "OperatorError",
    "ParIter",
    "ParUnion",
    "Place",
    "Plan",
    "PlanError",
    "Provenance",
    "RayRuntime",
    "Ref",
    "RefOp",
    "Run",
    "RunClosed",
    "RunStats",
    "Shard",
    "ShardFailed",
    "Source",
    "Stateful",
    "StatefulActorOp",
    "StatefulLiveOp",
    "Stateless",
    "Sync",
    "TflowError",
    "TimeBudget",
    "Union",
    "create_actor",
    "create_actors",
    "from_actors",
    "from_items",
    "from_iterable",
    "from_range",
    "par_from_items",
    "par_from_iterables",
    "par_from_range",
]

# Where each public name lives; a test keeps this table, the list above and the imports the same.
_HOMES = {
    "tflow.combinators.actors": ("Actor", "Actors", "Place", "create_actor", "create_actors"),
    "tflow.combinators.create": (
        "from_actors", "from_items", "from_iterable", "from_range", "par_from_items", "par_from_iterables", "par_from_range",
    ),
    "tflow.combinators.par": ("ParIter",),
    "tflow.combinators.runnable": ("Plan",),
    "tflow.combinators.stream": ("Iter",),
    "tflow.combinators.union": ("ParUnion", "Union"),
    "tflow.errors": (
        "CheckpointError", "Deadlock", "NoHealthyShards", "OperatorError", "PlanError", "RunClosed", "ShardFailed",
        "TflowError",
    ),
    "tflow.runtime.executor": ("Run",),
    "tflow.runtime.ledger": ("Ledger",),
    "tflow.runtime.local": ("LocalRuntime",),
    "tflow.runtime.ray": ("RayRuntime",),
    "tflow.runtime.stats": ("RunStats",),
    "tflow.types": (
        "ActorOp", "Async", "Frozen", "Handles", "Live", "LiveOp", "OnActor", "Op", "Provenance", "Ref", "RefOp", "Shard",
        "Source", "Stateful", "StatefulActorOp", "StatefulLiveOp", "Stateless", "Sync", "TimeBudget",
    ),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tflow' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
