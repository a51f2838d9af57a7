"""The server behind what editors ask for: it checks after each pause in typing, and keeps the answers."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Mapping
from pathlib import Path, PurePath

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from tflow.checking.findings import SYNTAX, Finding
from tflow.checking.lsp.session import Session
from tflow.checking.lsp.views import FileView, Place, Span
from tflow.checking.pages import pages
from tflow.errors import TflowError

PAUSE_S = 0.15
"""Typing has paused when nothing has changed for so long."""


class TflowServer(LanguageServer):
    """One editor, one folder."""

    def __init__(self) -> None:
        from tflow import __version__

        super().__init__("tflow", __version__)
        self.folder = Path.cwd()
        self.everything = False
        self.session: Session | None = None
        self.changes = 0
        self.checking: asyncio.Task[None] | None = None
        self.said: set[str] = set()
        """Failures that the user has been told of."""

    # ------------------------------------------------------------------- checks

    def changed(self) -> None:
        """Something has changed: check when it stops changing."""
        self.changes += 1
        if self.checking is None or self.checking.done():
            self.checking = asyncio.get_running_loop().create_task(self.check_in_turns())

    async def check_in_turns(self) -> None:
        checked = -1
        while checked != self.changes:
            checked = self.changes
            await asyncio.sleep(PAUSE_S)
            if checked == self.changes:
                await self.check()

    async def settled(self) -> None:
        """Wait until what is open has been checked."""
        if self.checking is not None:
            await asyncio.wait([self.checking])

    async def check(self) -> None:
        texts = {file: document.source for file, document in self.documents().items()}
        if not texts:
            return
        try:
            if self.session is None:
                self.session = Session(self.folder, everything=self.everything)
            views = await asyncio.to_thread(self.session.check, texts)
        except TflowError as error:
            self.fail(str(error))
        except Exception:  # whatever it is, the editor goes on
            self.fail(f"tflow lsp has a fault: {traceback.format_exc()}")
        else:
            self.publish(views)

    def fail(self, sentence: str) -> None:
        """Tell the user, once."""
        if sentence not in self.said:
            self.said.add(sentence)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, sentence))

    def publish(self, views: Mapping[str, FileView]) -> None:
        for file, document in self.documents().items():
            view = views.get(file)
            if view is not None and view.text == document.source:  # otherwise, a newer one follows
                found = [self.diagnostic(each, view) for each in self.shown(view)]
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, found, document.version))
        workspace = self.client_capabilities.workspace
        if workspace is not None and workspace.inlay_hint is not None and workspace.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)
        if workspace is not None and workspace.code_lens is not None and workspace.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def shown(self, view: FileView) -> list[Finding]:
        broken = [view.broken] if view.broken is not None and self.everything else []
        return [*broken, *view.shown(everything=self.everything)]

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    # ------------------------------------------------------------------- files and places

    def documents(self) -> dict[str, TextDocument]:
        """The Python files that are open, by their paths from the folder."""
        return {file: each for each in self.workspace.text_documents.values() if (file := self.file_of(each.uri))}

    def file_of(self, uri: str) -> str:
        """The path of a file from the folder; empty for what is no Python file."""
        path = uris.to_fs_path(uri) if uri.startswith("file:") else None
        if path is None or not path.endswith(".py"):
            return ""
        return PurePath(os.path.relpath(path, self.folder)).as_posix()

    def view(self, uri: str) -> FileView:
        """What is known of a file, for the text that it has now; nothing before it was checked."""
        found = self.session.views.get(self.file_of(uri)) if self.session is not None else None
        return (found or FileView()).moved_to(self.workspace.get_text_document(uri).source)

    def position(self, view: FileView, place: Place) -> types.Position:
        """A place as the editor counts: characters are one or two units."""
        codec = self.workspace.position_codec
        line, column = place
        text = view.lines[line] if line < len(view.lines) else ""
        return types.Position(line, codec.client_num_units(text[:column]))

    def place(self, view: FileView, position: types.Position) -> Place:
        found = self.workspace.position_codec.position_from_client_units(view.lines, position)
        return found.line, found.character

    def range(self, view: FileView, span: Span) -> types.Range:
        return types.Range(self.position(view, span.start), self.position(view, span.end))

    def diagnostic(self, finding: Finding, view: FileView) -> types.Diagnostic:
        return types.Diagnostic(
            range=self.range(view, span_of(finding)),
            message=finding.in_full,
            severity=types.DiagnosticSeverity.Error,
            code=finding.code,
            code_description=described(finding.code),
            source="tflow",
        )


def span_of(finding: Finding) -> Span:
    return Span((finding.line - 1, finding.column - 1), (finding.end_line - 1, finding.end_column - 1))


def described(code: str) -> types.CodeDescription | None:
    """The page of a rule."""
    if code == SYNTAX or code not in pages():
        return None
    file = Path(__file__).parents[1] / "pages" / f"{code.removeprefix('tflow-')}.md"
    return types.CodeDescription(file.as_uri())
