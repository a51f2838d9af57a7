"""The command ``tflow lsp``. What it needs is imported when it runs."""

from __future__ import annotations

from tflow.extras import require


def lsp() -> None:
    """Serve an editor: speaks the language server protocol over standard input and output."""
    require("pygls", extra="lsp", feature="Language servers")
    require("mypy", extra="check", feature="Checks of plans")
    from tflow.checking.lsp.features import make_server

    server = make_server()
    try:
        server.start_io()
    finally:
        server.close()
