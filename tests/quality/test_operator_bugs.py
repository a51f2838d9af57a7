"""Operators with one mistake each: ``check_laws`` finds every one of them, and says so with the law that it breaks."""

from __future__ import annotations

import contextlib
import os
import random
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Literal, TypedDict, cast

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.quality.hunt import hunt
from tflow import ActorOp, AddColumns, Batch, Live, LiveOp, Rollout, Shard, Stateful, Stateless, create_actors
from tflow.laws import LAWS, OPERATOR_LAWS, LawBroken
from tflow.rl.data.arrays import Array
from tflow.testing import check_laws, rollouts
from tflow.types import Ref, RefOp, StatefulLiveOp

EXAMPLES = 30
"""Each is found within so many examples."""
SIZE = 6
"""And shown with a counterexample no larger than this."""

numbers = st.integers(-9, 9)
lists = st.lists(numbers, min_size=1, max_size=3)
arrays = st.builds(lambda values: np.array(values, dtype=np.float64), lists)


class NormalisesInPlace(Stateless[np.ndarray, np.ndarray]):
    """The original's StandardizeFields: the other branch of a split trains on what this one has changed."""

    def apply(self, item: np.ndarray, /) -> np.ndarray:
        item += 1
        return item.copy()


class CountsInItself(Stateful[int, int, None]):
    """State in the operator, where no checkpoint finds it."""

    def __init__(self) -> None:
        self.count = 0

    def init(self) -> None:
        return None

    def step(self, state: None, item: int, /) -> tuple[None, int]:
        self.count += 1
        return None, self.count


class SharesItsInitialState(Stateful[int, int, list[int]]):
    """Every run starts where the last one ended."""

    kept: list[int] = []

    def init(self) -> list[int]:
        return SharesItsInitialState.kept

    def step(self, state: list[int], item: int, /) -> tuple[list[int], int]:
        state.append(item)
        return state, len(state)


class RollsTheGlobalDice(Stateless[int, float]):
    """The original's fractional weights: deterministic by name only."""

    def apply(self, item: int, /) -> float:
        return item + random.random()


class RollsNumpysDice(Stateless[int, float]):
    def apply(self, item: int, /) -> float:
        return float(item + np.random.random())


class KeepsTheLastItem(Stateful[list[int], list[int], list[int]]):
    """Shows the item before: a reference, so it shows what has become of it."""

    def init(self) -> list[int]:
        return []

    def step(self, state: list[int], item: list[int], /) -> tuple[list[int], list[int]]:
        return item, list(state)


class ReturnsNothing(Stateless[int, int]):
    """The original's ApplyGradients: typed as a stream of something, a stream of None."""

    def apply(self, item: int, /) -> int:
        return None  # type: ignore[return-value]  # the mistake


class PromisesText(Stateless[int, list[str]]):
    def apply(self, item: int, /) -> list[str]:
        return [item]  # type: ignore[list-item]  # the mistake


class AveragesBySumming(Stateless[list[int], float]):
    """The original's AverageGradients."""

    def apply(self, item: list[int], /) -> float:
        return float(sum(item))


class SwallowsErrors(Stateless[list[int], int]):
    """A broken environment looks like one that earns nothing."""

    def apply(self, item: list[int], /) -> int:
        try:
            return sum(item)
        except Exception:
            return 0


class HoldsALock(Stateless[int, int]):
    """Works on the laptop; cannot travel."""

    def __init__(self) -> None:
        self.lock = Lock()

    def apply(self, item: int, /) -> int:
        return item


class WritesIntoItsInput(Stateless[np.ndarray, float]):
    """Puts back what it changes, so nobody notices, until the array comes read-only from another process."""

    def apply(self, item: np.ndarray, /) -> float:
        item += 1
        total = float(item.sum())
        item -= 1
        return total


