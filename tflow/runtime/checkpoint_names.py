"""How a checkpoint refers to what a run has only once: shards by number, calls by number, methods by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING

from tflow.errors import CheckpointError

if TYPE_CHECKING:
    from tflow.runtime.base import Call
    from tflow.runtime.shards import LiveShard


class CheckpointNames:
    """The names of one checkpoint. Inside an actor there is nothing to name."""

    def __init__(self, modules: frozenset[str] = frozenset()) -> None:
        self.modules = modules
        """Where the methods of a plan's messages may be defined: a file names no others."""
        self.shards: list[LiveShard] = []
        self.calls: list[Call] = []
        self._shard_numbers: dict[LiveShard, int] = {}
        self._call_numbers: dict[Call, int] = {}

    def shard(self, shard: LiveShard) -> int:
        """The number of a shard."""
        if shard not in self._shard_numbers:
            self._shard_numbers[shard] = len(self.shards)
            self.shards.append(shard)
        return self._shard_numbers[shard]

    def call(self, call: Call) -> int:
        """The number of a call."""
        if call not in self._call_numbers:
            self._call_numbers[call] = len(self.calls)
            self.calls.append(call)
        return self._call_numbers[call]

    def method(self, method: Callable[..., object]) -> str:
        """The name of a method, or of a function, that a message calls."""
        name = f"{getattr(method, '__module__', '')}:{getattr(method, '__qualname__', '')}"
        if _called(name) is not method:
            raise CheckpointError(
                f"A message that calls {method!r} cannot be saved: that is no method of a class, and no function at the top of a "
                "module. Name one of these in send() and update()."
            )
        return name

    def method_called(self, name: str) -> Callable[..., object]:
        """The method again."""
        module = name.partition(":")[0]
        found = _called(name) if module in self.modules or module.partition(".")[0] == "tflow" else None
        if found is None:
            raise CheckpointError(f"The checkpoint has a message that calls {name}, which is no method of this plan's actors.")
        return found


def _called(name: str) -> Callable[..., object] | None:
    module, _, qualname = name.partition(":")
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found if isinstance(found, FunctionType) else None
