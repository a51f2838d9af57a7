"""Tracebacks as users want them: their own frames first. Ours stand between what they called and what they wrote, and are left
out where theirs tell it; ``TFLOW_TRACEBACK=full`` shows them all."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"
GENERATED = "<tflow "
INSTALLED = tuple({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")})
SHOWS_ALL = "TFLOW_TRACEBACK"


def fold(error: BaseException) -> None:
    """Leave out our frames of an error that was caused by code of the user, and those before it in its cause."""
    cause = error.__cause__
    if cause is None or os.environ.get(SHOWS_ALL):
        return
    theirs = first_of_theirs(cause.__traceback__)
    if theirs is None:  # it is none of the user's: whoever looks for it needs everything
        return
    cause.__traceback__ = theirs
    error.__traceback__ = without_ours(error.__traceback__)


def first_of_theirs(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is the user's; None if there is none."""
    while trace is not None and (is_ours(trace) or trace.tb_frame.f_code.co_filename.startswith((*INSTALLED, "<frozen "))):
        trace = trace.tb_next
    return trace


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without our frames."""
    if trace is None:
        return None
    rest = without_ours(trace.tb_next)
    return rest if is_ours(trace) else TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def is_ours(trace: TracebackType) -> bool:
    """Whether a frame runs code of tflow."""
    file = trace.tb_frame.f_code.co_filename
    return file.startswith((PACKAGE, GENERATED))


def told(error: BaseException) -> str:
    """The traceback of an error, from the first frame on that is the user's, if there is one."""
    trace = error.__traceback__ if os.environ.get(SHOWS_ALL) else first_of_theirs(error.__traceback__) or error.__traceback__
    return "".join(traceback.format_exception(type(error), error, trace))


def frames_of_theirs(error: BaseException | None) -> str:
    """The frames of the user's code that an error came from, as Python prints them; empty if there are none."""
    found = ""
    while error is not None:
        trace = first_of_theirs(error.__traceback__)
        found = "".join(traceback.format_tb(trace)) if trace is not None else found
        error = error.__cause__
    return found
