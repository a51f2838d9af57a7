"""What PyPI shows: the README without pictures and links that lead nowhere there. Hatchling calls it when it builds."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)")
COMMENT = re.compile(r"<!--.*?-->\n?")


def text(readme: str) -> str:
    """A page without pictures, comments and links into the repository."""
    return LINK.sub(r"\1", PICTURE.sub("", COMMENT.sub("", readme)))


class Readme(MetadataHookInterface):
    """Sets the long description."""

    def update(self, metadata: dict[str, object]) -> None:
        """Hatchling's hook."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": text(readme)}
