"""Names of policy files in run folders."""

from __future__ import annotations

SUFFIX = ".safetensors"
LATEST, BEST, START = "policy", "best", "start"


def file_of(kind: str, policy: str) -> str:
    """The name of the file of a policy; a single policy needs no name."""
    return f"{kind}{SUFFIX}" if policy == "default" else f"{kind}-{policy}{SUFFIX}"
