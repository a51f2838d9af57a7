"""The live view on a real terminal: wide, narrow, resized, interrupted; and without one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]  # it has no types
import pyte
import pytest

SCRIPT = Path(sys.executable).parent / "tflow"
QUICK = ("--num-envs", "2", "--fragment", "32", "--epochs", "1", "--model", "MLP((8,))")
TIMEOUT_S = 60


class Terminal:
    """A program on a terminal of so many lines and columns, and what stands on its screen."""

    def __init__(self, folder: Path, *words: str, lines: int = 24, columns: int = 80) -> None:
        self.screen: Any = pyte.Screen(columns, lines)  # Any: pyte has no types
        self.stream: Any = pyte.ByteStream(self.screen)  # Any: as above
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR", "CI")}
        self.program: Any = pexpect.spawn(  # Any: pexpect has no types
            str(SCRIPT),
            list(words),
            cwd=str(folder),
            dimensions=(lines, columns),
            env={**environment, "TERM": "xterm-256color", "PATH": f"{SCRIPT.parent}:{os.environ['PATH']}"},
        )

    def resize(self, lines: int, columns: int) -> None:
        self.screen.resize(lines, columns)
        self.program.setwinsize(lines, columns)

    def wait_for(self, seen: Callable[[list[str]], object]) -> list[str]:
        """The screen, as soon as it shows what is wanted."""
        for _ in range(TIMEOUT_S * 10):
            if seen(self.shown()):
                return self.shown()
            try:
                self.stream.feed(self.program.read_nonblocking(65536, timeout=0.1))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
        assert seen(self.shown()), "\n".join(self.shown())
        return self.shown()

    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def rest(self) -> list[str]:
        """The screen when the program has ended."""
        while True:
            try:
                self.stream.feed(self.program.read_nonblocking(65536, timeout=TIMEOUT_S))
            except pexpect.EOF:
                self.program.close()
                return self.shown()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def begin(*words: str, lines: int = 24, columns: int = 80) -> Terminal:
        started.append(Terminal(tmp_path, *words, lines=lines, columns=columns))
        return started[-1]

    yield begin
    for each in started:
        each.program.kill(signal.SIGKILL)
        each.program.wait()
        each.program.close()


def box(shown: list[str]) -> list[str]:
    """The lines of the latest view, from its upper to its lower edge."""
    upper = [number for number, line in enumerate(shown) if line.startswith("╭")]
    lower = [number for number, line in enumerate(shown) if line.startswith("╰")]
    return shown[upper[-1] : lower[-1] + 1] if upper and lower else []


def has(*words: str, width: int | None = None) -> Callable[[list[str]], bool]:
    """Whether the screen shows all these words; with ``width``, also a view that is whole and so wide."""

    def seen(shown: list[str]) -> bool:
        whole = width is None or {len(line) for line in box(shown)} == {width}
        return whole and all(any(word in line for line in shown) for word in words)

    return seen


def test_a_whole_run(start: Callable[..., Terminal]) -> None:
    terminal = start("train", "ppo", *QUICK, "--stop-steps", "60000", "--eval-every", "20000", "--out", "run", lines=40)
    terminal.wait_for(has("PPO on CartPole-v1, local, seed 0", "eta 0:", "TrainOneStep", "steps/s", width=80))
    ended = terminal.rest()
    assert has("100%  done", "evaluation", "Reached 60,000 env steps", "Run folder: run", "tflow eval run")(ended)
    assert sum(line.startswith("╭") for line in ended) == 1, "drawn in place"
    assert terminal.program.exitstatus == 0


def side_by_side(shown: list[str]) -> bool:
    return any("TrainOneStep" in line and any(word in line for word in ("return", "▁", "episodes")) for line in box(shown))


def test_a_terminal_that_is_resized(start: Callable[..., Terminal]) -> None:
    """What there is to see stands side by side if there is room, else below each other."""
    terminal = start("train", "ppo", *QUICK, lines=30, columns=100)
    assert side_by_side(terminal.wait_for(has("TrainOneStep", "until return 475", width=100)))
    terminal.resize(30, 44)
    assert not side_by_side(terminal.wait_for(has("TrainOneStep", "until return 475", width=44)))
    terminal.resize(30, 130)
    assert side_by_side(terminal.wait_for(has("TrainOneStep", "until return 475", width=110)))


def test_ctrl_c_leaves_the_last_view_and_says_where_the_work_is(start: Callable[..., Terminal], tmp_path: Path) -> None:
    terminal = start("train", "ppo", *QUICK, "--out", "run", lines=30)
    terminal.wait_for(has("updates"))
    terminal.program.sendintr()
    ended = terminal.rest()
    assert has("Interrupted: mean return", "Run folder: run")(ended)
    assert "Traceback" not in "".join(ended)
    assert not terminal.screen.cursor.hidden
    assert terminal.program.exitstatus == 130
    assert (tmp_path / "run" / "policy.safetensors").is_file()


def test_plain_lines_if_asked_for(start: Callable[..., Terminal]) -> None:
    ended = start("train", "ppo", *QUICK, "--stop-steps", "300", "--plain", lines=30).rest()
    assert has("PPO on CartPole-v1, local, seed 0", "env steps", "Reached 300 env steps")(ended)
    assert not has("╭")(ended)
