"""The ledger of a run: where every call and every item is. Nothing vanishes; what is dropped is counted by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Calls(NamedTuple):
    """Every call to an actor is in exactly one of these places. Messages to actors are calls with no items."""

    issued: int
    in_flight: int
    answered: int
    lost: int
    """Its actor died."""
    abandoned: int
    """Cancelled: the answer is not wanted any more."""


class Items(NamedTuple):
    """Every item of an answered call, and every item that was handed off, is in exactly one of these places."""

    received: int
    delivered: int
    buffered: int
    dropped: Mapping[str, int]
    """By reason: ``stale`` (older than ``max_staleness``), ``overflow`` (``drop_oldest``), ``stop`` (the run ended),
    ``failed`` (of a round that failed), ``ended`` (fed to a shard that had ended), ``lost`` (fed to an actor that died)."""


class Ledger(NamedTuple):
    """A snapshot of where all calls and items are."""

    calls: Calls
    items: Items

    @property
    def balanced(self) -> bool:
        """True if both sums hold."""
        calls, items = self.calls, self.items
        return (
            calls.issued == calls.in_flight + calls.answered + calls.lost + calls.abandoned
            and items.received == items.delivered + items.buffered + sum(items.dropped.values())
        )


class LedgerCounters:
    """The counters behind the ledger. What is in flight or buffered is counted in place, never inferred from the rest."""

    def __init__(self) -> None:
        self.issued = self.answered = self.lost = self.abandoned = 0
        self.received = self.delivered = 0
        self.dropped: Counter[str] = Counter()

    def snapshot(self, *, in_flight: int, buffered: int) -> Ledger:
        return Ledger(
            Calls(self.issued, in_flight, self.answered, self.lost, self.abandoned),
            Items(self.received, self.delivered, buffered, dict(self.dropped)),
        )
