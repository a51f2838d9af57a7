"""The commands that train, evaluate and list algorithms."""
