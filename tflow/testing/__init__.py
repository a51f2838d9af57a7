"""The kit that users point at their own operators and plans. It needs hypothesis: ``pip install tflow[testing]``."""

from __future__ import annotations

from tflow.extras import require

require("hypothesis", extra="testing", feature="The tools of tflow.testing")

from tflow.laws import LAWS, OPERATOR_LAWS, Law, LawBroken
from tflow.runtime.sim import NO_FAULTS, Faults, SimRuntime
from tflow.testing.batches import rollouts
from tflow.testing.combinators import check_combinator
from tflow.testing.history import History, simulate
from tflow.testing.operators import check_laws
from tflow.testing.schedules import Counterexample, explore, replay
from tflow.testing.sources import Item
from tflow.testing.strategies import SimSchedule, fault_profiles, plans, schedules, streams, tapes
from tflow.testing.verify import NotAllTried, Refuted, Verified, verify

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
    "NotAllTried",
    "Refuted",
    "SimRuntime",
    "SimSchedule",
    "Verified",
    "check_combinator",
    "check_laws",
    "explore",
    "fault_profiles",
    "plans",
    "replay",
    "rollouts",
    "schedules",
    "simulate",
    "streams",
    "tapes",
    "verify",
]
