"""The server as editors talk to it: a process, over its standard input and output."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient

from tests.checking.lsp.support import A3C, IMPORTS
from tests.checking.support import SCRIPT
from tflow.checking.engine import CACHE
from tflow.checking.lsp.session import Session

LIMIT_S = 120  # for machines that are busy; nothing waits that long when all is well
SERVER = ClientServerConfig(server_command=[sys.executable, str(SCRIPT), "lsp"])
shared = pytest.mark.asyncio(loop_scope="module")
WRONG = A3C.replace("gather_async()", "gather_async(in_flight=-1)")
TWICE = IMPORTS + (
    "@flow\ndef scores(rewards: Iter[float]) -> Iter[float]:\n"
    '    "😀"; doubled = rewards.map(abs)\n    "😀"; clipped = rewards.filter(bool)\n    return Union(doubled, clipped)\n'
)


class Editor:
    """A file in an editor."""

    def __init__(self, client: LanguageClient, folder: Path, name: str = "plan.py") -> None:
        self.client, self.folder, self.version = client, folder, 0
        self.uri = (folder / name).as_uri()
        self.text = types.TextDocumentIdentifier(self.uri)

    async def type(self, text: str) -> list[types.Diagnostic]:
        """What is shown after the whole text has become another."""
        self.version += 1
        checked = self.checked()
        await asyncio.sleep(0)  # so that it waits before anything is sent
        if self.version == 1:
            item = types.TextDocumentItem(self.uri, types.LanguageKind.Python, self.version, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        else:
            document = types.VersionedTextDocumentIdentifier(self.version, self.uri)
            whole = [types.TextDocumentContentChangeWholeDocument(text)]
            self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, whole))
        async with asyncio.timeout(LIMIT_S):
            while ((shown := await checked).uri, shown.version) != (self.uri, self.version):
                checked = self.checked()
        return list(shown.diagnostics)

    def checked(self) -> asyncio.Future[types.PublishDiagnosticsParams]:
        """What the server shows next."""
        return asyncio.ensure_future(self.client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS))

    async def actions(self, at: types.Range) -> list[types.CodeAction]:
        context = types.CodeActionContext(diagnostics=[])
        found = await self.client.text_document_code_action_async(types.CodeActionParams(self.text, at, context))
        return [each for each in found or [] if isinstance(each, types.CodeAction)]

    async def close(self) -> None:
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(self.text))


async def start(client: LanguageClient, folder: Path, **options: bool) -> None:
    window = types.WindowClientCapabilities(show_document=types.ShowDocumentClientCapabilities(support=True))
    capabilities = types.ClientCapabilities(window=window)
    await client.initialize_session(
        types.InitializeParams(capabilities=capabilities, root_uri=folder.as_uri(), initialization_options=options)
    )


@pytest.fixture(scope="module")
def project(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    session.check({"plan.py": ""})
    made = tmp_path_factory.mktemp("server") / "project"
    shutil.copytree(session.folder / CACHE / "resident", made / CACHE / "resident")
    return made


@pytest_lsp.fixture(config=SERVER, scope="module")  # type: ignore[untyped-decorator]  # without types of its own
async def client(lsp_client: LanguageClient, project: Path) -> AsyncIterator[None]:
    await start(lsp_client, project)
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def editor(client: LanguageClient, project: Path, request: pytest.FixtureRequest) -> Editor:
    return Editor(client, project, f"{request.node.originalname}.py")


# ------------------------------------------------------------------- what is shown


@shared
async def test_diagnostics_come_while_it_is_typed_and_nothing_is_saved(editor: Editor) -> None:
    (found,) = await editor.type(WRONG)
    assert (found.source, found.code, found.severity) == ("tflow", "tflow-literal", types.DiagnosticSeverity.Error)
    assert WRONG.splitlines()[found.range.start.line].strip() == ".gather_async(in_flight=-1)"
    assert found.code_description is not None
    assert Path(found.code_description.href.removeprefix("file://")).read_text().startswith("# tflow-literal")
    assert await editor.type(A3C) == []
    assert not (editor.folder / Path(editor.uri).name).exists()
    await editor.close()


@shared
async def test_other_errors_and_half_typed_code_are_left_to_others(editor: Editor) -> None:
    assert await editor.type("x: int = ''\n" + A3C) == []
    assert await editor.type("x = (\n" + A3C) == []
    await editor.close()


@shared
async def test_hints_hover_and_lenses(editor: Editor) -> None:
    await editor.type(A3C)
    lines = A3C.splitlines()
    everything = types.Range(types.Position(0, 0), types.Position(len(lines), 0))
    hints = await editor.client.text_document_inlay_hint_async(types.InlayHintParams(editor.text, everything)) or []
    assert "Iter[Gradients] · driver · async" in [hint.label for hint in hints]
    (gathered,) = [hint for hint in hints if hint.label == "Iter[Gradients] · driver · async"]
    assert lines[gathered.position.line][: gathered.position.character] == "        .gather_async()"
    one = types.Range(gathered.position, gathered.position)
    (again,) = await editor.client.text_document_inlay_hint_async(types.InlayHintParams(editor.text, one)) or []
    assert again == gathered
    place = types.Position(gathered.position.line, 12)
    hover = await editor.client.text_document_hover_async(types.HoverParams(editor.text, place))
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert "**`Iter[Gradients]`**" in hover.contents.value
    nothing = types.HoverParams(editor.text, types.Position(0, 0))
    assert await editor.client.text_document_hover_async(nothing) is None
    (lens,) = await editor.client.text_document_code_lens_async(types.CodeLensParams(editor.text)) or []
    assert lens.command is not None
    assert lines[lens.range.start.line] == "def a3c() -> Plan[Metrics]:"
    assert (lens.command.title, lens.command.command) == ("draw plan", "tflow.drawPlan")
    await editor.close()


@shared
async def test_an_action_counts_as_editors_do(editor: Editor) -> None:
    """In two units for letters beyond the first 65,536."""
    (found,) = await editor.type(TWICE)
    assert found.range.start.character == len('    "😀"; clipped = ') + 1
    (action,) = await editor.actions(found.range)
    assert action.title == "Split rewards for both"
    assert list(action.diagnostics or []) == [found]
    assert action.edit is not None
    assert action.edit.changes is not None
    assert await editor.type(edited(TWICE, action.edit.changes[editor.uri])) == []
    await editor.close()


def edited(text: str, edits: Sequence[types.TextEdit]) -> str:
    lines = [line.encode("utf-16-le") for line in text.splitlines(keepends=True)]
    for edit in sorted(edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True):
        start, end = edit.range.start, edit.range.end
        assert start.line == end.line
        line = lines[start.line]
        lines[start.line] = line[: 2 * start.character] + edit.new_text.encode("utf-16-le") + line[2 * end.character :]
    return b"".join(lines).decode("utf-16-le")


# ------------------------------------------------------------------- commands


@shared
async def test_a_plan_is_drawn_as_it_was_saved(editor: Editor) -> None:
    await editor.type(A3C)
    Path(editor.uri.removeprefix("file://")).write_text(A3C.replace("a3c()", "saved()"))
    arguments: list[object] = [editor.uri, "saved", "svg"]
    where = await editor.client.workspace_execute_command_async(types.ExecuteCommandParams("tflow.drawPlan", arguments=arguments))
    assert isinstance(where, str)
    assert Path(where.removeprefix("file://")).read_text().startswith("<svg")
    assert editor.client.shown_documents[-1].uri == where
    assert editor.client.messages[-1].message.endswith("is drawn as it was saved last.")
    wrong = types.ExecuteCommandParams("tflow.drawPlan", arguments=[editor.uri, "nobody", "mermaid"])
    assert await editor.client.workspace_execute_command_async(wrong) is None
    assert "nobody" in editor.client.messages[-1].message
    await editor.close()


@shared
async def test_the_way_to_a_law(client: LanguageClient) -> None:
    where = await client.workspace_execute_command_async(types.ExecuteCommandParams("tflow.openLaw", arguments=["freshness"]))
    assert "reshness" in Path(str(where).removeprefix("file://").partition("#")[0]).read_text()
    assert client.shown_documents[-1].uri == str(where).partition("#")[0]
    assert await client.workspace_execute_command_async(types.ExecuteCommandParams("tflow.openLaw", arguments=["no"])) is None
    assert client.messages[-1].message == "There is no law 'no'."


# ------------------------------------------------------------------- other servers


@pytest_lsp.fixture(config=SERVER)  # type: ignore[untyped-decorator]  # without types of its own
async def second(lsp_client: LanguageClient) -> AsyncIterator[None]:
    yield
    await lsp_client.shutdown_session()


@pytest.mark.asyncio
async def test_everything_is_shown_if_it_is_asked_for(second: LanguageClient, folder: Path) -> None:
    await start(second, folder, all=True)
    editor = Editor(second, folder, "everything.py")
    (found,) = await editor.type(A3C + "x = (\n")
    assert (found.code, found.source) == ("syntax", "tflow")


@pytest.mark.asyncio
async def test_a_failure_is_told_once(second: LanguageClient, tmp_path: Path) -> None:
    (tmp_path / CACHE).write_text("a file, where a folder is needed")
    await start(second, tmp_path)
    editor = Editor(second, tmp_path)
    for text in (A3C, WRONG, A3C):
        editor.version += 1
        item = types.TextDocumentItem(editor.uri, types.LanguageKind.Python, editor.version, text)
        second.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await editor.actions(types.Range(types.Position(0, 0), types.Position(0, 0)))  # waits for the check
    assert len(second.messages) == 1
    assert second.messages[0].message.startswith(".tflow_cache is where findings are remembered, and it cannot be written")
