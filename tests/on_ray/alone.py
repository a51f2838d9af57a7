"""Programs that start a Ray of their own, so that the one that the tests share is left in peace.

``python -m tests.on_ray.alone NAME FOLDER`` runs one. It prints what it found as one line of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import ray

from tests.on_ray.mortals import Told, is_gone, mortals, order, sampling
from tflow import LocalRuntime, RayRuntime, Shard, create_actors, from_actors, par_from_range

MARK = "TFLOW_TEST_MARK"
"""An environment variable: whatever process a program starts, however indirectly, inherits it."""
MEGABYTE = 2**20


# --------------------------------------------------------------------------- what there is on this machine


def marked(mark: str) -> list[int]:
    """All living processes with this mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # it has just ended, or is another's
    return [pid for pid in found if not is_gone(pid)]


def others() -> list[int]:
    """Those that this program has started."""
    return [pid for pid in marked(os.environ[MARK]) if pid != os.getpid()]


def listening(pid: int) -> list[int]:
    """The TCP ports on which a process listens."""
    sockets = set()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            sockets.add(os.readlink(descriptor))
    except OSError:
        return []  # it has just ended
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return sorted(int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets)


def memory() -> tuple[int, int]:
    """Bytes in all, and those in use."""
    lines = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    sizes = {words[0]: int(words[1]) * 1024 for words in lines}
    return sizes["MemTotal:"], sizes["MemTotal:"] - sizes["MemAvailable:"]


# --------------------------------------------------------------------------- the whole life of a session


def knock(address: str) -> tuple[int, str]:
    """How a client without the token fares."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_") and name != MARK}
    code = f"import ray; ray.init(address={address!r}); print('inside')"
    environment = clean | {"RAY_AUTH_MODE": "disabled", "RAY_NUM_REDIS_GET_RETRIES": "1"}
    client = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    return client.returncode, client.stdout + client.stderr


def session(folder: Path) -> dict[str, object]:
    """What a session opens, what an abandoned run leaves, and what is left when the session is closed."""
    assert list(par_from_range(4).gather_sync().run(runtime=LocalRuntime())) == [0, 2, 1, 3]
    facts: dict[str, object] = {"listening with a local runtime": listening(os.getpid())}
    runtime = RayRuntime(num_cpus=2)
    actors = mortals(folder)
    for item in (run := sampling(actors).gather_async(in_flight=2).run(runtime=runtime)):
        if item.sequence == 2:
            break  # the consumer has enough
    run.close()
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    facts |= {
        "mode": os.environ.get("RAY_AUTH_MODE"),
        "token": f"{token.stat().st_mode & 0o777:o} in {token.parent.stat().st_mode & 0o777:o}",
        "ports": sorted(port for pid in others() for port in listening(pid)),
        "knock": knock(ray.get_runtime_context().gcs_address),
        "balanced": run.ledger.balanced,
        "in flight": run.ledger.calls.in_flight,
        "alive before": len(others()),
        "in use again": len(list(sampling(actors).gather_sync().take(4).run(runtime=runtime))),
    }
    runtime.close()
    end = time.monotonic() + 60
    while (left := others()) and time.monotonic() < end:
        time.sleep(0.05)
    return facts | {"left": [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in left]}


def interrupted(folder: Path) -> dict[str, object]:
    """Waits for an actor that sleeps."""
    order(folder, "hang", 0)
    with RayRuntime(num_cpus=2) as runtime:
        return {"items": list(sampling(mortals(folder, num=1)).gather_async().run(runtime=runtime))}


def bereft(folder: Path) -> dict[str, object]:
    """Somebody shuts Ray down under a run."""
    runtime = RayRuntime(num_cpus=2)
    run = sampling(mortals(folder, num=1)).gather_async().run(runtime=runtime)
    next(run)
    ray.shutdown()
    steps: dict[str, Callable[[], object]] = {"next": run.__next__, "run.close": run.close, "runtime.close": runtime.close}
    facts: dict[str, object] = {}
    for name, step in steps.items():
        try:
            step()
        except Exception as error:
            facts[name] = f"{type(error).__name__}: {error}"
    return facts | {"started another": ray.is_initialized()}


# --------------------------------------------------------------------------- memory


class Bulk(NamedTuple):
    """An item that fills much of the store."""

    shard: int
    sequence: int
    data: np.ndarray[tuple[int], np.dtype[np.uint8]]


class Bulky:
    """Makes twelve of them."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard.index
        self.made = 0

    def sample(self) -> Bulk:
        if self.made == 12:
            raise StopIteration
        self.made += 1
        return Bulk(self.shard, self.made - 1, np.full(30 * MEGABYTE, self.made, np.uint8))


def seen_whole(items: list[Bulk]) -> list[tuple[int, int, bool]]:
    """Which they are, and whether they arrived as they were made."""
    return [(shard, number, len(data) == 30 * MEGABYTE and bool((data == number + 1).all())) for shard, number, data in items]


def store(folder: Path) -> dict[str, object]:
    """Items of 720 MB through a store of 80 MB, while the driver holds four of them and three more are under way."""
    most = 0
    items: list[tuple[int, int, bool]] = []
    with RayRuntime(num_cpus=2, store_mb=80) as runtime:
        plan = from_actors(create_actors(Bulky), Bulky.sample).gather_async(in_flight=2).batch(4).map(seen_whole)
        with plan.run(runtime=runtime) as run:
            for batch in run:
                items += batch
                most = max(most, run.ledger.calls.in_flight + run.ledger.items.buffered)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"items": items, "most": most, "balanced": run.ledger.balanced, "lost": run.ledger.calls.lost, "peak": peak}


@dataclass
class Greedy:
    """In its first life, takes memory until it is stopped: at most 6 GB."""

    shard: Shard
    made: int = 0

    def sample(self) -> Told:
        hoard: list[object] = []
        while self.shard.incarnation == 0 and self.made == 1 and len(hoard) < 60:
            hoard.append(np.ones(100 * MEGABYTE, np.uint8))
            time.sleep(0.05)
        self.made += 1
        return Told(self.shard.index, self.shard.incarnation, self.made - 1, 0, os.getpid())


def starved(folder: Path) -> dict[str, object]:
    """Ray ends a worker when the machine has 2 GB less than it has now."""
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]  # the least that hears
    logging.getLogger("tflow").addHandler(handler)
    total, used = memory()
    os.environ |= {"RAY_memory_usage_threshold": str((used + 2048 * MEGABYTE) / total), "RAY_memory_monitor_refresh_ms": "100"}
    with RayRuntime(num_cpus=2) as runtime:
        plan = from_actors(create_actors(Greedy, num=1, name="env"), Greedy.sample).gather_async(in_flight=2).take(4)
        with plan.run(runtime=runtime) as run:
            items = list(run)
    return {"items": items, "heard": heard, "lost": run.ledger.calls.lost, "balanced": run.ledger.balanced}


PROGRAMS: dict[str, Callable[[Path], dict[str, object]]] = {
    program.__name__: program for program in (session, interrupted, bereft, store, starved)
}

if __name__ == "__main__":
    signal.alarm(150)  # whatever happens, it ends
    sys.stdout.write(json.dumps(PROGRAMS[sys.argv[1]](Path(sys.argv[2]))) + "\n")
