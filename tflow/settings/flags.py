"""Flags for the fields of a configuration: ``--lr 1e-3``, ``--num-envs=16``, ``--no-double``, ``--ppo.epochs 4``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tflow.errors import PlanError
from tflow.settings.fields import ALONE


def from_flags(words: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """The words that are no flags, and what flags say, by field; dots lead into configurations inside.

    >>> from_flags(["ppo_dqn", "--lr", "1e-3", "--ppo.epochs=4", "--num-envs", "8"])
    (['ppo_dqn'], {'lr': '1e-3', 'ppo': {'epochs': '4'}, 'num_envs': '8'})
    """
    found: dict[str, object] = {}
    others: list[str] = []
    rest = list(words)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("--"):
            others.append(flag)
            continue
        name, equals, value = flag[2:].partition("=")
        name = name.replace("-", "_")
        if equals:
            _put(found, name, value)
        elif name.rpartition(".")[2].startswith("no_"):
            _put(found, name, ALONE)
        elif rest and not rest[0].startswith("--"):
            _put(found, name, rest.pop(0))
        else:
            _put(found, name, ALONE)
    return others, found


def _put(found: dict[str, object], name: str, value: object) -> None:
    first, dot, rest = name.partition(".")
    if not dot:
        if first in found:
            raise PlanError(f"--{first.replace('_', '-')} is given twice.")
        found[first] = value
        return
    inner = found.setdefault(first, {})
    if not isinstance(inner, dict):
        raise PlanError(f"--{first} is given twice: as a whole, and in part by --{name}.")
    _put(inner, rest, value)


def merged(first: Mapping[str, object], later: Mapping[str, object]) -> dict[str, object]:
    """Both, nested tables included; later values take precedence."""
    found = dict(first)
    for name, value in later.items():
        before = found.get(name)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        found[name] = merged(before, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return found
