"""The kit that users point at their own operators and plans. It needs hypothesis: ``pip install tflow[testing]``."""

from __future__ import annotations

from tflow.extras import require

require("hypothesis", extra="testing", feature="The tools of tflow.testing")

from tflow.laws import LAWS, OPERATOR_LAWS, Law, LawBroken  # noqa: E402
from tflow.runtime.sim import NO_FAULTS, Faults, SimRuntime  # noqa: E402
from tflow.testing.history import History, simulate  # noqa: E402
from tflow.testing.operators import check_laws  # noqa: E402
from tflow.testing.schedules import Counterexample, explore, replay  # noqa: E402
from tflow.testing.sources import Item  # noqa: E402
from tflow.testing.strategies import Schedule, fault_profiles, plans, schedules, streams, tapes  # noqa: E402
from tflow.testing.streams import check_combinator  # noqa: E402

__all__ = [
    "LAWS",
    "NO_FAULTS",
    "OPERATOR_LAWS",
    "Counterexample",
    "Faults",
    "History",
    "Item",
    "Law",
    "LawBroken",
    "Schedule",
    "SimRuntime",
    "check_combinator",
    "check_laws",
    "explore",
    "fault_profiles",
    "plans",
    "replay",
    "schedules",
    "simulate",
    "streams",
    "tapes",
]
