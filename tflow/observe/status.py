"""``run.json``: how a run stands, and whether the process that wrote it is still there.

A process that is killed cannot write that it was. So the file says which process wrote it, and readers look whether it lives.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any, Literal

STATUS = "run.json"


def this_process() -> dict[str, object]:
    """What tells this process from all others: also from a later one with the same number."""
    return {"pid": os.getpid(), "host": platform.node(), "process_began": _began(os.getpid())}


def read_status(folder: Path) -> dict[str, Any]:  # Any: facts of all kinds
    """What ``run.json`` says, with ``"killed"`` as the status of a run whose process is gone; empty if there is none."""
    try:
        found = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    if found.get("status") == "running" and lives(found) == "no":
        found["status"] = "killed"
    return found


def lives(found: dict[str, Any]) -> Literal["yes", "no", "unknown"]:  # Any: as above
    """Whether the process that wrote a status lives; that of another machine cannot be seen from here."""
    pid = found.get("pid")
    if found.get("host") != platform.node() or not isinstance(pid, int):
        return "unknown"
    began = _began(pid)
    if began is not None and "process_began" in found:
        return "yes" if began == found["process_began"] else "no"
    if os.name != "posix":
        return "unknown"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "no"
    except OSError:  # it is somebody else's
        return "yes"
    return "yes"


def _began(pid: int) -> str | None:
    """When a process began, as Linux counts it; None elsewhere, or if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]  # a zombie is gone
    except (OSError, IndexError):
        return None
