"""Tracebacks as users want them: their own frames first. Ours stand between what they called and what they wrote, and are left
out where theirs tell it; ``TFLOW_TRACEBACK=full`` shows them all."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tflow.errors import TflowError

PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"
GENERATED = "<tflow "
INSTALLED = tuple({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")})
SHOWS_ALL = "TFLOW_TRACEBACK"
ELSEWHERE = "Raised in "
"""How notes begin that say in which process of an actor an error was raised."""


def fold(error: BaseException) -> None:
    """Leave out our frames of an error that was caused by code of the user, and those before it in its cause."""
    cause = error.__cause__
    if os.environ.get(SHOWS_ALL):
        return
    theirs = None if cause is None else first_of_theirs(cause.__traceback__)
    if cause is not None and theirs is not None:
        cause.__traceback__ = theirs
    elif not note_of_actor(error):  # it is none of the user's: whoever looks for it needs everything
        return
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
    """The traceback of an error, or of what caused it, from the first frame on that is the user's. Without one, all of it; of an
    error of ours, which is a sentence, nothing."""
    if not os.environ.get(SHOWS_ALL):
        for each in caused(error):
            if (theirs := first_of_theirs(each.__traceback__)) is not None:
                return "".join(traceback.format_exception(type(each), each, theirs))
        if isinstance(error, TflowError):
            return ""
    return "".join(traceback.format_exception(error))


def caused(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what caused it, and so on."""
    while error is not None:
        yield error
        error = error.__cause__


def frames_of_theirs(error: BaseException) -> str:
    """The frames of the user's code that an error came from, as Python prints them; empty if there are none."""
    found = ""
    for each in caused(error):
        trace = first_of_theirs(each.__traceback__)
        found = "".join(traceback.format_tb(trace)) if trace is not None else found
    return found


def note_of_actor(error: BaseException) -> str:
    """In which process of an actor an error was raised, with its frames there; empty if it was raised here, or without frames."""
    notes = (note for each in caused(error) for note in getattr(each, "__notes__", ()))
    return next((note for note in notes if note.startswith(ELSEWHERE) and "\n" in note), "")