class CountsWithoutAState(Stateless[int, int]):
    """Memory in an operator that says it has none."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, item: int, /) -> int:
        self.count += 1
        return self.count


class KeepsTensors(Stateful[torch.Tensor, float, torch.Tensor]):
    def init(self) -> torch.Tensor:
        return torch.zeros(1)

    def step(self, state: torch.Tensor, item: torch.Tensor, /) -> tuple[torch.Tensor, float]:
        return item, float(state.sum())


@dataclass
class Roll:
    reward: float


class KeepsRolls(Stateful[Roll, float, Roll]):
    def init(self) -> Roll:
        return Roll(0.0)

    def step(self, state: Roll, item: Roll, /) -> tuple[Roll, float]:
        return item, state.reward


class ShowsItsBuffer(ActorOp["Buffer", float, np.ndarray]):
    """Several items of one call are one array."""

    def apply(self, actor: Buffer, item: float, /) -> np.ndarray:
        actor.values += item
        return actor.values


class Buffer:
    def __init__(self, shard: Shard) -> None:
        self.values = np.zeros(1)


class ChangesWithTheCall(ActorOp[list[int], int, int]):
    """Uses its actor as memory and forgets that the actor is shared and is restarted: not the same the second time."""

    seen: list[int] = []

    def apply(self, actor: list[int], item: int, /) -> int:
        self.seen.append(item)
        return len(self.seen)


def an_empty_list(shard: Shard) -> list[int]:
    return []


def mean(items: list[list[int]]) -> list[object]:
    return [sum(item) / len(item) for item in items]


BY_LENGTH: dict[int, float] = {}


class CachesByLength(Stateless[list[int], float]):
    """Every list gets the mean of the first one of its length."""

    def apply(self, item: list[int], /) -> float:
        return BY_LENGTH.setdefault(len(item), sum(item) / len(item))


class ExploresRarely(Stateless[int, int]):
    """No example shows it in the result: too rare."""

    def apply(self, item: int, /) -> int:
        return 0 if random.random() < 0.001 else item


class SeedsEverything(Stateless[int, float]):
    def apply(self, item: int, /) -> float:
        np.random.seed(0)
        return float(item + np.random.random())


class AsksForEntropy(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        return 0 if np.random.default_rng().random() < 0.001 else item


class GetsTired(Stateless[int, float]):
    """Different after an hour."""

    began = time.time()

    def apply(self, item: int, /) -> float:
        return item * (0.5 if time.time() - self.began > 3600 else 1.0)


class ReadsTheEnvironment(Stateless[int, float]):
    """Works where somebody has set the variable, and differently elsewhere."""

    def apply(self, item: int, /) -> float:
        return item * float(os.environ.get("SOMEBODYS_SCALE", "0.5"))


class HashesText(Stateless[str, int]):
    """Every process has its own hashes of text."""

    def apply(self, item: str, /) -> int:
        return hash(item) % 1024


class ShowsASet(Stateless[str, list[str]]):
    """And so its own order of sets."""

    def apply(self, item: str, /) -> list[str]:
        return list({f"{item}{number}" for number in range(9)})


class ForgetsAField(Stateless[int, float]):
    scale = 1.0

    def __init__(self) -> None:
        self.scale = 3.0

    def __getstate__(self) -> dict[str, object]:
        return {}

    def apply(self, item: int, /) -> float:
        return item * self.scale


class Mode:
    """Told apart by identity, which no trip preserves."""


TRAIN, TEST = Mode(), Mode()


class ComparesIdentities(Stateless[tuple[Mode, int], int]):
    def apply(self, item: tuple[Mode, int], /) -> int:
        return item[1] if item[0] is TRAIN else -1


class TurnsOffGradients(Stateless[int, int]):
    """For the whole process, and for good."""

    def apply(self, item: int, /) -> int:
        torch.set_grad_enabled(False)
        return item


class Silences(Stateless[int, int]):
    def apply(self, item: int, /) -> int:
        warnings.simplefilter("ignore")
        return item


class Network:
    def __init__(self, shard: Shard) -> None:
        self.net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Dropout())
        self.weights = np.zeros(2)

    def set_weights(self, weights: object) -> None:
        self.weights = np.asarray(weights)


class LeavesEvalMode(ActorOp[Network, float, float]):
    """Dropout is off from now on, also in training."""

    def apply(self, actor: Network, item: float, /) -> float:
        actor.net.eval()
        return float(actor.net(torch.tensor([item])).detach())


class WritesOnItsActor(ActorOp[Network, float, float]):
    def apply(self, actor: Network, item: float, /) -> float:
        vars(actor).setdefault("log", []).append(item)
        return item


class GivesAwayWeights(ActorOp[Network, float, np.ndarray]):
    """The very memory that training will change."""

    def apply(self, actor: Network, item: float, /) -> np.ndarray:
        return actor.weights


class ShowsItsState(Stateful[list[int], list[int], list[int]]):
    """What was shown changes with the next item."""

    def init(self) -> list[int]:
        return []

    def step(self, state: list[int], item: list[int], /) -> tuple[list[int], list[int]]:
        state.append(len(item))
        del state[:-2]
        return state, state


class Slot:
    __slots__ = ("item",)

    def __init__(self, item: object = None) -> None:
        self.item = item

    def __reduce__(self) -> tuple[object, ...]:
        return Slot, (self.item,)


class KeepsInASlot(Stateless[list[int], int]):
    def __init__(self) -> None:
        self.slot = Slot()

    def apply(self, item: list[int], /) -> int:
        self.slot.item = item
        return len(item)


class KeepsTheTenth(Stateful[list[int], int, tuple[int, object]]):
    def init(self) -> tuple[int, object]:
        return 0, None

    def step(self, state: tuple[int, object], item: list[int], /) -> tuple[tuple[int, object], int]:
        return (state[0] + 1, item if state[0] >= 9 else None), len(item)


class RemembersAll(Stateful[int, float, tuple[int, ...]]):
    """A mean over everything, by keeping everything."""

    def init(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], item: int, /) -> tuple[tuple[int, ...], float]:
        seen = (*state, item)
        return seen, sum(seen) / len(seen)


class RemembersKeys(Stateless[int, int]):
    """Grows with each item that is new."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def apply(self, item: int, /) -> int:
        self.seen.add(item)
        return item


