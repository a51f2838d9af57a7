"""What editors ask for, answered from the last check."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path, PurePath
from urllib.parse import urldefrag

from lsprotocol import types
from pygls import uris

from tflow.checking.findings import Finding
from tflow.checking.lsp.hover import hover, law_called, page
from tflow.checking.lsp.server import TflowServer, span_of
from tflow.checking.lsp.views import FileView, Repair, Span

DRAW, LAW = "tflow.drawPlan", "tflow.openLaw"
DRAWING_S = 60


def initialize(ls: TflowServer, params: types.InitializeParams) -> None:
    folders = params.workspace_folders or []
    root = folders[0].uri if folders else params.root_uri
    path = uris.to_fs_path(root) if root else None
    ls.folder = Path(path) if path else ls.folder
    options = params.initialization_options
    ls.everything = bool(options.get("all")) if isinstance(options, dict) else False


def edited(
    ls: TflowServer,
    params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams | types.DidSaveTextDocumentParams,
) -> None:
    """Also when it is saved: others may read it from disk."""
    ls.changed()


def closed(ls: TflowServer, params: types.DidCloseTextDocumentParams) -> None:
    ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def hints(ls: TflowServer, params: types.InlayHintParams) -> list[types.InlayHint]:
    """The types of streams, at the ends of lines."""
    view = ls.view(params.text_document.uri)
    lines = range(params.range.start.line, params.range.end.line + 1)
    return [
        types.InlayHint(
            position=ls.position(view, (hint.line, hint.column)),
            label=hint.text,
            kind=types.InlayHintKind.Type,
            padding_left=True,
        )
        for hint in view.hints()
        if hint.line in lines
    ]


def hovered(ls: TflowServer, params: types.HoverParams) -> types.Hover | None:
    """All that is known of a stream."""
    view = ls.view(params.text_document.uri)
    stream = view.stream_at(ls.place(view, params.position))
    if stream is None:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, hover(view, stream))
    return types.Hover(content, ls.range(view, stream.span))


async def actions(ls: TflowServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """What could be done about the findings there."""
    await ls.settled()  # edits are for the text that was checked
    uri = params.text_document.uri
    view = ls.view(uri)
    asked = Span(ls.place(view, params.range.start), ls.place(view, params.range.end))
    found = [finding for finding in ls.shown(view) if span_of(finding).meets(asked)]
    return [action(ls, view, uri, finding, repair) for finding in found for repair in view.repairs_of(finding)]


def lenses(ls: TflowServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    """Above each function that makes a plan, or a part of one: draw it."""
    uri = params.text_document.uri
    view = ls.view(uri)
    return [
        types.CodeLens(
            range=ls.range(view, Span((each.line, 0), (each.line, 0))),
            command=types.Command("draw plan", DRAW, arguments=[uri, each.name, "svg"]),
        )
        for each in view.functions
    ]


async def draw(ls: TflowServer, uri: str, name: str, form: str) -> str | None:
    """``tflow.drawPlan``: draw the plan of a function with ``tflow graph``, in a process of its own, since that imports the file.
    Answers where the drawing is; None if there is none."""
    file, suffix = ls.file_of(uri), {"svg": ".svg", "mermaid": ".mmd"}.get(form)
    if suffix is None or not file:
        ls.fail(f"{DRAW}: expected a Python file, and svg or mermaid, got {uri} and {form!r}.")
        return None
    output = ls.folder / ".tflow_cache" / "drawings" / f"{PurePath(file).stem}-{name}{suffix}"
    output.parent.mkdir(parents=True, exist_ok=True)
    code = "from tflow.cli import main; main()"
    command = [sys.executable, "-c", code, "graph", f"{file}:{name}", "-o", str(output)]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=ls.folder, capture_output=True, text=True, timeout=DRAWING_S)  # noqa: S603  # our own

    try:
        done = await asyncio.to_thread(run)
    except subprocess.TimeoutExpired:
        ls.fail(f"{name} was not drawn within {DRAWING_S} s: does {file} train when it is imported?")
        return None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        message = said[-1] if said else "tflow graph said nothing"
        ls.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))
        return None
    if ls.workspace.get_text_document(uri).source != (ls.folder / file).read_text(encoding="utf-8"):
        sentence = f"{file} is drawn as it was saved last."
        ls.window_show_message(types.ShowMessageParams(types.MessageType.Info, sentence))
    return show(ls, output.as_uri())


def open_law(ls: TflowServer, name: str) -> str | None:
    """``tflow.openLaw``: where the law is."""
    law = law_called(name)
    if law is None:
        ls.fail(f"There is no law {name!r}.")
        return None
    return show(ls, page(law))


def make_server() -> TflowServer:
    """A server that answers all of these."""
    server = TflowServer()
    server.feature(types.INITIALIZE)(initialize)
    for change in (types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE, types.TEXT_DOCUMENT_DID_SAVE):
        server.feature(change)(edited)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(closed)
    server.feature(types.TEXT_DOCUMENT_INLAY_HINT)(hints)
    server.feature(types.TEXT_DOCUMENT_HOVER)(hovered)
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix]))(actions)
    server.feature(types.TEXT_DOCUMENT_CODE_LENS)(lenses)
    server.command(DRAW)(draw)
    server.command(LAW)(open_law)
    return server


def action(ls: TflowServer, view: FileView, uri: str, finding: Finding, repair: Repair) -> types.CodeAction:
    """An edit that an editor can make."""
    edits = [types.TextEdit(ls.range(view, change.span), change.text) for change in repair.changes]
    return types.CodeAction(
        title=repair.title,
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[ls.diagnostic(finding, view)],
        edit=types.WorkspaceEdit(changes={uri: edits}),
        is_preferred=repair is view.repairs_of(finding)[0],
    )


def show(ls: TflowServer, uri: str) -> str:
    """Open a document, if the editor can."""
    window = ls.client_capabilities.window
    bare, anchor = urldefrag(uri)
    line = int(anchor.removeprefix("L")) - 1 if anchor else 0
    if window is not None and window.show_document is not None and window.show_document.support:
        there = types.Range(types.Position(line, 0), types.Position(line, 0)) if anchor else None
        external = bare.endswith(".svg")
        ls.window_show_document(types.ShowDocumentParams(bare, external=external, take_focus=True, selection=there))
    return uri
