"""A place where a stream meets an operator, or a function that takes streams: what the rules about types look at."""

from __future__ import annotations

from dataclasses import dataclass

from mypy.nodes import Expression
from mypy.types import Type

from tflow.mypy_plugin.labels import Labels
from tflow.mypy_plugin.report import Checker, report


@dataclass(frozen=True)
class Site:
    """``before`` (a stream of ``element`` that offers ``offered``) goes into ``operator``, which wants ``wanted`` and requires
    ``required``."""

    api: Checker
    labels: Labels
    operator: str
    method: str
    before: Expression
    where: Expression
    """What to blame."""
    element: Type
    offered: Type
    wanted: Type
    required: Type

    @property
    def upstream(self) -> str:
        """How the stream is called."""
        return self.labels.of(self.before)

    def report(self, code: str, sentence: str) -> None:
        """Say what is wrong here."""
        report(self.api, code, sentence, self.where)


def labels_in(api: Checker) -> Labels:
    """Labels for what is being checked."""
    return Labels(api.lookup_type_or_none, [api.scope.current_function(), api.scope.top_level_function(), api.tree])
