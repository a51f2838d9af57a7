"""An actor in a process of its own: what runs there and what the driver knows of it. Nothing raises there: errors are answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tflow.combinators import nodes
from tflow.errors import OperatorError, TflowError, travelling
from tflow.runtime import frames
from tflow.runtime.border import Parcel
from tflow.runtime.host import NOTHING, Host
from tflow.runtime.wire import Answer, pack_reply, unpack
from tflow.types import Shard, rows_of, steps_of, summary_of

if TYPE_CHECKING:
    from tflow.state.folders import ArrayFile, Written
    from tflow.state.values import Encoded


class NodeAddress(NamedTuple):
    """Where an actor lives."""

    node: str
    address: str


class StartReport(NamedTuple):
    """What an actor reports when its constructor has run."""

    home: NodeAddress
    pid: int
    error: BaseException | None


class Failed(NamedTuple):
    """The answer to a call that raised."""

    error: TflowError


class StartFailed(NamedTuple):
    """The answer of an actor whose constructor raised."""

    why: str


class RemoteHost:
    """A ``Host`` in its process."""

    def __init__(self, make: Parcel[Callable[[Shard], object]], shard: Shard, find_home: Callable[[], NodeAddress]) -> None:
        self.place = place_of(shard)
        type(self).__name__ = self.place  # by which Ray calls the process: it has this class to itself
        self.home = find_home()
        self.host: Host | None = None
        self.failure: BaseException | None = None
        self.latest = b""
        try:
            self.host = Host(make.open(), shard)
            self.host.is_alone = True
        except BaseException as error:
            self.note(error)
            self.failure = travelling(error)

    def __repr__(self) -> str:
        return self.place  # it stands before every line that the actor prints

    def hello(self) -> StartReport:
        return StartReport(self.home, os.getpid(), self.failure)

    def do(self, message: bytes, *beside: object) -> Answer | Failed | StartFailed | None:
        """Run one call; the answer to a message is nothing."""
        if self.host is None:
            return StartFailed(f"its constructor raised {type(self.failure).__name__}: {self.failure}")
        method, self.latest = "a call", message
        try:
            method, piggyback, args = unpack(message, beside)
            reply = self.host.do(method, piggyback, args)
        except BaseException as error:
            return self.failed(method, error)
        if reply is NOTHING:
            return None
        if reply.error is not None:
            self.note(reply.error)
        return pack_reply(reply, self.host.shard, piggyback.versions)

    def do_by_ref(self, message: bytes, *beside: object) -> tuple[object, list[object]]:
        """The items apart from all else, and in their place what travels beside them."""
        answer = self.do(message, *beside)
        if answer is None or isinstance(answer, (Failed, StartFailed)):
            return answer, []
        items, *rest = answer
        facts = [(steps_of(item), rows_of(item), summary_of(item)) for item in items]
        return ([facts, *rest] if isinstance(answer, list) else (facts, *rest)), items

    def again(self) -> object:
        """Run the latest call once more. A call without arguments costs Ray and both processes less."""
        return self.do(self.latest)

    def again_by_ref(self) -> tuple[object, list[object]]:
        return self.do_by_ref(self.latest)

    def save(self, run: int, file: ArrayFile | None) -> Encoded | Written | Failed:
        """The state of the actor and of what a run has in it."""
        assert self.host is not None
        try:
            return self.host.save(run, file)
        except Exception as error:
            return self.failed("save", error)

    def load(
        self, run: int, fuse: bool, programs: Sequence[Parcel[tuple[nodes.Node, ...]]], keys: object, state: Encoded
    ) -> Failed | None:
        """Go on with the state of another."""
        assert self.host is not None
        opened = [program.open()[-1] for program in programs]
        try:
            self.host.load(run, fuse, list(zip(cast("Sequence[tuple[int, int]]", keys), opened, strict=True)), state)
        except Exception as error:
            return self.failed("load", error)
        return None

    def failed(self, method: str, error: BaseException) -> Failed:
        """What raised here, for the driver."""
        failure = error if isinstance(error, TflowError) else OperatorError(method, item=0, cause=error, shard=self.place)
        self.note(failure)
        return Failed(failure)

    def forget(self, run: int) -> None:
        if self.host is not None:
            self.host.forget(run)

    def close(self) -> BaseException | None:
        try:
            if self.host is not None:
                self.host.close()
        except BaseException as error:
            self.note(error)
            return travelling(error)
        return None

    def note(self, error: BaseException) -> None:
        """Add where the error was raised: tracebacks do not travel."""
        origin = error.cause if isinstance(error, OperatorError) else error
        lines = frames.told(origin)
        where = f"{frames.ELSEWHERE}{self.place}, process {os.getpid()} on node {self.home.address}"
        error.add_note(f"{where}:\n{lines}" if lines else f"{where}.")


class Ways(NamedTuple):
    """How an actor is called: Ray makes the methods at run time."""

    do: Any  # Any: as said
    again: Any  # Any: as said


class Handle:
    """One actor, as the driver knows it."""

    def __init__(
        self,
        actor: Any,  # Any: its methods are made at run time
        shard: Shard,
        needs: Mapping[str, float],
        *,
        spawned_at: float,
        sought: str,
    ) -> None:
        self.actor = actor
        by = place_of(shard)  # by which Ray calls the process meanwhile
        self.direct = Ways(actor.do.options(name=by), actor.again.options(name=by))
        self.by_ref = Ways(
            actor.do_by_ref.options(num_returns=2, name=by),
            actor.again_by_ref.options(num_returns=2, name=by),
        )
        self.latest = b""
        """The message that it was sent last, if nothing went beside it."""
        self.pool = shard.actors
        self.place = by
        self.needs = needs
        self.start_report: Any = actor.hello.remote()  # Any: a ref
        self.spawned_at = spawned_at
        self.up_at = float("inf")
        self.sought = sought
        """The node that was asked for, if one was."""
        self.home = NodeAddress("", "")
        self.pid = 0
        self.kill_reason = ""
        """Why the driver killed it, if it did."""

    def on_started(self, start_report: StartReport, now: float) -> None:
        self.home, self.pid, _ = start_report
        self.up_at = now

    @property
    def node(self) -> str:
        """Where it is, or is to be."""
        return self.home.node or self.sought

    @property
    def where(self) -> str:
        return f" (process {self.pid} on node {self.home.address})" if self.pid else ""


def place_of(shard: Shard) -> str:
    """How errors call a shard."""
    return f"{shard.actors}[{shard.index}]"
