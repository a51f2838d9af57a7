"""Prioritized replay: sample, gather and update per CPU second, importance weights included (``python -m benchmarks.replay``).

A million rows as CartPole has them, batches of 32 and of 512. Each library runs in a process of its own, one at a time, in turns
whose order rotates, so that all of them meet the same weather. What an interpreter cannot import is left out. Peers may live in
environments of their own::

    python -m benchmarks.replay --peer cpprb=/path/to/python --peer rllib=/path/to/python
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from time import process_time

import numpy as np

ROWS = 1_000_000
SIZES = (32, 512)
Step = Callable[[int], object]  # one sample and one update, of so many rows
rng = np.random.default_rng(0)


def rows(count: int) -> dict[str, np.ndarray]:
    return {
        "obs": rng.random((count, 4), dtype=np.float32),
        "next_obs": rng.random((count, 4), dtype=np.float32),
        "actions": rng.integers(2, size=count),
        "rewards": np.ones(count, np.float32),
        "terminated": rng.random(count) < 0.01,
    }


def tflow(compiled: bool) -> Step:
    from tflow.rl.data.batch import Batch
    from tflow.rl.replay.buffer import PrioritizedBuffer

    buffer = PrioritizedBuffer(ROWS, compiled=compiled)
    buffer.insert(Batch(rows(ROWS) | {"priorities": rng.random(ROWS) + 1e-3}))

    def step(size: int) -> None:
        buffer.update_priorities(buffer.sample(size)["ids"], rng.random(size) + 1e-3)

    return step


def cpprb() -> Step:
    data = rows(ROWS)
    columns = {name: {"shape": column.shape[1:] or 1, "dtype": column.dtype} for name, column in data.items()}
    buffer = import_module("cpprb").PrioritizedReplayBuffer(ROWS, columns, alpha=0.6)
    buffer.add(**data, priorities=rng.random(ROWS) + 1e-3)

    def step(size: int) -> None:
        buffer.update_priorities(buffer.sample(size, beta=0.4)["indexes"], rng.random(size) + 1e-3)

    return step


def rllib() -> Step:
    """The buffer of the old stack holds 100 000 rows only, because filling it takes so long: that favours it."""
    batches = import_module("ray.rllib.policy.sample_batch")
    buffers = import_module("ray.rllib.utils.replay_buffers.prioritized_replay_buffer")
    buffer = buffers.PrioritizedReplayBuffer(capacity=ROWS, storage_unit="timesteps", alpha=0.6)
    data = rows(ROWS // 10)
    for row in range(ROWS // 10):
        buffer.add(
            batches.SampleBatch({name: column[row : row + 1] for name, column in data.items()}), weight=rng.random() + 1e-3
        )

    def step(size: int) -> None:
        buffer.update_priorities(buffer.sample(size, beta=0.4)["batch_indexes"], rng.random(size) + 1e-3)

    return step


def rllib_episodes() -> Step:
    """The buffer of the new stack, 100 000 rows in episodes of 200."""
    episodes = import_module("ray.rllib.env.single_agent_episode")
    buffers = import_module("ray.rllib.utils.replay_buffers.prioritized_episode_buffer")
    buffer = buffers.PrioritizedEpisodeReplayBuffer(capacity=ROWS, alpha=0.6, beta=0.4)
    for _ in range(ROWS // 10 // 200):
        data = rows(201)
        episode = episodes.SingleAgentEpisode(
            observations=list(data["obs"]),
            actions=list(data["actions"][:200]),
            rewards=list(data["rewards"][:200]),
            terminated=True,
            len_lookback_buffer=0,
        )
        episode.to_numpy()
        buffer.add(episode)

    def step(size: int) -> None:
        buffer.sample(num_items=size, n_step=1)
        buffer.update_priorities(rng.random(size) + 1e-3)

    return step


PEERS: dict[str, Callable[[], Step]] = {
    "tflow-numba": lambda: tflow(True),
    "tflow-numpy": lambda: tflow(False),
    "cpprb": cpprb,
    "rllib": rllib,
    "rllib-episodes": rllib_episodes,
}


def serve(name: str, seconds: float) -> None:
    """In the process of a peer: measure whenever a line with a batch size comes in."""
    try:
        step = PEERS[name]()
    except ImportError as error:
        print(f"left out: {name} ({error})", flush=True)
        return
    for size in SIZES:
        step(size)  # compiles, warms up
    print("ready", flush=True)
    for line in sys.stdin:
        size, count, start = int(line), 0, process_time()  # what others do on the machine does not count
        while process_time() - start < seconds:
            for _ in range(10):
                step(size)
            count += 10
        print(count / (process_time() - start), flush=True)


class Peer:
    def __init__(self, name: str, python: str, seconds: float) -> None:
        self.process = subprocess.Popen(
            [python, __file__, "--serve", name, "--seconds", str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.ask, self.answers = self.process.stdin, self.process.stdout
        self.greeting = self.answers.readline().strip()

    def rate(self, size: int) -> float:
        print(size, file=self.ask, flush=True)
        return float(self.answers.readline())

    def close(self) -> None:
        self.ask.close()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help=f"one of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.seconds)
        return
    pythons = dict.fromkeys(PEERS, sys.executable) | dict(peer.split("=", 1) for peer in options.peer)
    pythons["rllib-episodes"] = pythons["rllib"]
    peers = {}
    for name, python in pythons.items():
        peer = Peer(name, python, options.seconds)
        if peer.greeting == "ready":
            peers[name] = peer
        else:
            print(peer.greeting or f"left out: {name} (its process ended)")
    names = list(peers)
    for size in SIZES:
        rates: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(options.rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                rates[name].append(peers[name].rate(size))
        print(f"\nbatches of {size}: sample + gather + update per CPU second; median [worst..best] of {options.rounds}")
        print(f"{'':16}{'per CPU second':>26}{names[0] + ' is so many times as fast':>44}")
        for name in names:
            ratios = [ours / theirs for ours, theirs in zip(rates[names[0]], rates[name], strict=True)]
            print(f"{name:16}{spread(rates[name], '.0f'):>26}{spread(ratios, '.2f'):>44}")
    for peer in peers.values():
        peer.close()


def spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} [{min(values):{form}}..{max(values):{form}}]"


if __name__ == "__main__":
    main()
