"""What a checkpoint costs: the pause of training and the bytes on disk, for replay of usual sizes.

python -m benchmarks.checkpoint

Each figure is the least of three saves of a run whose replay actor is full: one million CartPole rows, and 100,000 Atari
observations of four frames, stored once each. On the local runtime the driver writes them; on Ray the replay actor does.
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

    def __init__(self) -> None:
        self.buffer: UniformBuffer = PrioritizedBuffer(1_000_000)
        rng, rows = np.random.default_rng(0), self.buffer.capacity // CHUNKS
        for _ in range(CHUNKS):
            obs = {name: rng.random((rows, 4), dtype=np.float32) for name in ("obs", "next_obs")}
            self.buffer.insert(Batch(columns(rows, **obs), ends=np.arange(rows)))

    def sample(self) -> int:
        return len(self.buffer.sample(32))

    def state(self) -> object:
        return self.buffer.state(copies=False)

    def load(self, state: dict[str, np.ndarray]) -> None:
        self.buffer.load(state)


class AtariRows(CartPoleRows):
    """A replay actor with 100,000 observations of four frames."""

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
    """Save a run three times, and say what the best took."""
    replay = create_actors(cartpole if name == "cartpole" else atari, num=1, name="replay")
    with session, from_actors(replay, CartPoleRows.sample).gather_sync().run(runtime=session) as run:
        next(run)
        pauses = []
        for _ in range(3):
            began = time.perf_counter()
            run.save(folder / "saved")
            pauses.append(time.perf_counter() - began)
        size = sum(file.stat().st_size for file in (folder / "saved").iterdir())
    print(
        f"{name:9} {type(session).__name__:13} {min(pauses):6.2f} s  {size / 1e6:8.1f} MB  {size / 1e9 / min(pauses):5.2f} GB/s"
    )


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
