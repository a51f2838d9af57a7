"""Executors with one mistake each: the kit finds every one of them.

The mistakes of the original that can be made at all are here, by their number in the list of its flaws; those that cannot are at
the end, each with the reason.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tests.laws.test_combinators import Echo, learner
from tests.quality.hunt import hunt, size
from tflow import Iter, Shard, Union, from_actors, from_range, par_from_range
from tflow.combinators import actors, nodes
from tflow.laws import (
    BALANCE,
    BOUNDEDNESS,
    COMPLETENESS,
    CONSERVATION,
    DETERMINISM,
    EQUIVALENCE,
    FAIRNESS,
    FRESHNESS,
    ISOLATION,
    LAZINESS,
    NO_EFFECTS,
    NO_STARVATION,
    ORDER,
    PROVENANCE,
    SURVIVAL,
    Law,
)
from tflow.runtime import buffer, chain, feed, gather, host, joints, shards, unary
from tflow.runtime.answers import DONE, Answer, Ready
from tflow.runtime.base import Runtime
from tflow.testing import History, SimSchedule, check_combinator, explore, fault_profiles
from tflow.testing.sources import Item, Maker, makers

Patch = Callable[[pytest.MonkeyPatch], None]
Search = Callable[[int], tuple[int, int] | None]
"""From a number of examples to how many were needed and how large the counterexample is."""


@dataclass(frozen=True)
class Bug:
    """A planted mistake, and what the kit must achieve."""

    plant: Patch
    law: Law[...]
    search: Search
    examples: int
    size: int
    flaw: int | None = None


BUGS: dict[str, Bug] = {}


def bug(
    hunt: tuple[Law[...], Search], *, examples: int = 100, size: int = 4, flaw: int | None = None
) -> Callable[[Patch], Patch]:
    def register(plant: Patch) -> Patch:
        BUGS[plant.__name__] = Bug(plant, *hunt, examples, size, flaw)
        return plant

    return register


def law(law: Law[...], build: Callable[..., Any], **subject: Any) -> tuple[Law[...], Search]:  # Any: combinators of all kinds
    """Search with the test that the kit makes for a law."""

    def search(examples: int) -> tuple[int, int] | None:
        test = vars(check_combinator(build, laws=[law], **subject))[f"test_{law.name}"]
        if not hasattr(test, "hypothesis"):
            try:
                test(object())
            except AssertionError:
                return 1, 0
            return None
        found = hunt(test, examples=examples)
        return None if found is None else (found.examples, found.size)

    return law, search


def schedule(
    law: Law[...],
    plan: Callable[[], Iter[Any]],  # Any: of any items
    check: Callable[[History[Any]], object],  # Any: of any items
    **more: Any,  # Any: handed through
) -> tuple[Law[...], Search]:
    """Search among schedules."""

    def search(examples: int) -> tuple[int, int] | None:
        found = explore(plan, check, examples=examples, **{"faults": fault_profiles(), **more})
        return None if found is None else (found.examples, size(SimSchedule(found.tape, found.faults)))

    return law, search


def swap(patch: pytest.MonkeyPatch, kind: type[nodes.Node], cell: Any) -> None:  # Any: a cell class of any signature
    patch.setattr(kind, "cell", cell)


def gather_async(stream: Any) -> Any:  # Any: the kit's streams
    return stream.gather_async()


def gather_sync(stream: Any) -> Any:  # Any: the kit's streams
    return stream.gather_sync()


def two(a: Any, b: Any) -> Any:  # Any: the kit's streams
    return Union(a, b)


# --------------------------------------------------------------------------- the original's flaws


@bug(law(ISOLATION, gather_async, parallel=True), flaw=1)
def transforms_that_clobber_each_other(patch: pytest.MonkeyPatch) -> None:
    pull = host.Host.pull
    patch.setattr(host.Host, "pull", lambda self, piggyback, request: pull(self, piggyback, request._replace(key=(0, 0, 0))))


@bug(law(ISOLATION, lambda s: s.map(lambda item: item)), flaw=2)
def one_source_that_two_runs_share(patch: pytest.MonkeyPatch) -> None:
    opened: dict[int, Iterator[object]] = {}
    open_values = unary.PullCell.open

    def shared(self: unary.PullCell) -> Iterator[object]:
        return opened.setdefault(id(self.site.actor), open_values(self))

    patch.setattr(unary.PullCell, "open", shared)


@bug(law(ORDER, lambda s: s.filter(lambda item: item.number % 2 == 0)), flaw=3, size=3)
def a_marker_that_leaks_into_the_stream(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(chain.LINES, "filter", "if not f{i}(value): value = SKIP")
    patch.setattr(chain, "_compiled", {})


def split_alone() -> Iter[int]:
    kept, other = from_range(4).split()
    return Union(kept, other.take(1))


def all_arrive(history: History[int]) -> None:
    EQUIVALENCE.check(sorted(history.items), [0, 0, 1, 2, 3])


@bug(schedule(COMPLETENESS, split_alone, all_arrive), flaw=4, size=0)
def a_split_that_waits_for_a_branch_that_has_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joints.SplitCell, "leave", lambda self, branch: None)


@bug(law(COMPLETENESS, lambda s: s.split(2)), flaw=4, size=1)
def branches_that_share_a_mutable_item(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joints, "is_frozen", lambda value: True)


@bug(law(SURVIVAL, gather_async, parallel=True), flaw=6, size=7)
def one_death_that_ends_everything(patch: pytest.MonkeyPatch) -> None:
    class Wrong(gather.Stream):
        def on_actor_lost(self, link: gather.ShardLink) -> None:
            for each in self.links:
                each.ended = True

    swap(patch, nodes.GatherAsync, Wrong)


@bug(law(SURVIVAL, lambda s: s.gather_async(on_death="skip"), parallel=True), flaw=6, size=7)
def a_stream_that_ends_quietly(patch: pytest.MonkeyPatch) -> None:
    def give_up(self: gather.Gather, link: gather.ShardLink) -> None:
        for each in self.links:
            each.ended = True

    patch.setattr(gather.Gather, "on_actor_lost", give_up)


def batches() -> Iter[list[Item]]:
    return from_actors(makers(2, [2, 2]), Maker.make).gather_async().batch(2)


def sources_are_true(history: History[list[Item]]) -> None:
    for batch, origin in zip(history.items, history.origins, strict=True):
        PROVENANCE.check([(s.shard, s.sequence) for s in origin.sources], [(item.source, item.number) for item in batch])


@bug(schedule(PROVENANCE, batches, sources_are_true, faults=None), flaw=9, size=0)
def provenance_of_the_last_contributor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unary, "united", lambda parts: parts[-1][1])


def barrier_beside_a_stream() -> Iter[int]:
    slow = par_from_range(2, shards=1).gather_sync().map(lambda x: 100 + x)
    return Union(par_from_range(6, shards=1).gather_async(), slow, mode="async")


def the_stream_goes_on(history: History[int]) -> None:
    """While the barrier waits for an actor that hangs, all of the other stream arrives."""
    hanging = [moment.place for moment in history.trace if moment.what == "hangs"]
    if hanging == ["par_from_range#2[0]"]:
        EQUIVALENCE.check([item for item in history.items if item < 100], list(range(6)))


@bug(
    schedule(NO_STARVATION, barrier_beside_a_stream, the_stream_goes_on, faults=fault_profiles(["hangs"], most=1)),
    flaw=11,
    size=4,
)
def a_barrier_that_blocks_its_neighbours(patch: pytest.MonkeyPatch) -> None:
    class Wrong(gather.Rounds):
        def complete(self) -> bool:
            while not super().complete():
                self.site.collect()
            return True

    swap(patch, nodes.GatherSync, Wrong)


@bug(law(FAIRNESS, lambda a, b: Union(a, b, weights=(2, 1)), inputs=2, weights=(2, 1)), flaw=12, size=12)
def turns_drawn_from_the_global_dice(patch: pytest.MonkeyPatch) -> None:
    random.seed(1)
    patch.setattr(joints, "most_urgent", lambda credit, shares: random.choices([i for i, _ in shares], [w for _, w in shares])[0])


@bug(law(NO_EFFECTS, gather_async, parallel=True), flaw=15, size=0)
def a_plan_that_acts_while_it_is_built(patch: pytest.MonkeyPatch) -> None:
    check = actors.Actors.__post_init__

    def eager(self: actors.Actors[object]) -> None:
        check(self)
        if self.name == "makers":
            self.make(Shard(self.name, 0, 1, 0, 0))

    patch.setattr(actors.Actors, "__post_init__", eager)


@bug(law(BOUNDEDNESS, lambda s: s.hand_off(learner(), Echo(), mailbox=2), bound=2), flaw=16)
def a_mailbox_without_bound(patch: pytest.MonkeyPatch) -> None:
    init = feed.FedStream.__init__

    def unbounded(self: feed.FedStream, *args: Any) -> None:  # Any: handed through
        init(self, *args)
        self.room = 1000

    patch.setattr(feed.FedStream, "__init__", unbounded)


def endless() -> Iter[Item]:
    return from_actors(makers(2), Maker.make).gather_async().take(8)


def every_item_is_counted(history: History[Item]) -> None:
    answered = sum(len(moment.items) for moment in history.trace if moment.what == "answers")
    if history.complete:
        EQUIVALENCE.check(history.stats["from_actors"].seen >= answered, True)


@bug(schedule(BALANCE, endless, every_item_is_counted, most=9), flaw=18, size=3)
def counters_reset_on_recovery(patch: pytest.MonkeyPatch) -> None:
    def handshake(self: gather.ShardLink) -> tuple[nodes.Node | None, dict[int, int]]:
        if self.told_incarnation == self.shard.incarnation:
            return None, {}
        self.told_incarnation = self.shard.incarnation
        self.readings = {}
        return self.program, {}

    patch.setattr(gather.ShardLink, "handshake", handshake)


@bug(law(FRESHNESS, gather_async, parallel=True), flaw=18, size=5)
def a_new_life_with_the_first_weights(patch: pytest.MonkeyPatch) -> None:
    record_death = shards.LiveShard.record_death

    def forgetful(self: shards.LiveShard, why: str, now: float) -> None:
        record_death(self, why, now)
        self.state = {}

    patch.setattr(shards.LiveShard, "record_death", forgetful)


# --------------------------------------------------------------------------- others that were made before


class ReissuesFirst(gather.Stream):
    """The next call is under way before the item is handed on."""

    def receive(self, link: gather.ShardLink) -> None:
        super().receive(link)
        if not link.ended:
            self.issue(link, count=self.node.per_call)


@bug(law(FRESHNESS, gather_async, parallel=True), size=1)
def a_call_that_is_issued_again_before_its_item_is_used(patch: pytest.MonkeyPatch) -> None:
    swap(patch, nodes.GatherAsync, ReissuesFirst)


@bug(law(LAZINESS, gather_async, parallel=True), size=3)
def a_gather_that_works_ahead(patch: pytest.MonkeyPatch) -> None:
    swap(patch, nodes.GatherAsync, ReissuesFirst)


@bug(law(BOUNDEDNESS, gather_async, parallel=True, bound=1), size=4)
def more_calls_than_promised(patch: pytest.MonkeyPatch) -> None:
    class Wrong(gather.Stream):
        def issue(self, link: gather.ShardLink, **request: Any) -> None:  # Any: handed through
            super().issue(link, **request)
            super().issue(link, **request)

    swap(patch, nodes.GatherAsync, Wrong)


@bug(law(CONSERVATION, gather_async, parallel=True), size=8)
def only_the_last_of_several_results_is_kept(patch: pytest.MonkeyPatch) -> None:
    class Wrong(gather.Stream):
        def receive(self, link: gather.ShardLink) -> None:
            while len(self.ready) > 0:
                super().receive(link)
                self.buffer.clear()
                link = self.ready.popleft()
            super().receive(link)

    swap(patch, nodes.GatherAsync, Wrong)


@bug(law(BALANCE, lambda s: s.gather_async(per_call=2).take(1), parallel=True), size=8)
def drops_that_nobody_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gather.Gather, "drop", lambda self, reason, count=1: None)


@bug(law(ORDER, lambda s: s.gather_async(per_call=2), parallel=True), size=4)
def answers_of_a_shard_out_of_order(patch: pytest.MonkeyPatch) -> None:
    add = buffer.Buffer.add

    def backwards(self: buffer.Buffer, reply: host.Reply, link: gather.ShardLink) -> None:
        add(self, reply._replace(items=reply.items[::-1], origins=reply.origins[::-1]), link)

    patch.setattr(buffer.Buffer, "add", backwards)


def values() -> Iter[int]:
    return par_from_range(4).gather_sync()


def as_without_faults(history: History[int]) -> None:
    if history.error is None:
        EQUIVALENCE.check(history.items, [0, 2, 1, 3])


@bug(schedule(SURVIVAL, values, as_without_faults), size=2)
def values_that_a_new_life_reads_again(patch: pytest.MonkeyPatch) -> None:
    handshake = gather.ShardLink.handshake
    patch.setattr(gather.ShardLink, "handshake", lambda self: (handshake(self)[0], {}))


@bug(schedule(SURVIVAL, values, as_without_faults), size=2)
def a_round_that_goes_on_without_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gather.Rounds, "complete", lambda self: all(link.calls[0].done for link in self.asked))


def lives(history: History[object]) -> None:
    """A death is followed by a pause that grows, and after a bounded number of attempts by an error."""
    deaths = [moment.at for moment in history.trace if moment.what.startswith(("dies", "refuses"))]
    assert len(deaths) <= 12
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(deaths))


def one_actor() -> Iter[int]:
    return par_from_range(3, shards=1).gather_sync()


@bug(schedule(SURVIVAL, one_actor, lives, faults=fault_profiles(["refuses", "dies_before"], most=20)), size=8)
def restarts_without_a_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shards, "FIRST_PAUSE_S", 0.0)


def hung() -> Iter[int]:
    return par_from_range(4).gather_async(timeout_s=5)


def comes_to_an_end(history: History[int]) -> None:
    EQUIVALENCE.check(sorted(history.items), [0, 1, 2, 3])


@bug(schedule(SURVIVAL, hung, comes_to_an_end, faults=fault_profiles(["hangs"], most=1)), size=2)
def a_timeout_that_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Runtime, "deadline", lambda runtime, call: float("inf"))


@bug(law(CONSERVATION, two, inputs=2), size=4)
def an_input_that_takes_the_others_with_it(patch: pytest.MonkeyPatch) -> None:
    class Wrong(joints.FirstReady):
        def answers(self) -> Iterator[Answer]:
            for answer in super().answers():
                yield DONE if len(self.alive) < len(self.ups) else answer

    swap(patch, nodes.UnionOf, Wrong)


@bug(law(NO_STARVATION, lambda a, b: Union(a, b, mode="async"), inputs=2), size=2)
def an_input_that_starves_the_others(patch: pytest.MonkeyPatch) -> None:
    class Wrong(joints.Merge):
        def turn(self) -> Answer:
            for index in list(self.alive):
                answer = self.ups[index].poll()
                if answer is DONE:
                    self.alive.remove(index)
                else:
                    return answer
            return DONE

    swap(patch, nodes.UnionOf, Wrong)


@bug(law(COMPLETENESS, lambda s: s.split(3)), size=3)
def a_branch_that_misses_what_it_did_not_ask_for(patch: pytest.MonkeyPatch) -> None:
    ask = joints.SplitCell.ask

    def forgetful(self: joints.SplitCell, branch: int) -> Answer:
        answer = ask(self, branch)
        if type(answer) is tuple and len(self.queues) > 2:
            self.queues[-1].clear()
        return answer

    patch.setattr(joints.SplitCell, "ask", forgetful)


@bug(law(CONSERVATION, lambda s: s.shuffle(2)), size=4)
def a_shuffle_with_replacement(patch: pytest.MonkeyPatch) -> None:
    def draw(self: unary.ShuffleCell) -> Ready:
        chosen = self.held[self.random.randrange(len(self.held))]
        self.held.pop()
        return chosen

    patch.setattr(unary.ShuffleCell, "draw", draw)


def shuffled() -> Iter[int]:
    return from_range(6).shuffle(3)


def the_same_again(history: History[int]) -> None:
    DETERMINISM.check(history.items, list(shuffled().run()))


@bug(schedule(DETERMINISM, shuffled, the_same_again), size=0)
def a_shuffle_that_ignores_its_seed(patch: pytest.MonkeyPatch) -> None:
    dice = random.Random(0)
    patch.setattr(unary, "random", SimpleNamespace(Random=lambda seed: dice))


CANNOT_BE_MADE = {
    5: "Branches have no timeouts: a cell that cannot answer says so, and the driver waits once for all.",
    7: "User code runs in cells that turn its exceptions into OperatorError; no StopIteration reaches a generator of ours.",
    8: "There is no thread-local context: provenance and metrics travel beside the item.",
    10: "One wait over all calls; a cell that cannot answer says so and is not asked again before something has changed.",
    13: "Plans are values: a union refers to its inputs and copies none.",
    14: "Found by check_laws: test_operator_bugs.py, ReturnsNothing.",
    17: "A matter of static types: tests/types.",
    19: "Found by check_laws: test_operator_bugs.py, AveragesBySumming.",
}


@pytest.mark.parametrize("name", BUGS)
def test_the_kit_finds_a_planted_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    assert bug.search(20) is None, "without the mistake there is nothing to find"
    bug.plant(monkeypatch)
    found = bug.search(bug.examples)
    assert found is not None, f"not found within {bug.examples} examples"
    needed, size = found
    assert size <= bug.size, f"found after {needed} examples, but the smallest counterexample has size {size}"


def test_all_flaws_of_the_original_are_accounted_for() -> None:
    planted = {bug.flaw for bug in BUGS.values() if bug.flaw is not None}
    assert planted | CANNOT_BE_MADE.keys() == set(range(1, 20))
    assert not planted & CANNOT_BE_MADE.keys()
