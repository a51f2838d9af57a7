"""What a checkpoint costs: the pause of training and the bytes on disk, for replay of usual sizes.

python -m benchmarks.checkpoint

Of a run whose replay actor is full: one million CartPole rows, and 100,000 Atari observations of four frames, stored once
each. The first checkpoint writes everything; those after it, each after a hundredth of the rows was replaced, what has changed
(the least and the most of three). On the local runtime the driver writes them; on Ray the replay actor does.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tflow import Batch, LocalRuntime, RayRuntime, Shard, create_actors, from_actors
from tflow.rl.replay.buffer import PrioritizedBuffer, UniformBuffer
from tflow.runtime.base import Runtime

CHUNKS = 10


def columns(rows: int, **more: np.ndarray) -> dict[str, np.ndarray]:
    """What transitions have beside observations."""
    none = np.zeros(rows, bool)
    return {
        "actions": np.zeros(rows, np.int64),
        "rewards": np.ones(rows, np.float32),
        "terminated": none,
        "truncated": none,
        **more,
    }


class CartPoleRows:
    """A replay actor with a million rows and their priorities."""

    stored: tuple[str, ...] = ("obs", "next_obs")

    def __init__(self) -> None:
        self.buffer: UniformBuffer = PrioritizedBuffer(1_000_000)
        rng, rows = np.random.default_rng(0), self.buffer.capacity // CHUNKS
        for _ in range(CHUNKS):
            obs = {name: rng.random((rows, 4), dtype=np.float32) for name in ("obs", "next_obs")}
            self.buffer.insert(Batch(columns(rows, **obs), ends=np.arange(rows)))

    def replace(self) -> int:
        """Replace a hundredth of the rows, and update the priorities of some."""
        rows = self.buffer.capacity // 100
        batch = self.buffer.sample(rows)
        if isinstance(self.buffer, PrioritizedBuffer):
            self.buffer.update_priorities(batch["ids"], np.random.default_rng(0).random(rows))
        obs = {name: batch[name] for name in self.stored}
        self.buffer.insert(Batch(columns(rows, **obs), ends=np.array([rows - 1]), finals={"obs": batch["obs"][-1:]}))
        return rows

    def state(self) -> object:
        return self.buffer.state(copies=False)

    def load(self, state: dict[str, np.ndarray]) -> None:
        self.buffer.load(state)


class AtariRows(CartPoleRows):
    """A replay actor with 100,000 observations of four frames."""

    stored = ("obs",)

    def __init__(self) -> None:
        self.buffer = UniformBuffer(100_000)
        rng, rows = np.random.default_rng(0), self.buffer.capacity // CHUNKS
        for _ in range(CHUNKS):
            obs = rng.integers(0, 255, (rows, 4, 84, 84), dtype=np.uint8)
            self.buffer.insert(Batch(columns(rows, obs=obs), ends=np.array([rows - 1]), finals={"obs": obs[-1:]}))


def cartpole(shard: Shard) -> CartPoleRows:
    return CartPoleRows()


def atari(shard: Shard) -> AtariRows:
    return AtariRows()


def measured(name: str, session: Runtime, folder: Path) -> None:
    """Save a run four times, and say how long it paused and what was written."""
    replay = create_actors(cartpole if name == "cartpole" else atari, num=1, name="replay")
    with session, from_actors(replay, CartPoleRows.replace).gather_sync().run(runtime=session) as run:
        pauses, written = [], []
        for number in range(4):
            next(run)
            began = time.perf_counter()
            run.save(folder / str(number))
            pauses.append(time.perf_counter() - began)
            files = [file.stat() for file in (folder / str(number)).iterdir()]
            written.append(sum(file.st_size for file in files if file.st_nlink == 1) / 1e6)
            if number:
                shutil.rmtree(folder / str(number - 1))
    shutil.rmtree(folder / str(len(pauses) - 1))
    later = f"{min(pauses[1:]):5.2f} to {max(pauses[1:]):5.2f} s {max(written[1:]):8.1f} MB"
    print(f"{name:9} {type(session).__name__:13} first {pauses[0]:5.2f} s {written[0]:8.1f} MB   then {later}", flush=True)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        for name in sys.argv[1:] or ("cartpole", "atari"):
            measured(name, LocalRuntime(), folder)
            measured(name, RayRuntime(num_cpus=2, store_mb=256), folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
