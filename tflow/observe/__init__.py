"""Observing training: progress on the terminal, and run folders."""
