"""Environments: one interface over gymnasium, PettingZoo, Atari, EnvPool and JAX, and their spaces."""
