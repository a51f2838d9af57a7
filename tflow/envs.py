"""Environments, described."""

from tflow.rl.envs.env_spec import EnvSpec as EnvSpec
