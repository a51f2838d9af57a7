"""Rule ``tflow-literal``: arguments that an operator would refuse when the plan is built.

What an operator refuses is written once, in the operator. So where the arguments of a call are known, the call is tried:
describing a plan starts nothing. Streams, functions and operators that the call needs are replaced by ones that are always
accepted; what is not known and not needed is left out. The sentence is then the same by construction.
"""

from __future__ import annotations

import re

from mypy.nodes import ArgKind, CallExpr, DictExpr, Expression, MemberExpr, NameExpr, RefExpr, TypeInfo

from tflow import sentences
from tflow.mypy_plugin import policy, shapes
from tflow.mypy_plugin.known import MOST_CHOICES, Undecided, Unknown, literal_value
from tflow.mypy_plugin.report import ABOUT_TYPES, CODES, of_kind, report, said_of
from tflow.mypy_plugin.trials import COMPLETED, NOT_TRIED, NOTHING, STARTED, TRIED, Trials

CODE = "tflow-literal"
MADE = (CallExpr, NameExpr, MemberExpr)
OTHERS = set(CODES) - ABOUT_TYPES
"""Rules about something else than what a call is given."""
GATHERS = {"gather_sync", "gather_rounds", "gather_async", "split"}
NEED_ARGUMENTS = {"every", "select_shards", "Union", "ParUnion", *(name.rpartition(".")[2] for name in policy.named_by())}
"""What may be refused without any arguments, as gathers may."""
STARTING = {name.rpartition(".")[2] for name in STARTED}
__all__ = ["Trial", "literal_value"]


class Trial(Trials):
    """Tries calls within some scopes, the innermost first, and reports what they would raise."""

    def check(self, call: CallExpr) -> None:
        """Report what the call would raise."""
        call = self.whole(call)
        if self.made.get(id(call), NOTHING) is not NOTHING or not worth_trying(call):
            return
        self.about = call
        sentence = self.refused(call)
        if sentence and sentences.DRIVER_STREAM not in sentence:  # the rule about places says that
            blamed = self.blamed(call, sentence)
            if self.is_said_already(call, blamed):
                return
            code = policy.CODE if self.is_about_parts(call, blamed) else CODE
            report(self.api, code, sentence, blamed, self.one_for_all(call, blamed), instead_of=call)

    def is_said_already(self, call: CallExpr, blamed: Expression) -> bool:
        """True if another argument is wrong that is no plain value, of which this may be a consequence."""
        if not isinstance(blamed, MADE):
            return False
        plain = [given for given, kind in zip(call.args, call.arg_kinds, strict=True) if kind is not ArgKind.ARG_STAR2]
        others = [each for each in plain if each is not blamed and isinstance(each, MADE)]
        return any(not of_kind(said, OTHERS) for each in others for said in said_of(self.api, each))

    def one_for_all(self, call: CallExpr, blamed: Expression) -> str:
        """What is said beside a mapping from parts, where all have the same."""
        *all_at_once, by = policy.named_by().get(policy.called(self.api, call.callee)) or ("",)
        name = call.arg_names[call.args.index(blamed)] if isinstance(blamed, DictExpr) and blamed in call.args else None
        parts = policy.names_of(call, self) if name and all_at_once else []
        return sentences.one_for_all(name, parts, by) if name and parts else ""

    def is_about_parts(self, call: CallExpr, blamed: Expression) -> bool:
        """True for a part of several that is not there."""
        named = policy.picks().get(policy.called(self.api, call.callee))
        return named is not None and (
            blamed is call or blamed in [a for a, n in zip(call.args, call.arg_names, strict=True) if n == named]
        )

    def refused(self, call: CallExpr) -> str:
        """The sentence with which a call is refused; empty if it is not. Where a condition decides, all ways must be refused;
        of what a loop runs through, one is enough."""
        from tflow.errors import PlanError

        made = dict(self.made)
        try:
            self.call(call)
        except PlanError as error:
            return str(error)
        except Undecided as question:
            if len(self.decided) >= MOST_CHOICES:
                return ""
            found = []
            for option in question.options:
                self.decided[question.key] = option
                found.append(self.refused(call))
                del self.decided[question.key]
                self.made.clear()
                self.made.update(made)
            if question.every and not all(found):
                return ""
            return next(filter(None, found), "")
        except Unknown:
            pass
        return ""

    def columns_read_by(self, expr: Expression) -> list[str] | None:
        """The columns that an operator such as ``StandardizeFields("advantages")`` reads, which its type does not tell."""
        try:
            return list(getattr(self.value(expr), "reads", ())) or None
        except Unknown:
            return None

    def blamed(self, call: CallExpr, sentence: str) -> Expression:
        """The argument that a sentence is about, if it names it."""
        names = shapes.parameters(self.type_of(call.callee))
        for place, (given, name) in enumerate(zip(call.args, call.arg_names, strict=True)):
            known = name or (names[place] if place < len(names) else "")
            if known and re.search(rf"\b{known}\b", sentence):
                return given
        return call


def worth_trying(call: CallExpr) -> bool:
    """False where nothing can be refused that is not a type error anyway: most methods are about functions and operators."""
    callee = call.callee
    if isinstance(callee, RefExpr) and (
        callee.fullname in STARTED or callee.fullname in policy.picks() or callee.fullname == "dataclasses.replace"
    ):
        return True
    if isinstance(callee, RefExpr) and isinstance(callee.node, TypeInfo):
        ours, configures = callee.fullname.startswith(TRIED), any(each.fullname in COMPLETED for each in callee.node.mro)
        if call.args or (configures and not ours):
            return ours or configures
    if not call.args:
        return isinstance(callee, (NameExpr, MemberExpr)) and (callee.name in NEED_ARGUMENTS or callee.name in GATHERS)
    if isinstance(callee, MemberExpr) and not callee.fullname.startswith(TRIED):
        return callee.name not in NOT_TRIED or callee.name in STARTING
    return isinstance(callee, RefExpr) and callee.fullname.startswith(TRIED)
