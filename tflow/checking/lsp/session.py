"""Checks the files that are open in an editor, as they are there, and keeps what is known of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tflow.checking.config import settings
from tflow.checking.engine import confirmed
from tflow.checking.findings import SYNTAX, Finding
from tflow.checking.lsp.views import FileView, view_of
from tflow.checking.places import Sources
from tflow.checking.resident import Checked, ResidentEngine


class Session:
    """One folder. ``everything`` shows all that ``tflow check`` shows, instead of what is ours alone."""

    def __init__(self, folder: Path, *, everything: bool = False) -> None:
        self.folder, self.everything = folder, everything
        self.project = settings(folder)
        self.engine = ResidentEngine(folder, skip=self.project.skip)
        self.strict = ResidentEngine(folder, skip=self.project.skip, redefine=False) if everything else None
        self.views: dict[str, FileView] = {}
        """By file, named from the folder."""
        self.known: dict[str, None] = {}
        """Files that were open once, or are imported by such: changes there matter, too."""

    def check(self, texts: Mapping[str, str]) -> dict[str, FileView]:
        """What is known of the files that are open now, after a check of these texts."""
        self.known = {file: None for file in self.known if file in texts or (self.folder / file).exists()}
        self.known |= dict.fromkeys(texts)
        files = list(self.known)
        checked = self.engine.checked(files, texts, list(texts))
        self.known |= dict.fromkeys(checked.known)
        broken = [each for each in checked.findings if each.code == SYNTAX]
        found = self.confirmed(checked, files, texts)
        self.views = {file: self.view(file, text, found, broken, checked) for file, text in texts.items()}
        return self.views

    def confirmed(self, checked: Checked, files: list[str], texts: Mapping[str, str]) -> list[Finding]:
        found = [each for each in checked.findings if each.code != SYNTAX and each.code not in self.project.disable]
        strict = self.strict
        if strict is None:
            return found
        return confirmed(found, lambda _: strict.checked(files, texts).findings, Sources(self.folder, texts))

    def view(self, file: str, text: str, found: list[Finding], broken: list[Finding], checked: Checked) -> FileView:
        """Where there is a syntax error, mypy says nothing else: what was known before holds then, as far as it can."""
        if broken:
            here = next((each for each in broken if each.file == file), None)
            return replace(self.views.get(file, FileView()).moved_to(text), broken=here)
        return view_of(text, [each for each in found if each.file == file], checked.records.get(file, {}))

    def close(self) -> None:
        self.engine.close()
        if self.strict is not None:
            self.strict.close()
