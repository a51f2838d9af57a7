"""Rollout workers, which sample with the policy, and evaluation workers, which measure it."""
