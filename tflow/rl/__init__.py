"""Reinforcement learning on streams: batches, environments, policies, rollouts, replay, learners, metrics."""

from tflow.domain import Domain, NamedBatch, register

SAMPLED = ("obs", "actions", "rewards", "terminated", "truncated", "t", "logp", "values")
REPLAYED = ("obs", "actions", "rewards", "terminated", "next_obs", "discounts", "weights", "ids")
SEQUENCES = ("obs", "actions", "rewards", "terminated", "discounts", "ahead", "weights", "mask", "burn_in")

register(
    Domain(
        package="tflow.rl",
        also=("tflow.algos",),
        batches=(
            NamedBatch("Rollout", "Sampled", SAMPLED),
            NamedBatch(
                "ReplayedSequences",
                "SequenceColumns",
                SEQUENCES,
                source='Replay of sequences yields {them}: create_replay_actors(kind="sequences").',
            ),
            NamedBatch(
                "Replayed",
                "ReplayedColumns",
                REPLAYED,
                source="Replay yields {them}: StoreToBuffer(replay), then ParallelReplay(replay).",
            ),
        ),
        proposed=("tflow.rl.learning.gradients", "tflow.rl.data.advantages"),
        concat="ConcatRounds(stream)",
        select="Select(stream, policy=...)",
        ends="tflow.rl.metrics.ReportMetrics",
        picks={
            "tflow.rl.rollout.worker_spec.Select": "policy",
            "tflow.rl.rollout.worker_spec.create_learner": "policy",
            "tflow.rl.rollout.worker_spec.AnyWorkers.policy": "name",
            "tflow.algos.apex.apex_plan": "policy",
            "tflow.algos.impala.impala_plan": "policy",
        },
        names={
            "tflow.rl.rollout.worker_spec.create_rollout_workers": ("losses", "agents"),
            "tflow.rl.replay.replay_spec.create_replay_actors": ("policies",),
            "tflow.algos.algorithm.create_multi_workers": ("algorithms",),
        },
        ships={
            "tflow.rl.rollout.worker_spec.create_rollout_workers": (
                "env",
                "loss",
                "losses",
                "agent",
                "agents",
                "policy_of",
                "model",
                "exploration",
                "optimizer",
            ),
            "tflow.algos.algorithm.Algorithm": ("env", "model", "critic_model"),
            "tflow.algos.algorithm.create_multi_workers": ("algorithms", "env", "policy_of"),
        },
        maps={
            "tflow.rl.rollout.worker_spec.create_rollout_workers": "policy_of",
            "tflow.algos.algorithm.create_multi_workers": "policy_of",
        },
        stores={"tflow.rl.replay.replay_spec.StoreToBuffer": "replay"},
        lone={"tflow.rl.rollout.worker_spec.Workers": "default"},
        heavy=frozenset({"Callback", "Policy", "RolloutWorker", "Tensors", "TrainingRun", "evaluate", "train"}),
        completed={"tflow.algos.algorithm.Algorithm": "plan"},
        describing=frozenset({"agent", "agent_with", "exploration", "loss", "optimizer", "plan", "policy", "workers"}),
        started={
            "tflow.algos.algorithm.Algorithm.run": "tflow.algos.training_run.check_run",
            "tflow.algos.training_run.train": "tflow.algos.training_run.check_run",
        },
    )
)
