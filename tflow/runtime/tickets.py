"""What a runtime with processes waits for. A ticket stands for a call that an actor will answer.

An actor answers in the order in which it was asked, and most messages need no answer. So a message costs no wait of its own:
that it was taken is known when a later answer of the same actor arrives, and asked for only when something depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from tflow.runtime.base import Call
from tflow.runtime.shards import LiveShard

Ticket = Any  # Any: whatever the runtime waits for


def urgent(tickets: Mapping[Ticket, Call]) -> list[Ticket]:
    """What to wait for. That a message was taken need not be known at once, unless its actor can take no more or leaves, a time
    limit depends on it, or there is nothing else to wait for. The answer to one message acknowledges those before it."""
    told: dict[LiveShard, list[Ticket]] = {}
    rest: list[Ticket] = []
    for ticket, call in tickets.items():
        if call.method != "tell":
            rest.append(ticket)
        else:
            told.setdefault(call.shard, []).append(ticket)
        if call.timeout_s is not None:
            return list(tickets)
    for shard, messages in told.items():
        if not rest or shard.draining or len(messages) >= shard.pool.actors.mailbox:
            rest.append(messages[len(messages) // 2])
    return rest


def acknowledged_by(ticket: Ticket, tickets: Mapping[Ticket, Call]) -> list[Ticket]:
    """The answers that are there when this one is: an actor takes its messages before what it is asked after them."""
    shard = tickets[ticket].shard
    earlier = takewhile(lambda each: each != ticket, tickets)
    return [*(each for each in earlier if tickets[each].method == "tell" and tickets[each].shard is shard), ticket]
