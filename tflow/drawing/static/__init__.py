"""Plans read from source, with the types that mypy gives to their expressions. Nothing of the source is executed."""
