"""The two verdicts on plans as source: of the checker, and of building and validating them."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.types.agreement.drafts import Draft
from tflow import PlanError
from tflow.checking.engine import Engine
from tflow.checking.findings import Finding
from tflow.combinators.runnable import Runnable

HERE = Path(__file__).parent
PRELUDE = (HERE / "prelude.txt").read_text()


@dataclass(frozen=True)
class Verdict:
    """What the two say of one plan; empty: nothing is wrong."""

    draft: Draft
    source: str
    static: tuple[Finding, ...]
    built: str

    @property
    def agreed(self) -> bool:
        return bool(self.static) == bool(self.built)

    def __str__(self) -> str:
        said = [f"  {each.code}: {each.message}" for each in self.static] or ["  nothing"]
        built = ["validation says", f"  {self.built or 'nothing'}", f"the mistake is: {self.draft.mistake or 'none'}"]
        return "\n".join([self.source, "the checker says", *said, *built])


def verdicts(drafts: Sequence[Draft], folder: Path) -> list[Verdict]:
    """Write plans into one file, check it, and build each of them."""
    shutil.copy(HERE / "world.py", folder / "world.py")
    texts = [draft.source(f"plan{index}") for index, draft in enumerate(drafts)]
    lines, starts = PRELUDE.count("\n") + 1, list[int]()
    for text in texts:
        starts.append(lines)
        lines += text.count("\n") + 2
    file = folder / "plans.py"
    file.write_text(PRELUDE + "\n".join(f"{text}\n" for text in texts))
    with Engine(folder) as engine:
        findings = engine.check([file.name])
    built = run(file, len(drafts))
    found: list[list[Finding]] = [[] for _ in drafts]
    for each in findings:
        found[max(index for index, start in enumerate(starts) if start <= each.line)].append(each)
    return [Verdict(*each) for each in zip(drafts, texts, map(tuple, found), built, strict=True)]


def run(file: Path, count: int) -> list[str]:
    """The sentence with which each plan is refused."""
    sys.path.insert(0, str(file.parent))
    try:
        spec = importlib.util.spec_from_file_location("plans", file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules["plans"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return [refused(module, f"plan{index}") for index in range(count)]
    finally:
        sys.path.remove(str(file.parent))
        for name in ("plans", "world"):
            sys.modules.pop(name, None)


def refused(module: ModuleType, name: str) -> str:
    try:
        made = getattr(module, name)()
        assert isinstance(made, Runnable), f"{name} made {made!r}"
        made.validate()
    except PlanError as error:
        return str(error)
    except Exception as error:  # such as an AttributeError of a method that is not there
        return f"{type(error).__name__}: {error}"
    return ""
