"""What mkdocs shows beyond ``docs/*.md``: a reference from docstrings, the pages of rules, and the sources that pages link to.

The pages stay plain Markdown, which links to files of the repository. On the site, links that leave ``docs/`` lead to copies.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tflow.mypy_plugin.codes import TITLES
from tflow.mypy_plugin.public import names_in, namespaces, root_names

ROOT = Path(__file__).parent.parent
RULES = ROOT / "tflow" / "checking" / "pages"
LINK = re.compile(r"(?<!`)(\[[^\]]*\])\(((?!https?:|#)[^)#\s]+)(#[^)\s]*)?\)")
CELLS = re.compile(r"^\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
DIRECTIVE = (
    "::: {home}.{name}\n    options:\n      show_root_heading: true\n      show_root_full_path: false\n      heading_level: 2\n"
)
MOVED = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "tests/README.md": "tests.md",
}
"""Pages of the repository, and what they are called on the site."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made here."""
    for place, text in sorted(made(files).items()):
        files.append(File.generated(config, place, content=text))
    return files


def made(files: Files) -> dict[str, str]:
    """Pages by their place."""
    pages = {new: (ROOT / old).read_text(encoding="utf-8") for old, new in MOVED.items()}
    pages |= {f"rules/{path.name}": path.read_text(encoding="utf-8") for path in RULES.glob("*.md")}
    rows = [f"| [{code}]({code.removeprefix('tflow-')}.md) | {title} |" for code, title in TITLES.items()]
    pages["rules/index.md"] = "# Rules\n\nWhat `tflow check` and the mypy plugin find.\n\n| rule | |\n|---|---|\n" + "\n".join(
        rows
    )
    pages |= {f"reference/{name}.md": reference(name) for name in ("tflow", *namespaces())}
    pages["reference/index.md"] = "# Reference\n\n" + "\n".join(
        f"- [`{'tflow' if name == 'tflow' else f'tflow.{name}'}`]({name}.md)" for name in ("tflow", *namespaces())
    )
    sources = {
        target
        for file in files.documentation_pages()
        for target in outside(Path(file.abs_src_path or "").read_text(encoding="utf-8"), posixpath.join("docs", file.src_uri))
    }
    sources |= {target for old in MOVED for target in outside((ROOT / old).read_text(encoding="utf-8"), old)}
    for target in sources - MOVED.keys():
        path = ROOT / target
        if path.is_file() and not target.startswith("docs/"):
            kind = {".py": "python", ".toml": "toml"}.get(path.suffix, "")
            pages[f"source/{target}.md"] = f"# {target}\n\n````{kind}\n{path.read_text(encoding='utf-8')}````\n"
    return pages


def reference(namespace: str) -> str:
    """The names of a namespace with what their docstrings say."""
    place, names = ("tflow", root_names()) if namespace == "tflow" else (f"tflow.{namespace}", names_in(namespace))
    shown = [DIRECTIVE.format(home=home, name=name) for name, home in sorted(names.items(), key=lambda each: each[0].lower())]
    return "\n".join([f"# {place}\n\n`from {place} import NAME`, where NAME is:\n", *shown])


def outside(text: str, page: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    for _, target, _ in LINK.findall(text):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def in_tables(markdown: str) -> str:
    """Pages escape a bar in the code of a table, as GitHub needs it; here it would be shown with its backslash."""
    return CELLS.sub(lambda row: CODE.sub(lambda code: code.group().replace("\\|", "|"), row.group()), markdown)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that leave ``docs/`` lead to the copies here."""
    markdown = in_tables(markdown)
    here = page.file.src_uri
    old = next((old for old, new in MOVED.items() if new == here), posixpath.join("docs", here))
    if here.startswith(("rules/", "reference/", "source/")):
        return markdown

    def linked(found: re.Match[str]) -> str:
        label, target, anchor = found.group(1), found.group(2), found.group(3) or ""
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(old), target))
        if wanted in MOVED:
            place = MOVED[wanted]
        elif wanted.startswith("tflow/checking/pages/"):
            place = f"rules/{posixpath.basename(wanted)}"
        else:
            place = wanted.removeprefix("docs/") if wanted.startswith("docs/") else f"source/{wanted}.md"
        if files.get_file_from_path(place) is None:
            return label[1:-1]  # a folder, which is not shown
        return f"{label}({posixpath.relpath(place, posixpath.dirname(here) or '.')}{anchor})"

    return LINK.sub(linked, markdown)
