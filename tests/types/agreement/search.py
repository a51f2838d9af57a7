"""A long search: ``python -m tests.types.agreement.search 2000 7`` judges 2,000 plans from seed 7, and prints what disagrees."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.types.agreement.judge import Verdict, verdicts
from tests.types.agreement.plans import drafts

ROUNDS = 12


def smallest(found: list[Verdict], folder: Path, rounds: int = ROUNDS) -> list[Verdict]:
    """Each disagreement with as few steps as keep it. One run of mypy tries what is a step smaller, for all of them together."""
    done: list[Verdict] = []
    for _ in range(rounds):
        tried = [(index, draft) for index, verdict in enumerate(found) for draft in verdict.draft.smaller()]
        judged = verdicts([draft for _, draft in tried], folder) if tried else []
        better: dict[int, Verdict] = {}
        for (index, _), verdict in zip(tried, judged, strict=True):
            if not verdict.agreed and kind(verdict)[:30] == kind(found[index])[:30]:
                better[index] = min(better.get(index, verdict), verdict, key=lambda each: len(each.source))
        done += [verdict for index, verdict in enumerate(found) if index not in better]
        found = list(better.values())
        if not found:
            break
    return done + found


def kind(verdict: Verdict) -> str:
    """By which disagreements are grouped: what was said, without names and numbers."""
    said = verdict.built or " / ".join(f"{each.code} {each.message}" for each in verdict.static)
    return f"{'missed' if verdict.built else 'alarm'}: {re.sub(r'[a-z]*[0-9][0-9a-z_]*', '#', said)[:70]}"


def report(judged: list[Verdict], folder: Path) -> str:
    """What disagrees, one of each kind, made small."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in judged:
        if not verdict.agreed:
            groups.setdefault(kind(verdict), []).append(verdict)
    lines = [f"{len(judged)} plans, {sum(bool(each.built) for each in judged)} refused when built"]
    lines.append(str(Counter(each.code for verdict in judged for each in verdict.static)))
    lines += [f"{len(group)} times {name}" for name, group in groups.items()]
    short = [min(group, key=lambda each: len(each.source)) for group in groups.values()]
    return "\n\n".join([*lines, *map(str, smallest(short, folder))])


def main(count: int, first: int = 0) -> None:
    with TemporaryDirectory() as name:
        print(report(verdicts(drafts(count, first), Path(name)), Path(name)))  # noqa: T201  # a script


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
