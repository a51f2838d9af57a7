"""Types in messages are shown as people write them."""

from __future__ import annotations

import atexit
import gc
from pathlib import Path

import mypy.build
from mypy.modulefinder import BuildSource
from mypy.nodes import FuncDef
from mypy.options import Options

from tflow.mypy_plugin.shown_types import shown

SOURCE = """
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar
from tflow import Batch, Gradients, Iter, ParallelRollouts, ParIter, Plan, ReportMetrics, Rollout, Union
from tflow.data import MultiBatch
from tflow.rl.data.arrays import Array
from tflow.rl.data.batch import AnyBatch, Sampled
from tflow.rl.learning.losses import Replayed, ReplayedColumns
from tflow.types import Async, Sync

Score = Literal["low", "high"]
T = TypeVar("T")

class Parts(NamedTuple):
    x: int

def every_type({parameters}) -> None: ...
"""
TYPES = {
    "int | None": "int | None",
    "tuple[int, ...]": "tuple[int, ...]",
    "tuple[int, str]": "tuple[int, str]",
    "Rollout": "Rollout",
    "Batch[Sampled | Literal['advantages', 'returns']]": "Rollout+advantages+returns",
    "Replayed": "Replayed",
    "Batch[Literal['rewards', 'values']]": "Batch[rewards, values]",
    "AnyBatch": "AnyBatch",
    "Batch[str]": "Batch[str]",
    "MultiBatch[Sampled, Literal['PPO', 'DQN']]": "MultiBatch[PPO, DQN]",
    "MultiBatch[ReplayedColumns, Literal['PPO']]": "MultiBatch[Replayed: PPO]",
    "MultiBatch[Sampled, str]": "MultiBatch[str]",
    "Literal['a', 'b', None]": "Literal['a', 'b'] | None",
    "Sampled": "Sampled",
    "Literal['obs', 'actions', 'rewards', 'terminated', 'truncated', 't', 'logp', 'values']": "Sampled",
    "Iter[list[Rollout]]": "Iter[list[Rollout], Async]",
    "Iter[Rollout, Sync]": "Iter[Rollout, Sync]",
    "ParIter[Rollout]": "ParIter[Rollout]",
    "ParIter[Rollout, Async]": "ParIter[Rollout, Async]",
    "Union[int | str]": "Iter[int | str, Async]",
    "ParallelRollouts[Rollout]": "ParIter[Rollout]",
    "ReportMetrics": "Plan[Metrics]",
    "Plan[Gradients]": "Plan[Gradients]",
    "Callable[[int, str], list[int]]": "(int, str) -> list[int]",
    "Callable[[int], int] | int": "((int) -> int) | int",
    "Callable[..., object]": "(...) -> object",
    "type[Rollout]": "type[Rollout]",
    "Array": "ndarray",
    "Parts": "Parts",
    "Score": "Score",
    "Any": "Any",
    "dict[str, list[Iter[int]]]": "dict[str, list[Iter[int, Async]]]",
    "T": "T",
    "list[T]": "list[T]",
}


def test_types_are_shown_as_people_write_them(tmp_path: Path) -> None:
    atexit.register(gc.freeze)  # otherwise the end of the process is spent on what mypy leaves behind
    parameters = ", ".join(f"p{index}: {written}" for index, written in enumerate(TYPES))
    options = Options()
    options.cache_dir = str(tmp_path)
    heavy = ("torch", "torch.*", "gymnasium", "gymnasium.*", "ray", "ray.*")  # no type below comes from them
    options.per_module_options = {name: {"follow_imports": "skip"} for name in heavy}
    found = mypy.build.build([BuildSource(None, "shown_here", SOURCE.format(parameters=parameters))], options)
    assert [line for line in found.errors if "shown_here" in line or "<string>" in line] == []
    function = found.files["shown_here"].names["every_type"].node
    assert isinstance(function, FuncDef)
    made = dict(zip(TYPES, (shown(each.variable.type) for each in function.arguments), strict=True))
    assert made == TYPES
