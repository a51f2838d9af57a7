"""Reinforcement learning on streams: batches, environments, policies, rollouts, replay, learners, metrics."""