class KeepsTheGraph(Stateful[torch.Tensor, float, torch.Tensor]):
    def init(self) -> torch.Tensor:
        return torch.zeros((), requires_grad=True)

    def step(self, state: torch.Tensor, item: torch.Tensor, /) -> tuple[torch.Tensor, float]:
        total = 0.9 * state + item.sum()
        return total, float(total.detach())


class IgnoresMissingKeys(Stateless[dict[str, float], float]):
    def apply(self, item: dict[str, float], /) -> float:
        with contextlib.suppress(KeyError):
            return item["reward"]
        return 0.0


class IgnoresTimeouts(ActorOp[Network, float, float]):
    def apply(self, actor: Network, item: float, /) -> float:
        try:
            return float(actor.weights.sum()) + item
        except TimeoutError:
            return 0.0


class DeclaresFloat32(Stateless[list[int], NDArray[np.float32]]):
    def apply(self, item: list[int], /) -> NDArray[np.float32]:
        return np.array(item) / 2  # type: ignore[return-value]  # the mistake


class Info(TypedDict):
    reward: float
    length: int


class ForgetsAKey(Stateless[list[int], Info]):
    def apply(self, item: list[int], /) -> Info:
        return {"reward": 1.0}  # type: ignore[typeddict-item]  # the mistake


class FieldIsNone(Stateless[int, Roll]):
    def apply(self, item: int, /) -> Roll:
        return Roll(None)  # type: ignore[arg-type]  # the mistake


class AddsAnotherColumn(AddColumns[Literal["rewards"], Literal["scaled"]]):
    def compute(self, batch: Batch[Literal["rewards"]], /) -> Mapping[Literal["scaled"], Array]:
        return {"scale": batch["rewards"] * 2}  # type: ignore[dict-item]  # the mistake


class Sender(LiveOp[int, int]):
    def __init__(self) -> None:
        self.networks = create_actors(Network, num=3, name="networks")


class SendsTwice(Sender):
    def apply(self, live: Live, item: int, /) -> int:
        live.reply(Network.set_weights, item)
        live.reply(Network.set_weights, item)
        return item


class SendsToTheFirst(Sender):
    """To shard 0, whoever made the item."""

    def apply(self, live: Live, item: int, /) -> int:
        live[self.networks].send(Network.set_weights, item, shard=0)
        return item


class AdvancesTooLate(Sender):
    """New weights with the version of the old ones."""

    def apply(self, live: Live, item: int, /) -> int:
        live[self.networks].update(Network.set_weights, item)
        return live[self.networks].advance()


class SendsAndChanges(Sender):
    def apply(self, live: Live, item: int, /) -> int:
        message = [item]
        live[self.networks].update(Network.set_weights, message)
        message.append(item)
        return item


class NeverShowsTheLast(Stateful[int, list[int], tuple[int, ...]]):
    """Sums over three items; where the input ends, the last two are never shown."""

    def init(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], item: int, /) -> tuple[tuple[int, ...], list[int]]:
        held = (*state, item)
        return (held[1:], [sum(held)]) if len(held) == 3 else (held, [])


