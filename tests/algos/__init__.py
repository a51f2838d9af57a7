"""Algorithms: the slides' plans, what each configuration promises, and that they learn."""
