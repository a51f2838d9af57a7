"""Configurations as text: on the command line, in TOML files, and back."""