class ShowsTheFirstOfTheLast(NeverShowsTheLast):
    """Knows of the end, and forgets that more than one item may be left."""

    def at_end(self, state: tuple[int, ...], /) -> list[list[int]]:
        return [[each] for each in state[:1]]


class ForgetsTheLastEpisode(Stateful[int, list[int] | None, list[int]]):
    """Shows an episode when it is over, which a failure says; where the input ends, the one that is not is never shown."""

    def init(self) -> list[int]:
        return []

    def step(self, state: list[int], item: int, /) -> tuple[list[int], list[int] | None]:
        held = [*state, item]
        return ([], held) if item < 0 else (held, None)


class DropsTheLastGroup(Stateful[int, list[int], list[int]]):
    """Makes a larger one of several, if there are enough."""

    batching = True

    def init(self) -> list[int]:
        return []

    def step(self, state: list[int], item: int, /) -> tuple[list[int], list[int]]:
        held = [*state, item]
        return ([], held) if len(held) == 4 else (held, [])


class SendsEverything(StatefulLiveOp[int, int, tuple[int, ...]]):
    def __init__(self) -> None:
        self.networks = create_actors(Network, num=2, name="networks")

    def init(self) -> tuple[int, ...]:
        return ()

    def step(self, live: Live, state: tuple[int, ...], item: int, /) -> tuple[tuple[int, ...], int]:
        live[self.networks].update(Network.set_weights, [*state, item])
        return (*state, item), item


class KeepsALock(StatefulLiveOp[int, int, object]):
    def __init__(self) -> None:
        self.networks = create_actors(Network, num=2, name="networks")

    def init(self) -> object:
        return Lock()

    def step(self, live: Live, state: object, item: int, /) -> tuple[object, int]:
        return state, item


class LooksInside(RefOp[list[int]]):
    def __init__(self) -> None:
        self.networks = create_actors(Network, num=1, name="networks")

    def forward(self, live: Live, item: Ref[list[int]], /) -> None:
        live[self.networks].send(Network.set_weights, len(item.held))  # type: ignore[arg-type]  # the mistake


class LosesSteps(Stateless[Rollout, Rollout]):
    """A new batch, without what the old one said of itself."""

    def apply(self, item: Rollout, /) -> Rollout:
        return cast("Rollout", Batch(dict(item.columns), ends=item.ends))


class CountsStepsTwice(Stateless[Rollout, Rollout]):
    def apply(self, item: Rollout, /) -> Rollout:
        return Batch.concat([item, item])


class GoesOverBorders(AddColumns[Literal["rewards"], Literal["returns"]]):
    """The end of one episode is worth the beginning of the next."""

    def compute(self, batch: Batch[Literal["rewards"]], /) -> Mapping[Literal["returns"], Array]:
        return {"returns": np.cumsum(batch["rewards"][::-1])[::-1]}


class FearsTimeLimits(AddColumns[Literal["rewards", "terminated", "truncated"], Literal["targets"]]):
    """A truncated episode counts as a terminated one."""

    def compute(self, batch: Batch[Literal["rewards", "terminated", "truncated"]], /) -> Mapping[Literal["targets"], Array]:
        over = batch["terminated"] | batch["truncated"]
        return {"targets": batch["rewards"] + 0.9 * batch.successors("values")["values"] * ~over}


class BelievesInAnAfterlife(AddColumns[Literal["rewards"], Literal["targets"]]):
    def compute(self, batch: Batch[Literal["rewards"]], /) -> Mapping[Literal["targets"], Array]:
        return {"targets": batch["rewards"] + 0.9 * batch.successors("values")["values"]}


class StopsAtTheFragment(AddColumns[Literal["rewards"], Literal["returns"]]):
    """Returns as if nothing came after what was sampled."""

    def compute(self, batch: Batch[Literal["rewards"]], /) -> Mapping[Literal["returns"], Array]:
        parts = [np.cumsum(piece["rewards"][::-1])[::-1] for piece in batch.pieces()]
        return {"returns": np.concatenate(parts)}


class AveragesPadding(Stateless[Batch[Literal["rewards", "mask"]], float]):
    def apply(self, item: Batch[Literal["rewards", "mask"]], /) -> float:
        return float(item["rewards"].mean())


