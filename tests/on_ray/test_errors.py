"""Errors of user code on a real Ray: they say what was raised and where, in words of this library and not of Ray."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from tests.laws.world import ray_session
from tests.on_ray.mortals import Keep, Learner, Told, mortals, order, per_life, sampling
from tflow import (
    ActorOp,
    Iter,
    Live,
    LiveOp,
    PlanError,
    Shard,
    Stop,
    Union,
    create_actor,
    create_actors,
    from_actors,
    from_iterable,
    from_range,
)
from tflow.actors import Actor
from tflow.algos import PPO
from tflow.errors import EnvError, OperatorError, TflowError
from tflow.runtime import frames

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("bounded")]


def refuse_three(item: Told) -> Told:
    if item.shard == 1 and item.sequence == 3:
        raise ValueError("three is too many")
    return item


def test_an_error_of_user_code_says_where_it_was_raised(tmp_path: Path) -> None:
    items: list[Told] = []
    with ray_session() as session:
        run = sampling(mortals(tmp_path)).par_map(refuse_three).gather_async().run(runtime=session)
        with pytest.raises(OperatorError) as caught:
            for item in run:
                items.append(item)
    error = caught.value
    pid = next(item.pid for item in items if item.shard == 1)
    assert str(error) == "par_map(refuse_three) in shard env[1], item 3, raised ValueError: three is too many"
    assert (error.operator, error.shard, error.item) == ("par_map(refuse_three)", "env[1]", 3)
    assert isinstance(error.cause, ValueError)
    (note,) = error.__notes__
    assert note.startswith(f"Raised in env[1], process {pid} on node ")
    assert "test_errors.py" in note
    assert note.rstrip().endswith('in refuse_three\n    raise ValueError("three is too many")\nValueError: three is too many')
    assert per_life(items)[1, 0] == [0, 1, 2], "what had arrived was delivered"
    assert run.ledger.balanced


def test_an_error_beside_items_that_stay_where_they_are_says_the_same(tmp_path: Path) -> None:
    order(tmp_path, "raise", 0, 2)
    plan = sampling(mortals(tmp_path, num=1)).gather_async().call(create_actor(Learner), Keep())
    items: list[Told] = []
    with ray_session() as session:
        run = plan.run(runtime=session)
        with pytest.raises(OperatorError) as caught:
            for item in run:
                items.append(item)
    assert str(caught.value) == "from_actors(env, sample) in shard env[0], item 2, raised ValueError: ordered to raise"
    assert "in obey\n" in caught.value.__notes__[0]
    assert [item.sequence for item in items] == [0, 1]


class Breaks(gymnasium.Env[np.ndarray, np.int64]):
    """Divides by zero in its third step."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32), gymnasium.spaces.Discrete(2)
    left = 3

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[np.ndarray, dict[str, object]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        self.left -= 1
        return np.zeros(2, np.float32), 1 / self.left, False, False, {}


def test_an_error_of_an_env_shows_its_frames_and_none_of_ours() -> None:
    with ray_session() as session:
        run = PPO(env=Breaks, num_workers=1, num_envs=1, fragment=8, minibatch=8).run(stop=Stop(env_steps=8), runtime=session)
        with pytest.raises(EnvError) as caught:
            run.finish()
    lines = frames.note_of_actor(caught.value).splitlines()
    assert lines[0].startswith("Raised in workers[0], process ")
    assert [line.rpartition(" in ")[2] for line in lines if line.startswith("  File")] == ["step"]
    assert lines[-1] == "ZeroDivisionError: division by zero"
    places = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not [place for place in places if place.endswith(("gather.py", "messages.py"))], "nor are there any of the driver"


class Hoarder:
    """Makes items that cannot travel."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def sample(self) -> object:
        return threading.Lock()


@dataclass(frozen=True)
class Pass(ActorOp[Learner, object, object]):
    """Takes anything."""

    def apply(self, actor: Learner, item: object, /) -> object:
        return item


def is_sentence(error: BaseException) -> bool:
    """One line, without Ray's traceback in it or over it."""
    return "\n" not in str(error) and "ray::" not in str(error) and (error.__context__ is None or error.__suppress_context__)


def seen(stream: Iter[object]) -> Iter[object]:
    """The driver opens the items at once."""
    return stream.map(id)


def unseen(stream: Iter[object]) -> Iter[object]:
    """The driver does not open the items."""
    return stream.call(create_actor(Learner), Pass())


def half_seen(stream: Iter[object]) -> Iter[object]:
    """The driver opens the items, but not at once."""
    shown, sent = stream.split()
    return Union(seen(shown), unseen(sent))


@pytest.mark.parametrize("look", [seen, unseen, half_seen])
def test_an_item_that_cannot_travel_is_an_error_in_one_sentence(look: Callable[[Iter[object]], Iter[object]]) -> None:
    stream: Iter[object] = from_actors(create_actors(Hoarder, num=1), Hoarder.sample).gather_async()
    with ray_session() as session, look(stream).run(runtime=session) as run:
        with pytest.raises(TflowError) as caught:
            next(run)
        assert is_sentence(caught.value)
        assert "Hoarder[0]" in str(caught.value), "the actor that made it"
        assert "cannot pickle '_thread.lock' object" in str(caught.value)
        assert run.ledger.balanced


def test_an_item_that_cannot_be_sent_is_an_error_in_one_sentence() -> None:
    plan = from_iterable(lambda: iter([threading.Lock()])).call(create_actor(Learner, name="learner"), Pass())
    with ray_session() as session, plan.run(runtime=session) as run:
        with pytest.raises(PlanError) as caught:
            next(run)
        assert str(caught.value) == "What is sent to learner[0] cannot travel: TypeError: cannot pickle '_thread.lock' object."
        assert run.ledger.balanced


class Pupil:
    """Has weights."""

    def __init__(self, shard: Shard) -> None:
        self.weights = 0

    def set_weights(self, weights: int) -> None:
        self.weights = weights


@dataclass(frozen=True)
class Teach(LiveOp[object, object]):
    """After the k-th item it has weights k."""

    pupil: Actor[Pupil]

    def apply(self, live: Live, item: object, /) -> object:
        live[self.pupil].update(Pupil.set_weights, live[self.pupil].advance())
        return item


@dataclass(frozen=True)
class Weigh(ActorOp[Pupil, object, int]):
    """The weights at each item."""

    def apply(self, actor: Pupil, item: object, /) -> int:
        return actor.weights


def test_weights_that_rode_with_a_call_that_could_not_leave_wait_for_the_next() -> None:
    pupil = create_actor(Pupil)
    items: list[object] = [1, 2, threading.Lock()]
    teaching = from_iterable(lambda: iter(items)).for_each(Teach(pupil)).call(pupil, Weigh())
    with ray_session() as session:
        found: list[int] = []
        with pytest.raises(PlanError, match="cannot travel"):
            for weights in teaching.run(runtime=session):
                found.append(weights)
        assert found == [1, 2]
        assert list(from_range(1).call(pupil, Weigh()).run(runtime=session)) == [3]


class Moody:
    """Cannot be sent once it has changed its mind: what could not be sent before is refused by validation."""

    def __init__(self) -> None:
        self.stuck = False

    def __reduce__(self) -> tuple[type[Moody], tuple[()]]:
        if self.stuck:
            raise TypeError("cannot pickle a Moody")
        return Moody, ()


def test_what_makes_actors_must_be_able_to_travel() -> None:
    moody = Moody()

    def make(shard: Shard) -> Learner:
        assert moody is not None
        return Learner(shard)

    plan = from_actors(create_actors(make), id).gather_sync()
    why = r"^What makes make cannot travel: TypeError: cannot pickle a Moody\.$"
    with ray_session() as session, plan.run(runtime=session) as run:
        moody.stuck = True
        with pytest.raises(PlanError, match=why):
            next(run)


def test_an_operator_must_be_able_to_travel(tmp_path: Path) -> None:
    moody = Moody()

    def held(item: Told) -> Told:
        assert moody is not None
        return item

    plan = sampling(mortals(tmp_path, num=1)).par_map(held).gather_sync()
    with ray_session() as session, plan.run(runtime=session) as run:
        moody.stuck = True
        with pytest.raises(PlanError) as caught:
            next(run)
        assert is_sentence(caught.value)
        assert "cannot pickle a Moody" in str(caught.value)


class Leaver:
    """Calls ``sys.exit``, as code does that was once a script."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def sample(self) -> int:
        sys.exit("I have had enough")


def test_an_exit_in_user_code_is_an_error_and_not_a_death() -> None:
    plan = from_actors(create_actors(Leaver, num=1), Leaver.sample).gather_sync()
    with ray_session() as session, plan.run(runtime=session) as run:
        with pytest.raises(OperatorError, match="raised SystemExit: I have had enough") as caught:
            next(run)
        assert caught.value.shard == "Leaver[0]"
        assert run.ledger.calls.lost == 0


# --------------------------------------------------------------------------- what ps says


class Titled:
    def __init__(self, _: Shard) -> None:
        self.calls = 0

    def title(self) -> str:
        """What ``ps`` shows while the actor works."""
        return Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode()


@pytest.mark.parametrize("per_call", [1, 2])
def test_processes_are_called_by_their_shards_while_they_work(per_call: int) -> None:
    actors = create_actors(Titled, num=2, name="titled")
    stream = from_actors(actors, Titled.title).gather_async(per_call=per_call)
    with ray_session() as session, stream.run(runtime=session) as run:
        assert len(run.ask(actors, Titled.title)) == 2, "both have started"
        seen = set[str]()
        for title in islice(run, 100_000):  # one may answer often before the other has its turn
            seen.add(title)
            if len(seen) == 2:
                break
    assert seen == {"ray::titled[0]", "ray::titled[1]"}
