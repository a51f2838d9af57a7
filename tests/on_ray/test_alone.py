"""What a session does to the machine: what it opens, what it leaves behind, and what happens when memory runs out.

Each is about a driver in a process of its own with a Ray of its own (``alone.py``).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laws.world import ray_session
from tests.on_ray.alone import MARK, MEGABYTE, listening, marked
from tests.on_ray.mortals import at_most, mortals, sampling, told, wait_until

pytestmark = pytest.mark.ray
ROOT = Path(__file__).parent.parent.parent
Facts = dict[str, object]


class Driver:
    """A program that runs; when the test ends, so do it and all that it started."""

    def __init__(self, name: str) -> None:
        self.mark = uuid.uuid4().hex
        self.folder = Path(tempfile.mkdtemp(prefix="tf-"))  # a short path: Ray makes sockets in it
        clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.on_ray.alone", name, str(self.folder)],
            cwd=ROOT,
            env=clean | {MARK: self.mark, "RAY_TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def facts(self) -> Facts:
        """What it found."""
        out, err = self.process.communicate(timeout=150)
        assert self.process.returncode == 0, err
        found: Facts = json.loads(out.splitlines()[-1])
        return found

    def close(self) -> None:
        for pid in marked(self.mark):
            os.kill(pid, signal.SIGKILL)
        self.process.communicate(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def together() -> Iterator[dict[str, Driver]]:
    """Programs that run side by side, since most of what they do is to wait for a Ray of their own."""
    made = {name: Driver(name) for name in ("session", "interrupted", "bereft", "store")}
    try:
        yield made
    finally:
        for each in made.values():
            each.close()


@pytest.fixture
def driver(request: pytest.FixtureRequest, together: dict[str, Driver]) -> Iterator[Driver]:
    with at_most(170):
        yield together[request.param]


@pytest.fixture(scope="module")
def session(together: dict[str, Driver]) -> Facts:
    """One session, of which several tests look at one side each."""
    return together["session"].facts()


# --------------------------------------------------------------------------- what is open


def test_a_session_of_its_own_asks_for_a_token(session: Facts) -> None:
    assert session["mode"] == "token"
    assert session["token"] == "600 in 700", "nobody else can read it"


def test_a_client_without_the_token_stays_outside(session: Facts) -> None:
    assert isinstance(session["knock"], list)
    code, text = session["knock"]
    assert code != 0
    assert "inside" not in text
    assert "token-auth" in text, "that is the reason"


def test_there_is_no_dashboard(session: Facts) -> None:
    assert isinstance(session["ports"], list)
    assert session["ports"], "Ray itself listens"
    assert 8265 not in session["ports"]


def test_tflow_listens_nowhere(session: Facts) -> None:
    """A local run opens no port, and one on Ray none that ``ray.init`` had not opened."""
    assert session["listening with a local runtime"] == []
    ray_session().close()  # the Ray of these tests is started by ray.init alone
    before = listening(os.getpid())
    with ray_session() as runtime, tempfile.TemporaryDirectory() as folder:
        assert len(list(sampling(mortals(Path(folder), num=1)).gather_async().take(3).run(runtime=runtime))) == 3
        assert listening(os.getpid()) == before


# --------------------------------------------------------------------------- what is left


def test_an_abandoned_run_leaves_its_session_in_order(session: Facts) -> None:
    assert session["balanced"] is True
    assert session["in flight"] == 0
    assert session["in use again"] == 4


def test_a_closed_session_leaves_no_process(session: Facts) -> None:
    assert isinstance(session["alive before"], int)
    assert session["alive before"] >= 5, "the cluster and two actors"
    assert session["left"] == []


@pytest.mark.parametrize("driver", ["interrupted"], indirect=True)
def test_an_interrupt_ends_everything(driver: Driver) -> None:
    """As the terminal does it: the signal goes to the whole process group."""
    wait_until(lambda: told(driver.folder, "stuck", 0) is not None, "the actor sleeps")
    os.killpg(driver.process.pid, signal.SIGINT)
    _, err = driver.process.communicate(timeout=60)
    assert driver.process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    wait_until(lambda: marked(driver.mark) == [], "all processes end")


@pytest.mark.parametrize("driver", ["bereft"], indirect=True)
def test_a_run_whose_ray_was_shut_down_says_so_and_starts_no_other(driver: Driver) -> None:
    """Ray starts another cluster at any call that finds none, and nobody would end it."""
    facts = driver.facts()
    assert facts["started another"] is False
    assert str(facts.pop("next", "")).startswith("RunClosed: Ray is gone")
    assert facts.keys() == {"started another"}, "closing what is gone is quiet"


# --------------------------------------------------------------------------- memory


@pytest.mark.parametrize("driver", ["store"], indirect=True)
def test_more_items_than_the_store_holds_pass_through_it(driver: Driver) -> None:
    facts = driver.facts()
    items = facts["items"]
    assert isinstance(items, list)
    for shard in (0, 1):
        assert [item for item in items if item[0] == shard] == [[shard, sequence, True] for sequence in range(12)]
    assert facts["balanced"] is True
    assert facts["lost"] == 0
    assert facts["most"] == 3, "two calls per shard, but for the one whose item is in hand"
    assert isinstance(facts["peak"], int)
    assert facts["peak"] < 500 * MEGABYTE, "720 MB went through"


@pytest.mark.full
def test_a_worker_that_takes_all_memory_is_replaced_and_the_log_says_why() -> None:
    """Nothing else may take memory meanwhile, so this is not for tests that run side by side."""
    driver = Driver("starved")
    try:
        facts = driver.facts()
    finally:
        driver.close()
    items, heard = facts["items"], facts["heard"]
    assert isinstance(items, list)
    assert isinstance(heard, list)
    assert [item[:3] for item in items] == [[0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 1, 2]]
    assert facts["lost"] == 2, "the one that it was working on, and the one behind it"
    assert facts["balanced"] is True
    (message,) = heard
    assert message.startswith("Shard env[0] died: it was ended because its node ran out of memory (process ")
