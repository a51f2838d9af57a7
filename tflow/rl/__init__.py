"""Reinforcement learning on streams: batches, environments, policies, rollouts, replay, learners, metrics."""

from tflow.domain import Domain, NamedBatch, register

SAMPLED = ("obs", "actions", "rewards", "terminated", "truncated", "t", "logp", "values")
REPLAYED = ("obs", "actions", "rewards", "terminated", "next_obs", "discounts", "weights", "ids")

register(
    Domain(
        package="tflow.rl",
        batches=(
            NamedBatch("Rollout", "Sampled", SAMPLED),
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
        picks={"tflow.rl.rollout.worker_spec.Select": "policy"},
        names={
            "tflow.rl.rollout.worker_spec.create_rollout_workers": ("losses", "agents"),
            "tflow.rl.replay.replay_spec.create_replay_actors": ("policies",),
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
        heavy=frozenset({"Policy", "RolloutWorker", "Tensors", "evaluate"}),
    )
)
