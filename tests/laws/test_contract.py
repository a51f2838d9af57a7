"""The contract of a runtime, call by call and without plans: what the driver relies on, whatever the actors are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.laws.world import RUNTIMES, over, over_runtimes_and_ray
from tflow import Shard, create_actors
from tflow.errors import OperatorError
from tflow.runtime.base import Call, Mailbox, Runtime
from tflow.runtime.host import Reply
from tflow.runtime.shards import LiveShard


class Book:
    """An actor that keeps what it is told."""

    def __init__(self, shard: Shard) -> None:
        self.life = shard.incarnation
        self.lines: list[int] = []
        self.weights: list[int] = []

    def write(self, line: int) -> None:
        if line < 0:
            raise ValueError("negative")
        self.lines.append(line)

    def set_weights(self, weights: int) -> None:
        self.weights.append(weights)

    def myself(self) -> Book:
        return self


class Desk:
    """Issues calls to two actors and sees which have finished, as the driver does."""

    def __init__(self, session: Runtime) -> None:
        self.session = session
        self.mailbox = Mailbox()
        self.finished: list[Call] = []
        self.shards = session.pool(create_actors(Book, num=2), seed=0).shards

    def arrived(self, call: Call) -> None:
        raise AssertionError("only a driver tells owners")

    def issue(self, shard: LiveShard, method: str, *args: object) -> Call:
        call = Call(shard, method, args, self.mailbox, self)
        self.session.dispatch(call)
        return call

    def write(self, shard: LiveShard, *lines: int) -> list[Call]:
        return [self.issue(shard, "tell", Book.write, line) for line in lines]

    def send(self, shard: LiveShard, weights: int) -> None:
        shard.put_state(Book.set_weights, self.session.hold(weights), "default", weights)

    def until(self, last: Call) -> None:
        """Take in what finishes, up to this call."""
        while last not in self.finished:
            self.session.restart_dead()
            pause = self.session.next_restart_at() - self.session.now()
            self.session.wait(self.mailbox, timeout=None if pause == float("inf") else max(pause, 0.001))
            while self.mailbox.finished:
                self.finished.append(self.mailbox.finished.popleft())
                self.session.answered(self.finished[-1])

    def ask(self, shard: LiveShard) -> Book | None:
        """The actor as it is now; nothing if it dies before it answers."""
        question = self.issue(shard, "ask", Book.myself)
        self.until(question)
        if question.lost:
            return None
        assert isinstance(question.reply, Reply)
        (answer,) = question.reply.items
        assert isinstance(answer, Book)
        return answer

    def read(self, shard: LiveShard) -> tuple[int, list[int], list[int]]:
        """The life of the actor, what it was told, and which weights it was given."""
        book = self.ask(shard)
        assert book is not None
        return book.life, book.lines, book.weights

    def read_in_life(self, life: int, shard: LiveShard) -> tuple[int, list[int], list[int]]:
        """The same, as soon as an earlier life is over: a process may answer once more while it is being ended."""
        while (book := self.ask(shard)) is None or book.life < life:
            pass
        return book.life, book.lines, book.weights


@contextmanager
def desk(runtime: str) -> Iterator[Desk]:
    with RUNTIMES[runtime]() as session:
        yield Desk(session)


@over_runtimes_and_ray
def test_calls_of_an_actor_run_in_the_order_of_issue_and_each_finishes_once(runtime: str) -> None:
    with desk(runtime) as at:
        calls = [call for line in range(12) for call in at.write(at.shards[line % 2], line)]
        assert [at.read(shard) for shard in at.shards] == [(0, [*range(0, 12, 2)], []), (0, [*range(1, 12, 2)], [])]
        assert [at.finished.count(call) for call in calls] == [1] * 12
        assert not any(call.lost or call.error for call in at.finished)


@over_runtimes_and_ray
def test_an_error_is_the_answer_to_its_call_and_to_no_other(runtime: str) -> None:
    with desk(runtime) as at:
        good, bad, after = at.write(at.shards[0], 1, -1, 2)
        assert at.read(at.shards[0]) == (0, [1, 2], []), "it lives on"
        assert isinstance(bad.error, OperatorError)
        assert isinstance(bad.error.cause, ValueError)
        assert (good.error, after.error, bad.lost) == (None, None, "")


@over_runtimes_and_ray
def test_state_rides_inside_the_next_call_and_the_latest_wins(runtime: str) -> None:
    with desk(runtime) as at:
        for weights in (1, 2, 3):
            at.send(at.shards[0], weights)
        assert at.read(at.shards[0]) == (0, [], [3]), "one call, and the others never travelled"
        assert at.read(at.shards[0]) == (0, [], [3]), "once"
        assert at.read(at.shards[1]) == (0, [], []), "to whom it was sent"


@over_runtimes_and_ray
def test_of_calls_that_nobody_wants_those_that_are_given_back_never_run_and_all_others_do(runtime: str) -> None:
    with desk(runtime) as at:
        calls = at.write(at.shards[0], *range(8))
        never = at.session.cancel(calls[4:])
        assert set(never) <= set(calls[4:])
        assert at.read(at.shards[0])[1] == [line for line, call in enumerate(calls) if call not in never]


@over(["sim", "sim, any order", "ray"], rare=())
def test_an_actor_that_is_ended_loses_its_last_calls_and_starts_anew_with_all_state(runtime: str) -> None:
    with desk(runtime) as at:
        first, other = at.shards
        at.send(first, 7)
        at.write(first, 1)
        assert at.read(first) == (0, [1], [7])
        calls = at.write(first, 2, 3, 4)
        last = at.issue(first, "ask", Book.myself)
        at.session.kill(first.handle)
        at.until(last)
        fates = [bool(call.lost) for call in (*calls, last)]
        assert fates == sorted(fates), "whatever was lost came last"
        life, lines, weights = at.read_in_life(1, first)
        assert (life, lines, weights) == (1, [], [7])
        assert any(call.lost for call in at.finished)
        assert at.read(other) == (0, [], []), "nobody else is concerned"