class DividesByZero(AddColumns[Literal["rewards"], Literal["scaled"]]):
    """All rewards may be equal."""

    def compute(self, batch: Batch[Literal["rewards"]], /) -> Mapping[Literal["scaled"], Array]:
        return {"scaled": batch["rewards"] / batch["rewards"].std()}


rolls = rollouts(min_pieces=1, dict_obs=False)
words = st.text("abc", min_size=1, max_size=3)


PLANTED: dict[str, tuple[Callable[[], object], st.SearchStrategy[object], dict[str, object]]] = {
    "purity": (NormalisesInPlace, arrays, {}),
    "resumption": (CountsInItself, numbers, {}),
    "repeatability, across runs": (SharesItsInitialState, numbers, {}),
    "repeatability": (RollsTheGlobalDice, numbers, {}),
    "repeatability, of numpy": (RollsNumpysDice, numbers, {}),
    "release": (KeepsTheLastItem, lists, {}),
    "typing": (ReturnsNothing, numbers, {}),
    "typing, of members": (PromisesText, numbers, {}),
    "equivalence": (AveragesBySumming, lists, {"like": mean}),
    "error_propagation": (SwallowsErrors, lists, {}),
    "travel": (HoldsALock, numbers, {}),
    "travel, of arrays": (WritesIntoItsInput, arrays, {}),
    "chunking": (ShowsItsBuffer, st.just(1.0), {"actor": Buffer}),
    "resumption, without a state": (CountsWithoutAState, numbers, {}),
    "release, of tensors": (KeepsTensors, st.builds(torch.ones, st.integers(1, 2)), {}),
    "release, of objects": (KeepsRolls, st.builds(Roll, st.just(1.0)), {}),
    "repeatability, beside an actor": (ChangesWithTheCall, numbers, {"actor": an_empty_list}),
    "repeatability, rarely": (ExploresRarely, numbers, {}),
    "repeatability, seeding": (SeedsEverything, numbers, {}),
    "repeatability, entropy": (AsksForEntropy, numbers, {}),
    "repeatability, by the clock": (GetsTired, numbers, {}),
    "repeatability, by the environment": (ReadsTheEnvironment, numbers, {}),
    "travel, of hashes": (HashesText, words, {}),
    "travel, of sets": (ShowsASet, words, {}),
    "travel, of fields": (ForgetsAField, numbers, {}),
    "travel, of identities": (ComparesIdentities, st.tuples(st.sampled_from([TRAIN, TEST]), numbers), {}),
    "resumption, of globals": (CachesByLength, lists, {}),
    "resumption, of locks": (KeepsALock, numbers, {}),
    "no_traces": (TurnsOffGradients, numbers, {}),
    "no_traces, warnings": (Silences, numbers, {}),
    "no_traces, modes": (LeavesEvalMode, st.just(1.0), {"actor": Network}),
    "no_traces, attributes": (WritesOnItsActor, st.just(1.0), {"actor": Network}),
    "ownership": (ShowsItsState, lists, {}),
    "ownership, of an actor": (GivesAwayWeights, st.just(1.0), {"actor": Network}),
    "ownership, of messages": (SendsAndChanges, numbers, {}),
    "release, in a slot": (KeepsInASlot, lists, {}),
    "release, later": (KeepsTheTenth, lists, {}),
    "bounded_memory": (RemembersAll, numbers, {}),
    "bounded_memory, by key": (RemembersKeys, st.integers(), {}),
    "bounded_memory, of graphs": (KeepsTheGraph, st.builds(torch.ones, st.integers(1, 2)), {}),
    "bounded_memory, of messages": (SendsEverything, numbers, {}),
    "error_propagation, of keys": (IgnoresMissingKeys, st.fixed_dictionaries({"reward": st.just(1.0)}), {}),
    "error_propagation, of an actor": (IgnoresTimeouts, st.just(1.0), {"actor": Network}),
    "typing, of arrays": (DeclaresFloat32, lists, {}),
    "typing, of keys": (ForgetsAKey, lists, {}),
    "typing, of fields": (FieldIsNone, numbers, {}),
    "typing, of columns": (AddsAnotherColumn, rolls, {}),
    "leftovers": (NeverShowsTheLast, numbers, {}),
    "leftovers, but one": (ShowsTheFirstOfTheLast, numbers, {}),
    "leftovers, of a group": (DropsTheLastGroup, numbers, {}),
    "leftovers, of an episode": (ForgetsTheLastEpisode, numbers, {}),
    "messages": (SendsTwice, numbers, {}),
    "messages, to one": (SendsToTheFirst, numbers, {}),
    "messages, too early": (AdvancesTooLate, numbers, {}),
    "unopened": (LooksInside, lists, {}),
    "rows": (LosesSteps, rolls, {}),
    "rows, counted twice": (CountsStepsTwice, rolls, {}),
    "pieces": (GoesOverBorders, rolls, {}),
    "ends": (FearsTimeLimits, rolls, {}),
    "ends, of the dead": (BelievesInAnAfterlife, rolls, {}),
    "ends, of fragments": (StopsAtTheFragment, rolls, {}),
    "padding": (AveragesPadding, rolls.map(lambda batch: batch.sequences(4)), {}),
    "finiteness": (DividesByZero, rolls, {}),
}
"""By the law that each breaks."""


