"""The documentation site: built strictly, complete, and nothing in it is loaded from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest

from docs.pypi_readme import text
from tflow.mypy_plugin.codes import TITLES
from tflow.mypy_plugin.public import names_in, namespaces, root_names

ROOT = Path(__file__).parent.parent
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"((?:https?:)?//[^\"]+)\"")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` does: a warning, such as a link that leads nowhere, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]  # --quiet would ignore warnings
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_has_every_page_name_rule_and_law(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix(".html")
        built = site / (place.with_name("index.html") if place.name == "README.html" else place)
        assert "<h1" in built.read_text(), page
    for rule in TITLES:
        assert (site / "rules" / f"{rule.removeprefix('tflow-')}.html").is_file()
    for namespace in ("tflow", *namespaces()):
        names = root_names() if namespace == "tflow" else names_in(namespace)
        shown = (site / "reference" / f"{namespace}.html").read_text()
        assert set(names) <= set(re.findall(r'<h2 id="tflow\.[\w.]*?(\w+)"', shown)), namespace
    described = re.sub(r"<[^>]+>", "", (site / "reference" / "tflow.html").read_text())
    assert "Describe a learner in an actor of its own" in described
    assert re.search(r"evaluate\(\s*policy: Policy", described), "signatures are shown"
    source = (site / "source" / "tflow" / "algos" / "ppo.py.html").read_text()
    assert "class PPO(" in re.sub(r"<[^>]+>", "", source)


def test_bars_in_the_code_of_tables_have_no_backslash(site: Path) -> None:
    shown = {page: re.findall(r"<td[^>]*>.*?</td>", page.read_text(), re.DOTALL) for page in site.rglob("*.html")}
    assert any("local|ray" in cell for cell in shown[site / "command_line.html"])
    assert {page.name for page, cells in shown.items() if any("\\|" in cell for cell in cells)} == set()


def test_only_what_is_shown_is_in_it(site: Path) -> None:
    assert (ROOT / "docs" / "__pycache__").is_dir(), "its hooks were imported"
    assert [path for path in site.rglob("*") if "__pycache__" in path.parts or path.suffix in (".py", ".pyc")] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = {url for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())}
    assert found == set()
    pictures = [*site.rglob("*.svg"), *site.rglob("*.css")]
    assert len(pictures) > 5
    for file in pictures:
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", file.read_text()), file


def test_what_pypi_shows_has_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    """In the wheel as it is built, whose text PyPI takes."""
    readme = text((ROOT / "README.md").read_text())
    assert re.findall(r"\]\((?!https?:)", readme) == []
    assert "pip install tflow" in readme
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as opened:
        (metadata,) = [name for name in opened.namelist() if name.endswith("METADATA")]
        said = message_from_string(opened.read(metadata).decode())
        assert {"tflow/py.typed", "tflow/scaffold/project/.github/workflows/test.yml.template"} <= set(opened.namelist())
    assert said["Description-Content-Type"] == "text/markdown"
    assert str(said.get_payload()).strip() == readme.strip()
    assert "Programming Language :: Python :: 3.13" in (said.get_all("Classifier") or [])
