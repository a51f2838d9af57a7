"""The laws, one value each: a name, a sentence, and a pure function that looks at evidence and says what is wrong with it.

``@obeys(ORDER, FRESHNESS)`` on an operator is its promise. Tests gather evidence and quote the law, ``ORDER.check(...)``;
``tflow.testing`` gathers evidence for the operators and combinators of users. Nothing here runs a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
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
    "While no input blocks or ends, every prefix of the turns is within one turn of the shares that the weights give; those with "
    "infinite weights share all turns.",
    "One sub-flow starves the others: the replay ratio drifts and nobody notices.",
)
def FAIRNESS(turns: Sequence[int], weights: Sequence[float], slack: float = 1.0) -> str:
    parts = [float(weight == inf) for weight in weights] if inf in weights else weights
    total, counts = sum(parts), [0] * len(weights)
    for length, turn in enumerate(turns, 1):
        counts[turn] += 1
        for index, weight in enumerate(parts):
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
    "purity",
    "An operator does not change its input.",
    "The other branch of a split trains on data that this one has normalised; on Ray the array is read-only and it raises.",
)
def PURITY(before: object, after: object) -> str:
    return "" if before == after else f"the item was {_brief(before)} and is {_brief(after)} afterwards"


@law(
    "no_traces",
    "An operator leaves the process, and the actor that it works beside, as it found them: grad mode, environment, current "
    "directory, filters of warnings, handlers of loggers, the modes of networks; and no files at places that nobody named to it.",
    "Another operator in the same process trains without gradients, and nobody knows since when.",
)
def NO_TRACES(left: Sequence[str]) -> str:
    return "" if not left else f"it changes {', '.join(left)}"


@law(
    "repeatability",
    "The same items give the same results, at any time and in any environment: random numbers come from a seed in the operator "
    "or its state, not from a global generator.",
    "Two runs with the same seed differ.",
)
def REPEATABILITY(first: object, second: object, dice: Sequence[str] = ()) -> str:
    if dice:
        return f"it uses or sets global dice: {', '.join(dice)}"
    return "" if first == second else f"it gives {_brief(first)}, and {_brief(second)} with another clock, process or environment"


@law(
    "travel",
    "An operator survives the trip to an actor and behaves the same there, and in every other process.",
    "It works on the laptop and fails on the cluster, or worse, does something else there.",
)
def TRAVEL(here: object, there: object, where: str = "inside an actor") -> str:
    return "" if here == there else f"here it gives {_brief(here)}, {where} {_brief(there)}"


@law(
    "resumption",
    "All memory of an operator is in its state: saved after any item and given to a fresh operator, it goes on as if nothing had "
    "happened.",
    "A run that is resumed from a checkpoint is another run.",
)
def RESUMPTION(uninterrupted: object, resumed: object) -> str:
    return "" if uninterrupted == resumed else f"in one go it gives {_brief(uninterrupted)}, resumed {_brief(resumed)}"


@law(
    "release",
    "An operator keeps no reference to an item once it is done with it, unless it says that it is batching.",
    "Memory grows with every batch, and what is done to the item later changes what the operator remembers.",
)
def RELEASE(kept: str) -> str:
    return f"{kept} is still a part of an item" if kept else ""


@law(
    "bounded_memory",
    "What an operator remembers, and what it sends, does not grow with the number of items, unless it says that it is batching.",
    "The run of a night ends in the morning, out of memory.",
)
def BOUNDED_MEMORY(growing: str) -> str:
    return growing


@law(
    "leftovers",
    "What a stateful operator holds back, it shows when its input ends: at_end gives what is left, or nothing where that is "
    "dropped on purpose.",
    "The last transitions of every stream are never trained on, and with short streams these are most of them.",
)
def LEFTOVERS(held: str) -> str:
    return held


@law(
    "ownership",
    "What an operator has shown or sent does not change afterwards: it is no longer its own, nor its actor's.",
    "A batch that waits in a queue changes under the learner's hands; on a cluster, where it is copied, it does not.",
)
def OWNERSHIP(then: object, now: object, what: str = "the result") -> str:
    return "" if then == now else f"{what} was {_brief(then)} and became {_brief(now)}"


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
    "An exception that an item, or the actor, raises propagates: no operator swallows it.",
    "A broken environment looks like one that earns no reward.",
)
def ERROR_PROPAGATION(raised_inside: Sequence[str], came_out: bool) -> str:
    if came_out or not raised_inside:
        return ""
    return f"something raised in {_brief(list(raised_inside))} and nothing came out (meant so? Leave this law out, with laws=)"


@law(
    "messages",
    "A live operator sends a message once, not always to the same shard wherever the item comes from, and weights after "
    "counting the update that they belong to.",
    "Priorities arrive twice or at the wrong replay actor; fresh weights carry the version of the old ones.",
)
def MESSAGES(twice: Sequence[object], always_to: str, before_advance: Sequence[str]) -> str:
    if twice:
        return f"it sends the same twice for one item: {_brief(list(twice))}"
    if before_advance:
        return f"it updates {', '.join(before_advance)} before it advances, so what it sends has the old version"
    return f"all that it sends goes to {always_to}, whatever shard the item comes from" if always_to else ""


@law(
    "unopened",
    "An operator on references does not open its items.",
    "Every batch goes through the driver, which the operator was to prevent.",
)
def UNOPENED(opened: Sequence[str]) -> str:
    return f"it reads {', '.join(opened)}" if opened else ""


# --------------------------------------------------------------------------- laws of operators over batches


@law(
    "rows",
    "A batch of the same rows keeps what travels with them: env steps, policy, ends, finals, summary; and no env step is counted "
    "twice.",
    "The run stops at half of its budget, or never, and the learning curve has the wrong axis.",
)
def ROWS(lost: Sequence[str], steps_in: int, steps_out: int) -> str:
    if steps_out > steps_in:
        return f"{steps_in} env steps go in and {steps_out} come out"
    return f"the batch has lost or changed its {', '.join(lost)}" if lost else ""


@law(
    "pieces",
    "The order in which the pieces of a batch come does not matter: what is computed of one does not depend on its neighbours.",
    "Returns go over the end of an episode into the next one.",
)
def PIECES(difference: str) -> str:
    return f"{difference} pieces in reverse order" if difference else ""


@law(
    "ends",
    "Nothing follows a terminated episode; what follows one that was truncated or cut off counts with its value.",
    "The agent learns that time limits are deadly, or that death is not.",
)
def ENDS(wrong: str) -> str:
    return wrong


@law(
    "padding",
    "What stands in rows that are masked out does not change the results.",
    "Statistics depend on how long the longest episode of the batch was.",
)
def PADDING(difference: str) -> str:
    return difference


@law(
    "finiteness",
    "Finite numbers go in, finite numbers come out.",
    "One batch with equal rewards makes all weights NaN.",
)
def FINITENESS(not_finite: str) -> str:
    return f"finite numbers give {_brief(not_finite)}" if not_finite else ""


GENERAL_LAWS = (
    PURITY, NO_TRACES, REPEATABILITY, TRAVEL, RESUMPTION, RELEASE, BOUNDED_MEMORY, LEFTOVERS, OWNERSHIP, CHUNKING, TYPING,
    ERROR_PROPAGATION, FINITENESS,
)  # fmt: skip
LIVE_LAWS = (MESSAGES, UNOPENED)
BATCH_LAWS = (ROWS, PIECES, ENDS, PADDING)
OPERATOR_LAWS = (*GENERAL_LAWS, *LIVE_LAWS, *BATCH_LAWS)
"""What every operator obeys, as far as it applies to its kind. If one mistake breaks several, the first of these is its cause."""


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