@pytest.mark.parametrize("planted", PLANTED)
def test_the_kit_finds_a_wrong_operator(planted: str) -> None:
    make, items, more = PLANTED[planted]
    law = planted.split(",")[0]
    assert law in LAWS
    tests = check_laws(make(), items=items, **more)  # type: ignore[arg-type]  # operators of many types in one table
    found = hunt(vars(tests)[f"test_{law}"], examples=EXAMPLES)
    assert found is not None, "not found"
    assert isinstance(found.error, LawBroken) or planted in RAISES, found
    assert found.size <= SIZE or planted in NEED_MANY, found


NEED_MANY = ("bounded_memory, by key", "messages, to one")
"""These show only where there are many different items."""

RAISES = ("travel", "travel, of arrays")
"""These break the law by raising."""


def test_every_law_of_operators_has_an_operator_that_breaks_it() -> None:
    broken = {planted.split(",")[0] for planted in PLANTED}
    assert {law.name for law in OPERATOR_LAWS} <= broken


def pass_all(tests: type) -> None:
    for name, test in vars(tests).items():
        if name.startswith("test_"):
            test(object())


def test_right_operators_pass() -> None:
    class Mean(Stateless[list[int], float]):
        def apply(self, item: list[int], /) -> float:
            return sum(item) / len(item)

    class Window(Stateful[list[int], list[int], tuple[int, ...]]):
        def init(self) -> tuple[int, ...]:
            return ()

        def step(self, state: tuple[int, ...], item: list[int], /) -> tuple[tuple[int, ...], list[int]]:
            return (*state, *item)[-4:], list(state)

    class Push(ActorOp[list[int], int, int]):
        def apply(self, actor: list[int], item: int, /) -> int:
            actor.append(item)
            return len(actor)

    for tests in (
        check_laws(Mean(), items=lists, like=mean),
        check_laws(Window(), items=lists),
        check_laws(Push(), items=numbers, actor=an_empty_list),
    ):
        pass_all(tests)


def test_right_operators_that_remember_pass() -> None:
    class Sums(NeverShowsTheLast):
        def at_end(self, state: tuple[int, ...], /) -> list[list[int]]:
            return [[sum(state[start:])] for start in range(len(state))]

    class WholeGroups(DropsTheLastGroup):
        """What is left is dropped on purpose."""

        def at_end(self, state: list[int], /) -> list[list[int]]:
            return []

    class Previous(Stateful[list[int], list[int] | None, list[int] | None]):
        def init(self) -> list[int] | None:
            return None

        def step(self, state: list[int] | None, item: list[int], /) -> tuple[list[int], list[int] | None]:
            return list(item), state and list(state)

    class Returns(Stateful[tuple[int, bool], int | None, dict[int, int]]):
        """Of episodes that are over, by env: nothing is shown of one that is not."""

        def init(self) -> dict[int, int]:
            return {}

        def step(self, state: dict[int, int], item: tuple[int, bool], /) -> tuple[dict[int, int], int | None]:
            reward, over = item
            total = state.get(reward % 2, 0) + reward
            return {**state, reward % 2: 0 if over else total}, total if over else None

    pass_all(check_laws(Sums(), items=numbers))
    pass_all(check_laws(WholeGroups(), items=numbers))
    pass_all(check_laws(Previous(), items=lists))
    pass_all(check_laws(Returns(), items=st.tuples(numbers, st.booleans())))
