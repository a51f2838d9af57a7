"""A place where a stream meets an operator, or a function that takes streams: what the rules about types look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mypy.nodes import Context, Expression
from mypy.types import Type

from tflow.mypy_plugin import shapes
from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.recorder import Fixes
from tflow.mypy_plugin.report import Checker, report


@dataclass(frozen=True)
class CallSite:
    """``before``, a stream of ``element``, goes into ``operator``, which wants ``wanted`` and requires ``required``."""

    api: Checker
    labels: Labels
    operator: str
    method: str
    before: Expression
    where: Expression
    """What to blame."""
    element: Type
    wanted: Type
    required: Type
    sync: bool
    """Whether the stream is synchronous."""
    keep: set[tuple[int, int, str]]
    """What mypy says of the operator by itself, which is another matter."""
    actor: Type | None = None
    """The class of the actor that it runs in; None on the driver."""
    call: Context | None = None
    """The call of which mypy may only have said that it cannot infer it."""

    @property
    def upstream(self) -> str:
        """How the stream is called."""
        return self.labels.of(self.before)

    @cached_property
    def beside(self) -> Type | None:
        """The class of the actor that it wants to run beside; None if it wants none."""
        found = shapes.as_base(self.required, shapes.ON_ACTOR)
        return found.args[0] if found is not None else None

    def report(self, code: str, sentence: str, fixes: Fixes | None = None) -> None:
        """Say what is wrong here."""
        report(self.api, code, sentence, self.where, keep=self.keep, fixes=fixes, instead_of=self.call)
