"""Random plans of reinforcement learning, right ones and such with one mistake.

Each shape of plan lists the mistakes that can be made in it; where one is made, it asks ``self.oops``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.types.agreement.drafts import Draft
from tests.types.agreement.streams import Stream, Writer

WIDER = 'Batch[Sampled | Literal["advantages", "returns"]]'
MANY = "MultiBatch[Sampled, Both]"
SHAPES = {
    "a3c": [
        "gradients_on_driver", "no_gradients", "no_worker_there", "applied_in_actor", "rounds_not_averaged", "bad_receiver",
        "no_target_network", "bad_gamma",
    ],
    "ppo": [
        "on_policy_from_replay", "asynchronous", "rounds_not_put_together", "shuffled", "mixed_in", "cut", "no_such_column",
        "missing_columns", "bad_gamma", "columns_by_for_each", "bad_policy_of_learner", "handed_off", "bad_epochs",
    ],
    "dqn": [
        "bad_replay", "stored_in_actor", "trained_on_rollouts", "stored_twice", "priorities_of_rollouts", "more_than_asked_for",
        "gradients_beside_replay", "bad_target", "bad_epochs",
    ],
    "impala": ["no_aggregators", "bad_proportion", "learner_on_driver", "gradients_beside_learner", "no_mailbox"],
    "several": [
        "asynchronous", "not_selected", "missing_columns", "branch_unused", "trained_on_rollouts", "no_such_policy_PPO",
        "no_such_policy_DQN", "bad_replay",
    ],
}  # fmt: skip
"""The mistakes that can be made in each shape of plan."""
EVERYWHERE = [
    "other_pool_reported",
    "report_of_shards",
    "bad_workers",
    "lock_taken_along",
    "reported_twice",
    "never_told",
    "bad_episodes",
]
EVALUATED = {"never_told", "bad_episodes"}
LEARNER = {"bad_policy_of_learner", "handed_off"}
"""Mistakes of plans with evaluators, and with a learner in an actor."""
DIRECT = {"other_pool_reported", "more_than_asked_for", "never_told"}
"""Mistakes about where items come from, which no type says."""

# Left out: ReportMetrics of items that it cannot count, such as lists. The checker refuses that, validation does not.
BAD_WORKERS = [
    "num_workers={0}", "num_envs={-1}", "fragment={0}", 'device="gpu"', "max_grad_norm=-1.0", "learner_threads={0}",
    "num_workers={200000}", "max_grad_norm=0.0",
]  # fmt: skip


class TrainingWriter(Writer):
    """Writes one plan that trains."""

    wrong = ""

    def oops(self, name: str) -> bool:
        """True where the mistake of this plan is made."""
        if self.wrong == name:
            self.mistake = name
        return self.wrong == name

    # ------------------------------------------------------------------- resources

    def workers(self, loss: str, env: str = "CartPole-v1") -> str:
        options = [f'env="{env}"', self.pick([f"loss={loss}", f"loss={loss}", f"agent=Agent({loss})"])]
        if self.oops("bad_workers"):
            template = self.pick([each for each in BAD_WORKERS if "grad" not in each or "agent" not in options[1]])
            start, brace, rest = template.partition("{")
            options.append(f"{start}{self.number(int(rest[:-1]))}" if brace else start)
        elif self.random.random() < 0.3:
            options.append(f"num_workers={self.number(self.random.randint(1, 4))}")
        if self.random.random() < 0.2:
            options.append(f'name="{self.pick(["rollers", "players"])}"')
        return self.value(f"create_rollout_workers({', '.join(options)})", "workers")

    def rollouts(self, workers: str, element: str = "Rollout") -> Stream:
        stream = Stream(self.fresh(), element, parallel=True, host="RolloutWorker", actors=workers)
        stream = self.add(stream, f"ParallelRollouts({workers})", [])
        if self.oops("lock_taken_along"):
            lock = self.value("threading.Lock()", "lock")
            stream = self.then(stream, f".par_tap(lambda batch: ({lock}, batch))")
        return self.neutral(stream)

    def replay(self, **given: str) -> str:
        options = [f"{name}={value}" for name, value in given.items()]
        if self.oops("bad_replay"):
            options.append(
                self.pick(
                    [
                        f"capacity={self.number(0)}",
                        "alpha=1.5",
                        f"batch={self.number(0)}",
                        "gamma=2.0",
                        "n_step=0",
                        "min_size=-1",
                        "update_ratio=0.0",
                    ]
                )
            )
        elif self.random.random() < 0.4:
            options.append(
                self.pick(["capacity=5_000", "batch=64", "n_step=3", "num_actors=2", "update_ratio=0.25", 'kind="uniform"'])
            )
        return self.value(f"create_replay_actors({', '.join(options)})", "replay")

    def neutral(self, stream: Stream) -> Stream:
        """Perhaps a stage that changes nothing of the type."""
        par = "par_" if stream.parallel else ""
        while self.random.random() < 0.3:
            codes = [f".{par}tap(print)", '.named("here")', f".{par}take({self.number(50)})"]
            if not stream.parallel:
                codes += [".every(items=2)", ".filter(bool)"]
            elif not stream.gated:
                codes.append(".par_filter(bool)")
            code = self.pick(codes)
            stream = self.then(stream, code, other=f".{par}tap(print)")
        return stream

    def onto_driver(self, stream: Stream, ways: list[str]) -> Stream:
        code = self.pick(ways)
        kept = stream.sync and "async" not in code
        return self.neutral(self.then(stream, f".{code}", parallel=False, host="object", sync=kept, counted=True))

    # ------------------------------------------------------------------- shapes

    def a3c(self) -> Stream:
        workers = self.pool = self.workers(
            self.pick(["A3CLoss()", "A3CLoss(gamma=0.9)"]) if not self.oops("bad_gamma") else "A3CLoss(gamma=1.5)"
        )
        rollouts = self.rollouts(workers)
        if self.oops("gradients_on_driver"):
            gathered = self.onto_driver(rollouts, ["gather_sync()", "gather_async()"])
            grads = self.then(gathered, ".for_each(ComputeGradients())", element="Gradients")
        elif self.oops("no_gradients"):
            grads = self.onto_driver(rollouts, ["gather_sync()", "gather_async(in_flight=2)"])
        else:
            if self.oops("no_worker_there"):
                rollouts = self.dealt(rollouts)
            made = self.neutral(self.then(rollouts, ".par_for_each(ComputeGradients())", element="Gradients"))
            if self.oops("applied_in_actor"):
                made = self.then(made, f".par_for_each(ApplyGradients({workers}))", element="TrainStats")
                return self.onto_driver(made, ["gather_async()"])
            if self.oops("rounds_not_averaged"):
                grads = self.then(made, ".gather_rounds()", parallel=False, host="object", element="list[Gradients]")
            elif self.random.random() < 0.3 and made.sync:
                rounds = self.then(made, ".gather_rounds()", parallel=False, host="object", element="list[Gradients]")
                grads = self.then(rounds, ".for_each(AverageGradients())", element="Gradients")
            else:
                grads = self.onto_driver(made, ["gather_async()", "gather_async(in_flight=2)", "gather_sync()"])
        to = self.pick(["", "", ', to="all"', ', to="source"']) if not self.oops("bad_receiver") else ', to="everyone"'
        stats = self.then(grads, f".for_each(ApplyGradients({workers}{to}))", element="TrainStats")
        if self.oops("no_target_network"):
            stats = self.then(stats, f".for_each(UpdateTargetNetwork({workers}))")
        return self.neutral(stats)

    def ppo(self) -> Stream:
        workers = self.pool = self.workers("PPOLoss()")
        if self.oops("on_policy_from_replay"):
            stored = self.replayed(self.replay())
            batches = self.onto_driver(stored, ["gather_sync()", "gather_async()"])
            self.onto_driver(self.rollouts(workers), ["gather_sync()"])
            return self.trained(batches, workers, on_policy=True)
        stream, columns = self.rollouts(workers), self.columns()
        inside = self.random.random() < 0.5
        if inside:
            stream = self.widened(stream, columns)
        if self.oops("asynchronous"):
            batches = self.onto_driver(stream, ["gather_async()", "gather_async(in_flight=2)", "gather_async(max_staleness=1)"])
        elif self.oops("rounds_not_put_together"):
            return self.trained(self.rounds(stream if inside else self.widened(stream, columns)), workers, on_policy=True)
        elif self.random.random() < 0.4:
            rounds = self.rounds(stream)
            batches = self.add(replace(rounds, name=self.fresh(), element=stream.element), "ConcatRounds({0})", [rounds])
        else:
            batches = self.onto_driver(stream, ["gather_sync()", 'gather_sync(on_death="skip")'])
        for name, code in (
            ("shuffled", "{0}.shuffle(8)"),
            ("mixed_in", "MixInReplay({0}, slots=4, proportion=0.5)"),
            ("cut", "ConcatBatches({0}, rows=64, exact=True)"),
        ):
            if self.oops(name):
                batches = self.add(replace(batches, name=self.fresh(), sync=False), code, [batches])
        if self.random.random() < 0.2:
            batches = self.add(replace(batches, name=self.fresh()), f"ConcatBatches({{0}}, rows={self.number(256)})", [batches])
        if not inside:
            batches = self.widened(batches, columns)
        if self.oops("no_such_column"):
            batches = self.then(batches, f'.with_columns(StandardizeFields("{self.pick(["advantage", "returned", "ids"])}"))')
        elif self.random.random() < 0.4 and columns:
            batches = self.then(batches, '.with_columns(StandardizeFields("advantages"))', other=".tap(print)")
        return self.trained(batches, workers, on_policy=True)

    def columns(self) -> str:
        if self.oops("missing_columns"):
            return ""
        if self.oops("bad_gamma"):
            return self.pick(["ComputeAdvantages(gamma=1.5)", "ComputeAdvantages(lam=-0.5)"])
        return self.pick(["ComputeAdvantages()", "ComputeAdvantages(gamma=0.9, lam=0.9)"])

    def widened(self, stream: Stream, columns: str) -> Stream:
        par = "par_" if stream.parallel else ""
        if self.oops("columns_by_for_each"):
            return self.then(stream, f".{par}for_each({columns})", element=WIDER)
        return self.neutral(self.then(stream, f".{par}with_columns({columns})", element=WIDER) if columns else stream)

    def rounds(self, stream: Stream) -> Stream:
        return self.then(
            stream, ".gather_rounds()", parallel=False, host="object", element=f"list[{stream.element}]", counted=True
        )

    def trained(self, batches: Stream, workers: str, *, on_policy: bool, loss: str = "") -> Stream:
        """On the driver, or by a learner in an actor."""
        if not loss and (self.wrong in LEARNER or self.random.random() < 0.3):
            learner = self.value(f"create_learner({workers})", "learner")
            if self.oops("bad_policy_of_learner"):
                learner = self.value(f'create_learner({workers}, policy="defualt")', "learner")
            way = "call" if on_policy and not self.oops("handed_off") else "hand_off"
            epochs = "" if not self.oops("bad_epochs") else f"epochs={self.number(0)}"
            stats = self.then(
                batches, f".{way}({learner}, LearnOnBatch({epochs}))", element="TrainStats", sync=batches.sync and way == "call"
            )
            return self.neutral(self.then(stats, f".for_each(SendWeights({workers}))"))
        options = (
            self.pick(["", "", ", epochs=4", ", minibatch=64"])
            if not self.oops("bad_epochs")
            else self.pick([", epochs=0", f", minibatch={self.number(-1)}"])
        )
        with_loss = f", loss={loss}" if loss else ""
        return self.neutral(self.then(batches, f".for_each(TrainOneStep({workers}{with_loss}{options}))", element="TrainStats"))

    def replayed(self, replay: str, element: str = "Replayed") -> Stream:
        stream = Stream(self.fresh(), element, parallel=True, host="ReplayActor", sync=False, gated=True, actors=replay)
        return self.neutral(self.add(stream, f"ParallelReplay({replay})", []))

    def dqn(self) -> Stream:
        q = self.random.random() < 0.7
        workers = self.pool = self.workers("DQNLoss()", "CartPole-v1") if q else self.workers("SACLoss()", "Pendulum-v1")
        replay = self.replay()
        rollouts = self.rollouts(workers)
        if self.oops("stored_in_actor"):
            rollouts = self.then(rollouts, f".par_for_each(StoreToBuffer({replay}))")
        gathered = self.onto_driver(rollouts, ["gather_async()", "gather_sync()", "gather_async(in_flight=2)"])
        if self.oops("trained_on_rollouts"):
            return self.trained(gathered, workers, on_policy=False)
        stored = self.then(gathered, f".for_each(StoreToBuffer({replay}))")
        if self.random.random() < 0.5:
            stored = self.then(stored, f".for_each(UpdateWeights({workers}))")
        if self.oops("stored_twice"):
            self.then(gathered, f".for_each(StoreToBuffer({replay})).drain()")
        if self.oops("priorities_of_rollouts"):
            stored = self.then(stored, f".for_each(UpdatePriorities({workers}))", element="Replayed")
        again = self.replayed(replay)
        if self.oops("more_than_asked_for"):
            again = self.then(again, self.pick([".par_filter(bool)", ".par_shuffle(3)"]))
        if self.oops("gradients_beside_replay"):
            again = self.then(again, ".par_for_each(ComputeGradients())", element="Gradients")
        batches = self.onto_driver(again, ["gather_async()", "gather_sync()", "gather_async(in_flight=4)"])
        if again.element == "Gradients":
            stats = self.then(batches, f".for_each(ApplyGradients({workers}))", element="TrainStats")
        else:
            if q and self.random.random() < 0.4:
                batches = self.then(batches, f".for_each(UpdatePriorities({workers}))")
            stats = self.trained(batches, workers, on_policy=False)
        if q and self.random.random() < 0.4:
            every = self.number(100) if not self.oops("bad_target") else self.number(0)
            stats = self.then(stats, f".for_each(UpdateTargetNetwork({workers}, every={every}))")
        elif self.oops("bad_target"):
            stats = self.then(stats, f".for_each(UpdateTargetNetwork({workers}, tau=1.5))")
        self.then(stored, ".drain()", element="Never")
        return stats

    def impala(self) -> Stream:
        workers = self.pool = self.workers("IMPALALoss()")
        learner = self.value(f"create_learner({workers})", "learner")
        rollouts = self.rollouts(workers)
        if self.oops("no_aggregators") or self.random.random() < 0.5:
            number = self.number(0) if self.wrong == "no_aggregators" else self.number(2)
            made = replace(rollouts, name=self.fresh(), sync=False, host="object", fed=True, shards=2)
            rollouts = self.add(made, f"aggregate({{0}}, aggregators={number}, batches=2)", [rollouts])
        batches = self.onto_driver(rollouts, ["gather_async()", "gather_async(in_flight=2)"])
        if self.random.random() < 0.4:
            made = replace(batches, name=self.fresh(), sync=False)
            batches = self.add(made, f"ConcatBatches({{0}}, rows={self.number(128)}, exact=True)", [batches])
        if self.oops("bad_proportion") or self.random.random() < 0.3:
            share = "-1.0" if self.wrong == "bad_proportion" else "0.5"
            made = replace(batches, name=self.fresh(), sync=False)
            batches = self.add(made, f"MixInReplay({{0}}, slots=4, proportion={share})", [batches])
        if self.oops("learner_on_driver"):
            stats = self.then(batches, ".for_each(LearnOnBatch())", element="TrainStats")
        elif self.oops("gradients_beside_learner"):
            grads = self.then(batches, f".hand_off({learner}, ComputeGradients())", element="Gradients", sync=False)
            stats = self.then(grads, f".for_each(ApplyGradients({workers}))", element="TrainStats")
        else:
            mailbox = ", mailbox=4" if not self.oops("no_mailbox") else f", mailbox={self.number(0)}"
            stats = self.then(batches, f".hand_off({learner}, LearnOnBatch(){mailbox})", element="TrainStats", sync=False)
        told = self.pick(["", f", {learner}"])
        return self.neutral(self.then(stats, f".for_each(SendWeights({workers}{told}))"))

    def several(self) -> Stream:
        workers = self.pool = self.value(
            'create_rollout_workers(env="pettingzoo.sisl.pursuit_v4", losses=LOSSES, policy_of=policy_of)', "workers"
        )
        rollouts = self.rollouts(workers, MANY)
        if self.oops("asynchronous"):
            rollouts = self.onto_driver(rollouts, ["gather_async()"])
        one, two = (Stream(self.fresh("b"), MANY, sync=rollouts.sync, counted=True) for _ in range(2))
        self.split(rollouts, ".split()", [one, two])
        if self.oops("not_selected"):
            first = self.neutral(one)
        else:
            first = self.selected(one, "PPO")
            first = (
                self.then(first, ".with_columns(ComputeAdvantages())", element=WIDER)
                if not self.oops("missing_columns")
                else first
            )
        stats = self.trained(first, workers, on_policy=True, loss="PPOLoss()")
        if self.oops("branch_unused"):
            self.open.remove(two)
            return stats
        second = self.selected(two, "DQN")
        if self.oops("trained_on_rollouts"):
            self.trained(second, workers, on_policy=False, loss="DQNLoss()")
            return stats
        replay = self.replay()
        self.then(self.then(second, f".for_each(StoreToBuffer({replay}))"), ".drain()", element="Never")
        again = self.onto_driver(self.replayed(replay), ["gather_async()", "gather_sync()"])
        return self.trained(again, workers, on_policy=False, loss="DQNLoss()")

    def selected(self, stream: Stream, policy: str) -> Stream:
        name = (
            policy if not self.oops(f"no_such_policy_{policy}") else self.pick([policy.lower(), "default", policy + policy[-1]])
        )
        made = replace(stream, name=self.fresh(), element="Batch[Sampled]")
        return self.neutral(self.add(made, f'Select({{0}}, policy="{name}")', [stream]))

    # ------------------------------------------------------------------- the whole

    def evaluated(self, stats: Stream) -> None:
        """Evaluators beside it."""
        options = self.pick(["", ", episodes=3", ", every=1_000"]) if not self.oops("bad_episodes") else ", episodes=0"
        evaluators = self.value(f"create_evaluation_workers({self.pool}{options})", "evaluators")
        if not self.oops("never_told"):
            self.then(stats, f".for_each(UpdateWeights({self.pool}, {evaluators}))")
        played = Stream(self.fresh(), "Episodes", parallel=True, host="RolloutWorker", gated="every" in options)
        self.onto_driver(self.add(played, f"ParallelEvaluations({evaluators})", []), ["gather_async()", "gather_sync()"])

    def plan(self, *, wrong: bool) -> Draft:
        shape, evaluated = self.pick(list(SHAPES)), self.random.random() < 0.2
        if wrong:
            cases = [(one, made) for one, several in SHAPES.items() for made in several] + [("", made) for made in EVERYWHERE]
            case, self.wrong = cases[self.seed // 4 % len(cases)]
            shape = case or self.pick(["a3c", "ppo", "dqn", "impala"])
            evaluated = evaluated or self.wrong in EVALUATED
        make: Callable[[], Stream] = getattr(self, shape)
        stats = make()
        if evaluated:
            self.evaluated(stats)
        if self.oops("report_of_shards"):
            end = self.rollouts(self.pool, MANY if "policy_of" in self.steps[0].code else "Rollout")
        else:
            end = self.united() if len(self.open) == 1 else self.union(list(self.open))
        if self.oops("reported_twice"):
            end = self.add(replace(end, name=self.fresh(), sync=False), 'Union({0}, {1}, mode="async")', [end, end])
        pool = self.pool if not self.oops("other_pool_reported") else self.workers(self.pick(["A3CLoss()", "PPOLoss()"]))
        report = Stream(self.fresh(), "Metrics")
        self.add(report, f"ReportMetrics({{0}}, {pool})", [end])
        self.steps[-1] = replace(self.steps[-1], types=("Plan[Metrics]",))
        mark = self.pick(["", "@plan"])
        return Draft(
            tuple(self.steps), "Plan[Metrics]", mark, self.random.randrange(1 << 30), self.mistake, self.mistake in DIRECT
        )
