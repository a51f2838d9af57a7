"""Searching hyperparameters: what is searched, and studies of Optuna on disk."""
