"""What a library adds to the words of plans: names of batches, operators to propose, classes that pick a part by name.

``tflow.combinators`` and ``tflow.mypy_plugin`` know no subject matter. A library such as ``tflow.rl`` registers its own when it
is imported; a checker, which imports no plan, loads the libraries that come with tflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

LIBRARIES = ("tflow.rl",)


@dataclass(frozen=True)
class NamedBatch:
    """A batch that is known by the columns it has."""

    name: str
    columns_name: str
    """What its columns are called together, in types."""
    columns: tuple[str, ...]
    source: str = ""
    """Where such batches come from, for a plan that lacks its columns."""


@dataclass(frozen=True)
class Domain:
    """What a library adds."""

    package: str
    """Where its descriptions are made: calling what is there starts nothing."""
    also: Sequence[str] = ()
    """Packages on top of it that only describe, too."""
    batches: Sequence[NamedBatch] = ()
    proposed: Sequence[str] = ()
    """Modules whose operators are proposed when a plan does not fit."""
    concat: str = ""
    """What turns lists of batches into batches."""
    select: str = ""
    """What picks one part out of several that have names."""
    ends: str = ""
    """The qualified name of the class that makes a plan of a stream, and of actors."""
    picks: Mapping[str, str] = field(default_factory=dict)
    """By qualified name of a class that picks a part: its argument that names the part."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By qualified name of a function: its arguments whose members are the names."""
    ships: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By qualified name of a function, or of a class and those that derive from it: its arguments that go to actors."""
    maps: Mapping[str, str] = field(default_factory=dict)
    """By qualified name of such a function: its argument that maps something to one of the names."""
    stores: Mapping[str, str] = field(default_factory=dict)
    """By qualified name of an operator that stores parts by name: its argument that says where."""
    lone: Mapping[str, str] = field(default_factory=dict)
    """By qualified name of a class of actors with a single part: what that part is called."""
    heavy: frozenset[str] = frozenset()
    """Public names of the packages that are no descriptions."""
    completed: Mapping[str, str] = field(default_factory=dict)
    """By qualified name of a class of configurations: its method that makes the plan, and refuses what a plan cannot have."""
    describing: frozenset[str] = frozenset()
    """Methods of its descriptions that make other descriptions."""
    started: Mapping[str, str] = field(default_factory=dict)
    """By qualified name of a function or a method that starts something: what checks its arguments, and starts nothing."""


_registered: dict[str, Domain] = {}


def register(domain: Domain) -> None:
    """Add what a library brings; once more changes nothing."""
    _registered[domain.package] = domain


def domains() -> list[Domain]:
    """All that are known."""
    for library in LIBRARIES:
        import_module(library)
    return list(_registered.values())


def named_batches() -> list[NamedBatch]:
    """All batches that have a name."""
    return [batch for domain in domains() for batch in domain.batches]


def proposed_modules() -> list[str]:
    """All modules whose operators are proposed."""
    return [module for domain in domains() for module in domain.proposed]


def lone() -> dict[str, str]:
    """All classes of actors with a single part."""
    return {name: part for domain in domains() for name, part in domain.lone.items()}


def completed() -> dict[str, str]:
    """All classes of configurations, with the method that makes the plan."""
    return {name: method for domain in domains() for name, method in domain.completed.items()}


def describing() -> frozenset[str]:
    """All methods that make descriptions out of descriptions."""
    return frozenset(name for domain in domains() for name in domain.describing)


def started() -> dict[str, str]:
    """All that starts something, with what checks its arguments."""
    return {name: by for domain in domains() for name, by in domain.started.items()}


def first(field_of: str) -> str:
    """The first word that a library has for something; empty if none has."""
    return next((word for domain in domains() if (word := getattr(domain, field_of))), "")
