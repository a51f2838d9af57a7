"""``tflow check``: every rule of the mypy plugin as a linter of its own, whichever type checker one uses."""
