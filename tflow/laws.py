"""The laws, one value each: a name, a sentence, and a pure function that looks at evidence and says what is wrong with it.

``@obeys(ORDER, FRESHNESS)`` on an operator is its promise. Tests gather evidence and quote the law, ``ORDER.check(...)``;
``tflow.testing`` gathers evidence for the operators and combinators of users. Nothing here runs a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from tflow.runtime.ledger import Ledger

F = TypeVar("F")
P = ParamSpec("P")


class LawBroken(AssertionError):
    """The evidence contradicts a law."""


@dataclass(frozen=True)
class Law(Generic[P]):
    """One law; ``P`` is the evidence that it looks at."""

    name: str
    says: str
    why: str
    """What goes wrong in training where it does not hold."""
    wrong: Callable[P, str]
    """What is wrong with the evidence, as a sentence; empty if nothing is."""

    def check(self, *evidence: P.args, **more: P.kwargs) -> None:
        """Raise ``LawBroken`` if the evidence contradicts the law."""
        complaint = self.wrong(*evidence, **more)
        if complaint:
            raise LawBroken(f"{self.name}: {self.says} But {complaint}.")

    def __str__(self) -> str:
        return self.name


LAWS: dict[str, Law[...]] = {}


PROMISE = "__laws__"


def law(name: str, says: str, why: str) -> Callable[[Callable[P, str]], Law[P]]:
    """Make a law of a function that says what is wrong with evidence."""

    def make(wrong: Callable[P, str]) -> Law[P]:
        made = Law(name, says, why, wrong)
        LAWS[name] = made
        return made

    return make


def obeys(*laws: Law[...]) -> Callable[[F], F]:
    """Promise that an operator obeys these laws."""

    def promise(operator: F) -> F:
        setattr(operator, PROMISE, laws)
        return operator

    return promise


def laws_of(operator: object) -> tuple[Law[...], ...]:
    """The laws that an operator promises to obey."""
    found: tuple[Law[...], ...] = vars(operator).get(PROMISE, ())  # its own: a class does not inherit promises
    return found


# --------------------------------------------------------------------------- laws of streams


@law(
    "equivalence",
    "The stream yields what the plain Python function of the same name yields.",
    "An operator that is almost like its namesake is a bug in every plan that trusts the name.",
)
def EQUIVALENCE(shown: object, expected: object) -> str:
    return "" if shown == expected else f"it shows {_brief(shown)} instead of {_brief(expected)}"


@law(
    "conservation",
    "What goes in comes out: every item exactly once, except for those that are dropped and counted.",
    "A rollout that is lost is compute wasted; one that is used twice is a gradient applied twice.",
)
def CONSERVATION(made: Iterable[Hashable], shown: Iterable[Hashable], dropped: int = 0) -> str:
    before, after = Counter(made), Counter(shown)
    if invented := after - before:
        return f"it shows more than it was given: {_brief(list(invented.elements()))}"
    missing = list((before - after).elements())
    return "" if len(missing) == dropped else f"{len(missing)} items are missing and {dropped} are counted: {_brief(missing)}"


@law(
    "order",
    "Items of one source arrive in the order in which they were made.",
    "Fragments of an episode that change places are a different episode; recurrent state and n-step returns go wrong.",
)
def ORDER(shown: Iterable[tuple[Hashable, int]]) -> str:
    last: dict[Hashable, int] = {}
    for source, number in shown:
        if number <= last.get(source, -1):
            return f"item {number} of {source} comes after item {last[source]}"
        last[source] = number
    return ""


@law(
    "completeness",
    "Every branch of a split sees every item exactly once, in order.",
    "A learner that misses items, or a metric that counts some of them twice, still looks as if it worked.",
)
def COMPLETENESS(items: Sequence[object], branches: Sequence[Sequence[object]]) -> str:
    for index, seen in enumerate(branches):
        if list(seen) != list(items):
            return f"branch {index} saw {_brief(list(seen))} of {_brief(list(items))}"
    return ""


@law(
    "fairness",
    "While no input blocks or ends, every prefix of the turns is within one turn of the shares that the weights give.",
    "One sub-flow starves the others: the replay ratio drifts and nobody notices.",
)
def FAIRNESS(turns: Sequence[int], weights: Sequence[float], slack: float = 1.0) -> str:
    total, counts = sum(weights), [0] * len(weights)
    for length, turn in enumerate(turns, 1):
        counts[turn] += 1
        for index, weight in enumerate(weights):
            due = length * weight / total
            if abs(counts[index] - due) > slack + 1e-6:
                return f"after {length} turns input {index} has had {counts[index]}, its share is {due:g}"
    return ""


@law(
    "no_starvation",
    "An input that stays ready is served within k outputs, where k is the number of inputs.",
    "A slow but steady stream, such as evaluation, never gets through.",
)
def NO_STARVATION(served: Sequence[int], inputs: int) -> str:
    for index in range(inputs):
        places = [-1, *(place for place, input_ in enumerate(served) if input_ == index), len(served)]
        longest = max(after - before for before, after in pairwise(places)) - 1
        if longest >= inputs:
            return f"input {index} was passed over {longest} times in a row"
    return ""


@law(
    "laziness",
    "Nothing is asked for before the first pull, and never more than the bound says beyond what was shown.",
    "Work that nobody asked for is made with old weights, and thrown away at the end.",
)
def LAZINESS(before_first_pull: int, asked_for: int, allowed: int) -> str:
    if before_first_pull:
        return f"{before_first_pull} were asked for before the first pull"
    return "" if asked_for <= allowed else f"{asked_for} were asked for, at most {allowed} are allowed"


@law(
    "boundedness",
    "What is buffered or in flight never exceeds the stated bound.",
    "A queue without bound fills memory over night, and its items are stale long before.",
)
def BOUNDEDNESS(held: Iterable[int], bound: int) -> str:
    worst = max(held, default=0)
    return "" if worst <= bound else f"{worst} were in flight, the bound is {bound}"


@law(
    "isolation",
    "Two plans over the same actors never see each other's operators or state.",
    "An evaluation run changes what training sees, or the second run of an experiment starts where the first ended.",
)
def ISOLATION(together: object, alone: object) -> str:
    return "" if together == alone else f"beside another plan it shows {_brief(together)}, alone {_brief(alone)}"


@law(
    "freshness",
    "Whatever was sent to a shard until the consumer asked again after an item reaches the call that replaces that item's.",
    "Every rollout is made with weights that are one update too old, in a plan that reads as if it were not so.",
)
def FRESHNESS(seen: Iterable[tuple[int, int]]) -> str:
    for number, (promised, had) in enumerate(seen):
        if had < promised:
            return f"item {number} was made with version {had}, although {promised} had been sent before its call"
    return ""


@law(
    "balance",
    "Every call is in flight, answered, lost or abandoned; every item is delivered, buffered or dropped for a stated reason; "
    "the sums hold.",
    "Counters that do not add up hide what was lost.",
)
def BALANCE(ledger: Ledger) -> str:
    return "" if ledger.balanced else f"{ledger} does not add up"


@law(
    "provenance",
    "Whatever an item goes through, its sources are the items that it was made of, all of them.",
    "Weights go back to the wrong worker, priorities to the wrong replay actor.",
)
def PROVENANCE(claimed: Iterable[Hashable], true: Iterable[Hashable]) -> str:
    claims, truth = set(claimed), set(true)
    return (
        ""
        if claims == truth
        else f"it claims {_brief(sorted(map(str, claims)))} and comes from {_brief(sorted(map(str, truth)))}"
    )


@law(
    "determinism",
    "The same plan with the same seed shows the same items, on every runtime if the plan says that it is deterministic.",
    "A result that cannot be repeated cannot be debugged.",
)
def DETERMINISM(first: object, second: object) -> str:
    return "" if first == second else f"one run shows {_brief(first)}, another {_brief(second)}"


@law(
    "survival",
    "The failure of one shard takes nothing with it but the calls that its own actor had not answered, and the stream goes on "
    "or raises as the plan says: it never ends quietly.",
    "One crashed environment ends a run of days, or, worse, ends it as if it were complete.",
)
def SURVIVAL(shown: Mapping[int, object], healthy: Mapping[int, object]) -> str:
    for shard, items in healthy.items():
        if shown.get(shard) != items:
            return f"shard {shard}, which is well, shows {_brief(shown.get(shard))} instead of {_brief(items)}"
    return ""


@law(
    "no_effects",
    "Building a plan has no effects: no actor is made, no function is called, no item is read.",
    "A plan that acts while it is built cannot be printed, checked or drawn without side effects.",
)
def NO_EFFECTS(happened: Sequence[object]) -> str:
    return "" if not happened else f"this happened: {_brief(list(happened))}"


# --------------------------------------------------------------------------- laws of operators


@law(
    "travel",
    "An operator survives the trip to an actor and behaves the same there.",
    "It works on the laptop and fails on the cluster, or worse, does something else there.",
)
def TRAVEL(here: object, there: object) -> str:
    return "" if here == there else f"here it gives {_brief(here)}, inside an actor {_brief(there)}"


@law(
    "purity",
    "An operator does not change its input.",
    "The other branch of a split trains on data that this one has normalised; on Ray the array is read-only and it raises.",
)
def PURITY(before: object, after: object) -> str:
    return "" if before == after else f"the item was {_brief(before)} and is {_brief(after)} afterwards"


@law(
    "release",
    "An operator keeps no reference to an item once it is done with it, unless it says that it is batching.",
    "Memory grows with every batch, and what is done to the item later changes what the operator remembers.",
)
def RELEASE(untouched: object, scrambled: object) -> str:
    if untouched == scrambled:
        return ""
    return f"when an item was changed afterwards, it gave {_brief(scrambled)} instead of {_brief(untouched)}"


@law(
    "repeatability",
    "The same items give the same results: random numbers come from a seed in the operator or its state, not from a global "
    "generator.",
    "Two runs with the same seed differ.",
)
def REPEATABILITY(first: object, second: object) -> str:
    return "" if first == second else f"the first time it gave {_brief(first)}, the second time {_brief(second)}"


@law(
    "resumption",
    "All memory of an operator is in its state: saved after any item and given to a fresh operator, it goes on as if nothing had "
    "happened.",
    "A run that is resumed from a checkpoint is another run.",
)
def RESUMPTION(uninterrupted: object, resumed: object) -> str:
    return "" if uninterrupted == resumed else f"in one go it gives {_brief(uninterrupted)}, resumed {_brief(resumed)}"


@law(
    "chunking",
    "How many items travel in one call does not change the results.",
    "Turning on per_call= for speed changes what is learned.",
)
def CHUNKING(one_by_one: object, in_chunks: object) -> str:
    return "" if one_by_one == in_chunks else f"one by one it gives {_brief(one_by_one)}, in chunks {_brief(in_chunks)}"


@law(
    "typing",
    "What comes out really has the type that the operator declares.",
    "The type checker has approved a plan that fails an hour later.",
)
def TYPING(declared: object, value: object, fits: bool) -> str:
    return "" if fits else f"it declares {declared} and gives {_brief(value)}, a {type(value).__name__}"


@law(
    "error_propagation",
    "An exception that an item raises propagates: no operator swallows it.",
    "A broken environment looks like one that earns no reward.",
)
def ERROR_PROPAGATION(raised_inside: Sequence[str], came_out: bool) -> str:
    return f"the item raised in {_brief(list(raised_inside))} and nothing came out" if raised_inside and not came_out else ""


OPERATOR_LAWS = (TRAVEL, PURITY, RELEASE, REPEATABILITY, RESUMPTION, CHUNKING, TYPING, ERROR_PROPAGATION)
"""What every operator obeys, as far as it applies to its kind."""


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
