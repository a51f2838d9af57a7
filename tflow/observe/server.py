"""A report that is always up to date: served to this machine only, to whoever knows its address."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tflow.errors import PlanError, TflowError
from tflow.observe.kept import asked_runs
from tflow.observe.page import page

HOST = "127.0.0.1"
REFRESH_S = 5.0


class ReportServer(ThreadingHTTPServer):
    """Serves the report of some runs at an address with a secret in it.

    Args:
        paths: The run folders.
        port: Where; 0 for any that is free.
    """

    daemon_threads = True

    def __init__(self, paths: Sequence[Path], port: int = 0) -> None:
        self.paths = tuple(paths)
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), ReportHandler)
        except OSError as error:
            raise PlanError(f"Cannot serve at {HOST}:{port}: {error.strerror}. Leave out --port for one that is free.") from None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class ReportHandler(BaseHTTPRequestHandler):
    """Answers GET at the one address, and nothing else."""

    server_version, sys_version = "tflow", ""

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, ReportServer)
        if not secrets.compare_digest(self.path.encode(), f"/{server.token}/".encode()):
            self.send_error(403, "This address lacks the token that tflow report has printed")
            return
        try:
            content = page(asked_runs(server.paths), refresh_s=REFRESH_S).encode()
        except (TflowError, OSError) as error:
            self.send_error(500, " ".join(str(error).split())[:200])
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server calls it so
        """Nothing: the terminal is for what somebody asked for."""
