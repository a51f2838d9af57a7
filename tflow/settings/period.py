"""Periods of time or of env steps, as settings say them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tflow.errors import PlanError

SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Period:
    """A period of time or of env steps."""

    seconds: float | None = None
    env_steps: int | None = None

    @staticmethod
    def of(where: str, text: str) -> Period:
        """
        >>> Period.of("x", "5m"), Period.of("x", "100_000")
        (Period(seconds=300.0, env_steps=None), Period(seconds=None, env_steps=100000))
        """
        timed = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", str(text).strip())
        counted = re.fullmatch(r"\d[\d_,]*", str(text).strip())
        amount = float(timed[1]) if timed else int(re.sub(r"[_,]", "", counted[0])) if counted else 0
        if not amount:
            raise PlanError(
                f"{where} must be a time such as 30s, 5m or 2h, or a number of env steps such as 100_000; got {text!r}."
            )
        return Period(seconds=amount * SECONDS[timed[2]]) if timed else Period(env_steps=int(amount))
