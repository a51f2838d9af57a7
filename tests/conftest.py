"""What all tests share.

Hypothesis profiles: `ci` is the same on every machine; `full` is `ci` with more examples (`make test-full`); `search` looks for
longer, at random (`make search`); `mutants` is `ci` with few examples, for judging many mutants (`make mutants`).
"""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, Phase, settings

# Processes with a team of threads each, which spin while they wait for each other, take several times as long on two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports torch; what tests start inherits it

settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("full", settings.get_profile("ci"), max_examples=300)
settings.register_profile(
    "search", deadline=None, max_examples=int(os.environ.get("EXAMPLES", "5000")), suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "mutants",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=8,
    phases=[Phase.generate],  # a mutant has to be noticed, not to be understood
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "ray",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=2,  # each makes processes
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell ignores Ctrl-C for what it starts in the background, nohup the loss of the terminal, and children inherit that; tests of
# signals need them.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["pytester"]
