"""How the C library hands out memory."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Parameters of glibc's ``mallopt``."""
LARGEST, KEPT = 32 * 2**20, 256 * 2**20
"""Blocks up to ``LARGEST`` bytes come from the heap, of which up to ``KEPT`` free bytes are kept."""


@cache
def keep_freed_memory() -> None:
    """Let the process keep freed memory for the next tensors, once, where the C library is glibc.

    By default glibc returns blocks of the size of our activations to the system, which clears them page by page when they are
    needed again: that was an eighth of the time of an update of SAC (``python -m benchmarks.where_sac``).
    """
    if not sys.platform.startswith("linux"):
        return
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None:  # musl has none
        change(MMAP_THRESHOLD, LARGEST)
        change(TRIM_THRESHOLD, KEPT)
