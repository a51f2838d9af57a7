"""One run of mypy for all tests of drawings: over ``plans.py``, what it imports, and the plans of the slides."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tflow.drawing.model import Graph
from tflow.drawing.shown import shown
from tflow.drawing.static.build import checked
from tflow.drawing.static.read import candidates, drawn
from tflow.drawing.static.reader import World

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


@pytest.fixture(scope="session")
def drawings(types_cache: Path) -> Drawings:
    atexit.register(gc.freeze)  # otherwise the end of the process is spent on what mypy leaves behind
    others = {"tests.drawing.parts": str(HERE / "parts.py"), "rl_good": str(SLIDES)}
    found = checked(PLANS, others, types_cache / "mypy")
    assert found.errors == [], "plans.py is well typed"
    made = Drawings({}, {})
    for slides, path in ((False, PLANS), (True, SLIDES)):
        chosen = replace(found, main="rl_good") if slides else found
        for each in candidates(World(found.program), found.program.modules[chosen.main]):
            for expand in (False, True) if each.makes_streams or each.name == "untyped" else ():
                made.graphs[each.name, expand, slides] = drawn(chosen, path, each.name, expand)
            if each.function is not None and each.name == "every_type":
                made.types.update({one.variable.name: shown(one.variable.type) for one in each.function.arguments})
    assert found.program.wanted == set(), "every module that is needed is there"
    return made


@pytest.fixture
def draw(drawings: Drawings) -> Draw:
    """``draw(name)``: the graph of something in ``plans.py``; with ``slides=True``, of a plan of the slides."""

    def drawing(name: str, *, expand: bool = False, slides: bool = False) -> Graph:
        return drawings.graphs[name, expand, slides]

    return drawing
