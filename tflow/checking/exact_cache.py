"""A mypy plugin that makes mypy's cache exact for the files that are being checked.

Where two files have one module name and the same text, mypy takes the findings of the first from its cache for the second,
with the path of the first. And a change that leaves the size as it was, in the same second, it does not notice.

It also lets Python look for garbage less often: mypy keeps what it makes until its end, and looking took a tenth of the time.
"""

from __future__ import annotations

import gc
import os

from mypy.plugin import Plugin, ReportConfigContext

BEFORE_COLLECTING = 2_000_000
"""Objects; mypy's own number is a tenth of it."""


class ExactCache(Plugin):
    """Keeps in the cache where each module was, and when it was changed; of libraries only the first."""

    def report_config_data(self, ctx: ReportConfigContext) -> object:
        changed = 0 if os.path.isabs(ctx.path) or not os.path.exists(ctx.path) else os.stat(ctx.path).st_mtime_ns
        return {"path": ctx.path, "changed": changed}


def plugin(version: str) -> type[ExactCache]:
    """mypy's entry point."""
    gc.set_threshold(BEFORE_COLLECTING, 50, 50)
    return ExactCache
