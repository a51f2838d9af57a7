"""Reading all of tflow for the first time takes seconds. One session pays for it; servers get a copy of its cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tflow.checking.engine import CACHE
from tflow.checking.lsp.session import Session
from tflow.checking.lsp.views import FileView

CACHES = ("resident", "resident-strict")
Check = Callable[[str], FileView]


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = Session(tmp_path_factory.mktemp("session"))
    yield made
    made.close()


@pytest.fixture
def check(session: Session) -> Check:
    """Check a text that is nowhere on disk."""
    return lambda text: session.check({"plan.py": text})["plan.py"]


@pytest.fixture
def folder(session: Session, tmp_path: Path) -> Path:
    """An empty folder where a server starts quickly."""
    session.check({"plan.py": ""})
    made = tmp_path / "project"
    shutil.copytree(session.folder / CACHE / "resident", made / CACHE / "resident")
    return made
