"""What a cell answers when it is polled. None of these is ever an element: no user function sees one."""

from __future__ import annotations

from enum import Enum
from typing import Final

from tflow.types import Provenance


class Signal(Enum):
    """An answer without an item."""

    SKIP = "skip"
    """Consumed an item and has nothing to show."""
    WAITING = "waiting"
    """A call in flight will wake it. This depends on timing."""
    DONE = "done"


class Blocked:
    """Only another node of the plan can free it. This does not depend on timing, which keeps round robin deterministic."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


Ready = tuple[object, Provenance]
Answer = Ready | Signal | Blocked

SKIP: Final = Signal.SKIP
WAITING: Final = Signal.WAITING
DONE: Final = Signal.DONE
