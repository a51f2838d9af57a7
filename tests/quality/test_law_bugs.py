"""Every law can fail: each wrong implementation below is caught by the law that it breaks.

Several are what the original did: calls issued again before the item is handed on, transforms that two plans share, provenance
of the last contributor only, a failure that ends healthy shards.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.laws import test_collectives, test_gather, test_merge_and_split, test_refs, test_resize, test_runs, test_transforms
from tests.quality import test_flow_bugs
from tflow.combinators import create, nodes
from tflow.runtime import base, chain, driver, feed, gather, host, joints, messages, shards, sim, unary
from tflow.runtime.answers import DONE, SKIP, WAITING, Answer, Blocked, Ready
from tflow.runtime.cell import Cell, Site
from tflow.types import NOWHERE

Patch = Callable[[pytest.MonkeyPatch], None]
PLANTED: dict[str, tuple[Callable[..., None], Patch]] = {}


def breaks(law: Callable[..., None]) -> Callable[[Patch], Patch]:
    """Register a wrong implementation with the law that must catch it."""

    def register(patch: Patch) -> Patch:
        PLANTED[f"{patch.__name__} [{getattr(law, 'func', law).__name__}]"] = (law, patch)
        return patch

    return register


def swap(patch: pytest.MonkeyPatch, kind: type[nodes.Node], cell: Any) -> None:  # Any: a cell class of any signature
    patch.setattr(kind, "cell", cell)


def line(patch: pytest.MonkeyPatch, kind: str, text: str) -> None:
    patch.setitem(chain.LINES, kind, text)
    patch.setattr(chain, "_compiled", {})


@breaks(test_transforms.test_map_identity_and_composition)
def a_chain_in_the_wrong_order(patch: pytest.MonkeyPatch) -> None:
    init = chain.Chain.__init__
    patch.setattr(chain.Chain, "__init__", lambda self, steps, up, site: init(self, steps[::-1], up, site))


@breaks(test_transforms.test_filter_is_the_builtin)
def a_marker_that_leaks_into_the_stream(patch: pytest.MonkeyPatch) -> None:
    line(patch, "filter", "if not f{i}(value): value = SKIP")


@breaks(test_transforms.test_batch_then_flatten_is_the_identity)
def a_short_last_batch_that_is_dropped(patch: pytest.MonkeyPatch) -> None:
    class Wrong(unary.BatchCell):
        def answers(self) -> Iterator[Answer]:
            for answer in self.ups[0].stream:
                if type(answer) is tuple:
                    self.held.append(answer)
                    yield self.release() if len(self.held) == self.node.size else SKIP
                else:
                    yield answer

    swap(patch, nodes.BatchItems, Wrong)


@breaks(test_transforms.test_par_batch_then_par_flatten_is_the_identity)
def a_batch_that_turns_its_items_round(patch: pytest.MonkeyPatch) -> None:
    release = unary.BatchCell.release

    def backwards(self: unary.BatchCell) -> Ready:
        self.held.reverse()
        return release(self)

    patch.setattr(unary.BatchCell, "release", backwards)


@breaks(test_transforms.test_flat_map_is_map_then_flatten)
def a_flatten_that_shows_only_the_first_member(patch: pytest.MonkeyPatch) -> None:
    opened = unary.FlattenCell.open
    patch.setattr(unary.FlattenCell, "open", lambda self, value: list(opened(self, value))[:1])


@breaks(test_transforms.test_take_is_islice)
def a_take_that_counts_one_too_many(patch: pytest.MonkeyPatch) -> None:
    class Wrong(unary.TakeCell):
        def answers(self) -> Iterator[Answer]:
            for answer in self.ups[0].stream:
                if self.shown > self.node.count:
                    yield DONE
                    continue
                self.shown += type(answer) is tuple
                yield answer

    swap(patch, nodes.Take, Wrong)


@breaks(test_transforms.test_scan_copies_its_initial_state)
def an_initial_state_shared_by_all_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("copy.deepcopy", lambda value: value)


@breaks(test_transforms.test_scan_and_stateful_operators_accumulate)
def a_state_that_is_never_kept(patch: pytest.MonkeyPatch) -> None:
    line(patch, "step", "_, value = f{i}(states[{i}], value)")


@breaks(test_transforms.test_zip_is_the_builtin)
def a_zip_that_repeats_the_left_side(patch: pytest.MonkeyPatch) -> None:
    class Wrong(joints.ZipCell):
        def fill(self) -> Answer | None:
            answer = super().fill()
            if answer is DONE and self.slots[0]:
                self.slots[1] = self.slots[0]
                return SKIP
            return answer

    swap(patch, nodes.Zip, Wrong)


breaks(test_transforms.test_shuffle_is_a_seeded_permutation_of_bounded_reach)(test_flow_bugs.a_shuffle_with_replacement)


@breaks(test_transforms.test_shuffle_depends_on_seed_and_shard)
def one_seed_for_all_shards(patch: pytest.MonkeyPatch) -> None:
    seeded = random.Random
    patch.setattr("random.Random", lambda seed: seeded(seed.split()[0]))


@breaks(test_transforms.test_drain_consumes_all_and_shows_nothing)
def a_drain_that_shows_what_it_should_hide(patch: pytest.MonkeyPatch) -> None:
    class Wrong(unary.DrainCell):
        def answers(self) -> Iterator[Answer]:
            yield from self.ups[0].stream

    swap(patch, nodes.Drain, Wrong)


@breaks(test_transforms.test_tap_and_named_are_the_identity)
def a_tap_that_changes_the_item(patch: pytest.MonkeyPatch) -> None:
    line(patch, "tap", "value = f{i}(value)")


@breaks(test_transforms.test_every_items_shows_each_nth)
def a_gate_that_opens_one_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joints.EveryCell, "measure", lambda self: self.seen - 0.5 if self.seen > 1 else 0)


@breaks(test_transforms.test_the_fused_plan_yields_what_the_plain_plan_yields)
def a_fusion_that_forgets_the_first_operator(patch: pytest.MonkeyPatch) -> None:
    init = chain.Chain.__init__
    patch.setattr(
        chain.Chain, "__init__", lambda self, steps, up, site: init(self, steps[1:] if len(steps) > 1 else steps, up, site)
    )


@breaks(test_transforms.test_par_operators_do_per_shard_what_the_others_do)
def shards_that_run_the_program_of_shard_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nodes.ParSource, "places", lambda self, inputs, size: [(self, 0)] * size(self.of))


@breaks(test_gather.test_gather_sync_is_a_zip_of_the_shards)
def a_round_in_the_wrong_order(patch: pytest.MonkeyPatch) -> None:
    end_round = gather.Rounds.end_round

    def backwards(self: gather.Rounds) -> Iterator[Answer]:
        self.asked.reverse()
        return end_round(self)

    patch.setattr(gather.Rounds, "end_round", backwards)


@breaks(test_gather.test_every_call_of_a_round_sees_all_updates_made_before)
def a_round_that_is_issued_before_the_last_one_is_used(patch: pytest.MonkeyPatch) -> None:
    class Wrong(gather.Rounds):
        def end_round(self) -> Iterator[Answer]:
            yield from super().end_round()
            self.asked = list(self.links)
            for link in self.asked:
                self.issue(link, count=1)

    swap(patch, nodes.GatherSync, Wrong)


breaks(test_gather.test_freshness_per_shard)(test_flow_bugs.a_call_that_is_issued_again_before_its_item_is_used)


breaks(test_gather.test_take_issues_no_more_than_it_must)(test_flow_bugs.a_gather_that_works_ahead)


breaks(test_gather.test_gather_async_has_the_multiset_of_gather_sync_in_shard_order)(
    test_flow_bugs.answers_of_a_shard_out_of_order
)


@breaks(test_gather.test_max_staleness_drops_and_counts)
def a_staleness_bound_that_is_one_too_wide(patch: pytest.MonkeyPatch) -> None:
    exact = shards.LivePool.staleness
    patch.setattr(shards.LivePool, "staleness", lambda self, versions: {p: n - 1 for p, n in exact(self, versions).items()})


@breaks(test_gather.test_call_and_hand_off_are_for_each_elsewhere)
def results_in_reverse(patch: pytest.MonkeyPatch) -> None:
    def issue_last(self: feed.FedStream) -> Answer:
        answer = self.ups[0].poll()
        if type(answer) is tuple:
            self.outbox.append(answer)
            return SKIP
        if answer is DONE and self.outbox and not self.links[0].calls:
            self.issue(self.links[0], feed=self.outbox.pop())
            return SKIP
        return answer if not self.outbox else WAITING

    patch.setattr(feed.FedStream, "take_one", issue_last)


@breaks(test_gather.test_hand_off_never_exceeds_its_mailbox_and_call_pulls_nothing_meanwhile)
def a_mailbox_without_bound(patch: pytest.MonkeyPatch) -> None:
    init = feed.FedStream.__init__

    def unbounded(self: feed.FedStream, node: nodes.Node, ups: Any, site: Any) -> None:  # Any: handed through
        init(self, node, ups, site)
        self.room = 1000

    patch.setattr(feed.FedStream, "__init__", unbounded)


breaks(test_gather.test_drop_oldest_counts_what_it_drops_and_keeps_order)(test_flow_bugs.drops_that_nobody_counts)


@breaks(test_gather.test_repartition_keeps_the_multiset)
def a_remainder_that_is_never_flushed(patch: pytest.MonkeyPatch) -> None:
    issue = gather.Gather.issue

    def unfinished(
        self: gather.Gather, link: gather.ShardLink, *, last: bool = False, **rest: Any
    ) -> None:  # Any: handed through
        issue(self, link, last=False, **rest)

    patch.setattr(gather.Gather, "issue", unfinished)


@breaks(test_gather.test_par_union_puts_shards_side_by_side)
def a_union_that_mixes_up_its_inputs(patch: pytest.MonkeyPatch) -> None:
    places = nodes.ParUnionOf.places
    patch.setattr(nodes.ParUnionOf, "places", lambda self, inputs, size: places(self, inputs, size)[::-1])


@breaks(test_gather.test_select_shards_calls_no_other_actor)
def a_selection_in_the_wrong_order(patch: pytest.MonkeyPatch) -> None:
    places = nodes.SelectShards.places
    patch.setattr(nodes.SelectShards, "places", lambda self, inputs, size: places(self, inputs, size)[::-1])


@breaks(test_gather.test_par_from_range_is_range_in_blocks)
def a_last_block_that_takes_the_whole_remainder(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(create, "divmod", lambda count, shards: (count // shards, 0), raising=False)


@breaks(test_gather.test_par_zip_pairs_items_of_one_shard)
def a_pair_of_one_item_with_itself(patch: pytest.MonkeyPatch) -> None:
    class Wrong(joints.ZipCell):
        def fill(self) -> Answer | None:
            answer = super().fill()
            self.slots[1] = self.slots[0]
            return answer

    swap(patch, nodes.Zip, Wrong)


breaks(test_merge_and_split.test_union_is_the_multiset_sum_in_input_order)(test_flow_bugs.an_input_that_takes_the_others_with_it)


@breaks(test_merge_and_split.test_round_robin_stays_within_one_turn_of_the_shares)
def turns_in_bursts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joints, "most_urgent", lambda credit, shares: max(shares, key=lambda each: (credit[each[0]] > -2, each[1]))[0])


@breaks(test_merge_and_split.test_round_robin_with_many_inputs)
def the_most_credit_first(patch: pytest.MonkeyPatch) -> None:
    """Looks fair, and is not from five inputs on."""
    patch.setattr(joints, "most_urgent", lambda credit, shares: max(shares, key=lambda each: credit[each[0]] + each[1])[0])


@breaks(test_merge_and_split.test_turns_are_as_fair_as_turns_can_be)
def a_rule_that_is_almost_as_fair(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joints, "most_urgent", lambda credit, shares: max(shares, key=lambda each: credit[each[0]] + each[1])[0])


@breaks(partial(test_merge_and_split.test_round_robin_waits_for_an_async_union_that_waits, runtime="sim, any order"))
def a_union_that_says_blocked_when_it_waits(patch: pytest.MonkeyPatch) -> None:
    class Wrong(joints.FirstReady):
        def turn(self) -> Answer:
            answer = super().turn()
            return Blocked("waiting") if answer is WAITING else answer

    kinds = {"round_robin": joints.RoundRobin, "async": Wrong}
    swap(patch, nodes.UnionOf, lambda node, ups, site: kinds[node.mode](node, ups, site))


@breaks(test_merge_and_split.test_fairness_counts_turns_not_shown_items)
def fairness_that_counts_shown_items(patch: pytest.MonkeyPatch) -> None:
    class Wrong(joints.RoundRobin):
        def serve(self, index: int, answer: Answer) -> Answer:
            if answer is SKIP:
                self.credit[index] += 1
            return super().serve(index, answer)

    swap(patch, nodes.UnionOf, Wrong)


@breaks(test_merge_and_split.test_with_blocking_round_robin_stays_within_two_turns)
def turns_that_a_blocked_input_saves_up(patch: pytest.MonkeyPatch) -> None:
    class Wrong(joints.RoundRobin):
        def serve(self, index: int, answer: Answer) -> Answer:
            self.credit = [credit + 0.1 * (which != index) for which, credit in enumerate(self.credit)]
            return super().serve(index, answer)

    swap(patch, nodes.UnionOf, Wrong)


@breaks(test_merge_and_split.test_an_input_with_an_infinite_weight_goes_first_until_it_blocks)
@breaks(test_merge_and_split.test_infinite_weights_share_all_turns)
def an_input_that_is_only_served_very_often(patch: pytest.MonkeyPatch) -> None:
    class Wrong(joints.RoundRobin):
        def __init__(self, node: nodes.UnionOf, ups: tuple[Cell, ...], site: Site) -> None:
            super().__init__(node, ups, site)
            self.weights = tuple(min(weight, 10.0) for weight in self.weights)
            self.everyone = self.shares(self.alive)

    swap(patch, nodes.UnionOf, Wrong)


class AlwaysFirst(joints.Merge):
    """Serves the first input as long as it has anything."""

    def answers(self) -> Iterator[Answer]:
        while True:
            answers = [self.ups[0].poll()]
            if type(answers[0]) is not tuple:
                answers += [up.poll() for up in self.ups[1:]]
            yield next((a for a in answers if type(a) is tuple), answers[-1])


@breaks(test_merge_and_split.test_async_union_serves_who_stays_ready_within_k_outputs)
def an_input_that_starves_the_others(patch: pytest.MonkeyPatch) -> None:
    swap(patch, nodes.UnionOf, AlwaysFirst)


@breaks(test_merge_and_split.test_a_busy_driver_stream_does_not_starve_actors)
def a_loop_that_never_looks_at_finished_calls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "POLLS_BETWEEN_COLLECTS", 10_000)


breaks(test_merge_and_split.test_every_branch_sees_every_item_once_in_order)(
    test_flow_bugs.a_branch_that_misses_what_it_did_not_ask_for
)


@breaks(test_merge_and_split.test_branches_that_stop_early_or_batch_lose_nothing_for_the_others)
def a_branch_that_closes_the_stream_for_all(patch: pytest.MonkeyPatch) -> None:
    def leave(self: joints.SplitCell, branch: int) -> None:
        self.over = True
        self.close()

    patch.setattr(joints.SplitCell, "leave", leave)


@breaks(test_merge_and_split.test_a_lock_step_split_never_pulls_ahead)
def a_split_without_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joints.SplitCell, "blocked_reason", lambda self, branch: "")


@breaks(test_merge_and_split.test_splitting_a_parallel_stream_gathers_synchronously)
def a_parallel_split_that_shares_out_the_items(patch: pytest.MonkeyPatch) -> None:
    def ask(self: joints.SplitCell, branch: int) -> Answer:
        return self.ups[0].poll()

    patch.setattr(joints.SplitCell, "ask", ask)


@breaks(test_merge_and_split.test_synchronous_plans_are_functions_of_the_plan_alone)
def turns_drawn_at_random(patch: pytest.MonkeyPatch) -> None:
    dice = count()
    patch.setattr(joints, "most_urgent", lambda credit, shares: shares[next(dice) % 7 % len(shares)][0])


@breaks(partial(test_merge_and_split.test_synchronous_plans_are_functions_of_the_plan_alone, runtime="sim, any order"))
def turns_that_go_to_whoever_is_ready(patch: pytest.MonkeyPatch) -> None:
    swap(patch, nodes.UnionOf, joints.FirstReady)


@breaks(test_merge_and_split.test_branches_at_different_rates_are_a_deadlock_with_an_explanation)
def a_deadlock_that_explains_nothing(patch: pytest.MonkeyPatch) -> None:
    init = Blocked.__init__
    patch.setattr(Blocked, "__init__", lambda self, why: init(self, "stuck"))


@breaks(test_runs.test_two_plans_over_the_same_actors_never_meet)
def transforms_that_two_plans_share(patch: pytest.MonkeyPatch) -> None:
    pull = host.Host.pull
    patch.setattr(host.Host, "pull", lambda self, state, request: pull(self, state, request._replace(key=(0, 0))))


READ = create.ShardValues.read
READERS: dict[int, tuple[object, Iterator[Any]]] = {}  # Any: whatever the part holds


def read_once(part: create.ShardValues[Any]) -> Iterator[Any]:  # Any: as above
    return READERS.setdefault(id(part), (part, READ(part)))[1]


@breaks(test_runs.test_values_are_read_again_by_every_run_of_a_session)
def values_that_only_the_first_run_sees(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(create.ShardValues, "read", read_once)


@breaks(test_runs.test_equal_descriptions_are_two_sets_of_actors)
def actors_told_apart_by_what_they_contain(patch: pytest.MonkeyPatch) -> None:
    pool = base.Runtime.pool

    def by_name(self: base.Runtime, actors: Any, seed: int) -> shards.LivePool:  # Any: handed through
        same = [live for live in self.pools.values() if live.actors.name == actors.name]
        return same[0] if same else pool(self, actors, seed)

    patch.setattr(base.Runtime, "pool", by_name)


@breaks(test_runs.test_provenance_follows_items_through_every_operator)
def provenance_of_the_last_contributor_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unary, "united", lambda parts: parts[-1][1])


@breaks(test_runs.test_combining_items_unites_their_sources)
def provenance_that_a_zip_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joints, "united", lambda parts: NOWHERE)


@breaks(test_runs.test_items_carry_the_weight_version_of_their_call)
def the_version_of_now_instead_of_the_call(patch: pytest.MonkeyPatch) -> None:
    pull = host.Host.pull

    def too_new(self: host.Host, piggyback: host.Piggyback, request: host.Request) -> host.Reply:
        return pull(self, piggyback._replace(versions={"default": 1 + piggyback.versions.get("default", 0)}), request)

    patch.setattr(host.Host, "pull", too_new)


@breaks(test_runs.test_the_ledger_balances_after_every_poll_and_after_an_early_stop)
def buffers_that_vanish_at_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gather.Gather, "drop", lambda self, reason, count=1: None)


@breaks(partial(test_runs.test_an_exception_names_operator_and_item_and_loses_nothing_before_it, stage="tap"))
def an_error_that_blames_the_neighbour(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(chain, "FIRST_LINE", chain.FIRST_LINE - 1)


@breaks(test_runs.test_a_failing_shard_takes_nothing_of_the_others_with_it)
def an_error_that_eats_what_was_done_before(patch: pytest.MonkeyPatch) -> None:
    answer = host.Host._answer

    def eats(self: host.Host, *args: Any) -> host.Reply:  # Any: handed through
        reply = answer(self, *args)
        return reply._replace(items=[], origins=[]) if reply.error else reply

    patch.setattr(host.Host, "_answer", eats)


@breaks(test_runs.test_in_a_round_the_healthy_shards_are_delivered_first)
def a_failure_that_ends_healthy_shards(patch: pytest.MonkeyPatch) -> None:
    class Wrong(gather.Rounds):
        def receive(self, link: gather.ShardLink) -> None:
            super().receive(link)
            self.raise_failure()

    swap(patch, nodes.GatherSync, Wrong)


@breaks(test_runs.test_events_arrive_once_in_order_within_the_mailbox)
def events_without_bound(patch: pytest.MonkeyPatch) -> None:
    def sent(self: messages.LiveCell) -> bool:
        while self.live.outbox:
            shard, method, value = self.live.outbox.popleft()
            self.site.events[shard] = self.site.events.get(shard, 0) + 1
            self.site.issue(shard, "tell", (method, value), self)
        return True

    patch.setattr(messages.LiveCell, "sent", sent)


@breaks(test_runs.test_state_is_merged_and_sent_with_the_next_call)
def state_that_is_lost_on_the_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(host.Host, "take", lambda self, state: None)


@breaks(test_runs.test_the_last_state_that_was_sent_arrives_even_if_the_run_ends)
def state_that_is_lost_with_an_abandoned_call(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shards.LiveShard, "restore_state", lambda self, state: None)


@breaks(test_runs.test_same_seed_same_plan_same_output)
def a_seed_that_no_run_repeats(patch: pytest.MonkeyPatch) -> None:
    seeds = count()
    patch.setattr(base, "derive_seed", lambda *parts: next(seeds))


@breaks(test_resize.test_nothing_is_lost_when_a_pool_changes)
@breaks(test_resize.test_a_pool_may_change_while_actors_die)
def a_shard_that_comes_again_under_the_number_of_its_first_life(patch: pytest.MonkeyPatch) -> None:
    resize = base.Runtime.resize

    def forgetful(runtime: base.Runtime, pool: shards.LivePool, num: int) -> None:
        resize(runtime, pool, num)
        pool.next_incarnations.clear()

    patch.setattr(base.Runtime, "resize", forgetful)


@breaks(test_resize.test_nothing_is_lost_when_a_pool_changes)
def a_shard_that_leaves_before_it_has_answered(patch: pytest.MonkeyPatch) -> None:
    retire = base.Runtime.retire

    def hasty(runtime: base.Runtime, shard: shards.LiveShard) -> None:
        for call in [*shard.in_flight]:
            call.finish(lost="it was in a hurry")
        shard.in_flight.clear()
        retire(runtime, shard)

    patch.setattr(base.Runtime, "retire", hasty)


@breaks(test_resize.test_a_stream_whose_shards_all_died_or_left_never_ends_quietly)
def a_stream_that_ends_with_its_actors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gather.Gather, "no_healthy_shards", lambda self: None)


@breaks(partial(test_refs.test_a_time_budget_changes_no_item_and_no_order, runtime="sim, any order"))
def a_call_that_is_unpacked_backwards(patch: pytest.MonkeyPatch) -> None:
    answer = host.Host._answer

    def backwards(self: host.Host, *args: Any) -> host.Reply:  # Any: handed through
        reply = answer(self, *args)
        return reply._replace(items=reply.items[::-1], origins=reply.origins[::-1])

    patch.setattr(host.Host, "_answer", backwards)


@breaks(partial(test_refs.test_a_time_budget_bounds_the_lag_in_items, runtime="sim, any order"))
def a_time_budget_without_a_bound_on_items(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sim.SimRuntime, "most_items", lambda session, budget: 20)


@breaks(test_collectives.test_enough_shards_have_all_of_a_round_and_the_others_something)
def rounds_that_end_with_the_first_shard(patch: pytest.MonkeyPatch) -> None:
    def any_shard(rounds: feed.TogetherRounds) -> bool:
        return any(count >= rounds.node.size for count in rounds.counts.values())

    patch.setattr(feed.TogetherRounds, "has_enough", any_shard)


def takes_runtime(law: Callable[..., None]) -> bool:
    return "runtime" in inspect.signature(law).parameters and "runtime" not in getattr(law, "keywords", {})


FIND_ONLY = settings(settings.default, phases=[Phase.generate], report_multiple_bugs=False)
"""A mistake has to be found here, not to be shrunk."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_implementation_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    law, patch = PLANTED[name]
    patch(monkeypatch)
    monkeypatch.setattr(getattr(law, "func", law), "_hypothesis_internal_use_settings", FIND_ONLY, raising=False)
    with pytest.raises((AssertionError, pytest.fail.Exception, ExceptionGroup, TypeError, KeyError)):
        law(**({"runtime": "local"} if takes_runtime(law) else {}))


def test_every_law_has_a_planted_mistake_or_is_an_example() -> None:
    """A new property needs a mistake that it catches."""
    modules = (test_transforms, test_gather, test_merge_and_split, test_runs, test_refs, test_resize)
    properties = {
        law for module in modules for name, law in vars(module).items() if name.startswith("test_") and hasattr(law, "hypothesis")
    }
    caught = {getattr(law, "func", law) for law, _ in PLANTED.values()}
    missing = sorted(law.__name__ for law in properties - caught)
    assert missing == []
