"""An editor, as far as a language server can tell: asks what it would show when the mouse rests on a place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SERVER = Path(sys.executable).parent / "basedpyright-langserver"


class Editor:
    """A session with a language server over one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        self.server = subprocess.Popen(
            [str(SERVER), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        folders = [{"uri": folder.as_uri(), "name": folder.name}]
        self.ask(
            "initialize",
            {"processId": None, "workspaceFolders": folders, "capabilities": {"workspace": {"workspaceFolders": True}}},
        )
        self.tell("initialized", {})

    def hover(self, path: Path, place: str) -> str:
        """What is shown for the first character of ``place`` in a file."""
        text = path.read_text()
        before = text[: text.index(place)]
        at = {"line": before.count("\n"), "character": len(before.rpartition("\n")[2])}
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        found = self.ask("textDocument/hover", {"textDocument": {"uri": path.as_uri()}, "position": at})
        contents = (found or {}).get("contents", "")
        return str(contents["value"] if isinstance(contents, dict) else contents)

    def ask(self, method: str, params: object) -> Any:  # Any: whatever the server answers
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self.number and "method" not in message:
                return message.get("result")
            if "id" in message and "method" in message:  # it asks back: about settings, mostly
                items = message.get("params", {}).get("items", [])
                self._send({"id": message["id"], "result": [None] * len(items)})

    def tell(self, method: str, params: object) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.server.stdin is not None
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.server.stdin.flush()

    def _receive(self) -> dict[str, Any]:  # Any: JSON
        assert self.server.stdout is not None
        size = 0
        while line := self.server.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        found: dict[str, Any] = json.loads(self.server.stdout.read(size))  # Any: JSON
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.kill()
        self.server.wait()
        for pipe in (self.server.stdin, self.server.stdout):
            assert pipe is not None
            pipe.close()
