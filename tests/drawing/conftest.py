"""One run of mypy for all tests of drawings: over ``plans.py``, what it imports, and the plans of the slides."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from mypy.nodes import CallExpr, Decorator, FuncDef, LambdaExpr, MemberExpr, Node

from tflow.drawing.model import Graph
from tflow.drawing.shown import shown
from tflow.drawing.static.build import checked
from tflow.drawing.static.read import candidates, drawn
from tflow.drawing.static.reader import World
from tflow.drawing.static.source import parts

HERE = Path(__file__).parent
PLANS = HERE / "plans.py"
SLIDES = HERE.parent / "types" / "corpus" / "rl_good.py"
Draw = Callable[..., Graph]


@pytest.fixture(scope="session")
def types_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where types of imported modules are kept: never those of the user who runs the tests."""
    return tmp_path_factory.mktemp("types")


@dataclass(frozen=True)
class Drawings:
    """Everything that can be drawn, drawn at once: what mypy knows is good until its next run in the same process."""

    graphs: dict[tuple[str, bool, bool], Graph]
    """By name, whether it is expanded, and whether it is one of the slides."""
    types: dict[str, str]
    """How the types of the parameters of ``every_type`` are shown."""
    lost: list[str] = field(default_factory=list)
    """Streams that a function makes in a line for which there is no node."""
    calls: int = 0
    """How many calls were looked at for that."""


@pytest.fixture(scope="session")
def drawings(types_cache: Path) -> Drawings:
    atexit.register(gc.freeze)  # otherwise the end of the process is spent on what mypy leaves behind
    others = {"tests.drawing.parts": str(HERE / "parts.py"), "rl_good": str(SLIDES)}
    found = checked(PLANS, others, types_cache / "mypy")
    errors = [line for line in found.errors if "[tflow-" not in line]  # some plans break rules on purpose
    assert errors == [], "plans.py is well typed"
    made = Drawings({}, {})
    for slides, path in ((False, PLANS), (True, SLIDES)):
        chosen = replace(found, main="rl_good") if slides else found
        for each in candidates(World(found.program), found.program.modules[chosen.main]):
            for expand in (False, True) if each.makes_streams or each.name == "untyped" else ():
                made.graphs[each.name, expand, slides] = drawn(chosen, path, each.name, expand)
            if each.function is not None and each.name == "every_type":
                made.types.update({one.variable.name: shown(one.variable.type) for one in each.function.arguments})
            if each.function is not None and each.makes_streams:
                lines = {node.line for node in made.graphs[each.name, False, slides].nodes}
                for call in calls_in(each.function.body):
                    if found.program.is_stream(call):
                        made = replace(made, calls=made.calls + 1)
                        if call.callee.end_line not in lines:
                            made.lost.append(f"{each.name}, line {call.callee.end_line}")
    assert found.program.wanted == set(), "every module that is needed is there"
    return made


def calls_in(node: Node) -> Iterator[CallExpr]:
    """The calls that a function makes itself: not those in functions inside it, and none that only say a type or a name."""
    for part in parts(node):
        names = isinstance(part, CallExpr) and isinstance(part.callee, MemberExpr) and part.callee.name == "named"
        if isinstance(part, CallExpr) and part.analyzed is None and not names:
            yield part
        if not isinstance(part, (FuncDef, Decorator, LambdaExpr)):
            yield from calls_in(part)


@pytest.fixture
def draw(drawings: Drawings) -> Draw:
    """``draw(name)``: the graph of something in ``plans.py``; with ``slides=True``, of a plan of the slides."""

    def drawing(name: str, *, expand: bool = False, slides: bool = False) -> Graph:
        return drawings.graphs[name, expand, slides]

    return drawing
