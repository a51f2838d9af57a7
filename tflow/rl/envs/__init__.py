"""Environments: one interface over gymnasium, PettingZoo, Atari and EnvPool, and the spaces of their observations and actions."""
