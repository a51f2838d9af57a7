"""A second process, to try operators in: another hash seed, another folder, modules as they are when they are imported.

It is started when it is first needed, serves all operators of a test run, and ends with it.
"""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

import cloudpickle

LIMIT_S = 60.0
"""An answer that takes longer is not waited for."""


class Elsewhere:
    """The other process."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="elsewhere-")
        seed = str((int(os.environ.get("PYTHONHASHSEED", "0")) if os.environ.get("PYTHONHASHSEED", "").isdigit() else 0) + 4321)
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from tflow.testing.elsewhere import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder.name,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
        )
        atexit.register(self.close)

    def ask(self, question: bytes) -> tuple[str, Any]:  # Any: what the other process computed
        """Send something that is packed and wait for the answer: what it is, and the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            write(self.process.stdin, question)
            with selectors.DefaultSelector() as selector:
                selector.register(self.process.stdout, selectors.EVENT_READ)
                if not selector.select(LIMIT_S):
                    raise TimeoutError
            kind, answer = pickle.loads(read(self.process.stdout))  # noqa: S301  # from a process of our own
            return str(kind), answer
        except (OSError, EOFError, TimeoutError):
            self.close()
            the_other.cache_clear()
            return "gone", None

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


@cache
def the_other() -> Elsewhere:
    return Elsewhere()


def run_elsewhere(work: Callable[..., object], *arguments: object, modules: set[str]) -> tuple[str, Any]:  # Any: as above
    """Call a function in the other process; what its module cannot be imported as there is sent by value.

    The answer is ``returned`` with what it returned, ``raised`` with what it said, or ``gone`` if the process cannot do it.
    """
    kind, answer = the_other().ask(cloudpickle.dumps((work, arguments)))
    if kind != "unknown":
        return kind, answer
    known = [sys.modules[name] for name in modules if name in sys.modules and name != "__main__"]
    for module in known:
        cloudpickle.register_pickle_by_value(module)
    try:
        question = cloudpickle.dumps((work, arguments))
    except Exception:  # something in the module cannot be sent: then there is nothing to be learned
        return "gone", None
    finally:
        for module in known:
            cloudpickle.unregister_pickle_by_value(module)
    kind, answer = the_other().ask(question)
    return ("gone", None) if kind == "unknown" else (kind, answer)


def serve() -> None:
    """What the other process does."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what operators print goes elsewhere
    while True:
        try:
            question = read(questions)
        except EOFError:
            return
        try:
            work, arguments = pickle.loads(question)  # noqa: S301  # from the process that started this one
        except Exception as error:
            answer: tuple[str, object] = "unknown", str(error)
        else:
            try:
                answer = "returned", work(*arguments)
            except Exception as error:
                answer = "raised", f"{type(error).__name__}: {error}"
        write(answers, pickle.dumps(answer))


def write(pipe: Any, data: bytes) -> None:  # Any: the end of a pipe
    pipe.write(struct.pack("<Q", len(data)))
    pipe.write(data)
    pipe.flush()


def read(pipe: Any) -> bytes:  # Any: as above
    size = pipe.read(8)
    if len(size) < 8:
        raise EOFError
    return bytes(pipe.read(struct.unpack("<Q", size)[0]))
