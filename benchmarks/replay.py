"""Prioritized replay: sample, gather and update per CPU second, importance weights included (``python -m benchmarks.replay``).

A million rows as CartPole has them, batches of 32 and of 512. Each library runs in a process of its own, one at a time, in turns
whose order rotates, so that all of them meet the same weather. What an interpreter cannot import is left out. Peers may live in
environments of their own::

    python -m benchmarks.replay --peer cpprb=/path/to/python --peer rllib=/path/to/python

``python -m benchmarks.replay bytes`` reports the bytes per stored row if next observations are columns, and if they are stored
once; ``python -m benchmarks.replay once`` what that costs in CPU time, for observations of several sizes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # peers live in environments without tflow
    from tflow.rl.data.batch import Batch
    from tflow.rl.replay.buffer import UniformBuffer

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
    parser.add_argument("what", nargs="?", choices=["speed", "bytes", "once"], default="speed")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help=f"one of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "bytes":
        report_bytes()
        return
    if options.what == "once":
        report_once(options.rounds)
        return
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


# --------------------------------------------------------------------------- next observations, stored once

ENVS: dict[str, tuple[tuple[int, ...], str]] = {"CartPole": ((4,), "f4"), "Pendulum": ((3,), "f4"), "Atari": ((4, 84, 84), "u1")}
"""Shapes and dtypes of observations."""


def buffers(capacity: int, once_from: int) -> dict[str, UniformBuffer]:
    """Buffers that store next observations as columns, and once."""
    from tflow.rl.replay import successors
    from tflow.rl.replay.buffer import UniformBuffer

    class Columns(UniformBuffer):
        links = False

    successors.ONCE_FROM = once_from
    return {"columns": Columns(capacity), "once": UniformBuffer(capacity)}


def episodes(shape: tuple[int, ...], dtype: str, fragment: int, count: int) -> Iterator[Batch[str]]:
    """So many fragments of one env, whose episodes have 200 steps."""
    from tflow.rl.data.batch import Batch

    pictures = (rng.random((fragment * 64 + 1, *shape)) * 255).astype(dtype)  # each is followed by the next, over and over
    for number in range(count):
        first = number % 64 * fragment
        steps = number * fragment + np.arange(fragment) + 1
        columns = {
            "obs": pictures[first : first + fragment],
            "actions": np.zeros(fragment, np.int64),
            "rewards": np.ones(fragment, np.float32),
            "terminated": steps % 200 == 0,
            "truncated": np.zeros(fragment, bool),
        }
        ends = np.unique(np.append(np.flatnonzero(columns["terminated"]), fragment - 1))
        yield Batch(columns, ends=ends, finals={"obs": pictures[first + 1 + ends]})


def report_bytes() -> None:
    from tflow.rl.replay.successors import ONCE_FROM

    print(f"{'bytes per row':12}{'fragment':>10}{'columns':>10}{'once':>10}{'as it is':>10}")
    for name, (shape, dtype) in ENVS.items():
        for fragment in (1, 16):
            capacity, found = 2_000, []
            for once_from, kind in ((0, "columns"), (0, "once"), (ONCE_FROM, "once")):
                buffer = buffers(capacity, once_from)[kind]
                for batch in episodes(shape, dtype, fragment, 2 * capacity // fragment):
                    buffer.insert(batch)
                found.append(buffer.nbytes / len(buffer))
            print(f"{name:13}{fragment:>10}" + "".join(f"{each:>10.1f}" for each in found))


def report_once(rounds: int) -> None:
    """CPU time with successors stored once, as a multiple of that with columns; the order rotates."""
    sizes = {"CartPole": ENVS["CartPole"], "Pendulum": ENVS["Pendulum"]}
    sizes |= {f"{size} bytes": ((size // 4,), "f4") for size in (256, 512, 1024, 4096)} | {"Atari": ENVS["Atari"]}
    print(f"{'once / columns':14}{'insert 1':>20}{'insert 16':>20}{'sample 64':>20}{'sample 256':>20}")
    for name, (shape, dtype) in sizes.items():
        pair = buffers(5_000, 0)
        batches = {fragment: list(episodes(shape, dtype, fragment, 192)) for fragment in (1, 16)}

        def insert(buffer: UniformBuffer, fragment: int, batches: dict[int, list[Batch[str]]] = batches) -> None:
            for batch in batches[fragment]:
                buffer.insert(batch)

        def sample(buffer: UniformBuffer, size: int) -> None:
            for _ in range(100):
                buffer.sample(size)

        line = f"{name:14}"
        for act, number in ((insert, 1), (insert, 16), (sample, 64), (sample, 256)):
            ratios = []
            for turn in range(-1, rounds):
                spent = {}
                for kind in list(pair)[:: 1 if turn % 2 else -1]:
                    start = process_time()
                    act(pair[kind], number)
                    spent[kind] = process_time() - start
                if turn >= 0:  # the first one warms up
                    ratios.append(spent["once"] / spent["columns"])
            line += f"{spread(ratios, '.2f'):>20}"
        print(line, flush=True)


def spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} [{min(values):{form}}..{max(values):{form}}]"


if __name__ == "__main__":
    main()
