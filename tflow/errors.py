"""One root, so that ``except TflowError`` catches everything that tflow raises on purpose.

Errors are sentences: what was given, what is allowed, what to do. Those about a place name the operator and the
shard. All of them survive pickling, because they travel from actors to the driver.
"""

from __future__ import annotations

import pickle
import traceback


class TflowError(Exception):
    """The root of all errors that tflow raises on purpose."""


class PlanError(TflowError, ValueError):
    """The plan itself is wrong. Raised while it is built or validated, before anything starts."""


class FieldError(PlanError, TypeError):
    """A configuration was given a name that it does not have, or a value without a name."""


class OperatorError(TflowError):
    """User code raised. The original exception is the cause, with its traceback."""

    def __init__(self, operator: str, *, item: int, cause: BaseException, shard: str | None = None) -> None:
        place = "on the driver" if shard is None else f"in shard {shard}"
        super().__init__(f"{operator} {place}, item {item}, raised {type(cause).__name__}: {text_of(cause)}")
        self.operator = operator
        self.item = item
        self.shard = shard
        self.cause = cause
        self.__cause__ = cause

    def __reduce__(self) -> tuple[object, ...]:
        notes = {"__notes__": self.__notes__} if hasattr(self, "__notes__") else {}
        return _restore_operator_error, (self.operator, self.item, travelling(self.cause), self.shard), notes


def _restore_operator_error(operator: str, item: int, cause: BaseException, shard: str | None) -> OperatorError:
    return OperatorError(operator, item=item, cause=cause, shard=shard)


def text_of(error: BaseException) -> str:
    """What an exception says; some raise when they are asked."""
    try:
        return str(error)
    except Exception as another:
        return f"(its __str__ raised {type(another).__name__})"


def travelling(cause: BaseException) -> BaseException:
    """The exception if it survives pickling, else one of the nearest kind with the same text and the traceback as a note."""
    try:
        pickle.loads(pickle.dumps(cause))  # noqa: S301  # our own bytes, made on this line
    except Exception:  # whatever hinders it, on either side: the error itself must arrive
        stand_in = RemoteCause(f"{type(cause).__name__}: {text_of(cause)}")
        stand_in.add_note("".join(traceback.format_exception(cause)))
        return stand_in
    return cause


class RemoteCause(TflowError):
    """Stands for an exception of user code that could not travel."""


class ShardFailed(TflowError):
    """An actor died or could not be made."""


class StartDied(ShardFailed):
    """The process of an actor ended before it could begin: somebody ended it, or there was no memory. It may be tried again."""


class NoHealthyShards(TflowError):
    """Every actor of a parallel stream is dead."""


class Deadlock(TflowError):
    """Nothing is in flight and every part of the plan waits for another part."""


class CheckpointError(TflowError):
    """A checkpoint cannot be written, or what was read is not one that fits this plan."""


class RunClosed(TflowError):
    """The run was closed, or failed earlier, and gives no more items."""


class EnvError(TflowError):
    """An environment raised, or gave what no policy can use. Names the env, the copy and the field."""

    def __init__(self, problem: str, env: str, index: int | None = None, field: str | None = None) -> None:
        super().__init__(problem, env, index, field)
        self.problem, self.env, self.index, self.field = problem, env, index, field

    def __str__(self) -> str:
        return f"{self.env}{'' if self.index is None else f', env {self.index}'}: {self.problem}"

    def __reduce__(self) -> tuple[object, ...]:
        cause = {"__cause__": travelling(self.__cause__)} if self.__cause__ else {}
        return EnvError, self.args, {**vars(self), **cause}


class MissingExtra(TflowError, ImportError):
    """A feature needs a package that is not installed."""
