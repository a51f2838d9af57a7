"""Algorithms: each file has a configuration, its plan, and the sub-flow that other plans are built from."""
