"""Items that have arrived at the driver and were not delivered yet.

Those of one answer stay together, and each gets its provenance when its turn comes: most of what a small item costs is what is
made for it and kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tflow.runtime.answers import Ready

if TYPE_CHECKING:
    from tflow.runtime.gather import ShardLink
    from tflow.runtime.host import Reply

Entry = tuple[Ready, "ShardLink"]
Part = tuple[Iterator[Ready], "ShardLink"]


class Buffer:
    """A queue of items and the shards that they came from."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.parts: deque[Part] = deque()
        self.size = 0
        for ready, link in entries:
            self.parts.append((iter([ready]), link))
            self.size += 1

    def add(self, reply: Reply, link: ShardLink) -> None:
        """Put the items of an answer last."""
        self.parts.append((zip(reply.items, reply.origins, strict=True), link))
        self.size += len(reply.items)

    def take(self) -> Entry:
        """The oldest item."""
        while True:
            part, link = self.parts[0]
            for ready in part:
                self.size -= 1
                return ready, link
            self.parts.popleft()

    def clear(self) -> None:
        self.parts.clear()
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Entry]:
        """All of them; they stay."""
        read = [(list(part), link) for part, link in self.parts]
        self.parts = deque((iter(part), link) for part, link in read)
        return ((ready, link) for part, link in read for ready in part)
