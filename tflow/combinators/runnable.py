"""What a stream and a plan have in common: they can be printed, checked, fingerprinted and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, cast, overload

from tflow.combinators import nodes
from tflow.types import Op, T, U

if TYPE_CHECKING:
    from tflow.combinators.columns import AddColumns
    from tflow.runtime.base import Runtime
    from tflow.runtime.executor import Run
    from tflow.state.folders import Resumable


Named: TypeAlias = "type[Described] | type[AddColumns[Any, Any]]"  # Any: whatever the columns
"""Classes that stand in plans by their name."""


class Described:
    """An immutable description: one edge of a graph of nodes."""

    __slots__ = ("node",)
    node: nodes.Node
    shape: ClassVar[str] = ""
    """How a class of streams is shown, with its arguments by name, such as ``Select({policy})``; empty: as its node."""

    def __init__(self, node: nodes.Node) -> None:
        object.__setattr__(self, "node", node)
        # Asked now, while the answers of the inputs are known: asking a long plan at its end would recurse through all of it.
        _ = node.parallel, node.sync, node.deterministic

    def __reduce__(self) -> tuple[object, ...]:
        from tflow.combinators import graph

        return _restored, (type(self), tuple(graph.walk(self.node)), self._parts())  # inputs first, so that nothing recurses

    def _parts(self) -> dict[str, object]:
        """The node, and whatever a class adds in attributes of its own."""
        slots = [kind.__dict__.get("__slots__", ()) for kind in type(self).__mro__]
        names = [name for each in slots for name in ((each,) if isinstance(each, str) else each)]
        held = {name: getattr(self, name) for name in names if not name.startswith("__") and hasattr(self, name)}
        return {**getattr(self, "__dict__", {}), **held}

    def _over(self, node: nodes.Node, **changed: object) -> Self:
        """The same over another node; what a class adds stays."""
        return cast("Self", _restored(type(self), (), self._parts() | changed | {"node": node}))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name!r}.")

    def __str__(self) -> str:
        from tflow.combinators.describe import describe

        return describe(self.node, type(self).__name__)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.node.label}>"

    def _repr_html_(self) -> str:
        """The drawing, which notebooks show."""
        from tflow.drawing.built import of_plan
        from tflow.drawing.svg import svg

        return svg(of_plan(self))

    @classmethod
    def shown(cls, **arguments: object) -> str:
        """The label of a class of streams."""
        return cls.shape.format_map(arguments)

    @property
    def fingerprint(self) -> str:
        """A short hash of the structure: equal for plans built the same way, in this process or another.

        Law: two plans built by the same code have the same fingerprint; changing an operator changes it.
        """
        from tflow.combinators.fingerprint import fingerprint

        return fingerprint(self.node)


def _restored(kind: type[Described], order: tuple[nodes.Node, ...], parts: dict[str, object]) -> Described:
    made = kind.__new__(kind)
    for name, value in parts.items():
        object.__setattr__(made, name, value)
    Described.__init__(made, made.node)
    return made


class Runnable(Described, Generic[T]):
    """Something that ends on the driver, so it can be run."""

    __slots__ = ()

    @property
    def deterministic(self) -> bool:
        """True if no decision depends on completion order or on the clock: one sequence on every runtime."""
        return self.node.deterministic

    def validate(self, *, saving: bool = False) -> None:
        """Raise ``PlanError`` if the plan cannot be run. ``run`` does this first.

        Args:
            saving: Raise also if it can be known now that its runs cannot be saved, ``run.save(path)``.
        """
        from tflow.combinators.validate import validate

        validate(self.node)
        if saving:
            from tflow.runtime.snapshot import check_savable

            check_savable(self.node)

    def run(
        self,
        *,
        runtime: Runtime | None = None,
        seed: int = 0,
        fuse: bool = True,
        resume: Resumable | None = None,
        record: str | PathLike[str] | None = None,
        trace: str | PathLike[str] | None = None,
    ) -> Run[T]:
        """Start a run: an iterator and context manager over the items. Nothing happens before the first item is asked for.

        Without ``runtime`` the run opens a local session of its own. ``fuse=False`` runs every operator by itself, which is
        slower and yields the same. ``resume`` is a checkpoint that a run of the same plan has written (``run.save(path)``): the
        run goes on from there, with the seed of that one. ``record`` is a file into which the run writes what a cluster decides,
        the order of answers above all: ``plan.run(runtime=ReplayRuntime(file))`` repeats it in this process, bit for bit.
        ``trace`` is a file for a trace that https://ui.perfetto.dev shows: who worked on what, when.

        Law: the same plan and seed on the local runtime yield the same items.
        """
        from tflow.runtime.executor import Run

        return Run(self, runtime=runtime, seed=seed, fuse=fuse, resume=resume, record=record, trace=trace)

    @overload
    def tapped(self, at: type[Op[Any, U, Any]], see: Callable[[U], object]) -> Self: ...  # Any: whatever it takes
    @overload
    def tapped(self, at: Named | str, see: Callable[[Any], object]) -> Self: ...  # Any: a name does not say what it yields
    def tapped(self, at: type | str, see: Callable[[Any], object]) -> Self:  # Any: as above
        """The same plan, with a function that looks at each item that some operator yields: a callback that the plan does not
        know of. ``at`` is the class of the operator, or its name as ``print(plan)`` and ``named`` show it.

        The function runs where the operator does; inside actors, it must be able to travel.

        Law: the plan yields what it would have; every item that the operator yields is seen once, in order.

        >>> from tflow import from_range
        >>> seen: list[int] = []
        >>> list(from_range(3).map(str).tapped("from_range", seen.append).run()), seen
        (['0', '1', '2'], [0, 1, 2])
        """
        from tflow.combinators.tapping import tapped

        return self._over(tapped(self.node, at, see))


class Plan(Runnable[T]):
    """A finished plan. It iterates, and nothing can be appended to it."""

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        return iter(self.run())
